"""Ranks of texts' pictures and answers to c-way questions, from pairs and a score table.

It never asks who made the scores, and writes no file.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limner.datasets.pairs import Pair
from limner.datasets.splits import duplicate_groups, text_id
from limner.errors import DataError, ShapeError
from limner.evaluation.choice import answer, stored_choices
from limner.evaluation.pools import POOL_COUNT, POOL_SIZE, Pool, different, draw
from limner.evaluation.ranking import Scores, rank
from limner.evaluation.refinement import gaps
from limner.evaluation.results import TOP, About, ChoiceResult, PoolRanks, Result

Refine = Callable[[Scores, NDArray[np.int64], NDArray[np.int64]], Scores]
"""(Q, P) plain scores of a pool, its (Q,) rows and (P,) columns → (Q, P) refined scores."""


def measure(
    about: About,
    pairs: Sequence[Pair],
    relations: Sequence[str],
    *,
    scores: Scores | None = None,
    refine: Refine | None = None,
    probabilities: Mapping[str, NDArray[np.floating]] | None = None,
    pool_size: int = POOL_SIZE,
    pool_count: int = POOL_COUNT,
) -> Result:
    """Rank every text's picture in the shared pools and in the full set, plain and refined.

    Probabilities are kept for every row; of a pair that is repeated only the first row is a query.

    Args:
        about: what is measured.
        pairs: (N,) all rows of the part, with groups filled in.
        relations: whose labels are kept.
        scores: (N, M) rows are texts, columns the different pictures in order of first appearance
            (by `Pair.image_id`); None for a system that retrieves nothing.
        refine: scores of a pool → refined scores; None where nothing refines.
        probabilities: relation → (N,) predicted for each pair.
        pool_size: pictures per pool; a set with fewer gets the full set alone.
        pool_count: pools drawn, seeds 0…count−1.
    Raises:
        ShapeError: the score table does not fit the pairs.
        DataError: a pair has no group or lacks a label.
    Source: docs/methods/evaluation.md §2; docs/methods/cmcm.md §4.2.
    """
    lost = next((pair for pair in pairs if any(name not in pair.labels for name in relations)), None)
    if lost is not None:
        raise DataError(f"{about.data}: pair {lost.id!r} lacks a label; split the set first")
    copies, queries, columns, first = _different(about, pairs, scores)
    pools: list[PoolRanks] = []
    top: list[tuple[str, ...]] = []
    if scores is not None:
        drawn = draw(columns, size=pool_size, count=pool_count) if len(first) >= pool_size else []
        full = Pool(np.arange(len(first)), np.arange(len(queries)))
        pools = [_ranks(scores, refine, pool, queries, columns) for pool in (*drawn, full)]
        names = [pairs[row].id for row in queries[first]]
        order = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
        top = [tuple(names[column] for column in row) for row in order]
    return Result(
        about=about,
        ids=tuple(pair.id for pair in pairs),
        groups=tuple(pair.group for pair in pairs),
        pairs=tuple(copies),
        labels={name: tuple(pair.labels[name] for pair in pairs) for name in relations},
        probabilities={name: tuple(values.tolist()) for name, values in (probabilities or {}).items()},
        pools=tuple(pools),
        top=tuple(top),
    )


def _different(
    about: About, pairs: Sequence[Pair], scores: Scores | None
) -> tuple[list[int], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Different pairs of a part, to whose pictures the score table must fit.

    Returns:
        (N,) number of every row's pair, (Q,) first row of every pair, (Q,) column of its picture, and (M,)
        the first query of every picture.
    """
    lost = next((pair.id for pair in pairs if not pair.group), None)
    if lost is not None or not pairs:
        raise DataError(f"{about.data}: pair {lost!r} has no group; split the set first")
    copies = duplicate_groups([[(text_id(pair.text), pair.image_id)] for pair in pairs])
    rows = np.unique(np.array(copies, np.int64), return_index=True)[1]
    columns, first = different([pairs[row].image_id for row in rows])
    due = len(pairs), len(first)
    if scores is not None and scores.shape != due:
        raise ShapeError(
            f"{about.data}: scores have shape {scores.shape}, expected {due} (texts, different pictures)"
        )
    return copies, rows, columns, first


def _ranks(
    scores: Scores,
    refine: Refine | None,
    pool: Pool,
    queries: NDArray[np.int64],
    columns: NDArray[np.int64],
) -> PoolRanks:
    """Ranks of one pool; its relevant column is the one picture of each query."""
    rows = queries[pool.queries]
    table = scores[np.ix_(rows, pool.pictures)]
    right = np.searchsorted(pool.pictures, columns[pool.queries])[:, None].tolist()
    refined = None if refine is None else rank(refine(table, rows, pool.pictures), right)
    return PoolRanks(
        seed=pool.seed,
        pictures=len(pool.pictures),
        queries=tuple(rows.tolist()),
        plain=tuple(rank(table, right).ranks().tolist()),
        refined=() if refined is None else tuple(refined.ranks().tolist()),
        gaps=tuple(gaps(table).tolist()) if len(pool.pictures) > 1 else (),
    )


def measure_choices(
    about: About,
    pairs: Sequence[Pair],
    scores: Scores,
    c: int,
    *,
    distractors: Path,
) -> ChoiceResult:
    """Answer c-way questions about the different pairs of a part.

    Args:
        about: what is measured.
        pairs: all rows of the part, with groups filled in; of a repeated pair the first row counts.
        scores: (rows, M) texts × different pictures in order of first appearance, as in `measure`.
        c: options per question.
        distractors: folder of stored questions that all runs share.
    Raises:
        ShapeError: the score table does not fit.
        DataError: a pair has no group, too few pairs, or the stored file is damaged.
    Source: docs/methods/evaluation.md §4.
    """
    _, rows, columns, _ = _different(about, pairs, scores)
    texts, images = [text_id(pairs[row].text) for row in rows], [pairs[row].image_id for row in rows]
    choices = stored_choices(distractors, about.name.replace("/", "-"), texts, images, c)
    answers = answer(scores[rows], columns, choices)
    return ChoiceResult(
        about=about,
        c=c,
        choices=choices.digest,
        ids=tuple(pairs[row].id for row in rows),
        groups=tuple(pairs[row].group for row in rows),
        picture_to_text=tuple(answers.picture_to_text.tolist()),
        text_to_picture=tuple(answers.text_to_picture.tolist()),
    )
