"""Colours come out as a picture's profile means them, whatever its mode."""

import io

import numpy as np
import pillow_heif
import pytest
from PIL import Image, ImageCms

from limner.pictures.decode import decode

SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def swapped(tags=(b"rXYZ", b"bXYZ")):
    """A profile of sRGB whose red means blue, so that a missed conversion shows."""
    first, second = (SRGB.index(tag, 128) for tag in tags)
    profile = bytearray(SRGB)
    profile[first : first + 4], profile[second : second + 4] = tags[1], tags[0]
    return bytes(profile)


def saved(image, form="PNG", **how):
    file = io.BytesIO()
    image.save(file, form, **how)
    return file.getvalue()


def grey_profile():
    """A grey profile without gamma: level 188 of sRGB is level 128 here."""
    xyz = b"XYZ \0\0\0\0" + b"".join(int(v * 65536).to_bytes(4, "big") for v in (0.9642, 1.0, 0.8249))
    tags = {
        b"desc": b"desc\0\0\0\0\0\0\0\x05grey\0" + bytes(78),
        b"wtpt": xyz,
        b"kTRC": b"curv\0\0\0\0\0\0\0\0",
        b"cprt": b"text\0\0\0\0none\0",
    }
    body, table, place = b"", b"", 132 + 12 * len(tags)
    for name, told in tags.items():
        value = told + bytes(-len(told) % 4)
        table += name + (place + len(body)).to_bytes(4, "big") + len(value).to_bytes(4, "big")
        body += value
    size = (place + len(body)).to_bytes(4, "big")
    head = size + b"lcms\x02\x10\0\0mntrGRAYXYZ " + bytes(12) + b"acsp" + bytes(28)
    white = b"".join(int(v * 65536).to_bytes(4, "big") for v in (0.9642, 1.0, 0.8249))
    return (head + white).ljust(128, b"\0") + len(tags).to_bytes(4, "big") + table + body


def colour(data):
    return decode(data).rgb.getpixel((2, 2))


RED = (255, 0, 0)


@pytest.mark.parametrize(("mode", "form"), [("RGB", "PNG"), ("RGBA", "PNG"), ("P", "PNG"), ("RGB", "HEIF")])
def test_a_profile_of_colours_counts_in_every_mode(mode, form):
    pillow_heif.register_heif_opener()
    image = Image.new("RGB", (64, 64), RED).convert(mode)
    plain, meant = colour(saved(image, form)), colour(saved(image, form, icc_profile=swapped()))
    assert np.allclose(plain, RED, atol=4)
    assert meant[2] > 200
    assert meant[0] < 60


def test_what_is_seen_through_lies_on_white_whatever_the_profile():
    image = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    assert colour(saved(image, icc_profile=swapped())) == (255, 255, 255)


@pytest.mark.parametrize("mode", ["L", "LA", "I;16"])
def test_grey_without_gamma_is_made_lighter(mode):
    image = (
        Image.fromarray(np.full((8, 8), 128 * 257, np.uint16))
        if mode == "I;16"
        else Image.new("L", (8, 8), 128)
    )
    image = image.convert(mode) if mode == "LA" else image
    found = colour(saved(image, icc_profile=grey_profile()))
    assert len(set(found)) == 1
    assert abs(found[0] - 188) <= 2


@pytest.mark.parametrize("profile", [b"no profile", grey_profile(), SRGB[:200]])
def test_a_profile_that_does_not_fit_says_nothing(profile):
    assert colour(saved(Image.new("RGB", (8, 8), RED), icc_profile=profile)) == RED


@pytest.mark.parametrize(
    ("space", "index", "due"),
    [
        (0xFFFF, "R03", (255, 0, 0)),
        (2, None, (255, 0, 0)),
        (0xFFFF, None, (219, 0, 0)),
        (1, "R98", (219, 0, 0)),
    ],
    ids=["as cameras say", "as some programs say", "unknown", "sRGB"],
)
def test_adobe_rgb_stated_by_exif_alone(space, index, due):
    block = Image.Exif()
    block.get_ifd(0x8769)[0xA001] = space
    if index is not None:
        block.get_ifd(0x8769)[0xA005] = {1: index}
    found = colour(saved(Image.new("RGB", (8, 8), (219, 0, 0)), "JPEG", exif=block, quality=98))
    assert np.abs(np.subtract(found, due)).max() <= 4
