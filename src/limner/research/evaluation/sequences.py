"""Evaluation on stories: ranks per step, and visual measures of the retrieved pictures.

Visual Saliency Recall@k asks whether a retrieved picture shows what the text mentions. A picture classifier,
trained only for this metric, predicts labels of the test pictures: nouns of the texts, or the stories.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from limner.errors import RESEARCH, DataError, NumericsError, ShapeError, counted, installed
from limner.language import split_sentences, textblob
from limner.research.datasets.pairs import Pair, duplicate_groups
from limner.research.evaluation.ranking import (
    ALL,
    BLOCK_CELLS,
    Ranks,
    Score,
    Scores,
    different,
    host,
    leading,
    rank,
)
from limner.research.evaluation.results import (
    CUTS,
    TOP,
    About,
    Decoding,
    Definition,
    FoundPictures,
    Level,
    SequenceResult,
)

Scorer = Callable[[NDArray[np.bool_]], NDArray[np.float32]]
"""(M, L) true labels of pictures → (M, L) scores by a picture classifier."""
LABELS = 500
FOLDS = 5
STRENGTH = 10.0
_SHORTEST = 3
_POSSESSIVE = re.compile(r"['’]s\b", re.IGNORECASE)


@dataclass(frozen=True)
class Saliency:
    """Labels of a test set, their ranks for each picture, and the labels of each query.

    Attributes:
        labels: L names.
        ranks: (M, L) rank of each label for each picture, from 1; ties share the mean.
        own: labels of each query, as indices; () if it has none, which is always a miss.
    """

    labels: tuple[str, ...]
    ranks: NDArray[np.float32]
    own: tuple[tuple[int, ...], ...]

    def values(self, pictures: NDArray[np.int64]) -> NDArray[np.float64]:
        """(N,) best rank of each query's labels for its retrieved picture; infinity without labels.

        Args:
            pictures: (N,) columns of the retrieved pictures.
        """
        found = [
            self.ranks[picture, list(labels)].min() if labels else np.inf
            for picture, labels in zip(pictures.tolist(), self.own, strict=True)
        ]
        return np.array(found, dtype=np.float64)

    def chance(self, cuts: Sequence[int]) -> list[float]:
        """Exact expectation of VSR@k for random pictures, for each k of `cuts`."""
        hits = np.zeros(len(cuts))
        for labels in self.own:
            if labels:
                best = self.ranks[:, list(labels)].min(axis=1)
                hits += [(best <= k).mean() for k in cuts]
        return [float(share) for share in hits / max(1, len(self.own))]


def head_nouns(text: str) -> list[str]:
    """Lemmas of the head nouns of an English text's noun phrases, once per sentence, in order.

    Stop words (scikit-learn's English list) and words of fewer than three letters are left out. The lemma is
    textblob's singular, except for words that end in -ss, -us or -is.

    Raises:
        MissingError: textblob is not installed.
    Source: docs/methods/evaluation.md §6.5.
    """
    with installed("scikit-learn", RESEARCH):
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    found = [
        head
        for line in text.splitlines()
        for sentence in split_sentences(line)
        for head in _heads(sentence)
        if len(head) >= _SHORTEST and head not in ENGLISH_STOP_WORDS
    ]
    kept = ("ss", "us", "is")  # textblob takes these for plurals
    return [
        head if head.endswith(kept) or len(head) <= _SHORTEST else textblob().inflect.singularize(head)
        for head in found
    ]


def _heads(sentence: str) -> Iterable[str]:
    """The last noun of each noun phrase, lower-cased, once."""
    heads = [""]
    for tokens in textblob().parse(_POSSESSIVE.sub("", sentence), collapse=False):
        for word, tag, chunk, _ in tokens:
            if chunk != "I-NP":
                heads.append("")
            if chunk.endswith("-NP") and tag.startswith("NN") and any(letter.isalpha() for letter in word):
                heads[-1] = word.lower()
    return dict.fromkeys(filter(None, heads))


def noun_saliency(
    texts: Sequence[str], relevant: Sequence[Sequence[int]], pictures: int, scores: Scorer
) -> Saliency:
    """Saliency with nouns as labels: a hit if the picture seems to show one of the text's nouns.

    The labels are the 500 most frequent nouns of the texts; ties in alphabetical order.

    Args:
        texts: (N,) texts of the queries.
        relevant: (N,) columns of each query's own pictures, which get its nouns as labels.
        pictures: number of distinct pictures, M.
        scores: picture classifier, such as `label_scores` of their features.
    Raises:
        ShapeError: the lengths of `texts` and `relevant` differ.
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
    """Saliency with test stories as labels: a hit if the picture seems to belong to the query's story.

    Args:
        stories: (N,) story of each query.
        relevant: see `noun_saliency`.
        pictures: see `noun_saliency`.
        scores: see `noun_saliency`.
    Raises:
        ShapeError: the lengths of `stories` and `relevant` differ.
    Source: VRSS 2020, Section 5.2; docs/methods/evaluation.md §6.5, definition ``sequence``.
    """
    owner = np.array(duplicate_groups([[story] for story in stories]), np.int64)
    labels = [str(story) for story in dict.fromkeys(stories)]
    own = [(number,) for number in owner.tolist()]
    return _saliency(labels, own, relevant, pictures, scores)


def folds(size: int, *, in_sample: bool = False) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the rows to train on and the rows to score of five-fold cross-validation, with seed 0.

    Args:
        size: number of rows, M.
        in_sample: whether to train on and score all rows instead, which the paper's wording allows.
    """
    order = np.random.default_rng(0).permutation(size)
    for held in [order] if in_sample else np.array_split(order, min(FOLDS, size)):
        yield (order if in_sample else np.setdiff1d(order, held)), held


def label_scores(
    features: NDArray[np.floating], truth: NDArray[np.bool_], *, in_sample: bool = False
) -> NDArray[np.float32]:
    """Scores of all labels for all pictures, by linear models with five-fold cross-validation.

    One logistic regression per label, on centred unit vectors. A label that no training picture has gets the
    lowest score, and one that all training pictures have gets the highest.

    Args:
        features: (M, F) features of pictures.
        truth: (M, L) bool, true labels.
        in_sample: whether to train on all pictures instead, as the paper may have done.
    Returns:
        (M, L) decision values, finite.
    Raises:
        ShapeError: the numbers of pictures differ.
        NumericsError: a feature is not finite.
        DataError: there are fewer than two pictures.
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
    """Normalise rows; zero rows stay zero."""
    table = np.asarray(features, dtype=np.float64)
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(table, norms, out=np.zeros_like(table), where=norms > 0)
    return unit


def _scored(
    known: NDArray[np.float64], truth: NDArray[np.bool_], asked: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Train on `known` rows and score `asked` rows, for all labels."""
    with installed("scikit-learn", RESEARCH):
        from sklearn.linear_model import LogisticRegression

    mean = known.mean(axis=0)
    known, asked = known - mean, asked - mean
    if known.shape[1] > known.shape[0]:
        # With an L2 penalty the weights lie in the span of the rows, so rotating into that span loses
        # nothing.
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


MakeSaliency = Callable[
    [Sequence[str], Sequence[str], Sequence[Sequence[int]], NDArray[np.floating]],
    Mapping[Definition, Saliency],
]


@dataclass(frozen=True)
class Steps:
    """The steps of a part's stories, in order, with their pictures.

    Attributes:
        rows: (N,) first row of each step.
        stories: (N,) story of each step.
        relevant: (N,) columns of each step's own pictures.
        worlds: (N,) columns of its story's pictures.
        names: (M,) `Pair.id` of the first row with each picture.
    """

    rows: NDArray[np.int64]
    stories: tuple[str, ...]
    relevant: tuple[tuple[int, ...], ...]
    worlds: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]


def of_stories(pairs: Sequence[Pair]) -> bool:
    """Whether every pair has a story and a position, and some story has two steps."""
    places = {(pair.seq, pair.pos) for pair in pairs}
    stories = {pair.seq for pair in pairs}
    return bool(pairs) and all(p.seq and p.pos is not None for p in pairs) and len(places) > len(stories)


def steps_of(pairs: Sequence[Pair]) -> Steps:
    """Collect steps: rows with the same story and position are one step; stories in order of their first row.

    Raises:
        DataError: a pair has no story or no position.
    """
    columns, first = different([pair.image_id for pair in pairs])
    own: dict[str, dict[int, list[int]]] = {}
    for row, pair in enumerate(pairs):
        if not pair.seq or pair.pos is None:
            raise DataError(f"sequences: pair {pair.id!r} has no position in a story; leave its set out")
        own.setdefault(pair.seq, {}).setdefault(pair.pos, []).append(row)

    def shown(rows: Iterable[int]) -> tuple[int, ...]:
        return tuple(sorted({int(columns[row]) for row in rows}))

    steps = [(story, places[place]) for story, places in own.items() for place in sorted(places)]
    worlds = {story: shown(chain.from_iterable(places.values())) for story, places in own.items()}
    return Steps(
        np.array([rows[0] for _, rows in steps], np.int64),
        tuple(story for story, _ in steps),
        tuple(shown(rows) for _, rows in steps),
        tuple(worlds[story] for story, _ in steps),
        tuple(pairs[row].id for row in first),
    )


def by_story(stories: Sequence[str]) -> dict[str, list[int]]:
    """Story → indices of its steps, in order."""
    found: dict[str, list[int]] = {}
    for place, story in enumerate(stories):
        found.setdefault(story, []).append(place)
    return found


def measure_sequences(
    about: About,
    pairs: Sequence[Pair],
    score: Score,
    *,
    features: NDArray[np.floating] | None = None,
    described: str = "",
    similarity: bool = True,
    saliency: MakeSaliency | None = None,
    judge: str = "",
) -> SequenceResult:
    """Rank each step's picture among all pictures of the part, independently and without repeats in a story.

    Args:
        about: description of the run.
        pairs: (N,) all rows of the part.
        score: see `retrieval.measure`.
        features: (M, F) features of the pictures, the same for all systems; None leaves out visual measures.
        described: description of the features.
        similarity: whether cosines of the features are meaningful; if not, coherence uses features minus the
            gallery's mean, and similarity is left out.
        saliency: (texts, stories, relevant, features) → saliency by definition, such as `saliency_of`; None
            leaves it out.
        judge: name of the picture classifier used for saliency.
    Raises:
        DataError: a pair has no position in a story.
        ShapeError: the sizes of scores or features are wrong.
        NumericsError: a score or feature is not finite.
    Source: VRSS 2020, Section 5.2; docs/methods/evaluation.md §6.
    """
    steps = steps_of(pairs)
    size = len(steps.names)
    looks: Mapping[Definition, Saliency] = {}
    seen = None
    if features is not None:
        if features.ndim != 2 or len(features) != size:
            raise ShapeError(f"{about.data}: features have shape {features.shape}, expected ({size}, F)")
        if not np.isfinite(features).all():
            raise NumericsError(f"{about.data}: a feature is not finite; extract the features again")
        if saliency is not None:
            looks = saliency([pairs[row].text for row in steps.rows], steps.stories, steps.relevant, features)
        # otherwise the common mean would make all pictures similar
        seen = features if similarity else features - features.mean(axis=0)
    compared = features if similarity else None
    gold = np.array([columns[0] for columns in steps.relevant], np.int64)
    alike = [] if seen is None else [c for c in coherence(seen, gold, steps.stories) if c is not None]
    return SequenceResult(
        about=about,
        ids=tuple(pairs[row].id for row in steps.rows),
        stories=steps.stories,
        pictures=size,
        features=described if features is not None else "",
        judge=judge if looks else "",
        found={
            name: _found(own, steps, compared, looks, seen) for name, own in _placed(score, steps).items()
        },
        levels={
            name: Level(
                random=tuple(one.chance(CUTS)),
                gold=tuple(float((one.values(gold) <= k).mean()) for k in CUTS),
            )
            for name, one in looks.items()
        },
        random_similarity=None if compared is None else _random_cosine(compared, steps.relevant),
        gold_coherence=float(np.mean(alike)) if alike else None,
    )


def coherence(
    features: NDArray[np.floating], chosen: NDArray[np.int64], stories: Sequence[str]
) -> list[float | None]:
    """Cosine between the features of each step's picture and the previous step's.

    Args:
        features: (M, F) features of the pictures.
        chosen: (N,) columns, steps of a story in order.
        stories: (N,) story of each step.
    Returns:
        (N,) cosines; None for the first step of a story; 1 if a picture is chosen twice in a row.
    Source: docs/methods/evaluation.md §6.3.
    """
    table = unit_or_zero(features)[chosen]
    cosines = (table[1:] * table[:-1]).sum(axis=1).tolist()
    later = [story == before for before, story in pairwise(stories)]
    return [None, *(c if same else None for c, same in zip(cosines, later, strict=True))]


def without_repeats(
    scores: Scores, stories: Sequence[str], shown: dict[str, list[int]] | None = None
) -> Scores:
    """Move the top pictures of earlier steps of a story behind all others.

    Args:
        scores: (N, M) scores, steps of a story in order.
        stories: (N,) story of each step.
        shown: story → top columns of its steps in previous blocks; those of this block are added.
    Returns:
        (N, M), a copy.
    Source: docs/methods/evaluation.md §6.2.
    """
    table = np.array(scores, dtype=np.float64)
    used = {} if shown is None else shown
    for row, story in enumerate(stories):
        before = used.setdefault(story, [])
        if before:
            table[row, before] = np.nextafter(table[row].min(), -np.inf)
        before.append(int(table[row].argmax()))
    return table


def saliency_of(
    texts: Sequence[str],
    stories: Sequence[str],
    relevant: Sequence[Sequence[int]],
    features: NDArray[np.floating],
    *,
    in_sample: bool = False,
    scores: Scorer | None = None,
) -> dict[Definition, Saliency]:
    """Visual Saliency by both definitions (nouns, stories).

    Args:
        texts: (N,) texts of the queries.
        stories: (N,) story of each query.
        relevant: (N,) columns of each query's own pictures.
        features: (M, F) features of the pictures.
        in_sample: see `label_scores`.
        scores: picture classifier; None for linear models of the features.
    """
    made = scores or (lambda truth: label_scores(features, truth, in_sample=in_sample))
    return {
        "noun": noun_saliency(texts, relevant, len(features), made),
        "sequence": sequence_saliency(stories, relevant, len(features), made),
    }


class _Placed(NamedTuple):
    """Assignment of pictures by a decoding.

    Attributes:
        own: (N,) rank of each step's own picture.
        story: (N,) rank of its story's best picture.
        top: (N, ≤ TOP) best columns.
    """

    own: Ranks
    story: Ranks
    top: NDArray[np.int64]


def _placed(score: Score, steps: Steps) -> dict[Decoding, _Placed]:
    """Results of both decodings, computed in blocks of steps."""
    count, size = len(steps.rows), len(steps.names)
    found: dict[Decoding, list[_Placed]] = {"steps": [], "distinct": []}
    shown: dict[str, list[int]] = {}
    step = max(1, BLOCK_CELLS // size // 4)  # memory also holds copies of a block in double precision
    for start in range(0, count, step):
        some = slice(start, min(start + step, count))
        table = host(score(steps.rows[some], ALL))
        if table.shape != (some.stop - start, size):
            raise ShapeError(
                f"sequences: scores have shape {table.shape}, expected {some.stop - start, size}"
                " (texts, different pictures)"
            )
        for name, parts in found.items():
            own = table if name == "steps" else without_repeats(table, steps.stories[some], shown)
            right, worlds = (rank(own, one[some], first=start) for one in (steps.relevant, steps.worlds))
            parts.append(_Placed(right.ranks(), worlds.ranks(), leading(own, TOP)[0]))
    return {name: _Placed(*map(np.concatenate, zip(*parts, strict=True))) for name, parts in found.items()}


def _found(
    placed: _Placed,
    steps: Steps,
    features: NDArray[np.floating] | None,
    looks: Mapping[Definition, Saliency],
    seen: NDArray[np.floating] | None,
) -> FoundPictures:
    """Combine ranks and visual measures of the top pictures."""
    first = placed.top[:, 0]
    return FoundPictures(
        own=tuple(placed.own.tolist()),
        story=tuple(placed.story.tolist()),
        top=tuple(tuple(steps.names[column] for column in row) for row in placed.top.tolist()),
        similarity=() if features is None else tuple(_cosines(features, first, steps.relevant).tolist()),
        saliency={name: tuple(one.values(first).tolist()) for name, one in looks.items()},
        coherence=() if seen is None else tuple(coherence(seen, first, steps.stories)),
    )


def _cosines(
    features: NDArray[np.floating], first: NDArray[np.int64], relevant: Sequence[Sequence[int]]
) -> Ranks:
    """(N,) cosine between the top picture and the step's own (the nearest of several)."""
    table = unit_or_zero(features)
    found = [
        (table[list(columns)] @ table[place]).max()
        for place, columns in zip(first.tolist(), relevant, strict=True)
    ]
    return np.array(found, dtype=np.float64)


def _random_cosine(features: NDArray[np.floating], relevant: Sequence[tuple[int, ...]]) -> float:
    """Mean of `_cosines` over all pictures and steps.

    With one picture per step, the mean cosine is the product of the mean vectors.
    """
    table = unit_or_zero(features)
    single = table[[columns[0] for columns in relevant if len(columns) == 1]]
    total = float((single @ table.mean(axis=0)).sum())
    for columns, steps in Counter(columns for columns in relevant if len(columns) > 1).items():
        total += steps * float((table @ table[list(columns)].T).max(axis=1).mean())
    return total / len(relevant)
