"""Pictures whose bytes lie in a table: Lance, Parquet, and the .tar shards of WebDataset.

A picture in one has the path ``TABLE#KEY``: the name of a member of a .tar, else the number of the row,
from 0. Nothing is unpacked.
"""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

from limner.errors import DataError, LimnerError
from limner.locations import storage_options
from limner.pictures import stored
from limner.pictures.formats import PICTURE_SUFFIXES, PictureError
from limner.pictures.stored import Status, address, status, stream

if TYPE_CHECKING:
    import pyarrow as pa

TAR, LANCE, PARQUET = b".tar", b".lance", b".parquet"
TEXT_SUFFIXES = (".txt", ".json", ".xmp")
"""Members of a .tar that describe the picture of the same name."""
MAX_TEXT_BYTES = 256 * 1024
COLUMNS = ("image", "picture", "bytes", "image_bytes", "jpg", "jpeg", "png", "webp", "img", "content", "data")
"""Names by which a column of pictures is known where several hold bytes."""
_ROW = re.compile(rb"(.+\.(?:tar|lance|parquet))#([^#]+)", re.DOTALL | re.IGNORECASE)
_ROWS = 4096


@dataclass(frozen=True)
class PackedPicture:
    """One picture of a table.

    Attributes:
        key: what follows ``#`` in its path.
        size: bytes; −1 where only reading tells.
        values: texts of its row.
        beside: suffix → content of the members that describe it.
    """

    key: str
    size: int = -1
    values: Mapping[str, object] = field(default_factory=dict)
    beside: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def words_key(self) -> str:
        """Changes whenever what is said about it does; "" where nothing is."""
        said = repr((sorted(self.values.items()), sorted(self.beside.items())))
        return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:16] if len(said) > 8 else ""


def row_of(path: bytes) -> tuple[bytes, str] | None:
    """Table and key of the path of a picture in a table; None for any other path."""
    met = _ROW.fullmatch(path)
    return None if met is None else (met[1], os.fsdecode(met[2]))


def is_there(path: str) -> bool:
    """Whether a file, an object, or the table that held a picture is there; what cannot be reached is not."""
    row = row_of(os.fsencode(path))
    if stored.is_there(path) or row is None:
        return stored.is_there(path)
    return stored.is_there(os.fsdecode(row[0])) or os.path.isdir(row[0])  # noqa: PTH112


def holds_pictures(table: bytes) -> bool:
    """Whether a source is a table of pictures, by its suffix, of a Parquet file by its columns."""
    suffix = _suffix(table)
    if suffix != PARQUET:
        return suffix in (TAR, LANCE)
    try:
        with _parquet(table) as file:
            return _column(file.schema_arrow) is not None
    except DataError:
        return False  # whoever reads it as a list says what is wrong


def state(table: bytes) -> Status:
    """What changes with a table: size and time of its file; of Lance the number and time of its version.

    Raises:
        DataError: it cannot be read.
    """
    with _reading(table):
        if _suffix(table) != LANCE:
            return status(table)
        version = _lance(table).versions()[-1]
        return Status(int(version["version"]), round(version["timestamp"].timestamp() * 1e9))


def count(table: bytes) -> int:
    """Number of pictures; of rows where only reading tells which hold one."""
    with _reading(table):
        if _suffix(table) == TAR:
            return sum(_is_picture(name) for name in _members(table, state(table)))
        if _suffix(table) == LANCE:
            return int(_lance(table).count_rows())
        with _parquet(table) as file:
            return int(file.metadata.num_rows)


def pictures(table: bytes) -> Iterator[PackedPicture]:
    """All pictures of a table, in its order, without their bytes.

    Raises:
        DataError: it cannot be read, or has no column of bytes.
    """
    with _reading(table):
        if _suffix(table) == TAR:
            yield from _tar_pictures(table)
        elif _suffix(table) == LANCE:
            data = _lance(table)
            texts = _texts(data.schema, _expected(table, data.schema))
            rows = data.scanner(texts or [], batch_size=_ROWS, scan_in_order=True, with_row_id=not texts)
            yield from _numbered(rows.to_batches(), texts)
        else:
            with _parquet(table) as file:
                texts = _texts(file.schema_arrow, _expected(table, file.schema_arrow))
                yield from _numbered(file.iter_batches(_ROWS, columns=texts), texts)


def _numbered(batches: Iterator[pa.RecordBatch], texts: list[str]) -> Iterator[PackedPicture]:
    number = 0
    for batch in batches:
        rows = batch.select(texts).to_pylist() if texts else [{}] * batch.num_rows
        for row in rows:
            yield PackedPicture(str(number), values={name: said for name, said in row.items() if said})
            number += 1


def read(table: bytes, key: str) -> bytes:
    """The bytes of one picture.

    Raises:
        PictureError: the table cannot be read, or holds no such picture.
    """
    try:
        with _reading(table):
            if _suffix(table) == TAR:
                return _tar_bytes(table, key)
            row = int(key) if key.isdecimal() else -1
            found = _lance_bytes(table, row) if _suffix(table) == LANCE else _group_bytes(table, row)
    except DataError as error:
        raise PictureError(str(error), lasting=False) from error
    except (KeyError, IndexError) as error:
        raise PictureError(f"the table holds no {key!r} any more", lasting=False) from error
    if found is None:
        raise PictureError("the row holds no picture")
    return found


@contextmanager
def _reading(table: bytes) -> Iterator[None]:
    """Turn what libraries say of a table that they cannot read into one line."""
    import pyarrow as pa

    try:
        yield
    except (LimnerError, KeyError, IndexError):
        raise
    # Lance raises plain ValueError, RuntimeError and OSError.
    except (OSError, RuntimeError, ValueError, tarfile.TarError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:160]
        shown = table.decode("utf-8", "backslashreplace")
        raise DataError(
            f"{shown}: cannot be read as a table of pictures ({reason}); mend or remove it"
        ) from error


def _suffix(table: bytes) -> bytes:
    return os.path.splitext(table.rstrip(b"/"))[1].lower()  # noqa: PTH122


def _is_picture(name: str) -> bool:
    return os.path.splitext(name)[1].lower().encode() in PICTURE_SUFFIXES  # noqa: PTH122


@lru_cache(maxsize=4)
def _members(table: bytes, _state: Status) -> dict[str, tuple[int, int]]:
    """Name of each regular member → where its bytes begin, and their number."""
    found, last = dict[str, tuple[int, int]](), -1
    with stream(table) as file, tarfile.open(fileobj=file, mode="r:") as archive:
        for one in archive:
            if one.offset_data <= last:  # a size below 0 leads back to the same member for ever
                raise tarfile.ReadError(f"member {one.name!r:.80} begins before the one that it follows")
            last = one.offset_data
            if one.isreg() and not one.issparse():
                found[one.name] = one.offset_data, one.size
    return found


def _tar_pictures(table: bytes) -> Iterator[PackedPicture]:
    """Neighbours of one name up to its first dot, as WebDataset has it, describe each other."""
    members = _members(table, state(table))
    with stream(table) as file:
        for _, run in groupby(members, key=lambda name: re.sub(r"\.[^/]*$", "", name)):
            names = list(run)
            beside = {}
            for name in names:
                at, size = members[name]
                suffix = name[name.rfind(".") :].lower()
                if suffix in TEXT_SUFFIXES and size <= MAX_TEXT_BYTES:
                    file.seek(at)
                    beside[suffix] = file.read(size)
            for name in filter(_is_picture, names):
                yield PackedPicture(name, members[name][1], beside=beside)


def _tar_bytes(table: bytes, key: str) -> bytes:
    at, size = _members(table, state(table))[key]
    with stream(table) as file:
        file.seek(at)
        return file.read(size)


def _lance(table: bytes) -> Any:  # noqa: ANN401
    import lance

    place = address(table)
    if place is None:
        return lance.dataset(os.fsdecode(table))
    return lance.dataset(str(place), storage_options=storage_options(place))


def _lance_bytes(table: bytes, row: int) -> bytes | None:
    data = _lance(table)
    column = _expected(table, data.schema)
    if not 0 <= row < data.count_rows():
        raise IndexError(row)
    return _plain(data.take([row], columns=[column])[column][0].as_py())


@contextmanager
def _parquet(table: bytes) -> Iterator[Any]:
    from pyarrow import parquet

    with _reading(table), stream(table) as file, parquet.ParquetFile(file) as opened:
        yield opened


_GROUPS = threading.Lock()


def _group_bytes(table: bytes, row: int) -> bytes | None:
    """Of a Parquet file a group of rows is read at a time; neighbours are in the one that was read last."""
    now = state(table)
    if row < 0:
        raise IndexError(row)
    with _GROUPS:
        starts = _starts(table, now)
        group = next(number for number, start in reversed(list(enumerate(starts))) if start <= row)
        return _plain(_group(table, now, group)[row - starts[group]].as_py())


@lru_cache(maxsize=16)
def _starts(table: bytes, _state: Status) -> list[int]:
    with _parquet(table) as file:
        meta = file.metadata
        sizes = [meta.row_group(number).num_rows for number in range(meta.num_row_groups)]
    return list(accumulate(sizes[:-1], initial=0))


@lru_cache(maxsize=2)
def _group(table: bytes, _state: Status, group: int) -> pa.ChunkedArray:
    with _parquet(table) as file:
        column = _expected(table, file.schema_arrow)
        return file.read_row_group(group, columns=[column])[column]


def _plain(value: Any) -> bytes | None:  # noqa: ANN401
    """Bytes of a cell: itself, or those of a record {bytes, path} as Hugging Face writes it."""
    return value.get("bytes") if isinstance(value, dict) else value


def _column(schema: pa.Schema) -> str | None:
    """The column of pictures: of those that hold bytes the first with a usual name, else the first."""
    import pyarrow.types as kinds

    def holds(kind: pa.DataType) -> bool:
        if kinds.is_struct(kind):
            return kind.get_field_index("bytes") >= 0 and holds(kind.field("bytes").type)
        return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind))

    found = [one.name for one in schema if holds(one.type)]
    return next((name for name in COLUMNS if name in found), found[0] if found else None)


def _expected(table: bytes, schema: pa.Schema) -> str:
    column = _column(schema)
    if column is None:
        raise DataError(
            f"{table.decode('utf-8', 'backslashreplace')}: no column of bytes among"
            f" {', '.join(schema.names)}; expected pictures in one such as {COLUMNS[0]!r}"
        )
    return column


def _texts(schema: pa.Schema, column: str) -> list[str]:
    """Columns of texts, and of lists of them."""
    import pyarrow.types as kinds

    def is_text(kind: pa.DataType) -> bool:
        inner = kind.value_type if kinds.is_list(kind) or kinds.is_large_list(kind) else kind
        return bool(kinds.is_string(inner) or kinds.is_large_string(inner))

    return [one.name for one in schema if one.name != column and is_text(one.type)]
