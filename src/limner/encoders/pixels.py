"""Pictures through a torchvision classifier: pooled features, and class names as sentences.

The features compare pictures with pictures (space ``visual``), the classes answer texts (space
``labels``, by ConSE). It reads no files and trains nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from limner.encoders.conse import ConSE
from limner.encoders.framing import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Framing,
    check_framing,
    frame,
    shorter_side_px,
)
from limner.encoders.parts import in_parts
from limner.encoders.weights import load_strictly
from limner.errors import CheckpointError, ConfigError, ShapeError, unknown
from limner.similarity import ByteArray, FloatArray, ImageVectors, unit_rows

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor, nn

Precision = Literal["bfloat16", "float32"]
# Picture → another picture of its story, storybook validation, ResNet-50: R@1 / mean AP
# squash .783 / .540, crop .757 / .521, pad .761 / .547; text → picture is best with squash too.
FRAMING: Framing = "squash"
_METHOD = "pixels/1"
SIDE_PX = 224


def check_precision(name: str) -> None:
    """Refuse a precision that does not exist.

    Raises:
        ConfigError: naming the nearest one.
    """
    if name not in get_args(Precision):
        raise ConfigError("encoder: " + unknown("precision", name, get_args(Precision)))


def transform_of(precision: Precision, framing: Framing = FRAMING) -> str:
    """How pixels become features beside the weights, in words: framing, side and precision."""
    return f"{framing} {SIDE_PX} {precision}"


@dataclass(frozen=True)
class Backbone:
    """A classifier cut before its last layer.

    Attributes:
        trunk: (B, 3, H, W) normalised → (B, F) pooled features, in evaluation mode.
        head: weight (C, F) and bias (C,) of the last layer in float32, or None where the file has none.
        width: F.
    """

    trunk: nn.Module
    head: tuple[Tensor, Tensor] | None
    width: int


def build(name: str, state: Mapping[str, Tensor], where: str) -> Backbone:
    """A torchvision classifier with the parameters of a file.

    The number of classes is read from the file. A file without the last layer (a bare feature
    extractor) is accepted; every other missing or unknown key is an error.

    Args:
        name: torchvision's name of the architecture.
        state: parameter name → tensor; half precision is cast to float32.
        where: the file, for messages.
    Raises:
        ConfigError: torchvision has no such architecture, or it ends without a linear layer.
        CheckpointError: the parameters are not those of the architecture.
    """
    import torch
    from torch import nn
    from torchvision import models

    if name not in models.list_models(module=models):
        raise ConfigError("encoder: " + unknown("architecture", name, models.list_models(module=models)))
    # On the meta device nothing is drawn at random: a parameter not read from the file cannot exist.
    with torch.device("meta"):
        model = models.get_model(name, weights=None)
    linears = [key for key, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linears:
        raise ConfigError(f"encoder: {name} has no linear last layer; choose another architecture")
    last = linears[-1]
    owner = model.get_submodule(last.rpartition(".")[0])
    leaf = last.rpartition(".")[2]
    width = getattr(owner, leaf).in_features
    weight, bias = state.get(f"{last}.weight"), state.get(f"{last}.bias")
    bare = weight is None and bias is None
    if weight is not None and weight.ndim == 2:
        setattr(owner, leaf, nn.Linear(width, weight.shape[0], device="meta"))
    if bare:
        setattr(owner, leaf, nn.Identity())
    load_strictly(model, state, where)
    head = None
    if not bare:
        linear = getattr(owner, leaf)
        head = (linear.weight.detach().clone(), linear.bias.detach().clone())
        setattr(owner, leaf, nn.Identity())
    trunk = model.eval().requires_grad_(requires_grad=False)
    return Backbone(trunk, head, int(width))


class PixelEncoder:
    """A torchvision backbone as an image encoder.

    Spaces: ``visual``, the pooled features; ``labels``, where the file has a classifier whose class
    names are known.
    """

    def __init__(
        self,
        name: str,
        backbone: Backbone,
        sha256: str,
        *,
        conse: ConSE | None = None,
        precision: Precision = "bfloat16",
        framing: Framing = FRAMING,
        device: str = "cpu",
    ) -> None:
        """Take a loaded backbone.

        Args:
            name: architecture.
            backbone: see `build`.
            sha256: of the weight file.
            conse: turns class probabilities into sentences' space; None leaves ``labels`` out.
            precision: ``bfloat16`` multiplies in half the bits, adds in float32.
            framing: how a picture becomes a square, see `limner.encoders.framing.frame`.
            device: torch device that computes.
        Raises:
            ConfigError: unknown precision or framing.
            CheckpointError: class names are given and the file has another number of classes.
        """
        import torch

        check_precision(precision)
        check_framing(framing)
        if conse is not None and (backbone.head is None or len(backbone.head[0]) != len(conse.classes)):
            outputs = 0 if backbone.head is None else len(backbone.head[0])
            raise CheckpointError(f"{name}: {len(conse.classes)} class names for {outputs} outputs")
        self.name = name
        self._precision, self._framing, self._device = precision, framing, device
        self._conse, self._width = conse, backbone.width
        self._head = backbone.head if conse is not None else None
        self._trunk = backbone.trunk.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        described = conse.description if conse else "no labels"
        settings = f"{_METHOD} {name} {sha256} {precision} {framing} {SIDE_PX} {described}"
        self._fingerprint = hashlib.sha256(settings.encode()).hexdigest()

    @property
    def fingerprint(self) -> str:
        """Hash of weights, precision, framing, class names and method."""
        return self._fingerprint

    @property
    def spaces(self) -> dict[str, int]:
        """Space name → D."""
        return {"visual": self._width} | ({"labels": self._conse.dim} if self._conse else {})

    @property
    def side_px(self) -> int:
        """Pixels of the shorter side that `prepare` makes use of."""
        return shorter_side_px(SIDE_PX, self._framing)

    def prepare(self, image: Image) -> ByteArray:
        """One upright RGB picture → (224, 224, 3) bytes."""
        return frame(image, SIDE_PX, self._framing)

    def encode_pixels(self, batch: ByteArray) -> ImageVectors:
        """(B, 224, 224, 3) bytes → vectors and the five most probable classes.

        Raises:
            ShapeError: not B such squares.
            NumericsError: a feature is not finite.
        """
        return vectors(self.name, self._forward(checked(self.name, batch)), self._head, self._conse)

    def features(self, batch: ByteArray) -> FloatArray:
        """(B, 224, 224, 3) bytes → (B, F) pooled features as they leave the backbone, not of unit length.

        For training on stored features, where the length of a feature carries information.

        Raises:
            ShapeError: not B such squares.
        """
        return self._forward(checked(self.name, batch))

    def grid(self, batch: ByteArray) -> FloatArray:
        """(B, 224, 224, 3) bytes → (B, P, F) features of every place of the last map, in reading order.

        Raises:
            ShapeError: not B such squares.
            ConfigError: the backbone has no such map.
        """
        from limner.encoders.trunks import grid_trunk

        return self._run(checked(self.name, batch), grid_trunk(self._trunk, self.name))

    def stages(self, batch: ByteArray) -> FloatArray:
        """(B, 224, 224, 3) bytes → (B, F) means and deviations of the maps of all stages.

        Raises:
            ShapeError: not B such squares.
            ConfigError: the backbone has no such maps.
        """
        from limner.encoders.stages import stages_trunk

        return self._run(checked(self.name, batch), stages_trunk(self._trunk, self.name))

    def _forward(self, batch: ByteArray) -> FloatArray:
        """Bytes → (B, F) features."""
        return self._run(batch, self._trunk)

    def _run(self, batch: ByteArray, trunk: nn.Module) -> FloatArray:
        work = partial(self._compute, trunk=trunk)
        return in_parts(work, batch) if self._device == "cpu" else work(batch)

    def _compute(self, batch: ByteArray, trunk: nn.Module) -> FloatArray:
        import torch

        with (
            torch.inference_mode(),
            torch.autocast(
                self._device.partition(":")[0], torch.bfloat16, enabled=self._precision == "bfloat16"
            ),
        ):
            features: FloatArray = trunk(normalised(batch, self._device)).float().cpu().numpy()
        return features


def checked(name: str, batch: ByteArray) -> ByteArray:
    """The batch itself when it is (B, 224, 224, 3) bytes.

    Raises:
        ShapeError: it is not.
    """
    if batch.dtype != np.uint8 or batch.ndim != 4 or batch.shape[1:] != (SIDE_PX, SIDE_PX, 3):
        raise ShapeError(
            f"{name}: batch is {batch.dtype} {batch.shape}, expected uint8 (B, {SIDE_PX}, {SIDE_PX}, 3)"
        )
    return batch


def normalised(batch: ByteArray, device: str = "cpu") -> Tensor:
    """(B, H, W, 3) bytes → (B, 3, H, W) float32 with ImageNet's mean 0 and deviation 1.

    The result keeps the bytes' memory order, which is torch's channels-last: nothing is transposed.
    """
    import torch

    mean = torch.tensor(IMAGENET_MEAN, device=device) * 255
    std = torch.tensor(IMAGENET_STD, device=device) * 255
    values = torch.from_numpy(np.ascontiguousarray(batch)).to(device, torch.float32)
    return values.sub_(mean).div_(std).permute(0, 3, 1, 2)


def vectors(
    name: str, features: FloatArray, head: tuple[Tensor, Tensor] | None, conse: ConSE | None
) -> ImageVectors:
    """Pooled features → spaces and labels; the classifier runs in float32 whatever made the features.

    Args:
        name: encoder, for messages.
        features: (B, F).
        head: weight (C, F) and bias (C,) of the classifier, or None.
        conse: with the head, or None.
    Raises:
        NumericsError: a feature is not finite.
    """
    import torch

    spaces = {"visual": unit_rows(name, features)}
    if head is None or conse is None:
        return ImageVectors(spaces)
    logits = torch.nn.functional.linear(torch.from_numpy(features), head[0], head[1])
    probabilities: FloatArray = torch.softmax(logits, dim=1).numpy()
    spaces["labels"] = conse.vectors(probabilities)
    return ImageVectors(spaces, conse.labels(probabilities))
