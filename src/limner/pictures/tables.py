"""Tables that name pictures and say something about them: CSV, JSON lines and Parquet.

Read row by row, in a folder beside the pictures or as a list of its own, from a disk or object storage.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, groupby

from limner.errors import DataError
from limner.pictures.decode import display
from limner.pictures.metadata import Words, merge, words_of_row
from limner.pictures.stored import address, stream

# Paths are bytes here, since a file name need not be UTF-8; pathlib cannot hold those.
# ruff: noqa: PTH117, PTH118, PTH120, PTH122

METADATA_NAMES = (b"metadata.jsonl", b"metadata.csv", b"metadata.parquet")
CAPTIONS_NAMES = (b"captions.jsonl", b"captions.csv")
TABLE_NAMES = METADATA_NAMES + CAPTIONS_NAMES
"""Tables that are read with the folder they lie in: of each kind the first that is there."""
LIST_SUFFIXES = frozenset((b".jsonl", b".csv", b".parquet"))
PATH_KEYS = ("file_name", "path", "file_path", "filename", "file", "image")


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        path: absolute path of the picture.
        words: what the line says about it.
        key: hash of the line's content.
        where: table and line, for messages.
    """

    path: bytes
    words: Words
    key: bytes
    where: str


def folder_rows(tables: Sequence[bytes]) -> tuple[dict[bytes, Row], list[tuple[bytes, str]]]:
    """Rows of a folder's tables by path, and what is wrong with which table.

    Several lines for one picture add up.
    """
    rows: dict[bytes, Row] = {}
    problems: list[tuple[bytes, str]] = []
    for table in tables:
        try:
            for row in list_rows(table):
                if isinstance(row, str):
                    problems.append((table, row))
                else:
                    rows[row.path] = _joined(rows[row.path], row) if row.path in rows else row
        except DataError as error:
            problems.append((table, str(error)))
    return rows, problems


def joined_rows(table: bytes) -> Iterator[Row | str]:
    """As `list_rows`, but consecutive lines for one picture (one caption each) are one row."""
    met: set[bytes] = set()
    for _, run in groupby(list_rows(table), key=lambda one: one.path if isinstance(one, Row) else None):
        lines = list(run)
        rows = [one for one in lines if isinstance(one, Row)]
        # of a long list its paths are not kept, but what tells them apart
        mark = hashlib.blake2b(rows[0].path, digest_size=8).digest() if rows else b""
        if not rows:
            yield from lines
        elif mark in met:
            again = f"{display(rows[0].path)} was listed before, further up; this line is not used"
            yield from (f"{one.where}: {again}" for one in rows)
        else:
            met.add(mark)
            yield reduce(_joined, rows)


def _joined(first: Row, second: Row) -> Row:
    captions = first.words.captions + second.words.captions
    words = replace(merge((first.words, second.words)), captions=captions)
    return replace(first, words=words, key=hashlib.sha256(first.key + second.key).digest())


def list_rows(table: bytes) -> Iterator[Row | str]:
    """Rows of a table that names pictures, or what is wrong with a line.

    Args:
        table: absolute path; paths in it are relative to its folder or absolute.
    Raises:
        DataError: not readable as what its suffix says, or without a column of paths.
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
        if not isinstance(target, str) or not target.strip():
            yield f"{where}: {known} is {target!r}; expected a path"
            continue
        try:
            content = json.dumps(values, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
            path = below(folder, os.fsencode(target))
        except (UnicodeEncodeError, RecursionError) as error:
            yield f"{where}: {known} is no path, or the line is nested too deeply ({error})"
            continue
        rest = {key: value for key, value in values.items() if key != known}
        yield Row(path, words_of_row(rest, "metadata"), hashlib.sha256(content).digest(), where)


def _values(table: bytes) -> Iterator[tuple[int, Mapping[str, object] | str]]:
    """Line number (1-based) and values of every line; a text in place of values says what is wrong."""
    suffix = os.path.splitext(table)[1].lower()
    try:
        if suffix == b".parquet":
            yield from _parquet(table)
            return
        with stream(table) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as lines:
            if suffix == b".csv":
                for number, values in enumerate(csv.DictReader(lines), start=2):
                    yield number, {str(key): value for key, value in values.items() if key is not None}
            else:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        yield number, _json_line(line)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{display(table)}: cannot be read ({error}); mend or remove it") from error


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
        with stream(table) as stored, parquet.ParquetFile(stored) as file:
            batches = (batch.to_pylist() for batch in file.iter_batches(4096))
            yield from enumerate(chain.from_iterable(batches), start=1)
    except pyarrow.ArrowException as error:
        raise DataError(f"{display(table)}: not parquet ({error}); mend or remove it") from error


def below(folder: bytes, name: bytes) -> bytes:
    """What a table in a folder means by a name: a path or an address."""
    named, base = address(name), address(folder)
    if named is not None:
        return os.fsencode(str(named))
    if base is None or os.path.isabs(name):
        return os.path.normpath(os.path.join(folder, name))
    key = posixpath.normpath(posixpath.join(base.key, os.fsdecode(name)))
    return os.fsencode(str(replace(base, key=key)))
