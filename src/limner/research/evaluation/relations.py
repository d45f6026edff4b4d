"""How well coherence relations are predicted: average precision beside prevalence and its ceiling.

Relations are rare or common, so a precision says nothing without the share of positives.
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from limner.errors import DataError, NumericsError
from limner.research.evaluation.uncertainty import (
    RESAMPLES,
    Interval,
    Values,
    Weights,
    group_numbers,
    interval,
)

Labels = NDArray[np.integer] | NDArray[np.floating] | NDArray[np.bool_] | Sequence[int]


def average_precision(scores: Values, labels: Labels) -> float:
    """Average precision of one relation; rows of equal score are one threshold.

    AP = Σ over thresholds of (share of the positives gained there) × (precision down to there). Constant
    scores give the prevalence.

    Args:
        scores: (N,) finite, more is more probable; or (S, N) of S seeds, whose precisions are averaged.
        labels: (N,) 0 or 1, at least one of them 1.
    Raises:
        NumericsError: a score is not finite.
        DataError: no positive.
    Source: docs/methods/evaluation.md §5.
    """
    runs, truth = _checked(scores, labels)
    every = np.arange(len(truth))
    once = np.ones((1, len(truth)), dtype=np.int64)
    return float(precision_statistic(runs, truth, every)(once)[0])


def prevalence(labels: Labels, groups: Sequence[Hashable], *, resamples: int = RESAMPLES) -> Interval:
    """Share of positives, which is what chance gives in average precision, with its interval."""
    return interval(np.asarray(labels, dtype=np.float64), groups, resamples=resamples)


def disagreement_ceiling(pairs: Sequence[Hashable], labels: Labels) -> float:
    """The best average precision open to anyone who sees the pair and not the annotator.

    Copies of one pair must get one score; the share of positives among them is the best one. Pairs that
    occur once cannot disagree, so this is an upper bound, and a loose one where copies are few.

    Args:
        pairs: (N,) identity of each row's (text, picture) pair.
        labels: (N,).
    Source: docs/methods/evaluation.md §5.
    """
    truth = np.asarray(labels, dtype=np.float64)
    owner, total = group_numbers(pairs)
    shares = np.bincount(owner, truth, total) / np.bincount(owner, minlength=total)
    return average_precision(shares[owner], labels)


def precision_statistic(
    scores: Values, labels: Labels, owner: NDArray[np.int64]
) -> Callable[[Weights], Values]:
    """Average precision as a statistic for `uncertainty.bootstrap`.

    Args:
        scores: (N,) or (S, N), as in `average_precision`.
        labels: (N,).
        owner: (N,) group number of every row.
    Returns:
        Counts of every group, (R, G) → (R,) mean over the seeds of the precision; NaN without a positive.
    """
    runs, truth = _checked(scores, labels)
    sorted_runs = []
    for run in runs:
        order = np.argsort(-run, kind="stable")
        ends = np.flatnonzero(np.append(np.diff(run[order]) != 0, True))
        sorted_runs.append((owner[order], truth[order], ends))

    def precisions(weights: Weights) -> Values:
        means: Values = np.mean([_weighted(weights, *one) for one in sorted_runs], axis=0)
        return means

    return precisions


def _checked(scores: Values, labels: Labels) -> tuple[Values, NDArray[np.float64]]:
    """(S, N) scores and (N,) labels."""
    runs = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    truth = np.asarray(labels, dtype=np.float64)
    if not truth.any():
        raise DataError("average precision: no positive row; the relation cannot be measured here")
    if not np.isfinite(runs).all():
        run, row = np.argwhere(~np.isfinite(runs))[0]
        raise NumericsError(f"average precision: score of row {row} (seed {run}) is {runs[run, row]}")
    return runs, truth


def _weighted(
    weights: Weights, owner: NDArray[np.int64], truth: NDArray[np.float64], ends: NDArray[np.int64]
) -> Values:
    """Rows in falling order of score, row i counted weights[r, owner[i]] times."""
    counts = weights[:, owner]
    seen = np.cumsum(counts, axis=1)[:, ends]
    found = np.cumsum(counts * truth, axis=1)[:, ends]
    gained = np.diff(found, axis=1, prepend=0.0)
    precision = np.divide(found, seen, out=np.zeros_like(found), where=seen > 0)
    total = found[:, -1]
    summed: Values = (gained * precision).sum(axis=1)
    return np.divide(summed, total, out=np.full_like(summed, np.nan), where=total > 0)
