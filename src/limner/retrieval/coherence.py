"""How much a text's whole, and agreement between its pictures, should count: inferred for each text.

Where the steps alone say which picture is meant, their neighbours can only cost a good match; where they
leave many open and what they leave open belongs together, as in a picture book, neighbours decide.
"""

import numpy as np
from pydantic import Field

from limner.data.records import Record
from limner.retrieval.lattice import Float64Array, IntArray, PairTerm

CONSIDERED = 16
"""Best pictures of each step whose agreement with those of the other steps is looked at."""


class Curve(Record):
    """A weight between 0 and `largest`: largest / (1 + exp(−(offset + Σ slope · feature))).

    Attributes:
        largest: the weight is below it.
        offset: log-odds at features of 0.
        ambiguity: per unit of `Reading.ambiguity`.
        agreement: per nat of `Reading.agreement`.
    """

    largest: float = Field(ge=0)
    offset: float = 0.0
    ambiguity: float = 0.0
    agreement: float = 0.0


class Reading(Record):
    """What the plain reading of a text's steps says of how they hang together.

    Attributes:
        ambiguity: mean over the steps of the entropy of which picture is meant, as a share of the largest
            there can be: 0 where one picture stands out everywhere, 1 where all are alike.
        agreement: mean over pairs of steps of the expected evidence of their pictures for each other, in
            nats; 0 with one step.
    """

    ambiguity: float
    agreement: float


class Coherence(Record):
    """The calibrated weights of both kinds of coherence.

    Attributes:
        context: of a step read with its whole text, against the step read alone; 0 to 1.
        pair: of the evidence of two pictures for each other.
    """

    context: Curve
    pair: Curve

    def weights(self, reading: Reading) -> tuple[float, float]:
        """Weights of context and of pictures for each other, for one text."""
        return weight(self.context, reading), weight(self.pair, reading)


def weight(curve: Curve, reading: Reading) -> float:
    """The weight of one curve for one text, 0 to `Curve.largest`."""
    odds = curve.offset + curve.ambiguity * reading.ambiguity + curve.agreement * reading.agreement
    return float(curve.largest / (1 + np.exp(-np.clip(odds, -500, 500))))


def read(unary: Float64Array, items: IntArray, groups: IntArray, pair: PairTerm, available: int) -> Reading:
    """Ambiguity and agreement of a text.

    Args:
        unary: (S, K) nats of each step read alone; −inf where the cell is empty.
        items: (S, K) candidate numbers.
        groups: (C,) near-duplicate groups; pictures of one group say nothing about agreement.
        pair: what candidates say for each other, with weight 1.
        available: pictures searched, of which the candidates are the best.
    """
    width = unary.shape[1]
    full = np.flatnonzero((unary > -np.inf).any(axis=1))
    if not len(full):
        return Reading(ambiguity=0.0, agreement=0.0)
    shares = np.exp(unary[full] - unary[full].max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    ambiguity = float(-(shares * logs).sum(axis=1).mean()) / np.log(max(available, 2))
    if len(full) < 2:
        return Reading(ambiguity=ambiguity, agreement=0.0)
    kept = min(CONSIDERED, width)
    best = np.argpartition(-shares, kept - 1, axis=1)[:, :kept]
    numbers, where = np.unique(np.take_along_axis(items[full], best, axis=1), return_inverse=True)
    weights = np.zeros((len(full), len(numbers)))
    rows = np.repeat(np.arange(len(full)), kept)
    np.add.at(weights, (rows, where.ravel()), np.take_along_axis(shares, best, axis=1).ravel())
    weights /= weights.sum(axis=1, keepdims=True)
    other = groups[numbers][:, None] != groups[numbers]
    evidence = np.where(other, pair.block(numbers, numbers), 0.0)
    upper = np.triu_indices(len(full), 1)
    met = (weights @ other @ weights.T)[upper]
    total = (weights @ evidence @ weights.T)[upper]
    expected = np.divide(total, met, out=np.zeros_like(total), where=met > 1e-9)
    return Reading(ambiguity=ambiguity, agreement=float(expected.mean()))
