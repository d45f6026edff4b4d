"""Backbone features of a data set's pictures, computed where they are not stored yet.

Training knows no backbone and the feature store no weights; this brings them together. It trains nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from limner.data.coherence import PairSet
from limner.data.features import FeatureKey, Features, MirroredFeatures, extract, open_features
from limner.errors import CheckpointError, ConfigError, DataError, MissingError, unknown

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image

    from limner.encoders.pixels import Precision

Layer = Literal["pooled", "grid", "stages", "blocks"]


def picture_features(
    data: PairSet,
    root: Path,
    *,
    backbone: str = "resnet50",
    layer: Layer = "pooled",
    weights: Path | None = None,
    precision: "Precision" = "bfloat16",
    device: str = "cpu",
    workers: int = 2,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Features:
    """Features of every different picture of a data set, one row per `Pair.image_id`.

    Where the store is complete the backbone is not loaded, but its weight file must be at hand: its hash is
    part of the key.

    Args:
        data: read with its pictures.
        root: folder of all feature stores.
        backbone: one of the torchvision encoders of `encoders.catalogue`.
        layer: "pooled" rows (F,), "grid" rows (P, F) of the last map: 49 places for a ResNet, or "stages"
            rows (F,) of means and deviations of all maps, see `limner.encoders.stages`.
        weights: a file, or a folder to look in; None looks in the usual places.
        precision: of the backbone.
        device: torch device that computes.
        workers: threads that decode.
        report: called with rows done and rows due.
    Raises:
        ConfigError: no such backbone, or it has no grid.
        MissingError: its weights are not at hand.
        DataError: the set was read without pictures, or a picture cannot be read.
        CheckpointError: the store does not fit, see `data.features.extract`.
    """
    from limner.encoders.catalogue import TORCHVISION, weight_file
    from limner.encoders.pixels import PixelEncoder, build, transform_of
    from limner.encoders.weights import read_state

    if layer == "blocks":
        raise ConfigError('features: layer "blocks" is of the encoder base; see block_features')
    if backbone not in TORCHVISION:
        raise ConfigError(unknown("backbone", backbone, TORCHVISION))
    _require_pictures(data)
    file = weight_file(backbone, weights)
    key = FeatureKey(
        data=data.name,
        backbone=backbone if layer == "pooled" else f"{backbone}-{layer}",
        weights_sha256=file.sha256,
        transform=transform_of(precision),
    )
    pictures = {pair.image_id: pair.image for pair in data.pairs}
    try:
        return open_features(root, key, list(pictures))
    except (MissingError, CheckpointError):
        pass  # not begun, or not at its end: the extraction goes on, and says what is wrong if anything is
    encoder = PixelEncoder(
        backbone,
        build(backbone, read_state(file), str(file.path)),
        file.sha256,
        precision=precision,
        device=device,
    )
    made = {"pooled": encoder.features, "grid": encoder.grid, "stages": encoder.stages}
    return extract(
        root,
        key,
        pictures,
        prepare=encoder.prepare,
        forward=made[layer],
        side_px=encoder.side_px,
        workers=workers,
        report=report,
    )


def block_features(
    data: PairSet,
    root: Path,
    *,
    mirrored: bool = False,
    device: str = "cpu",
    workers: int = 2,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Features:
    """What the blocks of the encoder base that are never trained make of every different picture.

    Rows are those of `limner.encoders.base_tail.rows_of`; later blocks can be trained on them without the
    pictures.

    Args:
        data: read with its pictures.
        root: folder of all feature stores.
        mirrored: store the training pictures mirrored as well.
        device: torch device that computes.
        workers: threads that decode.
        report: called with rows done and rows due, of either store.
    Raises:
        MissingError: the package of the backbone is not installed.
        DataError: the set was read without pictures, or a picture cannot be read.
        CheckpointError: a store does not fit, see `data.features.extract`.
    """
    import torch

    from limner.encoders.base import (
        BACKBONE,
        BACKBONE_SHA256,
        SIDE_PX,
        BaseNet,
        BaseShape,
        published_backbone,
    )
    from limner.encoders.base_tail import FIRST, rows_of
    from limner.encoders.framing import frame

    _require_pictures(data)
    pictures = {pair.image_id: pair.image for pair in data.pairs}
    trained = {pair.image_id: pair.image for pair in data.pairs if pair.split == "train"}
    net: BaseNet | None = None

    def upright(image: "Image") -> "np.ndarray":
        return frame(image, SIDE_PX, "squash", bicubic=True)

    def turned(image: "Image") -> "np.ndarray":
        return upright(image)[:, ::-1]

    def forward(batch: "np.ndarray") -> "np.ndarray":
        nonlocal net
        if net is None:
            with torch.random.fork_rng():
                net = BaseNet(BaseShape(), published_backbone())
            net = net.to(device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        return rows_of(net, batch, device)

    def store(transform: str, chosen: dict[str, str], prepare: Callable[["Image"], "np.ndarray"]) -> Features:
        key = FeatureKey(
            data=data.name,
            backbone=f"{BACKBONE}-block{FIRST}",
            weights_sha256=BACKBONE_SHA256,
            transform=transform,
        )
        return extract(
            root,
            key,
            chosen,
            prepare=prepare,
            forward=forward,
            side_px=SIDE_PX,
            workers=workers,
            report=report,
        )

    plain = store(f"squash {SIDE_PX} bicubic bfloat16", pictures, upright)
    if not mirrored:
        return plain
    return MirroredFeatures(plain, store(f"squash {SIDE_PX} bicubic mirrored bfloat16", trained, turned))


def _require_pictures(data: PairSet) -> None:
    """Refuse a set whose pictures were not read."""
    unread = [pair for pair in data.pairs if not pair.image_hash]
    if unread:
        raise DataError(
            f"{data.name}: pair {unread[0].id!r} has no picture at hand ({len(unread)} of {len(data.pairs)});"
            " give the folder of the pictures"
        )
