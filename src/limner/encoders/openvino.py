"""The same backbones run by OpenVINO (extra ``fast``), for indexing large collections on a CPU.

It fuses normalisation, convolutions and batch norm, and multiplies in bfloat16 where the CPU can. It
changes neither spaces nor labels; its rounding differs, so its fingerprint does too.
"""

from __future__ import annotations

import hashlib
import warnings

import numpy as np
import torch

from limner.arrays import ByteArray, FloatArray
from limner.devices import Precision
from limner.encoders import pixels
from limner.errors import installed

_METHOD = "openvino/1"
_HINTS = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}


class OpenVinoEncoder(pixels.PixelEncoder):
    """A torchvision backbone compiled by OpenVINO; see `PixelEncoder` for spaces and labels."""

    def __init__(
        self,
        name: str,
        backbone: pixels.Backbone,
        sha256: str,
        *,
        conse: pixels.ConSE | None = None,
        precision: Precision = "bfloat16",
    ) -> None:
        """Compile a loaded backbone; takes seconds.

        Args:
            name: architecture.
            backbone: see `limner.encoders.pixels.build`.
            sha256: of the weight file.
            conse: as for `PixelEncoder`.
            precision: as for `PixelEncoder`.
        Raises:
            MissingError: OpenVINO is not installed.
        """
        with installed("OpenVINO", "'limner[fast]'"):
            import openvino
            from openvino.preprocess import PrePostProcessor

        super().__init__(name, backbone, sha256, conse=conse, precision=precision)
        # An example of two keeps the batch axis from being taken for a constant 1.
        example = torch.zeros(2, 3, pixels.SIDE_PX, pixels.SIDE_PX)
        with warnings.catch_warnings():
            # Tracing warns about Python branches of torchvision's own checks; shapes are fixed here.
            warnings.simplefilter("ignore")
            graph = openvino.convert_model(
                backbone.network, example_input=example, input=[-1, 3, pixels.SIDE_PX, pixels.SIDE_PX]
            )
        steps = PrePostProcessor(graph)
        taken = steps.input()
        taken.tensor().set_element_type(openvino.Type.u8).set_layout(openvino.Layout("NHWC"))
        taken.model().set_layout(openvino.Layout("NCHW"))
        taken.preprocess().convert_element_type(openvino.Type.f32).mean(
            [255 * value for value in pixels.IMAGENET_MEAN]
        ).scale([255 * value for value in pixels.IMAGENET_STD])
        self._compiled = openvino.Core().compile_model(
            steps.build(),
            "CPU",
            {"INFERENCE_PRECISION_HINT": _HINTS[precision], "PERFORMANCE_HINT": "LATENCY"},
        )
        version = str(openvino.__version__).partition("-")[0]
        described = f"{_METHOD} {version} {self.fingerprint}"
        self.fingerprint = hashlib.sha256(described.encode()).hexdigest()

    def features(self, batch: ByteArray) -> FloatArray:
        """(B, 224, 224, 3) bytes → (B, F) pooled features as they leave the backbone, not of unit length.

        Raises:
            ShapeError: not B such squares.
        """
        made = self._compiled([np.ascontiguousarray(pixels.checked(self.name, batch))])[0]
        return np.array(made, dtype=np.float32)
