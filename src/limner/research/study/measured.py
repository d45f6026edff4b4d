"""Studies of measured runs: texts with a relation or whole stories, and what the runs found first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from limner.config import build
from limner.errors import ConfigError, DataError, unknown
from limner.research.datasets.pairs import Pair
from limner.research.evaluation.results import About, Decoding, Result, SequenceResult
from limner.research.study.material import ALL, Material, Pictures, PictureSource, Proposal, lettered
from limner.research.training.corpus import ArrayRows, open_corpus
from limner.research.training.settings import DataConfig

Part = Literal["val", "test"]


def relations_material(
    tested: Mapping[str, Path],
    control: Path,
    part: Part = "test",
    names: Sequence[str] = (),
    *,
    refined: bool = False,
    decoding: Decoding = "steps",
) -> Material:
    """Texts with a relation, and the first picture of either run; every repeated pair counts once.

    Args:
        tested: relation → run folder of the tested system; ``all`` takes every text.
        control: run folder of the other system.
        part: of the data set.
        names: of the systems, if not as measured.
        refined: show what a run finds after refinement, where it refines.
        decoding: of stories; ``distinct`` shows no first picture twice in a story, and draws among its steps.
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
    first = {
        run: _first(run, result, part, refined=refined, decoding=decoding) for run, result in runs.items()
    }

    def proposals(relation: str, run: Path) -> Iterator[tuple[str, list[Proposal]]]:
        for name in positives(other, relation):
            if name not in first[control]:  # in no story
                continue
            row, pair = rows[name], shown.pair(name)
            pictures = partial(shown.chosen, first[run][name], first[control][name])
            yield name, [Proposal(name, pair.text, pictures, *shown.context(pair), other.groups[row])]

    return Material(
        strata={relation: dict(proposals(relation, run)) for relation, run in tested.items()},
        systems={
            relation: dict(zip("AB", names or (runs[run].about.system, other.about.system), strict=True))
            for relation, run in tested.items()
        },
        notes=tuple(
            f"{run}: the first picture of the full gallery before refinement is shown, not with --refined"
            for run, result in runs.items()
            if result.about.refinement and not refined and decoding == "steps"
        ),
        rules=_stage_rules(runs.values(), refined=refined, decoding=decoding),
    )


def _first(run: Path, result: Result, part: Part, *, refined: bool, decoding: Decoding) -> Mapping[str, str]:
    """Id of a text → that of the pair whose picture a run shows for it.

    Raises:
        ConfigError: refinement of a decoding, which nothing measures.
        DataError: the run was measured before refined pictures were kept, or not on stories.
    """
    if decoding != "steps":
        if refined:
            raise ConfigError("study: --refined ranks every step by itself; leave --decoding out")
        story = SequenceResult.read_part(run, part)
        return {name: top[0] for name, top in zip(story.ids, _decoded(run, story, decoding), strict=True)}
    tops = result.top
    if refined and result.about.refinement:
        if not result.refined_top:
            raise DataError(
                f"study: {run}: measured before pictures after refinement were kept;"
                f" run 'limner measure {run}' again"
            )
        tops = result.refined_top
    return {name: top[0] for name, top in zip(result.ids, tops, strict=True)}


def _decoded(run: Path, story: SequenceResult, decoding: Decoding) -> tuple[tuple[str, ...], ...]:
    if decoding not in story.found:
        raise DataError(f"study: {run}: {unknown('decoding', decoding, story.found)}")
    return story.found[decoding].top


def _stage_rules(
    results: Iterable[Result | SequenceResult], *, refined: bool, decoding: Decoding
) -> tuple[str, ...]:
    """What to register on which of a run's pictures is shown."""
    rules = [] if decoding == "steps" else ["Pictures are chosen so that none is the first twice in a story."]
    for about in {one.about.system: one.about for one in results}.values() if refined else ():
        how = ", ".join(f"{name} {value:g}" for name, value in about.refinement.items())
        rules.append(
            f"Pictures of {about.system} are those after refinement ({how})."
            if how
            else f"{about.system} refines nothing; its first pictures are shown."
        )
    return tuple(rules)


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
    *,
    refined: bool = False,
) -> Material:
    """Whole stories, with the true picture of every step and the first one of either run.

    Args:
        tested: run folder of the model with context.
        control: run folder of the one without.
        part: of the data set.
        decoding: way of choosing pictures that was measured.
        names: of the true pictures and the two models, if not as measured.
        refined: show what a run finds after refinement, where it refines.
    Raises:
        DataError: a run was not measured on stories, not in this way, or on other steps than the control.
    Source: VRSS 2020, Section 5.2; docs/methods/evaluation.md §9.3.
    """
    runs = {run: SequenceResult.read_part(run, part) for run in (tested, control)}
    own, other = runs[tested], runs[control]
    _check_same(tested, own, control, other)
    found = {run: _decoded(run, result, decoding) for run, result in runs.items()}
    first = {run: {name: top[0] for name, top in zip(own.ids, found[run], strict=True)} for run in runs}
    if refined:
        first = {
            run: dict(_first(run, Result.read_part(run, part), part, refined=True, decoding=decoding))
            for run in runs
        }
    stories: dict[str, list[Proposal]] = {}
    shown = DataPictures(own.about)
    for row, story in enumerate(own.stories):
        steps, pair = stories.setdefault(story, []), shown.pair(own.ids[row])
        pictures = partial(shown.chosen, first[tested][pair.id], first[control][pair.id], pair.id)
        steps.append(Proposal(pair.id, pair.text, pictures, position=len(steps), cluster=story))
    systems = names or ("true picture", own.about.system, other.about.system)
    rules = _stage_rules(runs.values(), refined=refined, decoding=decoding)
    return Material({ALL: stories}, {ALL: dict(zip("ABC", systems, strict=True))}, rules=rules)


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

    def chosen(self, tested: str, control: str, truth: str | None = None) -> Pictures:
        """The pictures of pairs by the letters of the systems that chose them."""
        true = None if truth is None else self.picture(truth)
        return lettered(self.picture(tested), self.picture(control), true)

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
