"""Builds, trains or fits a model, from settings and training rows to the best weights in a folder.

The model is built from the vocabulary, word vectors and image encoder that its settings require, then trained
by the loop.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

import torch
from torch import nn

from limner.arrays import TextEncoder
from limner.encoders.vocabulary import Vocabulary
from limner.errors import CheckpointError, ConfigError, ShapeError
from limner.research.datasets.word_vectors import read_glove
from limner.research.nn.words import glove_vectors, learn_vectors
from limner.research.systems.base import (
    C,
    Capabilities,
    M,
    ModelParts,
    System,
    SystemTask,
    drawing_backbone,
)
from limner.research.training import processes
from limner.research.training.checkpoint import Position
from limner.research.training.corpus import Corpus
from limner.research.training.loop import Event, Loop


@dataclass(frozen=True)
class Prepared(Generic[M]):
    """A run that is ready to train.

    Attributes:
        task: task for the loop.
        saved_with: values stored with the weights; `System.load` reads them.
        notes: notes for the user.
    """

    task: SystemTask[Any, M]
    saved_with: dict[str, Any]
    notes: tuple[str, ...] = ()


def prepare(
    own: System[C, M],
    config: C,
    corpus: Corpus,
    *,
    device: str = "cpu",
    pretrained: tuple[nn.Module, int] | None = None,
    sentences: TextEncoder | None = None,
    multilingual: TextEncoder | None = None,
) -> Prepared[M]:
    """Build the model and task of a run; the vocabulary comes only from the training texts.

    Args:
        own: the system.
        config: settings.
        corpus: training and validation rows.
        device: torch device.
        pretrained: for backbone "finetune": a network from bytes to features with loaded weights, and its
            width.
        sentences: frozen sentence encoder, if the system needs one.
        multilingual: frozen multilingual encoder, if the system needs one.
    Raises:
        CheckpointError: backbone "finetune" without pretrained weights; random ones are never used.
        ConfigError: the system is fitted without gradients, an encoder is missing, or the settings contradict
            the data.
        ShapeError: the stored features are of another layer.
    """
    can, texts = own.capabilities(config), corpus.train.texts
    if not can.gradients:
        raise ConfigError(f"{own.name}: is fitted without gradients; use limner train, which fits it")
    if "sentences" in can.reads and sentences is not None:
        from limner.encoders.text_cache import ValidationTextCache

        sentences = ValidationTextCache(sentences, corpus.val.texts)
    for name, given in (("sentences", sentences), ("multilingual", multilingual)):
        if name in can.encoders and given is None:
            raise ConfigError(f"{own.name}: no sentence encoder was given")
    data = config.data
    vocabulary = Vocabulary.build(texts if "words" in can.reads else [], data.tokeniser, data.min_count)
    torch.manual_seed(config.loop.seed)
    vectors = None
    if "words" in can.reads and data.vectors != "random":
        width, seed = config.model.word_width, config.loop.seed
        vectors = torch.from_numpy(
            glove_vectors(
                read_glove(data.glove, {*vocabulary.words, *map(str.lower, vocabulary.words)}),
                vocabulary,
                where=data.glove,
                width=width,
                seed=seed,
            )
            if data.vectors == "glove"
            else learn_vectors(texts, vocabulary, width=width, epochs=data.vector_epochs, seed=seed)
        )
    backbone, width = _picture_side(own.name, can, corpus, pretrained)
    parts = ModelParts(
        vocabulary,
        width,
        data.max_length,
        backbone,
        vectors,
        sentences if "sentences" in can.encoders else None,
        multilingual if "multilingual" in can.encoders else None,
    )
    own.prepare_parts(config, corpus, parts)
    model = own.build(config, parts).to(device)
    model.precision = config.loop.precision
    model.fit_constants(corpus)
    saved = own.saved_with(config, corpus, vocabulary, width)
    if "sentences" in can.reads and parts.sentences is not None:
        saved["sentences"] = parts.sentences.fingerprint
    task = own.training(model, corpus, config, parts)
    return Prepared(task, saved | parts.about, parts.notes)


def _picture_side(
    name: str, can: Capabilities, corpus: Corpus, pretrained: tuple[nn.Module, int] | None
) -> tuple[nn.Module | None, int]:
    """Network from a batch of pictures to features (None if they are stored), and their width F."""
    if can.backbone == "drawings":
        return drawing_backbone(can)
    if can.backbone == "finetune":
        if pretrained is None:
            raise CheckpointError(
                f"{name}: backbone 'finetune' needs pretrained weights of data.backbone; none were given"
            )
        return pretrained[0].requires_grad_(requires_grad=True), pretrained[1]
    shape = corpus.pictures.take(corpus.train.places[:1]).shape
    axes, form = (3, "a grid (P, F)") if can.layer == "grid" else (2, "vectors (F,)")
    if len(shape) != axes:
        raise ShapeError(f"{name}: features have shape {shape[1:]}, expected {form}")
    return None, int(shape[-1])


def fit(
    own: System[C, M],
    config: C,
    corpus: Corpus,
    folder: Path,
    *,
    validate: Callable[[Any], Mapping[str, float]],
    maximise: bool,
    report: Callable[[Event], object] = lambda event: None,
    note: Callable[[str], object] = lambda line: None,
    **given: Any,  # noqa: ANN401  (as `prepare`)
) -> tuple[Position, bool]:
    """Train or fit a model in a folder; return the final position, and whether training is finished.

    Args:
        own: the system.
        config: settings.
        corpus: training and validation rows.
        folder: folder of the run.
        validate: function that measures a model on the validation rows.
        maximise: whether higher values of ``loop.metric`` are better.
        report: called for every step and epoch; returns True to stop.
        note: called with notes for the user.
        given: device, backbone and encoders, see `prepare`.
    """
    if not own.capabilities(config).gradients:
        return own.fit(config, corpus, folder, validate=validate, maximise=maximise, report=report)
    prepared = prepare(own, config, corpus, **given)
    for line in prepared.notes:
        note(line)
    run = Loop(
        prepared.task,
        config.loop,
        folder,
        validate=validate,
        maximise=maximise,
        report=report,
        saved_with=prepared.saved_with,
        val_pairs=len(corpus.val),
    )
    position = run.fit()
    if run.finished and processes.rank() == 0:
        prepared.task.close(folder)
    return position, run.finished
