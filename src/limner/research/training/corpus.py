"""The data set a run names, what training may see of it, and the batches that are drawn from that.

The test rows are dropped at once; vocabulary, weights and batches are made from the rest. Seed and epoch fix
the order of the batches; a batch of pairs is a batch of stories of one step each.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from limner.devices import Precision, ahead
from limner.encoders.vocabulary import Vocabulary
from limner.errors import ConfigError, DataError, ShapeError, counted, unknown
from limner.research.datasets import split_source
from limner.research.datasets.pairs import (
    Pair,
    PairSet,
    data_set,
    identities,
    licensed,
    one_row_per_pair,
    places_in,
    shuffle_relations,
)
from limner.research.losses.ranking import negatives
from limner.research.training import processes
from limner.research.training.processes import share_of, whole
from limner.research.training.settings import DataConfig, RunConfig

if TYPE_CHECKING:
    from limner.research.datasets.features import FeatureKey, Features, Layer


Places = NDArray[np.int64]
_BLOCK = 1024
_STILL = 1e-12  # of the square of the mean: what rounding alone leaves of a variance

IN_FILES = (
    "EfficientNet-Lite2 reads pictures in files, and those of picturebook are drawn in memory; write them"
    " to a folder with limner.research.worlds.write, and pass --data stories --set data.annotations=FOLDER"
)
"""Of settings that show drawn pictures to the backbone that comes with limner."""


class PictureRows(Protocol):
    """Rows by picture."""

    @property
    def backbone(self) -> dict[str, str] | None:
        """What made stored features, see `Corpus.backbone`; None of bytes."""
        ...

    @property
    def drawn(self) -> Callable[[Places, Sequence[Sequence[int]]], NDArray[Any]] | None:
        """Rows as one step of training sees them, by seeds of each; None where all see the same."""
        ...

    def places(self, ids: Sequence[str]) -> Places:
        """(B,) rows of some pictures, by `Pair.image_id`; a picture without a row is an error."""
        ...

    def take(self, places: Places) -> NDArray[Any]:
        """(B, …) of some rows: float features, or bytes (B, H, W, 3)."""
        ...


class ArrayRows:
    """An array in memory or memory-mapped, with the pictures' ids."""

    backbone = drawn = None

    def __init__(self, ids: Sequence[str], values: NDArray[Any]) -> None:
        """Take both.

        Args:
            ids: (N,) different.
            values: (N, …).
        Raises:
            ShapeError: not one row per id, or an id comes twice.
        """
        self._places = {name: place for place, name in enumerate(ids)}
        if len(self._places) != len(values) or len(self._places) != len(ids):
            raise ShapeError(
                f"pictures: {counted(len(self._places), 'different id')} for {counted(len(values), 'row')}"
            )
        self._values = values

    def places(self, ids: Sequence[str]) -> Places:
        """See `PictureRows`."""
        return places_in(self._places, ids)

    def take(self, places: Places) -> NDArray[Any]:
        """See `PictureRows`."""
        return self._values[places]


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
        val: one row per pair, of a drawn sample where they are many.
        pictures: where the rows' `places` lead.
        held_out: validation pairs that the sample was drawn from; 0 where all are in `val`.
    """

    name: str
    relations: tuple[str, ...]
    train: Rows
    val: Rows
    pictures: PictureRows
    held_out: int = 0

    @property
    def backbone(self) -> dict[str, str] | None:
        """What made the stored features: ``backbone``, ``weights_sha256`` and ``transform``; None for bytes.

        A run keeps it beside its weights: of any other features its pictures mean nothing.
        """
        return self.pictures.backbone

    def moments(self, described: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """(F,) mean and (F,) deviation over the different training pictures, read in blocks.

        Args:
            described: features or bytes, as `pictures` gives them → (B, F).
        Returns:
            The deviation of an entry that never changes is 1.
        """
        places = torch.unique(torch.from_numpy(self.train.places)).numpy()
        total = squares = torch.zeros((), dtype=torch.float64)
        for start in range(0, len(places), _BLOCK):
            values = described(torch.from_numpy(self.pictures.take(places[start : start + _BLOCK]))).double()
            total, squares = total + values.sum(dim=0), squares + values.square().sum(dim=0)
        mean = total / len(places)
        variance = (squares / len(places) - mean.square()).clamp(min=0)
        still = variance <= _STILL * mean.square()
        return mean.float(), variance.sqrt().masked_fill(still, 1.0).float()


def open_corpus(
    config: DataConfig,
    *,
    files: bool = False,
    layer: "Layer" = "pooled",
    mirrored: bool = False,
    weights: Path | None = None,
    device: str = "cpu",
    precision: Precision | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
    beside: Callable[..., PictureRows] | None = None,
) -> tuple[PairSet, PictureRows]:
    """Pairs with split and group, and their pictures.

    Args:
        config: which.
        files: pictures are decoded from files each time, instead of stored features.
        layer: which features are stored; of EfficientNet-Lite2 "stages" are "described".
        mirrored: store those of mirrored training pictures as well; of the rows of `block_features` alone.
        weights: of the backbone, a file or a folder; None looks in the usual places.
        device: torch device that computes features.
        precision: as of `picture_features`.
        report: called with pictures done and due while features are computed.
        beside: what joins the rows of `DataConfig.beside`, `limner.research.scenes.beside.beside`.
    Raises:
        ConfigError: a set needs a folder that is not named; drawn pictures have no such features; or
            pictures are to be cropped, mirrored or of another size where no backbone sees them anew.
        MissingError, DataError, CheckpointError: see the readers and `picture_features`.
    """
    if config.beside and beside is None:
        raise ConfigError("data.beside: only training and measuring a run read further encoders")
    draw = None if config.set == "mixture" else data_set(config.set).draw
    if not config.whole and (draw is not None or not files):
        what = "drawn pictures" if draw is not None else "stored features of whole pictures"
        raise ConfigError(
            f"{config.set}: data.crop {config.crop!r}, data.flip {config.flip} and data.picture_size"
            f" {config.picture_size} are for files of pictures and --set data.backbone=finetune, not for"
            f" {what}; leave them at 'none', false and 224"
        )
    if draw is not None:
        return _drawn(config, draw, layer)
    if config.set == "mixture":
        from limner.research.datasets.mixture import read_mixture

        data = read_mixture(config.mixture, Path(config.features))
    else:
        data = licensed(split_source(config, Path(config.features)), config.licences)
    if config.shuffle_relations:
        data = shuffle_relations(data, config.split_seed)
    if config.limit is not None:
        data = _limited(data, config.limit)
    if files:
        from limner.research.training.framing import FileRows, framing_of

        return data, FileRows({pair.image_id: pair.image for pair in data.pairs}, framing_of(config))
    from limner.encoders.base_file import BACKBONE  # with all that reads its files
    from limner.research.datasets.features import block_features, picture_features

    if layer in ("blocks", "described") or (config.backbone == BACKBONE and layer != "grid"):
        if config.features_from:
            raise ConfigError(f"data.features_from: rows of {BACKBONE} are read from a disk; leave it out")
        root = Path(config.features)
        of = "described" if layer == "stages" else layer
        rows = block_features(
            data, root, layer=of, mirrored=mirrored, device=device, precision=precision, report=report
        )
        if not config.beside:
            return data, rows
        assert beside is not None  # noqa: S101  (asked above)
        return data, beside(rows, data, root, config.beside, weights=weights, device=device, report=report)
    features = picture_features(
        data,
        Path(config.features),
        backbone=config.backbone,
        layer=layer,
        weights=weights,
        device=device,
        precision=precision,
        report=report,
        elsewhere=_elsewhere(config),
    )
    return data, features


def _drawn(
    config: DataConfig, draw: Callable[..., tuple[PairSet, NDArray[np.uint8]]], layer: "Layer"
) -> tuple[PairSet, PictureRows]:
    """Pairs and pictures of a set that is drawn.

    Raises:
        ConfigError: the backbone of such a layer reads files.
    """
    if layer in ("blocks", "described"):
        raise ConfigError(IN_FILES)
    data, pixels = draw(config.stories, config.world_seed, config.picture_px)
    if config.shuffle_relations:
        data = shuffle_relations(data, config.world_seed)
    return data, ArrayRows([pair.image_id for pair in data.pairs], pixels)


def _elsewhere(config: DataConfig) -> "Callable[[FeatureKey, Sequence[str]], Features] | None":
    """Opens stores at `features_from`, if there is such an address.

    Raises:
        ConfigError: it is none.
    """
    if not config.features_from:
        return None
    from limner.locations import location

    at = location(config.features_from)
    if at is None:
        raise ConfigError(
            f"data.features_from {config.features_from!r}: expected an address such as s3://BUCKET/FOLDER; a"
            " folder is data.features"
        )
    from limner.research.datasets.remote_features import open_remote

    cache, most_gb = Path(config.features), config.features_cache_gb
    return lambda key, ids: open_remote(at, key, ids, cache, most_gb=most_gb)


def _limited(data: PairSet, limit: int) -> PairSet:
    """The first pairs of every split, and a name that says so: their features are stored apart."""
    kept, counts = [], dict.fromkeys(("", "train", "val", "test"), 0)
    for pair in data.pairs:
        counts[pair.split] += 1
        if counts[pair.split] <= limit:
            kept.append(pair)
    return replace(data, name=f"{data.name}-first{limit}", pairs=tuple(kept))


def corpus_of(
    data: PairSet,
    pictures: PictureRows,
    relations: Sequence[str] = (),
    limit: int | None = None,
    sample: int = 0,
) -> Corpus:
    """The rows training may see.

    Args:
        data: with a split.
        pictures: holds every picture of train and val.
        relations: to predict; empty for all of the set.
        limit: rows per split at most, the first ones.
        sample: validation pairs at most, see `drawn_sample`; 0 for all.
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
        raise DataError(
            f"{data.name}: {len(train)} training and {counted(len(val), 'validation row')}, expected some"
        )
    some = drawn_sample(val, sample) if sample else val
    return Corpus(
        data.name,
        chosen,
        rows_of(train, pictures, chosen),
        rows_of(some, pictures, chosen),
        pictures,
        held_out=len(val) if len(some) < len(val) else 0,
    )


def drawn_sample(pairs: Sequence[Pair], size: int) -> tuple[Pair, ...]:
    """At most so many pairs, drawn by seed 0; a group, and with it a story or a document, comes whole or not.

    Args:
        pairs: (N,) with groups.
        size: at least 1.
    Returns:
        In their order; all where they are no more. A group larger than that is never drawn; where all are,
        the first pairs are taken.
    """
    if len(pairs) <= size:
        return tuple(pairs)
    groups: dict[str, list[int]] = {}
    for row, pair in enumerate(pairs):
        groups.setdefault(pair.group or pair.seq or pair.id, []).append(row)
    whole = list(groups.values())
    kept: list[int] = []
    for place in np.random.default_rng(0).permutation(len(whole)).tolist():
        if len(kept) + len(whole[place]) <= size:
            kept += whole[place]
    return tuple(pairs[row] for row in sorted(kept or range(size)))


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


Chosen = NDArray[np.int64]
Part = tuple[Chosen, np.random.Generator]
AHEAD = 3
"""Batches begun and not yet learned from, where pictures are files: a bound on memory."""
_PARTS = 1  # sets the generators of pictures' parts apart from that of a batch


@dataclass(frozen=True)
class Batch:
    """S pairs of one step of training; where stories are drawn, all steps of B stories.

    Of several processes each encodes a share: R of the S pairs, which are whole stories. Losses are of all.

    Attributes:
        ids: of the pairs, (S,).
        rows: (S,) int64, which training pairs they are.
        words: (R, L) int64; (R, 1) of padding for systems without a vocabulary.
        lengths: (R,) int64, on the CPU.
        steps: (B,) int64 of each story, on the CPU; ones where pairs are drawn.
        pictures: R features or bytes.
        neg: (S, S) bool, the truly wrong pairs.
        epoch: from 0, for terms that are weighed in slowly.
        near: pairs drawn beside them, such as a neighbour of each; None for most systems.
        shares: pairs of each process, with sum S; R is one of them.
    """

    ids: tuple[str, ...]
    rows: Tensor
    words: Tensor
    lengths: Tensor
    steps: Tensor
    pictures: Tensor
    neg: Tensor
    epoch: int = 0
    near: "Batch | None" = None
    shares: tuple[int, ...] = ()

    @property
    def own(self) -> slice:
        """The R pairs that this process encodes."""
        if len(self.shares) < 2:
            return slice(None)
        start = sum(self.shares[: processes.rank()])
        return slice(start, start + self.shares[processes.rank()])

    @property
    def own_rows(self) -> Tensor:
        """(R,) int64, which training pairs these are."""
        return self.rows[self.own]

    @property
    def own_steps(self) -> Tensor:
        """(·,) int64 of each of their stories, with sum R."""
        if len(self.shares) < 2:
            return self.steps
        return torch.split(self.steps, share_of(len(self.steps)))[processes.rank()]

    def whole(self, made: Tensor) -> Tensor:
        """(R, …) of this share → (S, …) of all shares, with gradients."""
        return whole(made, self.shares)

    @property
    def stories(self) -> Tensor:
        """(S,) int64, which of the B stories each step is of."""
        return torch.repeat_interleave(self.steps).to(self.neg.device)


def stories_of(pairs: Sequence[Pair]) -> list[Chosen]:
    """Places of the pairs of every story, in the story's order; a pair of no story is a story of its own.

    Stories come in order of their first pair. Pairs of one story without a place in it keep their order.
    """
    members: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        members.setdefault(pair.seq or f"\0{place}", []).append(place)
    return [
        np.array(sorted(own, key=lambda place: (pairs[place].pos is None, pairs[place].pos or 0)), np.int64)
        for own in members.values()
    ]


class TrainingBatches:
    """Draws and assembles them."""

    def __init__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary | None,
        config: RunConfig,
        device: torch.device,
        *,
        stories: bool = False,
        size: int | None = None,
    ) -> None:
        """Take what batches are made of.

        Args:
            corpus: whose training rows are drawn.
            vocabulary: numbers the words; None or an empty one for systems that read texts by other means.
            config: batch size, length of texts, duplicates and seed.
            device: where a batch goes.
            stories: draw whole stories, not pairs.
            size: pairs or stories of a batch; None for ``data.batch``.
        """
        rows = corpus.train
        self._rows, self._pictures, self._config, self._device = rows, corpus.pictures, config, device
        if vocabulary is None or not vocabulary.words:
            self._words, self._lengths = np.zeros((len(rows), 1), np.int64), np.ones(len(rows), np.int64)
        else:
            self._words, self._lengths = vocabulary.batch(rows.texts, config.data.max_length)
        self._stories = stories_of(rows.pairs) if stories else None
        self._count = len(rows) if self._stories is None else len(self._stories)
        self.size = min(size or config.data.batch, self._count)
        self.text_ids = torch.from_numpy(rows.text_ids).to(device)
        self.image_ids = torch.from_numpy(rows.image_ids).to(device)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches; the remainder of an epoch's order is left for other epochs."""
        return max(1, self._count // self.size)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Batches of an epoch; their order follows from seed and epoch, for any number of processes."""

        def made(part: Part) -> Batch:
            chosen, _ = part
            if self._stories is None:
                return self.batch(chosen, epoch=epoch)
            stories = [self._stories[story] for story in chosen]
            steps = torch.tensor([len(story) for story in stories])
            return self.batch(np.concatenate(stories), steps, epoch=epoch)

        yield from self.made_ahead(made, epoch)

    def made_ahead(self, made: Callable[[Part], Batch], epoch: int) -> Iterator[Batch]:
        """What is made of every part of an epoch's order; files are decoded while the one before is learned.

        Args:
            made: depends on its argument alone; called in a thread where pictures are files.
            epoch: whose order.
        """
        if self._pictures.drawn is None:
            yield from map(made, self.order(epoch))
            return
        with closing(ahead(self.order(epoch), made, workers=1, in_flight=AHEAD)) as batches:
            yield from batches

    def order(self, epoch: int) -> Iterator[Part]:
        """Rows, or stories, of every batch of an epoch, and a generator of its own."""
        seed = self._config.loop.seed
        order = np.random.default_rng([seed, epoch]).permutation(self._count)
        for step in range(self.steps_per_epoch):
            start = step * self.size
            yield order[start : start + self.size], np.random.default_rng([seed, epoch, start])

    def batch(self, chosen: Chosen, steps: Tensor | None = None, *, epoch: int) -> Batch:
        """Some rows as a batch; of pictures that are files seed, epoch and row say which part is seen."""
        rows, device, pictures = self._rows, self._device, self._pictures
        counts = torch.ones(len(chosen), dtype=torch.int64) if steps is None else steps
        shares = tuple(int(part.sum()) for part in torch.split(counts, share_of(len(counts))))
        start = sum(shares[: processes.rank()])
        own = chosen[start : start + shares[processes.rank()]]
        lengths, places = self._lengths[own], rows.places[own]
        if pictures.drawn is not None:
            seed = self._config.loop.seed
            values = pictures.drawn(places, [(seed, epoch, row, _PARTS) for row in own.tolist()])
        else:
            values = pictures.take(places)
        plain = values if values.dtype == np.uint8 else values.astype(np.float32)
        taken = torch.from_numpy(chosen).to(device)
        neg = negatives(self.text_ids[taken], self.image_ids[taken])
        if not self._config.data.mask_duplicates:
            neg = ~torch.eye(len(chosen), dtype=torch.bool, device=device)
        return Batch(
            tuple(rows.pairs[row].id for row in chosen),
            taken,
            torch.from_numpy(self._words[own, : int(lengths.max())]).to(device),
            torch.from_numpy(lengths),
            counts,
            torch.from_numpy(plain).to(device),
            neg,
            epoch,
            shares=shares,
        )

    def usable(self, rows: Tensor) -> Tensor:
        """(B,) rows → (B, n) bool, training pairs with another text and another picture."""
        texts, images = self.text_ids, self.image_ids
        return (texts[rows][:, None] != texts) & (images[rows][:, None] != images)

    def wrong_beside(self, batch: Batch) -> Tensor:
        """(B, B) bool, pairs j that are neither pair i nor its `near` one, nor a duplicate of either."""
        texts, images, near = self.text_ids, self.image_ids, batch.near or batch
        return batch.neg & (
            (texts[near.rows][:, None] != texts[batch.rows])
            & (images[near.rows][:, None] != images[batch.rows])
        )


def epoch_order(weights: NDArray[np.float64], seed: int, epoch: int) -> NDArray[np.int64]:
    """Rows of an epoch in their order, each as often as its weight says.

    A row of weight 2.3 comes twice in every epoch, and a third time in three of ten; which rows do is drawn
    without replacement, with chances that follow the fractions.

    Args:
        weights: (N,) how often each row comes, at least 0, not all 0.
        seed: of the generator.
        epoch: of the generator, from 0.
    Returns:
        Rows, as many as the rounded sum of the weights. With all weights 1 it is a permutation.
    Raises:
        ConfigError: a weight is negative or not finite, or all are 0.
    """
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ConfigError("sampling: weights must be finite, at least 0 and not all 0")
    random = np.random.default_rng([seed, epoch])
    whole = np.floor(weights).astype(np.int64)
    part = weights - whole
    rows = np.repeat(np.arange(len(weights)), whole)
    more = max(1, round(float(weights.sum()))) - len(rows)
    if more > 0:
        # Gumbel's trick: the largest keys are a draw without replacement in proportion to the fractions
        keys = np.where(part > 0, np.log(np.maximum(part, 1e-300)), -np.inf) + random.gumbel(size=len(part))
        rows = np.concatenate([rows, np.argsort(-keys, kind="stable")[:more]])
    return random.permutation(rows)
