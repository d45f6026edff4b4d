"""Training of GSDA: a run from its settings, and reading a trained one back.

All ablations are settings of it. It measures nothing itself and never sees a test row.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from limner.arrays import TextEncoder
from limner.config import build
from limner.datasets.vocabulary import Vocabulary
from limner.errors import CheckpointError, ConfigError
from limner.models.captioner import Captioner
from limner.models.gsda import Gsda, graph_encoder
from limner.models.vrss import drawn_features
from limner.models.vse import Vse
from limner.training import vse
from limner.training.corpus import Corpus
from limner.training.gsda_graphs import picture_graphs
from limner.training.gsda_settings import GsdaConfig
from limner.training.gsda_task import GsdaTask
from limner.training.prepared import (
    Prepared,
    Saved,
    mean_feature,
    picture_side,
    read_saved,
    saved_with,
    start_vectors,
)
from limner.training.vse import VseConfig


def prepare(
    config: GsdaConfig,
    corpus: Corpus,
    *,
    device: str = "cpu",
    backbone: tuple[nn.Module, int] | None = None,
    sentences: TextEncoder | None = None,
) -> Prepared[GsdaTask]:
    """Model and task of a run; words, word vectors and the mean feature come from training rows alone.

    Args:
        config: settings.
        corpus: training and validation rows.
        device: torch device that trains.
        backbone: not taken: features are constants here.
        sentences: frozen encoder of texts, where the settings need one.
    Raises:
        ConfigError: an encoder of sentences, the run of VSE0 or the scene graphs are missing, or do not fit.
        ShapeError: the stored features are no vectors.
    """
    texts, data = corpus.train.texts, config.data
    vocabulary = Vocabulary.build(texts, data.tokeniser, data.min_count)
    torch.manual_seed(config.loop.seed)
    vectors = start_vectors(config, vocabulary, texts, config.model.word_width)
    features, width = picture_side(config.trunk, corpus)
    keys, about_keys = _keys(config, sentences)
    graphs = picture_graphs(config, corpus, sentences) if config.graph != "off" else None
    told = Vocabulary.build(texts, data.tokeniser, config.caption_min_count)
    model = Gsda(
        config.model,
        vocabulary,
        keys,
        image_width=width,
        max_length=data.max_length,
        vectors=vectors,
        features=features,
        graphs=None
        if graphs is None
        else graph_encoder(config.graph_model, torch.from_numpy(graphs.labels.matrix)),
        captioner=_captioner(config, told, width),
        labels=() if graphs is None else graphs.labels.labels,
    ).to(device)
    if config.model.centre:
        model.centre.copy_(mean_feature(corpus, model.described))
    stored = corpus.backbone if config.trunk == "stored" else None
    saved = saved_with(config, vocabulary, width, stored) | about_keys
    if model.captioner is not None:
        saved["told"] = json.loads(told.to_json())
    if graphs is not None:
        saved["labels"] = list(graphs.labels.labels)
    strange = () if graphs is None else graphs.labels.unknown
    notes = (f"{config.label_vectors}: no vector for {', '.join(strange)}; zeros stand for them",)
    return Prepared(GsdaTask(model, corpus, config, graphs), corpus, saved, notes if strange else ())


def load(path: Path, device: str = "cpu", sentences: TextEncoder | None = None) -> tuple[Gsda, GsdaConfig]:
    """A trained model in evaluation mode, and the settings it was trained with.

    Args:
        path: folder of a run, or the file of its best weights.
        device: where it goes.
        sentences: encoder of texts, where the run has one; None for the one that needs no download.
    Raises:
        MissingError: nothing was trained there yet.
        CheckpointError: not a checkpoint of this system, damaged, or of another encoder of sentences.
    """
    saved = read_saved(path, GsdaConfig, "gsda")
    config, about = saved.config, saved.about
    keys: TextEncoder = saved.same_sentences(sentences) if config.keys == "sentences" else _kept_vse(saved)
    graphs = None
    if config.graph != "off":
        shape = saved.tensors["graphs.label_vectors"].shape
        graphs = graph_encoder(config.graph_model, torch.zeros(shape))
    told = None
    if config.caption != "off":
        told = Vocabulary.from_json(json.dumps(about.get("told")), saved.where)
    model = Gsda(
        config.model,
        saved.vocabulary,
        keys,
        image_width=saved.image_width,
        max_length=config.data.max_length,
        features=drawn_features()[0] if config.trunk == "drawings" else None,
        graphs=graphs,
        captioner=_captioner(config, told, saved.image_width),
        labels=tuple(about.get("labels", ())),
    )
    return saved.into(model, device), config


def _captioner(config: GsdaConfig, told: Vocabulary | None, width: int) -> Captioner | None:
    if config.caption == "off" or told is None:
        return None
    return Captioner(config.captioner, told, image_width=width, max_length=config.data.max_length)


def _keys(config: GsdaConfig, sentences: TextEncoder | None) -> tuple[TextEncoder, dict[str, Any]]:
    """What other sentences are heard through, and what `load` must know of it."""
    if config.keys == "sentences":
        if sentences is None:
            raise ConfigError("gsda: keys = 'sentences', but no encoder of sentences was given")
        return sentences, {"sentences": sentences.fingerprint}
    if not config.keys_run:
        raise ConfigError(
            "gsda: keys = 'vse0' needs a trained run of it on the same split: train one (system = 'vse') and"
            " add --set keys_run=FOLDER, or take --set keys=sentences"
        )
    saved = read_saved(Path(config.keys_run), VseConfig, "vse")
    model, trained = vse.load(Path(config.keys_run))
    mine, its = config.data, trained.data
    for name in ("set", "split", "split_seed", "by_source", "stories", "world_seed"):
        if getattr(mine, name) != getattr(its, name):
            raise ConfigError(
                f"gsda: keys_run {config.keys_run} was trained with data.{name}={getattr(its, name)!r}, this"
                f" run has {getattr(mine, name)!r}: it may have seen test rows; train it on the same split"
            )
    about = {
        "config": trained.model_dump(mode="json"),
        "vocabulary": json.loads(saved.vocabulary.to_json()),
        "image_width": model.project.in_features,
    }
    return model, {"keys": about}


def _kept_vse(saved: Saved[GsdaConfig]) -> Vse:
    """VSE0 as the run kept it; its weights come with the model's."""
    about = saved.about.get("keys")
    try:
        config = build(VseConfig, about["config"], saved.where)  # type: ignore[index]
        words = Vocabulary.from_json(json.dumps(about["vocabulary"]), saved.where)  # type: ignore[index]
        width = int(about["image_width"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{saved.where}: holds no keys of VSE0 ({error}); train it again") from error
    return Vse(config.model, words, image_width=width, max_length=config.data.max_length)
