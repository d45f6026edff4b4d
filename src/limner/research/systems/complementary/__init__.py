"""Complementary samples (T&K 2022): weights for training pairs from their neighbourhoods, with a PVSE model.

Each method in the paper's tables is a setting. The neighbour graph contains only training texts.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from limner.arrays import FloatArray
from limner.research.datasets.features import Features
from limner.research.datasets.neighbours import ProcessGroup, build_graph, stored_graph, write_pair_scores
from limner.research.datasets.word_vectors import document_vectors
from limner.research.losses.ranking import diversity_loss, domain_loss, max_hinge
from limner.research.losses.reweighted import (
    Drawn,
    HalWeights,
    Neighbourhood,
    draw,
    hal_loss,
    hal_weights,
    in_proportion,
    mithun_loss,
    mithun_weights,
    pair_density,
    thomas_loss,
    triplet_loss,
)
from limner.research.losses.weighting import weighted_hinge
from limner.research.systems.base import Capabilities, ModelParts, System, SystemTask
from limner.research.systems.complementary.memory import FOLDER, EpochMemory, against
from limner.research.systems.complementary.model import ComplementaryConfig, Polysemous, Pvse, pair_scores
from limner.research.systems.complementary.weights import PairWeights, shares
from limner.research.training.corpus import Batch, Corpus, Part
from limner.research.training.processes import all_reduce, broadcast, from_main, rank, world_size

HAL_NEAREST, AMRANI_NEAREST = 250, 50


GRAPHS = "graphs"  # subfolder of the feature stores


class ComplementaryTask(SystemTask[ComplementaryConfig, Pvse]):
    """Training objective of every method in the paper's tables."""

    def __init__(self, model: Pvse, corpus: Corpus, config: ComplementaryConfig, parts: ModelParts) -> None:
        """Prepare training; find the neighbours of the training texts if the method needs them."""
        super().__init__(model, corpus, config, parts)
        self._rows = corpus.train
        neighbours = _neighbours(config, corpus, parts, model.device) if config.needs_graph else None
        self._neighbours = neighbours
        self._memory = EpochMemory(model, corpus, config) if config.needs_bank else None
        self._weights = PairWeights(config, len(corpus.train), neighbours) if config.measures else None

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Batches of an epoch; pairs are scored from the memory before, and the memory is swapped after."""
        if self._memory is not None:
            if epoch == 0 and self.config.weights.start == "warm":
                self._memory.warm()
            if self._weights is not None:
                self._weights.score(self._memory, epoch, self.model.device)

        def made(part: Part) -> Batch:
            chosen, rng = part
            near = None
            if self.config.method == "thomas":
                near = self._batches.batch(self._near(chosen, rng), epoch=epoch)
            return replace(self._batches.batch(chosen, epoch=epoch), near=near)

        yield from self._batches.made_ahead(made, epoch)
        if self._memory is not None:
            self._memory.close()

    def step(self, batch: Batch) -> Mapping[str, Tensor]:
        """Losses by name, and statistics of the weights under ``weights/``."""
        config, out = self.config, self._whole(batch)
        ranking, alpha = self._ranking(out.texts, out.images, batch)
        found = {"ranking": ranking}
        total = ranking
        if config.diversity_weight and config.model.heads > 1:
            residuals = (batch.all_gather(out.text_residuals), batch.all_gather(out.image_residuals))
            found["diversity"] = torch.stack([diversity_loss(part) for part in residuals]).sum()
            total = total + config.diversity_weight * found["diversity"]
        if config.domain_weight:
            found["domain"] = domain_loss(out.texts.flatten(0, 1), out.images.flatten(0, 1))
            total = total + config.domain_weight * found["domain"]
        if self._memory is not None:
            self._memory.write(batch.rows, out.texts, out.images)
        if alpha is not None:
            found |= shares(alpha)
            if self._weights is not None:
                found |= self._weights.note(batch.rows, alpha)
        return {"total": total} | found

    def _whole(self, batch: Batch) -> Polysemous:
        """Outputs of the model for all pairs of a batch; residuals only for the pairs of this process."""
        out: Polysemous = self.model(batch.words, batch.lengths, batch.pictures)
        return out._replace(texts=batch.all_gather(out.texts), images=batch.all_gather(out.images))

    def open(self, folder: Path) -> None:
        """See `limner.research.training.loop.Task`."""
        if self._memory is not None:
            self._memory.open(folder)

    def state_dict(self) -> dict[str, Tensor]:
        """See `limner.research.training.loop.Task`."""
        held = self._memory.state() if self._memory is not None else {}
        return held | (self._weights.state() if self._weights is not None else {})

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """See `limner.research.training.loop.Task`."""
        if self._memory is not None:
            self._memory.load_state(state)
        if self._weights is not None:
            self._weights.load_state(state)

    def close(self, folder: Path) -> None:
        """Write the scores and last weights of the training pairs, if any, and delete the memory."""
        scores = self._weights and self._weights.pair_scores(tuple(pair.id for pair in self._rows.pairs))
        if scores:
            write_pair_scores(scores, folder)
        shutil.rmtree(folder / FOLDER, ignore_errors=True)

    def _ranking(self, texts: Tensor, images: Tensor, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """The ranking loss of the method, and the weights of the pairs, if it has any."""
        config, method = self.config, self.config.method
        scores, margin = pair_scores(texts, images), config.margin
        unweighted = {
            "thomas": lambda: self._thomas(texts, images, scores, batch),
            "distance": lambda: self._distance(scores, batch.neg),
            "hardest": lambda: max_hinge(scores, margin, batch.neg),
        }
        if method in unweighted:
            return unweighted[method](), None
        if method == "mithun":
            if config.form == "own":
                return mithun_loss(scores, margin, batch.neg), None
            of_text, of_image = mithun_weights(scores, batch.neg)
            return weighted_hinge(scores, of_text, margin, batch.neg, image_alpha=of_image), None
        if method == "hal":
            weights = self._hal_weights(texts, images, scores, batch)
            if config.form == "own":
                loss = hal_loss(
                    scores,
                    batch.neg,
                    gamma=config.baselines.hal_gamma,
                    epsilon=config.baselines.hal_epsilon,
                    weights=weights,
                )
                return loss, None
            true = torch.ones_like(scores[0]) if weights is None else weights.true
            alpha = in_proportion(true, config.weights.lam)
        else:
            alpha = self._alpha(texts, images, batch)
        return weighted_hinge(scores, alpha, margin, batch.neg), alpha

    def _alpha(self, texts: Tensor, images: Tensor, batch: Batch) -> Tensor:
        """(B,) weights without gradient."""
        config, even = self.config, torch.ones(len(batch.ids), device=texts.device)
        if config.method == "pvse":
            return even
        if config.method == "random":
            # on the CPU, because only its generator is restored when resuming
            drawn = broadcast(torch.rand(len(even)).to(even))
            return config.weights.lam * drawn / drawn.sum()
        if config.method == "amrani":
            bank = None if self._memory is None else self._memory.read()
            if bank is None:
                return even
            nearest = config.baselines.nearest or AMRANI_NEAREST
            of_text, of_image = against(texts, bank.texts), against(images, bank.images)
            usable = self._batches.usable(batch.rows)[:, bank.rows] & bank.seen
            found = bank.nearest([of_text, of_image], torch.minimum(of_text, of_image), usable, nearest)
            density = pair_density(*found, nearest=nearest)
            return in_proportion(density, len(even))
        weights = None if self._weights is None else self._weights.of(batch.rows)
        return config.weights.lam * even / len(even) if weights is None else weights

    def _hal_weights(self, texts: Tensor, images: Tensor, scores: Tensor, batch: Batch) -> HalWeights | None:
        """HAL's weights from the memory bank; None in the first epoch, and if no bank is used."""
        bank = None if self._memory is None else self._memory.read()
        if bank is None:
            return None
        baselines = self.config.baselines
        nearest = baselines.nearest or HAL_NEAREST
        usable = self._batches.usable(batch.rows)[:, bank.rows] & bank.seen
        of_text, of_image = against(texts, bank.images), against(images, bank.texts)
        of_text, kept = bank.nearest([of_text], of_text, usable, nearest)
        of_image, _ = bank.nearest([of_image], of_image, usable, nearest)
        return hal_weights(scores, of_text, of_image, kept, nearest=nearest)

    def _thomas(self, texts: Tensor, images: Tensor, scores: Tensor, batch: Batch) -> Tensor:
        near = batch.near
        assert near is not None  # noqa: S101  (made by `batches`)
        beside = self._whole(near)
        wrong = self._batches.wrong_beside(batch)

        def neighbourhood(items: Tensor, others: Tensor) -> Neighbourhood:
            from_near = pair_scores(others, items)
            return Neighbourhood(pair_scores(items, items), from_near, wrong)

        return thomas_loss(
            scores,
            neighbourhood(texts, beside.texts),
            neighbourhood(images, beside.images),
            self.config.margin,
            batch.neg,
        )

    def _distance(self, scores: Tensor, neg: Tensor) -> Tensor:
        drawn = Drawn(*map(broadcast, draw(scores, neg, self.model.dim)))
        return triplet_loss(scores, drawn, self.config.margin, neg)

    def _near(self, chosen: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """A random near neighbour of each row; the row itself if it has none."""
        assert self._neighbours is not None  # noqa: S101  (given by `prepare`)
        table = self._neighbours[chosen, : self.config.baselines.thomas_nearest]
        counts = (table >= 0).sum(axis=1)
        picked = np.floor(rng.random(len(chosen)) * np.maximum(counts, 1)).astype(np.int64)
        found = table[np.arange(len(chosen)), picked]
        return np.where(counts > 0, found, chosen).astype(np.int64)


def _neighbours(
    config: ComplementaryConfig, corpus: Corpus, parts: ModelParts, device: torch.device
) -> NDArray[np.int32]:
    """(n, N) neighbours of the training texts, padded with −1; cached next to the feature stores."""
    graph, rows = config.graph, corpus.train
    found: FloatArray
    if parts.sentences is not None:
        found = parts.sentences.encode_text(rows.texts)
    else:

        def learned() -> FloatArray:
            return document_vectors(
                rows.texts,
                size=graph.width,
                min_count=graph.min_count,
                epochs=graph.epochs,
                seed=config.loop.seed,
            )

        found = from_main(learned)
    group = ProcessGroup(rank(), world_size(), partial(all_reduce, device=device))
    settings: Any = {"size": graph.size, "method": graph.method}
    settings |= {"text_ids": rows.text_ids, "image_ids": rows.image_ids, "group": group}
    if isinstance(corpus.pictures, Features):
        return stored_graph(Path(config.data.features) / GRAPHS, found, **settings)
    return build_graph(found, **settings)


class ComplementarySystem(System[ComplementaryConfig, Pvse]):
    """Registration of complementary samples."""

    name = "complementary"
    settings = ComplementaryConfig
    model = Pvse
    training = ComplementaryTask

    def capabilities(self, config: ComplementaryConfig) -> Capabilities:
        """Encodes a text or picture as a set of vectors; uses grid features."""
        heads = config.model.heads
        by_meaning = config.needs_graph and config.graph.vectors == "sentences"
        several = (
            f"represents a picture by a set of vectors (K = {heads}), but a library stores one for each; use"
            " a run of cmcm or vse, or evaluate this one with limner measure"
        )
        return Capabilities(
            trains_with=frozenset({"sentences"} if by_meaning else ()),
            no_library=several,
            backbone=config.backbone,
            layer="grid",
            trains_backbone=True,
            margin=config.margin,
        )


SYSTEM = ComplementarySystem()
