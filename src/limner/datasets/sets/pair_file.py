"""A file of pairs as JSON lines, one `limner.datasets.pairs.Pair` a line."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from limner.datasets.base import DataSet, Source, register
from limner.datasets.missing import with_pictures
from limner.datasets.pairs import Pair, PairSet
from limner.errors import DataError
from limner.files import json_rows, write_lines


def write_pairs(pairs: Iterable[Pair], path: Path | str) -> None:
    """Write pairs as JSON lines; the file appears whole or not at all.

    Raises:
        DataError: two pairs have one id, or a text is not Unicode.
    """
    target = Path(path)
    seen: set[str] = set()

    def lines() -> Iterator[str]:
        for pair in pairs:
            if pair.id in seen:
                raise DataError(f"{target.name}: id {pair.id!r} comes twice; give every pair its own")
            seen.add(pair.id)
            try:
                yield pair.model_dump_json(exclude_defaults=True)
            except ValueError as error:
                raise DataError(
                    f"{target.name}: pair {pair.id!r} cannot be written as UTF-8: {error}"
                ) from error

    write_lines(target, lines())


def read_pairs(path: Path | str) -> tuple[Pair, ...]:
    """Read pairs from JSON lines.

    Raises:
        MissingError: no such file.
        DataError: the file cannot be read, a line is not a pair, or an id comes twice.
    """
    pairs: list[Pair] = []
    seen: set[str] = set()
    rows = json_rows(
        Path(path),
        Pair,
        holds="a file of pairs is written with write_pairs",
        one="pair",
        see="limner.datasets.pairs",
    )
    for where, pair in rows:
        if pair.id in seen:
            raise DataError(f"{where}: id {pair.id!r} comes twice; give every pair its own")
        seen.add(pair.id)
        pairs.append(pair)
    return tuple(pairs)


def read_pair_file(source: Source) -> PairSet:
    """The pairs of a file; a relative picture lies below the folder of the pictures, or beside the file.

    Raises:
        MissingError, DataError: see `read_pairs`; or too many pictures are missing.
    """
    place = source.place
    pairs = read_pairs(place)
    base, root = source.pictures or place.parent, Path(place.anchor or "/")
    names = {pair.image: os.path.relpath((base / pair.image).absolute().resolve(), root) for pair in pairs}
    data = PairSet(place.stem, tuple(pairs[0].labels) if pairs else (), pairs)
    return with_pictures(data, replace(source, pictures=root), names)


register(DataSet("pairs", "a file of pairs as JSON lines", read_pair_file, beside=True))
