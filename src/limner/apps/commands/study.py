"""``limner study``: human studies, from the draw of the items to the tables of the report.

It parses options and prints; `limner.apps.study` makes and serves studies, `limner.evaluation` analyses them.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from limner.apps.commands.study_preferences import preferences
from limner.apps.commands.study_serving import serve
from limner.apps.terminal import emit, emit_json, say
from limner.errors import ConfigError, DataError

if TYPE_CHECKING:
    from limner.apps.study.material import Material
    from limner.data.studies import Protocol, StudyFiles, Vote
    from limner.evaluation.sequence_results import Decoding

Many = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
Paths = Annotated[tuple[Path, ...], Parameter(negative="", show_default=False)]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]

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
    from limner.apps.study.creation import create_study
    from limner.apps.study.registration import CONSENT, QUESTIONS, StudySettings
    from limner.apps.study.report_text import registration_lines
    from limner.config import build

    chosen = tuple(name.strip() for name in names.split(",")) if names else ()
    letters = 2 if protocol == "pairwise" else 3
    if len(chosen) not in (0, letters) or not all(chosen):
        raise ConfigError(f"--names {names!r}: expected {letters} names separated by commas")
    values = {
        "protocol": protocol,
        "title": title,
        "question": question or QUESTIONS[protocol],
        "consent": CONSENT if consent is None else _words(consent),
        "hypotheses": hypothesis,
        "size": size or None,
        "seed": seed,
        "raters": raters,
        "checks": checks,
    }
    settings = build(StudySettings, values, "study create")
    material = _material(
        protocol,
        tested,
        control,
        truth,
        items,
        relations=relation,
        names=chosen,
        part=part,
        decoding=decoding,
    )
    made = create_study(to, material, settings)
    for line in material.notes:
        say(line)
    if json:
        emit_json(made)
        return
    emit(f"{to}: {made.title}")
    for line in registration_lines(made):
        emit(line)


@study.command
def status(folder: Path, *, votes: str | None = None, json: Flag = False) -> None:
    """Tell how many votes there are and how many are due, and nothing about what raters prefer.

    Example: limner study status preference

    Parameters
    ----------
    folder
        Of the study.
    votes
        Where votes are kept, as 'limner study serve' was told: a postgresql:// URL or an SQLite file, or a
        .jsonl file of exported votes; votes.sqlite in the folder unless given.
    json
        Print JSON.
    """
    from limner.apps.study.progress import progress_of

    files, cast = _opened(folder, votes)
    found = progress_of(files, cast)
    if json:
        emit_json(found)
        return
    for line in found.lines():
        emit(line)
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
    from limner.data.study_files import vote_lines

    _, cast = _opened(folder, votes)
    text = vote_lines(cast)
    if to is None:
        emit(text.rstrip("\n"))
        return
    if to.exists() and not overwrite:
        raise DataError(f"{to}: already there; pass --overwrite to replace it")
    to.write_text(text, encoding="utf-8", newline="\n")
    say(f"{to}: {len(cast):,} votes")


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
    from limner.apps.study.report_text import report_text
    from limner.evaluation.study_analysis import analyse

    files, cast = _opened(folder, votes)
    text = report_text(files, analyse(files, cast, resamples=resamples), format)
    if to is None:
        emit(text)
    else:
        to.write_text(text + "\n", encoding="utf-8")
        say(f"{to}: {len(cast):,} votes of {len(files.items):,} items")


def _opened(folder: Path, votes: str | None) -> "tuple[StudyFiles, list[Vote]]":
    """A verified study and its votes."""
    from limner.data.study_files import read_study, read_votes

    files = read_study(folder)
    if votes is not None and votes.endswith(".jsonl"):
        return files, read_votes(votes)
    from limner.apps.study.database import read_stored

    return files, read_stored(folder, votes)


def _words(path: Path) -> str:
    """A text file."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error


def _material(
    protocol: "Protocol",
    tested: tuple[Path, ...],
    control: tuple[Path, ...],
    truth: tuple[Path, ...],
    items: Path | None,
    *,
    relations: tuple[str, ...],
    names: tuple[str, ...],
    part: Literal["val", "test"],
    decoding: "Decoding",
) -> "Material":
    """What the options name: a file of items, storyboards, or runs."""
    if items is not None:
        from limner.apps.study.from_items import items_material

        if tested or control or truth or relations:
            raise ConfigError("study: --items names all pictures itself; leave the other sources out")
        return items_material(protocol, items, names)
    if not control or not (tested or relations):
        raise ConfigError("study: name --tested and --control (runs or storyboards), or --items FILE")
    if control[0].suffix == ".json":
        from limner.apps.study.from_boards import boards_material

        if relations:
            raise ConfigError("study: storyboards have no relations to draw by; leave --relation out")
        return boards_material(protocol, tested, control, truth, names)
    if len(control) > 1 or len(tested) > 1 or truth:
        raise ConfigError(
            "study: one tested run and one control; --relation NAME=RUN names a tested run per relation,"
            " and runs know their true pictures"
        )
    from limner.apps.study.from_runs import relations_material, sequences_material

    if protocol == "tick-all":
        if relations or not tested:
            raise ConfigError("study: tick-all takes whole stories of --tested and --control, no --relation")
        return sequences_material(tested[0], control[0], part, decoding, names)
    return relations_material(_by_relation(relations, tested), control[0], part, names)


def _by_relation(relations: tuple[str, ...], tested: tuple[Path, ...]) -> dict[str, Path]:
    """Relation → tested run."""
    found: dict[str, Path] = {}
    for words in relations or ("all",):
        name, equals, run = words.partition("=")
        if not equals and not tested:
            raise ConfigError(f"study: --relation {words!r} names no run; add =RUN, or give --tested")
        if name in found:
            raise ConfigError(f"study: --relation {name!r} comes twice; name it once")
        found[name] = Path(run) if equals else tested[0]
    return found
