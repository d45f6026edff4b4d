"""Copies: the right size, way up, colours, and nothing of the camera's metadata."""

import io
import os
from pathlib import Path

import pytest
from exports import picture_of
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from limner.errors import DataError
from limner.pictures.thumbnails import MAX_SIDE_PX, fitted, locate, shrink
from limner.records import Area, Picture


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Picture]:
    """Name → picture; "turned" is stored lying (EXIF 6), and upright its red half is above."""
    folder = tmp_path_factory.mktemp("collection")
    lying = Image.new("RGB", (300, 200), "blue")
    lying.paste("red", (0, 0, 150, 200))
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "SECRET-DESCRIPTION"
    lying.save(folder / "turned.jpg", quality=95, exif=exif, comment=b"SECRET-COMMENT")
    Image.new("RGB", (40, 700), "orange").save(folder / "tall.png")
    Image.new("RGBA", (120, 90), (255, 0, 0, 0)).save(folder / "clear.png")
    Image.new("CMYK", (160, 120), (0, 255, 255, 0)).save(folder / "cmyk.jpg")
    return {path.stem: picture_of(path) for path in folder.iterdir()}


def pixels(copy) -> Image.Image:
    return Image.open(io.BytesIO(copy.data)).convert("RGB")


def record(picture: Picture, path: Path | str, **more: object) -> Picture:
    return picture.model_copy(update={"paths": (str(path),), **more})


@given(st.integers(1, 20_000), st.integers(1, 20_000), st.integers(1, 2_000_000))
def test_fitted_keeps_bounds_and_aspect(width: int, height: int, area: int) -> None:
    wide, high = fitted(width, height, area)
    assert 1 <= wide <= min(width, MAX_SIDE_PX)
    assert 1 <= high <= min(height, MAX_SIDE_PX)
    assert wide * high <= area or min(wide, high) == 1
    if min(wide, high) > 50:
        assert wide / high == pytest.approx(width / height, rel=0.03)


def test_a_crop_is_as_sharp_as_its_pixels_allow(pictures) -> None:
    part = Area(x=0.25, y=0.25, width=0.5, height=0.5)
    copy = shrink(pictures["turned"], "step 1", area_px=10**9, crop=part)
    assert (copy.width_px, copy.height_px) == (100, 150)
    small = shrink(pictures["turned"], "step 1", area_px=600, crop=part)
    assert (small.width_px, small.height_px) == (20, 30)
    dot = Area(x=0.99, y=0.99, width=0.01, height=0.01)
    assert shrink(pictures["tall"], "step 1", area_px=10**9, crop=dot).width_px >= 1


@pytest.mark.parametrize("kind", ["WEBP", "JPEG"])
def test_upright_and_without_metadata(pictures, kind: str) -> None:
    copy = shrink(pictures["turned"], "step 1", area_px=60_000, kind=kind)
    image = pixels(copy)
    assert image.size == (copy.width_px, copy.height_px) == (200, 300)
    red = image.getpixel((100, 10))
    assert red[0] > 200
    assert red[2] < 60
    raw = Image.open(io.BytesIO(copy.data))
    assert dict(raw.getexif()) == {}
    assert not set(raw.info) & {"exif", "comment", "icc_profile", "xmp"}
    assert b"SECRET" not in copy.data
    assert copy.uri.startswith(f"data:image/{kind.lower()};base64,")


@pytest.mark.parametrize(("name", "due"), [("clear", (255, 255, 255)), ("cmyk", (255, 0, 0))])
def test_transparent_is_white_and_cmyk_red_is_red(pictures, name: str, due: tuple[int, int, int]) -> None:
    pixel = pixels(shrink(pictures[name], "step 1", area_px=10_000)).getpixel((5, 5))
    assert pixel == pytest.approx(due, abs=80)


def test_a_file_that_holds_another_picture_is_refused(pictures, tmp_path: Path) -> None:
    Image.new("RGB", (9, 9)).save(tmp_path / "other.png")
    with pytest.raises(DataError, match=r"step 4: .*other\.png has changed since it was indexed"):
        shrink(record(pictures["cmyk"], tmp_path / "other.png"), "step 4", area_px=100)


def test_the_first_file_that_is_there(pictures, tmp_path: Path) -> None:
    there = pictures["cmyk"].path
    picture = pictures["cmyk"].model_copy(update={"paths": (str(tmp_path / "gone.jpg"), there)})
    assert locate(picture, "step 1") == Path(there)
    with pytest.raises(DataError, match=r"step 7: the picture .*gone\.jpg does not exist"):
        locate(record(picture, tmp_path / "gone.jpg"), "step 7")


def test_names_that_are_not_utf8(pictures, tmp_path: Path) -> None:
    name = b"caf\xe9.png"
    path = tmp_path / os.fsdecode(name)
    try:
        Image.new("RGB", (9, 9)).save(path)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    for shown in (name.decode("utf-8", "backslashreplace"), "caf\\udce9.png"):
        assert locate(record(pictures["cmyk"], tmp_path / shown), "step 1") == path
