"""The classical descriptor: Lab against known colours, and what moves its cosine and what does not."""

import numpy as np
import pytest
from PIL import Image, ImageDraw

from limner.encoders.colour import ColourEncoder, to_lab
from limner.errors import ShapeError

ENCODER = ColourEncoder()


def vector(image):
    return ENCODER.encode_pixels(ENCODER.prepare(image)[None]).spaces["colour"][0]


def scene(sky=(120, 180, 240), ground=(90, 160, 70), shift=0):
    image = Image.new("RGB", (320, 240), sky)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 150, 320, 240), fill=ground)
    draw.ellipse((60 + shift, 90, 140 + shift, 190), fill=(200, 60, 40))
    draw.rectangle((200 + shift, 110, 250 + shift, 170), fill=(240, 220, 90))
    return image


@pytest.mark.parametrize(
    ("rgb", "lab"),
    [
        ((255, 255, 255), (100, 0, 0)),
        ((0, 0, 0), (0, 0, 0)),
        ((255, 0, 0), (53.24, 80.09, 67.20)),
        ((0, 255, 0), (87.73, -86.18, 83.18)),
        ((0, 0, 255), (32.30, 79.19, -107.86)),
        ((128, 128, 128), (53.59, 0, 0)),
    ],
)
def test_lab_of_known_colours(rgb, lab):
    np.testing.assert_allclose(to_lab(np.array([[rgb]], np.uint8))[0, 0], lab, atol=0.05)


def test_identical_pictures_have_cosine_one():
    first, second = vector(scene()), vector(scene())
    np.testing.assert_array_equal(first, second)
    assert first @ second == pytest.approx(1, abs=1e-6)
    assert first.shape == (ENCODER.spaces["colour"],)


def test_palette_moves_it_more_than_place():
    base = vector(scene())
    moved, dusk, night = (
        vector(scene(shift=6)),
        vector(scene(sky=(240, 150, 90))),
        vector(scene(sky=(10, 10, 40), ground=(20, 30, 20))),
    )
    assert base @ moved > 0.97
    assert base @ moved > base @ dusk > base @ night
    assert base @ night < 0.5


def test_size_of_the_picture_hardly_matters():
    assert vector(scene()) @ vector(scene().resize((1280, 960))) > 0.99


@pytest.mark.parametrize("level", [0, 118, 119, 255])
def test_a_flat_picture_has_a_unit_vector(level):
    flat = vector(Image.new("RGB", (50, 40), (level,) * 3))
    assert np.linalg.norm(flat) == pytest.approx(1, abs=1e-6)


def test_black_is_far_from_white_and_grey_lies_between():
    black, grey, white = (vector(Image.new("RGB", (50, 50), (level,) * 3)) for level in (0, 119, 255))
    assert black @ white < 0.05
    assert black @ white < black @ grey < 0.9


def test_edges_tell_stripes_apart():
    rows = np.zeros((64, 64, 3), np.uint8)
    rows[::8], rows[1::8], rows[2::8], rows[3::8] = 255, 255, 255, 255
    upright = vector(Image.fromarray(rows))
    turned = vector(Image.fromarray(rows.transpose(1, 0, 2).copy()))
    assert upright @ turned == pytest.approx(0.9, abs=0.02)


def test_layout_tells_top_from_bottom():
    image = scene()
    assert vector(image) @ vector(image.transpose(Image.Transpose.FLIP_TOP_BOTTOM)) < 0.98


def test_a_row_depends_on_its_picture_alone():
    pictures = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8)
    together = ENCODER.encode_pixels(pictures).spaces["colour"]
    np.testing.assert_allclose(
        ENCODER.encode_pixels(pictures[2:3]).spaces["colour"][0], together[2], atol=1e-6
    )


def test_another_shape_is_refused():
    with pytest.raises(ShapeError, match="expected uint8"):
        ENCODER.encode_pixels(np.zeros((1, 32, 64, 3), np.uint8))


def test_it_claims_no_labels_and_no_space_for_texts():
    found = ENCODER.encode_pixels(np.zeros((1, 64, 64, 3), np.uint8))
    assert (found.labels, set(found.spaces)) == ([], {"colour"})
