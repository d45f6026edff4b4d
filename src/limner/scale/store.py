"""Settings of a library in `library.json`, and its tables.

Written in one step, so that a kill leaves the old state or the new one. Pictures are in the tables.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import Field, ValidationError

from limner.checksums import checksum, unseal
from limner.config import Record
from limner.errors import DataError, LimnerError, MissingError
from limner.locations import Location
from limner.scale.tables import MEND, RENEW, BusyError, Checksums, tables_at
from limner.store import SpaceInfo

T = TypeVar("T")
FORMAT = 3
SETTINGS_FILE = "library.json"
APPROXIMATE_FROM = 2_000_000
"""Number of pictures from which searches use an approximate index, see docs/scale.md."""
RECALL = 0.99
"""Recall, 0 to 1, that a search index should reach."""


class Approximation(Record):
    """Parameters of a search index, with its recall measured on vectors of the library.

    Attributes:
        version: version of the table on which it was measured.
        rows: number of vectors at that time.
        partitions: number of partitions of the index; 0 if all vectors are compared because there are few.
        probes: number of partitions searched per text.
        candidates: minimum number of vectors compared in full per text.
        recall: share of the 50 nearest vectors that is found, 0 to 1; `low` and `high` are its 95 % interval.
        queries: number of vectors with which it was measured.
    """

    version: int
    rows: int
    partitions: int
    probes: int
    candidates: int
    recall: float
    low: float
    high: float
    queries: int

    def __str__(self) -> str:
        """Description for the user."""
        if not self.partitions:
            return f"none; all {self.rows:,} vectors are compared"
        found = f"{self.recall:.1%} ({self.low:.1%}–{self.high:.1%}) of the 50 nearest are found"
        short = "" if self.recall >= RECALL else f", less than the {RECALL:.0%} aimed at"
        return f"{found}{short}; {self.probes:,} of {self.partitions:,} parts, {self.candidates:,} candidates"


class TableSettings(Record):
    """Content of `library.json`.

    Attributes:
        format: version of the layout on disk.
        spaces: encoder by vector space.
        sources: folders and lists indexed so far, absolute; odd bytes as surrogates.
        reader: version of the reader of pictures; unusable files are tried again when it changes.
        grouped: False while near-duplicate groups are out of date.
        languages: estimated share of the captions by language, largest first; empty if unknown.
        approximate_from: number of pictures from which searches use an approximate index.
        searches: parameters of the search index by vector space; see `limner.scale.approximate`.
    """

    format: int = FORMAT
    spaces: dict[str, SpaceInfo] = Field(default={})
    sources: tuple[str, ...] = ()
    reader: str = ""
    grouped: bool = True
    languages: dict[str, float] = Field(default={})
    approximate_from: int = Field(default=APPROXIMATE_FROM, ge=0)
    searches: dict[str, Approximation] = Field(default={})


def read_settings(folder: Path) -> TableSettings:
    """Settings of the library in a folder.

    Raises:
        MissingError: none exists.
        DataError: the settings are damaged, or another version of limner wrote them.
    """
    try:
        hint = "restore it from a copy, or remove its first entry, 'checksum', if you changed it yourself"
        sealed = (folder / SETTINGS_FILE).read_bytes()
        values = json.loads(unseal(sealed, folder / SETTINGS_FILE, hint))
        found = int(values["format"])
    except FileNotFoundError:
        raise MissingError(
            f"{folder}: no picture library here; make one with 'limner index PICTURES --library {folder}'"
        ) from None
    except DataError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{folder / SETTINGS_FILE}: damaged ({error}); {MEND}") from error
    check_format(str(folder), found, RENEW)
    values.pop("checksum", None)  # of a file that was changed by hand
    try:
        return TableSettings.model_validate(values)
    except ValidationError as error:
        raise DataError(f"{folder / SETTINGS_FILE}: damaged ({error.errors()[0]['msg']}); {MEND}") from error


def check_format(place: str, found: int, renew: str) -> None:
    """Refuse a library of another format.

    Args:
        place: folder or URL of the library.
        found: its format.
        renew: advice on a library of an earlier format.
    Raises:
        DataError: its format is not `FORMAT`.
    """
    if found != FORMAT:
        advice = "install a newer limner" if found > FORMAT else renew
        raise DataError(f"{place}: library format {found}; this limner reads {FORMAT}; {advice}")


FILES, PICTURES = "files", "pictures"
WORDS, STATISTICS = "words", "statistics"
DESCRIPTIONS = "descriptions"
OCR = "ocr"
COORDINATES = "coordinates"
SCAN_ROWS = 8192
_INDEX_FROM_ROWS = 20_000
_FRAGMENT_ROWS = 131_072  # fragments of so many rows are not compacted
_LOOKUP_VALUES = 1000
_TRAINING_ROWS = 64  # training vectors per partition of a search index
_RETRIES, _RETRY_TIME = 60, timedelta(minutes=5)  # of commits that conflict with another process
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
        ("taken_from", pa.string()),
        ("camera", pa.string()),
        ("stamp", pa.string()),
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
        ("taken_from", pa.string()),
        ("camera", pa.string()),
        ("captions", _CAPTIONS),
        ("labels", pa.list_(pa.struct([("name", pa.string()), ("probability", pa.float64())]))),
        ("credit", pa.string()),
        ("license", pa.string()),
    ]
)
"""Columns of `pictures`: one row per content, the fields of `records.Picture`."""

WORDS_SCHEMA = pa.schema([("id", pa.string()), ("captions", _CAPTIONS)])
"""Columns of `words`: the user's captions of a picture, which replace those of its files."""

DESCRIPTIONS_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("model", pa.string()),
        ("sentence", pa.string()),
        ("keywords", pa.list_(pa.string())),
    ]
)
"""Columns of `descriptions`: a model's caption of a picture, in addition to those of its files."""

OCR_SCHEMA = pa.schema([("id", pa.string()), ("engine", pa.string()), ("text", pa.string())])
"""Columns of `ocr`: the text in a picture, one line each, and the fingerprint of the OCR engine."""

COORDINATES_SCHEMA = pa.schema([("id", pa.string()), ("latitude", pa.float64()), ("longitude", pa.float64())])
"""Columns of `coordinates`: key of a file that states where its picture was taken, and the degrees."""

STATISTICS_SCHEMA = pa.schema([("id", pa.string()), ("data", pa.large_binary())])
"""Columns of `statistics`: vector space, and the statistics of all its vectors that a search needs."""

SCHEMAS = {PICTURES: PICTURES_SCHEMA, FILES: FILES_SCHEMA}
LATER_SCHEMAS = {
    WORDS: WORDS_SCHEMA,
    DESCRIPTIONS: DESCRIPTIONS_SCHEMA,
    STATISTICS: STATISTICS_SCHEMA,
    OCR: OCR_SCHEMA,
    COORDINATES: COORDINATES_SCHEMA,
}
"""Tables that are created with their first row, even in libraries of older versions."""
PRESENT = "array_length(paths) > 0"
"""Condition on pictures: at least one file exists."""
CAPTIONED = f"{PRESENT} AND array_length(captions) > 0"


def vectors_schema(dim: int) -> pa.Schema:
    """Columns of the table of one vector space: picture, hash of what the vector was made from, vector."""
    return pa.schema(
        [("id", pa.string()), ("input_hash", pa.string()), ("vector", pa.list_(pa.float16(), dim))]
    )


def vectors_name(space: str) -> str:
    """Name of a space's table."""
    return f"vectors_{space}"


@dataclass(frozen=True)
class TableState:
    """One immutable version of a table.

    Attributes:
        name: name of the table.
        stamp: identifies the content: two states with the same stamp have the same rows. "" without a table.
        version: its number, from 1; 0 without a table.
    """

    name: str
    stamp: str = ""
    version: int = 0


class TableStore:
    """Tables below one folder or URL, in the format of Lance."""

    def __init__(self, place: Path | Location) -> None:
        """Open the tables without reading them.

        Args:
            place: location of the tables; created with the first one.
        """
        self._tables = tables_at(place)
        self._open: dict[str, Any] = {}

    @property
    def shared(self) -> bool:
        """Whether several processes may write at once."""
        return self._tables.shared

    def names(self) -> list[str]:
        """Names of all tables, without those whose creation was interrupted."""
        return self._tables.names()

    def has(self, name: str) -> bool:
        """Whether a table exists.

        Raises:
            MissingError: the object store cannot be reached, as in all methods that read or write tables.
        """
        return self._tables.has(name)

    def ensure(self, name: str, schema: pa.Schema) -> None:
        """Create a table if it does not exist.

        Raises:
            DataError: it exists with other columns.
            StorageError: the disk is full or cannot be written, as in all methods that write.
        """
        if not self.has(name):
            with self._tables.writing(name):
                self._tables.make(name, schema)
        found = self._table(name).schema
        if (found.names, found.types) != (schema.names, schema.types):
            raise DataError(
                f"{self._tables / name}: its columns are not those of this version; {self._tables.mend}"
            )

    def drop(self, name: str) -> None:
        """Remove a table if it exists."""
        if self.has(name):
            self._open.pop(name, None)
            with self._tables.writing(name):
                self._tables.drop(name)

    def files(self, name: str) -> Checksums:
        """Checksums of the files of a table, which may not exist."""
        return self._tables.files(name)

    def version(self, name: str) -> int:
        """Version number, which increases with every change of a table.

        Raises:
            DataError: the table is damaged.
        """
        with self._reading(name):
            newest = self._tables.newest(name)
            return int(self._table(name).version) if newest is None else newest[0]

    def count(self, name: str, where: str | None = None) -> int:
        """Number of rows.

        Raises:
            DataError: the table is damaged.
        """
        with self._reading(name):
            return int(self._checked(name).count_rows(where))

    def upsert(self, name: str, rows: pa.Table, known: Container[str] | None = None) -> None:
        """Write rows, replacing those with the same key (idempotent).

        Args:
            name: name of the table.
            rows: rows with unique keys.
            known: keys that the table may contain; other rows are appended, which is many times faster. None
                for all: other processes may be writing to the table.
        """
        if not rows.num_rows:
            return
        if name in LATER_SCHEMAS:
            self.ensure(name, LATER_SCHEMAS[name])
        table, key = self._table(name), _indexed(name)[0]
        known = None if self.shared else known
        there = [known is None or one in known for one in rows[key].to_pylist()]
        with self._tables.writing(name, rows.nbytes):
            if any(there):
                merge = table.merge_insert(key).when_matched_update_all().when_not_matched_insert_all()
                merge.conflict_retries(_RETRIES).retry_timeout(_RETRY_TIME)
                merge.execute(rows.filter(pa.array(there)))
            if not all(there):
                table.insert(rows.filter(pa.array([not one for one in there])))

    def delete(self, name: str, keys: Iterable[str]) -> None:
        """Remove rows by key."""
        for values in chunks(list(keys), _LOOKUP_VALUES):
            table = self._table(name)
            with self._tables.writing(name):
                table.delete(
                    among(_indexed(name)[0], values), conflict_retries=_RETRIES, retry_timeout=_RETRY_TIME
                )

    def scan(self, name: str, columns: Sequence[str], where: str | None = None) -> Iterator[pa.RecordBatch]:
        """Read all rows, in batches, in no particular order.

        Raises:
            DataError: the table is damaged.
        """
        with self._reading(name):
            yield from self._batches(name, self._checked(name), columns, where)

    def state(self, name: str) -> TableState:
        """Current version of a table. Reads only the list of its files, and without Lance if possible.

        Importing Lance takes longer than a search in the cache.

        Raises:
            DataError: the table is damaged.
        """
        if not self.has(name):
            return TableState(name)
        with self._reading(name):
            newest = self._tables.newest(name)
            if newest is not None:
                version, stamp = newest
                return TableState(name, stamp, version)
            table = self._table(name)
            table = table.checkout_version(table.version)
            # Lance never changes a file of a table, and never reuses a file name.
            files = [_files_of(one) for one in table.get_fragments()]
            return TableState(name, checksum(repr(files).encode()), int(table.version))

    def scan_state(
        self, state: TableState, columns: Sequence[str], where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read rows like `scan`, of a version of the table.

        Raises:
            DataError: the table is damaged, or another process has removed this version.
        """
        if not state.version:
            return
        with self._reading(state.name):
            self.files(state.name).check(state.version)
            yield from self._batches(state.name, self._table(state.name), columns, where, state.version)

    def _batches(
        self,
        name: str,
        table: Any,  # noqa: ANN401  (of Lance)
        columns: Sequence[str],
        where: str | None,
        version: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        begun = version or table.version
        try:
            read = table if version is None else table.checkout_version(version)
            for batch in read.scanner(list(columns), where, batch_size=SCAN_ROWS).to_batches():
                # Without marks of keys, which tables on object storage carry.
                yield pa.RecordBatch.from_arrays(batch.columns, names=batch.schema.names)
        except Exception as error:  # several types if a file is missing
            if table.latest_version == begun:
                raise
            raise DataError(
                f"{self._tables.address(name)}: another process finished indexing while the table was"
                " read; run the command again"
            ) from error

    def rows(self, name: str, columns: Sequence[str], where: str | None = None) -> Iterator[tuple[Any, ...]]:
        """Read rows like `scan`, one by one: the values of the columns in their order.

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
            column: an indexed text column of hexadecimal digits.
            values: hexadecimal digits.
            columns: columns to return; by default all.
        """
        if name in LATER_SCHEMAS and not self.has(name):
            return []
        names = columns or (SCHEMAS.get(name) or LATER_SCHEMAS[name]).names
        return [
            row
            for some in chunks(sorted(set(values)), _LOOKUP_VALUES)
            for batch in self.scan(name, names, among(column, some))
            for row in batch.to_pylist()
        ]

    def at(self, name: str) -> Any:  # noqa: ANN401
        """A snapshot of a table, which does not change when others write.

        Raises:
            DataError: the table is damaged.
        """
        with self._reading(name):
            table = self._table(name)
            return table.checkout_version(table.version)

    def reading(self, name: str) -> AbstractContextManager[None]:
        """Convert errors of reading a table in the block to a one-line `DataError`."""
        return self._reading(name)

    def index_vectors(self, name: str, partitions: int) -> None:
        """Rebuild the search index of a table of vectors, atomically.

        Args:
            name: name of the table, which has at least 256 vectors per partition.
            partitions: number of partitions.
        """
        table = self._table(name)
        with self._tables.writing(name):
            table.create_index(
                "vector",
                "IVF_RQ",
                name="vector",
                metric="cosine",
                num_partitions=partitions,
                num_bits=1,
                sample_rate=_TRAINING_ROWS,
                replace=True,
            )

    def compact(self) -> list[str]:
        """Merge small fragments, update search indices and remove old versions.

        A process that is reading an old version must read again, see `scan`. If several processes may write,
        versions of the last hours are kept.

        Returns:
            Names of the tables that could not be compacted because of other processes.
        """
        busy = []
        for name in self.names():
            table = self._table(name)
            del self._open[name]  # drops Lance's cache of every version that it has read
            try:
                with self._tables.writing(name):
                    self._join(name, table)
                # Old versions are deleted at once, so their replacement must be on disk first.
                with self._tables.writing(name):
                    table.cleanup_old_versions(self._tables.kept)
            except BusyError:
                busy.append(name)
        return busy

    def _join(self, name: str, table: Any) -> None:  # noqa: ANN401
        if table.count_rows() >= _INDEX_FROM_ROWS:
            indexed = {column for index in table.describe_indices() for column in index.field_names}
            for column in _indexed(name):
                if column not in indexed:
                    table.create_scalar_index(column, "BTREE")
        table.optimize.compact_files(target_rows_per_fragment=_FRAGMENT_ROWS)
        table.optimize.optimize_indices()

    def _checked(self, name: str) -> Any:  # noqa: ANN401
        """A table whose files match their checksums."""
        table = self._table(name)
        self.files(name).check(int(table.version))
        return table

    def _table(self, name: str) -> Any:  # noqa: ANN401
        """The current version of a table, including changes by other processes."""
        with self._reading(name):
            if name in self._open:
                self._open[name].checkout_latest()
            else:
                import lance

                self.files(name).check(None)
                self._open[name] = lance.dataset(
                    self._tables.address(name), storage_options=self._tables.options
                )
        return self._open[name]

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """Convert the database's error about a damaged table to one line with advice."""
        try:
            with self._tables.reading():
                yield
        except LimnerError:
            raise
        # The database raises plain ValueError, RuntimeError and OSError, and a bare Exception for a panic.
        except Exception as error:
            reason = self._tables.told(str(error))
            raise DataError(
                f"{self._tables / name}: table cannot be read ({type(error).__name__}: {reason});"
                f" if it is damaged, {self._tables.mend}"
            ) from (None if self.shared else error)  # it may contain a signed URL


def _files_of(fragment: Any) -> tuple[object, ...]:  # noqa: ANN401  (of Lance)
    """Number, files and deleted rows of a fragment of a table."""
    about = fragment.metadata.to_json()
    cut = about["deletion_file"]
    deleted = "" if cut is None else f"{cut['read_version']}-{cut['id']}"
    return fragment.fragment_id, [one["path"] for one in about["files"]], deleted


def _indexed(name: str) -> tuple[str, ...]:
    """Columns by which rows of a table are looked up, the key first."""
    return ("key", "sha256") if name == FILES else ("id",)


def chunks(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Runs of at most `size` values."""
    return (values[start : start + size] for start in range(0, len(values), size))


def among(column: str, values: Sequence[str]) -> str:
    """SQL for "one of these"; the values are hexadecimal digits, so that quoting is safe.

    Raises:
        DataError: a value is not.
    """
    wrong = [value for value in values if set(value) - set("0123456789abcdef")]
    if wrong:
        raise DataError(f"{column}: {wrong[0]!r} is not a hexadecimal key")
    return f"{column} IN ({', '.join(repr(value) for value in values)})"
