"""The encoder ``base``: pictures and texts through a file of `limner.encoders.base`.

It needs nothing but what pip installs. The files that come with limner lie beside this module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
import torch

from limner.encoders.base import SIDE_PX, BaseCard, fused, load_base, load_text_side, read_card
from limner.encoders.framing import frame
from limner.encoders.parts import in_parts
from limner.encoders.pixels import Precision, check_precision
from limner.encoders.weights import WeightFile
from limner.errors import ConfigError, ShapeError, unknown
from limner.similarity import ByteArray, FloatArray, ImageVectors, TextEncoder, unit_rows

if TYPE_CHECKING:
    from PIL.Image import Image

BASE, LOOKS = "base", "looks"
"""Spaces: the one that texts are compared with, and the one that compares pictures."""
_METHOD = "base/1"
_FOLDER = Path(__file__).parent


def shipped_file(name: str) -> WeightFile:
    """A file that comes with limner.

    Raises:
        ConfigError: there is none of this name.
    """
    names = sorted(path.stem for path in _FOLDER.glob("*.safetensors"))
    if name not in names:
        raise ConfigError("base: " + unknown("file", name, names))
    return WeightFile(_FOLDER / f"{name}.safetensors", "package")


def card(name: str) -> BaseCard:
    """What a shipped file says of itself: data, terms, figures.

    Raises:
        ConfigError: there is none of this name.
        MissingError: the file is not there.
        CheckpointError: it is damaged.
    """
    return read_card(shipped_file(name).path)


def image_fingerprints(file: WeightFile) -> dict[Precision, str]:
    """Precision → fingerprint of the picture side of a file, without loading it."""
    return {
        precision: hashlib.sha256(f"{_METHOD} {file.sha256} {precision} squash".encode()).hexdigest()
        for precision in get_args(Precision)
    }


class BaseImageEncoder:
    """Pictures → the spaces ``base`` and ``looks``, in one pass.

    All of a picture is squeezed into a square, as for the other backbones.
    """

    def __init__(
        self, name: str, file: WeightFile, *, precision: Precision = "bfloat16", device: str = "cpu"
    ) -> None:
        """Load a file.

        Args:
            name: of the encoder.
            file: see `limner.encoders.base.save_base`.
            precision: ``bfloat16`` multiplies in half the bits, adds in float32.
            device: torch device that computes.
        Raises:
            ConfigError: unknown precision.
            MissingError: the file or the backbone's package is not there.
            CheckpointError: the file is damaged, of another kind or of another backbone.
        """
        check_precision(precision)
        self.name = name
        self._precision, self._device = precision, device
        self._net = fused(load_base(file.path)).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._fingerprint = image_fingerprints(file)[precision]

    @property
    def fingerprint(self) -> str:
        """Hash of the file, precision, framing and method."""
        return self._fingerprint

    @property
    def spaces(self) -> dict[str, int]:
        """Space name → D."""
        return {BASE: self._net.shape.width, LOOKS: self._net.shape.looks}

    @property
    def side_px(self) -> int:
        """Pixels of the shorter side that `prepare` makes use of."""
        return SIDE_PX

    def prepare(self, image: Image) -> ByteArray:
        """One upright RGB picture → (260, 260, 3) bytes."""
        return frame(image, SIDE_PX, "squash", bicubic=True)

    def encode_pixels(self, batch: ByteArray) -> ImageVectors:
        """(B, 260, 260, 3) bytes → vectors; no labels.

        Raises:
            ShapeError: not B such squares.
            NumericsError: a value is not finite.
        """
        if batch.dtype != np.uint8 or batch.ndim != 4 or batch.shape[1:] != (SIDE_PX, SIDE_PX, 3):
            raise ShapeError(
                f"{self.name}: batch is {batch.dtype} {batch.shape},"
                f" expected uint8 (B, {SIDE_PX}, {SIDE_PX}, 3)"
            )
        rows = in_parts(self._compute, batch) if self._device == "cpu" else self._compute(batch)
        width = self._net.shape.width
        return ImageVectors(
            {BASE: unit_rows(self.name, rows[:, :width]), LOOKS: unit_rows(self.name, rows[:, width:])}
        )

    def _compute(self, batch: ByteArray) -> FloatArray:
        """(B, 260, 260, 3) bytes → (B, D + L): both spaces side by side."""
        device = self._device.partition(":")[0]
        with (
            torch.inference_mode(),
            torch.autocast(device, torch.bfloat16, enabled=self._precision == "bfloat16"),
        ):
            features = self._net.features(torch.from_numpy(np.ascontiguousarray(batch)).to(self._device))
        with torch.inference_mode():
            both = torch.cat([self._net.joint(features), self._net.looks(features)], dim=1)
        rows: FloatArray = both.cpu().numpy()
        return rows


class BaseTextEncoder:
    """Texts → the space ``base``: a sentence encoder's vectors through one text side of a file."""

    def __init__(
        self, name: str, file: WeightFile, words: TextEncoder, *, multilingual: bool = False
    ) -> None:
        """Load one text side.

        Args:
            name: of the encoder.
            file: see `limner.encoders.base.save_base`.
            words: MiniLM, or the multilingual USE.
            multilingual: whether `words` is the latter.
        Raises:
            MissingError: the file is not there.
            CheckpointError: the file is damaged or of another kind.
            ShapeError: `words` has another width than the side takes.
        """
        self.name = name
        self._words = words
        self._side = load_text_side(file.path, "foreign" if multilingual else "sentence")
        inputs = self._side.straight.in_features
        if words.dim != inputs:
            raise ShapeError(f"{name}: {words.name} gives {words.dim} numbers, expected {inputs}")
        settings = f"{_METHOD} text {file.sha256} {words.fingerprint}"
        self._fingerprint = hashlib.sha256(settings.encode()).hexdigest()

    @property
    def fingerprint(self) -> str:
        """Hash of the file and the sentence encoder."""
        return self._fingerprint

    @property
    def dim(self) -> int:
        """D of the space ``base``."""
        return self._side.straight.out_features

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 rows of unit length.

        Raises:
            DataError: a text has no words.
        """
        with torch.inference_mode():
            rows: FloatArray = self._side(torch.from_numpy(self._words.encode_text(texts))).numpy()
        return unit_rows(self.name, rows)
