"""Features of further encoders and detectors for the pictures of a data set.

Traits of the files are among them: shape and palette, which tell pictures of one document. Each has a
feature store of its own, so that one more costs its own forward passes alone.
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
"""Named among encoders and detectors: what `picture_traits` says of every picture."""
WAVES, SHADES = 9, 5
TRAITS_WIDTH = 2 * WAVES + SHADES**3


class JoinedFeatures(Features):
    """Rows of several stores side by side: those of the first, then of each other in order."""

    def __init__(self, first: Features, others: Sequence[Features]) -> None:
        """Join stores; each must have every picture of the first.

        The key is of all of them together.
        """
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
        """See `Features.turned`; what the other stores hold is of the picture as it is."""
        return self._beside(self._first.turned(places, which), places)

    def _beside(self, rows: Floats, places: NDArray[np.int64]) -> Floats:
        return np.concatenate([rows, *(other.take(own[places]) for other, own in self._others)], axis=1)


def beside(
    first: Features,
    data: PairSet,
    root: Path,
    names: Sequence[str],
    *,
    weights: Path | None = None,
    device: str = "cpu",
    report: Report = lambda done, total: None,
) -> JoinedFeatures:
    """Rows of a store with what further encoders and detectors see.

    Args:
        first: features of every picture of the set.
        data: read with its pictures.
        root: folder of all feature stores.
        names: names of image encoders, as `limner.encoders.catalogue.image_encoder` takes them, all of whose
            spaces count; and of detectors, as `limner.research.scenes.folder.detector` takes them, whose
            classes are COCO's 80: of each class the square root of its largest score, in [0, 1], in the
            picture scaled to a square; and `TRAITS`.
        weights: the folder of all of their files; None looks in the usual places.
        device: torch device that computes.
        report: called with rows done and rows due, of one store after the other.
    Raises:
        ConfigError, MissingError, CheckpointError: of an encoder or detector.
        DataError: the set was read without pictures, or a picture cannot be read.
    """
    folder = Path(root)
    return JoinedFeatures(
        first, [_stored(_seer(name, weights, device), data, folder, report) for name in names]
    )


class _Objects:
    """A detector as an encoder: of each class the largest score in a picture."""

    def __init__(self, found: Detector, classes: Sequence[str]) -> None:
        self.name, self.side_px = found.name, found.side_px
        self.fingerprint = found.fingerprint
        self._found = found
        self._columns = {label: column for column, label in enumerate(classes)}

    def prepare(self, image: Image.Image) -> ByteArray:
        return frame(image, self.side_px)

    def rows(self, batch: ByteArray) -> FloatArray:
        """(B, side, side, 3) bytes → (B, C) square roots of scores, so that weak ones tell something."""
        made = np.zeros((len(batch), len(self._columns)), np.float32)
        for row, seen in zip(made, self._found.detect([Image.fromarray(one) for one in batch]), strict=True):
            columns = np.array([self._columns[label] for label in seen.labels], np.int64)  # there may be none
            np.maximum.at(row, columns, seen.scores)
        return np.sqrt(made)


class _Vectors:
    """An encoder of pictures: the vectors of all of its spaces, one after the other."""

    def __init__(self, encoder: ImageEncoder) -> None:
        self.name, self.side_px = encoder.name, encoder.side_px
        self.fingerprint, self.prepare = encoder.fingerprint, encoder.prepare
        self._encoder = encoder

    def rows(self, batch: ByteArray) -> FloatArray:
        """(B, H, W, 3) bytes → (B, F) vectors of unit length."""
        spaces = self._encoder.encode_pixels(batch).spaces
        return np.concatenate([spaces[name] for name in self._encoder.spaces], axis=1)


def picture_traits(image: Image.Image) -> FloatArray:
    """Properties of a picture other than its content: shape and palette.

    The shape is told by sines and cosines of the logarithm of the aspect ratio, with periods of 4 octaves,
    2, 1 and so on, the shortest about one percent: pictures of one camera or one book are equal in them, not
    merely near.

    Args:
        image: upright RGB, as large as its file.
    Returns:
        (143,) float32 in [-1, 1]: 18 of the aspect ratio, and the square roots of the shares of 5 × 5 × 5
        shades of red, green and blue.
    Source: docs/methods/limner.md §2.
    """
    width, height = image.size
    small = np.asarray(image.resize((64, 64), Image.Resampling.BOX)).reshape(-1, 3)
    red, green, blue = (small.astype(np.int64) * SHADES // 256).T
    shares = np.bincount((red * SHADES + green) * SHADES + blue, minlength=SHADES**3) / len(small)
    angles = np.pi / 2 * np.log2(width / height) * 2.0 ** np.arange(WAVES)
    return np.concatenate([np.sin(angles), np.cos(angles), np.sqrt(shares)]).astype(np.float32)


class _Traits:
    """Traits as an encoder, which takes pictures as large as they are."""

    name, side_px = TRAITS, None
    fingerprint = hashlib.sha256(f"{TRAITS} 2".encode()).hexdigest()

    def prepare(self, image: Image.Image) -> ByteArray:
        return picture_traits(image).view(np.uint8)

    def rows(self, batch: ByteArray) -> FloatArray:
        """(B, 4 F) bytes of traits → (B, F)."""
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
