"""Detectors from an ONNX (or OpenVINO) file, run by OpenVINO (extra ``fast``).

Small detectors come as such files, and a file needs no code of its authors. Read are YOLOX and PicoDet
without post-processing of their own; it downloads nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from limner.encoders.detection_heads import Head, decode_picodet, decode_yolox, recognise
from limner.encoders.detections import Detections
from limner.encoders.framing import IMAGENET_MEAN, IMAGENET_STD
from limner.encoders.weights import WeightFile
from limner.errors import CheckpointError, DataError, MissingError
from limner.similarity import FloatArray

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".onnx", ".xml")
_METHOD = "onnx-detector/1"
_LETTERBOX = 114
_FLOOR = 0.01  # nothing below is ever kept; most cells of a grid see nothing


class OnnxDetector:
    """A YOLOX or PicoDet model; see `limner.encoders.detections.Detector`."""

    def __init__(self, path: Path, classes: Sequence[str]) -> None:
        """Read and compile a model.

        Args:
            path: .onnx, or .xml with its .bin beside it.
            classes: names in the order of its outputs.
        Raises:
            MissingError: no such file, or OpenVINO is not installed.
            CheckpointError: no model, of another family, or of another number of classes.
        """
        try:
            import openvino
        except ImportError as error:
            raise MissingError("OpenVINO is not installed; run: pip install 'limner[fast]'") from error
        file = WeightFile(path)
        # The bytes are hashed first: that also says in our own words where there are none.
        digest = file.sha256
        if path.suffix.lower() == ".xml":
            digest += WeightFile(path.with_suffix(".bin")).sha256
        core = openvino.Core()
        try:
            model = core.read_model(path)
            shape = tuple(model.input().partial_shape.to_shape())
            outputs = [tuple(one.partial_shape.to_shape()) for one in model.outputs]
        except RuntimeError as error:
            told = " ".join(str(error).split())[-120:]
            raise CheckpointError(
                f"{path}: no detector of fixed size with one input ({told}); export it with batch 1"
            ) from error
        if len(shape) != 4 or shape[:2] != (1, 3) or shape[2] != shape[3]:
            raise CheckpointError(f"{path}: input {shape}, expected (1, 3, side, side)")
        self._side = int(shape[2])
        self._head: Head = recognise(outputs, self._side, str(path))
        if len(classes) != self._head.classes:
            raise CheckpointError(
                f"{path}: tells {self._head.classes} classes apart, but {len(classes)} names are given;"
                " pass their names, one a line, by --classes FILE"
            )
        self._compiled = core.compile_model(
            model, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
        )
        self._classes = tuple(classes)
        self._name = path.stem
        version = str(openvino.__version__).partition("-")[0]
        described = "\0".join((_METHOD, version, digest, *self._classes))
        self._fingerprint = hashlib.sha256(described.encode()).hexdigest()

    @property
    def name(self) -> str:
        """Stem of the file."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Hash of the file, the class names, the method and OpenVINO's version."""
        return self._fingerprint

    @property
    def classes(self) -> tuple[str, ...]:
        """Every label it can give."""
        return self._classes

    @property
    def side_px(self) -> int:
        """Side of its square input."""
        return self._side

    def detect(self, images: Sequence[Image]) -> list[Detections]:
        """Upright RGB pictures → what each shows, one at a time; see `Detector`."""
        return [self._one(image) for image in images]

    def _one(self, image: Image) -> Detections:
        if image.mode != "RGB":
            raise DataError(f"detector: picture has mode {image.mode}, expected RGB; convert it first")
        if self._head.family == "yolox":
            pixels, shown = letterboxed(image, self._side)
        else:
            pixels, shown = squashed(image, self._side), (self._side, self._side)
        found = self._compiled(pixels[None])
        outputs = [np.asarray(found[place][0], np.float32) for place in range(len(found))]
        if self._head.family == "yolox":
            boxes, scores = decode_yolox(outputs[0], self._side)
        else:
            boxes, scores = decode_picodet(outputs, self._side)
        best = scores.argmax(axis=1)
        sure = scores[np.arange(len(scores)), best]
        # Written so that NaN stays and is refused by Detections.
        places = np.flatnonzero(~(sure < _FLOOR))
        size = np.asarray([*shown, *shown], np.float32)
        return Detections(
            boxes[places] / size, tuple(self._classes[best[place]] for place in places), sure[places]
        )


def letterboxed(image: Image, side_px: int) -> tuple[FloatArray, tuple[int, int]]:
    """As YOLOX takes it: blue, green, red from 0 to 255, the picture whole in the upper left corner.

    Returns:
        (3, side, side), and width and height of the picture in it, in pixels.
    """
    from PIL.Image import Resampling

    scale = side_px / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    pixels = np.full((side_px, side_px, 3), _LETTERBOX, np.float32)
    pixels[: size[1], : size[0]] = np.asarray(
        image.resize(size, Resampling.BILINEAR, reducing_gap=2.0), np.float32
    )[..., ::-1]
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)), size


def squashed(image: Image, side_px: int) -> FloatArray:
    """(3, side, side) as PicoDet takes it: red, green, blue as for ImageNet, proportions lost."""
    from PIL.Image import Resampling

    square = image.resize((side_px, side_px), Resampling.BICUBIC, reducing_gap=2.0)
    pixels = (np.asarray(square, np.float32) / 255 - np.asarray(IMAGENET_MEAN, np.float32)) / np.asarray(
        IMAGENET_STD, np.float32
    )
    return np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype=np.float32)
