"""``limner table``: a published table with our figures, intervals and marks beside the paper's.

It collects result files and prints; `limner.evaluation` builds the table. Nothing is measured here, except
that ``--smoke`` first trains tiny models on drawn pictures.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from limner.cli.terminal import emit, say
from limner.errors import ConfigError

if TYPE_CHECKING:
    from limner.paper.table import Table

NAMES = ("cmcm-4", "cmcm-5", "cmcm-7", "cmcm-8", "complementary-2", "complementary-3", "vrss-1", "gsda-1")
SMOKE_CHOICES = 3


def table(
    name: str,
    *,
    runs: Path | None = None,
    data: str | None = None,
    format: Literal["md", "latex", "html"] = "md",  # noqa: A002  (the option's name)
    resamples: int = 10_000,
    to: Path | None = None,
    smoke: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Print a table of results beside the published one.

    Cells without a result show a dash and are counted. Run 'limner measure' on the runs first, for the tables
    of complementary samples with --choices.

    Example: limner table cmcm-5 --runs runs

    Example: limner table complementary-2 --runs runs --data flickr8k

    Example: limner table vrss-1 --runs runs --data storybook

    Parameters
    ----------
    name
        cmcm-4 (CITE++), cmcm-5 (Clue), cmcm-7 (per relation), cmcm-8 (predicted relations), complementary-2
        (c-way accuracy of all systems, with their ranks), complementary-3 (ablation of the weights), vrss-1
        (steps of stories, by themselves and without repeats) or gsda-1 (the same with the coherence of found
        pictures, and how well stories are told back).
    runs
        Folder that holds measured runs; none shows the published figures alone.
    data
        Data set of the results; that of the published table unless given, and for complementary-…, vrss-1
        and gsda-1 all that were measured.
    format
        md, latex or html.
    resamples
        Of every interval and comparison.
    to
        File to write instead of printing.
    smoke
        Train tiny models on drawn pictures and make the table of them, to see that it works.
    """
    from limner.errors import unknown
    from limner.paper.table import render

    if name not in NAMES:
        raise ConfigError(unknown("table", name, NAMES))
    if smoke and (runs is not None or data is not None):
        raise ConfigError("table: --smoke makes its own runs; leave --runs and --data out")
    made = {"complementary": _complementary, "vrss": _stories, "gsda": _stories}.get(
        name.partition("-")[0], _cmcm
    )
    tables = made(name, runs, data, min(resamples, 500) if smoke else resamples, smoke=smoke)
    text = render(tables, format)
    if to is None:
        emit(text)
    else:
        to.write_text(text + "\n", encoding="utf-8")
        say(f"{to}: {len(tables)} tables")
    gaps = sum(one.empty for one in tables)
    if gaps:
        say(f"{name}: {gaps} cells have no result")


def _cmcm(name: str, runs: Path | None, data: str | None, resamples: int, *, smoke: bool) -> "list[Table]":
    """Tables of CMCM."""
    from limner.evaluation.results import read_results
    from limner.paper import smoke as smoke_runs
    from limner.paper.cmcm import build

    if smoke:
        results = smoke_runs.smoke_results()
        data = results[0].about.data
    else:
        results = read_results(runs) if runs is not None else []
    return build(name, results, data=data, resamples=resamples)


def _complementary(
    name: str, runs: Path | None, data: str | None, resamples: int, *, smoke: bool
) -> "list[Table]":
    """Tables of complementary samples; those of all systems with their ranks."""
    from limner.evaluation.results import read_choice_results, read_results
    from limner.paper import smoke as smoke_runs
    from limner.paper.complementary import build, rank_tables
    from limner.paper.table import reference

    if smoke:
        measured = smoke_runs.smoke_measured((SMOKE_CHOICES,), name)
        answers = [answer for one in measured for answer in one.choices]
        results = [one.result for one in measured]
    elif runs is None:
        answers, results = [], []
    else:
        answers, results = read_choice_results(runs), read_results(runs)
    answers = [answer for answer in answers if data in (None, answer.about.data)]
    tables = build(name, answers, data=data, resamples=resamples)
    if name == "complementary-2":
        entry = reference()[name]
        tables += rank_tables(results, answers, tuple(entry["rows"]), entry["control"], resamples=resamples)
    return tables


def _stories(name: str, runs: Path | None, data: str | None, resamples: int, *, smoke: bool) -> "list[Table]":
    """Tables of stories and their steps."""
    from limner.evaluation.results import read_sequence_results
    from limner.paper import smoke as smoke_runs
    from limner.paper.sequences import build

    if smoke:
        measured = smoke_runs.smoke_measured(table=name)
        results = [one.sequences for one in measured if one.sequences is not None]
    else:
        results = read_sequence_results(runs) if runs is not None else []
    return build(name, results, data=data, resamples=resamples)
