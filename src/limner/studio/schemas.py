"""Bodies of requests and answers of the REST interface, as its OpenAPI document states them.

Records of limner are used as they are where they serve; these are the rest. No behaviour is here.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Base64Bytes, Field, StringConstraints, model_validator

from limner.export.plan import Layout
from limner.match.illustrate import BoardOptions
from limner.records import Board, BoardStep, Candidate, Picture, Problem, Record, Segmentation
from limner.store.catalogue import Only
from limner.studio.edits import Edit, Options, RelationName, Text, TextFormat
from limner.studio.pictures import is_there
from limner.studio.projects import ProjectFile
from limner.studio.step_edits import PictureId, Title

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]


class PictureItem(Record):
    """A picture in a list.

    Attributes:
        id: SHA-256 of its file, 64 hex digits.
        name: of its first file, without folders.
        width, height: upright, in pixels.
        captions: words that belong to it.
        credit, license: from its metadata, or "".
        group: id of its near-duplicate group.
        paths: number of files that hold it.
        folder: that its first file lies in.
        taken: capture time as the camera states it, or None.
        missing: whether none of its files is there any more.
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
        """A record of the library as an item."""
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
    """Pictures that show the same, or one picture that several files hold."""

    group: str
    pictures: tuple[PictureItem, ...]


Listed = TypeVar("Listed")


class Page(Record, Generic[Listed]):
    """A part of a list.

    Attributes:
        total: length of the whole list.
        items: those of this part.
    """

    total: int
    items: tuple[Listed, ...]


class PicturePage(Page[PictureItem]):
    """A part of the list of pictures.

    Attributes:
        months: of a list in order of time, its months in that order, as 2019-07, or "" where none is known,
            with the number of pictures of each; empty of a list by path.
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
    """What to call things in a page.

    Attributes:
        channels: channel → words.
        relations: relation → sentence.
        layouts: format, such as pdf → the layouts that it has.
        paged: formats that have pages of a size.
    """

    channels: dict[str, str]
    relations: dict[str, str]
    layouts: dict[str, tuple[Layout, ...]]
    paged: tuple[str, ...]


class LibraryInfo(Record):
    """What a library holds.

    Attributes:
        name: of its folder.
        pictures: number of different pictures.
        files: number of files that hold them.
        captioned: pictures with words of their own.
        indexed_at: when it was last changed, UTC.
        sources: folders and lists indexed so far.
        spaces: kinds of vectors.
        channels: ways in which words find pictures.
        calibrated: whether the chance that a picture fits is stated; not with a trained run.
        relations: that can be asked for; none without ``--model``.
        left_out: files that could not be used, the first of them.
        left_out_count: how many there are.
        duplicates: groups of pictures that show the same, the first of them.
        duplicate_groups: how many there are.
        model, metric: names of the runs given when the studio was started, or None.
        writable: whether folders can be added.
        job: id of the job that is adding some now, or None.
        wording: what to call things.
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
        path: of it.
        forget: take its missing pictures for deleted, even all of them.
    """

    path: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    forget: bool = False


class BatchStarted(Record):
    """A batch of pictures that can be added to."""

    batch: str


class JobStarted(Record):
    """A job that was begun."""

    job: str


JobKind = Literal["folder", "project"]


class JobStatus(Record):
    """How far a job is.

    Attributes:
        job: its id.
        kind: whether it reads a folder or illustrates a project.
        subject: path of the folder, or title of the text, or "".
        state: what has become of it.
        stage: what it is doing. Of a folder: pictures, captions, near-duplicates. Of a project: waiting, text
            (being read, in letters), choosing, saving.
        done: units of this stage that are done.
        total: units of this stage, or None while nobody knows.
        seconds_left: of this stage, estimated, or None.
        left_out: files met so far that cannot be used.
        missing: pictures of the folder that are not there and stay in the library; its drive may be away.
        message: one line on how it went, or what went wrong.
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
    """Words to find pictures by, a picture to find more like it, or one to find more of its day.

    Attributes:
        text: words.
        picture: id of a picture of the library.
        image: a picture from elsewhere, the whole file in Base64; it is not added to the library.
        occasion: id of a picture; what was taken on the same day is found, in the order of time.
        added: with a picture or an image, words for what the pictures should show as well.
        without: words for what the pictures should not show.
        only: conditions that the pictures must meet; the best of those that do are found.
        min_probability: with words, the chance below which pictures are left out, 0 to 1.
        limit: pictures at most.
        relation: that the pictures should have, with words only.
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
    """A picture that was found.

    Attributes:
        picture: it.
        score: log-odds that it is the one looked for; with a picture as the question, how like that it is.
        channels: channel → by how many standard deviations it is above the library's pictures; with a picture
            as the question, the part of `score`.
        probability: chance that it fits the words, 0 to 1; None without words, or with a trained run.
        matched: words of the question met in its captions.
    """

    picture: PictureItem
    score: float
    channels: dict[str, float]
    probability: float | None
    matched: tuple[str, ...]


class SearchAnswer(Record):
    """What was found, best first.

    Attributes:
        items: pictures.
        note: a line where nothing reads the words, or where they negate, which a search does not understand;
            or "".
        searched: number of pictures that meet the conditions.
        below: number of the best that are left out, their chance being below `min_probability`.
    """

    items: tuple[Found, ...]
    note: str = ""
    searched: int
    below: int = 0


class IllustrateRequest(Record):
    """A text to illustrate.

    Attributes:
        text: the text, 2 MB at most.
        format: how to read it.
        by: what one step is; explicit steps, else paragraphs, unless given.
        options: how to illustrate it.
    """

    text: Annotated[Text, StringConstraints(min_length=1)]
    format: TextFormat
    by: Segmentation | None = None
    options: Options | None = None


class ProjectRequest(IllustrateRequest):
    """A text to illustrate and keep.

    Attributes:
        title: of the project; that of the text unless given.
    """

    title: Title = ""


class RevisionRequest(Record):
    """The revision that an edit, undo or redo is meant for."""

    revision: int = Field(ge=1)


class ChangeRequest(RevisionRequest):
    """A change of a project; undo and redo are no more than that.

    Attributes:
        key: any name that is used once. A change whose key is known is not made again: the project is
            answered as it is, so that a change can be sent again where no answer came.
    """

    key: str = Field(default="", max_length=64)


class EditRequest(ChangeRequest):
    """An edit of a project."""

    edit: Edit


class Strip(Record):
    """Candidates for a step.

    Attributes:
        step: 0-based, that they are for.
        revision: of the project that they are for; `Choose.offer` names both.
        items: best first.
    """

    step: int
    revision: int
    items: tuple[Candidate, ...]


class PreviewRequest(RevisionRequest):
    """A question what choosing anew would change.

    Attributes:
        options: to choose by; those of the project unless given.
    """

    options: Options | None = None


class Change(Record):
    """A step that would show another picture."""

    position: int
    before: BoardStep
    after: BoardStep


class Preview(Record):
    """What choosing anew would change; the edits again and options name the steps to be taken from it.

    Attributes:
        revision: of the project that it is for.
        steps: those that would show something else, in order.
    """

    revision: int
    steps: tuple[Change, ...]


class StepState(Record):
    """What a user fixed at a step.

    Attributes:
        position: 0-based.
        state: free to be chosen for, locked to its picture, or kept blank.
        relation: asked for, or None.
    """

    position: int
    state: Literal["free", "locked", "blank"]
    relation: str | None


class ProjectHead(Record):
    """What lists and pages show of a project.

    Attributes:
        id: of the project.
        title: its name.
        revision: to be named by the next change.
        updated_at: of the last change, UTC.
    """

    id: str
    title: str
    revision: int
    updated_at: datetime


class Project(ProjectHead):
    """A project as it is now.

    Attributes:
        schema_version: of this form.
        text: the text.
        format, by: how it is read; None of `by` means explicit steps, else paragraphs.
        options: how it is illustrated.
        board: the storyboard.
        steps: what is fixed, one per step.
        bans: pictures never to show.
        missing: 0-based steps that show a picture whose file is not there any more.
        repeated: 0-based steps, together where they show the same picture or near-duplicates of it,
            although the options allow no repeats.
        advice: one line on what would help where most steps lack a picture that fits, or "".
        can_undo, can_redo: whether there is something to.
        notes: what reading the text cost, and what could not be kept, one line each.
    """

    schema_version: Literal[1] = 1
    text: str
    format: TextFormat
    by: Segmentation | None
    options: BoardOptions
    board: Board
    steps: tuple[StepState, ...]
    bans: tuple[str, ...]
    missing: tuple[int, ...] = ()
    repeated: tuple[tuple[int, ...], ...] = ()
    advice: str = ""
    can_undo: bool
    can_redo: bool
    notes: tuple[str, ...]


class ProjectSummary(ProjectHead):
    """A project in a list.

    Attributes:
        steps: number of steps.
        cover: ids of the first pictures it shows, six at most.
        damaged: why it cannot be opened, or "".
    """

    steps: int = 0
    cover: tuple[str, ...] = ()
    damaged: str = ""


def shown(found: ProjectFile, text: str, board: Board, advice: str | None = None) -> Project:
    """A project as read from the disk, for those who ask."""
    state = found.state
    return Project(
        **_head(found),
        text=text,
        format=state.format,
        by=state.by,
        options=state.options,
        board=board,
        steps=tuple(
            StepState(
                position=step,
                state="free" if step not in state.pins else "blank" if state.pins[step] is None else "locked",
                relation=state.relations.get(step),
            )
            for step in range(len(board.steps))
        ),
        bans=state.bans,
        missing=tuple(step.position for step in board.steps if not all(map(is_there, step.pictures))),
        repeated=() if state.options.allow_repeats else _repeated(board),
        advice=advice or "",
        can_undo=found.cursor > 0,
        can_redo=found.cursor < len(found.states) - 1,
        notes=state.notes,
    )


def _repeated(board: Board) -> tuple[tuple[int, ...], ...]:
    groups: dict[str, list[int]] = {}
    for step in board.steps:
        for group in {picture.group or picture.id for picture in step.pictures}:
            groups.setdefault(group, []).append(step.position)
    return tuple(sorted({tuple(steps) for steps in groups.values() if len(steps) > 1}))


def summary(found: ProjectFile, board: Board) -> ProjectSummary:
    """A project as a line of a list."""
    cover = dict.fromkeys(step.picture.id for step in board.steps if step.picture is not None)
    return ProjectSummary(**_head(found), steps=len(board.steps), cover=tuple(cover)[:6])


def broken(project: str, why: str) -> ProjectSummary:
    """A project that cannot be read, as the last line of a list: nobody knows when it was changed."""
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
