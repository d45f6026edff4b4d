"""Stories as a test for any system that scores texts against pictures: ranks by step, and how finds look.

Works on pairs and what scores them block by block, so that it never asks who makes the scores. It writes no
file.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from limner.errors import DataError, NumericsError, ShapeError
from limner.research.datasets.pairs import Pair
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
from limner.research.evaluation.saliency import (
    Saliency,
    Scorer,
    label_scores,
    noun_saliency,
    sequence_saliency,
    unit_or_zero,
)

MakeSaliency = Callable[
    [Sequence[str], Sequence[str], Sequence[Sequence[int]], NDArray[np.floating]],
    Mapping[Definition, Saliency],
]


@dataclass(frozen=True)
class Steps:
    """The steps of the stories of a part, in order, with their pictures.

    Attributes:
        rows: (N,) first row of every step.
        stories: (N,) names.
        relevant: (N,) columns of the step's own pictures.
        worlds: (N,) columns of its story's pictures.
        names: (M,) `Pair.id` of the first row with each picture.
    """

    rows: NDArray[np.int64]
    stories: tuple[str, ...]
    relevant: tuple[tuple[int, ...], ...]
    worlds: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]


def of_stories(pairs: Sequence[Pair]) -> bool:
    """Whether all pairs are steps of stories with a place in them, and some story has two."""
    places = {(pair.seq, pair.pos) for pair in pairs}
    stories = {pair.seq for pair in pairs}
    return bool(pairs) and all(p.seq and p.pos is not None for p in pairs) and len(places) > len(stories)


def steps_of(pairs: Sequence[Pair]) -> Steps:
    """The steps: rows of one place of one story are one step; stories in order of their first row.

    Raises:
        DataError: a pair has no story or no place in it.
    """
    columns, first = different([pair.image_id for pair in pairs])
    own: dict[str, dict[int, list[int]]] = {}
    for row, pair in enumerate(pairs):
        if not pair.seq or pair.pos is None:
            raise DataError(f"sequences: pair {pair.id!r} has no place in a story; leave its set out")
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
    """Story → its places among these, in order."""
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
    """Rank every step's picture among all pictures of the part, by itself and without repeats in a story.

    Args:
        about: what is measured.
        pairs: (N,) all rows of the part.
        score: rows are those of `pairs`, columns the M different pictures in order of first appearance, as in
            `retrieval.measure`.
        features: (M, F) of the pictures, the same for every system; None measures no looks.
        described: what the features are of.
        similarity: whether cosines of the features mean something; where not, coherence is that of features
            from which the gallery's mean is taken, and similarity is left out.
        saliency: (texts, stories, relevant, features) → both measures, such as `saliency_of`; None leaves
            them out.
        judge: the model of the pictures that makes them.
    Raises:
        DataError: a pair has no place in a story.
        ShapeError: scores or features do not fit.
        NumericsError: one of them is not finite.
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
        # what is common to all pictures would make any two alike
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
    """Visual similarity of every step's picture to that of the step before.

    Args:
        features: (M, F) of the pictures.
        chosen: (N,) columns, steps of a story in their order.
        stories: (N,).
    Returns:
        (N,) cosines, None if a story begins; 1 where a picture is chosen twice in a row.
    Source: docs/methods/evaluation.md §6.3.
    """
    table = unit_or_zero(features)[chosen]
    cosines = (table[1:] * table[:-1]).sum(axis=1).tolist()
    later = [story == before for before, story in pairwise(stories)]
    return [None, *(c if same else None for c, same in zip(cosines, later, strict=True))]


def without_repeats(
    scores: Scores, stories: Sequence[str], shown: dict[str, list[int]] | None = None
) -> Scores:
    """Scores with every picture that an earlier step of the story puts first moved behind all others.

    Args:
        scores: (N, M), steps of a story in their order.
        stories: (N,).
        shown: story → columns that its steps in blocks before put first; those of this block are added.
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
    """Both definitions of Visual Saliency; see `limner.research.evaluation.saliency`.

    Args:
        texts: (N,) of the queries.
        stories: (N,).
        relevant: (N,) columns of the query's own pictures.
        features: (M, F) of the pictures.
        in_sample: see `label_scores`.
        scores: another model of the pictures than the linear one of their features.
    """
    made = scores or (lambda truth: label_scores(features, truth, in_sample=in_sample))
    return {
        "noun": noun_saliency(texts, relevant, len(features), made),
        "sequence": sequence_saliency(stories, relevant, len(features), made),
    }


class _Placed(NamedTuple):
    """Assignment of pictures by a decoding.

    Attributes:
        own: (N,) ranks of the step's own pictures.
        story: (N,) ranks of its story's pictures.
        top: (N, TOP or fewer) best columns.
    """

    own: Ranks
    story: Ranks
    top: NDArray[np.int64]


def _placed(score: Score, steps: Steps) -> dict[Decoding, _Placed]:
    """Both decodings, some steps at a time; of a story, what its earlier steps put first is carried over."""
    count, size = len(steps.rows), len(steps.names)
    found: dict[Decoding, list[_Placed]] = {"steps": [], "distinct": []}
    shown: dict[str, list[int]] = {}
    step = max(1, BLOCK_CELLS // size // 4)  # beside a block lie copies of it in double precision
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
    """Ranks, and how the first pictures look."""
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
    """(N,) cosine between the first picture and the step's own one, the nearest of several."""
    table = unit_or_zero(features)
    found = [
        (table[list(columns)] @ table[place]).max()
        for place, columns in zip(first.tolist(), relevant, strict=True)
    ]
    return np.array(found, dtype=np.float64)


def _random_cosine(features: NDArray[np.floating], relevant: Sequence[tuple[int, ...]]) -> float:
    """Mean over all pictures and steps of what `_cosines` gives.

    Of one picture a step, the mean of the cosines is the product of the means: no two pictures are compared.
    """
    table = unit_or_zero(features)
    single = table[[columns[0] for columns in relevant if len(columns) == 1]]
    total = float((single @ table.mean(axis=0)).sum())
    for columns, steps in Counter(columns for columns in relevant if len(columns) > 1).items():
        total += steps * float((table @ table[list(columns)].T).max(axis=1).mean())
    return total / len(relevant)
