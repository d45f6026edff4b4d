"""The last blocks of the encoder ``base``, for training them.

The output of the blocks before them is stored once; the others are implemented here to be fast on a CPU.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from limner.arrays import ByteArray, FloatArray
from limner.devices import Precision, autocast
from limner.encoders.base_file import BLOCKS, FEATURES, SIDE_PX, STAGES, WIDTHS, BaseShape
from limner.encoders.base_network import BaseNet, published_backbone
from limner.encoders.framing import frame
from limner.encoders.pixels import to_device

if TYPE_CHECKING:
    from PIL.Image import Image

FIRST = 16
"""First block that can be trained; the output of the blocks before it is stored."""
SIDE, CHANNELS = 9, 208
"""Side and channels of the feature maps before block `FIRST`."""
MAPS = SIDE * SIDE * CHANNELS
EARLY = FEATURES - 2 * WIDTHS[5] - 2 * WIDTHS[6] - WIDTHS[7]
"""Features of the stages before block `FIRST`."""
ROW = MAPS + FEATURES
"""Number of stored values of a picture."""


class PublishedBackbone:
    """The published backbone, which computes stored features and the inputs of a run."""

    side_px = SIDE_PX

    def __init__(self, device: str, precision: Precision) -> None:
        """Prepare the backbone; it is loaded with the first picture.

        Args:
            device: torch device.
            precision: precision of products.
        """
        self._device, self._precision = device, precision

    @cached_property
    def _net(self) -> BaseNet:
        with torch.random.fork_rng():
            net = BaseNet(BaseShape(), published_backbone())
        return net.to(self._device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload,no-any-return]

    def prepare(self, image: Image) -> ByteArray:
        """Prepare an upright RGB picture as (260, 260, 3) bytes."""
        return frame(image, SIDE_PX, "squash", bicubic=True)

    def rows(self, batch: ByteArray) -> FloatArray:
        """See `rows_of`."""
        return rows_of(self._net, batch, self._device, self._precision)

    def stages(self, batch: ByteArray) -> FloatArray:
        """Features (B, F) of the maps of all stages, from (B, 260, 260, 3) bytes."""
        return self.rows(batch)[:, MAPS:]

    def features(self, batch: ByteArray) -> FloatArray:
        """Means (B, 1280) of the last convolution, the end of the row, from (B, 260, 260, 3) bytes."""
        return self.rows(batch)[:, ROW - WIDTHS[-1] :]


def rows_of(
    net: BaseNet, batch: ByteArray, device: str = "cpu", precision: Precision = "bfloat16"
) -> FloatArray:
    """(B, 260, 260, 3) bytes → (B, `ROW`) maps before block 16 by place, then the F features of `net`."""
    with torch.inference_mode(), autocast(device, precision):
        maps, early = net.backbone_until(FIRST, to_device(batch, device))
        features = net.after(FIRST, maps, early)
    both = torch.cat([maps.float().permute(0, 2, 3, 1).flatten(1), features], dim=1)
    return both.cpu().numpy()


def features_of(net: BaseNet, rows: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Rows of `rows_of` → (B, F) float32 features, computed with the current weights of the last blocks.

    Gradients flow to the parameters that `open_blocks` made trainable.

    Args:
        net: its backbone in evaluation mode.
        rows: (B, `ROW`) float32; of their stored features, only those of the first stages are used.
        dtype: dtype of products and maps; sums over places are float32.
    """
    backbone: Any = net.backbone
    maps = rows[:, :MAPS].view(-1, SIDE, SIDE, CHANNELS).to(dtype)
    found = [rows[:, MAPS : MAPS + EARLY]]
    for number in range(FIRST, BLOCKS + 1):
        if number == BLOCKS:
            maps = functional.relu6(_mixed(maps, backbone._conv_head, backbone._bn1), inplace=True)
        else:
            block = backbone._blocks[number]
            wide = functional.relu6(_mixed(maps, block._expand_conv, block._bn0), inplace=True)
            wide = functional.relu6(_spread(wide, block._depthwise_conv, block._bn1), inplace=True)
            made = _mixed(wide, block._project_conv, block._bn2)
            maps = maps + made if made.shape == maps.shape else made
        if number in STAGES:
            places = maps.flatten(1, 2).float()  # (B, h·w, C)
            found.append(places.mean(dim=1))
            if number < BLOCKS:
                found.append(places.std(dim=1, correction=0))
    return torch.cat(found, dim=1)


def open_blocks(net: BaseNet, first: int) -> None:
    """Enable gradients for the pointwise convolutions of the last blocks and the shifts after them.

    The depthwise filters are not trained: they have 4 % of the weights and need half the work of a gradient.

    Args:
        net: network with the backbone.
        first: `FIRST` to 22; 22 opens nothing.
    """
    backbone: Any = net.backbone
    backbone.requires_grad_(requires_grad=False)
    pairs = [(backbone._conv_head, backbone._bn1)] if first <= BLOCKS else []
    for block in backbone._blocks[first:]:
        pairs += [(block._expand_conv, block._bn0), (block._project_conv, block._bn2)]
    for convolution, norm in pairs:
        convolution.weight.requires_grad_(requires_grad=True)
        norm.bias.requires_grad_(requires_grad=True)


def _scale(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Factor and summand of a batch norm with fixed statistics."""
    own: Any = norm
    scale: Tensor = own.weight * torch.rsqrt(own.running_var + own.eps)
    return scale, own.bias - own.running_mean * scale


def _mixed(maps: Tensor, convolution: nn.Module, norm: nn.Module) -> Tensor:
    """Apply a 1 × 1 convolution and its norm: (B, h, w, C) → (B, h, w, C')."""
    own: Any = convolution
    scale, shift = _scale(norm)
    weight = own.weight.flatten(1) * scale[:, None]
    return functional.linear(maps, weight.to(maps.dtype), shift.to(maps.dtype))


def _spread(maps: Tensor, convolution: nn.Module, norm: nn.Module) -> Tensor:
    """Apply a depthwise convolution of stride 1 and its norm: (B, h, w, C) → (B, h, w, C)."""
    own: Any = convolution
    scale, shift = _scale(norm)
    weight = (own.weight * scale[:, None, None, None]).to(maps.dtype)
    made: Tensor = _Depthwise.apply(maps.permute(0, 3, 1, 2), weight, shift.to(maps.dtype))
    return made.permute(0, 2, 3, 1)


class _Depthwise(torch.autograd.Function):
    """A depthwise convolution whose filters are constants.

    Its gradient is a depthwise convolution with rotated filters, which is many times faster on a CPU than
    torch's own.
    """

    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, shift: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(weight)
        padding = weight.shape[-1] // 2
        return functional.conv2d(maps, weight, shift, padding=padding, groups=len(weight))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        (weight,) = ctx.saved_tensors
        (gradient,) = gradients
        padding, turned = weight.shape[-1] // 2, weight.flip(2, 3)
        return functional.conv2d(gradient, turned, padding=padding, groups=len(weight)), None, None
