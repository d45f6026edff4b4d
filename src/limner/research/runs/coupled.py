"""Ranks pictures for the steps of a story jointly, by the scores of a trained run and a pairwise term.

The pairwise term is the similarity of pictures, by scene graphs (GSDA's ψ) or stored features, times a weight
ω, which is chosen on validation stories for each decoding separately.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from limner.errors import ConfigError, DataError, counted
from limner.research.datasets.pairs import one_row_per_pair
from limner.research.evaluation.decoding import (
    BEAM_WIDTH,
    Float64Array,
    IntArray,
    left_to_right,
    max_marginals,
)
from limner.research.evaluation.ranking import Metric, rank
from limner.research.evaluation.sequences import by_story, of_stories, unit_or_zero
from limner.research.evaluation.uncertainty import RESAMPLES, Interval
from limner.research.runs.measure import fixed_features
from limner.research.runs.run import Run, vectors
from limner.research.systems.gsda import graphs_of
from limner.research.systems.gsda.model import Gsda, GsdaConfig
from limner.research.training.corpus import rows_of

Pull = Literal["graphs", "features"]
Way = Literal["each", "greedy", "beam", "chain", "anchor", "pin"]
WAYS: tuple[Way, ...] = ("each", "greedy", "beam", "chain", "anchor", "pin")
OMEGAS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
METRICS = ("R@1", "R@5", "R@10", "MedR", "MRR", "StR@1")


@dataclass(frozen=True)
class Coupled:
    """Scores and pairwise term of the stories of one part.

    Attributes:
        scores: (N, M) scores of steps with all distinct pictures.
        pull: (M, M) pairwise term: similarity of pictures; 0 on the diagonal.
        columns: (N,) picture of each step.
        stories: (N,) story of each step; steps of a story are in order.
    """

    scores: Float64Array
    pull: Float64Array
    columns: IntArray
    stories: tuple[str, ...]

    def ranked(self, way: Way, omega: float) -> tuple[IntArray, Float64Array]:
        """The (N',) steps that are ranked, and (N', M) values by which pictures are ranked for each.

        Greedy and beam search go from left to right: a step's values are its scores plus the similarity to
        the picture chosen for the previous step. With chain and anchor, the value of a picture is that of the
        best whole story with this picture at the step. With pin, the first step's own picture is given, and
        similarity to it is added to the scores of the other steps.

        Args:
            way: decoding; "each" ranks each step by itself.
            omega: weight ω of the pairwise term, at least 0.
        """
        found = self.scores.copy()
        rows = np.arange(len(found))
        pull = omega * self.pull
        if way == "pin":
            return self._pinned(omega)
        if way == "each" or omega == 0:
            return rows, found
        for own in map(np.array, by_story(self.stories).values()):
            if way in ("greedy", "beam"):
                shown = left_to_right(found[own], pull, 1 if way == "greedy" else BEAM_WIDTH)
                found[own[1:]] += pull[shown[:-1]]
            else:
                found[own] = max_marginals(found[own], pull, way)
        return rows, found

    def _pinned(self, omega: float) -> tuple[IntArray, Float64Array]:
        kept, tables = [np.zeros(0, np.int64)], [np.zeros((0, self.scores.shape[1]))]
        for own in map(np.array, by_story(self.stories).values()):
            rest, pin = own[1:], self.columns[own[0]]
            rest = rest[self.columns[rest] != pin]
            table = self.scores[rest] + omega * self.pull[pin]
            if len(rest):
                table[:, pin] = table.min() - 1.0  # ranked last, because it is already shown
            kept.append(rest)
            tables.append(table)
        return np.concatenate(kept), np.concatenate(tables)


def coupled_of(run: Run, part: Literal["val", "test"], pull: Pull, weights: Path | None = None) -> Coupled:
    """Stories of one part as a run scores them.

    Args:
        run: trained run.
        part: part of the run's own split.
        pull: source of the pairwise term: "graphs" of a run of GSDA, or stored "features".
        weights: weights of the backbone, if features must be extracted.
    Raises:
        ConfigError: the run uses no scene graphs, or has no stored features.
        DataError: the data set has no stories, or a picture has no graph.
    """
    data, pictures = run.data(weights=weights)
    pairs = one_row_per_pair(data.split(part))
    if not of_stories(pairs):
        raise DataError(f"{run.folder}: {data.name} has no stories; name a run trained on stories")
    pairs = tuple(sorted(pairs, key=lambda pair: pair.pos or 0))
    texts, images, columns = vectors(run.model, pictures, rows_of(pairs, pictures, ()), run.can)
    first = np.unique(columns, return_index=True)[1]
    ids = [pairs[row].image_id for row in first]
    if pull == "graphs":
        alike = _of_graphs(run, ids)
    else:
        features, _, similar = fixed_features(run.data(plain=True, weights=weights)[1], ids)
        if features is None:
            raise ConfigError(f"{run.folder}: its pictures have no stored features; pass --pairwise graphs")
        alike = unit_or_zero(features if similar else features - features.mean(axis=0))
    table = alike @ alike.T
    np.fill_diagonal(table, 0.0)
    scores = run.model.score(texts, images).astype(np.float64)
    return Coupled(scores, table, columns, tuple(pair.seq or pair.id for pair in pairs))


def _of_graphs(run: Run, ids: Sequence[str]) -> NDArray[np.float64]:
    """(M, d) ψ of the pictures' scene graphs; zeros for empty graphs."""
    if not isinstance(run.model, Gsda) or not isinstance(run.config, GsdaConfig) or run.config.graph == "off":
        raise ConfigError(
            f"{run.folder}: this run uses no scene graphs; name a run of GSDA, or pass --pairwise features"
        )
    known = graphs_of(run.config, ids)
    lacking = [name for name in ids if name not in known]
    if lacking:
        raise DataError(
            f"{run.folder}: no scene graph for {len(lacking)} of {counted(len(ids), 'picture')}"
            f" (first: {lacking[0]}); write them with limner scenes"
        )
    made, empty = run.model.encode_graphs([known[name] for name in ids])
    found = np.array(made, dtype=np.float64)
    found[np.asarray(empty)] = 0.0
    return found


def figures(part: Coupled, way: Way, omega: float) -> Mapping[str, Interval]:
    """Metrics by name, with bootstrap intervals over stories, of the steps that a decoding ranks."""
    rows, table = part.ranked(way, omega)
    own: dict[str, set[int]] = {}
    for story, column in zip(part.stories, part.columns.tolist(), strict=True):
        own.setdefault(story, set()).add(column)
    names = [part.stories[row] for row in rows]
    right = rank(table, part.columns[rows][:, None].tolist())
    same = rank(table, [sorted(own[name]) for name in names])
    metrics = {name: Metric.parse(name) for name in METRICS}
    return {
        name: one.interval(same if one.kind == "StR" else right, names, RESAMPLES)
        for name, one in metrics.items()
    }


def coupled(
    val: Coupled, part: Coupled, ways: Sequence[Way] = WAYS
) -> Iterator[tuple[Way, float, Mapping[str, Interval]]]:
    """Yield each decoding with its best ω by MRR on validation stories, and its figures.

    Args:
        val: validation stories.
        part: stories to measure.
        ways: decodings.
    Source: GSDA 2021 does not say whether ψ is used for ranking; docs/methods/gsda.md §5.
    """
    for way in ways:
        tried = {omega: _reciprocal(val, way, omega) for omega in (OMEGAS if way != "each" else OMEGAS[:1])}
        omega = max(tried, key=lambda one: tried[one])
        yield way, omega, figures(part, way, omega)


def _reciprocal(part: Coupled, way: Way, omega: float) -> float:
    rows, table = part.ranked(way, omega)
    return float((1 / rank(table, part.columns[rows][:, None].tolist()).ranks()).mean())
