"""A trained run, and the one way to open it: for measuring, for figures, and as the encoder of a library.

What training kept apart, the model and the backbone whose features it learned on, is put together here.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from pydantic import ValidationError

from limner.arrays import ImageEncoder
from limner.devices import Precision, device_of
from limner.encoders.trained import DOCUMENT, MODEL
from limner.errors import CheckpointError, ConfigError
from limner.records import Record
from limner.research.datasets.features import Layer, precision_of
from limner.research.datasets.pairs import PairSet
from limner.research.systems import system
from limner.research.systems.base import Capabilities, Model
from limner.research.training import checkpoint
from limner.research.training.checkpoint import Position
from limner.research.training.corpus import PictureRows, open_corpus
from limner.research.training.framing import WHOLE
from limner.research.training.loop import BEST
from limner.research.training.settings import DataConfig, RunConfig

if TYPE_CHECKING:
    from limner.research.evaluation.results import Protocol
    from limner.research.runs.measure import Measured, SequenceMeter


class FeatureSource(Record):
    """What made the features a run was trained on, as its checkpoint states it.

    Attributes:
        backbone: architecture, and the layer where it is not the pooled one, as in `FeatureKey`.
        weights_sha256: of the weight file.
        transform: framing, side and precision.
    """

    backbone: str
    weights_sha256: str
    transform: str

    @property
    def architecture(self) -> str:
        """Name of the architecture alone."""
        return self.backbone.removesuffix(f"-{self.layer}")

    @property
    def layer(self) -> str:
        """Pooled or stages, described of EfficientNet-Lite2; no run of a library takes a grid."""
        last = self.backbone.rpartition("-")[2]
        return last if last in get_args(Layer) else "pooled"

    @property
    def precision(self) -> Precision | None:
        """See `precision_of`."""
        return precision_of(self.transform)


@dataclass(frozen=True, eq=False)
class Run:
    """A run as its folder holds it.

    Attributes:
        folder: of the run.
        model: in evaluation mode.
        config: settings it was trained with.
        can: what its system does with them.
        about: what is stored beside the weights.
        position: where training ended, of a run that was trained just now.
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
        """Read a run.

        Args:
            folder: of the run.
            device: torch device of the model.
            precision: of products where the model takes pixels; None for that of its training.
        Raises:
            MissingError: nothing was trained there yet.
            CheckpointError: it does not load, or is of no known system.
        """
        folder = Path(folder).expanduser()
        state = checkpoint.load(folder / BEST)[1]
        try:
            about = state["config"]
            name = str(about["config"]["system"])
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{folder / BEST}: names no system; train it again") from error
        own = system(name)
        model, config = own.load(folder, device)
        model.precision = precision or model.precision
        return cls(folder, model, config, own.capabilities(config), about)

    @classmethod
    def for_library(cls, folder: Path, device: str = "cpu") -> Self:
        """Read a run that a library is to be indexed with, or asked by.

        Args:
            folder: of the run.
            device: torch device of the model and of its backbone.
        Raises:
            MissingError, CheckpointError: see `open`.
            ConfigError: its system says that it is not for libraries, see `Capabilities.no_library`.
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
        """Of its row in the tables, or of its system."""
        return self.config.row or self.config.system

    def data(
        self, *, files: bool | None = None, plain: bool = False, weights: Path | None = None
    ) -> tuple[PairSet, PictureRows]:
        """The data set it was trained on, and the pictures as its model takes them; read once.

        Args:
            files: the files of the pictures instead; None for what the model takes.
            plain: pooled features whatever the model takes.
            weights: of the backbone, where features have to be made.
        Raises:
            MissingError, DataError: see `limner.research.training.corpus.open_corpus`.
        """
        if files is None:
            files = self.can.backbone == "finetune" and not plain
        layer = "pooled" if plain else self.can.layer
        device, config = str(self.model.device), self.config.data
        if not files:  # features are of whole pictures, whatever the model was trained on
            seen = {"picture_size": WHOLE.side_px, "crop": WHOLE.crop, "flip": WHOLE.flip}
            config = config.model_copy(update=seen)
        asked = (files, layer, weights)
        if asked not in self._read:
            self._read[asked] = open_corpus(
                config,
                files=files,
                layer=layer,
                weights=weights,
                device=device,
                precision=None if self.backbone is None else self.backbone.precision,
                beside=extra_encoders(config),
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
        """Measure ranks, predicted relations and more, with the refinement that was chosen on validation.

        The only place where a run meets test rows; it makes a result and never a checkpoint. Under torchrun
        the processes share texts, pictures and queries, and each has the whole result.

        Args:
            part: of its own split of its own data.
            weights: of the backbone, where its features have to be made.
            commit: of the code, for the record.
            choices: options of the c-way questions, one result each; 0 takes the data set's own number.
            distractors: folder of stored questions that all runs share.
            stories: measures steps of stories, where the pairs are such; None leaves that out.
            protocol: of the pools; ``legacy`` is for ranks alone.
            of: one set of a mixture, measured among its own pictures; "" for all together.
        Raises:
            ConfigError: the mixture has no such set; its model reads no texts; or c-way questions are asked
                in the legacy protocol.
            CheckpointError: training did not end.
            DataError: the data are not those it was trained on, or too few for so many options.
        """
        from limner.research.runs.measure import evaluate

        return evaluate(
            self,
            part,
            weights=weights,
            commit=commit,
            choices=choices,
            distractors=distractors,
            stories=stories,
            protocol=protocol,
            of=of,
        )

    @cached_property
    def backbone(self) -> FeatureSource | None:
        """What made its stored features; None where a run takes bytes of pictures.

        Raises:
            CheckpointError: the entry is damaged.
        """
        if self.can.backbone != "frozen":
            return None
        try:
            return FeatureSource.model_validate(self.about.get("backbone"))
        except ValidationError as error:
            raise CheckpointError(
                f"{self.folder / BEST}: damaged entry 'backbone' ({error.errors()[0]['msg']}); train it again"
            ) from error

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the model and of how a picture reaches it; all weights are read once."""
        data = self.config.data
        seen = f"{data.crop} {data.picture_size}"
        looked = {"finetune": seen, "drawings": f"squash {data.picture_px}"}.get(self.can.backbone, "")
        if self.backbone:
            looked = self.backbone.model_dump_json()
        return hashlib.sha256(f"run {self.model.fingerprint} {looked}".encode()).hexdigest()

    @property
    def space(self) -> str:
        """Space of a library that holds its vectors: of a metric, which reads no texts, another one."""
        return MODEL if self.can.texts else DOCUMENT

    @property
    def stories(self) -> bool:
        """Whether its model reads the steps of a story together."""
        return self.can.stories

    @property
    def attends(self) -> bool:
        """Whether its model weighs the words of a text."""
        return self.can.attention

    def encoder(self, weights: dict[str, Path]) -> ImageEncoder:
        """Its picture side, for indexing.

        Args:
            weights: as of `limner.match.equipment.weights_by_name`; used where features were stored.
        Raises:
            MissingError: the backbone's weights are not installed.
            CheckpointError: they are not those it was trained on, or its transform is unknown.
        """
        from limner.research.runs.encoder import RunEncoder, pixels_of

        return RunEncoder(self, None if self.backbone is None else pixels_of(self, self.backbone, weights))


def extra_encoders(config: DataConfig) -> Callable[..., PictureRows] | None:
    """What joins the rows of `DataConfig.beside`, see `limner.research.training.corpus.open_corpus`."""
    if not config.beside:
        return None
    from limner.research.scenes.beside import beside

    return beside


def library_runs(
    model: Path | Run | None, metric: Path | Run | None, device: str = "cpu"
) -> tuple[Run | None, Run | None]:
    """A trained model and a same-document metric that a library is indexed with, or asked by.

    Args:
        model: the model or its folder, or None.
        metric: likewise.
        device: of those that are opened here, as `limner.devices.device_of` takes it.
    Raises:
        ConfigError: something else; see `Run.for_library`; or either is of the other kind, naming the option
            it goes with.
        MissingError, CheckpointError: see `Run.open`.
    """
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
