"""GSDA: a contextual sentence encoder, scene graphs of neighbouring pictures, and captioning as dual task.

All ablations are settings of it.
"""

import json
from pathlib import Path
from typing import Any

import torch

from limner.arrays import TextEncoder
from limner.config import build
from limner.encoders.vocabulary import Vocabulary
from limner.errors import CheckpointError, ConfigError
from limner.research.datasets.word_vectors import read_glove
from limner.research.nn.graphs import GraphEncoder
from limner.research.systems import vse
from limner.research.systems.base import Capabilities, Parts, System
from limner.research.systems.gsda.captioner import Captioner
from limner.research.systems.gsda.graphs import (
    LabelVectors,
    graph_words,
    label_words,
    sentence_label_vectors,
    word_label_vectors,
)
from limner.research.systems.gsda.model import Gsda
from limner.research.systems.gsda.settings import GsdaConfig
from limner.research.systems.gsda.task import GsdaTask, picture_graphs
from limner.research.training.corpus import Corpus
from limner.research.training.settings import AS_SAVED

LABELS = "graphs.label_vectors"
"""Of the labels' vectors, among a run's weights."""


class GsdaSystem(System[GsdaConfig, Gsda]):
    """What it declares."""

    name = "gsda"
    settings = GsdaConfig
    model = Gsda
    training = GsdaTask

    def capabilities(self, config: GsdaConfig) -> Capabilities:
        """Reads stories, and generates them from pictures."""
        keys = config.keys == "sentences"
        by_meaning = config.graph != "off" and not config.label_vectors
        return Capabilities(
            stories=True,
            reads=frozenset({"words", "sentences"} if keys else {"words"}),
            trains_with=frozenset({"sentences"} if by_meaning else ()),
            backbone=config.backbone,
            captions=config.caption != "off",
            margin=config.margin,
        )

    def gather(self, config: GsdaConfig, corpus: Corpus, parts: Parts) -> None:
        """The keys, the words of captions, and the graphs of the training pictures."""
        encoder = parts.sentences
        if config.keys == "vse0":
            parts.sentences, parts.about["keys"] = _vse_keys(config)
        if config.graph != "off":
            labels = graph_labels(config, corpus, encoder)
            parts.tensors = {LABELS: torch.from_numpy(labels.matrix)}
            parts.about["labels"] = list(labels.labels)
            if labels.unknown:
                names = ", ".join(labels.unknown)
                parts.notes = (f"{config.label_file}: no vector for {names}; zeros stand for them",)
        if config.caption != "off":
            texts, data = corpus.train.texts, config.data
            spoken = Vocabulary.build(texts, data.tokeniser, config.caption_min_count)
            parts.about["spoken"] = json.loads(spoken.to_json())

    def recall(self, config: GsdaConfig, parts: Parts) -> None:
        """VSE0 as the run kept it; its weights come with the model's."""
        if config.keys != "vse0":
            return
        kept = parts.about.get("keys")
        try:
            own = build(vse.VseConfig, kept["config"], parts.where, context=AS_SAVED)  # type: ignore[index]
            words = Vocabulary.from_json(json.dumps(kept["vocabulary"]), parts.where)  # type: ignore[index]
            backbone, width = vse.SYSTEM.empty_side(own, int(kept["image_width"]))  # type: ignore[index]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{parts.where}: holds no keys of VSE0 ({error}); train it again"
            ) from error
        parts.sentences = vse.SYSTEM.build(own, Parts(words, width, own.data.max_length, backbone))

    def build(self, config: GsdaConfig, parts: Parts) -> Gsda:
        """The retriever, with the graph encoder and the captioner that the settings ask for."""
        graphs = captioner = None
        if config.graph != "off":
            own = config.graph_model
            graphs = GraphEncoder(
                parts.tensors[LABELS].clone(),
                dim=own.dim,
                width=own.width,
                layers=own.layers,
                convolution=own.convolution,
            )
        if config.caption != "off":
            spoken = Vocabulary.from_json(json.dumps(parts.about.get("spoken")), parts.where)
            captioner = Captioner(
                config.captioner, spoken, image_width=parts.image_width, max_length=parts.max_length
            )
        return Gsda(config.model, parts, graphs, captioner)


SYSTEM = GsdaSystem()


def _vse_keys(config: GsdaConfig) -> tuple[vse.Vse, dict[str, Any]]:
    """A trained VSE0 that other sentences are read through, and what must be kept to build it again."""
    if not config.keys_run:
        raise ConfigError(
            "gsda: keys = 'vse0' needs a trained run of it on the same split: train one (system = 'vse') and"
            " add --set keys_run=FOLDER, or take --set keys=sentences"
        )
    model, trained = vse.SYSTEM.load(Path(config.keys_run))
    if trained.model.text != "words":
        raise ConfigError(
            f"gsda: keys_run {config.keys_run} reads texts through the encoder of sentences, expected one"
            " that learned words; take --set keys=sentences, which needs no run"
        )
    mine, its = config.data, trained.data
    of_split = ("set", "mixture", "split", "split_seed", "test_share", "val_share", "by_source")
    for name in (*of_split, "stories", "world_seed"):
        if getattr(mine, name) != getattr(its, name):
            raise ConfigError(
                f"gsda: keys_run {config.keys_run} was trained with data.{name}={getattr(its, name)!r}, this"
                f" run has {getattr(mine, name)!r}: it may have seen test rows; train it on the same split"
            )
    return model, {
        "config": trained.model_dump(mode="json"),
        "vocabulary": json.loads(model.vocabulary.to_json()),
        "image_width": model.image_width,
    }


def graph_labels(config: GsdaConfig, corpus: Corpus, sentences: TextEncoder | None) -> LabelVectors:
    """Labels and predicates of every picture's graph with their vectors.

    They are frozen, and any picture's graph must be readable.

    Args:
        config: settings.
        corpus: whose training pictures need a graph each; an empty graph is one.
        sentences: reads labels where no file of word vectors is named.
    Raises:
        ConfigError: no graphs are named.
        DataError: a training picture has no graph, or a damaged file.
    """
    labels = graph_words(list(picture_graphs(config, corpus).values()))
    if sentences is None or config.label_vectors:
        words = {word for label in labels for word in label_words(label)}
        return word_label_vectors(labels, read_glove(config.label_file, words))
    return sentence_label_vectors(labels, sentences)
