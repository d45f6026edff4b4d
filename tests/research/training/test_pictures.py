"""Pictures of a batch: by id, decoded and cropped as the release does."""

import numpy as np
import pytest
from PIL import Image

from limner.encoders.framing import frame
from limner.errors import DataError, ShapeError
from limner.research.training.corpus import ArrayRows
from limner.research.training.framing import FileRows, TrainingFraming, crop, part


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
    found = crop(gradient(*size), at, 224)
    assert found.shape == (224, 224, 3)
    assert found[..., 0].mean() == pytest.approx(red, abs=2)
    assert found[..., 1].mean() == pytest.approx(127, abs=2)


def test_small_pictures_are_enlarged():
    assert crop(gradient(30, 50), (0.5, 0.5), 224).shape == (224, 224, 3)


def test_a_plain_resize_shows_all_of_a_picture_in_training_and_measuring():
    """CMCM's paper: 224 × 224, whatever the shape was."""
    wide = gradient(600, 200)
    framing = TrainingFraming(224, "none")
    found = framing.plain(wide)
    assert found.shape == (224, 224, 3)
    assert found[112, [0, -1], 0].tolist() == pytest.approx([0, 255], abs=2)  # from edge to edge
    np.testing.assert_array_equal(framing.drawn(wide, np.random.default_rng(0)), found)
    np.testing.assert_array_equal(found, frame(wide, 224, "squash"))  # as stored features see it


def test_half_of_the_pictures_are_mirrored_and_none_in_measuring():
    """T&K's flip: the red that grows to the right grows to the left, and nothing else changes."""
    wide, framing = gradient(600, 200), TrainingFraming(32, "none", flip=True)
    plain = framing.plain(wide)
    np.testing.assert_array_equal(plain, TrainingFraming(32).plain(wide))
    turned = 0
    for seed in range(200):
        found = framing.drawn(wide, np.random.default_rng(seed))
        mirrored = bool(found[0, 0, 0] > 128)
        np.testing.assert_array_equal(found, plain[:, ::-1] if mirrored else plain)
        turned += mirrored
    assert 70 < turned < 130  # 200 fair coins: 100 ± 7


def test_a_random_crop_is_a_window_of_the_resized_picture():
    """Its corner is drawn along the longer side alone; measuring takes the middle."""
    wide, framing = gradient(600, 200), TrainingFraming(100, "random")
    resized = np.asarray(wide.resize((300, 100), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(framing.plain(wide), resized[:, 100:200])
    lefts = set()
    for seed in range(60):
        found = framing.drawn(wide, np.random.default_rng(seed))
        (left,) = [x for x in range(201) if (resized[:, x : x + 100] == found).all()]
        lefts.add(left)
    assert len(lefts) > 40
    assert min(lefts) < 20
    assert max(lefts) > 180


def test_a_resized_part_has_the_stated_area_and_shape_and_lies_within():
    areas, shapes, centres = [], [], []
    for seed in range(400):
        left, top, right, bottom = part((640, 480), np.random.default_rng(seed))
        assert 0 <= left < right <= 640
        assert 0 <= top < bottom <= 480
        areas.append((right - left) * (bottom - top) / (640 * 480))
        shapes.append((right - left) / (bottom - top))
        centres.append((left + right) / 2)
    assert 0.079 < min(areas) < 0.12
    assert 0.8 < max(areas) <= 1
    assert 0.74 < min(shapes) < 0.8
    assert 1.25 < max(shapes) < 1.34
    assert np.mean(centres) == pytest.approx(320, abs=15)
    # of a strip nothing fits: the largest allowed shape in its middle
    assert part((1000, 30), np.random.default_rng(0)) == (480, 0, 520, 30)
    assert part((30, 1000), np.random.default_rng(0)) == (0, 480, 30, 520)


def test_a_resized_part_is_what_is_seen_of_a_picture():
    wide, framing = gradient(640, 480), TrainingFraming(64, "resized")
    left, top, right, bottom = part((640, 480), np.random.default_rng(5))
    found = framing.drawn(wide, np.random.default_rng(5))
    assert found.shape == (64, 64, 3)
    assert found[..., 0].mean() == pytest.approx((left + right) / 2 / 640 * 255, abs=2)
    assert found[..., 1].mean() == pytest.approx((top + bottom) / 2 / 480 * 255, abs=2)
    np.testing.assert_array_equal(framing.plain(wide), frame(wide, 64, "crop"))


@pytest.mark.parametrize("how", ["none", "random", "resized"])
def test_files_are_framed_by_seed_and_row_alone(tmp_path, how):
    path = tmp_path / "wide.png"
    gradient(600, 200).save(path)
    rows = FileRows({"w": path, "x": path}, TrainingFraming(48, how, flip=True))
    places = rows.places(["w", "x", "w"])
    measured = rows.take(places)
    assert measured.shape == (3, 48, 48, 3)
    assert measured.dtype == np.uint8
    np.testing.assert_array_equal(measured[0], measured[1])
    seeds = [(0, 0, 7), (0, 0, 1), (0, 1, 7)]
    drawn = rows.drawn(places, seeds)
    assert drawn.dtype == np.uint8
    for place, seed, found in zip(places, seeds, drawn, strict=True):
        np.testing.assert_array_equal(rows.drawn(places[:1] * 0 + place, [seed])[0], found)
    assert len({bytes(rows.drawn(places[:1], [(0, epoch, 7)])) for epoch in range(12)}) > 1


def test_a_broken_file_is_named(tmp_path):
    path = tmp_path / "broken.jpg"
    path.write_bytes(b"no picture")
    rows = FileRows({"b": path})
    with pytest.raises(DataError, match=r"broken\.jpg"):
        rows.take(rows.places(["b"]))
