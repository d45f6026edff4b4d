"""limner's own model: frozen sentence encoders and learned words read a text and the rest of its story.

It shares the picture side, the batches and the losses of the encoder `base`, so that its rows differ from
that encoder's in what reads the text alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding_bag, normalize

from limner.arrays import TextEncoder, expect
from limner.encoders.base_file import BLOCKS, LEAST_RARITY, MINILM, USE
from limner.encoders.base_network import Projection, Words
from limner.encoders.catalogue import MULTILINGUAL, sentence_encoder
from limner.encoders.vocabulary import FIRST_WORD, Vocabulary
from limner.errors import CheckpointError, ConfigError
from limner.research.scenes.beside import TRAITS, TRAITS_WIDTH
from limner.research.systems.base import Capabilities, Parts, StoryModel, feature_moments
from limner.research.systems.base_encoder import (
    BaseArchitecture,
    BaseConfig,
    BaseModel,
    BaseSystem,
    BaseTask,
    PictureBatch,
)
from limner.research.training.corpus import Corpus
from limner.research.training.settings import every_preset
from limner.research.training.shares import whole

KEY = "multilingual"
"""Of the second encoder's fingerprint, beside the weights of a run."""
TRAITS_SPACE = 64
"""Numbers that traits become in looks."""


class LimnerArchitecture(BaseArchitecture):
    """Sizes and parts of the model.

    Attributes:
        reads: what reads an English text: MiniLM alone, as in `base`, or MiniLM and the multilingual encoder.
        context: what a step knows of its story: nothing, or the mean of its other steps.
        words: read the words of a text as well, each by a vector that is learned on the training texts.
        word_dropout: share of a text's words that are left out in training.
    Source: docs/methods/limner.md §1.
    """

    reads: Literal["minilm", "both"] = "both"
    context: Literal["none", "mean"] = "mean"
    words: bool = False
    word_dropout: float = Field(default=0.3, ge=0, lt=1)


class LimnerConfig(BaseConfig):
    """One run; it is of no paper, so all presets are the same: the backbone stays as published.

    Attributes:
        model: see `LimnerArchitecture`.
    """

    PRESETS = every_preset(
        {
            "loop": {"betas": (0.9, 0.999), "lr": 1e-3, "schedule": "cosine", "metric": "MRR", "epochs": 40},
            "data": {"backbone": "efficientnet-lite2", "batch": 256, "vectors": "random", "min_count": 3},
            "model": {"changed_from": BLOCKS + 1, "dropout": 0.75},
        }
    )
    ROW = frozenset({"model.reads", "model.context", "model.words", "data.beside"})
    READS_BESIDE: ClassVar[bool] = True

    system: Literal["limner"] = "limner"  # type: ignore[assignment]
    model: LimnerArchitecture = LimnerArchitecture()

    @model_validator(mode="after")
    def _traits_stand_last(self) -> Self:
        if TRAITS in self.data.beside[:-1]:
            raise ValueError(f"data.beside: name {TRAITS!r} last, found {list(self.data.beside)}")
        return self


def others_mean(vectors: Tensor, steps: Tensor) -> Tensor:
    """The mean of the other steps of its story, for every step; 0 for a story of one step.

    Args:
        vectors: (S, W), the steps of all stories one after the other.
        steps: (B,) int64 of each story, at least 1, with sum S.
    Returns:
        (S, W).
    Raises:
        ShapeError: sizes do not fit.
    """
    expect("others_mean", vectors=(vectors, "S W"), steps=(steps, "B"))
    stories = torch.repeat_interleave(steps).to(vectors.device)
    counts = steps.to(vectors.device)[stories][:, None]
    sums = vectors.new_zeros(len(steps), vectors.shape[1]).index_add_(0, stories, vectors)
    return (sums[stories] - vectors) / (counts - 1).clamp(min=1) * (counts > 1)


class Limner(StoryModel, BaseModel):
    """The network of `base`, whose two text sides are added up, with words, context and further encoders.

    Attributes:
        beside: projection of what further encoders see in a picture; None without them.
        traits: projection of a picture's traits, which looks read as well; None without them.
        traits_share: length of what traits say in looks, beside 1 of what the backbone says.
        words: (V, D) vectors of words; None where none are read.
    """

    name = "limner"
    rarity: Tensor
    beside_mean: Tensor
    beside_deviation: Tensor

    def __init__(self, architecture: LimnerArchitecture, parts: Parts) -> None:
        """Draw the projections from torch's generator; the context begins as nothing."""
        super().__init__(architecture, parts)
        assert parts.multilingual is not None  # noqa: S101  (declared)
        self.multilingual = parts.multilingual
        self.context = None
        if architecture.context == "mean":
            self.context = nn.Linear(MINILM + USE, architecture.width, bias=False)
            nn.init.zeros_(self.context.weight)
        self.words = None
        if architecture.words:
            self.words = nn.Parameter(0.02 * torch.randn(len(parts.vocabulary), architecture.width))
            self.register_buffer("rarity", torch.zeros(len(parts.vocabulary)))
        self.traits = None
        if parts.extra:
            with torch.random.fork_rng(devices=[]):  # the other parts are drawn as they are without it
                self.traits = Projection(TRAITS_WIDTH, TRAITS_SPACE)
            self.traits_share = nn.Parameter(torch.tensor(0.3))
        self.beside = None
        if (more := self.image_width - self.row) > 0:
            self.register_buffer("beside_mean", torch.zeros(more))
            self.register_buffer("beside_deviation", torch.ones(more))
        if (seen := more - self._of_traits) > 0:
            self.beside = Projection(seen, architecture.width, dropout=architecture.dropout)

    def settle(self, corpus: Corpus) -> None:
        """Moments of all features, and how rare words are: ln(N / n) of n among N training texts."""
        super().settle(corpus)
        if self.beside is not None or self.traits is not None:
            mean, deviation = feature_moments(corpus, lambda rows: rows[:, self.row :])
            self.beside_mean.copy_(mean)
            self.beside_deviation.copy_(deviation)
        if self.words is not None:
            texts = corpus.train.texts
            counts = torch.zeros(len(self.rarity))
            for text in texts:
                counts[self.vocabulary.known(text)] += 1
            self.rarity.copy_((len(texts) / counts.clamp(min=1)).log() * (counts > 0))

    def joint(self, features: Tensor, rows: Tensor) -> Tensor:
        """See `BaseModel`; the sum of both projections where there are further encoders."""
        made = super().joint(features, rows)
        if self.beside is None:
            return made
        seen = self._beside(rows)
        return normalize(made + self.beside(seen[:, : seen.shape[1] - self._of_traits]), dim=1)

    def looks(self, features: Tensor, rows: Tensor) -> Tensor:
        """See `BaseModel`; with traits both parts side by side, so that their cosines add up."""
        made = super().looks(features, rows)
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

    def bags(self, texts: Sequence[str]) -> list[list[int]]:
        """Numbers of the different known words of each text; none where words are not read."""
        return [[] if self.words is None else self.vocabulary.known(text) for text in texts]

    def words_of_file(self, where: str) -> Words | None:
        """See `BaseModel`; a library reads an English text by MiniLM alone, and its words beside that."""
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
        return Words(made, self.words.detach()[known], self.rarity[known])

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


class LimnerTask(BaseTask):
    """The batches and losses of `base`, and a loss of the two text sides with the context."""

    model: Limner

    def __init__(self, model: Limner, corpus: Corpus, config: LimnerConfig, parts: Parts) -> None:
        """See `BaseTask`; the context of all training texts is constant, so that it is made once."""
        super().__init__(model, corpus, config, parts)
        self._context = context_of(corpus, torch.cat([self._english, self._foreign], dim=1))
        self._bags = model.bags(corpus.train.texts)

    def readings(self, batch: PictureBatch) -> dict[str, tuple[Tensor, float]]:
        """See `BaseTask`; the sides alone are what a library reads single texts and other languages with."""
        some, device = batch.own_texts, self.model.device
        vectors = (self._english, self._foreign, self._context)
        english, foreign, context = (part[some].to(device) for part in vectors)
        joined = self.model.read(english, foreign, context, [self._bags[row] for row in some.tolist()])
        return super().readings(batch) | {"joined": (whole(joined, batch.text_shares), 1.0)}


def context_of(corpus: Corpus, vectors: Tensor) -> Tensor:
    """(N, W) vectors of all training texts → (N, W) means of the other steps of their stories.

    Of several texts of one picture each stands for its step; what has no story has no context.
    """
    members: dict[str, list[int]] = {}
    for row, pair in enumerate(corpus.train.pairs):
        if pair.seq:
            members.setdefault(pair.seq, []).append(row)
    found = torch.zeros_like(vectors)
    rows = [row for own in members.values() for row in own]
    if rows:
        found[rows] = others_mean(vectors[rows], torch.tensor([len(own) for own in members.values()]))
    return found


class LimnerSystem(BaseSystem):
    """What it declares."""

    name = "limner"
    settings = LimnerConfig  # type: ignore[assignment]
    model = Limner  # type: ignore[assignment]
    training = LimnerTask  # type: ignore[assignment]

    def capabilities(self, config: BaseConfig) -> Capabilities:
        """Reads stories through two encoders of sentences; a library takes the exported sides."""
        assert isinstance(config, LimnerConfig)  # noqa: S101  (its own settings)
        return replace(super().capabilities(config), stories=True, words=config.model.words)

    def gather(self, config: BaseConfig, corpus: Corpus, parts: Parts) -> None:
        """See `BaseSystem`; the fingerprint of the second encoder is kept."""
        super().gather(config, corpus, parts)
        assert parts.multilingual is not None  # noqa: S101  (declared)
        parts.about[KEY] = parts.multilingual.fingerprint
        parts.extra = TRAITS in config.data.beside

    def recall(self, config: BaseConfig, parts: Parts) -> None:
        """The second encoder, if it is the one of training.

        Raises:
            CheckpointError: another version of it is installed.
        """
        found: TextEncoder = sentence_encoder(MULTILINGUAL)
        if parts.about.get(KEY) != found.fingerprint:
            raise CheckpointError(
                f"{parts.where}: trained on vectors of another {found.name} encoder; install"
                " that version of it, or train again"
            )
        parts.multilingual = found
        parts.extra = TRAITS in config.data.beside


SYSTEM = LimnerSystem()
