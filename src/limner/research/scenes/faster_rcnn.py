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
"""Name → pixels of the shorter side it looks at."""
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
        """Build the architecture and give it its weights.

        Args:
            name: one of `ARCHITECTURES`.
            state: parameter name → tensor; see `limner.encoders.weight_files.read_state`.
            sha256: SHA-256 of the weight file.
            classes: names without the background, in the order of the outputs; None uses COCO's where the
                weights have 91 outputs.
            where: the file, for messages.
            device: torch device that computes.
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
        self._model.to(device).eval()
        self._device = device
        self.name, self.side_px = name, ARCHITECTURES[name]
        self.fingerprint = fingerprint(_METHOD, name, str(self.side_px), sha256, *self._labels)

    def detect(self, images: Sequence[Image]) -> list[Detections]:
        """Detect objects, without outputs that have no class name; see `Detector`.

        Pictures of one padded size go through the network together: a larger frame than its own would change
        what is seen near a picture's edges.
        """
        import torch

        framed: dict[tuple[int, ...], list[tuple[int, Tensor, tuple[int, int]]]] = {}
        found: dict[int, Detections] = {}
        with torch.inference_mode():
            for place, image in enumerate(images):
                pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).to(self._device)  # (3, H, W)
                own, _ = self._model.transform([pixels.to(torch.float32) / 255])
                framed.setdefault(tuple(own.tensors.shape), []).append(
                    (place, own.tensors, own.image_sizes[0])
                )
            for group in framed.values():
                sizes = [images[place].size for place, _, _ in group]
                made = self._together([one for _, one, _ in group], [size for _, _, size in group], sizes)
                for (place, _, _), one in zip(group, made, strict=True):
                    found[place] = self._named(one, images[place].size)
        return [found[place] for place in range(len(images))]

    def _together(
        self,
        framed: list[Tensor],
        scaled: list[tuple[int, int]],
        sizes: list[tuple[int, int]],
    ) -> list[dict[str, Tensor]]:
        """Run torchvision's `forward` for pictures of equal size.

        Args:
            framed: (1, 3, H, W) each.
            scaled: height and width of each picture in its frame.
            sizes: width and height of each picture.
        """
        import torch
        from torchvision.models.detection.image_list import ImageList

        batch = ImageList(torch.cat(framed), scaled)
        features = self._model.backbone(batch.tensors)
        proposals, _ = self._model.rpn(batch, features)
        found, _ = self._model.roi_heads(features, proposals, scaled)
        made: list[dict[str, Tensor]] = self._model.transform.postprocess(
            found, scaled, [(height, width) for width, height in sizes]
        )
        return made

    def _named(self, found: Mapping[str, Tensor], size: tuple[int, int]) -> Detections:
        """The network's output as fractions of a picture and names."""
        labels = [self._labels[number] for number in found["labels"].tolist()]
        named = [place for place, label in enumerate(labels) if label != "N/A"]
        whole = np.asarray([*size, *size], np.float32)
        boxes = np.divide(found["boxes"].cpu().numpy(), whole, dtype=np.float32)
        scores = found["scores"].cpu().numpy().astype(np.float32)
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
