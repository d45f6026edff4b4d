"""Open a picture file safely and hand out upright RGB pixels.

Whatever people have in their folders must either open as it should look or be refused with a reason:
sizes are checked before anything is decoded, and only regular files are ever opened, read-only.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL
from PIL import ExifTags, features
from PIL import Image as Pillow
from PIL.Image import DecompressionBombError, Image, Transpose

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
    """Any mode → RGB: alpha on white, deep grey scaled, not clipped."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return Pillow.fromarray(_deep_grey(np.asarray(image))).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        white = Pillow.new("RGBA", layer.size, (255, 255, 255, 255))
        return Pillow.alpha_composite(white, layer).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


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
MAX_FILE_BYTES = 2**30
FORMATS = re.findall(r"\w+", "JPEG PNG WEBP GIF TIFF AVIF BMP DIB JPEG2000 PPM ICO QOI PSD PCX")
"""Tried by content in this order. Formats that start another program (EPS, WMF) are not in it."""

_RAW_SUFFIXES = frozenset(b".dng .cr2 .cr3 .nef .arw .orf .rw2 .raf .pef .srw".split())
PICTURE_SUFFIXES = _RAW_SUFFIXES.union(
    b".jpg .jpeg .jpe .jfif .mpo .png .apng .webp .gif .tif .tiff .avif .avifs .bmp .dib .jp2 .j2k .jpx .jpf"
    b" .ppm .pgm .pbm .pnm .ico .qoi .psd .pcx .heic .heif .hif .svg .tga .jxl".split()
)


@dataclass(frozen=True)
class FileBytes:
    """A file as read once.

    Attributes:
        data: all its bytes.
        size: their number.
        mtime_ns: modification time at opening.
        sha256: 64 hex digits.
    """

    data: bytes
    size: int
    mtime_ns: int
    sha256: str


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


def display(path: bytes) -> str:
    """A path as text to show and store; bytes that are no UTF-8 are escaped."""
    return path.decode("utf-8", "backslashreplace")


def reader_version() -> str:
    """What decides which files open: Pillow's version and the codecs it was built with."""
    codecs = [name for name in ("avif", "webp", "jpg_2000", "libtiff") if features.check(name)]
    return " ".join((f"pillow-{PIL.__version__}", *codecs))


def read_file(path: bytes) -> FileBytes:
    """Read a regular file once, without ever waiting on a pipe or changing anything.

    Args:
        path: absolute path as the system has it.
    Raises:
        PictureError: not there, not permitted, not a regular file, empty, too large, or changing meanwhile.
    """
    # Without O_NONBLOCK, opening a pipe that took the file's place after the walk would wait for ever.
    if sys.platform == "win32":
        flags = os.O_RDONLY | os.O_BINARY
    else:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except OSError as error:
        raise PictureError(f"cannot be opened: {error.strerror or error}", lasting=False) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise PictureError(f"not a regular file but a {kind_of(status.st_mode)}", lasting=False)
        if status.st_size == 0:
            raise PictureError("the file is empty")
        if status.st_size > MAX_FILE_BYTES:
            raise PictureError(f"the file has {status.st_size} bytes; at most {MAX_FILE_BYTES} are read")
        with os.fdopen(os.dup(handle), "rb") as stream:
            data = stream.read(status.st_size + 1)
    except OSError as error:
        raise PictureError(f"cannot be read: {error.strerror or error}", lasting=False) from error
    finally:
        os.close(handle)
    if len(data) != status.st_size:
        raise PictureError("changed while it was read; index again", lasting=False)
    return FileBytes(data, status.st_size, status.st_mtime_ns, hashlib.sha256(data).hexdigest())


def kind_of(mode: int) -> str:
    """Plain word for the kind of a file that is not a regular one."""
    kinds = {"p": "pipe", "s": "socket", "c": "device", "b": "device", "d": "folder"}
    return kinds.get(stat.filemode(mode)[0], "special file")


def decode(data: bytes, side_px: int | None = None, suffix: str = "") -> Decoded:
    """Bytes → upright RGB, first frame, alpha on white, 16 bit scaled to 8.

    A JPEG is decoded at the smallest scale of 1, 1/2, 1/4, 1/8 that leaves its shorter side at twice
    `side_px` or more: several times faster, and the later resize hardly differs.

    Args:
        data: the whole file.
        side_px: shorter side the caller will resize to; None for full size.
        suffix: of the file name, lower case, to word the reason where nothing opens it.
    Raises:
        PictureError: not a picture, damaged, truncated, or larger than the limits.
    """
    if suffix.encode("utf-8", "replace") in _RAW_SUFFIXES:
        raise PictureError(f"camera raw files ({suffix}) are not read; export JPEG copies")
    try:
        image = _identify(data, suffix)
        width, height = image.size
        if width * height > MAX_HEADER_PIXELS:
            raise PictureError(f"{width} × {height} pixels; at most {MAX_HEADER_PIXELS} are accepted")
        if side_px is not None and image.format in ("JPEG", "MPO"):
            image.draft(None, (2 * side_px, 2 * side_px))
        if image.size[0] * image.size[1] > MAX_DECODED_PIXELS:
            raise PictureError(f"{width} × {height} pixels; at most {MAX_DECODED_PIXELS} can be decoded")
        image.load()
        turn = orientation(image)
        rgb = to_rgb(image)
    except PictureError:
        raise
    except MemoryError as error:
        raise PictureError("not enough memory to decode it", lasting=False) from error
    except DecompressionBombError as error:
        raise PictureError(f"too many pixels: {error}") from error
    # Decoders signal damage by nearly any exception (struct.error, SyntaxError, IndexError, zlib.error …).
    except Exception as error:
        text = str(error)
        what = "truncated" if "truncated" in text.lower() else "damaged"
        raise PictureError(f"{what} picture: {text or type(error).__name__}") from error
    if turn is not None:
        rgb = rgb.transpose(turn)
        if turn.name in ("ROTATE_90", "ROTATE_270", "TRANSPOSE", "TRANSVERSE"):
            width, height = height, width
    return Decoded(rgb, image, width, height, image.format or "")


def _identify(data: bytes, suffix: str) -> Image:
    """Open by content, as `PIL.Image.open` does, but with limits of our own.

    Pillow's function warns or raises by a global limit on the full size, which would refuse large
    photographs that are decoded at an eighth of it.
    """
    Pillow.init()
    for name in FORMATS:
        if name not in Pillow.OPEN:
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
    if data[4:8] == b"ftyp" or suffix in (".heic", ".heif", ".hif"):
        raise PictureError("HEIC is not read here; convert it to JPEG")
    if suffix in (".svg", ".tga", ".jxl"):
        raise PictureError(f"{suffix} files are not read; convert it to PNG or JPEG")
    raise PictureError("not a picture, or of an unknown format")


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


def noted() -> tuple[str, ...]:
    """Warnings kept in this thread since the last call, each once."""
    kept, _noted.lines = tuple(dict.fromkeys(_noted.lines)), []
    return kept
