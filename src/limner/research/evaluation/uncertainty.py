"""Bootstrap intervals by group, paired differences, and Holm's correction.

Steps of one story are not independent, so whole groups are resampled. A resample is represented by the number
of times that each group occurs.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from limner.config import Record
from limner.errors import ConfigError, DataError, NumericsError, ShapeError

Statistic = Literal["mean", "median"]
Values = NDArray[np.float64]
Weights = NDArray[np.integer]
RESAMPLES = 10_000
_CELLS = 1 << 22


class Interval(Record):
    """A value with its bootstrap interval.

    Attributes:
        value: value on the original data.
        low, high: percentile interval.
        level: nominal coverage.
        resamples: number of resamples.
        groups: number of groups.
    """

    value: float
    low: float
    high: float
    level: float = 0.95
    resamples: int = RESAMPLES
    groups: int


class Difference(Interval):
    """A paired difference.

    Attributes:
        p_value: two-sided, 2 (b + 1) / (m + 1) and at most 1, where b of m resamples lie on the smaller side
            of 0; never 0.
    Source: docs/methods/evaluation.md §8.
    """

    p_value: float


def group_numbers(groups: Sequence[Hashable]) -> tuple[NDArray[np.int64], int]:
    """(N,) number of each item's group, in order of first appearance; and the number of groups."""
    numbers: dict[Hashable, int] = {}
    owner = np.array([numbers.setdefault(group, len(numbers)) for group in groups], dtype=np.int64)
    return owner, len(numbers)


def bootstrap(
    statistics: Sequence[Callable[[Weights], Values]],
    groups: int,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    width: int = 1,
) -> list[Values]:
    """Evaluate statistics on the same resamples of whole groups.

    Args:
        statistics: each maps (r, G) counts of groups to (r,) values, NaN if undefined for a resample.
        groups: number of groups, G ≥ 1.
        resamples: number of resamples, R ≥ 1.
        seed: seed of the resamples.
        width: numbers in memory per resample, which limits the size of a block.
    Returns:
        (R,) values of each statistic.
    Raises:
        ConfigError: `resamples` is below 1.
        DataError: there are no groups.
    """
    if resamples < 1:
        raise ConfigError(f"bootstrap: {resamples} resamples, expected at least 1")
    if groups < 1:
        raise DataError("bootstrap: no values; expected at least one")
    rng = np.random.default_rng(seed)
    drawn: list[list[Values]] = [[] for _ in statistics]
    step = max(1, _CELLS // max(width, groups))
    for start in range(0, resamples, step):
        weights = rng.multinomial(groups, np.full(groups, 1.0 / groups), size=min(step, resamples - start))
        for place, statistic in enumerate(statistics):
            drawn[place].append(statistic(weights))
    return [np.concatenate(parts) for parts in drawn]


def interval_of(value: float, drawn: Values, groups: int, level: float = 0.95) -> Interval:
    """The interval of resampled values; `resamples` counts those in which the statistic is defined.

    Raises:
        ConfigError: `level` is outside (0, 1).
        DataError: the statistic is undefined in more than half of the resamples.
    """
    return Interval(value=value, groups=groups, **_spread(drawn, level))


def difference_of(value: float, gaps: Values, groups: int) -> Difference:
    """The paired difference, from resampled differences; see `interval_of`."""
    spread = _spread(gaps, 0.95)
    tail = min(int((gaps <= 0).sum()), int((gaps >= 0).sum()))
    p_value = min(1.0, 2.0 * (tail + 1) / (spread["resamples"] + 1))
    return Difference(value=value, groups=groups, p_value=p_value, **spread)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction for multiple tests, which controls the family-wise error rate.

    Args:
        p_values: p values of one family of tests, each in [0, 1].
    Returns:
        Adjusted p values in the same order; Holm's procedure rejects those below the level.
    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    values = np.asarray(p_values)
    order, adjusted = np.argsort(values), np.empty(len(values))
    raised = values[order] * np.arange(len(values), 0, -1)
    adjusted[order] = np.maximum.accumulate(np.minimum(raised, 1))
    found: list[float] = adjusted.tolist()
    return found


def weighted_median(values: Values, weights: Weights) -> Values:
    """(R,) medians of the multisets in which value i occurs weights[r, i] times; NaN for an empty one."""
    order = np.argsort(values)
    ordered = values[order]
    reached = np.cumsum(weights[:, order], axis=1)
    size = reached[:, -1:]
    lower = np.argmax(reached > (size - 1) // 2, axis=1)
    upper = np.argmax(reached > size // 2, axis=1)
    # halve first, so that the median of two infinite ranks is infinite, not NaN
    middle: Values = 0.5 * ordered[lower] + 0.5 * ordered[upper]
    return np.where(size[:, 0] > 0, middle, np.nan)


def interval(
    values: Values,
    groups: Sequence[Hashable],
    statistic: Statistic = "mean",
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap of one statistic, resampling whole groups.

    Args:
        values: (N,) one value per query, without NaN.
        groups: (N,) group of each query, such as its story.
        statistic: mean, or median (mean of the two middle values).
        resamples: number of resamples, at least 1.
        level: coverage, in (0, 1).
        seed: seed of the resamples; equal seeds and groups give equal resamples, also across systems.
    Raises:
        ShapeError: the lengths differ.
        DataError: there are no values.
        NumericsError: a value is NaN.
        ConfigError: a setting is out of range.
    """
    ((found, drawn),), total = _resample([values], groups, statistic, resamples, seed)
    return interval_of(found, drawn, total, level)


def difference(
    first: Values,
    second: Values,
    groups: Sequence[Hashable],
    statistic: Statistic = "mean",
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """Paired bootstrap of statistic(first) − statistic(second) on the same queries.

    Args:
        first: (N,) values of one system, one per query.
        second: (N,) values of the other, in the same order.
        groups: see `interval`.
        statistic: see `interval`.
        resamples: see `interval`.
        seed: see `interval`.
    """
    ((one, drawn), (other, drawn_other)), total = _resample(
        [first, second], groups, statistic, resamples, seed
    )
    return difference_of(one - other, drawn - drawn_other, total)


def _resample(
    columns: list[Values], groups: Sequence[Hashable], statistic: Statistic, resamples: int, seed: int
) -> tuple[list[tuple[float, Values]], int]:
    """The statistic of each column and of its resamples (the same for all); and the number of groups."""
    for column in columns:
        if column.shape != (len(groups),):
            raise ShapeError(f"bootstrap: values have shape {column.shape}, groups ({len(groups)},)")
        wrong = np.isnan(column) if statistic == "median" else ~np.isfinite(column)
        if wrong.any():
            raise NumericsError(f"bootstrap: value {np.argmax(wrong)} is {column[np.argmax(wrong)]}")
    owner, total = group_numbers(groups)

    def resampled(column: Values) -> Callable[[Weights], Values]:
        if statistic == "median":
            return lambda weights: weighted_median(column, weights[:, owner])
        sums, sizes = np.bincount(owner, column), np.bincount(owner)
        return lambda weights: (weights @ sums) / (weights @ sizes)

    drawn = bootstrap(
        [resampled(column) for column in columns], total, resamples=resamples, seed=seed, width=len(owner)
    )
    whole = np.mean if statistic == "mean" else np.median
    return [(float(whole(column)), drawn[place]) for place, column in enumerate(columns)], total


def _spread(drawn: Values, level: float) -> dict[str, Any]:
    """Percentiles, and the number of resamples in which the statistic is defined."""
    if not 0 < level < 1:
        raise ConfigError(f"bootstrap: level {level}, expected more than 0 and less than 1")
    kept = drawn[~np.isnan(drawn)]
    if 2 * len(kept) < len(drawn):
        raise DataError(
            f"bootstrap: undefined in {len(drawn) - len(kept)} of {len(drawn)} resamples; too few groups have"
            " data; use more data, or report no interval"
        )
    tail = 100 * (1 - level) / 2
    # nearest value, because interpolating infinite ranks would give NaN
    low, high = np.percentile(kept, [tail, 100 - tail], method="closest_observation")
    return {"low": float(low), "high": float(high), "level": level, "resamples": len(kept)}
