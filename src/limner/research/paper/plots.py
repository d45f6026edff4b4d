"""Matplotlib figures: curves, scatter plots, bars, histograms, galleries and attention.

Each function returns a figure; points without a result are left out.
"""

import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from limner.errors import RESEARCH, ConfigError, DataError, MissingError, NumericsError, installed
from limner.files import write_bytes
from limner.research.paper.sweeps import Point, by_setting, kind_of
from limner.research.paper.table import Table

with installed("matplotlib", RESEARCH):
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter, NullFormatter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL.Image import Image


# Okabe and Ito's colours, distinguishable with any colour vision and in grey.
COLOURS = BLUE, ORANGE, GREEN, GREY = ("#0072B2", "#E69F00", "#009E73", "#777777")
SUFFIXES = (".pdf", ".png", ".svg")
_DPI = 200
_MOST_POINTS, _BINS = 5000, 40
_RING: Mapping[str, Any] = {"facecolors": "none", "edgecolors": ORANGE, "s": 28}
_CROSS: Mapping[str, Any] = {"color": GREEN, "marker": "x", "s": 22, "linewidths": 1}
Values = NDArray[np.float64]
Scores = NDArray[np.floating]


def confidence_curves() -> Figure:
    """η(x) = exp(λ |x − ½|) of one relation's probability x (Figure 3a).

    Source: CMCM 2022, Eq. 4; docs/methods/cmcm.md §4.1.
    """
    figure, (axes,) = panels()
    x = np.linspace(0, 1, 201)
    for strength, colour, line in ((0.01, BLUE, "-"), (0.1, ORANGE, "--"), (1.0, GREEN, "-.")):
        curve = np.exp(strength * np.abs(x - 0.5))
        axes.plot(x, curve, label=f"λ = {strength:g}", color=colour, linestyle=line)
    axes.set(xlabel="probability of the relation, x", ylabel="confidence η(x)", xlim=(0, 1))
    axes.legend(frameon=False)
    return figure


def rank_against_gap(ranks: NDArray[np.float64], gaps: NDArray[np.float64], threshold: float) -> Figure:
    """Scatter plot: rank of a query's true picture against the gap between its two best scores (Figure 3b).

    Args:
        ranks: (N,) ranks of validation queries.
        gaps: (N,) gaps, at least 0.
        threshold: gap below which a query is difficult; infinity makes all difficult.
    Raises:
        DataError: there are no queries, or the lengths differ.
    """
    if not len(ranks) or len(ranks) != len(gaps):
        raise DataError(
            f"figure: {len(ranks)} ranks and {len(gaps)} gaps; expected equal numbers of both, at least one"
        )
    figure, (axes,) = panels()
    axes.scatter(gaps, ranks, s=9, color=BLUE, alpha=0.5, linewidths=0)
    if np.isfinite(threshold):
        axes.axvline(threshold, color=ORANGE, linewidth=1.2)
        axes.annotate(
            f"T = {threshold:g}",
            (threshold, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -4),
            textcoords="offset points",
            va="top",
        )
    axes.set(xlabel="best score minus second best", ylabel="rank of the right picture", yscale="log")
    axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    return figure


def refinement_bars(table: Table) -> Figure:
    """Bars: median ranks before and after refinement, with intervals (Figure 5).

    Rings are the figures printed in the paper, crosses those recomputed from its release's files. Systems
    without a result or a published figure are left out.

    Args:
        table: table of retrieval, see `coherence_tables.build`.
    Raises:
        ConfigError: the table has no blocks "plain" and "refined".
        DataError: no system has a median rank.
    """
    titles = [block.title for block in table.blocks]
    if titles[:2] != ["plain", "refined"]:
        raise ConfigError(f"figure: table {table.name} has blocks {titles}, expected plain and refined")
    width = len(table.blocks[0].columns)
    place = table.blocks[0].columns.index("MedR")
    shown = {row.name: (row.cells[place], row.cells[place + width]) for row in table.rows}
    shown = {
        name: cells
        for name, cells in shown.items()
        if any((cell.value, cell.paper, cell.release) != (None, None, None) for cell in cells)
    }
    if not shown:
        raise DataError(f"figure: no system of {table.title} has a median rank; run 'limner measure' first")
    figure, (axes,) = panels(width=max(5.0, 0.62 * len(shown) + 1.5))
    labels = {"paper": "printed in the paper", "release": "from the release's files"}
    for number, (stage, colour) in enumerate((("plain", GREY), ("refined", BLUE))):
        cells = [(at + 0.4 * number - 0.2, both[number]) for at, both in enumerate(shown.values())]
        there = [(x, c.value, c.low, c.high) for x, c in cells if c.value is not None]
        if there:
            x, value, spread = _spread(there)
            axes.bar(x, value, 0.38, yerr=spread, color=colour, label=stage, error_kw={"linewidth": 0.8})
        known = {
            "paper": ([(x, c.paper) for x, c in cells if c.paper is not None], _RING),
            "release": ([(x, c.release) for x, c in cells if c.release is not None], _CROSS),
        }
        for source, (points, style) in known.items():
            if points:
                axes.scatter(*zip(*points, strict=True), label=labels.pop(source, None), zorder=3, **style)
    axes.set_xticks(np.arange(len(shown)), list(shown), rotation=40, ha="right")
    axes.set_xlim(-0.6, len(shown) - 0.4)
    axes.set(ylabel="median rank", title=table.title)
    axes.title.set_fontsize(9)
    _legend(axes)
    return figure


def setting_curve(
    name: str,
    measured: Sequence[tuple[float, float, float, float]],
    published: Sequence[Sequence[float]],
) -> Figure:
    """Curves: measured median rank against a setting, and that recomputed from the release (Figure 8).

    Args:
        name: name of the setting.
        measured: (setting, value, low, high), in any order.
        published: (setting, value, deviation).
    """
    figure, (axes,) = panels()
    settings = sorted({point[0] for point in measured} | {point[0] for point in published})
    if published:
        at = [settings.index(point[0]) for point in published]
        value, spread = [point[1] for point in published], [point[2] for point in published]
        axes.errorbar(
            at, value, spread, color=ORANGE, marker="o", mfc="none", label="recomputed from the release"
        )
    if measured:
        setting, middle, sides = _spread(sorted(measured))
        at = [settings.index(one) for one in setting]
        axes.errorbar(at, middle, sides, color=BLUE, marker="s", label="limner, 95 % interval")
    axes.set_xticks(np.arange(len(settings)), [f"{setting:g}" for setting in settings])
    axes.set(xlabel=name, ylabel="median rank")
    _legend(axes)
    return figure


def rank_against_entropy(points: Sequence[tuple[str, float, float, float, float]]) -> Figure:
    """Median rank of each CMCM_c against the entropy of its relation c, with a least-squares line.

    Args:
        points: (relation, −p ln p of its prevalence p, median rank, low, high), in any order.
    Raises:
        DataError: there are no points.
    Source: a notebook in the release of CMCM 2022; docs/methods/cmcm.md §6.
    """
    if not points:
        raise DataError("figure: no system with a single relation was measured; train and measure a CMCM_c")
    figure, (axes,) = panels()
    entropy, value, spread = _spread([point[1:] for point in points])
    axes.errorbar(entropy, value, spread, color=BLUE, marker="o", linestyle="none", elinewidth=0.8)
    for place, (name, *_) in enumerate(points):
        left = (
            entropy[place] > (entropy.min() + entropy.max()) / 2
        )  # towards the middle, so that labels are not cut off
        axes.annotate(
            name,
            (entropy[place], value[place]),
            xytext=(-5 if left else 5, 3),
            textcoords="offset points",
            ha="right" if left else "left",
            fontsize=7,
        )
    if len(set(entropy.tolist())) > 1:
        slope, start = np.polyfit(entropy, value, 1)
        ends = np.array([entropy.min(), entropy.max()])
        axes.plot(ends, start + slope * ends, color=ORANGE, linestyle="--", label=f"slope {slope:.3g}")
        axes.legend(frameon=False)
    axes.set(xlabel="entropy of the relation, −p ln p", ylabel="median rank of its CMCM_c")
    return figure


def write(path: Path, make: Callable[..., Figure], *arguments: Any) -> None:  # noqa: ANN401
    """Draw a figure and write it atomically.

    Args:
        path: PDF, PNG or SVG file; equal figures give equal files.
        make: a function of this module.
        arguments: its arguments.
    Raises:
        ConfigError: another suffix.
        MissingError: the folder does not exist.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(
            f"figure: {path.name} ends in {path.suffix!r}, expected one of {', '.join(SUFFIXES)}"
        )
    if not path.parent.is_dir():
        raise MissingError(f"figure: {path.parent} is not a folder; create it first")
    write_bytes(path, drawn(path.suffix.lower(), make, *arguments))


def drawn(suffix: str, make: Callable[..., Figure], *arguments: Any) -> bytes:  # noqa: ANN401
    """Render a figure as a file, independent of the user's matplotlib settings; see `write`."""
    dated = {".pdf": "CreationDate", ".svg": "Date"}.get(suffix)
    out = io.BytesIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rc("font", family="DejaVu Sans", size=9)
        matplotlib.rc("svg", fonttype="none", hashsalt="limner")
        matplotlib.rc("text", parse_math=False)  # captions may contain dollar signs
        metadata = {dated: None} if dated else None
        make(*arguments).savefig(out, format=suffix[1:], dpi=_DPI, metadata=metadata)
    return out.getvalue()


def _spread(points: Sequence[Sequence[float | None]]) -> tuple[Values, Values, Values]:
    """Split points (place, value, low, high) into (N,) places, (N,) values and (2, N) error bars."""
    place, value, low, high = np.array(points, dtype=np.float64).T
    return place, value, np.abs(np.stack([value - low, high - value]))


def _legend(axes: "Axes") -> None:
    """Add a legend if anything has a label."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)


def panels(count: int = 1, width: float = 5.0, height: float = 3.3) -> tuple[Figure, list[Any]]:
    """An empty figure with axes side by side.

    Args:
        count: number of axes.
        width: width of the figure, inches.
        height: height of the figure, inches.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(1, count, squeeze=False)[0])
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def feature_maps(spaces: Mapping[str, tuple[NDArray[np.floating], Sequence[str]]], most: int) -> Figure:
    """t-SNE maps of picture features, one panel per network.

    Only neighbourhoods are meaningful, not distances between groups or directions. The first stories have one
    colour each; all others are grey.

    Args:
        spaces: name of the network → (N, F) features of the pictures, N ≥ 2, and the story of each.
        most: number of coloured stories, at most ten.
    Source: VRSS 2020, Section 3.3, which mentions this comparison without a figure; docs/methods/vrss.md §7.
    """
    with installed("scikit-learn", RESEARCH):
        from sklearn.manifold import TSNE

    figure, places = panels(len(spaces), 4.2 * len(spaces), 4.2)
    for axes, (name, (features, stories)) in zip(places, spaces.items(), strict=True):
        near = min(30.0, (len(features) - 1) / 3)
        plane = TSNE(2, perplexity=near, init="pca", random_state=0).fit_transform(
            np.asarray(features, dtype=np.float32)
        )
        own = np.array([*map(list(dict.fromkeys(stories)).index, stories)])
        rest = own >= min(most, 10)
        axes.scatter(*plane[rest].T, s=6, color=GREY, alpha=0.5, linewidths=0)
        axes.scatter(*plane[~rest].T, s=14, c=own[~rest], cmap="tab10", vmin=0, vmax=9, linewidths=0)
        axes.set(title=_plain(name), xticks=[], yticks=[])
        axes.title.set_fontsize(8)
    return figure


def score_histograms(scores: Mapping[str, Mapping[str, Scores]]) -> Figure:
    """Histograms of scores: a panel per measure and an outline per modality, with mean and deviation.

    Args:
        scores: measure → modality → (n,) raw scores, before Γ.
    Raises:
        DataError: there is nothing to draw.
        NumericsError: a score is not finite.
    Source: docs/methods/complementary.md §9.2.
    """
    every = [values for part in scores.values() for values in part.values()]
    if not every or not all(len(values) for values in every):
        raise DataError("figure: no scores; train a system that weights pairs first")
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
    """Scatter plot of the pairs' two scores, with Spearman's correlation in the title.

    Args:
        first: (n,) scores of one measure.
        second: (n,) scores of the other, in the same order.
        names: names of the measures.
        published: the paper's correlation.
    Source: docs/methods/complementary.md §9.2.
    """
    correlation = spearman(first, second)
    figure, (axes,) = panels(1, 4.2, 3.6)
    step = max(1, len(first) // _MOST_POINTS)  # at regular intervals; more points would only enlarge the file
    axes.scatter(first[::step], second[::step], s=5, alpha=0.4, color=BLUE, linewidths=0)
    shown = "undefined" if np.isnan(correlation) else f"{correlation:.4f}"
    title = f"Spearman {shown} (the paper's {published:.4f}), n = {len(first)}"
    axes.set(xlabel=names[0], ylabel=names[1], title=title)
    axes.title.set_fontsize(9)
    return figure


def spearman(first: Scores, second: Scores) -> float:
    """Spearman's rank correlation, with mean ranks for ties; NaN if either is constant.

    Args:
        first: (n,) finite values, n ≥ 2.
        second: (n,) finite values.
    """
    with np.errstate(invalid="ignore"):  # constant input
        return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


@dataclass(frozen=True)
class Gain:
    """Gain of a measure's weights on one data set.

    Attributes:
        data: name of the data set.
        measure: DIVERSITY or DISCREPANCY.
        deviation: standard deviation of the raw scores over the training pairs.
        gain: c-way accuracy (mean of both directions) minus that of equal weights.
        published: whether it is from the paper.
    """

    data: str
    measure: str
    deviation: float
    gain: float
    published: bool = False


def gain_against_deviation(gains: Sequence[Gain]) -> Figure:
    """Scatter plot: gain of a measure against the deviation of its scores, per data set; rings: the paper's.

    Args:
        gains: measured and published gains.
    Raises:
        DataError: there is nothing to draw.
    Source: docs/methods/complementary.md §9.2.
    """
    if not gains:
        raise DataError("figure: no gains; use --choices to measure runs that stored pair scores")
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
    """Curves: spread, entropy and drift of the weights by epoch.

    Args:
        history: logged values of each epoch, name → value.
    Raises:
        DataError: nothing was logged.
    Source: docs/methods/complementary.md §6.1, §9.2.
    """
    names = list(dict.fromkeys(name for epoch in history for name in epoch))
    if not names:
        raise DataError("figure: the run logged no statistics of weights; train a system that weights pairs")
    figure, places = panels(len(names), 3.6 * len(names), 2.9)
    for axes, name in zip(places, names, strict=True):
        there = [(place, epoch[name]) for place, epoch in enumerate(history) if name in epoch]
        axes.plot(*zip(*there, strict=True), color=BLUE, marker="o", markersize=3)
        axes.set(xlabel="epoch", title=name)
        axes.title.set_fontsize(9)
        axes.xaxis.get_major_locator().set_params(integer=True)
    return figure


def sweep_picture(points: Sequence[Point], metric: str) -> Figure:
    """Points of a sweep: mean over seeds, with a dot per seed, against the numeric setting, or by name.

    Args:
        points: points of one sweep.
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
    """Position of each setting on the axis if exactly one setting is numeric; otherwise empty."""
    if len(points[0].settings) != 1:
        return {}
    try:
        return {point.name: float(next(iter(point.settings.values()))) for point in points}
    except ValueError:
        return {}


LINE_HEIGHT = 0.13  # height of a line of text above a row of pictures, in rows


@dataclass(frozen=True)
class GalleryRow:
    """One row of a gallery.

    Attributes:
        text: the query.
        relations: relations between the text and its own picture.
        truth: its own picture.
        answers: for each system its name, its best pictures in order, and the index of the true one (from 0;
            None if it is not among them).
    """

    text: str
    relations: Sequence[str]
    truth: "Image"
    answers: Sequence[tuple[str, Sequence["Image"], int | None]]


def attention_bars(systems: Mapping[str, Sequence[Sequence[tuple[str, float]]]]) -> Figure:
    """Bars: attention weights of the words of texts, by system (Figure 7).

    Args:
        systems: name → words of each text with their weights, which sum to 1; the same texts for all.
    Raises:
        DataError: there is no system or text, or a text has no words.
    """
    texts = next(iter(systems.values()), ())
    if not texts or not all(words for own in systems.values() for words in own):
        raise DataError("figure: a text without words has no attention weights; leave it out")
    heights = [0.24 * len(words) + 0.5 for words in texts]
    figure = Figure(figsize=(5.2 * len(systems), sum(heights)), layout="constrained")
    grid = figure.subplots(len(texts), len(systems), squeeze=False, gridspec_kw={"height_ratios": heights})
    for column, name in enumerate(systems if len(systems) > 1 else ()):
        grid[0, column].set_title(_plain(name), fontsize=9)
    every = ((row, column) for column in range(len(systems)) for row in range(len(texts)))
    for (row, column), words in zip(every, (one for own in systems.values() for one in own), strict=True):
        axes = grid[row, column]
        places = np.arange(len(words))
        axes.barh(places, [weight for _, weight in words], color=BLUE, height=0.72)
        # dotted line: uniform weights
        axes.axvline(1 / len(words), color=GREY, linewidth=0.8, linestyle=":")
        axes.set_yticks(places, [_plain(word) for word, _ in words])
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("attention (dotted: uniform)")
    return figure


def gallery(rows: Sequence[GalleryRow]) -> Figure:
    """Texts with their own picture and the best pictures of several systems; the true one is framed.

    The relations between text and picture are shown above in blue, as in the paper.

    Args:
        rows: rows with the same systems.
    Raises:
        DataError: there are no rows.
    Source: CMCM 2022, Figures 1, 6, 9 and 10; docs/methods/cmcm.md §6.
    """
    if not rows:
        raise DataError("figure: no text to show; name one, or measure a run first")
    columns = 1 + max((len(pictures) for row in rows for _, pictures, _ in row.answers), default=0)
    # The text has its own lines across all columns, and stays out of the layout, so that it widens none.
    width = max(4.5, 1.35 * columns)
    texts = [textwrap.wrap(_short(row.text), int(15 * width)) for row in rows]
    heights = [
        height
        for row, lines in zip(rows, texts, strict=True)
        for height in (LINE_HEIGHT * (len(lines) + bool(row.relations)), *[1.0] * len(row.answers))
    ]
    figure = Figure(figsize=(width, 1.3 * sum(heights)), layout="constrained")
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    line = 0
    for row, lines in zip(rows, texts, strict=True):
        head = figure.add_subplot(grid[line, :])
        head.set_axis_off()
        at: dict[str, Any] = {"fontsize": 7, "transform": head.transAxes, "in_layout": False}
        head.text(0, 0, "\n".join(lines), va="bottom", **at)
        if row.relations:
            head.text(0, 1, _plain(", ".join(row.relations)), color=BLUE, va="top", **at)
        for number, (system, pictures, right) in enumerate(row.answers, start=1):
            if number == 1:
                _draw(figure.add_subplot(grid[line + 1, 0]), row.truth, GREY, 1)
            for place, picture in enumerate(pictures):
                axes = figure.add_subplot(grid[line + number, place + 1])
                hit = right == place
                _draw(axes, picture, GREEN if hit else None, 3 if hit else 1)
                if place == 0:
                    axes.set_ylabel(_plain(system), fontsize=7)
        line += 1 + len(row.answers)
    return figure


def _draw(axes: "Axes", picture: "Image", colour: str | None, width: float) -> None:
    """A picture in a frame, or without one."""
    axes.imshow(np.asarray(picture.convert("RGB")))
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(visible=colour is not None, color=colour or GREY, linewidth=width)


def _short(text: str) -> str:
    cut = _plain(" ".join(text.split()))
    return cut if len(cut) <= 150 else cut[:149] + "…"


LABEL_CHARACTERS = 44
LABEL_LINES = 2
WRITTEN_STEPS = 12
_CELL_IN, _LABEL_IN, _BAR_IN, _BAR_HIGH_IN = 0.36, 2.9, 0.95, 1.6
_MARGIN_IN, _TITLE_IN, _SIZE = 0.9, 0.35, 7


@dataclass(frozen=True)
class Attended:
    """Attention of one story.

    Attributes:
        title: title, such as the story's name.
        steps: T texts.
        shares: (T, T) weights: rows are steps, columns the steps they attend to; rows sum to 1.
    """

    title: str
    steps: Sequence[str]
    shares: NDArray[np.floating]


def attention_maps(stories: Sequence[Attended]) -> Figure:
    """A heat map per story: rows are steps with their text, columns the steps they attend to.

    For stories of at most twelve steps, the cells also show the weights in per cent. All stories share one
    colour scale.

    Args:
        stories: at least one.
    Raises:
        DataError: there is no story, or a story has no steps.
    Source: docs/methods/vrss.md §7.
    """
    if not stories or not all(story.steps for story in stories):
        raise DataError("figure: no story, or one without steps; name a story with steps")
    # placed manually, because a layout engine would give stories cells of different size
    heights = [_CELL_IN * len(story.steps) + _MARGIN_IN for story in stories]
    most = max(len(story.steps) for story in stories)
    wide, high = _LABEL_IN + _CELL_IN * most + _BAR_IN, sum(heights)
    figure = Figure(figsize=(wide, high))
    darkest = max(float(story.shares.max()) for story in stories)
    top = high
    for story, height in zip(stories, heights, strict=True):
        side = _CELL_IN * len(story.steps)
        place = (_LABEL_IN / wide, (top - _TITLE_IN - side) / high, side / wide, side / high)
        _map(figure.add_axes(place), story, darkest)
        top -= height
    left = (_LABEL_IN + _CELL_IN * most + 0.15) / wide
    tall = min(_BAR_HIGH_IN, heights[0] - _MARGIN_IN)
    bar = figure.colorbar(
        figure.axes[0].images[0],
        cax=figure.add_axes((left, (high - _TITLE_IN - tall) / high, 0.12 / wide, tall / high)),
        format=lambda share, _: f"{100 * share:.0f} %",
    )
    bar.set_label("attention", fontsize=_SIZE)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=_SIZE)
    return figure


def _map(axes: "Axes", story: Attended, darkest: float) -> None:
    count = len(story.steps)
    axes.imshow(story.shares, cmap="Blues", vmin=0, vmax=darkest, aspect="equal")
    numbers = [str(step) for step in range(1, count + 1)]
    axes.set_xticks(np.arange(count), numbers, fontsize=_SIZE)
    labels = [f"{number}  {_label(text)}" for number, text in zip(numbers, story.steps, strict=True)]
    axes.set_yticks(np.arange(count), labels, fontsize=_SIZE)
    axes.tick_params(length=0)
    axes.set_title(_plain(story.title), fontsize=_SIZE + 1, loc="left")
    axes.set_xlabel("step attended to", fontsize=_SIZE)
    # white lines separate cells of similar colour
    axes.set_xticks(np.arange(count + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(count + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)
    if count > WRITTEN_STEPS:
        return
    for row in range(count):
        for column in range(count):
            share = float(story.shares[row, column])
            colour = "white" if share > darkest / 2 else "black"
            axes.text(
                column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=_SIZE - 1, color=colour
            )


def _label(text: str) -> str:
    """The beginning of a text, in a few lines."""
    return "\n".join(
        textwrap.wrap(
            _plain(" ".join(text.split())), LABEL_CHARACTERS, max_lines=LABEL_LINES, placeholder=" …"
        )
    )


def _plain(text: str) -> str:
    """Remove characters that cannot be drawn."""
    return "".join(c if c.isprintable() else "·" for c in text)
