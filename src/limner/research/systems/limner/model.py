"""limner's own model: two frozen sentence encoders, optional word vectors, and the context of the story.

Pictures are encoded by EfficientNet-Lite2 (published, or with fine-tuned last blocks) and extra encoders. The
network is that of the encoder `base`; runs are exported as its files.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding_bag, normalize

from limner.arrays import expect
from limner.encoders.base_blocks import FIRST, MAPS, features_of, open_blocks
from limner.encoders.base_file import BLOCKS, FEATURES, LEAST_RARITY, MINILM, USE, BaseShape
from limner.encoders.base_network import BaseNet, LearnedWords, Projection, published_backbone
from limner.encoders.vocabulary import FIRST_WORD, Vocabulary
from limner.errors import ConfigError, ShapeError
from limner.research.datasets.features import precision_of
from limner.research.scenes.extra_encoders import TRAITS_WIDTH
from limner.research.systems.base import ModelParts
from limner.research.systems.text_side import StoryModel
from limner.research.training.corpus import Corpus

STORED = "backbone"
"""Key, in a checkpoint, of the encoder of the stored rows."""
TRAITS_SPACE = 64
"""Dimension of the projected traits in picture–picture vectors."""


class LimnerArchitecture(BaseShape):
    """Sizes, parts and dropout rates of the model; see `BaseShape` for the sizes.

    Attributes:
        changed_from, looks, last_stage: see `BaseShape`; other defaults or bounds.
        dropout: dropout rate of picture features and hidden units.
        text_dropout: dropout rate of sentence vectors.
        look_dropout: dropout rate of features for picture–picture vectors.
        reads: encoders of an English text: MiniLM, or MiniLM and the multilingual encoder.
        context: context of a step: "none", or the "mean" of the story's other steps.
        words: whether to add word vectors learned on the training texts.
        word_dropout: dropout rate of the words of a text in training.
    Source: docs/methods/limner.md §1.
    """

    changed_from: int = Field(default=FIRST, ge=FIRST, le=BLOCKS + 1)
    looks: int = Field(default=256, ge=1, le=4096)
    last_stage: int = Field(default=4, ge=0, le=7)
    dropout: float = Field(default=0.7, ge=0, lt=1)
    text_dropout: float = Field(default=0.1, ge=0, lt=1)
    look_dropout: float = Field(default=0.5, ge=0, lt=1)
    reads: Literal["minilm", "both"] = "both"
    context: Literal["none", "mean"] = "mean"
    words: bool = False
    word_dropout: float = Field(default=0.3, ge=0, lt=1)

    @property
    def shape(self) -> BaseShape:
        """Only the sizes."""
        return BaseShape(**{name: getattr(self, name) for name in BaseShape.model_fields})


def others_mean(vectors: Tensor, steps: Tensor) -> Tensor:
    """For each step the mean of the other steps of its story; 0 for a story of one step.

    Args:
        vectors: (S, W) vectors of steps, the stories concatenated.
        steps: (B,) int64, steps per story, at least 1, with sum S.
    Returns:
        (S, W) means.
    Raises:
        ShapeError: the sizes contradict each other.
    """
    expect("others_mean", vectors=(vectors, "S W"), steps=(steps, "B"))
    stories = torch.repeat_interleave(steps).to(vectors.device)
    counts = steps.to(vectors.device)[stories][:, None]
    sums = vectors.new_zeros(len(steps), vectors.shape[1]).index_add_(0, stories, vectors)
    return (sums[stories] - vectors) / (counts - 1).clamp(min=1) * (counts > 1)


class Limner(StoryModel):
    """The network of `base` with the sum of its two text encoders, word vectors, context and extra encoders.

    Attributes:
        as_published: whether the last blocks have their published weights, so that stored features are valid.
        maps: number of feature-map values that precede the features in a stored row; 0 if no block is
            trained.
        blocks_in: precision of the last blocks, equal to that of the stored features.
        beside: projection of extra encoders' features; None without them.
        traits: projection of traits for picture–picture vectors; None without them.
        traits_share: length of the traits' part in picture–picture vectors; the backbone's is 1.
        words: (V, D) word vectors; None without them.
    """

    name = "limner"
    rarity: Tensor
    beside_mean: Tensor
    beside_deviation: Tensor

    def __init__(self, architecture: LimnerArchitecture, parts: ModelParts, *, traits: bool = False) -> None:
        """Initialise the projections at random, from torch's generator; that of the context starts at 0.

        Args:
            architecture: sizes and parts.
            parts: both sentence encoders, and the vocabulary.
            traits: whether the last columns of the rows are traits.
        """
        super().__init__(architecture, parts)
        assert parts.sentences is not None and parts.multilingual is not None  # noqa: S101, PT018  (declared)
        self.sentences, self.multilingual = parts.sentences, parts.multilingual
        self.net = BaseNet(architecture.shape, published_backbone(), architecture.dropout)
        for side in (self.net.sentence, self.net.foreign):
            side.dropout.p = architecture.text_dropout
        self.net.look.dropout.p = architecture.look_dropout
        self.as_published = architecture.changed_from > BLOCKS
        self.maps = 0 if self.as_published else MAPS
        stored = parts.about.get(STORED)
        exact = isinstance(stored, dict) and precision_of(str(stored.get("transform"))) == "float32"
        self.blocks_in = torch.float32 if exact else torch.bfloat16
        open_blocks(self.net, architecture.changed_from)
        self.context = None
        if architecture.context == "mean":
            self.context = nn.Linear(MINILM + USE, architecture.width, bias=False)
            nn.init.zeros_(self.context.weight)
        self.words = None
        if architecture.words:
            self.words = nn.Parameter(0.02 * torch.randn(len(parts.vocabulary), architecture.width))
            self.register_buffer("rarity", torch.zeros(len(parts.vocabulary)))
        self.traits = None
        if traits:
            with torch.random.fork_rng(
                devices=[]
            ):  # so that the other parts get the same weights as without it
                self.traits = Projection(TRAITS_WIDTH, TRAITS_SPACE)
            self.traits_share = nn.Parameter(torch.tensor(0.3))
        self.beside = None
        if (more := self.image_width - self.row) > 0:
            self.register_buffer("beside_mean", torch.zeros(more))
            self.register_buffer("beside_deviation", torch.ones(more))
        if (seen := more - self._of_traits) > 0:
            self.beside = Projection(seen, architecture.width, dropout=architecture.dropout)

    def features_of(self, rows: Tensor) -> Tensor:
        """(B, R) stored rows → (B, F) features.

        Raises:
            ShapeError: the rows have another width.
        """
        due = max(self.image_width, self.row)
        if rows.ndim != 2 or rows.shape[1] != due:
            raise ShapeError(f"{self.name}: rows have shape {tuple(rows.shape)}, expected (B, {due})")
        if self.as_published:
            return rows[:, self.maps : self.row]
        return features_of(self.net, rows[:, : self.row], self.blocks_in)

    @property
    def row(self) -> int:
        """Width of the backbone's part of a stored row: feature maps and features."""
        return self.maps + FEATURES

    @property
    def dim(self) -> int:
        """D, dimension of the joint space."""
        return int(self.architecture.width)

    def fit_constants(self, corpus: Corpus) -> None:
        """Fit mean and deviation of all features, and idf weights: ln(N / n) for a word in n of N texts."""
        mean, deviation = corpus.moments(lambda rows: rows[:, self.maps : self.row])
        self.net.feature_mean.copy_(mean)
        self.net.feature_deviation.copy_(deviation)
        if self.beside is not None or self.traits is not None:
            mean, deviation = corpus.moments(lambda rows: rows[:, self.row :])
            self.beside_mean.copy_(mean)
            self.beside_deviation.copy_(deviation)
        if self.words is not None:
            texts = corpus.train.texts
            counts = torch.zeros(len(self.rarity))
            for text in texts:
                counts[self.vocabulary.known(text)] += 1
            self.rarity.copy_((len(texts) / counts.clamp(min=1)).log() * (counts > 0))

    def joint(self, features: Tensor, rows: Tensor) -> Tensor:
        """(B, F) features and (B, R) stored rows → (B, D) unit vectors to compare with texts."""
        made = self.net.joint(features)
        if self.beside is None:
            return made
        seen = self._beside(rows)
        return normalize(made + self.beside(seen[:, : seen.shape[1] - self._of_traits]), dim=1)

    def looks(self, features: Tensor, rows: Tensor) -> Tensor:
        """(B, F) features and (B, R) stored rows → (B, L) unit vectors to compare with other pictures.

        With traits, both parts are concatenated, so that the cosine is a weighted sum of their cosines.
        """
        made = self.net.looks(features)
        if self.traits is None:
            return made
        told = self.traits(self._beside(rows)[:, -TRAITS_WIDTH:])
        return normalize(torch.cat([made, self.traits_share * told], dim=1), dim=1)

    @property
    def _of_traits(self) -> int:
        return 0 if self.traits is None else TRAITS_WIDTH

    def _beside(self, rows: Tensor) -> Tensor:
        """Standardised columns of extra encoders and traits."""
        return (rows[:, self.row :] - self.beside_mean) / self.beside_deviation

    def pictures(self, pictures: Tensor) -> Tensor:
        """(M, R) stored rows → (M, D) unit vectors."""
        return self.joint(self.features_of(pictures), pictures)

    def bags(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of the distinct known words of each text; empty without word vectors."""
        return [[] if self.words is None else self.vocabulary.known(text) for text in texts]

    def words_of_file(self, where: str) -> LearnedWords | None:
        """Word vectors for an exported file, or None without any; libraries use them only with MiniLM.

        Args:
            where: the run, for messages.
        Raises:
            ConfigError: the word vectors were learned together with both sentence encoders.
        """
        if self.words is None:
            return None
        if self.architecture.reads != "minilm":
            raise ConfigError(
                f"{where}: uses word vectors with both sentence encoders, but a library encodes a text with"
                " one of them; train a run with --set model.reads=minilm or --set model.words=false"
            )
        # words that occur only in capitals are never looked up
        known = self.rarity.nonzero().flatten().cpu()
        spelt = tuple(self.vocabulary.words[number - FIRST_WORD] for number in known.tolist())
        made = Vocabulary(spelt, self.vocabulary.tokeniser)
        return LearnedWords(made, self.words.detach()[known], self.rarity[known])

    def identity(self) -> tuple[object, ...]:
        """The fingerprints of both sentence encoders."""
        return (self.sentences.fingerprint, self.multilingual.fingerprint)

    def read(
        self, english: Tensor, foreign: Tensor, context: Tensor, bags: Sequence[Sequence[int]]
    ) -> Tensor:
        """Combine the outputs of both encoders, context and words of S texts.

        Args:
            english: (S, 384) vectors of MiniLM.
            foreign: (S, 512) vectors of the multilingual encoder.
            context: (S, 896) context, see `others_mean`.
            bags: words of the S texts, see `bags`.
        Returns:
            (S, D) unit vectors.
        """
        made: Tensor = self.net.sentence(english)
        if self.architecture.reads == "both":
            made = made + self.net.foreign(foreign)
        if self.context is not None:
            made = made + self.context(context)
        if self.words is not None:
            made = made + self._spoken(self.words, bags)
        return normalize(made, dim=1)

    def _spoken(self, words: Tensor, bags: Sequence[Sequence[int]]) -> Tensor:
        """(S, D) idf-weighted sums of word vectors; the weights of a text have Euclidean norm 1."""
        numbers = torch.tensor(
            [number for bag in bags for number in bag], dtype=torch.int64, device=self.device
        )
        counts = torch.tensor([len(bag) for bag in bags], device=self.device)
        owners = torch.repeat_interleave(counts)
        weights = self.rarity[numbers]
        lengths = weights.new_zeros(len(bags)).index_add_(0, owners, weights.square()).sqrt()
        weights = dropout(
            weights / lengths.clamp(min=LEAST_RARITY)[owners], self.architecture.word_dropout, self.training
        )
        offsets = counts.cumsum(0) - counts
        return embedding_bag(numbers, words, offsets, mode="sum", per_sample_weights=weights)

    def together(self, stories: Sequence[Sequence[str]]) -> Tensor:
        """See `StoryModel`."""
        texts = [text for story in stories for text in story]
        english, foreign = (
            torch.from_numpy(encoder.encode_text(texts)).to(self.device)
            for encoder in (self.sentences, self.multilingual)
        )
        steps = torch.tensor([len(story) for story in stories])
        return self.read(
            english, foreign, others_mean(torch.cat([english, foreign], dim=1), steps), self.bags(texts)
        )
