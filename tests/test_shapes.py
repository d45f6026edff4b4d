import numpy as np
import pytest

from limner.arrays import expect
from limner.errors import ShapeError


def test_letters_are_shared_and_returned():
    assert expect("here", a=(np.zeros((2, 3)), "N D"), b=(np.zeros((4, 3)), "M D")) == {
        "N": 2,
        "M": 4,
        "D": 3,
    }


@pytest.mark.parametrize(
    ("shape_a", "shape_b", "match"),
    [((2, 3), (4, 5), "axis D is 5, expected 3"), ((2,), (4, 5), r"expected \(N, D\)")],
)
def test_a_misfit_names_the_array_and_the_axis(shape_a, shape_b, match):
    with pytest.raises(ShapeError, match=match):
        expect("here", a=(np.zeros(shape_a), "N D"), b=(np.zeros(shape_b), "M D"))


def test_a_number_fixes_a_size():
    expect("here", a=(np.zeros((2, 64)), "N 64"))
    with pytest.raises(ShapeError, match="expected 64"):
        expect("here", a=(np.zeros((2, 63)), "N 64"))
