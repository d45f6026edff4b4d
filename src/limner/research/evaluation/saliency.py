"""Visual Saliency Recall@k: does a found picture look as if it belonged to what the text names?

A model that serves this measure alone learns which labels a test picture has; retrieval never sees it. Two
kinds of labels: nouns of the texts, and the stories themselves. It finds no pictures and opens none.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limner.counts import counted
from limner.errors import RESEARCH, DataError, NumericsError, ShapeError, installed
from limner.language import split_sentences
from limner.research.datasets.pairs import duplicate_groups
from limner.text.entity_grid import roles_of

Scorer = Callable[[NDArray[np.bool_]], NDArray[np.float32]]
"""Function from labels of pictures (M, L) to the probabilities of a model of pictures (M, L)."""
LABELS = 500
FOLDS = 5
STRENGTH = 10.0
_SHORTEST = 3


@dataclass(frozen=True)
class Saliency:
    """Labels of a test set, where each stands for every picture, and which belong to every query.

    Attributes:
        labels: L names.
        ranks: (M, L) place of every label for every picture, 1 is the surest; ties share the mean.
        own: per query the numbers of its labels; () where it has none, which is always a miss.
    """

    labels: tuple[str, ...]
    ranks: NDArray[np.float32]
    own: tuple[tuple[int, ...], ...]

    def values(self, pictures: NDArray[np.int64]) -> NDArray[np.float64]:
        """(N,) best place of a query's own labels for the picture found for it; infinity without labels.

        Args:
            pictures: (N,) columns.
        """
        found = [
            self.ranks[picture, list(labels)].min() if labels else np.inf
            for picture, labels in zip(pictures.tolist(), self.own, strict=True)
        ]
        return np.array(found, dtype=np.float64)

    def chance(self, cuts: Sequence[int]) -> list[float]:
        """VSR@k of a picture drawn at random for every query, exactly: what frequent labels give for free."""
        hits = np.zeros(len(cuts))
        for labels in self.own:
            if labels:
                best = self.ranks[:, list(labels)].min(axis=1)
                hits += [(best <= k).mean() for k in cuts]
        return [float(share) for share in hits / max(1, len(self.own))]


def head_nouns(text: str) -> list[str]:
    """Lemmas of the nouns that head an English text's noun phrases, once per sentence, in order.

    Stop words (scikit-learn's English list) and words of fewer than three letters are left out. A lemma is
    the singular, as textblob makes it, of words that do not end in -ss, -us or -is.

    Raises:
        MissingError: textblob is not installed.
    Source: docs/methods/evaluation.md §6.5.
    """
    with installed("scikit-learn", RESEARCH):
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    heads = [
        head
        for line in text.splitlines()
        for sentence in split_sentences(line)
        for head in roles_of(sentence)
        if len(head) >= _SHORTEST and head not in ENGLISH_STOP_WORDS
    ]
    return [_singular(head) for head in heads]


def noun_saliency(
    texts: Sequence[str], relevant: Sequence[Sequence[int]], pictures: int, scores: Scorer
) -> Saliency:
    """Labels are nouns: a query hits if its picture seems to show one of the nouns of its text.

    The labels are the 500 most frequent nouns of the texts, of equally frequent ones the first by the
    alphabet.

    Args:
        texts: (N,) of the queries.
        relevant: (N,) per query the columns of its own pictures, which have its nouns.
        pictures: M, different ones.
        scores: such as `label_scores` of their features.
    Raises:
        ShapeError: as many queries as lists of pictures are needed.
    Source: VRSS 2020, Section 5.2; docs/methods/evaluation.md §6.5, definition ``noun``.
    """
    nouns = [head_nouns(text) for text in texts]
    counts = Counter(noun for some in nouns for noun in some)
    labels = sorted(counts, key=lambda noun: (-counts[noun], noun))[:LABELS]
    numbers = {noun: number for number, noun in enumerate(labels)}
    own = [tuple(sorted({numbers[noun] for noun in some if noun in numbers})) for some in nouns]
    return _saliency(labels, own, relevant, pictures, scores)


def sequence_saliency(
    stories: Sequence[Hashable], relevant: Sequence[Sequence[int]], pictures: int, scores: Scorer
) -> Saliency:
    """Labels are the test stories: a query hits if its picture seems to be of its own story.

    Args:
        stories: (N,) story of every query.
        relevant: see `noun_saliency`.
        pictures: see `noun_saliency`.
        scores: see `noun_saliency`.
    Raises:
        ShapeError: as there.
    Source: VRSS 2020, Section 5.2; docs/methods/evaluation.md §6.5, definition ``sequence``.
    """
    owner = np.array(duplicate_groups([[story] for story in stories]), np.int64)
    labels = [str(story) for story in dict.fromkeys(stories)]
    own = [(number,) for number in owner.tolist()]
    return _saliency(labels, own, relevant, pictures, scores)


def folds(size: int, *, in_sample: bool = False) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows to learn from and rows to score, so that every row is scored once.

    Args:
        size: M, dealt into five folds by seed 0.
        in_sample: learn from all rows, and score them, as the paper's words allow.
    """
    order = np.random.default_rng(0).permutation(size)
    for held in [order] if in_sample else np.array_split(order, min(FOLDS, size)):
        yield (order if in_sample else np.setdiff1d(order, held)), held


def label_scores(
    features: NDArray[np.floating], truth: NDArray[np.bool_], *, in_sample: bool = False
) -> NDArray[np.float32]:
    """Probabilities of a linear model for every label of every picture.

    One logistic regression per label on unit rows less their mean. Pictures are dealt into five folds by seed
    0, and each is scored by the model of the other folds. A label that the other folds never show scores as
    the least likely one; one that all of them show, as the likeliest.

    Args:
        features: (M, F).
        truth: (M, L).
        in_sample: score every picture by a model that has seen it, as the paper may have done.
    Returns:
        (M, L) decision values, finite.
    Raises:
        ShapeError: features and labels do not fit.
        NumericsError: a feature is not finite.
        DataError: fewer than two pictures.
    """
    if features.ndim != 2 or truth.shape[:1] != features.shape[:1] or truth.ndim != 2:
        raise ShapeError(
            f"saliency: features have shape {features.shape}, labels {truth.shape};"
            " expected one row of both per picture"
        )
    if len(features) < 2:
        raise DataError(f"saliency: {len(features)} pictures, expected at least 2 to learn from others")
    if not np.isfinite(features).all():
        row = int(np.argmin(np.isfinite(features).all(axis=1)))
        raise NumericsError(f"saliency: features of picture {row} are not finite; extract them again")
    table = unit_or_zero(features)
    scores = np.zeros(truth.shape, dtype=np.float32)
    for seen, held in folds(len(table), in_sample=in_sample):
        scores[held] = _scored(table[seen], truth[seen], table[held])
    return scores


def unit_or_zero(features: NDArray[np.floating]) -> NDArray[np.float64]:
    """Unit rows; a row of zeros stays one, and is like nothing."""
    table = np.asarray(features, dtype=np.float64)
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(table, norms, out=np.zeros_like(table), where=norms > 0)
    return unit


def _scored(
    known: NDArray[np.float64], truth: NDArray[np.bool_], asked: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Learn all labels from some rows and score others."""
    with installed("scikit-learn", RESEARCH):
        from sklearn.linear_model import LogisticRegression

    mean = known.mean(axis=0)
    known, asked = known - mean, asked - mean
    if known.shape[1] > known.shape[0]:
        # Weights that are punished by their length lie in the span of the rows: turning it loses nothing.
        axes = np.linalg.svd(known, full_matrices=False)[2].T
        known, asked = known @ axes, asked @ axes
    found = np.zeros((len(asked), truth.shape[1]))
    never, always = ~truth.any(axis=0), truth.all(axis=0)
    for label in np.flatnonzero(~never & ~always):
        model = LogisticRegression(C=STRENGTH, solver="liblinear", max_iter=1000)
        found[:, label] = model.fit(known, truth[:, label]).decision_function(asked)
    low, high = found.min(axis=1, keepdims=True) - 1, found.max(axis=1, keepdims=True) + 1
    found[:, never], found[:, always] = low, high
    return found


def _saliency(
    labels: Sequence[str],
    own: Sequence[tuple[int, ...]],
    relevant: Sequence[Sequence[int]],
    pictures: int,
    scores: Scorer,
) -> Saliency:
    from scipy.stats import rankdata

    if len(own) != len(relevant):
        raise ShapeError(f"saliency: {counted(len(own), 'query')}, pictures of {len(relevant)}")
    truth = np.zeros((pictures, len(labels)), dtype=bool)
    for columns, numbers in zip(relevant, own, strict=True):
        truth[np.ix_(list(columns), list(numbers))] = True
    ranks = np.zeros(truth.shape, np.float32)
    if labels:
        ranks[:] = rankdata(-scores(truth), method="average", axis=1)
    return Saliency(tuple(labels), ranks, tuple(own))


def _singular(word: str) -> str:
    """A noun without its plural; endings that textblob takes for one are kept."""
    if word.endswith(("ss", "us", "is")) or len(word) <= _SHORTEST:
        return word
    with installed("textblob", RESEARCH):
        from textblob.en.inflect import singularize  # type: ignore[import-untyped, unused-ignore]

    return str(singularize(word))
