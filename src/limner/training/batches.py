"""Batches of training pairs: words, pictures and which pairs are truly wrong, in an order that a seed fixes.

What every system without labels draws from. It encodes nothing and knows no loss.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from limner.datasets.pairs import Pair
from limner.errors import ConfigError
from limner.losses.ranking import negatives
from limner.models.encoding import Tokens
from limner.training.corpus import FileRows, PictureRows, Rows
from limner.training.settings import RunConfig

Chosen = NDArray[np.int64]


@dataclass(frozen=True)
class PairBatch:
    """B pairs of one step.

    Attributes:
        ids: of the pairs.
        rows: (B,) int64, which training pairs they are.
        words: (B, L) int64.
        lengths: (B,) int64, on the CPU.
        pictures: B features or bytes.
        neg: (B, B) bool, the truly wrong pairs.
        near: (B',) pairs drawn beside them, such as a neighbour of each; None for most systems.
        warm: whether the epoch is the first, for losses that begin gently.
    """

    ids: tuple[str, ...]
    rows: Tensor
    words: Tensor
    lengths: Tensor
    pictures: Tensor
    neg: Tensor
    near: "PairBatch | None" = None
    warm: bool = False


class PairBatches:
    """Draws and assembles them."""

    def __init__(
        self,
        rows: Rows,
        pictures: PictureRows,
        vocabulary: Tokens,
        config: RunConfig,
        device: torch.device,
    ) -> None:
        """Take what batches are made of.

        Args:
            rows: of the training split.
            pictures: of the rows.
            vocabulary: numbers the words.
            config: batch size, length of texts, duplicates and seed.
            device: where a batch goes.
        """
        self._rows, self._pictures, self._config, self._device = rows, pictures, config, device
        self._words, self._lengths = vocabulary.batch(rows.texts, config.data.max_length)
        self.size = min(config.data.batch, len(rows))
        self.text_ids = torch.from_numpy(rows.text_ids).to(device)
        self.image_ids = torch.from_numpy(rows.image_ids).to(device)
        together = distributed.is_available() and distributed.is_initialized()
        self._rank = distributed.get_rank() if together else 0
        self._processes = distributed.get_world_size() if together else 1

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of one process; the remainder of an epoch's order is left for other epochs."""
        return max(1, len(self._rows) // (self.size * self._processes))

    def order(self, epoch: int) -> Iterator[tuple[Chosen, np.random.Generator]]:
        """Rows of every batch of an epoch, and a generator of its own; both follow from seed and process."""
        seed = self._config.loop.seed
        order = np.random.default_rng([seed, epoch]).permutation(len(self._rows))
        for step in range(self.steps_per_epoch):
            start = (step * self._processes + self._rank) * self.size
            yield order[start : start + self.size], np.random.default_rng([seed, epoch, start])

    def batch(
        self,
        chosen: Chosen,
        rng: np.random.Generator,
        *,
        near: PairBatch | None = None,
        warm: bool = False,
    ) -> PairBatch:
        """Some rows as a batch; pictures that are files are cropped at random."""
        rows, device = self._rows, self._device
        lengths = self._lengths[chosen]
        words = self._words[chosen, : int(lengths.max())]
        places = rows.places[chosen]
        values = (
            self._pictures.cropped(places, rng)
            if isinstance(self._pictures, FileRows)
            else self._pictures.take(places)
        )
        plain = values if values.dtype == np.uint8 else values.astype(np.float32)
        taken = torch.from_numpy(chosen).to(device)
        neg = negatives(self.text_ids[taken], self.image_ids[taken])
        if not self._config.data.mask_duplicates:
            neg = ~torch.eye(len(chosen), dtype=torch.bool, device=device)
        return PairBatch(
            tuple(rows.pairs[row].id for row in chosen),
            taken,
            torch.from_numpy(words).to(device),
            torch.from_numpy(lengths),
            torch.from_numpy(plain).to(device),
            neg,
            near,
            warm,
        )

    def usable(self, rows: Tensor) -> Tensor:
        """(B,) rows → (B, n) bool, training pairs with another text and another picture."""
        texts, images = self.text_ids, self.image_ids
        return (texts[rows][:, None] != texts) & (images[rows][:, None] != images)

    def wrong_beside(self, batch: PairBatch) -> Tensor:
        """(B, B) bool, pairs j that are neither pair i nor its `near` one, nor a duplicate of either."""
        near = batch.near
        if near is None:
            return batch.neg
        texts, images = self.text_ids, self.image_ids
        apart = (texts[near.rows][:, None] != texts[batch.rows]) & (
            images[near.rows][:, None] != images[batch.rows]
        )
        return batch.neg & apart


@dataclass(frozen=True)
class StoryBatch:
    """S steps of B stories.

    Attributes:
        ids: of the pairs, (S,).
        rows: (S,) int64, which training pairs they are.
        words: (S, L) int64; (S, 1) of padding for systems without a vocabulary.
        lengths: (S,) int64, on the CPU.
        steps: (B,) int64 of each story, on the CPU.
        pictures: S features or bytes.
        neg: (S, S) bool, the truly wrong pairs.
        epoch: from 0, for terms that are weighed in slowly.
    """

    ids: tuple[str, ...]
    rows: Tensor
    words: Tensor
    lengths: Tensor
    steps: Tensor
    pictures: Tensor
    neg: Tensor
    epoch: int

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


class StoryBatches:
    """Draws and assembles them."""

    def __init__(
        self,
        rows: Rows,
        pictures: PictureRows,
        vocabulary: Tokens | None,
        config: RunConfig,
        device: torch.device,
    ) -> None:
        """Take what batches are made of.

        Args:
            rows: of the training split.
            pictures: of the rows.
            vocabulary: numbers the words; None for systems that read texts by other means, or none.
            config: stories per batch, length of texts, duplicates and seed.
            device: where a batch goes.
        """
        self._rows, self._pictures, self._config, self._device = rows, pictures, config, device
        if vocabulary is None:
            self._words, self._lengths = np.zeros((len(rows), 1), np.int64), np.ones(len(rows), np.int64)
        else:
            self._words, self._lengths = vocabulary.batch(rows.texts, config.data.max_length)
        self._stories = stories_of(rows.pairs)
        self._size = min(config.data.batch, len(self._stories))
        together = distributed.is_available() and distributed.is_initialized()
        self._rank = distributed.get_rank() if together else 0
        self._processes = distributed.get_world_size() if together else 1

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of one process; the remainder of an epoch's order is left for other epochs."""
        return max(1, len(self._stories) // (self._size * self._processes))

    def batches(self, epoch: int) -> Iterator[StoryBatch]:
        """Batches of an epoch; their order follows from seed, process and epoch."""
        order = np.random.default_rng([self._config.loop.seed, epoch]).permutation(len(self._stories))
        for step in range(self.steps_per_epoch):
            start = (step * self._processes + self._rank) * self._size
            yield self.batch([self._stories[story] for story in order[start : start + self._size]], epoch)

    def batch(self, stories: Sequence[Chosen], epoch: int) -> StoryBatch:
        """Some stories, by the places of their rows."""
        rows, device = self._rows, self._device
        chosen = np.concatenate(list(stories))
        lengths = self._lengths[chosen]
        values = self._pictures.take(rows.places[chosen])
        plain = values if values.dtype == np.uint8 else values.astype(np.float32)
        neg = negatives(torch.from_numpy(rows.text_ids[chosen]), torch.from_numpy(rows.image_ids[chosen]))
        if not self._config.data.mask_duplicates:
            neg = ~torch.eye(len(chosen), dtype=torch.bool)
        return StoryBatch(
            tuple(rows.pairs[row].id for row in chosen),
            torch.from_numpy(chosen).to(device),
            torch.from_numpy(self._words[chosen, : int(lengths.max())]).to(device),
            torch.from_numpy(lengths),
            torch.tensor([len(story) for story in stories]),
            torch.from_numpy(plain).to(device),
            neg.to(device),
            epoch,
        )


def epoch_length(weights: NDArray[np.float64]) -> int:
    """Rows of an epoch, each counted as often as it comes: the sum of the weights, rounded."""
    return max(1, round(float(weights.sum())))


def epoch_order(weights: NDArray[np.float64], seed: int, epoch: int) -> NDArray[np.int64]:
    """Rows of an epoch in their order.

    A row of weight 2.3 comes twice in every epoch, and a third time in three of ten; which rows do is drawn
    without replacement, with chances that follow the fractions.

    Args:
        weights: (N,) how often each row comes, at least 0, not all 0.
        seed: of the generator.
        epoch: of the generator, from 0.
    Returns:
        (`epoch_length`,) rows. With all weights 1 it is a permutation.
    Raises:
        ConfigError: a weight is negative or not finite, or all are 0.
    """
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ConfigError("sampling: weights must be finite, at least 0 and not all 0")
    random = np.random.default_rng([seed, epoch])
    whole = np.floor(weights).astype(np.int64)
    part = weights - whole
    rows = np.repeat(np.arange(len(weights)), whole)
    more = epoch_length(weights) - len(rows)
    if more > 0:
        # Gumbel's trick: the largest keys are a draw without replacement in proportion to the fractions
        keys = np.where(part > 0, np.log(np.maximum(part, 1e-300)), -np.inf) + random.gumbel(size=len(part))
        rows = np.concatenate([rows, np.argsort(-keys, kind="stable")[:more]])
    return random.permutation(rows)
