"""Detectors from ONNX or OpenVINO files, run by OpenVINO or, on a CUDA GPU, by ONNX Runtime.

Supports YOLOX and PicoDet exported without post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from PIL.Image import Resampling
from scipy.special import softmax

from limner.arrays import FloatArray
from limner.devices import openvino
from limner.encoders.pixels import IMAGENET_MEAN, IMAGENET_STD
from limner.encoders.weight_files import WeightFile
from limner.errors import CheckpointError, ConfigError, MissingError, installed
from limner.research.scenes.detections import Detections, fingerprint, match_names

if TYPE_CHECKING:
    from PIL.Image import Image


Family = Literal["yolox", "picodet"]
YOLOX_STRIDES = (8, 16, 32)
PICODET_STRIDES = (8, 16, 32, 64)
_MAX_LOG_SIZE = 12.0  # e¹² strides exceed any picture, and the exponential stays finite


def cells(side_px: int, stride: int) -> FloatArray:
    """(cells², 2): x and y of each cell of a square grid, row by row, from 0."""
    count = -(-side_px // stride)
    y, x = np.divmod(np.arange(count * count), count)
    return np.stack([x, y], axis=1).astype(np.float32)


def recognise(shapes: Sequence[tuple[int, ...]], side_px: int, where: str) -> tuple[Family, int]:
    """Determine a detector's family and number of classes from the shapes of its outputs.

    Args:
        shapes: shapes of all outputs, in order, with a batch of 1.
        side_px: side of its square input.
        where: name of the file, for messages.
    Raises:
        CheckpointError: the shapes match neither family.
    """
    yolox = sum(len(cells(side_px, stride)) for stride in YOLOX_STRIDES)
    if len(shapes) == 1 and shapes[0][:2] == (1, yolox) and len(shapes[0]) == 3 and shapes[0][2] > 5:
        return "yolox", shapes[0][2] - 5
    rows = [(1, len(cells(side_px, stride))) for stride in PICODET_STRIDES]
    levels = len(rows)
    if [shape[:2] for shape in shapes] == rows * 2 and all(len(shape) == 3 for shape in shapes):
        widths = [shape[2] for shape in shapes]
        classes, sides = set(widths[:levels]), set(widths[levels:])
        if len(classes) == len(sides) == 1 and min(sides) % 4 == 0 and min(sides) >= 8:
            return "picodet", classes.pop()
    raise CheckpointError(
        f"{where}: outputs {list(shapes)} at {side_px} px; expected YOLOX (1, {yolox}, 5 + classes) or"
        f" PicoDet (four of (1, cells, classes), four of (1, cells, 4 × bins)), exported without NMS"
    )


def decode_yolox(output: FloatArray, side_px: int) -> tuple[FloatArray, FloatArray]:
    """Decode the output of YOLOX, exported without grid decoding, into boxes and class scores.

    Args:
        output: (A, 5 + C): offset x, y of the centre and log size, in strides; objectness and class scores,
            in [0, 1].
        side_px: side of the square input.
    Returns:
        (A, 4) left, top, right, bottom in pixels of the input, and (A, C) scores.
    Source: Ge et al. 2021 (YOLOX).
    """
    grids = [cells(side_px, stride) for stride in YOLOX_STRIDES]
    grid = np.concatenate(grids)  # (A, 2)
    stride = np.repeat(np.asarray(YOLOX_STRIDES, np.float32), [len(grid_cells) for grid_cells in grids])[
        :, None
    ]
    centre = (output[:, :2] + grid) * stride
    half = np.exp(np.minimum(output[:, 2:4], _MAX_LOG_SIZE)) * stride / 2
    boxes = np.concatenate([centre - half, centre + half], axis=1)
    return boxes.astype(np.float32), (output[:, 4:5] * output[:, 5:]).astype(np.float32)


def decode_picodet(outputs: Sequence[FloatArray], side_px: int) -> tuple[FloatArray, FloatArray]:
    """Decode the outputs of PicoDet, exported without post-processing, into boxes and class scores.

    Args:
        outputs: four arrays (cells, C) of scores in [0, 1], then four (cells, 4 × bins) of logits of the
            distances from a cell's centre to left, top, right and bottom, in strides.
        side_px: side of the square input.
    Returns:
        Boxes and scores as in `decode_yolox`.
    Source: Yu et al. 2021 (PP-PicoDet); Li et al. 2020 (generalised focal loss, equation 4).
    """
    levels = len(PICODET_STRIDES)
    boxes = []
    for logits, stride in zip(outputs[levels:], PICODET_STRIDES, strict=True):
        weights = softmax(logits.reshape(len(logits), 4, -1), axis=2)
        distance = (weights * np.arange(weights.shape[2])).sum(axis=2) * stride  # (cells, 4)
        centre = (cells(side_px, stride) + 0.5) * stride
        boxes.append(np.concatenate([centre - distance[:, :2], centre + distance[:, 2:]], axis=1))
    return (
        np.concatenate(boxes).astype(np.float32),
        np.concatenate(list(outputs[:levels])).astype(np.float32),
    )


SUFFIXES = (".onnx", ".xml")
_METHOD = "onnx-detector/1"
CUDA = "CUDAExecutionProvider"
_LETTERBOX = 114
_FLOOR = 0.01  # lower scores are dropped at once, because most cells of a grid are empty


@dataclass(frozen=True)
class _Compiled:
    """A compiled model.

    Attributes:
        by: runtime and its version, for the fingerprint.
        shape: input shape for one picture.
        outputs: output shapes for one picture.
        run: (B, 3, side, side) → the outputs of each picture, without the batch axis.
    """

    by: str
    shape: tuple[int, ...]
    outputs: list[tuple[int, ...]]
    run: Callable[[FloatArray], list[list[FloatArray]]]


def _openvino(path: Path) -> _Compiled:
    """Compile with OpenVINO for the CPU; each picture of a batch is a parallel request.

    Exported graphs often fix the batch size at 1, and parallel requests use all cores too.
    """
    engine = openvino()
    try:
        model = engine.Core().read_model(path)
        if model.input().partial_shape.rank.is_static and model.input().partial_shape[0].is_dynamic:
            model.reshape(engine.PartialShape([1, *list(model.input().partial_shape)[1:]]))
        shape = tuple(model.input().partial_shape.to_shape())
        outputs = [tuple(tensor.partial_shape.to_shape()) for tensor in model.outputs]
    except RuntimeError as error:
        reason = " ".join(str(error).split())[-120:]
        raise CheckpointError(
            f"{path}: no detector of fixed size with one input ({reason}); export it with batch 1"
        ) from error
    hints = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "THROUGHPUT"}
    queue: Any = engine.AsyncInferQueue(engine.Core().compile_model(model, "CPU", hints))

    def run(pixels: FloatArray) -> list[list[FloatArray]]:
        outputs_of: dict[int, list[FloatArray]] = {}

        def take(request: Any, place: int) -> None:  # noqa: ANN401  (untyped)
            outputs_of[place] = [np.array(tensor.data[0], np.float32) for tensor in request.output_tensors]

        queue.set_callback(take)
        for place in range(len(pixels)):
            queue.start_async(pixels[place : place + 1], place)
        queue.wait_all()
        return [outputs_of[place] for place in range(len(pixels))]

    return _Compiled(str(engine.__version__).partition("-")[0], shape, outputs, run)


def _onnxruntime(path: Path, device: str) -> _Compiled:
    """Compile with ONNX Runtime for a GPU; one picture at a time if the file fixes the batch size."""
    if path.suffix.lower() != ".onnx" or not device.startswith("cuda"):
        raise ConfigError(
            f"{path}: cannot be run on {device}; expected an .onnx file and a CUDA GPU; use --device cpu"
        )
    with installed("ONNX Runtime", "onnxruntime-gpu"):
        import onnxruntime
    known = onnxruntime.get_available_providers()
    if CUDA not in known:
        raise MissingError(
            f"{path}: this ONNX Runtime does not support CUDA (it has {', '.join(known)});"
            " run: pip install onnxruntime-gpu, or use --device cpu"
        )
    card = {"device_id": int(device.partition(":")[2] or 0)}
    try:
        # No fallback provider: fail rather than compute on the CPU.
        session: Any = onnxruntime.InferenceSession(str(path), providers=[(CUDA, card)])
        (taken,) = session.get_inputs()
        shape = (1, *(int(side) for side in taken.shape[1:]))
    except Exception as error:  # the runtime's own exception types
        reason = " ".join(str(error).split())[-120:]
        raise CheckpointError(f"{path}: no detector of fixed size with one input ({reason})") from error
    together = not isinstance(taken.shape[0], int)

    def run(pixels: FloatArray) -> list[list[FloatArray]]:
        size = len(pixels) if together else 1
        results: list[list[FloatArray]] = []
        for start in range(0, len(pixels), size):
            made = session.run(None, {taken.name: pixels[start : start + size]})
            results += [[np.asarray(output[row], np.float32) for output in made] for row in range(size)]
        return results

    outputs = [(1, *output.shape) for output in run(np.zeros(shape, np.float32))[0]]
    return _Compiled(f"onnxruntime {onnxruntime.__version__}", shape, outputs, run)


class OnnxDetector:
    """A YOLOX or PicoDet model; see `limner.research.scenes.detections.Detector`."""

    def __init__(self, path: Path, classes: Sequence[str], device: str = "cpu") -> None:
        """Read and compile a model.

        Args:
            path: an .onnx file, or an .xml file with its .bin next to it.
            classes: names in the order of the outputs.
            device: "cpu" uses OpenVINO, a CUDA device ONNX Runtime.
        Raises:
            MissingError: the file does not exist, or the runtime is not installed.
            ConfigError: the device is not supported, or an .xml file is to run on a GPU.
            CheckpointError: not a model, of another family, or with another number of classes.
        """
        file = WeightFile(path)
        # Hash first, so that a missing file gets limner's own error message.
        digest = file.sha256
        if path.suffix.lower() == ".xml":
            digest += WeightFile(path.with_suffix(".bin")).sha256
        compiled = _openvino(path) if device == "cpu" else _onnxruntime(path, device)
        shape = compiled.shape
        if len(shape) != 4 or shape[:2] != (1, 3) or shape[2] != shape[3]:
            raise CheckpointError(f"{path}: input {shape}, expected (1, 3, side, side)")
        self.side_px = int(shape[2])
        self._family, count = recognise(compiled.outputs, self.side_px, str(path))
        match_names(classes, count, str(path))
        self._run = compiled.run
        self._classes = tuple(classes)
        self.name = path.stem
        self.fingerprint = fingerprint(_METHOD, compiled.by, digest, *classes)

    def detect(self, images: Sequence[Image]) -> list[Detections]:
        """Detect objects; see `Detector`."""
        side = self.side_px
        framed = [
            letterboxed(image, side) if self._family == "yolox" else (squashed(image, side), (side, side))
            for image in images
        ]
        made = self._run(np.stack([pixels for pixels, _ in framed])) if framed else []
        return [self._named(outputs, size) for outputs, (_, size) in zip(made, framed, strict=True)]

    def _named(self, outputs: Sequence[FloatArray], shown: tuple[int, int]) -> Detections:
        """Decode one picture's outputs; `shown` is its width and height in the input, in pixels."""
        if self._family == "yolox":
            boxes, scores = decode_yolox(outputs[0], self.side_px)
        else:
            boxes, scores = decode_picodet(outputs, self.side_px)
        best = scores.argmax(axis=1)
        sure = scores[np.arange(len(scores)), best]
        # negated, so that NaN remains and Detections rejects it
        places = np.flatnonzero(~(sure < _FLOOR))
        size = np.asarray([*shown, *shown], np.float32)
        return Detections(
            boxes[places] / size, tuple(self._classes[best[place]] for place in places), sure[places]
        )


def letterboxed(image: Image, side_px: int) -> tuple[FloatArray, tuple[int, int]]:
    """Input of YOLOX: BGR from 0 to 255, with the scaled picture in the upper left corner.

    Returns:
        (3, side, side) float32; and width and height of the picture in it, in pixels.
    """
    scale = side_px / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    pixels = np.full((side_px, side_px, 3), _LETTERBOX, np.float32)
    pixels[: size[1], : size[0]] = np.asarray(
        image.resize(size, Resampling.BILINEAR, reducing_gap=2.0), np.float32
    )[..., ::-1]
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)), size


def squashed(image: Image, side_px: int) -> FloatArray:
    """Input of PicoDet, (3, side, side): RGB, normalised as for ImageNet, stretched to a square."""
    square = image.resize((side_px, side_px), Resampling.BICUBIC, reducing_gap=2.0)
    mean, std = np.asarray([IMAGENET_MEAN, IMAGENET_STD], np.float32)
    pixels = (np.asarray(square, np.float32) / 255 - mean) / std
    return np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype=np.float32)
