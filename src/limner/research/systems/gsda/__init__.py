"""GSDA: contextual sentence encoder, scene graphs of consecutive pictures, and captioning as dual task.

Each ablation is a setting.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from limner.arrays import TextEncoder
from limner.config import build
from limner.encoders.vocabulary import Vocabulary
from limner.errors import CheckpointError, ConfigError, DataError
from limner.research.datasets.pairs import data_set
from limner.research.datasets.word_vectors import read_glove
from limner.research.losses.generative import sentence_losses, story_losses
from limner.research.losses.graphs import contrastive_neighbours, neighbour_distance, straight_through
from limner.research.losses.ranking import product, sum_hinge
from limner.research.nn.graphs import GraphEncoder
from limner.research.scenes.graphs import SceneGraph, read_graphs
from limner.research.systems import vse
from limner.research.systems.base import Capabilities, ModelParts, System, SystemTask
from limner.research.systems.gsda.captioner import Captioner
from limner.research.systems.gsda.graphs import (
    LabelVectors,
    batch_graphs,
    graph_words,
    label_words,
    made_up_graphs,
    sentence_label_vectors,
    word_label_vectors,
)
from limner.research.systems.gsda.model import MADE_UP, Gsda, GsdaConfig
from limner.research.training.corpus import Batch, Corpus
from limner.research.training.processes import broadcast
from limner.research.training.settings import AS_SAVED


class GsdaTask(SystemTask[GsdaConfig, Gsda]):
    """Training objective of GSDA and its ablations."""

    stories = True

    def __init__(self, model: Gsda, corpus: Corpus, config: GsdaConfig, parts: ModelParts) -> None:
        """Prepare training: encode the keys of all training texts, and read the scene graphs if used."""
        super().__init__(model, corpus, config, parts)
        if model.graphs is not None:
            graphs = picture_graphs(config, corpus)
            self._graphs = [graphs[pair.image_id] for pair in corpus.train.pairs]
        texts = corpus.train.texts
        self._keys = torch.from_numpy(model.keys.encode_text(texts)).to(model.device)
        if model.captioner is not None:
            self._told = model.captioner.numbers(texts)

    def step(self, batch: Batch) -> Mapping[str, Tensor]:
        """Losses by name, means over sentences; ``caption`` is in nats per token."""
        config, model = self.config, self.model
        texts = model(batch.words, batch.lengths, self._keys[batch.own_rows], batch.own_steps)
        scores = product(batch.all_gather(texts), batch.all_gather(model.pictures(batch.pictures)).t())
        found = {"ranking": sum_hinge(scores, config.margin, batch.neg)}
        total = found["ranking"]
        if model.graphs is not None:
            shown = batch_graphs([self._graphs[row] for row in batch.own_rows.tolist()], model.labels)
            vectors, empty = model.graphs(shown.to(batch.own_rows.device))
            empty = batch.all_gather(empty.float()).bool()
            graph = self._graph_terms(scores, batch, batch.all_gather(vectors), empty)
            total = total + config.graph_weight * torch.stack(list(graph.values())).sum()
            found |= graph
        if model.captioner is not None:
            caption = self._caption_terms(scores, batch, model.captioner)
            total = total + config.caption_weight * torch.stack(list(caption.values())).sum()
            found |= caption
        return {"total": total} | found

    def _graph_terms(self, scores: Tensor, batch: Batch, vectors: Tensor, empty: Tensor) -> dict[str, Tensor]:
        """Distance of consecutive pictures' graphs and, in mode "soft", a contrastive term against collapse.

        Source: GSDA 2021, the step-wise loss after Eq. 6; docs/methods/gsda.md §4.2.
        """
        config, known, steps = self.config, ~empty, batch.steps
        if config.graph == "literal_gt":
            return {"graph": neighbour_distance(vectors, steps, known).mean()}
        if config.graph == "literal_argmax":
            best = scores.argmax(dim=1)
            return {"graph": neighbour_distance(vectors[best], steps, known[best]).mean()}
        chosen = straight_through(scores, vectors, config.temperature)
        found = {"graph": neighbour_distance(chosen.values, steps, known[chosen.best]).mean()}
        if len(steps) > 1:
            others = broadcast(rows_of_other_stories(steps).to(scores.device))
            apart = contrastive_neighbours(vectors, steps, others, config.graph_margin, known)
            found["contrast"] = apart.mean()
        return found

    def _caption_terms(self, scores: Tensor, batch: Batch, captioner: Captioner) -> dict[str, Tensor]:
        """Captioning loss on the mode's pictures and, with "reinforce", the policy loss of the retriever.

        Source: GSDA 2021, Eqs. 7 and 8; docs/methods/gsda.md §4.4.
        """
        config = self.config
        true = batch.all_gather(self.model.described(batch.pictures))
        rows = batch.own_rows
        words, lengths = self._told[0][rows], self._told[1][rows.cpu()]

        def cost_from(pictures: Tensor) -> Tensor:
            share = pictures[batch.own]
            out = captioner(share, batch.own_steps, words[:, : int(lengths.max())], lengths)
            costs = sentence_losses(out.logits, out.targets, out.tokens.to(out.logits.device))
            return batch.all_gather(costs)

        if config.caption == "teacher":
            return {"caption": cost_from(true).mean()}
        if config.caption == "reinforce":
            logs = (scores / config.temperature).log_softmax(dim=1)
            drawn = broadcast(torch.multinomial(logs.detach().exp(), 1))
            losses = cost_from(true[drawn.squeeze(1)])
            reward = -story_losses(losses.detach(), batch.steps)
            better = reward - reward.mean()
            policy = story_losses(logs.gather(1, drawn).squeeze(1), batch.steps)
            return {"caption": losses.mean(), "policy": -(better * policy).sum() / len(losses)}
        if config.caption == "literal":
            pictures = true[scores.argmax(dim=1)]
        else:
            pictures = straight_through(scores, true, config.temperature).values
        if batch.epoch < config.mixed_epochs:
            own = broadcast(torch.rand(len(true), device=true.device)) < 0.5
            pictures = torch.where(own[:, None], true, pictures)
        return {"caption": cost_from(pictures).mean()}


def rows_of_other_stories(steps: Tensor) -> Tensor:
    """Sample for each step a row of another story, uniformly.

    Args:
        steps: (B,) int64 on the CPU, steps per story; B ≥ 2.
    Returns:
        (S,) int64 rows.
    """
    total, ends = int(steps.sum()), torch.cumsum(steps, dim=0)
    free = torch.repeat_interleave(total - steps, steps)
    ahead = (torch.rand(total) * free).long().clamp(max=free - 1)
    return (torch.repeat_interleave(ends, steps) + ahead) % total


def picture_graphs(config: GsdaConfig, corpus: Corpus) -> Mapping[str, SceneGraph]:
    """Picture → scene graph, for all graphs in the file; each training picture must have one.

    Raises:
        ConfigError: no file of graphs is named.
        DataError: a training picture has no graph, or the file is damaged.
    """
    ids = [pair.image_id for pair in corpus.train.pairs]
    graphs = graphs_of(config, ids)
    lacking = [name for name in dict.fromkeys(ids) if name not in graphs]
    if lacking:
        raise DataError(
            f"{config.graphs}: no scene graph for {len(lacking)} of {len(set(ids))} training pictures (first:"
            f" {lacking[0]}); write them with limner scenes (a picture without objects has an empty graph)"
        )
    return graphs


def graphs_of(config: GsdaConfig, ids: Sequence[str]) -> Mapping[str, SceneGraph]:
    """Picture → graph, for all graphs in the file, or those of drawn pictures.

    Args:
        config: settings.
        ids: pictures of a smoke run without a file, whose graphs are made up.
    Raises:
        ConfigError: no file of graphs is named.
        DataError: the file is damaged.
    """
    if config.graphs == MADE_UP:
        return made_up_graphs(ids)
    drawn = data_set(config.data.set).graphs if config.graphs in ("drawn", "shuffled") else None
    if drawn is not None:
        shuffled = config.loop.seed if config.graphs == "shuffled" else None
        return drawn(config.data.stories, config.data.world_seed, shuffled=shuffled)
    if not config.graphs:
        raise ConfigError(
            f"gsda: graph = {config.graph!r} needs scene graphs: write them with limner scenes and add"
            " --set graphs=FILE, or pass --set graph=off"
        )
    return read_graphs(Path(config.graphs))


LABELS = "graphs.label_vectors"
"""Name of the label vectors in a run's weights."""


class GsdaSystem(System[GsdaConfig, Gsda]):
    """Registration of GSDA."""

    name = "gsda"
    settings = GsdaConfig
    model = Gsda
    training = GsdaTask

    def capabilities(self, config: GsdaConfig) -> Capabilities:
        """Encodes whole stories; with a captioner, generates sentences from pictures."""
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

    def prepare_parts(self, config: GsdaConfig, corpus: Corpus, parts: ModelParts) -> None:
        """Collect the key encoder, the words of captions, and the graphs of the training pictures."""
        encoder = parts.sentences
        if config.keys == "vse0":
            parts.sentences, parts.about["keys"] = _vse_keys(config)
        if config.graph != "off":
            labels = graph_labels(config, corpus, encoder)
            parts.tensors = {LABELS: torch.from_numpy(labels.matrix)}
            parts.about["labels"] = list(labels.labels)
            if labels.unknown:
                names = ", ".join(labels.unknown)
                parts.notes = (f"{config.label_file}: no vector for {names}; their vectors are zero",)
        if config.caption != "off":
            texts, data = corpus.train.texts, config.data
            spoken = Vocabulary.build(texts, data.tokeniser, config.caption_min_count)
            parts.about["spoken"] = json.loads(spoken.to_json())

    def restore_parts(self, config: GsdaConfig, parts: ModelParts) -> None:
        """Rebuild VSE0 from the run; its weights are part of the model's."""
        if config.keys != "vse0":
            return
        kept = parts.about.get("keys")
        try:
            own = build(vse.VseConfig, kept["config"], parts.where, context=AS_SAVED)  # type: ignore[index]
            words = Vocabulary.from_json(json.dumps(kept["vocabulary"]), parts.where)  # type: ignore[index]
            backbone, width = vse.SYSTEM.empty_side(own, int(kept["image_width"]))  # type: ignore[index]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{parts.where}: does not contain the VSE0 key encoder ({error}); train it again"
            ) from error
        parts.sentences = vse.SYSTEM.build(own, ModelParts(words, width, own.data.max_length, backbone))

    def build(self, config: GsdaConfig, parts: ModelParts) -> Gsda:
        """Build the retriever, with graph encoder and captioner if the settings need them."""
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
    """A trained VSE0 that encodes keys, and the values needed to rebuild it."""
    if not config.keys_run:
        raise ConfigError(
            "gsda: keys = 'vse0' needs a run of VSE0 on the same split: train one (system = 'vse') and add"
            " --set keys_run=FOLDER, or pass --set keys=sentences"
        )
    model, trained = vse.SYSTEM.load(Path(config.keys_run))
    if trained.model.text != "words":
        raise ConfigError(
            f"gsda: keys_run {config.keys_run} uses a frozen sentence encoder, expected a run with trained"
            " word vectors; pass --set keys=sentences, which needs no run"
        )
    mine, its = config.data, trained.data
    of_split = ("set", "mixture", "split", "split_seed", "test_share", "val_share", "by_source")
    for name in (*of_split, "stories", "world_seed"):
        if getattr(mine, name) != getattr(its, name):
            raise ConfigError(
                f"gsda: keys_run {config.keys_run} was trained with data.{name}={getattr(its, name)!r}, but"
                f" this run has {getattr(mine, name)!r}, so it may have seen test rows; train it on the same"
                " split"
            )
    return model, {
        "config": trained.model_dump(mode="json"),
        "vocabulary": json.loads(model.vocabulary.to_json()),
        "image_width": model.image_width,
    }


def graph_labels(config: GsdaConfig, corpus: Corpus, sentences: TextEncoder | None) -> LabelVectors:
    """Frozen vectors of the labels and predicates in all pictures' graphs.

    Args:
        config: settings.
        corpus: corpus whose training pictures must each have a (possibly empty) graph.
        sentences: encoder of labels; used if the settings name no file of word vectors.
    Raises:
        ConfigError: no file of graphs is named.
        DataError: a training picture has no graph, or the file is damaged.
    """
    labels = graph_words(list(picture_graphs(config, corpus).values()))
    if sentences is None or config.label_vectors:
        words = {word for label in labels for word in label_words(label)}
        return word_label_vectors(labels, read_glove(config.label_file, words))
    return sentence_label_vectors(labels, sentences)
