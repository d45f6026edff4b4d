"""Batches of whole stories: their steps one after the other, in an order that a seed fixes.

What every system of sequences draws from. It encodes nothing and knows no loss.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from limner.datasets.pairs import Pair
from limner.losses.ranking import negatives
from limner.models.encoding import Tokens
from limner.training.corpus import Rows
from limner.training.pictures import PictureRows
from limner.training.settings import RunConfig

Chosen = NDArray[np.int64]


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
