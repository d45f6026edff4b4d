"""Image encoders from torchvision classifiers: pooled features, and class names as sentences.

The features compare pictures with each other (space ``visual``); the classes are compared with texts (space
``labels``, by ConSE).
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from limner.arrays import ByteArray, FloatArray, ImageVectors, TextEncoder, unit_rows
from limner.devices import Precision, autocast, one_core_each
from limner.encoders.framing import SIDE_PX, checked, frame
from limner.errors import ConfigError, ShapeError, unknown

if TYPE_CHECKING:
    from PIL.Image import Image

    from limner.devices import Engine


TOP = 50
PROMPT = "There is a {name}."
_SHOWN = 5


class ConSE:
    """Convex combination of the embeddings of the most probable classes, rescaled to length 1.

    Source: Norouzi et al. 2014 (ConSE), the convex combination over the top T classes. Departs:
    classes are embedded as prompted sentences, and T is 50 where the paper finds 10 enough for
    photographs of one object. Both were chosen on validation splits with a ResNet-50, mean log
    rank of the right picture (lower is better; flickr8k 1,000 captions × 500, storybook 309 pages × 291):
    T = 10: "{name}" 3.465 / 4.453, "a picture of a {name}" 3.379 / 4.431, "There is a {name}."
    3.361 / 4.438; T = 50: 3.413 / 4.419, 3.339 / 4.408, 3.300 / 4.402.
    """

    def __init__(self, classes: Sequence[str], encoder: TextEncoder) -> None:
        """Embed the class names.

        Args:
            classes: C names, in the order of the classifier's outputs.
            encoder: the sentence encoder whose space the pictures enter.
        """
        self.classes = tuple(classes)
        self.top = min(TOP, len(self.classes))
        self._vectors = encoder.encode_text([PROMPT.format(name=name) for name in self.classes])  # (C, D)
        self.description = (
            f"conse/1 top={self.top} prompt={PROMPT!r} classes={self.classes} text={encoder.fingerprint}"
        )

    @property
    def dim(self) -> int:
        """D of the sentence space."""
        return int(self._vectors.shape[1])

    def vectors(self, probabilities: FloatArray) -> FloatArray:
        """Vectors (B, D) of unit length from probabilities (B, C)."""
        best = self._best(probabilities, self.top)
        weights = np.take_along_axis(probabilities, best, axis=1)
        weights = weights / weights.sum(axis=1, keepdims=True)
        mixed = np.einsum("bt,btd->bd", weights, self._vectors[best])
        return unit_rows("conse", np.asarray(mixed, dtype=np.float32))

    def labels(self, probabilities: FloatArray) -> list[list[tuple[str, float]]]:
        """Five most probable classes of each picture, best first, from probabilities (B, C)."""
        best = self._best(probabilities, _SHOWN)
        return [
            [(self.classes[column], float(row[column])) for column in columns]
            for row, columns in zip(probabilities, best, strict=True)
        ]

    def _best(self, probabilities: FloatArray, count: int) -> NDArray[np.int64]:
        """(B, count) columns of the largest probabilities, largest first, ties by column."""
        return np.argsort(-probabilities, axis=1, kind="stable")[:, :count].astype(np.int64)


class Stages(nn.Module):
    """Consecutive stages, each pooled over its positions."""

    def __init__(self, stages: list[nn.Module]) -> None:
        """Wrap the stages.

        Args:
            stages: each (B, C, H, W) → (B, C', H', W'), applied to the output of the one before.
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


def _up_to_last_map(model: nn.Module, name: str) -> dict[str, nn.Module]:
    """The layers of a torchvision classifier up to its feature maps.

    Raises:
        ConfigError: it has no feature maps, such as a transformer.
    """
    children = dict(model.named_children())
    if "layer4" in children:
        names = list(children)
        return {key: children[key] for key in names[: names.index("layer4") + 1]}
    if "features" in children and "permute" not in children:
        return dict(children["features"].named_children())
    raise ConfigError(f"backbone: {name} has no maps of features; choose a ResNet, VGG or ConvNeXt")


def stages(model: nn.Module, name: str) -> Stages:
    """The stages of a torchvision classifier; they share its weights.

    Args:
        model: model of the ResNet, VGG (up to each pooling), ConvNeXt or EfficientNet family.
        name: name of the architecture, for the message.
    Raises:
        ConfigError: it has no feature maps, such as a transformer.
    """
    children = _up_to_last_map(model, name)
    if any(isinstance(child, nn.MaxPool2d) for child in children.values()) and "layer4" not in children:
        found: list[list[nn.Module]] = [[]]
        for child in children.values():
            found[-1].append(child)
            if isinstance(child, nn.MaxPool2d):
                found.append([])
        return Stages([nn.Sequential(*layers) for layers in found if layers])
    stem = [children.pop(key) for key in list(children)[:-4]] if "layer4" in children else []
    return Stages([*([nn.Sequential(*stem)] if stem else []), *children.values()])


SMALLEST_PART = 4
"""Minimum number of pictures of a part."""


def in_parts(work: Callable[[ByteArray], FloatArray], batch: ByteArray, device: str = "cpu") -> FloatArray:
    """Compute `work(batch)` in parallel parts; equal up to rounding.

    Args:
        work: (B, ...) bytes → (B, F), row by row; called in threads, where torch computes on one core.
        batch: (B, ...) bytes.
        device: device; only the CPU uses parts.
    """
    count = min(torch.get_num_threads(), len(batch) // SMALLEST_PART) if device == "cpu" else 1
    if count < 2:
        return work(batch)
    return np.concatenate(list(one_core_each(np.array_split(batch, count), work, workers=count)))


IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class FromBytes(nn.Module):
    """Backbone with bytes as input, normalised with ImageNet's mean and deviation."""

    def __init__(self, network: nn.Module) -> None:
        """Wrap a backbone.

        Args:
            network: (B, 3, H, W) normalised → (B, F), or (B, P, F) of a grid.
        """
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, H, W, 3) bytes → output of the backbone.

        Raises:
            ShapeError: the batch has another shape or type.
        """
        if pixels.ndim != 4 or pixels.shape[-1] != 3 or pixels.dtype != torch.uint8:
            raise ShapeError(
                f"backbone: pixels are {pixels.dtype} {tuple(pixels.shape)}, expected uint8 (B, H, W, 3)"
            )
        features: Tensor = self.network(normalised(pixels))
        return features


class DrawingNet(nn.Module):
    """Four strided convolutions, then mean and maximum over positions; for small drawings, trained from
    scratch.
    """

    width = 384

    def __init__(self) -> None:
        """Initialise the weights at random, from torch's generator."""
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in pairwise((3, 24, 48, 96, self.width // 2)):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)

    def forward(self, values: Tensor) -> Tensor:
        """(B, 3, H, W) normalised → (B, F)."""
        grid = self.layers(values)  # (B, F/2, H/16, W/16)
        return torch.cat([grid.mean(dim=(2, 3)), grid.amax(dim=(2, 3))], dim=1)


class CellColours(nn.Module):
    """Bytes (B, H, W, 3) → (B, 48) mean colours of 4 × 4 cells, each in [−1, 1]; no weights."""

    cells = 4
    width = cells * cells * 3

    def forward(self, pictures: Tensor) -> Tensor:
        """Describe B pictures.

        Raises:
            ShapeError: not bytes of B pictures.
        """
        if pictures.dtype != torch.uint8 or pictures.ndim != 4 or pictures.shape[3] != 3:
            raise ShapeError(
                f"cells: pictures are {pictures.dtype} {tuple(pictures.shape)}, expected uint8 (B, H, W, 3)"
            )
        scaled = pictures.permute(0, 3, 1, 2).float() / 127.5 - 1
        return nn.functional.adaptive_avg_pool2d(scaled, self.cells).flatten(1)


class Grid(nn.Module):
    """A feature map as a list of positions, row by row."""

    def __init__(self, body: nn.Module) -> None:
        """Wrap the layers that compute the map.

        Args:
            body: (B, 3, H, W) normalised → (B, F, h, w).
        """
        super().__init__()
        self.body = body

    @property
    def width(self) -> int:
        """F: 2048 for ResNet-50 and larger ResNets, 512 for a VGG."""
        return [part for part in self.body.modules() if isinstance(part, nn.Conv2d)][-1].out_channels

    def forward(self, values: Tensor) -> Tensor:
        """(B, 3, H, W) normalised → (B, h·w, F)."""
        places: Tensor = self.body(values).flatten(2).transpose(1, 2)
        return places


def grid_of(model: nn.Module, name: str) -> Grid:
    """A torchvision classifier up to its last feature map; it shares the weights.

    Args:
        model: model of the ResNet, VGG, ConvNeXt or EfficientNet family.
        name: name of the architecture, for the message.
    Raises:
        ConfigError: it has no such map, such as a transformer.
    """
    return Grid(nn.Sequential(OrderedDict(_up_to_last_map(model, name))))


class DrawingGrid(nn.Module):
    """The convolutions of `DrawingNet` with all positions."""

    width = DrawingNet.width // 2

    def __init__(self) -> None:
        """Initialise the weights at random, from torch's generator."""
        super().__init__()
        self.grid = Grid(DrawingNet().layers)

    def forward(self, values: Tensor) -> Tensor:
        """(B, 3, H, W) normalised → (B, H/16 · W/16, F)."""
        places: Tensor = self.grid(values)
        return places


class Tiny(nn.Module):
    """Classifier for tests: three convolutions with random weights.

    Its weights, which come with limner, are those that torch draws after ``manual_seed(0)``.
    """

    def __init__(self) -> None:
        """Initialise the weights at random, from torch's generator."""
        super().__init__()
        self.features = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(before, after, 5, stride, 2), nn.BatchNorm2d(after), nn.ReLU())
                for before, after, stride in ((3, 8, 4), (8, 16, 4), (16, 32, 2))
            )
        )
        self.classifier = nn.Linear(32, 2)

    def forward(self, values: Tensor) -> Tensor:
        """(B, 3, H, W) normalised → (B, 2) logits."""
        logits: Tensor = self.classifier(self.features(values).mean(dim=(2, 3)))
        return logits


def classifier(name: str) -> nn.Module:
    """Create a classifier by name, with random weights.

    Args:
        name: torchvision's, that of the food ResNet, or "tiny".
    Raises:
        ConfigError: the architecture is unknown.
    """
    from torchvision import models

    if name == "tiny":
        return Tiny()
    model: nn.Module = models.get_model(architecture(name), weights=None)
    return model


_METHOD = "pixels/1"


def transform_of(precision: Precision) -> str:
    """Description of the preprocessing: framing, side and precision."""
    return f"squash {SIDE_PX} {precision}"


_OF_RECIPES = "visionMLP."
_CHILDREN = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4", "avgpool")


def food_parameters(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Parameters of the food ResNet under torchvision's names.

    Args:
        state: parameters of a ResNet-50, which are returned; or of a model of recipes and pictures, as
            the authors of Recipe1M publish it: its ResNet-50 is `visionMLP`, a sequence of nine children.
    """
    own = {
        name.removeprefix(_OF_RECIPES).removeprefix("module."): tensor
        for name, tensor in state.items()
        if name.startswith(_OF_RECIPES)
    }
    if not own:
        return dict(state)
    found = {}
    for name, tensor in own.items():
        child, dot, rest = name.partition(".")
        known = child.isdigit() and int(child) < len(_CHILDREN)
        found[(_CHILDREN[int(child)] if known else child) + dot + rest] = tensor
    return found


def architecture(name: str) -> str:
    """Torchvision's name of a backbone.

    Raises:
        ConfigError: torchvision has no such architecture.
    """
    from torchvision import models  # a second, for networks that most libraries do not use

    from limner.encoders.weight_files import FOOD

    own = "resnet50" if name == FOOD else name
    if own not in models.list_models(module=models):
        raise ConfigError(
            "backbone: " + unknown("architecture", name, (FOOD, *models.list_models(module=models)))
        )
    return own


def last_linear(model: nn.Module, name: str) -> tuple[str, nn.Module, str, int]:
    """The last layer of a classifier: its full name, its parent module and its name there, and F.

    Raises:
        ConfigError: the last layer is not linear.
    """
    linears = [key for key, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linears:
        raise ConfigError(f"backbone: {name} has no linear last layer; choose another architecture")
    owner, _, leaf = linears[-1].rpartition(".")
    linear = model.get_submodule(linears[-1])
    assert isinstance(linear, nn.Linear)  # noqa: S101  (for the type checker)
    return linears[-1], model.get_submodule(owner), leaf, linear.in_features


@dataclass(frozen=True)
class Backbone:
    """A classifier without its last layer.

    Attributes:
        network: (B, 3, H, W) normalised → (B, F) pooled features, in evaluation mode.
        head: weight (C, F) and bias (C,) of the last layer in float32, or None if the file has none.
        width: F.
    """

    network: nn.Module
    head: tuple[Tensor, Tensor] | None
    width: int


def build(name: str, state: Mapping[str, Tensor], where: str) -> Backbone:
    """A torchvision classifier with the parameters of a file.

    The number of classes is read from the file. A file without the last layer (a bare feature
    extractor) is accepted; every other missing or unknown key is an error.

    Args:
        name: see `classifier`.
        state: parameter name → tensor; half precision is cast to float32.
        where: the file, for messages.
    Raises:
        ConfigError: torchvision has no such architecture, or it ends without a linear layer.
        CheckpointError: the parameters are not those of the architecture.
    """
    from limner.encoders.weight_files import FOOD, load_strictly

    state = food_parameters(state) if name == FOOD else state
    # on the meta device, parameters have no values until they are read from the file
    with torch.device("meta"):
        model = classifier(name)
    last, owner, leaf, width = last_linear(model, name)
    weight, bias = state.get(f"{last}.weight"), state.get(f"{last}.bias")
    bare = weight is None and bias is None
    if bare:
        setattr(owner, leaf, nn.Identity())
    elif weight is not None and weight.ndim == 2:
        setattr(owner, leaf, nn.Linear(width, len(weight), device="meta"))
    load_strictly(model, state, where)
    linear = getattr(owner, leaf)
    head = None if bare else (linear.weight.detach().clone(), linear.bias.detach().clone())
    setattr(owner, leaf, nn.Identity())
    return Backbone(model.eval().requires_grad_(requires_grad=False), head, width)


class PixelEncoder:
    """A torchvision backbone as an image encoder.

    Spaces: ``visual``, the pooled features; and ``labels``, if the file has a classifier with known class
    names.
    """

    def __init__(
        self,
        name: str,
        backbone: Backbone,
        sha256: str,
        *,
        conse: ConSE | None = None,
        precision: Precision = "bfloat16",
        device: str = "cpu",
        engine: Engine = "torch",
    ) -> None:
        """Wrap a loaded backbone.

        Args:
            name: architecture.
            backbone: see `build`.
            sha256: SHA-256 of the weight file.
            conse: converts class probabilities to the space of sentences; None omits ``labels``.
            precision: precision of products with ``bfloat16`` and ``float16``; sums are float32.
            device: torch device.
            engine: engine that computes pooled features on a CPU.
        """
        from limner.encoders.openvino import SwitchingRunner

        self.name = name
        self._precision, self._device = precision, device
        self._conse, self._head = conse, backbone.head
        self._network = backbone.network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        described = conse.description if conse else "no labels"
        settings = f"{_METHOD} {name} {sha256} {precision} squash {SIDE_PX} {described}"
        self.spaces = {"visual": backbone.width} | ({"labels": conse.dim} if conse else {})
        self.side_px = SIDE_PX
        self.fingerprint = hashlib.sha256(settings.encode()).hexdigest()
        self._pooled = SwitchingRunner(
            name,
            SIDE_PX,
            precision,
            engine=engine if device == "cpu" else "torch",
            network=lambda: FromBytes(self._network).eval(),
            by_torch=lambda batch, precision: self._run(batch, self._network, precision),
        )

    def prepare(self, image: Image) -> ByteArray:
        """Prepare an upright RGB picture as (224, 224, 3) bytes."""
        return frame(image, SIDE_PX)

    def encode_pixels(self, batch: ByteArray) -> ImageVectors:
        """(B, 224, 224, 3) bytes → vectors and the five most probable classes.

        Raises:
            ShapeError: the batch has another shape.
            NumericsError: a feature is not finite.
        """
        features = self.features(batch)
        spaces = {"visual": unit_rows(self.name, features)}
        if self._head is None or self._conse is None:
            return ImageVectors(spaces)
        # The classifier runs in float32, whichever engine computed the features.
        logits = nn.functional.linear(torch.from_numpy(features), *self._head)
        probabilities: FloatArray = torch.softmax(logits, dim=1).numpy()
        spaces["labels"] = self._conse.vectors(probabilities)
        return ImageVectors(spaces, self._conse.labels(probabilities))

    def features(self, batch: ByteArray) -> FloatArray:
        """(B, 224, 224, 3) bytes → (B, F) pooled features of the backbone, not normalised to unit length.

        For training on stored features, where the length of a feature carries information.

        Raises:
            ShapeError: the batch has another shape.
        """
        return self._pooled(checked(self.name, batch))

    def grid(self, batch: ByteArray) -> FloatArray:
        """(B, 224, 224, 3) bytes → (B, P, F) features of every position of the last map, row by row.

        Raises:
            ShapeError: the batch has another shape.
            ConfigError: the backbone has no such map.
        """
        return self._run(batch, grid_of(self._network, self.name), self._precision)

    def stages(self, batch: ByteArray) -> FloatArray:
        """(B, 224, 224, 3) bytes → (B, F) means and deviations of the maps of all stages.

        Raises:
            ShapeError: the batch has another shape.
            ConfigError: the backbone has no such maps.
        """
        return self._run(batch, stages(self._network, self.name), self._precision)

    def _run(self, batch: ByteArray, network: nn.Module, precision: Precision) -> FloatArray:
        def compute(part: ByteArray) -> FloatArray:
            with torch.inference_mode(), autocast(self._device, precision):
                made: FloatArray = network(normalised(to_device(part, self._device))).float().cpu().numpy()
            return made

        return in_parts(compute, checked(self.name, batch), self._device)


def to_device(batch: ByteArray, device: str) -> Tensor:
    """Convert bytes of pictures to a tensor on a device."""
    return torch.from_numpy(np.ascontiguousarray(batch)).to(device)


def normalised(
    pixels: Tensor, mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD
) -> Tensor:
    """(B, H, W, 3) bytes → (B, 3, H, W) float32 with mean 0 and deviation 1 over ImageNet.

    The result keeps the bytes' memory order, which is torch's channels-last: nothing is transposed.
    """
    centre, spread = (255 * torch.tensor(values, device=pixels.device) for values in (mean, std))
    return pixels.float().sub_(centre).div_(spread).permute(0, 3, 1, 2)
