"""Training of complementary samples: a run from its settings, and reading a trained one back.

All rows of the tables are settings of it. It measures nothing itself and never sees a test row; the
neighbour graph is of training texts alone.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from limner.arrays import FloatArray, TextEncoder
from limner.datasets.features import Features
from limner.datasets.neighbours import build_graph, stored_graph
from limner.datasets.vocabulary import Vocabulary
from limner.datasets.word_vectors import document_vectors
from limner.errors import ConfigError
from limner.models.pvse import Pvse
from limner.training.complementary_settings import ComplementaryConfig
from limner.training.complementary_task import ComplementaryTask
from limner.training.corpus import Corpus, Rows
from limner.training.prepared import Prepared, read_saved, saved_with, start_vectors
from limner.training.trunks import rebuilt, started

GRAPHS = "graphs"  # below the feature stores


def prepare(
    config: ComplementaryConfig,
    corpus: Corpus,
    *,
    device: str = "cpu",
    backbone: tuple[nn.Module, int] | None = None,
    sentences: TextEncoder | None = None,
) -> Prepared[ComplementaryTask]:
    """Model and task of a run; words, word vectors and neighbours come from the training texts alone.

    Args:
        config: settings.
        corpus: training and validation rows.
        device: torch device that trains.
        backbone: for trunk "finetune", pretrained, bytes to grids (B, P, F), and its width F.
        sentences: for graph.vectors "sentences".
    Raises:
        CheckpointError: trunk "finetune" without a backbone: it never starts from random weights.
        ConfigError: sentences are asked for and no encoder is given.
        ShapeError: the stored features are no grids.
    """
    texts = corpus.train.texts
    vocabulary = Vocabulary.build(texts, config.data.tokeniser, config.data.min_count)
    torch.manual_seed(config.loop.seed)
    vectors = start_vectors(config, vocabulary, texts, config.model.word_width)
    trunk, width = started("complementary", config.trunk, "grid", corpus, backbone)
    model = Pvse(
        config.model,
        vocabulary,
        image_width=width,
        max_length=config.data.max_length,
        vectors=vectors,
        trunk=trunk,
    ).to(device)
    kept = Path(config.data.features) / GRAPHS if isinstance(corpus.pictures, Features) else None
    neighbours = _neighbours(config, corpus.train, sentences, kept) if config.needs_graph else None
    task = ComplementaryTask(model, corpus.train, corpus.pictures, config, neighbours)
    stored = corpus.backbone if config.trunk == "stored" else None
    return Prepared(task, corpus, saved_with(config, vocabulary, width, stored))


def load(path: Path, device: str = "cpu") -> tuple[Pvse, ComplementaryConfig]:
    """A trained model in evaluation mode, and the settings it was trained with.

    Args:
        path: folder of a run, or the file of its best weights.
        device: where it goes.
    Raises:
        MissingError: nothing was trained there yet.
        CheckpointError: not a checkpoint of this system, or damaged.
    """
    saved = read_saved(path, ComplementaryConfig, "complementary")
    config = saved.config
    trunk, width = rebuilt(config.trunk, "grid", config.data.backbone, saved.image_width)
    length = config.data.max_length
    model = Pvse(config.model, saved.vocabulary, image_width=width, max_length=length, trunk=trunk)
    return saved.into(model, device), config


def _neighbours(
    config: ComplementaryConfig, rows: Rows, sentences: TextEncoder | None, kept: Path | None
) -> NDArray[np.int32]:
    """(n, N) neighbours of the training texts, −1 where there are fewer; kept in a folder if one is named."""
    graph = config.graph
    found: FloatArray
    if graph.vectors == "sentences":
        if sentences is None:
            raise ConfigError(
                "complementary: graph.vectors='sentences' needs an encoder; none was given, so use 'doc2vec'"
            )
        found = sentences.encode_text(rows.texts)
    else:
        found = document_vectors(
            rows.texts,
            size=graph.width,
            min_count=graph.min_count,
            epochs=graph.epochs,
            seed=config.loop.seed,
        )
    settings: Any = {"size": graph.size, "method": graph.method}
    ids: Any = {"text_ids": rows.text_ids, "image_ids": rows.image_ids}
    if kept is not None:
        return stored_graph(kept, found, **ids, **settings).neighbours
    return build_graph(found, **ids, **settings).neighbours
