"""HEIC and HEIF, as phones write them: upright, with their words, on white where transparent, and bounded."""

import io
from functools import partial

import pillow_heif
import pytest
from PIL import Image
from test_images import BLUE, RED, colours, halves, near

from limner.pictures import decode as images
from limner.pictures.decode import PictureError, decode, reader_version
from limner.pictures.metadata import embedded

XMP = b"""<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:description><rdf:Alt>
<rdf:li xml:lang="x-default">A kite over the dunes</rdf:li></rdf:Alt></dc:description></rdf:Description>
</rdf:RDF></x:xmpmeta>"""


def heic(image, **options):
    """A HEIC file of one picture, written by pillow-heif."""
    stream = io.BytesIO()
    pillow_heif.from_pillow(image).save(stream, quality=90, **options)
    return stream.getvalue()


@pytest.mark.parametrize("suffix", [".heic", ".HEIF", ".jpg", ""])
def test_it_opens_by_content_whatever_its_name(suffix):
    decoded = decode(heic(halves(size=(128, 64))), suffix=suffix)
    assert (decoded.format, decoded.rgb.mode) == ("HEIF", "RGB")
    assert decoded.rgb.size == (decoded.width_px, decoded.height_px) == (128, 64)
    left, right = colours(decoded.rgb)
    assert near(left, RED, 25)
    assert near(right, BLUE, 25)


@pytest.mark.parametrize("value", [1, 3, 6, 8])
def test_it_is_upright_once(value):
    turns = {3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}
    upright = halves(size=(128, 64))
    stored = upright.transpose(turns[value]) if value in turns else upright
    exif = Image.Exif()
    exif[0x0112] = value
    decoded = decode(heic(stored, exif=exif.tobytes()))
    assert decoded.rgb.size == (decoded.width_px, decoded.height_px) == (128, 64)
    left, right = colours(decoded.rgb)
    assert near(left, RED, 25)
    assert near(right, BLUE, 25)


def test_its_words_are_read():
    exif = Image.Exif()
    exif[0x010E], exif[0x013B] = "Grandma bakes bread", "Ida Sample"
    exif.get_ifd(0x8769)[0x9003] = "2019:07:21 14:03:55"
    words = embedded(decode(heic(halves(size=(64, 64)), exif=exif.tobytes(), xmp=XMP)).loaded)
    assert {one.text for one in words.captions} == {"Grandma bakes bread", "A kite over the dunes"}
    assert words.credit == "Ida Sample"
    assert (words.taken.year, words.warnings) == (2019, ())


def test_alpha_lies_on_white():
    image = halves(size=(128, 64)).convert("RGBA")
    image.paste((0, 0, 0, 0), (0, 0, 64, 64))
    left, right = colours(decode(heic(image)).rgb)
    assert near(left, (255, 255, 255), 6)
    assert near(right, BLUE, 25)


def test_the_main_picture_of_several_is_shown():
    several = pillow_heif.HeifFile()
    for colour in (BLUE, RED):
        several.add_from_pillow(Image.new("RGB", (64, 64), colour))
    stream = io.BytesIO()
    several.save(stream, primary_index=1)
    assert near(decode(stream.getvalue()).rgb.getpixel((32, 32)), RED, 25)


def test_a_neutral_brand_is_read_by_what_it_is_compatible_with():
    """`mif1` in front says neither HEVC nor AV1; both kinds of file carry it."""
    data = heic(halves(size=(64, 64)))
    assert data[4:8] == b"ftyp"
    assert decode(data[:8] + b"mif1" + data[12:]).format == "HEIF"
    stream = io.BytesIO()
    halves(size=(64, 64)).save(stream, "AVIF")
    avif = stream.getvalue()
    assert b"avif" in avif[16:48]
    assert decode(avif[:8] + b"mif1" + avif[12:]).format == "AVIF"


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
def test_a_damaged_file_is_refused(share):
    data = heic(Image.effect_noise((128, 128), 80).convert("RGB"))
    with pytest.raises(PictureError, match=r"damaged|truncated") as caught:
        decode(data[: int(len(data) * share)], suffix=".heic")
    assert caught.value.lasting


def test_a_film_with_the_name_of_a_picture_is_refused():
    with pytest.raises(PictureError, match="not a picture"):
        decode(b"\0\0\0\x18ftypisom\0\0\0\0isommp42" + b"\0" * 64, suffix=".heic")


@pytest.mark.parametrize("limit", ["MAX_HEADER_PIXELS", "MAX_DECODED_PIXELS"])
def test_sizes_are_checked_before_anything_is_decoded(limit, monkeypatch):
    data = heic(halves(size=(128, 64)))
    decode(data)  # which registers the reader
    monkeypatch.setattr(images, limit, 128 * 64 - 1)
    refuse = partial(pytest.fail, "decoded")
    monkeypatch.setattr("pillow_heif.as_plugin.HeifImageFile.load", lambda image: refuse())
    with pytest.raises(PictureError, match="128 × 64 pixels; at most"):
        decode(data)


def test_a_new_reader_makes_refused_files_be_tried_again(monkeypatch):
    assert f"pillow-heif-{pillow_heif.__version__}" in reader_version()
    before = reader_version()
    monkeypatch.setattr(images, "version", lambda name: "99")
    assert reader_version() != before
