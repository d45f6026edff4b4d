"""What the fits of the calibration need beside `limner.evaluation.fitting`: worlds, gains and curves."""

from collections.abc import Sequence

import numpy as np
from sklearn.linear_model import LogisticRegression

from limner.errors import DataError
from limner.evaluation.fitting import Mask, Pairs, Values
from limner.library.channels import Evidence


def steadied(scores: Values, evidence: Evidence) -> Values:
    """(N, M) cosines standardised by row, mean and deviation steadied by the typical ones, as in a search."""
    mean, std = scores.mean(axis=1, keepdims=True), scores.std(axis=1, keepdims=True)
    mean, std = evidence.steadied(mean, std, scores.shape[1])
    centred = scores - mean
    return np.divide(centred, std, out=np.zeros_like(centred), where=std > 0)


def pooled(parts: Sequence[Pairs]) -> Pairs:
    """Several worlds as one, each counting the same whatever its size."""
    count = len(parts)
    return Pairs(
        np.concatenate([part.cosine for part in parts]),
        np.concatenate([part.z for part in parts]),
        np.concatenate([part.match for part in parts]),
        np.concatenate([part.weight for part in parts]) / count,
    )


def gain(nats: Values, match: Mask) -> float:
    """Nats per text that the scores give over guessing, when one right picture is looked for.

    The mean of log(softmax share of the right picture · M): 0 for constant scores, below 0 where
    the scores are too sure of themselves.

    Args:
        nats: (N, M) evidence.
        match: (N, M) True where right; with several right pictures the best counts.
    """
    top = nats.max(axis=1)
    total = top + np.log(np.exp(nats - top[:, None]).mean(axis=1))
    right = np.where(match, nats, -np.inf).max(axis=1)
    return float((right - total).mean())


def pooled_evidence(nats: Values, usable: Mask | None = None) -> Values:
    """(N,) log mean exp of (N, M) nats over the usable pictures: evidence that any of them fits."""
    values = nats if usable is None else np.where(usable, nats, -np.inf)
    count = np.full(len(nats), nats.shape[1]) if usable is None else usable.sum(axis=1)
    if (count == 0).any():
        raise DataError(f"evidence: text {int(np.argmin(count))} has no picture to pool over")
    top = values.max(axis=1)
    total: Values = top + np.log(np.exp(values - top[:, None]).sum(axis=1) / count)
    return total


def fit_line(values: Values, positive: Mask, weight: Values) -> tuple[float, float]:
    """(slope, offset) of P(positive) = logistic(slope · value + offset), by weighted likelihood.

    Args:
        values: (P,).
        positive: (P,).
        weight: (P,) any positive numbers.
    Raises:
        DataError: all are positive, or none.
    """
    if positive.all() or not positive.any():
        raise DataError("fit_line: the examples are all positive or none is; both kinds are needed")
    model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=10_000)
    model.fit(values[:, None], positive, sample_weight=weight / weight.mean())
    return float(model.coef_[0, 0]), float(model.intercept_[0])
