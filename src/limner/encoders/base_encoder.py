"""The image encoder ``base``, with the weights of a file of `limner.encoders.base_network`.

It needs only packages that pip installs, and on a CPU no torch: OpenVINO runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from limner.arrays import ByteArray, FloatArray, ImageVectors, unit_rows
from limner.devices import TORCH, Engine, Precision, device_of
from limner.encoders.base_file import SIDE_PX, image_fingerprints, read_header
from limner.encoders.framing import checked, frame
from limner.encoders.openvino import NETWORK, read_network
from limner.encoders.weight_files import WeightFile
from limner.errors import installed

if TYPE_CHECKING:
    from PIL.Image import Image


BASE, LOOKS = "base", "looks"
"""Names of the spaces: one for comparing texts with pictures, one for pictures with pictures."""


class BaseImageEncoder:
    """Image encoder of the spaces ``base`` and ``looks``, in one pass.

    The whole picture is squashed to a square, as for the other backbones.
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
            precision: precision of products with ``bfloat16`` and ``float16``; sums are float32.
            device: device, see `limner.devices.device_of`; torch is used except on the CPU.
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
