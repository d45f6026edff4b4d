"""The order in which photographs were taken, as evidence for which step shows which.

The photographs of a row are read in order while a pointer walks over the steps; every photograph belongs to
the step at the pointer, or to none. Forward–backward sums over all walks, so that every pair of step and
photograph has a probability, and a row a likelihood by which it is compared with other explanations.

Source: hidden Markov models with explicit durations, Rabiner, A Tutorial on Hidden Markov Models, 1989, IV.D;
    aligning the steps of a recipe with a video, Malmaud et al., What's Cookin'?, 2015.
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
UNLIKE = {"one": 4.28, "looks": -12.62, "base": -16.28}
"""Log-odds that a photograph belongs to no step: weights of its mean similarity to the others of the row."""
ON, SHOT = 0.2, (14.4, -1.05, -8.1)
"""Weight of the similarity of two photographs that follow each other, and log-odds that they are shots of one
step: weights of their cosines by content and by looks, and a constant.
"""
LISTED = 0.97
"""Probability that as many photographs as steps are one for each step."""
SHOWN_FIRST = 0.05
"""Probability that the first photograph of a row shows the last step: the finished thing."""
IN_ORDER = 0.97
"""Probability that a named row follows the steps."""
NAMED, INSIDE = 0.4, 0.75
"""Factors of the evidence in a named row, where all photographs are of the same matter, and in a library."""
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


def scaled(evidence: Float64Array, weight: float) -> Float64Array:
    """Likelihoods (S, n), scaled until each step and each photograph has a mean of 1.

    Args:
        evidence: (S, n) log-likelihood ratios.
        weight: factor of the evidence.
    """
    likelihood = np.exp(weight * np.maximum(evidence, LOWEST))
    for _ in range(SCALING_ROUNDS):
        likelihood /= likelihood.mean(axis=1, keepdims=True)
        likelihood /= likelihood.mean(axis=0, keepdims=True)
    return np.asarray(likelihood)


def walked(  # noqa: PLR0915  (forward and backward share their weights)
    likelihood: Float64Array,
    stranger: Float64Array,
    walk: Walk,
    pairs: Pairs,
) -> tuple[float, Float64Array]:
    """Sum over all walks of the pointer, by forward–backward.

    A state is the last photograph that belongs to a step, that step, and the number of its photographs so
    far. All weights of a photograph are divided by the same number, so that the sums stay near 1.

    Args:
        likelihood: (S, n).
        stranger: (n,) probability that a photograph belongs to no step.
        walk: weights of the moves.
        pairs: see `transitions`.
    Returns:
        The logarithm of the sum, and the probability (S, n) that a photograph belongs to a step.
    """
    steps, count = likelihood.shape
    same, on = pairs
    more, less = walk.more, 1.0 - walk.more
    ahead = np.arange(steps) - np.arange(steps)[:, None]
    passes = np.triu((1 - walk.skip) * walk.skip ** np.maximum(ahead - 1, 0), 1)  # (S, S) from row to column
    first = (1 - walk.skip) * walk.skip ** np.arange(steps)
    last = walk.skip ** (steps - 1 - np.arange(steps))[:, None] * less
    fresh = ((1 - stranger) * likelihood).T  # (n, S)
    again = ((1 - stranger) * likelihood**SHY_SHOT).T
    scale = np.zeros(count)
    passed = np.zeros(count + 1)  # sum of the logs of the weights as strangers
    outside = np.zeros(count + 1)  # sum of the logs of the weights before and after a stretch
    start = 1.0 / count if walk.free else 1.0
    before = np.zeros((count, steps, RUN))
    far = np.zeros((steps, RUN))  # photographs too long ago for a comparison

    def between(earlier: IntArray | int, later: IntArray | int) -> Float64Array:
        return np.asarray(np.exp(passed[later] - passed[np.asarray(earlier) + 1]))

    for j in range(count):
        near = np.arange(max(0, j - WINDOW), j)
        weights = between(near, j)
        stays = far + np.tensordot(weights * same[near, j], before[near], 1)
        moves = far + np.tensordot(weights * on[near, j], before[near], 1)
        begin = start * exp(outside[j] if walk.free else passed[j])
        now = before[j]
        now[:, 1:] = (stays * more)[:, :-1]
        now[:, -1] += stays[:, -1] * more[-1]
        now *= again[j][:, None]
        now[:, 0] = fresh[j] * (begin * first + (moves @ less) @ passes)
        scale[j] = max(now.max(), stranger[j] * max(begin, far.max(), stays.max()))
        now /= scale[j]
        passed[j + 1] = passed[j] + log(stranger[j] / scale[j])
        outside[j + 1] = outside[j] - log(scale[j])
        far *= stranger[j] / scale[j]
        if j >= WINDOW:
            far += before[j - WINDOW] * between(j - WINDOW, j + 1)
    fresh, again = fresh / scale[:, None], again / scale[:, None]
    after = np.zeros((count, steps, RUN))
    onward = np.zeros((count, steps, RUN))  # what follows from a photograph on, without the comparison
    far[:] = 0.0
    ending = outside if walk.free else passed
    for i in range(count - 1, -1, -1):
        near = np.arange(i + 1, min(count, i + 1 + WINDOW))
        weights = between(i, near)
        grown = after[near] * again[near][:, :, None]
        grown = np.concatenate([grown[:, :, 1:], grown[:, :, -1:]], axis=2)
        opened = after[near][:, :, 0] * fresh[near]
        now = after[i]
        now += np.tensordot(weights * same[i, near], grown, 1) * more
        now += (passes @ np.tensordot(weights * on[i, near], opened, 1))[:, None] * less
        now += far + exp(ending[count] - ending[i + 1]) * last
        grown = now * again[i][:, None]
        onward[i] = np.concatenate([grown[:, 1:], grown[:, -1:]], axis=1) * more
        onward[i] += (passes @ (now[:, 0] * fresh[i]))[:, None] * less
        if i:
            far *= exp(passed[i + 1] - passed[i])
            if i + WINDOW < count:
                far += onward[i + WINDOW] * between(i - 1, i + WINDOW)
    begins = start * np.exp(outside[:count] if walk.free else passed[:count])
    total = float((begins[:, None] * first * fresh * after[:, :, 0]).sum())
    if not walk.free:
        total += exp(passed[count]) * walk.skip**steps
    belongs = (before * after).sum(axis=2).T / total
    return log(total) + float(np.log(scale).sum()), belongs


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

    def walked(self, likelihood: Float64Array) -> tuple[float, Float64Array]:
        """`walked` from the beginning of the row to its end, or one photograph for each step."""
        steps, count = likelihood.shape
        total, belongs = walked(
            likelihood, self.stranger, Walk.of(steps, float((1 - self.stranger).sum())), self.pairs
        )
        if count != steps:
            return total, belongs
        path = np.log((1 - self.stranger) * np.maximum(likelihood.diagonal(), 1e-300)).sum()
        path += np.log(self.pairs[1].diagonal(1)).sum()
        listed, free = log(LISTED) + float(path), log(1 - LISTED) + total
        whole = float(np.logaddexp(listed, free))
        share = exp(listed - whole)
        return whole, share * np.eye(steps) + (1 - share) * belongs

    def aligned(self, likelihood: Float64Array) -> tuple[float, Float64Array]:
        """The same, where the first photograph may also show the finished thing."""
        total, belongs = self.walked(likelihood)
        if likelihood.shape[1] < 3:
            return total, belongs
        rest, later = self.part(slice(1, None)).walked(likelihood[:, 1:])
        same, on = (weights[0, -1] for weights in self.pairs)
        first = log(SHOWN_FIRST * (1 - self.stranger[0]) * max(likelihood[-1, 0], 1e-300) * same / on) + rest
        total += log(1 - SHOWN_FIRST)
        whole = float(np.logaddexp(first, total))
        share = exp(first - whole)
        moved = np.zeros_like(belongs)
        moved[:, 1:], moved[-1, 0] = later, 1 - self.stranger[0]
        return whole, share * moved + (1 - share) * belongs

    def stretch(self, likelihood: Float64Array, more: float) -> tuple[float, Float64Array]:
        """`walked` along a part of the row that may begin and end anywhere."""
        walk = Walk(np.full(RUN, more), STRANGERS[0], free=True)
        return walked(likelihood, np.full(likelihood.shape[1], STRANGERS[0]), walk, self.pairs)


@dataclass(frozen=True)
class Alignment:
    """How the photographs of a named row lie along the steps.

    Attributes:
        belongs: (S, n) probability that a photograph belongs to a step; a column adds up to at most 1.
        gain: log-likelihood that the text adds, divided by the number of steps.
        kept: mean probability that a photograph belongs to a step.
    """

    belongs: Float64Array
    gain: float
    kept: float


def align(
    evidence: Float64Array, row: Photographs, given: Mapping[int, int], *, in_order: bool = True
) -> Alignment:
    """Align the photographs of a named row with the steps of a text.

    If there are as many photographs as steps, they are a list: a photograph given to a step moves to that
    place, and the others keep their order.

    Args:
        evidence: (S, n) log-likelihood ratios, photographs in order.
        row: the photographs.
        given: step of the photographs that are given to one, by place.
        in_order: whether the row has an order.
    """
    steps, count = evidence.shape
    likelihood = scaled(evidence, NAMED)
    row = row.certain(list(given))
    for place, step in given.items():
        likelihood[:, place] = 1e-12
        likelihood[step, place] = 1.0
    loose = (1 - row.stranger) * likelihood / steps
    loose /= loose.sum(axis=0) + row.stranger
    kept = float(1 - row.stranger.mean())
    if not in_order:
        return Alignment(loose, 0.0, kept)
    listed = np.arange(count)
    if count == steps and len(set(given.values())) == len(given):
        rest = iter([place for place in range(count) if place not in given])
        at = {step: place for place, step in given.items()}
        listed = np.array([at[step] if step in at else next(rest) for step in range(steps)])
    moved = Photographs(row.stranger[listed], tuple(one[np.ix_(listed, listed)] for one in row.pairs))  # type: ignore[arg-type]
    total, ordered = moved.aligned(likelihood[:, listed])
    nothing, _ = moved.aligned(np.ones_like(likelihood))
    belongs = np.zeros_like(ordered)
    belongs[:, listed] = ordered
    odds = log(IN_ORDER / (1 - IN_ORDER)) + total - nothing
    share = 1.0 / (1.0 + exp(-odds))
    return Alignment(share * belongs + (1 - share) * loose, (total - nothing) / steps, kept)


PRIORS = {"none": 0.77, "order": 0.13, "any": 0.05, "stretch": 0.03}
"""Probability that the pictures of a text have nothing in common, are a row from its beginning to its end, a
row in any order, or a stretch of a longer row.
"""
LEVEL = 1.9, 0.15
"""Exponent a / (1 + b (S − 1)), at most 1, of the mean likelihoods of a row: every step says again that its
pictures are of the same kind as those of the text.
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
    pictures: int,
) -> list[Belief]:
    """Weigh the rows of a library as explanations of a text's pictures.

    The probabilities of all explanations and of none add up to 1. All are weighed by the likelihood of the
    text, divided by that of a text that says nothing.

    Args:
        likelihoods: by row, (S, n) likelihoods with a mean of 1 over the library for each step.
        rows: the photographs of each row.
        sizes: number of photographs of every row of the library, of those too that are not considered.
        given: by row, step of the photographs that a person gave to one, by place.
        outside: by row, (S,) largest probability that a picture outside the row fits a step.
        pictures: number of pictures of the library.
    """
    found: list[tuple[float, int, Float64Array]] = []
    roots, whole = float(np.sqrt(sizes).sum()), float(np.sum(sizes))
    for number, (likelihood, photographs, fixed, better) in enumerate(
        zip(likelihoods, rows, given, outside, strict=True)
    ):
        steps, count = likelihood.shape
        shown, row = likelihood.copy(), photographs.certain(list(fixed))
        for place, step in fixed.items():
            shown[:, place] = 1e-12
            shown[step, place] = steps
        level = float(np.log(shown.mean(axis=1)).sum())
        known = min(1.0, LEVEL[0] / (1 + LEVEL[1] * (steps - 1)))
        # a picture outside the row that probably fits speaks against the row
        against = float(np.log1p(-(np.minimum(better, 0.99) ** 2)).sum())
        bonus = len(fixed) * log(pictures / count) - (1 - known) * level + against
        flat = np.ones_like(shown)
        total, belongs = row.walked(shown)
        total -= row.walked(flat)[0]
        found.append((log(PRIORS["order"] * count**0.5 / roots) + total + bonus, number, belongs))
        mean = OF_ROW * shown.mean(axis=1, keepdims=True) + 1 - OF_ROW
        prior = log(PRIORS["any"] * count / whole)
        found.append((prior + float(np.log(mean).sum()) + bonus, number, OF_ROW * shown / count / mean))
        for more in RUNS if count > steps else ():
            total, belongs = row.stretch(shown, more)
            total -= row.stretch(flat, more)[0]
            prior = log(PRIORS["stretch"] / len(RUNS) * count / whole)
            found.append((prior + total + bonus, number, belongs))
    logs = np.array([log(PRIORS["none"]), *(weight for weight, _, _ in found)])
    shares = np.exp(logs - np.logaddexp.reduce(logs))[1:]
    return [
        Belief(float(share), number, part) for share, (_, number, part) in zip(shares, found, strict=True)
    ]
