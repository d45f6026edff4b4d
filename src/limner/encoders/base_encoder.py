"""The encoder ``base``: pictures and texts through a file of `limner.encoders.base_network`.

It needs nothing but what pip installs. The files that come with limner lie beside this module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from limner.arrays import ByteArray, FloatArray, ImageVectors, TextEncoder, unit_rows
from limner.devices import Precision, autocast
from limner.encoders.base_network import (
    BLOCKS,
    FEATURES,
    SIDE_PX,
    STAGES,
    WIDTHS,
    BaseNet,
    fused,
    load_base,
    load_text_side,
)
from limner.encoders.pixels import checked, frame, in_parts, to_device
from limner.encoders.weight_files import WeightFile
from limner.errors import ConfigError, unknown

if TYPE_CHECKING:
    from PIL.Image import Image


BASE, LOOKS = "base", "looks"
"""Spaces: the one that texts are compared with, and the one that compares pictures."""
_METHOD = "base/1"
_FOLDER = Path(__file__).parent


def shipped_file(name: str) -> WeightFile:
    """A file that comes with limner.

    Raises:
        ConfigError: there is none of this name.
    """
    names = sorted(path.stem for path in _FOLDER.glob("base*.safetensors"))
    if name not in names:
        raise ConfigError("base: " + unknown("file", name, names))
    return WeightFile(_FOLDER / f"{name}.safetensors", "package")


def image_fingerprints(file: WeightFile) -> dict[Precision, str]:
    """Precision → fingerprint of the picture side of a file, without loading it."""
    return {
        precision: hashlib.sha256(f"{_METHOD} {file.sha256} {precision} squash".encode()).hexdigest()
        for precision in get_args(Precision)
    }


def made_by(name: str, fingerprint: str) -> bool:
    """Whether pictures with this fingerprint were encoded by a shipped file as it is now, in any precision.

    Raises:
        ConfigError: there is no file of this name.
    """
    return fingerprint in image_fingerprints(shipped_file(name)).values()


class BaseImageEncoder:
    """Pictures → the spaces ``base`` and ``looks``, in one pass.

    All of a picture is squeezed into a square, as for the other backbones.
    """

    side_px = SIDE_PX

    def __init__(
        self, name: str, file: WeightFile, *, precision: Precision = "bfloat16", device: str = "cpu"
    ) -> None:
        """Load a file.

        Args:
            name: of the encoder.
            file: see `limner.encoders.base_network.save_base`.
            precision: ``bfloat16`` and ``float16`` multiply in half the bits, add in float32.
            device: torch device that computes.
        Raises:
            MissingError: the file or the backbone's package is not there.
            CheckpointError: the file is damaged, of another kind or of another backbone.
        """
        self.name = name
        self._precision, self._device = precision, device
        net: nn.Module = fused(load_base(file.path))
        self._net: Any = net.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.fingerprint = image_fingerprints(file)[precision]
        self.spaces = {BASE: self._net.shape.width, LOOKS: self._net.shape.looks}

    def prepare(self, image: Image) -> ByteArray:
        """One upright RGB picture → (260, 260, 3) bytes."""
        return frame(image, SIDE_PX, bicubic=True)

    def encode_pixels(self, batch: ByteArray) -> ImageVectors:
        """(B, 260, 260, 3) bytes → vectors; no labels.

        Raises:
            ShapeError: not B such squares.
            NumericsError: a value is not finite.
        """
        rows = in_parts(self._compute, checked(self.name, batch, SIDE_PX), self._device)
        width = self._net.shape.width
        return ImageVectors(
            {BASE: unit_rows(self.name, rows[:, :width]), LOOKS: unit_rows(self.name, rows[:, width:])}
        )

    def _compute(self, batch: ByteArray) -> FloatArray:
        """(B, 260, 260, 3) bytes → (B, D + L): both spaces side by side."""
        with torch.inference_mode():
            with autocast(self._device, self._precision):
                features = self._net.features(to_device(batch, self._device))
            both = torch.cat([self._net.joint(features), self._net.looks(features)], dim=1)
        return both.cpu().numpy()


class BaseTextEncoder:
    """Texts → the space ``base``: a sentence encoder's vectors through one text side of a file.

    English goes through MiniLM, all else through the multilingual encoder where there is one.
    """

    def __init__(
        self,
        name: str,
        file: WeightFile,
        english: TextEncoder,
        *,
        multilingual: TextEncoder | None = None,
        foreign: Callable[[Sequence[str]], Sequence[bool]] | None = None,
    ) -> None:
        """Load the text sides.

        Args:
            name: of the encoder.
            file: see `limner.encoders.base_network.save_base`.
            english: MiniLM.
            multilingual: the multilingual USE, or None.
            foreign: texts → which of them the multilingual encoder reads; None for none of them.
        Raises:
            MissingError: the file is not there.
            CheckpointError: the file is damaged or of another kind.
        """
        self.name = name
        self._foreign = foreign
        self._sides = [(english, load_text_side(file.path, "sentence"))]
        if multilingual is not None:
            self._sides.append((multilingual, load_text_side(file.path, "foreign")))
        self.dim = self._sides[0][1].straight.out_features
        known = " ".join(words.fingerprint for words, _ in self._sides)
        self.fingerprint = hashlib.sha256(f"{_METHOD} text {file.sha256} {known}".encode()).hexdigest()

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 rows of unit length.

        Raises:
            DataError: a text has no words.
        """
        other = np.zeros(len(texts), dtype=bool)
        if self._foreign is not None and len(self._sides) > 1:
            other[:] = self._foreign(texts)
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for (words, side), mask in zip(self._sides, (~other, other), strict=False):
            if mask.any():
                own = words.encode_text([text for text, one in zip(texts, mask, strict=True) if one])
                with torch.inference_mode():
                    rows[mask] = side(torch.tensor(own)).numpy()
        return unit_rows(self.name, rows)


FIRST = 16
"""The first block that can be trained; what the blocks before it make is stored."""
SIDE, CHANNELS = 9, 208
"""Places along a side of the maps before block `FIRST`, and their channels."""
MAPS = SIDE * SIDE * CHANNELS
EARLY = FEATURES - 2 * WIDTHS[5] - 2 * WIDTHS[6] - WIDTHS[7]
"""Features of the stages before block `FIRST`."""
ROW = MAPS + FEATURES
"""Numbers that are stored of a picture."""


def rows_of(net: BaseNet, batch: ByteArray, device: str = "cpu") -> FloatArray:
    """(B, 260, 260, 3) bytes → (B, `ROW`) maps before block 16 by place, then the F features of `net`."""
    with torch.inference_mode(), autocast(device, "bfloat16"):
        maps, early = net.backbone_until(FIRST, to_device(batch, device))
        features = net.after(FIRST, maps, early)
    both = torch.cat([maps.float().permute(0, 2, 3, 1).flatten(1), features], dim=1)
    return both.cpu().numpy()


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
    """Let the channel-mixing convolutions of the last blocks, and the shifts behind them, take gradients.

    The depthwise filters stay as published: they hold 4 % of the weights and half the work of a gradient.

    Args:
        net: whose backbone is trained.
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
    made: Tensor = _Depthwise.apply(maps.permute(0, 3, 1, 2), weight, shift.to(maps.dtype))
    return made.permute(0, 2, 3, 1)


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
