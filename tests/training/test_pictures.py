"""Pictures of a batch: by id, decoded and cropped as the release does."""

import numpy as np
import pytest
from PIL import Image

from limner.errors import DataError, ShapeError
from limner.training.corpus import ArrayRows, FileRows, crop


def gradient(width, height):
    """Red grows to the right, green downwards."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([x, y, np.zeros_like(x)], axis=2).astype(np.uint8))


def test_rows_by_id():
    rows = ArrayRows(["a", "b"], np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(rows.take(rows.places(["b", "a", "b"])), [[3, 4, 5], [0, 1, 2], [3, 4, 5]])
    with pytest.raises(DataError, match="'c' has no row"):
        rows.places(["a", "c"])
    with pytest.raises(ShapeError):
        ArrayRows(["a", "a"], np.zeros((2, 3)))
    with pytest.raises(ShapeError):
        ArrayRows(["a"], np.zeros((2, 3)))


@pytest.mark.parametrize(("size", "at", "red"), [((448, 224), (0, 0.5), 64), ((448, 224), (1, 0.5), 191)])
def test_a_crop_keeps_the_shorter_side_whole(size, at, red):
    found = crop(gradient(*size), at)
    assert found.shape == (224, 224, 3)
    assert found[..., 0].mean() == pytest.approx(red, abs=2)
    assert found[..., 1].mean() == pytest.approx(127, abs=2)


def test_small_pictures_are_enlarged():
    assert crop(gradient(30, 50), (0.5, 0.5)).shape == (224, 224, 3)


def test_files_are_centre_cropped_for_evaluation_and_anywhere_for_training(tmp_path):
    path = tmp_path / "wide.png"
    gradient(600, 200).save(path)
    rows = FileRows({"w": path})
    places = rows.places(["w", "w"])
    centre = rows.take(places)
    assert centre.shape == (2, 224, 224, 3)
    assert centre.dtype == np.uint8
    np.testing.assert_array_equal(centre[0], centre[1])
    assert centre[..., 0].mean() == pytest.approx(127, abs=2)
    drawn = rows.cropped(places, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, rows.cropped(places, np.random.default_rng(0)))
    assert abs(int(drawn[0, 0, 0, 0]) - int(drawn[1, 0, 0, 0])) > 3


def test_a_broken_file_is_named(tmp_path):
    path = tmp_path / "broken.jpg"
    path.write_bytes(b"no picture")
    rows = FileRows({"b": path})
    with pytest.raises(DataError, match=r"broken\.jpg"):
        rows.take(rows.places(["b"]))
