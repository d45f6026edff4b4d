"""Sources of a study: an items file, storyboards, or measured runs.

The sample is drawn by id; a system's pictures are looked up only for the ids that were drawn.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image
from pydantic import Field, model_validator

from limner.config import Record, build
from limner.errors import ConfigError, DataError, unknown
from limner.export.storyboard_json import load
from limner.files import json_rows, sha256_of
from limner.match.illustrate import step_texts
from limner.records import Board
from limner.research.datasets.pairs import Pair
from limner.research.evaluation.results import About, Decoding, Result, SequenceResult
from limner.research.paper.run_pages import Pictures as RunPictures
from limner.research.paper.run_pages import refined_top
from limner.research.study.records import Protocol
from limner.research.training.corpus import open_corpus
from limner.research.training.settings import DataConfig

PictureSource = Path | Image.Image
"""A file, or an image in memory (a rendered drawing)."""
Pictures = Mapping[str, PictureSource | None]
"""Letter of a system → its picture; None if it shows none."""
ALL = "all"
Part = Literal["val", "test"]


@dataclass(frozen=True)
class Proposal:
    """One text with the pictures of every system.

    Attributes:
        source: id of the text in the source data.
        text: the text.
        pictures: returns letter → picture; called only if the text is drawn.
        context: all texts of its story in order; empty if there is no story.
        position: position in the story, from 0.
        cluster: group of dependent texts, such as a story; "" for none.
    """

    source: str
    text: str
    pictures: Callable[[], Pictures]
    context: tuple[str, ...] = ()
    position: int = 0
    cluster: str = ""


@dataclass(frozen=True)
class Material:
    """The population of a study.

    Attributes:
        strata: stratum → id of a sampling unit → its one text, or the steps of the sequence in order.
        systems: stratum → letter → name of the system.
        notes: messages for the user.
        rules: sentences to register, which define the population and the pictures.
    """

    strata: Mapping[str, Mapping[str, Sequence[Proposal]]]
    systems: Mapping[str, Mapping[str, str]]
    notes: tuple[str, ...] = field(default=())
    rules: tuple[str, ...] = field(default=())


def lettered(
    tested: PictureSource | None, control: PictureSource | None, truth: PictureSource | None
) -> Pictures:
    """Map letters to pictures: A, B for a pair; A (the true picture), B, C for tick-all."""
    if truth is None:
        return {"A": tested, "B": control}
    return {"A": truth, "B": tested, "C": control}


class ItemLine(Record):
    """One line of an items file.

    Attributes:
        id: id of the text, unique in the file.
        text: the text.
        tested: picture of the tested system, or of the model with context; relative to the file's folder.
        control: picture of the control, or of the model without context.
        truth: tick-all: the true picture.
        sequence: tick-all: lines of one sequence are shown together in the order of `position`.
        position: position in the story, from 0.
        context: pairwise: all texts of the story, with `text` at `position`.
        stratum: group sampled and reported separately, such as a relation.
        cluster: group of dependent items; default: the sequence.
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
            raise ValueError("truth and sequence must both be given (tick-all) or both be absent (pairwise)")
        if self.context and not (
            self.position < len(self.context) and self.context[self.position] == self.text
        ):
            raise ValueError("context[position] must equal text")
        return self

    def proposal(self, folder: Path) -> Proposal:
        """The proposal of this line; pictures are relative to `folder`."""
        truth = folder / self.truth if self.truth else None
        pictures = partial(lettered, folder / self.tested, folder / self.control, truth)
        cluster = self.cluster or self.sequence
        return Proposal(self.id, self.text, pictures, self.context, self.position, cluster)


def items_material(protocol: Protocol, file: Path, names: Sequence[str] = ()) -> Material:
    """Population from an items file: its lines (pairwise) or sequences (tick-all).

    Args:
        protocol: pairwise or tick-all.
        file: JSON Lines file, see `ItemLine`.
        names: names of the systems, in the order of their letters.
    Raises:
        ConfigError: names are missing.
        MissingError, DataError: the file does not exist or a line is invalid.
    """
    pairs = protocol == "pairwise"
    letters = "AB" if pairs else "ABC"
    if len(names) != len(letters):
        raise ConfigError(
            f"study: --items needs --names with {len(letters)} names"
            f" ({'tested,control' if pairs else 'true picture,with context,without context'})"
        )
    known: set[str] = set()
    strata: dict[str, dict[str, list[Proposal]]] = {}
    form = {"holds": "a file of JSON lines", "one": "item", "see": "docs/studies.md"}
    for where, line in json_rows(file, ItemLine, **form):
        if line.id in known:
            raise DataError(f"{where}: id {line.id!r} appears twice; give every item its own id")
        if bool(line.sequence) == pairs:
            raise DataError(
                f"{where}: {line.id!r} is not an item of the {protocol} protocol; see docs/studies.md"
            )
        known.add(line.id)
        unit = strata.setdefault(line.stratum, {}).setdefault(line.id if pairs else line.sequence, [])
        unit.append(line.proposal(file.parent))
        unit.sort(key=lambda proposal: proposal.position)
    owners = [name for units in strata.values() for name in units]
    if len(set(owners)) < len(owners):
        raise DataError(f"{file}: a sequence has steps in two strata; give all its lines the same stratum")

    systems = dict(zip(letters, names, strict=True))
    return Material(dict(sorted(strata.items())), dict.fromkeys(strata, systems))


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
    refined: bool = False,
) -> Material:
    """Population from the options of ``limner study create``: items file, storyboards, or runs.

    Args:
        protocol: pairwise or tick-all.
        tested: runs or storyboards of the tested system.
        control: runs or storyboards of the control.
        truth: storyboards with the true pictures.
        items: items file, instead of runs or storyboards.
        relations: relations to sample by, each a name or ``NAME=RUN``.
        names: names of the systems, in the order of their letters.
        part: part of the data set on which runs were measured.
        decoding: decoding of measured stories.
        refined: whether to show the pictures after refinement.
    Raises:
        ConfigError: the options contradict each other.
        LimnerError: see the function for the source.
    """
    runs = items is None and bool(control) and control[0].suffix != ".json"
    if not runs and (refined or decoding != "steps"):
        raise ConfigError("study: --refined and --decoding apply to measured runs only; leave them out")
    if items is not None:
        if tested or control or truth or relations:
            raise ConfigError("study: --items already names all pictures; leave out the other sources")
        return items_material(protocol, items, names)
    if not control or not (tested or relations):
        raise ConfigError("study: name --tested and --control (runs or storyboards), or --items FILE")
    if control[0].suffix == ".json":
        if relations:
            raise ConfigError("study: storyboards have no relations; leave --relation out")
        return boards_material(protocol, tested, control, truth, names)
    if len(control) > 1 or len(tested) > 1 or truth:
        raise ConfigError(
            "study: expected one tested run, one control run and no --truth; --relation NAME=RUN names a"
            " tested"
            " run per relation"
        )
    if protocol == "tick-all":
        if relations or not tested:
            raise ConfigError("study: tick-all needs --tested and --control, and no --relation")
        return sequences_material(tested[0], control[0], part, decoding, names, refined=refined)
    return relations_material(
        _by_relation(relations, tested), control[0], part, names, refined=refined, decoding=decoding
    )


def _by_relation(relations: tuple[str, ...], tested: tuple[Path, ...]) -> dict[str, Path]:
    """Relation → tested run."""
    runs: dict[str, Path] = {}
    for words in relations or ("all",):
        name, equals, run = words.partition("=")
        if not equals and not tested:
            raise ConfigError(f"study: --relation {words!r} names no run; add =RUN, or give --tested")
        if name in runs:
            raise ConfigError(f"study: --relation {name!r} is given twice; give it once")
        runs[name] = Path(run) if equals else tested[0]
    return runs


Boards = Mapping[str, tuple[Path, Board]]
"""Role (tested, control, truth) → file and storyboard, for one story."""


def boards_material(
    protocol: Protocol,
    tested: Sequence[Path],
    control: Sequence[Path],
    truth: Sequence[Path] = (),
    names: Sequence[str] = (),
) -> Material:
    """Population from storyboards: steps of stories (pairwise) or whole stories (tick-all).

    Args:
        protocol: pairwise or tick-all.
        tested: .json storyboards of the tested system, or of the model with context.
        control: storyboards of the other system, of the same stories in the same order.
        truth: tick-all: storyboards with the true pictures; default: the pictures in the texts themselves.
        names: names of the systems, in the order of their letters; default: the files' names.
    Raises:
        ConfigError: the numbers of files differ.
        MissingError, DataError: a file is not a storyboard, stories differ, a step has no true picture, or no
            picture was chosen by a system.
    """
    if not tested or len(tested) != len(control) or len(truth) not in (0, len(tested)):
        raise ConfigError(
            f"study: {len(tested)} tested, {len(control)} control, {len(truth)} true storyboards;"
            " give the same number of each, in the same order"
        )
    pairs = protocol == "pairwise"
    stories: dict[str, list[Proposal]] = {}
    steps, fixed, blanks = 0, 0, 0
    for paths in zip(tested, control, truth or tested, strict=True):
        roles = ("tested", "control", "truth") if truth else ("tested", "control")
        boards: Boards = {role: (path, load(path)) for role, path in zip(roles, paths, strict=False)}
        first = boards["tested"][1].story
        for path, board in boards.values():
            if step_texts(board.story) != step_texts(first):
                raise DataError(
                    f"study: {path} and {paths[0]} have different steps; both must illustrate the same text"
                )
        if first.id in stories:
            raise DataError(f"study: {paths[0]}: a second storyboard of {first.id!r}; name each story once")
        chosen = _chosen_by_systems(boards)
        steps, fixed = steps + len(first.steps), fixed + len(first.steps) - len(chosen)
        blanks += sum(
            board.steps[place].chosen is None for board in _systems(boards) for place in sorted(chosen)
        )
        if not pairs:
            _check_truth(boards, chosen)
        stories[first.id] = [
            step for step in _steps_of(boards, with_truth=not pairs) if step.position in chosen
        ]
    stories = {name: own_steps for name, own_steps in stories.items() if own_steps}
    if not stories:
        raise DataError(
            f"study: {tested[0]}: every picture was pinned or comes from the text itself, so no system chose"
            " any; illustrate with --ignore-given and without pins"
        )
    if pairs:
        stories = {step.source: [step] for steps in stories.values() for step in steps}
    stems = [tested[0].stem, control[0].stem]
    systems = list(names) or (stems if pairs else ["true picture", *stems])
    rules = []
    if fixed:
        rules.append(
            f"{fixed} of {steps} steps are not in the population: in one of the storyboards, the user pinned"
            " or blanked the step or the text gives its picture, so no system chose it."
        )
    if blanks and pairs:
        rules.append("If a system leaves a step blank, raters see that it shows no picture there.")
    elif blanks:
        rules.append("If a system leaves a step blank, there is no picture to tick; it counts as not ticked.")
    lettered = {ALL: dict(zip("AB" if pairs else "ABC", systems, strict=True))}
    return Material({ALL: stories}, lettered, notes=tuple(rules), rules=tuple(rules))


def _systems(own: Boards) -> list[Board]:
    """Storyboards of the two systems."""
    return [board for role, (_, board) in own.items() if role != "truth"]


def _chosen_by_systems(own: Boards) -> frozenset[int]:
    """Steps whose picture or blank the systems chose.

    A blank is a system's choice too: leaving blanks out would select items by the systems' results. Pinned
    pictures, pictures of the text itself and blanks that the user asked for are not.
    """
    fixed = {
        step.position
        for board in _systems(own)
        for step in board.steps
        if step.origin in ("given", "pinned") or step.blank in ("asked for", "missing", "ruled out")
    }
    return frozenset(range(len(own["tested"][1].steps))) - fixed


def _check_truth(own: Boards, places: Collection[int]) -> None:
    """Check that every step to be shown has a true picture."""
    path, board = own.get("truth", own["tested"])
    for place in sorted(places):
        if "truth" in own and board.steps[place].chosen is None:
            raise DataError(
                f"study: {path}: step {place + 1} is blank; expected a true picture at every step"
            )
        if "truth" not in own and not any(picture.path for picture in board.story.steps[place].pictures):
            raise DataError(
                f"study: {path}: the text shows no picture of its own at step {place + 1};"
                " name storyboards with the true pictures by --truth"
            )


def _steps_of(own: Boards, *, with_truth: bool) -> list[Proposal]:
    story = own["tested"][1].story
    texts = tuple(step_texts(story))
    return [
        Proposal(
            source=f"{story.id}#{place + 1}",
            text=text,
            pictures=partial(_shown_at, own, place, with_truth=with_truth),
            context=texts if len(texts) > 1 else (),
            position=place,
            cluster=story.id,
        )
        for place, text in enumerate(texts)
    ]


def _shown_at(own: Boards, place: int, *, with_truth: bool) -> Pictures:
    chosen = {role: _chosen(path, board, place) for role, (path, board) in own.items()}
    truth = chosen.get("truth")
    if with_truth and truth is None:
        path, board = own["tested"]
        written = next(picture for picture in board.story.steps[place].pictures if picture.path)
        truth = _unchanged(path, place, (str(written.path),), written.sha256)
    return lettered(chosen["tested"], chosen["control"], truth if with_truth else None)


def _chosen(path: Path, board: Board, place: int) -> Path | None:
    """The file of the picture chosen for a step; None for a blank."""
    chosen = board.steps[place].chosen
    if chosen is None:
        return None
    return _unchanged(path, place, chosen.picture.paths, chosen.picture.id)


def _unchanged(board: Path, place: int, paths: Sequence[str], sha256: str | None) -> Path:
    """The first of `paths` whose content is still the picture that the storyboard names.

    Storyboards are untrusted, and the files they name are shown to raters.
    """
    for file in map(Path, paths):
        if file.is_file() and sha256_of(file) == sha256:
            return file
    raise DataError(
        f"study: {board}: step {place + 1}: {paths[0]} is missing or has changed since the storyboard was"
        " made; restore it, or illustrate again"
    )


def relations_material(
    tested: Mapping[str, Path],
    control: Path,
    part: Part = "test",
    names: Sequence[str] = (),
    *,
    refined: bool = False,
    decoding: Decoding = "steps",
) -> Material:
    """Population from runs: texts with a relation and each run's top picture; repeated pairs count once.

    Args:
        tested: relation → run folder of the tested system; relation ``all`` means every text.
        control: run folder of the control.
        part: part of the data set.
        names: names of the systems; default: as measured.
        refined: whether to show the pictures after refinement, if a run refines.
        decoding: decoding of stories; ``distinct`` uses no picture twice in a story, and limits the
            population to texts in stories.
    Raises:
        ConfigError: the relation is unknown.
        DataError: a run was not measured, ranks no pictures, or was measured on other texts than the control.
    Source: docs/methods/evaluation.md §9.1: a simple random sample per relation among positives.
    """
    runs = {run: Result.read_part(run, part) for run in dict.fromkeys((*tested.values(), control))}
    other = runs[control]
    for run, result in runs.items():
        _check_same(run, result, control, other)
        if not result.top:
            raise DataError(f"study: {run} does not rank pictures; name a run that does")
    for relation in tested:
        if relation != ALL and relation not in other.labels:
            raise ConfigError(f"study: {unknown('relation', relation, other.labels)}")
    rows = {name: row for row, name in enumerate(other.ids)}
    pictures_of = DataPictures(other.about)
    first = {
        run: _first(run, result, part, refined=refined, decoding=decoding) for run, result in runs.items()
    }

    def proposals(relation: str, run: Path) -> Iterator[tuple[str, list[Proposal]]]:
        for name in positives(other, relation):
            if name not in first[control]:  # not part of a story
                continue
            row, pair = rows[name], pictures_of.pair(name)
            pictures = partial(pictures_of.chosen, first[run][name], first[control][name])
            yield name, [Proposal(name, pair.text, pictures, *pictures_of.context(pair), other.groups[row])]

    return Material(
        strata={relation: dict(proposals(relation, run)) for relation, run in tested.items()},
        systems={
            relation: dict(zip("AB", names or (runs[run].about.system, other.about.system), strict=True))
            for relation, run in tested.items()
        },
        notes=tuple(
            f"{run}: shows the top picture before refinement; add --refined to show the one after it"
            for run, result in runs.items()
            if result.about.refinement and not refined and decoding == "steps"
        ),
        rules=_stage_rules(runs.values(), refined=refined, decoding=decoding),
    )


def _first(run: Path, result: Result, part: Part, *, refined: bool, decoding: Decoding) -> Mapping[str, str]:
    """Id of a text → id of the pair whose picture the run shows for it.

    Raises:
        ConfigError: `refined` together with a decoding, which is not measured.
        DataError: the result has no refined pictures, or was not measured on stories.
    """
    if decoding != "steps":
        if refined:
            raise ConfigError("study: --refined ranks each step on its own; leave --decoding out")
        story = SequenceResult.read_part(run, part)
        return {name: top[0] for name, top in zip(story.ids, _decoded(run, story, decoding), strict=True)}
    tops = refined_top(run, result) if refined else result.top
    return {name: top[0] for name, top in zip(result.ids, tops, strict=True)}


def _decoded(run: Path, story: SequenceResult, decoding: Decoding) -> tuple[tuple[str, ...], ...]:
    if decoding not in story.found:
        raise DataError(f"study: {run}: {unknown('decoding', decoding, story.found)}")
    return story.found[decoding].top


def _stage_rules(
    results: Iterable[Result | SequenceResult], *, refined: bool, decoding: Decoding
) -> tuple[str, ...]:
    """Sentences to register that state which of a run's pictures are shown."""
    rules = [] if decoding == "steps" else ["Pictures are chosen so that none appears twice in a story."]
    for about in {result.about.system: result.about for result in results}.values() if refined else ():
        how = ", ".join(f"{name} {value:g}" for name, value in about.refinement.items())
        rules.append(
            f"Pictures of {about.system} are those after refinement ({how})."
            if how
            else f"{about.system} does not refine; its top pictures are shown."
        )
    return tuple(rules)


def positives(result: Result, relation: str) -> list[str]:
    """Ids of the texts with a relation, one (the first) for each repeated pair.

    Args:
        result: result of any run on these texts.
        relation: relation that at least half of a pair's rows have; ``all`` means every pair.
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
    *,
    refined: bool = False,
) -> Material:
    """Population from runs: whole stories, with the true picture and each run's top picture per step.

    Args:
        tested: run folder of the model with context.
        control: run folder of the model without.
        part: part of the data set.
        decoding: decoding of stories, which must have been measured.
        names: names of the true pictures and the two models; default: as measured.
        refined: whether to show the pictures after refinement, if a run refines.
    Raises:
        DataError: a run was not measured on stories, with this decoding, or on the same steps as the control.
    Source: VRSS 2020, Section 5.2; docs/methods/evaluation.md §9.3.
    """
    runs = {run: SequenceResult.read_part(run, part) for run in (tested, control)}
    tested_result, other = runs[tested], runs[control]
    _check_same(tested, tested_result, control, other)
    ranked = {run: _decoded(run, result, decoding) for run, result in runs.items()}
    first = {
        run: {name: top[0] for name, top in zip(tested_result.ids, ranked[run], strict=True)} for run in runs
    }
    if refined:
        first = {
            run: dict(_first(run, Result.read_part(run, part), part, refined=True, decoding=decoding))
            for run in runs
        }
    stories: dict[str, list[Proposal]] = {}
    pictures_of = DataPictures(tested_result.about)
    for row, story in enumerate(tested_result.stories):
        steps, pair = stories.setdefault(story, []), pictures_of.pair(tested_result.ids[row])
        pictures = partial(pictures_of.chosen, first[tested][pair.id], first[control][pair.id], pair.id)
        steps.append(Proposal(pair.id, pair.text, pictures, position=len(steps), cluster=story))
    systems = names or ("true picture", tested_result.about.system, other.about.system)
    rules = _stage_rules(runs.values(), refined=refined, decoding=decoding)
    return Material({ALL: stories}, {ALL: dict(zip("ABC", systems, strict=True))}, rules=rules)


class DataPictures:
    """Texts and pictures of a result's data set, by pair id."""

    def __init__(self, about: About) -> None:
        """Open the data set with the settings stored in the result.

        Raises:
            DataError: the result has no such settings.
            MissingError: the data no longer exist.
        """
        values = about.config.get("data")
        if not isinstance(values, dict):
            raise DataError(
                f"study: the result of {about.system} does not name its data set; measure the run again"
            )
        data, rows = open_corpus(build(DataConfig, values, f"result of {about.system}"), files=True)
        self._shown = RunPictures(data, rows)
        self._pairs = {pair.id: pair for pair in data.pairs}
        self._stories: dict[str, dict[int, str]] = {}
        for pair in data.pairs:
            if pair.seq and pair.pos is not None:
                self._stories.setdefault(pair.seq, {}).setdefault(pair.pos, pair.text)

    def pair(self, name: str) -> Pair:
        """The pair with this id.

        Raises:
            DataError: the data set no longer has it.
        """
        if name not in self._pairs:
            raise DataError(f"study: the data set no longer has a pair {name!r}; measure the runs again")
        return self._pairs[name]

    def chosen(self, tested: str, control: str, truth: str | None = None) -> Pictures:
        """Map letters to pictures, given the ids of the pairs that the systems chose."""
        true = None if truth is None else self.picture(truth)
        return lettered(self.picture(tested), self.picture(control), true)

    def picture(self, name: str) -> PictureSource:
        """The picture of the pair with this id."""
        return self._shown.source(self.pair(name).id)

    def context(self, pair: Pair) -> tuple[tuple[str, ...], int]:
        """All texts of a pair's story in order, and the pair's index; empty and 0 if it is alone."""
        texts = self._stories.get(pair.seq, {})
        if pair.pos is None or len(texts) < 2 or texts.get(pair.pos) != pair.text:
            return (), 0
        places = sorted(texts)
        return tuple(texts[place] for place in places), places.index(pair.pos)


def _check_same(run: Path, found: Result | SequenceResult, other: Path, due: Result | SequenceResult) -> None:
    one, two = found.about, due.about
    if (one.data, one.split, found.ids) != (two.data, two.split, due.ids):
        raise DataError(
            f"study: {run} and {other} were measured on different texts; measure both on one data set"
            " and split"
        )
