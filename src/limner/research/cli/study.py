"""``limner study``: human studies, from sampling the items to the tables of the report.

This module parses options and prints; `limner.research.study` makes, serves and analyses studies.
"""

from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Group

from limner.cli.main import PLAIN, Flag, Many, emit, emit_report, print_or_write, say
from limner.config import build
from limner.errors import ConfigError, DataError, counted
from limner.files import readable
from limner.research.study.records import (
    Notice,
    StudyFiles,
    check_votes,
    read_study,
    vote_lines,
)

if TYPE_CHECKING:
    from limner.research.study.votes import StoredVotes


def preferences(
    *,
    library: Path | None = None,
    to: Path,
    projects: Path | None = None,
    consent: Flag = False,
) -> None:
    """Write your replacements in the studio as preferences, topics and relevance judgements.

    The folder --to gets preferences.jsonl (query, context, preferred and rejected picture, time, library),
    topics.tsv (query id and text) and qrels.txt (TREC format, for 'limner evaluate --qrels'). They contain
    words of your texts and ids of your pictures, but no picture and no path. Nothing is sent anywhere.

    Example: limner study preferences --consent --to my-preferences

    Parameters
    ----------
    library
        Folder of the library. Default: $LIMNER_LIBRARY, else the one used last (see 'limner library').
    to
        Folder to write to; created if missing.
    projects
        Folder of the studio's projects. Default: that of the library's projects, see 'limner studio'.
    consent
        Confirm that these files may contain words of your texts; otherwise nothing is written.
    """
    from limner.library import library_to_search
    from limner.studio.preferences import read_preferences, write_preferences
    from limner.studio.projects import projects_found

    if not consent:
        raise ConfigError(
            "study preferences: the files would contain words of your texts and your choices for them;"
            " add --consent if you agree"
        )
    found = read_preferences(projects or projects_found(library_to_search(library, say)))
    topics, judgements = write_preferences(found, to)
    told = (counted(len(found), "preference"), counted(topics, "topic"), counted(judgements, "judgement"))
    emit(f"{', '.join(told)}: {to}")


def serve(
    study: Path,
    *,
    votes: str | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    name: Many = (),
    proxy: Many = (),
    limit: int | None = None,
    hold_minutes: float = 20.0,
    new_raters: int = 30,
    contact: str = "",
    purpose: str = "",
    retention: str = "",
    panel: Literal["prolific", "mturk"] | None = None,
    completion_code: str = "",
    completion_url: str = "",
    screen_out: int = 0,
    screen_out_code: str = "",
    screen_out_url: str = "",
) -> None:
    """Show a study to raters in a browser and store their votes.

    Raters open the printed address, give consent, and answer page after page. They may stop and come back.
    Only this machine can open the study, unless --host names another address; the printed address then
    contains a token, and everybody who has it can take part. Ctrl-C stops the server; no vote is lost, and
    the server can be started again.

    Example: limner study serve preferences-study

    Example: limner study serve preferences-study --host 0.0.0.0 --panel prolific --completion-code C1ABCDEF

    Parameters
    ----------
    study
        Folder made by 'limner study create'.
    votes
        Storage of the votes: a postgresql:// URL or an SQLite file. Default: votes.sqlite in the folder.
    host
        Address to listen on; 0.0.0.0 accepts connections from other machines.
    port
        Port (default 8420; if taken, any free port).
    name
        Host name by which raters reach this server, such as that of a proxy (repeatable).
    proxy
        Address or network of a proxy in front of this server, such as 127.0.0.1 (repeatable). Only these are
        trusted to set X-Forwarded-For and X-Forwarded-Proto; without this option, all raters seem to come
        from the proxy.
    limit
        Maximum number of pages per rater. Default: all open pages.
    hold_minutes
        Minutes a page stays reserved for a rater who does not answer.
    new_raters
        Maximum number of new raters per minute from one network address; others are asked to try again
        later. A whole class often shares one address. 0 for no limit.
    contact
        Contact for raters' questions. This and the next two are for studies created without them; all three
        are required for raters on other machines.
    purpose
        Purpose for which answers are collected.
    retention
        Where and for how long answers are kept.
    panel
        Panel that raters come from, each worker once: prolific (PROLIFIC_PID, STUDY_ID and SESSION_ID in the
        address) or mturk, Mechanical Turk (workerId, hitId and assignmentId).
    completion_code
        Code shown to raters who have finished.
    completion_url
        Address to which they are then sent (https). Default with --panel prolific: Prolific's address for the
        code.
    screen_out
        Number of failed attention checks after which a rater gets no more pages; 0 for never.
    screen_out_code
        Code shown to these raters.
    screen_out_url
        Address to which they are then sent, like --completion-url.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit {limit}: expected at least 1")
    if not 0 < hold_minutes < 10_000:
        raise ConfigError(f"--hold-minutes {hold_minutes:g}: expected more than 0, and less than a week")
    if new_raters < 0:
        raise ConfigError(f"--new-raters {new_raters}: expected 0 or more")
    for one in proxy:
        try:
            ip_network(one)
        except ValueError:
            raise ConfigError(
                f"--proxy {one!r}: expected an address such as 127.0.0.1 or 10.0.0.0/8"
            ) from None
    from limner.research.study.app import serve_study
    from limner.research.study.recruitment import Recruitment

    if screen_out < 0:
        raise ConfigError(f"--screen-out {screen_out}: expected 0 or more")
    values = {
        "panel": panel or "",
        "done": {"code": completion_code, "url": completion_url},
        "screen_out": screen_out or None,
        "screened": {"code": screen_out_code, "url": screen_out_url},
    }
    serve_study(
        study,
        votes=votes,
        host=host,
        port=port,
        names=name,
        proxies=proxy,
        limit=limit,
        hold_s=60 * hold_minutes,
        notice=_notice(contact, purpose, retention),
        recruitment=build(Recruitment, values, "study serve"),
        new_raters=new_raters,
        note=say,
        ready=lambda address: emit(f"study open at {address}", flush=True),
    )


def _notice(contact: str, purpose: str, retention: str) -> Notice | None:
    """The notice for raters, or None if no part of it is given."""
    parts = {"contact": contact, "purpose": purpose, "retention": retention}
    missing = [f"--{name}" for name, words in parts.items() if not words.strip()]
    if len(missing) == len(parts):
        return None
    if missing:
        raise ConfigError(
            f"study: {' and '.join(missing)} missing; give all three of the notice for raters, or none"
        )
    return Notice(**parts)


Paths = Annotated[tuple[Path, ...], PLAIN]

study = App(
    name="study",
    group_parameters=Group("Options", sort_key=0),
    help=(
        "Ask people which pictures fit: create a study, serve it, see its progress, report.\n\n"
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
    refined: Flag = False,
    size: int = 100,
    seed: int = 0,
    raters: int = 3,
    checks: float = 0.1,
    title: str = "Texts and pictures",
    question: str = "",
    consent: Path | None = None,
    contact: str = "",
    purpose: str = "",
    retention: str = "",
    hypothesis: Many = (),
    json: Flag = False,
) -> None:
    """Sample items, copy their pictures, and register the study before the first vote.

    Items are a simple random sample by --seed, independent of the systems' results. The folder contains the
    registration with hashes of all files, what raters see, and the key; later changes are detected.

    Example: limner study create preference --tested runs/cmcm --control runs/cmca --relation Story

    Example: limner study create steps --protocol tick-all --tested vrss.json --control vse.json

    Example: limner study create own --items items.jsonl --names "ours,theirs"

    Parameters
    ----------
    to
        Folder to create.
    protocol
        pairwise: which of two pictures fits a text better. tick-all: for every step of a story, which of
        three pictures fit: the true one, that of a model with context, and that of one without.
    tested
        The tested system (tick-all: the model with context): the folder of a measured run, or a storyboard
        written by 'limner illustrate -o board.json' (repeatable, one per text).
    control
        The system it is compared with (tick-all: the model without context): a run of the same data, or
        storyboards of the same texts in the same order.
    truth
        Tick-all from storyboards: storyboards with the true pictures. Default: the pictures in the texts
        themselves.
    items
        Instead of runs and storyboards: JSON lines with the pictures of any systems, see docs/studies.md.
    relation
        Pairwise from runs: sample only texts with this relation; NAME=RUN uses another tested run for it
        (repeatable). Default: all texts.
    names
        Names of the systems in the report, separated by commas: tested, control; in tick-all the true picture
        first.
    part
        Part of the data set on which the runs were measured.
    decoding
        From runs measured on stories: rank every step by itself (steps), or use no picture twice in a story
        (distinct).
    refined
        From runs with refinement: show the top pictures after refinement by relations.
    size
        Number of items (tick-all: stories) sampled per relation; 0 uses all.
    seed
        Seed of the sample.
    raters
        Votes wanted per item.
    checks
        Attention checks per item (tick-all: per story).
    title
        Title shown to raters.
    question
        Question shown to raters. Default: that of the protocol.
    consent
        Text file with the consent statement. Default: a short one.
    contact
        Contact for raters' questions, such as a name and an e-mail address. This and the next two are shown
        before raters give consent; they are required for raters on other machines.
    purpose
        Purpose for which answers are collected.
    retention
        Where and for how long answers are kept.
    hypothesis
        Hypothesis to register (repeatable). Default: the one of the published study.
    json
        Print the registration as JSON.
    """
    from limner.research.study.create import CONSENT, QUESTIONS, StudySettings, create_study
    from limner.research.study.report import registration_lines
    from limner.research.study.sources import material_of

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
        "notice": _notice(contact, purpose, retention),
        "hypotheses": hypothesis,
        "size": size or None,
        "seed": seed,
        "raters": raters,
        "checks": checks,
    }
    settings = build(StudySettings, values, "study create")
    systems = (tested, control, truth, items)
    material = material_of(
        protocol, *systems, relations=relation, names=chosen, part=part, decoding=decoding, refined=refined
    )
    made = create_study(to, material, settings)
    for line in material.notes:
        say(line)
    emit_report(made, [f"{to}: {made.title}", *registration_lines(made)], as_json=json)


@study.command
def status(folder: Path, *, votes: str | None = None, json: Flag = False) -> None:
    """Show how many votes there are and how many are missing, without showing preferences.

    Example: limner study status preference

    Parameters
    ----------
    folder
        Folder of the study.
    votes
        Storage of the votes, as given to 'limner study serve': a postgresql:// URL or an SQLite file; or a
        .jsonl file of exported votes. Default: votes.sqlite in the folder.
    json
        Print JSON.
    """
    from limner.research.study.analysis import progress_of

    files, stored = _opened(folder, votes)
    found = progress_of(files, stored.votes)
    emit_report(found, found.lines(), as_json=json)
    if not json:
        say(f"{folder}: registration {files.study.sha256[:12]} is unaltered")


@study.command
def export(
    folder: Path,
    *,
    votes: str | None = None,
    format: Literal["jsonl", "csv"] = "jsonl",  # noqa: A002  (the option's name)
    worker_ids: Flag = False,
    to: Path | None = None,
    overwrite: Flag = False,
) -> None:
    """Write all votes as JSON lines, for 'limner study report --votes FILE', or as a table.

    The table has one row per vote: rater, page, item, stratum, whether it is an attention check and was
    passed, answer, system, time, and whether the rater withdrew. A hash stands for a panel's worker id.

    Example: limner study export preference --to votes.jsonl

    Example: limner study export preference --format csv --to votes.csv

    Parameters
    ----------
    folder
        Folder of the study.
    votes
        Storage of the votes, see 'limner study status'.
    format
        jsonl (JSON lines) or csv (comma-separated values).
    worker_ids
        Write the panel's worker, study and session ids, which are needed to pay workers; csv only.
    to
        File to write instead of printing.
    overwrite
        Replace an existing file.
    """
    if worker_ids and format != "csv":
        raise ConfigError("--worker-ids: JSON lines never contain worker ids; add --format csv")
    if to is not None and to.exists() and not overwrite:
        raise DataError(f"{to}: already there; pass --overwrite to replace it")
    files, stored = _opened(folder, votes)
    if format == "jsonl":
        text = vote_lines(stored.votes)
    else:
        from limner.research.study.report import tidy_csv

        check_votes(stored.votes, files.items, files.study.protocol)
        text = tidy_csv(files, stored.votes, stored.panelists, worker_ids=worker_ids)
    print_or_write(text.rstrip("\n"), to, counted(len(stored.votes), "vote"), private=True)


@study.command
def withdraw(folder: Path, *, rater: str, votes: str | None = None) -> None:
    """Delete all answers of a rater, as raters can do themselves; the items are open to other raters again.

    Reports leave out withdrawn votes and state their number. The rater's panel id is deleted as well.

    Example: limner study withdraw preference --rater 9f3c61d07a2b

    Parameters
    ----------
    folder
        Folder of the study.
    rater
        Number shown to the rater on every page, the id in exported votes, or the worker id of a panel.
    votes
        Storage of the votes, see 'limner study serve'.
    """
    from limner.research.study.votes import stored_votes

    with stored_votes(folder, votes) as base:
        found = base.find(rater)
        if base.withdrew(found):
            emit(f"{found[:12]} has already withdrawn; nothing to delete")
            return
        count = base.withdraw(found, "owner")
    emit(f"{found[:12]} withdrawn: {count:,} vote{'' if count == 1 else 's'} deleted")


@study.command
def report(
    folder: Path,
    *,
    votes: str | None = None,
    format: Literal["md", "latex", "html", "json"] = "md",  # noqa: A002  (the option's name)
    published: Flag = False,
    resamples: int = 10_000,
    to: Path | None = None,
) -> None:
    """Run the registered analysis and print its tables.

    Per relation: majorities, exact sign test, t-test with effect size, power and agreement, with all raters
    and without those who failed an attention check. Withdrawn votes are left out and their number is stated.
    A report made before all votes are in is marked as interim.

    Example: limner study report preference --format html --to report.html

    Parameters
    ----------
    folder
        Folder of the study.
    votes
        Storage of the votes, see 'limner study status'.
    format
        md, latex (tables only), html (one page) or json (every figure).
    published
        Also show the published figures.
    resamples
        Bootstrap resamples for every interval.
    to
        File to write instead of printing.
    """
    from limner.research.study.analysis import analyse
    from limner.research.study.report import report_text

    files, stored = _opened(folder, votes)
    found = analyse(files, stored.votes, crowds=stored.crowds, resamples=resamples)
    text = report_text(files, found, format, published=published)
    print_or_write(text, to, f"{found.votes:,} of {counted(found.due, 'vote')}")


@study.command
def galleries(folder: Path, *, to: Path, votes: str | None = None, count: int = 4) -> None:
    """Write a page of items for which raters prefer one system, the other, or neither, with their pictures.

    Items are taken at even intervals from each group, not picked by hand. The page reveals which system found
    each picture, so show it only after the study has ended.

    Example: limner study galleries steps --to galleries.html

    Parameters
    ----------
    folder
        Folder of the study.
    to
        File to write, .html.
    votes
        Storage of the votes, see 'limner study status'.
    count
        Items per group.
    """
    from limner.research.study.report import write_preferred

    files, stored = _opened(folder, votes)
    write_preferred(folder, files, stored.votes, to, count)
    say(f"{to}: {files.study.title}")


def _opened(folder: Path, votes: str | None) -> "tuple[StudyFiles, StoredVotes]":
    """A verified study and its votes."""
    from limner.research.study.votes import read_stored

    return read_study(folder), read_stored(folder, votes)
