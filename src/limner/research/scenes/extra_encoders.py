"""Features of extra encoders and detectors, appended to a data set's own features.

"Traits" are the aspect ratio and palette of a picture, which pictures of one document often share. Each
encoder has its own feature store, so that adding one costs only its own forward passes.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from limner.arrays import ByteArray, FloatArray, ImageEncoder
from limner.encoders.catalogue import image_encoder
from limner.encoders.framing import frame
from limner.research.datasets.features import (
    FeatureKey,
    Features,
    Floats,
    Report,
    extract,
    pictures_of,
)
from limner.research.datasets.pairs import PairSet
from limner.research.scenes.detections import Detector
from limner.research.scenes.faster_rcnn import ARCHITECTURES, coco_classes
from limner.research.scenes.folder import detector
from limner.research.scenes.onnx import SUFFIXES

TRAITS = "traits"
"""Name of `picture_traits` in a list of encoders."""
WAVES, SHADES = 9, 5
TRAITS_WIDTH = 2 * WAVES + SHADES**3


class JoinedFeatures(Features):
    """Concatenation of several feature stores, the first store's columns first."""

    def __init__(self, first: Features, others: Sequence[Features]) -> None:
        """Join stores; each must have all pictures of the first. The key combines the keys of all."""
        keys = [first.key, *(other.key for other in others)]
        joined = FeatureKey(
            data=first.key.data,
            backbone=" + ".join(key.backbone for key in keys),
            weights_sha256=hashlib.sha256(" ".join(key.weights_sha256 for key in keys).encode()).hexdigest(),
            transform="; ".join(key.transform for key in keys),
        )
        super().__init__(joined, first.ids, first.stored, first.sums)
        self._first = first
        self._others = [(other, other.places(first.ids)) for other in others]

    def take(self, places: NDArray[np.int64]) -> Floats:
        """See `Features.take`."""
        return self._beside(self._first.take(places), places)

    def turned(self, places: NDArray[np.int64], which: NDArray[np.bool_]) -> Floats:
        """See `Features.turned`; features of the other stores are never mirrored."""
        return self._beside(self._first.turned(places, which), places)

    def _beside(self, rows: Floats, places: NDArray[np.int64]) -> Floats:
        return np.concatenate(
            [rows, *(other.take(other_places[places]) for other, other_places in self._others)], axis=1
        )


def with_extra_encoders(
    first: Features,
    data: PairSet,
    root: Path,
    names: Sequence[str],
    *,
    weights: Path | None = None,
    device: str = "cpu",
    report: Report = lambda done, total: None,
) -> JoinedFeatures:
    """Join features with those of extra encoders and detectors, which are extracted if needed.

    Args:
        first: features of every picture of the set.
        data: the set, opened with its pictures.
        root: folder of all feature stores.
        names: names of image encoders (see `limner.encoders.catalogue.image_encoder`; all their spaces are
            used), of detectors of COCO's 80 classes (see `limner.research.scenes.folder.detector`; the
            features are the square roots of the largest score per class, in [0, 1]), or `TRAITS`.
        weights: folder of all weight files; None looks in the usual places.
        device: torch device that computes.
        report: called with rows done and rows in total, for each store in turn.
    Raises:
        ConfigError, MissingError, CheckpointError: an encoder or detector cannot be loaded.
        DataError: the set was opened without pictures, or a picture cannot be read.
    """
    folder = Path(root)
    return JoinedFeatures(
        first, [_stored(_seer(name, weights, device), data, folder, report) for name in names]
    )


class _Objects:
    """Adapter from a detector to an encoder: the largest score of each class."""

    def __init__(self, found: Detector, classes: Sequence[str]) -> None:
        self.name, self.side_px = found.name, found.side_px
        self.fingerprint = found.fingerprint
        self._found = found
        self._columns = {label: column for column, label in enumerate(classes)}

    def prepare(self, image: Image.Image) -> ByteArray:
        return frame(image, self.side_px)

    def rows(self, batch: ByteArray) -> FloatArray:
        """(B, side, side, 3) bytes → (B, C) square roots of scores, which give low scores more weight."""
        made = np.zeros((len(batch), len(self._columns)), np.float32)
        for row, seen in zip(
            made, self._found.detect([Image.fromarray(pixels) for pixels in batch]), strict=True
        ):
            columns = np.array([self._columns[label] for label in seen.labels], np.int64)  # may be empty
            np.maximum.at(row, columns, seen.scores)
        return np.sqrt(made)


class _Vectors:
    """Adapter for an image encoder: the vectors of all its spaces, concatenated."""

    def __init__(self, encoder: ImageEncoder) -> None:
        self.name, self.side_px = encoder.name, encoder.side_px
        self.fingerprint, self.prepare = encoder.fingerprint, encoder.prepare
        self._encoder = encoder

    def rows(self, batch: ByteArray) -> FloatArray:
        """(B, H, W, 3) bytes → (B, F) concatenated unit vectors."""
        spaces = self._encoder.encode_pixels(batch).spaces
        return np.concatenate([spaces[name] for name in self._encoder.spaces], axis=1)


def picture_traits(image: Image.Image) -> FloatArray:
    """Aspect ratio and palette of a picture.

    The aspect ratio is encoded as sines and cosines of its logarithm, with periods of 4, 2, 1, … octaves,
    down to about one per cent, so that even a small difference shows.

    Args:
        image: upright RGB picture in its original size.
    Returns:
        (143,) float32 in [-1, 1]: 18 values for the aspect ratio, then the square roots of the shares of
        pixels in each of 5 × 5 × 5 bins of red, green and blue.
    Source: docs/methods/limner.md §2.
    """
    width, height = image.size
    small = np.asarray(image.resize((64, 64), Image.Resampling.BOX)).reshape(-1, 3)
    red, green, blue = (small.astype(np.int64) * SHADES // 256).T
    shares = np.bincount((red * SHADES + green) * SHADES + blue, minlength=SHADES**3) / len(small)
    angles = np.pi / 2 * np.log2(width / height) * 2.0 ** np.arange(WAVES)
    return np.concatenate([np.sin(angles), np.cos(angles), np.sqrt(shares)]).astype(np.float32)


class _Traits:
    """Adapter from `picture_traits` to an encoder; pictures keep their size."""

    name, side_px = TRAITS, None
    fingerprint = hashlib.sha256(f"{TRAITS} 2".encode()).hexdigest()

    def prepare(self, image: Image.Image) -> ByteArray:
        return picture_traits(image).view(np.uint8)

    def rows(self, batch: ByteArray) -> FloatArray:
        """(B, 4 F) bytes of float32 traits → (B, F)."""
        return batch.view(np.float32)


def _seer(name: str, weights: Path | None, device: str) -> _Objects | _Vectors | _Traits:
    if name == TRAITS:
        return _Traits()
    if Path(name).suffix.lower() in SUFFIXES or name in ARCHITECTURES:
        return _Objects(detector(name, weights=weights, device=device), coco_classes())
    return _Vectors(image_encoder(name, weights=weights, device=device, engine="torch"))


def _stored(seer: _Objects | _Vectors | _Traits, data: PairSet, root: Path, report: Report) -> Features:
    key = FeatureKey(
        data=data.name,
        backbone=f"{seer.name}-beside",
        weights_sha256=seer.fingerprint,
        transform=f"as by {seer.name}",
    )
    return extract(
        root,
        key,
        pictures_of(data),
        prepare=seer.prepare,
        forward=seer.rows,
        side_px=seer.side_px,
        report=report,
    )
