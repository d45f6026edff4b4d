"""What training may see of a data set: its training and its validation rows, and nothing else.

Built from a split set, it drops the test rows at once; vocabulary, weights and batches are made from what is
left. It trains nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limner.datasets.features import Features
from limner.datasets.pairs import Pair, PairSet, identities, one_row_per_pair
from limner.errors import ConfigError, DataError, unknown
from limner.training.pictures import PictureRows, Places


@dataclass(frozen=True)
class Rows:
    """Pairs with what a loss needs beside them.

    Attributes:
        pairs: (N,).
        places: (N,) rows of their pictures.
        labels: (N, C) float32, 0 or 1.
        text_ids, image_ids: (N,) int64, equal for equal texts and pictures.
    """

    pairs: tuple[Pair, ...]
    places: Places
    labels: NDArray[np.float32]
    text_ids: NDArray[np.int64]
    image_ids: NDArray[np.int64]

    def __len__(self) -> int:
        """N."""
        return len(self.pairs)

    @property
    def texts(self) -> list[str]:
        """(N,) as written."""
        return [pair.text for pair in self.pairs]


@dataclass(frozen=True)
class Corpus:
    """Training and validation rows of a set, and its pictures.

    Attributes:
        name: of the set.
        relations: C names, in the order of the labels.
        train: every row.
        val: one row per pair.
        pictures: where the rows' `places` lead.
    """

    name: str
    relations: tuple[str, ...]
    train: Rows
    val: Rows
    pictures: PictureRows

    @property
    def backbone(self) -> dict[str, str] | None:
        """What made the stored features: ``backbone``, ``weights_sha256`` and ``transform``; None for bytes.

        A run keeps it beside its weights: of any other features its pictures mean nothing.
        """
        if not isinstance(self.pictures, Features):
            return None
        return self.pictures.key.model_dump(exclude={"data"})


def corpus_of(
    data: PairSet, pictures: PictureRows, relations: Sequence[str] = (), limit: int | None = None
) -> Corpus:
    """The rows training may see.

    Args:
        data: with a split.
        pictures: holds every picture of train and val.
        relations: to predict; empty for all of the set.
        limit: rows per split at most, the first ones.
    Raises:
        ConfigError: the set has no such relation.
        DataError: no training or validation row, or a picture without a row.
    """
    for name in relations:
        if name not in data.relations:
            raise ConfigError(f"{data.name}: " + unknown("relation", name, data.relations))
    chosen = tuple(relations) or data.relations
    train = data.split("train")[:limit]
    val = one_row_per_pair(data.split("val"))[:limit]
    if len(train) < 2 or not val:
        raise DataError(f"{data.name}: {len(train)} training and {len(val)} validation rows, expected some")
    return Corpus(
        data.name, chosen, rows_of(train, pictures, chosen), rows_of(val, pictures, chosen), pictures
    )


def rows_of(pairs: Sequence[Pair], pictures: PictureRows, relations: Sequence[str]) -> Rows:
    """Rows of some pairs.

    Raises:
        DataError: a pair lacks a label, or its picture has no row.
    """
    for pair in pairs:
        lacking = [name for name in relations if name not in pair.labels]
        if lacking:
            raise DataError(
                f"pair {pair.id!r} has no label {lacking[0]!r}; every pair needs one per relation"
            )
    labels = [[pair.labels[name] for name in relations] for pair in pairs]
    text_ids, image_ids = identities(pairs)
    places = pictures.places([pair.image_id for pair in pairs])
    table = np.array(labels, np.float32).reshape(len(pairs), len(relations))
    return Rows(tuple(pairs), places, table, text_ids, image_ids)
