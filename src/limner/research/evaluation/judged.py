"""Evaluation on judged topics: ranks of the pictures judged relevant.

Most pictures have no judgement and count as irrelevant. The share of judged pairs in which the relevant
picture scores above the irrelevant one is therefore reported too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from limner.config import Record
from limner.errors import DataError, MissingError, counted
from limner.language import languages_of
from limner.research.evaluation.linear import linear_channels
from limner.research.evaluation.ranking import Metric, Ranking, rank_blocks
from limner.research.evaluation.uncertainty import RESAMPLES, Interval, interval
from limner.store import Store
from limner.store.search import EncodedChannel

Judged = Mapping[str, Mapping[str, int]]
"""Topic → document → relevance; above 0 is relevant, else judged irrelevant."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


def read_qrels(path: Path | str) -> dict[str, dict[str, int]]:
    """Read judgements in TREC format, in file order.

    Raises:
        MissingError: the file does not exist.
        DataError: the file cannot be read or has no lines, a line has another form, or a document is judged
            twice for a topic.
    """
    found: dict[str, dict[str, int]] = {}
    for where, line in _lines(Path(path)):
        words = line.split()
        if len(words) != 4 or not _NUMBER.fullmatch(words[3]):
            raise DataError(f"{where}: {line.strip()[:80]!r}; expected: topic 0 document relevance")
        topic, _, document, relevance = words
        judged = found.setdefault(topic, {})
        if document in judged:
            raise DataError(f"{where}: {document!r} is judged twice for topic {topic!r}; keep one")
        judged[document] = int(relevance)
    if not found:
        raise DataError(f"{path}: contains no judgements")
    return found


def read_topics(path: Path | str) -> dict[str, str]:
    """Read topics (id → text), in file order.

    Raises:
        MissingError: the file does not exist.
        DataError: the file cannot be read, a line has another form, or a topic is repeated.
    """
    found: dict[str, str] = {}
    for where, line in _lines(Path(path)):
        topic, tab, words = line.partition("\t")
        if not tab or not words.strip() or topic.split() != [topic]:
            raise DataError(f"{where}: {line[:80]!r}; expected the id of a topic, a tab, and its words")
        if topic in found:
            raise DataError(f"{where}: topic {topic!r} is repeated; keep one")
        found[topic] = words.strip()
    return found


def _lines(path: Path) -> list[tuple[str, str]]:
    """Location and text of each line that is not blank."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise MissingError(f"{path}: does not exist; 'limner study preferences' writes such files") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; expected a readable file") from error
    lines = enumerate(text.split("\n"), start=1)
    return [(f"{path.name}:{number}", line) for number, line in lines if line.strip()]


METRICS = ("R@1", "R@5", "R@10", "MedR", "MRR")
PREFERRED = "preferred"
Scorer = Callable[[Sequence[str]], NDArray[np.floating]]
"""T texts → (T, M) scores of the task's pictures."""
TEXTS = 64


@dataclass(frozen=True)
class JudgedTask:
    """Topics, and the pictures of a library that were judged for them.

    Attributes:
        topics: (T,) ids.
        texts: (T,) texts.
        relevant: (T,) columns of the relevant pictures of each topic, at least one.
        pairs: rows (topic, relevant column, irrelevant column), for all judged pairs.
        size: M, number of pictures in the library.
        absent: number of judgements of pictures that are not in the library.
        silent: ids of topics left out because the library has none of their relevant pictures.
    """

    topics: tuple[str, ...]
    texts: tuple[str, ...]
    relevant: tuple[tuple[int, ...], ...]
    pairs: NDArray[np.int64]
    size: int
    absent: int
    silent: tuple[str, ...]

    @classmethod
    def of(cls, judged: Judged, topics: Mapping[str, str], pictures: Sequence[str]) -> JudgedTask:
        """Match judgements with a library.

        Args:
            judged: topic → picture id → relevance.
            topics: topic → text; topics without judgements are not queries.
            pictures: (M,) ids of the library's pictures, in the order of the score columns.
        Raises:
            DataError: a judged topic has no text, or no topic has a relevant picture in the library.
        """
        column = {picture: number for number, picture in enumerate(pictures)}
        relevant: dict[str, tuple[int, ...]] = {}
        silent: list[str] = []
        pairs: list[tuple[int, int, int]] = []
        absent = 0
        for topic, documents in judged.items():
            if topic not in topics:
                raise DataError(
                    f"judgements: topic {topic!r} is not in the topics file; use files of one set"
                )
            known = {column[name]: value for name, value in documents.items() if name in column}
            absent += len(documents) - len(known)
            right = tuple(sorted(number for number, value in known.items() if value > 0))
            wrong = sorted(known.keys() - set(right))
            if right:
                pairs += [(len(relevant), better, worse) for better in right for worse in wrong]
                relevant[topic] = right
            else:
                silent.append(topic)
        if not relevant:
            raise DataError(
                f"judgements: {counted(len(judged), 'topic')}, none with a relevant picture in this library"
                f" (not in it: {counted(absent, 'judged picture')}); use a library of the same collection"
            )
        table = np.array(pairs, dtype=np.int64).reshape(-1, 3)
        names, texts = tuple(relevant), tuple(topics[name] for name in relevant)
        return cls(names, texts, tuple(relevant.values()), table, len(pictures), absent, tuple(silent))


class JudgedResult(Record):
    """Scores of one system; its JSON form is printed.

    Attributes:
        system: name of the system.
        metrics: metric name → value with a bootstrap interval over topics. ``preferred`` is the share of
            pairs in which the relevant picture scores above the irrelevant one (ties count half); absent
            without pairs.
        ties: tie policy of the ranks.
        gallery, queries, pairs: numbers of pictures, topics and pairs.
        absent: number of judgements of pictures that are not in the library.
        silent: ids of topics left out because the library has none of their relevant pictures.
        config: settings.
    """

    system: str
    metrics: dict[str, Interval]
    ties: Literal["mean"] = "mean"
    gallery: int
    queries: int
    pairs: int
    absent: int
    silent: tuple[str, ...] = ()
    config: dict[str, str | int | float | bool | None] = Field(default_factory=dict)


def evaluate_judged(
    system: str, task: JudgedTask, scorer: Scorer, *, resamples: int = RESAMPLES
) -> tuple[JudgedResult, Ranking]:
    """Rank all pictures of the library for each topic, and compute metrics with intervals.

    Args:
        system: name for the record.
        task: see `JudgedTask.of`.
        scorer: texts → (T, M) scores.
        resamples: number of bootstrap resamples.
    Raises:
        ShapeError, NumericsError: the scores are not (T, M), or not finite.
    """
    gaps = np.zeros(len(task.pairs))

    def score_rows(start: int, stop: int) -> NDArray[np.floating]:
        table = np.asarray(scorer(task.texts[start:stop]))
        here = np.flatnonzero((task.pairs[:, 0] >= start) & (task.pairs[:, 0] < stop))
        if len(here) and table.shape == (stop - start, task.size):
            rows, better, worse = task.pairs[here].T
            gaps[here] = table[rows - start, better].astype(float) - table[rows - start, worse]
        return table

    found = rank_blocks(score_rows, (len(task.topics), task.size), task.relevant, block=TEXTS)
    metrics = {name: Metric.parse(name).interval(found, task.topics, resamples) for name in METRICS}
    if len(task.pairs):
        won = np.where(gaps == 0, 0.5, gaps > 0).astype(np.float64)
        groups = [task.topics[row] for row in task.pairs[:, 0]]
        metrics[PREFERRED] = interval(won, groups, resamples=resamples)
    result = JudgedResult(
        system=system,
        metrics=metrics,
        gallery=task.size,
        queries=len(task.topics),
        pairs=len(task.pairs),
        absent=task.absent,
        silent=task.silent,
    )
    return result, found


def judged_search(
    qrels: Path, topics: Path, library: Store, channel: Sequence[str] = (), weights: Sequence[str] = ()
) -> tuple[JudgedResult, JudgedResult]:
    """Rank all pictures of a library for each judged topic, once at random and once by its channels.

    Args:
        qrels: file of judgements in TREC format, with picture ids as documents.
        topics: file of topics.
        library: the library.
        channel: names of channels; empty for all that the library has.
        weights: see `linear_channels`.
    Returns:
        The results of random scores, as a baseline, and of the channels.
    Raises:
        LimnerError: see `read_qrels`, `read_topics`, `JudgedTask.of` and `linear_channels`.
    """
    judged, words = read_qrels(qrels), read_topics(topics)
    channels = linear_channels(library, channel, weights=weights)
    index = library.index(sorted({one.space for one in channels}))
    task = JudgedTask.of(judged, words, index.gallery.ids)
    rng, rows = np.random.default_rng(0), np.arange(task.size)

    def chance(texts: Sequence[str]) -> NDArray[np.floating]:
        return rng.standard_normal((len(texts), task.size), dtype=np.float32)

    def scores(texts: Sequence[str]) -> NDArray[np.floating]:
        codes = [one.code for one in languages_of(texts).each]
        return index.score([EncodedChannel.encode(one, list(texts), codes) for one in channels], rows).scores

    name = "+".join(one.name for one in channels)
    return evaluate_judged("random", task, chance)[0], evaluate_judged(name, task, scores)[0]
