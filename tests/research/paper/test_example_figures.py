"""Figures of examples show the words and pictures they are given, and mark the right ones."""

import pytest
from PIL import Image

from limner.errors import DataError
from limner.research.paper import plots


def test_attention_has_a_bar_per_word_in_order():
    words = [("the", 0.1), ("goat", 0.7), ("sleeps\u200b", 0.2)]
    axes = plots.attention_bars([words, [("one", 1.0)]]).axes
    assert [bar.get_width() for bar in axes[0].patches] == [0.1, 0.7, 0.2]
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["the", "goat", "sleeps·"]
    assert axes[0].yaxis_inverted()
    with pytest.raises(DataError, match="without words"):
        plots.attention_bars([words, []])


def test_a_gallery_frames_the_right_picture_and_no_other():
    red, blue = Image.new("RGB", (8, 8), "red"), Image.new("L", (4, 9), 100)
    row = plots.Shown("a goat " * 60, red, [("CMCM", [blue, red], 1), ("CMCA", [blue, blue], None)])
    figure = plots.gallery([row])
    widths = [axes.spines["left"].get_linewidth() for axes in figure.axes if axes.axison]
    assert widths == [1, 1, 3, 1, 1]
    assert len([axes for axes in figure.axes if axes.axison]) == 5
    assert figure.axes[0].texts[0].get_text().endswith("…")
    with pytest.raises(DataError, match="no text to show"):
        plots.gallery([])
