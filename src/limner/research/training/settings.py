"""Settings common to all systems: data, loop, and presets.

A preset supplies the settings that a file leaves out; differences from it are deviations, which are recorded.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from limner.config import Record, flat, merged
from limner.devices import Precision
from limner.encoders.vocabulary import TokeniserName
from limner.errors import unknown
from limner.research.datasets.pairs import MixtureEntry, SourceConfig
from limner.research.training import NAMES_AND_PLACES

NO_DEVIATION = NAMES_AND_PLACES | {"loop.seed", "loop.save_every_steps"}

Crop = Literal["none", "random", "resized"]
Preset = Literal["paper", "release", "sound", "laptop"]
PUBLISHED: tuple[Preset, ...] = ("paper", "release")
"""Presets that specify all settings; the others are overlays on one of them."""
AS_SAVED: Mapping[str, bool] = {"saved": True}
"""Context of `limner.config.build` for the settings of a finished run, in which presets are not applied."""

WHOLE = {"crop": "none", "flip": False, "picture_size": 224}
"""Settings of `DataConfig` that match stored features."""


OptimiserName = Literal["adam", "adadelta"]


class LoopConfig(Record):
    """Settings of the loop.

    Attributes:
        epochs: passes over the training data.
        optimiser, lr, weight_decay: adam or adadelta, its learning rate and weight decay.
        betas: betas of adam.
        rates: prefix of parameter names → learning rate of that part; only the cosine schedule changes these.
        clip_norm: largest gradient norm, or None.
        schedule: schedule of the rates: "plateau" reduces them when validation stops improving, "steps" at
            `steps`, and "cosine" along half a cosine to 0 over `epochs`.
        restarts: increasing epochs at which a cosine schedule restarts; each cycle falls to 0.
        steps: increasing epochs at which the rate is multiplied by `step_factor`; empty for a constant rate.
        step_factor: factor, above 0.
        plateau_patience: number of validations without improvement that are tolerated; the next one reduces
            the rate. A tie is not an improvement.
        plateau_factor: factor by which the rate is then multiplied.
        stop_after_stale: number of epochs without improvement after which training ends; None for never.
        metric: validation metric by which the best weights are selected.
        precision: precision of matrix products; weights, sums and losses stay in float32. An update that
            overflows float16 is skipped and counted, and the gradient scale reduced.
        save_every_steps: steps between resumable checkpoints; a crash loses at most this many steps.
        seed: seed of Python, NumPy and torch.
    """

    epochs: int = 20
    optimiser: OptimiserName = "adam"
    lr: float = 1e-4
    betas: tuple[float, float] = (0.5, 0.999)
    rates: dict[str, float] = Field(default_factory=dict)
    weight_decay: float = 0.0
    clip_norm: float | None = None
    schedule: Literal["plateau", "cosine", "steps"] = "plateau"
    restarts: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    step_factor: float = Field(default=0.1, gt=0)
    plateau_patience: int = 5
    plateau_factor: float = 0.1
    stop_after_stale: int | None = Field(default=None, ge=1)
    metric: str = "MedR"
    precision: Precision = "float32"
    save_every_steps: int = 200
    seed: int = 0

    @model_validator(mode="after")
    def _check_steps(self) -> Self:
        if any(epoch <= before for before, epoch in pairwise((0, *self.steps))):
            found = list(self.steps)
            raise ValueError(f"steps {found}: expected increasing epochs of at least 1, such as [15, 25]")
        return self

    def learning_rate_factor(self, epoch: int) -> float:
        """Factor of the learning rates in an epoch under "cosine" and "steps"."""
        if self.schedule == "steps":
            return float(self.step_factor ** sum(step <= epoch for step in self.steps))
        ends = [0, *self.restarts, max(self.epochs, *self.restarts, 1)]
        start = max(end for end in ends[:-1] if end <= epoch)
        length = max(min((end for end in ends if end > epoch), default=ends[-1]) - start, 1)
        return 0.5 * (1 + math.cos(math.pi * min((epoch - start) / length, 1)))


class DataConfig(SourceConfig):
    """Settings of the data: pairs, features and batches.

    Attributes:
        set: name of a registered set, or mixture.
        mixture: for set "mixture": name → settings of a data set. Each has its own split; no set trains on
            what another validates or tests on.
        features: folder of the feature stores and of the manifest of pictures.
        backbone: backbone whose features are stored, or that is fine-tuned.
        beside: extra encoders such as ``resnet50``, files of detectors, and ``traits`` (last), whose features
            the system limner uses in addition; see
            `limner.research.scenes.extra_encoders.with_extra_encoders`.
        picture_size: side of the square input of a fine-tuned backbone, pixels.
        crop, flip: cropping and mirroring for a fine-tuned backbone, see
            `limner.research.training.framing.TrainingFraming`. Stored features are of whole pictures at 224².
        relations: relations to predict; empty for all of the set.
        shuffle_relations: whether to permute the labels within each split, as a control.
        tokeniser, min_count: settings of the vocabulary.
        max_length: maximum number of words of a text; the rest is ignored.
        vectors: initial word vectors: "cbow" (learned on the training texts), "random", or "glove" (read from
            the file `glove`).
        glove: file of word vectors in GloVe's text format.
        vector_epochs: passes over the texts when learning word vectors.
        batch: pairs per step.
        mask_duplicates: whether duplicates of the true text or picture are excluded from the wrong
            candidates.
        limit: maximum number of pairs per split, in whole stories; None for all.
        validation_sample: maximum number of validation pairs, sampled once in whole groups with seed 0; 0 for
            all.
        stories, world_seed, picture_px: number of stories, seed and picture size of generated sets such as
            picturebook; the seed also shuffles their relations.
    """

    mixture: dict[str, MixtureEntry] = Field(default_factory=dict)
    features: str = "features"
    backbone: str = "resnet50"
    beside: tuple[str, ...] = ()
    picture_size: int = Field(default=224, ge=32)
    crop: Crop = "none"
    flip: bool = False
    relations: tuple[str, ...] = ()
    shuffle_relations: bool = False
    tokeniser: TokeniserName = "default"
    min_count: int = Field(default=1, ge=1)
    max_length: int = Field(default=200, ge=1)
    vectors: Literal["cbow", "random", "glove"] = "cbow"
    glove: str = "glove.6B.300d.txt"
    vector_epochs: int = Field(default=50, ge=1)
    batch: int = Field(default=32, ge=2)
    mask_duplicates: bool = True
    limit: int | None = Field(default=None, ge=4)
    validation_sample: int = Field(default=5000, ge=0)
    stories: int = Field(default=200, ge=10)
    world_seed: int = Field(default=0, ge=0)
    picture_px: int = Field(default=64, ge=32)

    @property
    def whole(self) -> bool:
        """Whether pictures are used whole, as in stored features."""
        return self.model_dump(include=set(WHOLE)) == WHOLE


class RunConfig(Record):
    """Settings of one run; each system adds its own.

    Attributes:
        system: name of the system.
        row: name of the run's row in tables, such as ``CMCM_Story``.
        preset: see `Preset`; several joined by "+" are applied in order, such as "sound+laptop". One that is
            not `PUBLISHED` is applied on top of "release", unless a published one is named.
        stated: settings from preset, data set and row's file together, from which deviations are counted; its
            `data.set` is the set whose overlay was applied, "" for none. Empty if settings were not read from
            files; deviations are then counted from the preset.
        printed: the same with the preset "paper" in place of the run's, from which departures are counted.
        data: see `DataConfig`.
        loop: see `LoopConfig`.
        model: sizes and parts of the model, in a class of the system.
    Source: docs/methods/index.md §3.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {name: {} for name in get_args(Preset)}
    ROW: ClassVar[frozenset[str]] = frozenset()  # settings in which the rows of a table differ
    PRINTED: ClassVar[bool] = True  # whether the system is a paper's
    OURS: ClassVar[Mapping[str, Any]] = {}  # settings with which all presets depart from the printed paper
    DRAWS_BY_WEIGHT: ClassVar[bool] = False  # whether batches use `MixtureEntry.weight`
    READS_BESIDE: ClassVar[bool] = False  # whether the system uses `DataConfig.beside`
    SMOKE: ClassVar[Mapping[str, Any]] = {}  # replacements by `smoke` in the system's own settings

    system: str
    row: str = ""
    preset: str = "release"
    stated: dict[str, Any] = Field(default_factory=dict)
    printed: dict[str, Any] = Field(default_factory=dict)
    data: DataConfig
    loop: LoopConfig = LoopConfig()
    model: Any = None

    @field_validator("preset")
    @classmethod
    def _is_known(cls, joined: str) -> str:
        for name in joined.split("+"):
            if name not in get_args(Preset):
                raise ValueError(unknown("preset", name, get_args(Preset)))
        return joined

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any, info: ValidationInfo) -> Any:  # noqa: ANN401  (as given by a caller)
        if not isinstance(values, dict):
            return values
        if info.context == AS_SAVED:
            return values
        under: dict[str, Any] = {}
        for name in layers(str(values.get("preset", "release"))):
            under = merged(under, cls.PRESETS.get(name, {}))
        whole = merged(under, values)
        due = merged(under, whole.get("stated", {})).get("data", {})
        if whole.get("backbone", "finetune") != "finetune" and isinstance(whole.get("data"), dict):
            # crops need a fine-tuned backbone; with another, those of the preset or the data set are dropped
            plain = {key: value for key, value in WHOLE.items() if whole["data"].get(key) == due.get(key)}
            whole = merged(whole, {"data": plain})
        return whole

    @model_validator(mode="after")
    def _check_data(self) -> Self:
        for name, entry in self.data.mixture.items():
            if entry.weight != 1 and not self.DRAWS_BY_WEIGHT:
                raise ValueError(
                    f"{self.system} uses every row once per epoch; remove data.mixture.{name}.weight"
                )
        if self.data.beside and not self.READS_BESIDE:
            raise ValueError(f"{self.system} reads the features of one backbone; remove data.beside")
        return self

    def deviations(self) -> list[str]:
        """``key=value`` of each setting that differs from preset, data set and row; see `stated`.

        The data set itself is not a deviation if an overlay for it was applied.
        """
        overlay = self.stated.get("data", {}).get("set", self.data.set)
        # each set of a mixture has its own settings
        alone = [f"data.set={self.data.set}"] if self.data.set not in (overlay, "mixture") else []
        return alone + [f"{key}={mine}" for key, mine, _ in self._differing(self.stated, self.preset)]

    def departures(self) -> list[str]:
        """What differs from the printed paper, whichever the preset: ``key=value (paper: other)``.

        Settings of `OURS` come first, without the paper's value, which cannot work or is not stated. A
        system of limner's own has none.
        """
        if not self.PRINTED:
            return []
        found = flat(self.model_dump(mode="json"))
        ours = [f"{key}={value}" for key, value in self.OURS.items() if found[key] == value]
        return ours + [
            f"{key}={mine} (paper: {due})"
            for key, mine, due in self._differing(self.printed, "paper")
            if key not in self.OURS
        ]

    @property
    def reduced(self) -> bool:
        """Whether a size or the number of epochs is below that of the preset "paper", if there is a paper."""
        return self.PRINTED and any(
            type(mine) is int and type(due) is int and mine < due
            for key, mine, due in self._differing(self.printed, "paper")
            if key == "loop.epochs" or key.split(".")[0] in ("model", "graph_model", "captioner")
        )

    def _differing(self, due: Mapping[str, Any], preset: str) -> list[tuple[str, Any, Any]]:
        """Key, value, and value due by a preset with further settings, of all settings that differ."""
        given = self.data.model_dump(include={"set", "mixture"})
        whole = merged(due, {"system": self.system, "preset": preset, "data": given})
        without = {"stated", "printed", "preset"}
        plain = type(self).model_validate(whole).model_dump(mode="json", exclude=without)
        mine, other = flat(self.model_dump(mode="json", exclude=without)), flat(plain)
        return [
            (key, value, other.get(key))
            for key, value in mine.items()
            if key not in NO_DEVIATION and self._compared(key, value) != self._compared(key, other.get(key))
        ]

    def _compared(self, key: str, value: object) -> object:
        """The value of a setting (by dotted key) as compared for `deviations`."""
        del key
        return value

    @classmethod
    def resolved(
        cls, row: Mapping[str, Any], preset: str = "", overlay: Mapping[str, Mapping[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Merge presets, the overlay of a data set, and a row's file, which overrides the others.

        Args:
            row: settings of the row's file.
            preset: replaces the row's own preset, including settings that the row only repeats from it.
            overlay: settings of the data set: those under "" always apply, those under the name of a preset
                only with that preset.
        Returns:
            Values for the class, including `stated` and `printed`.
        """
        over = overlay or {}
        own = cls._beyond_preset(row) if preset else dict(row)
        joined = preset or str(row.get("preset", "release"))
        defining = filtered(own, lambda key, value: key in cls.ROW)

        def due(preset: str) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for place, name in enumerate(layers(preset)):
                for layer in (
                    cls.PRESETS.get(name, {}),
                    {} if place else over.get("", {}),
                    over.get(name, {}),
                ):
                    found = merged(found, layer)
            return found

        stated = merged(due(joined), defining) if over else merged(defining, {"data": {"set": ""}})
        whole = {"preset": joined, "stated": stated, "printed": merged(due("paper"), defining)}
        return merged(due(joined), own) | whole

    @classmethod
    def _beyond_preset(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a row that differ from those of its preset."""
        preset = values.get("preset", "release")
        plain = cls.model_validate(
            {"system": values["system"], "preset": preset, "data": {"set": "picturebook"}}
        )
        due = flat(plain.model_dump(mode="json"))
        always = ("system", "data.set")
        return filtered(values, lambda key, value: key in always or key not in due or value != due[key])

    def smoke(self) -> Self:
        """Settings for a run of a few seconds without downloads, whose result is meaningless."""
        data = self.data.model_copy(
            update={
                "batch": min(8, self.data.batch),
                "max_length": min(16, self.data.max_length),
                "min_count": 1,
                "vector_epochs": 1,
                # word vectors are smaller than the file's
                "vectors": "random" if self.data.vectors == "glove" else self.data.vectors,
                "backbone": "tiny",  # needs no download: its weights are random
                "limit": min(self.data.limit or 48, 48),
                "stories": min(self.data.stories, 12),
            }
        )
        loop = self.loop.model_copy(update={"epochs": min(self.loop.epochs, 2), "save_every_steps": 4})
        if loop.metric.startswith("C@"):  # a few pairs hold two options
            loop = loop.model_copy(update={"metric": "C@2"})
        small: Self = replaced(self.model_copy(update={"data": data, "loop": loop}), self.SMOKE)
        return small


def layers(preset: str) -> Sequence[Any]:
    """Names of presets in the order in which they are applied, the published one first."""
    names = preset.split("+")
    return names if any(name in PUBLISHED for name in names) else ["release", *names]


def every_preset(values: Mapping[str, Any]) -> dict[Preset, Mapping[str, Any]]:
    """The presets of a system whose presets are all equal."""
    return {name: values if name in PUBLISHED else {} for name in get_args(Preset)}


def replaced(config: Any, values: Mapping[str, Any]) -> Any:  # noqa: ANN401  (settings of any class)
    """Copy settings with other values; nested values replace nested settings."""
    return config.model_copy(
        update={
            key: replaced(getattr(config, key), value) if isinstance(value, Mapping) else value
            for key, value in values.items()
        }
    )


def filtered(
    values: Mapping[str, Any], wanted: Callable[[str, Any], bool], prefix: str = ""
) -> dict[str, Any]:
    """Filter nested values by dotted key and value."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if not isinstance(value, Mapping):
            found |= {key: value} if wanted(f"{prefix}{key}", value) else {}
        elif inner := filtered(value, wanted, f"{prefix}{key}."):
            found[key] = inner
    return found
