"""Reading of files in worker threads: bytes, hash, pixels, captions, and the encoders' inputs.

Decoding overlaps the forward pass in the caller's thread; a bounded number of files is in flight, so that
memory stays flat. Results come in the order of the files. Nothing is written here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from limner.arrays import ByteArray, ImageEncoder
from limner.pictures.decode import decode, read_file
from limner.pictures.find import FoundFile
from limner.pictures.formats import Decoded, PictureError, noted
from limner.pictures.hashes import phash
from limner.pictures.metadata import Words, embedded, merge, read_sidecars, words_of_name
from limner.pictures.ocr import READ_PX, OcrEngine

if TYPE_CHECKING:
    from PIL.Image import Image

HASH_SIDE_PX = 64


@dataclass(frozen=True)
class Pixels:
    """Properties of a picture, independent of its file name.

    Attributes:
        width_px, height_px, format, phash: as in `data.records.Picture`.
        prepared: (H, W, 3) bytes by encoder name, for the encoders that need this picture.
        words: text in the picture, by line; None if it was not read.
    """

    width_px: int
    height_px: int
    format: str
    phash: str
    prepared: dict[str, ByteArray]
    words: str | None = None


@dataclass(frozen=True)
class ReadFile:
    """One file that was read.

    Attributes:
        found: the file as found.
        size, mtime_ns, sha256, stamp: as read; "" for a file that could not be.
        pixels: properties of the picture; None for a file that is no usable picture.
        words: captions and other metadata.
        reason: reason why it is not usable, or "".
        lasting: False if another try may succeed without a change of the file.
        same: whether its content is the expected one, so that nothing more was read.
    """

    found: FoundFile
    size: int = 0
    mtime_ns: int = -1
    sha256: str = ""
    pixels: Pixels | None = None
    words: Words = Words()  # noqa: RUF009
    reason: str = ""
    lasting: bool = True
    stamp: str = ""
    same: bool = False


@dataclass(frozen=True)
class Reader:
    """Reader of the files of one run; thread-safe.

    Attributes:
        encoders: encoders that may need pixels.
        needs: function from SHA-256 to the encoders whose vectors that picture lacks; called once per file.
        captions: whether captions are kept.
        ocr: reader of the text in pictures; None does not read it.
        unread: function from SHA-256 to whether `ocr` is to read that picture; called once per file.
    """

    encoders: Sequence[ImageEncoder]
    needs: Callable[[str], Sequence[ImageEncoder]]
    captions: bool = True
    ocr: OcrEngine | None = None
    unread: Callable[[str], bool] = lambda sha256: True

    def __call__(self, found: FoundFile) -> ReadFile:
        """Read one file; a file that is not usable is returned with the reason."""
        size, mtime_ns, sha256, stamp = found.size, found.mtime_ns, "", found.stamp
        noted()
        try:
            file = read_file(found.path)
            size, sha256 = file.size, file.sha256
            if file.mtime_ns >= 0:  # otherwise the time as found
                mtime_ns, stamp = file.mtime_ns, file.stamp
            if sha256 == found.expected and not found.sidecars:
                return ReadFile(found, size, mtime_ns, sha256, stamp=stamp, same=True)
            side_px = max((encoder.side_px for encoder in self.encoders), default=HASH_SIDE_PX)
            suffix = os.path.splitext(found.path)[1].lower().decode("ascii", "replace")  # noqa: PTH122
            decoded = decode(file.data, side_px, suffix)
            prepared = {one.name: _prepare(one, decoded.rgb) for one in self.needs(sha256)}
            shown = self._words_shown(decoded, file.data, suffix) if self.unread(sha256) else None
        except PictureError as error:
            return ReadFile(found, size, mtime_ns, sha256, None, Words(), str(error), error.lasting, stamp)
        pixels = Pixels(
            decoded.width_px,
            decoded.height_px,
            decoded.format,
            f"{phash(decoded.rgb):016x}",
            prepared,
            shown,
        )
        inside = embedded(decoded.loaded)
        words = self._words(found, replace(inside, warnings=(*inside.warnings, *noted())))
        return ReadFile(found, size, mtime_ns, sha256, pixels, words, stamp=stamp)

    def _words_shown(self, decoded: Decoded, data: bytes, suffix: str) -> str | None:
        """Text in a picture; the picture is decoded again if the prepared copy is too small."""
        if self.ocr is None:
            return None
        if not self.ocr.sees_words(decoded.rgb):
            return ""
        longest = max(decoded.width_px, decoded.height_px)
        if max(decoded.rgb.size) >= min(longest, READ_PX):
            return self.ocr.read(decoded.rgb)
        # half of that, since a decoder keeps twice the requested size
        side_px = READ_PX * min(decoded.width_px, decoded.height_px) // longest // 2
        return self.ocr.read(decode(data, max(side_px, 1), suffix).rgb)

    def _words(self, found: FoundFile, inside: Words) -> Words:
        """Captions of all sources, the user's own first."""
        origins = (found.words, read_sidecars(found.sidecars, found.path), inside, words_of_name(found.path))
        every = merge(origins)
        # descriptions come before keywords, which make bad captions
        kept = sorted(every.captions, key=lambda caption: caption.source == "keywords")
        return replace(every, captions=tuple(kept) if self.captions else ())


def _prepare(encoder: ImageEncoder, rgb: Image) -> ByteArray:
    try:
        return encoder.prepare(rgb)
    except (ValueError, ZeroDivisionError, MemoryError) as error:
        raise PictureError(
            f"{encoder.name} cannot use a picture of {rgb.size[0]} × {rgb.size[1]}: {error}"
        ) from error
