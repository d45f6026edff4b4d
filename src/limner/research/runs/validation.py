"""What selects a model while it trains: how well it ranks the validation pictures, or chooses among few.

The same measure for every system that encodes texts and pictures. It sees validation rows only and refines
nothing; refinement is chosen once, afterwards.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from limner.arrays import FloatArray
from limner.checksums import noting, seal
from limner.errors import ConfigError, unknown
from limner.files import write_text
from limner.research.datasets.pairs import text_id
from limner.research.evaluation.ranking import (
    ALL,
    BLOCK_CELLS,
    Metric,
    Ranking,
    Score,
    average_precision,
    different,
    host,
    rank,
    rank_blocks,
)
from limner.research.evaluation.refinement import STRENGTHS, THRESHOLDS, Refinement, choose, pair_logits
from limner.research.systems.base import (
    ENCODE_BATCH,
    ENCODE_STORIES,
    Capabilities,
    Model,
    RefinedScores,
    encoded_images,
)
from limner.research.training import processes
from limner.research.training.checkpoint import stored
from limner.research.training.corpus import Corpus, PictureRows, Rows, stories_of
from limner.research.training.processes import in_shares, summed

METRICS = ("MedR", "R@1", "R@5", "R@10", "MRR")
MAP = "mAP"
CHOICE = "C@"
HINGE = "hinge"
_BLOCK = 512
"""Queries that one of several processes takes at a time."""
T = TypeVar("T")


def validation(corpus: Corpus, can: Capabilities, metric: str = "") -> Callable[[Any], Mapping[str, float]]:
    """Figures of a model on the validation rows, against all their pictures.

    MedR, R@1, R@5, R@10 (fractions) and MRR; where relations are predicted also mAP, the mean average
    precision over the relations that occur; of a model of pictures alone, R@1 and mAP of a picture's own
    story, see `limner.research.evaluation.stories`; C@c, the mean c-way accuracy of both directions; and
    hinge, the validation loss, see `mean_hinge`.

    Args:
        corpus: its `val` is looked at, nothing else.
        can: what the system of the models does.
        metric: C@c or hinge, which are measured only where they are asked for.
    Returns:
        model → name → figure.
    Raises:
        ConfigError: see `choices_of`.
        DataError: too few validation pairs for so many options.
    """
    if not can.texts:
        from limner.research.runs.metric import validation_of_pictures

        return validation_of_pictures(corpus)
    rows = corpus.val
    texts_of, images_of = [text_id(pair.text) for pair in rows.pairs], [pair.image_id for pair in rows.pairs]
    questions = {}
    for c in choices_of(metric):
        from limner.research.evaluation.choice import answer, draw_choices

        questions[c] = partial(answer, choices=draw_choices(texts_of, images_of, c))

    def measure(model: Model) -> dict[str, float]:
        texts, images, columns = vectors(model, corpus.pictures, rows, can)
        score, shape = model.scorer(texts, images), (len(texts), len(images))
        right = columns[:, None].tolist()
        ranking = shared_ranking(score, shape, right, model.device)
        found = {name: Metric.parse(name)(ranking) for name in METRICS}
        for c, answered in questions.items():
            found[f"{CHOICE}{c}"] = float(np.mean(answered(score, np.arange(len(columns)), columns)))
        if metric == HINGE:
            found[HINGE] = mean_hinge(score, len(images), columns, can.margin, model.device)
        if can.refinement:
            probabilities = model.relation_probabilities(texts, images[columns]).astype(np.float64)
            known = [c for c in range(rows.labels.shape[1]) if rows.labels[:, c].any()]
            values = [
                average_precision(probabilities[:, c], rows.labels[:, c].astype(np.int64)) for c in known
            ]
            if values:
                found[MAP] = float(np.mean(values))
        return found

    return measure


def vectors(
    model: Model, pictures: PictureRows, rows: Rows, can: Capabilities
) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """Texts and different pictures of some rows in the joint space.

    Returns:
        (N, D) texts, (M, D) pictures in order of first appearance, (N,) the column of each text's picture.
    """
    columns, first = different([pair.image_id for pair in rows.pairs])
    return _texts(model, rows, can), encoded_images(model, pictures, rows.places[first]), columns


def _texts(model: Model, rows: Rows, can: Capabilities) -> FloatArray:
    """(N, …) texts of some rows; models of sequences read every story whole, in its order.

    Texts of like length are read together, each block of them by one process.
    """
    texts = rows.texts
    if not can.stories:
        order = np.argsort([len(text) for text in texts], kind="stable")

        def made(some: slice) -> FloatArray:
            return model.encode_text([texts[place] for place in order[some].tolist()])

        read = in_shares(len(texts), ENCODE_BATCH, made, model.device)
        return read[np.argsort(order)]
    found = np.zeros((len(texts), *model.shape), np.float32)
    stories = stories_of(rows.pairs)
    starts = range(0, len(stories), ENCODE_STORIES)
    for start in starts[processes.rank() :: processes.count()]:
        some = stories[start : start + ENCODE_STORIES]
        parts = model.encode_stories([[texts[place] for place in story] for story in some])
        found[np.concatenate(some)] = np.concatenate(parts)
    return summed(found, model.device)


def shared_ranking(
    score: Score, shape: tuple[int, int], right: Sequence[Sequence[int]], device: torch.device
) -> Ranking:
    """As `limner.research.evaluation.ranking.rank_blocks`, each block of queries by one process."""
    rows, size = shape
    counts = np.zeros((3, rows), np.int64)
    for start in range(0, rows, _BLOCK)[processes.rank() :: processes.count()]:
        stop = min(start + _BLOCK, rows)

        def some(first: int, last: int, start: int = start) -> Any:  # noqa: ANN401  (see `Score`)
            return score(slice(start + first, start + last), ALL)

        found = rank_blocks(some, (stop - start, size), right[start:stop], first=start)
        counts[:, start:stop] = found.better, found.equal, found.tied
    better, equal, tied = summed(counts, device)
    return Ranking(better, equal, tied, size)


def mean_hinge(
    score: Score,
    pictures: int,
    columns: NDArray[np.int64],
    margin: float,
    device: torch.device | None = None,
) -> float:
    """What the average wrong picture of a text, and wrong text of a picture, costs: the validation loss.

    Args:
        score: of N texts with M pictures; asked for blocks.
        pictures: M.
        columns: (N,) the picture of each text; its other texts are not wrong.
        margin: score units, > 0.
        device: of the group of processes, where there are several.
    Returns:
        Mean of both directions over all wrong pairs; 0 where there are none.
    Source: T&K 2022, Section 3.5, which selects by validation loss; docs/methods/complementary.md §7.1 with
    all weights 1 and all pictures at once.
    """
    rows, step = len(columns), max(1, BLOCK_CELLS // pictures // 4)  # beside a block lie its costs
    blocks = [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
    blocks = blocks[processes.rank() :: processes.count()]
    true, costs = np.zeros(rows, np.float32), np.zeros((2, rows))
    for some in blocks:
        true[some] = host(score(some, ALL))[np.arange(some.stop - some.start), columns[some]]
    true = summed(true, device)
    best = np.full(pictures, -np.inf, np.float32)
    np.maximum.at(best, columns, true)  # a picture of several texts is found by its nearest one
    for some in blocks:
        table = host(score(some, ALL))
        wrong = columns[some, None] != np.arange(pictures)
        for direction, reference in enumerate((true[some, None], best)):
            found = np.maximum(0, margin + table - reference)
            # text by text, so that the sum is the same for blocks of any size
            costs[direction, some] = found.sum(axis=1, where=wrong, dtype=np.float64)
    costs = summed(costs, device)
    count = 2 * rows * (pictures - 1)
    return float(costs.sum()) / count if count else 0.0


def choices_of(metric: str) -> tuple[int, ...]:
    """Options c of a metric C@c; nothing for another metric.

    Raises:
        ConfigError: C@ and no number of at least 2.
    """
    if not metric.startswith(CHOICE):
        return ()
    cut = metric.removeprefix(CHOICE)
    if not (cut.isascii() and cut.isdigit() and int(cut) >= 2 and not cut.startswith("0")):
        raise ConfigError(f"metric: {metric!r}, expected an integer of at least 2 after C@, such as C@5")
    return (int(cut),)


def measured(metric: str, can: Capabilities) -> tuple[str, ...]:
    """Names of the validation figures of runs that are selected by `metric`.

    Raises:
        ConfigError: `metric` is none of them, or C@ and no number of at least 2.
    """
    if not can.texts:
        found: tuple[str, ...] = ("R@1", MAP)
    else:
        found = (*METRICS, *(f"{CHOICE}{c}" for c in choices_of(metric)))
        if can.margin is not None and metric == HINGE:
            found += (HINGE,)
        if can.refinement:
            found += (MAP,)
    if metric not in found:
        raise ConfigError(unknown("validation figure", metric, found))
    return found


def maximise(metric: str) -> bool:
    """Whether more of a figure is better.

    Raises:
        ConfigError: no such metric.
    """
    if metric == HINGE:
        return False
    return metric == MAP or bool(choices_of(metric)) or Metric.parse(metric).higher_is_better


def chosen_refinement(model: Model, corpus: Corpus, can: Capabilities) -> Refinement:
    """The refinement that the settings state; what they leave open ranks best on the validation rows.

    Args:
        model: predicts relations.
        corpus: its `val` is looked at, nothing else.
        can: what its system does.
    """
    stated = can.refinement or RefinedScores("multiply")
    if stated.strength is not None and stated.threshold is not None:
        return Refinement(stated.strength, stated.threshold, stated.form)
    texts, images, columns = vectors(model, corpus.pictures, corpus.val, can)
    right = columns[:, None].tolist()
    return choose(
        model.scorer(texts, images),
        pair_logits(model, texts, images),
        lambda table, some: rank(table, right[some], first=some.start).ranks(),
        strengths=STRENGTHS if stated.strength is None else (stated.strength,),
        thresholds=THRESHOLDS if stated.threshold is None else (stated.threshold,),
        form=stated.form,
    )


REFINEMENT = "refinement.json"


def write_refinement(run: Path, refinement: Refinement) -> None:
    """Store a refinement beside the weights, whole or not at all."""
    # JSON has no infinity, so the threshold is a string.
    stored = asdict(refinement) | {"threshold": str(refinement.threshold)}
    with noting(run, REFINEMENT):
        write_text(run / REFINEMENT, seal(json.dumps(stored, sort_keys=True) + "\n"))


def read_refinement(run: Path) -> Refinement:
    """The refinement chosen on validation when the run was trained.

    Raises:
        CheckpointError: none is stored there, or it is damaged; training did not end.
    """

    def parsed(content: bytes) -> Refinement:
        saved: dict[str, Any] = json.loads(content)
        return Refinement(float(saved["strength"]), float(saved["threshold"]), saved["form"])

    return stored(run / REFINEMENT, parsed, "refinement")
