"""Same-document metric: a projection of picture features in which pictures of one document are close.

Documents are the stories of the training set.

Used as the pairwise term between the pictures of a storyboard, and for pinned pictures.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.config import Record
from limner.research.losses.contrastive import same_group
from limner.research.systems.base import Capabilities, ModelParts, System, SystemTask
from limner.research.systems.picture_side import StandardisedFeatures
from limner.research.training.corpus import Batch
from limner.research.training.settings import RunConfig, every_preset


class DocumentArchitecture(Record):
    """Sizes of the projection.

    Attributes:
        dim: D, dimension of the projection.
        dropout: dropout rate of features in training.
    """

    dim: int = Field(default=128, ge=1)
    dropout: float = Field(default=0.2, ge=0, lt=1)


class DocumentConfig(RunConfig):
    """Settings of the same-document metric; it is not from a paper, so all presets are equal.

    Attributes:
        model: see `DocumentArchitecture`.
        temperature: τ of the softmax.
        backbone: "frozen" features, or fixed colours of "drawings".
        features: layer of the backbone: "stages", statistics of the feature maps of all stages, or "pooled",
            the pooled output of the last stage.
    """

    PRINTED: ClassVar[bool] = False
    PRESETS = every_preset(
        {
            "loop": {"betas": (0.9, 0.999), "lr": 1e-3, "weight_decay": 1e-4, "epochs": 60, "metric": "mAP"}
            | {"stop_after_stale": 15}
        }
    )
    SMOKE: ClassVar[Mapping[str, Any]] = {"model": {"dim": 8}}

    system: Literal["document"] = "document"
    model: DocumentArchitecture = DocumentArchitecture()
    temperature: float = Field(default=0.1, gt=0)
    backbone: Literal["frozen", "drawings"] = "frozen"
    features: Literal["pooled", "stages"] = "stages"


class SameDocument(StandardisedFeatures):
    """Standardised features → unit length → dropout → linear → unit length."""

    name = "document"

    def __init__(self, architecture: DocumentArchitecture, parts: ModelParts) -> None:
        """Initialise the weights at random, from torch's generator."""
        super().__init__(architecture, parts)
        self.project = nn.Linear(parts.image_width, architecture.dim, bias=False)

    def identity(self) -> tuple[object, ...]:
        """Empty: vectors depend only on settings and weights."""
        return ()

    def pictures(self, pictures: Tensor) -> Tensor:
        """(B, F) features, or input of `features` → (B, D) unit vectors."""
        return normalize(self.project(self.standardise(pictures)), dim=1)


class DocumentTask(SystemTask[DocumentConfig, SameDocument]):
    """Training objective: bring pictures of one story closer to each other than to those of others."""

    stories = True

    def step(self, batch: Batch) -> Mapping[str, Tensor]:
        """Supervised contrastive loss whose groups are the stories."""
        vectors = batch.all_gather(self.model.pictures(batch.pictures))
        ids = self._batches.image_ids[batch.rows]
        return {"total": same_group(vectors, batch.stories, ids, self.config.temperature)}


class DocumentSystem(System[DocumentConfig, SameDocument]):
    """Registration of the same-document metric."""

    name = "document"
    settings = DocumentConfig
    model = SameDocument
    training = DocumentTask

    def capabilities(self, config: DocumentConfig) -> Capabilities:
        """Compares pictures with pictures; it has no text encoder."""
        return Capabilities(reads=frozenset(), backbone=config.backbone, layer=config.features)


SYSTEM = DocumentSystem()
