"""Faster R-CNN of torchvision, with weights from a file.

The detector the paper names; anybody's fine-tuned weights of these architectures serve as well as the
published ones. It downloads nothing and never runs with random weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.encoders.weight_files import load_strictly
from limner.errors import CheckpointError
from limner.scenes.detections import Detections, fingerprint, match_names

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
    ) -> None:
        """Build the architecture and give it its weights.

        Args:
            name: one of `ARCHITECTURES`.
            state: parameter name → tensor; see `limner.encoders.weight_files.read_state`.
            sha256: of the weight file.
            classes: names without the background, in the order of the outputs; None takes COCO's where the
                weights have 91 outputs.
            where: the file, for messages.
        Raises:
            CheckpointError: the weights are of another architecture or another number of classes.
        """
        if _CLASSES_KEY not in state:
            raise CheckpointError(f"{where}: lacks {_CLASSES_KEY}; no weights of a Faster R-CNN")
        outputs = len(state[_CLASSES_KEY])
        self._labels = coco_classes(gaps=True) if classes is None else ("__background__", *classes)
        match_names(self._labels[1:], outputs - 1, where)
        # The counters of batch norm are there only where it was not frozen in training.
        frozen = not any(key.endswith("num_batches_tracked") for key in state)
        self._model = _built(name, outputs, frozen=frozen)
        load_strictly(self._model, state, where)
        self._model.eval()
        self.name, self.side_px = name, ARCHITECTURES[name]
        self.fingerprint = fingerprint(_METHOD, name, str(self.side_px), sha256, *self._labels)

    def detect(self, image: Image) -> Detections:
        """What a picture shows, without the outputs that name no class; see `Detector`."""
        import torch

        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)  # (3, H, W)
        with torch.inference_mode():
            (found,) = self._model([pixels.to(torch.float32) / 255])
        size = np.asarray([*image.size, *image.size], np.float32)
        labels = [self._labels[number] for number in found["labels"].tolist()]
        named = [place for place, label in enumerate(labels) if label != "N/A"]
        boxes = found["boxes"].numpy().astype(np.float32) / size
        scores = found["scores"].numpy().astype(np.float32)
        return Detections(boxes[named], tuple(labels[place] for place in named), scores[named])


def coco_classes(*, gaps: bool = False) -> tuple[str, ...]:
    """The 80 classes of COCO in their order; with gaps, all 91 numbers, background and unused ones too."""
    from torchvision.models.detection import FasterRCNN_ResNet50_FPN_Weights

    names = tuple(FasterRCNN_ResNet50_FPN_Weights.COCO_V1.meta["categories"])
    return names if gaps else tuple(name for name in names if name not in ("__background__", "N/A"))


def _built(name: str, outputs: int, *, frozen: bool) -> Any:  # noqa: ANN401
    """The architecture, its weights still to come; torchvision is untyped."""
    from torch import nn
    from torchvision.models import detection

    build: Callable[..., Any] = getattr(detection, name)
    model = build(weights=None, weights_backbone=None, num_classes=outputs)
    if name == "fasterrcnn_resnet50_fpn" and frozen:
        # As torchvision does for its published weights: their batch norms add nothing to the variance.
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eps = 0.0
    return model
