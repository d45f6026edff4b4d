"""The picture side of a trained run as an encoder of a library."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
from PIL import Image

from limner.arrays import ByteArray, ImageVectors, unit_rows
from limner.devices import Precision
from limner.encoders.base_blocks import PublishedBackbone
from limner.encoders.base_file import BACKBONE, BACKBONE_SHA256
from limner.encoders.catalogue import weight_file
from limner.encoders.framing import frame
from limner.encoders.pixels import PixelEncoder, build, transform_of
from limner.encoders.weight_files import read_state
from limner.errors import CheckpointError, unknown
from limner.research.runs.run import FeatureSource, Run


def pixels_of(run: Run, due: FeatureSource, weights: dict[str, Path]) -> PixelEncoder | PublishedBackbone:
    """The backbone of a run, as it was when its features were stored.

    Args:
        run: whose model reads the features.
        due: what made them.
        weights: see `Run.encoder`.
    Raises:
        MissingError: the weights are not installed.
        CheckpointError: they are others, or the transform is unknown.
    """
    if due.architecture == BACKBONE:
        if due.weights_sha256 != BACKBONE_SHA256:
            raise CheckpointError(
                f"{run.folder}: trained on features of other weights of {BACKBONE}; train it again"
            )
        return PublishedBackbone(str(run.model.device), due.precision or "bfloat16")
    transforms: dict[str, Precision] = {transform_of(one): one for one in get_args(Precision)}
    if due.transform not in transforms:
        raise CheckpointError(f"{run.folder}: " + unknown("transform", due.transform, transforms))
    file = weight_file(due.architecture, weights.get(due.architecture, weights.get("")))
    if file.sha256 != due.weights_sha256:
        raise CheckpointError(
            f"{file.path}: SHA-256 {file.sha256[:12]}…, but {run.folder} was trained on features of"
            f" {due.architecture} with {due.weights_sha256[:12]}…; give that file with --weights"
        )
    precision = transforms[due.transform]
    built = build(due.architecture, read_state(file), str(file.path))
    return PixelEncoder(
        due.architecture, built, file.sha256, precision=precision, device=str(run.model.device)
    )


class RunEncoder:
    """The picture side of a trained run; see `limner.arrays.ImageEncoder`."""

    def __init__(self, run: Run, pixels: PixelEncoder | PublishedBackbone | None) -> None:
        """Take a run, and the backbone where its model takes features."""
        self._run, self._pixels = run, pixels
        self.fingerprint = run.fingerprint
        # Told from other runs of the system in what indexing says and in the library's settings.
        self.name = f"{run.system} {self.fingerprint[:8]}"

    @property
    def spaces(self) -> dict[str, int]:
        """Space name → D."""
        return {self._run.space: self._run.model.dim}

    @property
    def side_px(self) -> int:
        """Pixels of the shorter side that `prepare` makes use of."""
        if self._pixels:
            return self._pixels.side_px
        data = self._run.config.data
        return data.framing.shorter_px if self._run.can.backbone == "finetune" else data.picture_px

    def prepare(self, image: Image.Image) -> ByteArray:
        """One upright RGB picture → (H, W, 3) bytes, as in training."""
        if self._pixels:
            return self._pixels.prepare(image)
        if self._run.can.backbone == "finetune":
            return self._run.config.data.framing.plain(image)
        return frame(image, self._run.config.data.picture_px, "squash")

    def encode_pixels(self, batch: ByteArray) -> ImageVectors:
        """(B, H, W, 3) bytes → vectors of the run's space."""
        values: Any = batch
        if self._pixels:
            # Half precision, as the store that it was trained on keeps features.
            stages = self._run.backbone is not None and self._run.backbone.layer in {"stages", "described"}
            made = self._pixels.stages(batch) if stages else self._pixels.features(batch)
            values = made.astype(np.float16).astype(np.float32)
        return ImageVectors({self._run.space: unit_rows(self.name, self._run.model.encode_image(values))})
