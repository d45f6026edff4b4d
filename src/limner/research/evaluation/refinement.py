"""Selective similarity refinement (CMCM): multiplies scores of difficult queries by relation confidence.

A query is difficult if its two best scores are close.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from limner.arrays import FloatArray, expect
from limner.checksums import noting, seal
from limner.errors import ConfigError, NumericsError, ShapeError, unknown
from limner.files import write_text
from limner.research.evaluation.ranking import ALL, BLOCK_CELLS, Score, host
from limner.research.training.checkpoint import stored

if TYPE_CHECKING:
    from limner.research.systems.base import Model
Form = Literal["multiply", "add"]
Rows = NDArray[np.int64]
STRENGTHS: tuple[float, ...] = tuple(float(value) for value in np.linspace(0.01, 0.2, 40))
THRESHOLDS: tuple[float, ...] = (0.0, 0.02, 0.05, 0.1, 0.2, float("inf"))
_BLOCK_CELLS = 1 << 16  # pairs per block: a few float32 arrays of this size fit the cache
_SAFE = 80.0  # e^80 and its inverse are within the range of float32


@dataclass(frozen=True)
class OuterSum:
    """Logits of a linear module on [text; picture]: a text term plus a picture term.

    Attributes:
        text_terms: (N, C) float32, including the bias.
        image_terms: (M, C) float32.
    Source: docs/methods/cmcm.md §2.4.
    """

    text_terms: FloatArray
    image_terms: FloatArray

    def __post_init__(self) -> None:
        """Check the shapes, and that all terms are finite."""
        expect("refinement", text_terms=(self.text_terms, "N C"), image_terms=(self.image_terms, "M C"))
        for name, terms in (("text", self.text_terms), ("picture", self.image_terms)):
            if not np.isfinite(terms).all():
                raise NumericsError(f"refinement: a {name} term is not finite; check the model")

    @property
    def shape(self) -> tuple[int, int, int]:
        """(N, M, C)."""
        return len(self.text_terms), len(self.image_terms), self.text_terms.shape[1]

    def take(self, queries: Rows, pictures: Rows) -> OuterSum:
        """The logits of some texts and pictures."""
        return OuterSum(self.text_terms[queries], self.image_terms[pictures])

    def confidence(self, start: int, stop: int, strength: float, form: Form) -> FloatArray:
        """Confidence of texts start to stop with all pictures, (stop − start, M), summed over relations.

        "multiply" sums exp(strength · |σ(z) − ½|), in [C, C·e^(strength/2)]; "add" sums |σ(z) − ½|. Since e^z
        is the product of e^text and e^picture and σ(z) − ½ = ½ − 1/(e^z + 1), a pair costs one division. If
        e^z could overflow, ½ tanh(|z|/2) is used instead.

        Source: CMCM 2022, Eqs. 4 and 5; docs/methods/cmcm.md §4.1.
        """
        half = np.float32(0.5 * (strength if form == "multiply" else 1.0))
        texts, images = self.text_terms[start:stop].T, self.image_terms.T  # (C, rows), (C, M)
        total = np.zeros((stop - start, images.shape[1]), dtype=np.float32)
        part = np.empty_like(total)
        for relation, text in enumerate(texts):
            image = images[relation]
            if float(np.abs(text).max()) + float(np.abs(image).max()) < _SAFE:
                np.multiply.outer(np.exp(text), np.exp(image), out=part)
                np.add(part, np.float32(1), out=part)
                np.divide(2 * half, part, out=part)
                np.subtract(part, half, out=part)
                np.abs(part, out=part)
            else:
                np.add.outer(text * np.float32(0.5), image * np.float32(0.5), out=part)
                np.tanh(np.abs(part, out=part), out=part)
                np.multiply(part, half, out=part)
            if form == "multiply":
                np.exp(part, out=part)
            np.add(total, part, out=total)
        return total


@dataclass(frozen=True)
class Computed:
    """Logits computed in blocks, for modules in which text and picture interact.

    Attributes:
        block: (n texts, m pictures) → (n, m, C) float32 logits.
        queries: (N,) rows of the texts.
        pictures: (M,) rows of the pictures.
        relations: number of relations, C.
    """

    block: Callable[[Rows, Rows], FloatArray]
    queries: Rows
    pictures: Rows
    relations: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(N, M, C)."""
        return len(self.queries), len(self.pictures), self.relations

    def take(self, queries: Rows, pictures: Rows) -> Computed:
        """The logits of some texts and pictures."""
        return Computed(self.block, self.queries[queries], self.pictures[pictures], self.relations)

    def confidence(self, start: int, stop: int, strength: float, form: Form) -> FloatArray:
        """See `OuterSum.confidence`."""
        logits = np.asarray(self.block(self.queries[start:stop], self.pictures), dtype=np.float32)
        due = (stop - start, len(self.pictures), self.relations)
        if logits.shape != due:
            raise ShapeError(f"refinement: logits have shape {logits.shape}, expected {due}")
        if not np.isfinite(logits).all():
            raise NumericsError("refinement: a relation logit is not finite; check the model")
        sure = np.float32(0.5) * np.tanh(np.abs(logits) * np.float32(0.5))
        total: FloatArray = (np.exp(np.float32(strength) * sure) if form == "multiply" else sure).sum(axis=2)
        return total


PairLogits = OuterSum | Computed
"""Relation logits of N texts with M pictures, computed in blocks."""


def pair_logits(model: Model, texts: FloatArray, images: FloatArray) -> PairLogits:
    """Relation logits of all pairs, in the cheapest form that the model supports.

    Args:
        model: model that predicts relations.
        texts: (N, D) unit vectors.
        images: (M, D) unit vectors.
    """
    if model.separable:
        return OuterSum(*model.relation_terms(texts, images))

    def block(queries: Rows, pictures: Rows) -> FloatArray:
        return model.relation_table(texts[queries], images[pictures])

    return Computed(block, np.arange(len(texts)), np.arange(len(images)), len(model.relations))


@dataclass(frozen=True)
class Refinement:
    """Parameters of the refinement.

    Attributes:
        strength: λ, or κ for "add"; 0 changes no ranking.
        threshold: T; queries whose two best scores differ by less are refined; 0 refines none, infinity all.
        form: "multiply": θ·Σ_c exp(λ|x_c − ½|); "add": θ + κ·mean_c |x_c − ½|, which also works for θ < 0.
    Source: CMCM 2022, Eqs. 4 to 6; docs/methods/cmcm.md §4.2. Departs: "add" is not in the paper.
    """

    strength: float = 0.13
    threshold: float = 0.1
    form: Form = "multiply"

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.form not in get_args(Form):
            raise ConfigError("refinement: " + unknown("form", self.form, get_args(Form)))
        if not 0 <= self.strength < np.inf or not self.threshold >= 0:
            raise ConfigError(f"refinement: {self}, expected a finite strength and a threshold of at least 0")


def gaps(scores: FloatArray) -> NDArray[np.float64]:
    """Δ: difference between the two best scores of each query.

    Args:
        scores: (N, M) scores over a pool of distinct pictures.
    Returns:
        (N,) at least 0; infinity for a pool of one picture.
    """
    expect("refinement", scores=(scores, "N M"))
    if scores.shape[1] < 2:
        return np.full(len(scores), np.inf)
    apart = np.empty(len(scores))
    for rows in _blocks(scores.shape):
        block = np.array(scores[rows])  # a copy, in which the best is overwritten to find the second
        lines, first = np.arange(len(block)), block.argmax(axis=1)
        best = block[lines, first].astype(np.float64)
        block[lines, first] = -np.inf
        apart[rows] = best - block.max(axis=1)
    return apart


def refine(scores: FloatArray, logits: PairLogits, refinement: Refinement) -> FloatArray:
    """Refine the scores of difficult queries; the scores of other queries do not change.

    Args:
        scores: (N, M) cosines θ over a pool of distinct pictures.
        logits: logits of the same texts and pictures.
        refinement: parameters.
    Returns:
        (N, M) float32, comparable only within a row. With "multiply", confidence lowers a negative θ.
    Raises:
        ShapeError: the sizes of logits and scores differ.
        NumericsError: a score is not finite.
    Source: CMCM 2022, Eq. 6; docs/methods/cmcm.md §4.2.
    """
    if tuple(scores.shape) != logits.shape[:2]:
        raise ShapeError(f"refinement: scores {tuple(scores.shape)} and logits {logits.shape} do not fit")
    if not np.isfinite(scores).all():
        raise NumericsError("refinement: a score is not finite; check the embeddings")
    refined = np.array(scores, dtype=np.float32)
    difficult = np.flatnonzero(gaps(scores) < refinement.threshold)
    some = logits.take(difficult, np.arange(scores.shape[1]))
    for rows in _blocks(some.shape):
        eta = some.confidence(rows.start, rows.stop, refinement.strength, refinement.form)
        plain = refined[difficult[rows]]
        if refinement.form == "multiply":
            refined[difficult[rows]] = np.multiply(plain, eta, out=eta)
        else:
            mean = eta / np.float32(max(some.shape[2], 1))
            refined[difficult[rows]] = plain + np.float32(refinement.strength) * mean
    return refined


def choose(
    score: Score,
    logits: PairLogits,
    ranks: Callable[[FloatArray, slice], NDArray[np.float64]],
    *,
    strengths: Sequence[float] = STRENGTHS,
    thresholds: Sequence[float] = THRESHOLDS,
    form: Form = "multiply",
) -> Refinement:
    """Choose the strength and threshold that rank best on validation queries.

    The median rank decides; ties are broken by mean reciprocal rank, then by the lower threshold and
    strength.

    Args:
        score: scores of N validation queries with M pictures, by blocks.
        logits: logits of the same texts and pictures.
        ranks: ((Q, M) scores, slice of queries) → (Q,) rank of each query's true picture.
        strengths: values of λ to try.
        thresholds: values of T to try.
        form: see `Refinement`.
    Source: docs/methods/cmcm.md §4.3.
    """
    count, size, _ = logits.shape
    plain, apart, fine = np.empty(count), np.empty(count), np.empty((len(strengths), count))
    step = max(1, BLOCK_CELLS // size)
    for start in range(0, count, step):
        some = slice(start, min(start + step, count))
        table = host(score(some, ALL))
        own = logits.take(np.arange(some.start, some.stop), np.arange(size))
        plain[some], apart[some] = ranks(np.asarray(table, dtype=np.float32), some), gaps(table)
        for number, strength in enumerate(strengths):
            # One pass per strength: the threshold only selects the queries whose refined rank counts.
            fine[number, some] = ranks(refine(table, own, Refinement(strength, np.inf, form)), some)
    tried: list[tuple[float, float, float, float]] = []
    for number, strength in enumerate(strengths):
        for threshold in thresholds:
            found = np.where(apart < threshold, fine[number], plain)
            tried.append((float(np.median(found)), -float(np.mean(1 / found)), threshold, strength))
    _, _, threshold, strength = min(tried)
    return Refinement(strength, threshold, form)


def _blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Blocks of rows that fit the cache."""
    step = max(1, _BLOCK_CELLS // max(shape[1], 1))
    for start in range(0, shape[0], step):
        yield slice(start, min(start + step, shape[0]))


REFINEMENT = "refinement.json"


def write_refinement(run: Path, refinement: Refinement) -> None:
    """Store the refinement of a run, atomically."""
    # JSON has no infinity, so the threshold is a string
    kept = asdict(refinement) | {"threshold": str(refinement.threshold)}
    with noting(run, REFINEMENT):
        write_text(run / REFINEMENT, seal(json.dumps(kept, sort_keys=True) + "\n"))


def read_refinement(run: Path) -> Refinement:
    """Read the refinement that was chosen on validation after training.

    Raises:
        CheckpointError: there is none (training did not finish), or it is damaged.
    """

    def parsed(content: bytes) -> Refinement:
        saved: dict[str, Any] = json.loads(content)
        return Refinement(float(saved["strength"]), float(saved["threshold"]), saved["form"])

    return stored(run / REFINEMENT, parsed, "refinement")
