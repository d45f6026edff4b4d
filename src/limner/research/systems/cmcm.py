"""CMCM: joint embedding of texts and pictures, with prediction of the coherence relations between them.

Base, CMCA and the per-relation models are settings of this system.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from limner.arrays import FloatArray, expect
from limner.config import Record, merged
from limner.errors import ConfigError, DataError, ShapeError, counted
from limner.research.losses.ranking import Geometry, batch_hard, finite, max_hinge, product, sum_hinge, wide
from limner.research.nn.words import Pooling, WordEncoder
from limner.research.systems.base import (
    ENCODE_BATCH,
    BackboneUse,
    Capabilities,
    Model,
    ModelParts,
    RefinedScores,
    System,
    SystemTask,
    evaluating,
    to_tensor,
)
from limner.research.training.corpus import Batch, Corpus
from limner.research.training.processes import is_distributed
from limner.research.training.settings import Preset, RunConfig

Kind = Literal["linear", "product", "mlp"]
Form = Literal["release", "paper"]
_PUBLISHED: Mapping[str, Any] = {
    "backbone": "finetune",
    "data": {"split": "released", "tokeniser": "release"},
}


class Architecture(Record):
    """Sizes and parts of the model.

    Attributes:
        dim: D, dimension of the joint space.
        word_width: E, dimension of word vectors.
        hidden: hidden size of the LSTM, per direction.
        bidirectional: whether the LSTM is bidirectional.
        pooling: "none" (Base, CMCM-NoAttn), "additive" or "scaled" attention.
        relations: kind of the relation module; "none" for Base and CMCA.
        relations_hidden: hidden size of "mlp".
    Source: CMCM 2022; docs/methods/cmcm.md §2.
    """

    dim: int = Field(default=1024, ge=1)
    word_width: int = Field(default=300, ge=1)
    hidden: int = Field(default=300, ge=1)
    bidirectional: bool = True
    pooling: Pooling = "scaled"
    relations: Literal["none"] | Kind = "linear"
    relations_hidden: int = Field(default=512, ge=1)


class LossConfig(Record):
    """Loss of CMCM.

    Attributes:
        ranking: "batch_hard" over texts and pictures, or "max_hinge" or "sum_hinge" on cosines.
        geometry, within: settings of "batch_hard".
        margin: margin, in units of the distance or the cosine.
        relation_form: weights and reduction of the relation loss.
        relation_weight: λ_cls; with 0 no relations are predicted.
        indifference_weight: weight of the loss that pulls the predicted probabilities of wrong pairs to ½.
    Source: CMCM 2022, Eqs. 1 to 3; docs/methods/cmcm.md §3.
    """

    ranking: Literal["batch_hard", "max_hinge", "sum_hinge"] = "batch_hard"
    geometry: Geometry = "euclidean"
    within: bool = True
    margin: float = Field(default=0.3, gt=0)
    relation_form: Form = "release"
    relation_weight: float = Field(default=0.1, ge=0)
    indifference_weight: float = Field(default=0.0, ge=0)


class CmcmConfig(RunConfig):
    """Settings of CMCM and its baselines.

    Attributes:
        model: see `Architecture`.
        loss: see `LossConfig`.
        backbone: see `Capabilities`.
        refinement: form of the refinement at test time; used if relations are predicted.
        refinement_strength: λ of the refinement; None to choose on validation.
        refinement_threshold: T of the refinement, score units; None to choose on validation.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "release": merged(_PUBLISHED, {"data": {"crop": "random"}}),
        "paper": merged(
            _PUBLISHED,
            {
                "loss": {"ranking": "max_hinge", "relation_form": "paper"},
                "loop": {"betas": (0.9, 0.999)},
            },
        ),
        "sound": {
            "data": {"split": "grouped", "tokeniser": "default"},
            "model": {"relations": "product"},
            "loss": {"indifference_weight": 0.1},
            "refinement": "add",
            "refinement_strength": None,
            "refinement_threshold": None,
        },
        "laptop": {
            "backbone": "frozen",
            "data": {"split": "grouped", "tokeniser": "default"} | {"backbone": "resnet50", "crop": "none"},
            "refinement_strength": None,
            "refinement_threshold": None,
        },
    }
    ROW: ClassVar[frozenset[str]] = frozenset(
        {"model.pooling", "model.relations", "data.relations", "data.shuffle_relations"}
    )
    SMOKE: ClassVar[Mapping[str, Any]] = {
        "model": {"dim": 16, "word_width": 12, "hidden": 8, "relations_hidden": 8}
    }

    system: Literal["cmcm"] = "cmcm"
    model: Architecture = Architecture()
    loss: LossConfig = LossConfig()
    backbone: BackboneUse = "frozen"
    refinement: Literal["multiply", "add"] = "multiply"
    refinement_strength: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    refinement_threshold: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @property
    def trained(self) -> Architecture:
        """The architecture, without relations if their loss has weight 0.

        An untrained relation module would refine rankings at random.
        """
        relations = self.model.relations if self.loss.relation_weight else "none"
        return self.model.model_copy(update={"relations": relations})


class CoherenceModule(nn.Module):
    """Relation logits of pairs.

    "linear": z = W [t; v] + b, without interaction of text and picture. "product": W [t; v; t⊙v] + b. "mlp":
    W₂ ReLU(W₁ [t; v] + b₁) + b₂.

    Source: CMCM 2022, Coherence Aware Module; docs/methods/cmcm.md §2.4. Departs: "product" and "mlp" are not
    in the paper.
    """

    def __init__(self, dim: int, relations: int, kind: Kind = "linear", hidden: int = 512) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            dim: D, dimension of the vectors.
            relations: C, number of relations, at least 1.
            kind: see the class.
            hidden: hidden size of "mlp".
        """
        super().__init__()
        self.kind, self.dim = kind, dim
        self.first = nn.Linear(2 * dim, hidden if kind == "mlp" else relations)
        self.product = nn.Parameter(torch.randn(relations, dim) * dim**-0.5) if kind == "product" else None
        self.second = nn.Linear(hidden, relations) if kind == "mlp" else None

    def forward(self, texts: Tensor, images: Tensor) -> Tensor:
        """(B, D) texts and (B, D) pictures, row by row → (B, C) logits."""
        expect("relations", texts=(texts, f"B {self.dim}"), images=(images, f"B {self.dim}"))
        logits: Tensor = self.first(torch.cat([texts, images], dim=1))
        if self.product is not None:
            logits = logits + (texts * images) @ self.product.t()
        return logits if self.second is None else self._deeper(logits)

    def terms(self, texts: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """Text terms (N, C), with the bias, and picture terms (M, C); a logit is their sum.

        Raises:
            ConfigError: the module is not linear.
        Source: docs/methods/cmcm.md §2.4.
        """
        if self.kind != "linear":
            raise ConfigError(
                f"relations: {self.kind!r} logits are not a sum of a text and a picture term; use its table"
            )
        return self._halves(texts, images)

    def table(self, texts: Tensor, images: Tensor) -> Tensor:
        """(N, D) and (M, D) → (N, M, C) logits of all pairs.

        Memory is N·M·C, and for "mlp" N·M·hidden, so call it in blocks.
        """
        first, second = self._halves(texts, images)
        logits = first.unsqueeze(1) + second  # (N, M, C), for "mlp" (N, M, hidden)
        if self.product is not None:
            logits = logits + torch.stack([(texts * w) @ images.t() for w in self.product], dim=2)
        return logits if self.second is None else self._deeper(logits)

    def _deeper(self, hidden: Tensor) -> Tensor:
        assert self.second is not None  # noqa: S101  (the type checker's: only "mlp" comes here)
        found: Tensor = self.second(torch.relu(hidden))
        return found

    def _halves(self, texts: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """The first layer applied to texts and pictures separately; the bias is in the text part."""
        expect("relations", texts=(texts, f"N {self.dim}"), images=(images, f"M {self.dim}"))
        of_text, of_image = self.first.weight[:, : self.dim], self.first.weight[:, self.dim :]
        return texts @ of_text.t() + self.first.bias, images @ of_image.t()


class Joint(NamedTuple):
    """Outputs of the model for B pairs.

    Attributes:
        texts: (B, D) unit vectors.
        images: (B, D) unit vectors.
        logits: (B, C) logits of relations, or None.
        attention: (B, T) weights of the words, or None.
    """

    texts: Tensor
    images: Tensor
    logits: Tensor | None
    attention: Tensor | None


class ImageHead(nn.Module):
    """Stored features, or those of a fine-tuned backbone → batch norm → linear → unit length.

    Source: CMCM 2022; docs/methods/cmcm.md §2.1.
    """

    def __init__(self, width: int, dim: int, backbone: nn.Module | None = None) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            width: F, dimension of features.
            dim: D, dimension of the result.
            backbone: network from pixels to (B, F) features; None for stored features.
        """
        super().__init__()
        self.backbone = backbone
        self.norm = nn.BatchNorm1d(width)
        self.project = nn.Linear(width, dim)

    def forward(self, pictures: Tensor) -> Tensor:
        """(B, F) features, or input of the backbone → (B, D) unit vectors.

        Raises:
            ShapeError: the features have another width, or B = 1 in training.
        """
        features = pictures if self.backbone is None else self.backbone(pictures)
        if features.ndim != 2 or features.shape[1] != self.norm.num_features:
            due = self.norm.num_features
            raise ShapeError(
                f"cmcm: picture features have shape {tuple(features.shape)}, expected (B, {due})"
            )
        if self.training and len(features) < 2 and not is_distributed():
            raise ShapeError("cmcm: one picture in a training batch, expected at least 2 for batch norm")
        return nn.functional.normalize(self.project(self.norm(features)), dim=1)


class Cmcm(Model):
    """The CMCM model."""

    name = "cmcm"

    def __init__(self, architecture: Architecture, parts: ModelParts) -> None:
        """Initialise the weights at random, from torch's generator.

        Raises:
            ConfigError: the architecture predicts relations, but none is named.
            ShapeError: the word vectors have another shape.
        """
        super().__init__(architecture, parts)
        relations = tuple(str(name) for name in parts.about.get("relations", ()))
        if architecture.relations != "none" and not relations:
            raise ConfigError(
                "cmcm: no relation to predict; name some in data.relations or add --set model.relations=none"
            )
        self.relations = relations if architecture.relations != "none" else ()
        self.words = WordEncoder(
            len(self.vocabulary),
            architecture.dim,
            vectors=parts.vectors,
            width=architecture.word_width,
            hidden=architecture.hidden,
            bidirectional=architecture.bidirectional,
            pooling=architecture.pooling,
        )
        self.image_head = ImageHead(parts.image_width, architecture.dim, parts.backbone)
        self.coherence = (
            CoherenceModule(
                architecture.dim, len(self.relations), architecture.relations, architecture.relations_hidden
            )
            if architecture.relations != "none"
            else None
        )

    def forward(self, ids: Tensor, lengths: Tensor, pictures: Tensor) -> Joint:
        """Encode B pairs.

        Args:
            ids: (B, T) int64.
            lengths: (B,) int64 in 1…T.
            pictures: (B, F) features, or input of the backbone.
        Raises:
            ShapeError: the sizes contradict each other.
        """
        texts = self.words(ids, lengths)
        images = self.image_head(pictures)
        logits = None if self.coherence is None else self.coherence(texts.vectors, images)
        return Joint(texts.vectors, images, logits, texts.attention)

    def identity(self) -> tuple[object, ...]:
        """The maximum length of a text, and the names of the relations."""
        return (self.max_length, self.relations)

    def texts(self, words: Tensor, lengths: Tensor) -> Tensor:
        """(B, T) words and (B,) lengths → (B, D) unit vectors."""
        vectors: Tensor = self.words(words, lengths).vectors
        return vectors

    def pictures(self, pictures: Tensor) -> Tensor:
        """(B, F) features, or input of the backbone → (B, D) unit vectors."""
        found: Tensor = self.image_head(pictures)
        return found

    def attention(self, texts: Sequence[str]) -> list[list[tuple[str, float]]]:
        """The tokens of each text, up to the maximum length, with their weights, which sum to 1.

        Raises:
            ConfigError: the model has no attention.
        """
        if self.words.attention is None:
            raise ConfigError("cmcm: pooling 'none' has no attention; train with --set model.pooling=scaled")
        found: list[list[tuple[str, float]]] = []
        with evaluating(self):
            for start in range(0, len(texts), ENCODE_BATCH):
                some = texts[start : start + ENCODE_BATCH]
                weights = self.words(*self.numbers(some)).attention
                for text, row in zip(some, weights.cpu().tolist(), strict=True):
                    found.append(
                        list(zip(self.vocabulary.tokens(text)[: self.max_length], row, strict=False))
                    )
        return found

    @property
    def separable(self) -> bool:
        """Whether relation logits are the sum of a text term and a picture term."""
        return bool(self.architecture.relations == "linear")

    def relation_terms(self, texts: FloatArray, images: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(N, D), (M, D) → (N, C) text terms with the bias, (M, C) picture terms; a logit is their sum.

        Raises:
            ConfigError: the model predicts no relations, or not linearly.
        """
        with evaluating(self):
            first, second = self._coherence().terms(
                to_tensor(texts, self.device), to_tensor(images, self.device)
            )
        return first.float().cpu().numpy(), second.float().cpu().numpy()

    def relation_table(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, D) and (M, D) → (N, M, C) logits of all pairs, for blocks of moderate size.

        Raises:
            ConfigError: the model predicts no relations.
        """
        with evaluating(self):
            table = self._coherence().table(to_tensor(texts, self.device), to_tensor(images, self.device))
        found: FloatArray = table.float().cpu().numpy()
        return found

    def relation_probabilities(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(B, D) texts and (B, D) pictures, row by row → (B, C) probabilities of relations.

        Raises:
            ConfigError: the model predicts no relations.
        """
        with evaluating(self):
            logits = self._coherence()(to_tensor(texts, self.device), to_tensor(images, self.device))
        found: FloatArray = logits.float().sigmoid().cpu().numpy()
        return found

    def _coherence(self) -> CoherenceModule:
        if self.coherence is None:
            raise ConfigError(
                "cmcm: this model predicts no relations; train one with --set model.relations=linear"
            )
        return self.coherence


_SMALLEST, _LARGEST = 1e-3, 1e3


def class_weights(labels: Tensor, form: Form) -> Tensor:
    """Weights of relations from their positive rate p in training.

    Args:
        labels: (N, C) labels of the training rows, 0 or 1.
        form: "release" gives (1 − p)/p, for the positive term; "paper" gives 1/p, for both terms.
    Returns:
        (C,) float32 in [10⁻³, 10³].
    Raises:
        DataError: there are no rows, or a label is neither 0 nor 1.
    Source: CMCM 2022, below Eq. 2, and its release; docs/methods/cmcm.md §3.2. Departs: 1/p is clipped too,
    since a relation may be absent from a small training set.
    """
    expect("class_weights", labels=(labels, "N C"))
    if not len(labels) or not bool(((labels == 0) | (labels == 1)).all()):
        raise DataError(
            f"class weights: {counted(len(labels), 'row')} of labels, expected at least one and only 0 or 1"
        )
    rate = labels.double().mean(dim=0)
    weights = 1 / rate if form == "paper" else (1 - rate) / rate
    return weights.clamp(_SMALLEST, _LARGEST).float()


def relation_loss(logits: Tensor, labels: Tensor, weights: Tensor, form: Form = "release") -> Tensor:
    """Weighted binary cross-entropy of the relations of a batch.

    Args:
        logits: (B, C) logits of the relations.
        labels: (B, C), 0 or 1.
        weights: (C,) from `class_weights` for the same form.
        form: "release" weights the positive term and averages over B and C; "paper" weights both terms, sums
            over C and averages over B.
    Returns:
        (): at least 0, in nats.
    Raises:
        ShapeError: sizes differ.
        NumericsError: a logit or label is not finite.
    Source: CMCM 2022, Eq. 2; docs/methods/cmcm.md §3.2. Departs: the minus sign that Equation 2 lacks.
    """
    expect("relation_loss", logits=(logits, "B C"), labels=(labels, "B C"), weights=(weights, "C"))
    finite("relation_loss", "logit", logits)
    finite("relation_loss", "label", labels)
    table = wide(logits)
    due, by = labels.to(table.dtype), weights.to(table.dtype)
    if form == "paper":
        each = functional.binary_cross_entropy_with_logits(table, due, reduction="none")
        return (each * by).sum(dim=1).mean()
    return functional.binary_cross_entropy_with_logits(table, due, pos_weight=by)


def indifference_loss(logits: Tensor, neg: Tensor) -> Tensor:
    """Cross-entropy of wrong pairs with target ½, so that no relation is predicted for them with confidence.

    Args:
        logits: (B, B, C) for all texts and pictures of a batch.
        neg: (B, B) bool, the wrong pairs.
    Returns:
        (): at least ln 2, reached if all probabilities are ½; 0 if there is no wrong pair.
    Raises:
        ShapeError: sizes differ.
        NumericsError: a logit is not finite.
    Source: docs/methods/cmcm.md §3.4; not in the paper.
    """
    expect("indifference_loss", logits=(logits, "B B C"), neg=(neg, "B B"))
    finite("indifference_loss", "logit", logits)
    wrong = wide(logits)[neg]  # (pairs, C)
    if not len(wrong):
        return logits.sum() * 0
    return functional.binary_cross_entropy_with_logits(wrong, torch.full_like(wrong, 0.5))


class CmcmTask(SystemTask[CmcmConfig, Cmcm]):
    """Training objective: a ranking loss, and relation losses if relations are predicted."""

    def __init__(self, model: Cmcm, corpus: Corpus, config: CmcmConfig, parts: ModelParts) -> None:
        """Prepare training: compute the weights of the relations, if they are predicted."""
        super().__init__(model, corpus, config, parts)
        labels = torch.from_numpy(corpus.train.labels)
        self._labels = labels.to(model.device)
        self._weights: Tensor | None = None
        if model.coherence is not None:
            self._weights = class_weights(labels, config.loss.relation_form).to(model.device)

    def step(self, batch: Batch) -> Mapping[str, Tensor]:
        """Losses by name."""
        loss, own = self.config.loss, self.model(batch.words, batch.lengths, batch.pictures)
        logits = None if own.logits is None else batch.all_gather(own.logits)
        out = Joint(batch.all_gather(own.texts), batch.all_gather(own.images), logits, None)
        if loss.ranking == "batch_hard":
            ranking = batch_hard(
                out.texts, out.images, loss.margin, batch.neg, geometry=loss.geometry, within=loss.within
            )
        else:
            hinge = max_hinge if loss.ranking == "max_hinge" else sum_hinge
            ranking = hinge(product(out.texts, out.images.t()), loss.margin, batch.neg)
        found = {"ranking": ranking}
        total = ranking
        if self.model.coherence is not None and self._weights is not None:
            assert out.logits is not None  # noqa: S101  (the type checker's: there is a module for them)
            found["relations"] = relation_loss(
                out.logits, self._labels[batch.rows], self._weights, loss.relation_form
            )
            total = total + loss.relation_weight * found["relations"]
            if loss.indifference_weight:
                table = self.model.coherence.table(out.texts, out.images)
                found["indifference"] = indifference_loss(table, batch.neg)
                total = total + loss.indifference_weight * found["indifference"]
        return {"total": total} | found


class CmcmSystem(System[CmcmConfig, Cmcm]):
    """Registration of CMCM and its baselines."""

    name = "cmcm"
    settings = CmcmConfig
    model = Cmcm
    training = CmcmTask

    def capabilities(self, config: CmcmConfig) -> Capabilities:
        """Encodes single texts; relations and attention depend on the settings."""
        return Capabilities(
            backbone=config.backbone,
            trains_backbone=True,
            refinement=None
            if config.trained.relations == "none"
            else RefinedScores(config.refinement, config.refinement_strength, config.refinement_threshold),
            attention=config.model.pooling != "none",
        )

    def prepare_parts(self, config: CmcmConfig, corpus: Corpus, parts: ModelParts) -> None:
        """Collect the names of the relations."""
        parts.about["relations"] = list(corpus.relations)

    def build(self, config: CmcmConfig, parts: ModelParts) -> Cmcm:
        """Build the model, with relations only if they are trained."""
        return Cmcm(config.trained, parts)


SYSTEM = CmcmSystem()
