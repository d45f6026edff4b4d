"""Pictures through a torchvision classifier: pooled features, and class names as sentences.

The features compare pictures with pictures (space ``visual``), the classes answer texts (space
``labels``, by ConSE). It reads no files and trains nothing.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from limner.arrays import ByteArray, FloatArray, ImageVectors, unit_rows
from limner.encoders.labels import ConSE
from limner.encoders.weights import load_strictly
from limner.errors import CheckpointError, ConfigError, DataError, ShapeError, unknown
from limner.threads import one_core_each

if TYPE_CHECKING:
    from PIL.Image import Image


class Stages(nn.Module):
    """Stages one after the other, each summed up over its places."""

    def __init__(self, stages: list[nn.Module]) -> None:
        """Take what makes the maps.

        Args:
            stages: each (B, C, H, W) → (B, C', H', W'), fed with what the one before made.
        """
        super().__init__()
        self.stages = nn.ModuleList(stages)

    def forward(self, values: Tensor) -> Tensor:
        """(B, 3, H, W) normalised → (B, F): per stage the mean of each channel, then its deviation."""
        found = []
        for stage in self.stages:
            values = stage(values)
            places = values.float().flatten(2)  # (B, C, H·W)
            found += [places.mean(dim=2), places.std(dim=2, correction=0)]
        return torch.cat(found, dim=1)


def stages_trunk(model: nn.Module, name: str) -> Stages:
    """The stages of a torchvision classifier; weights are shared with it.

    Args:
        model: of the ResNet, ConvNeXt or EfficientNet family.
        name: of the architecture, for the message.
    Raises:
        ConfigError: it has no maps of features, as transformers.
    """
    children = dict(model.named_children())
    if "layer4" in children:
        names = list(children)
        stem = [children[key] for key in names[: names.index("layer1")]]
        return Stages([nn.Sequential(*stem), *(children[f"layer{number}"] for number in range(1, 5))])
    if "features" in children and "permute" not in children:
        return Stages(list(children["features"].children()))
    raise ConfigError(f"trunk: {name} has no maps of features to sum up; choose a ResNet or ConvNeXt")


SMALLEST_PART = 4
"""Pictures below which a part of its own does not pay."""


def in_parts(work: Callable[[ByteArray], FloatArray], batch: ByteArray) -> FloatArray:
    """The same as `work(batch)`, up to rounding.

    Args:
        work: (B, ...) bytes → (B, F), row by row; called in threads, where torch computes on one core.
        batch: (B, ...) bytes.
    """
    import torch

    threads = torch.get_num_threads()
    count = min(threads, len(batch) // SMALLEST_PART)
    if count < 2:
        return work(batch)
    return np.concatenate(list(one_core_each(np.array_split(batch, count), work, workers=count)))


Framing = Literal["squash", "crop", "pad"]
_CROP_MARGIN = 256 / 224
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def check_framing(name: str) -> None:
    """Refuse a framing that does not exist.

    Raises:
        ConfigError: naming the nearest one.
    """
    if name not in get_args(Framing):
        raise ConfigError("encoder: " + unknown("framing", name, get_args(Framing)))


def shorter_side_px(side_px: int, framing: Framing) -> int:
    """Pixels of the shorter side that `frame` makes use of."""
    return round(side_px * _CROP_MARGIN) if framing == "crop" else side_px


def frame(image: Image, side_px: int, framing: Framing, *, bicubic: bool = False) -> ByteArray:
    """One upright RGB picture → (side, side, 3) bytes.

    Args:
        image: mode RGB.
        side_px: side of the square.
        framing: ``squash`` scales width and height apart, so all of the picture is seen; ``crop``
            scales the shorter side to 8/7 of the square and cuts out its centre, as ImageNet
            classifiers are tested; ``pad`` keeps proportions and fills with mid-grey.
        bicubic: how pixels in between are found; bilinear unless given.
    Raises:
        DataError: the picture is not RGB.
    """
    from PIL.Image import Resampling, new

    if image.mode != "RGB":
        raise DataError(f"encoder: picture has mode {image.mode}, expected RGB; convert it first")
    between = Resampling.BICUBIC if bicubic else Resampling.BILINEAR
    width, height = image.size
    square = (side_px, side_px)
    # A gap of 2 halves large pictures by box filter first: same look, far less work.
    if framing == "squash":
        shown = image.resize(square, between, reducing_gap=2.0)
    elif framing == "crop":
        part = min(width, height) / _CROP_MARGIN
        left, top = (width - part) / 2, (height - part) / 2
        box = (left, top, left + part, top + part)
        shown = image.resize(square, between, box=box, reducing_gap=2.0)
    else:
        scale = side_px / max(width, height)
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        inner = image.resize(size, between, reducing_gap=2.0)
        shown = new("RGB", square, (124, 116, 104))  # the mean of ImageNet: zero once normalised
        shown.paste(inner, ((side_px - size[0]) // 2, (side_px - size[1]) // 2))
    return np.array(shown, dtype=np.uint8)


DRAWING_WIDTH = 384


class FromBytes(nn.Module):
    """A backbone that takes bytes.

    Normalises with ImageNet's mean and deviation, wherever the module lies.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, trunk: nn.Module) -> None:
        """Cover a backbone.

        Args:
            trunk: (B, 3, H, W) normalised → (B, F), or (B, P, F) of a grid.
        """
        super().__init__()
        self.trunk = trunk
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN) * 255, persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD) * 255, persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, H, W, 3) bytes → what the trunk makes of them.

        Raises:
            ShapeError: not such a batch.
        """
        if pixels.ndim != 4 or pixels.shape[-1] != 3 or pixels.dtype != torch.uint8:
            raise ShapeError(
                f"trunk: pixels are {pixels.dtype} {tuple(pixels.shape)}, expected uint8 (B, H, W, 3)"
            )
        values = (pixels.float() - self.mean) / self.std
        features: Tensor = self.trunk(values.permute(0, 3, 1, 2))
        return features


class DrawingTrunk(nn.Module):
    """Four strided convolutions, then mean and maximum over places; for small drawings, from scratch."""

    def __init__(self, widths: tuple[int, ...] = (24, 48, 96, DRAWING_WIDTH // 2)) -> None:
        """Draw the weights from torch's generator.

        Args:
            widths: channels after each convolution; the features are twice the last.
        """
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in zip((3, *widths), widths, strict=False):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)
        self.width = 2 * widths[-1]

    def forward(self, values: Tensor) -> Tensor:
        """(B, 3, H, W) normalised → (B, F)."""
        grid = self.layers(values)  # (B, F/2, H/16, W/16)
        return torch.cat([grid.mean(dim=(2, 3)), grid.amax(dim=(2, 3))], dim=1)


class Grid(nn.Module):
    """A map of features as places in reading order."""

    def __init__(self, body: nn.Module) -> None:
        """Take what makes the map.

        Args:
            body: (B, 3, H, W) normalised → (B, F, h, w).
        """
        super().__init__()
        self.body = body

    def forward(self, values: Tensor) -> Tensor:
        """(B, 3, H, W) normalised → (B, h·w, F)."""
        places: Tensor = self.body(values).flatten(2).transpose(1, 2)
        return places


def grid_trunk(model: nn.Module, name: str) -> Grid:
    """A torchvision classifier up to its last map of features; weights are shared with it.

    Args:
        model: of the ResNet, ConvNeXt or EfficientNet family.
        name: of the architecture, for the message.
    Raises:
        ConfigError: it has no such map, as transformers.
    """
    children = dict(model.named_children())
    if "layer4" in children:
        before = list(children)[: list(children).index("layer4") + 1]
        return Grid(nn.Sequential(OrderedDict((key, children[key]) for key in before)))
    if "features" in children and "permute" not in children:
        return Grid(children["features"])
    raise ConfigError(
        f"trunk: {name} has no map of features to take places from; choose a ResNet or ConvNeXt"
    )


class DrawingGrid(nn.Module):
    """The convolutions of `DrawingTrunk`, every place kept."""

    def __init__(self) -> None:
        """Draw the weights from torch's generator."""
        super().__init__()
        trunk = DrawingTrunk()
        self.grid = Grid(trunk.layers)
        self.width = trunk.width // 2

    def forward(self, values: Tensor) -> Tensor:
        """(B, 3, H, W) normalised → (B, H/16 · W/16, F)."""
        places: Tensor = self.grid(values)
        return places


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
            framing: how a picture becomes a square, see `limner.encoders.pixels.frame`.
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
        return self._run(checked(self.name, batch), grid_trunk(self._trunk, self.name))

    def stages(self, batch: ByteArray) -> FloatArray:
        """(B, 224, 224, 3) bytes → (B, F) means and deviations of the maps of all stages.

        Raises:
            ShapeError: not B such squares.
            ConfigError: the backbone has no such maps.
        """
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
