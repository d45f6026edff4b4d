import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from limner.arrays import scores, unit_rows
from limner.errors import NumericsError, ShapeError


def test_scores_against_loops():
    rng = np.random.default_rng(0)
    texts = unit_rows("t", rng.normal(size=(3, 5)).astype(np.float32))
    images = unit_rows("v", rng.normal(size=(4, 5)).astype(np.float32))
    table = scores(texts, images)
    for i, text in enumerate(texts):
        for j, image in enumerate(images):
            assert table[i, j] == pytest.approx(
                sum(float(a) * float(b) for a, b in zip(text, image, strict=True)), abs=1e-6
            )


@given(arrays(np.float32, (3, 4), elements=st.floats(-1e3, 1e3, width=32)))
def test_unit_rows_have_length_one_or_zero(vectors):
    lengths = np.linalg.norm(unit_rows("v", vectors), axis=1)
    zero = ~vectors.any(axis=1)
    assert np.all(lengths[zero] == 0)
    assert np.allclose(lengths[~zero], 1, atol=1e-3)


@pytest.mark.parametrize("size", [1e-44, 9.7e-23, 1e-16, 1.0, 1e16, 1e38])
def test_rows_whose_squares_leave_float32_have_length_one(size):
    lengths = np.linalg.norm(unit_rows("v", np.full((2, 4), size, np.float32)), axis=1)
    assert lengths == pytest.approx([1, 1], abs=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite_is_refused_by_row(bad):
    vectors = np.ones((3, 2), dtype=np.float32)
    vectors[1, 0] = bad
    with pytest.raises(NumericsError, match="row 1 of 3"):
        unit_rows("v", vectors)
    with pytest.raises(NumericsError, match="not finite"):
        scores(np.ones((1, 2), np.float32), vectors)


def test_widths_must_agree():
    with pytest.raises(ShapeError, match="axis D"):
        scores(np.ones((1, 2), np.float32), np.ones((1, 3), np.float32))
