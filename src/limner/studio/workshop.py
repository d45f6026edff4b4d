"""Projects made, changed, undone and redone: every act re-decodes the steps that are free, and is saved.

It brings the library's illustrator and the projects on disk together, for the command and the web alike.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from limner.errors import ConfigError, DataError
from limner.records import Candidate, Segmentation, Story, Storyboard
from limner.storyboard.illustrate import BoardOptions, step_texts
from limner.storyboard.illustrator import Illustrator
from limner.studio import edits
from limner.studio.edits import Choose, Edit, Retext, Retitle, State, TextFormat
from limner.studio.engine import Engine, made, strip_of
from limner.studio.projects import (
    UNDO_STEPS,
    Choice,
    Entry,
    ProjectFile,
    Projects,
    UnknownProjectError,
    digest,
)
from limner.studio.schemas import Project, ProjectSummary, broken, shown, summary

CONTEXT_STEPS = 20
STRIPS_KEPT = 64


class StaleError(ConfigError):
    """A change of a revision that is no longer the current one.

    Args:
        found: the revision that was named.
        due: the current one.
    """

    def __init__(self, found: int, due: int) -> None:
        super().__init__(f"revision {found} is not the current one, {due}; load the project again")


class Workshop:
    """All that can be done with the projects of one folder and one library."""

    def __init__(self, engine: Engine, projects: Projects) -> None:
        """Take both."""
        self.engine, self.projects = engine, projects
        self._strips: dict[tuple[str, int, int], tuple[str, ...]] = {}

    def create(
        self,
        text: str,
        *,
        format: TextFormat,  # noqa: A002
        by: Segmentation | None = None,
        title: str = "",
        options: BoardOptions | None = None,
        given: dict[int, str] | None = None,
    ) -> Project:
        """Illustrate a text and keep it as a project.

        Args:
            text: the text.
            format: how to read it.
            by: what one step is.
            title: of the project; that of the text unless given.
            options: how to illustrate it.
            given: 0-based step → picture of the library that the text itself shows.
        Raises:
            LimnerError: as `read_text` and `limner.storyboard.illustrator.Illustrator.board`.
        """
        reading = edits.read_text(text, format, by)
        library = self.engine.illustrator()
        state = State(
            revision=1,
            time=datetime.now(UTC),
            title=title.strip() or edits.named(reading.story),
            text=digest(text),
            format=format,
            by=by,
            options=options or BoardOptions(),
            given=given or {},
            board="",
            notes=(*reading.summary(), *_unread(library, reading.story)),
        )
        state, board = _decoded(library, reading.story, state)
        entry = Entry(revision=1, time=state.time, act="create")
        made = ProjectFile(
            id=secrets.token_hex(8), created=state.time, revision=1, states=(state,), cursor=0, log=(entry,)
        )
        self.projects.save(made, text=text, board=board)
        return shown(made, text, board)

    def get(self, project: str) -> Project:
        """A project as it is.

        Raises:
            UnknownProjectError: there is none.
        """
        found = self.projects.read(project)
        return shown(found, self.projects.text(found), self.projects.board(found))

    def summaries(self) -> list[ProjectSummary]:
        """All projects, the one changed last first; a damaged one says so in place of its title."""
        found: list[ProjectSummary] = []
        for project in self.projects.ids():
            try:
                one = self.projects.read(project)
                found.append(summary(one, self.projects.board(one)))
            except UnknownProjectError:
                continue  # moved to the trash meanwhile
            except DataError as error:
                found.append(broken(project, str(error)))
        return sorted(found, key=lambda one: one.updated_at, reverse=True)

    def edit(self, project: str, revision: int, edit: Edit) -> Project:
        """Change a project and choose anew for the steps that are free.

        Args:
            project: its id.
            revision: the one that the change is meant for.
            edit: the change.
        Raises:
            StaleError: the project has changed meanwhile.
            DataError: a step or picture that is not there.
            LimnerError: as `limner.storyboard.illustrator.Illustrator.board`.
        """
        with self.projects.editing(project):
            found = self._current(project, revision)
            text, board = self.projects.text(found), self.projects.board(found)
            library = self.engine.illustrator()
            story, kept, fresh = board.story, edit, board
            state = edits.changed(found.state, edit, board, library)
            if isinstance(edit, Retext):
                text = edit.text
                reading = edits.read_text(text, state.format, state.by)
                state = edits.carried(state, story, reading)
                story = reading.story
                notes = (*state.notes, *_unread(library, story))
                state = state.model_copy(update={"text": digest(text), "notes": notes})
                kept = edit.model_copy(update={"text": ""})
            if not isinstance(edit, Retitle):
                state, fresh = _decoded(library, story, state)
            now = datetime.now(UTC)
            state = state.model_copy(update={"revision": found.revision + 1, "time": now, "edit": kept})
            choices = found.choices
            if isinstance(edit, Choose):
                made = self._choice(found, state, edit, board)
                choices = (*choices, *([made] if made.shown != made.chosen else []))
            # What was undone before this change can no longer be redone.
            states = (*found.states[: found.cursor + 1], state)[-UNDO_STEPS:]
            saved = found.after(edit.kind, now, states=states, cursor=len(states) - 1, choices=choices)
            self.projects.save(saved, text=text, board=fresh)
        return shown(saved, text, fresh)

    def undo(self, project: str, revision: int) -> Project:
        """Take the last change back.

        Raises:
            StaleError: the project has changed meanwhile.
            ConfigError: there is nothing to take back.
        """
        return self._step(project, revision, -1)

    def redo(self, project: str, revision: int) -> Project:
        """Do again what was taken back last; errors as `undo`."""
        return self._step(project, revision, 1)

    def strip(self, project: str, step: int, limit: int, relation: str | None = None) -> list[Candidate]:
        """Candidates for one step, all others staying as they are.

        Args:
            project: its id.
            step: 0-based.
            limit: candidates at most.
            relation: to ask for in place of the step's own; None for its own.
        Raises:
            DataError: no such project or step.
            LimnerError: as `limner.storyboard.illustrator.Illustrator.board`.
        """
        found = self.projects.read(project)
        board, state = self.projects.board(found), found.state
        edits.check_step(step, board)
        if relation is not None:
            state = state.model_copy(update={"relations": {**state.relations, step: relation}})
        strip = strip_of(self.engine.illustrator(), board, state, step, limit)
        while len(self._strips) >= STRIPS_KEPT:
            self._strips.pop(next(iter(self._strips)), None)
        self._strips[project, found.revision, step] = tuple(one.picture.id for one in strip)
        return strip

    def _step(self, project: str, revision: int, by: int) -> Project:
        act = "undo" if by < 0 else "redo"
        with self.projects.editing(project):
            found = self._current(project, revision)
            cursor = found.cursor + by
            if not 0 <= cursor < len(found.states):
                raise ConfigError(f"nothing to {act}")
            # The state whose effect comes or goes is the later of the two.
            turned = found.states[max(cursor, found.cursor)].revision
            choices = tuple(
                one.model_copy(update={"withdrawn": by < 0}) if one.revision == turned else one
                for one in found.choices
            )
            saved = found.after(act, datetime.now(UTC), cursor=cursor, choices=choices)
            text, board = self.projects.text(saved), self.projects.board(saved)
            self.projects.save(saved)
        return shown(saved, text, board)

    def _current(self, project: str, revision: int) -> ProjectFile:
        found = self.projects.read(project)
        if found.revision != revision:
            raise StaleError(revision, found.revision)
        return found

    def _choice(self, before: ProjectFile, state: State, edit: Choose, board: Storyboard) -> Choice:
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
            shown=None if step.picture is None else step.picture.id,
            chosen=edit.picture,
            seen=seen,
            relation=state.relations.get(edit.step),
            settings=board.settings,
            library=board.library,
        )


def _unread(library: Illustrator, story: Story) -> tuple[str, ...]:
    """A line where the text is in a language that nothing reads."""
    note = library.language_note(story)
    return () if note is None else (note,)


def _decoded(library: Illustrator, story: Story, state: State) -> tuple[State, Storyboard]:
    """The storyboard that a state asks for, and the state that names it."""
    board = made(library, story, state.options, state)
    return state.model_copy(update={"board": digest(board.model_dump_json())}), board
