"""Camera raw files: the preview where it is large enough, else the sensor; words inside; clear refusals."""

import sys

import pytest
from raw_files import dng
from test_images import colours, halves, near

from limner.pictures import decode as images
from limner.pictures.decode import PictureError, decode
from limner.pictures.metadata import embedded
from limner.store.index import index

SENSOR = halves(size=(80, 40))
GREEN = (30, 160, 30)


@pytest.mark.parametrize(
    ("orientation", "size"), [(1, (80, 40)), (3, (80, 40)), (6, (40, 80)), (8, (40, 80))]
)
@pytest.mark.parametrize("preview", [None, SENSOR])
def test_both_ways_are_upright(orientation, size, preview):
    decoded = decode(dng(SENSOR, preview=preview, orientation=orientation), suffix=".dng")
    assert (decoded.format, decoded.rgb.mode) == ("RAW", "RGB")
    assert decoded.rgb.size == (decoded.width_px, decoded.height_px) == size
    ends = {1: (0, 0), 3: (-1, 0), 6: (0, 0), 8: (0, -1)}[orientation]
    place = tuple(5 if end == 0 else side - 5 for end, side in zip(ends, size, strict=True))
    red, _, blue = decoded.rgb.getpixel(place)
    assert red > 2 * blue, "the left of what the sensor saw is red"


def test_a_preview_that_is_large_enough_is_taken_and_a_small_one_is_not():
    small = halves(GREEN, GREEN, size=(40, 20))
    data = dng(SENSOR, preview=small)
    scaled = decode(data, side_px=10, suffix=".dng")
    assert (scaled.rgb.size, scaled.width_px, scaled.height_px) == ((40, 20), 80, 40)
    assert near(scaled.rgb.getpixel((5, 5)), GREEN, 25)
    for side in (11, None):
        red, green, _ = decode(data, side_px=side, suffix=".dng").rgb.getpixel((5, 5))
        assert red > 2 * green
    halved = decode(dng(SENSOR), side_px=10, suffix=".dng")
    assert (halved.rgb.size, halved.width_px) == ((40, 20), 80)


def test_its_words_are_read():
    for preview in (None, SENSOR):
        words = embedded(decode(dng(SENSOR, preview=preview), suffix=".dng").loaded)
        assert [one.text for one in words.captions] == ["A red boat"]
        assert words.warnings == ()


@pytest.mark.parametrize("data", [b"II*\0" + b"x" * 200, b"hello", dng(SENSOR)[:900]])
def test_a_damaged_file_is_refused(data):
    with pytest.raises(PictureError, match=r"camera raw file \(\.nef\)") as caught:
        decode(data, suffix=".nef")
    assert caught.value.lasting


@pytest.mark.parametrize("limit", ["MAX_HEADER_PIXELS", "MAX_DECODED_PIXELS"])
def test_sizes_are_checked_before_anything_is_decoded(limit, monkeypatch):
    monkeypatch.setattr(images, limit, 80 * 40 - 1)
    with pytest.raises(PictureError, match="80 × 40 pixels; at most"):
        decode(dng(SENSOR), suffix=".dng")


def test_without_the_extra_the_file_is_listed_with_what_to_install_and_read_once_it_is(tmp_path, monkeypatch):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "boat.dng").write_bytes(dng(SENSOR))
    SENSOR.save(folder / "other.png")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "rawpy", None)
        real = images.version
        without.setattr(images, "version", lambda name: "0" if name == "rawpy" else real(name))
        report = index([folder], tmp_path / "lib")
    assert (report.found, report.pictures, len(report.skipped)) == (2, 1, 1)
    assert report.skipped[0].reason == (
        "camera raw files (.dng) need rawpy, which is not installed; run: pip install 'limner[raw]'"
    )
    again = index([folder], tmp_path / "lib")
    assert (again.pictures, again.skipped) == (2, ())


def test_colours_are_those_of_the_scene():
    left, right = colours(decode(dng(SENSOR), suffix=".dng").rgb)
    assert left[0] > 150 > left[2]
    assert right[2] > 150 > right[0]
