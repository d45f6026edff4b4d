"""In which order training rows come in an epoch, and how often each: a function of seed and epoch alone.

It knows no data set and makes no batches.
"""

import numpy as np
from numpy.typing import NDArray

from limner.errors import ConfigError


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
