"""From the raw numbers of two detector families to boxes: YOLOX and PicoDet.

Pure arithmetic on arrays, apart from what runs the network, so that it can be checked by hand. It knows no
class names and leaves nothing out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from limner.errors import CheckpointError
from limner.similarity import FloatArray

Family = Literal["yolox", "picodet"]
YOLOX_STRIDES = (8, 16, 32)
PICODET_STRIDES = (8, 16, 32, 64)
_MAX_LOG_SIZE = 12.0  # e¹² strides are wider than any picture, and the exponential stays finite


@dataclass(frozen=True)
class Head:
    """What a model's outputs are.

    Attributes:
        family: how they are coded.
        classes: C.
        bins: of PicoDet's distance distributions; 0 for YOLOX.
    """

    family: Family
    classes: int
    bins: int = 0


def cells(side_px: int, stride: int) -> FloatArray:
    """(cells², 2) x and y of every cell of a square grid, row by row, counted from 0."""
    count = -(-side_px // stride)
    y, x = np.divmod(np.arange(count * count), count)
    return np.stack([x, y], axis=1).astype(np.float32)


def recognise(shapes: Sequence[tuple[int, ...]], side_px: int, where: str) -> Head:
    """The family of a detector by the shapes of its outputs.

    Args:
        shapes: of all outputs, in order, with a batch of 1.
        side_px: side of its square input.
        where: the file, for the message.
    Raises:
        CheckpointError: neither family.
    """
    yolox = sum(len(cells(side_px, stride)) for stride in YOLOX_STRIDES)
    if len(shapes) == 1 and shapes[0][:2] == (1, yolox) and len(shapes[0]) == 3 and shapes[0][2] > 5:
        return Head("yolox", shapes[0][2] - 5)
    rows = [(1, len(cells(side_px, stride))) for stride in PICODET_STRIDES]
    levels = len(rows)
    if [shape[:2] for shape in shapes] == rows * 2 and all(len(shape) == 3 for shape in shapes):
        widths = [shape[2] for shape in shapes]
        classes, sides = set(widths[:levels]), set(widths[levels:])
        if len(classes) == len(sides) == 1 and min(sides) % 4 == 0 and min(sides) >= 8:
            return Head("picodet", classes.pop(), sides.pop() // 4)
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
    stride = np.concatenate(
        [np.full(len(one), size, np.float32) for one, size in zip(grids, YOLOX_STRIDES, strict=True)]
    )[:, None]
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
        bins = logits.reshape(len(logits), 4, -1)
        weights = np.exp(bins - bins.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        distance = (weights * np.arange(bins.shape[2])).sum(axis=2) * stride  # (cells, 4)
        centre = (cells(side_px, stride) + 0.5) * stride
        boxes.append(np.concatenate([centre - distance[:, :2], centre + distance[:, 2:]], axis=1))
    return (
        np.concatenate(boxes).astype(np.float32),
        np.concatenate(list(outputs[:levels])).astype(np.float32),
    )
