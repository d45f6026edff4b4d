"""Tables that name pictures: `metadata.jsonl` of an image folder, and lists of paths.

JSON lines, CSV and parquet yield the same rows: a path and its words. It reads tables; it opens no picture.
"""

# Paths are bytes here, since a file name need not be UTF-8; pathlib cannot hold those.
# ruff: noqa: PTH118, PTH120

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from limner.data.images import display
from limner.data.sidecars import words_of_row
from limner.data.words import Words
from limner.errors import DataError

METADATA_NAMES = (b"metadata.jsonl", b"metadata.csv", b"metadata.parquet")
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


def folder_rows(folder: bytes, name: bytes) -> tuple[dict[bytes, Row], list[str]]:
    """Rows of a folder's metadata table by path, and what is wrong with the table.

    Several lines for one picture add up.
    """
    rows: dict[bytes, Row] = {}
    problems: list[str] = []
    try:
        for row in list_rows(os.path.join(folder, name)):
            if isinstance(row, str):
                problems.append(row)
            elif row.path in rows:
                rows[row.path] = _joined(rows[row.path], row)
            else:
                rows[row.path] = row
    except DataError as error:
        problems.append(str(error))
    return rows, problems


def joined_rows(table: bytes) -> Iterator[Row | str]:
    """As `list_rows`, but consecutive lines for one picture (one caption each) are one row."""
    last: Row | None = None
    met: set[bytes] = set()
    for row in list_rows(table):
        if isinstance(row, Row) and last is not None and row.path == last.path:
            last = _joined(last, row)
            continue
        if last is not None:
            yield last
            last = None
        if isinstance(row, str):
            yield row
            continue
        mark = hashlib.blake2b(row.path, digest_size=8).digest()
        if mark in met:
            yield f"{row.where}: {display(row.path)} was listed before, further up; this line is not used"
            continue
        met.add(mark)
        last = row
    if last is not None:
        yield last


def _joined(first: Row, second: Row) -> Row:
    one, other = first.words, second.words
    words = Words(
        captions=one.captions + other.captions,
        credit=one.credit or other.credit,
        license=one.license or other.license,
        taken=one.taken or other.taken,
    )
    return Row(first.path, words, hashlib.sha256(first.key + second.key).digest(), first.where)


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
        if known is None or known not in values:
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
            path = os.path.normpath(os.path.join(folder, os.fsencode(target)))
        except (UnicodeEncodeError, RecursionError) as error:
            yield f"{where}: {known} is no path, or the line is nested too deeply ({error})"
            continue
        rest = {key: value for key, value in values.items() if key != known}
        yield Row(path, words_of_row(rest, "metadata"), hashlib.sha256(content).digest(), where)


def _values(table: bytes) -> Iterator[tuple[int, Mapping[str, object] | str]]:
    """Line number (1-based) and values of every line; a text in place of values says what is wrong."""
    path = Path(os.fsdecode(table))
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            yield from _parquet(path)
        elif suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as stream:
                for number, values in enumerate(csv.DictReader(stream), start=2):
                    yield number, {str(key): value for key, value in values.items() if key is not None}
        else:
            with path.open(encoding="utf-8-sig") as stream:
                for number, line in enumerate(stream, start=1):
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


def _parquet(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    import pyarrow
    from pyarrow import parquet

    try:
        number = 0
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(4096):
                for values in batch.to_pylist():
                    number += 1
                    yield number, values
    except pyarrow.ArrowException as error:
        raise DataError(f"{display(os.fsencode(path))}: not parquet ({error}); mend or remove it") from error
