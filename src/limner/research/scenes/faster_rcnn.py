"""torchvision's Faster R-CNN, the detector used by GSDA, with weights from a file.

Published and fine-tuned weights of these architectures can be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.encoders.weight_files import load_strictly
from limner.errors import CheckpointError
from limner.research.scenes.detections import Detections, fingerprint, match_names

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

ARCHITECTURES = {
    "fasterrcnn_resnet50_fpn": 800,
    "fasterrcnn_resnet50_fpn_v2": 800,
    "fasterrcnn_mobilenet_v3_large_fpn": 800,
    "fasterrcnn_mobilenet_v3_large_320_fpn": 320,
}
"""Name → shorter side of its input, in pixels."""
_METHOD = "faster-rcnn/1"
_CLASSES_KEY = "roi_heads.box_predictor.cls_score.weight"


class FasterRCNN:
    """A torchvision Faster R-CNN; see `limner.research.scenes.detections.Detector`."""

    def __init__(
        self,
        name: str,
        state: Mapping[str, Tensor],
        sha256: str,
        *,
        classes: Sequence[str] | None = None,
        where: str = "",
        device: str = "cpu",
    ) -> None:
        """Build the architecture and load its weights.

        Args:
            name: one of `ARCHITECTURES`.
            state: parameter name → tensor; see `limner.encoders.weight_files.read_state`.
            sha256: SHA-256 of the weight file.
            classes: names without the background, in the order of the outputs; None uses COCO's, for weights
                with 91 outputs.
            where: name of the file, for messages.
            device: torch device that computes.
        Raises:
            CheckpointError: the weights are of another architecture or another number of classes.
        """
        if _CLASSES_KEY not in state:
            raise CheckpointError(f"{where}: has no {_CLASSES_KEY}; expected weights of a Faster R-CNN")
        outputs = len(state[_CLASSES_KEY])
        self._labels = coco_classes(gaps=True) if classes is None else ("__background__", *classes)
        match_names(self._labels[1:], outputs - 1, where)
        # Batch norm has counters only if it was not frozen in training.
        frozen = not any(key.endswith("num_batches_tracked") for key in state)
        self._model = _built(name, outputs, frozen=frozen)
        load_strictly(self._model, state, where)
        self._model.to(device).eval()
        self._device = device
        self.name, self.side_px = name, ARCHITECTURES[name]
        self.fingerprint = fingerprint(_METHOD, name, str(self.side_px), sha256, *self._labels)

    def detect(self, images: Sequence[Image]) -> list[Detections]:
        """Detect objects, see `Detector`; outputs without a class name are dropped.

        Only pictures of the same padded size share a batch: additional padding would change detections near
        the edges.
        """
        import torch

        framed: dict[tuple[int, ...], list[tuple[int, Tensor, tuple[int, int]]]] = {}
        detections: dict[int, Detections] = {}
        with torch.inference_mode():
            for place, image in enumerate(images):
                pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).to(self._device)  # (3, H, W)
                transformed, _ = self._model.transform([pixels.to(torch.float32) / 255])
                framed.setdefault(tuple(transformed.tensors.shape), []).append(
                    (place, transformed.tensors, transformed.image_sizes[0])
                )
            for group in framed.values():
                sizes = [images[place].size for place, _, _ in group]
                made = self._together(
                    [detected for _, detected, _ in group], [size for _, _, size in group], sizes
                )
                for (place, _, _), detected in zip(group, made, strict=True):
                    detections[place] = self._named(detected, images[place].size)
        return [detections[place] for place in range(len(images))]

    def _together(
        self,
        framed: list[Tensor],
        scaled: list[tuple[int, int]],
        sizes: list[tuple[int, int]],
    ) -> list[dict[str, Tensor]]:
        """Run torchvision's `forward` for pictures of equal padded size.

        Args:
            framed: padded pictures, (1, 3, H, W) each.
            scaled: height and width of each picture without padding, in pixels.
            sizes: original width and height of each picture, in pixels.
        """
        import torch
        from torchvision.models.detection.image_list import ImageList

        batch = ImageList(torch.cat(framed), scaled)
        features = self._model.backbone(batch.tensors)
        proposals, _ = self._model.rpn(batch, features)
        detected, _ = self._model.roi_heads(features, proposals, scaled)
        made: list[dict[str, Tensor]] = self._model.transform.postprocess(
            detected, scaled, [(height, width) for width, height in sizes]
        )
        return made

    def _named(self, found: Mapping[str, Tensor], size: tuple[int, int]) -> Detections:
        """Convert the network's output: boxes to fractions of the picture, class numbers to names."""
        labels = [self._labels[number] for number in found["labels"].tolist()]
        named = [place for place, label in enumerate(labels) if label != "N/A"]
        whole = np.asarray([*size, *size], np.float32)
        boxes = np.divide(found["boxes"].cpu().numpy(), whole, dtype=np.float32)
        scores = found["scores"].cpu().numpy().astype(np.float32)
        return Detections(boxes[named], tuple(labels[place] for place in named), scores[named])


def coco_classes(*, gaps: bool = False) -> tuple[str, ...]:
    """COCO's 80 class names in order; with `gaps` all 91 outputs, including background and unused numbers."""
    from torchvision.models.detection import FasterRCNN_ResNet50_FPN_Weights

    names = tuple(FasterRCNN_ResNet50_FPN_Weights.COCO_V1.meta["categories"])
    return names if gaps else tuple(name for name in names if name not in ("__background__", "N/A"))


def _built(name: str, outputs: int, *, frozen: bool) -> Any:  # noqa: ANN401
    """The architecture, without trained weights; torchvision is untyped."""
    from torch import nn
    from torchvision.models import detection

    build: Callable[..., Any] = getattr(detection, name)
    model = build(weights=None, weights_backbone=None, num_classes=outputs)
    if name == "fasterrcnn_resnet50_fpn" and frozen:
        # as torchvision does for its published weights, which were trained with eps = 0
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eps = 0.0
    return model
