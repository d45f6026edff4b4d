"""Result files: what one evaluated run found, query by query, so that tables can resample and compare.

A figure alone cannot be paired with another system's; ranks and probabilities can. Tables and figures read
these files and nothing else. It trains, encodes and scores nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, model_validator

from limner.data.records import Record
from limner.datasets.pairs import Pair
from limner.datasets.splits import duplicate_groups, text_id
from limner.errors import DataError, ShapeError
from limner.evaluation.protocol import POOL_COUNT, POOL_SIZE, Pool, draw
from limner.evaluation.ranking import rank
from limner.evaluation.result_files import gather, read_as, write_whole

FOLDER = "results"
TOP = 5
Scores = NDArray[np.floating]
Refine = Callable[[Scores, NDArray[np.int64], NDArray[np.int64]], Scores]
"""(Q, P) plain scores of a pool, its (Q,) rows and (P,) columns → (Q, P) refined scores."""


class PoolRanks(Record):
    """Ranks in one pool.

    Attributes:
        seed: what drew the pool; None for the full set.
        pictures: in the pool.
        queries: rows of the result, in the order of the ranks.
        plain: 1-based ranks, ties counted half.
        refined: those after refinement; empty where there is none.
        gaps: plain score of the best picture minus that of the second; empty where the pool has one picture.
    """

    seed: int | None
    pictures: int = Field(ge=1)
    queries: tuple[int, ...]
    plain: tuple[float, ...]
    refined: tuple[float, ...] = ()
    gaps: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _lengths(self) -> "PoolRanks":
        due = len(self.queries)
        if len(self.plain) != due or len(self.refined) not in (0, due) or len(self.gaps) not in (0, due):
            raise ValueError("as many ranks as queries are due")
        return self


class About(Record):
    """What a result is of; every result file says it.

    Attributes:
        system: row of the tables, such as ``CMCM_Story``.
        data: data set.
        split: grouped, released or random.
        part: val or test.
        seed: of training.
        preset: paper, release, sound, or "" where none applies.
        commit: of the code, "" where unknown.
        missing: pairs left out because of their picture.
        refinement: its settings, chosen on validation; empty where there is none.
        config: of the run, as resolved.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    system: str = Field(min_length=1)
    data: str
    split: Literal["grouped", "released", "random"]
    part: Literal["val", "test"] = "test"
    seed: int = 0
    preset: str = ""
    commit: str = ""
    missing: int = Field(default=0, ge=0)
    refinement: Mapping[str, float] = Field(default_factory=dict)
    config: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """``<data>-<split>-<part>``, as its files are called."""
        return f"{self.data}-{self.split}-{self.part}"

    @property
    def identity(self) -> dict[str, object]:
        """What no two runs that are compared may share, by name."""
        return {
            "system": self.system,
            "data": self.data,
            "split": self.split,
            "part": self.part,
            "preset": self.preset,
            "seed": self.seed,
        }


class Result(Record):
    """One evaluated run on one part of one split.

    Attributes:
        format: of the file.
        about: what it is of.
        ids: (N,) pairs, in the order of all that follows.
        groups: (N,) duplicate groups, the units of the bootstrap.
        pairs: (N,) equal for rows with the same text and the same picture.
        labels: relation → (N,) 0 or 1.
        probabilities: relation → (N,) predicted for the pair itself; absent where not predicted.
        pools: ranks per pool, the full set among them; empty for a system that retrieves nothing.
        top: (N,) per row the `Pair.id` of the first row with each of the five best pictures of the full set.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    format: Literal["limner-result-1"] = "limner-result-1"
    about: About
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    pairs: tuple[int, ...]
    labels: Mapping[str, tuple[int, ...]]
    probabilities: Mapping[str, tuple[float, ...]] = Field(default_factory=dict)
    pools: tuple[PoolRanks, ...] = ()
    top: tuple[tuple[str, ...], ...] = ()

    @model_validator(mode="after")
    def _lengths(self) -> "Result":
        rows = len(self.ids)
        counted = (("groups", self.groups), ("pairs", self.pairs))
        for what, values in (*counted, *self.labels.items(), *self.probabilities.items()):
            if len(values) != rows:
                raise ValueError(f"{what} has {len(values)} values for {rows} pairs")
        for pool in self.pools:
            if pool.queries and not 0 <= min(pool.queries) <= max(pool.queries) < rows:
                raise ValueError(f"a pool names a query outside 0…{rows - 1}")
        return self

    @property
    def full(self) -> PoolRanks | None:
        """Ranks against all pictures, or None."""
        return next((pool for pool in self.pools if pool.seed is None), None)

    @property
    def drawn(self) -> tuple[PoolRanks, ...]:
        """Ranks in the pools that were drawn."""
        return tuple(pool for pool in self.pools if pool.seed is not None)


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
    Source: SPEC 1.7, 2.8.
    """
    for pair in pairs:
        if not pair.group or any(name not in pair.labels for name in relations):
            raise DataError(
                f"{about.data}: pair {pair.id!r} has no group or lacks a label; split the set first"
            )
    keys = [(text_id(pair.text), pair.image_id) for pair in pairs]
    copies = duplicate_groups([[key] for key in keys])
    pools: list[PoolRanks] = []
    top: list[tuple[str, ...]] = []
    if scores is not None:
        queries = np.unique(np.array(copies, np.int64), return_index=True)[1]  # first row of every pair
        images = [pairs[row].image_id for row in queries]
        columns, full = draw(images, "full")
        size = len(full[0].pictures)
        if scores.shape != (len(pairs), size):
            raise ShapeError(
                f"{about.data}: scores have shape {scores.shape},"
                f" expected {len(pairs), size} (texts, different pictures)"
            )
        drawn = draw(images, "pools", size=pool_size, count=pool_count)[1] if size >= pool_size else []
        names = [pairs[queries[row]].id for row in np.unique(columns, return_index=True)[1]]
        order = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
        top = [tuple(names[column] for column in row) for row in order]
        pools = [_ranks(scores, refine, pool, queries, columns) for pool in (*drawn, *full)]
    return Result(
        about=about,
        ids=tuple(pair.id for pair in pairs),
        groups=tuple(pair.group for pair in pairs),
        pairs=tuple(copies),
        labels={name: tuple(pair.labels[name] for pair in pairs) for name in relations},
        probabilities={
            name: tuple(float(value) for value in values) for name, values in (probabilities or {}).items()
        },
        pools=tuple(pools),
        top=tuple(top),
    )


def write_result(result: Result, run: Path | str) -> Path:
    """Write ``results/<data>-<split>-<part>.json`` of a run folder, whole or not at all."""
    return write_whole(result, Path(run) / FOLDER / f"{result.about.name}.json")


def read_result(path: Path) -> Result:
    """Read one result file.

    Raises:
        MissingError: no such file.
        DataError: it is not one.
    """
    return read_as(path, Result, "a result file", "evaluate the run")


def read_results(runs: Path | str, *, variants: bool = False) -> list[Result]:
    """All result files of the run folders below a folder, in the order of their paths.

    Args:
        runs: the folder.
        variants: accept runs that differ in their settings alone, as a curve over a setting needs.
    Raises:
        MissingError: no such folder.
        DataError: a file is none, or two are of the same system, data, split, part, preset and seed.
    """
    identity = None if variants else lambda result: result.about.identity
    return gather(runs, f"**/{FOLDER}/*.json", read_result, identity)


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
    plain = rank(table, right).ranks()
    refined = rank(refine(table, rows, pool.pictures), right).ranks() if refine is not None else ()
    return PoolRanks(
        seed=pool.seed,
        pictures=len(pool.pictures),
        queries=tuple(int(row) for row in rows),
        plain=tuple(float(value) for value in plain),
        refined=tuple(float(value) for value in refined),
        gaps=tuple(float(value) for value in _gaps(table)),
    )


def _gaps(table: Scores) -> NDArray[np.float64]:
    """(Q,) best minus second best score of every query; (0,) for a pool of one picture."""
    if table.shape[1] < 2:
        return np.zeros(0)
    best = np.partition(table, -2, axis=1)[:, -2:].astype(np.float64)
    return best[:, 1] - best[:, 0]
