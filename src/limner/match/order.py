"""The order in which photographs were taken, as evidence for which step shows which.

The photographs of a row are read in order while a pointer walks over the steps; every photograph belongs to
the step at the pointer, or to none. Forward–backward sums over all walks, so that every pair of step and
photograph has a probability, and a row a likelihood by which it is compared with other explanations.

Source: hidden Markov models with explicit durations, Rabiner, A Tutorial on Hidden Markov Models, 1989, IV.D;
    aligning the steps of a recipe with a video, Malmaud et al., What's Cookin'?, 2015;
    docs/methods/storyboard.md §5.
Departs: a photograph may belong to no step, and two photographs that follow each other are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, lgamma, log

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
Pairs = tuple[Float64Array, Float64Array]

LOWEST = -50.0
"""Evidence is cut off below this."""
RUN = 6
"""Number of photographs of a step that are counted; further ones count as this many."""
WINDOW = 16
"""Number of earlier photographs with which a photograph is compared."""
SHY_SHOT = 0.3
"""Exponent of the likelihood of second and further photographs of a step, which repeat its error."""
STRANGERS = 0.05, 20.0
"""Expected share of photographs that belong to no step, and the number of photographs as which it counts."""
UNLIKE = {"one": 4.17, "looks": -12.17, "base": -15.21}
"""Log-odds that a photograph belongs to no step: weights of its mean similarity to the others of the row."""
ON, SHOT = 0.2, (14.4, -1.05, -8.1)
"""Weight of the similarity of two photographs that follow each other, and log-odds that they are shots of one
step: weights of their cosines by content and by looks, and a constant.
"""
LISTED = 0.97
"""Probability that as many photographs as steps are one for each step."""
SHOWN_FIRST = 0.05
"""Probability that the first photograph of a row shows the last step: the finished thing."""
COVER = 0.1, 0.05
"""Probabilities that the first or the last photograph of a row shows no step, but what the title says."""
IN_ORDER = 0.97
"""Probability that a named row follows the steps."""
NAMED = {"pixels": 0.4, "words": 1.0}
"""Factors of the evidence in a named row, where all photographs are of the same matter: of pixels alone, and
of photographs with words.
"""
INSIDE = 0.75
"""Factor of the evidence in a library."""
SCALING_ROUNDS = 20


@dataclass(frozen=True)
class Walk:
    """Weights of the pointer's moves.

    Attributes:
        more: (RUN,) probability of one more photograph of a step, after 1, 2, … photographs of it.
        skip: probability of each further step that the pointer passes over when it moves on.
        free: whether it may begin and end at any photograph.
    """

    more: Float64Array
    skip: float
    free: bool = False

    @classmethod
    def of(cls, steps: int, photographs: float) -> Walk:
        """Walk over steps with an expected number of photographs.

        The photographs of a step are 1 + Poisson, with a tenth of a geometric distribution of the same mean.
        """
        mean = max(1.03, photographs / steps)
        rate, last = mean - 1.0, 1.0 / mean
        counts = np.arange(1, 40)
        poisson = np.array([exp((k - 1) * log(rate) - rate - lgamma(k)) for k in counts])
        mixed = 0.9 * poisson + 0.1 * last * (1 - last) ** (counts - 1)
        survival = np.cumsum(mixed[::-1])[::-1]
        hazard = 1.0 - mixed[:RUN] / np.maximum(survival[:RUN], 1e-12)
        skip = float(np.clip(1.0 - photographs / steps, 0.05, 0.95))
        return cls(np.clip(hazard, 0.03, 0.95), skip)


def strangers(looks: Float64Array, base: Float64Array) -> Float64Array:
    """Probability (n,) that each photograph of a row belongs to no step, because it is unlike the others.

    The share of such photographs in the row is estimated together with them.

    Args:
        looks: (n, n) cosines of the photographs by looks.
        base: (n, n) cosines by content.
    """
    count = len(looks)
    share, weight = STRANGERS
    if count < 3:
        return np.full(count, share)
    means = [(near.sum(axis=1) - near.diagonal()) / (count - 1) for near in (looks, base)]
    odds = UNLIKE["one"] + UNLIKE["looks"] * means[0] + UNLIKE["base"] * means[1]
    found = np.full(count, share)
    for _ in range(20):
        found = 1.0 / (1.0 + np.exp(-odds - log(share / (1 - share))))
        share = float((found.sum() + weight * STRANGERS[0]) / (count + weight))
    return np.asarray(np.clip(found, 0.005, 0.995))


def transitions(looks: Float64Array, base: Float64Array) -> Pairs:
    """Weights (n, n) of two photographs that follow each other: as shots of one step, and of two steps.

    Args:
        looks: see `strangers`.
        base: see `strangers`.
    """
    near = 9.5 * looks - 3.0
    on = np.exp(np.clip(ON * near, -3, 3))
    alike = SHOT[0] * base + SHOT[1] * looks + SHOT[2]
    alike = np.where(alike < 0, alike / (1.0 + np.exp(-near)), alike)
    return on * np.exp(np.clip(alike, -3, 3)), on


def scaled(evidence: Float64Array) -> Float64Array:
    """Likelihoods (S, n), scaled until each step and each photograph has a mean of 1.

    Args:
        evidence: (S, n) log-likelihood ratios.
    """
    likelihood = np.exp(np.maximum(evidence, LOWEST))
    for _ in range(SCALING_ROUNDS):
        likelihood /= likelihood.mean(axis=1, keepdims=True)
        likelihood /= likelihood.mean(axis=0, keepdims=True)
    return np.asarray(likelihood)


def walked(  # noqa: PLR0915  (forward and backward share their weights)
    likelihood: Float64Array, stranger: Float64Array, walk: Walk, pairs: Pairs
) -> tuple[Float64Array, Float64Array]:
    """Sum over all walks of the pointer, by forward–backward, for B likelihoods of one row at once.

    A state is the last photograph that belongs to a step, that step, and the number of its photographs so
    far. All weights of a photograph are divided by the same number, so that the sums stay near 1.

    Args:
        likelihood: (B, S, n).
        stranger: (n,) probability that a photograph belongs to no step.
        walk: weights of the moves.
        pairs: see `transitions`.
    Returns:
        (B,) logarithms of the sums, and the probability (B, S, n) that a photograph belongs to a step.
    """
    batch, steps, count = likelihood.shape
    same, on = pairs
    more = np.broadcast_to(walk.more, (batch, RUN))
    less = 1.0 - more
    ahead = np.arange(steps) - np.arange(steps)[:, None]
    passes = np.triu((1 - walk.skip) * walk.skip ** np.maximum(ahead - 1, 0), 1)  # (S, S) from row to column
    first = (1 - walk.skip) * walk.skip ** np.arange(steps)
    last = (walk.skip ** (steps - 1 - np.arange(steps)))[None, :, None] * less[:, None]
    fresh = np.moveaxis((1 - stranger) * likelihood, 2, 0)  # (n, B, S)
    again = np.moveaxis((1 - stranger) * likelihood**SHY_SHOT, 2, 0)
    scale = np.zeros((count, batch))
    passed = np.zeros((count + 1, batch))  # sum of the logs of the weights as strangers
    outside = np.zeros((count + 1, batch))  # sum of the logs of the weights before and after a stretch
    start = 1.0 / count if walk.free else 1.0
    edge = outside if walk.free else passed
    before = np.zeros((count, batch, steps, RUN))
    far = np.zeros((batch, steps, RUN))  # photographs too long ago for a comparison
    more, less = more[:, None], less[:, :, None]

    def between(earlier: IntArray | int, later: IntArray | int) -> Float64Array:
        return np.asarray(np.exp(passed[later] - passed[np.asarray(earlier) + 1]))

    def summed(weights: Float64Array, states: Float64Array) -> Float64Array:
        """States (w, B, S, …) weighed by (w, B), summed."""
        return np.asarray((weights.reshape(*weights.shape, *(1,) * (states.ndim - 2)) * states).sum(axis=0))

    def opened(moves: Float64Array, way: Float64Array) -> Float64Array:
        return np.asarray((moves @ less)[:, :, 0] @ way)

    for j in range(count):
        near = np.arange(max(0, j - WINDOW), j)
        weights = between(near, j)
        stays = far + summed(weights * same[near, j, None], before[near])
        moves = far + summed(weights * on[near, j, None], before[near])
        begin = start * np.exp(edge[j])[:, None]
        now = before[j]
        stays *= more
        now[:, :, 1:] = stays[:, :, :-1]
        now[:, :, -1] += stays[:, :, -1]
        now *= again[j][:, :, None]
        now[:, :, 0] = fresh[j] * (begin * first + opened(moves, passes))
        most = np.maximum(np.maximum(far, stays).max(axis=(1, 2)), begin[:, 0])
        scale[j] = np.maximum(now.max(axis=(1, 2)), stranger[j] * most)
        now /= scale[j][:, None, None]
        passed[j + 1] = passed[j] + np.log(stranger[j] / scale[j])
        outside[j + 1] = outside[j] - np.log(scale[j])
        far *= (stranger[j] / scale[j])[:, None, None]
        if j >= WINDOW:
            far += before[j - WINDOW] * between(j - WINDOW, j + 1)[:, None, None]
    fresh, again = fresh / scale[:, :, None], again / scale[:, :, None]
    after = np.zeros((count, batch, steps, RUN))
    onward = np.zeros((count, batch, steps, RUN))  # what follows from a photograph on, without the comparison
    far[:] = 0.0
    back, less = passes.T, less[:, None, :, 0]
    for i in range(count - 1, -1, -1):
        near = np.arange(i + 1, min(count, i + 1 + WINDOW))
        weights = between(i, near)
        grown = after[near] * again[near][:, :, :, None]
        begun = after[near][:, :, :, 0] * fresh[near]
        now = after[i]
        longer = summed(weights * same[i, near, None], grown)
        now[:, :, :-1] = longer[:, :, 1:] * more[:, :, :-1]
        now[:, :, -1] = longer[:, :, -1] * more[:, :, -1]
        now += (summed(weights * on[i, near, None], begun) @ back)[:, :, None] * less
        now += far + np.exp(edge[count] - edge[i + 1])[:, None, None] * last
        longer = now * again[i][:, :, None]
        onward[i] = ((now[:, :, 0] * fresh[i]) @ back)[:, :, None] * less
        onward[i][:, :, :-1] += longer[:, :, 1:] * more[:, :, :-1]
        onward[i][:, :, -1] += longer[:, :, -1] * more[:, :, -1]
        if i:
            far *= np.exp(passed[i + 1] - passed[i])[:, None, None]
            if i + WINDOW < count:
                far += onward[i + WINDOW] * between(i - 1, i + WINDOW)[:, None, None]
    begins = start * np.exp(edge[:count])[:, :, None] * first * fresh
    total = (begins * after[:, :, :, 0]).sum(axis=(0, 2))
    if not walk.free:
        total += np.exp(passed[count]) * walk.skip**steps
    total = np.maximum(total, 1e-300)  # a row that no walk explains
    belongs = np.moveaxis((before * after).sum(axis=3), 0, 2) / total[:, None, None]
    return np.log(total) + np.log(scale).sum(axis=0), belongs


@dataclass(frozen=True)
class Photographs:
    """The photographs of a row, in order, without the text.

    Attributes:
        stranger: (n,) probability that each belongs to no step, see `strangers`.
        pairs: see `transitions`.
    """

    stranger: Float64Array
    pairs: Pairs

    @classmethod
    def of(cls, looks: Float64Array, base: Float64Array) -> Photographs:
        """Compare the photographs of a row.

        Args:
            looks: (n, D) unit vectors.
            base: (n, D′) unit vectors.
        """
        near = looks @ looks.T, base @ base.T
        return cls(strangers(*near), transitions(*near))

    @classmethod
    def unknown(cls, count: int) -> Photographs:
        """Photographs that cannot be compared with each other."""
        return cls(np.full(count, STRANGERS[0]), (np.ones((count, count)), np.ones((count, count))))

    def part(self, place: slice) -> Photographs:
        """Some of the photographs."""
        return Photographs(self.stranger[place], (self.pairs[0][place, place], self.pairs[1][place, place]))

    def certain(self, places: Sequence[int]) -> Photographs:
        """The photographs, of which some belong to a step as probably as others."""
        stranger = self.stranger.copy()
        stranger[list(places)] = STRANGERS[0]
        return Photographs(stranger, self.pairs)

    def walked(self, likelihood: Float64Array) -> tuple[Float64Array, Float64Array]:
        """`walked` from the beginning of the row to its end, or one photograph for each step."""
        _, steps, count = likelihood.shape
        walk = Walk.of(steps, float((1 - self.stranger).sum()))
        total, belongs = walked(likelihood, self.stranger, walk, self.pairs)
        if count != steps:
            return total, belongs
        # exactly as many photographs as steps: that they look different does not speak against one each
        one_each = (1 - STRANGERS[0]) * likelihood.diagonal(axis1=1, axis2=2)
        alike = np.log(np.maximum(self.pairs[1].diagonal(1), 1.0)).sum()
        listed = np.log(np.maximum(one_each, 1e-300)).sum(axis=1) + alike
        return _either(LISTED, listed, np.eye(steps)[None], total, belongs)

    def aligned(self, likelihood: Float64Array, title: Float64Array) -> tuple[Float64Array, Float64Array]:
        """The same, where the first or the last photograph may stand for the whole text.

        The first one may also show the finished thing: then it stands for the text and shows the last step.

        Args:
            likelihood: (B, S, n).
            title: (B, n) likelihoods of the title.
        Returns:
            (B,) logarithms of the sums, and probabilities (B, S + 1, n), the last of which are the title's.
        """
        total, belongs = self.walked(likelihood)
        belongs = np.pad(belongs, ((0, 0), (0, 1), (0, 0)))
        if likelihood.shape[2] < 3:
            return total, belongs
        same, on = (weights[0, -1] for weights in self.pairs)
        finished = SHOWN_FIRST * same / on * likelihood[:, -1, 0]
        # of as many photographs as steps, a cover would leave a step without one
        first, end = COVER if likelihood.shape[2] > likelihood.shape[1] else (0.0, 0.0)
        for at, rest, prior, step, alone in (
            (0, slice(1, None), SHOWN_FIRST + first, finished, first * title[:, 0]),
            (-1, slice(None, -1), end, 0.0, end * title[:, -1]),
        ):
            if prior:
                fits = np.maximum(step + alone, 1e-300)
                moved, here = np.zeros_like(belongs), 1 - self.stranger[at]
                others, moved[:, :-1, rest] = self.part(rest).walked(likelihood[:, :, rest])
                moved[:, -2, at], moved[:, -1, at] = here * step / fits, here
                total, belongs = _either(prior, np.log(here * fits / prior) + others, moved, total, belongs)
        return total, belongs

    def stretch(self, likelihood: Float64Array, more: Float64Array) -> tuple[Float64Array, Float64Array]:
        """`walked` along a part of the row that may begin and end anywhere.

        Args:
            likelihood: (B, S, n).
            more: (B, 1) probability of one more photograph of a step.
        """
        return walked(
            likelihood,
            np.full(likelihood.shape[2], STRANGERS[0]),
            Walk(np.broadcast_to(more, (len(likelihood), RUN)), STRANGERS[0], free=True),
            self.pairs,
        )


def _either(
    prior: float, one: Float64Array, belongs: Float64Array, other: Float64Array, otherwise: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Sums and probabilities of two explanations, of which the first has a prior probability."""
    first, second = log(prior) + one, log(1 - prior) + other
    whole = np.logaddexp(first, second)
    share = np.exp(first - whole)[:, None, None]
    return whole, share * belongs + (1 - share) * otherwise


@dataclass(frozen=True)
class Alignment:
    """How the photographs of a named row lie along the steps.

    Attributes:
        belongs: (S, n) probability that a photograph belongs to a step; a column adds up to at most 1.
        gain: log-likelihood that the text adds, divided by the number of steps.
        kept: mean probability that a photograph belongs to a step.
        cover: (n,) probability that a photograph stands for the whole text.
    """

    belongs: Float64Array
    gain: float
    kept: float
    cover: Float64Array


def align(
    evidence: Float64Array,
    row: Photographs,
    given: Mapping[int, int],
    title: Float64Array,
    ratios: Float64Array | float = 1.0,
) -> Alignment:
    """Align the photographs of a named row with the steps of a text.

    If there are as many photographs as steps, they are a list: a photograph given to a step moves to that
    place, and the others keep their order.

    Args:
        evidence: (S, n) log-likelihood ratios, photographs in order.
        row: the photographs.
        given: step of the photographs that are given to one, by place.
        title: (n,) log-likelihood ratios of the title.
        ratios: (S, n) likelihood ratios of when and where, which count in full.
    """
    steps, count = evidence.shape
    likelihood, fits = scaled(evidence) * ratios, np.exp(np.maximum(title, LOWEST))
    fits /= fits.mean()
    row = row.certain(list(given))
    for place, step in given.items():
        likelihood[:, place] = 1e-12
        likelihood[step, place] = 1.0
        fits[place] = 1e-12
    loose = (1 - row.stranger) * likelihood / steps
    loose /= loose.sum(axis=0) + row.stranger
    listed = np.arange(count)
    if count == steps and len(set(given.values())) == len(given):
        rest = iter([place for place in range(count) if place not in given])
        at = {step: place for place, step in given.items()}
        listed = np.array([at[step] if step in at else next(rest) for step in range(steps)])
    moved = Photographs(row.stranger[listed], tuple(one[np.ix_(listed, listed)] for one in row.pairs))  # type: ignore[arg-type]
    nothing = np.ones((steps + 1, count))
    total, both = moved.aligned(
        np.stack([likelihood[:, listed], nothing[1:]]), np.stack([fits[listed], nothing[0]])
    )
    belongs = np.zeros_like(nothing)
    belongs[:, listed] = both[0]
    belongs, cover = belongs[:-1], belongs[-1]
    gain = float(total[0] - total[1])
    share = float(np.exp(-np.logaddexp(0.0, -log(IN_ORDER / (1 - IN_ORDER)) - gain)))
    belongs = share * belongs + (1 - share) * loose
    return Alignment(belongs, gain / steps, float(1 - row.stranger.mean()), share * cover)


PRIORS = {"none": 0.77, "order": 0.13, "any": 0.05, "stretch": 0.03}
"""Probability that the pictures of a text have nothing in common, are a row from its beginning to its end, a
row in any order, or a stretch of a longer row.
"""
LEVEL = 1.9, 0.15
"""Exponent a / (1 + b (S − 1)), at most 1, of the mean likelihoods of a row: every step says again that its
pictures are of the same kind as those of the text.
"""
KIND = 0.5
"""Part of what the kind of pictures in the rows tells that counts for no row as well: pictures of one kind
often lie in one folder, whether they are those of the text or not.
"""
RUNS = 0.05, 0.4
"""Probabilities of one more photograph of a step in a stretch, in equal shares."""
OF_ROW = 0.92
"""Probability that a step shows a picture of a row in any order."""


@dataclass(frozen=True)
class Belief:
    """An explanation of a text's pictures by one row of a library.

    Attributes:
        weight: its probability.
        row: index of the row.
        belongs: (S, n) probability, if it is true, that a photograph of the row belongs to a step.
    """

    weight: float
    row: int
    belongs: Float64Array


def beliefs(  # noqa: PLR0917
    likelihoods: Sequence[Float64Array],
    rows: Sequence[Photographs],
    sizes: Sequence[int],
    given: Sequence[Mapping[int, int]],
    outside: Sequence[Float64Array],
    known: Sequence[float],
    pictures: int,
    inside: Sequence[Float64Array] = (),
) -> list[Belief]:
    """Weigh the rows of a library as explanations of a text's pictures.

    The probabilities of all explanations and of none add up to 1. All are weighed by the likelihood of the
    text, divided by that of a text that says nothing.

    Args:
        likelihoods: by row, (S, n) likelihoods with a mean of 1 over the library for each step.
        rows: the photographs of each row.
        sizes: number of photographs of every row of the library, of those too that are not considered.
        given: by row, step of the photographs that a person gave to one, by place.
        outside: by row, (S,) by how much the most probable picture of a step outside the row is more
            probable than that of the row.
        known: by row, log-odds of what is known of it otherwise.
        pictures: number of pictures of the library.
        inside: by row, (S, n) likelihoods by which its own photographs are placed, if they are others.
    """
    found: list[tuple[float, int, Float64Array]] = []
    kinds: list[float] = []
    roots, whole = float(np.sqrt(sizes).sum()), float(np.sum(sizes))
    for number, (likelihood, photographs, fixed, better) in enumerate(
        zip(likelihoods, rows, given, outside, strict=True)
    ):
        steps, count = likelihood.shape
        both = np.stack([likelihood, np.ones_like(likelihood), *inside[number : number + 1]])
        shown, placed, row = both[0], both[2 if inside else 0], photographs.certain(list(fixed))
        for place, step in fixed.items():
            both[[0, -1 if inside else 0], :, place] = 1e-12
            both[[0, -1 if inside else 0], step, place] = steps
        level = float(np.log(shown.mean(axis=1)).sum())
        share = min(1.0, LEVEL[0] / (1 + LEVEL[1] * (steps - 1)))
        kinds.append(log(count / whole) + share * level)
        # a picture outside the row that fits better speaks against the row
        against = float(np.log1p(-(np.minimum(better, 0.99) ** 2)).sum())
        bonus = len(fixed) * log(pictures / count) - (1 - share) * level + against + known[number]
        total, belongs = row.walked(both)
        prior = log(PRIORS["order"] * count**0.5 / roots) + bonus
        found.append((prior + float(total[0] - total[1]), number, belongs[2 if inside else 0]))
        mean, within = (OF_ROW * one.mean(axis=1, keepdims=True) + 1 - OF_ROW for one in (shown, placed))
        prior = log(PRIORS["any"] * count / whole)
        found.append((prior + float(np.log(mean).sum()) + bonus, number, OF_ROW * placed / count / within))
        if count > steps:
            total, belongs = row.stretch(
                np.repeat(both, len(RUNS), axis=0), np.tile(RUNS, len(both))[:, None]
            )
            prior = log(PRIORS["stretch"] / len(RUNS) * count / whole) + bonus
            gains = total[: len(RUNS)] - total[len(RUNS) : 2 * len(RUNS)]
            parts = belongs[-len(RUNS) if inside else 0 :]
            found += [(prior + float(gain), number, parts[at]) for at, gain in enumerate(gains)]
    kind = float(np.logaddexp.reduce(kinds)) if kinds else 0.0
    logs = np.array([log(PRIORS["none"]) + KIND * max(kind, 0.0), *(weight for weight, _, _ in found)])
    shares = np.exp(logs - np.logaddexp.reduce(logs))[1:]
    return [
        Belief(float(share), number, part) for share, (_, number, part) in zip(shares, found, strict=True)
    ]
