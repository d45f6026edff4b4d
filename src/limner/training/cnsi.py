"""Training of CNSI and NSI in two stages of one run: sentences with their pictures, then whole stories.

When the second begins, the first is frozen and all its vectors are computed once. It measures nothing itself
and never sees a test row.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn

from limner.data.entity_grid import WIDTH, coherence_vector
from limner.datasets.vocabulary import Vocabulary
from limner.losses.contrastive import sentence_order, story_order
from limner.models.cnsi import Cnsi, CnsiArchitecture
from limner.models.encoding import ENCODE_BATCH, Evaluating, to_tensor
from limner.models.vrss import drawn_features
from limner.training.batches import PairBatch, PairBatches, StoryBatch, StoryBatches, stories_of
from limner.training.corpus import Corpus
from limner.training.prepared import Prepared, picture_side, read_saved, saved_with, start_vectors
from limner.training.settings import Preset, RunConfig

# Without a plateau: the authors keep their rate, and figures of the first stage say nothing about the second.
_LOOP = {"betas": (0.9, 0.999), "lr": 1e-3, "epochs": 170, "plateau_patience": 1_000_000, "metric": "MRR"}
_PRESET: Mapping[str, Any] = {"loop": _LOOP}


class CnsiConfig(RunConfig):
    """One run of CNSI, or of NSI (``model.coherence=0``); all presets are the authors' code.

    Departs: word vectors are learned on the training texts, not GloVe's; there is no training on COCO before;
    duplicates in a batch are no wrong candidates, where the authors draw no such batch.

    Attributes:
        model: see `CnsiArchitecture`.
        sentence_epochs: of the first stage, the first ones of ``loop.epochs``. Until they are over the second
            is untrained and validation near chance.
        sentence_batch: pairs per step of the first stage; ``data.batch`` counts stories, in the second.
        sentence_margin, story_margin: m of either stage, energy units.
        trunk: "stored" features, or fixed colours of "drawings".
    Source: CNSI 2018; docs/methods/gsda.md §8.3.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "release": _PRESET,
        "paper": _PRESET,
        "sound": _PRESET,
    }

    system: Literal["cnsi"] = "cnsi"
    model: CnsiArchitecture = CnsiArchitecture()
    sentence_epochs: int = Field(default=20, ge=0)
    sentence_batch: int = Field(default=128, ge=2)
    sentence_margin: float = Field(default=0.005, gt=0)
    story_margin: float = Field(default=0.05, gt=0)
    trunk: Literal["stored", "drawings"] = "stored"

    @model_validator(mode="after")
    def _leaves_epochs(self) -> "CnsiConfig":
        if self.sentence_epochs >= self.loop.epochs:
            raise ValueError(
                f"sentence_epochs {self.sentence_epochs} of loop.epochs {self.loop.epochs} leave the second"
                " stage none; raise loop.epochs"
            )
        if self.model.coherence not in (0, WIDTH):
            raise ValueError(f"model.coherence {self.model.coherence}, expected {WIDTH}, or 0 for NSI")
        return self

    def smoke(self) -> "CnsiConfig":
        """See `RunConfig.smoke`."""
        small = super().smoke()
        sizes = {"word_width": 12, "dim": 16, "hidden": 8}
        return small.model_copy(
            update={
                "model": self.model.model_copy(update=sizes),
                "sentence_epochs": min(self.sentence_epochs, small.loop.epochs - 1),
                "sentence_batch": min(self.sentence_batch, 8),
            }
        )


@dataclass(frozen=True)
class ToldBatch:
    """A batch of the second stage.

    Attributes:
        stories: whole ones.
        shuffled: (S,) int64, for every step the row of the step of its story that replaces it in negatives.
    """

    stories: StoryBatch
    shuffled: Tensor


class CnsiTask:
    """What the loop trains; see `limner.training.loop.Task`."""

    def __init__(self, model: Cnsi, corpus: Corpus, config: CnsiConfig) -> None:
        """Take what is trained and what it trains on; stories are parsed here."""
        self.model: Cnsi = model
        self._config, self._corpus = config, corpus
        data = config.data.model_copy(update={"batch": config.sentence_batch})
        pairs = config.model_copy(update={"data": data})
        rows, device = corpus.train, model.device
        self._pairs = PairBatches(rows, corpus.pictures, model.vocabulary, pairs, device)
        self._stories = StoryBatches(rows, corpus.pictures, None, config, device)
        self._coherence = torch.zeros(len(rows), config.model.coherence, device=device)
        if model.coherence is not None:
            for story in stories_of(rows.pairs):
                vector = model.coherence([rows.pairs[place].text for place in story])
                self._coherence[torch.from_numpy(story).to(device)] = torch.from_numpy(vector).to(device)
        self._frozen: tuple[Tensor, Tensor] | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of one process in an epoch, on average over both stages."""
        first, epochs = self._config.sentence_epochs, self._config.loop.epochs
        total = first * self._pairs.steps_per_epoch + (epochs - first) * self._stories.steps_per_epoch
        return max(1, round(total / epochs))

    def batches(self, epoch: int) -> Iterator[PairBatch | ToldBatch]:
        """Batches of an epoch: pairs in the first stage, stories in the second."""
        if epoch < self._config.sentence_epochs:
            for chosen, rng in self._pairs.order(epoch):
                yield self._pairs.batch(chosen, rng)
            return
        rng = np.random.default_rng([self._config.loop.seed, epoch, 2])
        for stories in self._stories.batches(epoch):
            yield ToldBatch(stories, torch.from_numpy(shuffled_steps(stories.steps, rng)))

    def step(self, batch: PairBatch | ToldBatch) -> Mapping[str, Tensor]:
        """The order loss of the batch's stage, summed over pairs or per story, as the authors do."""
        config = self._config
        if isinstance(batch, PairBatch):
            out = self.model(batch.words, batch.lengths, batch.pictures)
            return {"total": sentence_order(out.texts, out.images, config.sentence_margin, batch.neg)}
        stories = batch.stories
        sentences, images = self._first_stage()
        steps = stories.steps
        first = (steps.cumsum(0) - steps).to(stories.rows.device)
        coherence = self._coherence[stories.rows[first]] if config.model.coherence else None
        made = self.model.stories(sentences[stories.rows], steps, coherence)
        loss = story_order(
            made,
            images[stories.rows],
            steps,
            batch.shuffled.to(made.device),
            margin=config.story_margin,
            neg=stories.neg,
        )
        return {"total": loss}

    def describe(self, batch: PairBatch | ToldBatch) -> str:
        """Ids of the pairs or steps."""
        return ", ".join(batch.ids if isinstance(batch, PairBatch) else batch.stories.ids)

    def _first_stage(self) -> tuple[Tensor, Tensor]:
        """(N, D) vectors of all training sentences and of their pictures, computed once: they are frozen."""
        if self._frozen is None:
            rows, model, length = self._corpus.train, self.model, self._config.data.max_length
            sentences, images = [], []
            with Evaluating(model):
                for start in range(0, len(rows), ENCODE_BATCH):
                    ids, lengths = model.vocabulary.batch(rows.texts[start : start + ENCODE_BATCH], length)
                    words = torch.from_numpy(ids).to(model.device)
                    sentences.append(model.sentences(words, torch.from_numpy(lengths)))
                    values = self._corpus.pictures.take(rows.places[start : start + ENCODE_BATCH])
                    images.append(model.pictures(to_tensor(values, model.device)))
            self._frozen = torch.cat(sentences), torch.cat(images)
        return self._frozen


def shuffled_steps(steps: Tensor, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows of the steps of B stories, deranged within each story, so that no step keeps its place.

    Args:
        steps: (B,) int64, with sum S.
        rng: draws; every derangement is equally likely.
    Returns:
        (S,); a story of one step stays as it is.
    Source: the release of CNSI 2018; docs/methods/gsda.md §8.3, stage 2.
    """
    found, first = [], 0
    for count in steps.tolist():
        order = rng.permutation(count)
        while count > 1 and bool((order == np.arange(count)).any()):  # a draw in e is one
            order = rng.permutation(count)
        found.append(first + order)
        first += count
    return np.concatenate(found).astype(np.int64)


def prepare(
    config: CnsiConfig, corpus: Corpus, *, device: str = "cpu", backbone: tuple[nn.Module, int] | None = None
) -> Prepared[CnsiTask]:
    """Model and task of a run; words and word vectors come from the training texts alone.

    Args:
        config: settings.
        corpus: training and validation rows.
        device: torch device that trains.
        backbone: not taken: picture features are constants here.
    Raises:
        ShapeError: the stored features are no vectors.
        MissingError: textblob, which reads stories for the coherence vector, is not installed.
    """
    texts = corpus.train.texts
    vocabulary = Vocabulary.build(texts, config.data.tokeniser, config.data.min_count)
    torch.manual_seed(config.loop.seed)
    vectors = start_vectors(config, vocabulary, texts, config.model.word_width)
    features, width = picture_side(config.trunk, corpus)
    model = _model(config, vocabulary, width, features, vectors).to(device)
    stored = corpus.backbone if config.trunk == "stored" else None
    return Prepared(CnsiTask(model, corpus, config), corpus, saved_with(config, vocabulary, width, stored))


def load(path: Path, device: str = "cpu") -> tuple[Cnsi, CnsiConfig]:
    """A trained model in evaluation mode, and the settings it was trained with.

    Args:
        path: folder of a run, or the file of its best weights.
        device: where it goes.
    Raises:
        MissingError: nothing was trained there yet.
        CheckpointError: not a checkpoint of this system, or damaged.
    """
    saved = read_saved(path, CnsiConfig, "cnsi")
    features = drawn_features()[0] if saved.config.trunk == "drawings" else None
    model = _model(saved.config, saved.vocabulary, saved.image_width, features, None)
    return saved.into(model, device), saved.config


def _model(
    config: CnsiConfig,
    vocabulary: Vocabulary,
    width: int,
    features: nn.Module | None,
    vectors: Tensor | None,
) -> Cnsi:
    return Cnsi(
        config.model,
        vocabulary,
        image_width=width,
        max_length=config.data.max_length,
        coherence=coherence_vector if config.model.coherence else None,
        vectors=vectors,
        features=features,
    )
