"""Evaluation on illustrated stories: the rank of each step's own picture among the pictures of all stories.

Scorer and decoder are arguments, so that all systems are measured in the same way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from limner.arrays import FloatArray
from limner.config import Record
from limner.errors import DataError, NumericsError, ShapeError, counted
from limner.match.illustrate import step_texts
from limner.records import Story
from limner.research.evaluation.ranking import ALL, BLOCK_CELLS, Metric, Ranking, Score, host, rank
from limner.research.evaluation.results import commit
from limner.research.evaluation.uncertainty import RESAMPLES, Interval
from limner.store.search import Channel, EncodedChannel, Index

Scorer = Callable[[Story], FloatArray]
"""A story of S steps → (S, M) scores in nats; columns are the pictures of the task."""
Decoder = Callable[[FloatArray], FloatArray]
"""(S, M) nats → (S, M) max-marginals: the best total value with that picture at that step."""
METRICS = ("R@1", "R@5", "R@10", "MedR", "MRR", "StR@1")
_TIES_WORTH_A_WORD = 0.001


@dataclass(frozen=True)
class StoryTask:
    """Stories and the gallery of their pictures.

    Attributes:
        stories: N stories with all their steps.
        ids: (M,) picture ids (the stated SHA-256), by first appearance.
        paths: (M,) files.
        relevant: for each story and step the columns of its own pictures; () if it has none.
        missing: steps that are not queries because their picture is absent or has no hash, as
            ``story/step: target``, steps from 1.
    """

    stories: tuple[Story, ...]
    ids: tuple[str, ...]
    paths: tuple[str, ...]
    relevant: tuple[tuple[tuple[int, ...], ...], ...]
    missing: tuple[str, ...] = ()

    @property
    def queries(self) -> int:
        """Number of steps that have a picture of their own."""
        return sum(bool(columns) for story in self.relevant for columns in story)

    @classmethod
    def of(cls, stories: Sequence[Story]) -> "StoryTask":
        """Build the gallery from the stories' own pictures.

        Args:
            stories: stories whose picture references state hash and file.
        Raises:
            DataError: no step has a picture.
        """
        numbers: dict[str, int] = {}
        paths: list[str] = []
        relevant = []
        missing = []
        for story in stories:
            of_story = []
            for position, step in enumerate(story.steps, start=1):
                columns = []
                for ref in step.pictures:
                    if ref.sha256 is None or ref.path is None:
                        missing.append(f"{story.id}/{position}: {ref.target}")
                        continue
                    if ref.sha256 not in numbers:
                        numbers[ref.sha256] = len(numbers)
                        paths.append(ref.path)
                    columns.append(numbers[ref.sha256])
                of_story.append(tuple(columns))
            relevant.append(tuple(of_story))
        if not numbers:
            raise DataError(
                f"evaluation: no step of {counted(len(stories), 'story')} has a picture with a file and a"
                " hash; give stories with pictures"
            )
        return cls(tuple(stories), tuple(numbers), tuple(paths), tuple(relevant), tuple(missing))


class StoryResult(Record):
    """Scores of one system on a task; its JSON form is the result file.

    Attributes:
        system: name of the system.
        metrics: metric name → value with a bootstrap interval over stories; expected recalls are added if
            more than 0.1 % of the queries have ties.
        ties: tie policy of the ranks.
        tie_share: share of queries whose rank depends on the tie policy.
        gallery, queries, stories: numbers of pictures, queries and stories.
        missing: steps without a usable picture, see `StoryTask`; they are not queries.
        config: settings of the system.
        seed: seed of the bootstrap.
        commit: commit of the code, with ``+`` for uncommitted changes; None outside a repository.
    """

    system: str
    metrics: dict[str, Interval]
    ties: Literal["mean"] = "mean"
    tie_share: float
    gallery: int
    queries: int
    stories: int
    missing: tuple[str, ...] = ()
    config: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    seed: int = 0
    commit: str | None = None


@dataclass(frozen=True)
class Outcome:
    """A result with the ranks of all queries.

    Attributes:
        result: the record.
        pictures: ranking of each query's own picture.
        worlds: ranking of the pictures of its story.
        groups: story of each query.
    """

    result: StoryResult
    pictures: Ranking
    worlds: Ranking
    groups: tuple[str, ...]


def evaluate_stories(
    system: str,
    task: StoryTask,
    scorer: Scorer,
    decoder: Decoder | None = None,
    *,
    config: dict[str, str | int | float | bool | None] | None = None,
    resamples: int = RESAMPLES,
) -> Outcome:
    """Score, decode and rank all stories, and compute metrics with intervals.

    Args:
        system: name for the record.
        task: see `StoryTask.of`.
        scorer: a story → (S, M) nats.
        decoder: couples the steps of a story; None ranks each step on its own.
        config: settings to store in the result.
        resamples: number of bootstrap resamples.
    Raises:
        ShapeError: scores or max-marginals are not (S, M).
        NumericsError: a score or max-marginal is not finite.
    """
    tables = []
    relevant: list[tuple[int, ...]] = []
    own: list[list[int]] = []
    groups: list[str] = []
    size = len(task.ids)
    for story, columns in zip(task.stories, task.relevant, strict=True):
        table = np.asarray(scorer(story))
        _check(f"{system}: scores of story {story.id}", table, len(story.steps), size)
        if decoder is not None:
            table = np.asarray(decoder(table))
            _check(f"{system}: max-marginals of story {story.id}", table, len(story.steps), size)
        asked = [step for step, right in enumerate(columns) if right]
        world = sorted({column for right in columns for column in right})
        tables.append(table[asked])
        relevant += [columns[step] for step in asked]
        own += [world] * len(asked)
        groups += [story.id] * len(asked)
    scores = np.concatenate(tables)
    pictures, worlds = rank(scores, relevant), rank(scores, own)
    names = [*METRICS]
    if pictures.tie_share > _TIES_WORTH_A_WORD:
        names += [f"E{name}" for name in METRICS if name.startswith("R@")]
    metrics = {name: Metric.parse(name) for name in names}
    result = StoryResult(
        system=system,
        metrics={
            name: metric.interval(worlds if metric.kind == "StR" else pictures, groups, resamples)
            for name, metric in metrics.items()
        },
        tie_share=pictures.tie_share,
        gallery=size,
        queries=len(groups),
        stories=len(set(groups)),
        missing=task.missing,
        config=config or {},
        commit=commit(),
    )
    return Outcome(result, pictures, worlds, tuple(groups))


def channel_scorer(index: Index, channels: Sequence[Channel]) -> Scorer:
    """Scorer from the channels of an untrained system; without channels all scores are 0.

    Args:
        index: index of a gallery whose rows are the pictures of the task, in order.
        channels: see `limner.store.search`.
    """
    rows = np.arange(len(index.gallery))

    def score(story: Story) -> FloatArray:
        texts = step_texts(story)
        if not channels:
            return np.zeros((len(texts), len(rows)), dtype=np.float32)
        encoded = [EncodedChannel.encode(channel, texts) for channel in channels]
        return index.score(encoded, rows).scores

    return score


def random_scorer(size: int, seed: int = 0) -> Scorer:
    """Random baseline: independent noise, drawn in the order of the stories."""
    rng = np.random.default_rng(seed)
    return lambda story: rng.standard_normal((len(story.steps), size), dtype=np.float32)


def _check(where: str, table: FloatArray, steps: int, size: int) -> None:
    if table.shape != (steps, size):
        raise ShapeError(f"{where} have shape {table.shape}, expected ({steps}, {size})")


def same_document(score: Score, stories: Sequence[frozenset[str]]) -> dict[str, float]:
    """R@1 and mAP of retrieving other pictures of the same story, computed in blocks.

    Args:
        score: scores of the M distinct pictures with each other.
        stories: (M,) the stories in which each picture occurs.
    Returns:
        ``R@1`` and ``mAP``, in [0, 1], averaged over the pictures that share a story with another; ties share
        the credit.
    Raises:
        ShapeError: sizes differ, or no story has two pictures.
        NumericsError: a score is not finite.
    """
    size = len(stories)
    members: dict[str, list[int]] = {}
    for row, own in enumerate(stories):
        for story in own:
            members.setdefault(story, []).append(row)
    asked = [row for row, own in enumerate(stories) if any(len(members[story]) > 1 for story in own)]
    if not asked:
        raise ShapeError(
            f"same document: none of {counted(size, 'picture')} share a story; expected two that do"
        )
    first, precision = [], []
    step = max(1, BLOCK_CELLS // size)
    for start in range(0, len(asked), step):
        some = np.array(asked[start : start + step])
        table = host(score(some, ALL))
        if table.shape != (len(some), size):
            raise ShapeError(f"same document: scores {table.shape}, expected ({len(some)}, {size})")
        for row, near in zip(some.tolist(), table, strict=True):
            if not np.isfinite(near).all():
                raise NumericsError(
                    f"same document: a score of picture {row} is not finite; check its features"
                )
            right = {other for story in stories[row] for other in members[story]} - {row}
            held, others = np.sort(near[list(right)]), np.sort(np.delete(near, row))
            # precision at each relevant picture, with ties counted in full
            above, all_above = (len(one) - np.searchsorted(one, held) for one in (held, others))
            shares = above / all_above
            precision.append(float(shares.mean()))
            first.append(float(shares[-1]) if held[-1] == others[-1] else 0.0)
    return {"R@1": float(np.mean(first)), "mAP": float(np.mean(precision))}
