"""GSDA: sentences that hear their story, pictures beside them in one space, and what trains them further.

The graph encoder and the captioner serve training and re-ranking; ranking alone needs neither. It holds no
loss.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.arrays import FloatArray, TextEncoder, scores
from limner.config import Config
from limner.errors import ConfigError, ShapeError
from limner.models.captioner import Captioner
from limner.models.encoding import ENCODE_BATCH, Evaluating, Tokens, encode_pictures, fingerprint, to_tensor
from limner.models.story_encoding import encode_alone, encode_stories
from limner.nn.contextual import ContextualEncoder, Hears
from limner.nn.graphs import Convolution, Graph, GraphEncoder, batch_graphs


class GsdaArchitecture(Config):
    """Sizes and parts of the retriever.

    Attributes:
        word_width: E.
        hidden: of either LSTM, per direction.
        attention: width in which words meet the other sentences.
        dim: D of the joint space.
        hears: "others", "literal" for Equation 2 as printed, or "none": GSDA w/o CSE.
        centre: subtract the training pictures' mean feature before they are projected.
    Source: GSDA 2021, Section 3.2; docs/methods/gsda.md §2.
    """

    word_width: int = Field(default=300, ge=1)
    hidden: int = Field(default=512, ge=1)
    attention: int = Field(default=512, ge=1)
    dim: int = Field(default=1024, ge=1)
    hears: Hears = "others"
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


class Gsda(nn.Module):
    """The whole system; retrieval and evaluation call `encode_stories`, `encode_image` and `score`."""

    name = "gsda"
    centre: Tensor

    def __init__(
        self,
        architecture: GsdaArchitecture,
        vocabulary: Tokens,
        keys: TextEncoder,
        *,
        image_width: int,
        max_length: int,
        vectors: Tensor | None = None,
        features: nn.Module | None = None,
        graphs: GraphEncoder | None = None,
        captioner: Captioner | None = None,
        labels: Sequence[str] = (),
    ) -> None:
        """Draw the weights from torch's generator.

        Args:
            architecture: sizes and parts.
            vocabulary: of the training texts.
            keys: frozen encoder of sentences, which the others are heard through; where it is a module, its
                weights are kept with the model's.
            image_width: F of the picture features.
            max_length: words of a sentence that count.
            vectors: (V, E) to start from.
            features: bytes of pictures → (B, F), fixed; None where features are stored.
            graphs: encoder of scene graphs, for the graph terms and for re-ranking.
            captioner: of the dual task.
            labels: what the rows of the graph encoder's label vectors are of.
        """
        super().__init__()
        own = architecture
        self.architecture, self.vocabulary, self.max_length = own, vocabulary, max_length
        self.image_width, self.features = image_width, features
        self.register_buffer("centre", torch.zeros(image_width))
        self.keys = keys
        if isinstance(keys, nn.Module):
            keys.requires_grad_(requires_grad=False)
        self.sentences = ContextualEncoder(
            len(vocabulary),
            width=own.word_width,
            hidden=own.hidden,
            keys=keys.dim,
            attention=own.attention,
            hears=own.hears,
            vectors=vectors,
        )
        self.of_text = nn.Linear(self.sentences.width, own.dim, bias=False)
        self.of_image = nn.Linear(image_width, own.dim, bias=False)
        self.graphs, self.captioner = graphs, captioner
        self._labels = {label: row for row, label in enumerate(labels)}

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

    def described(self, pictures: Tensor) -> Tensor:
        """Features as they are, or those of drawn pictures' bytes: (M, F), constants.

        Raises:
            ShapeError: features of another width.
        """
        with torch.no_grad():
            found: Tensor = pictures if self.features is None else self.features(pictures)
        if found.ndim != 2 or found.shape[1] != self.image_width:
            due = self.image_width
            raise ShapeError(f"gsda: picture features have shape {tuple(found.shape)}, expected (B, {due})")
        return found

    def pictures(self, pictures: Tensor) -> Tensor:
        """(M, F) features, or what `features` takes → (M, D) rows of unit length."""
        return normalize(self.of_image(self.described(pictures) - self.centre), dim=1)

    @property
    def dim(self) -> int:
        """D."""
        return self.architecture.dim

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.of_text.weight.device

    @property
    def fingerprint(self) -> str:
        """Hash of settings, words, keys and weights: equal fingerprints give equal vectors."""
        settings = (self.max_length, self.keys.fingerprint)
        return fingerprint(self, self.architecture, self.vocabulary, *settings)

    def encode_stories(self, stories: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Stories → per story (T, D) float32 unit rows; a sentence hears all others."""
        return encode_stories(self, stories, self._told, self.dim)

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) unit rows, each heard as a story of one sentence."""
        return encode_alone(self.encode_stories, texts, self.dim)

    def encode_image(self, pictures: np.ndarray) -> FloatArray:
        """(M, F) features, or bytes where they are drawn → (M, D) float32 unit rows."""
        return encode_pictures(self, pictures, self.pictures, (self.dim,), self.device)

    def encode_graphs(self, graphs: Sequence[Graph]) -> tuple[FloatArray, NDArray[np.bool_]]:
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
        with Evaluating(self):
            for start in range(0, len(graphs), ENCODE_BATCH):
                some = slice(start, start + ENCODE_BATCH)
                vectors, without = self.graphs(batch_graphs(graphs[some], self._labels).to(self.device))
                found[some], empty[some] = vectors.float().cpu().numpy(), without.cpu().numpy()
        return found, empty

    def score(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, D) and (M, D) unit rows → (N, M) cosines."""
        return scores(texts, images)

    def _told(self, stories: Sequence[Sequence[str]]) -> Tensor:
        texts = [text for story in stories for text in story]
        ids, lengths = self.vocabulary.batch(texts, self.max_length)
        keys = to_tensor(self.keys.encode_text(texts), self.device)
        counts = torch.tensor([len(story) for story in stories])
        found: Tensor = self(torch.from_numpy(ids).to(self.device), torch.from_numpy(lengths), keys, counts)
        return found


def graph_encoder(architecture: GraphArchitecture, labels: Tensor) -> GraphEncoder:
    """The encoder of scene graphs with these sizes, and (V, E) frozen vectors of labels."""
    own = architecture
    return GraphEncoder(labels, dim=own.dim, width=own.width, layers=own.layers, convolution=own.convolution)
