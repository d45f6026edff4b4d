"""The encoder ``base`` of pictures and texts, with the weights of a file of `limner.encoders.base_network`.

It needs nothing but what pip installs, and on a CPU no torch: OpenVINO runs the picture side. The files that
come with limner lie beside this module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from limner.arrays import ByteArray, FloatArray, ImageVectors, TextEncoder, unit_rows
from limner.devices import TORCH, Engine, Precision, device_of
from limner.encoders.base_file import SIDE_PX, TextSide, WordSide, read_header
from limner.encoders.framing import checked, frame
from limner.encoders.weight_files import WeightFile
from limner.errors import ConfigError, installed, unknown

if TYPE_CHECKING:
    from PIL.Image import Image


BASE, LOOKS = "base", "looks"
"""Names of the spaces: for comparing texts with pictures, and pictures with pictures."""
_METHOD = "base/1"
_FOLDER = Path(__file__).parent


def shipped_file(name: str) -> WeightFile:
    """Find a file of weights that comes with limner.

    Raises:
        ConfigError: the name is unknown.
    """
    names = sorted(path.stem for path in _FOLDER.glob("base*.safetensors"))
    if name not in names:
        raise ConfigError("base: " + unknown("file", name, names))
    return WeightFile(_FOLDER / f"{name}.safetensors", "package")


def image_fingerprints(file: WeightFile) -> dict[Precision, str]:
    """Fingerprints of the image encoder of a file, by precision, without loading it."""
    return {
        precision: hashlib.sha256(f"{_METHOD} {file.sha256} {precision} squash".encode()).hexdigest()
        for precision in get_args(Precision)
    }


def made_by(name: str, fingerprint: str) -> bool:
    """Whether a fingerprint is that of the present shipped file, in any precision.

    Raises:
        ConfigError: the name is unknown.
    """
    return fingerprint in image_fingerprints(shipped_file(name)).values()


class BaseImageEncoder:
    """Image encoder of the spaces ``base`` and ``looks``, in one pass.

    The whole picture is resized to a square, as for the other backbones.
    """

    side_px = SIDE_PX

    def __init__(
        self,
        name: str,
        file: WeightFile,
        *,
        precision: Precision = "bfloat16",
        device: str = "cpu",
        engine: Engine = "auto",
    ) -> None:
        """Read the header of a file; its network is loaded with the first picture.

        Args:
            name: name of the encoder.
            file: see `limner.encoders.base_network.save_base`.
            precision: ``bfloat16`` and ``float16`` multiply in half the bits, add in float32.
            device: device, see `limner.devices.device_of`; torch is used for all but the CPU.
            engine: engine on a CPU; auto is OpenVINO.
        Raises:
            MissingError: the file does not exist.
            CheckpointError: the file is damaged, of another kind or of another backbone.
        """
        self.name = name
        self._file, self._precision, self._device, self._engine = file, precision, device, engine
        shape = read_header(file.path).shape
        self.fingerprint = image_fingerprints(file)[precision]
        self.spaces = {BASE: shape.width, LOOKS: shape.looks}

    @cached_property
    def _rows(self) -> Callable[[ByteArray], FloatArray]:
        device = device_of(self._device)
        if device == "cpu" and self._engine != "torch":
            from limner.encoders.openvino import NETWORK, read_network

            return read_network(self._file.path.with_suffix(NETWORK), self._file.sha256, self._precision)
        with installed("base: torch", TORCH):
            from limner.encoders.base_network import picture_rows
        return picture_rows(self._file.path, self._precision, device)

    def prepare(self, image: Image) -> ByteArray:
        """Prepare an upright RGB picture as (260, 260, 3) bytes."""
        return frame(image, SIDE_PX, bicubic=True)

    def encode_pixels(self, batch: ByteArray) -> ImageVectors:
        """Compute vectors of (B, 260, 260, 3) bytes; no labels.

        Raises:
            ShapeError: the batch has another shape.
            NumericsError: a value is not finite.
        """
        rows = self._rows(checked(self.name, batch, SIDE_PX))
        width = self.spaces[BASE]
        return ImageVectors(
            {BASE: unit_rows(self.name, rows[:, :width]), LOOKS: unit_rows(self.name, rows[:, width:])}
        )


class BaseTextEncoder:
    """Text encoder of the space ``base``: projections of a sentence encoder's vectors.

    English goes through MiniLM, and the words that the file learned are added; all else goes through the
    multilingual encoder if there is one.
    """

    def __init__(
        self,
        name: str,
        file: WeightFile,
        english: TextEncoder,
        *,
        multilingual: TextEncoder | None = None,
        foreign: Callable[[Sequence[str]], Sequence[bool]] | None = None,
    ) -> None:
        """Load the projections of texts.

        Args:
            name: name of the encoder.
            file: see `limner.encoders.base_network.save_base`.
            english: MiniLM.
            multilingual: the multilingual USE, or None.
            foreign: function from texts to the mask of those for the multilingual encoder; None for no text.
        Raises:
            MissingError: the file does not exist.
            CheckpointError: the file is damaged or of another kind.
        """
        self.name = name
        self._foreign = foreign
        words = WordSide(file.path) if read_header(file.path).format > 1 else None
        self._sides = [(english, TextSide(file.path, "sentence"), words)]
        if multilingual is not None:
            self._sides.append((multilingual, TextSide(file.path, "foreign"), None))
        self.dim = self._sides[0][1].width
        known = " ".join(sentences.fingerprint for sentences, *_ in self._sides)
        self.fingerprint = hashlib.sha256(f"{_METHOD} text {file.sha256} {known}".encode()).hexdigest()

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Encode N texts as (N, D) float32 rows of unit length.

        Raises:
            DataError: a text has no words.
        """
        other = np.zeros(len(texts), dtype=bool)
        if self._foreign is not None and len(self._sides) > 1:
            other[:] = self._foreign(texts)
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for (sentences, side, spoken), mask in zip(self._sides, (~other, other), strict=False):
            if mask.any():
                own = [text for text, one in zip(texts, mask, strict=True) if one]
                rows[mask] = side(sentences.encode_text(own))
                if spoken is not None:
                    rows[mask] += spoken(own)
        return unit_rows(self.name, rows)
