"""VSE0 and VSE++: one vector per text and picture, with a hinge on all or the hardest wrong candidates.

All other systems are compared with them.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.config import Record
from limner.research.losses.ranking import max_hinge, product, sum_hinge
from limner.research.systems.base import Capabilities, ModelParts, System
from limner.research.systems.text_side import TextModel, TextReader, TextSide, TextTask, reading
from limner.research.training.corpus import Batch
from limner.research.training.settings import Preset, RunConfig, every_preset

_PRESET: Mapping[str, Any] = {
    "loop": {"betas": (0.9, 0.999), "lr": 2e-4, "clip_norm": 2.0, "epochs": 30}
    | {"schedule": "steps", "steps": (15,), "metric": "MRR"},
    "data": {"batch": 128, "vectors": "random", "min_count": 4},
}


class VseArchitecture(Record):
    """Sizes of the model.

    Attributes:
        text: text encoder: "words" is a GRU over trained word vectors; "sentences" a linear layer over a
            frozen sentence encoder, as a control for systems that use one.
        dim: D, dimension of the joint space.
        word_width: E, dimension of word vectors.
        no_imgnorm: whether to skip the normalisation of picture vectors, as in the authors' VSE0.
    Source: VSE++ 2018; docs/methods/gsda.md §8.1, §8.5.
    """

    text: TextSide = "words"
    dim: int = Field(default=1024, ge=1)
    word_width: int = Field(default=300, ge=1)
    no_imgnorm: bool = False


class VseConfig(RunConfig):
    """Settings of VSE0 and VSE++.

    Source: VSE++ 2018; docs/methods/gsda.md §8.1.

    Attributes:
        model: see `VseArchitecture`.
        hinge: "sum" over all wrong candidates (VSE0), or "max" for the hardest (VSE++).
        margin: margin, score units.
        warm_up_epochs: first epochs of "max", in which the sum hinge is used.
        backbone: see `Capabilities`.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = every_preset(_PRESET) | {
        "sound": {"warm_up_epochs": 1},
        "laptop": {
            "data": {"backbone": "resnet50", "vectors": "cbow", "min_count": 1},
            "loop": {"schedule": "plateau", "plateau_patience": 15, "steps": ()},
        },
    }
    ROW: ClassVar[frozenset[str]] = frozenset({"hinge", "model.text"})
    SMOKE: ClassVar[Mapping[str, Any]] = {"model": {"dim": 16, "word_width": 12}}

    system: Literal["vse"] = "vse"
    model: VseArchitecture = VseArchitecture()
    hinge: Literal["sum", "max"] = "sum"
    margin: float = Field(default=0.2, gt=0)
    warm_up_epochs: int = Field(default=0, ge=0)
    backbone: Literal["frozen", "drawings", "finetune"] = "frozen"


class Vse(TextModel):
    """The VSE model: a GRU over words, or a linear layer over sentence vectors; linear over features."""

    name = "vse"

    def __init__(self, architecture: VseArchitecture, parts: ModelParts) -> None:
        """Initialise the weights at random, from torch's generator.

        Raises:
            ShapeError: the word vectors have another shape.
        """
        super().__init__(architecture, parts)
        own = architecture
        self.reader = TextReader("vse", parts, word_width=own.word_width, dim=own.dim)
        self.backbone = parts.backbone
        self.project = nn.Linear(parts.image_width, own.dim)

    def texts(self, words: Tensor, lengths: Tensor) -> Tensor:
        """(B, L) int64 words of (B,) lengths in 1…L, or (B, W) sentence vectors → (B, D) unit vectors.

        Raises:
            ShapeError: the sizes contradict each other.
        """
        return normalize(self.reader(words, lengths), dim=1)

    def pictures(self, pictures: Tensor) -> Tensor:
        """(B, F) features, or input of the backbone → (B, D), unit vectors unless `no_imgnorm`.

        Raises:
            ShapeError: the features have another width.
        """
        features = pictures if self.backbone is None else self.backbone(pictures)
        self.check_width(features)
        made = self.project(normalize(features, dim=1))
        return made if self.architecture.no_imgnorm else normalize(made, dim=1)


class VseTask(TextTask[VseConfig, Vse]):
    """Training objective: a hinge on the wrong pairs of a batch."""

    def step(self, batch: Batch) -> Mapping[str, Tensor]:
        """The hinge loss, averaged over the pairs of the batch."""
        config, model = self.config, self.model
        texts = batch.all_gather(model.texts(self.texts(batch), batch.lengths))
        scores = product(texts, batch.all_gather(model.pictures(batch.pictures)).t())
        hinge = sum_hinge if config.hinge == "sum" or batch.epoch < config.warm_up_epochs else max_hinge
        return {"total": hinge(scores, config.margin, batch.neg)}


class VseSystem(System[VseConfig, Vse]):
    """Registration of VSE0 and VSE++."""

    name = "vse"
    settings = VseConfig
    model = Vse
    training = VseTask

    def capabilities(self, config: VseConfig) -> Capabilities:
        """Encodes single texts; the backbone can be fine-tuned."""
        can = Capabilities(backbone=config.backbone, trains_backbone=True, margin=config.margin)
        return reading(config.model.text, can)


SYSTEM = VseSystem()
