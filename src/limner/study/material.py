"""What a study can be made from: names that can be drawn, and what stands behind a name once it is drawn.

The two are apart so that a sample is drawn from names alone, before anybody looks at what a system found.
"""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image
from pydantic import Field, model_validator

from limner.config import build
from limner.datasets.pairs import Pair
from limner.errors import ConfigError, DataError, unknown
from limner.evaluation.results import About, Decoding, Result, SequenceResult
from limner.export.storyboard_json import load
from limner.files import json_rows
from limner.records import Record, Storyboard
from limner.storyboard.illustrate import step_texts
from limner.study.records import Protocol
from limner.training.corpus import ArrayRows, open_corpus
from limner.training.settings import DataConfig

PictureSource = Path | Image.Image
"""A file, or a picture that lies in none because it was drawn."""
Pictures = Mapping[str, PictureSource]
"""Letter of a system → picture."""
Boards = Mapping[str, tuple[Path, Storyboard]]
"""Role (tested, control, truth) → file and storyboard of one story."""
ALL = "all"


@dataclass(frozen=True)
class Proposal:
    """One text and what every system shows for it.

    Attributes:
        source: its id in the data.
        text: the words.
        pictures: letter → picture.
        context: all texts of its story in order; empty without one.
        position: place in the story, from 0.
        cluster: what it belongs to, such as a story; "" for nothing.
    """

    source: str
    text: str
    pictures: Pictures
    context: tuple[str, ...] = ()
    position: int = 0
    cluster: str = ""


@dataclass(frozen=True)
class Material:
    """A population and how to look up its members.

    Attributes:
        unit: what a name stands for: one item, or a sequence of items that are shown together.
        strata: name → names of all that can be drawn.
        systems: stratum → letter → name of the system.
        look_up: (stratum, name) → one proposal of an item, those of a sequence in their order.
        notes: lines for the person.
    """

    unit: Literal["item", "sequence"]
    strata: Mapping[str, Sequence[str]]
    systems: Mapping[str, Mapping[str, str]]
    look_up: Callable[[str, str], Sequence[Proposal]]
    notes: tuple[str, ...] = field(default=())


def _lettered(tested: PictureSource, control: PictureSource, truth: PictureSource | None) -> Pictures:
    """Pictures by the letters of their systems: of pairs, or of tick-all with a true one."""
    if truth is None:
        return {"A": tested, "B": control}
    return {"A": truth, "B": tested, "C": control}


def boards_material(
    protocol: Protocol,
    tested: Sequence[Path],
    control: Sequence[Path],
    truth: Sequence[Path] = (),
    names: Sequence[str] = (),
) -> Material:
    """Steps of stories (pairwise) or whole stories (tick-all).

    Args:
        protocol: pairwise or tick-all.
        tested: .json storyboards of the tested system, or of the model with context.
        control: those of the other system, of the same stories in the same order.
        truth: tick-all: those with the true pictures; the ones that the texts themselves show unless given.
        names: of the systems by their letters; the files' names unless given.
    Raises:
        ConfigError: numbers of files do not fit.
        MissingError, DataError: a file is no storyboard, stories differ, or a step has no picture.
    """
    if not tested or len(tested) != len(control) or len(truth) not in (0, len(tested)):
        raise ConfigError(
            f"study: {len(tested)} tested, {len(control)} control, {len(truth)} true storyboards;"
            " name as many of each, in the same order"
        )
    pairs = protocol == "pairwise"
    stories: dict[str, Boards] = {}
    for paths in zip(tested, control, truth or tested, strict=True):
        roles = ("tested", "control", "truth") if truth else ("tested", "control")
        own: Boards = {role: (path, load(path)) for role, path in zip(roles, paths, strict=False)}
        first = own["tested"][1].story
        for path, board in own.values():
            if step_texts(board.story) != step_texts(first):
                raise DataError(
                    f"study: {path} and {paths[0]} have different steps; illustrate the same text twice"
                )
        if first.id in stories:
            raise DataError(f"study: {paths[0]}: a second board of {first.id!r}; name it once")
        _check_steps(own, with_truth=not pairs)
        stories[first.id] = own

    def look_up(_stratum: str, name: str) -> Sequence[Proposal]:
        story, place = places[name]
        steps = [place] if pairs else range(len(stories[story]["tested"][1].steps))
        return [_proposal_of(story, stories[story], step, with_truth=not pairs) for step in steps]

    places = {story: (story, 0) for story in stories}
    if pairs:
        places = {
            f"{story}#{step + 1}": (story, step)
            for story, own in stories.items()
            for step in range(len(own["tested"][1].steps))
        }
    stems = [tested[0].stem, control[0].stem]
    systems = list(names) or (stems if pairs else ["true picture", *stems])
    return Material(
        unit="item" if pairs else "sequence",
        strata={ALL: list(places)},
        systems={ALL: dict(zip("AB" if pairs else "ABC", systems, strict=True))},
        look_up=look_up,
    )


def _check_steps(own: Boards, *, with_truth: bool) -> None:
    """Refuse steps without a picture of the system before anything is drawn.

    Leaving such steps out would choose items by what was found for them.
    """
    for role, (path, board) in own.items():
        for step in board.steps:
            where = f"study: {path}: step {step.position + 1}"
            if step.chosen is None:
                raise DataError(f"{where} is blank, and no step may be left out; use --min-score 0")
            if role != "truth" and step.origin in ("given", "pinned"):
                raise DataError(
                    f"{where} has a {step.origin} picture, which no system chose;"
                    " illustrate with --ignore-given and without pins"
                )
    path, board = own["tested"]
    for place, written in enumerate(board.story.steps):
        if with_truth and "truth" not in own and not any(one.path for one in written.pictures):
            raise DataError(
                f"study: {path}: the text shows no picture of its own at step {place + 1};"
                " name storyboards with the true pictures by --truth"
            )


def _proposal_of(story: str, own: Boards, place: int, *, with_truth: bool) -> Proposal:
    written = own["tested"][1].story
    texts = tuple(step_texts(written))
    chosen = {role: _chosen(path, board, place) for role, (path, board) in own.items()}
    truth = chosen.get("truth")
    if with_truth and truth is None:
        truth = next(Path(one.path) for one in written.steps[place].pictures if one.path)
    return Proposal(
        source=f"{story}#{place + 1}",
        text=texts[place],
        pictures=_lettered(chosen["tested"], chosen["control"], truth if with_truth else None),
        context=texts if len(texts) > 1 else (),
        position=place,
        cluster=story,
    )


def _chosen(path: Path, board: Storyboard, place: int) -> Path:
    """The file of the picture chosen for a step."""
    chosen = board.steps[place].chosen
    assert chosen is not None  # noqa: S101  (blanks were refused before the draw)
    for name in chosen.picture.paths:
        file = Path(name)
        if file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == chosen.picture.id:
            return file
    raise DataError(
        f"study: {path}: step {place + 1}: {os.fspath(chosen.picture.path)} is not there any more as it was"
        " chosen; restore it, or illustrate again"
    )


class ItemLine(Record):
    """One line of an items file.

    Attributes:
        id: of the text, unique in the file.
        text: the words.
        tested: picture of the tested system, or of the model with context; relative to the file's folder.
        control: picture of the control, or of the model without context.
        truth: tick-all: the true picture.
        sequence: tick-all: lines of one sequence are shown together in the order of `position`.
        position: place in the story, from 0.
        context: pairwise: all texts of the story, `text` at `position`.
        stratum: what is drawn and reported apart, such as a relation.
        cluster: items of one cluster are not independent; those of a sequence are one.
    """

    id: str = Field(min_length=1)
    text: str = Field(min_length=1)
    tested: str = Field(min_length=1)
    control: str = Field(min_length=1)
    truth: str = ""
    sequence: str = ""
    position: int = Field(default=0, ge=0)
    context: tuple[str, ...] = ()
    stratum: str = ALL
    cluster: str = ""

    @model_validator(mode="after")
    def _whole(self) -> "ItemLine":
        if bool(self.truth) != bool(self.sequence):
            raise ValueError("a line of tick-all has both a truth and a sequence, a pair neither")
        if self.context and not (
            self.position < len(self.context) and self.context[self.position] == self.text
        ):
            raise ValueError("the context holds the text at its position")
        return self

    def proposal(self, folder: Path) -> Proposal:
        """What the line says, with its pictures in a folder."""
        truth = folder / self.truth if self.truth else None
        pictures = _lettered(folder / self.tested, folder / self.control, truth)
        cluster = self.cluster or self.sequence
        return Proposal(self.id, self.text, pictures, self.context, self.position, cluster)


def items_material(protocol: Protocol, file: Path, names: Sequence[str] = ()) -> Material:
    """Lines (pairwise) or sequences (tick-all) of a file.

    Args:
        protocol: pairwise or tick-all.
        file: of JSON lines, see `ItemLine`.
        names: of the systems by their letters.
    Raises:
        ConfigError: names are missing.
        MissingError, DataError: the file is not there or a line is wrong.
    """
    pairs = protocol == "pairwise"
    letters = "AB" if pairs else "ABC"
    if len(names) != len(letters):
        raise ConfigError(
            f"study: --items needs --names with {len(letters)} names"
            f" ({'tested,control' if pairs else 'true picture,with context,without context'})"
        )
    lines: dict[str, ItemLine] = {}
    units: dict[str, dict[str, list[ItemLine]]] = {}
    form = {"holds": "a file of JSON lines", "one": "item", "see": "docs/studies.md"}
    for where, line in json_rows(file, ItemLine, **form):
        if line.id in lines:
            raise DataError(f"{where}: id {line.id!r} comes twice; give every item its own")
        if bool(line.sequence) == pairs:
            raise DataError(
                f"{where}: {line.id!r} is no item of the {protocol} protocol; see docs/studies.md"
            )
        lines[line.id] = line
        units.setdefault(line.stratum, {}).setdefault(line.id if pairs else line.sequence, []).append(line)
    owners = [name for own in units.values() for name in own]
    if len(set(owners)) < len(owners):
        raise DataError(f"{file}: a sequence has steps of two strata; give all its lines one")

    def look_up(stratum: str, name: str) -> Sequence[Proposal]:
        own = sorted(units[stratum][name], key=lambda line: line.position)
        return [line.proposal(file.parent) for line in own]

    return Material(
        unit="item" if pairs else "sequence",
        strata={stratum: list(units[stratum]) for stratum in sorted(units)},
        systems={stratum: dict(zip(letters, names, strict=True)) for stratum in units},
        look_up=look_up,
    )


Part = Literal["val", "test"]


def relations_material(
    tested: Mapping[str, Path], control: Path, part: Part = "test", names: Sequence[str] = ()
) -> Material:
    """Texts with a relation, and the first picture of either run; every repeated pair counts once.

    Args:
        tested: relation → run folder of the tested system; ``all`` takes every text.
        control: run folder of the other system.
        part: of the data set.
        names: of the systems, if not as measured.
    Raises:
        ConfigError: no such relation.
        DataError: a run was not measured, retrieves nothing, or saw other texts than the control.
    Source: docs/methods/evaluation.md §9.1: a simple random sample per relation among positives.
    """
    runs = {run: Result.read_part(run, part) for run in dict.fromkeys((*tested.values(), control))}
    other = runs[control]
    for run, result in runs.items():
        _check_same(run, result, control, other)
        if not result.top:
            raise DataError(f"study: {run} retrieves nothing; name a run that ranks pictures")
    for relation in tested:
        if relation != ALL and relation not in other.labels:
            raise ConfigError(f"study: {unknown('relation', relation, other.labels)}")
    rows = {name: row for row, name in enumerate(other.ids)}
    shown = DataPictures(other.about)

    def look_up(stratum: str, name: str) -> Sequence[Proposal]:
        row = rows[name]
        pair = shown.pair(name)
        context, position = shown.context(pair)
        first, second = (shown.picture(one.top[row][0]) for one in (runs[tested[stratum]], other))
        pictures = _lettered(first, second, None)
        return [Proposal(name, pair.text, pictures, context, position, cluster=other.groups[row])]

    return Material(
        unit="item",
        strata={relation: positives(other, relation) for relation in tested},
        systems={
            relation: dict(zip("AB", names or (runs[run].about.system, other.about.system), strict=True))
            for relation, run in tested.items()
        },
        look_up=look_up,
        notes=tuple(
            f"{run}: the first picture of the full gallery before refinement is shown"
            for run, result in runs.items()
            if result.about.refinement
        ),
    )


def positives(result: Result, relation: str) -> list[str]:
    """Ids of the texts with a relation, the first row of every repeated pair.

    Args:
        result: of any run on them.
        relation: which holds where it holds in half of a pair's rows or more; ``all`` takes every pair.
    """
    pairs = np.array(result.pairs)
    first = np.unique(pairs, return_index=True)[1]
    if relation != ALL:
        stated = np.bincount(pairs, np.array(result.labels[relation]))
        first = first[2 * stated[pairs[first]] >= np.bincount(pairs)[pairs[first]]]
    return [result.ids[row] for row in first.tolist()]


def sequences_material(
    tested: Path,
    control: Path,
    part: Part = "test",
    decoding: Decoding = "steps",
    names: Sequence[str] = (),
) -> Material:
    """Whole stories, with the true picture of every step and the first one of either run.

    Args:
        tested: run folder of the model with context.
        control: run folder of the one without.
        part: of the data set.
        decoding: way of choosing pictures that was measured.
        names: of the true pictures and the two models, if not as measured.
    Raises:
        DataError: a run was not measured on stories, not in this way, or on other steps than the control.
    Source: VRSS 2020, Section 5.2; docs/methods/evaluation.md §9.3.
    """
    runs = {run: SequenceResult.read_part(run, part) for run in (tested, control)}
    own, other = runs[tested], runs[control]
    _check_same(tested, own, control, other)
    for run, result in runs.items():
        if decoding not in result.found:
            raise DataError(f"study: {run}: {unknown('decoding', decoding, result.found)}")
    steps: dict[str, list[int]] = {}
    for row, story in enumerate(own.stories):
        steps.setdefault(story, []).append(row)
    shown = DataPictures(own.about)

    def look_up(_stratum: str, name: str) -> Sequence[Proposal]:
        found = []
        for position, row in enumerate(steps[name]):
            first, second = (shown.picture(one.found[decoding].top[row][0]) for one in (own, other))
            pair = shown.pair(own.ids[row])
            pictures = _lettered(first, second, shown.picture(pair.id))
            found.append(Proposal(pair.id, pair.text, pictures, position=position, cluster=name))
        return found

    systems = names or ("true picture", own.about.system, other.about.system)
    return Material(
        unit="sequence",
        strata={ALL: list(steps)},
        systems={ALL: dict(zip("ABC", systems, strict=True))},
        look_up=look_up,
    )


class DataPictures:
    """Texts and pictures of the data set that a result is of, by the ids of its pairs."""

    def __init__(self, about: About) -> None:
        """Open the data set, from the settings stored with the result.

        Raises:
            DataError: the settings are not there.
            MissingError: the data are not there any more.
        """
        values = about.config.get("data")
        if not isinstance(values, dict):
            raise DataError(
                f"study: the result of {about.system} does not say its data set; measure the run again"
            )
        data, rows = open_corpus(build(DataConfig, values, f"result of {about.system}"), files=True)
        self._drawn = rows if isinstance(rows, ArrayRows) else None
        self._pairs = {pair.id: pair for pair in data.pairs}
        self._stories: dict[str, dict[int, str]] = {}
        for pair in data.pairs:
            if pair.seq and pair.pos is not None:
                self._stories.setdefault(pair.seq, {}).setdefault(pair.pos, pair.text)

    def pair(self, name: str) -> Pair:
        """A pair.

        Raises:
            DataError: the data set has no such pair any more.
        """
        if name not in self._pairs:
            raise DataError(f"study: the data set has no pair {name!r} any more; measure the runs again")
        return self._pairs[name]

    def picture(self, name: str) -> PictureSource:
        """The picture of a pair."""
        pair = self.pair(name)
        if self._drawn is None:
            return Path(pair.image)
        values = self._drawn.take(self._drawn.places([pair.image_id]))[0]
        return Image.fromarray(np.asarray(values, dtype=np.uint8))

    def context(self, pair: Pair) -> tuple[tuple[str, ...], int]:
        """All texts of a pair's story in order, and its place among them; nothing where it is alone."""
        texts = self._stories.get(pair.seq, {})
        if pair.pos is None or len(texts) < 2 or texts.get(pair.pos) != pair.text:
            return (), 0
        places = sorted(texts)
        return tuple(texts[place] for place in places), places.index(pair.pos)


def _check_same(run: Path, found: Result | SequenceResult, other: Path, due: Result | SequenceResult) -> None:
    one, two = found.about, due.about
    if (one.data, one.split, found.ids) != (two.data, two.split, due.ids):
        raise DataError(f"study: {run} and {other} were measured on different texts; measure both alike")


def material_of(
    protocol: Protocol,
    tested: tuple[Path, ...],
    control: tuple[Path, ...],
    truth: tuple[Path, ...],
    items: Path | None,
    *,
    relations: tuple[str, ...],
    names: tuple[str, ...],
    part: Part,
    decoding: Decoding,
) -> Material:
    """What the options of ``limner study create`` name: a file of items, storyboards, or runs.

    Args:
        protocol: pairwise or tick-all.
        tested: runs or storyboards of the tested system.
        control: of the one that it is compared with.
        truth: storyboards with the true pictures.
        items: file of items, in place of all others.
        relations: to draw by, each a name or ``NAME=RUN``.
        names: of the systems by their letters.
        part: of the data set of measured runs.
        decoding: of measured stories.
    Raises:
        ConfigError: options that do not go together.
        LimnerError: as the function that is called.
    """
    if items is not None:
        if tested or control or truth or relations:
            raise ConfigError("study: --items names all pictures itself; leave the other sources out")
        return items_material(protocol, items, names)
    if not control or not (tested or relations):
        raise ConfigError("study: name --tested and --control (runs or storyboards), or --items FILE")
    if control[0].suffix == ".json":
        if relations:
            raise ConfigError("study: storyboards have no relations to draw by; leave --relation out")
        return boards_material(protocol, tested, control, truth, names)
    if len(control) > 1 or len(tested) > 1 or truth:
        raise ConfigError(
            "study: one tested run and one control; --relation NAME=RUN names a tested run per relation,"
            " and runs know their true pictures"
        )
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
