"""Faster R-CNN of torchvision, with weights from a file.

The detector the paper names; anybody's fine-tuned weights of these architectures serve as well as the
published ones. It downloads nothing and never runs with random weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.encoders.weights import load_strictly
from limner.errors import CheckpointError, ConfigError, DataError, unknown
from limner.scenes.detections import Detections

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

ARCHITECTURES = {
    "fasterrcnn_resnet50_fpn": 800,
    "fasterrcnn_resnet50_fpn_v2": 800,
    "fasterrcnn_mobilenet_v3_large_fpn": 800,
    "fasterrcnn_mobilenet_v3_large_320_fpn": 320,
}
"""Name → pixels of the shorter side it looks at."""
_METHOD = "faster-rcnn/1"
_CLASSES_KEY = "roi_heads.box_predictor.cls_score.weight"


class FasterRCNN:
    """A torchvision Faster R-CNN; see `limner.scenes.detections.Detector`."""

    def __init__(
        self,
        name: str,
        state: Mapping[str, Tensor],
        sha256: str,
        *,
        classes: Sequence[str] | None = None,
        where: str = "",
        side_px: int | None = None,
        device: str = "cpu",
    ) -> None:
        """Build the architecture and give it its weights.

        Args:
            name: one of `ARCHITECTURES`.
            state: parameter name → tensor; see `limner.encoders.weights.read_state`.
            sha256: of the weight file.
            classes: names without the background, in the order of the outputs; None takes COCO's where the
                weights tell 91 classes apart.
            where: the file, for messages.
            side_px: shorter side to look at; None takes the architecture's own.
            device: torch device that computes.
        Raises:
            ConfigError: unknown architecture.
            CheckpointError: the weights are of another architecture or another number of classes.
        """
        if name not in ARCHITECTURES:
            raise ConfigError("detector: " + unknown("architecture", name, ARCHITECTURES))
        if _CLASSES_KEY not in state:
            raise CheckpointError(f"{where}: lacks {_CLASSES_KEY}; no weights of a Faster R-CNN")
        outputs = int(state[_CLASSES_KEY].shape[0])
        self._labels = _labels(classes, outputs, where)
        self._side = side_px or ARCHITECTURES[name]
        # The counters of batch norm are there only where it was not frozen in training.
        frozen = not any(key.endswith("num_batches_tracked") for key in state)
        self._model = _built(name, outputs, side_px, frozen=frozen)
        load_strictly(self._model, state, where)
        self._model = self._model.eval().to(device)
        self._name, self._device = name, device
        described = "\0".join((_METHOD, name, str(self._side), sha256, *self._labels))
        self._fingerprint = hashlib.sha256(described.encode()).hexdigest()

    @property
    def name(self) -> str:
        """The architecture."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Hash of architecture, size, weight file and class names."""
        return self._fingerprint

    @property
    def classes(self) -> tuple[str, ...]:
        """Every label it can give."""
        return tuple(dict.fromkeys(label for label in self._labels[1:] if label != "N/A"))

    @property
    def side_px(self) -> int:
        """Pixels of the shorter side."""
        return self._side

    def detect(self, images: Sequence[Image]) -> list[Detections]:
        """Upright RGB pictures → what each shows; see `Detector`."""
        # One at a time: torchvision pads a batch to one size, and what it finds then depends on the others.
        return [self._one(image) for image in images]

    def _one(self, image: Image) -> Detections:
        """What one picture shows."""
        import torch

        if image.mode != "RGB":
            raise DataError(f"detector: picture has mode {image.mode}, expected RGB; convert it first")
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)  # (3, H, W)
        with torch.inference_mode():
            (found,) = self._model([pixels.to(self._device, torch.float32) / 255])
        return self._read(found, image)

    def _read(self, found: dict[str, Tensor], image: Image) -> Detections:
        """One picture's boxes as fractions, without the numbers that name no class."""
        size = np.asarray([*image.size, *image.size], np.float32)
        labels = [self._labels[number] for number in found["labels"].tolist()]
        named = [place for place, label in enumerate(labels) if label != "N/A"]
        boxes = found["boxes"].cpu().numpy().astype(np.float32) / size
        scores = found["scores"].cpu().numpy().astype(np.float32)
        return Detections(boxes[named], tuple(labels[place] for place in named), scores[named])


def coco_classes(*, gaps: bool = False) -> tuple[str, ...]:
    """The 80 classes of COCO in their order; with gaps, all 91 numbers, background and unused ones too."""
    from torchvision.models.detection import FasterRCNN_ResNet50_FPN_Weights

    names = tuple(FasterRCNN_ResNet50_FPN_Weights.COCO_V1.meta["categories"])
    return names if gaps else tuple(name for name in names if name not in ("__background__", "N/A"))


def _labels(classes: Sequence[str] | None, outputs: int, where: str) -> tuple[str, ...]:
    """Names by output, background first."""
    if classes is not None:
        if len(classes) != outputs - 1:
            raise CheckpointError(
                f"{where}: tells {outputs - 1} classes apart, but {len(classes)} names are given"
            )
        return ("__background__", *classes)
    names = coco_classes(gaps=True)
    if outputs != len(names):
        raise CheckpointError(
            f"{where}: tells {outputs - 1} classes apart, not COCO's {len(names) - 1};"
            " pass their names, one a line, by --classes FILE"
        )
    return names


def _built(name: str, outputs: int, side_px: int | None, *, frozen: bool) -> Any:  # noqa: ANN401
    """The architecture, its weights still to come; torchvision is untyped."""
    from torch import nn
    from torchvision.models import detection

    build: Callable[..., Any] = getattr(detection, name)
    size = {} if side_px is None else {"min_size": side_px, "max_size": 2 * side_px}
    model = build(weights=None, weights_backbone=None, num_classes=outputs, **size)
    if name == "fasterrcnn_resnet50_fpn" and frozen:
        # As torchvision does for its published weights: their batch norms add nothing to the variance.
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eps = 0.0
    return model
