"""What a detector finds in a picture, and which of it is kept.

One form for every detector, so that scene graphs do not depend on which one looked. It runs no network.
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
    """Things found in one picture.

    Attributes:
        boxes: (N, 4) left, top, right, bottom as fractions of width and height.
        labels: N names.
        scores: (N,) in [0, 1].
    """

    boxes: FloatArray
    labels: tuple[str, ...]
    scores: FloatArray

    def __post_init__(self) -> None:
        """Check that the parts fit each other and are numbers."""
        count = len(self.labels)
        if self.boxes.shape != (count, 4) or self.scores.shape != (count,):
            raise ShapeError(
                f"detections: boxes {self.boxes.shape} and scores {self.scores.shape} of {count} labels,"
                f" expected ({count}, 4) and ({count},)"
            )
        if not (np.isfinite(self.boxes).all() and np.isfinite(self.scores).all()):
            raise NumericsError("detections: a box or score is not finite; check the detector's weights")

    def __len__(self) -> int:
        """N."""
        return len(self.labels)


class Detector(Protocol):
    """Finds things in pictures.

    Attributes:
        name: short name, such as ``yolox_nano``.
        fingerprint: hash of weights and method: equal fingerprints give equal detections.
        side_px: pixels of the shorter side it makes use of; a decoder may stop at twice that.
    """

    name: str
    fingerprint: str
    side_px: int

    def detect(self, images: Sequence[Image]) -> list[Detections]:
        """Upright RGB pictures of any size → what each shows, before anything is left out.

        What is found in a picture does not depend on those beside it, but for rounding.
        """
        ...


def fingerprint(*parts: str) -> str:
    """Hash of what decides a detector's answers."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def match_names(names: Sequence[str], classes: int, where: str) -> None:
    """Refuse another number of names than a detector has classes.

    Raises:
        CheckpointError: the numbers differ.
    """
    if len(names) != classes:
        raise CheckpointError(
            f"{where}: has {counted(classes, 'class', 'classes')}, but {len(names)} names given"
            " (COCO's unless --classes names"
            " others); pass a file of its names, one a line, by --classes FILE"
        )


def keep(found: Detections, min_score: float = MIN_SCORE) -> Detections:
    """The surest detections: boxes cut to the picture, weak and doubled ones left out.

    Of two things of one label whose boxes overlap by more than `MAX_OVERLAP` (intersection over union), only
    the surer one stays; `MOST_OBJECTS` stay in all.

    Args:
        found: by a detector.
        min_score: least score, in [0, 1].
    Returns:
        Surest first; equal scores in the detector's order.
    Source: docs/methods/gsda.md §3.1.
    """
    import torch
    from torchvision.ops import batched_nms

    boxes = np.clip(found.boxes, 0, 1).astype(np.float32)
    seen = (boxes[:, 0] < boxes[:, 2]) & (boxes[:, 1] < boxes[:, 3])
    places = np.flatnonzero(seen & (found.scores >= min_score))
    # Sorted here so that equal scores keep the detector's order whatever the operator does.
    places = places[np.argsort(-found.scores[places], kind="stable")]
    names = {label: number for number, label in enumerate(dict.fromkeys(found.labels))}
    kinds = torch.tensor([names[found.labels[place]] for place in places], dtype=torch.int64)
    scores = np.ascontiguousarray(found.scores[places])
    kept = batched_nms(torch.from_numpy(boxes[places]), torch.from_numpy(scores), kinds, MAX_OVERLAP).numpy()
    places = places[np.sort(kept)[:MOST_OBJECTS]]
    return Detections(
        boxes[places],
        tuple(found.labels[place] for place in places),
        np.clip(found.scores[places], 0, 1).astype(np.float32),
    )
