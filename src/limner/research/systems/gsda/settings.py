"""Settings of a run of GSDA: what sentences know of each other, what graphs and captions teach, and weights.

Every ablation is a setting of it.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from limner.research.systems.gsda.captioner import CaptionerArchitecture
from limner.research.systems.gsda.model import GraphArchitecture, GsdaArchitecture
from limner.research.training.settings import Preset, RunConfig, every_preset

GraphMode = Literal["soft", "literal_gt", "literal_argmax", "off"]
MADE_UP = "made-up"
CaptionMode = Literal["soft", "teacher", "literal", "reinforce", "off"]

_LOOP = {
    "betas": (0.9, 0.999),
    "lr": 2e-4,
    "rates": {"graphs": 1e-4, "captioner": 1e-3},
    "schedule": "steps",
    "steps": (15,),
    "epochs": 30,
    "metric": "MRR",
}
_PRESET: Mapping[str, Any] = {"loop": _LOOP, "label_vectors": "glove"}


class GsdaConfig(RunConfig):
    """One run of GSDA, GSDA w/o CSE (``model.context="none"``), w/o graph or w/o dual (mode "off").

    The authors released no code, so `release` equals `paper`, with our readings where the paper is silent or
    cannot work as printed; the modes that begin with "literal" are what is printed. `sound` centres the
    features and reads other sentences through the encoder that needs no training.

    Departs: losses are means over sentences, so that they do not depend on the size of a batch.

    Attributes:
        model: see `GsdaArchitecture`.
        keys: what other sentences are read through: a run of VSE0, or a frozen encoder of "sentences".
        keys_run: folder of that run, which must be of the same set and split.
        margin: Δ of the hinge, score units.
        temperature: τ of every soft choice of a picture in the batch.
        graph: what the graph term compares: "soft" choices, the true pictures ("literal_gt"), the best of the
            batch ("literal_argmax"), or nothing.
        graph_weight: λ_g.
        graph_margin: δ of the contrast that trains the graph encoder in mode "soft".
        graphs: file of scene graphs; of drawn pictures "drawn", what they show, or "shuffled", the control;
            "made-up" for runs of seconds alone.
        graph_model: see `GraphArchitecture`.
        label_vectors: of what words mean in labels: "glove", the file `data.glove`, or another file of that
            format; "" for the encoder of sentences.
        caption: what the captioner tells from: "soft" choices, the true pictures ("teacher"), the best of the
            batch ("literal"), sampled ones whose telling is the retriever's reward ("reinforce"), or nothing.
        caption_weight: λ_cap.
        caption_min_count: times a word must be seen to be said.
        mixed_epochs: first epochs, in which the true picture is described with probability one half.
        captioner: see `CaptionerArchitecture`.
        backbone: "frozen" features, or fixed colours of "drawings".
    Source: GSDA 2021, Sections 3.5 and 4.1; docs/methods/gsda.md §4, §6.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = every_preset(_PRESET) | {
        "sound": {"model": {"centre": True}, "keys": "sentences", "label_vectors": ""},
        "laptop": {
            "label_vectors": "",
            "data": {"backbone": "resnet50"},
            "loop": {"schedule": "plateau", "plateau_patience": 15, "steps": ()},
        },
    }
    ROW: ClassVar[frozenset[str]] = frozenset({"model.context", "graph", "caption"})
    # soft choices of a picture, and of graphs a contrast beside them
    OURS: ClassVar[Mapping[str, Any]] = {"graph": "soft", "caption": "soft"}
    SMOKE: ClassVar[Mapping[str, Any]] = {
        "model": {"word_width": 12, "hidden": 8, "attention": 6, "dim": 16},
        "captioner": {"local": 8, "hidden": 8, "joined": 12, "seen": 8, "state": 10, "word_width": 6},
        "graph_model": {"dim": 8, "width": 8},
        "caption_min_count": 1,
        "label_vectors": "",
    }

    system: Literal["gsda"] = "gsda"
    model: GsdaArchitecture = GsdaArchitecture()
    keys: Literal["vse0", "sentences"] = "vse0"
    keys_run: str = ""
    margin: float = Field(default=0.2, gt=0)
    temperature: float = Field(default=0.07, gt=0)
    graph: GraphMode = "soft"
    graph_weight: float = Field(default=1.0, ge=0)
    graph_margin: float = Field(default=0.2, gt=0)
    graphs: str = ""
    graph_model: GraphArchitecture = GraphArchitecture()
    label_vectors: str = ""
    caption: CaptionMode = "soft"
    caption_weight: float = Field(default=1.0, ge=0)
    caption_min_count: int = Field(default=10, ge=1)
    mixed_epochs: int = Field(default=5, ge=0)
    captioner: CaptionerArchitecture = CaptionerArchitecture()
    backbone: Literal["frozen", "drawings"] = "frozen"

    @property
    def label_file(self) -> str:
        """File of word vectors that labels are read by; "" for the encoder of sentences."""
        return self.data.glove if self.label_vectors == "glove" else self.label_vectors

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """What would be passed over in silence is refused."""
        if self.keys == "sentences" and self.keys_run:
            raise ValueError("keys_run goes with keys = 'vse0'; leave one of the two out")
        if self.graph == "off" and self.graphs:
            raise ValueError("graphs are given but graph is 'off'; leave one of the two out")
        if self.graphs in ("drawn", "shuffled") and self.data.set != "picturebook":
            raise ValueError(
                f"graphs = {self.graphs!r} is of data.set = 'picturebook'; name a file of graphs"
            )
        return self

    def smoke(self) -> Self:
        """See `RunConfig.smoke`; a run of VSE0 and scene graphs that are not named are made up for."""
        small = super().smoke()
        given: dict[str, Any] = {}
        if self.keys == "vse0" and not self.keys_run:
            given["keys"] = "sentences"
        if self.graph != "off" and not self.graphs:
            given["graphs"] = MADE_UP
        return small.model_copy(update=given)

    def _compared(self, key: str, value: object) -> object:
        """Which file is named counts for nothing, whether one is does for vectors of labels."""
        if key == "keys_run" or (key == "graphs" and value not in ("drawn", "shuffled", MADE_UP)):
            return ""
        return bool(value) if key == "label_vectors" else value
