"""Opens picture files safely and returns upright RGB pixels.

A file is either decoded correctly or refused with a reason. The content decides the format, sizes are checked
before decoding, and only regular files are opened, read-only. Of a camera raw file (extra ``raw``, LibRaw),
the embedded preview is used if it is large enough, else the sensor data.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import struct
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import PIL
from PIL import ExifTags, ImageCms, features
from PIL import Image as Pillow
from PIL.Image import DecompressionBombError, DecompressionBombWarning, Image, Transpose

from limner.errors import DataError, MissingError, installed
from limner.locations import address, answers, beginning

if TYPE_CHECKING:
    from limner.locations import Location


class PictureError(DataError):
    """A file that cannot be used as a picture, with the reason.

    Attributes:
        lasting: whether the same bytes will always fail, so that trying again is pointless.
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
    """How to turn a picture upright according to its EXIF orientation; None if it is upright or its EXIF is
    damaged.
    """
    # Damaged EXIF raises almost any error; it is reported with the other metadata, and the picture is kept.
    with suppress(Exception):
        return _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    return None


def to_rgb(image: Image) -> Image:
    """Any mode → RGB in sRGB: alpha on white, deep grey scaled, not clipped."""
    profile = image.info.get("icc_profile") or (_adobe_rgb() if _is_adobe_rgb(image) else None)
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        image = Pillow.fromarray(_deep_grey(np.asarray(image)))
    elif image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        grey = image.mode in ("LA", "La", "L")
        layer = image if image.mode == "RGBA" else image.convert("RGBA")
        rgb = _in_srgb(layer.getchannel("R") if grey else layer.convert("RGB"), profile)
        white = Pillow.new("RGB", layer.size, (255, 255, 255))
        white.paste(rgb, mask=layer.getchannel("A"))
        return white
    elif image.mode in ("P", "1", "LAB", "HSV", "YCbCr"):
        image = image.convert("RGB")
    return _in_srgb(image, profile)


def _in_srgb(image: Image, profile: object) -> Image:
    """Convert RGB, L or CMYK to RGB in sRGB by the picture's colour profile.

    Without a profile, or if it is damaged or for another colour model, the colours count as sRGB.
    """
    transform = _transform(profile, image.mode) if isinstance(profile, bytes) and profile else None
    if transform is None:
        return image if image.mode == "RGB" else image.convert("RGB")
    mode, convert = transform
    found = convert.apply(image if image.mode == mode else image.convert(mode))
    found.info = dict(image.info)
    return found


@lru_cache(64)  # most pictures of a folder have the same profile
def _transform(profile: bytes, mode: str) -> tuple[str, ImageCms.ImageCmsTransform] | None:
    """Mode of a profile, and its conversion to sRGB; None if it does not fit."""
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        own = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"}.get(source.profile.xcolor_space.strip(), "")
        if own not in {"RGB": ("RGB",), "L": ("L", "RGB"), "CMYK": ("CMYK",)}.get(mode, ()):
            return None
        target = ImageCms.createProfile("sRGB")
        # Several threads share it; its one-pixel cache is not thread-safe.
        flags = ImageCms.Flags.NOCACHE
        return own, ImageCms.buildTransform(source, target, own, "RGB", flags=flags)
    except (ImageCms.PyCMSError, OSError, ValueError):
        return None


def _is_adobe_rgb(image: Image) -> bool:
    """Whether EXIF states Adobe RGB, as cameras do instead of embedding a profile (DCF's optional colour
    space).
    """
    with suppress(Exception):  # as in `orientation`
        exif = image.getexif()
        stated = exif.get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.ColorSpace)
        index = exif.get_ifd(ExifTags.IFD.Interop).get(ExifTags.Interop.InteropIndex)
        return stated == 2 or (stated == 0xFFFF and str(index).startswith("R03"))
    return False


@lru_cache(1)
def _adobe_rgb() -> bytes:
    """Colour profile of Adobe RGB (1998): its primaries adapted to D50, and its gamma.

    Source: Adobe RGB (1998) Color Image Encoding, 4.3.2.1; ICC.1:2001-04, 6.
    """

    def numbers(*values: float) -> bytes:
        return struct.pack(">3i", *(round(65536 * value) for value in values))

    curve = b"curv" + struct.pack(">IIHH", 0, 1, 563, 0)  # 2.19921875, in 1/256
    primaries = {
        b"r": (0.60974, 0.31111, 0.01947),
        b"g": (0.20528, 0.62567, 0.06087),
        b"b": (0.14919, 0.06322, 0.74457),
    }
    tags = {name + b"TRC": curve for name in primaries}
    tags |= {name + b"XYZ": b"XYZ \0\0\0\0" + numbers(*primary) for name, primary in primaries.items()}
    place, table = 132 + 12 * len(tags), struct.pack(">I", len(tags))
    for name, data in tags.items():
        table += name + struct.pack(">II", place, len(data))
        place += len(data)
    kind = b"\x02\x10\0\0mntrRGB XYZ " + bytes(12) + b"acsp" + bytes(28)
    head = struct.pack(">I4x", place) + kind + numbers(0.9642, 1, 0.8249)
    return head.ljust(128, b"\0") + table + b"".join(tags.values())


def _deep_grey(values: np.typing.NDArray[np.generic]) -> np.typing.NDArray[np.uint8]:
    """Convert grey of more than 8 bits to 8 bits.

    Unsigned 16-bit values are mapped from 0…65535 to 0…255. Wider integers and floats state no range: the
    first of 0…255, 0…65535 and 0…1 that contains all values is used, or else their own minimum and maximum.
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
"""Maximum of pixels times scans of a progressive JPEG, each of which visits all pixels: about twenty seconds.
"""
FORMATS = re.findall(r"\w+", "JPEG PNG WEBP GIF TIFF AVIF HEIF BMP DIB JPEG2000 PPM ICO QOI PSD PCX")
"""Formats tried by content, in this order. Formats that start another program (EPS, WMF) are excluded."""

RAW_SUFFIXES = frozenset(b".dng .cr2 .cr3 .nef .arw .orf .rw2 .raf .pef .srw".split())
PICTURE_SUFFIXES = RAW_SUFFIXES.union(
    b".jpg .jpeg .jpe .jfif .mpo .png .apng .webp .gif .tif .tiff .avif .avifs .bmp .dib .jp2 .j2k .jpx .jpf"
    b" .ppm .pgm .pbm .pnm .ico .qoi .psd .pcx .heic .heics .heif .heifs .hif .svg .tga .jxl".split()
)
VIDEO_SUFFIXES = frozenset(
    b".mp4 .m4v .mov .mkv .webm .avi .mpg .mpeg .wmv .3gp .3g2 .mts .m2ts .ogv .flv".split()
)
LIST_SUFFIXES = frozenset((b".jsonl", b".csv", b".parquet"))
METADATA_NAMES = (b"metadata.jsonl", b"metadata.csv", b"metadata.parquet")
CAPTIONS_NAMES = (b"captions.jsonl", b"captions.csv")
TABLE_NAMES = METADATA_NAMES + CAPTIONS_NAMES
"""Tables that are read with their folder: the first of each kind that exists."""


@lru_cache(1024)  # requested several times in a row for the same name
def suffix_of(name: bytes) -> bytes:
    """Extension in lower case, with its dot."""
    return os.path.splitext(name)[1].lower()  # noqa: PTH122  (a file name need not be UTF-8)


def names_pictures(source: bytes) -> bool:
    """Whether a source is a folder, a URL, a picture, a video or a list of them, judging by its name."""
    named = suffix_of(source) in PICTURE_SUFFIXES | VIDEO_SUFFIXES | LIST_SUFFIXES
    return named or address(source) is not None or os.path.isdir(source)  # noqa: PTH112


@dataclass(frozen=True)
class Decoded:
    """A decoded picture.

    Attributes:
        rgb: upright, mode RGB; for JPEG possibly scaled down (see `decode`).
        loaded: the picture as stored, with its metadata; not upright.
        width_px, height_px: upright full size.
        format: Pillow's format name.
    """

    rgb: Image
    loaded: Image
    width_px: int
    height_px: int
    format: str


def reader_version() -> str:
    """Version of everything that decides which files open: Pillow, its codecs, and other readers."""
    codecs = [name for name in ("avif", "webp", "jpg_2000", "libtiff") if features.check(name)]
    others = []
    for name in ("pillow-heif", "rawpy", "av"):
        with suppress(PackageNotFoundError):
            others.append(f"{name}-{version(name)}")
    return " ".join((f"pillow-{PIL.__version__}", *codecs, *others))


def identify(data: bytes, suffix: str) -> Image:
    """Open a picture by its content, like `PIL.Image.open`, but with limner's limits; nothing is decoded yet.

    Pillow's function warns or raises by a global limit on the full size, which would refuse large photographs
    that are decoded at an eighth of it.

    Args:
        data: the whole file.
        suffix: see `decode`.
    Raises:
        PictureError: not a picture, or its header is damaged.
    """
    Pillow.init()
    brands = _brands(data)
    if brands and "HEIF" not in Pillow.OPEN:
        from pillow_heif import register_heif_opener

        register_heif_opener()
    # Both formats begin in the same way, and the codec is not always named first.
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
        except (SyntaxError, IndexError, TypeError, KeyError, EOFError, ValueError, OSError) as error:
            raise _refusal(error, f"damaged {name} header") from error
    if suffix in (".svg", ".tga", ".jxl"):
        raise PictureError(f"{suffix} files are not read; convert it to PNG or JPEG")
    raise PictureError("not a picture, or of an unknown format")


_UNKNOWN = re.compile(r"(?i)unknown|unsupported|not supported|cannot handle|not available|not implemented")


def _refusal(error: Exception, what: str) -> PictureError:
    """Convert an error of Pillow to one that says whether the file is damaged or of an unsupported kind."""
    text = " ".join(str(error).split()) or type(error).__name__
    if _UNKNOWN.search(text):
        return PictureError(f"of an unsupported kind ({text}); convert it to PNG or JPEG")
    if "requires a buffer" in text:  # of struct
        text = "it ends too early"
    return PictureError(f"{what}: {text}; copy the file again, or save it again")


def _brands(data: bytes) -> frozenset[bytes]:
    """Formats that a HEIF or AVIF file states; empty for any other file."""
    if data[4:8] != b"ftyp":
        return frozenset()
    box = data[8 : min(max(int.from_bytes(data[:4]), 12), 512)]
    return frozenset(box[at : at + 4] for at in range(0, len(box), 4) if at != 4)


class _Noted(threading.local):
    """Warnings collected per thread."""

    def __init__(self) -> None:
        self.lines: list[str] = []


_noted = _Noted()


@contextmanager
def pillow_warnings() -> Iterator[None]:
    """Context in which Pillow's warnings are collected for `take_warnings` instead of being shown."""
    with warnings.catch_warnings():
        warnings.filterwarnings("always", module=r"PIL\b")
        shown = warnings.showwarning

        def keep(message: Warning | str, category: type[Warning], filename: str, *more: Any) -> None:  # noqa: ANN401
            if category is DecompressionBombWarning:
                return  # limits are those of this module
            if "PIL" in filename:
                _noted.lines.append(" ".join(str(message).split()))
            else:
                shown(message, category, filename, *more)

        warnings.showwarning = keep  # type: ignore[assignment]
        yield


def add_warning(line: str) -> None:
    """Add a note on the picture that this thread decodes, for `take_warnings`."""
    _noted.lines.append(line)


def take_warnings() -> tuple[str, ...]:
    """Warnings of this thread since the last call, each once."""
    kept, _noted.lines = tuple(dict.fromkeys(_noted.lines)), []
    return kept


MAX_FILE_BYTES = 2**30


@dataclass(frozen=True)
class FileBytes:
    """Content of a file, read once.

    Attributes:
        data: all its bytes.
        size: number of bytes.
        mtime_ns: modification time at opening; −1 if unknown.
        sha256: 64 hex digits.
        stamp: see `stamp_of`, at opening; "" if unknown.
    """

    data: bytes
    size: int
    mtime_ns: int
    sha256: str
    stamp: str = ""


def stamp_of(status: os.stat_result) -> str:
    """16 digits of a file's inode and inode change time.

    Programs can set a file's size and modification time to earlier values, but not these. They also change
    when the content does not: with new permissions, or in a copy on another disk.
    """
    return hashlib.blake2b(f"{status.st_ctime_ns} {status.st_ino}".encode(), digest_size=8).hexdigest()


def read_file(path: bytes) -> FileBytes:
    """Read a regular file once, without ever blocking on a pipe or changing anything.

    Args:
        path: absolute path, or a URL on object storage, for which neither time nor stamp is known.
    Raises:
        PictureError: the file is missing, not permitted, not regular, empty, too large, or changing.
        MissingError: an object store does not respond.
    """
    place = address(path)
    if place is not None:
        return _object(place)
    with opened(path) as (stream, status):
        if status.st_size > MAX_FILE_BYTES:
            raise PictureError(f"the file has {status.st_size} bytes; at most {MAX_FILE_BYTES} are read")
        data = stream.read(status.st_size + 1)
    if len(data) != status.st_size:
        raise PictureError("changed while it was read; index again", lasting=False)
    digest = hashlib.sha256(data).hexdigest()
    return FileBytes(data, status.st_size, status.st_mtime_ns, digest, stamp_of(status))


def _object(place: Location) -> FileBytes:
    try:
        data = beginning(os.fsencode(str(place)), MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise PictureError("cannot be opened: no such object", lasting=False) from error
    except MissingError as error:
        if not answers(place):
            raise
        raise PictureError(f"cannot be read: {error}", lasting=False) from error
    if not data:
        raise PictureError("the file is empty")
    if len(data) > MAX_FILE_BYTES:
        raise PictureError(f"the file has more than {MAX_FILE_BYTES} bytes, the most that are read")
    return FileBytes(data, len(data), -1, hashlib.sha256(data).hexdigest())


@contextmanager
def opened(path: bytes) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Open a regular, non-empty file read-only; the file and its status.

    Args:
        path: absolute path.
    Raises:
        PictureError: the file is missing, not permitted, not regular or empty, or the block raises an error.
    """
    # Without O_NONBLOCK, opening a pipe that replaced the file after the walk would block for ever.
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
        with os.fdopen(os.dup(handle), "rb") as stream:
            yield stream, status
    except OSError as error:
        raise PictureError(f"cannot be read: {error.strerror or error}", lasting=False) from error
    finally:
        os.close(handle)


def kind_of(mode: int) -> str:
    """Name of a kind of file that is not a regular one."""
    kinds = {"p": "pipe", "s": "socket", "c": "device", "b": "device", "d": "folder"}
    return kinds.get(stat.filemode(mode)[0], "special file")


def decode(data: bytes, side_px: int | None = None, suffix: str = "") -> Decoded:
    """Decode bytes to upright RGB: first frame, transparency on white, 16 bits scaled to 8.

    A JPEG is decoded at the smallest scale of 1, 1/2, 1/4 and 1/8 at which its shorter side is at least twice
    `side_px`: several times faster, with hardly any difference after resizing. Camera raw files, recognised
    by their extension, are read by `develop`.

    Args:
        data: the whole file.
        side_px: shorter side to which the caller will resize; None for full size.
        suffix: extension of the file name in lower case, for error messages.
    Raises:
        PictureError: not a picture, damaged, truncated, or larger than the limits.
    """
    if suffix.encode("utf-8", "replace") in RAW_SUFFIXES:
        return develop(data, side_px, suffix)
    try:
        image = identify(data, suffix)
        jpeg = image.format in _JPEG
        scans, ended = _scans(data) if jpeg else ([], True)
        width, height = image.size
        if width * height > MAX_HEADER_PIXELS:
            raise PictureError(
                f"{width} × {height} pixels; at most {MAX_HEADER_PIXELS} are accepted; save a smaller copy"
            )
        # A JPEG with several scans is held in memory as a whole, at whatever scale it is decoded.
        scalable = jpeg and side_px is not None and len(scans) == 1
        if jpeg and side_px is not None:
            image.draft(None, (2 * side_px, 2 * side_px))
        pixels = image.size[0] * image.size[1] if scalable else width * height
        if pixels > MAX_DECODED_PIXELS:
            raise PictureError(
                f"{width} × {height} pixels; at most {MAX_DECODED_PIXELS} can be decoded; save a smaller copy"
            )
        if jpeg:
            _check_scans(data, scans, width * height)
            if not ended and _lacks_only_its_end(data, image):
                add_warning("JPEG: its end marker is missing; the picture is whole")
                image = _again(data + _END, image)
        image.load()
        turn = orientation(image)
        rgb = to_rgb(image)
    except PictureError:
        raise
    except MemoryError as error:
        raise PictureError("not enough memory to decode it", lasting=False) from error
    except DecompressionBombError as error:
        text = str(error).partition(",")[0]
        raise PictureError(f"too many pixels: {text}; save a smaller copy") from error
    # Decoders signal damage by nearly any exception (struct.error, SyntaxError, IndexError, zlib.error …).
    except Exception as error:
        what = "truncated" if "truncated" in str(error).lower() else "damaged"
        raise _refusal(error, f"{what} picture") from error
    if turn is not None:
        rgb = rgb.transpose(turn)
        if turn.name in ("ROTATE_90", "ROTATE_270", "TRANSPOSE", "TRANSVERSE"):
            width, height = height, width
    return Decoded(rgb, image, width, height, image.format or "")


_JPEG = ("JPEG", "MPO")
_END = b"\xff\xd9"
_FILLED = bytes(2048)
"""What a failing drive or an interrupted copy leaves instead of lost data."""


@dataclass(frozen=True)
class _Scan:
    """One scan of a JPEG.

    Attributes:
        start, end: of its compressed pixels.
        blank: whether a blank part of the picture may be a run of zeros in it.
    """

    start: int
    end: int
    blank: bool


def _check_scans(data: bytes, scans: Sequence[_Scan], pixels: int) -> None:
    """Warn of missing data in a JPEG, and refuse one whose scans would take minutes.

    Raises:
        PictureError: too many pixels times scans.
    """
    if any(data.find(_FILLED, scan.start, scan.end) >= 0 for scan in scans if not scan.blank):
        add_warning(
            "JPEG: a run of zeros where pixels should be; a part of it may be missing; copy the file again"
        )
    if len(scans) * pixels > MAX_SCANNED_PIXELS:
        raise PictureError(
            f"{pixels} pixels in {len(scans)} scans; at most {MAX_SCANNED_PIXELS // pixels} scans of so many"
            " are decoded; save it again as a JPEG that is not progressive"
        )


_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
"""A marker among compressed pixels, in which a byte 255 is followed by 0 or a restart number."""


def _scans(data: bytes) -> tuple[list[_Scan], bool]:
    """The scans of a JPEG, and whether it has an end marker.

    Pictures inside its other segments, such as a camera's preview, do not count, nor does what follows it,
    such as the video of a motion photo.
    """
    place, scans, zeros = 2, list[_Scan](), dict[int, bool]()
    while place + 4 <= len(data) and data[place] == 0xFF and data[place + 1] != _END[1]:
        marker, size = data[place + 1], int.from_bytes(data[place + 2 : place + 4])
        if marker == 0xFF:  # filling
            place += 1
            continue
        inside = data[place + 4 : place + 2 + size]
        place += 2 + size
        if marker == 0xC4:
            zeros.update(_zero_codes(inside))
        elif marker == 0xDA:
            following = _MARKER.search(data, place)
            end = following.start() if following else len(data)
            scans.append(_Scan(place, end, _may_be_zeros(inside, zeros)))
            place = end
    return scans, data[place : place + 2] == _END or _END in data[-4096:]


def _zero_codes(tables: bytes) -> Iterator[tuple[int, bool]]:
    """Numbers of the Huffman tables of a segment, and whether zeros alone mean that nothing changes."""
    while len(tables) > 17:
        yield tables[0], tables[17] == 0  # the first symbol has the code of zeros
        tables = tables[17 + sum(tables[1:17]) :]


def _may_be_zeros(scan: bytes, zeros: Mapping[int, bool]) -> bool:
    """Whether a blank part of a picture may be encoded as zeros in a scan. That is so in scans with only DC
    coefficients, and in scans with DC and AC coefficients if the codes of "same DC" and "end of block" are
    zeros.

    Args:
        scan: its header.
        zeros: as of `_zero_codes`; tables for details have 16 in their number.
    """
    *_, first, last, _ = b"\0\0\0" + scan
    whole = all(zeros.get(one >> 4, False) and zeros.get(16 | one & 15, False) for one in scan[2:-3:2])
    return first == 0 and (last == 0 or whole)


def _lacks_only_its_end(data: bytes, image: Image) -> bool:
    """Whether a JPEG lacks only its end marker, so that its pixels do not depend on the bytes that follow."""
    if _END in data[-4096:]:
        return False
    found = []
    for more in (b"", b"\x55\xaa\x33" * 20):
        whole = _again(data + more + _END, image)
        whole.load()
        found.append(whole.tobytes())
    return found[0] == found[1]


def _again(data: bytes, image: Image) -> Image:
    """Decode other bytes in the same way as a picture, at the same scale."""
    found = identify(data, ".jpg")
    found.draft(None, image.size)
    return found


RAW_FORMAT = "RAW"
"""Used instead of Pillow's format name."""
RAW_PREVIEW_SHARE = 0.9
"""Minimum side of a preview, as a share of the full side, to be used at full size."""
_RAW_FLIPS = {3: Transpose.ROTATE_180, 5: Transpose.ROTATE_90, 6: Transpose.ROTATE_270}
_RAW_XMP = 700


def develop(data: bytes, side_px: int | None, suffix: str) -> Decoded:
    """Develop a camera raw file as an upright picture with the file's own metadata.

    Args:
        data: the whole file.
        side_px: shorter side to which the caller will resize; None for full size.
        suffix: extension of the file name, for messages.
    Raises:
        PictureError: the extra is not installed, or the file is damaged, unknown or larger than the limits.
    """
    try:
        with installed(f"camera raw files ({suffix}) need rawpy, which", "'limner[raw]'"):
            import rawpy
    except MissingError as error:
        raise PictureError(str(error)) from error
    try:
        with rawpy.imread(io.BytesIO(data)) as raw:
            sizes = raw.sizes
            turned = sizes.flip in (5, 6)
            width, height = (sizes.height, sizes.width) if turned else (sizes.width, sizes.height)
            if width * height > MAX_HEADER_PIXELS:
                raise PictureError(f"{width} × {height} pixels; at most {MAX_HEADER_PIXELS} are accepted")
            due = RAW_PREVIEW_SHARE * min(width, height) if side_px is None else 2.0 * side_px
            image = next((one for one in _previews(raw) if min(one.size) >= due), None)
            if image is None:
                if sizes.raw_width * sizes.raw_height > MAX_DECODED_PIXELS:
                    raise PictureError(
                        f"{width} × {height} pixels; at most {MAX_DECODED_PIXELS} can be decoded"
                    )
                half = side_px is not None and min(width, height) // 2 >= due
                image = Pillow.fromarray(raw.postprocess(use_camera_wb=True, half_size=half))
    except PictureError:
        raise
    except MemoryError as error:
        raise PictureError("not enough memory to decode it", lasting=False) from error
    except rawpy.LibRawError as error:
        what = error.args[0] if error.args else type(error).__name__
        reason = what.decode("utf-8", "replace") if isinstance(what, bytes) else str(what)
        raise PictureError(f"damaged or unknown camera raw file ({suffix}): {reason}") from error
    image.info = {**image.info, **_told(data)}
    return Decoded(image, image, width, height, RAW_FORMAT)


def _previews(raw: Any) -> Iterator[Image]:  # noqa: ANN401  (rawpy is untyped)
    """The embedded preview, upright in RGB; nothing if it is missing or damaged."""
    # A preview may fail in any way: the sensor data are used instead.
    with suppress(Exception):
        preview = raw.extract_thumb()
        if preview.format.name == "JPEG":
            image = identify(preview.data, ".jpg")
            if image.width * image.height > MAX_DECODED_PIXELS:
                return
            image.load()
            stated = ExifTags.Base.Orientation in image.getexif()
            turn = orientation(image) if stated else _RAW_FLIPS.get(raw.sizes.flip)
        else:
            image, turn = Pillow.fromarray(preview.data), _RAW_FLIPS.get(raw.sizes.flip)
        rgb = to_rgb(image)
        yield rgb.transpose(turn) if turn is not None else rgb.copy()


def _told(data: bytes) -> dict[str | tuple[int, int], Any]:
    """Metadata of a raw file in Pillow's form: most kinds are TIFF files; else nothing."""
    exif = Pillow.Exif()
    with suppress(Exception):
        exif.load(data)
        return {"exif": data, **({"xmp": exif[_RAW_XMP]} if _RAW_XMP in exif else {})} if len(exif) else {}
    return {}
