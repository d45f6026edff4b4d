"""``limner data``: audit data sets, fetch their pictures, and build sets and priors.

This module finds files, shows progress and prints; `limner.research.datasets` counts and fetches.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Group, Parameter
from rich.progress import MofNCompleteColumn, Task, TextColumn

from limner.cli.main import emit_report, resumable
from limner.errors import ConfigError, LimnerError, counted, unknown
from limner.progress import Bar, IndexProgress, span
from limner.research.datasets import load_dataset
from limner.research.datasets.audit import audit as run_audit
from limner.research.datasets.audit import render
from limner.research.datasets.fetch import FetchProgress, FetchReport, fetch_pictures
from limner.research.datasets.pairs import Source, data_sets
from limner.research.datasets.recipes import builder
from limner.research.scenes.detect import build_prior as count
from limner.transfer import FetchSettings

data = App(
    name="data",
    group_parameters=Group("Options", sort_key=0),
    help=(
        "Audit data sets for leaks, download their pictures, build sets from pages, count relations.\n\n"
        "Example: limner data audit clue --annotations clue"
    ),
)


@data.command
def sets(*, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """List the data sets that limner reads, with their relations and order.

    Example: limner data sets

    Parameters
    ----------
    json
        Print JSON instead of text.
    """
    found = sorted(data_sets().values(), key=lambda one: one.name)
    lines = []
    for one in found:
        offers = [counted(len(one.relations), "relation")] * bool(one.relations)
        offers += [f"in {one.sequence} order"] * bool(one.sequence) + ["fetch"] * bool(one.wanted)
        lines.append(f"{one.name:<13}{one.about}" + (f" ({', '.join(offers)})" if offers else ""))
    shown = ("name", "about", "relations", "sequence")
    emit_report([{key: getattr(one, key) for key in shown} for one in found], lines, as_json=json)


@data.command
def audit(
    name: str,
    *,
    annotations: Path | None = None,
    pictures: Path | None = None,
    missing: Literal["abort", "drop"] = "abort",
    split: Annotated[tuple[Literal["grouped", "released", "random"], ...], Parameter(negative="")] = (),
    seed: int = 0,
    draws: int = 200,
    strict: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Count the pictures and texts that the test part of a data set shares with its other parts.

    Prints the sizes of the parts, the number of test rows with a copy in another part, and the overlap of
    every two parts.

    Example: limner data audit clue --annotations clue

    Example: limner data audit folder --annotations ~/Pictures/captioned

    Parameters
    ----------
    name
        Data set; 'limner data sets' lists them.
    annotations
        File or folder of the annotations, as in a settings file. Default: data/SET below $LIMNER_DATA.
    pictures
        Folder of the pictures, all of which are then opened. Default for published sets: pictures are only
        looked up by the names in the annotation files.
    missing
        What to do if more than 2 % of the pictures are missing: abort, or drop their rows.
    split
        Kind of split (repeatable). Default: grouped, and released where the files state one.
    seed
        Seed of the splits.
    draws
        Number of random splits from which the leaks expected by chance are estimated; 0 for none.
    strict
        Group by every text, including those of fewer than 8 words.
    json
        Print JSON instead of text.
    """
    data = load_dataset(name, annotations or "", pictures=pictures, drop_missing=missing == "drop", look=True)
    found = run_audit(data, split or None, seed=seed, draws=draws, strict=strict)
    emit_report(found, [render(found)], as_json=json)


@data.command
def fetch(
    name: str,
    *,
    to: Path,
    annotations: Path | None = None,
    parallel: int = 16,
    per_host: int = 2,
    host_pause: float = 0.2,
    timeout: float = 90.0,
    max_mb: float = 32.0,
    max_total_gb: float = 50.0,
    again: Annotated[bool, Parameter(negative="")] = False,
    allow_private: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Download the pictures of a data set; run it again to resume after a stop.

    manifest.jsonl, next to the pictures, lists downloaded pictures, and failed downloads with the reason.

    Example: limner data fetch clue --to clue/images

    Parameters
    ----------
    name
        Data set whose files contain URLs of pictures: clue or conceptual.
    to
        Folder for the pictures; created if missing.
    annotations
        File of the URLs (clue: img2idxmap.json; conceptual: the TSV), or its folder. Default:
        data/SET below $LIMNER_DATA.
    parallel
        Maximum number of simultaneous requests.
    per_host
        Maximum number of simultaneous requests to one host.
    host_pause
        Seconds between two requests to one host.
    timeout
        Maximum time per picture, in seconds.
    max_mb
        Maximum size of a picture, in MB.
    max_total_gb
        Maximum size of the folder, in GB.
    again
        Retry pictures that failed for good (not found, not a picture).
    allow_private
        Allow hosts in private networks.
    json
        Print the report as JSON.
    """
    known = {one.name: one.wanted for one in data_sets().values() if one.wanted is not None}
    if name not in known:
        raise ConfigError(unknown("data set to fetch", name, known))
    settings = FetchSettings(parallel, per_host, host_pause, total_s=timeout, allow_private=allow_private)
    settings = replace(settings, max_bytes=int(max_mb * 1e6), max_total_bytes=int(max_total_gb * 1e9))
    wanted = known[name](_folder(name, annotations))
    with resumable(), FetchBar() as bar:
        report = fetch_pictures(wanted, to, settings, again=again, progress=bar)
    emit_report(report, summary(report, to), as_json=json)
    if not report.done:
        raise LimnerError(f"{to}: no picture was downloaded; manifest.jsonl there lists the reasons")


@data.command
def build_recipes(
    *sources: str,
    to: Path,
    split: Literal["stratified", "disjoint"] = "stratified",
    seed: int = 0,
    recipeqa: Path | None = None,
    recipeqa_pictures: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Build a set of stories, one picture per step, from saved pages.

    dropped.jsonl lists what was left out and why, and pages.jsonl the source and licence of every page.

    Example: limner data build-recipes ~/saved-pages --to recipes

    Parameters
    ----------
    sources
        Saved pages (.html, .md), or folders of them. Save pages with their pictures ("web page, complete").
    to
        Folder for the set; created if missing. An earlier set in it is replaced.
    split
        stratified: authors may be in several parts; disjoint: every author is in one.
    seed
        Seed of the split.
    recipeqa
        Folder of RecipeQA, whose recipes are added by the same rules.
    recipeqa_pictures
        Folder of its pictures, searched with subfolders. Default: that of --recipeqa.
    json
        Print the report as JSON.
    """
    if not sources and not recipeqa:
        raise ConfigError("build-recipes: no source; give saved pages, folders of them, or --recipeqa")
    added = Source(recipeqa, recipeqa_pictures) if recipeqa else None
    report = builder.build_recipes(sources, to, split=split, seed=seed, recipeqa=added)
    emit_report(report, builder.summary(report, to), as_json=json)


@data.command
def build_prior(
    *files: Path,
    to: Path,
    names: Path | None = None,
    only: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Count how objects of two classes are usually related, for 'limner scenes --prior'.

    Reads relations as Visual Genome publishes them (relationships.json or scene_graphs.json), or scene graphs
    as limner writes them (.jsonl). Files of any size are streamed.

    Example: limner data build-prior relationships.json --names VG-SGG-dicts.json --to vg.safetensors

    Parameters
    ----------
    files
        Files with annotated relations.
    to
        File of the prior, .safetensors; an existing one is replaced.
    names
        JSON file with idx_to_label and idx_to_predicate, the vocabulary to count. Default: the 150 most
        frequent labels and 50 most frequent predicates of the files.
    only
        Text file of picture ids, one per line, such as those of a training split. Default: all pictures.
    json
        Print the report as JSON.
    """
    if not files:
        raise ConfigError(
            "build-prior: no file; give relationships.json of Visual Genome, or files in its format"
        )
    with IndexProgress() as progress:
        report = count(files, to, names=names, only=only, progress=progress)
    lines = [f"{to}: {counted(report.relations, 'relation')} of {counted(report.pictures, 'picture')}"]
    if report.outside:
        first = ", ".join(f"{name} {count:,}" for name, count in report.outside_names[:10])
        lines.append(
            f"{counted(report.outside, 'relation')} with a name outside the vocabulary, most frequent {first}"
        )
    emit_report(report, lines, as_json=json)


def summary(report: FetchReport, folder: Path) -> list[str]:
    """The report of a fetch as lines."""
    lines = [
        f"{report.done:,} of {counted(report.wanted, 'picture')} in {folder}"
        f" ({report.size_bytes / 1e6:,.1f} MB), "
        f"{report.dead:,} failed, {report.left:,} left; {report.requests:,} requests"
    ]
    lines += [f"  {number:>6,}  {reason}" for reason, number in report.reasons.items()]
    if report.same_bytes:
        lines.append(
            f"{counted(report.same_bytes, 'picture')} with the bytes of at least two others: "
            "probably a host's placeholder for removed pictures"
        )
    if report.left:
        lines.append("the folder has reached its maximum size; raise --max-total-gb to continue")
    return lines


def _folder(name: str, annotations: Path | None) -> Path:
    """Folder of a set's annotation files."""
    place = os.environ.get("LIMNER_DATA")
    if annotations is None and not place:
        raise ConfigError(f"{name}: no folder given; pass --annotations FOLDER or set LIMNER_DATA")
    return annotations or Path(place or "") / "data" / name


class FetchBar(Bar):
    """Progress of a fetch: pictures fetched and failed, time left; in a log, an occasional line."""

    def __init__(self) -> None:
        super().__init__(MofNCompleteColumn(), TextColumn("{task.fields[more]}"), transient=True)
        self._task = self.bar.add_task("pictures", total=None, more="")

    def __call__(self, now: FetchProgress) -> None:
        """Show the progress."""
        more = f"{now.dead:,} failed · {now.size_bytes / 1e6:,.0f} MB · {span(now.left_s)}"
        self.bar.update(self._task, total=now.total, completed=now.done + now.dead, more=more)

    def line(self, task: Task) -> str:
        """The progress as text."""
        return f"{task.completed:,.0f} of {task.total or 0:,.0f} pictures, {task.fields['more']}"
