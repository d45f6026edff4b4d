"""Fits the constants of rows: which photographs belong to no step, and how probable it is that one does.

Makes: docs/methods/storyboard.md (UNLIKE in order.py, `row` in calibration.json)

Fitted on the validation parts of guides and picture books (`fit` and `choose`), whose folders are laid out as
in `benchmarks/row_results.py`. Guides count three times, because there are few.

    python benchmarks/fit_rows.py --cache vectors
"""

from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
from embeddings import encoders, parser
from ordinary.boards import Desk, JobIllustrator
from ordinary.pictures import supply
from ordinary.rows import FIXED, LAYOUTS, SETS, RowJob, Rows
from scipy.optimize import minimize
from scipy.special import expit, logit

from limner.match import illustrate
from limner.match.calibration import RowChance, load
from limner.match.illustrate import BoardOptions

DRAWS = 3
GUIDES = 3.0
FOREIGN = ("of another text", "of anything else")
UNORDERED = ("roughly", "two exchanged", "no order")
"""Layouts in which the order is wrong: no chance is fitted to them."""
FOREIGN_WEIGHT = 3.0
"""Weight of a folder with nothing of the text. With 1, 80 % of them are shown; with 4, a fifth less of the
photographs of books with many strangers: chosen on these parts between the two.
"""
RIDGE = 0.5


def logistic(
    features: Sequence[Sequence[float]],
    right: Sequence[bool],
    weights: Sequence[float],
    ridge: float = RIDGE,
) -> np.ndarray:
    """Weights of a logistic regression."""
    x, y, w = (np.asarray(part, dtype=float) for part in (features, right, weights))

    def loss(made: np.ndarray) -> float:
        odds = x @ made
        return float((w * (np.logaddexp(0, odds) - y * odds)).sum() + ridge * (made @ made))

    return np.asarray(minimize(loss, np.zeros(x.shape[1])).x)


def strangers(jobs: Sequence[tuple[str, RowJob]]) -> dict[str, float]:
    """Weights of the mean similarity of a photograph to the others of its row, in even odds."""
    features, right = [], []
    for _, job in jobs:
        rows = job.gallery.rows(job.photographs)
        near = [job.gallery.space(name).vectors(rows).astype(float) for name in ("looks", "base")]
        mean = [((part @ part.T).sum(axis=1) - 1) / (len(rows) - 1) for part in near]
        mine = {picture for own in job.own for picture in own}
        features += [(1.0, first, second) for first, second in zip(*mean, strict=True)]
        right += [picture not in mine for picture in job.photographs]
    made = logistic(features, right, [1.0] * len(right), RIDGE / 10)
    made[0] -= logit(np.mean(right))
    return dict(zip(("one", "looks", "base"), made.round(2).tolist(), strict=True))


def main() -> None:
    asked = parser(__doc__)
    asked.add_argument("--encoder", default="base", help="of pictures")
    options = asked.parse_args()
    encoded = encoders(options, [options.encoder])
    stock = supply(encoded[0], tuple(encoded[1]), options.cache)
    desk = Desk(encoded, options.cache)
    jobs: list[tuple[str, RowJob]] = []
    for name in SETS:
        for part in ("fit", "choose"):
            rows = Rows(stock, name, part)
            for text in rows.texts:
                for layout in LAYOUTS:
                    for draw in range(1 if layout in FIXED else DRAWS):
                        jobs.append((layout, rows.named(text, layout, draw)))
    print("UNLIKE", strangers([one for one in jobs if one[0] in ("camera", "as many strangers")]))
    bare = load()
    even = bare.row.model_copy(update={"of_text": {"one": 50.0}, "at_step": {"one": 0.0, "odds": 1.0}})
    bare = bare.model_copy(update={"row": even})
    seen: list[tuple[float, float, float]] = []

    def spy(self: RowChance, gain: float, kept: float, typical: float) -> float:
        seen.append((gain, kept, typical))
        return 1.0

    texts: list[tuple[list[float], bool, float]] = []
    steps: list[tuple[list[float], bool, float]] = []
    with patch.object(illustrate, "load", lambda: bare), patch.object(RowChance, "own", spy):
        for layout, job in jobs:
            board = JobIllustrator(job, desk).board(
                job.story, BoardOptions(named=(job.named,), show="always", runners_up=0)
            )
            weight = GUIDES if job.kind == "howto" else 1.0
            if layout not in UNORDERED:
                foreign = layout in FOREIGN
                texts.append(([1.0, *seen[-1]], not foreign, weight * (FOREIGN_WEIGHT if foreign else 1.0)))
            if layout not in (*FOREIGN, "no order"):
                for step, own in zip(board.steps, job.own, strict=True):
                    if step.picture is not None and step.probability is not None:
                        odds = float(logit(np.clip(step.probability, 0.018, 0.982)))
                        steps.append(([1.0, odds], step.picture.id in own, weight))
    of_text = logistic(*zip(*texts, strict=True))
    at_step = logistic(*zip(*steps, strict=True))
    print("of_text", dict(zip(("one", "gain", "kept", "typical"), of_text.round(2).tolist(), strict=True)))
    print("at_step", dict(zip(("one", "odds"), at_step.round(2).tolist(), strict=True)))
    print("shown at 20 %, rows of other texts:", end=" ")
    shown = [expit(np.dot(one, of_text)) >= 0.2 for one, own, _ in texts if not own]
    print(f"{100 * np.mean(shown):.0f} %, of the text's own: ", end="")
    print(f"{100 * np.mean([expit(np.dot(one, of_text)) >= 0.2 for one, own, _ in texts if own]):.0f} %")


if __name__ == "__main__":
    main()
