"""What the tables of CMCM have in common: the results of one split by system, and how their cells are made.

Tables differ in what they rank and predict, not in whose results stand side by side. It builds no table.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from limner.errors import DataError
from limner.evaluation.comparison import Ranked
from limner.evaluation.results import PoolRanks, Result
from limner.evaluation.tables import Cell
from limner.evaluation.uncertainty import group_numbers

METRICS = ("MedR", "R@1", "R@5", "R@10")
CONTROL = "CMCA"
Stage = Literal["plain", "refined"]


@cache
def reference() -> Mapping[str, Any]:
    """Published figures of CMCM, as in ``reference/cmcm.toml``."""
    return tomllib.loads((files("limner.evaluation") / "reference" / "cmcm.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Scene:
    """All results on one part of one split.

    Attributes:
        name: of the table.
        where: data set and split, in words.
        systems: name → its runs, one per seed.
        owner: (N,) group of every row.
        groups: number of groups.
        resamples: of every bootstrap.
        published: whether the paper gives figures of this data set.
    """

    name: str
    where: str
    systems: Mapping[str, Sequence[Result]]
    owner: NDArray[np.int64]
    groups: int
    resamples: int
    published: bool

    @classmethod
    def of(
        cls, name: str, where: str, results: Sequence[Result], resamples: int, *, published: bool
    ) -> "Scene":
        """Sort results by system; all must be of the same rows."""
        systems: dict[str, list[Result]] = {}
        for result in results:
            if result.ids != results[0].ids:
                raise DataError(
                    f"{name} ({where}): {result.about.system} and {results[0].about.system} were evaluated on"
                    " different pairs; evaluate both on one split seed"
                )
            preset = result.about.preset
            # presets are never averaged: another one than the default is a row of its own
            name_of = (
                result.about.system if preset in ("", "release") else f"{result.about.system} [{preset}]"
            )
            systems.setdefault(name_of, []).append(result)
        owner, groups = group_numbers(results[0].groups if results else [])
        return cls(name, where, systems, owner, groups, resamples, published)

    def runs(self, system: str, alias: str = "") -> Sequence[Result]:
        """Runs of a system under either of its names."""
        return self.systems.get(system) or self.systems.get(alias) or ()

    def title(self, tail: str = "") -> str:
        """What is shown and where its figures are from; the published table is named where it is redone."""
        title = str(reference()[self.name]["title"])
        if not self.published:
            title = title.partition(": ")[2].capitalize()
        return f"{title} ({self.where}{tail})"


def pools_of(runs: Sequence[Result], stage: Stage, *, full: bool) -> list[Ranked]:
    """Queries and ranks of every pool of every run; empty where the stage was not measured."""
    return [
        (np.array(pool.queries, dtype=np.int64), np.array(getattr(pool, stage), dtype=np.float64))
        for run in runs
        for pool in chosen(run, full=full)
        if len(getattr(pool, stage))
    ]


def chosen(run: Result, *, full: bool) -> tuple[PoolRanks, ...]:
    """The full gallery of a run, or the pools that were drawn."""
    if not full:
        return run.drawn
    return (run.full,) if run.full is not None else ()


def scaled(table: Mapping[str, float], metric: str) -> float | None:
    """A printed figure as a rank or a fraction."""
    if metric not in table:
        return None
    return table[metric] if metric == "MedR" else table[metric] / 100


def parted(cells: Sequence[Cell], width: int) -> Iterator[Sequence[Cell]]:
    """Cells row by row."""
    for start in range(0, len(cells), width):
        yield cells[start : start + width]


def seeds(runs: Sequence[Result]) -> str:
    """How many runs a row averages, where it is more than one."""
    return f"{len(runs)} seeds" if len(runs) > 1 else ""


def marks_note(control: str, compared: int, resamples: int) -> str:
    """What the marks of a table mean."""
    if not compared:
        return f"No marks: nothing to compare with {control}, or fewer than ten duplicate groups."
    return (
        f"* better, † worse than {control}: paired bootstrap of {resamples} resamples by duplicate group,"
        f" p < .05 after Holm's correction for {compared} comparisons."
    )
