"""Batches of training pairs: words, pictures and which pairs are truly wrong, in an order that a seed fixes.

What every system without labels draws from. It encodes nothing and knows no loss.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from limner.losses.ranking import negatives
from limner.models.encoding import Tokens
from limner.training.corpus import Rows
from limner.training.pictures import FileRows, PictureRows
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
