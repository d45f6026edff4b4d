"""A trained run as an encoder of pictures, for indexing.

What training kept apart, the model and the backbone whose features it learned on, is put together here, for
any system that encodes texts and pictures. It trains nothing and fetches no weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, get_args

import numpy as np
from pydantic import ValidationError

from limner.apps.terminal import say
from limner.data.records import Record
from limner.errors import CheckpointError, ConfigError, unknown
from limner.similarity import ByteArray, FloatArray, ImageVectors, unit_rows

if TYPE_CHECKING:
    from PIL.Image import Image

    from limner.encoders.pixels import PixelEncoder

MODEL, DOCUMENT = "model", "document"
SIDE_PX = 224


class Trained(Protocol):
    """What a model of any system must offer; relations and attention are found where there are some."""

    @property
    def fingerprint(self) -> str:
        """Equal fingerprints give equal vectors."""
        ...

    @property
    def dim(self) -> int:
        """D."""
        ...

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) rows of unit length."""
        ...

    def encode_image(self, pictures: FloatArray | ByteArray) -> FloatArray:
        """Features or bytes, as in training → (M, D) rows of unit length."""
        ...


class Backbone(Record):
    """What made the features a run was trained on, as its checkpoint states it.

    Attributes:
        backbone: architecture, and the layer where it is not the pooled one, as in `FeatureKey`.
        weights_sha256: of the weight file; "" where an older run does not say.
        transform: framing, side and precision.
    """

    backbone: str
    weights_sha256: str
    transform: str

    @property
    def architecture(self) -> str:
        """Name of the architecture alone."""
        return self.backbone.partition("-")[0]

    @property
    def layer(self) -> str:
        """Pooled or stages; no run that a library is indexed with takes a grid."""
        return self.backbone.partition("-")[2] or "pooled"


@dataclass(frozen=True)
class TrainedRun:
    """A run as its folder holds it.

    Attributes:
        folder: of the run.
        model: in evaluation mode.
        system: name of its system.
        trunk: stored, finetune or drawings: what its pictures go through.
        backbone: of stored features, else None.
        picture_px: side of the squares that a drawings' trunk takes.
    """

    folder: Path
    model: Trained
    system: str
    trunk: str
    backbone: Backbone | None
    picture_px: int

    @classmethod
    def open(cls, folder: Path) -> TrainedRun:
        """Read a run.

        Raises:
            MissingError: nothing was trained there yet.
            CheckpointError: it does not load, or is of no known system.
            ConfigError: it gives a picture several vectors, and a library holds one of each; or it does not
                score by cosines; or it is one of base, which is exported.
        """
        from limner.apps.run_pictures import open_run
        from limner.encoders.pixels import transform_of
        from limner.training import checkpoint
        from limner.training.loop import BEST

        model, config = open_run(folder)
        heads = getattr(model, "heads", None)
        if heads is not None:
            raise ConfigError(
                f"{folder}: {config.system} gives a picture {heads} vectors, a library holds one of each;"
                " use a run of cmcm or vse, or limner measure for this one"
            )
        if not getattr(model, "comparable", True):
            raise ConfigError(
                f"{folder}: {config.system} does not score by the cosine of two vectors, a library does;"
                " use a run of another system, or limner measure for this one"
            )
        if getattr(config, "layer", "pooled") == "blocks":
            raise ConfigError(
                f"{folder}: a run of {config.system} is indexed with as a file that comes with limner;"
                " see limner models export, and limner measure for the run itself"
            )
        trunk = getattr(config, "trunk", "stored")
        backbone = None
        if trunk == "stored":
            saved = checkpoint.load(folder / BEST)[1]["config"].get("backbone")
            older = {
                "backbone": config.data.backbone,
                "weights_sha256": "",
                "transform": transform_of("bfloat16"),
            }
            try:
                backbone = Backbone.model_validate(saved or older)
            except ValidationError as error:
                raise CheckpointError(
                    f"{folder / BEST}: damaged entry 'backbone' ({error.errors()[0]['msg']}); train it again"
                ) from error
        return cls(folder, model, config.system, trunk, backbone, config.data.picture_px)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the model and of how a picture reaches it; all weights are read once."""
        looked = {"finetune": f"crop {SIDE_PX}", "drawings": f"squash {self.picture_px}"}.get(self.trunk, "")
        if self.backbone:
            looked = self.backbone.model_dump_json()
        return hashlib.sha256(f"run {self.model.fingerprint} {looked}".encode()).hexdigest()

    @property
    def space(self) -> str:
        """Space of a library that holds its vectors: of a metric, which reads no texts, another one."""
        return MODEL if hasattr(self.model, "encode_text") else DOCUMENT

    @property
    def relations(self) -> tuple[str, ...]:
        """Those it predicts; none for many systems."""
        return tuple(getattr(self.model, "relations", ()))

    def encoder(self, weights: dict[str, Path]) -> RunEncoder:
        """Its picture side, for indexing.

        Args:
            weights: as of `limner.apps.equipment.weights_by_name`; used where features were stored.
        Raises:
            MissingError: the backbone's weights are not at hand.
            CheckpointError: they are not those it was trained on, or its transform is unknown.
        """
        return RunEncoder(self, self._pixels(weights) if self.backbone else None)

    def _pixels(self, weights: dict[str, Path]) -> PixelEncoder:
        """The backbone, as it was when the features were stored."""
        from limner.encoders.catalogue import weight_file
        from limner.encoders.framing import Framing
        from limner.encoders.pixels import PixelEncoder, Precision, build, transform_of
        from limner.encoders.weights import read_state

        due = cast(Backbone, self.backbone)
        transforms: dict[str, tuple[Precision, Framing]] = {
            transform_of(precision, framing): (precision, framing)
            for precision in get_args(Precision)
            for framing in get_args(Framing)
        }
        if due.transform not in transforms:
            raise CheckpointError(f"{self.folder}: " + unknown("transform", due.transform, transforms))
        file = weight_file(due.architecture, weights.get(due.architecture, weights.get("")))
        if not due.weights_sha256:
            say(
                f"{self.folder}: this older run does not say which weights of {due.architecture} its features"
                f" came from; {file.path} is taken to be the file"
            )
        elif file.sha256 != due.weights_sha256:
            raise CheckpointError(
                f"{file.path}: SHA-256 {file.sha256[:12]}…, but {self.folder} was trained on features of"
                f" {due.architecture} with {due.weights_sha256[:12]}…; give that file with --weights"
            )
        precision, framing = transforms[due.transform]
        built = build(due.architecture, read_state(file), str(file.path))
        return PixelEncoder(due.architecture, built, file.sha256, precision=precision, framing=framing)


def check_kinds(runs: Sequence[TrainedRun], model: Path | None, metric: Path | None) -> None:
    """Refuse a metric given as a model, and a model given as a metric.

    Raises:
        ConfigError: naming the option it goes with.
    """
    for run in runs:
        due = model if run.space == MODEL else metric
        if run.folder != due:
            option = "--model" if run.space == MODEL else "--metric"
            raise ConfigError(f"{run.folder}: a run of {run.system}; give it with {option}")


class RunEncoder:
    """The picture side of a trained run; see `limner.similarity.ImageEncoder`."""

    def __init__(self, run: TrainedRun, pixels: PixelEncoder | None) -> None:
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
        return SIDE_PX if self._run.trunk == "finetune" else self._run.picture_px

    def prepare(self, image: Image) -> ByteArray:
        """One upright RGB picture → (H, W, 3) bytes, as in training."""
        if self._pixels:
            return self._pixels.prepare(image)
        if self._run.trunk == "finetune":
            from limner.training.pictures import crop

            return crop(image, (0.5, 0.5))
        from limner.encoders.framing import frame

        return frame(image, self._run.picture_px, "squash")

    def encode_pixels(self, batch: ByteArray) -> ImageVectors:
        """(B, H, W, 3) bytes → vectors of the run's space."""
        values: Any = batch
        if self._pixels:
            # Half precision, as the store that it was trained on keeps features.
            stages = self._run.backbone is not None and self._run.backbone.layer == "stages"
            made = self._pixels.stages(batch) if stages else self._pixels.features(batch)
            values = made.astype(np.float16).astype(np.float32)
        return ImageVectors({self._run.space: unit_rows(self.name, self._run.model.encode_image(values))})
