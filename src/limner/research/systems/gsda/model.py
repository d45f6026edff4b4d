"""GSDA: sentences that know their story, pictures beside them in one space, and what trains them further.

The graph encoder and the captioner serve training and re-ranking; ranking alone needs neither.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.arrays import FloatArray
from limner.config import Config
from limner.errors import ConfigError
from limner.research.nn.contextual import Context, ContextualEncoder
from limner.research.nn.graphs import Convolution, GraphEncoder
from limner.research.scenes.graphs import SceneGraph
from limner.research.systems.base import (
    ENCODE_BATCH,
    FixedFeatures,
    Parts,
    StoryModel,
    Surprise,
    evaluating,
    to_tensor,
)
from limner.research.systems.gsda.captioner import Captioner, generate
from limner.research.systems.gsda.graphs import batch_graphs


class GsdaArchitecture(Config):
    """Sizes and parts of the retriever.

    Attributes:
        word_width: E.
        hidden: of either LSTM, per direction.
        attention: width in which words meet the other sentences.
        dim: D of the joint space.
        context: "others"; "own", the control whose words attend to the key of their own sentence; "literal"
            for Equation 2 as printed, in which no sentence hears another; or "none": GSDA w/o CSE.
        centre: subtract the training pictures' mean feature before they are projected.
    Source: GSDA 2021, Section 3.2; docs/methods/gsda.md §2.
    """

    word_width: int = Field(default=300, ge=1)
    hidden: int = Field(default=512, ge=1)
    attention: int = Field(default=512, ge=1)
    dim: int = Field(default=1024, ge=1)
    context: Context = "others"
    centre: bool = False


class GraphArchitecture(Config):
    """Sizes of the encoder of scene graphs.

    Attributes:
        convolution: "bipartite", relations being nodes; or "triple", that of sg2im.
        dim: of a graph's vector.
        width: of the hidden layers.
        layers: of the convolution.
    Source: GSDA 2021, Section 3.3; docs/methods/gsda.md §3.4.
    """

    convolution: Convolution = "bipartite"
    dim: int = Field(default=256, ge=1)
    width: int = Field(default=256, ge=1)
    layers: int = Field(default=2, ge=1)


class Gsda(StoryModel, FixedFeatures):
    """The whole system."""

    name = "gsda"

    def __init__(
        self,
        architecture: GsdaArchitecture,
        parts: Parts,
        graphs: GraphEncoder | None = None,
        captioner: Captioner | None = None,
    ) -> None:
        """Draw the weights from torch's generator.

        Args:
            architecture: sizes and parts.
            parts: its `sentences` are the keys, through which other sentences are read; where they are a
                module, its weights are kept with the model's.
            graphs: encoder of scene graphs, for the graph terms and for re-ranking.
            captioner: of the dual task.
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
        """Sentences of B stories → (S, D) rows of unit length.

        Args:
            words: (S, L) int64, the sentences of all stories one after the other.
            lengths: (S,) int64 on the CPU, in 1…L.
            keys: (S, K) of the same sentences, constants.
            steps: (B,) int64 on the CPU, with sum S.
        Raises:
            ShapeError: sizes do not fit.
        Source: GSDA 2021, Section 3.2; docs/methods/gsda.md §2.
        """
        return normalize(self.of_text(self.sentences(words, lengths, keys, steps).vectors), dim=1)

    def pictures(self, pictures: Tensor) -> Tensor:
        """(M, F) features, or what `features` takes → (M, D) rows of unit length."""
        return normalize(self.of_image(self.described(pictures) - self.centre), dim=1)

    def identity(self) -> tuple[object, ...]:
        """Length of texts, and the keys."""
        return (self.max_length, self.keys.fingerprint)

    def together(self, stories: Sequence[Sequence[str]]) -> Tensor:
        """A sentence knows all others of its story."""
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
        """Scene graphs of M pictures → what they say of each other, by cosine.

        Args:
            graphs: of labels that the run knows.
        Returns:
            (M, D) float32 unit rows, D the width of graph vectors, and (M,) True where a graph is empty: its
            vector is learned but describes no picture, so nothing is to be compared with it.
        Raises:
            ConfigError: the model has no graph encoder.
            DataError: a label without a vector.
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
