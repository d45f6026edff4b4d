"""Reads tables that name and describe pictures: CSV, JSON Lines and Parquet.

Read row by row, from a folder with pictures or as a separate list, from a disk or object storage.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import posixpath
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import TYPE_CHECKING

from typing_extensions import override

from limner.errors import DataError
from limner.files import composed, display
from limner.locations import address, beginning, stream
from limner.pictures.metadata import Words, merge, words_of_row

if TYPE_CHECKING:
    import pyarrow

# Paths are bytes here, since a file name need not be UTF-8; pathlib cannot hold those.
# ruff: noqa: PTH117, PTH118, PTH120, PTH122

PATH_KEYS = ("file_name", "path", "file_path", "filename", "file", "image")
MAX_LINE_CHARS, MAX_COLUMNS = 1_000_000, 1_000
"""Maximum number of characters, and of columns, of one line of a table."""
MAX_GROUP_BYTES, MAX_TEXT_BYTES = 2**31, 2**28
"""Maximum size of a row group of a Parquet table, and of the text of lines that are read together."""


@dataclass(frozen=True)
class TableRow:
    """One line of a table.

    Attributes:
        path: absolute path of the picture.
        words: words from the line.
        key: hash of the line's content.
        where: table and line, for messages.
    """

    path: bytes
    words: Words
    key: bytes
    where: str


def folder_rows(tables: Sequence[bytes]) -> tuple[dict[bytes, TableRow], list[tuple[bytes, str]]]:
    """Rows of a folder's tables by `composed` path, and the errors of each table.

    Several lines for one picture are combined.
    """
    rows: dict[bytes, list[TableRow]] = {}
    problems: list[tuple[bytes, str]] = []
    for table in tables:
        try:
            for row in list_rows(table):
                if isinstance(row, str):
                    problems.append((table, row))
                else:
                    rows.setdefault(composed(row.path), []).append(row)
        except DataError as error:
            problems.append((table, str(error)))
    return {path: _joined(lines) for path, lines in rows.items()}, problems


def joined_rows(table: bytes) -> Iterator[TableRow | str]:
    """Like `list_rows`, but consecutive lines for one picture (one caption each) are one row."""
    met: set[bytes] = set()
    for _, run in groupby(list_rows(table), key=lambda one: one.path if isinstance(one, TableRow) else None):
        lines = list(run)
        rows = [one for one in lines if isinstance(one, TableRow)]
        # hashes instead of paths, since a list may be long
        mark = hashlib.blake2b(rows[0].path, digest_size=8).digest() if rows else b""
        if not rows:
            yield from lines
        elif mark in met:
            again = f"{display(rows[0].path)} was listed before, further up; this line is not used"
            yield from (f"{one.where}: {again}" for one in rows)
        else:
            met.add(mark)
            yield _joined(rows)


def _joined(rows: Sequence[TableRow]) -> TableRow:
    """Combine all lines for one picture into one row; a single line is unchanged."""
    first, *others = rows
    if not others:
        return first
    key = first.key
    for row in others:
        key = hashlib.sha256(key + row.key).digest()
    captions = tuple(chain.from_iterable(row.words.captions for row in rows))
    return replace(first, words=replace(merge(row.words for row in rows), captions=captions), key=key)


def list_rows(table: bytes) -> Iterator[TableRow | str]:
    """Rows of a table that names pictures, or the error of a line.

    Args:
        table: absolute path; paths in it are relative to its folder or absolute.
    Raises:
        DataError: the table cannot be read as its extension indicates, or has no column of paths.
    """
    name = display(table)
    folder = os.path.dirname(table)
    known: str | None = None
    for number, values in _values(table):
        where = f"{name} line {number}"
        if isinstance(values, str):
            yield f"{where}: {values}"
            continue
        if known not in values:
            lower = {key.strip().lower(): key for key in values}
            known = next((lower[key] for key in PATH_KEYS if key in lower), None)
        if known is None:
            raise DataError(f"{where}: no column of paths; expected one of {', '.join(PATH_KEYS)}")
        target = values[known]
        if isinstance(target, bytes) or (isinstance(target, dict) and "bytes" in target):
            raise DataError(
                f"{where}: {known} holds a picture; pictures inside a table are not read; expected a path;"
                " unpack them into a folder"
            )
        if not isinstance(target, str) or not target.strip() or "\0" in target:
            yield f"{where}: {known} is {target!r:.80}; expected a path"
            continue
        try:
            content = json.dumps(values, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
            path = below(folder, os.fsencode(target))
            words = words_of_row({key: value for key, value in values.items() if key != known}, "metadata")
        except (UnicodeEncodeError, RecursionError) as error:
            yield f"{where}: {known} is not a path, or the line is nested too deeply ({error})"
            continue
        yield TableRow(path, words, hashlib.sha256(content).digest(), where)


def _values(table: bytes) -> Iterator[tuple[int, Mapping[str, object] | str]]:
    """Line number (from 1) and values of every line; a string instead of values is an error."""
    suffix = os.path.splitext(table)[1].lower()
    try:
        if suffix == b".parquet":
            yield from _parquet(table)
            return
        marked = beginning(table, 2) in (BOM_UTF16_BE, BOM_UTF16_LE)
        encoding = "utf-16" if marked else "utf-8-sig"
        with stream(table) as file, io.TextIOWrapper(file, encoding=encoding, newline="") as opened:
            lines = _Lines(opened, table)
            if suffix == b".csv":
                head = next(lines, "")
                # Programs write semicolons in locales with decimal commas, and tabs in "Unicode text".
                delimiter = max(",;\t", key=head.count)
                reader = csv.DictReader(chain((head,), lines), delimiter=delimiter)
                _check_columns(reader.fieldnames or (), table)
                for number, values in enumerate(reader, start=2):
                    lines.taken = 0
                    yield number, {str(key): value for key, value in values.items() if key is not None}
            else:
                for number, line in enumerate(lines, start=1):
                    lines.taken = 0
                    if line.strip():
                        yield number, _json_line(line)
    except UnicodeDecodeError as error:
        raise DataError(f"{display(table)}: is not UTF-8 ({error.reason}); save it as UTF-8") from error
    except (OSError, csv.Error) as error:
        raise DataError(f"{display(table)}: cannot be read ({error}); correct or remove it") from error


class _Lines(Iterator[str]):
    """Lines of a file, with a limit on the length of a row; `taken` characters belong to the current row."""

    def __init__(self, file: io.TextIOWrapper, table: bytes) -> None:
        self.taken = 0
        self._file, self._table = file, table

    @override
    def __next__(self) -> str:
        line = self._file.readline(MAX_LINE_CHARS + 1)
        if not line:
            raise StopIteration
        self.taken += len(line)
        if self.taken > MAX_LINE_CHARS:
            raise DataError(
                f"{display(self._table)}: a line is longer than {MAX_LINE_CHARS:,} letters;"
                " expected one line per picture; split it"
            )
        return line


def _check_columns(names: Sequence[str], table: bytes) -> None:
    if len(names) > MAX_COLUMNS:
        raise DataError(
            f"{display(table)}: has {len(names):,} columns; expected at most {MAX_COLUMNS:,};"
            " keep those that describe pictures"
        )


def _json_line(line: str) -> Mapping[str, object] | str:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON ({error})"
    return values if isinstance(values, dict) else f"expected an object, found {type(values).__name__}"


def _parquet(table: bytes) -> Iterator[tuple[int, Mapping[str, object]]]:
    import pyarrow
    from pyarrow import parquet

    try:
        with stream(table) as stored, parquet.ParquetFile(stored) as head:
            _check_columns(head.schema_arrow.names, table)
            groups = [head.metadata.row_group(number) for number in range(head.metadata.num_row_groups)]
            _check_bytes(
                "a row group", max((one.total_byte_size for one in groups), default=0), MAX_GROUP_BYTES, table
            )
            # A text that many lines share is then in memory only once until its total size is known.
            leaves = (head.schema.column(number) for number in range(len(head.schema)))
            texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
            with parquet.ParquetFile(stored, read_dictionary=texts, metadata=head.metadata) as file:
                number = 0
                for batch in file.iter_batches(4096):
                    lines, size = (
                        f"lines {number + 1:,} to {number + len(batch):,}",
                        sum(map(_text_bytes, batch.columns)),
                    )
                    _check_bytes(lines, size, MAX_TEXT_BYTES, table)
                    yield from enumerate(batch.to_pylist(), start=number + 1)
                    number += len(batch)
    # Besides Arrow's own errors: those of values that Python cannot represent, such as times outside its
    # calendar, or unknown time zones.
    except (pyarrow.ArrowException, OverflowError, LookupError) as error:
        raise DataError(f"{display(table)}: not parquet ({error}); correct or remove it") from error


def _check_bytes(what: str, found: int, most: int, table: bytes) -> None:
    if found > most:
        raise DataError(
            f"{display(table)}: {found:,} bytes in {what}; expected at most {most:,};"
            " keep the columns that describe pictures, or write smaller row groups"
        )


def _text_bytes(column: pyarrow.Array) -> int:
    """Number of bytes of all texts in a column, each counted for every line that has it."""
    from pyarrow import compute, types

    if types.is_dictionary(column.type):
        return compute.sum(compute.binary_length(column.dictionary).take(column.indices)).as_py() or 0
    if types.is_struct(column.type):
        return sum(map(_text_bytes, column.flatten()))
    if types.is_nested(column.type):
        return _text_bytes(column.flatten())
    return 0


def below(folder: bytes, name: bytes) -> bytes:
    """Path or URL to which a name in a folder's table refers."""
    named, base = address(name), address(folder)
    if named is not None:
        return os.fsencode(str(named))
    if base is None or os.path.isabs(name):
        return os.path.normpath(os.path.join(folder, name))
    key = posixpath.normpath(posixpath.join(base.key, os.fsdecode(name)))
    return os.fsencode(str(replace(base, key=key)))
