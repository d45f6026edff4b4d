"""``limner study``: human studies, from the draw of the items to the tables of the report.

It parses options and prints; `limner.study` makes, serves and analyses studies.
"""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App

from limner.cli.terminal import PLAIN, Flag, Many, deliver, emit, emit_report, say
from limner.config import build
from limner.errors import ConfigError, DataError
from limner.files import readable
from limner.study.records import StudyFiles, Vote, read_study, read_votes, vote_lines
from limner.web import check_installed


def preferences(
    *,
    library: Path,
    to: Path,
    projects: Path | None = None,
    consent: Flag = False,
) -> None:
    """Write what you replaced in the studio as preferences, topics and relevance judgements.

    In the folder --to: preferences.jsonl (query, context, preferred and rejected picture, time, library),
    topics.tsv (query id and text) and qrels.txt (TREC format, which 'limner evaluate --qrels' reads). They
    hold words of your texts and ids of your pictures, no picture and no path. Nothing is sent anywhere.

    Example: limner study preferences --library lib --consent --to my-preferences

    Parameters
    ----------
    library
        Folder of the library.
    to
        Folder to write into; made if it is not there.
    projects
        Folder of the studio's projects; 'projects' in the library unless given.
    consent
        You agree that these files hold words of your texts; without it nothing is written.
    """
    from limner.studio.preferences import read_preferences, write_preferences

    if not consent:
        raise ConfigError(
            "study preferences: the files would hold words of your texts and what you chose for them;"
            " add --consent if you agree"
        )
    found = read_preferences(projects or library / "projects")
    topics, judgements = write_preferences(found, to)
    emit(f"{len(found)} preferences, {topics} topics, {judgements} judgements: {to}")


def serve(
    study: Path,
    *,
    votes: str | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    name: Many = (),
    limit: int | None = None,
    hold_minutes: float = 20.0,
) -> None:
    """Show a study to raters in a browser and keep their votes.

    Raters open the printed address, agree, and answer page after page. They may stop and come back. Only
    this machine can open it unless --host names another address; the printed one then holds a token, and
    whoever is given it may take part. Ctrl-C ends it; nothing is lost, and it can be started again.

    Example: limner study serve preferences-study

    Parameters
    ----------
    study
        Folder that 'limner study create' made.
    votes
        Where votes are kept: a postgresql:// URL or an SQLite file; votes.sqlite in the folder unless given.
    host
        Address to listen on; 0.0.0.0 lets other machines in.
    port
        Port to listen on; 8420, or any that is free, unless given.
    name
        Name under which raters reach this server, such as that of a proxy before it (repeatable).
    limit
        Pages one rater is asked at most; all that are open unless given.
    hold_minutes
        How long a page is kept for a rater who does not answer.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit {limit}: expected at least 1")
    if not 0 < hold_minutes < 10_000:
        raise ConfigError(f"--hold-minutes {hold_minutes:g}: expected more than 0, and less than a week")
    check_installed("limner study serve", "studio,studies")
    from limner.study.app import serve_study

    serve_study(
        study,
        votes=votes,
        host=host,
        port=port,
        names=name,
        limit=limit,
        hold_s=60 * hold_minutes,
        note=say,
        ready=lambda address: emit(f"study open at {address}", flush=True),
    )


Paths = Annotated[tuple[Path, ...], PLAIN]

study = App(
    name="study",
    help=(
        "Ask people which pictures fit: create a study, serve it, see how far it is, report.\n\n"
        "Example: limner study create preference --tested runs/cmcm --control runs/cmca --relation Story"
    ),
)

study.command(serve)
study.command(preferences)


@study.command
def create(
    to: Path,
    *,
    protocol: Literal["pairwise", "tick-all"] = "pairwise",
    tested: Paths = (),
    control: Paths = (),
    truth: Paths = (),
    items: Path | None = None,
    relation: Many = (),
    names: str = "",
    part: Literal["val", "test"] = "test",
    decoding: Literal["steps", "distinct"] = "steps",
    size: int = 100,
    seed: int = 0,
    raters: int = 3,
    checks: float = 0.1,
    title: str = "Texts and pictures",
    question: str = "",
    consent: Path | None = None,
    hypothesis: Many = (),
    json: Flag = False,
) -> None:
    """Draw items, copy their pictures, and register the study before the first vote.

    Items are a simple random sample by --seed, never chosen by what a system found. The folder holds the
    registration with hashes of everything, what raters see, and the key; any later change is found.

    Example: limner study create preference --tested runs/cmcm --control runs/cmca --relation Story

    Example: limner study create steps --protocol tick-all --tested vrss.json --control vse.json

    Example: limner study create own --items items.jsonl --names "ours,theirs"

    Parameters
    ----------
    to
        Folder to make.
    protocol
        pairwise: which of two pictures fits a text better. tick-all: for every step of a story, all of
        three pictures that fit: the true one, and those of a model with and one without context.
    tested
        The tested system (tick-all: the model with context): the folder of a measured run, or a storyboard
        written by 'limner illustrate -o board.json' (repeatable, one per text).
    control
        The system it is compared with (tick-all: the model without context): a run of the same data, or
        storyboards of the same texts in the same order.
    truth
        Tick-all from storyboards: those with the true pictures; the ones that the texts themselves show
        unless given.
    items
        In place of runs and storyboards: JSON lines with the pictures of any systems, see docs/studies.md.
    relation
        Pairwise from runs: draw among texts with this relation; NAME=RUN takes a tested run of its own
        (repeatable). All texts unless given.
    names
        Of the systems in the report, separated by commas: tested, control; in tick-all the true picture
        first.
    part
        Part of the data set of measured runs.
    decoding
        Tick-all from runs: every step by itself, or no first picture twice in a story.
    size
        Items (tick-all: stories) drawn per relation; 0 takes all there are.
    seed
        Of the draw.
    raters
        Votes wanted per item.
    checks
        Attention checks per item (tick-all: per story).
    title
        Shown to raters.
    question
        Shown to raters; the usual one unless given.
    consent
        Text file with what raters agree to; a short text unless given.
    hypothesis
        To register (repeatable); the one of the published study unless given.
    json
        Print the registration as JSON.
    """
    from limner.study.create import CONSENT, QUESTIONS, StudySettings, create_study
    from limner.study.material import material_of
    from limner.study.report import registration_lines

    chosen = tuple(name.strip() for name in names.split(",")) if names else ()
    letters = 2 if protocol == "pairwise" else 3
    if len(chosen) not in (0, letters) or not all(chosen):
        raise ConfigError(f"--names {names!r}: expected {letters} names separated by commas")
    agreed = CONSENT
    if consent is not None:
        with readable(consent, "name a text file"):
            agreed = consent.read_text(encoding="utf-8").strip()
    values = {
        "protocol": protocol,
        "title": title,
        "question": question or QUESTIONS[protocol],
        "consent": agreed,
        "hypotheses": hypothesis,
        "size": size or None,
        "seed": seed,
        "raters": raters,
        "checks": checks,
    }
    settings = build(StudySettings, values, "study create")
    systems = (tested, control, truth, items)
    material = material_of(protocol, *systems, relations=relation, names=chosen, part=part, decoding=decoding)
    made = create_study(to, material, settings)
    for line in material.notes:
        say(line)
    emit_report(made, [f"{to}: {made.title}", *registration_lines(made)], as_json=json)


@study.command
def status(folder: Path, *, votes: str | None = None, json: Flag = False) -> None:
    """Tell how many votes there are and how many are due, and nothing about what raters prefer.

    Example: limner study status preference

    Parameters
    ----------
    folder
        Of the study.
    votes
        Where votes are kept, as given to 'limner study serve': a postgresql:// URL or an SQLite file, or a
        .jsonl file of exported votes; votes.sqlite in the folder unless given.
    json
        Print JSON.
    """
    from limner.study.analysis import progress_of

    files, cast = _opened(folder, votes)
    found = progress_of(files, cast)
    emit_report(found, found.lines(), as_json=json)
    if not json:
        say(f"{folder}: registration {files.study.sha256[:12]} is unaltered")


@study.command
def export(
    folder: Path, *, votes: str | None = None, to: Path | None = None, overwrite: Flag = False
) -> None:
    """Write all votes as JSON lines, which 'limner study report --votes FILE' reads.

    Example: limner study export preference --to votes.jsonl

    Parameters
    ----------
    folder
        Of the study.
    votes
        Where votes are kept, see 'limner study status'.
    to
        File to write instead of printing.
    overwrite
        Replace a file that is there.
    """
    _, cast = _opened(folder, votes)
    if to is not None and to.exists() and not overwrite:
        raise DataError(f"{to}: already there; pass --overwrite to replace it")
    deliver(vote_lines(cast).rstrip("\n"), to, f"{len(cast):,} votes")


@study.command
def report(
    folder: Path,
    *,
    votes: str | None = None,
    format: Literal["md", "latex", "html", "json"] = "md",  # noqa: A002  (the option's name)
    resamples: int = 10_000,
    to: Path | None = None,
) -> None:
    """Run the registered analysis and print its tables, the paper's figures beside ours.

    Majorities, exact sign test, t-test with effect size, power, agreement, per relation; with all raters and
    without those who failed an attention check.

    Example: limner study report preference --format html --to report.html

    Parameters
    ----------
    folder
        Of the study.
    votes
        Where votes are kept, see 'limner study status'.
    format
        md, latex (tables alone), html (one page) or json (every figure).
    resamples
        Of the bootstrap intervals.
    to
        File to write instead of printing.
    """
    from limner.study.analysis import analyse
    from limner.study.report import report_text

    files, cast = _opened(folder, votes)
    text = report_text(files, analyse(files, cast, resamples=resamples), format)
    deliver(text, to, f"{len(cast):,} votes of {len(files.items):,} items")


def _opened(folder: Path, votes: str | None) -> tuple[StudyFiles, list[Vote]]:
    """A verified study and its votes."""
    files = read_study(folder)
    if votes is not None and votes.endswith(".jsonl"):
        return files, read_votes(votes)
    from limner.study.votes import read_stored

    return files, read_stored(folder, votes)
