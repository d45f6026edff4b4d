"""CNSI and NSI: order embeddings of sentences and pictures, then recurrent layers over a story.

CNSI also uses the story's entity grid: the roles (subject, object, other) of entities in consecutive
sentences. Retrieval is by order energy, which is not a product of vectors.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.arrays import FloatArray, expect
from limner.config import Record
from limner.errors import ShapeError
from limner.research.datasets.entity_grid import WIDTH, coherence_vector
from limner.research.losses.contrastive import sentence_order, story_order
from limner.research.nn.words import in_stories, states
from limner.research.systems.base import (
    ENCODE_BATCH,
    NO_COSINE,
    Capabilities,
    ModelParts,
    System,
    evaluating,
    to_tensor,
)
from limner.research.systems.text_side import StoryModel, TextModel, TextReader, TextSide, TextTask, reading
from limner.research.training.corpus import Batch, Corpus, TrainingBatches, stories_of
from limner.research.training.settings import RunConfig, every_preset

_BLOCK_FLOATS = 1 << 24  # largest number of floats in the table of differences while scoring


class CnsiArchitecture(Record):
    """Sizes and parts of the model.

    Attributes:
        text: sentence encoder: "words" is a GRU over trained word vectors; "sentences" a linear layer over a
            frozen sentence encoder, as a control for systems that use one.
        word_width: E, dimension of word vectors.
        dim: D, dimension of the order space and of the last recurrent layer.
        hidden: hidden size of the first two recurrent layers over a story.
        dropout: dropout rate of sentence vectors in the second stage.
        coherence: dimension of the coherence vector; 0 for NSI.
    Source: CNSI 2018; docs/methods/gsda.md §8.3, §8.5.
    """

    text: TextSide = "words"
    word_width: int = Field(default=300, ge=1)
    dim: int = Field(default=1024, ge=1)
    hidden: int = Field(default=512, ge=1)
    dropout: float = Field(default=0.2, ge=0, lt=1)
    coherence: int = Field(default=64, ge=0)


class CnsiConfig(RunConfig):
    """Settings of CNSI, or of NSI (``model.coherence=0``); all presets follow the authors' code.

    Departs: GloVe vectors are trained further, not frozen; there is no pretraining on COCO; duplicates in a
    batch do not count as wrong candidates (the authors avoid such batches).

    Attributes:
        model: see `CnsiArchitecture`.
        sentence_epochs: epochs of the first stage, included in ``loop.epochs``. During these the second stage
            is untrained, so validation figures are near chance.
        sentence_batch: pairs per step of the first stage; ``data.batch`` is stories per step of the second.
        sentence_margin, story_margin: margins m of the two stages, energy units.
        backbone: "frozen" features, or fixed colours of "drawings".
    Source: CNSI 2018; docs/methods/gsda.md §8.3.
    """

    PRESETS = every_preset(
        {
            # so much patience keeps the rate constant, as the authors do; validation during the first stage
            # says nothing about the second
            "loop": {"betas": (0.9, 0.999), "lr": 1e-3, "epochs": 170, "plateau_patience": 1_000_000}
            | {"metric": "MRR"},
            "data": {"vectors": "glove"},
        }
    ) | {
        "laptop": {
            "sentence_epochs": 10,
            "loop": {"epochs": 40},
            "data": {"backbone": "resnet50", "vectors": "cbow"},
        }
    }
    ROW: ClassVar[frozenset[str]] = frozenset({"model.coherence", "model.text"})
    SMOKE: ClassVar[Mapping[str, Any]] = {"model": {"word_width": 12, "dim": 16, "hidden": 8}}

    system: Literal["cnsi"] = "cnsi"
    model: CnsiArchitecture = CnsiArchitecture()
    sentence_epochs: int = Field(default=20, ge=0)
    sentence_batch: int = Field(default=128, ge=2)
    sentence_margin: float = Field(default=0.005, gt=0)
    story_margin: float = Field(default=0.05, gt=0)
    backbone: Literal["frozen", "drawings"] = "frozen"

    @model_validator(mode="after")
    def _leaves_epochs(self) -> "CnsiConfig":
        if self.sentence_epochs >= self.loop.epochs:
            raise ValueError(
                f"sentence_epochs {self.sentence_epochs} of loop.epochs {self.loop.epochs}: no epoch is left"
                " for the second stage; raise loop.epochs"
            )
        if self.model.coherence not in (0, WIDTH):
            raise ValueError(f"model.coherence {self.model.coherence}: expected {WIDTH}, or 0 for NSI")
        return self

    def smoke(self) -> "CnsiConfig":
        """See `RunConfig.smoke`."""
        small = super().smoke()
        return small.model_copy(
            update={
                "sentence_epochs": min(self.sentence_epochs, small.loop.epochs - 1),
                "sentence_batch": min(self.sentence_batch, 8),
            }
        )


class Cnsi(TextModel, StoryModel):
    """The CNSI model."""

    name = "cnsi"

    def __init__(self, architecture: CnsiArchitecture, parts: ModelParts) -> None:
        """Initialise the weights at random, from torch's generator.

        Raises:
            ShapeError: the word vectors have another shape.
        """
        super().__init__(architecture, parts)
        own = architecture
        self.features = parts.backbone
        self.reader = TextReader("cnsi", parts, word_width=own.word_width, dim=own.dim)
        self.project = nn.Linear(parts.image_width, own.dim)
        self.dropout = nn.Dropout(own.dropout)
        self.story = nn.ModuleList(
            nn.GRU(before, after, batch_first=True)
            for before, after in ((own.dim, own.hidden), (own.hidden, own.hidden), (own.hidden, own.dim))
        )
        self.out = nn.Linear(own.dim + own.coherence, own.dim)

    def sentences(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Non-negative unit vectors (S, D) of sentences.

        Args:
            words: (S, L) int64 words, or (S, W) sentence vectors.
            lengths: (S,) lengths on the CPU.

        Raises:
            ShapeError: the sizes contradict each other.
        """
        return normalize(self.reader(words, lengths), dim=1).abs()

    def pictures(self, pictures: Tensor) -> Tensor:
        """(M, F) features, or input of `features` → (M, D) non-negative unit vectors."""
        return normalize(self.project(normalize(self.described(pictures), dim=1)), dim=1).abs()

    def stories(self, sentences: Tensor, steps: Tensor, coherence: Tensor | None) -> Tensor:
        """Second stage: sentence vectors of B stories → query vectors for the pictures of each step.

        Args:
            sentences: (S, D) sentence vectors, the stories concatenated.
            steps: (B,) int64 on the CPU, steps per story, at least 1, with sum S.
            coherence: (B, C) coherence vectors; None for NSI.
        Returns:
            (S, D) non-negative unit vectors.
        Raises:
            ShapeError: the sizes contradict each other.
        """
        padded, real = in_stories("cnsi", self.dropout(sentences), steps)
        for layer in self.story:
            padded = states(cast(nn.GRU, layer), padded, steps)
        read = padded[real]
        if self.architecture.coherence:
            if coherence is None:
                raise ShapeError("cnsi: no coherence vectors, expected one per story")
            expect("cnsi", coherence=(coherence, f"{len(steps)} {self.architecture.coherence}"))
            read = torch.cat([read, coherence.repeat_interleave(steps.to(coherence.device), dim=0)], dim=1)
        return normalize(self.out(read), dim=1).abs()

    def score(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, D) and (M, D) → (N, M): negative order energy, in blocks to limit memory.

        Source: CNSI 2018; docs/methods/gsda.md §8.3.
        """
        held = (torch.from_numpy(np.array(part, np.float32)).to(self.device) for part in (texts, images))
        found: FloatArray = self.products(*held).cpu().numpy()
        return found

    def products(self, texts: Tensor, images: Tensor) -> Tensor:
        """See `Model.products`."""
        sizes = expect("cnsi.score", texts=(texts, "N D"), images=(images, "M D"))
        found = texts.new_empty(sizes["N"], sizes["M"])
        rows = max(1, _BLOCK_FLOATS // max(1, images.numel()))
        columns = max(1, _BLOCK_FLOATS // max(1, images.shape[1]))
        for top in range(0, sizes["N"], rows):
            for left in range(0, sizes["M"], columns):
                over = texts[top : top + rows, None] - images[left : left + columns]
                found[top : top + rows, left : left + columns] = -over.clamp_(min=0).square_().sum(dim=2)
        return found

    def together(self, stories: Sequence[Sequence[str]]) -> Tensor:
        """See `StoryModel`; a step depends on the steps up to it, and on its story's coherence vector."""
        sentences = self.sentences(*self.numbers([text for story in stories for text in story]))
        coherence = None
        if self.architecture.coherence:
            found = np.stack([coherence_vector(story) for story in stories])
            coherence = torch.from_numpy(found).to(self.device)
        return self.stories(sentences, torch.tensor([len(story) for story in stories]), coherence)


@dataclass(frozen=True)
class StoryBatch:
    """A batch of the second stage.

    Attributes:
        stories: batch of whole stories.
        shuffled: (S,) int64, for each step the row of the step of the same story that replaces it in
            negatives.
    """

    stories: Batch
    shuffled: Tensor


class CnsiTask(TextTask[CnsiConfig, Cnsi]):
    """Two-stage training: sentences with their pictures, then whole stories with the first stage frozen."""

    def __init__(self, model: Cnsi, corpus: Corpus, config: CnsiConfig, parts: ModelParts) -> None:
        """Prepare training: compute the coherence vectors of all training stories, unless this is NSI."""
        super().__init__(model, corpus, config, parts)
        self._corpus, rows, device = corpus, corpus.train, model.device
        self._pairs = TrainingBatches(corpus, model.vocabulary, config, device, size=config.sentence_batch)
        self._stories = TrainingBatches(corpus, None, config, device, stories=True)
        self._coherence = torch.zeros(len(rows), config.model.coherence, device=device)
        if config.model.coherence:
            for story in stories_of(rows.pairs):
                vector = coherence_vector([rows.pairs[place].text for place in story])
                self._coherence[torch.from_numpy(story).to(device)] = torch.from_numpy(vector).to(device)
        self._frozen: tuple[Tensor, Tensor] | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches per epoch, averaged over both stages and rounded up."""
        first, epochs = self.config.sentence_epochs, self.config.loop.epochs
        total = first * self._pairs.steps_per_epoch + (epochs - first) * self._stories.steps_per_epoch
        return max(1, math.ceil(total / epochs))

    def batches(self, epoch: int) -> Iterator[Batch | StoryBatch]:
        """Batches of an epoch: pairs in the first stage, stories in the second."""
        if epoch < self.config.sentence_epochs:
            yield from self._pairs.batches(epoch)
            return
        rng = np.random.default_rng([self.config.loop.seed, epoch, 2])
        for stories in self._stories.batches(epoch):
            yield StoryBatch(stories, torch.from_numpy(shuffled_steps(stories.steps, rng)))

    def step(self, batch: Batch | StoryBatch) -> Mapping[str, Tensor]:
        """The order loss of the current stage, reduced as in the authors' code."""
        config = self.config
        if isinstance(batch, Batch):
            texts = batch.all_gather(self.model.sentences(self.texts(batch), batch.lengths))
            images = batch.all_gather(self.model.pictures(batch.pictures))
            return {"total": sentence_order(texts, images, config.sentence_margin, batch.neg)}
        stories = batch.stories
        sentences, images = self._first_stage()
        steps, rows = stories.own_steps, stories.own_rows
        first = (steps.cumsum(0) - steps).to(rows.device)
        coherence = self._coherence[rows[first]] if config.model.coherence else None
        made = stories.all_gather(self.model.stories(sentences[rows], steps, coherence))
        loss = story_order(
            made,
            images[stories.rows],
            stories.steps,
            batch.shuffled.to(made.device),
            margin=config.story_margin,
            neg=stories.neg,
        )
        return {"total": loss}

    def describe(self, batch: Batch | StoryBatch) -> str:
        """Ids of the pairs or steps."""
        return ", ".join(batch.ids if isinstance(batch, Batch) else batch.stories.ids)

    def _first_stage(self) -> tuple[Tensor, Tensor]:
        """(N, D) vectors of all training sentences and of their pictures, cached because they are frozen."""
        if self._frozen is None:
            rows, model = self._corpus.train, self.model
            sentences, images = [], []
            with evaluating(model):
                for start in range(0, len(rows), ENCODE_BATCH):
                    texts = rows.texts[start : start + ENCODE_BATCH]
                    sentences.append(model.sentences(*model.numbers(texts)))
                    values = self._corpus.pictures.take(rows.places[start : start + ENCODE_BATCH])
                    images.append(model.pictures(to_tensor(values, model.device)))
            self._frozen = torch.cat(sentences), torch.cat(images)
        return self._frozen


def shuffled_steps(steps: Tensor, rng: np.random.Generator) -> NDArray[np.int64]:
    """A random derangement of the steps within each of B stories.

    Args:
        steps: (B,) int64, steps per story, with sum S.
        rng: random generator; every derangement is equally likely.
    Returns:
        (S,) rows; a story of one step is unchanged.
    Source: the release of CNSI 2018; docs/methods/gsda.md §8.3, stage 2.
    """
    found, first = [], 0
    for count in steps.tolist():
        order = rng.permutation(count)
        while count > 1 and bool((order == np.arange(count)).any()):  # one in e permutations is a derangement
            order = rng.permutation(count)
        found.append(first + order)
        first += count
    return np.concatenate(found).astype(np.int64)


class CnsiSystem(System[CnsiConfig, Cnsi]):
    """Registration of CNSI and NSI."""

    name = "cnsi"
    settings = CnsiConfig
    model = Cnsi
    training = CnsiTask

    def capabilities(self, config: CnsiConfig) -> Capabilities:
        """Encodes whole stories and scores by order energy."""
        return reading(
            config.model.text, Capabilities(stories=True, no_library=NO_COSINE, backbone=config.backbone)
        )


SYSTEM = CnsiSystem()
