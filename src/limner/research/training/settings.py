"""Settings every system shares: where the data come from, the loop, and presets that fill in defaults.

A preset fills in what a file leaves open; what departs from it is a deviation, and a run says them all.
It knows no system.
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
"""Presets that state a run whole; the others are laid over one of them."""
AS_SAVED: Mapping[str, bool] = {"saved": True}
"""Context of `limner.config.build` for settings of a finished run: no preset of today fills them in."""

WHOLE = {"crop": "none", "flip": False, "picture_size": 224}
"""Of `DataConfig`: as stored features see a picture."""


OptimiserName = Literal["adam", "adadelta"]


class LoopConfig(Record):
    """Settings of the loop.

    Attributes:
        epochs: passes over the training data.
        optimiser, lr, weight_decay: adam or adadelta.
        betas: of adam.
        rates: parts of the model, by the beginning of their names, with a rate of their own, which falls
            along a cosine alone.
        clip_norm: largest gradient norm, or None.
        schedule: of the rates: "plateau" cuts them when validation stops to improve, "steps" at `steps`, and
            "cosine" lets them fall to 0 along half a cosine over `epochs`.
        restarts: epochs, rising, at which a cosine begins anew; each falls to 0 at the next or at the end.
        steps: rising epochs, at each of which the rate is multiplied by `step_factor`; none keep it as it is.
        step_factor: above 0.
        plateau_patience: validations without a better value that the rate survives: the next one cuts it. A
            tie is no better value.
        plateau_factor: what the rate is multiplied with then.
        stop_after_stale: epochs in a row without a better value that end training; None for never.
        metric: the validation figure that selects; the caller says its direction.
        precision: of products; "bfloat16" and "float16" have half the bits, while weights, sums and losses
            keep all. An update that overflows float16 is left out and counted, and gradients scaled down.
        save_every_steps: steps between resumable checkpoints, the most that a kill can lose.
        seed: of python, NumPy and torch.
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
    def _steps_rise(self) -> Self:
        if any(epoch <= before for before, epoch in pairwise((0, *self.steps))):
            found = list(self.steps)
            raise ValueError(f"steps {found}: expected rising epochs of at least 1, such as [15, 25]")
        return self

    def share_of_rate(self, epoch: int) -> float:
        """What the rates of an epoch are multiplied with under "cosine" and "steps"."""
        if self.schedule == "steps":
            return float(self.step_factor ** sum(step <= epoch for step in self.steps))
        ends = [0, *self.restarts, max(self.epochs, *self.restarts, 1)]
        start = max(end for end in ends[:-1] if end <= epoch)
        length = max(min((end for end in ends if end > epoch), default=ends[-1]) - start, 1)
        return 0.5 * (1 + math.cos(math.pi * min((epoch - start) / length, 1)))


class DataConfig(SourceConfig):
    """Which pairs, and how they become batches.

    Attributes:
        set: name of a registered set, or mixture.
        mixture: name → data set, of the set mixture; each has a split of its own, and what one of them
            validates or tests on, none trains on.
        features: folder of the feature stores, and of the manifest of pictures that were looked at.
        features_from: address of complete feature stores on object storage, which are read from there by
            shards; "" has them in `features`.
        features_cache_gb: of such a store that `features` keeps on this machine's disk at most, 10⁹ bytes.
        backbone: whose features are stored, or what is trained along.
        beside: encoders of pictures, such as ``resnet50``, files of detectors, and last ``traits`` of the
            pictures' files, which the system limner reads beside its backbone; see
            `limner.research.scenes.beside.beside`.
        picture_size: side in pixels of what a backbone sees that is trained along.
        crop, flip: which part of a picture it sees, and whether some are mirrored in training; see
            `limner.research.training.framing.TrainingFraming`. Stored features are of whole pictures in 224².
        relations: those to predict; empty for all of the set.
        shuffle_relations: deal the labels anew inside each split: the control.
        tokeniser, min_count: of the vocabulary.
        max_length: words of a text that count.
        vectors: start of the word vectors: learned on the training texts ("cbow"), "random", or of `glove`.
        glove: file of word vectors in GloVe's text format.
        vector_epochs: passes over the texts to learn them.
        batch: pairs per step.
        mask_duplicates: no duplicate of the right text or picture is a wrong candidate.
        limit: pairs per split at most; None for all.
        validation_sample: pairs that validation looks at, at most: whole groups, drawn once by seed 0. 0 for
            all.
        stories, world_seed, picture_px: of picturebook.
    """

    mixture: dict[str, MixtureEntry] = Field(default_factory=dict)
    features: str = "features"
    features_from: str = ""
    features_cache_gb: float = Field(default=50.0, gt=0)
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
        """Whether a backbone sees pictures as stored features do."""
        return self.model_dump(include=set(WHOLE)) == WHOLE


class RunConfig(Record):
    """Settings of one run; every system adds its own.

    Attributes:
        system: name in the registry.
        row: name of the row in the tables, such as ``CMCM_Story``.
        preset: see `Preset`; several joined by "+" are laid over each other, as "sound+laptop". One that is
            not `PUBLISHED` is laid over "release" unless one of those is named.
        stated: what preset, data set and row's file say together, from which deviations are counted; its
            `data.set` is the one whose overlay was laid, "" for none. Empty where settings were not read from
            files: then of the preset alone.
        data: see `DataConfig`.
        loop: see `LoopConfig`.
        model: sizes and parts, of a class of the system's own.
    Source: docs/methods/index.md §3.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {name: {} for name in get_args(Preset)}
    ROW: ClassVar[frozenset[str]] = frozenset()  # settings by which the rows of the tables differ
    OURS: ClassVar[Mapping[str, Any]] = {}  # objectives in which no preset is what the paper prints
    DRAWS_BY_WEIGHT: ClassVar[bool] = False  # whether the system's batches heed `MixtureEntry.weight`
    READS_BESIDE: ClassVar[bool] = False  # whether it reads `DataConfig.beside`
    SMOKE: ClassVar[Mapping[str, Any]] = {}  # what `smoke` puts in place of a system's own settings

    system: str
    row: str = ""
    preset: str = "release"
    stated: dict[str, Any] = Field(default_factory=dict)
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
            # crops are of pictures that a backbone trains on: those of the preset go with its backbone
            plain = {key: value for key, value in WHOLE.items() if whole["data"].get(key) == due.get(key)}
            whole = merged(whole, {"data": plain})
        return whole

    @model_validator(mode="after")
    def _heeds_data(self) -> Self:
        for name, entry in self.data.mixture.items():
            if entry.weight != 1 and not self.DRAWS_BY_WEIGHT:
                raise ValueError(
                    f"{self.system} takes every row once an epoch; leave data.mixture.{name}.weight out"
                )
        if self.data.beside and not self.READS_BESIDE:
            raise ValueError(f"{self.system} reads the features of one backbone; leave data.beside out")
        return self

    def deviations(self) -> list[str]:
        """``key=value`` of every setting that preset, data set and row would not give; see `stated`.

        What is trained on is none, unless nothing that was laid over the row is of it. Objectives of ours,
        which the preset "paper" takes where the printed ones cannot work, are deviations at that preset.
        """
        given = {"set", "mixture"}
        due = {"system": self.system, "preset": self.preset, "data": self.data.model_dump(include=given)}
        plain = (
            type(self).model_validate(merged(self.stated, due)).model_dump(mode="json", exclude={"stated"})
        )
        mine, due = flat(self.model_dump(mode="json", exclude={"stated"})), flat(plain)
        overlay = self.stated.get("data", {}).get("set", self.data.set)
        # a mixture states of each of its sets what it needs
        alone = [f"data.set={self.data.set}"] if self.data.set not in (overlay, "mixture") else []
        if "paper" in self.preset.split("+"):
            alone += [f"{key}={value}" for key, value in self.OURS.items() if mine[key] == due[key] == value]
        return alone + [
            f"{key}={value}"
            for key, value in mine.items()
            if key not in NO_DEVIATION and self._compared(key, value) != self._compared(key, due.get(key))
        ]

    def _compared(self, key: str, value: object) -> object:
        """What of a setting, by dotted key, counts for `deviations`: all of it, but for files of a system."""
        del key
        return value

    @classmethod
    def resolved(
        cls, row: Mapping[str, Any], preset: str = "", overlay: Mapping[str, Mapping[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Settings of a row at a preset, what a data set needs laid between the two.

        Args:
            row: of the row's file; it wins over presets and data set.
            preset: in place of the row's own; it then rules what the row only repeats of its own preset.
            overlay: "" and names of presets → what the data set needs always, and at that preset.
        Returns:
            Values for the class, with what deviations are counted from as `stated`.
        """
        over = overlay or {}
        own = cls._beyond_preset(row) if preset else dict(row)
        joined = preset or str(row.get("preset", "release"))
        names = layers(joined)
        due: dict[str, Any] = {}
        for place, name in enumerate(names):
            for layer in (cls.PRESETS.get(name, {}), {} if place else over.get("", {}), over.get(name, {})):
                due = merged(due, layer)
        defining = kept(own, lambda key, value: key in cls.ROW)
        stated = merged(due, defining) if over else merged(defining, {"data": {"set": ""}})
        return merged(due, own) | {"preset": joined, "stated": stated}

    @classmethod
    def _beyond_preset(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of a row without those that its own preset gives anyway."""
        preset = values.get("preset", "release")
        plain = cls.model_validate(
            {"system": values["system"], "preset": preset, "data": {"set": "picturebook"}}
        )
        due = flat(plain.model_dump(mode="json"))
        always = ("system", "data.set")
        return kept(values, lambda key, value: key in always or key not in due or value != due[key])

    def smoke(self) -> Self:
        """The same run in a few seconds and without downloads: the same code, no meaningful result."""
        data = self.data.model_copy(
            update={
                "batch": min(8, self.data.batch),
                "max_length": min(16, self.data.max_length),
                "min_count": 1,
                "vector_epochs": 1,
                # words are narrower than the file's
                "vectors": "random" if self.data.vectors == "glove" else self.data.vectors,
                "backbone": "tiny",  # its weights come with limner
                "limit": min(self.data.limit or 48, 48),
                "stories": min(self.data.stories, 12),
            }
        )
        loop = self.loop.model_copy(update={"epochs": min(self.loop.epochs, 2), "save_every_steps": 4})
        small: Self = replaced(self.model_copy(update={"data": data, "loop": loop}), self.SMOKE)
        return small


def layers(preset: str) -> Sequence[Any]:
    """Presets by name in the order in which they are laid over each other, the published one first."""
    names = preset.split("+")
    return names if any(name in PUBLISHED for name in names) else ["release", *names]


def every_preset(values: Mapping[str, Any]) -> dict[Preset, Mapping[str, Any]]:
    """The presets of a system for which all are the same."""
    return {name: values if name in PUBLISHED else {} for name in get_args(Preset)}


def replaced(config: Any, values: Mapping[str, Any]) -> Any:  # noqa: ANN401  (settings of any class)
    """Settings with other values; a table of values replaces settings within settings."""
    return config.model_copy(
        update={
            key: replaced(getattr(config, key), value) if isinstance(value, Mapping) else value
            for key, value in values.items()
        }
    )


def kept(values: Mapping[str, Any], wanted: Callable[[str, Any], bool], prefix: str = "") -> dict[str, Any]:
    """Nested values of which only some stay, by dotted key and value."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if not isinstance(value, Mapping):
            found |= {key: value} if wanted(f"{prefix}{key}", value) else {}
        elif inner := kept(value, wanted, f"{prefix}{key}."):
            found[key] = inner
    return found
