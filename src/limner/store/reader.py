"""Read files in worker threads: bytes, hash, pixels, words, and what the encoders need.

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
    """What the content of a file shows, whatever its name.

    Attributes:
        width_px, height_px, format, phash: as in `data.records.Picture`.
        prepared: encoder name → (H, W, 3) bytes, for the encoders that need this picture.
        words: that were read in it, a line each; None if nobody looked.
    """

    width_px: int
    height_px: int
    format: str
    phash: str
    prepared: dict[str, ByteArray]
    words: str | None = None


@dataclass(frozen=True)
class ReadFile:
    """One file as read.

    Attributes:
        found: as the walk met it.
        size, mtime_ns, sha256, stamp: as read; "" for a file that could not be.
        pixels: None for a file that is no usable picture.
        words: captions and the rest.
        reason: why it is not usable, or "".
        lasting: False where another try may succeed without a change of the file.
        same: its content is what was expected, so that nothing more was read.
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
    """How files are read in one run; called from several threads.

    Attributes:
        encoders: those that may need pixels.
        needs: SHA-256 → the encoders whose vectors that picture lacks; asked once per file read.
        captions: whether captions are kept.
        ocr: reads the words that pictures show; None leaves them unread.
        unread: SHA-256 → whether `ocr` is to read that picture; asked once per file read.
    """

    encoders: Sequence[ImageEncoder]
    needs: Callable[[str], Sequence[ImageEncoder]]
    captions: bool = True
    ocr: OcrEngine | None = None
    unread: Callable[[str], bool] = lambda sha256: True

    def __call__(self, found: FoundFile) -> ReadFile:
        """Read one file; a file that is not usable comes back with the reason."""
        size, mtime_ns, sha256, stamp = found.size, found.mtime_ns, "", found.stamp
        noted()
        try:
            file = read_file(found.path)
            size, sha256 = file.size, file.sha256
            if file.mtime_ns >= 0:  # else as the walk met it
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
        """What a picture shows in writing; it is decoded anew where the copy at hand is too small."""
        if self.ocr is None:
            return None
        if not self.ocr.sees_words(decoded.rgb):
            return ""
        longest = max(decoded.width_px, decoded.height_px)
        if max(decoded.rgb.size) >= min(longest, READ_PX):
            return self.ocr.read(decoded.rgb)
        # half of that, since a decoder keeps twice what is asked for
        side_px = READ_PX * min(decoded.width_px, decoded.height_px) // longest // 2
        return self.ocr.read(decode(data, max(side_px, 1), suffix).rgb)

    def _words(self, found: FoundFile, inside: Words) -> Words:
        """Words of all origins, the user's own first."""
        origins = (found.words, read_sidecars(found.sidecars, found.path), inside, words_of_name(found.path))
        every = merge(origins)
        # Keywords help the search but read badly; a description comes before them.
        kept = sorted(every.captions, key=lambda caption: caption.source == "keywords")
        return replace(every, captions=tuple(kept) if self.captions else ())


def _prepare(encoder: ImageEncoder, rgb: Image) -> ByteArray:
    try:
        return encoder.prepare(rgb)
    except (ValueError, ZeroDivisionError, MemoryError) as error:
        raise PictureError(
            f"{encoder.name} cannot use a picture of {rgb.size[0]} × {rgb.size[1]}: {error}"
        ) from error
