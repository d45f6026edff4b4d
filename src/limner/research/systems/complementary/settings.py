"""Settings of complementary samples: the weights, the neighbour graph, and the baselines in their forms.

One class for all rows of the tables, so that rows differ by what they are about and by nothing else.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from limner.config import Config
from limner.research.systems.base import BackboneUse
from limner.research.systems.complementary.model import PvseArchitecture
from limner.research.training.settings import Preset, RunConfig, every_preset, replaced

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


class WeightsConfig(Config):
    """How neighbourhoods, or baselines, weigh the pairs of a batch.

    Attributes:
        lam: λ, what the weights of a batch sum to; amrani takes the batch's size instead.
        gamma: Γ; −1 lets weights grow where similarity falls.
        mode: how the weights of both modalities become one.
        reading: where λ stands; "sound" scores z over the training set and divides by τ.
        tau: τ of "sound".
        beta, gamma_hat: β̂ and γ̂ of combined-val.
        kmode: what stands for K heads in the scores: their "mean", heads "aligned" one by one, or the largest
            ("max") of K² cosines, over at most 32 neighbours drawn each epoch.
        own, nn: see `limner.research.losses.weighting`; "own" drops returns to the pair itself or keeps them.
        hops: discrepancy is with the neighbours of neighbours (2), or with direct neighbours (1).
        estimator: exact, or the paper's 1,000 drawn neighbours of neighbours.
        start: weights of the first epoch, "uniform" or from a "warm" pass over the training pairs.
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


class GraphConfig(Config):
    """Neighbours of the training texts.

    Attributes:
        vectors: doc2vec learned on the training texts, or a frozen encoder of sentences.
        size: N, neighbours of a text.
        method: of the search.
        width, min_count, epochs: of doc2vec.
    Source: T&K 2022, Sections 3.2 and 3.5; docs/methods/complementary.md §3.
    """

    vectors: Literal["doc2vec", "sentences"] = "doc2vec"
    size: int = Field(default=200, ge=1)
    method: Literal["auto", "exact", "hnsw"] = "auto"
    width: int = Field(default=200, ge=1)
    min_count: int = Field(default=20, ge=1)
    epochs: int = Field(default=20, ge=1)


class BaselineConfig(Config):
    """What only some baselines have.

    Attributes:
        hal_bank: let HAL look for hubs among the embeddings of the epoch before.
        hal_gamma, hal_epsilon: of HAL.
        thomas_nearest: neighbours among which one is drawn.
        nearest: neighbours in the bank, of HAL and AMRANI; None for 250 and 50.
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
    """One run of a row of the tables of complementary samples.

    The authors released no code, so `release` is `paper`; `sound` scales the measures over the training set,
    adds the modalities up and takes neighbours by meaning.

    Attributes:
        model: see `PvseArchitecture`.
        method: what weighs the pairs, or what loss replaces weights; "hardest" is PVSE with the hardest
            wrong candidate alone.
        form: of hal and mithun: their "own" loss, or their weights as "alpha" in the weighted hinge.
        margin: of all hinges, score units.
        diversity_weight, domain_weight: of PVSE's two regularisers.
        weights, graph, baselines: see the classes.
        backbone: "frozen" grids of features, a small net for "drawings", or "finetune" the backbone along.
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
        """What would be passed over in silence is refused."""
        if self.form == "alpha" and self.method not in WITH_ALPHA:
            raise ValueError(f"form 'alpha' is of {' and '.join(WITH_ALPHA)}, method is {self.method!r}")
        if self.baselines.hal_bank and self.method != "hal":
            raise ValueError(f"baselines.hal_bank is of method 'hal', method is {self.method!r}")
        own = self.weights
        plain = (own.own, own.nn) == ("keep", "multiset")
        if own.estimator != "exact" and not (plain and own.hops == 2 and own.kmode != "max"):
            raise ValueError(
                "weights.estimator 'sampled1000' goes without own drop, nn unique, hops 1 and kmode max"
            )
        if (own.kmode == "max" or own.hops == 1) and not plain:
            raise ValueError("weights.kmode 'max' and hops 1 go with own keep and nn multiset only")
        return self

    @property
    def measures(self) -> tuple[str, ...]:
        """Measures of neighbourhoods that make the weights."""
        return MEASURES.get(self.method, ())

    @property
    def needs_graph(self) -> bool:
        """Whether neighbours are looked up."""
        return bool(self.measures) or self.method == "thomas"

    @property
    def needs_bank(self) -> bool:
        """Whether embeddings of the epoch before are looked at."""
        return bool(self.measures) or self.method == "amrani" or self.baselines.hal_bank

    def smoke(self) -> Self:
        """See `RunConfig.smoke`."""
        small = super().smoke()
        few = {"graph": {"size": min(8, self.graph.size)}, "model": {"heads": min(2, self.model.heads)}}
        fewer: Self = replaced(small, few)
        return fewer
