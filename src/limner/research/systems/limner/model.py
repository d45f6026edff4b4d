"""limner's own model: frozen sentence encoders and learned words read a text and the rest of its story.

Its pictures are read by the last blocks of EfficientNet-Lite2, as published or trained along, with what
further encoders see; the network is that of the encoder `base`, which its runs are exported to.
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
from limner.research.scenes.beside import TRAITS_WIDTH
from limner.research.systems.base import Parts
from limner.research.systems.text_side import StoryModel
from limner.research.training.corpus import Corpus

STORED = "backbone"
"""Name of the encoder of the stored rows among a run's weights."""
TRAITS_SPACE = 64
"""Numbers that traits become in looks."""


class LimnerArchitecture(BaseShape):
    """Sizes and parts of the model, and what is left out of it in training.

    Attributes:
        dropout: share of the picture's features, and of hidden units.
        text_dropout: share of a sentence vector's entries.
        look_dropout: share of the features that looks read.
        reads: what reads an English text: MiniLM alone, or MiniLM and the multilingual encoder.
        context: what a step knows of its story: nothing, or the mean of its other steps.
        words: read the words of a text as well, each by a vector that is learned on the training texts.
        word_dropout: share of a text's words that are left out in training.
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
        """The sizes alone."""
        return BaseShape(**{name: getattr(self, name) for name in BaseShape.model_fields})


def others_mean(vectors: Tensor, steps: Tensor) -> Tensor:
    """The mean of the other steps of its story, for every step; 0 for a story of one step.

    Args:
        vectors: (S, W), the steps of all stories one after the other.
        steps: (B,) int64 of each story, at least 1, with sum S.
    Returns:
        (S, W).
    Raises:
        ShapeError: the sizes contradict each other.
    """
    expect("others_mean", vectors=(vectors, "S W"), steps=(steps, "B"))
    stories = torch.repeat_interleave(steps).to(vectors.device)
    counts = steps.to(vectors.device)[stories][:, None]
    sums = vectors.new_zeros(len(steps), vectors.shape[1]).index_add_(0, stories, vectors)
    return (sums[stories] - vectors) / (counts - 1).clamp(min=1) * (counts > 1)


class Limner(StoryModel):
    """The network of `base`, whose two text sides are added up, with words, context and further encoders.

    Attributes:
        as_published: the last blocks are as published, still or for good, so the features in the rows are
            theirs.
        maps: numbers that stand before the features in stored rows: 0 where no block is ever trained.
        blocks_in: what the last blocks multiply in: as those whose features were stored.
        beside: projection of what further encoders see in a picture; None without them.
        traits: projection of a picture's traits, which looks read as well; None without them.
        traits_share: length of what traits say in looks, beside 1 of what the backbone says.
        words: (V, D) vectors of words; None if none are read.
    """

    name = "limner"
    rarity: Tensor
    beside_mean: Tensor
    beside_deviation: Tensor

    def __init__(self, architecture: LimnerArchitecture, parts: Parts, *, traits: bool = False) -> None:
        """Initialise the projections at random, from torch's generator; the context begins as nothing.

        Args:
            architecture: sizes and parts.
            parts: both encoders, and the words.
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
            with torch.random.fork_rng(devices=[]):  # the other parts are drawn as they are without it
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
            ShapeError: rows of another width.
        """
        due = max(self.image_width, self.row)
        if rows.ndim != 2 or rows.shape[1] != due:
            raise ShapeError(f"{self.name}: rows have shape {tuple(rows.shape)}, expected (B, {due})")
        if self.as_published:
            return rows[:, self.maps : self.row]
        return features_of(self.net, rows[:, : self.row], self.blocks_in)

    @property
    def row(self) -> int:
        """R of the backbone's own rows: maps and features."""
        return self.maps + FEATURES

    @property
    def dim(self) -> int:
        """D."""
        return int(self.architecture.width)

    def settle(self, corpus: Corpus) -> None:
        """Moments of all features, and how rare words are: ln(N / n) of n among N training texts."""
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
        """(B, F) features of (B, R) stored rows → (B, D) unit rows that texts are compared with."""
        made = self.net.joint(features)
        if self.beside is None:
            return made
        seen = self._beside(rows)
        return normalize(made + self.beside(seen[:, : seen.shape[1] - self._of_traits]), dim=1)

    def looks(self, features: Tensor, rows: Tensor) -> Tensor:
        """(B, F) features of (B, R) stored rows → (B, L) unit rows that pictures are compared by.

        With traits both parts stand side by side, so that their cosines add up.
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
        """Standardised columns of further encoders and of traits."""
        return (rows[:, self.row :] - self.beside_mean) / self.beside_deviation

    def pictures(self, pictures: Tensor) -> Tensor:
        """(M, R) stored rows → (M, D) unit rows."""
        return self.joint(self.features_of(pictures), pictures)

    def bags(self, texts: Sequence[str]) -> list[list[int]]:
        """Numbers of the different known words of each text; none where words are not read."""
        return [[] if self.words is None else self.vocabulary.known(text) for text in texts]

    def words_of_file(self, where: str) -> LearnedWords | None:
        """Learned words of an exported file, or None.

        A library reads an English text by MiniLM alone, and its words beside that.

        Args:
            where: the run, for the message.
        Raises:
            ConfigError: the words were learned beside both sentence encoders.
        """
        if self.words is None:
            return None
        if self.architecture.reads != "minilm":
            raise ConfigError(
                f"{where}: reads words beside both sentence encoders, and a library reads a text by one of"
                " them; train one with --set model.reads=minilm or --set model.words=false"
            )
        # what only comes in capitals is never asked for
        known = self.rarity.nonzero().flatten().cpu()
        spelt = tuple(self.vocabulary.words[number - FIRST_WORD] for number in known.tolist())
        made = Vocabulary(spelt, self.vocabulary.tokeniser)
        return LearnedWords(made, self.words.detach()[known], self.rarity[known])

    def identity(self) -> tuple[object, ...]:
        """Both encoders of sentences."""
        return (self.sentences.fingerprint, self.multilingual.fingerprint)

    def read(
        self, english: Tensor, foreign: Tensor, context: Tensor, bags: Sequence[Sequence[int]]
    ) -> Tensor:
        """Texts as both encoders give them, and their words → unit rows.

        Args:
            english: (S, 384) of MiniLM.
            foreign: (S, 512) of the multilingual encoder.
            context: (S, 896), see `others_mean`.
            bags: S texts' words, see `bags`.
        Returns:
            (S, D).
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
        """(S, D) sums of the words' vectors, weighed by rarity; the weights of a text have length 1."""
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
