"""Detected objects of a picture, and their selection by score and overlap.

All detectors return `Detections`, so that building scene graphs does not depend on the detector.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from limner.arrays import FloatArray
from limner.errors import CheckpointError, NumericsError, ShapeError, counted

if TYPE_CHECKING:
    from PIL.Image import Image

MIN_SCORE = 0.3
MAX_OVERLAP = 0.5
MOST_OBJECTS = 20


@dataclass(frozen=True)
class Detections:
    """Objects detected in one picture.

    Attributes:
        boxes: (N, 4) left, top, right, bottom as fractions of width and height.
        labels: N class names.
        scores: (N,) confidences in [0, 1].
    """

    boxes: FloatArray
    labels: tuple[str, ...]
    scores: FloatArray

    def __post_init__(self) -> None:
        """Check that shapes agree and all numbers are finite."""
        count = len(self.labels)
        if self.boxes.shape != (count, 4) or self.scores.shape != (count,):
            raise ShapeError(
                f"detections: boxes {self.boxes.shape} and scores {self.scores.shape} of {count} labels,"
                f" expected ({count}, 4) and ({count},)"
            )
        if not (np.isfinite(self.boxes).all() and np.isfinite(self.scores).all()):
            raise NumericsError("detections: a box or score is not finite; check the detector's weights")

    def __len__(self) -> int:
        """Number of detections, N."""
        return len(self.labels)


class Detector(Protocol):
    """Interface of object detectors.

    Attributes:
        name: short name, such as ``yolox_nano``.
        fingerprint: hash of weights and method: equal fingerprints give equal detections.
        side_px: shorter side that it uses, in pixels; pictures may be decoded at up to twice that.
    """

    name: str
    fingerprint: str
    side_px: int

    def detect(self, images: Sequence[Image]) -> list[Detections]:
        """All detections in each picture, before any selection.

        The result for a picture does not depend on the others in the batch, except for rounding.

        Args:
            images: upright RGB pictures of any size.
        """
        ...


def fingerprint(*parts: str) -> str:
    """Hash of everything that determines a detector's output."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def match_names(names: Sequence[str], classes: int, where: str) -> None:
    """Check that there is one name per class of a detector.

    Raises:
        CheckpointError: the numbers differ.
    """
    if len(names) != classes:
        raise CheckpointError(
            f"{where}: has {counted(classes, 'class', 'classes')}, but {len(names)} names given"
            " (default: COCO's); pass a file of its names, one per line, with --classes FILE"
        )


def keep(found: Detections, min_score: float = MIN_SCORE) -> Detections:
    """Select detections: clip boxes, drop low scores, and apply non-maximum suppression per class.

    Of two boxes with the same label and an intersection over union above `MAX_OVERLAP`, the one with the
    lower score is dropped. At most `MOST_OBJECTS` remain.

    Args:
        found: output of a detector.
        min_score: least score, in [0, 1].
    Returns:
        Detections by falling score; equal scores in the detector's order.
    Source: docs/methods/gsda.md §3.1.
    """
    import torch
    from torchvision.ops import batched_nms

    boxes = np.clip(found.boxes, 0, 1).astype(np.float32)
    seen = (boxes[:, 0] < boxes[:, 2]) & (boxes[:, 1] < boxes[:, 3])
    places = np.flatnonzero(seen & (found.scores >= min_score))
    # A stable sort first, because the order of equal scores in batched_nms is not defined.
    places = places[np.argsort(-found.scores[places], kind="stable")]
    names = {label: number for number, label in enumerate(dict.fromkeys(found.labels))}
    kinds = torch.tensor([names[found.labels[place]] for place in places], dtype=torch.int64)
    scores = np.ascontiguousarray(found.scores[places])
    kept_rows = batched_nms(
        torch.from_numpy(boxes[places]), torch.from_numpy(scores), kinds, MAX_OVERLAP
    ).numpy()
    places = places[np.sort(kept_rows)[:MOST_OBJECTS]]
    return Detections(
        boxes[places],
        tuple(found.labels[place] for place in places),
        np.clip(found.scores[places], 0, 1).astype(np.float32),
    )
