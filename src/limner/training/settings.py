"""Settings every system shares: where the data come from, the loop, and presets that fill in defaults.

A preset fills in what a file leaves open; what the file then states is a deviation, and a run says them all.
It knows no system.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import Field, model_validator

from limner.config import Config, merged
from limner.datasets.base import SourceConfig
from limner.datasets.mixture import MixtureEntry
from limner.datasets.vocabulary import TokeniserName
from limner.training.framing import Crop, Framing
from limner.training.loop import LoopConfig

NAMES_AND_PLACES = frozenset(
    {"row", "terms", "data.annotations", "data.pictures", "data.features", "data.glove"}
)
"""Settings that say what a run is called and where its files lie, which change no result."""

Preset = Literal["paper", "release", "sound"]


class DataConfig(SourceConfig):
    """Which pairs, and how they become batches.

    Attributes:
        set: name of a registered set, or mixture.
        mixture: name → data set, of the set mixture; each has a split of its own, and what one of them
            validates or tests on, none trains on.
        features: folder of the feature stores, and of the manifest of pictures that were looked at.
        backbone: whose features are stored, or what is trained along.
        picture_size: side in pixels of what a backbone sees that is trained along.
        crop, flip: which part of a picture it sees, and whether some are mirrored in training; see
            `limner.training.framing.Framing`. Stored features are of whole pictures, scaled to 224 × 224.
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
    backbone: str = "resnet50"
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
    def framing(self) -> Framing:
        """How files become what a backbone sees."""
        return Framing(self.picture_size, self.crop, self.flip)


class RunConfig(Config):
    """Settings of one run; every system adds its own.

    Attributes:
        system: name in the registry.
        row: name of the row in the tables, such as ``CMCM_Story``.
        preset: paper, release or sound.
        data: see `DataConfig`.
        loop: see `LoopConfig`.
        model: sizes and parts, of a class of the system's own.
    Source: docs/methods/index.md §3.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {"paper": {}, "release": {}, "sound": {}}
    DRAWS_BY_WEIGHT: ClassVar[bool] = False  # whether the system's batches heed `MixtureEntry.weight`
    SMOKE: ClassVar[Mapping[str, Any]] = {}  # what `smoke` puts in place of a system's own settings

    system: str
    row: str = ""
    preset: Preset = "release"
    data: DataConfig
    loop: LoopConfig = LoopConfig()
    model: Any = None

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:  # noqa: ANN401  (as given by a caller)
        if not isinstance(values, dict):
            return values
        return merged(cls.PRESETS.get(values.get("preset", "release"), {}), values)

    @model_validator(mode="after")
    def _heeds_weights(self) -> Self:
        for name, entry in self.data.mixture.items():
            if entry.weight != 1 and not self.DRAWS_BY_WEIGHT:
                raise ValueError(
                    f"{self.system} takes every row once an epoch; leave data.mixture.{name}.weight out"
                )
        return self

    def deviations(self) -> list[str]:
        """``key=value`` of every setting that is not what the preset alone would give, data set aside."""
        given = {"set", "mixture"}  # what is trained on is no deviation
        plain = type(self).model_validate(
            {"system": self.system, "preset": self.preset, "data": self.data.model_dump(include=given)}
        )
        mine, due = flat(self.model_dump(mode="json")), flat(plain.model_dump(mode="json"))
        return [
            f"{key}={value}"
            for key, value in mine.items()
            if key not in NAMES_AND_PLACES and value != due.get(key)
        ]

    @classmethod
    def beyond_preset(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of a file without those that its own preset gives anyway: another preset rules these."""
        preset = values.get("preset", "release")
        plain = cls.model_validate(
            {"system": values["system"], "preset": preset, "data": {"set": "picturebook"}}
        )

        def own(given: Mapping[str, Any], due: Mapping[str, Any]) -> dict[str, Any]:
            kept = {}
            for key, value in given.items():
                if isinstance(value, Mapping) and isinstance(due.get(key), Mapping):
                    kept[key] = own(value, due[key])
                elif key in ("system", "set") or key not in due or value != due[key]:
                    kept[key] = value
            return kept

        return own(values, plain.model_dump(mode="json"))

    def smoke(self) -> Self:
        """The same run, small enough for a few seconds: the same code, no meaningful result."""
        data = self.data.model_copy(
            update={
                "batch": min(8, self.data.batch),
                "max_length": min(16, self.data.max_length),
                "vector_epochs": 1,
                # words are narrower than the file's
                "vectors": "random" if self.data.vectors == "glove" else self.data.vectors,
                "limit": min(self.data.limit or 48, 48),
                "stories": min(self.data.stories, 12),
            }
        )
        loop = self.loop.model_copy(update={"epochs": min(self.loop.epochs, 2), "save_every_steps": 4})
        small: Self = replaced(self.model_copy(update={"data": data, "loop": loop}), self.SMOKE)
        return small


def every_preset(values: Mapping[str, Any]) -> dict[Preset, Mapping[str, Any]]:
    """The presets of a system for which all are the same."""
    return dict.fromkeys(get_args(Preset), values)


def replaced(config: Any, values: Mapping[str, Any]) -> Any:  # noqa: ANN401  (settings of any class)
    """Settings with other values; a table of values replaces settings within settings."""
    return config.model_copy(
        update={
            key: replaced(getattr(config, key), value) if isinstance(value, Mapping) else value
            for key, value in values.items()
        }
    )


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted key."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found
