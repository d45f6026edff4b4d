"""Detectors from an ONNX (or OpenVINO) file: by OpenVINO, on a CUDA card by ONNX Runtime.

Small detectors come as such files, and a file needs no code of its authors. Read are YOLOX and PicoDet
without post-processing of their own; it downloads nothing.
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
_MAX_LOG_SIZE = 12.0  # e¹² strides are wider than any picture, and the exponential stays finite


def cells(side_px: int, stride: int) -> FloatArray:
    """(cells², 2) x and y of every cell of a square grid, row by row, counted from 0."""
    count = -(-side_px // stride)
    y, x = np.divmod(np.arange(count * count), count)
    return np.stack([x, y], axis=1).astype(np.float32)


def recognise(shapes: Sequence[tuple[int, ...]], side_px: int, where: str) -> tuple[Family, int]:
    """The family of a detector by the shapes of its outputs, and the number of its classes.

    Args:
        shapes: shapes of all outputs, in order, with a batch of 1.
        side_px: side of its square input.
        where: the file, for the message.
    Raises:
        CheckpointError: neither family.
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
        f"{where}: outputs {list(shapes)} at {side_px} px; read are YOLOX (1, {yolox}, 5 + classes) and"
        f" PicoDet (four of (1, cells, classes), four of (1, cells, 4 × bins)), both without own NMS"
    )


def decode_yolox(output: FloatArray, side_px: int) -> tuple[FloatArray, FloatArray]:
    """Boxes and class scores of a YOLOX model that leaves the grid to its user.

    Args:
        output: (A, 5 + C) centre offset x, y and log size in strides, objectness, class scores in [0, 1].
        side_px: side of the square input.
    Returns:
        (A, 4) left, top, right, bottom in pixels of the input, and (A, C) scores.
    Source: Ge et al. 2021 (YOLOX).
    """
    grids = [cells(side_px, stride) for stride in YOLOX_STRIDES]
    grid = np.concatenate(grids)  # (A, 2)
    stride = np.repeat(np.asarray(YOLOX_STRIDES, np.float32), [len(one) for one in grids])[:, None]
    centre = (output[:, :2] + grid) * stride
    half = np.exp(np.minimum(output[:, 2:4], _MAX_LOG_SIZE)) * stride / 2
    boxes = np.concatenate([centre - half, centre + half], axis=1)
    return boxes.astype(np.float32), (output[:, 4:5] * output[:, 5:]).astype(np.float32)


def decode_picodet(outputs: Sequence[FloatArray], side_px: int) -> tuple[FloatArray, FloatArray]:
    """Boxes and class scores of a PicoDet model cut before its own post-processing.

    Args:
        outputs: four of (cells, C) scores in [0, 1], then four of (cells, 4 × bins) logits of the distances
            from the cell's centre to left, top, right and bottom, in strides.
        side_px: side of the square input.
    Returns:
        As `decode_yolox`.
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
_FLOOR = 0.01  # nothing below is ever kept; most cells of a grid see nothing


@dataclass(frozen=True)
class _Compiled:
    """A model that is ready to run.

    Attributes:
        by: what runs it, with its version, for the fingerprint.
        shape: shape of the input for one picture.
        outputs: shapes for one picture.
        run: (B, 3, side, side) → per picture its outputs, without the axis of the batch.
    """

    by: str
    shape: tuple[int, ...]
    outputs: list[tuple[int, ...]]
    run: Callable[[FloatArray], list[list[FloatArray]]]


def _openvino(path: Path) -> _Compiled:
    """By OpenVINO on the CPU: a batch's pictures side by side, each in a request of its own.

    Exported graphs often state a batch of 1 in their reshapes, and several requests use all cores as well.
    """
    engine = openvino()
    try:
        model = engine.Core().read_model(path)
        if model.input().partial_shape.rank.is_static and model.input().partial_shape[0].is_dynamic:
            model.reshape(engine.PartialShape([1, *list(model.input().partial_shape)[1:]]))
        shape = tuple(model.input().partial_shape.to_shape())
        outputs = [tuple(one.partial_shape.to_shape()) for one in model.outputs]
    except RuntimeError as error:
        reason = " ".join(str(error).split())[-120:]
        raise CheckpointError(
            f"{path}: no detector of fixed size with one input ({reason}); export it with batch 1"
        ) from error
    hints = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "THROUGHPUT"}
    queue: Any = engine.AsyncInferQueue(engine.Core().compile_model(model, "CPU", hints))

    def run(pixels: FloatArray) -> list[list[FloatArray]]:
        found: dict[int, list[FloatArray]] = {}

        def take(request: Any, place: int) -> None:  # noqa: ANN401  (untyped)
            found[place] = [np.array(one.data[0], np.float32) for one in request.output_tensors]

        queue.set_callback(take)
        for place in range(len(pixels)):
            queue.start_async(pixels[place : place + 1], place)
        queue.wait_all()
        return [found[place] for place in range(len(pixels))]

    return _Compiled(str(engine.__version__).partition("-")[0], shape, outputs, run)


def _onnxruntime(path: Path, device: str) -> _Compiled:
    """By ONNX Runtime on a card: a batch at once where the file leaves its axis open, else one by one."""
    if path.suffix.lower() != ".onnx" or not device.startswith("cuda"):
        raise ConfigError(f"{path}: read on {device} are .onnx files on a CUDA card; use --device cpu")
    with installed("ONNX Runtime", "onnxruntime-gpu"):
        import onnxruntime
    known = onnxruntime.get_available_providers()
    if CUDA not in known:
        raise MissingError(
            f"{path}: this ONNX Runtime computes on no CUDA card (it has {', '.join(known)});"
            " run: pip install onnxruntime-gpu, or use --device cpu"
        )
    card = {"device_id": int(device.partition(":")[2] or 0)}
    try:
        # No second choice: what cannot be run on the card is said, not computed elsewhere.
        session: Any = onnxruntime.InferenceSession(str(path), providers=[(CUDA, card)])
        (taken,) = session.get_inputs()
        shape = (1, *(int(side) for side in taken.shape[1:]))
    except Exception as error:  # of the runtime's own kinds
        reason = " ".join(str(error).split())[-120:]
        raise CheckpointError(f"{path}: no detector of fixed size with one input ({reason})") from error
    together = not isinstance(taken.shape[0], int)

    def run(pixels: FloatArray) -> list[list[FloatArray]]:
        size = len(pixels) if together else 1
        found: list[list[FloatArray]] = []
        for start in range(0, len(pixels), size):
            made = session.run(None, {taken.name: pixels[start : start + size]})
            found += [[np.asarray(one[row], np.float32) for one in made] for row in range(size)]
        return found

    outputs = [(1, *one.shape) for one in run(np.zeros(shape, np.float32))[0]]
    return _Compiled(f"onnxruntime {onnxruntime.__version__}", shape, outputs, run)


class OnnxDetector:
    """A YOLOX or PicoDet model; see `limner.research.scenes.detections.Detector`."""

    def __init__(self, path: Path, classes: Sequence[str], device: str = "cpu") -> None:
        """Read and compile a model.

        Args:
            path: .onnx, or .xml with its .bin beside it.
            classes: names in the order of its outputs.
            device: "cpu" runs it by OpenVINO, a CUDA card by ONNX Runtime.
        Raises:
            MissingError: no such file, or what runs it is not installed.
            ConfigError: another device, or an .xml file on a card.
            CheckpointError: no model, of another family, or of another number of classes.
        """
        file = WeightFile(path)
        # The bytes are hashed first: that also says in our own words if there are none.
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
        return [self._named(one, shown) for one, (_, shown) in zip(made, framed, strict=True)]

    def _named(self, outputs: Sequence[FloatArray], shown: tuple[int, int]) -> Detections:
        """A picture's outputs as fractions of it, which takes `shown` pixels of the square, and names."""
        if self._family == "yolox":
            boxes, scores = decode_yolox(outputs[0], self.side_px)
        else:
            boxes, scores = decode_picodet(outputs, self.side_px)
        best = scores.argmax(axis=1)
        sure = scores[np.arange(len(scores)), best]
        # Written so that NaN stays and is refused by Detections.
        places = np.flatnonzero(~(sure < _FLOOR))
        size = np.asarray([*shown, *shown], np.float32)
        return Detections(
            boxes[places] / size, tuple(self._classes[best[place]] for place in places), sure[places]
        )


def letterboxed(image: Image, side_px: int) -> tuple[FloatArray, tuple[int, int]]:
    """Input of YOLOX: blue, green, red from 0 to 255, with the whole picture in the upper left corner.

    Returns:
        (3, side, side), and width and height of the picture in it, in pixels.
    """
    scale = side_px / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    pixels = np.full((side_px, side_px, 3), _LETTERBOX, np.float32)
    pixels[: size[1], : size[0]] = np.asarray(
        image.resize(size, Resampling.BILINEAR, reducing_gap=2.0), np.float32
    )[..., ::-1]
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)), size


def squashed(image: Image, side_px: int) -> FloatArray:
    """(3, side, side) as PicoDet takes it: red, green, blue as for ImageNet, proportions lost."""
    square = image.resize((side_px, side_px), Resampling.BICUBIC, reducing_gap=2.0)
    mean, std = np.asarray([IMAGENET_MEAN, IMAGENET_STD], np.float32)
    pixels = (np.asarray(square, np.float32) / 255 - mean) / std
    return np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype=np.float32)
