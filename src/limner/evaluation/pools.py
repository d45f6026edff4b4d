"""Pools: which pictures a query is ranked against.

The same seeds give the same pools to every system, and a pool is a set of pictures, not of rows.
It draws and slices; it does not score or rank.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from limner.errors import ConfigError, DataError, unknown

Protocol = Literal["pools", "full", "legacy"]
POOL_COUNT = 10
POOL_SIZE = 500


@dataclass(frozen=True)
class Pool:
    """One pool and the queries that belong to it.

    Attributes:
        pictures: (P,) columns of the score table, one per picture, ascending.
        queries: (Q,) rows whose picture is in the pool, ascending; every row once.
        seed: what drew it; None for the full set.
    """

    pictures: NDArray[np.int64]
    queries: NDArray[np.int64]
    seed: int | None = None


def draw(
    picture_of: Sequence[Hashable],
    protocol: Protocol = "pools",
    *,
    size: int = POOL_SIZE,
    count: int = POOL_COUNT,
) -> tuple[NDArray[np.int64], list[Pool]]:
    """De-duplicate pictures and draw the pools of a protocol.

    Args:
        picture_of: per query (N,) the id of its picture; equal ids are one picture.
        protocol: ``pools`` draws `count` pools of `size` pictures without replacement, seeds
            0…count−1; ``full`` is one pool of all; ``legacy`` draws `size` queries with replacement
            and keeps the pictures they name, so that its pools are smaller than they claim.
        size: pictures per pool; for ``legacy`` draws per pool.
        count: pools.
    Returns:
        (N,) the column of each query's picture, columns numbered by first appearance; the pools.
    Raises:
        ConfigError: no such protocol, or a size or count below 1.
        DataError: no queries, or fewer pictures than a pool needs.
    Source: docs/methods/evaluation.md §2.
    """
    if protocol not in get_args(Protocol):
        raise ConfigError("protocol: " + unknown("protocol", protocol, get_args(Protocol)))
    if size < 1 or count < 1:
        raise ConfigError(f"protocol: {count} pools of {size}, expected at least 1 of 1")
    if not picture_of:
        raise DataError("protocol: no queries; a pool needs at least one")
    numbers: dict[Hashable, int] = {}
    columns = np.array([numbers.setdefault(picture, len(numbers)) for picture in picture_of], dtype=np.int64)
    everything = np.arange(len(numbers), dtype=np.int64)
    if protocol == "full":
        return columns, [Pool(everything, np.arange(len(columns), dtype=np.int64))]
    if protocol == "pools" and size > len(numbers):
        raise DataError(
            f"protocol: {len(numbers)} different pictures, expected at least {size} for a pool of {size};"
            " use protocol 'full' or a smaller pool"
        )
    pools = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        if protocol == "pools":
            pictures = np.sort(rng.choice(everything, size=size, replace=False))
        else:
            pictures = np.unique(columns[rng.integers(len(columns), size=size)])
        queries = np.flatnonzero(np.isin(columns, pictures))
        pools.append(Pool(pictures, queries, seed))
    return columns, pools
