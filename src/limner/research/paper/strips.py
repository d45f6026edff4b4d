"""Pages of stories: what runs found for each of their steps, and the truth beside it.

They read runs and their measured steps; nothing is trained or measured here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from limner.counts import counted
from limner.errors import ConfigError, DataError, unknown
from limner.research.evaluation.results import SequenceResult
from limner.research.evaluation.sequences import by_story, steps_of
from limner.research.paper.page import Example, Group, spread, write_page
from limner.research.paper.plots import Attended, attention_maps, write
from limner.research.paper.run_pictures import Pictures, open_pictures
from limner.research.runs.run import Run
from limner.research.systems.vrss import Vrss

if TYPE_CHECKING:
    from PIL.Image import Image


FIRST = 10


def draw_attention(to: Path, run: Path, stories: Sequence[str], count: int) -> None:
    """Draw how much the steps of test stories attend to each other.

    Args:
        to: .pdf, .png or .svg.
        run: a folder; its model attends to whole stories.
        stories: names of test stories; the first of more than one step unless given.
        count: stories drawn when none is named.
    Raises:
        ConfigError: the model does not attend to stories, or there is no such story.
        DataError: the test part has no stories.
    """
    opened = Run.open(run)
    data, _ = opened.data(files=True)
    pairs = data.split("test")
    steps = steps_of(pairs)
    places = by_story(steps.stories)
    chosen = list(stories) or [story for story, own in places.items() if len(own) > 1][:count]
    shown = []
    for name in chosen:
        if name not in places:
            raise ConfigError("figure: " + unknown("test story", name, places))
        texts = [pairs[steps.rows[place]].text for place in places[name]]
        made = opened.model.story(texts) if isinstance(opened.model, Vrss) else None
        if made is None or made.attention is None:
            raise ConfigError(
                f"figure: {opened.name} does not attend to the steps of a story; name a run"
                " of VRSS trained with --set model.context=true"
            )
        shown.append(Attended(name, texts, made.attention[0].float().cpu().numpy()))
    write(to, attention_maps, shown)


def write_galleries(runs: Sequence[Path], to: Path, count: int) -> None:
    """Write a page of steps for which one run is better, the other is, or neither, as the paper shows them.

    A run is better where it ranks the step's own picture higher and among the first ten.

    Args:
        runs: two folders, measured on the same steps.
        to: an .html file.
        count: steps per group, evenly spread over all of it, so that nobody chooses them.
    Raises:
        ConfigError: not two runs.
        DataError: one was not measured, or on other steps.
    Source: VRSS 2020, Figs. 3 to 5; docs/methods/vrss.md §7. Departs: ranks judge, not people.
    """
    if len(runs) != 2:
        raise ConfigError(
            f"figure: vrss-galleries compares two runs, found {len(runs)}; pass --run FOLDER --run FOLDER"
        )
    (one, other), texts, picture = _measured_alike(runs, "test")
    names = names_of(runs, (one, other))
    numbers = {place: n for own in by_story(one.stories).values() for n, place in enumerate(own, start=1)}

    def groups() -> Iterator[Group]:
        for title, members in parted(one, other, names).items():
            yield Group(f"{title}: {len(members)} of {counted(len(one.ids), 'step')}", ())
            for step in spread(members, count):
                own = one.ids[step]
                lead = Example(picture(own), texts[own])
                yield Group(f"{one.stories[step]}, step {numbers[step]}", (), level=3, lead=lead)
                for name, result in zip(names, (one, other), strict=True):
                    yield _row(name, result, step, picture)

    note = (
        f"A run is better for a step where it ranks the step's own picture higher and among the first {FIRST}"
        f" of {one.pictures}. Steps are spread evenly over each group. For every step its own picture, then"
        " the best five of every run; green is its own."
    )
    write_page(to, "examples", f"{names[0]} and {names[1]} on {one.about.data}", note, groups=groups())


def _measured_alike(
    runs: Sequence[Path], part: Literal["val", "test"]
) -> tuple[list[SequenceResult], dict[str, str], Pictures]:
    """What runs found for the same steps, and the texts and pictures of their data set.

    Raises:
        DataError: one was not measured, or on other steps, or the data set has changed.
    """
    results = [SequenceResult.read_part(run, part) for run in runs]
    first = results[0]
    for run, result in zip(runs, results, strict=True):
        if (result.about.data, result.ids) != (first.about.data, first.ids):
            raise DataError(
                f"figure: {run} and {runs[0]} were measured on different steps; measure both alike"
            )
    texts, picture = open_pictures(runs[0])
    lost = [name for name in first.ids if name not in texts]
    if lost:
        raise DataError(f"{runs[0]}: its data set has no pair {lost[0]!r} any more; measure the run again")
    return results, texts, picture


def parted(one: SequenceResult, other: SequenceResult, names: Sequence[str]) -> dict[str, list[int]]:
    """Steps in three groups by who ranks their own picture higher and among the first ten."""
    first, second = (np.array(result.found["steps"].own) for result in (one, other))
    better = (first < second) & (first <= FIRST)
    worse = (second < first) & (second <= FIRST)
    return {
        f"{names[0]} is better": np.flatnonzero(better).tolist(),
        f"{names[1]} is better": np.flatnonzero(worse).tolist(),
        "Neither is better": np.flatnonzero(~better & ~worse).tolist(),
    }


def _row(name: str, result: SequenceResult, step: int, picture: Pictures) -> Group:
    found, own = result.found["steps"], result.ids[step]
    shown = [Example(picture(top), "", right=picture.same(top, own)) for top in found.top[step]]
    return Group(f"{name}: its own at place {found.own[step]:g}", shown, level=3)


def names_of(runs: Sequence[Path], results: Sequence[SequenceResult]) -> list[str]:
    """Names of systems, with their folders where two are alike."""
    return titled(runs, [result.about.system for result in results])


def titled(runs: Sequence[Path], names: Sequence[str]) -> list[str]:
    """Names of runs, with their folders where two are alike."""
    return [
        f"{name} ({run.name})" if names.count(name) > 1 else name
        for name, run in zip(names, runs, strict=True)
    ]


Mark = Literal["right", "story", "wrong", "true"]


@dataclass(frozen=True)
class StripPicture:
    """One picture of a strip.

    Attributes:
        picture: shown whole.
        text: of the pair it comes from.
        mark: the step's own, another of its story, neither, or the truth itself, which is not marked.
        fact: said below it.
    """

    picture: "Image"
    text: str
    mark: Mark
    fact: str


@dataclass(frozen=True)
class Strips:
    """One story.

    Attributes:
        title: its name.
        note: what is shown of it.
        texts: T sentences.
        rows: name of a run, or of the truth, and T pictures.
    """

    title: str
    note: str
    texts: Sequence[str]
    rows: Sequence[tuple[str, Sequence[StripPicture]]]


MOST_STEPS = 8
TRUTH = "truth"


def write_story_strips(
    runs: Sequence[Path], to: Path, names: Sequence[str], count: int, part: Literal["val", "test"] = "val"
) -> None:
    """Write a page of strips: a row per run in the order given, and the true pictures last.

    Args:
        runs: folders, measured on the stories of one split.
        to: an .html file.
        names: of stories; evenly spread ones unless given, so that nobody chooses them.
        count: stories shown when none is named.
        part: of the stories; the paper shows test stories, which choose nothing.
    Raises:
        ConfigError: no run, or no such story.
        DataError: one was not measured, or on other steps.
    Source: GSDA 2021, Fig. 3; docs/methods/gsda.md §7. Departs: the first picture of every step by itself.
    """
    if not runs:
        raise ConfigError("figure: strips of stories compare runs; pass --run FOLDER once per run")
    results, texts, picture = _measured_alike(runs, part)
    called = "validation" if part == "val" else "test"
    first = results[0]
    steps = by_story(first.stories)
    several = [story for story, rows in steps.items() if len(rows) > 1]
    chosen = list(names) or [several[place] for place in spread(range(len(several)), count)]
    for story in chosen:
        if story not in steps:
            raise ConfigError("figure: " + unknown(f"{called} story", story, steps))
    titles = names_of(runs, results)

    def stories() -> Iterator[Strips]:
        for story in chosen:
            rows = steps[story]
            shown = rows[:MOST_STEPS]
            found = [
                (title, [_found(result, row, rows, texts, picture) for row in shown])
                for title, result in zip(titles, results, strict=True)
            ]
            true = [StripPicture(picture(first.ids[row]), texts[first.ids[row]], "true", "") for row in shown]
            part = f"its first {len(shown)} of {len(rows)} steps" if len(shown) < len(rows) else ""
            yield Strips(story, part, [texts[first.ids[row]] for row in shown], [*found, (TRUTH, true)])

    note = (
        f"The first of {counted(first.pictures, f'{called} picture')} for every step by itself."
        " Green: the step's own; dashed: another one of its story."
        " Stories that nobody named are spread evenly over all."
    )
    write_page(to, "strips", f"Stories of {first.about.data}", note, stories=stories())


def _found(
    result: SequenceResult,
    row: int,
    story: Sequence[int],
    texts: dict[str, str],
    picture: Pictures,
) -> StripPicture:
    """The first picture of a step, and where its own one stands."""
    steps = result.found["steps"]
    top = steps.top[row][0]
    mark: Mark = "wrong"
    fact = f"its own at place {steps.own[row]:g}"
    if picture.same(top, result.ids[row]) or steps.own[row] == 1:
        mark, fact = "right", "its own" if steps.own[row] == 1 else "its own, tied"
    elif any(picture.same(top, result.ids[other]) for other in story):
        mark, fact = "story", f"of this story; {fact}"
    return StripPicture(picture(top), texts[top], mark, fact)
