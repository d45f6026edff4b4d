"""A trained run as an encoder of pictures, for indexing.

What training kept apart, the model and the backbone whose features it learned on, is put together here, for
any system that encodes texts and pictures. It trains nothing and fetches no weights.
"""

from __future__ import annotations

import hashlib
import shlex
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, get_args

import numpy as np
from pydantic import ValidationError

from limner.arrays import ByteArray, FloatArray, ImageVectors, unit_rows
from limner.errors import CheckpointError, ConfigError, DataError, LimnerWarning, unknown
from limner.library.channels import Channel, Evidence
from limner.records import Record
from limner.storyboard.illustrate import step_texts

if TYPE_CHECKING:
    from PIL.Image import Image

    from limner.encoders.pixels import PixelEncoder
    from limner.library.gallery import Gallery
    from limner.library.library import Library
    from limner.records import Storyboard


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
        from limner.encoders.pixels import transform_of
        from limner.paper.gallery import open_run
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
            weights: as of `limner.storyboard.equipment.weights_by_name`; used where features were stored.
        Raises:
            MissingError: the backbone's weights are not at hand.
            CheckpointError: they are not those it was trained on, or its transform is unknown.
        """
        return RunEncoder(self, self._pixels(weights) if self.backbone else None)

    def _pixels(self, weights: dict[str, Path]) -> PixelEncoder:
        """The backbone, as it was when the features were stored."""
        from limner.encoders.catalogue import weight_file
        from limner.encoders.pixels import Framing, PixelEncoder, Precision, build, transform_of
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
            assumed = (
                f"{self.folder}: this older run does not say which weights of {due.architecture} its features"
                f" came from; {file.path} is taken to be the file"
            )
            warnings.warn(assumed, LimnerWarning, stacklevel=2)
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
    """The picture side of a trained run; see `limner.arrays.ImageEncoder`."""

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
            from limner.training.corpus import crop

            return crop(image, (0.5, 0.5))
        from limner.encoders.pixels import frame

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


RELATION = "relation"
# A prior, fitted on nothing: a picture one standard deviation above the mean of its text is even odds, and
# every further one adds two nats. A run's cosines have a scale of their own, so only their spread is used.
PRIOR = Evidence(slope=0.0, z_slope=2.0, offset=-2.0)
DIGITS = 4


def run_channels(run: TrainedRun, library: Library, relation: str | None = None) -> list[Channel]:
    """The channels to ask a library with, in place of those of untrained use.

    Args:
        run: that the library was indexed with.
        library: whose pictures are asked.
        relation: that the pictures should have as well, as `asked` reads it; every step prefers them alike.
    Raises:
        DataError: the library was not indexed with a run.
        CheckpointError: it was indexed with another one.
        ConfigError: see `RelationDirection`.
    """
    if run.space != MODEL:
        raise ConfigError(
            f"--model: {run.folder} compares pictures and reads no texts; give it with --metric"
        )
    check_run(run, library)
    found = [Channel(MODEL, RunTexts(run), MODEL, PRIOR)]
    if relation is not None:
        name, times = asked(relation, run.relations)
        found.append(RelationDirection(run, name).channel(times))
    return found


def check_run(run: TrainedRun, library: Library) -> None:
    """Refuse a library that does not hold a run's vectors.

    Raises:
        DataError: the library was not indexed with a run of its kind.
        CheckpointError: it was indexed with another one.
    """
    made_by = library.settings.spaces.get(run.space)
    if made_by is None:
        raise DataError(f"{library.folder}: no vectors of a trained run; {_due(run, library)}")
    if made_by.fingerprint != run.fingerprint:
        raise CheckpointError(
            f"{library.folder}: its vectors are of another run ({made_by.encoder}); {_due(run, library)}"
        )


def without_vectors(run: TrainedRun, gallery: Gallery, library: Library) -> str:
    """A line that counts the pictures of a library without a vector of a run; "" where all have one."""
    present = gallery.space(run.space).present
    if present.all():
        return ""
    return (
        f"{int((~present).sum())} of {len(present)} pictures have no vector of this run; {_due(run, library)}"
    )


def _due(run: TrainedRun, library: Library) -> str:
    """The command that indexes a library with a run."""
    source = shlex.quote(next(iter(library.settings.sources), "PICTURES"))
    option = "--model" if run.space == MODEL else "--metric"
    places = f"--library {shlex.quote(str(library.folder))} {option} {shlex.quote(str(run.folder))}"
    return f"run: limner index {source} {places}"


def asked(words: str, relations: Sequence[str]) -> tuple[str, float]:
    """``NAME`` or ``NAME=TIMES`` as a relation and how many times its evidence counts; below 0 avoids it.

    Args:
        words: as a person writes them.
        relations: known names, which may have an equals sign themselves.
    Raises:
        ConfigError: TIMES is not a finite number.
    """
    name, equals, times = words.rpartition("=")
    if words in relations or not equals or name not in relations:
        return words, 1.0
    try:
        number = float(times)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise ConfigError(f"--relation {words!r}: {times!r} is not a number; write such as {name}=5")
    return name, number


def predicted(board: Storyboard, run: TrainedRun, gallery: Gallery) -> Storyboard:
    """The board with the relations of each chosen picture and the attention over each text.

    Pictures without a vector, such as those that a text brings along, get no relations.

    Args:
        board: made with the run's channels.
        run: whose predictions are wanted.
        gallery: with the run's space.
    """
    texts, space = step_texts(board.story), gallery.space(MODEL)
    rows = {picture: row for row, picture in enumerate(gallery.ids) if space.present[row]}
    shown = {
        step.position: rows[step.chosen.picture.id]
        for step in board.steps
        if step.chosen is not None and step.chosen.picture.id in rows
    }
    relations: dict[int, dict[str, float]] = {}
    chances: Callable[..., Any] | None = getattr(run.model, "relation_probabilities", None)
    if chances is not None and run.relations and shown:
        vectors = np.asarray(space.matrix[list(shown.values())], dtype=np.float32)
        table = chances(run.model.encode_text([texts[step] for step in shown]), vectors)
        relations = {
            step: {
                name: round(float(chance), DIGITS) for name, chance in zip(run.relations, row, strict=True)
            }
            for step, row in zip(shown, table, strict=True)
        }
    attention = _attention(run, texts)
    return board.model_copy(
        update={
            "steps": tuple(
                step.model_copy(
                    update={
                        "relations": relations.get(step.position, {}),
                        "attention": attention[step.position],
                    }
                )
                for step in board.steps
            )
        }
    )


def _attention(run: TrainedRun, texts: Sequence[str]) -> list[tuple[tuple[str, float], ...]]:
    """Words and their shares per text; empty where the model has no attention."""
    attend: Callable[..., Any] | None = getattr(run.model, "attention", None)
    if attend is None:
        return [()] * len(texts)
    try:
        found = attend(texts)
    except ConfigError:  # what a model without attention raises
        return [()] * len(texts)
    return [tuple((word, round(float(share), DIGITS)) for word, share in words) for words in found]


class RunTexts:
    """The text side of a trained run; see `limner.arrays.TextEncoder`.

    The texts of one call are the steps of one story: models of sequences hear them together.
    """

    def __init__(self, run: TrainedRun) -> None:
        """Take a run."""
        self._model, self.name, self.fingerprint = run.model, run.system, run.fingerprint

    @property
    def dim(self) -> int:
        """D."""
        return self._model.dim

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 rows of unit length."""
        stories: Callable[..., Any] | None = getattr(self._model, "encode_stories", None)
        if stories is not None:
            heard: FloatArray = stories([list(texts)])[0]
            return heard
        return self._model.encode_text(texts)


class RelationDirection:
    """The same unit vector for every text: the direction along which a relation's odds grow.

    For the linear module a logit is a text term plus w · v, so among pictures only w · v matters.

    Source: docs/methods/cmcm.md §2.4.
    """

    name = RELATION

    def __init__(self, run: TrainedRun, relation: str) -> None:
        """Take a run with linear relations.

        Raises:
            ConfigError: no such relation, none at all, or they are not linear.
        """
        names = run.relations
        if not names:
            raise ConfigError(
                f"--relation: {run.folder} predicts no relations; train with model.relations='linear'"
            )
        if relation not in names:
            raise ConfigError("--relation: " + unknown("relation", relation, names))
        terms: Callable[..., Any] | None = getattr(run.model, "relation_terms", None)
        if terms is None or not getattr(run.model, "separable", False):
            raise ConfigError(
                f"--relation: in {run.folder} relations are not linear, so no picture has one apart from its"
                " text; train with model.relations='linear'"
            )
        # The picture terms of the D basis vectors are the rows of the picture half of the weights.
        basis = np.eye(run.model.dim, dtype=np.float32)
        weights: FloatArray = terms(basis[:1], basis)[1][:, names.index(relation)]
        self.norm = float(np.linalg.norm(weights))
        self.fingerprint = run.fingerprint
        self._direction = unit_rows(RELATION, weights[None])

    @property
    def dim(self) -> int:
        """D."""
        return int(self._direction.shape[1])

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """(N, D), all rows the same."""
        return np.repeat(self._direction, len(texts), axis=0)

    def channel(self, times: float = 1.0) -> Channel:
        """The picture term in nats, so many times: slope · cosine = times · w · v."""
        return Channel(RELATION, self, MODEL, Evidence(slope=times * self.norm, z_slope=0.0, offset=0.0))


class StepRelations:
    """The direction each step asks for, as long as it counts; see `limner.arrays.TextEncoder`.

    A step without a relation has the zero vector: it adds no evidence to any picture.
    """

    name = RELATION

    def __init__(self, run: TrainedRun, relations: Sequence[str | None]) -> None:
        """Take a run and what its steps ask for.

        Args:
            run: that predicts relations.
            relations: per step ``NAME``, ``NAME=TIMES`` or None; one at least is a relation.
        Raises:
            ConfigError: see `RelationDirection`.
        """
        wishes = [None if one is None else asked(one, run.relations) for one in relations]
        made = {name: RelationDirection(run, name) for name in {one[0] for one in wishes if one is not None}}
        self.fingerprint = run.fingerprint
        self._rows: FloatArray = np.zeros((len(wishes), run.model.dim), dtype=np.float32)
        for row, wish in enumerate(wishes):
            if wish is not None:
                name, times = wish
                direction = made[name]
                self._rows[row] = direction.encode_text([""])[0] * np.float32(times * direction.norm)
        # Rows may be shorter than 1 but not longer; the slope gives them their lengths back.
        self.norm = float(np.linalg.norm(self._rows, axis=1).max())
        if self.norm > 0:
            self._rows /= np.float32(self.norm)

    @property
    def dim(self) -> int:
        """D."""
        return int(self._rows.shape[1])

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """(S, D) rows of length at most 1, whatever the words."""
        return self._rows


def relation_channel(run: TrainedRun, relations: Sequence[str | None]) -> Channel:
    """The picture term of each step's relation, in nats; arguments and errors as `StepRelations`."""
    encoder = StepRelations(run, relations)
    return Channel(RELATION, encoder, MODEL, Evidence(slope=encoder.norm, z_slope=0.0, offset=0.0))
