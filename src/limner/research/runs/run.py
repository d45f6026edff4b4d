"""A trained run, opened for measuring, for figures, or as the encoder of a library.

It combines the model with the backbone whose features it was trained on.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from limner.arrays import ByteArray, FloatArray, ImageEncoder, ImageVectors, unit_rows
from limner.devices import Precision, device_of
from limner.encoders.framing import frame
from limner.errors import CheckpointError, ConfigError, unknown
from limner.research.datasets.pairs import PairSet
from limner.research.systems.base import ENCODE_BATCH, ENCODE_STORIES, Capabilities, Model, system
from limner.research.training import checkpoint, processes
from limner.research.training.checkpoint import BEST, Position
from limner.research.training.corpus import PictureRows, Rows, open_corpus, rows_of, stories_of
from limner.research.training.processes import all_reduce, compute_blocks
from limner.research.training.settings import WHOLE, DataConfig, RunConfig

if TYPE_CHECKING:
    from PIL.Image import Image

    from limner.encoders.base_blocks import PublishedBackbone
    from limner.encoders.pixels import PixelEncoder
    from limner.research.datasets.features import FeatureSource
    from limner.research.evaluation.ranking import Scores
    from limner.research.evaluation.results import ChoiceResult, Protocol
    from limner.research.runs.measure import Measured, SequenceMeter


@dataclass(frozen=True, eq=False)
class Run:
    """A trained run.

    Attributes:
        folder: run folder.
        model: model in evaluation mode.
        config: settings it was trained with.
        can: capabilities of its system.
        about: values stored with the weights.
        position: final position of training; only if the run was trained in this process.
    """

    folder: Path
    model: Model
    config: RunConfig
    can: Capabilities
    about: Mapping[str, Any] = field(repr=False, default_factory=dict)
    position: Position | None = field(repr=False, default=None)
    _read: dict[object, tuple[PairSet, PictureRows]] = field(init=False, repr=False, default_factory=dict)

    @classmethod
    def open(cls, folder: str | Path, device: str = "cpu", precision: Precision | None = None) -> Self:
        """Open a run.

        Args:
            folder: run folder.
            device: torch device of the model.
            precision: precision of a model that takes pixels; None for that of training.
        Raises:
            MissingError: the folder has no trained run.
            CheckpointError: the weights do not load, or the system is unknown.
        """
        folder = Path(folder).expanduser()
        state = checkpoint.load(folder / BEST)[1]
        try:
            about = state["config"]
            name = str(about["config"]["system"])
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{folder / BEST}: no system stated; train it again") from error
        own = system(name)
        model, config = own.load(folder, device)
        model.precision = precision or model.precision
        return cls(folder, model, config, own.capabilities(config), about)

    @classmethod
    def for_library(cls, folder: Path, device: str = "cpu") -> Self:
        """Open a run for indexing or searching a library.

        Args:
            folder: run folder.
            device: torch device of the model and its backbone.
        Raises:
            MissingError, CheckpointError: see `open`.
            ConfigError: its system cannot be used with libraries, see `Capabilities.no_library`.
        """
        run = cls.open(folder, device)
        if run.can.no_library:
            raise ConfigError(f"{folder}: {run.system} {run.can.no_library}")
        _ = run.backbone
        return run

    @property
    def system(self) -> str:
        """Name of its system."""
        return self.config.system

    @property
    def name(self) -> str:
        """Name of its row in the tables, or of its system."""
        return self.config.row or self.config.system

    def data(
        self, *, files: bool | None = None, plain: bool = False, weights: Path | None = None
    ) -> tuple[PairSet, PictureRows]:
        """The data set it was trained on, and its pictures as input of the model; cached.

        Args:
            files: whether pictures are read from files; None if the model decides.
            plain: whether to use pooled features, whatever the input of the model.
            weights: weights of the backbone, if features must be extracted.
        Raises:
            MissingError, DataError: see `limner.research.training.corpus.open_corpus`.
        """
        if files is None:
            files = self.can.backbone == "finetune" and not plain
        layer = "pooled" if plain else self.can.layer
        device, config = str(self.model.device), self.config.data
        if not files:  # features are of whole pictures, even if the model was trained on crops
            config = config.model_copy(update=WHOLE)
        asked = (files, layer, weights)
        if asked not in self._read:
            self._read[asked] = open_corpus(
                config,
                files=files,
                layer=layer,
                weights=weights,
                device=device,
                precision=None if self.backbone is None else self.backbone.precision,
                extra_encoders=extra_encoders(config),
            )
        return self._read[asked]

    def evaluate(
        self,
        part: Literal["val", "test"] = "test",
        *,
        weights: Path | None = None,
        commit: str = "",
        choices: Sequence[int] = (),
        distractors: Path = Path("choices"),
        stories: "SequenceMeter | None" = None,
        protocol: "Protocol" = "pools",
        of: str = "",
    ) -> "Measured":
        """Measure ranks, predicted relations and more, with the refinement chosen on validation.

        Training never uses the test rows. Under torchrun the processes share the work, and each returns the
        whole result.

        Args:
            part: part of the run's own split.
            weights: weights of the backbone, if features must be extracted.
            commit: commit of the code, for the record.
            choices: numbers of options of c-way questions, one result each; 0 means the data set's usual
                number.
            distractors: folder of stored questions, shared by all runs.
            stories: measures stories, if the pairs are steps of stories; None leaves that out.
            protocol: protocol of the pools; "legacy" measures only ranks.
            of: name of one set of a mixture, measured among its own pictures; "" for all sets together.
        Raises:
            ConfigError: the mixture has no such set; the model has no text encoder; or c-way questions are
                requested in the legacy protocol.
            CheckpointError: training did not finish.
            DataError: the data differ from those of training, or there are too few pairs for the options.
        """
        from limner.research.evaluation.refinement import pair_logits, read_refinement, refine
        from limner.research.evaluation.retrieval import measure
        from limner.research.runs.measure import Measured, about_of, generated

        model, config, can = self.model, self.config, self.can
        if not can.texts:
            raise ConfigError(
                f"{self.folder}: {self.system} has no text encoder, so it cannot rank pictures for texts;"
                " 'limner train' printed its validation figures"
            )
        if protocol == "legacy" and choices:
            raise ConfigError(
                f"{self.folder}: the legacy protocol measures only ranks in pools; measure c-way questions"
                " without it"
            )
        with processes.main_first():
            data, pictures = self.data(weights=weights)
        if of:
            from limner.research.datasets.mixture import set_of

            data = set_of(data, of)
        pairs = data.split(part)
        texts, images, columns = vectors(model, pictures, rows_of(pairs, pictures, data.relations), can)
        refined, probabilities, settings = None, {}, {}
        if can.refinement:
            chosen = read_refinement(self.folder)
            settings = {"strength": chosen.strength, "threshold": chosen.threshold}
            chances = model.relation_probabilities(texts, images[columns])
            probabilities = {relation: chances[:, c] for c, relation in enumerate(model.relations)}
            logits = pair_logits(model, texts, images)

            def refined(scores: "Scores", queries: NDArray[np.int64], pool: NDArray[np.int64]) -> "Scores":
                return refine(scores, logits.take(queries, pool), chosen)

        about = about_of(config, can, data.name)
        if self.backbone is not None:  # two weight files of one architecture give different features
            words = f"{about.backbone}, weights {self.backbone.weights_sha256[:12]}"
            about = about.model_copy(update={"backbone": words})
        about = about.model_copy(
            update={
                "part": part,
                "commit": commit,
                "missing": len(data.missing),
                "refinement": settings,
                "protocol": protocol,
                "split": config.data.mixture[of].split if of else config.data.split,
            }
        )
        score = model.scorer(texts, images)
        if can.layer == "stages":  # visual measures use the same features for all runs
            with processes.main_first():
                _, pictures = self.data(plain=True, weights=weights)
        meter = stories if protocol == "pools" else None
        sequences = None
        if meter is not None:
            pixels = self.data(files=True)[1] if meter.pixels else None
            sequences = meter.measure(about, pairs, score, pictures, pixels=pixels, device=str(model.device))
        if sequences is not None and can.captions:
            captions = generated(sequences, model, pairs, pictures)
            sequences = sequences.model_copy(update={"captions": captions})
        result = measure(
            about,
            pairs,
            data.relations,
            score=score,
            refine=refined,
            probabilities=probabilities,
            share=slice(processes.rank(), None, processes.world_size()),
            all_reduce=partial(all_reduce, device=model.device),
        )
        answers: list[ChoiceResult] = []
        if choices:
            from limner.research.evaluation.choice import default_choices, measure_choices

            asked = dict.fromkeys(c or default_choices(data.name) for c in choices)
            answers = [measure_choices(about, pairs, score, c, distractors=distractors) for c in asked]
        return Measured(result, tuple(answers), sequences)

    @cached_property
    def backbone(self) -> "FeatureSource | None":
        """Encoder of its stored features; None for a run that takes pixels.

        Raises:
            CheckpointError: the entry is damaged.
        """
        if self.can.backbone != "frozen":
            return None
        from limner.research.datasets.features import FeatureSource

        try:
            return FeatureSource.model_validate(self.about.get("backbone"))
        except ValidationError as error:
            raise CheckpointError(
                f"{self.folder / BEST}: damaged entry 'backbone' ({error.errors()[0]['msg']}); train it again"
            ) from error

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the model's weights and of the preprocessing of pictures."""
        data = self.config.data
        seen = f"{data.crop} {data.picture_size}"
        looked = {"finetune": seen, "drawings": f"squash {data.picture_px}"}.get(self.can.backbone, "")
        if self.backbone:
            looked = self.backbone.model_dump_json()
        return hashlib.sha256(f"run {self.model.fingerprint} {looked}".encode()).hexdigest()

    @property
    def space(self) -> str:
        """Name of the space of its vectors in a library; models and same-document metrics have one each."""
        from limner.encoders.trained import DOCUMENT, MODEL

        return MODEL if self.can.texts else DOCUMENT

    @property
    def stories(self) -> bool:
        """Whether its model encodes the steps of a story together."""
        return self.can.stories

    @property
    def attends(self) -> bool:
        """Whether its model has attention over the words of a text."""
        return self.can.attention

    def encoder(self, weights: dict[str, Path]) -> ImageEncoder:
        """Its image encoder, for indexing.

        Args:
            weights: weights of the backbone, see `limner.match.encoder_setup.weights_by_name`; used if it was
                trained on stored features.
        Raises:
            MissingError: the backbone's weights are not installed.
            CheckpointError: its features came from other weights, or the transform is unknown.
        """
        return RunEncoder(self, None if self.backbone is None else pixels_of(self, self.backbone, weights))


def pixels_of(run: Run, due: "FeatureSource", weights: dict[str, Path]) -> "PixelEncoder | PublishedBackbone":
    """The backbone that made a run's stored features.

    Args:
        run: the run.
        due: encoder of its stored features.
        weights: see `Run.encoder`.
    Raises:
        MissingError: the weights are not installed.
        CheckpointError: the weights differ, or the transform is unknown.
    """
    from limner.encoders.base_blocks import PublishedBackbone
    from limner.encoders.base_file import BACKBONE, BACKBONE_SHA256
    from limner.encoders.catalogue import weight_file
    from limner.encoders.pixels import PixelEncoder, build, transform_of
    from limner.encoders.weight_files import read_state

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
    """The image encoder of a trained run; see `limner.arrays.ImageEncoder`."""

    def __init__(self, run: Run, pixels: "PixelEncoder | PublishedBackbone | None") -> None:
        """Combine a run with its backbone, which is None if the model takes pixels."""
        self._run, self._pixels = run, pixels
        self.fingerprint = run.fingerprint
        # distinguishes runs of the system in messages and in the library's settings
        self.name = f"{run.system} {self.fingerprint[:8]}"

    @property
    def spaces(self) -> dict[str, int]:
        """Space name → D."""
        return {self._run.space: self._run.model.dim}

    @property
    def side_px(self) -> int:
        """Pixels of the shorter side that `prepare` needs."""
        if self._pixels:
            return self._pixels.side_px
        if self._run.can.backbone != "finetune":
            return self._run.config.data.picture_px
        from limner.research.training.framing import framing_of

        return framing_of(self._run.config.data).shorter_px

    def prepare(self, image: "Image") -> ByteArray:
        """One upright RGB picture → (H, W, 3) bytes, as in training."""
        if self._pixels:
            return self._pixels.prepare(image)
        if self._run.can.backbone == "finetune":
            from limner.research.training.framing import framing_of

            return framing_of(self._run.config.data).plain(image)
        return frame(image, self._run.config.data.picture_px, "squash")

    def encode_pixels(self, batch: ByteArray) -> ImageVectors:
        """(B, H, W, 3) bytes → vectors of the run's space."""
        values: Any = batch
        if self._pixels:
            # half precision, as in the feature store that it was trained on
            stages = self._run.backbone is not None and self._run.backbone.layer in {"stages", "described"}
            made = self._pixels.stages(batch) if stages else self._pixels.features(batch)
            values = made.astype(np.float16).astype(np.float32)
        return ImageVectors({self._run.space: unit_rows(self.name, self._run.model.encode_image(values))})


def extra_encoders(config: DataConfig) -> Callable[..., PictureRows] | None:
    """The function that adds the features of `DataConfig.beside`, see `open_corpus`; None without any."""
    if not config.beside:
        return None
    from limner.research.scenes.extra_encoders import with_extra_encoders

    return with_extra_encoders


def library_runs(
    model: Path | Run | None, metric: Path | Run | None, device: str = "cpu"
) -> tuple[Run | None, Run | None]:
    """Open a trained model and a same-document metric for a library.

    Args:
        model: the model or its folder, or None.
        metric: the metric or its folder, or None.
        device: device of runs that are opened here, see `limner.devices.device_of`.
    Raises:
        ConfigError: an argument is neither a run nor a path; the model is a metric or the metric a model; or
            see `Run.for_library`.
        MissingError, CheckpointError: see `Run.open`.
    """
    from limner.encoders.trained import DOCUMENT, MODEL

    for one in (model, metric):
        if not isinstance(one, Path | Run | None):
            raise ConfigError(
                f"model: {one!r:.60} is of type {type(one).__name__};"
                " expected a run, or the path of its folder"
            )
    found = [
        Run.for_library(one, device_of(device)) if isinstance(one, Path) else one for one in (model, metric)
    ]
    for run, space in zip(found, (MODEL, DOCUMENT), strict=True):
        if run is not None and run.space != space:
            option = "--model" if run.space == MODEL else "--metric"
            raise ConfigError(f"{run.folder}: a run of {run.system}; give it with {option}")
    return found[0], found[1]


PICTURES_AT_ONCE = 512
"""Pictures per block; each block is encoded by one process."""


def vectors(
    model: Model, pictures: PictureRows, rows: Rows, can: Capabilities
) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """Encode the texts and distinct pictures of rows.

    Returns:
        (N, D) texts, (M, D) pictures in order of first appearance, and (N,) column of each text's picture.
    """
    columns = rows.image_ids  # by first appearance
    first = np.unique(columns, return_index=True)[1]
    return _texts(model, rows, can), encoded_images(model, pictures, rows.places[first]), columns


def _texts(model: Model, rows: Rows, can: Capabilities) -> FloatArray:
    """Encode the texts of rows, (N, …); models of stories encode whole stories.

    Texts of similar length share a block, and each block is encoded by one process.
    """
    texts = rows.texts
    if not can.stories:
        order = np.argsort([len(text) for text in texts], kind="stable")

        def made(some: slice) -> FloatArray:
            return model.encode_text([texts[place] for place in order[some].tolist()])

        read = compute_blocks(len(texts), ENCODE_BATCH, made, model.device)
        return read[np.argsort(order)]
    found = np.zeros((len(texts), *model.shape), np.float32)
    stories = stories_of(rows.pairs)
    starts = range(0, len(stories), ENCODE_STORIES)
    for start in starts[processes.rank() :: processes.world_size()]:
        some = stories[start : start + ENCODE_STORIES]
        parts = model.encode_stories([[texts[place] for place in story] for story in some])
        found[np.concatenate(some)] = np.concatenate(parts)
    return all_reduce(found, model.device)


def encoded_images(model: Model, pictures: PictureRows, places: NDArray[np.int64]) -> FloatArray:
    """Encode pictures, (M, …), in blocks, each by one process."""

    def made(some: slice) -> FloatArray:
        return model.encode_image(pictures.take(places[some]))

    return compute_blocks(len(places), PICTURES_AT_ONCE, made, model.device)
