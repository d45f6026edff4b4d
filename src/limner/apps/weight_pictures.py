"""Figures of pair weights, from the files that training and measuring left.

It reads the files and hands their contents to `limner.evaluation.weight_figures`; it trains nothing.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.errors import ConfigError, DataError, MissingError, unknown

if TYPE_CHECKING:
    from limner.evaluation.weight_figures import Gain

NAMES = ("complementary-scores", "complementary-agreement", "complementary-weights")
LOGGED = "weights/"


def draw(name: str, run: Path, to: Path) -> None:
    """Draw one of `NAMES`.

    Args:
        name: scores (histograms of both measures), agreement (one measure against the other, with Spearman's
            correlation) or weights (what was logged of them by epoch).
        run: folder of a run that weighed its pairs.
        to: file to write.
    Raises:
        ConfigError: no such figure.
        MissingError, DataError: the run left no scores, or not those of two measures.
    """
    from limner.datasets.neighbours import read_pair_scores
    from limner.evaluation import weight_figures
    from limner.evaluation.complementary_tables import reference
    from limner.evaluation.figures import write

    if name not in NAMES:
        raise ConfigError(unknown("figure", name, NAMES))
    if name == "complementary-weights":
        write(to, weight_figures.training_of_weights, _logged(run))
        return
    measures = read_pair_scores(run).measures()
    if name == "complementary-scores":
        write(to, weight_figures.score_histograms, measures)
        return
    if len(measures) != 2 or len({tuple(part) for part in measures.values()}) != 1:
        raise DataError(
            f"{run}: its scores are of {', '.join(measures) or 'nothing'}; agreement needs both measures"
            " of the same modalities"
        )
    # Υ of a pair joins its modalities, so the measures are compared by their mean over them
    names = tuple(sorted(measures, reverse=True))
    first, second = (sum(measures[one].values()) / len(measures[one]) for one in names)
    published = reference()["scores"]["spearman"]
    write(to, weight_figures.agreement, first, second, names, published)


def draw_gains(runs: Path, split: str, to: Path) -> None:
    """Draw the gain of either measure against the deviation of its scores, over data sets.

    Args:
        runs: folder of measured runs; those of a measure left their pair scores.
        split: of the results.
        to: file to write.
    Raises:
        DataError: no such runs.
    """
    from limner.evaluation.figures import write
    from limner.evaluation.weight_figures import gain_against_deviation

    own = _gains(runs, split)
    if not own:
        raise DataError(
            f"{runs}: no run of a measure and of PVSE on one data set ({split} split); train them and run"
            " 'limner measure' with --choices"
        )
    write(to, gain_against_deviation, [*own, *_published_gains()])


def _gains(runs: Path, split: str) -> "list[Gain]":
    """A gain per data set, number of options and measure that was measured beside PVSE."""
    from limner.datasets.neighbours import SCORES_FILE, read_pair_scores
    from limner.evaluation.choice_cohorts import cohorts
    from limner.evaluation.choice_results import FOLDER, read_choice_result, read_choice_results
    from limner.evaluation.complementary_tables import MEASURES, reference
    from limner.evaluation.weight_figures import Gain

    deviations: dict[tuple[str, str], list[float]] = {}
    for file in sorted(runs.glob(f"**/{SCORES_FILE}")):
        answered = sorted((file.parent / FOLDER).glob("*way.json"))
        scores = read_pair_scores(file.parent).measures() if answered else {}
        for measure, by_modality in scores.items():
            about = read_choice_result(answered[0]).about
            if about.system == measure:
                spread = float(np.mean([values.std() for values in by_modality.values()]))
                deviations.setdefault((about.data, measure), []).append(spread)
    chosen = [
        r for r in read_choice_results(runs) if (r.about.part, r.about.split) == ("test", split)
    ]  # fmt: skip
    control = reference()["complementary-2"]["control"]
    found = []
    for one in cohorts(chosen):
        base = one.credits(control, 2)
        for measure in MEASURES:
            own, known = one.credits(measure, 2), deviations.get((one.data, measure))
            if base is not None and own is not None and known:
                gain = float(own.mean() - base.mean())
                found.append(Gain(f"{one.data} {one.c}-way", measure, float(np.mean(known)), gain))
    return found


def _published_gains() -> "list[Gain]":
    from limner.evaluation.complementary_tables import MEASURES, reference
    from limner.evaluation.weight_figures import Gain

    rows, sets = reference()["complementary-2"]["rows"], reference()["sets"]
    return [
        Gain(
            entry["title"],
            measure,
            entry[measure.lower()]["deviation"],
            float(np.mean(rows[measure][data]) - np.mean(rows["PVSE"][data])),
            published=True,
        )
        for data, entry in sets.items()
        for measure in MEASURES
    ]


def _logged(run: Path) -> list[dict[str, float]]:
    """Per epoch what was logged of the weights, without the common beginning of its names."""
    from limner.training.loop import HISTORY

    file = run / HISTORY
    try:
        lines: list[dict[str, Any]] = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    except FileNotFoundError:
        raise MissingError(f"{file}: not there; give the folder of a trained run") from None
    except ValueError as error:
        raise DataError(f"{file}: not the history of a run ({error}); train it again") from error
    return [
        {
            name.removeprefix(LOGGED): value
            for name, value in {**line.get("loss", {}), **line.get("val", {})}.items()
            if name.startswith(LOGGED)
        }
        for line in lines
    ]
