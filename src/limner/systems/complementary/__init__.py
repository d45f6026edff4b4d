"""Complementary samples: weights that make loosely aligned pairs count, over a polysemous embedding.

All rows of the tables are settings of it; the neighbour graph is of training texts alone.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limner.arrays import FloatArray
from limner.datasets.features import Features
from limner.datasets.neighbours import build_graph, stored_graph
from limner.datasets.word_vectors import document_vectors
from limner.systems.base import Capabilities, Parts, System
from limner.systems.complementary.config import ComplementaryConfig
from limner.systems.complementary.model import Pvse
from limner.systems.complementary.task import ComplementaryTask
from limner.training.corpus import Corpus

GRAPHS = "graphs"  # below the feature stores


class ComplementarySystem(System[ComplementaryConfig, Pvse]):
    """What it declares."""

    name = "complementary"
    settings = ComplementaryConfig

    def capabilities(self, config: ComplementaryConfig) -> Capabilities:
        """Several vectors per text and picture, from grids."""
        return Capabilities(
            vectors=config.model.heads,
            cosine=False,
            sentences=config.needs_graph and config.graph.vectors == "sentences",
            backbone=config.backbone,
            layer="grid",
            trains_backbone=True,
            margin=config.margin,
        )

    def build(self, config: ComplementaryConfig, parts: Parts) -> Pvse:
        """The model."""
        return Pvse(
            config.model,
            parts.vocabulary,
            image_width=parts.image_width,
            max_length=config.data.max_length,
            vectors=parts.vectors,
            backbone=parts.backbone,
        )

    def task(
        self, model: Pvse, corpus: Corpus, config: ComplementaryConfig, parts: Parts
    ) -> ComplementaryTask:
        """Batches of pairs, with the neighbours of the training texts where they are looked at."""
        neighbours = _neighbours(config, corpus, parts) if config.needs_graph else None
        return ComplementaryTask(model, corpus, config, neighbours)


SYSTEM = ComplementarySystem()


def _neighbours(config: ComplementaryConfig, corpus: Corpus, parts: Parts) -> NDArray[np.int32]:
    """(n, N) neighbours of the training texts, −1 where there are fewer; kept beside stored features."""
    graph, rows = config.graph, corpus.train
    found: FloatArray
    if parts.sentences is not None:
        found = parts.sentences.encode_text(rows.texts)
    else:
        found = document_vectors(
            rows.texts,
            size=graph.width,
            min_count=graph.min_count,
            epochs=graph.epochs,
            seed=config.loop.seed,
        )
    settings: Any = {"size": graph.size, "method": graph.method}
    settings |= {"text_ids": rows.text_ids, "image_ids": rows.image_ids}
    if isinstance(corpus.pictures, Features):
        return stored_graph(Path(config.data.features) / GRAPHS, found, **settings)
    return build_graph(found, **settings)
