"""Bootstrap intervals by group: how far a number would move with other stories.

Pages of one story are not independent, so whole groups are drawn again, not queries. The weights
of a resample are counts, so no value is ever copied. It knows no metric and no model.
"""

from collections.abc import Hashable, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from limner.data.records import Record
from limner.errors import ConfigError, DataError, NumericsError, ShapeError, unknown

Statistic = Literal["mean", "median"]
Values = NDArray[np.float64]
RESAMPLES = 10_000
_CELLS = 1 << 22


class Interval(Record):
    """A number and how sure it is.

    Attributes:
        value: on the data themselves.
        low, high: percentile interval.
        level: its nominal coverage.
        resamples: how many were drawn.
        groups: independent units drawn from.
    """

    value: float
    low: float
    high: float
    level: float = 0.95
    resamples: int = RESAMPLES
    groups: int


class Difference(Interval):
    """A paired difference; `p_value` is two-sided, (b + 1) / (m + 1), never 0."""

    p_value: float


def interval(
    values: Values,
    groups: Sequence[Hashable],
    statistic: Statistic = "mean",
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap of one statistic, drawing whole groups.

    Args:
        values: (N,) one per query, no NaN.
        groups: (N,) what each query belongs to, such as its story.
        statistic: mean, or median (mean of the two middle values).
        resamples: at least 1.
        level: coverage in (0, 1).
        seed: of the draws; equal seeds and groups give equal draws, also across systems.
    Raises:
        ShapeError, DataError, NumericsError, ConfigError: lengths differ, nothing to draw, a NaN, a
            setting out of range.
    """
    drawn, found, sizes = _resample([values], groups, statistic, resamples=resamples, level=level, seed=seed)
    low, high = _percentiles(drawn[0], level)
    return Interval(value=found[0], low=low, high=high, level=level, resamples=resamples, groups=sizes)


def difference(
    first: Values,
    second: Values,
    groups: Sequence[Hashable],
    statistic: Statistic = "mean",
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Difference:
    """Paired bootstrap of statistic(first) − statistic(second) on the same queries.

    Args:
        first: (N,) values of one system, one per query.
        second: (N,) values of the other, in the same order.
        groups: as in `interval`.
        statistic: as in `interval`.
        resamples: as in `interval`.
        level: as in `interval`.
        seed: as in `interval`.
    """
    drawn, found, sizes = _resample(
        [first, second], groups, statistic, resamples=resamples, level=level, seed=seed
    )
    gaps = drawn[0] - drawn[1]
    low, high = _percentiles(gaps, level)
    tail = min(int((gaps <= 0).sum()), int((gaps >= 0).sum()))
    return Difference(
        value=found[0] - found[1],
        low=low,
        high=high,
        level=level,
        resamples=resamples,
        groups=sizes,
        p_value=min(1.0, 2.0 * (tail + 1) / (resamples + 1)),
    )


def _resample(
    columns: list[Values],
    groups: Sequence[Hashable],
    statistic: Statistic,
    *,
    resamples: int,
    level: float,
    seed: int,
) -> tuple[list[Values], list[float], int]:
    """Statistics of every resample for each column (same draws), those of the data, and G."""
    if statistic not in get_args(Statistic):
        raise ConfigError("bootstrap: " + unknown("statistic", statistic, get_args(Statistic)))
    if resamples < 1 or not 0 < level < 1:
        raise ConfigError(f"bootstrap: {resamples} resamples at level {level}, expected ≥ 1 in (0, 1)")
    if not len(groups):
        raise DataError("bootstrap: no values; an interval of nothing is not defined")
    columns = [np.asarray(column, dtype=np.float64) for column in columns]
    for column in columns:
        if column.shape != (len(groups),):
            raise ShapeError(f"bootstrap: values have shape {column.shape}, groups ({len(groups)},)")
        if np.isnan(column).any():
            raise NumericsError(f"bootstrap: value {int(np.argmax(np.isnan(column)))} is NaN")
        if statistic == "mean" and not np.isfinite(column).all():
            raise NumericsError(f"bootstrap: value {int(np.argmin(np.isfinite(column)))} is infinite")
    numbers: dict[Hashable, int] = {}
    owner = np.array([numbers.setdefault(group, len(numbers)) for group in groups])
    total = len(numbers)
    found = [float(np.mean(column) if statistic == "mean" else np.median(column)) for column in columns]
    rng = np.random.default_rng(seed)
    drawn: list[list[Values]] = [[] for _ in columns]
    step = max(1, _CELLS // len(owner))
    for start in range(0, resamples, step):
        weights = rng.multinomial(total, np.full(total, 1.0 / total), size=min(step, resamples - start))
        for column, parts in zip(columns, drawn, strict=True):
            parts.append(
                _mean(column, owner, weights) if statistic == "mean" else _median(column, owner, weights)
            )
    return [np.concatenate(parts) for parts in drawn], found, total


def _mean(values: Values, owner: NDArray[np.int64], weights: NDArray[np.int64]) -> Values:
    """(R,) weighted means: group sums and sizes are enough."""
    groups = weights.shape[1]
    sums = np.bincount(owner, values, minlength=groups)
    sizes = np.bincount(owner, minlength=groups)
    means: Values = (weights @ sums) / (weights @ sizes)
    return means


def _median(values: Values, owner: NDArray[np.int64], weights: NDArray[np.int64]) -> Values:
    """(R,) medians of the multisets in which value i occurs weights[r, owner[i]] times."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    reached = np.cumsum(weights[:, owner[order]], axis=1)
    size = reached[:, -1:]
    lower = np.argmax(reached > (size - 1) // 2, axis=1)
    upper = np.argmax(reached > size // 2, axis=1)
    # halves first: a median between two infinite ranks stays infinite, never NaN
    middle: Values = 0.5 * ordered[lower] + 0.5 * ordered[upper]
    return middle


def _percentiles(drawn: Values, level: float) -> tuple[float, float]:
    tail = 100 * (1 - level) / 2
    # the nearest drawn value, so that infinite ranks cannot turn into NaN by interpolation
    low, high = np.percentile(drawn, [tail, 100 - tail], method="closest_observation")
    return float(low), float(high)
