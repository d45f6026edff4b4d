"""Scene graphs of the training pictures: from a file, or those of drawn pictures.

It detects nothing and encodes nothing.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from limner.arrays import TextEncoder
from limner.datasets.sets.picturebook import world_graphs
from limner.datasets.word_vectors import read_glove
from limner.errors import ConfigError, DataError
from limner.models.picture_graphs import PictureGraphs, label_vectors
from limner.scenes.graphs import SceneGraph, read_graphs
from limner.training.corpus import Corpus
from limner.training.gsda_settings import GsdaConfig


def picture_graphs(config: GsdaConfig, corpus: Corpus, sentences: TextEncoder | None) -> PictureGraphs:
    """The graphs of the training rows, in their order.

    Args:
        config: settings.
        corpus: whose training pictures need one each; an empty graph is one.
        sentences: reads labels where no file of word vectors is named.
    Raises:
        ConfigError: no graphs are named, or no encoder is given.
        DataError: a training picture has no graph, or a damaged file.
    """
    graphs = graphs_of(config)
    ids = [pair.image_id for pair in corpus.train.pairs]
    lacking = [name for name in dict.fromkeys(ids) if name not in graphs]
    if lacking:
        raise DataError(
            f"{config.graphs}: no scene graph for {len(lacking)} of {len(set(ids))} training pictures (first:"
            f" {lacking[0]}); write them with limner scenes, an empty graph where nothing is seen"
        )
    glove = partial(read_glove, config.label_vectors) if config.label_vectors else None
    labels = label_vectors(list(graphs.values()), words=glove, sentences=sentences)
    return PictureGraphs(tuple(graphs[name] for name in ids), labels)


def graphs_of(config: GsdaConfig) -> Mapping[str, SceneGraph]:
    """Picture → graph, of every picture that has one.

    Raises:
        ConfigError: no graphs are named.
        MissingError, DataError: see `limner.scenes.graphs.read_graphs`.
    """
    if config.graphs in ("drawn", "shuffled"):
        shuffled = config.loop.seed if config.graphs == "shuffled" else None
        return world_graphs(config.data.stories, config.data.world_seed, shuffled=shuffled)
    if not config.graphs:
        raise ConfigError(
            f"gsda: graph = {config.graph!r} needs scene graphs: write them with limner scenes and add"
            " --set graphs=FILE, or take --set graph=off"
        )
    return read_graphs(Path(config.graphs))
