"""Fits the calibration of the choice from the suite of ordinary jobs, and says how it does on other texts.

Makes: docs/methods/storyboard.md §2 to §4 (all numbers that pictures are chosen by: calibration.json)

Weights are fitted on the part *fit*; the part *choose* is printed, and nothing is read of *report*. Evidence
and agreement maximise the likelihood of each step's own picture among all candidates (conditional logit,
McFadden 1974); a pin is to let most other steps show a picture that fits; the chance is a logistic regression
on whether what is shown fits. Kinds of text count alike.

    python benchmarks/fit_choice.py --cache vectors --limit 20 --write
    python benchmarks/fit_choice.py --cache vectors --limit 20 --left-out  # kinds that were not fitted
"""

import argparse
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from embeddings import encoders, parser
from ordinary.boards import Desk, JobIllustrator
from ordinary.jobs import KINDS, WORDS, jobs
from ordinary.measures import calibrated as measured
from ordinary.pictures import Part
from scipy.optimize import minimize
from scipy.special import expit

import limner.match
from limner.errors import DataError
from limner.files import write_text
from limner.match import probabilities as choice
from limner.match.board import BLANK, assign
from limner.match.calibration import FILE, Calibration, Pin, Weights, load
from limner.match.candidates import (
    ChannelSimilarity,
    EncodedSteps,
    ExpectedSimilarity,
    Float64Array,
    Pool,
    pool_of,
)
from limner.match.illustrate import CANDIDATES, SPACES, most_similar_rows, pin_odds, query_texts
from limner.store.search import Index

FITTED_KINDS = tuple(kind for kind in KINDS if kind != "translated")
SIZES = (30, 300, 1000)
RIVALS = 60
"""Best candidates of a step that its own picture is held against; the others hardly count."""
OTHERS = 0.3
"""How much the best picture of a step counts in the fit of chances where another is shown, which counts 1."""
RIDGE, CHANCE_RIDGE = 1e-4, 1e-3
"""How weights are held down; those of chances more, which carries over to kinds that were not fitted."""
PINS = (0.5, 0.7, 1.0, 1.5), (6.0, 9.0, 12.0, 15.0)
"""Weights of a pin that are tried, and of looks in it."""


@dataclass
class Case:
    """One text over one library, weighed but not decided.

    Attributes:
        cell: kind, words and size.
        index: the pictures.
        asked: the steps as the channels read them.
        pool: the candidates.
        own, fits: (S, K) True for the picture of the step, and for those that fit.
    """

    cell: tuple[str, str, int]
    index: Index
    asked: Sequence[EncodedSteps]
    pool: Pool
    own: np.ndarray
    fits: np.ndarray
    features: dict[str, Float64Array] = field(default_factory=dict)
    likes: dict[str, ExpectedSimilarity] = field(default_factory=dict)


def cases(desk: Desk, options: argparse.Namespace, part: Part) -> Iterator[Case]:
    """All texts of a part, weighed by the product's own code."""
    numbers = load()
    for kind in options.kinds:
        for words in WORDS[kind]:
            for size in options.sizes:
                try:
                    made = jobs(
                        kind,
                        words,
                        size,
                        part,
                        encoders=desk.encoders,
                        cache=options.cache,
                        limit=options.limit,
                    )
                except DataError as error:  # a cell that the data do not have
                    print(f"{kind}, {words}, {size}: {error}")
                    continue
                desk.learn(made)
                illustrator, before = None, None
                for job in made:
                    if illustrator is None or before is not job.gallery:
                        illustrator, before = JobIllustrator(job, desk), job.gallery
                    readings = query_texts(job.story)[1]
                    asked = [EncodedSteps.by(channel, readings) for channel in illustrator.channels]
                    barred = np.zeros(len(job.gallery), dtype=bool)
                    pool = pool_of(illustrator.index, asked, numbers, count=CANDIDATES, barred=barred)
                    own, fits = (flags(pool, sets) for sets in (job.own, job.fits))
                    cell = (kind, words, size)
                    yield Case(cell, illustrator.index, asked, pool, own, fits)


def flags(pool: Pool, wanted: Sequence[Collection[str]]) -> np.ndarray:
    """(S, K) True where a candidate is one of the pictures wanted for its step."""
    ids = np.array([pool.gallery.ids[row] for row in pool.rows])
    each = [np.isin(ids, list(one))[pool.items[s]] & pool.there[s] for s, one in enumerate(wanted)]
    return np.stack(each)


@dataclass(frozen=True)
class Rows:
    """Cells of all candidates of some steps, one after another.

    Attributes:
        values: (R, F) features.
        right: (R,) what is to be likely.
        step: (R,) number of the step.
        weight: (N,) of the steps; kinds count alike.
    """

    values: Float64Array
    right: np.ndarray
    step: np.ndarray
    weight: Float64Array


def weights_of(cells: Sequence[tuple[str, str, int]]) -> Float64Array:
    """Weight of one step of each cell listed: every kind counts alike, and within it every cell."""
    kinds: dict[str, set[tuple[str, str, int]]] = {}
    counts: dict[tuple[str, str, int], int] = {}
    for cell in cells:
        kinds.setdefault(cell[0], set()).add(cell)
        counts[cell] = counts.get(cell, 0) + 1
    return np.array([1 / counts[cell] / len(kinds[cell[0]]) / len(kinds) for cell in cells])


def rows_of(
    made: Sequence[Case], names: Sequence[str], features: Callable[[Case], dict[str, Float64Array]]
) -> Rows:
    """The best candidates of all steps whose own picture is among them, and that picture."""
    values, right, step, cells = [], [], [], []
    for case in made:
        found = features(case)
        for s in np.flatnonzero((case.own & np.isfinite(case.features["odds"])).any(axis=1)):
            odds = case.features["odds"][s]
            some = np.argsort(-odds, kind="stable")[:RIVALS]
            some = np.union1d(some[np.isfinite(odds[some])], np.flatnonzero(case.own[s] & np.isfinite(odds)))
            values.append(np.stack([found[name][s, some] for name in names], axis=-1))
            right.append(case.own[s, some])
            step.append(np.full(len(some), len(cells)))
            cells.append(case.cell)
    return Rows(np.concatenate(values), np.concatenate(right), np.concatenate(step), weights_of(cells))


def own_picture(rows: Rows, ridge: float = RIDGE) -> Float64Array:
    """Weights under which the own picture of each step is most likely among all candidates."""
    scale = np.maximum(rows.values.std(axis=0), 1e-6)
    table, count = rows.values / scale, len(rows.weight)

    def loss(w: Float64Array) -> tuple[float, Float64Array]:
        odds = table @ w
        top = np.full(count, -np.inf)
        np.maximum.at(top, rows.step, odds)
        raised = np.exp(odds - top[rows.step])
        every = np.bincount(rows.step, raised, count)
        own = np.bincount(rows.step, raised * rows.right, count)
        own = np.maximum(own, 1e-300)
        gradient = table.T @ (
            rows.weight[rows.step] * raised * (1 / every[rows.step] - rows.right / own[rows.step])
        )
        value = float((rows.weight * (np.log(every) - np.log(own))).sum())
        return value + ridge / 2 * float(w @ w), gradient + ridge * w

    found = minimize(loss, np.zeros(len(scale)), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return np.asarray(found.x / scale)


def logistic(
    values: Float64Array, right: np.ndarray, weight: Float64Array, ridge: float = CHANCE_RIDGE
) -> Float64Array:
    """Weights of a logistic regression; the first feature is the constant and is not held down."""
    scale = np.maximum(values.std(axis=0), 1e-6)
    scale[0] = 1.0
    table, share = values / scale, weight / weight.sum()
    held = np.full(len(scale), ridge)
    held[0] = 0.0

    def loss(w: Float64Array) -> tuple[float, Float64Array]:
        odds = table @ w
        value = float(share @ (np.logaddexp(0, odds) - right * odds)) + float(held @ w**2) / 2
        return value, table.T @ (share * (expit(odds) - right)) + held * w

    found = minimize(loss, np.zeros(len(scale)), jac=True, method="L-BFGS-B", options={"maxiter": 300})
    return np.asarray(found.x / scale)


def fitted(made: Sequence[Case], numbers: Calibration) -> Calibration:
    """Evidence, then agreement by rounds over it, then the pin and the chance."""
    for case in made:
        case.features["odds"] = choice.evidence(case.pool, numbers)
    names = list(numbers.evidence.weights)
    rows = rows_of(made, names, lambda case: choice.evidence_features(*_compared(case.pool)))
    found = own_picture(rows)
    # What pixels say alone is their trust: the scale goes there.
    alone = float(found[names.index("pixels")])
    found[[names.index(name) for name in ("pixels", "pixels_beside_words")]] /= alone
    numbers = with_weights(numbers, "evidence", names, found, spread=numbers.spread * alone)
    made = [_trusting(case, alone) for case in made]
    for case in made:
        case.features["own"] = choice.evidence(case.pool, numbers)
        case.features["odds"] = case.features["own"]
    names = list(numbers.agreement.weights)
    for _ in range(choice.ROUNDS):
        rows = rows_of(made, names, partial(heard, numbers=numbers))
        numbers = with_weights(numbers, "agreement", names, own_picture(rows))
        for case in made:
            own = case.features["own"]
            case.features["odds"] = np.where(
                np.isfinite(own), numbers.agreement.of(heard(case, numbers)), -np.inf
            )
    numbers = numbers.model_copy(update={"pin": fitted_pin(made, numbers)})
    odds = made[0].features["odds"]
    names = list(choice.probability_features(made[0].pool, odds, odds, numbers))
    learned = [probability_table(case, numbers, names) for case in made]
    weight = weights_of([case.cell for case, (_, right, _) in zip(made, learned, strict=True) for _ in right])
    found = logistic(
        np.concatenate([values for values, _, _ in learned]),
        np.concatenate([right for _, right, _ in learned]).astype(np.float64),
        weight * np.concatenate([part for _, _, part in learned]),
    )
    return with_weights(numbers, "chance", names, found)


def with_weights(
    numbers: Calibration, part: str, names: Sequence[str], found: Float64Array, **more: float
) -> Calibration:
    """The calibration with other weights of a part."""
    weights = Weights(weights=dict(zip(names, found.tolist(), strict=True)))
    return numbers.model_copy(update={part: weights, **more})


def _compared(pool: Pool) -> tuple[ChannelSimilarity, ChannelSimilarity]:
    return choice.first_of(pool, choice.WORDS), choice.first_of(pool, choice.PIXELS)


def _trusting(case: Case, times: float) -> Case:
    """A case whose pixels are trusted so many times as much."""
    channels = {
        name: one if name in choice.WORDS else replace(one, trust=one.trust * times)
        for name, one in case.pool.channels.items()
    }
    return replace(fresh(case), pool=replace(case.pool, channels=channels))


def fitted_pin(made: Sequence[Case], numbers: Calibration) -> Pin:
    """The pin under which most other steps show a picture that fits, where words are hidden."""
    told = []
    for case in made:
        first = next((s for s, own in enumerate(case.own) if own.any()), None)
        if case.cell[1] != "hidden" or first is None or len(case.own) < 2:
            continue
        row = int(case.pool.rows[case.pool.items[first][case.own[first]][0]])
        barred = np.zeros(len(case.index.gallery), dtype=bool)
        extra = sorted({row, *most_similar_rows(case.index, [row], SPACES["looks"], CANDIDATES, barred)})
        pool = pool_of(case.index, case.asked, numbers, count=CANDIDATES, extra=extra, barred=barred)
        ids = [
            {case.pool.gallery.ids[case.pool.rows[i]] for i in case.pool.items[s][case.fits[s]]}
            for s in range(len(case.fits))
        ]
        one = Case(case.cell, case.index, case.asked, pool, case.own, flags(pool, ids))
        seen, fixed = choice.evidence(pool, numbers), {first: pool.column(first, row)}
        own = np.where(pool.there & ~np.isfinite(seen), 0.0, seen)
        odds = choice.agreement(pool, own, numbers, likes_of(one), fixed)
        like = partial(pin_odds, pool, [row], SPACES["looks"])
        told.append((one, fixed, odds, choice.doubt(pool, seen, numbers, fixed), like))
    weight = weights_of([one.cell for one, fixed, *_ in told for _ in range(len(one.own) - len(fixed))])

    def fitting(pin: Pin) -> float:
        found = []
        for one, fixed, odds, doubted, like in told:
            chosen = chosen_of(one, odds + doubted * like(pin), fixed)
            found += [one.fits[s, column] for s, column in enumerate(chosen) if s not in fixed]
        return float(weight @ found)

    floor = numbers.pin.floor
    return max((Pin(weight=w, floor=floor, looks=q) for w, q in product(*PINS)), key=fitting)


def spaces_of(pool: Pool) -> dict[str, str]:
    """Spaces in which two pictures of a case are compared, as `score_board` takes them."""
    held = pool.gallery.spaces
    return {name: space for name, space in SPACES.items() if space in held and held[space].present.any()}


def heard(case: Case, numbers: Calibration) -> dict[str, Float64Array]:
    """What agreement is linear in, of the present round."""
    if len(case.own) < 2:
        none = np.zeros(case.own.shape)
        own = np.where(np.isfinite(case.features["own"]), case.features["own"], 0.0)
        return dict.fromkeys(numbers.agreement.weights, none) | {"own": own}
    own, odds = case.features["own"], case.features["odds"]
    return choice.agreement_features(case.pool, own, odds, numbers, likes_of(case))


def likes_of(case: Case) -> dict[str, ExpectedSimilarity]:
    """How much its pictures are alike, computed once."""
    if not case.likes:
        case.likes = {
            name: ExpectedSimilarity(case.pool, space) for name, space in spaces_of(case.pool).items()
        }
    return case.likes


def agreed(case: Case, numbers: Calibration) -> Float64Array:
    """(S, K) log-odds as the product has them."""
    return choice.agreement(case.pool, choice.evidence(case.pool, numbers), numbers, likes_of(case))


def chosen_of(case: Case, odds: Float64Array, fixed: Mapping[int, int] | None = None) -> np.ndarray:
    """(S,) columns of the board before any step is left blank."""
    worth = odds - odds.min(where=np.isfinite(odds), initial=0.0)
    return assign(worth, case.pool.groups[case.pool.items], fixed)


def probability_table(
    case: Case, numbers: Calibration, names: Sequence[str]
) -> tuple[Float64Array, np.ndarray, Float64Array]:
    """Features of what is shown and of the best candidates, whether they fit, and how much each counts."""
    odds = agreed(case, numbers)
    features = choice.probability_features(case.pool, choice.evidence(case.pool, numbers), odds, numbers)
    table = np.stack([features[name] for name in names], axis=-1)
    shown, best = chosen_of(case, odds), odds.argmax(axis=1)
    cells = [(s, k, 1.0) for s, k in enumerate(shown.tolist()) if k != BLANK]
    cells += [
        (s, k, OTHERS) for s, k in enumerate(best.tolist()) if k != shown[s] and np.isfinite(odds[s, k])
    ]
    s, k = np.array([one[:2] for one in cells]).T
    return table[s, k], case.fits[s, k], np.array([one[2] for one in cells])


def calibrated(made: Sequence[Case], numbers: Calibration) -> dict[str, float]:
    """Kind → expected calibration error, in tenths, of the chances of the pictures shown."""
    found: dict[str, list[tuple[float, bool]]] = {}
    for case in made:
        odds = agreed(case, numbers)
        chance = choice.probabilities(case.pool, choice.evidence(case.pool, numbers), odds, numbers)
        for s, column in enumerate(chosen_of(case, odds).tolist()):
            if column != BLANK:
                found.setdefault(case.cell[0], []).append(
                    (float(chance[s, column]), bool(case.fits[s, column]))
                )
    return {kind: float(measured(pairs).error or 0.0) for kind, pairs in found.items()}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--kinds", nargs="+", choices=FITTED_KINDS, default=list(FITTED_KINDS))
    options.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    options.add_argument("--limit", type=int, help="texts per cell at most")
    options.add_argument("--left-out", action="store_true", help="fit without each kind in turn")
    options.add_argument("--write", action="store_true", help="replace the packaged calibration")
    chosen = options.parse_args()
    desk = Desk(encoders(chosen, ["base"]), chosen.cache)
    made, others = (list(cases(desk, chosen, part)) for part in ("fit", "choose"))
    numbers = fitted(made, load())
    print("| kind | calibration error, choose |\n|---|---:|")
    errors = calibrated(others, numbers)
    for kind, error in errors.items():
        print(f"| {kind} | {error:.3f} |")
    if chosen.left_out:
        print("\n| kind left out of the fit | calibration error, choose |\n|---|---:|")
        for kind in errors:
            rest = fitted([fresh(case) for case in made if case.cell[0] != kind], load())
            alone = [case for case in others if case.cell[0] == kind]
            print(f"| {kind} | {calibrated(alone, rest)[kind]:.3f} |")
    if chosen.write:
        text = numbers.model_dump_json(indent=1) + "\n"
        write_text(Path(limner.match.__file__).with_name(FILE), text)


def fresh(case: Case) -> Case:
    """A case that nothing was computed for."""
    return replace(case, features={}, likes={})


if __name__ == "__main__":
    main()
