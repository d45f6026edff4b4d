"""Request and response bodies of the REST interface, as in its OpenAPI document.

Where a record of `limner.records` fits it is used directly; these are the others.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Base64Bytes, Field, StringConstraints, model_validator

from limner.config import Record
from limner.export import Layout
from limner.match.illustrate import BoardOptions
from limner.records import (
    Block,
    Board,
    BoardStep,
    Candidate,
    Picture,
    PictureRef,
    Problem,
    RowPhotograph,
    Segmentation,
    Step,
    TextRow,
)
from limner.store import Only
from limner.studio.edits import Edit, Options, RelationName, State, TextFormat, step_mapping
from limner.studio.pictures import is_there
from limner.studio.projects import ProjectFile, digest
from limner.studio.step_edits import PictureId, Title

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]


class PictureItem(Record):
    """A picture in a list.

    Attributes:
        id: SHA-256 of its file, 64 hex digits.
        name: file name of its first file.
        width, height: upright, in pixels.
        captions: its captions and keywords.
        credit, license: from its metadata, or "".
        group: id of its near-duplicate group.
        paths: number of files with this content.
        folder: folder of its first file.
        taken: capture time as the camera states it, or None.
        missing: whether all of its files are gone.
    """

    id: str
    name: str
    width: int
    height: int
    captions: tuple[str, ...]
    credit: str
    license: str
    group: str
    paths: int
    folder: str = ""
    taken: datetime | None = None
    missing: bool = False

    @classmethod
    def of(cls, picture: Picture) -> PictureItem:
        """The item for a picture of the library."""
        return cls(
            id=picture.id,
            name=picture.path.rpartition(os.sep)[2],
            width=picture.width_px,
            height=picture.height_px,
            captions=tuple(one.text for one in picture.captions),
            credit=picture.credit,
            license=picture.license,
            group=picture.group,
            paths=len(picture.paths),
            folder=picture.path.rpartition(os.sep)[0],
            taken=picture.taken,
            missing=not is_there(picture),
        )


class DuplicateGroup(Record):
    """Near-duplicate pictures, or one picture stored in several files."""

    group: str
    pictures: tuple[PictureItem, ...]


Listed = TypeVar("Listed")


class Page(Record, Generic[Listed]):
    """One page of a list.

    Attributes:
        total: length of the whole list.
        items: those on this page.
    """

    total: int
    items: tuple[Listed, ...]


class PicturePage(Page[PictureItem]):
    """A page of the list of pictures.

    Attributes:
        months: if sorted by time: the months in that order, as 2019-07, or "" if unknown, with the number of
            pictures of each; empty if sorted by path.
    """

    months: dict[str, int] = Field(default_factory=dict)


CHANNELS = {
    "captions": "words of the picture",
    "multilingual": "words of the picture across languages",
    "labels": "things seen in it",
    "base": "text and picture compared",
    "clip": "text and picture compared by CLIP",
    "model": "the trained model",
    "relation": "the relation asked for",
}


class Wording(Record):
    """Display names for the pages.

    Attributes:
        channels: channel → its display name.
        relations: relation → sentence.
        layouts: format, such as pdf → its layouts.
        paged: formats with a page size.
    """

    channels: dict[str, str]
    relations: dict[str, str]
    layouts: dict[str, tuple[Layout, ...]]
    paged: tuple[str, ...]


class LibraryInfo(Record):
    """What a library holds.

    Attributes:
        name: name of its folder.
        pictures: number of different pictures.
        files: number of their files.
        captioned: number of pictures with a caption.
        indexed_at: when it was last changed, UTC.
        sources: folders and lists indexed so far.
        spaces: sets of vectors.
        channels: ways of comparing words with pictures.
        calibrated: whether probabilities are stated; not with a trained run.
        relations: relations that can be requested; none without ``--model``.
        left_out: the first of the skipped files.
        left_out_count: number of all skipped files.
        duplicates: the first groups of duplicates.
        duplicate_groups: number of all such groups.
        model, metric: names of the runs given when the studio was started, or None.
        writable: whether folders can be added.
        job: id of the job that is adding a folder now, or None.
        wording: display names.
    """

    name: str
    pictures: int
    files: int
    captioned: int
    indexed_at: datetime
    sources: tuple[str, ...]
    spaces: tuple[str, ...]
    channels: tuple[str, ...]
    calibrated: bool
    relations: tuple[str, ...]
    left_out: tuple[Problem, ...]
    left_out_count: int
    duplicates: tuple[DuplicateGroup, ...]
    duplicate_groups: int
    model: str | None
    metric: str | None
    writable: bool
    job: str | None
    wording: Wording


class AddFolder(Record):
    """A folder of pictures on the machine that the studio runs on.

    Attributes:
        path: its path.
        forget: treat its missing pictures as deleted, even all of them.
    """

    path: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    forget: bool = False


class BatchStarted(Record):
    """A batch of pictures that can be added to."""

    batch: str


class JobStarted(Record):
    """A job that was started."""

    job: str


JobKind = Literal["folder", "project"]


class JobStatus(Record):
    """Progress of a job.

    Attributes:
        job: its id.
        kind: whether it reads a folder or illustrates a project.
        subject: path of the folder, or title of the text, or "".
        state: running, or how it ended.
        stage: what it is doing. Of a folder: pictures, captions, near-duplicates. Of a project: waiting, text
            (being read, in letters), choosing, saving.
        done: finished units of this stage.
        total: all units of this stage, or None while unknown.
        seconds_left: estimate for this stage, or None.
        left_out: files skipped so far.
        missing: pictures of the folder that were not found and stay in the library (its drive may be
            disconnected).
        message: one line on the result, or on what went wrong.
        project: id of the project, once that is done.
    """

    job: str
    kind: JobKind
    subject: str
    state: Literal["running", "done", "cancelled", "failed"] = "running"
    stage: str = "start"
    done: int = 0
    total: int | None = None
    seconds_left: float | None = None
    left_out: int = 0
    missing: int = 0
    message: str
    project: str | None = None


class SearchRequest(Record):
    """A search by words, by a similar picture, or by the day of a picture.

    Attributes:
        text: words to search for.
        picture: id of a picture of the library; finds similar ones.
        image: a picture from outside the library, the file in Base64; it is not added.
        occasion: id of a picture; finds those taken on the same day, in order of time.
        added: with a picture or an image, words for what the pictures should show as well.
        without: words for what the pictures should not show.
        only: conditions that the pictures must meet.
        min_probability: with words, probability below which pictures are left out, 0 to 1.
        limit: maximum number of pictures.
        relation: relation that the pictures should have; with text only.
    """

    text: Annotated[str, StringConstraints(min_length=1, max_length=20_000)] | None = None
    picture: PictureId | None = None
    image: Base64Bytes | None = None
    occasion: PictureId | None = None
    added: tuple[Words, ...] = Field(default=(), max_length=20)
    without: tuple[Words, ...] = Field(default=(), max_length=20)
    only: Only | None = None
    min_probability: float | None = Field(default=None, ge=0, le=1)
    limit: int = Field(default=48, ge=1, le=500)
    relation: RelationName | None = None

    @model_validator(mode="after")
    def _one(self) -> SearchRequest:
        told = self.text is not None and bool(self.text.strip())
        shown = self.picture is not None or self.image is not None
        given = (self.picture, self.image, self.occasion)
        if sum(one is not None for one in given) + told != 1:
            raise ValueError("give one of words in text, a picture, an image, and a picture as occasion")
        if not told and (self.relation is not None or self.min_probability is not None):
            raise ValueError("relation and min_probability go with text, not with a picture")
        if self.added and not shown:
            raise ValueError("added goes with a picture or an image; write the words into text instead")
        if self.occasion is not None and (self.without or self.only is not None):
            raise ValueError("without and only go with text, a picture or an image, not with an occasion")
        return self


class Found(Record):
    """A search result.

    Attributes:
        picture: the picture.
        score: log-odds that it is the right one; with a picture as the query, their similarity.
        channels: channel → standard deviations above the mean of the library; with a picture as the query,
            the part of `score`.
        probability: probability that it fits the words, 0 to 1; None without words, or with a trained run.
        matched: words of the query that its captions contain.
    """

    picture: PictureItem
    score: float
    channels: dict[str, float]
    probability: float | None
    matched: tuple[str, ...]


class SearchAnswer(Record):
    """Search results, best first.

    Attributes:
        items: the results.
        note: a line if no encoder understands the words, or if they contain a negation, which search does not
            support; else "".
        searched: number of pictures that meet the conditions.
        below: number of results left out because their probability is below `min_probability`.
    """

    items: tuple[Found, ...]
    note: str = ""
    searched: int
    below: int = 0


class IllustrateRequest(Record):
    """A text to illustrate.

    Attributes:
        text: the text.
        format: its format.
        by: what one step is. Default: explicit steps, else paragraphs.
        options: storyboard options.
    """

    text: Annotated[str, StringConstraints(min_length=1)]
    format: TextFormat
    by: Segmentation | None = None
    options: Options | None = None


class ProjectRequest(IllustrateRequest):
    """A text to illustrate and keep.

    Attributes:
        title: title of the project. Default: that of the text.
    """

    title: Title = ""


class RevisionRequest(Record):
    """The revision that an edit, undo or redo is meant for."""

    revision: int = Field(ge=1)


class ChangeRequest(RevisionRequest):
    """A change of a project; undo and redo have no other fields.

    Attributes:
        key: any unique string. A change with a known key is not repeated; the response is the current
            project. So it is safe to send a change again if there was no response.
    """

    key: str = Field(default="", max_length=64)


class EditRequest(ChangeRequest):
    """An edit of a project."""

    edit: Edit


class Strip(Record):
    """Candidates for a step.

    Attributes:
        step: 0-based index of the step.
        revision: revision of the project; `Choose.offer` names both.
        items: best first.
    """

    step: int
    revision: int
    items: tuple[Candidate, ...]


class PreviewRequest(RevisionRequest):
    """Request for a preview of choosing again.

    Attributes:
        options: options for choosing. Default: those of the project.
    """

    options: Options | None = None


class Change(Record):
    """A step that would show another picture."""

    position: int
    before: BoardStep
    after: BoardStep


class Preview(Record):
    """What choosing again would change; the edits `again` and `options` name the steps to accept.

    Attributes:
        revision: revision of the project.
        steps: steps that would show something else, in order.
    """

    revision: int
    steps: tuple[Change, ...]


class StepState(Record):
    """What a user fixed at a step.

    Attributes:
        position: 0-based.
        state: free (chosen by limner), locked to its picture, or kept blank.
        relation: the requested relation, or None.
    """

    position: int
    state: Literal["free", "locked", "blank"]
    relation: str | None


class ProjectHead(Record):
    """Summary fields of a project.

    Attributes:
        id: id of the project.
        title: its title.
        revision: the revision that the next change must name.
        updated_at: time of the last change, UTC.
    """

    id: str
    title: str
    revision: int
    updated_at: datetime


class RowItem(RowPhotograph):
    """A photograph of a text's row.

    Attributes:
        new: whether it has come since the pictures were chosen; it is used when they are chosen again.
    """

    new: bool = False


class ProjectRow(TextRow):
    """The photographs named beside a text, as they are now.

    Attributes:
        photographs: those of the library, in order.
        gone: ids of those that are no longer among them; their steps are open, unless they are locked and the
            library still has the picture.
    """

    photographs: tuple[RowItem, ...]
    gone: tuple[str, ...] = ()


class Project(ProjectHead):
    """A project as it is now.

    Attributes:
        schema_version: version of this record.
        text: the text.
        format, by: how it is read; `by` None means explicit steps, else paragraphs.
        options: storyboard options.
        board: the storyboard.
        row: the photographs named in the options, along the steps; None if none are named.
        steps: locks and relations, one per step.
        bans: pictures never to show.
        missing: 0-based steps that show a picture whose file is gone.
        repeated: groups of 0-based steps that show the same picture or near-duplicates, although the options
            allow no repeats.
        advice: one line on what would help if most steps lack a fitting picture, else "".
        can_undo, can_redo: whether there is a change to undo or redo.
        notes: what was left out when the text was read, and which locks or pictures could not be kept, one
            line each.
    """

    schema_version: Literal[1] = 1
    text: str
    format: TextFormat
    by: Segmentation | None
    options: BoardOptions
    board: Board
    row: ProjectRow | None = None
    steps: tuple[StepState, ...]
    bans: tuple[str, ...]
    missing: tuple[int, ...] = ()
    repeated: tuple[tuple[int, ...], ...] = ()
    advice: str = ""
    can_undo: bool
    can_redo: bool
    notes: tuple[str, ...]


class StepNow(Record):
    """One step of a project as it is now.

    Attributes:
        position: 0-based.
        story: its text; the same as in `board.story.steps` of the project.
        board: its picture and reasons; the same as in `board.steps`.
        state: its lock and relation; the same as in `steps`.
    """

    position: int
    story: Step
    board: BoardStep
    state: StepState


class StoryHead(Record):
    """Fields of a story, without its steps and blocks."""

    title: str
    language: str
    direction: Literal["ltr", "rtl"]
    cover: PictureRef | None


class Changes(ProjectHead):
    """What an edit changed; applied to the project at revision `since`, it gives the current project.

    It does not include the row in `board`; the project has it.

    Attributes:
        schema_version: version of this record.
        since: revision named by the edit, with which the project is compared.
        count: number of steps now.
        order: for each step its previous position, or None if it is new; None if no step has moved. Positions
            that do not occur are those of removed steps.
        steps: steps that differ in more than their position, in order.
        text: the text, if it has changed; else None.
        story: title, language, direction and cover, as in `board.story` of the project.
        blocks: blocks of the text, if they have changed; else None.
        runs: with them, the run of each step.
        threshold, settings, cover: as in `board` of the project.
        format, by, options, row, bans, missing, repeated, advice, can_undo, can_redo, notes: as of the
            project.
    """

    schema_version: Literal[1] = 1
    since: int
    count: int
    order: tuple[int | None, ...] | None = None
    steps: tuple[StepNow, ...]
    text: str | None = None
    story: StoryHead
    blocks: tuple[Block, ...] | None = None
    runs: tuple[tuple[int, int], ...] | None = None
    cover: Picture | None
    threshold: float
    settings: dict[str, str | int | float | bool | None]
    format: TextFormat
    by: Segmentation | None
    options: BoardOptions
    row: ProjectRow | None = None
    bans: tuple[str, ...]
    missing: tuple[int, ...]
    repeated: tuple[tuple[int, ...], ...]
    advice: str
    can_undo: bool
    can_redo: bool
    notes: tuple[str, ...]


class ProjectSummary(ProjectHead):
    """A project in a list.

    Attributes:
        steps: number of steps.
        cover: ids of its cover and of the first pictures that it shows, six at most.
        damaged: why it cannot be opened, or "".
    """

    steps: int = 0
    cover: tuple[str, ...] = ()
    damaged: str = ""


def shown(
    found: ProjectFile, text: str, board: Board, advice: str | None = None, row: TextRow | None = None
) -> Project:
    """The response for a project that was read from disk.

    Args:
        found: the project.
        text: its text.
        board: its storyboard.
        advice: see `Project`.
        row: what is named beside the text now; None if that is nothing of the library.
    """
    state = found.state
    return Project(
        **_head(found),
        text=text,
        format=state.format,
        by=state.by,
        options=state.options,
        board=board,
        row=_row(board.row, row),
        steps=tuple(_state(state, step) for step in range(len(board.steps))),
        bans=state.bans,
        missing=tuple(step.position for step in board.steps if step.picture and not is_there(step.picture)),
        repeated=() if state.options.allow_repeats else _repeated(board),
        advice=advice or "",
        can_undo=found.cursor > 0,
        can_redo=found.cursor < len(found.states) - 1,
        notes=state.notes,
    )


def _row(known: TextRow | None, now: TextRow | None) -> ProjectRow | None:
    """The row of a storyboard as it is now."""
    if known is None:
        return None
    before = {one.picture for one in known.photographs}
    there = () if now is None else now.photographs
    return ProjectRow(
        **(now or known).model_dump(exclude={"photographs"}),
        photographs=tuple(RowItem(**one.model_dump(), new=one.picture not in before) for one in there),
        gone=tuple(sorted(before - {one.picture for one in there})),
    )


def _state(state: State, step: int) -> StepState:
    """Lock and relation of a step."""
    fixed = "free" if step not in state.pins else "blank" if state.pins[step] is None else "locked"
    return StepState.model_validate({"position": step, "state": fixed, "relation": state.relations.get(step)})


def changes(now: Project, since: int, before: tuple[State, Board] | None) -> Changes:
    """The changes in a project since a revision.

    Args:
        now: the current project.
        since: the revision.
        before: state and storyboard of that revision; None if they are gone, and all steps count as changed.
    """
    board = now.board
    order: tuple[int | None, ...] = tuple(range(len(board.steps)))
    if before is None:
        order = (None,) * len(board.steps)
    elif _words(before[1]) != _words(board):
        places = {new: old for old, new in step_mapping(before[1].story, board.story).items()}
        order = tuple(places.get(step) for step in range(len(board.steps)))
    steps = [
        StepNow(position=place, story=board.story.steps[place], board=step, state=now.steps[place])
        for place, step in enumerate(board.steps)
        if before is None or not _same(before, order[place], now, place)
    ]
    names = Changes.model_fields.keys() & Project.model_fields.keys() - {"text", "steps"}
    is_other = before is None or before[1].story.blocks != board.story.blocks
    return Changes(
        **{name: getattr(now, name) for name in names},
        since=since,
        count=len(board.steps),
        order=None if before is not None and order == tuple(range(len(before[1].steps))) else order,
        steps=tuple(steps),
        text=None if before is not None and digest(now.text) == before[0].text else now.text,
        story=StoryHead(**board.story.model_dump(include=set(StoryHead.model_fields))),
        blocks=board.story.blocks if is_other else None,
        runs=tuple(step.run for step in board.story.steps) if is_other else None,
        cover=board.cover,
        threshold=board.threshold,
        settings=board.settings,
    )


def _words(board: Board) -> list[tuple[str, str]]:
    return [(step.title, step.text) for step in board.story.steps]


def _same(before: tuple[State, Board], old: int | None, now: Project, place: int) -> bool:
    """Whether two steps are equal except for their position."""
    if old is None:
        return False
    state, board = before
    was, step = board.steps[old], now.board.steps[place]
    story, told = board.story.steps[old], now.board.story.steps[place]
    fixed = _state(state, old).model_copy(update={"position": place})
    return (
        fixed == now.steps[place]
        and (was is step or was.model_copy(update={"position": place}) == step)
        and (story is told or story.model_copy(update={"run": told.run}) == told)
    )


def _repeated(board: Board) -> tuple[tuple[int, ...], ...]:
    groups: dict[str, list[int]] = {}
    for step in board.steps:
        if step.picture is not None:
            groups.setdefault(step.picture.group or step.picture.id, []).append(step.position)
    return tuple(sorted({tuple(steps) for steps in groups.values() if len(steps) > 1}))


def summary(found: ProjectFile, board: Board) -> ProjectSummary:
    """The list entry of a project."""
    pictures = (board.cover, *(step.picture for step in board.steps))
    cover = dict.fromkeys(picture.id for picture in pictures if picture is not None)
    return ProjectSummary(**_head(found), steps=len(board.steps), cover=tuple(cover)[:6])


def broken(project: str, why: str) -> ProjectSummary:
    """The list entry of a project that cannot be read; it comes last, since its time of change is unknown."""
    return ProjectSummary(
        id=project,
        title="Damaged project",
        updated_at=datetime.min.replace(tzinfo=UTC),
        revision=0,
        damaged=why,
    )


def _head(found: ProjectFile) -> dict[str, Any]:
    title, changed = found.state.title, found.updated_at
    return {"id": found.id, "title": title, "revision": found.revision, "updated_at": changed}
