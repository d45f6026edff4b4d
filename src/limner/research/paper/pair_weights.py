"""Figures of pair weights: how the two measures are distributed, how they agree, and what a sweep found."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from limner.errors import RESEARCH, DataError, MissingError, NumericsError, installed
from limner.research.datasets.neighbours import SCORES_FILE, read_pair_scores
from limner.research.evaluation.results import ChoiceResult
from limner.research.losses.weighting import batch_weights, z_scores
from limner.research.paper.page import Example, Group, write_page
from limner.research.paper.plots import BLUE, COLOURS, GREY, ORANGE, panels, write
from limner.research.paper.published import credits_of, questions_of
from limner.research.paper.run_pictures import open_pictures
from limner.research.paper.sweeps import Point, by_setting, kind_of
from limner.research.paper.table import reference
from limner.research.runs.run import Run
from limner.research.training.loop import HISTORY

with installed("matplotlib", RESEARCH):
    from matplotlib.figure import Figure

_MOST_POINTS, _BINS = 5000, 40
Scores = NDArray[np.floating]


def score_histograms(scores: Mapping[str, Mapping[str, Scores]]) -> Figure:
    """One panel per measure, one outline per modality, with mean and deviation in the legend.

    Args:
        scores: measure → modality → (n,) raw scores, before Γ.
    Raises:
        DataError: nothing to draw.
        NumericsError: a score is not finite.
    Source: docs/methods/complementary.md §9.2.
    """
    every = [values for part in scores.values() for values in part.values()]
    if not every or not all(len(values) for values in every):
        raise DataError("figure: no scores; train with weights from neighbourhoods first")
    if not all(np.isfinite(values).all() for values in every):
        raise NumericsError("figure: a score is not finite; train the run again")
    figure, places = panels(len(scores), 4.2 * len(scores))
    for axes, (measure, by_modality) in zip(places, scores.items(), strict=True):
        edges = np.histogram_bin_edges(np.concatenate(list(by_modality.values())), _BINS)
        for (name, some), colour in zip(by_modality.items(), COLOURS, strict=False):
            label = f"{name}: μ {some.mean():.4f}, σ {some.std():.4f}"
            axes.hist(some, edges, histtype="step", color=colour, linewidth=1.4, label=label)
        axes.set(title=measure, xlabel="score", ylabel="training pairs")
        axes.legend(frameon=False, fontsize=7)
    return figure


def agreement(first: Scores, second: Scores, names: Sequence[str], published: float) -> Figure:
    """Every pair by its two scores, with Spearman's correlation in the title.

    Args:
        first: (n,) scores of one measure.
        second: (n,) of the other, in the same order.
        names: of the measures.
        published: the paper's correlation.
    Source: docs/methods/complementary.md §9.2.
    """
    correlation = spearman(first, second)
    figure, (axes,) = panels(1, 4.2, 3.6)
    step = max(1, len(first) // _MOST_POINTS)  # evenly spread rows: a larger file would show no more
    axes.scatter(first[::step], second[::step], s=5, alpha=0.4, color=BLUE, linewidths=0)
    shown = "undefined" if np.isnan(correlation) else f"{correlation:.4f}"
    title = f"Spearman {shown} (the paper's {published:.4f}), n = {len(first)}"
    axes.set(xlabel=names[0], ylabel=names[1], title=title)
    axes.title.set_fontsize(9)
    return figure


def spearman(first: Scores, second: Scores) -> float:
    """Spearman's rank correlation, ties counted by mean rank; NaN where either is constant.

    Args:
        first: (n,), finite, n of at least 2.
        second: (n,), likewise.
    """
    with np.errstate(invalid="ignore"):  # of a constant
        return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


@dataclass(frozen=True)
class Gain:
    """What a measure's weights gained on one data set.

    Attributes:
        data: name of the data set.
        measure: DIVERSITY or DISCREPANCY.
        deviation: of the raw scores over the training pairs.
        gain: c-way accuracy, mean of both directions, minus that of equal weights.
        published: whether it is the paper's.
    """

    data: str
    measure: str
    deviation: float
    gain: float
    published: bool = False


def gain_against_deviation(gains: Sequence[Gain]) -> Figure:
    """Whether a measure gains more where its scores differ more: a dot per data set, rings for the paper's.

    Args:
        gains: ours and the paper's.
    Raises:
        DataError: nothing to draw.
    Source: docs/methods/complementary.md §9.2.
    """
    if not gains:
        raise DataError("figure: no gains; measure runs with --choices that left pair scores")
    figure, (axes,) = panels(1, 5.0, 3.6)
    axes.axhline(0, color=GREY, linewidth=0.8)
    for measure, colour in zip(dict.fromkeys(one.measure for one in gains), COLOURS, strict=False):
        for published in (False, True):
            some = [one for one in gains if (one.measure, one.published) == (measure, published)]
            if not some:
                continue
            x, y = np.array([one.deviation for one in some]), 100 * np.array([one.gain for one in some])
            known = spearman(x, y) if len(some) > 2 else float("nan")
            tail = "" if np.isnan(known) else f" (Spearman {known:.2f} over {len(some)} sets)"
            label = f"{measure}{', the paper' if published else ''}{tail}"
            face = "none" if published else colour
            axes.scatter(x, y, facecolors=face, edgecolors=colour, s=26, label=label)
            for one, left, up in zip(some, x, y, strict=True):
                axes.annotate(one.data, (left, up), (4, 3), textcoords="offset points", fontsize=6)
    axes.set(xlabel="standard deviation of the score", ylabel="accuracy minus that of PVSE (points)")
    figure.legend(loc="outside upper left", frameon=False, fontsize=7)
    return figure


def training_of_weights(history: Sequence[Mapping[str, float]]) -> Figure:
    """Spread, entropy and drift of the weights by epoch, as far as they were logged.

    Args:
        history: per epoch, name → value.
    Raises:
        DataError: nothing was logged.
    Source: docs/methods/complementary.md §6.1, §9.2.
    """
    names = list(dict.fromkeys(name for epoch in history for name in epoch))
    if not names:
        raise DataError("figure: the run logged nothing about weights; train a system that weighs pairs")
    figure, places = panels(len(names), 3.6 * len(names), 2.9)
    for axes, name in zip(places, names, strict=True):
        there = [(place, epoch[name]) for place, epoch in enumerate(history) if name in epoch]
        axes.plot(*zip(*there, strict=True), color=BLUE, marker="o", markersize=3)
        axes.set(xlabel="epoch", title=name)
        axes.title.set_fontsize(9)
        axes.xaxis.get_major_locator().set_params(integer=True)
    return figure


def sweep_picture(points: Sequence[Point], metric: str) -> Figure:
    """Means over seeds with every seed as a dot: over the one setting that is a number, else by name.

    Args:
        points: of one sweep.
        metric: validation figure.
    Raises:
        DataError: see `sweeps.by_setting`.
    """
    found = by_setting(points, metric)
    scale = 100.0 if kind_of(metric) == "percent" else 1.0
    numbers = _numbers(points)
    at = numbers or {name: float(place) for place, name in enumerate(found)}
    figure, (axes,) = panels(1, max(4.6, 0.5 * len(found) + 1.5))
    order = sorted(found, key=lambda name: at[name])
    means = [scale * float(np.mean(found[name])) for name in order]
    line = "-" if numbers else "none"
    axes.plot([at[name] for name in order], means, color=BLUE, marker="o", linestyle=line, label="mean")
    if any(len(values) > 1 for values in found.values()):
        dots = [(at[name], scale * value) for name in order for value in found[name]]
        axes.scatter(*zip(*dots, strict=True), s=12, color=ORANGE, zorder=3, label="one seed")
        axes.legend(frameon=False)
    if numbers:
        axes.set_xlabel(next(iter(points[0].settings)))
    else:
        axes.set_xticks([at[name] for name in order], order, rotation=40, ha="right")
    axes.set(ylabel=f"{metric} on validation" + (" (%)" if scale > 1 else ""))
    return figure


def _numbers(points: Sequence[Point]) -> dict[str, float]:
    """Where every setting stands on the axis, if there is one setting and it is a number; else nothing."""
    if len(points[0].settings) != 1:
        return {}
    try:
        return {point.name: float(next(iter(point.settings.values()))) for point in points}
    except ValueError:
        return {}


LOGGED = "weights/"


def draw_agreement(run: Path, to: Path) -> None:
    """Draw one measure against the other, with Spearman's correlation.

    Args:
        run: folder of a run that weighed its pairs.
        to: file to write.
    Raises:
        MissingError, DataError: the run left no scores, or not those of two measures.
    """
    measures = read_pair_scores(run).measures()
    if len(measures) != 2 or len({tuple(part) for part in measures.values()}) != 1:
        raise DataError(
            f"{run}: its scores are of {', '.join(measures) or 'nothing'}; agreement needs both measures"
            " of the same modalities"
        )
    # Υ of a pair joins its modalities, so the measures are compared by their mean over them
    names = sorted(measures, reverse=True)
    first, second = (sum(measures[one].values()) / len(measures[one]) for one in names)
    write(to, agreement, first, second, names, reference()["scores"]["spearman"])


def draw_gains(runs: Path, split: str, to: Path) -> None:
    """Draw the gain of either measure against the deviation of its scores, over data sets.

    Args:
        runs: folder of measured runs; those of a measure left their pair scores.
        split: of the results.
        to: file to write.
    Raises:
        DataError: no such runs.
    """
    own = _gains(runs, split)
    if not own:
        raise DataError(
            f"{runs}: no run of a measure and of PVSE on one data set ({split} split); train them and run"
            " 'limner measure' with --choices"
        )
    write(to, gain_against_deviation, [*own, *_published_gains()])


def _gains(runs: Path, split: str) -> list[Gain]:
    """A gain per data set, number of options and measure that was measured beside PVSE."""
    deviations: dict[tuple[str, str], list[float]] = {}
    for file in sorted(runs.glob(f"**/{SCORES_FILE}")):
        answered = sorted((file.parent / ChoiceResult.FOLDER).glob("*way.json"))
        scores = read_pair_scores(file.parent).measures() if answered else {}
        for measure, by_modality in scores.items():
            about = ChoiceResult.read(answered[0]).about
            if about.system == measure:
                spread = float(np.mean([values.std() for values in by_modality.values()]))
                deviations.setdefault((about.data, measure), []).append(spread)
    chosen = [r for r in ChoiceResult.read_all(runs) if (r.about.part, r.about.split) == ("test", split)]
    control = reference()["complementary-2"]["control"]
    found = []
    for one in questions_of(chosen):
        base = credits_of(one.runs(control), 2)
        for measure in reference()["measures"].values():
            own, known = credits_of(one.runs(measure), 2), deviations.get((one.data, measure))
            if base is not None and own is not None and known:
                gain = float(own.mean() - base.mean())
                found.append(Gain(f"{one.data} {one.c}-way", measure, float(np.mean(known)), gain))
    return found


def _published_gains() -> list[Gain]:
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
        for measure in reference()["measures"].values()
    ]


def logged(run: Path) -> list[dict[str, float]]:
    """Per epoch what was logged of the weights, without the common beginning of its names.

    Raises:
        MissingError, DataError: the folder holds no history of a run.
    """
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


NOTE = (
    "Training pairs in order of weight; of pairs with equal text and picture the first. The weight is what a"
    " pair would have if all training pairs were one batch, as a multiple of an even share; scores are mean"
    " cosines of its neighbourhood, before Γ."
)


def write_weighted_pairs(run: Path, to: Path, count: int) -> None:
    """Write the page of a run that weighed its pairs.

    Args:
        run: its folder.
        to: an .html file.
        count: pairs at either end, per measure.
    Raises:
        MissingError: the run left no scores.
        DataError: they are of other pairs than the data set holds now.
    """
    scores = read_pair_scores(run)
    config = Run.open(run).config
    texts, picture = open_pictures(run)
    absent = [name for name in scores.ids if name not in texts]
    if absent:
        raise DataError(
            f"{run}: its data set has no pair {absent[0]!r} any more ({len(absent)} of {len(scores.ids)});"
            " train the run again"
        )

    def groups() -> Iterator[Group]:
        for measure, sides in scores.measures().items():
            weights = shares(sides, config)
            # without pairs whose text and picture were there already
            different: dict[tuple[str, str], int] = {}
            for place in np.argsort(-weights, kind="stable").tolist():
                name = scores.ids[place]
                different.setdefault((texts[name], picture.identity(name)), place)
            order = list(different.values())
            for end, chosen in (("highest", order[:count]), ("lowest", order[::-1][:count])):
                found = []
                for place in chosen:
                    among = ", ".join(f"{side}s {values[place]:.3f}" for side, values in sides.items())
                    facts = (f"weight × {weights[place]:.3g}", f"among {among}".replace("-", "−"))
                    name = scores.ids[place]
                    found.append(Example(picture(name), texts[name], facts))
                yield Group(f"{measure}: {end} weights", found)

    named = Path(config.data.annotations).name or config.data.set
    title = f"{config.row or config.system} on {named}: pairs that weigh most and least"
    write_page(to, "examples", title, NOTE, groups=groups())


def shares(sides: Mapping[str, NDArray[np.float32]], config: Any) -> NDArray[np.float32]:  # noqa: ANN401
    """(n,) weights of one measure as multiples of an even share, by the run's Γ, mode and reading.

    Args:
        sides: scores of "image" and "text".
        config: of the run.
    Source: docs/methods/complementary.md §9.2; λ grows with n, so that the mean of a modality's weights is
    that of a batch.
    """
    own = config.weights
    parts = [torch.from_numpy(np.ascontiguousarray(sides[name], np.float32)) for name in ("image", "text")]
    if own.reading == "sound":
        parts = [z_scores(part) for part in parts]
    n = len(parts[0])
    weights = batch_weights(
        parts[0],
        parts[1],
        lam=own.lam * n / config.data.batch,
        gamma=own.gamma,
        mode=own.mode,
        reading=own.reading,
        tau=own.tau,
    )
    found: NDArray[np.float32] = (weights / weights.mean()).numpy()
    return found
