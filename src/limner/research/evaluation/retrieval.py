"""Measures retrieval: the rank of each text's picture in the full set and in pools, from blocks of scores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from limner.errors import ConfigError, DataError
from limner.research.datasets.pairs import Pair, duplicate_groups, text_id
from limner.research.evaluation.ranking import (
    ALL,
    Ranks,
    Score,
    Scores,
    different,
    host,
    leading,
    rank,
    rank_blocks,
)
from limner.research.evaluation.results import TOP, About, PoolRanks, Result

POOL_COUNT = 10
POOL_SIZE = 500


@dataclass(frozen=True)
class RankingPool:
    """A pool of pictures and its queries.

    Attributes:
        pictures: (P,) columns of the scores, ascending; distinct, except in `draw_legacy`.
        queries: (Q,) rows whose picture is in the pool.
        seed: seed of the pool; None if it is not random.
    """

    pictures: NDArray[np.int64]
    queries: NDArray[np.int64]
    seed: int | None = None


def draw(columns: NDArray[np.int64], *, size: int = POOL_SIZE, count: int = POOL_COUNT) -> list[RankingPool]:
    """Sample pools of distinct pictures without replacement, with seeds 0…count−1.

    Args:
        columns: (N,) column of each query's picture, from `different`.
        size: number of pictures per pool.
        count: number of pools.
    Raises:
        ConfigError: `size` or `count` is below 1.
        DataError: there are fewer pictures than `size`.
    Source: docs/methods/evaluation.md §2.
    """
    total = int(columns.max()) + 1
    if size < 1 or count < 1:
        raise ConfigError(f"pools: {count} pools of {size}, expected at least 1 of 1")
    if size > total:
        raise DataError(
            f"pools: {total} different pictures, expected at least {size} for a pool of {size};"
            " use all of them or a smaller pool"
        )
    pools = []
    for seed in range(count):
        pictures = np.sort(np.random.default_rng(seed).choice(np.arange(total), size=size, replace=False))
        pools.append(RankingPool(pictures, np.flatnonzero(np.isin(columns, pictures)), seed))
    return pools


def draw_legacy(
    columns: NDArray[np.int64], *, size: int = POOL_SIZE, count: int = POOL_COUNT
) -> list[RankingPool]:
    """The pools of the CMCM release, in which pictures repeat; only for comparison with its figures.

    A pool has one picture per row, so pictures repeat. All copies of a query's picture have the same
    score; one of them is relevant, and the others tie with it.

    Args:
        columns: see `draw`.
        size: number of rows per pool.
        count: number of sampled pools.
    Returns:
        The first `size` rows (or all, if there are fewer), without a seed; then `count` samples of `size`
        rows with replacement, with seeds 0…count−1.
    Raises:
        ConfigError: `size` or `count` is below 1.
    Source: docs/methods/evaluation.md §2. Departs: ties count half; in the release, their order depends on
    the sorting.
    """
    if size < 1 or count < 1:
        raise ConfigError(f"pools: {count} pools of {size}, expected at least 1 of 1")
    total = len(columns)
    chosen: dict[int | None, NDArray[np.int64]] = {None: np.arange(min(size, total))}
    for seed in range(count):
        chosen[seed] = np.random.default_rng(seed).integers(total, size=size)
    pools = []
    for number, rows in chosen.items():
        queries = rows[np.argsort(columns[rows], kind="stable")]
        pools.append(RankingPool(columns[queries], queries, number))
    return pools


_QUERIES = 512  # queries per block when several processes share the ranking
Number = TypeVar("Number", bound=np.generic)
Refine = Callable[[Scores, NDArray[np.int64], NDArray[np.int64]], Scores]
"""(Q, P) plain scores in a pool, their (Q,) rows and its (P,) columns → (Q, P) refined scores."""


def measure(
    about: About,
    pairs: Sequence[Pair],
    relations: Sequence[str],
    *,
    score: Score | None = None,
    refine: Refine | None = None,
    probabilities: Mapping[str, NDArray[np.floating]] | None = None,
    pool_size: int = POOL_SIZE,
    pool_count: int = POOL_COUNT,
    share: slice = ALL,
    all_reduce: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
) -> Result:
    """Rank each text's picture in sampled pools and in the full set, before and after refinement.

    Probabilities are stored for every row, but only the first row of a repeated pair is a query. The legacy
    protocol uses the pools of `draw_legacy`, and no full set.

    Args:
        about: description of the run and the protocol.
        pairs: (N,) all rows of the part, with groups.
        relations: relations whose labels are stored.
        score: computes blocks of scores; rows are those of `pairs`, columns the M distinct pictures in order
            of first appearance (by `Pair.image_id`). None for a system that ranks no pictures.
        refine: scores of a pool → refined scores; None if the system does not refine.
        probabilities: relation → (N,) predicted probability.
        pool_size: number of pictures per pool; a smaller set has only the full set.
        pool_count: number of pools, with seeds 0…count−1.
        share: blocks of queries that this process ranks in the full set, if several processes share the work.
        all_reduce: all-reduce: array → its sum over all processes; exact, since all but one hold 0.
    Raises:
        ShapeError: a block of scores has the wrong shape.
        DataError: a pair has no group, or lacks a label.
    Source: docs/methods/evaluation.md §2; docs/methods/cmcm.md §4.2.
    """
    lost = next((pair for pair in pairs if any(name not in pair.labels for name in relations)), None)
    if lost is not None:
        raise DataError(f"{about.data}: pair {lost.id!r} lacks a label; expected {', '.join(relations)}")
    copies, queries, columns, first = different_pairs(about, pairs)
    pools: list[PoolRanks] = []
    top: list[tuple[str, ...]] = []
    refined_top: list[tuple[str, ...]] = []
    if score is not None:
        legacy = about.protocol == "legacy"
        drawn = draw(columns, size=pool_size, count=pool_count) if len(first) >= pool_size else []
        for pool in draw_legacy(columns, size=pool_size, count=pool_count) if legacy else drawn:
            found = _scored(score, refine, queries[pool.queries], pool.pictures, columns[pool.queries])
            pools.append(found.ranks(queries[pool.queries], len(pool.pictures), pool.seed))
        every = np.arange(len(pairs)), np.arange(len(first)), columns[np.array(copies)]
        full = _Scored(*map(all_reduce, _shared(score, refine, *every, share=share).parts))
        pools += [] if legacy else [full.of(queries).ranks(queries, len(first), None)]
        names = [pairs[row].id for row in queries[first]]
        top, refined_top = (
            [tuple(names[column] for column in row) for row in best.tolist()]
            for best in (full.top, full.refined_top)
        )
    return Result(
        about=about,
        ids=tuple(pair.id for pair in pairs),
        groups=tuple(pair.group for pair in pairs),
        pairs=tuple(copies),
        labels={name: tuple(pair.labels[name] for pair in pairs) for name in relations},
        probabilities={name: tuple(values.tolist()) for name, values in (probabilities or {}).items()},
        pools=tuple(pools),
        top=tuple(top),
        refined_top=tuple(refined_top),
    )


def different_pairs(
    about: About, pairs: Sequence[Pair]
) -> tuple[list[int], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Number the distinct pairs of a part.

    Returns:
        (N,) number of each row's pair, (Q,) first row of each pair, (Q,) column of its picture, and (M,)
        first query of each picture.
    Raises:
        DataError: there are no pairs, or a pair has no group.
    """
    lost = next((pair.id for pair in pairs if not pair.group), None)
    if lost is not None or not pairs:
        found = "no pairs" if lost is None else f"pair {lost!r} has no group"
        raise DataError(f"{about.data}: {found}; split the set first")
    copies = duplicate_groups([[(text_id(pair.text), pair.image_id)] for pair in pairs])
    rows = np.unique(np.array(copies, np.int64), return_index=True)[1]
    columns, first = different([pairs[row].image_id for row in rows])
    return copies, rows, columns, first


@dataclass(frozen=True)
class _Scored:
    """What is stored of the scores of Q queries in a pool.

    Attributes:
        plain: (Q,) ranks.
        refined: (Q,) ranks after refinement, or (0,) if there is none.
        gaps: (Q,) difference between the two best scores, or (0,) in a pool of one.
        top: (Q, ≤ TOP) best columns.
        refined_top: the same after refinement, or (0, 0).
    """

    plain: Ranks
    refined: Ranks
    gaps: Ranks
    top: NDArray[np.int64]
    refined_top: NDArray[np.int64]

    @property
    def parts(self) -> tuple[NDArray[Any], ...]:
        """All fields, in order."""
        return self.plain, self.refined, self.gaps, self.top, self.refined_top

    def of(self, rows: NDArray[np.int64]) -> "_Scored":
        """The values of some queries."""

        def taken(part: NDArray[Number]) -> NDArray[Number]:
            return part[rows] if len(part) else part

        ranks = taken(self.plain), taken(self.refined), taken(self.gaps)
        return _Scored(*ranks, taken(self.top), taken(self.refined_top))

    def ranks(self, queries: NDArray[np.int64], pictures: int, seed: int | None) -> PoolRanks:
        """Convert to the stored record."""
        return PoolRanks(
            seed=seed,
            pictures=pictures,
            queries=tuple(queries.tolist()),
            plain=tuple(self.plain.tolist()),
            refined=tuple(self.refined.tolist()),
            gaps=tuple(self.gaps.tolist()),
        )


def _shared(
    score: Score,
    refine: Refine | None,
    rows: NDArray[np.int64],
    pictures: NDArray[np.int64],
    columns: NDArray[np.int64],
    *,
    share: slice,
) -> _Scored:
    """`_scored` for this process's share of the queries in the full set; 0 for the others."""
    count, best = len(rows), min(TOP, len(pictures))
    finer = 0 if refine is None else count
    kept = _Scored(
        np.zeros(count),
        np.zeros(finer),
        np.zeros(count if len(pictures) > 1 else 0),
        np.zeros((count, best), np.int64),
        np.zeros((finer, best), np.int64),
    )
    for start in range(0, count, _QUERIES)[share]:
        some = slice(start, start + _QUERIES)
        found = _scored(score, refine, rows[some], pictures, columns[some], whole=True)
        for whole, part in zip(kept.parts, found.parts, strict=True):
            if len(whole):
                whole[some] = part
    return kept


def _scored(
    score: Score,
    refine: Refine | None,
    rows: NDArray[np.int64],
    pictures: NDArray[np.int64],
    columns: NDArray[np.int64],
    *,
    whole: bool = False,
) -> _Scored:
    """Rank queries in one pool, in blocks.

    Args:
        score: scores of the part.
        refine: see `measure`.
        rows: (Q,) queries.
        pictures: (P,) columns of the pool, ascending.
        columns: (Q,) relevant column of each query.
        whole: whether the pool has all pictures.
    """
    right = np.searchsorted(pictures, columns)[:, None].tolist()
    refined, values, top, refined_top = [np.empty(0)], [np.empty((0, 2))], [], []

    def block(start: int, stop: int) -> Any:  # noqa: ANN401  (see `Score`)
        some = rows[start:stop]
        table = score(some, ALL if whole else pictures)
        if table.shape[1] == len(pictures):  # otherwise `rank_blocks` raises the error
            best, best_scores = leading(table, TOP)
            top.append(best)
            values.append(best_scores[:, :2])
            if refine is not None:
                finer = refine(host(table), some, pictures)
                refined.append(rank(finer, right[start:stop], first=start).ranks())
                if whole:
                    refined_top.append(leading(finer, TOP)[0])
        return table

    plain = rank_blocks(block, (len(rows), len(pictures)), right).ranks()
    gaps = np.empty(0)
    if len(pictures) > 1:
        first, second = np.concatenate(values).T
        gaps = first - second
    fine = np.concatenate(refined_top) if refined_top else np.empty((0, 0), np.int64)
    return _Scored(plain, np.concatenate(refined), gaps, np.concatenate(top), fine)
