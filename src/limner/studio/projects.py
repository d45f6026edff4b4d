"""Projects on disk: a folder for each, with its history as versioned JSON that is written atomically.

Every edit is part of the history, and is on disk before the response is sent. Texts and storyboards are
stored once, named by the hash of their content, however many states use them; so are the pictures that a text
itself shows.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar, cast
from urllib.parse import unquote

from pydantic import Field, ValidationError

from limner.checksums import seal, unseal
from limner.config import Record
from limner.errors import DataError
from limner.files import (
    PRIVATE_FOLDER,
    data_folder,
    first_fault,
    locked,
    make_folder,
    sync_folder,
    write_bytes,
    write_text,
)
from limner.match.given_pictures import picture_in
from limner.records import Block, Board, BoardStep, Picture, PictureRef, Step, Story
from limner.studio.edits import State
from limner.text.blocks import pictures_of

FILE, PARTS, PICTURES, TRASH = "project.json", "parts", "pictures", "trash"
UNDO_STEPS = 200
PARSED = 6
"""Number of parsed files kept in memory: projects, and their latest storyboards."""
_HINT = f"put it back from a copy of the project's folder, or undo to an earlier text of {PARTS}/"
TRASH_TIME = "%Y%m%dT%H%M%S"
Parsed = TypeVar("Parsed", "ProjectFile", Board)
Shows = TypeVar("Shows", Block, Step)
_ID = re.compile(r"[0-9a-f]{16}")
_SUFFIX = re.compile(r"\.[a-z0-9]{1,5}")
_TRASHED = re.compile(r"(?P<project>[0-9a-f]{16})-(?P<time>\d{8}T\d{6})-[0-9a-f]{4}")


class Choice(Record):
    """One replacement of a picture.

    Attributes:
        time: time of the choice, UTC.
        project: id of the project.
        revision: revision that the choice created.
        step: 0-based.
        text: words of the step as used for the search: its text, and its heading if that is informative.
        context: the same for the surrounding steps and the step itself, in order; at most 20 on either side.
        shown: id of the picture that the step showed before; None for a blank.
        chosen: id of the picture that the user put there.
        seen: ids of the candidates in view, best first; empty if no list was open.
        relation: relation asked for at this step, or None.
        settings: settings of the storyboard in which the choice was made.
        library: name of the library folder.
        withdrawn: whether it was undone.
    """

    time: datetime
    project: str
    revision: int = Field(ge=1)
    step: int = Field(ge=0)
    text: str
    context: tuple[str, ...]
    shown: str | None
    chosen: str
    seen: tuple[str, ...] = ()
    relation: str | None = None
    settings: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    library: str = ""
    withdrawn: bool = False


class Entry(Record):
    """One entry of the log of edits, undos and redos.

    Attributes:
        revision: revision that it created.
        time: when, UTC.
        act: kind of the edit, or create, undo, redo.
        key: key given by the client, so that a repeated request has no effect; "" for none.
        state: revision of the state that was current afterwards.
    """

    revision: int
    time: datetime
    act: str
    key: str = ""
    state: int


class ProjectFile(Record):
    """Content of `project.json`.

    Attributes:
        schema_version: version of the format.
        id: id of the project and name of its folder.
        created: time of creation, UTC.
        revision: increases by one with every change, undo and redo.
        states: undo moves to earlier ones, redo to later ones.
        cursor: index of the current state.
        log: all changes, oldest first.
        choices: replacements, oldest first.
    """

    schema_version: Literal[2] = 2
    id: str
    created: datetime
    revision: int = Field(ge=1)
    states: tuple[State, ...] = Field(min_length=1)
    cursor: int = Field(ge=0)
    log: tuple[Entry, ...] = ()
    choices: tuple[Choice, ...] = ()

    @property
    def state(self) -> State:
        """The current state."""
        return self.states[self.cursor]

    @property
    def updated_at(self) -> datetime:
        """Time of the last change."""
        return self.log[-1].time if self.log else self.created

    def after(self, act: str, time: datetime, key: str = "", **changes: object) -> ProjectFile:
        """The project at the next revision, with a log entry and other changed fields."""
        number = self.revision + 1
        fresh = self.model_copy(update={"revision": number, **changes})
        entry = Entry(revision=number, time=time, act=act, key=key, state=fresh.state.revision)
        return fresh.model_copy(update={"log": (*self.log, entry)})

    def done(self, key: str) -> bool:
        """Whether a change with this client's key has already been made."""
        return bool(key) and any(entry.key == key for entry in self.log)

    def at(self, revision: int) -> ProjectFile | None:
        """The project with the state of an earlier revision as current; None if that is gone."""
        named = {entry.revision: entry.state for entry in self.log}.get(revision)
        for place, state in enumerate(self.states):
            if state.revision == named:
                return self.model_copy(update={"cursor": place})
        return None


class Trashed(Record):
    """A project in the trash.

    Attributes:
        id: id in the trash; contains the project's id and the time.
        title: title of the project.
        removed_at: when, UTC.
        damaged: why it cannot be restored, or "".
    """

    id: str
    title: str
    removed_at: datetime
    damaged: str = ""


class Projects:
    """The projects in a folder."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, created with the first project.

        Args:
            folder: contains a folder per project, and `trash`.
        """
        self.folder = folder
        self._read: dict[str, ProjectFile | Board] = {}
        self._lock = threading.Lock()

    def ids(self) -> list[str]:
        """Ids of all projects, in no particular order."""
        if not self.folder.is_dir():
            return []
        return [
            one.name for one in self.folder.iterdir() if _ID.fullmatch(one.name) and (one / FILE).is_file()
        ]

    def __contains__(self, project: str) -> bool:
        """Whether the project exists."""
        return _ID.fullmatch(project) is not None and (self.folder / project / FILE).is_file()

    def check(self, project: str) -> None:
        """Raise an error if a project does not exist.

        Raises:
            UnknownProjectError: it does not exist.
        """
        if project not in self:
            raise UnknownProjectError(project)

    def read(self, project: str) -> ProjectFile:
        """A project as last saved.

        Raises:
            UnknownProjectError: it does not exist.
            DataError: its file is damaged, or was written by another version of limner.
        """
        file = self._place(project) / FILE
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            raise UnknownProjectError(project) from None
        return self._parsed(hashlib.sha256(content).hexdigest(), lambda: _project_of(content, file))

    def text(self, project: ProjectFile) -> str:
        """The text of a project.

        Raises:
            DataError: it does not exist.
        """
        return self._part(project.id, f"{project.state.text}.txt").decode("utf-8")

    def board(self, project: ProjectFile) -> Board:
        """The storyboard of a project.

        Raises:
            DataError: it does not exist, or is damaged.
        """
        name = project.state.board
        content = self._part(project.id, f"{name}.json")
        try:
            board = self._parsed(name, lambda: Board.model_validate_json(content))
        except ValidationError as error:
            why = error.errors()[0]["msg"]
            raise DataError(f"project {project.id}: storyboard {name}: {why}") from error
        return _located(board, self._place(project.id) / PICTURES)

    def keep_pictures(self, project: str, story: Story, known: Mapping[str, PictureRef]) -> Story:
        """Copy the pictures that a text shows into its project's folder; the story names these copies.

        Args:
            project: id of the project.
            story: the text as read.
            known: pictures of the project by unquoted target, for a text that was read without their files.
        """
        folder = self._place(project) / PICTURES

        def kept(ref: PictureRef) -> PictureRef:
            if ref.path is None and ref.data is None:
                same = known.get(unquote(ref.target), ref)
                return same.model_copy(update={"alt": ref.alt, "caption": ref.caption})
            try:
                data = ref.data or Path(str(ref.path)).read_bytes()
            except OSError:
                return ref  # reported when it is opened
            name, suffix = hashlib.sha256(data).hexdigest(), Path(ref.path or ref.target).suffix.lower()
            file = folder / f"{name}{suffix if _SUFFIX.fullmatch(suffix) else ''}"
            if not file.exists():
                make_folder(folder, private=True)
                write_bytes(file, data, private=True)
            return ref.model_copy(update={"path": str(file), "sha256": name, "data": None})

        return with_pictures(story, kept)

    def discard(self, project: str) -> None:
        """Remove what was written for a project that could not be made."""
        shutil.rmtree(self._place(project), ignore_errors=True)

    def picture(self, picture: str) -> Picture | None:
        """A picture that the text of a project shows, or None.

        Args:
            picture: SHA-256 of its content, 64 hex digits.
        """
        file = next(self.folder.glob(f"*/{PICTURES}/{picture}*"), None)
        return None if file is None else picture_in(str(file))

    def editing(self, project: str) -> AbstractContextManager[None]:
        """Lock a project against changes by other threads and processes.

        Raises:
            UnknownProjectError: it does not exist.
        """
        self.check(project)
        return locked(self._place(project) / "lock")

    def save(self, project: ProjectFile, *, text: str | None = None, board: Board | None = None) -> None:
        """Write a project atomically; it is on disk when this returns.

        Args:
            project: the project; the parts that its states name exist or are given here.
            text: text of its current state, if new.
            board: storyboard of its current state, if new.
        """
        folder = self._place(project.id)
        make_folder(folder / PARTS, private=True)
        new = {"txt": text, "json": None if board is None else board.model_dump_json()}
        for suffix, content in new.items():
            if content is not None:
                file = folder / PARTS / f"{digest(content)}.{suffix}"
                if not file.exists():
                    write_text(file, content, private=True)
        sealed = seal(project.model_dump_json())
        write_text(folder / FILE, sealed, private=True)
        self._parsed(hashlib.sha256(sealed.encode("utf-8")).hexdigest(), lambda: project)
        if board is not None:
            self._parsed(project.state.board, lambda: board)
        if project.revision == 1:
            sync_folder(self.folder)
        shown = {name for state in project.states for name in (f"{state.text}.txt", f"{state.board}.json")}
        for file in (folder / PARTS).iterdir():
            if file.name not in shown:
                file.unlink(missing_ok=True)

    def remove(self, project: str) -> None:
        """Move a project to the trash; nothing is deleted.

        Raises:
            UnknownProjectError: it does not exist.
        """
        with self.editing(project):
            trash = self.folder / TRASH
            trash.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            target = trash / f"{project}-{datetime.now(UTC):{TRASH_TIME}}-{secrets.token_hex(2)}"
            shutil.move(self._place(project), target)
            sync_folder(self.folder)

    def trashed(self) -> list[Trashed]:
        """Projects in the trash, the last removed first."""
        trash = self.folder / TRASH
        found = []
        for place in trash.iterdir() if trash.is_dir() else ():
            name = _TRASHED.fullmatch(place.name)
            if name is None or not (place / FILE).is_file():
                continue
            title, damaged = "Damaged project", ""
            try:
                title = read_file(place / FILE).state.title
            except (DataError, OSError) as error:
                damaged = str(error)
            time = datetime.strptime(name["time"], TRASH_TIME).replace(tzinfo=UTC)
            found.append(Trashed(id=place.name, title=title, removed_at=time, damaged=damaged))
        return sorted(found, key=lambda one: one.removed_at, reverse=True)

    def restore(self, item: str) -> str:
        """Restore a project from the trash.

        Args:
            item: id in the trash, see `trashed`.
        Returns:
            its id.
        Raises:
            UnknownProjectError: it is not in the trash.
            DataError: a project with its id exists, or it is damaged.
        """
        name, place = _TRASHED.fullmatch(item), self.folder / TRASH / item
        if name is None or not (place / FILE).is_file():
            raise UnknownProjectError(item)
        read_file(place / FILE)
        target = self._place(name["project"])
        if target.exists():
            raise DataError(f"project {name['project']} already exists; remove it, then restore this one")
        place.rename(target)
        sync_folder(self.folder)
        return name["project"]

    def choices(self) -> Iterator[Choice]:
        """Choices of all projects that were not undone, by project and time.

        Raises:
            DataError: a project is damaged.
        """
        for project in sorted(self.ids()):
            yield from (one for one in self.read(project).choices if not one.withdrawn)

    def _place(self, project: str) -> Path:
        if not _ID.fullmatch(project):
            raise UnknownProjectError(project)
        return self.folder / project

    def _parsed(self, content: str, parse: Callable[[], Parsed]) -> Parsed:
        """Parsed content of a file, cached by its checksum; the file itself is read each time."""
        with self._lock:
            known = self._read.pop(content, None)
        found = parse() if known is None else cast("Parsed", known)
        with self._lock:
            self._read[content] = found
            while len(self._read) > PARSED:
                del self._read[next(iter(self._read))]
        return found

    def _part(self, project: str, name: str) -> bytes:
        file = self._place(project) / PARTS / name
        try:
            found = file.read_bytes()
        except FileNotFoundError:
            raise DataError(f"{file}: does not exist; restore it from a copy of the project") from None
        if not as_named(file, found):
            raise DataError(f"{file}: damaged (its name is its checksum); {_HINT}")
        return found


def read_file(file: Path) -> ProjectFile:
    """Read a project's file.

    Raises:
        FileNotFoundError: it does not exist.
        DataError: it is damaged, or was written by another version of limner.
    """
    return _project_of(file.read_bytes(), file)


def _project_of(content: bytes, file: Path) -> ProjectFile:
    """Parse a project's file; raises as `read_file`."""
    try:
        found = ProjectFile.model_validate_json(unseal(content, file, _HINT))
    except ValidationError as error:
        raise DataError(
            f"{file}: {first_fault(error)}; damaged, or made by another version of limner; its texts are in"
            f" {PARTS}/ beside it and can be opened again"
        ) from error
    if found.cursor >= len(found.states):
        raise DataError(f"{file}: cursor {found.cursor} of {len(found.states)} states; damaged")
    return found


def projects_places(library: Path) -> tuple[Path, Path, Path]:
    """Possible folders of a library's projects: next to it, inside it, and in the user's data folder.

    Args:
        library: folder of the library. Projects next to it remain when it is deleted, and belong to a new
            library of that name.
    """
    whole = library.resolve()
    name = hashlib.sha256(os.fsencode(whole)).hexdigest()[:16]
    return whole.with_name(f"{whole.name}.projects"), whole / "projects", data_folder() / "projects" / name


def projects_found(library: Path) -> Path:
    """Folder of a library's projects; the one next to it if there are none yet."""
    places = projects_places(library)
    return next((one for one in places if Projects(one).ids()), places[0])


def projects_folder(library: Path, note: Callable[[str], None]) -> Path:
    """Folder for projects: next to the library or, if that is not writable, inside it or in the data folder.

    Args:
        library: folder of the library.
        note: called with a line if it is not the one next to the library.
    """
    beside, inside, home = projects_places(library)
    with suppress(OSError):  # a library on object storage has nothing here yet
        library.mkdir(parents=True, exist_ok=True)
    if not os.access(library, os.W_OK):
        note(f"{library}: cannot be written; projects are kept in {home}; --projects names another folder")
        return home
    if not os.access(beside if beside.is_dir() else beside.parent, os.W_OK):
        note(f"{beside}: cannot be written; projects are kept in {inside} and are deleted with the library")
        return inside
    return projects_found(library)


def with_pictures(story: Story, change: Callable[[PictureRef], PictureRef]) -> Story:
    """A story in which each picture that it shows is changed."""

    def changed(items: Iterable[Shows]) -> tuple[Shows, ...]:
        return tuple(
            item.model_copy(update={"pictures": tuple(map(change, item.pictures))}) if item.pictures else item
            for item in items
        )

    if not (story.cover or any(block.pictures for block in story.blocks)):
        return story
    cover = story.cover and change(story.cover)
    update = {"blocks": changed(story.blocks), "steps": changed(story.steps), "cover": cover}
    return story.model_copy(update=update)


def _located(board: Board, folder: Path) -> Board:
    """The storyboard with the pictures of its text in the project's folder, which may have been moved.

    So a project from elsewhere can name no other file of this machine as one of its text.
    """

    def located(ref: PictureRef) -> PictureRef:
        return ref.model_copy(update={"path": str(folder / Path(ref.path).name)}) if ref.path else ref

    def shown(step: BoardStep) -> BoardStep:
        files = {ref.sha256: ref.path for ref in story.steps[step.position].pictures}
        if step.origin != "given" or step.chosen is None or not files.get(step.chosen.picture.id):
            return step
        picture = step.chosen.picture.model_copy(update={"paths": (files[step.chosen.picture.id],)})
        return step.model_copy(update={"chosen": step.chosen.model_copy(update={"picture": picture})})

    story, cover = with_pictures(board.story, located), board.cover
    if story is board.story:
        return board
    files = {ref.sha256: ref.path for ref in pictures_of(story.blocks) if ref.path}
    if cover is not None and cover.id in files:
        cover = cover.model_copy(update={"paths": (files[cover.id],)})
    steps = tuple(map(shown, board.steps))
    return board.model_copy(update={"story": story, "steps": steps, "cover": cover})


class UnknownProjectError(DataError):
    """No such project.

    Args:
        project: the id as given.
    """

    def __init__(self, project: str) -> None:
        super().__init__(f"no project {project[:40]!r}; it was removed, or is in another folder of projects")


def digest(content: str) -> str:
    """Name of a part: the first 128 bits of the SHA-256 of its UTF-8 text."""
    return hashlib.sha256(content.encode("utf-8")).hexdigest()[:32]


def as_named(file: Path, content: bytes) -> bool:
    """Whether the content of a text, storyboard or picture matches its name."""
    return hashlib.sha256(content).hexdigest().startswith(file.stem)
