"""Pools: which pictures a query is ranked against.

The same seeds give the same pools to every system, and a pool is a set of pictures, not of rows, but in the
protocol of the CMCM release. It draws and slices; it does not score or rank.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limner.errors import ConfigError, DataError
from limner.research.evaluation.uncertainty import group_numbers

POOL_COUNT = 10
POOL_SIZE = 500


@dataclass(frozen=True)
class RankingPool:
    """One pool and the queries that belong to it.

    Attributes:
        pictures: (P,) columns of the score table, ascending; one per picture, but in `draw_legacy`.
        queries: (Q,) rows whose picture is in the pool.
        seed: what drew it; None for what is not drawn.
    """

    pictures: NDArray[np.int64]
    queries: NDArray[np.int64]
    seed: int | None = None


def different(picture_of: Sequence[Hashable]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number pictures by first appearance.

    Args:
        picture_of: per query (N,) the id of its picture; equal ids are one picture.
    Returns:
        (N,) the column of each query's picture, and (M,) the first row of each picture.
    Raises:
        DataError: no queries.
    """
    if not picture_of:
        raise DataError("pictures: no queries; a gallery needs at least one")
    columns, _ = group_numbers(picture_of)
    return columns, np.unique(columns, return_index=True)[1]


def draw(columns: NDArray[np.int64], *, size: int = POOL_SIZE, count: int = POOL_COUNT) -> list[RankingPool]:
    """Draw pools of different pictures without replacement, by the seeds 0…count−1.

    Args:
        columns: (N,) the column of each query's picture, as `different` numbers them.
        size: pictures per pool.
        count: pools.
    Raises:
        ConfigError: a size or count below 1.
        DataError: fewer pictures than a pool needs.
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
    """The pools of the CMCM release, to compare with its figures alone: they repeat pictures.

    A pool holds the picture of each of its rows, as often as the rows name it. All copies of a query's
    picture have the same score; one of them is right, the others tie with it.

    Args:
        columns: as in `draw`.
        size: rows per pool.
        count: pools that are drawn.
    Returns:
        The first `size` rows, or all if there are fewer, with no seed; then `count` draws of `size` rows with
        replacement, by the seeds 0…count−1.
    Raises:
        ConfigError: a size or count below 1.
    Source: docs/methods/evaluation.md §2. Departs: ties count half, where the release leaves them to the
        order of the sort.
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
