"""Attention maps hold the shares and texts they are given, and fit what they show."""

import numpy as np
import pytest

from limner.errors import DataError
from limner.research.paper.plots import Attended, attention_maps


def attended(steps, title="The Hare"):
    shares = np.random.default_rng(steps).dirichlet(np.ones(steps), steps)
    return Attended(
        title, [f"The hare took so many steps on its way home: {n}\u200b" for n in range(steps)], shares
    )


def test_a_map_holds_every_share_and_the_beginning_of_every_text():
    story = attended(4)
    axes, bar = attention_maps([story]).axes
    assert axes.images[0].get_array().tolist() == story.shares.tolist()
    assert [text.get_text() for text in axes.texts] == [f"{100 * s:.0f}" for s in story.shares.ravel()]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert [label[0] for label in labels] == list("1234")
    assert labels[0].replace("\n", " ").startswith("1  The hare took so many")
    assert all(label.count("\n") <= 1 and "\u200b" not in label for label in labels)
    assert axes.get_title(loc="left") == "The Hare"
    assert bar.get_ylabel() == "attention"


def test_stories_share_one_scale_and_one_size_of_cell():
    figure = attention_maps([attended(2), attended(20)])
    small, large, _ = figure.axes
    greatest = max(attended(2).shares.max(), attended(20).shares.max())
    assert small.images[0].get_clim() == large.images[0].get_clim() == (0, pytest.approx(greatest))
    assert not list(large.texts)  # too many to be read
    width, height = figure.get_size_inches()
    for axes, steps in ((small, 2), (large, 20)):
        box = axes.get_position()
        assert box.width * width / steps == pytest.approx(box.height * height / steps)
        assert 0 < box.x0 < box.x1 < 1
        assert 0 < box.y0 < box.y1 < 1
    assert large.get_position().width / small.get_position().width == pytest.approx(10)
    assert large.get_position().y1 < small.get_position().y0


@pytest.mark.slow
def test_all_that_is_written_lies_inside_the_picture():
    figure = attention_maps([attended(1), attended(30, "A title of a story " * 2)])
    figure.draw_without_rendering()
    inside = figure.bbox
    for axes in figure.axes:
        words = [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.xaxis.label, axes.yaxis.label]
        for text in words:
            box = text.get_window_extent()
            assert inside.x0 <= box.x0 <= box.x1 <= inside.x1, text
            assert inside.y0 <= box.y0 <= box.y1 <= inside.y1, text


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(DataError, match="no story"):
        attention_maps([])
    with pytest.raises(DataError, match="without steps"):
        attention_maps([Attended("x", [], np.zeros((0, 0)))])
