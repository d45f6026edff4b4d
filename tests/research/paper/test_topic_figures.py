"""Planes agree with an eigendecomposition, distances with hand values, and the path with both."""

import numpy as np
import pytest

from limner.errors import DataError
from limner.research.paper.topic import NUMBERED_STEPS, moved, plane, topic_path


def cloud(count=40, width=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, width)) * np.array([5, 3, 1, 0.5, 0.1])[:width] + 7


def test_distances_begin_at_zero():
    assert moved(np.array([[3.0, 4.0], [3.0, 4.0], [0.0, 0.0]])).tolist() == [5, 0, 5]
    latents = cloud()
    before, due = np.zeros(5), []
    for row in latents:
        due.append(sum((a - b) ** 2 for a, b in zip(row, before, strict=True)) ** 0.5)
        before = row
    np.testing.assert_allclose(moved(latents), due)


def test_the_plane_is_that_of_the_two_greatest_eigenvalues_of_the_background():
    background, own = cloud(), cloud(4, seed=1)
    found = plane(background, own)
    mean = background.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(background.T))
    np.testing.assert_allclose(found.shares, values[::-1][:2] / values.sum())
    for points, due in (
        (found.path, own),
        (found.background, background),
        (found.start[None], np.zeros((1, 5))),
    ):
        for axis in range(2):
            projected = (due - mean) @ vectors[:, -1 - axis]
            np.testing.assert_allclose(np.abs(points[:, axis]), np.abs(projected), atol=1e-9)
    # a plane has no distances greater than those in the whole space
    far = np.linalg.norm(np.diff(np.vstack([found.start, found.path]), axis=0), axis=1)
    assert (far <= moved(own) + 1e-9).all()


def test_the_path_does_not_decide_the_plane():
    background = cloud()
    one, other = plane(background, cloud(3, seed=1)), plane(background, 100 * cloud(3, seed=2))
    np.testing.assert_array_equal(one.background, other.background)


def test_every_step_is_drawn_where_it_lies_and_numbered():
    one = plane(cloud(), cloud(4, seed=1))
    figure = topic_path(one)
    (axes,) = figure.axes
    lines = [np.column_stack(line.get_data()) for line in axes.lines]
    np.testing.assert_array_equal(lines[0], one.background)
    np.testing.assert_array_equal(lines[1], one.start[None])
    np.testing.assert_array_equal(np.concatenate(lines[2:]), one.path)
    numbers = [text for text in axes.texts if text.get_text()]
    assert [text.get_text() for text in numbers] == list("1234")
    np.testing.assert_array_equal([text.xy for text in numbers], one.path)
    arrows = [text for text in axes.texts if text.arrow_patch is not None]
    np.testing.assert_array_equal([text.xy for text in arrows], one.path)
    np.testing.assert_array_equal([text.xyann for text in arrows], np.vstack([one.start, one.path[:-1]]))
    assert axes.get_xlabel() == f"first component: {100 * one.shares[0]:.0f} % of the variance"
    assert axes.get_ylabel() == f"second component: {100 * one.shares[1]:.0f} % of the variance"
    assert axes.get_aspect() == 1


def test_of_many_steps_every_fifth_is_numbered():
    count = NUMBERED_STEPS + 8
    (axes,) = topic_path(plane(cloud(), cloud(count, seed=1))).axes
    numbers = [text.get_text() for text in axes.texts if text.get_text()]
    assert numbers == ["1", "5", "10", "15", "20", "25", "30", "32"]
    assert len(axes.lines) == 2 + count


def test_what_spans_no_plane_is_refused():
    with pytest.raises(DataError, match="40 latents without spread"):
        plane(np.ones((40, 3)), np.ones((2, 3)))
    with pytest.raises(DataError, match="1 latents"):
        plane(np.ones((1, 3)), np.ones((2, 3)))
