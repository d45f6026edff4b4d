"""``limner table``: a published table with our figures, intervals and significance marks.

This module prints; `limner.research.paper.published` builds the table. ``--smoke`` first trains tiny models
on drawn pictures.
"""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from limner.cli.main import print_or_write, say
from limner.errors import ConfigError
from limner.research.evaluation.results import Protocol
from limner.research.paper.published import FOLDERS, build
from limner.research.paper.smoke import smoke_measured

SMOKE_CHOICES = 3


def table(
    name: str,
    *,
    runs: Path | None = None,
    data: str | None = None,
    format: Literal["md", "latex", "html"] = "md",  # noqa: A002  (the option's name)
    protocol: Protocol = "pools",
    resamples: int = 10_000,
    to: Path | None = None,
    smoke: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Print a table of results next to the published ones.

    Every row states the settings of its runs: preset, backbone, seeds, data and split; deviations from the
    preset and departures from the paper are listed below the table. Reduced: a size or the number of epochs
    is below the paper's. ‡ marks a row compared with one of different settings. Cells without a result show
    a dash and are counted. Run 'limner measure' on the runs first, with --choices for the
    complementary tables.

    Example: limner table cmcm-5 --runs runs

    Example: limner table complementary-2 --runs runs --data flickr8k

    Example: limner table vrss-1 --runs runs --data storybook

    Parameters
    ----------
    name
        cmcm-1 and cmcm-2 (how often relations hold in CITE++ and Clue), cmcm-4 (CITE++), cmcm-5 (Clue),
        cmcm-7 (per relation), cmcm-8 (predicted relations), complementary-1 (settings of the data sets and
        dispersion of the measures, for runs that weight pairs), complementary-2 (c-way accuracy of all
        systems, with their ranks), complementary-3 (ablation of the weights), vrss-1 (steps of stories, each
        by itself and without repeats), gsda-1 (the same with the coherence of found pictures and the quality
        of generated sentences) or limner-1 (limner's own model, step by step).
    runs
        Folder with measured runs; if omitted, only published figures are shown.
    data
        Data set of the results; for cmcm-1 and cmcm-2, one below $LIMNER_DATA/data. Default: that of the
        published table; for cmcm-7 both that were measured; for complementary-…, vrss-1, gsda-1 and limner-1
        all. Short runs (--smoke, data.limit) count as separate data sets, such as cite++-first48; a note
        below CMCM tables names the data sets left out.
    format
        md, latex or html.
    protocol
        Protocol of the pools, for cmcm-4, cmcm-5 and cmcm-7: pools, or legacy for runs that were measured
        with 'limner measure --protocol legacy'.
    resamples
        Bootstrap resamples for every interval and comparison.
    to
        File to write instead of printing.
    smoke
        Train tiny models on drawn pictures and make the table from them, as a test.
    json
        Print JSON instead of text: every figure with its interval, and all settings.
    """
    if smoke and name in FOLDERS:
        raise ConfigError(f"table: --smoke cannot make {name}; give --runs or --data instead")
    if smoke and name == "limner-1":
        raise ConfigError(
            "table: limner-1 needs photographs, which --smoke does not have; give --runs instead"
        )
    if smoke and (runs is not None or data is not None):
        raise ConfigError("table: --smoke makes its own runs; leave --runs and --data out")
    measured = None
    if smoke:
        choices = (SMOKE_CHOICES,) if name.startswith("complementary") else ()
        measured = smoke_measured(choices, "cmcm" if name.startswith("cmcm") else name)
        resamples = min(resamples, 500)
    found = build(name, runs, data=data, protocol=protocol, resamples=resamples, measured=measured)
    text = found.model_dump_json(indent=2) if json else found.render(format)
    print_or_write(text, to, f"{len(found.tables)} tables")
    if found.empty:
        say(f"{name}: {found.empty} cells have no result")
