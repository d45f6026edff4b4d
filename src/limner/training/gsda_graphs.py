"""Scene graphs of a corpus as batches of numbers: from a file, or true ones of drawn pictures.

It detects nothing and encodes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from limner.data.glove import read_glove
from limner.data.scene_graphs import SceneGraph, read_graphs, shuffled_graphs
from limner.data.worlds import world_graphs
from limner.encoders.graph_batches import GraphBatch, batch_graphs, graph_words
from limner.encoders.graph_labels import (
    LabelVectors,
    label_words,
    sentence_label_vectors,
    word_label_vectors,
)
from limner.errors import ConfigError, DataError
from limner.similarity import TextEncoder
from limner.training.corpus import Corpus
from limner.training.gsda_settings import GsdaConfig


@dataclass(frozen=True)
class PictureGraphs:
    """Scene graphs of a corpus' pictures.

    Attributes:
        train: of the training rows, in their order.
        labels: vectors of every label and predicate of the file, of pictures that are never trained on too:
            they are frozen, and a test picture's graph must be readable.
    """

    train: tuple[SceneGraph, ...]
    labels: LabelVectors

    def of_training_rows(self, device: str) -> Callable[[Tensor], GraphBatch]:
        """(S,) training rows → their graphs side by side, on a device."""
        numbers = self.labels.numbers

        def batch(rows: Tensor) -> GraphBatch:
            return batch_graphs([self.train[row] for row in rows.tolist()], numbers).to(device)

        return batch


def picture_graphs(config: GsdaConfig, corpus: Corpus, sentences: TextEncoder | None) -> PictureGraphs:
    """The graphs a run asks for.

    Args:
        config: settings.
        corpus: whose training pictures need one each; an empty graph is one.
        sentences: reads labels where no file of word vectors is named.
    Raises:
        ConfigError: no graphs are named, or no encoder is given.
        DataError: a training picture has no graph, or a damaged file.
    """
    graphs = _graphs(config)
    ids = [pair.image_id for pair in corpus.train.pairs]
    lacking = [name for name in dict.fromkeys(ids) if name not in graphs]
    if lacking:
        raise DataError(
            f"{config.graphs}: no scene graph for {len(lacking)} of {len(set(ids))} training pictures (first:"
            f" {lacking[0]}); write them with limner scenes, an empty graph where nothing is seen"
        )
    words = graph_words(graphs.values())
    if config.label_vectors:
        spelled = {word for label in words for word in label_words(label)}
        labels = word_label_vectors(words, read_glove(config.label_vectors, spelled), config.label_vectors)
    elif sentences is not None:
        labels = sentence_label_vectors(words, sentences)
    else:
        raise ConfigError("gsda: no encoder of sentences for labels was given; or name label_vectors=FILE")
    return PictureGraphs(tuple(graphs[name] for name in ids), labels)


def _graphs(config: GsdaConfig) -> Mapping[str, SceneGraph]:
    """Picture → graph."""
    if config.graphs in ("drawn", "shuffled"):
        true = world_graphs(config.data.stories, config.data.world_seed)
        if config.graphs == "drawn":
            return true
        return {one.image: one for one in shuffled_graphs(list(true.values()), config.loop.seed)}
    if not config.graphs:
        raise ConfigError(
            f"gsda: graph = {config.graph!r} needs scene graphs: write them with limner scenes and add"
            " --set graphs=FILE, or take --set graph=off"
        )
    return read_graphs(Path(config.graphs))
