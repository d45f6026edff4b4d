"""The figures of CMCM that show numbers from result files: curves, scatter and bars, as files to print.

Each draws what it is given and returns the figure; a point without a result is not drawn. It measures nothing
and opens no model. matplotlib is loaded when the first figure is drawn, without a window.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from limner.errors import ConfigError, DataError, MissingError
from limner.evaluation.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours: told apart with any colour vision, and in grey.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#777777"
SUFFIXES = (".pdf", ".png", ".svg")
_DPI = 200


def confidence_curves(strengths: Sequence[float] = (0.01, 0.1, 1.0)) -> "Figure":
    """η(x) = exp(λ |x − ½|) of one relation's probability x (Figure 3a).

    Args:
        strengths: λ of every curve.
    Source: SPEC 2.8.
    """
    figure, axes = _figure()
    x = np.linspace(0, 1, 201)
    for strength, style in zip(strengths, _styles(len(strengths)), strict=True):
        axes.plot(x, np.exp(strength * np.abs(x - 0.5)), label=f"λ = {strength:g}", **style)
    axes.set(xlabel="probability of the relation, x", ylabel="confidence η(x)", xlim=(0, 1))
    axes.legend(frameon=False)
    return figure


def rank_against_gap(ranks: NDArray[np.float64], gaps: NDArray[np.float64], threshold: float) -> "Figure":
    """True rank of every query against the gap between its two best scores (Figure 3b).

    Args:
        ranks: (N,) of validation queries.
        gaps: (N,) at least 0.
        threshold: below it a query counts as difficult; infinity makes all of them difficult.
    Raises:
        DataError: no queries, or lengths differ.
    """
    if not len(ranks) or len(ranks) != len(gaps):
        raise DataError(
            f"figure: {len(ranks)} ranks and {len(gaps)} gaps; expected as many, and at least one"
        )
    from matplotlib.ticker import FormatStrFormatter, NullFormatter

    figure, axes = _figure()
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


def refinement_bars(table: Table) -> "Figure":
    """Median ranks plain and refined, with intervals, and the published ones as rings (Figure 5).

    Systems of which there is neither a result nor a published figure are left out.

    Args:
        table: of retrieval, see `coherence_tables.build`.
    Raises:
        ConfigError: the table has no blocks plain and refined.
        DataError: no system has a median rank.
    """
    titles = [block.title for block in table.blocks]
    if titles[:2] != ["plain", "refined"]:
        raise ConfigError(f"figure: table {table.name} has blocks {titles}, expected plain and refined")
    width = len(table.blocks[0].columns)
    place = table.blocks[0].columns.index("MedR")
    rows = [
        row
        for row in table.rows
        if any(row.cells[place + width * k].value is not None for k in (0, 1))
        or any(row.cells[place + width * k].paper is not None for k in (0, 1))
    ]
    if not rows:
        raise DataError(f"figure: no system of {table.title} has a median rank; measure some runs first")
    figure, axes = _figure(width=max(5.0, 0.62 * len(rows) + 1.5))
    rings = False
    for number, (stage, colour) in enumerate((("plain", GREY), ("refined", BLUE))):
        at = np.arange(len(rows)) + 0.4 * number - 0.2
        cells = [row.cells[place + width * number] for row in rows]
        there = [(x, c.value, c.low, c.high) for x, c in zip(at, cells, strict=True) if c.value is not None]
        if there:
            x, value, low, high = (np.array(column, dtype=np.float64) for column in zip(*there, strict=True))
            spread = np.abs(np.stack([value - low, high - value]))
            axes.bar(x, value, 0.38, yerr=spread, color=colour, label=stage, error_kw={"linewidth": 0.8})
        printed = [(x, c.paper) for x, c in zip(at, cells, strict=True) if c.paper is not None]
        if printed:
            x, value = (np.array(column, dtype=np.float64) for column in zip(*printed, strict=True))
            label = None if rings else "the paper's"
            axes.scatter(x, value, facecolors="none", edgecolors=ORANGE, s=28, zorder=3, label=label)
            rings = True
    axes.set_xticks(np.arange(len(rows)), [row.name for row in rows], rotation=40, ha="right")
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set(ylabel="median rank", title=table.title)
    axes.title.set_fontsize(9)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    return figure


def setting_curve(
    name: str,
    measured: Sequence[tuple[float, float, float, float]],
    published: Sequence[Sequence[float]] = (),
) -> "Figure":
    """Median rank against a setting, ours and the published curve (Figure 8).

    Args:
        name: of the setting.
        measured: (setting, value, low, high), in any order.
        published: (setting, value, deviation).
    """
    figure, axes = _figure()
    settings = sorted({point[0] for point in measured} | {point[0] for point in published})
    if published:
        at = [settings.index(point[0]) for point in published]
        value, spread = [point[1] for point in published], [point[2] for point in published]
        axes.errorbar(at, value, spread, color=ORANGE, marker="o", mfc="none", label="the paper's")
    if measured:
        ordered = sorted(measured)
        at = [settings.index(point[0]) for point in ordered]
        middle = np.array([point[1] for point in ordered])
        sides = np.abs(np.array([[p[1] - p[2] for p in ordered], [p[3] - p[1] for p in ordered]]))
        axes.errorbar(at, middle, sides, color=BLUE, marker="s", label="limner, 95 % interval")
    axes.set_xticks(np.arange(len(settings)), [f"{setting:g}" for setting in settings])
    axes.set(xlabel=name, ylabel="median rank")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    return figure


def rank_against_entropy(points: Sequence[tuple[str, float, float, float, float]]) -> "Figure":
    """Median rank of every CMCM_c against the entropy of its relation c, with the line of least squares.

    Args:
        points: (relation, −p ln p of its prevalence p, median rank, low, high), in any order.
    Raises:
        DataError: no points.
    Source: SPEC 2.10, item 7.
    """
    if not points:
        raise DataError("figure: no system of a single relation was measured; train and measure a CMCM_c")
    figure, axes = _figure()
    entropy, value, low, high = (np.array([p[n] for p in points], dtype=np.float64) for n in range(1, 5))
    spread = np.abs(np.stack([value - low, high - value]))
    axes.errorbar(entropy, value, spread, color=BLUE, marker="o", linestyle="none", elinewidth=0.8)
    for place, (name, *_) in enumerate(points):
        left = entropy[place] > (entropy.min() + entropy.max()) / 2  # towards the middle, so that none is cut
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


def write(path: Path, make: Callable[..., "Figure"], *arguments: Any, **options: Any) -> None:  # noqa: ANN401
    """Draw a figure in one style, whatever the user's settings of matplotlib are, and write it.

    Args:
        path: PDF, PNG or SVG by its suffix; the same figure is the same file.
        make: one of the functions here.
        arguments: of it.
        options: of it.
    Raises:
        ConfigError: another suffix.
        MissingError: the folder is not there.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(
            f"figure: {path.name} ends in {path.suffix!r}, expected one of {', '.join(SUFFIXES)}"
        )
    if not path.parent.is_dir():
        raise MissingError(f"figure: {path.parent} is not a folder; make it first")
    import matplotlib

    dated = {".pdf": "CreationDate", ".svg": "Date"}.get(path.suffix.lower())
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rc("font", family="DejaVu Sans", size=9)
        matplotlib.rc("svg", fonttype="none", hashsalt="limner")
        matplotlib.rc("text", parse_math=False)  # a caption may hold dollar signs
        make(*arguments, **options).savefig(path, dpi=_DPI, metadata={dated: None} if dated else None)


def _figure(width: float = 5.0) -> "tuple[Figure, Any]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 3.3), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _styles(count: int) -> list[dict[str, Any]]:
    colours, lines = (BLUE, ORANGE, GREEN, GREY), ("-", "--", "-.", ":")
    return [{"color": colours[n % len(colours)], "linestyle": lines[n % len(lines)]} for n in range(count)]
