"""GSDA's model (contextual sentences and pictures in a joint space) and its settings.

The graph encoder and the captioner are used for training and re-ranking only.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.arrays import FloatArray
from limner.config import Record
from limner.errors import ConfigError
from limner.research.nn.contextual import Context, ContextualEncoder
from limner.research.nn.graphs import Convolution, GraphEncoder
from limner.research.scenes.graphs import SceneGraph
from limner.research.systems.base import ENCODE_BATCH, ModelParts, Surprise, evaluating, to_tensor
from limner.research.systems.gsda.captioner import Captioner, CaptionerArchitecture, generate
from limner.research.systems.gsda.graphs import batch_graphs
from limner.research.systems.picture_side import FixedFeatures
from limner.research.systems.text_side import StoryModel
from limner.research.training.settings import Preset, RunConfig, every_preset


class GsdaArchitecture(Record):
    """Sizes and parts of the retriever.

    Attributes:
        word_width: E, dimension of word vectors.
        hidden: hidden size of each LSTM, per direction.
        attention: hidden size of the attention.
        dim: D, dimension of the joint space.
        context: what a sentence attends to: the "others" of its story; its "own" key, as a control;
            "literal", Equation 2 as printed, which adds no context; or "none" (GSDA w/o CSE).
        centre: whether to subtract the training pictures' mean feature before the projection.
    Source: GSDA 2021, Section 3.2; docs/methods/gsda.md §2.
    """

    word_width: int = Field(default=300, ge=1)
    hidden: int = Field(default=512, ge=1)
    attention: int = Field(default=512, ge=1)
    dim: int = Field(default=1024, ge=1)
    context: Context = "others"
    centre: bool = False


class GraphArchitecture(Record):
    """Sizes of the encoder of scene graphs.

    Attributes:
        convolution: "bipartite" (relations are nodes) or "triple" (sg2im).
        dim: dimension of graph vectors.
        width: width of the hidden layers.
        layers: number of convolutions.
    Source: GSDA 2021, Section 3.3; docs/methods/gsda.md §3.4.
    """

    convolution: Convolution = "bipartite"
    dim: int = Field(default=256, ge=1)
    width: int = Field(default=256, ge=1)
    layers: int = Field(default=2, ge=1)


class Gsda(StoryModel, FixedFeatures):
    """The GSDA model."""

    name = "gsda"

    def __init__(
        self,
        architecture: GsdaArchitecture,
        parts: ModelParts,
        graphs: GraphEncoder | None = None,
        captioner: Captioner | None = None,
    ) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            architecture: sizes and parts.
            parts: its `sentences` encode the keys; if that is a module, its weights are stored with the
                model's.
            graphs: encoder of scene graphs, for the graph terms and for re-ranking.
            captioner: captioner of the dual task.
        """
        super().__init__(architecture, parts)
        own, keys = architecture, parts.sentences
        assert keys is not None  # noqa: S101  (declared, or a run of VSE0)
        self.keys = keys
        if isinstance(keys, nn.Module):
            keys.requires_grad_(requires_grad=False)
        self.sentences = ContextualEncoder(
            len(self.vocabulary),
            width=own.word_width,
            hidden=own.hidden,
            keys=keys.dim,
            attention=own.attention,
            context=own.context,
            vectors=parts.vectors,
        )
        self.of_text = nn.Linear(self.sentences.width, own.dim, bias=False)
        self.of_image = nn.Linear(parts.image_width, own.dim, bias=False)
        self.graphs, self.captioner = graphs, captioner
        self.labels = {label: row for row, label in enumerate(parts.about.get("labels", ()))}

    def forward(self, words: Tensor, lengths: Tensor, keys: Tensor, steps: Tensor) -> Tensor:
        """Encode the sentences of B stories → (S, D) unit vectors.

        Args:
            words: (S, L) int64 word ids, the stories concatenated.
            lengths: (S,) int64 on the CPU, in 1…L.
            keys: (S, K) keys of the same sentences.
            steps: (B,) int64 on the CPU, sentences per story, with sum S.
        Raises:
            ShapeError: the sizes contradict each other.
        Source: GSDA 2021, Section 3.2; docs/methods/gsda.md §2.
        """
        return normalize(self.of_text(self.sentences(words, lengths, keys, steps).vectors), dim=1)

    def pictures(self, pictures: Tensor) -> Tensor:
        """(M, F) features, or input of `features` → (M, D) unit vectors."""
        return normalize(self.of_image(self.described(pictures) - self.centre), dim=1)

    def identity(self) -> tuple[object, ...]:
        """The maximum length of a text, and the fingerprint of the key encoder."""
        return (self.max_length, self.keys.fingerprint)

    def together(self, stories: Sequence[Sequence[str]]) -> Tensor:
        """See `StoryModel`; each sentence has its whole story as context."""
        texts = [text for story in stories for text in story]
        words, lengths = self.numbers(texts)
        keys = to_tensor(self.keys.encode_text(texts), self.device)
        found: Tensor = self(words, lengths, keys, torch.tensor([len(story) for story in stories]))
        return found

    def surprise(self, pictures: Sequence[FloatArray], stories: Sequence[Sequence[str]]) -> Surprise:
        """See `Captioner.surprise`."""
        if self.captioner is None:
            raise self._without("captioner")
        return self.captioner.surprise(pictures, stories)

    def tell(self, pictures: Sequence[FloatArray]) -> list[list[str]]:
        """See `generate`."""
        if self.captioner is None:
            raise self._without("captioner")
        return generate(self.captioner, pictures)

    def encode_graphs(self, graphs: Sequence[SceneGraph]) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Encode scene graphs of M pictures as vectors to compare by cosine.

        Args:
            graphs: M graphs, all of whose labels are in the run's vocabulary of labels.
        Returns:
            (M, D) float32 unit vectors, and (M,) bool, True for empty graphs, whose vectors carry no
            information.
        Raises:
            ConfigError: the model has no graph encoder.
            DataError: a label has no vector.
        """
        if self.graphs is None:
            raise ConfigError("gsda: the run has no graph encoder; train one with graph = 'soft'")
        found = np.zeros((len(graphs), self.graphs.dim), np.float32)
        empty = np.zeros(len(graphs), np.bool_)
        with evaluating(self):
            for start in range(0, len(graphs), ENCODE_BATCH):
                some = slice(start, start + ENCODE_BATCH)
                vectors, without = self.graphs(batch_graphs(graphs[some], self.labels).to(self.device))
                found[some], empty[some] = vectors.float().cpu().numpy(), without.cpu().numpy()
        return found, empty


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
    """Settings of GSDA, GSDA w/o CSE (``model.context="none"``), w/o graph or w/o dual (mode "off").

    No code was released, so `release` equals `paper`, with our choices where the paper is unclear or cannot
    work as printed; modes that begin with "literal" follow the printed equations. `sound` centres the
    features and uses the frozen sentence encoder for keys.

    Departs: losses are means over sentences, so that they do not depend on the batch size.

    Attributes:
        model: see `GsdaArchitecture`.
        keys: encoder of the other sentences: a run of VSE0 ("vse0"), or a frozen encoder ("sentences").
        keys_run: folder of that run, of the same set and split.
        margin: Δ of the hinge, score units.
        temperature: τ of soft choices of a picture in the batch.
        graph: pictures compared by the graph term: "soft" choices (straight-through), the true pictures
            ("literal_gt"), the best of the batch ("literal_argmax"), or "off".
        graph_weight: λ_g.
        graph_margin: δ of the contrastive term that trains the graph encoder in mode "soft".
        graphs: file of scene graphs; for drawn pictures "drawn" (true graphs) or "shuffled" (control);
            "made-up" only for smoke runs.
        graph_model: see `GraphArchitecture`.
        label_vectors: word vectors of labels: "glove" for the file `data.glove`, or another file of that
            format; "" for the sentence encoder.
        caption: pictures given to the captioner: "soft" choices (straight-through), the true pictures
            ("teacher"), the best of the batch ("literal"), sampled pictures with the likelihood of the
            caption as reward ("reinforce"), or "off".
        caption_weight: λ_cap.
        caption_min_count: minimum number of occurrences of a word in the captioner's vocabulary.
        mixed_epochs: first epochs, in which "soft" and "literal" captioning uses the true picture with
            probability ½.
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
    # soft choices of pictures, with a contrastive term on graphs; first epochs with true pictures
    OURS: ClassVar[Mapping[str, Any]] = {"graph": "soft", "caption": "soft", "mixed_epochs": 5}
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
        """File of word vectors for labels; "" for the sentence encoder."""
        return self.data.glove if self.label_vectors == "glove" else self.label_vectors

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Reject settings that contradict each other or would have no effect."""
        if self.keys == "sentences" and self.keys_run:
            raise ValueError("keys_run is given but keys is 'sentences'; leave one of the two out")
        if self.graph == "off" and self.graphs:
            raise ValueError("graphs are given but graph is 'off'; leave one of the two out")
        if self.graphs in ("drawn", "shuffled") and self.data.set != "picturebook":
            raise ValueError(
                f"graphs = {self.graphs!r} exists only for data.set = 'picturebook'; give a file of graphs"
            )
        return self

    def smoke(self) -> Self:
        """See `RunConfig.smoke`; a VSE0 run and scene graphs that are not given are replaced."""
        small = super().smoke()
        given: dict[str, Any] = {}
        if self.keys == "vse0" and not self.keys_run:
            given["keys"] = "sentences"
        if self.graph != "off" and not self.graphs:
            given["graphs"] = MADE_UP
        return small.model_copy(update=given)

    def _compared(self, key: str, value: object) -> object:
        """See `RunConfig`; file names are ignored, but not whether label vectors come from a file."""
        if key == "keys_run" or (key == "graphs" and value not in ("drawn", "shuffled", MADE_UP)):
            return ""
        return bool(value) if key == "label_vectors" else value
