"""The last blocks of the encoder base, as they are trained: on stored maps, with few passes over memory.

The published batch statistics stay fixed, so each convolution and the norm behind it are one product. It
gives what `BaseNet.after` gives, up to rounding, and knows no loss.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from limner.encoders.base import BLOCKS, FEATURES, STAGES, WIDTHS, BaseNet
from limner.similarity import ByteArray, FloatArray

FIRST = 16
"""The first block that can be trained; what the blocks before it make is stored."""
SIDE, CHANNELS = 9, 208
"""Places along a side of the maps before block `FIRST`, and their channels."""
MAPS = SIDE * SIDE * CHANNELS
TOLD = FEATURES - 2 * WIDTHS[5] - 2 * WIDTHS[6] - WIDTHS[7]
"""Numbers that the stages before block `FIRST` tell."""
ROW = MAPS + FEATURES
"""Numbers that are stored of a picture."""


def rows_of(net: BaseNet, batch: ByteArray, device: str = "cpu") -> FloatArray:
    """(B, 260, 260, 3) bytes → (B, `ROW`) maps before block 16 by place, then the F features of `net`."""
    with torch.inference_mode(), torch.autocast(device.partition(":")[0], torch.bfloat16):
        pictures = torch.from_numpy(np.ascontiguousarray(batch)).to(device)
        maps, told = net.backbone_until(FIRST, pictures)
        features = net.after(FIRST, maps, told)
    both = torch.cat([maps.float().permute(0, 2, 3, 1).flatten(1), features], dim=1)
    rows: FloatArray = both.cpu().numpy()
    return rows


def features_of(net: BaseNet, rows: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Rows of `rows_of` → (B, F) float32 features by the last blocks as they are now.

    Gradients reach what `open_blocks` opened.

    Args:
        net: its backbone in evaluation mode.
        rows: (B, `ROW`) float32; of their features the first stages' alone count.
        dtype: of products and maps; sums over places are float32.
    """
    backbone: Any = net.backbone
    maps = rows[:, :MAPS].view(-1, SIDE, SIDE, CHANNELS).to(dtype)
    told = [rows[:, MAPS : MAPS + TOLD]]
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
            told.append(places.mean(dim=1))
            if number < BLOCKS:
                told.append(places.std(dim=1, correction=0))
    return torch.cat(told, dim=1)


def open_blocks(net: BaseNet, first: int) -> None:
    """Let the channel-mixing convolutions of the last blocks, and the shifts behind them, take gradients.

    The depthwise filters stay as published: they hold 4 % of the weights and half the work of a gradient.

    Args:
        net: whose backbone is trained.
        first: `FIRST` to 22; 22 opens nothing.
    """
    backbone: Any = net.backbone
    backbone.requires_grad_(requires_grad=False)
    pairs = [
        pair
        for number in range(first, BLOCKS)
        for pair in (
            (backbone._blocks[number]._expand_conv, backbone._blocks[number]._bn0),
            (backbone._blocks[number]._project_conv, backbone._blocks[number]._bn2),
        )
    ]
    if first <= BLOCKS:
        pairs.append((backbone._conv_head, backbone._bn1))
    for convolution, norm in pairs:
        convolution.weight.requires_grad_(requires_grad=True)
        norm.bias.requires_grad_(requires_grad=True)


def _scale(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """What a batch norm with fixed statistics multiplies by and adds."""
    own: Any = norm
    scale: Tensor = own.weight * torch.rsqrt(own.running_var + own.eps)
    return scale, own.bias - own.running_mean * scale


def _mixed(maps: Tensor, convolution: nn.Module, norm: nn.Module) -> Tensor:
    """A 1 × 1 convolution and its norm: (B, h, w, C) → (B, h, w, C')."""
    own: Any = convolution
    scale, shift = _scale(norm)
    weight = own.weight.flatten(1) * scale[:, None]
    return functional.linear(maps, weight.to(maps.dtype), shift.to(maps.dtype))


def _spread(maps: Tensor, convolution: nn.Module, norm: nn.Module) -> Tensor:
    """A depthwise convolution of stride 1 and its norm: (B, h, w, C) → (B, h, w, C)."""
    own: Any = convolution
    scale, shift = _scale(norm)
    weight = (own.weight * scale[:, None, None, None]).to(maps.dtype)
    found: Tensor = _Depthwise.apply(maps.permute(0, 3, 1, 2), weight, shift.to(maps.dtype))
    return found.permute(0, 2, 3, 1)


class _Depthwise(torch.autograd.Function):
    """A depthwise convolution whose filters are constants.

    Its gradient is a depthwise convolution with the filters turned round, many times faster on a CPU than
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
