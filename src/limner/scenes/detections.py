"""What a detector finds in a picture, and which of it is kept.

One form for every detector, so that scene graphs do not depend on which one looked. It runs no network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from limner.arrays import FloatArray
from limner.errors import ConfigError, NumericsError, ShapeError

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
    """Finds things in pictures."""

    @property
    def name(self) -> str:
        """Short name, such as ``yolox_nano``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash of weights and method: equal fingerprints give equal detections."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """Every label it can give."""
        ...

    @property
    def side_px(self) -> int:
        """Pixels of the shorter side it makes use of; a decoder may stop at twice that."""
        ...

    def detect(self, images: Sequence[Image]) -> list[Detections]:
        """Upright RGB pictures of any sizes → what each shows, before anything is left out."""
        ...


@dataclass(frozen=True)
class DetectionRules:
    """Which detections are kept.

    Attributes:
        min_score: least score, in [0, 1].
        max_overlap: of two things of one label whose boxes overlap by more (intersection over union), only
            the surer one stays.
        most: things per picture, the surest first.
    Source: docs/methods/gsda.md §3.1.
    """

    min_score: float = MIN_SCORE
    max_overlap: float = MAX_OVERLAP
    most: int = MOST_OBJECTS

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not (0 <= self.min_score <= 1 and 0 <= self.max_overlap <= 1 and self.most >= 1):
            raise ConfigError(f"detections: {self}, expected shares in [0, 1] and most of at least 1")


def keep(found: Detections, rules: DetectionRules | None = None) -> Detections:
    """The surest detections: boxes cut to the picture, weak and doubled ones left out.

    Args:
        found: by a detector.
        rules: None takes those of the paper's reading.
    Returns:
        Surest first; equal scores in the detector's order.
    """
    import torch
    from torchvision.ops import batched_nms

    chosen = rules or DetectionRules()
    boxes = np.clip(found.boxes, 0, 1).astype(np.float32)
    seen = (boxes[:, 0] < boxes[:, 2]) & (boxes[:, 1] < boxes[:, 3])
    places = np.flatnonzero(seen & (found.scores >= chosen.min_score))
    # Sorted here so that equal scores keep the detector's order whatever the operator does.
    places = places[np.argsort(-found.scores[places], kind="stable")]
    names = {label: number for number, label in enumerate(dict.fromkeys(found.labels))}
    kinds = torch.tensor([names[found.labels[place]] for place in places], dtype=torch.int64)
    scores = np.ascontiguousarray(found.scores[places])
    kept = batched_nms(
        torch.from_numpy(boxes[places]), torch.from_numpy(scores), kinds, chosen.max_overlap
    ).numpy()
    places = places[np.sort(kept)[: chosen.most]]
    return Detections(
        boxes[places],
        tuple(found.labels[place] for place in places),
        np.clip(found.scores[places], 0, 1).astype(np.float32),
    )
