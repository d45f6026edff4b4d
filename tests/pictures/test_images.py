"""Every kind of picture people have, and every kind of file that is none."""

import io
import os
import stat
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from limner.pictures import decode as images
from limner.pictures.decode import PictureError, decode, pillow_warnings, read_file, take_warnings

RED, BLUE = (200, 30, 30), (30, 30, 200)


def encoded(image, kind="PNG", **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def halves(left=RED, right=BLUE, size=(40, 20), mode="RGB"):
    image = Image.new(mode, size, left)
    image.paste(right, (size[0] // 2, 0, *size))
    return image


def colours(rgb):
    width, height = rgb.size
    return rgb.getpixel((width // 4, height // 2)), rgb.getpixel((3 * width // 4, height // 2))


def near(found, due, slack=12):
    return all(abs(one - other) <= slack for one, other in zip(found, due, strict=True))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP", "PPM", "AVIF", "JPEG2000"])
def test_formats_open_by_content(kind):
    decoded = decode(encoded(halves(), kind))
    assert decoded.rgb.mode == "RGB"
    assert decoded.rgb.size == (40, 20) == (decoded.width_px, decoded.height_px)
    assert decoded.format == kind
    assert near(colours(decoded.rgb)[0], RED, 25)


@pytest.mark.parametrize("value", range(1, 9))
def test_every_exif_orientation_is_made_upright(value):
    upright = halves()
    # What a camera stores is the inverse turn of the upright picture.
    inverse = {
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[value]
    stored = upright.transpose(inverse) if inverse is not None else upright
    exif = Image.Exif()
    exif[0x0112] = value
    decoded = decode(encoded(stored, "JPEG", exif=exif, quality=95))
    assert (decoded.width_px, decoded.height_px) == decoded.rgb.size == (40, 20)
    left, right = colours(decoded.rgb)
    assert near(left, RED, 25)
    assert near(right, BLUE, 25)


def test_damaged_exif_does_not_lose_the_picture():
    data = encoded(halves(), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff garbage")
    with pillow_warnings():
        assert near(colours(decode(data).rgb)[0], RED, 25)
        assert "Corrupt EXIF" in take_warnings()[0]
    assert take_warnings() == ()


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_cmyk(kind):
    decoded = decode(encoded(halves().convert("CMYK"), kind))
    left, right = colours(decoded.rgb)
    assert left[0] > 150 > left[2]
    assert right[2] > 150 > right[0]


def test_palette_and_palette_with_transparency():
    assert near(colours(decode(encoded(halves().convert("P"))).rgb)[0], RED, 40)
    paletted = halves().quantize(4)
    data = encoded(paletted, transparency=paletted.getpixel((5, 5)))
    left, right = colours(decode(data).rgb)
    assert left == (255, 255, 255)
    assert near(right, BLUE)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_lies_on_white(mode):
    grey = halves((100, 100, 100), (100, 100, 100)).convert(mode)
    grey.putalpha(halves(0, 255, mode="L"))
    left, right = colours(decode(encoded(grey)).rgb)
    assert left == (255, 255, 255)
    assert near(right, (100, 100, 100), 2)


def test_half_alpha_is_mixed_with_white():
    black = Image.new("RGBA", (8, 8), (0, 0, 0, 128))
    assert near(decode(encoded(black)).rgb.getpixel((4, 4)), (127, 127, 127), 1)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bit_grey_is_scaled_not_clipped(kind):
    ramp = np.array([[0, 257 * 64, 257 * 128, 65535]], dtype=np.uint16).repeat(4, axis=0)
    rgb = np.asarray(decode(encoded(Image.fromarray(ramp), kind)).rgb)
    assert rgb[0, :, 0].tolist() == [0, 64, 128, 255]


def test_sixteen_bit_colour():
    # Pillow writes no 16-bit RGB; the chunks are laid by hand.
    row = struct.pack(">6H", 65535, 0, 32768, 0, 65535, 257)
    head = struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(b"\0" + row)), (b"IEND", b"")]
    data = b"\x89PNG\r\n\x1a\n"
    for name, body in chunks:
        data += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    assert np.asarray(decode(data).rgb).tolist() == [[[255, 0, 128], [0, 255, 1]]]


@pytest.mark.parametrize(
    ("values", "due"),
    [
        ([0.0, 0.5, 1.0], [0, 128, 255]),
        ([0.0, 100.0, 255.0], [0, 100, 255]),
        ([-1.0, 0.0, 1.0], [0, 128, 255]),
    ],
)
def test_float_grey_takes_the_range_it_uses(values, due):
    image = Image.fromarray(np.array([values], dtype=np.float32))
    found = np.asarray(decode(encoded(image, "TIFF")).rgb)[0, :, 0]
    assert np.abs(found.astype(int) - due).max() <= 1


def test_a_pixel_that_is_no_number_is_refused():
    image = Image.fromarray(np.array([[np.nan, 1.0]], dtype=np.float32))
    with pytest.raises(PictureError, match="not a finite number"):
        decode(encoded(image, "TIFF"))


def test_one_bit():
    image = halves(0, 1, mode="1")
    assert colours(decode(encoded(image)).rgb) == ((0, 0, 0), (255, 255, 255))


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_frame_of_an_animation(kind):
    frames = [Image.new("RGB", (16, 16), colour) for colour in (RED, BLUE, (0, 0, 0))]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    assert near(decode(data).rgb.getpixel((8, 8)), RED, 20)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"])
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_a_truncated_file_is_refused(kind, share):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    data = encoded(noise, kind)
    with pytest.raises(PictureError) as caught:
        decode(data[: int(len(data) * share)])
    assert caught.value.lasting


@pytest.mark.parametrize(
    "data", [b"hello, I am a text", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\0" * 64]
)
def test_no_picture_is_refused(data):
    with pytest.raises(PictureError):
        decode(data)


@pytest.mark.parametrize(
    ("data", "suffix", "reason"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", ".svg", "svg"),
        (b"\xff\x0a" + b"\x07" * 20, ".jxl", "jxl"),
    ],
)
def test_what_is_not_read_says_what_to_do(data, suffix, reason):
    with pytest.raises(PictureError, match=reason) as caught:
        decode(data, suffix=suffix)
    assert "convert" in str(caught.value)


def png_header(width, height):
    body = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + body
    data += struct.pack(">I", zlib.crc32(b"IHDR" + body))
    idat = zlib.compress(b"\0" * 1000)
    return (
        data + struct.pack(">I", len(idat)) + b"IDAT" + idat + struct.pack(">I", zlib.crc32(b"IDAT" + idat))
    )


@pytest.mark.parametrize("side", [10_000, 60_000])
def test_a_bomb_is_refused_by_its_header(side, monkeypatch):
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda image: pytest.fail("decoded"))
    with pytest.raises(PictureError, match="pixels; at most"):
        decode(png_header(side, side), side_px=32)


def test_a_large_photograph_is_decoded_small(monkeypatch):
    monkeypatch.setattr(images, "MAX_DECODED_PIXELS", 200 * 200)
    data = encoded(halves(size=(800, 600)), "JPEG")
    decoded = decode(data, side_px=32)
    assert (decoded.width_px, decoded.height_px) == (800, 600)
    assert decoded.rgb.size == (100, 75)
    with pytest.raises(PictureError, match="can be decoded"):
        decode(data)


def test_scaled_decode_leaves_twice_the_side_and_changes_little():
    rng = np.random.default_rng(3)
    small = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
    data = encoded(small.resize((1600, 1200), Image.Resampling.BICUBIC), "JPEG", quality=90)
    scaled = decode(data, side_px=64).rgb
    assert min(scaled.size) >= 128
    assert min(scaled.size) < 4 * 128
    one, other = (np.asarray(image.resize((64, 64)), dtype=float) for image in (scaled, decode(data).rgb))
    assert np.abs(one - other).mean() < 2


def test_reading_gives_bytes_and_hash(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"abc")
    file = read_file(os.fsencode(path))
    assert (file.data, file.size) == (b"abc", 3)
    assert file.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert file.mtime_ns == path.stat().st_mtime_ns


def test_files_that_are_never_read(tmp_path, monkeypatch):
    pipe, folder, empty = tmp_path / "pipe.jpg", tmp_path / "folder.jpg", tmp_path / "empty.jpg"
    os.mkfifo(pipe)
    folder.mkdir()
    empty.touch()
    for path, reason, lasting in (
        (pipe, "pipe", False),
        (folder, "folder", False),
        (empty, "empty", True),
        (tmp_path / "gone.jpg", "No such file", False),
    ):
        with pytest.raises(PictureError, match=reason) as caught:
            read_file(os.fsencode(path))
        assert caught.value.lasting is lasting
    with pytest.raises(PictureError, match="device"):
        read_file(b"/dev/zero")
    monkeypatch.setattr(images, "MAX_FILE_BYTES", 2)
    (tmp_path / "large.jpg").write_bytes(b"abc")
    with pytest.raises(PictureError, match="at most 2"):
        read_file(os.fsencode(tmp_path / "large.jpg"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path):
    path = tmp_path / "secret.jpg"
    path.write_bytes(b"abc")
    path.chmod(0)
    with pytest.raises(PictureError, match="Permission denied"):
        read_file(os.fsencode(path))


def test_refused_permission_is_a_reason_and_is_tried_again(tmp_path, monkeypatch):
    path = os.fsencode(tmp_path / "secret.jpg")
    (tmp_path / "secret.jpg").write_bytes(b"abc")
    real = os.open

    def refuse(name, *rest):
        if name == path:
            raise PermissionError(13, "Permission denied", name)
        return real(name, *rest)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PictureError, match="Permission denied") as caught:
        read_file(path)
    assert not caught.value.lasting


def test_files_are_opened_read_only(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(encoded(halves()))
    seen = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda name, flags, *rest: seen.append(flags) or real(name, flags, *rest))
    read_file(os.fsencode(path))
    assert seen
    assert all(flags & os.O_ACCMODE == os.O_RDONLY for flags in seen)


def test_kinds_have_plain_names():
    assert images.kind_of(stat.S_IFSOCK) == "socket"
    assert images.kind_of(stat.S_IFBLK) == "device"


@pytest.mark.parametrize("progressive", [False, True])
def test_a_jpeg_that_lacks_only_its_end_is_read_with_a_note(progressive):
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 255, (90, 120, 3), dtype=np.uint8))
    whole = encoded(image, "JPEG", progressive=progressive)
    due = decode(whole).rgb.tobytes()
    take_warnings()
    assert decode(whole[:-2]).rgb.tobytes() == due
    assert take_warnings() == ("JPEG: its end marker is missing; the picture is whole",)
    with pytest.raises(PictureError, match="truncated"):
        decode(whole[:-200])


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_hole_of_zeros_in_a_jpeg_is_noted(mode):
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 255, (300, 300, 3), dtype=np.uint8)).convert(mode)
    whole = encoded(image, "JPEG", quality=95)
    take_warnings()
    decode(whole)
    assert take_warnings() == ()
    half = len(whole) // 2
    decode(whole[:half] + bytes(4096) + whole[half + 4096 :])
    (line,) = take_warnings()
    assert line.startswith("JPEG: a run of zeros where pixels should be")


@pytest.mark.parametrize(
    "after", [bytes(8192), b"\0\0\0\x18ftypmp42" + bytes(range(200)) * 50], ids=["zeros", "video"]
)
def test_what_follows_the_end_of_a_jpeg_is_no_damage(after):
    rng = np.random.default_rng(0)
    whole = encoded(Image.fromarray(rng.integers(0, 255, (90, 120, 3), dtype=np.uint8)), "JPEG")
    take_warnings()
    decode(whole + after)
    assert take_warnings() == ()


@pytest.mark.parametrize("how", [{"progressive": True}, {"optimize": True, "quality": 40}], ids=str)
def test_a_blank_part_of_a_picture_is_no_hole(how):
    """Its codes are zeros, and nothing else, for thousands of bytes."""
    data = encoded(Image.new("RGB", (2400, 2400), (255, 255, 255)), "JPEG", **how)
    assert bytes(2048) in data
    take_warnings()
    decode(data)
    assert take_warnings() == ()


def test_a_large_picture_within_the_limits_is_no_attack(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    take_warnings()
    with pillow_warnings():
        decode(encoded(halves(), "TIFF"))
    assert take_warnings() == ()


def test_a_kind_of_file_that_is_not_read_is_not_called_damaged():
    data = encoded(halves(), "JPEG")
    start = data.index(b"\xff\xc0") + 4
    with pytest.raises(PictureError, match=r"^of an unsupported kind \(cannot handle 12-bit layers\)"):
        decode(data[:start] + b"\x0c" + data[start + 1 :])


def scans_again(data, times):
    """A progressive JPEG whose last scan comes again and again."""
    start = data.rindex(b"\xff\xda")
    return data[:start] + data[start:-2] * times + data[-2:]


def test_a_jpeg_of_very_many_scans_is_refused_before_it_is_decoded(monkeypatch):
    image = Image.new("RGB", (400, 300), RED)
    data = scans_again(
        encoded(image, "JPEG", progressive=True, exif=b"Exif\0\0" + encoded(image, "JPEG")), 20
    )
    monkeypatch.setattr(images, "MAX_SCANNED_PIXELS", 400 * 300 * 40)
    assert decode(data).rgb.size == (400, 300)
    monkeypatch.setattr(images, "MAX_SCANNED_PIXELS", 400 * 300 * 20)
    with pytest.raises(PictureError, match=r"^120000 pixels in 2\d scans; at most 20 scans of so many "):
        decode(data)


def one_scan_for_each_colour(image):
    """A JPEG that is not progressive, and yet has several scans."""
    whole, grey = (encoded(image.convert(mode), "JPEG", subsampling=0) for mode in ("RGB", "L"))
    pixels = grey[grey.index(b"\xff\xda") + 10 : -2]
    scans = (b"\xff\xda\0\x08\1" + bytes((number, 0, 0, 63, 0)) + pixels for number in (1, 2, 3))
    return whole[: whole.index(b"\xff\xda")] + b"".join(scans) + b"\xff\xd9"


@pytest.mark.parametrize(
    "several",
    [lambda image: encoded(image, "JPEG", progressive=True), one_scan_for_each_colour],
    ids=["progressive", "colours"],
)
def test_a_jpeg_of_several_scans_is_bounded_by_its_full_size(several, monkeypatch):
    """It is held whole, at whatever scale it is decoded; another one is not."""
    monkeypatch.setattr(images, "MAX_DECODED_PIXELS", 400 * 300 - 1)
    image = Image.new("RGB", (400, 300), RED)
    assert decode(encoded(image, "JPEG"), 32).rgb.size == (100, 75)
    with pytest.raises(PictureError, match="400 × 300 pixels; at most 119999 can be decoded"):
        decode(several(image), 32)
