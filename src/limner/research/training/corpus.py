"""The data set of a run, the rows that training may use, and batches.

Test rows are dropped first; vocabulary, weights and batches come from the rest. Seed and epoch determine the
order of batches. A batch of pairs is a batch of stories of one step each.
"""

from collections import Counter
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
from limner.research.training.processes import all_gather, rows_per_process
from limner.research.training.settings import DataConfig, RunConfig

if TYPE_CHECKING:
    from limner.research.datasets.features import Layer


Places = NDArray[np.int64]
_BLOCK = 1024
_STILL = 1e-12  # variances up to this share of the squared mean are rounding errors

IN_FILES = (
    "EfficientNet-Lite2 needs picture files, but picturebook draws its pictures in memory; write them to a"
    " folder with limner.research.worlds.write, and pass --data stories --set data.annotations=FOLDER"
)
"""Message if drawings are to be encoded by the bundled backbone."""


class PictureRows(Protocol):
    """Features or pixels of pictures, by row."""

    @property
    def backbone(self) -> dict[str, str] | None:
        """Encoder of stored features, see `Corpus.backbone`; None for pixels."""
        ...

    @property
    def drawn(self) -> Callable[[Places, Sequence[Sequence[int]]], NDArray[Any]] | None:
        """Function of rows and a seed for each that returns augmented values; None without augmentation."""
        ...

    def places(self, ids: Sequence[str]) -> Places:
        """(B,) rows of pictures, by `Pair.image_id`; a picture without a row is an error."""
        ...

    def take(self, places: Places) -> NDArray[Any]:
        """(B, …) values of rows: float features, or (B, H, W, 3) pixels."""
        ...


class ArrayRows:
    """An array, in memory or memory-mapped, with ids of pictures."""

    backbone = drawn = None

    def __init__(self, ids: Sequence[str], values: NDArray[Any]) -> None:
        """Wrap an array.

        Args:
            ids: (N,) unique ids.
            values: (N, …) values.
        Raises:
            ShapeError: the numbers of ids and rows differ, or an id is repeated.
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
    """Pairs with the arrays that losses need.

    Attributes:
        pairs: (N,) pairs.
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
        """Number of pairs, N."""
        return len(self.pairs)

    @property
    def texts(self) -> list[str]:
        """(N,) texts, unmodified."""
        return [pair.text for pair in self.pairs]


@dataclass(frozen=True)
class Corpus:
    """Training and validation rows of a set, and its pictures.

    Attributes:
        name: name of the set.
        relations: C names, in the order of the labels.
        train: all training rows.
        val: validation rows, one per distinct pair; a sample if there are many.
        pictures: rows of pictures, indexed by `places`.
        held_out: number of validation pairs before sampling; 0 if `val` has all.
    """

    name: str
    relations: tuple[str, ...]
    train: Rows
    val: Rows
    pictures: PictureRows
    held_out: int = 0

    @property
    def backbone(self) -> dict[str, str] | None:
        """Encoder of the stored features (``backbone``, ``weights_sha256``, ``transform``); None for pixels.

        Stored with a run's weights, which are valid only for these features.
        """
        return self.pictures.backbone

    def moments(self, described: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of features over the distinct training pictures, read in blocks.

        Args:
            described: B rows of `pictures` → (B, F) features.
        Returns:
            (F,) mean and (F,) standard deviation, which is 1 for a constant feature.
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
    extra_encoders: Callable[..., PictureRows] | None = None,
) -> tuple[PairSet, PictureRows]:
    """Open the data set of a run: pairs with split and group, and their pictures.

    Args:
        config: settings of the data.
        files: whether pictures are decoded from files each time, instead of using stored features.
        layer: layer of the stored features; for EfficientNet-Lite2, "stages" means "described".
        mirrored: whether to store features of mirrored training pictures too (only for `block_features`).
        weights: weight file of the backbone, or its folder; None looks in the usual places.
        device: torch device that computes features.
        precision: see `picture_features`.
        report: called with pictures done and pictures in total while features are computed.
        extra_encoders: function that joins the features of `DataConfig.beside`; see
            `limner.research.scenes.extra_encoders.with_extra_encoders`.
    Raises:
        ConfigError: a location is not set; drawings have no features of this layer; or crop, flip or picture
            size is set although features are stored.
        MissingError, DataError, CheckpointError: see the readers and `picture_features`.
    """
    if config.beside and extra_encoders is None:
        raise ConfigError("data.beside: only training and measuring a run read further encoders")
    draw = None if config.set == "mixture" else data_set(config.set).draw
    if not config.whole and (draw is not None or not files):
        what = "drawn pictures" if draw is not None else "stored features of whole pictures"
        raise ConfigError(
            f"{config.set}: data.crop {config.crop!r}, data.flip {config.flip} and data.picture_size"
            f" {config.picture_size} are for files of pictures and --set backbone=finetune, not for"
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
        # another name, so that these features have their own store
        data = replace(data, name=f"{data.name}-first{config.limit}", pairs=limited(data.pairs, config.limit))
    if files:
        from limner.research.training.framing import FileRows, framing_of

        return data, FileRows({pair.image_id: pair.image for pair in data.pairs}, framing_of(config))
    from limner.encoders.base_file import BACKBONE  # imports everything that reads its files
    from limner.research.datasets.features import block_features, picture_features

    if layer in ("blocks", "described") or (config.backbone == BACKBONE and layer != "grid"):
        root = Path(config.features)
        of = "described" if layer == "stages" else layer
        rows = block_features(
            data, root, layer=of, mirrored=mirrored, device=device, precision=precision, report=report
        )
        if not config.beside:
            return data, rows
        assert extra_encoders is not None  # noqa: S101  (asked above)
        return data, extra_encoders(
            rows, data, root, config.beside, weights=weights, device=device, report=report
        )
    features = picture_features(
        data,
        Path(config.features),
        backbone=config.backbone,
        layer=layer,
        weights=weights,
        device=device,
        precision=precision,
        report=report,
    )
    return data, features


def _drawn(
    config: DataConfig, draw: Callable[..., tuple[PairSet, NDArray[np.uint8]]], layer: "Layer"
) -> tuple[PairSet, PictureRows]:
    """Pairs and pictures of a drawn set.

    Raises:
        ConfigError: the backbone of this layer needs files.
    """
    if layer in ("blocks", "described"):
        raise ConfigError(IN_FILES)
    data, pixels = draw(config.stories, config.world_seed, config.picture_px)
    if config.shuffle_relations:
        data = shuffle_relations(data, config.world_seed)
    return data, ArrayRows([pair.image_id for pair in data.pairs], pixels)


def limited(pairs: Sequence[Pair], limit: int) -> tuple[Pair, ...]:
    """The first pairs of each split, in whole stories.

    Args:
        pairs: (N,) pairs.
        limit: maximum number of pairs per split; the first story is kept even if it has more.
    """
    sizes = Counter((pair.split, pair.seq or pair.id) for pair in pairs)
    counts: Counter[str] = Counter()
    whole = set[tuple[str, str]]()
    for (split, story), size in sizes.items():
        if not counts[split] or counts[split] + size <= limit:
            whole.add((split, story))
            counts[split] += size
    return tuple(pair for pair in pairs if (pair.split, pair.seq or pair.id) in whole)


def corpus_of(
    data: PairSet,
    pictures: PictureRows,
    relations: Sequence[str] = (),
    limit: int | None = None,
    sample: int = 0,
) -> Corpus:
    """Collect the rows that training may use.

    Args:
        data: a set with a split.
        pictures: rows of all pictures of train and val.
        relations: relations to predict; empty for all of the set.
        limit: see `limited`; None for all rows.
        sample: maximum number of validation pairs, see `drawn_sample`; 0 for all.
    Raises:
        ConfigError: the set lacks one of the relations.
        DataError: there are fewer than two training rows or no validation row, or a picture has no row.
    """
    for name in relations:
        if name not in data.relations:
            raise ConfigError(f"{data.name}: " + unknown("relation", name, data.relations))
    chosen = tuple(relations) or data.relations
    train, val = data.split("train"), one_row_per_pair(data.split("val"))
    if limit is not None:
        train, val = limited(train, limit), limited(val, limit)
    if len(train) < 2 or not val:
        raise DataError(
            f"{data.name}: {len(train)} training and {counted(len(val), 'validation row')}, expected at least"
            " 2 and 1"
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
    """Sample at most `size` pairs with seed 0, in whole groups (stories, documents).

    Args:
        pairs: (N,) pairs with groups.
        size: number of pairs, at least 1.
    Returns:
        The sample in the original order; all pairs if there are at most `size`. Groups larger than `size` are
        left out; if every group is larger, the first `size` pairs are returned.
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
    """Build the rows of pairs.

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
"""Batches decoded ahead if pictures are files; limits memory."""
_PARTS = 1  # separates the generators of crops from that of a batch


@dataclass(frozen=True)
class Batch:
    """The S pairs of one training step: single pairs, or all steps of B stories.

    With several processes, each encodes a share of R pairs (whole stories); losses use all S.

    Attributes:
        ids: (S,) ids of the pairs.
        rows: (S,) int64 training rows.
        words: (R, L) int64 word ids; (R, 1) padding for systems without a vocabulary.
        lengths: (R,) int64 on the CPU.
        steps: (B,) int64 on the CPU, steps per story; ones if the batch consists of pairs.
        pictures: R rows of features or bytes.
        neg: (S, S) bool, the truly wrong pairs.
        epoch: epoch, from 0, for terms whose weight depends on it.
        near: additional pairs, such as a neighbour of each; None for most systems.
        shares: number of pairs of each process, with sum S; R is one of them.
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
        """Slice of the R pairs that this process encodes."""
        if len(self.shares) < 2:
            return slice(None)
        start = sum(self.shares[: processes.rank()])
        return slice(start, start + self.shares[processes.rank()])

    @property
    def own_rows(self) -> Tensor:
        """(R,) int64 training rows of this process's pairs."""
        return self.rows[self.own]

    @property
    def own_steps(self) -> Tensor:
        """int64 steps per story of this process, with sum R."""
        if len(self.shares) < 2:
            return self.steps
        return torch.split(self.steps, rows_per_process(len(self.steps)))[processes.rank()]

    def all_gather(self, made: Tensor) -> Tensor:
        """Gather (R, …) of this process to (S, …) of all processes, with gradients."""
        return all_gather(made, self.shares)

    @property
    def stories(self) -> Tensor:
        """(S,) int64 index of each step's story in the batch."""
        return torch.repeat_interleave(self.steps).to(self.neg.device)


def stories_of(pairs: Sequence[Pair]) -> list[Chosen]:
    """Indices of the pairs of each story, in the story's order; a pair without a story is a story of its own.

    Stories are ordered by their first pair. Pairs without a position keep their order.
    """
    members: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        members.setdefault(pair.seq or f"\0{place}", []).append(place)
    return [
        np.array(sorted(own, key=lambda place: (pairs[place].pos is None, pairs[place].pos or 0)), np.int64)
        for own in members.values()
    ]


class TrainingBatches:
    """Samples and assembles training batches."""

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
        """Set up batches.

        Args:
            corpus: corpus whose training rows are used.
            vocabulary: vocabulary; None or an empty one for systems with another text encoder.
            config: settings: batch size, length of texts, duplicates and seed.
            device: device of the batches.
            stories: whether to sample whole stories instead of pairs.
            size: pairs or stories per batch; None for ``data.batch``.
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
        """Number of full batches; the remainder of an epoch is dropped."""
        return max(1, self._count // self.size)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Batches of an epoch; their order depends only on seed and epoch, not on the number of processes."""

        def made(part: Part) -> Batch:
            chosen, _ = part
            if self._stories is None:
                return self.batch(chosen, epoch=epoch)
            stories = [self._stories[story] for story in chosen]
            steps = torch.tensor([len(story) for story in stories])
            return self.batch(np.concatenate(stories), steps, epoch=epoch)

        yield from self.made_ahead(made, epoch)

    def made_ahead(self, made: Callable[[Part], Batch], epoch: int) -> Iterator[Batch]:
        """Apply `made` to each part of an epoch's order; picture files are decoded in the background.

        Args:
            made: a pure function; called in a thread if pictures are files.
            epoch: the epoch, from 0.
        """
        if self._pictures.drawn is None:
            yield from map(made, self.order(epoch))
            return
        with closing(ahead(self.order(epoch), made, workers=1, in_flight=AHEAD)) as batches:
            yield from batches

    def order(self, epoch: int) -> Iterator[Part]:
        """Yield the rows, or stories, of each batch of an epoch, with a generator for each."""
        seed = self._config.loop.seed
        order = np.random.default_rng([seed, epoch]).permutation(self._count)
        for step in range(self.steps_per_epoch):
            start = step * self.size
            yield order[start : start + self.size], np.random.default_rng([seed, epoch, start])

    def batch(self, chosen: Chosen, steps: Tensor | None = None, *, epoch: int) -> Batch:
        """Assemble rows into a batch; crops of picture files depend on seed, epoch and row."""
        rows, device, pictures = self._rows, self._device, self._pictures
        counts = torch.ones(len(chosen), dtype=torch.int64) if steps is None else steps
        shares = tuple(int(part.sum()) for part in torch.split(counts, rows_per_process(len(counts))))
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
        """(B,) rows → (B, n) bool, True for training pairs with another text and another picture."""
        texts, images = self.text_ids, self.image_ids
        return (texts[rows][:, None] != texts) & (images[rows][:, None] != images)

    def wrong_beside(self, batch: Batch) -> Tensor:
        """(B, B) bool, True for pairs j that are not pair i, its `near` pair, or a duplicate of either."""
        texts, images, near = self.text_ids, self.image_ids, batch.near or batch
        return batch.neg & (
            (texts[near.rows][:, None] != texts[batch.rows])
            & (images[near.rows][:, None] != images[batch.rows])
        )


def epoch_order(weights: NDArray[np.float64], seed: int, epoch: int) -> NDArray[np.int64]:
    """Rows of an epoch in random order, repeated by weight.

    A row of weight 2.3 occurs twice in each epoch, and a third time with a probability of about 0.3; the
    extra rows are sampled without replacement, with the fractions as weights.

    Args:
        weights: (N,) expected occurrences of each row, at least 0, not all 0.
        seed: seed of the generator.
        epoch: epoch, from 0, also part of the seed.
    Returns:
        Rows; their number is the rounded sum of the weights. If all weights are 1, it is a permutation.
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
        # Gumbel trick: the largest keys are a sample without replacement, proportional to the fractions
        keys = np.where(part > 0, np.log(np.maximum(part, 1e-300)), -np.inf) + random.gumbel(size=len(part))
        rows = np.concatenate([rows, np.argsort(-keys, kind="stable")[:more]])
    return random.permutation(rows)
