"""Trunks that train with the rest: bytes of pictures to pooled features, or to grids of them.

A small convolutional net for drawings, and a cover that lets any backbone take bytes. It loads no weights and
frames no pictures.
"""

from collections import OrderedDict

import torch
from torch import Tensor, nn

from limner.encoders.framing import IMAGENET_MEAN, IMAGENET_STD
from limner.errors import ConfigError, ShapeError

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
