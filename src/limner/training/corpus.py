"""The data set a run names, and what training may see of it: training and validation rows, nothing else.

The test rows are dropped at once; vocabulary, weights and batches are made from what is left.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limner.datasets import split_source
from limner.datasets.base import data_set
from limner.datasets.features import Features, Layer, block_features, picture_features
from limner.datasets.mixture import licensed, read_mixture
from limner.datasets.pairs import Pair, PairSet, identities, one_row_per_pair, shuffle_relations
from limner.errors import ConfigError, DataError, unknown
from limner.training.pictures import ArrayRows, FileRows, PictureRows, Places
from limner.training.settings import DataConfig


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


def open_corpus(
    config: DataConfig,
    *,
    files: bool = False,
    layer: Layer = "pooled",
    mirrored: bool = False,
    weights: Path | None = None,
    device: str = "cpu",
    report: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[PairSet, PictureRows]:
    """Pairs with split and group, and their pictures.

    Args:
        config: which.
        files: pictures are decoded from files each time, instead of stored features.
        layer: which features are stored.
        mirrored: store those of mirrored training pictures as well; of the layer "blocks" alone.
        weights: of the backbone, a file or a folder; None looks in the usual places.
        device: torch device that computes features.
        report: called with pictures done and due while features are computed.
    Raises:
        ConfigError: a set needs a folder that is not named.
        MissingError, DataError, CheckpointError: see the readers and `picture_features`.
    """
    draw = None if config.set == "mixture" else data_set(config.set).draw
    if draw is not None:
        data, pixels = draw(config.stories, config.world_seed, config.picture_px)
        if config.shuffle_relations:
            data = shuffle_relations(data, config.world_seed)
        return data, ArrayRows([pair.image_id for pair in data.pairs], pixels)
    if config.set == "mixture":
        data = read_mixture(config.mixture)
    else:
        data = licensed(split_source(config), config.licences)
    if config.shuffle_relations:
        data = shuffle_relations(data, config.split_seed)
    if config.limit is not None:
        data = _limited(data, config.limit)
    if files:
        return data, FileRows({pair.image_id: pair.image for pair in data.pairs})
    if layer == "blocks":
        return data, block_features(
            data, Path(config.features), mirrored=mirrored, device=device, report=report
        )
    features = picture_features(
        data,
        Path(config.features),
        backbone=config.backbone,
        layer=layer,
        weights=weights,
        device=device,
        report=report,
    )
    return data, features


def _limited(data: PairSet, limit: int) -> PairSet:
    """The first pairs of every split, and a name that says so: their features are stored apart."""
    kept, counts = [], dict.fromkeys(("", "train", "val", "test"), 0)
    for pair in data.pairs:
        counts[pair.split] += 1
        if counts[pair.split] <= limit:
            kept.append(pair)
    return replace(data, name=f"{data.name}-first{limit}", pairs=tuple(kept))


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
