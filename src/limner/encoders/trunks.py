"""Trunks that train with the rest: bytes of pictures to pooled features.

A small convolutional net for drawings, and a cover that lets any backbone take bytes. It loads no weights and
frames no pictures.
"""

import torch
from torch import Tensor, nn

from limner.encoders.pixels import IMAGENET_MEAN, IMAGENET_STD
from limner.errors import ShapeError

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
            trunk: (B, 3, H, W) normalised → (B, F).
        """
        super().__init__()
        self.trunk = trunk
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN) * 255, persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD) * 255, persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, H, W, 3) bytes → (B, F) features.

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
