"""Columns of the tables of stories: what is asked of every measured step, and how seeds and steps are pooled.

One definition for all tables of stories, so that recall or the looks of pictures mean the same in each. It
makes no table and knows no paper.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limner.evaluation.comparison import Figure, rank_figure
from limner.evaluation.sequence_results import CUTS, Decoding, Found, SequenceResult
from limner.evaluation.tables import Kind
from limner.evaluation.uncertainty import Values, Weights


@dataclass(frozen=True)
class Column:
    """One measure of a table.

    Attributes:
        name: heading.
        published: key of the paper's figure, "" for none.
        values: what was found → (N,) of every step, NaN of steps that do not count, or None where it was not
            measured.
        kind: how it is written; of a rank the median is taken, and less is better.
    """

    name: str
    published: str
    values: Callable[[Found], Values | None]
    kind: Kind = "percent"


def _within(name: str, part: str, k: int) -> Column:
    def values(found: Found) -> Values | None:
        ranks = found.saliency.get(part) if part in ("noun", "sequence") else getattr(found, part)  # type: ignore[call-overload]
        return None if ranks is None else np.array(np.asarray(ranks) <= k, dtype=np.float64)

    return Column(f"{name}@{k}", f"{name}@{k}" if part != "sequence" else "", values)


_RECALL = tuple(_within("R", "own", k) for k in CUTS)
_STORY = _within("StR", "story", 1)
LAYOUTS: Mapping[str, Mapping[str, tuple[Column, ...]]] = {
    "vrss-1": {
        "retrieval": (*_RECALL, _STORY),
        "nouns": tuple(_within("VSR", "noun", k) for k in CUTS),
        "stories": tuple(_within("VSR", "sequence", k) for k in CUTS),
        "features": (
            Column("VFS", "VFS", lambda f: np.array(f.similarity) if f.similarity else None, "precision"),
        ),
    },
    "gsda-1": {
        "retrieval": (*_RECALL, Column("MedR", "MedR", lambda f: np.array(f.own), "rank"), _STORY),
        "features": (
            Column(
                "coherence",
                "",
                lambda f: np.array(f.coherence, dtype=np.float64) if f.coherence else None,
                "precision",
            ),
        ),
    },
}


def figure_of(
    column: Column,
    runs: Sequence[SequenceResult],
    decoding: Decoding,
    *,
    owner: NDArray[np.int64],
    groups: int,
    printed: float | None,
) -> Figure:
    """A column's figure of one system: the mean over its seeds.

    Args:
        column: which.
        runs: one per seed, on the same steps.
        decoding: how pictures were chosen.
        owner: (N,) number of every step's story.
        groups: of stories.
        printed: the paper's figure, per cent where the column is.
    """
    if printed is not None and column.kind == "percent":
        printed /= 100
    found = [_values(column, run, decoding) for run in runs]
    there = [values for values in found if values is not None]
    # a mean of fewer seeds is another figure
    whole = bool(there) and len(there) == len(found)
    applies = whole or not runs
    if column.kind == "rank":
        pools = [(np.arange(len(owner)), values) for values in there] if whole else []
        return rank_figure("MedR", pools, owner, groups, printed, applies=applies)
    statistic = _average(np.mean(there, axis=0), owner, groups) if whole else None
    return Figure(column.kind, statistic, printed, applies=applies)


def single(column: Column, run: SequenceResult, decoding: Decoding) -> float | None:
    """A column's figure of one run; None where it was not measured."""
    values = _values(column, run, decoding)
    if values is None or np.isnan(values).all():
        return None
    return float((np.nanmedian if column.kind == "rank" else np.nanmean)(values))


def _values(column: Column, run: SequenceResult, decoding: Decoding) -> Values | None:
    return column.values(run.found[decoding]) if decoding in run.found else None


def _average(values: Values, owner: NDArray[np.int64], groups: int) -> Callable[[Weights], Values]:
    counted = ~np.isnan(values)
    sums = np.bincount(owner[counted], values[counted], groups)
    sizes = np.bincount(owner[counted], minlength=groups).astype(np.float64)

    def average(weights: Weights) -> Values:
        drawn = weights.astype(np.float64)
        total, size = drawn @ sums, drawn @ sizes
        share: Values = np.divide(total, size, out=np.full_like(total, np.nan), where=size > 0)
        return share

    return average
