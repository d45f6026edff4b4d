"""Measured runs as the material of a study: what two systems find first for the same texts.

Populations are texts with a relation, or stories, as the data set names them; what was found is looked up
only for drawn ones. Nothing is trained, measured or ranked here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from limner.apps.study.material import ALL, Material, PictureSource, Proposal
from limner.errors import ConfigError, DataError, unknown

if TYPE_CHECKING:
    from limner.datasets.pairs import Pair
    from limner.evaluation.results import About, Result
    from limner.evaluation.sequence_results import Decoding, SequenceResult
    from limner.training.pictures import PictureRows

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
    Source: SPEC 1.11: a simple random sample per relation among positives.
    """
    runs = {run: _measured(run, part) for run in dict.fromkeys((*tested.values(), control))}
    other = runs[control]
    for run, result in runs.items():
        _check_same(run, result, control, other)
        if not result.top:
            raise DataError(f"study: {run} retrieves nothing; name a run that ranks pictures")
    strata: dict[str, list[str]] = {}
    for relation in tested:
        if relation != ALL and relation not in other.labels:
            raise ConfigError(f"study: {unknown('relation', relation, other.labels)}")
        strata[relation] = positives(other, relation)
    rows = {name: row for row, name in enumerate(other.ids)}
    shown = DataPictures(other.about)

    def look_up(stratum: str, name: str) -> Sequence[Proposal]:
        row = rows[name]
        pair = shown.pair(name)
        context, position = shown.context(pair)
        found = {"A": runs[tested[stratum]], "B": other}
        pictures = {letter: shown.picture(result.top[row][0]) for letter, result in found.items()}
        return [Proposal(name, pair.text, pictures, context, position, cluster=other.groups[row])]

    return Material(
        unit="item",
        strata=strata,
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


def positives(result: "Result", relation: str) -> list[str]:
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
    decoding: "Decoding" = "steps",
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
    Source: SPEC 1.11, tick-all.
    """
    from limner.apps.story_figures import measured_steps

    runs: dict[Path, SequenceResult] = {run: measured_steps(run, part) for run in (tested, control)}
    own, other = runs[tested], runs[control]
    _check_same(tested, own, control, other)
    for run, result in runs.items():
        if decoding not in result.found:
            raise DataError(f"study: {run}: {unknown('decoding', decoding, result.found)}")
    steps: dict[str, list[int]] = {}
    for row, story in enumerate(own.stories):
        steps.setdefault(story, []).append(row)
    shown = DataPictures(own.about)

    def look_up(stratum: str, name: str) -> Sequence[Proposal]:
        del stratum
        found = []
        for position, row in enumerate(steps[name]):
            pictures: dict[str, PictureSource] = {
                "A": shown.picture(own.ids[row]),
                "B": shown.picture(own.found[decoding].top[row][0]),
                "C": shown.picture(other.found[decoding].top[row][0]),
            }
            pair = shown.pair(own.ids[row])
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

    def __init__(self, about: "About") -> None:
        """Open the data set, from the settings stored with the result.

        Raises:
            DataError: the settings are not there.
            MissingError: the data are not there any more.
        """
        from limner.config import build
        from limner.training.corpus import open_corpus
        from limner.training.settings import DataConfig

        values: Any = about.config.get("data")
        if not isinstance(values, dict):
            raise DataError(
                f"study: the result of {about.system} does not say its data set; measure the run again"
            )
        data, self._rows = open_corpus(build(DataConfig, values, f"result of {about.system}"), files=True)
        self._pairs = {pair.id: pair for pair in data.pairs}
        self._stories: dict[str, dict[int, str]] = {}
        for pair in data.pairs:
            if pair.seq and pair.pos is not None:
                self._stories.setdefault(pair.seq, {}).setdefault(pair.pos, pair.text)

    def pair(self, name: str) -> "Pair":
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
        drawn = _drawing(self._rows, pair)
        return Path(pair.image) if drawn is None else drawn

    def context(self, pair: "Pair") -> tuple[tuple[str, ...], int]:
        """All texts of a pair's story in order, and its place among them; nothing where it is alone."""
        told = self._stories.get(pair.seq, {})
        if pair.pos is None or len(told) < 2 or told.get(pair.pos) != pair.text:
            return (), 0
        places = sorted(told)
        return tuple(told[place] for place in places), places.index(pair.pos)


def _drawing(rows: "PictureRows", pair: "Pair") -> PictureSource | None:
    """A drawn picture, which lies in no file."""
    from PIL import Image

    from limner.training.pictures import ArrayRows

    if not isinstance(rows, ArrayRows):
        return None
    values = rows.take(rows.places([pair.image_id]))[0]
    return Image.fromarray(np.asarray(values, dtype=np.uint8))


def _measured(run: Path, part: Part) -> "Result":
    from limner.evaluation.results import FOLDER, read_result

    found = sorted((run / FOLDER).glob(f"*-{part}.json"))
    if len(found) != 1:
        how = "" if part == "test" else f" --part {part}"
        raise DataError(
            f"study: {run}: {len(found)} results of its {part} part, expected one;"
            f" run 'limner measure {run}{how}'"
        )
    return read_result(found[0])


def _check_same(
    run: Path, found: "Result | SequenceResult", other: Path, due: "Result | SequenceResult"
) -> None:
    one, two = found.about, due.about
    if (one.data, one.split, found.ids) != (two.data, two.split, due.ids):
        raise DataError(f"study: {run} and {other} were measured on different texts; measure both alike")
