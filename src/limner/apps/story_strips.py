"""The figure of GSDA: validation stories, what every run found for each of their sentences, and the truth.

It reads runs and their measured steps; nothing is trained or measured here, and no test story is shown.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from limner.apps.export.strips import Mark, Shown, Strips, write_strips
from limner.apps.story_figures import measured_steps, names_of, spread
from limner.errors import ConfigError, DataError, unknown

if TYPE_CHECKING:
    from limner.apps.run_pictures import Pictures
    from limner.evaluation.sequence_results import SequenceResult

MOST_STEPS = 8
TRUTH = "truth"


def write_story_strips(runs: Sequence[Path], to: Path, names: Sequence[str], count: int) -> None:
    """Write a page of strips: a row per run in the order given, and the true pictures last.

    Args:
        runs: folders, measured on the validation stories of one split.
        to: an .html file.
        names: of validation stories; evenly spread ones unless given, so that nobody chooses them.
        count: stories shown when none is named.
    Raises:
        ConfigError: no run, or no such story.
        DataError: one was not measured, or on other steps.
    Source: SPEC 4.9 (GSDA, Figure 3). Departs: validation stories, first picture of every step by itself.
    """
    from limner.apps.run_pictures import open_pictures

    if not runs:
        raise ConfigError("figure: gsda-strips compares runs; pass --run FOLDER once per run")
    results = [measured_steps(run, "val") for run in runs]
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
    steps: dict[str, list[int]] = {}
    for row, story in enumerate(first.stories):
        steps.setdefault(story, []).append(row)
    several = [story for story, rows in steps.items() if len(rows) > 1]
    chosen = list(names) or [several[place] for place in spread(range(len(several)), count)]
    for story in chosen:
        if story not in steps:
            raise ConfigError("figure: " + unknown("validation story", story, steps))
    titles = names_of(runs, results)

    def stories() -> Iterator[Strips]:
        for story in chosen:
            rows = steps[story]
            shown = rows[:MOST_STEPS]
            found = [
                (title, [_found(result, row, rows, texts, picture) for row in shown])
                for title, result in zip(titles, results, strict=True)
            ]
            true = [Shown(picture(first.ids[row]), texts[first.ids[row]], "true", "") for row in shown]
            part = f"its first {len(shown)} of {len(rows)} steps" if len(shown) < len(rows) else ""
            yield Strips(story, part, [texts[first.ids[row]] for row in shown], [*found, (TRUTH, true)])

    note = (
        f"The first of {first.pictures} validation pictures for every step by itself. Green: the step's own;"
        " dashed: another one of its story. Stories that nobody named are spread evenly over all."
    )
    write_strips(to, f"Stories of {first.about.data}", note, stories())


def _found(
    result: "SequenceResult",
    row: int,
    story: Sequence[int],
    texts: dict[str, str],
    picture: "Pictures",
) -> Shown:
    """The first picture of a step, and where its own one stands."""
    steps = result.found["steps"]
    top = steps.top[row][0]
    mark: Mark = "wrong"
    fact = f"its own at place {steps.own[row]:g}"
    if picture.same(top, result.ids[row]) or steps.own[row] == 1:
        mark, fact = "right", "its own" if steps.own[row] == 1 else "its own, tied"
    elif any(picture.same(top, result.ids[other]) for other in story):
        mark, fact = "story", f"of this story; {fact}"
    return Shown(picture(top), texts[top], mark, fact)
