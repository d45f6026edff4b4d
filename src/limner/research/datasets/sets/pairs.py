"""A JSON Lines file with one `limner.research.datasets.pairs.Pair` per line."""

import os
from dataclasses import replace
from pathlib import Path

from limner.files import json_rows
from limner.research.datasets.missing import pair_set
from limner.research.datasets.pairs import DataSet, Pair, PairSet, Source, register


def read_pairs(path: Path) -> tuple[Pair, ...]:
    """Read pairs from a JSON Lines file.

    Raises:
        MissingError: the file does not exist.
        DataError: the file cannot be read, a line is not a pair, or an id is repeated.
    """
    rows = json_rows(path, Pair, one="pair", see="limner.research.datasets.pairs", key="id")
    return tuple(pair for _, pair in rows)


def read_pair_file(source: Source) -> PairSet:
    """Read a set of pairs; relative picture paths start at the folder of pictures, or else that of the file.

    Raises:
        MissingError, DataError: see `read_pairs`; or too many pictures are missing.
    """
    place = source.place
    pairs = read_pairs(place)
    base, root = source.pictures or place.parent, Path(place.anchor or "/")
    names = {pair.image: os.path.relpath((base / pair.image).absolute().resolve(), root) for pair in pairs}
    relations = tuple(pairs[0].labels) if pairs else ()
    return pair_set(
        place.stem, pairs, replace(source, pictures=root), relations=relations, files=names, named="path"
    )


register(DataSet("pairs", "a JSON Lines file of pairs", read_pair_file, opens_pictures=True))
