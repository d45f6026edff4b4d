"""Published tables by their names: the paper's figures with those of measured runs beside them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from limner.counts import counted
from limner.errors import ConfigError, unknown
from limner.records import Record
from limner.research.evaluation.results import (
    About,
    ChoiceResult,
    Protocol,
    Result,
    ResultFile,
    SequenceResult,
)
from limner.research.evaluation.uncertainty import RESAMPLES
from limner.research.paper import cmcm, complementary, dispersion, sequences
from limner.research.paper.table import Format, Table, render

if TYPE_CHECKING:
    from limner.research.runs.measure import Measured

NAMES = (
    "cmcm-4",
    "cmcm-5",
    "cmcm-7",
    "cmcm-8",
    "complementary-1",
    "complementary-2",
    "complementary-3",
    "vrss-1",
    "gsda-1",
    "limner-1",
)
LEGACY = ("cmcm-4", "cmcm-5", "cmcm-7")
R = TypeVar("R", bound=ResultFile)


class Tables(Record):
    """Tables that are one in the paper, such as one per split.

    Attributes:
        name: such as ``cmcm-5``.
        tables: in order.
    """

    name: str
    tables: tuple[Table, ...]

    @property
    def empty(self) -> int:
        """Cells without a result that should have one."""
        return sum(table.empty for table in self.tables)

    def render(self, form: Format) -> str:
        """As one text, see `limner.research.paper.table.render`."""
        return render(self.tables, form)

    def markdown(self) -> str:
        """As Markdown."""
        return self.render("md")

    def latex(self) -> str:
        """As LaTeX; needs the package booktabs."""
        return self.render("latex")

    def html(self) -> str:
        """As HTML without style."""
        return self.render("html")

    def __str__(self) -> str:
        """As Markdown."""
        return self.markdown()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.html()


def build(
    name: str,
    runs: str | os.PathLike[str] | None = None,
    *,
    data: str | None = None,
    protocol: Protocol = "pools",
    resamples: int = RESAMPLES,
    measured: Sequence[Measured] | None = None,
) -> Tables:
    """A published table with the figures of measured runs.

    Args:
        name: cmcm-4 (CITE++), cmcm-5 (Clue), cmcm-7 (per relation), cmcm-8 (predicted relations),
            complementary-1 (settings and dispersion of the measures), complementary-2 (c-way accuracy of all
            systems, with their ranks), complementary-3 (ablation of the weights), vrss-1 (steps of stories),
            gsda-1 (the same with the coherence of found pictures) or limner-1 (limner's own model, step by
            step, against the plain dual encoder).
        runs: folder that holds measured runs; None shows the published figures alone.
        data: data set of the results; None takes that of the published table, for cmcm-7 both that were
            measured, and for complementary-…, vrss-1, gsda-1 and limner-1 all. A note says which results a
            table of CMCM passes over, and how to show them.
        protocol: of the pools of the results that are shown, ``legacy`` for cmcm-4, cmcm-5 and cmcm-7 alone.
        resamples: of every interval and comparison.
        measured: runs in memory, in place of those in `runs`.
    Raises:
        ConfigError: no such table, or none of the legacy protocol.
        MissingError: `runs` is no folder.
        DataError: two systems were evaluated on different pairs.
    """
    if name not in NAMES:
        raise ConfigError(unknown("table", name, NAMES))
    if not isinstance(runs, str | os.PathLike | None):
        raise ConfigError(f"table: runs: {runs!r:.60} is of type {type(runs).__name__}; expected a path")
    if protocol == "legacy" and name not in LEGACY:
        raise ConfigError(f"table: {name} has no legacy protocol, only {', '.join(LEGACY)} have")
    place = None if runs is None else Path(runs).expanduser()

    def found(kind: type[R], of: Callable[[Measured], Iterable[R]]) -> list[R]:
        if measured is not None:
            return [result for one in measured for result in of(one)]
        return [] if place is None else kind.read_all(place)

    if name.startswith("cmcm"):
        every_protocol = found(Result, lambda one: (one.result,))
        results = [r for r in every_protocol if r.about.protocol == protocol]
        chosen = results[0].about.data if measured else data
        tables = cmcm.build(name, results, data=chosen, resamples=resamples)
        sets = cmcm.shown_sets(name, results, chosen)
        note = passed_over([r.about for r in every_protocol], sets, protocol, asked=data is not None)
        if note:
            tables[:1] = [one.model_copy(update={"notes": (*one.notes, note)}) for one in tables[:1]]
    elif name == "limner-1":
        tables = cmcm.own_model(found(Result, lambda one: (one.result,)), data=data, resamples=resamples)
    elif name == "complementary-1":
        if measured is not None:
            raise ConfigError("table: complementary-1 reads what training left in folders; give --runs")
        tables = dispersion.build(place, data=data)
    elif name.startswith("complementary"):
        every = found(ChoiceResult, lambda one: one.choices)
        answers = [answer for answer in every if data in (None, answer.about.data)]
        tables = complementary.build(name, answers, data=data, resamples=resamples)
        if name == "complementary-2":
            ranked = found(Result, lambda one: (one.result,))
            tables += complementary.rank_tables(ranked, answers, resamples=resamples)
    else:
        stories = found(SequenceResult, lambda one: () if one.sequences is None else (one.sequences,))
        tables = sequences.build(name, stories, data=data, resamples=resamples)
    return Tables(name=name, tables=tuple(tables))


def passed_over(every: Iterable[About], sets: Sequence[str], protocol: Protocol, *, asked: bool) -> str:
    """A note on the test results that a table of CMCM does not show, and how to show them; "" for none.

    Args:
        every: what all results are of.
        sets: data sets that are shown.
        protocol: that is shown.
        asked: whether the reader named the data set, and so knows what is left out.
    """
    others: Counter[tuple[str, ...]] = Counter()
    for one in every:
        options: tuple[str, ...] = () if one.data in sets else (f"--data {one.data}",)
        if one.protocol != protocol:
            options += (f"--protocol {one.protocol}",)
        if one.part == "test" and options and not (asked and one.data not in sets):
            others[(one.data, *options)] += 1
    each = [
        f"{counted(count, 'result')} on {data} ({' '.join(options)} shows {'it' if count == 1 else 'them'})"
        for (data, *options), count in sorted(others.items())
    ]
    return f"Passed over: {'; '.join(each)}." if each else ""
