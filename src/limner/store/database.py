"""The library of one person in one SQLite file, and what the person wrote in another: all SQL is here.

`library.sqlite` can be computed again from the pictures and `yours.sqlite`. Vectors are in files beside it,
whose rows are the numbers of pictures or of their words; see `limner.store.vectors`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from limner.arrays import FloatArray
from limner.errors import DataError, MissingError, StorageError, counted, unknown
from limner.files import composed_text, make_folder, storage_error, strangers
from limner.pictures.places import place_of, places
from limner.records import Caption, Picture, Problem
from limner.store import (
    CAPTION_SPACES,
    KEYWORDS,
    MODEL,
    OCR,
    OWN,
    Described,
    Facets,
    File,
    LibrarySummary,
    ModelWords,
    Only,
    Order,
    PictureWords,
    Pixels,
    Settings,
    Shape,
    SpaceInfo,
    Store,
    Taken,
)
from limner.store.search import Index
from limner.store.vectors import Gallery, IntArray, Space, VectorFile

if TYPE_CHECKING:
    from limner.pictures.metadata import Words

FORMAT = 4
LIBRARY, YOURS, INDEXING, VECTORS = "library.sqlite", "yours.sqlite", "indexing.sqlite", "vectors"
_FILES = (LIBRARY, YOURS, INDEXING)
OWN_FILES = frozenset((*_FILES, VECTORS, "uploads", "trash", "projects", "thumbnails")) | {
    f"{name}-{kind}" for name in _FILES for kind in ("wal", "shm", "journal")
}
"""Names in the folder of a library."""
BUSY_S = 10.0
ANEW = "'limner library --anew' removes what can be computed, and 'limner index' makes it again"
_ID_DIGITS, _NAMES_COMPARED = 6, 20_000
_AT_ONCE = 512
_NETWORK = frozenset(("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs"))
_SCHEMA = """
CREATE TABLE folder(number INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE TABLE root(number INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE TABLE picture(
  number INTEGER PRIMARY KEY AUTOINCREMENT, sha256 TEXT NOT NULL UNIQUE, width INTEGER NOT NULL,
  height INTEGER NOT NULL, format TEXT NOT NULL, bytes INTEGER NOT NULL DEFAULT 0, phash TEXT NOT NULL,
  near INTEGER NOT NULL DEFAULT 0, path TEXT, folder INTEGER REFERENCES folder,
  files INTEGER NOT NULL DEFAULT 0, taken TEXT, taken_from TEXT NOT NULL DEFAULT '',
  camera TEXT NOT NULL DEFAULT '', latitude REAL, longitude REAL,
  place TEXT NOT NULL DEFAULT '', credit TEXT NOT NULL DEFAULT '',
  license TEXT NOT NULL DEFAULT '', words INTEGER NOT NULL DEFAULT 0, text TEXT,
  month TEXT AS (coalesce(substr(taken, 1, 7), '')) VIRTUAL,
  shape TEXT AS (CASE WHEN max(width, height) <= 1.05 * min(width, height) THEN 'square'
    WHEN width > height THEN 'landscape' ELSE 'portrait' END) VIRTUAL);
CREATE INDEX picture_path ON picture(path) WHERE path IS NOT NULL;
CREATE INDEX picture_oldest ON picture(taken IS NULL, taken, path) WHERE path IS NOT NULL;
CREATE INDEX picture_newest ON picture(taken IS NULL, taken DESC, path) WHERE path IS NOT NULL;
CREATE INDEX picture_folder ON picture(folder, taken IS NULL, taken, path) WHERE path IS NOT NULL;
CREATE INDEX picture_near ON picture(near, files) WHERE path IS NOT NULL;
CREATE INDEX picture_shape ON picture(shape, path) WHERE path IS NOT NULL;
CREATE INDEX picture_month ON picture(month) WHERE path IS NOT NULL;
CREATE INDEX picture_words ON picture(words) WHERE path IS NOT NULL;
CREATE TABLE file(
  path TEXT PRIMARY KEY, folder INTEGER NOT NULL REFERENCES folder, size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL, stamp TEXT NOT NULL, beside TEXT NOT NULL, picture INTEGER REFERENCES picture,
  skipped TEXT NOT NULL DEFAULT '', said TEXT NOT NULL DEFAULT '') WITHOUT ROWID;
CREATE INDEX file_picture ON file(picture);
CREATE INDEX file_folder ON file(folder, picture);
CREATE INDEX file_skipped ON file(path) WHERE skipped != '';
CREATE TABLE words(number INTEGER PRIMARY KEY AUTOINCREMENT, picture INTEGER NOT NULL REFERENCES picture,
  hash TEXT NOT NULL);
CREATE TABLE caption(words INTEGER NOT NULL REFERENCES words ON DELETE CASCADE, position INTEGER NOT NULL,
  source TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY(words, position)) WITHOUT ROWID;
CREATE TABLE space(name TEXT PRIMARY KEY, of TEXT NOT NULL, encoder TEXT NOT NULL, fingerprint TEXT NOT NULL,
  dim INTEGER NOT NULL, upto INTEGER NOT NULL DEFAULT 0);
CREATE TABLE setting(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE VIRTUAL TABLE said USING fts5(body, tokenize = 'unicode61 remove_diacritics 2');
INSERT INTO setting VALUES ('version', '0'), ('aligned', ''), ('ocr', '');
"""
_YOURS = (
    """CREATE TABLE caption(sha256 TEXT NOT NULL, source TEXT NOT NULL, position INTEGER NOT NULL,
    keywords INTEGER NOT NULL, text TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY(sha256, source, position))
    WITHOUT ROWID;""",
)
"""Statements that bring `yours.sqlite` from each version to the next."""
_TYPED, _OF_MODEL = "typed", "model:"
_UNSPACED = re.compile(r"([\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")
"""Letters of scripts without spaces between words: Thai, Lao, Kana and Han."""


def spaced(text: str) -> str:
    """A text for word search, in which the letters of scripts without spaces are words."""
    return _UNSPACED.sub(r" \1 ", text)


class Database(Store):
    """A library in a folder; see `limner.store.Store`. Every thread has its own connection.

    Attributes:
        place, folder, name: see `limner.store.Store`.
    """

    def __init__(self, folder: str | os.PathLike[str], *, make: bool = True) -> None:
        """Open a library, or create an empty one if there is none.

        Args:
            folder: path of the library.
            make: whether to create it.
        Raises:
            MissingError: there is none, and none is made.
            DataError: the folder contains other files, or the library is damaged or of another version.
            StorageError: the folder cannot be written.
        """
        self.folder = Path(os.path.abspath(folder))  # noqa: PTH100
        self.place, self.name = str(folder), self.folder.resolve().name
        self._threads = threading.local()
        self._taken: tuple[int, Taken] | None = None
        linked = [name for name in (LIBRARY, YOURS, VECTORS) if (self.folder / name).is_symlink()]
        if linked:
            raise DataError(f"{self.folder / linked[0]}: a link; put the file or folder itself in its place")
        if not exists(self.folder):
            if not make:
                raise MissingError(
                    f"{self.place}: no picture library here; make one with 'limner index PICTURES --library"
                    f" {self.place}'"
                )
            self._create()
        with self._asking() as ask:
            found = ask("PRAGMA user_version").fetchone()[0]
        if found != FORMAT:
            raise DataError(f"{self.place}: library format {found}; this limner reads {FORMAT}; {ANEW}")

    def _create(self) -> None:
        if (self.folder / "library.json").exists():
            raise DataError(
                f"{self.place}: a library of an earlier version, which cannot be read; index again into"
                " another folder, then delete this one"
            )
        if self.folder.is_file():
            raise DataError(f"{self.folder}: a file, expected the folder of a library")
        others = strangers(self.folder, OWN_FILES)
        if others:
            raise DataError(
                f"{self.folder}: not a library but a folder with {others[0]!r}; name an empty or new folder"
            )
        make_folder(self.folder)
        with self._changing(anew=True) as ask:
            if ask("PRAGMA user_version").fetchone()[0] == 0:
                for statement in filter(str.strip, _SCHEMA.split(";\n")):
                    ask(statement)
                ask(f"PRAGMA user_version = {FORMAT}")

    # connections

    def _connection(self) -> sqlite3.Connection:
        """This thread's connection; another one where `--anew` has put another file in its place."""
        path, kept = self.folder / LIBRARY, self._threads.__dict__.get("connection")
        found = path.stat().st_ino if path.exists() else 0
        if kept is not None and found in (0, kept[1]):
            return kept[0]  # type: ignore[no-any-return]
        held = _opened(path)
        self._threads.connection = held, path.stat().st_ino if path.exists() else 0
        return held

    def close(self) -> None:
        """Close this thread's connection."""
        held = self._threads.__dict__.pop("connection", None)
        if held is not None:
            held[0].close()

    @contextmanager
    def _asking(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """Context of queries on this thread's connection.

        Raises:
            DataError: the file is damaged.
            StorageError: the disk fails.
        """
        with _told(self.folder / LIBRARY):
            yield self._connection().execute

    @contextmanager
    def _reading(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """Context of queries that see one state of the library."""
        with self._asking() as ask:
            if self._connection().in_transaction:
                yield ask
                return
            ask("BEGIN")
            try:
                yield ask
            finally:
                ask("COMMIT")

    @contextmanager
    def _changing(self, *, anew: bool = False) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """Context of a change that is stored as a whole or not at all."""
        with self._asking() as ask:
            ask("BEGIN IMMEDIATE")
            try:
                yield ask
                if not anew:
                    ask("UPDATE setting SET value = value + 1 WHERE key = 'version'")
                ask("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    ask("ROLLBACK")
                raise

    def settle(self) -> None:
        """Move what was written into the file itself, so that it can be copied alone."""
        with self._asking() as ask:
            ask("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def indexing(self, waiting: Callable[[], bool]) -> Iterator[None]:
        """Context of the one run of indexing that may go on at a time; a kill ends it.

        Args:
            waiting: called again and again while another run goes on; False ends the wait.
        Raises:
            DataError: the wait was ended.
        """
        with (
            _told(self.folder / INDEXING),
            closing(_opened(self.folder / INDEXING, own=True, wait_s=0)) as lock,
        ):
            while True:
                try:
                    lock.execute("BEGIN EXCLUSIVE")
                    break
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                        raise
                if not waiting():
                    raise DataError(f"{self.place}: another 'limner index' is running; wait for it to end")
                time.sleep(0.2)
            yield

    # settings

    @property
    def settings(self) -> Settings:
        """What it states about itself now."""
        with self._reading() as ask:
            return self._settings(ask)

    def _settings(self, ask: Callable[..., sqlite3.Cursor]) -> Settings:
        spaces = ask("SELECT name, encoder, fingerprint, dim FROM space ORDER BY rowid")
        values = dict(
            ask("SELECT key, value FROM setting WHERE key NOT IN ('version', 'aligned', 'ocr')").fetchall()
        )
        return Settings(
            spaces={
                name: SpaceInfo(encoder=encoder, fingerprint=fingerprint, dim=dim)
                for name, encoder, fingerprint, dim in spaces
            },
            sources=tuple(path for (path,) in ask("SELECT path FROM root ORDER BY number")),
            **{key: json.loads(value) for key, value in values.items()},
        )

    def save(self, **changes: Any) -> None:  # noqa: ANN401  (fields of the settings)
        """Change fields of the settings; a space whose encoder changes begins anew."""
        with self._changing() as ask:
            before = self._settings(ask)
            spaces: dict[str, SpaceInfo] | None = changes.pop("spaces", None)
            if spaces is not None:
                gone = [name for name, info in before.spaces.items() if spaces.get(name) != info]
                ask("DELETE FROM space WHERE name IN (SELECT value FROM json_each(?))", [json.dumps(gone)])
                for name, info in spaces.items():
                    of = "words" if name in CAPTION_SPACES else "picture"
                    row = [name, of, info.encoder, info.fingerprint, info.dim]
                    ask(
                        "INSERT OR IGNORE INTO space(name, of, encoder, fingerprint, dim)"
                        " VALUES (?, ?, ?, ?, ?)",
                        row,
                    )
            sources = changes.pop("sources", None)
            if sources is not None:
                ask("DELETE FROM root")
                for path in sources:
                    ask("INSERT INTO root(path) VALUES (?)", [path])
            for key, value in changes.items():
                ask("INSERT OR REPLACE INTO setting VALUES (?, ?)", [key, json.dumps(value)])

    def version(self) -> int:
        """Number that any change increases."""
        with self._asking() as ask:
            return int(ask("SELECT value FROM setting WHERE key = 'version'").fetchone()[0])

    # pictures

    def __len__(self) -> int:
        """Number of pictures with a present file."""
        with self._asking() as ask:
            return int(ask("SELECT count(*) FROM picture WHERE path IS NOT NULL").fetchone()[0])

    def __contains__(self, picture: object) -> bool:
        """Whether a picture is shown."""
        with self._asking() as ask:
            query = "SELECT 1 FROM picture WHERE sha256 = ? AND path IS NOT NULL"
            return isinstance(picture, str) and ask(query, [picture]).fetchone() is not None

    def counts(self) -> LibrarySummary:
        """Counts of its content."""
        with self._reading() as ask:
            shown = "FROM picture WHERE path IS NOT NULL"
            pictures = ask(f"SELECT count(*) {shown}").fetchone()[0]
            captioned = ask(f"SELECT count(*) {_CAPTIONED}").fetchone()[0]
            files = ask("SELECT count(*) FROM file WHERE picture NOTNULL").fetchone()[0]
            sizes = ask(
                f"SELECT n, count(*) FROM (SELECT count(*) n {shown} GROUP BY near HAVING n > 1) GROUP BY n"
            ).fetchall()
            settings = self._settings(ask)
            return LibrarySummary(
                pictures=pictures,
                files=files,
                skipped=ask("SELECT count(*) FROM file WHERE skipped != ''").fetchone()[0],
                duplicates=files - pictures,
                captioned=captioned,
                near_groups=sum(count for _, count in sizes),
                near_pictures=sum(size * count for size, count in sizes),
                alike=ask(f"SELECT count(*) FROM ({_ALIKE})").fetchone()[0],
                spaces=settings.spaces,
                sources=settings.sources,
                changed_s=max((one.stat().st_mtime for one in self.folder.glob(f"{LIBRARY}*")), default=0.0),
            )

    def pictures(self, ids: Iterable[str]) -> list[Picture]:
        """Records by full id, in that order.

        Raises:
            DataError: an id is unknown, or a picture no longer has a file.
        """
        wanted = list(ids)
        with self._reading() as ask:
            query = "SELECT number FROM picture WHERE sha256 = ? AND path IS NOT NULL"
            numbers = [ask(query, [one]).fetchone() for one in wanted]
            if None in numbers:
                raise DataError(
                    f"{self.place}: no picture {str(wanted[numbers.index(None)])[:80]!r}; it was deleted, or"
                    " is of another library; index again"
                )
            return self._records(ask, [number for (number,) in numbers])

    def _records(self, ask: Callable[..., sqlite3.Cursor], numbers: Sequence[int]) -> list[Picture]:
        """Records by number, in that order."""
        listed = [json.dumps(list(numbers))]
        own = "FROM json_each(?) JOIN picture p ON p.number = value"
        rows = ask(
            "SELECT p.number, p.words, p.sha256, p.width, p.height, p.format, p.bytes, p.phash,"
            " coalesce(n.sha256, p.sha256), p.taken, p.taken_from, p.camera, p.credit, p.license"
            f" {own} LEFT JOIN picture n ON n.number = p.near ORDER BY key",
            listed,
        ).fetchall()
        paths: dict[int, list[str]] = {}
        query = f"SELECT p.number, f.path {own} JOIN file f ON f.picture = p.number ORDER BY f.path"
        for number, path in ask(query, listed):
            paths.setdefault(number, []).append(path)
        said: dict[int, list[Caption]] = {}
        query = (
            f"SELECT p.words, c.source, c.text {own} JOIN caption c ON c.words = p.words ORDER BY c.position"
        )
        for words, source, text in ask(query, listed):
            said.setdefault(words, []).append(_caption(source, text))
        names: tuple[str, ...] = (
            "id",
            "width_px",
            "height_px",
            "format",
            "size_bytes",
            "phash",
            "group",
            "taken",
            "taken_from",
        )
        names = (*names, "camera", "credit", "license")
        return [
            Picture.model_validate(
                {
                    **dict(zip(names, rest, strict=True)),
                    "paths": tuple(dict.fromkeys(paths.get(number, ()))),
                    "captions": tuple(said.get(words, ())),
                }
            )
            for number, words, *rest in rows
        ]

    def page(
        self,
        offset: int,
        limit: int,
        words: str = "",
        *,
        only: Only | None = None,
        used: Collection[str] = frozenset(),
        order: Order = "path",
    ) -> tuple[int, list[Picture]]:
        """A part of the list; see `limner.store.Store.page`."""
        with self._reading() as ask:
            where, values = self._where(ask, words, only or Only(), used)
            total = ask(f"SELECT count(*) FROM picture WHERE {where}", values).fetchone()[0]
            query = f"SELECT number FROM picture WHERE {where} ORDER BY {_ORDERS[order]} LIMIT ? OFFSET ?"
            numbers = [number for (number,) in ask(query, [*values, limit, offset])]
            return total, self._records(ask, numbers)

    def months(self, words: str, only: Only, used: Collection[str], order: Order) -> dict[str, int]:
        """Months of a list in order of time, as 2019-07, "" if none is known → number of their pictures.

        Arguments as for `page`.
        """
        with self._reading() as ask:
            where, values = self._where(ask, words, only, used)
            query = f"SELECT month, count(*) FROM picture WHERE {where} GROUP BY month"
            found = dict(ask(query, values).fetchall())
        known = sorted(filter(None, found), reverse=order == "newest")
        return {month: found[month] for month in (*known, *([""] if "" in found else []))}

    def passing(self, only: Only, used: Collection[str] = frozenset()) -> list[str]:
        """Ids of the pictures that meet conditions; `used` as for `page`."""
        with self._reading() as ask:
            where, values = self._where(ask, "", only, used)
            return [
                one for (one,) in ask(f"SELECT sha256 FROM picture WHERE {where} ORDER BY number", values)
            ]

    def _where(
        self, ask: Callable[..., sqlite3.Cursor], words: str, only: Only, used: Collection[str]
    ) -> tuple[str, list[Any]]:
        """SQL condition on pictures, and its values.

        Raises:
            DataError: the picture of `only.occasion` does not exist.
        """
        parts: list[tuple[str, list[Any]]] = [("path IS NOT NULL", [])]
        asked = re.findall(r"\w+", spaced(words))
        if asked:
            terms = " ".join(f'"{one}"*' for one in asked)
            parts.append(("number IN (SELECT rowid FROM said WHERE said MATCH ?)", [terms]))
        elif words.strip():
            parts.append(("0", []))
        if only.folder:
            inside = "number IN (SELECT picture FROM file WHERE path >= ? AND path < ? AND picture NOTNULL)"
            parts.append((inside, list(_below(only.folder))))
        if only.dated is not None:
            parts.append((f"taken IS {'NOT ' * only.dated}NULL", []))
        if only.after is not None:
            parts.append(("taken >= ?", [only.after.isoformat()]))
        if only.before is not None:
            parts.append(("taken < ?", [f"{only.before.isoformat()}~"]))
        if only.shape is not None:
            parts.append(("shape = ?", [only.shape]))
        if only.captioned is not None:
            parts.append(("words > 0" if only.captioned else "words = 0", []))
        if only.used is not None:
            among = "sha256 IN (SELECT value FROM json_each(?))"
            parts.append((among if only.used else f"NOT {among}", [json.dumps(list(used))]))
        if only.occasion:
            query = "SELECT substr(taken, 1, 10) FROM picture WHERE sha256 = ? AND path IS NOT NULL"
            row = ask(query, [only.occasion]).fetchone()
            if row is None:
                raise DataError(f"{self.place}: no picture {only.occasion[:80]!r}; it was deleted")
            same = ("sha256 = ?", [only.occasion])
            parts.append(same if row[0] is None else ("taken >= ? AND taken < ?", [row[0], f"{row[0]}~"]))
        return " AND ".join(part for part, _ in parts), [value for _, some in parts for value in some]

    def facets(self, used: Collection[str]) -> Facets:
        """Count the pictures of each value of the filters."""
        with self._reading() as ask:
            shown = "FROM picture WHERE path IS NOT NULL"
            months = dict(ask(f"SELECT month, count(*) {shown} GROUP BY month"))
            shapes = dict(ask(f"SELECT shape, count(*) {shown} GROUP BY shape"))
            own = dict(
                ask(
                    "SELECT d.path, n FROM (SELECT folder, count(DISTINCT picture) n FROM file"
                    " WHERE picture NOTNULL GROUP BY folder) JOIN folder d ON d.number = folder"
                )
            )
            roots = [path for (path,) in ask("SELECT path FROM root")]
            uncaptioned = len(self) - ask(f"SELECT count(*) {_CAPTIONED}").fetchone()[0]
            listed = "AND sha256 IN (SELECT value FROM json_each(?))"
            held = ask(f"SELECT count(*) {shown} {listed}", [json.dumps(list(used))]).fetchone()[0]
        return Facets(
            folders=_folders(own, roots),
            undated=months.pop("", 0),
            months=dict(sorted(months.items())),
            shapes={shape: shapes.get(shape, 0) for shape in get_args(Shape)},
            used=held,
            uncaptioned=uncaptioned,
        )

    def duplicates(self, offset: int, limit: int) -> list[tuple[str, list[Picture]]]:
        """Groups of near-duplicates, and pictures with several files, each with its id."""
        with self._reading() as ask:
            groups = ask(f"{_ALIKE} ORDER BY min(path) LIMIT ? OFFSET ?", [limit, offset]).fetchall()
            query = "SELECT number FROM picture WHERE near = ? AND path IS NOT NULL ORDER BY path"
            found = [self._records(ask, [n for (n,) in ask(query, [near])]) for (near,) in groups]
        return [(pictures[0].group, pictures) for pictures in found]

    def under(self, places: Sequence[str]) -> list[Picture]:
        """Pictures with a file at one of the paths, or below one of them, in order of numbers."""
        with self._reading() as ask:
            query = "SELECT picture FROM file WHERE picture NOTNULL AND (path = ? OR path >= ? AND path < ?)"
            found = {n for place in places for (n,) in ask(query, [place, *_below(place)])}
            return self._records(ask, sorted(found))

    def folders_of(self, ids: Iterable[str]) -> IntArray:
        """(K,) number of the folder of each picture's first file; see `in_folder`."""
        with self._reading() as ask:
            query = "SELECT coalesce(folder, 0) FROM picture WHERE sha256 = ?"
            return np.array([ask(query, [one]).fetchone()[0] for one in ids], dtype=np.int64)

    def folder_name(self, number: int) -> str:
        """Name of a folder, without its parents."""
        with self._asking() as ask:
            row = ask("SELECT path FROM folder WHERE number = ?", [number]).fetchone()
        return "" if row is None else str(row[0]).rpartition(os.sep)[2]

    def in_folder(self, number: int) -> list[str]:
        """Ids of the pictures whose first file is in a folder, in order of time, then of path."""
        with self._asking() as ask:
            query = "SELECT sha256 FROM picture WHERE folder = ? AND path IS NOT NULL ORDER BY "
            return [one for (one,) in ask(query + _ORDERS["oldest"], [number])]

    @property
    def folder_sizes(self) -> IntArray:
        """Number of pictures of each folder, by number."""
        with self._asking() as ask:
            query = "SELECT folder, count(*) FROM picture WHERE path IS NOT NULL GROUP BY folder"
            rows = np.array(ask(query).fetchall(), dtype=np.int64).reshape(-1, 2)
        sizes = np.zeros(int(rows[:, 0].max(initial=0)) + 1, dtype=np.int64)
        sizes[rows[:, 0]] = rows[:, 1]
        return sizes

    def find(self, name: str | os.PathLike[str]) -> Picture:
        """Find one picture by its path, file name or id.

        Args:
            name: absolute path, path relative to the working folder or to an indexed folder, unique end of a
                path (such as a file name), or the first digits of an id (six or more).
        Raises:
            DataError: no picture or several pictures match; the message names the nearest.
        """
        text = composed_text(os.fspath(name))
        exact = {composed_text(os.path.join(root, text)) for root in self.settings.sources}  # noqa: PTH118
        exact |= {composed_text(os.path.abspath(text))}  # noqa: PTH100
        hits: dict[str, set[str]] = {"exact": set(), "ending": set(), "id": set()}
        names: list[str] = []
        with self._asking() as ask:
            rows = ask("SELECT f.path, sha256 FROM file f JOIN picture ON number = f.picture").fetchall()
        for stored, sha256 in rows:
            path = composed_text(stored)
            if path in exact:
                hits["exact"].add(sha256)
            if path.endswith(os.sep + text):
                hits["ending"].add(sha256)
            if len(text) >= _ID_DIGITS and sha256.startswith(text.lower()):
                hits["id"].add(sha256)
            if len(names) < _NAMES_COMPARED:
                names.append(path.rpartition(os.sep)[2])
        found = next((ids for ids in hits.values() if ids), set())
        if len(found) == 1:
            return self.pictures(found)[0]
        if found:
            raise DataError(
                f"{self.place}: {len(found)} different pictures match {text!r}; give more of the path"
            )
        near = get_close_matches(text.rpartition(os.sep)[2], names, n=3)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise DataError(f"{self.place}: no picture {text!r}{hint}; give a path, file name or id")

    def words(self) -> Iterator[tuple[str, str]]:
        """Id and each file name and caption of every picture."""
        with self._reading() as ask:
            files = ask("SELECT sha256, f.path FROM file f JOIN picture ON number = f.picture").fetchall()
            join = "caption c JOIN picture p ON p.words = c.words WHERE p.path NOTNULL"
            told = ask(f"SELECT sha256, c.text FROM {join}").fetchall()
        yield from ((picture, path.rpartition(os.sep)[2]) for picture, path in files)
        yield from told

    def taken(self) -> Taken:
        """When and where the pictures were taken."""
        version = self.version()
        if self._taken is None or self._taken[0] != version:
            with self._reading() as ask:
                query = "SELECT sha256, taken, latitude, longitude FROM picture WHERE path NOTNULL"
                held = ask(query).fetchall()
            days = [int(day[:10].replace("-", "")) if day else 0 for _, day, *_ in held]
            at = [(row, (one[2], one[3])) for row, one in enumerate(held) if one[2] is not None]
            near = places().near([where for _, where in at]) if at else []
            rows = [row for (row, _), numbers in zip(at, near, strict=True) for _ in numbers]
            found = [number for numbers in near for number in numbers]
            number = {one[0]: row for row, one in enumerate(held)}
            arrays = (np.array(one, dtype=np.int64) for one in (days, rows, found))
            self._taken = version, Taken(number, *arrays)
        return self._taken[1]

    def words_shown(self, ids: Iterable[str]) -> dict[str, str]:
        """Text in pictures, by id; pictures without text are left out."""
        with self._asking() as ask:
            query = "SELECT sha256, text FROM json_each(?) JOIN picture ON sha256 = value WHERE text != ''"
            return {one: " ".join(text.split()) for one, text in ask(query, [json.dumps(list(ids))])}

    def coordinates(self, ids: Iterable[str]) -> dict[str, tuple[float, float]]:
        """Latitude and longitude in degrees, by id, of pictures whose files state where they were taken.

        They are not in `Picture`, so that no export can contain them.
        """
        with self._asking() as ask:
            query = (
                "SELECT sha256, latitude, longitude FROM json_each(?) JOIN picture ON sha256 = value"
                " WHERE latitude NOTNULL"
            )
            return {one: (north, east) for one, north, east in ask(query, [json.dumps(list(ids))])}

    def skipped(self) -> list[Problem]:
        """Files that could not be used, by path."""
        with self._asking() as ask:
            rows = ask("SELECT path, skipped FROM file WHERE skipped != '' ORDER BY path").fetchall()
        return [Problem(path=path, reason=reason) for path, reason in rows]

    # vectors

    def index(self, spaces: Sequence[str]) -> Index:
        """Vectors of all shown pictures, ready to be searched.

        Raises:
            DataError: a space is unknown.
        """
        with self._reading() as ask:
            return Index(self._gallery(ask, spaces))

    def vectors(self) -> dict[str, int]:
        """Number of pictures with a vector, by space."""
        with self._reading() as ask:
            names = [name for (name,) in ask("SELECT name FROM space")]
            return {name: space.held for name, space in self._gallery(ask, names).spaces.items()}

    def _gallery(self, ask: Callable[..., sqlite3.Cursor], spaces: Sequence[str]) -> Gallery:
        query = "SELECT sha256, number, near, words FROM picture WHERE path IS NOT NULL ORDER BY number"
        columns = list(zip(*ask(query), strict=True)) or [(), (), (), ()]
        rows = {
            "picture": np.array(columns[1], dtype=np.int64),
            "words": np.array(columns[3], dtype=np.int64),
        }
        found = {}
        for name in spaces:
            made = ask("SELECT of, fingerprint, dim, upto FROM space WHERE name = ?", [name]).fetchone()
            if made is None:
                known = [one for (one,) in ask("SELECT name FROM space")]
                raise DataError(f"{self.place}: " + unknown("vector space", name, known))
            of, fingerprint, dim, upto = made
            matrix, own = self._file(name, fingerprint, dim).read(upto), rows[of]
            if (
                len(own)
                and own[-1] <= upto
                and own[-1] - own[0] + 1 == len(own)
                and (np.diff(own) == 1).all()
            ):
                found[name] = Space(matrix[own[0] : own[-1] + 1], fingerprint)
            else:
                found[name] = Space(matrix, fingerprint, np.where(own <= upto, own, 0))
        return Gallery(columns[0], np.array(columns[2], dtype=np.int64), found)

    def _file(self, name: str, fingerprint: str, dim: int) -> VectorFile:
        made = hashlib.sha256(fingerprint.encode()).hexdigest()[:8]
        return VectorFile(self.folder / VECTORS / f"{name}-{made}.f32", dim)

    def _files(self, ask: Callable[..., sqlite3.Cursor], of: str) -> dict[str, tuple[VectorFile, int]]:
        """File and last row of each space of pictures, or of words."""
        rows = ask("SELECT name, fingerprint, dim, upto FROM space WHERE of = ?", [of]).fetchall()
        return {name: (self._file(name, made, dim), upto) for name, made, dim, upto in rows}

    def remove_unused_vectors(self) -> None:
        """Remove the files of encoders that were replaced."""
        with self._reading() as ask:
            spaces = {**self._files(ask, "picture"), **self._files(ask, "words")}
        used = {file.path for file, _ in spaces.values()}
        for path in (self.folder / VECTORS).glob("*.f32"):
            if path not in used:
                with suppress(OSError):  # Windows keeps a file that another process has mapped
                    path.unlink()

    def lagging(self, of: str, spaces: Iterable[str]) -> dict[int, list[str]]:
        """Spaces in which numbers are not filled yet, by their last row.

        Args:
            of: picture or words.
            spaces: spaces that count.
        """
        wanted = set(spaces)
        found: dict[int, list[str]] = {}
        with self._reading() as ask:
            last = self._last(ask, of)
            for name, (_, upto) in self._files(ask, of).items():
                if name in wanted and upto < last:
                    found.setdefault(upto, []).append(name)
        return dict(sorted(found.items()))

    @staticmethod
    def _last(ask: Callable[..., sqlite3.Cursor], of: str) -> int:
        row = ask("SELECT seq FROM sqlite_sequence WHERE name = ?", [of]).fetchone()
        return 0 if row is None else int(row[0])

    def lacking(self, sha256: str, spaces: Iterable[str]) -> list[str] | None:
        """Filled spaces in which a picture has no vector; None for a picture new to the library."""
        with self._reading() as ask:
            row = ask("SELECT number FROM picture WHERE sha256 = ?", [sha256]).fetchone()
            if row is None:
                return None
            files = self._files(ask, "picture")
            return [
                name
                for name in spaces
                if name in files
                and row[0] <= files[name][1]
                and not files[name][0].read(files[name][1])[row[0]].any()
            ]

    def numbered(self, of: str, after: int, count: int) -> tuple[int, dict[int, Any]]:
        """The next numbers of pictures, or of words.

        Args:
            of: picture or words.
            after: number before the first.
            count: how many at most.
        Returns:
            The last of them; and those to encode: id and path of shown pictures, or texts of words in use.
        """
        with self._reading() as ask:
            last = min(after + count, self._last(ask, of))
            if of == "picture":
                rows = ask(
                    "SELECT number, sha256, path FROM picture WHERE number > ? AND number <= ?"
                    " AND path IS NOT NULL ORDER BY number",
                    [after, last],
                )
                return last, {number: (sha256, path) for number, sha256, path in rows}
            texts: dict[int, list[str]] = {}
            query = "SELECT words, text FROM caption WHERE words > ? AND words <= ? ORDER BY words, position"
            for number, text in ask(query, [after, last]):
                texts.setdefault(number, []).append(text)
            return last, texts

    def fill(
        self,
        of: str,
        after: int,
        last: int,
        vectors: Mapping[str, Mapping[int, FloatArray]],
        texts: Mapping[int, str] | None = None,
    ) -> bool:
        """Write the vectors of consecutive numbers.

        Args:
            of: picture or words.
            after: number before the first, the last valid row of each of the spaces.
            last: the last number.
            vectors: number → vector, by space; others have none.
            texts: text in pictures, by number.
        Returns:
            Whether they were written: another process may have been quicker.
        """
        with self._changing() as ask:
            files = self._files(ask, of)
            if any(name not in files or files[name][1] != after for name in vectors):
                return False
            for name, some in vectors.items():
                rows = np.zeros((last - after, files[name][0].dim), np.float32)
                for number, vector in some.items():
                    rows[number - after - 1] = vector
                files[name][0].write(range(after + 1, last + 1), rows)
                ask("UPDATE space SET upto = ? WHERE name = ?", [last, name])
            for number, text in (texts or {}).items():
                ask("UPDATE picture SET text = ? WHERE number = ?", [text, number])
        return True

    def put(self, space: str, vectors: Mapping[int, FloatArray | None]) -> None:
        """Write the vectors of some numbers of pictures, and none for all others up to the last of them."""
        with self._changing() as ask:
            file, upto = self._files(ask, "picture")[space]
            last = max(vectors)
            rows = sorted({*vectors, *range(upto + 1, last + 1)})
            none = np.zeros(file.dim, np.float32)
            found = [vectors.get(number) for number in rows]
            file.write(rows, np.stack([none if one is None else one for one in found]))
            ask("UPDATE space SET upto = max(upto, ?) WHERE name = ?", [last, space])

    def incomplete(self, spaces: Sequence[str], *, untold: bool) -> frozenset[str]:
        """Shown pictures without a vector in one of the spaces, or whose text was not read if that counts."""
        with self._reading() as ask:
            gallery = self._gallery(ask, spaces)
            absent = [~space.present for space in gallery.spaces.values()]
            found = (
                {gallery.ids[row] for row in np.flatnonzero(np.any(absent, axis=0)).tolist()}
                if absent
                else set()
            )
            if untold:
                query = "SELECT sha256 FROM picture WHERE path IS NOT NULL AND text IS NULL"
                found |= {one for (one,) in ask(query)}
        return frozenset(found)

    def read_by(self, engine: str) -> None:
        """Forget the text in pictures unless this engine, given by its fingerprint, has read it."""
        with self._changing() as ask:
            if ask("SELECT value FROM setting WHERE key = 'ocr'").fetchone()[0] != engine:
                ask("UPDATE picture SET text = NULL")
                ask("UPDATE space SET upto = 0 WHERE name = ?", [OCR])
                ask("UPDATE setting SET value = ? WHERE key = 'ocr'", [engine])

    def texts_without_vector(self) -> dict[int, str]:
        """Text in pictures that has no vector yet, by number; "" for pictures without text."""
        with self._reading() as ask:
            file, upto = self._files(ask, "picture")[OCR]
            query = "SELECT number, text FROM picture WHERE text IS NOT NULL AND (number > ? OR text != '')"
            rows = file.read(upto)
            return {
                number: " ".join(text.split())
                for number, text in ask(f"{query} ORDER BY number", [upto])
                if number > upto or not rows[number].any()
            }

    def contents(self) -> tuple[list[tuple[VectorFile, int]], list[str]]:
        """Files of vectors with their last rows, and paths of all used pictures."""
        with self._reading() as ask:
            spaces = {**self._files(ask, "picture"), **self._files(ask, "words")}
            rows = ask("SELECT path FROM file WHERE picture NOTNULL ORDER BY path").fetchall()
            return list(spaces.values()), [path for (path,) in rows]

    def repeated(self) -> list[str]:
        """Contents of several files."""
        with self._asking() as ask:
            return [one for (one,) in ask("SELECT sha256 FROM picture WHERE files > 1")]

    def paths_of(self, sha256: str) -> list[str]:
        """Paths of the files with a content."""
        with self._asking() as ask:
            query = "SELECT f.path FROM file f JOIN picture ON number = f.picture WHERE sha256 = ?"
            return [path for (path,) in ask(query, [sha256])]

    # files

    def known(self, paths: Sequence[str]) -> list[File | None]:
        """Files as last read, without their words; None for new ones."""
        with self._reading() as ask:
            query = (
                "SELECT f.path, size, mtime_ns, stamp, beside, coalesce(sha256, ''), skipped FROM file f"
                " LEFT JOIN picture ON number = f.picture WHERE f.path = ?"
            )
            rows = (ask(query, [path]).fetchone() for path in paths)
            return [None if row is None else File(*row) for row in rows]

    def add(self, files: Sequence[File], pixels: Mapping[str, Pixels]) -> None:
        """Store a batch of files, in one step; see `limner.store.Store.add`."""
        with self._changing() as ask:
            numbers = self._add_pictures(ask, [one.sha256 for one in files if one.sha256], pixels)
            folders: dict[str, int] = {}
            changed = set(numbers.values())
            for one in files:
                before = ask("SELECT picture FROM file WHERE path = ?", [one.path]).fetchone()
                if before is not None and before[0] is not None:
                    changed.add(before[0])
                if one.words is None and one.sha256 and before is not None:
                    query = "UPDATE file SET size = ?, mtime_ns = ?, stamp = ? WHERE path = ?"
                    ask(query, [one.size, one.mtime_ns, one.stamp, one.path])
                    continue
                folder = os.path.dirname(one.path)  # noqa: PTH120
                if folder not in folders:
                    ask("INSERT OR IGNORE INTO folder(path) VALUES (?)", [folder])
                    query = "SELECT number FROM folder WHERE path = ?"
                    folders[folder] = ask(query, [folder]).fetchone()[0]
                ask(
                    "INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    [
                        one.path,
                        folders[folder],
                        one.size,
                        one.mtime_ns,
                        one.stamp,
                        one.beside,
                        numbers.get(one.sha256),
                        one.skipped,
                        _to_json(one.words),
                    ],
                )
            self._refresh(ask, changed)

    def _add_pictures(
        self, ask: Callable[..., sqlite3.Cursor], ids: Sequence[str], pixels: Mapping[str, Pixels]
    ) -> dict[str, int]:
        """Numbers of pictures, with the vectors and texts of those that were decoded."""
        first, fresh = self._last(ask, "picture") + 1, []
        numbers: dict[str, int] = {}
        query = "SELECT number FROM picture WHERE sha256 = ?"
        for one in dict.fromkeys(ids):
            row = ask(query, [one]).fetchone()
            if row is None:
                made = pixels[one]
                row = ask(
                    "INSERT INTO picture(sha256, width, height, format, phash, text)"
                    " VALUES (?, ?, ?, ?, ?, ?) RETURNING number",
                    [one, made.width_px, made.height_px, made.format, made.phash, made.text],
                ).fetchone()
                fresh.append(row[0])
            elif one in pixels and pixels[one].text is not None:
                ask("UPDATE picture SET text = ? WHERE number = ?", [pixels[one].text, row[0]])
            numbers[one] = row[0]
        ask("UPDATE picture SET near = number WHERE number >= ?", [first])
        vectors = {numbers[one]: made.vectors for one, made in pixels.items() if one in numbers}
        filled = {name for some in vectors.values() for name in some}
        for name, (file, upto) in self._files(ask, "picture").items():
            level = upto == first - 1 and name in filled
            rows = sorted(
                number
                for number in {*vectors, *(fresh if level else ())}
                if (number <= upto and name in vectors.get(number, {})) or (level and number >= first)
            )
            if rows:
                none = np.zeros(file.dim, np.float32)
                file.write(rows, np.stack([vectors.get(number, {}).get(name, none) for number in rows]))
                ask("UPDATE space SET upto = ? WHERE name = ?", [max(upto, rows[-1]), name])
        return numbers

    def remove(self, paths: Iterable[str]) -> None:
        """Forget files; a picture without a file is no longer shown."""
        with self._changing() as ask:
            changed: set[int] = set()
            for path in paths:
                query = "DELETE FROM file WHERE path = ? RETURNING picture"
                changed |= {number for (number,) in ask(query, [path]) if number is not None}
            self._refresh(ask, changed)

    def unmet(self, root: str, met: Callable[[str], bool]) -> list[tuple[str, str]]:
        """Path and content of the known files at or below a root that were not met."""
        with self._asking() as ask:
            query = (
                "SELECT f.path, coalesce(sha256, '') FROM file f LEFT JOIN picture ON number = f.picture"
                " WHERE f.path = ? OR f.path >= ? AND f.path < ?"
            )
            return [(path, sha256) for path, sha256 in ask(query, [root, *_below(root)]) if not met(path)]

    def count_below(self, root: str) -> int:
        """Number of used files at or below a root."""
        with self._asking() as ask:
            query = "SELECT count(*) FROM file WHERE picture NOTNULL AND (path = ? OR path >= ? AND path < ?)"
            return int(ask(query, [root, *_below(root)]).fetchone()[0])

    def near(
        self, grouped: Callable[[list[tuple[int, str, str | None, str, int, int]]], Sequence[int]]
    ) -> None:
        """Set the near-duplicate groups of all shown pictures.

        Args:
            grouped: function from number, hash, time, path, width and height of all, in order of numbers, to
                the number of the first picture of the group of each.
        """
        with self._changing() as ask:
            query = (
                "SELECT number, phash, taken, path, width, height, near FROM picture WHERE path IS NOT NULL"
            )
            rows = ask(f"{query} ORDER BY number").fetchall()
            for row, near in zip(rows, grouped([row[:6] for row in rows]), strict=True):
                if row[6] != near:
                    ask("UPDATE picture SET near = ? WHERE number = ?", [near, row[0]])

    def _refresh(self, ask: Callable[..., sqlite3.Cursor], numbers: Iterable[int]) -> None:
        """Derive pictures from their files and from what the user wrote."""
        every = sorted(numbers)
        with self._yours() as yours:
            for number in every:
                files = ask(
                    "SELECT path, folder, size, said FROM file WHERE picture = ? ORDER BY path", [number]
                ).fetchall()
                ask("DELETE FROM said WHERE rowid = ?", [number])
                if not files:
                    ask("UPDATE picture SET path = NULL, files = 0 WHERE number = ?", [number])
                    continue
                stated = [json.loads(said) if said else {} for *_, said in files]
                dated: dict[str, Any] = next((one for one in stated if one.get("taken")), {})
                located = [one["coordinates"] for one in stated if one.get("coordinates")]
                texts = (
                    next((one[key] for one in stated if one.get(key)), "")
                    for key in ("credit", "license", "camera")
                )
                near = places().near(located[:1])[0] if located else ()
                place = "\n".join(name for one in near for name in places().names(one))
                sha256, before = ask(
                    "UPDATE picture SET path = ?, folder = ?, bytes = ?, files = ?, taken = ?,"
                    " taken_from = ?, latitude = ?, longitude = ?, place = ?, credit = ?, license = ?,"
                    " camera = ? WHERE number = ? RETURNING sha256, words",
                    [
                        *files[0][:3],
                        len(files),
                        dated.get("taken"),
                        dated.get("taken_from", ""),
                        *(located or [(None, None)])[0],
                        place,
                        *texts,
                        number,
                    ],
                ).fetchone()
                captions = _in_use(_stated(stated), _written(yours, sha256))
                self._say(ask, number, before, captions)
                names = (path.rpartition(os.sep)[2] for path, *_ in files)
                body = "\n".join((*names, *(one.text for one in captions), place))
                ask("INSERT INTO said(rowid, body) VALUES (?, ?)", [number, spaced(body)])

    @staticmethod
    def _say(
        ask: Callable[..., sqlite3.Cursor], picture: int, before: int, captions: Sequence[Caption]
    ) -> None:
        """Give a picture its captions: a new version, unless they are the same."""
        rows = [(one.source, one.text) for one in captions]
        made = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
        row = ask("SELECT hash FROM words WHERE number = ?", [before]).fetchone()
        if (row is None and not rows) or (row is not None and row[0] == made):
            return
        ask("UPDATE picture SET words = 0 WHERE number = ?", [picture])
        ask("DELETE FROM words WHERE number = ?", [before])
        if rows:
            query = "INSERT INTO words(picture, hash) VALUES (?, ?) RETURNING number"
            number = ask(query, [picture, made]).fetchone()[0]
            for place, one in enumerate(rows):
                ask("INSERT INTO caption VALUES (?, ?, ?, ?)", [number, place, *one])
            ask("UPDATE picture SET words = ? WHERE number = ?", [number, picture])

    # what the user wrote

    @contextmanager
    def _yours(self) -> Iterator[Callable[..., sqlite3.Cursor] | None]:
        """Queries on what the user wrote; None if there is nothing yet."""
        path = self.folder / YOURS
        if not path.exists():
            yield None
            return
        with _told(path), closing(_opened(path, own=True)) as yours:
            yield yours.execute if _version_of_yours(yours, path) else None

    @contextmanager
    def _writing_yours(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """A change of what the user wrote, on the disk when the block has ended."""
        path = self.folder / YOURS
        with _told(path), closing(_opened(path, own=True)) as yours:
            ask = yours.execute
            ask("PRAGMA synchronous = FULL")
            ask("BEGIN IMMEDIATE")
            version = _version_of_yours(yours, path)
            for number, statement in enumerate(_YOURS[version:], version + 1):
                ask(statement)
                ask(f"PRAGMA user_version = {number}")
            yield ask
            ask("COMMIT")

    def words_of(self, picture: str) -> PictureWords:
        """Captions of a picture; raises as `pictures`."""
        self.pictures([picture])
        with self._reading() as ask, self._yours() as yours:
            own = "FROM file f JOIN picture ON number = f.picture WHERE sha256 = ?"
            query = f"SELECT f.said {own} ORDER BY f.path"
            stated = _stated([json.loads(said) if said else {} for (said,) in ask(query, [picture])])
            written = _written(yours, picture)
        typed, by_model = written
        model, rows = by_model or ("", [])
        of_files = [(one.source == KEYWORDS, one.text) for one in stated]
        where = self.coordinates([picture]).get(picture)
        return PictureWords(
            now=_described([*of_files, *rows] if typed is None else typed),
            stated=_described(of_files),
            edited=typed is not None,
            described=ModelWords(model=model, **dict(_described(rows))) if by_model else None,
            coordinates=where,
            place=place_of(where),
        )

    def write_words(self, picture: str, words: Described | None) -> None:
        """Store the user's captions of a picture, which may be empty; None restores those of its files.

        Raises:
            DataError: the picture does not exist, or a text is too long.
        """
        self.pictures([picture])
        rows = None if words is None else (_rows(words) or [(0, "")])
        self._write({picture: (_TYPED, rows)}, _TYPED)

    def write_descriptions(self, found: Mapping[str, ModelWords]) -> None:
        """Store a model's captions of pictures by id; they replace those of another model."""
        rows = {one: (_OF_MODEL + words.model, _rows(words)) for one, words in found.items()}
        self._write(rows, _OF_MODEL)

    def remove_descriptions(self, model: str | None = None) -> int:
        """Remove captions by models, or by one; returns the number of pictures that had one."""
        with self._yours() as yours:
            query = "SELECT DISTINCT sha256, source FROM caption WHERE source LIKE 'model:%'"
            rows = [] if yours is None else yours(query).fetchall()
        gone = [one for one, source in rows if model in (None, source.removeprefix(_OF_MODEL))]
        for start in range(0, len(gone), _AT_ONCE):
            self._write(dict.fromkeys(gone[start : start + _AT_ONCE], ("", None)), _OF_MODEL)
        return len(gone)

    def _write(self, found: Mapping[str, tuple[str, Sequence[tuple[int, str]] | None]], kind: str) -> None:
        now, before = datetime.now().astimezone().isoformat(timespec="seconds"), self._stamp()
        with self._writing_yours() as yours:
            for picture, (source, rows) in found.items():
                query = "DELETE FROM caption WHERE sha256 = ? AND substr(source, 1, ?) = ?"
                yours(query, [picture, len(kind), kind])
                for place, (keywords, text) in enumerate(rows or ()):
                    query = "INSERT INTO caption VALUES (?, ?, ?, ?, ?, ?)"
                    yours(query, [picture, source, place, keywords, text, now])
        with self._changing() as ask:
            query = "SELECT number FROM picture WHERE sha256 IN (SELECT value FROM json_each(?))"
            self._refresh(ask, [number for (number,) in ask(query, [json.dumps(list(found))])])
            query = "UPDATE setting SET value = ? WHERE key = 'aligned' AND value = ?"
            ask(query, [self._stamp(), before])

    def described_by(self) -> dict[str, str]:
        """Who wrote captions, by id of the picture: "" for the user, else the name of the model."""
        with self._yours() as yours:
            query = "SELECT sha256, source FROM caption GROUP BY sha256, source ORDER BY source"
            rows = [] if yours is None else yours(query).fetchall()
        return {one: "" if source == _TYPED else source.removeprefix(_OF_MODEL) for one, source in rows}

    def _stamp(self) -> str:
        """State of what the user wrote, by which a library that was not brought in line is recognised."""
        path = self.folder / YOURS
        return str(path.stat().st_mtime_ns) if path.exists() else ""

    def align(self) -> None:
        """Bring the library in line with what the user wrote, after a kill or `--anew`."""
        now = self._stamp()
        with self._asking() as ask:
            row = ask("SELECT value FROM setting WHERE key = 'aligned'").fetchone()
        if now == (row[0] if row else ""):
            return
        with self._asking() as ask:
            numbers = [one for (one,) in ask("SELECT number FROM picture WHERE path IS NOT NULL")]
        for start in range(0, len(numbers), _AT_ONCE):
            with self._changing() as ask:
                self._refresh(ask, numbers[start : start + _AT_ONCE])
        with self._changing() as ask:
            ask("INSERT OR REPLACE INTO setting VALUES ('aligned', ?)", [now])

    def sources_of_words(self) -> Iterator[tuple[str, list[str]]]:
        """Ids of all shown pictures in order of paths, with the sources of their captions."""
        with self._asking() as ask:
            rows = ask(
                "SELECT sha256, coalesce(group_concat(source), '') FROM picture"
                " LEFT JOIN caption USING (words) WHERE path IS NOT NULL GROUP BY number ORDER BY path"
            ).fetchall()
        return ((one, sources.split(",") if sources else []) for one, sources in rows)

    def first_captions(self, every: int = 1) -> list[tuple[str, int, str]]:
        """Id, number of words and first caption of captioned pictures, or of each of so many."""
        with self._asking() as ask:
            return ask(
                "SELECT sha256, words, (SELECT text FROM caption c WHERE c.words = picture.words LIMIT 1)"
                " FROM picture WHERE path IS NOT NULL AND words > 0 AND number % ? = 0 ORDER BY number",
                [every],
            ).fetchall()


_CAPTIONED = "FROM picture WHERE path IS NOT NULL AND words > 0"
_ORDERS = {
    "path": "path",
    "oldest": "taken IS NULL, taken, path",
    "newest": "taken IS NULL, taken DESC, path",
}
_ALIKE = "SELECT near FROM picture WHERE path IS NOT NULL GROUP BY near HAVING count(*) > 1 OR max(files) > 1"


def exists(folder: Path) -> bool:
    """Whether a folder holds a library; one whose creation was interrupted does not count."""
    path = folder / LIBRARY
    if not path.exists():
        return False
    with _told(path), closing(_opened(path)) as connection:
        made = connection.execute("PRAGMA user_version").fetchone()[0]
        return bool(made or connection.execute("SELECT 1 FROM sqlite_master").fetchone())


def check(folder: Path) -> Iterator[Problem]:
    """Yield what is wrong with the files of a library, and which of its pictures are gone."""
    for name in (YOURS, LIBRARY):
        path = folder / name
        try:
            with _told(path), closing(_opened(path, own=name == YOURS)) as connection:
                found = connection.execute("PRAGMA integrity_check") if path.exists() else ()
                lines = [line for (line,) in found if line != "ok"]
        except DataError as error:
            lines = [str(error).partition(": ")[2]]
        yield from (Problem(path=str(path), reason=line) for line in lines)
    if lines:
        return
    try:
        files, paths = Database(folder, make=False).contents()
    except (DataError, MissingError) as error:
        yield Problem(path=str(folder / LIBRARY), reason=str(error).partition(": ")[2])
        return
    for file, upto in files:
        try:
            rows = file.read(upto)
        except DataError as error:
            yield Problem(path=str(file.path), reason=str(error).partition(": ")[2])
            continue
        starts = range(0, len(rows), _AT_ONCE)
        bad = sum(int((~np.isfinite(rows[at : at + _AT_ONCE]).all(axis=1)).sum()) for at in starts)
        if bad:
            yield Problem(path=str(file.path), reason=f"{counted(bad, 'row')} not finite; {ANEW}")
    gone = (path for path in paths if not os.path.lexists(path))
    yield from (Problem(path=path, reason="the file is gone; index its folder again") for path in gone)


def remove_computed(folder: Path) -> list[str]:
    """Remove what can be computed again; what the user wrote and uploaded stays. Returns the names."""
    names = [LIBRARY, f"{LIBRARY}-wal", f"{LIBRARY}-shm", INDEXING]
    gone = [folder / name for name in names]
    gone += sorted((folder / VECTORS).glob("*.f32"))
    there = [path for path in gone if path.exists()]
    for path in there:
        path.unlink()
    return [path.name for path in there]


def _opened(path: Path, *, own: bool = False, wait_s: float = BUSY_S) -> sqlite3.Connection:
    """Connection to a database; see DESIGN of the store in docs/architecture.md for its modes."""
    if sqlite3.sqlite_version_info < (3, 35):
        raise StorageError(
            0, f"SQLite {sqlite3.sqlite_version}, expected 3.35 or later", str(path), "update it"
        )
    uri, readable_only = path.absolute().as_uri(), not os.access(path.parent, os.W_OK)
    if readable_only:
        wal = path.with_name(f"{path.name}-wal")
        still = not wal.exists() or not wal.stat().st_size
        uri += "?immutable=1" if still else "?mode=ro"
    connection = sqlite3.connect(uri, wait_s, isolation_level=None, check_same_thread=False, uri=True)
    if not (own or readable_only):
        _set_journal(connection, "DELETE" if _is_on_network(path) else "WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _set_journal(connection: sqlite3.Connection, mode: str) -> None:
    """Set the journal's mode; while another process does so with a new file, SQLite fails without waiting."""
    patience_s = {sqlite3.SQLITE_BUSY: BUSY_S, sqlite3.SQLITE_CANTOPEN: 1.0}
    begun = time.monotonic()
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            return
        except sqlite3.OperationalError as error:
            if time.monotonic() - begun > patience_s.get(error.sqlite_errorcode & 0xFF, 0.0):
                raise
        time.sleep(0.02)


def _is_on_network(path: Path) -> bool:
    """Whether a file is on a drive of another machine, where several processes cannot share memory."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    mounts = [line.split()[1:3] for line in lines]
    whole = str(path.resolve())
    inside = [one for one in mounts if whole.startswith(one[0].rstrip("/") + "/")]
    return max(inside, key=lambda one: len(one[0]), default=("", ""))[1] in _NETWORK


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Convert errors of SQLite.

    Raises:
        StorageError: the disk is full or fails.
        DataError: the file is damaged, or another process holds it for long.
    """
    try:
        yield
    except sqlite3.Error as error:
        refused = storage_error(error, path)
        if refused is not None:
            raise refused from error
        code = vars(error).get("sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise DataError(f"{path}: another process has been writing for long; try again") from error
        if code == sqlite3.SQLITE_CANTOPEN:
            raise DataError(f"{path}: cannot be opened or made ({error}); check its folder") from error
        advice = ANEW if path.name != YOURS else "restore it from a copy"
        raise DataError(f"{path}: damaged ({error}); {advice}") from error


def _below(folder: str) -> tuple[str, str]:
    """Bounds of the paths below a folder."""
    start = folder.rstrip(os.sep) + os.sep
    return start, start[:-1] + chr(ord(os.sep) + 1)


def _folders(own: Mapping[str, int], roots: Sequence[str]) -> dict[str, int]:
    """Number of pictures at or below each folder with pictures or with several such folders, in the roots."""
    below: Counter[str] = Counter()
    parts: dict[str, set[str]] = {}
    for folder, count in own.items():
        inner = folder
        while inner:
            below[inner] += count
            outer = inner.rpartition(os.sep)[0]
            parts.setdefault(outer, set()).add(inner)
            inner = outer
    starts = tuple(root.rstrip(os.sep) + os.sep for root in roots)
    return {
        one: below[one]
        for one in sorted(below)
        if (one in own or len(parts.get(one, ())) > 1) and (one + os.sep).startswith(starts)
    }


def _to_json(words: Words | None) -> str:
    if words is None:
        return ""
    values = {
        "captions": [[one.text, one.source] for one in words.captions],
        "credit": words.credit,
        "license": words.license,
        "taken": words.taken.isoformat() if words.taken is not None else None,
        "taken_from": words.taken_from,
        "camera": words.camera,
        "coordinates": words.coordinates,
    }
    return json.dumps({key: value for key, value in values.items() if value}) if any(values.values()) else ""


def _stated(files: Iterable[Mapping[str, Any]]) -> list[Caption]:
    """Captions of a picture's files, keywords last."""
    from limner.pictures.metadata import unique_captions  # searches do not need it

    every = (_caption(source, text) for one in files for text, source in one.get("captions", ()))
    return sorted(unique_captions(every), key=lambda one: one.source == KEYWORDS)


def _version_of_yours(yours: sqlite3.Connection, path: Path) -> int:
    """Version of what the user wrote; 0 for an empty file.

    Raises:
        DataError: a newer limner wrote it.
    """
    found = int(yours.execute("PRAGMA user_version").fetchone()[0])
    if found > len(_YOURS):
        raise DataError(f"{path}: written by a newer limner; install that")
    return found


_Rows = list[tuple[int, str]]


def _written(
    yours: Callable[..., sqlite3.Cursor] | None, picture: str
) -> tuple[_Rows | None, tuple[str, _Rows] | None]:
    """What the user typed about a picture, if anything, and a model with what it wrote."""
    if yours is None:
        return None, None
    query = "SELECT source, keywords, text FROM caption WHERE sha256 = ? ORDER BY source, position"
    found: dict[str, _Rows] = {}
    for source, keywords, text in yours(query, [picture]):
        found.setdefault(source, []).append((keywords, text))
    models = [(one.removeprefix(_OF_MODEL), rows) for one, rows in found.items() if one != _TYPED]
    return found.get(_TYPED), models[0] if models else None


def _in_use(
    stated: Sequence[Caption], written: tuple[_Rows | None, tuple[str, _Rows] | None]
) -> list[Caption]:
    typed, by_model = written
    if typed is not None:
        return [_caption(KEYWORDS if kind else OWN, text) for kind, text in typed if text]
    return [*stated, *(_caption(MODEL, text) for _, text in (by_model[1] if by_model else ()))]


def _caption(source: str, text: str) -> Caption:
    return Caption.model_validate({"text": text, "source": source})


def _described(rows: Iterable[tuple[int | bool, str]]) -> Described:
    some = [(keywords, text) for keywords, text in rows if text]
    listed = (word.strip() for keywords, text in some if keywords for word in text.split(","))
    return Described(
        captions=tuple(text for keywords, text in some if not keywords),
        keywords=tuple(dict.fromkeys(listed)),
    )


def _rows(words: Described) -> _Rows:
    """Captions as stored: each description once, then all keywords as one text.

    Raises:
        DataError: a text is too long.
    """
    from limner.pictures.metadata import MAX_CAPTION_CHARS, plain

    told = dict.fromkeys(filter(None, map(plain, words.captions)))
    parts = (plain(part) for word in words.keywords for part in word.split(","))
    listed = ", ".join(dict.fromkeys(filter(None, parts)))
    rows = [*((0, text) for text in told), *([(1, listed)] if listed else [])]
    long = next((text for _, text in rows if len(text) > MAX_CAPTION_CHARS), None)
    if long is not None:
        raise DataError(
            f"a text of {len(long):,} letters; a description, or all keywords together, may have at most"
            f" {MAX_CAPTION_CHARS:,}"
        )
    return rows
