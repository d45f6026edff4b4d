"""CLIP and SigLIP from a folder of `limner.encoders.clip_files`: one space for texts and pictures.

If downloaded, it is the strongest untrained channel. Pictures and texts are prepared as open_clip
does, to the last bit; OpenVINO runs both networks, and no torch is needed.
"""

from __future__ import annotations

import hashlib
import html
import string
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image, Resampling
from tokenizers import Tokenizer

from limner.arrays import ByteArray, FloatArray, ImageVectors, unit_rows
from limner.devices import Precision
from limner.encoders.clip_files import TOKENIZER, Clean, ClipCard, ClipFolder
from limner.encoders.framing import checked, frame, shorter_side_px
from limner.encoders.openvino import Tower, read_tower
from limner.encoders.sentences import by_windows
from limner.errors import CheckpointError, DataError, LimnerError

_METHOD = "clip/2"
_BATCH = 64
_LONGEST = 16
"""Maximum ratio of a picture's sides: of a longer picture only the middle is used, because a strip would fill
the memory.
"""
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def cleaned(text: str, clean: Clean) -> str:
    """Clean a text as open_clip does before tokenising it.

    Args:
        text: any text.
        clean: whether letters are lowercased, and whether punctuation is removed too.
    """
    import ftfy  # slow to import, and not needed by other encoders

    text = html.unescape(html.unescape(ftfy.fix_text(text)))
    if clean == "canonicalize":
        text = text.replace("_", " ").translate(_PUNCTUATION).lower()
    text = " ".join(text.split())
    return text.lower() if clean == "lower" else text


class Pieces:
    """Tokenizer: converts texts to ids of word pieces.

    Attributes:
        first, last: pieces before and after those of a text.
    """

    def __init__(self, content: str, clean: Clean) -> None:
        """Read a tokenizer.

        Args:
            content: content of ``tokenizer.json``.
            clean: see `cleaned`.
        Raises:
            ValueError: it is not a tokenizer, or adds special pieces in an unsupported way.
        """
        try:
            self._tokenizer = Tokenizer.from_str(content)
        except Exception as error:  # the reader raises bare exceptions
            raise ValueError(" ".join(str(error).split())[:80]) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        # a special piece in a text counts as its characters
        self._tokenizer.encode_special_tokens = True
        self._clean = clean
        bare, whole = self("a"), list(self._tokenizer.encode("a").ids)
        starts = [n for n in range(len(whole)) if bare and whole[n : n + len(bare)] == bare]
        if not starts:
            raise ValueError("no piece for the letter a")
        self.first, self.last = whole[: starts[0]], whole[starts[0] + len(bare) :]

    def __call__(self, text: str) -> list[int]:
        """Word pieces of a text, without the first and the last special piece."""
        return list(self._tokenizer.encode(cleaned(text, self._clean), add_special_tokens=False).ids)


def scaled(image: Image, card: ClipCard) -> ByteArray:
    """Prepare an upright RGB picture as (S, S, 3) bytes, scaled and cropped like open_clip.

    Raises:
        DataError: the picture is not RGB.
    """
    if image.mode != "RGB":
        raise DataError(f"encoder: picture has mode {image.mode}, expected RGB; convert it first")
    between = Resampling.BICUBIC if card.interpolation == "bicubic" else Resampling.BILINEAR
    side = card.side_px
    if card.resize == "squash":
        return np.array(image.resize((side, side), between), dtype=np.uint8)
    width, height = image.size
    if max(width, height) > _LONGEST * min(width, height):
        most = _LONGEST * min(width, height)
        left, top = max(width - most, 0) // 2, max(height - most, 0) // 2
        image = image.crop((left, top, left + min(width, most), top + min(height, most)))
        width, height = image.size
    if width <= height:
        width, height = side, int(side * height / width)
    else:
        width, height = int(side * width / height), side
    left, top = round((width - side) / 2), round((height - side) / 2)
    shown = image.resize((width, height), between).crop((left, top, left + side, top + side))
    return np.array(shown, dtype=np.uint8)


class ClipEncoder:
    """One CLIP as text encoder and image encoder of the space ``clip``.

    A text longer than the model's context (for most models 75 tokens and two special ones) is divided into
    windows of nearly equal length; its vector is their mean weighted by length, rescaled to length 1.
    open_clip itself would silently truncate the text.

    Source: Radford et al. 2021; Cherti et al. 2023 (open_clip). Departs: windows; of pictures more than 16
    times as long as wide the middle; a text that names a special piece means its letters.
    """

    def __init__(self, folder: ClipFolder, *, precision: Precision | None = None, made: str = "") -> None:
        """Read the card of a folder; its networks are loaded on first use.

        Args:
            folder: see `limner.encoders.clip_files.read_clip`.
            precision: precision of the image encoder, if the processor supports it; None for that of `made`,
                or else bfloat16. Texts are always encoded in float32.
            made: fingerprint of a library's vectors; if they have these weights and this precision, pictures
                are prepared in the same way.
        Raises:
            MissingError: a file cannot be read.
            CheckpointError: the tokenizer is damaged.
        """
        card = folder.card
        tokenizer = folder.checked(TOKENIZER)
        try:
            self._pieces = Pieces(tokenizer.read_text(encoding="utf-8"), card.clean)
            if len(self._pieces.first) + len(self._pieces.last) >= card.context:
                raise ValueError("no room between the pieces that frame a text")
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{tokenizer}: tokenizer damaged ({error})") from error
        self._folder, self._card = folder, card
        self.name = folder.name
        self.dim = card.dim
        self.spaces = {"clip": self.dim}
        now = {one: _fingerprint(card, one) for one in get_args(Precision)}
        known = {fingerprint: one for one, fingerprint in (*card.earlier.items(), *now.items())}
        self.accepted = frozenset(known)
        """Fingerprints of image vectors that its text vectors can be compared with."""
        kept = made in known and precision in (None, known[made])
        self._precision: Precision = known[made] if kept else precision or "bfloat16"
        self.fingerprint = made if kept else now[self._precision]
        self._earlier = self.fingerprint not in now.values()
        self.side_px = card.side_px
        if self._earlier and card.resize == "shortest":
            self.side_px = shorter_side_px(card.side_px, "crop")
        bytes_ = np.arange(256, dtype=np.float32) / np.float32(255)
        mean, std = (np.array(one, np.float32)[:, None] for one in (card.mean, card.std))
        self._values: FloatArray = (bytes_ - mean) / std  # (3, 256)

    @cached_property
    def _image(self) -> Tower:
        return self._tower(self._card.image, self._precision)

    @cached_property
    def _text(self) -> Tower:
        return self._tower(self._card.text, "float32")

    def _tower(self, name: str, precision: Precision) -> Tower:
        files = [one for one in self._card.sha256 if one.rpartition(".")[0] == name.rpartition(".")[0]]
        for one in files:
            self._folder.checked(one)
        return read_tower(self._folder.path / name, self.dim, precision)

    def prepare(self, image: Image) -> ByteArray:
        """Prepare an upright RGB picture as (S, S, 3) bytes, where S is the model's side."""
        if self._earlier:
            return frame(image, self._card.side_px, "squash" if self._card.resize == "squash" else "crop")
        return scaled(image, self._card)

    def normalised(self, batch: ByteArray) -> FloatArray:
        """Normalise (B, S, S, 3) bytes to the network's input (B, 3, S, S), like open_clip."""
        made: FloatArray = np.empty((len(batch), 3, *batch.shape[1:3]), dtype=np.float32)
        for channel, values in enumerate(self._values):
            made[:, channel] = values[batch[..., channel]]
        return made

    def encode_pixels(self, batch: ByteArray) -> ImageVectors:
        """Compute vectors of (B, S, S, 3) bytes; no labels.

        Raises:
            ShapeError: the batch has another shape.
            NumericsError: a value is not finite.
            CheckpointError: the network is damaged.
        """
        checked(self.name, batch, self._card.side_px)
        rows = self._in_parts(batch, lambda part: self._image(self.normalised(part)))
        return ImageVectors({"clip": unit_rows(self.name, rows)})

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Encode N texts as (N, D) float32 rows of unit length.

        Raises:
            DataError: a text is empty after cleaning; the message gives its index.
            CheckpointError: the network is damaged.
        """
        room = self._card.context - len(self._pieces.first) - len(self._pieces.last)
        pieces = [self._pieces(text) for text in texts]
        return by_windows(self.name, texts, pieces, room, self._encode_windows)

    def framed(self, pieces: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        """Pad W lists of word pieces to the network's input (W, context)."""
        tokens = np.full((len(pieces), self._card.context), self._card.pad, dtype=np.int64)
        for row, ids in zip(tokens, pieces, strict=True):
            whole = [*self._pieces.first, *ids, *self._pieces.last]
            row[: len(whole)] = whole
        return tokens

    def _encode_windows(self, windows: list[list[int]]) -> FloatArray:
        """Encode W windows of word pieces as (W, D) unit rows."""
        lengths = np.array([len(ids) for ids in windows]) + len(self._pieces.first) + len(self._pieces.last)
        real = (np.arange(self._card.context) < lengths[:, None]).astype(np.int64)
        both = np.stack([self.framed(windows), real], axis=1)
        return unit_rows(self.name, self._in_parts(both, lambda part: self._text(part[:, 0], part[:, 1])))

    def _in_parts(self, values: NDArray[Any], work: Callable[[NDArray[Any]], FloatArray]) -> FloatArray:
        return np.concatenate(
            [np.zeros((0, self.dim), np.float32)]
            + [work(values[start : start + _BATCH]) for start in range(0, len(values), _BATCH)]
        )

    def try_out(self) -> None:
        """Check the model by encoding a text and a picture.

        Raises:
            CheckpointError: the model does not work.
        """
        square = np.zeros((1, self._card.side_px, self._card.side_px, 3), dtype=np.uint8)
        try:
            self.encode_text(["a photo of a cat"])
            self.encode_pixels(square)
        except LimnerError as error:
            raise CheckpointError(f"{self._card.source}: no CLIP that limner can use ({error})") from error


def _fingerprint(card: ClipCard, precision: Precision) -> str:
    """Hash of weights and settings."""
    settings = card.model_dump_json(exclude={"source", "licence", "image", "text", "sha256", "earlier"})
    tokenizer = card.sha256.get(TOKENIZER, "")
    return hashlib.sha256(f"{_METHOD} {settings} {tokenizer} {precision}".encode()).hexdigest()
