"""PVSE (K embeddings per text and picture, scored by the largest of K² cosines); settings of all methods."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from limner.arrays import FloatArray, expect
from limner.config import Record
from limner.research.losses.ranking import product
from limner.research.nn.polysemous import GridTower, TextTower
from limner.research.systems.base import ENCODE_BATCH, BackboneUse, Model, ModelParts, evaluating
from limner.research.training.settings import Preset, RunConfig, every_preset, replaced

_ROWS, _COLUMNS = 1024, 4096  # rows and columns per block of products


class PvseArchitecture(Record):
    """Sizes of the model.

    Attributes:
        heads: K, embeddings per item.
        dim: H, dimension of embeddings; even.
        word_width: E, dimension of word vectors.
        image_hidden: hidden size of the attention over grid cells.
        text_hidden: hidden size of the attention over words.
    Source: PVSE 2019; docs/methods/complementary.md §2.1.
    """

    heads: int = Field(default=3, ge=1)
    dim: int = Field(default=1024, ge=2)
    word_width: int = Field(default=200, ge=1)
    image_hidden: int = Field(default=1024, ge=1)
    text_hidden: int = Field(default=100, ge=1)


class Polysemous(NamedTuple):
    """Outputs of the model for B pairs.

    Attributes:
        texts, images: (B, K, H) unit vectors.
        text_residuals, image_residuals: (B, K, H) outputs of the heads.
    """

    texts: Tensor
    images: Tensor
    text_residuals: Tensor
    image_residuals: Tensor


def pair_scores(texts: Tensor, images: Tensor) -> Tensor:
    """The largest of the K·J cosines of each pair, by one matrix product; differentiable.

    Args:
        texts: (B, K, H) unit vectors.
        images: (M, J, H) unit vectors.
    Returns:
        (B, M) cosines; equal maxima share the gradient.
    Raises:
        ShapeError: widths differ.
    Source: T&K 2022, Section 3.1; docs/methods/complementary.md §2.2.
    """
    sizes = expect("pair_scores", texts=(texts, "B K H"), images=(images, "M J H"))
    products = product(texts.flatten(0, 1), images.flatten(0, 1).t())
    return products.reshape(sizes["B"], sizes["K"], sizes["M"], sizes["J"]).amax(dim=(1, 3))


class Pvse(Model):
    """The model: a text tower and a tower for grids of features."""

    name = "pvse"

    def __init__(self, architecture: PvseArchitecture, parts: ModelParts) -> None:
        """Initialise the weights at random, from torch's generator.

        Raises:
            ConfigError: H is odd.
            ShapeError: the word vectors have another shape.
        """
        super().__init__(architecture, parts)
        own = architecture
        self.words = TextTower(
            len(self.vocabulary), own.word_width, own.text_hidden, own.heads, own.dim, vectors=parts.vectors
        )
        self.grid = GridTower(parts.image_width, own.image_hidden, own.heads, own.dim, parts.backbone)

    def forward(self, ids: Tensor, lengths: Tensor, pictures: Tensor) -> Polysemous:
        """Embed B pairs.

        Args:
            ids: (B, L) int64.
            lengths: (B,) int64 in 1…L.
            pictures: (B, P, F) grids, or input of the backbone.
        Raises:
            ShapeError: the sizes contradict each other.
        """
        texts, images = self.words(ids, lengths), self.grid(pictures)
        return Polysemous(texts.vectors, images.vectors, texts.residuals, images.residuals)

    @property
    def heads(self) -> int:
        """K, number of embeddings per item."""
        return int(self.architecture.heads)

    @property
    def shape(self) -> tuple[int, ...]:
        """(K, H)."""
        return (self.heads, self.dim)

    def pictures(self, pictures: Tensor) -> Tensor:
        """(B, P, F) grids, or input of the backbone → (B, K, H) unit vectors."""
        found: Tensor = self.grid(pictures).vectors
        return found

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, K, H) float32 unit vectors; texts of similar length share a block."""
        found = np.zeros((len(texts), *self.shape), np.float32)
        if not texts:
            return found
        ids, lengths = self.vocabulary.batch(texts, self.max_length)
        order = np.argsort(lengths, kind="stable")
        with evaluating(self):
            for start in range(0, len(texts), ENCODE_BATCH):
                some = order[start : start + ENCODE_BATCH]
                words = torch.from_numpy(ids[some, : int(lengths[some].max())]).to(self.device)
                made = self.words(words, torch.from_numpy(lengths[some]))
                found[some] = made.vectors.float().cpu().numpy()
        return found

    def score(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, K, H) and (M, K, H) unit vectors → (N, M) largest cosines, in blocks.

        Raises:
            ShapeError: widths differ.
        """
        found: FloatArray = self.products(
            *(torch.from_numpy(np.ascontiguousarray(part)) for part in (texts, images))
        ).numpy()
        return found

    def products(self, texts: Tensor, images: Tensor) -> Tensor:
        """See `Model.products`."""
        sizes = expect("pvse", texts=(texts, "N K H"), images=(images, "M J H"))
        rows, columns = max(1, _ROWS // sizes["K"]), max(1, _COLUMNS // sizes["J"])
        found = texts.new_empty(sizes["N"], sizes["M"])
        for top in range(0, sizes["N"], rows):
            for left in range(0, sizes["M"], columns):
                made = pair_scores(texts[top : top + rows], images[left : left + columns])
                found[top : top + rows, left : left + columns] = made
        return found


Method = Literal[
    "pvse",
    "hardest",
    "thomas",
    "hal",
    "mithun",
    "amrani",
    "distance",
    "discrepancy",
    "diversity",
    "combined-val",
    "combined-stats",
    "random",
    "uniform",
]
MEASURES = {
    "diversity": ("DIVERSITY",),
    "discrepancy": ("DISCREPANCY",),
    "combined-val": ("DIVERSITY", "DISCREPANCY"),
    "combined-stats": ("DIVERSITY", "DISCREPANCY"),
}
WITH_ALPHA = ("hal", "mithun")


class WeightsConfig(Record):
    """Weighting of the pairs of a batch, by neighbourhoods or a baseline.

    Attributes:
        lam: λ, sum of a batch's weights (1 if `reading` is "literal"). pvse and amrani use the batch size
            instead.
        gamma: Γ; with −1, weights increase as similarity decreases.
        mode: how the weights of the two modalities are combined.
        reading: where λ is applied; "sound" standardises scores over the training set and divides by τ.
        tau: τ of "sound".
        beta, gamma_hat: β̂ and γ̂ of combined-val.
        kmode: similarity of two items with K heads each: of the "mean" of the heads; the mean over
            corresponding ("aligned") heads; or the largest ("max") of K² cosines, over at most 32 neighbours
            sampled in each epoch.
        own, nn: see `limner.research.losses.weighting.discrepancy`.
        hops: whether discrepancy uses the neighbours of neighbours (2) or direct neighbours (1).
        estimator: "exact", or the paper's "sampled1000": 1,000 sampled neighbours of neighbours.
        start: weights of the first epoch: "uniform", or "warm", from embeddings computed before training.
    Source: T&K 2022, Sections 3.2 to 3.4; docs/methods/complementary.md §4 to §6.
    """

    lam: float = Field(default=96.0, gt=0)
    gamma: Literal[-1, 0, 1] = -1
    mode: Literal["absdiff", "sum", "x", "y", "max", "product"] = "absdiff"
    reading: Literal["literal", "lambda_both", "lambda_out", "sound"] = "lambda_both"
    tau: float = Field(default=1.0, gt=0)
    beta: float = Field(default=1.0, ge=0)
    gamma_hat: float = Field(default=1.0, ge=0)
    kmode: Literal["mean", "aligned", "max"] = "mean"
    own: Literal["keep", "drop"] = "keep"
    nn: Literal["multiset", "unique"] = "multiset"
    hops: Literal[1, 2] = 2
    estimator: Literal["exact", "sampled1000"] = "exact"
    start: Literal["uniform", "warm"] = "uniform"


class GraphConfig(Record):
    """Neighbours of the training texts.

    Attributes:
        vectors: doc2vec learned on the training texts, or a frozen sentence encoder.
        size: N, neighbours per text.
        method: search method, see `limner.research.datasets.neighbours.build_graph`.
        width, min_count, epochs: settings of doc2vec.
    Source: T&K 2022, Sections 3.2 and 3.5; docs/methods/complementary.md §3.
    """

    vectors: Literal["doc2vec", "sentences"] = "doc2vec"
    size: int = Field(default=200, ge=1)
    method: Literal["auto", "exact", "hnsw"] = "auto"
    width: int = Field(default=200, ge=1)
    min_count: int = Field(default=20, ge=1)
    epochs: int = Field(default=20, ge=1)


class BaselineConfig(Record):
    """Settings of the baselines.

    Attributes:
        hal_bank: whether HAL uses the embeddings of the previous epoch.
        hal_gamma, hal_epsilon: γ and ε of HAL.
        thomas_nearest: number of neighbours of which THOMAS samples one.
        nearest: number of bank neighbours; None for 250 with HAL and 50 with AMRANI.
    Source: docs/methods/complementary.md §8.
    """

    hal_bank: bool = False
    hal_gamma: float = Field(default=30.0, gt=0)
    hal_epsilon: float = 0.3
    thomas_nearest: int = Field(default=10, ge=1)
    nearest: int | None = Field(default=None, ge=1)


_LOOP = {
    "betas": (0.9, 0.999),
    "lr": 1e-4,
    "weight_decay": 1e-5,
    "clip_norm": 2.0,
    "plateau_patience": 5,
    "stop_after_stale": 10,
    "epochs": 50,
    "metric": "hinge",
}
_PUBLISHED: Mapping[str, Any] = {"loop": _LOOP, "backbone": "finetune", "data": {"flip": True}}


class ComplementaryConfig(RunConfig):
    """Settings of complementary samples and of the baselines in the same tables.

    No code was released, so `release` equals `paper`. `sound` standardises the scores over the training set,
    adds those of the two modalities, and finds neighbours with the sentence encoder.

    Attributes:
        model: see `PvseArchitecture`.
        method: weighting method, or a loss that uses no weights; "hardest" is PVSE with a hinge on the
            hardest wrong candidate only.
        form: for hal and mithun: their "own" loss, or their weights as "alpha" in the weighted hinge.
        margin: margin of all hinges, score units.
        diversity_weight, domain_weight: weights of PVSE's two regularisers.
        weights, graph, baselines: see `WeightsConfig`, `GraphConfig` and `BaselineConfig`.
        backbone: see `Capabilities`; features are grids.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = every_preset(_PUBLISHED) | {
        "sound": {
            "loop": {"metric": "MRR"},
            "weights": {"reading": "sound", "mode": "sum"},
            "graph": {"vectors": "sentences"},
        },
        "laptop": {"backbone": "frozen", "data": {"backbone": "resnet50", "flip": False}},
    }
    ROW: ClassVar[frozenset[str]] = frozenset(
        {"method", "form", "weights.gamma", "weights.mode", "weights.hops", "baselines.hal_bank"}
    )
    # T&K start from the word vectors of doc2vec
    OURS: ClassVar[Mapping[str, Any]] = {"data.vectors": "cbow"}
    SMOKE: ClassVar[Mapping[str, Any]] = {
        "model": {"dim": 16, "word_width": 12, "image_hidden": 8, "text_hidden": 8},
        "graph": {"width": 8, "min_count": 1, "epochs": 2},
    }

    system: Literal["complementary"] = "complementary"
    model: PvseArchitecture = PvseArchitecture()
    method: Method = "pvse"
    form: Literal["own", "alpha"] = "own"
    margin: float = Field(default=0.1, gt=0)
    diversity_weight: float = Field(default=0.1, ge=0)
    domain_weight: float = Field(default=0.01, ge=0)
    weights: WeightsConfig = WeightsConfig()
    graph: GraphConfig = GraphConfig()
    baselines: BaselineConfig = BaselineConfig()
    backbone: BackboneUse = "frozen"

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Reject settings that contradict each other or would have no effect."""
        if self.form == "alpha" and self.method not in WITH_ALPHA:
            raise ValueError(
                f"form 'alpha' applies only to methods {' and '.join(WITH_ALPHA)}, method is {self.method!r}"
            )
        if self.baselines.hal_bank and self.method != "hal":
            raise ValueError(f"baselines.hal_bank applies only to method 'hal', method is {self.method!r}")
        own = self.weights
        plain = (own.own, own.nn) == ("keep", "multiset")
        if own.estimator != "exact" and not (plain and own.hops == 2 and own.kmode != "max"):
            raise ValueError(
                "weights.estimator 'sampled1000' cannot be combined with weights.own 'drop', nn 'unique',"
                " hops 1 or kmode 'max'"
            )
        if (own.kmode == "max" or own.hops == 1) and not plain:
            raise ValueError(
                "weights.kmode 'max' and weights.hops 1 require weights.own 'keep' and nn 'multiset'"
            )
        return self

    @property
    def measures(self) -> tuple[str, ...]:
        """Neighbourhood measures from which the weights are computed."""
        return MEASURES.get(self.method, ())

    @property
    def needs_graph(self) -> bool:
        """Whether the method needs a neighbour graph."""
        return bool(self.measures) or self.method == "thomas"

    @property
    def needs_bank(self) -> bool:
        """Whether the method needs the embeddings of the previous epoch."""
        return bool(self.measures) or self.method == "amrani" or self.baselines.hal_bank

    def smoke(self) -> Self:
        """See `RunConfig.smoke`."""
        small = super().smoke()
        few = {"graph": {"size": min(8, self.graph.size)}, "model": {"heads": min(2, self.model.heads)}}
        fewer: Self = replaced(small, few)
        return fewer
