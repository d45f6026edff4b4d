"""Batches of training pairs or of whole stories, in an order that seed and epoch fix.

A batch of pairs is a batch of stories of one step each.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from limner.encoders.vocabulary import Vocabulary
from limner.errors import ConfigError
from limner.research.datasets.pairs import Pair
from limner.research.losses.ranking import negatives
from limner.research.training import processes
from limner.research.training.corpus import Corpus
from limner.research.training.processes import share_of, whole
from limner.research.training.settings import RunConfig
from limner.threads import ahead

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
