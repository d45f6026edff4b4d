"""Figures show the figures they are given: read back from what was drawn, and written the same twice."""

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from PIL import Image

from limner.errors import ConfigError, DataError, MissingError
from limner.research.paper import plots
from limner.research.paper.table import Cell, ColumnBlock, Row, Table


def table(value=4.0):
    blocks = tuple(ColumnBlock(title=title, columns=("MedR", "R@1")) for title in ("plain", "refined"))
    gap = Cell(kind="rank", paper=4.2, release=4.95)  # as of Q3 on CITE++
    return Table(
        name="cmcm-5",
        title="$ not a formula $",
        corner="model",
        blocks=blocks,
        rows=(
            Row(name="Base", cells=(Cell(value=value, low=3, high=6, paper=5.0), Cell(), gap, Cell())),
            Row(name="CMCM", cells=(gap, Cell(), Cell(value=2.0, low=1, high=2.5), Cell())),
        ),
    )


def test_confidence_curves_have_their_value_and_bounds():
    axes = plots.confidence_curves().axes[0]
    for line, strength in zip(axes.lines, (0.01, 0.1, 1.0), strict=True):
        x, y = line.get_data()
        assert y == pytest.approx([np.exp(strength * abs(v - 0.5)) for v in x])
        assert (min(y), max(y)) == (1.0, pytest.approx(np.exp(strength / 2)))


def test_the_scatter_holds_every_query_and_the_threshold():
    ranks, gaps = np.array([1.0, 7.5, 3.0]), np.array([0.3, 0.0, 0.1])
    axes = plots.rank_against_gap(ranks, gaps, 0.1).axes[0]
    assert axes.collections[0].get_offsets().tolist() == [[0.3, 1.0], [0.0, 7.5], [0.1, 3.0]]
    assert list(axes.lines[0].get_xdata()) == [0.1, 0.1]
    assert [axes.yaxis.get_major_formatter()(value) for value in (1.0, 10.0)] == ["1", "10"]
    assert not plots.rank_against_gap(ranks, gaps, np.inf).axes[0].lines
    with pytest.raises(DataError, match="0 ranks"):
        plots.rank_against_gap(np.zeros(0), np.zeros(0), 0.1)


def named(points):
    """What a figure draws published values as: rings have edges alone."""
    return "cross" if len(points.get_facecolors()) else "ring"


def test_bars_are_the_medians_and_gaps_are_not_drawn():
    axes = plots.refinement_bars(table()).axes[0]
    assert [bar.get_height() for bar in axes.patches] == [4.0, 2.0]
    printed, recomputed = [
        [y for drawn in axes.collections if isinstance(drawn, PathCollection) and named(drawn) == source
         for _, y in drawn.get_offsets().tolist()]
        for source in ("ring", "cross")
    ]  # fmt: skip
    assert sorted(printed) == [4.2, 4.2, 5.0]
    assert recomputed == [4.95, 4.95]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["Base", "CMCM"]
    legend = sorted(text.get_text() for text in axes.get_legend().get_texts())
    assert legend == ["from the release's files", "plain", "printed in the paper", "refined"]
    with pytest.raises(ConfigError, match="expected plain and refined"):
        plots.refinement_bars(table().model_copy(update={"blocks": table().blocks[:1]}))


def test_curves_share_an_axis_of_settings():
    figure = plots.setting_curve("λ", [(1.0, 5, 4, 7), (0.0, 6, 5, 9)], [(0, 5.9, 1.4), (0.1, 4.5, 1.2)])
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "0.1", "1"]
    paper, own = (container[0] for container in axes.containers)
    assert (list(paper.get_xdata()), list(paper.get_ydata())) == ([0, 1], [5.9, 4.5])
    assert (list(own.get_xdata()), list(own.get_ydata())) == ([0, 2], [6, 5])
    assert plots.setting_curve("λ", [], []).axes[0].containers == []


@pytest.mark.slow
def test_entropy_has_a_point_per_relation_and_the_line_of_least_squares():
    points = [("Story", 0.1, 3.0, 2.0, 5.0), ("Meta", 0.3, 7.0, 6.0, 8.0), ("Action", 0.2, 5.0, 4.0, 6.0)]
    axes = plots.rank_against_entropy(points).axes[0]
    drawn = axes.containers[0][0]
    assert (list(drawn.get_xdata()), list(drawn.get_ydata())) == ([0.1, 0.3, 0.2], [3.0, 7.0, 5.0])
    assert sorted(text.get_text() for text in axes.texts) == ["Action", "Meta", "Story"]
    line = next(line for line in axes.lines if line.get_label() == "slope 20")
    assert list(line.get_xdata()) == [0.1, 0.3]
    assert list(line.get_ydata()) == pytest.approx([3.0, 7.0])
    assert plots.rank_against_entropy(points[:1]).axes[0].get_legend() is None
    with pytest.raises(DataError, match="no system with a single relation"):
        plots.rank_against_entropy([])


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".pdf", ".png", ".svg"])
def test_the_same_figure_is_the_same_file(tmp_path, suffix):
    import matplotlib

    before = dict(matplotlib.rcParams)
    for name in ("one", "two"):
        plots.write(tmp_path / f"{name}{suffix}", plots.refinement_bars, table())
    one, two = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert len(one) > 1000
    assert dict(matplotlib.rcParams) == before
    if suffix == ".png":
        picture = np.asarray(Image.open(tmp_path / "one.png").convert("L"))
        assert picture.std() > 5
    plots.write(tmp_path / f"three{suffix}", plots.refinement_bars, table(5.0))
    assert (tmp_path / f"three{suffix}").read_bytes() != one


def test_only_files_that_can_be_written_are_tried(tmp_path):
    with pytest.raises(ConfigError, match=r"ends in '\.gif', expected one of \.pdf, \.png, \.svg"):
        plots.write(tmp_path / "a.gif", plots.confidence_curves)
    with pytest.raises(MissingError, match="is not a folder"):
        plots.write(tmp_path / "none" / "a.png", plots.confidence_curves)
