"""Formats of pictures: which are tried, how content tells them, and how a picture becomes upright RGB.

What `limner.pictures.decode` and the reader of camera raw files share.
"""

from __future__ import annotations

import io
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import PIL
from PIL import ExifTags, ImageCms, features
from PIL import Image as Pillow
from PIL.Image import Image, Transpose

from limner.errors import DataError


class PictureError(DataError):
    """A file that cannot be used as a picture, and why.

    Attributes:
        lasting: True where the same bytes will always fail, so that there is no use in trying again.
    """

    def __init__(self, reason: str, *, lasting: bool = True) -> None:
        super().__init__(reason)
        self.lasting = lasting


_TURNS = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}


def orientation(image: Image) -> Transpose | None:
    """How to turn a picture upright by its EXIF orientation; None where it already is, or EXIF is damaged."""
    # Damaged EXIF raises nearly anything; it is reported with the other metadata and the picture kept.
    with suppress(Exception):
        return _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    return None


def to_rgb(image: Image) -> Image:
    """Any mode → RGB in sRGB: alpha on white, deep grey scaled, not clipped."""
    profile = image.info.get("icc_profile")
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        image = Pillow.fromarray(_deep_grey(np.asarray(image)))
    elif image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        grey = image.mode in ("LA", "La", "L")
        layer = image.convert("RGBA")
        rgb = _in_srgb(layer.getchannel("R") if grey else layer.convert("RGB"), profile)
        white = Pillow.new("RGB", layer.size, (255, 255, 255))
        return Pillow.composite(rgb, white, layer.getchannel("A"))
    elif image.mode in ("P", "1", "LAB", "HSV", "YCbCr"):
        image = image.convert("RGB")
    return _in_srgb(image, profile)


def _in_srgb(image: Image, profile: object) -> Image:
    """RGB, L or CMYK → RGB, the colours as a profile means them.

    Without a profile they are taken as those of sRGB, and so they are where it is damaged or of a kind of
    colours that the picture does not have.
    """
    transform = _transform(profile, image.mode) if isinstance(profile, bytes) and profile else None
    if transform is None:
        return image if image.mode == "RGB" else image.convert("RGB")
    mode, convert = transform
    found = convert.apply(image if image.mode == mode else image.convert(mode))
    found.info = dict(image.info)
    return found


@lru_cache(64)  # of a folder's pictures most have the same one
def _transform(profile: bytes, mode: str) -> tuple[str, ImageCms.ImageCmsTransform] | None:
    """Mode that a profile is of, and what leads from there to sRGB; None where it does not fit."""
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        own = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"}.get(source.profile.xcolor_space.strip(), "")
        if own not in {"RGB": ("RGB",), "L": ("L", "RGB"), "CMYK": ("CMYK",)}.get(mode, ()):
            return None
        target = ImageCms.createProfile("sRGB")
        # Several threads share it, which its cache of one pixel is not made for.
        flags = ImageCms.Flags.NOCACHE
        return own, ImageCms.buildTransform(source, target, own, "RGB", flags=flags)
    except (ImageCms.PyCMSError, OSError, ValueError):
        return None


def _deep_grey(values: np.typing.NDArray[np.generic]) -> np.typing.NDArray[np.uint8]:
    """Grey of more than 8 bits → 8 bits.

    Unsigned 16 bit maps 0…65535 to 0…255. Wider integers and floats state no range: 0…255, 0…65535 or 0…1
    is taken where all values lie in it, else their own minimum and maximum are.
    """
    wide = values.astype(np.float64)
    if not np.isfinite(wide).all():
        raise PictureError("a pixel is not a finite number")
    low, high = float(wide.min()), float(wide.max())
    if values.dtype.kind == "u" and values.dtype.itemsize == 2:
        low, high = 0.0, 65535.0
    elif low >= 0 and values.dtype.kind == "f" and high <= 1:
        low, high = 0.0, 1.0
    elif low >= 0 and high <= 65535:
        low, high = 0.0, 255.0 if high <= 255 else 65535.0
    return np.rint((wide - low) * (255.0 / max(high - low, 1e-12))).astype(np.uint8)


MAX_HEADER_PIXELS = 2**28
MAX_DECODED_PIXELS = 90_000_000
MAX_SCANNED_PIXELS = 2_000_000_000
"""Pixels times scans of a progressive JPEG, each of which goes over all pixels: some twenty seconds."""
FORMATS = re.findall(r"\w+", "JPEG PNG WEBP GIF TIFF AVIF HEIF BMP DIB JPEG2000 PPM ICO QOI PSD PCX")
"""Tried by content in this order. Formats that start another program (EPS, WMF) are not in it."""

RAW_SUFFIXES = frozenset(b".dng .cr2 .cr3 .nef .arw .orf .rw2 .raf .pef .srw".split())
PICTURE_SUFFIXES = RAW_SUFFIXES.union(
    b".jpg .jpeg .jpe .jfif .mpo .png .apng .webp .gif .tif .tiff .avif .avifs .bmp .dib .jp2 .j2k .jpx .jpf"
    b" .ppm .pgm .pbm .pnm .ico .qoi .psd .pcx .heic .heics .heif .heifs .hif .svg .tga .jxl".split()
)

VIDEO_SUFFIXES = frozenset(
    b".mp4 .m4v .mov .mkv .webm .avi .mpg .mpeg .wmv .3gp .3g2 .mts .m2ts .ogv .flv".split()
)


@dataclass(frozen=True)
class Decoded:
    """A decoded picture.

    Attributes:
        rgb: upright, mode RGB; for JPEG possibly scaled down (see `decode`).
        loaded: the picture as stored, loaded, with its metadata; not upright.
        width_px, height_px: upright full size.
        format: Pillow's format name.
    """

    rgb: Image
    loaded: Image
    width_px: int
    height_px: int
    format: str


def reader_version() -> str:
    """What decides which files open: Pillow's version, the codecs it was built with, and other readers."""
    codecs = [name for name in ("avif", "webp", "jpg_2000", "libtiff") if features.check(name)]
    others = []
    for name in ("pillow-heif", "rawpy", "av"):
        with suppress(PackageNotFoundError):
            others.append(f"{name}-{version(name)}")
    return " ".join((f"pillow-{PIL.__version__}", *codecs, *others))


def identify(data: bytes, suffix: str) -> Image:
    """Open by content, as `PIL.Image.open` does, but with limits of our own; nothing is decoded yet.

    Pillow's function warns or raises by a global limit on the full size, which would refuse large
    photographs that are decoded at an eighth of it.

    Args:
        data: the whole file.
        suffix: as of `decode`.
    Raises:
        PictureError: not a picture, or its header is damaged.
    """
    Pillow.init()
    brands = _brands(data)
    if brands and "HEIF" not in Pillow.OPEN:
        from pillow_heif import register_heif_opener

        register_heif_opener()
    # Both begin alike, and may name neither codec first.
    other = "HEIF" if brands & {b"avif", b"avis"} else "AVIF"
    for name in FORMATS:
        if name not in Pillow.OPEN or (brands and name == other):
            continue
        factory, accept = Pillow.OPEN[name]
        if accept is not None:
            accepted = accept(data[:16])
            if not accepted or isinstance(accepted, str):
                continue
        try:
            return factory(io.BytesIO(data), "")
        except (SyntaxError, IndexError, TypeError, KeyError, EOFError, ValueError) as error:
            raise PictureError(f"damaged {name} header: {error or type(error).__name__}") from error
    if suffix in (".svg", ".tga", ".jxl"):
        raise PictureError(f"{suffix} files are not read; convert it to PNG or JPEG")
    raise PictureError("not a picture, or of an unknown format")


def _brands(data: bytes) -> frozenset[bytes]:
    """What a file of the family of HEIF and AVIF says it can be read as; empty for any other file."""
    if data[4:8] != b"ftyp":
        return frozenset()
    box = data[8 : min(max(int.from_bytes(data[:4]), 12), 512)]
    return frozenset(box[at : at + 4] for at in range(0, len(box), 4) if at != 4)


class _Noted(threading.local):
    """Warnings kept in one thread."""

    def __init__(self) -> None:
        self.lines: list[str] = []


_noted = _Noted()


@contextmanager
def pillow_warnings() -> Iterator[None]:
    """Within, Pillow's warnings are kept for `noted` in place of being shown."""
    with warnings.catch_warnings():
        warnings.filterwarnings("always", module=r"PIL\b")
        shown = warnings.showwarning

        def keep(message: Warning | str, category: type[Warning], filename: str, *more: Any) -> None:  # noqa: ANN401
            if "PIL" in filename:
                _noted.lines.append(" ".join(str(message).split()))
            else:
                shown(message, category, filename, *more)

        warnings.showwarning = keep  # type: ignore[assignment]
        yield


def note(line: str) -> None:
    """Keep a line about the picture that this thread decodes for `noted`."""
    _noted.lines.append(line)


def noted() -> tuple[str, ...]:
    """Warnings kept in this thread since the last call, each once."""
    kept, _noted.lines = tuple(dict.fromkeys(_noted.lines)), []
    return kept
