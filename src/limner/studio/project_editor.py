"""Creates and changes projects, with undo and redo; a change affects only the steps that it names, and is
saved.

Connects the library's illustrator with the projects on disk, for the command and the web application.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import unquote

from limner.errors import ConfigError, DataError
from limner.library import in_library
from limner.match.explain import advice
from limner.match.given_pictures import match_given_pictures
from limner.match.illustrate import BoardOptions, step_texts, text_row
from limner.match.illustrator import Illustrator
from limner.match.spread import picture_count
from limner.progress import Progress
from limner.records import Board, BoardStep, Framing, PictureRef, Segmentation, Story, TextRow
from limner.studio import edits
from limner.studio.edits import Again, Choose, Edit, Retext, Retitle, SetOptions, State, Swap, TextFormat
from limner.studio.engine import (
    Engine,
    candidates_for,
    cover_of,
    explain_steps,
    illustrate_story,
    row_now,
    without_new,
)
from limner.studio.projects import (
    UNDO_STEPS,
    Choice,
    Entry,
    ProjectFile,
    Projects,
    UnknownProjectError,
    digest,
    with_pictures,
)
from limner.studio.schemas import (
    Change,
    Changes,
    Preview,
    Project,
    ProjectSummary,
    Strip,
    broken,
    changes,
    shown,
    summary,
)
from limner.studio.step_edits import (
    Frame,
    Insert,
    Join,
    Move,
    Place,
    Reword,
    Split,
    revised,
)
from limner.text.blocks import pictures_of
from limner.text.edit import written
from limner.text.read import Reading, read_bytes, read_text

CONTEXT_STEPS = 20
STRIPS_KEPT, PREVIEWS_KEPT = 64, 8
SAVING = "saving"
TITLE_LETTERS = 480
Key = TypeVar("Key")
Value = TypeVar("Value")


class StaleError(ConfigError):
    """A change of a revision that is not current.

    Args:
        found: the revision named by the request.
        due: the current one.
    """

    def __init__(self, found: int, due: int) -> None:
        super().__init__(f"revision {found} is not the current one, {due}; load the project again")


class ProjectEditor:
    """All operations on the projects of one folder and one library."""

    def __init__(self, engine: Engine, projects: Projects) -> None:
        """Set the folder and the library."""
        self.engine, self.projects = engine, projects
        self._strips: dict[tuple[str, int, int], tuple[str, ...]] = {}
        self._previews: dict[tuple[str, int, str], Board] = {}

    def create(
        self,
        text: str,
        *,
        format: TextFormat,  # noqa: A002
        by: Segmentation | None = None,
        title: str = "",
        options: BoardOptions | None = None,
        reading: Reading | None = None,
        progress: Progress | None = None,
    ) -> Project:
        """Illustrate a text and save it as a project.

        Args:
            text: the text.
            format: its format.
            by: what one step is.
            title: title of the project. Default: that of the text.
            options: storyboard options.
            reading: the text as read from its file, with the pictures that it shows; None reads it.
            progress: see `limner.match.illustrator.Illustrator.board`; if it raises an error, no project is
                created.
        Raises:
            LimnerError: see `limner.text.read.read_text` and `limner.match.illustrator.Illustrator.board`.
        """
        library, project = self.engine.illustrator(), secrets.token_hex(8)
        try:
            reading = reading or read_text(text, by=by, format=format, in_library=self._known)
            story, notes = self._kept(project, reading, {})
            state = State(
                revision=1,
                time=datetime.now(UTC),
                title=title.strip() or edits.project_title(story),
                text=digest(text),
                format=format,
                by=by,
                options=options or BoardOptions(),
                board="",
                notes=notes,
            )
            board = illustrate_story(library, story, state.options, state, progress=progress)
            board = board.model_copy(update={"cover": cover_of(library, board, state.options)})
            if progress is not None:
                progress.stage(SAVING, None)
            return self._begun(project, state, text, board)
        except BaseException:
            self.projects.discard(project)
            raise

    def open(
        self,
        data: bytes,
        name: str,
        *,
        folder: Path | None = None,
        by: Segmentation | None = None,
        title: str = "",
        options: BoardOptions | None = None,
        once: bool = False,
        progress: Progress | None = None,
    ) -> Project:
        """Make a project of a file; what is not Markdown becomes Markdown.

        Args:
            data: the whole file.
            name: its name, which gives the format of a text.
            folder: folder in which the pictures that it shows are looked up, or None.
            by: what one step is.
            title: title of the project. Default: that of the text.
            options: storyboard options.
            once: return the project of the same text if there is one.
            progress: see `create`.
        Raises:
            LimnerError: see `limner.text.read.read_bytes` and `create`.
        """
        reading = read_bytes(data, name, by=by, base=folder, in_library=self._known, progress=progress)
        if not reading.story.markdown:
            story = written(with_pictures(reading.story, _named))
            notes = (*reading.notes, "converted to Markdown; you edit this copy")
            reading = replace(reading, story=story, notes=notes)
        text = reading.story.markdown
        for project in self.projects.ids() if once else ():
            with suppress(DataError):  # a damaged one
                if self.projects.read(project).state.text == digest(text):
                    return self.get(project)
        return self.create(
            text,
            format="markdown",
            by=by,
            title=title,
            options=options,
            reading=reading,
            progress=progress,
        )

    def duplicate(self, project: str) -> Project:
        """Copy a project; the copy has a history of its own.

        Raises:
            UnknownProjectError: it does not exist.
            DataError: it is damaged.
        """
        found = self.projects.read(project)
        text, board = self.projects.text(found), self.projects.board(found)
        title = f"{found.state.title[:TITLE_LETTERS]} (copy)"
        changes = {"revision": 1, "time": datetime.now(UTC), "edit": None, "title": title}
        copy = secrets.token_hex(8)
        story = self.projects.keep_pictures(copy, board.story, {})
        board = board.model_copy(update={"story": story})
        return self._begun(copy, found.state.model_copy(update=changes), text, board)

    def get(self, project: str) -> Project:
        """The current state of a project.

        Raises:
            UnknownProjectError: it does not exist.
        """
        found = self.projects.read(project)
        return self._shown(found, self.projects.text(found), self.projects.board(found))

    def summaries(self) -> list[ProjectSummary]:
        """All projects, the last changed first; for a damaged one, the error instead of the title."""
        found: list[ProjectSummary] = []
        for project in self.projects.ids():
            try:
                one = self.projects.read(project)
                found.append(summary(one, self.projects.board(one)))
            except UnknownProjectError:
                continue  # moved to the trash in the meantime
            except DataError as error:
                found.append(broken(project, str(error)))
        return sorted(found, key=lambda one: one.updated_at, reverse=True)

    def edit(
        self,
        project: str,
        revision: int,
        edit: Edit,
        *,
        key: str = "",
        progress: Progress | None = None,
    ) -> Project:
        """Change a project; the affected steps are chosen again, and all others stay as they are.

        Args:
            project: its id.
            revision: the revision for which the change was made; it may be an earlier one.
            edit: the change.
            key: see `limner.studio.schemas.ChangeRequest`.
            progress: see `create`; if it raises an error, the project is unchanged.
        Raises:
            StaleError: something that the change affects has changed in the meantime, or since the picture
                was offered.
            DataError: the step or picture does not exist.
            LimnerError: see `limner.match.illustrator.Illustrator.board`.
        """
        if isinstance(edit, Choose) and edit.offer is not None and edit.offer.revision != revision:
            raise StaleError(edit.offer.revision, revision)
        with self.projects.editing(project):
            found = self.projects.read(project)
            text, board = self.projects.text(found), self.projects.board(found)
            if found.done(key):
                return self._shown(found, text, board)
            if found.revision != revision:
                edit = self._rebased(found, revision, edit, board)
            state, text, fresh = self._done(found, edit, text, board, progress=progress)
            kept = edit.model_copy(update={"text": ""}) if isinstance(edit, Retext) else edit
            if progress is not None:
                progress.stage(SAVING, None)
            state = _naming(state, fresh)
            now = datetime.now(UTC)
            state = state.model_copy(update={"revision": found.revision + 1, "time": now, "edit": kept})
            choices = found.choices
            if isinstance(edit, Choose):
                choice = self._choice(found, state, edit, board)
                choices = (*choices, *([choice] if choice.shown != choice.chosen else []))
            # What was undone before this change can no longer be redone.
            states = (*found.states[: found.cursor + 1], state)[-UNDO_STEPS:]
            saved = found.after(edit.kind, now, key, states=states, cursor=len(states) - 1, choices=choices)
            self.projects.save(saved, text=text, board=fresh)
        return self._shown(saved, text, fresh)

    def changes(self, now: Project, since: int) -> Changes:
        """What has changed in a project since an earlier revision; all steps if that is gone.

        Args:
            now: the current project.
            since: the revision.
        Raises:
            DataError: the project does not exist, or is damaged.
        """
        seen = self.projects.read(now.id).at(since)
        return changes(now, since, None if seen is None else (seen.state, self.projects.board(seen)))

    def preview(
        self,
        project: str,
        revision: int,
        options: BoardOptions | None = None,
        *,
        progress: Progress | None = None,
    ) -> Preview:
        """Preview what would change if all unlocked steps were chosen again; nothing is changed.

        Args:
            project: its id.
            revision: revision for which the preview is requested.
            options: storyboard options; None for those of the project.
            progress: see `create`.
        Raises:
            StaleError: the project has changed in the meantime.
            LimnerError: see `limner.match.illustrator.Illustrator.board`.
        """
        found = self._current(project, revision)
        board, library = self.projects.board(found), self.engine.illustrator()
        state = _without_gone(found.state, board, library)
        options = options or state.options
        asked = state.model_copy(update={"options": options})
        fresh = illustrate_story(library, board.story, options, asked, progress=progress)
        _remember(self._previews, _asked(found, options), fresh, PREVIEWS_KEPT)
        steps = [
            Change(position=step, before=board.steps[step], after=fresh.steps[step])
            for step, picture in fresh.shown.items()
            if step not in state.pins and picture != board.shown[step]
        ]
        return Preview(revision=found.revision, steps=tuple(steps))

    def undo(self, project: str, revision: int, key: str = "") -> Project:
        """Undo the last change.

        Args:
            project: its id.
            revision: the current revision.
            key: see `edit`.
        Raises:
            StaleError: the project has changed in the meantime.
            ConfigError: there is nothing to undo.
        """
        return self._step(project, revision, -1, key)

    def redo(self, project: str, revision: int, key: str = "") -> Project:
        """Redo the last undone change; arguments and errors as `undo`."""
        return self._step(project, revision, 1, key)

    def strip(
        self,
        project: str,
        step: int,
        limit: int,
        relation: str | None = None,
        *,
        progress: Progress | None = None,
    ) -> Strip:
        """Candidates for one step with all other steps unchanged.

        Args:
            project: its id.
            step: 0-based.
            limit: maximum number of candidates.
            relation: relation to use instead of the step's own; None for its own.
            progress: see `create`.
        Raises:
            DataError: the project or step does not exist.
            LimnerError: see `limner.match.illustrator.Illustrator.board`.
        """
        found = self.projects.read(project)
        board, state = self.projects.board(found), found.state
        edits.check_step(step, board)
        if relation is not None:
            state = state.model_copy(update={"relations": {**state.relations, step: relation}})
        strip = candidates_for(self.engine.illustrator(), board, state, step, limit=limit, progress=progress)
        seen = tuple(one.picture.id for one in strip)
        _remember(self._strips, (project, found.revision, step), seen, STRIPS_KEPT)
        return Strip(step=step, revision=found.revision, items=tuple(strip))

    def _known(self, file: Path) -> Path | None:
        """File of the library with the content of a file."""
        return in_library(self.engine.illustrator().library)(file)

    def _kept(
        self, project: str, reading: Reading, known: Mapping[str, PictureRef]
    ) -> tuple[Story, tuple[str, ...]]:
        """A text whose pictures are in its project's folder, and notes; see `Projects.keep_pictures`."""
        library = self.engine.illustrator()
        story = self.projects.keep_pictures(project, edits.checked_length(reading.story), known)
        shown = match_given_pictures(story, library.library)
        language = library.language_note(story)
        return shown.story or story, (*reading.summary(), *shown.notes, *([language] if language else []))

    def _begun(self, project: str, state: State, text: str, board: Board) -> Project:
        """Create and save a project."""
        state = _naming(state, board)
        entry = Entry(revision=1, time=state.time, act="create", state=1)
        begun = ProjectFile(
            id=project, created=state.time, revision=1, states=(state,), cursor=0, log=(entry,)
        )
        self.projects.save(begun, text=text, board=board)
        return self._shown(begun, text, board)

    def _shown(self, found: ProjectFile, text: str, board: Board) -> Project:
        """The response for a project, with advice on what would help."""
        asked = self.engine.illustrator()
        tip = advice(board, asked.library)
        now = row_now(asked, board.story, found.state.options)
        known = () if board.row is None else board.row.photographs
        belongs = {one.picture: one.step for one in known if one.step is not None}
        row = None if now is None else text_row(now, found.state.options.named, board.steps, belongs)
        return shown(found, text, board, tip, row)

    def _step(self, project: str, revision: int, by: int, key: str) -> Project:
        act = "undo" if by < 0 else "redo"
        with self.projects.editing(project):
            if self.projects.read(project).done(key):
                return self.get(project)
            found = self._current(project, revision)
            cursor = found.cursor + by
            if not 0 <= cursor < len(found.states):
                raise ConfigError(f"nothing to {act}")
            # Undo removes and redo restores the effect of the later of the two states.
            turned = found.states[max(cursor, found.cursor)].revision
            choices = tuple(
                one.model_copy(update={"withdrawn": by < 0}) if one.revision == turned else one
                for one in found.choices
            )
            saved = found.after(act, datetime.now(UTC), key, cursor=cursor, choices=choices)
            text, board = self.projects.text(saved), self.projects.board(saved)
            self.projects.save(saved)
        return self._shown(saved, text, board)

    def _current(self, project: str, revision: int) -> ProjectFile:
        found = self.projects.read(project)
        if found.revision != revision:
            raise StaleError(revision, found.revision)
        return found

    def _rebased(self, found: ProjectFile, revision: int, edit: Edit, board: Board) -> Edit:
        """Convert an edit of an earlier revision into one of the current.

        Raises:
            StaleError: something that it affects has changed since, or that revision is gone.
        """
        seen = found.at(revision) if revision < found.revision else None
        if seen is not None:
            fresh = edits.rebase_edit(edit, seen.state, self.projects.board(seen), found.state, board)
            if fresh is not None:
                return fresh
        raise StaleError(revision, found.revision)

    def _done(
        self,
        found: ProjectFile,
        edit: Edit,
        text: str,
        board: Board,
        *,
        progress: Progress | None,
    ) -> tuple[State, str, Board]:
        """State, text and storyboard after an edit; raises as `edit`.

        New photographs of the text's row are used only by an edit that is about all steps.
        """
        library, before = self.engine.illustrator(), found.state.options
        is_anew = isinstance(edit, Again | SetOptions) and edits.chooses_all(edit, board, before)
        state = _without_gone(edits.apply_edit(found.state, edit, board, library), board, library)
        options = state.options
        asked = options if is_anew else without_new(library, board, options)
        state = state.model_copy(update={"options": asked})
        state, text, fresh = self._changed(found, edit, state, text, board, library, progress)
        fresh = _with_row(fresh, fresh.row if is_anew else board.row)
        is_other = options.cover != before.cover or (is_anew and options.cover is None)
        cover = cover_of(library, fresh, options) if is_other else board.cover
        settings = fresh.settings | {name: options.settings()[name] for name in ("named", "cover")}
        fresh = fresh.model_copy(update={"cover": cover, "settings": settings})
        return state.model_copy(update={"options": options}), text, fresh

    def _changed(  # noqa: PLR0917
        self,
        found: ProjectFile,
        edit: Edit,
        state: State,
        text: str,
        board: Board,
        library: Illustrator,
        progress: Progress | None,
    ) -> tuple[State, str, Board]:
        """State, text and storyboard after an edit that is applied to the state; raises as `edit`."""
        story, before, shows = board.story, found.state, board.shown
        sources: Mapping[int, tuple[int, ...]] = {step: (step,) for step in shows}
        match edit:
            case Retext():
                own = *pictures_of(story.blocks), *filter(None, [story.cover])
                files = {unquote(ref.target): ref for ref in own}
                reading = read_text(edit.text, by=state.by, format=state.format, in_library=self._known)
                read, notes = self._kept(found.id, reading, files)
                places = edits.step_mapping(story, read)
                earlier = read_text(text, by=before.by, format=before.format).story
                text, story = edit.text, _titled(read, story, earlier)
                state = _of_text(edits.carry_locks(state, places, notes), text)
                sources = {new: (old,) for old, new in places.items()}
                fresh = _around(library, story, state, board, _staying(board, sources), progress=progress)
            case Reword() | Split() | Join() | Insert() | Place() | Move():
                edited = revised(story, edit)
                story = edits.checked_length(edited.story)
                text, sources = story.markdown, dict(enumerate(edited.sources))
                state = edits.move_locks(state, {old: new for new, olds in sources.items() for old in olds})
                by = state.by or ("step" if 0 < len(story.places) < len(sources) else None)
                state = _of_text(state, text).model_copy(update={"format": "markdown", "by": by})
                same = {
                    new: olds
                    for new, olds in sources.items()
                    if new not in edited.changed or _is_held(state, board, new, olds)
                }
                stay = _staying(board, same)
                fresh = _around(library, story, state, board, stay, edited.changed, progress=progress)
            case _ if edits.chooses_all(edit, board, before.options):
                is_anew = isinstance(edit, Again | SetOptions)
                whole = self._previews.get(_asked(found, state.options)) if is_anew else None
                whole = whole or illustrate_story(library, story, state.options, state, progress=progress)
                fresh = _taken(whole, board, state, edit)
                state, fresh = _with_framings(state, fresh, board)
            case Retitle():
                story = story.model_copy(update={"title": edit.title.strip()})
                fresh = board.model_copy(update={"story": story})
            case Frame() if state.pins == before.pins:
                fresh = board = _framed(board, edit)
            case _:
                if isinstance(edit, Frame):
                    board = _framed(board, edit)
                anew, known = edits.affected_steps(edit, state, board)
                if isinstance(edit, Swap):
                    sources = {**sources, edit.a: (edit.b,), edit.b: (edit.a,)}
                fixed = {step for step, one in state.pins.items() if one != shows[step]}
                alone = not anew and len(known) <= 1 and fixed <= known
                settled = explain_steps(library, board, state, sorted(known), progress) if alone else None
                stay = {step: one for step, one in enumerate(board.steps) if step not in anew | fixed}
                fresh = settled or _around(
                    library, story, state, board, stay, known, count="all", progress=progress
                )
                fresh = _keep_spared(fresh, board)
        return state, text, _keep_framing(fresh, board, sources)

    def _choice(self, before: ProjectFile, state: State, edit: Choose, board: Board) -> Choice:
        texts = step_texts(board.story)
        step = board.steps[edit.step]
        seen = edit.seen or self._strips.get((before.id, before.revision, edit.step), ())
        if not seen:
            chosen = () if step.chosen is None else (step.chosen,)
            seen = tuple(one.picture.id for one in (*chosen, *step.runners_up))
        return Choice(
            time=state.time,
            project=before.id,
            revision=state.revision,
            step=edit.step,
            text=texts[edit.step],
            context=tuple(texts[max(0, edit.step - CONTEXT_STEPS) : edit.step + CONTEXT_STEPS + 1]),
            # what is chosen in addition to the text's own pictures replaces none
            shown=None if step.picture is None or step.origin == "given" else step.picture.id,
            chosen=edit.picture,
            seen=seen,
            relation=state.relations.get(edit.step),
            settings=board.settings,
            library=board.library,
        )


def _named(ref: PictureRef) -> PictureRef:
    """A picture inside a text, with a name of its own for the Markdown."""
    inside = ref.target.startswith("data:")
    return ref.model_copy(update={"target": f"picture-{str(ref.sha256)[:8]}"}) if inside else ref


def _without_gone(state: State, board: Board, library: Illustrator) -> State:
    """The state without locks to photographs of the row that have left the library."""
    pins = {
        step: picture
        for step, picture in state.pins.items()
        if picture is None or picture in library.library or not edits.is_of_row(picture, board)
    }
    return state.model_copy(update={"pins": pins})


def _naming(state: State, board: Board) -> State:
    """The state with the hash of its storyboard."""
    return state.model_copy(update={"board": digest(board.model_dump_json())})


def _around(  # noqa: PLR0917
    library: Illustrator,
    story: Story,
    state: State,
    board: Board,
    stay: Mapping[int, BoardStep],
    told: Collection[int] = (),
    *,
    count: Literal["all"] | None = None,
    progress: Progress | None = None,
) -> Board:
    """The storyboard with some steps kept and the others chosen again.

    Args:
        library: the library.
        story: the text.
        state: locks, relations and bans.
        board: the storyboard before. Its threshold applies to the other steps too, so that all steps have the
            same.
        stay: step → its picture and the reason.
        told: kept steps that must be explained again.
        count: number of pictures; None for that of the options, or as many as there are.
        progress: see `illustrate_story`.
    """
    held = {step: None if one.picture is None else one.picture.id for step, one in stay.items()}
    options = state.options
    count = "all" if told and story.places.issuperset(told) else count  # a place gets its picture in any case
    if stay:
        shown = sum(step.chosen is not None for step in board.steps)
        is_along = board.row is not None and board.row.order != "any"
        wanted = options.count or ("all" if is_along else None)
        changes = {
            "count": count or max(picture_count(story, step_texts(story), wanted), shown),
            "min_probability": board.threshold or options.min_probability,
        }
        state = state.model_copy(update={"options": options.model_copy(update=changes)})
    as_it_is = {step: one for step, one in stay.items() if step not in told}
    fresh = illustrate_story(
        library, story, state.options, state, held=held, as_it_is=as_it_is, progress=progress
    )
    steps = [
        stay[step] if step in stay and (step not in told or fresh.shown[step] != held[step]) else one
        for step, one in enumerate(fresh.steps)
    ]
    settings = fresh.settings | {"min_probability": options.min_probability, "count": options.count}
    return fresh.model_copy(update={"steps": tuple(steps), "settings": settings})


def _staying(board: Board, sources: Mapping[int, tuple[int, ...]]) -> dict[int, BoardStep]:
    """Steps of a new storyboard that keep the pictures of steps of the old one."""
    steps = board.steps
    return {
        new: step if step.position == new else step.model_copy(update={"position": new})
        for new, olds in sources.items()
        for step in [steps[olds[0]]]
    }


def _is_held(state: State, board: Board, step: int, sources: tuple[int, ...]) -> bool:
    """Whether a step with new words is locked to the picture of the first step from which it comes."""
    return bool(sources) and step in state.pins and state.pins[step] == board.shown[sources[0]]


def _of_text(state: State, text: str) -> State:
    """The state with the hash of its text."""
    return state.model_copy(update={"text": digest(text)})


def _titled(story: Story, board: Story, text: Story) -> Story:
    """A text that was read again; a title that the user set is kept, unless the text has a new one."""
    return story.model_copy(update={"title": board.title}) if story.title == text.title else story


def _framed(board: Board, edit: Frame) -> Board:
    """The storyboard with the crop and caption of one picture."""
    steps = list(board.steps)
    steps[edit.step] = steps[edit.step].model_copy(update={"framing": edit.framing})
    return board.model_copy(update={"steps": tuple(steps)})


def _keep_framing(fresh: Board, board: Board, sources: Mapping[int, tuple[int, ...]]) -> Board:
    """A new storyboard, in which steps that still show a picture have the crop and caption of before.

    Args:
        fresh: the new storyboard.
        board: the one before it.
        sources: 0-based step of the new one → steps of the old one from which it comes.
    """
    steps = []
    for step in fresh.steps:
        olds = [board.steps[old] for old in sources.get(step.position, ())]
        picture = fresh.shown[step.position]
        old = next((old for old in olds if picture and board.shown[old.position] == picture), step)
        same = old.framing == step.framing
        steps.append(step if same else step.model_copy(update={"framing": old.framing}))
    return fresh.model_copy(update={"steps": tuple(steps)})


def _with_framings(state: State, fresh: Board, board: Board) -> tuple[State, Board]:
    """The state and a new storyboard, in which photographs of the row that have moved to other steps have
    their crop and caption, and are locked there.
    """
    framings = {step.picture.id: step.framing for step in board.steps if step.picture}
    moved = {
        step: picture
        for step, picture in fresh.shown.items()
        if picture is not None
        and edits.is_of_row(picture, board)
        and board.shown[step] != picture
        and framings.get(picture, Framing()) != Framing()
    }
    steps = [
        step.model_copy(update={"framing": framings[moved[n]]}) if n in moved else step
        for n, step in enumerate(fresh.steps)
    ]
    pins = {"pins": state.pins | moved}
    return state.model_copy(update=pins), fresh.model_copy(update={"steps": tuple(steps)})


def _with_row(fresh: Board, row: TextRow | None) -> Board:
    """A storyboard with a row of photographs, at the steps that show them."""
    if row is None:
        return fresh
    at = {picture: step for step, picture in reversed(fresh.shown.items())}
    photographs = tuple(one.model_copy(update={"step": at.get(one.picture)}) for one in row.photographs)
    return fresh.model_copy(update={"row": row.model_copy(update={"photographs": photographs})})


def _keep_spared(fresh: Board, board: Board) -> Board:
    """A new storyboard, in which blank steps that were spared for others keep that reason."""
    steps = [
        new.model_copy(update={"blank": old.blank, "reason": old.reason})
        if old.blank == "enough" and new.blank not in (None, "asked for")
        else new
        for old, new in zip(board.steps, fresh.steps, strict=True)
    ]
    return fresh.model_copy(update={"steps": tuple(steps)})


def _taken(fresh: Board, board: Board, state: State, edit: Edit) -> Board:
    """A new storyboard in which steps show the old picture if the new one is not that of their lock, or was
    not accepted.
    """
    shows = fresh.shown
    kept = {step for step, picture in state.pins.items() if picture != shows[step]}
    if isinstance(edit, Again | SetOptions) and edit.steps is not None:
        kept |= shows.keys() - set(edit.steps)
    steps = [
        old if step in kept and board.shown[step] != shows[step] else one
        for step, (old, one) in enumerate(zip(board.steps, fresh.steps, strict=True))
    ]
    return fresh.model_copy(update={"steps": tuple(steps)})


def _asked(found: ProjectFile, options: BoardOptions) -> tuple[str, int, str]:
    """Key of a preview."""
    return found.id, found.revision, options.model_dump_json()


def _remember(kept: dict[Key, Value], key: Key, value: Value, most: int) -> None:
    """Cache the latest previews, and drop the oldest."""
    while len(kept) >= most:
        kept.pop(next(iter(kept)), None)
    kept[key] = value
