"""Figures of one run's pair weights, from the files its training left.

It reads the files and hands their contents to `limner.evaluation.weight_figures`; it trains nothing.
"""

import json
from pathlib import Path
from typing import Any

from limner.errors import ConfigError, DataError, MissingError, unknown

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
    from limner.data.pair_scores import read_pair_scores
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
