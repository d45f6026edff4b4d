"""``limner table``: a published table with our figures, intervals and marks beside the paper's.

It collects result files and prints; `limner.evaluation` builds the table. Nothing is measured here, except
that ``--smoke`` first trains tiny models on drawn pictures.
"""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from limner.apps.terminal import emit, say
from limner.errors import ConfigError

NAMES = ("cmcm-4", "cmcm-5", "cmcm-7", "cmcm-8")


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

    Cells without a result show a dash and are counted. Run 'limner measure' on the runs first.

    Example: limner table cmcm-5 --runs runs

    Parameters
    ----------
    name
        cmcm-4 (CITE++), cmcm-5 (Clue), cmcm-7 (per relation) or cmcm-8 (predicted relations).
    runs
        Folder that holds measured runs; none shows the published figures alone.
    data
        Data set of the results; that of the published table unless given.
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
    from limner.evaluation.coherence_tables import build
    from limner.evaluation.results import read_results
    from limner.evaluation.tables import render

    if name not in NAMES:
        raise ConfigError(unknown("table", name, NAMES))
    if smoke:
        from limner.apps.smoke_runs import smoke_results

        if runs is not None or data is not None:
            raise ConfigError("table: --smoke makes its own runs; leave --runs and --data out")
        results = smoke_results()
        tables = build(name, results, data=results[0].about.data, resamples=min(resamples, 500))
    else:
        tables = build(name, read_results(runs) if runs is not None else [], data=data, resamples=resamples)
    text = render(tables, format)
    if to is None:
        emit(text)
    else:
        to.write_text(text + "\n", encoding="utf-8")
        say(f"{to}: {len(tables)} tables")
    gaps = sum(one.empty for one in tables)
    if gaps:
        say(f"{name}: {gaps} cells have no result")
