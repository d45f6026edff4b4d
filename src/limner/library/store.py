"""What a library knows about itself, in `library.json`, and the lock that keeps a second writer out.

Written in one step, so that a kill leaves the old state or the new one. Pictures are in the tables.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import Field, ValidationError

from limner.checksums import unseal
from limner.errors import DataError, LimnerError, MissingError
from limner.files import storing, sync_tree
from limner.library.integrity import TableFiles
from limner.records import Record

T = TypeVar("T")
FORMAT = 2
SETTINGS_FILE = "library.json"
MEND = (
    "restore a backup with 'limner library restore', or move library.json and tables, and nothing else, out"
    " of the library's folder and index again: projects and pictures brought in the studio stay"
)
"""What to do with damaged tables or settings."""


class SpaceInfo(Record):
    """Who made the vectors of a space.

    Attributes:
        encoder: its name.
        fingerprint: of its weights and settings.
        dim: D.
    """

    encoder: str
    fingerprint: str
    dim: int


class Settings(Record):
    """What `library.json` holds.

    Attributes:
        format: version of the layout on disk.
        spaces: vector space → who made it.
        sources: folders and lists indexed so far, absolute; odd bytes as surrogates.
        reader: what opened the pictures; refused files are tried again when it changes.
        grouped: False while near-duplicate groups are out of date.
        languages: language → estimated share of the captions, largest first; empty while unknown.
    """

    format: int = FORMAT
    spaces: dict[str, SpaceInfo] = Field(default={})
    sources: tuple[str, ...] = ()
    reader: str = ""
    grouped: bool = True
    languages: dict[str, float] = Field(default={})


def read_settings(folder: Path) -> Settings:
    """Settings of the library in a folder.

    Raises:
        MissingError: there is none.
        DataError: they are damaged, or a newer limner wrote them.
    """
    try:
        hint = "put it back from a copy, or take its first entry, 'checksum', out if you changed it yourself"
        sealed = (folder / SETTINGS_FILE).read_bytes()
        values = json.loads(unseal(sealed, folder / SETTINGS_FILE, hint))
        found = int(values["format"])
    except FileNotFoundError:
        raise MissingError(
            f"{folder}: no picture library here; make one with 'limner index PICTURES --library {folder}'"
        ) from None
    except DataError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder / SETTINGS_FILE}: damaged ({error}); {MEND}") from error
    if found > FORMAT:
        raise DataError(
            f"{folder}: library format {found}; this limner reads {FORMAT}; install a newer limner"
        )
    values.pop("checksum", None)  # of one that was changed by hand
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise DataError(f"{folder / SETTINGS_FILE}: damaged ({error.errors()[0]['msg']}); {MEND}") from error


FILES, PICTURES = "files", "pictures"
WORDS, PLACES = "words", "places"
SCAN_ROWS = 8192
_INDEX_FROM_ROWS = 20_000
_LOOKUP_VALUES = 1000
_MOST_TABLES = 1000
_KEEP_VERSIONS = timedelta(minutes=30)
_KEEP_ALL = timedelta(days=3650)
_CAPTIONS = pa.list_(pa.struct([("text", pa.string()), ("source", pa.string())]))


FILES_SCHEMA = pa.schema(
    [
        ("key", pa.string()),  # BLAKE2b-128 of path_bytes, hex: the row's identity
        ("path", pa.string()),
        ("path_bytes", pa.binary()),
        ("source", pa.binary()),
        ("size", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("sha256", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("words_key", pa.string()),
        ("captions", _CAPTIONS),
        ("credit", pa.string()),
        ("license", pa.string()),
        ("taken", pa.string()),
        ("stamp", pa.string()),  # since format 2
    ]
)
"""Columns of `files`: one row per path."""

PICTURES_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("paths", pa.list_(pa.string())),
        ("width_px", pa.int32()),
        ("height_px", pa.int32()),
        ("format", pa.string()),
        ("size_bytes", pa.int64()),
        ("phash", pa.string()),
        ("group", pa.string()),
        ("taken", pa.string()),
        ("captions", _CAPTIONS),
        ("labels", pa.list_(pa.struct([("name", pa.string()), ("probability", pa.float64())]))),
        ("credit", pa.string()),
        ("license", pa.string()),
    ]
)
"""Columns of `pictures`: one row per content, the fields of `records.Picture`."""

WORDS_SCHEMA = pa.schema([("id", pa.string()), ("captions", _CAPTIONS)])
"""Columns of `words`: what the user wrote about a picture, in place of what its files say."""

PLACES_SCHEMA = pa.schema([("id", pa.string()), ("latitude", pa.float64()), ("longitude", pa.float64())])
"""Columns of `places`: where a picture was taken."""

SCHEMAS = {PICTURES: PICTURES_SCHEMA, FILES: FILES_SCHEMA}
LATER_SCHEMAS = {WORDS: WORDS_SCHEMA, PLACES: PLACES_SCHEMA}
"""Tables that are made with their first row; libraries of older versions gain them then."""
PRESENT = "array_length(paths) > 0"
"""Pictures that some file still holds."""
CAPTIONED = f"{PRESENT} AND array_length(captions) > 0"


def vectors_schema(dim: int) -> pa.Schema:
    """Columns of the table of one vector space: picture, hash of what the vector was made from, vector."""
    return pa.schema(
        [("id", pa.string()), ("input_hash", pa.string()), ("vector", pa.list_(pa.float16(), dim))]
    )


def vectors_name(space: str) -> str:
    """Name of a space's table."""
    return f"vectors_{space}"


class Store:
    """Tables under one folder."""

    def __init__(self, folder: Path) -> None:
        """Connect; nothing is read yet.

        Args:
            folder: holds the tables; made when the first one is.
        """
        import lancedb

        self._folder = folder
        self._database = lancedb.connect(str(folder), read_consistency_interval=timedelta(0))
        self._open: dict[str, Any] = {}
        self._synced: set[tuple[int, int, int]] = set()
        self._files: dict[str, TableFiles] = {}

    def names(self) -> list[str]:
        """Names of all tables; those are left out that a kill or a full disk kept from being made."""
        listed = sorted(self._database.list_tables(limit=_MOST_TABLES).tables)
        return [
            name for name in listed if any((self._folder / f"{name}.lance" / "_versions").glob("*.manifest"))
        ]

    def has(self, name: str) -> bool:
        """Whether a table exists."""
        return name in self._open or name in self.names()

    def ensure(self, name: str, schema: pa.Schema) -> None:
        """Make a table where it does not exist.

        Raises:
            DataError: it exists with other columns.
            StorageError: the disk is full, or cannot be written; likewise wherever rows are written.
        """
        if not self.has(name):
            with self._writing(name):
                self._open[name] = self._database.create_table(name, schema=schema)
        elif not self._table(name).schema.equals(schema):
            raise DataError(
                f"{self._folder / name}: its columns are not those of this version; run 'limner library"
                f" migrate'; if that finds nothing to do, {MEND}"
            )

    def add_texts(self, name: str, columns: Iterable[str]) -> None:
        """Give a table columns of text that it lacks, empty in every row."""
        table = self._table(name)
        with self._writing(name):
            for column in columns:
                if column not in table.schema.names:
                    table.add_columns(pa.schema([(column, pa.string())]))
                table.update(where=f"{column} IS NULL", values={column: ""})

    def drop(self, name: str) -> None:
        """Remove a table, if it is there."""
        if self.has(name):
            self._open.pop(name, None)
            with self._writing(name):
                self._database.drop_table(name)

    def files(self, name: str) -> TableFiles:
        """The files of a table, whether it is there or not."""
        return self._files.setdefault(name, TableFiles(self._folder, name))

    def version(self, name: str) -> int:
        """Number that grows with every change of a table.

        Raises:
            DataError: the table is damaged.
        """
        with self._reading(name):
            return int(self._table(name).version)

    def count(self, name: str, where: str | None = None) -> int:
        """Number of rows.

        Raises:
            DataError: the table is damaged.
        """
        with self._reading(name):
            return int(self._checked(name).count_rows(where))

    def upsert(self, name: str, rows: pa.Table) -> None:
        """Write rows, replacing those of equal key: doing it twice is doing it once."""
        if rows.num_rows:
            if name in LATER_SCHEMAS:
                self.ensure(name, LATER_SCHEMAS[name])
            merge = self._table(name).merge_insert(_indexed(name)[0])
            with self._writing(name, rows.nbytes):
                merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def delete(self, name: str, keys: Iterable[str]) -> None:
        """Remove rows by key."""
        for values in chunks(list(keys), _LOOKUP_VALUES):
            with self._writing(name):
                self._table(name).delete(_among(_indexed(name)[0], values))

    def scan(self, name: str, columns: Sequence[str], where: str | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, in blocks, in no particular order.

        Raises:
            DataError: the table is damaged.
        """
        with self._reading(name):
            query = self._checked(name).search().select(list(columns))
            yield from (query.where(where) if where else query).to_batches(batch_size=SCAN_ROWS)

    def rows(self, name: str, columns: Sequence[str], where: str | None = None) -> Iterator[tuple[Any, ...]]:
        """As `scan`, row by row: the values of the columns in their order.

        Raises:
            DataError: the table is damaged.
        """
        for batch in self.scan(name, columns, where):
            yield from zip(*(batch.column(one).to_pylist() for one in columns), strict=True)

    def lookup(
        self, name: str, column: str, values: Iterable[str], columns: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Rows whose column is one of some values.

        Args:
            name: the table.
            column: an indexed text column that holds hexadecimal digits.
            values: hexadecimal digits.
            columns: what to return; by default all.
        """
        if name in LATER_SCHEMAS and not self.has(name):
            return []
        schema = SCHEMAS.get(name) or LATER_SCHEMAS[name]
        return [
            row
            for some in chunks(sorted(set(values)), _LOOKUP_VALUES)
            for batch in self.scan(name, columns or schema.names, _among(column, some))
            for row in batch.to_pylist()
        ]

    def compact(self) -> None:
        """Join small pieces, bring search indices up to date and forget old versions."""
        from lancedb.index import BTree

        for name in self.names():
            table = self._table(name)
            with self._writing(name), warnings.catch_warnings():
                if table.count_rows() >= _INDEX_FROM_ROWS:
                    indexed = {column for index in table.list_indices() for column in index.columns}
                    for column in _indexed(name):
                        if column not in indexed:
                            table.create_index(column, config=BTree())
                # A table that is still empty has nothing to compact, which the library warns about.
                warnings.simplefilter("ignore")
                table.optimize(cleanup_older_than=_KEEP_ALL)
            # What is forgotten is gone at once: only after what takes its place is on the disk.
            with self._writing(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                table.optimize(cleanup_older_than=_KEEP_VERSIONS)

    def _checked(self, name: str) -> Any:  # noqa: ANN401
        """A table whose files are as they were written."""
        table = self._table(name)
        self.files(name).check(int(table.version))
        return table

    def _table(self, name: str) -> Any:  # noqa: ANN401
        if name not in self._open:
            with self._reading(name):
                self.files(name).check(None)
                self._open[name] = self._database.open_table(name)
        return self._open[name]

    @contextmanager
    def _writing(self, name: str, wanted: int | None = None) -> Iterator[None]:
        """Whatever is written in the block is on the disk when it ends: the database leaves that open."""
        with storing(self._folder / name, wanted):
            yield
            sync_tree(self._folder, self._synced, last="_versions")
            self.files(name).note()

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """Turn what the database says of a damaged table into one line that says what to do."""
        try:
            yield
        except LimnerError:
            raise
        # The database raises plain ValueError, RuntimeError and OSError, and a bare Exception for a panic.
        except Exception as error:
            reason = " ".join(str(error).split())[:120]
            raise DataError(
                f"{self._folder / name}: table cannot be read ({type(error).__name__}: {reason});"
                f" if it is damaged, {MEND}"
            ) from error


def _indexed(name: str) -> tuple[str, ...]:
    """Columns by which rows of a table are looked up, its key first."""
    return ("key", "sha256") if name == FILES else ("id",)


def chunks(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Runs of at most `size` values."""
    return (values[start : start + size] for start in range(0, len(values), size))


def _among(column: str, values: Sequence[str]) -> str:
    """SQL for "one of these"; the values are hexadecimal digits, so that quoting is safe."""
    wrong = [value for value in values if set(value) - set("0123456789abcdef")]
    if wrong:
        raise DataError(f"{column}: {wrong[0]!r} is no hexadecimal key")
    return f"{column} IN ({', '.join(repr(value) for value in values)})"
