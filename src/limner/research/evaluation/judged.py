"""Topics with judged pictures as a test: where does a system put what was judged right?

Judgements are few, so every picture without one counts as wrong, and beside the ranks stands how often a
preferred picture scores above one that it replaced. It scores nothing itself and opens no picture.
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
from limner.store.library import PictureStore
from limner.store.search import EncodedChannel, Index

Judged = Mapping[str, Mapping[str, int]]
"""Topic → document → relevance: above 0 relevant, else judged not to be."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


def read_qrels(path: Path | str) -> dict[str, dict[str, int]]:
    """Judgements of a file, in its order.

    Raises:
        MissingError: the file does not exist.
        DataError: a line is not of the form, a document of a topic is judged twice, or there is no line.
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
        raise DataError(f"{path}: no judgement in it")
    return found


def read_topics(path: Path | str) -> dict[str, str]:
    """Words of every topic, in the order of the file.

    Raises:
        MissingError: the file does not exist.
        DataError: a line is not of the form, or a topic comes twice.
    """
    found: dict[str, str] = {}
    for where, line in _lines(Path(path)):
        topic, tab, words = line.partition("\t")
        if not tab or not words.strip() or topic.split() != [topic]:
            raise DataError(f"{where}: {line[:80]!r}; expected the id of a topic, a tab, and its words")
        if topic in found:
            raise DataError(f"{where}: topic {topic!r} comes twice; keep one")
        found[topic] = words.strip()
    return found


def _lines(path: Path) -> list[tuple[str, str]]:
    """Place and text of every line that is not blank."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise MissingError(f"{path}: does not exist; 'limner study preferences' writes such files") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; expected a file that can be read") from error
    lines = enumerate(text.split("\n"), start=1)
    return [(f"{path.name}:{number}", line) for number, line in lines if line.strip()]


METRICS = ("R@1", "R@5", "R@10", "MedR", "MRR")
PREFERRED = "preferred"
Scorer = Callable[[Sequence[str]], NDArray[np.floating]]
"""T texts → (T, M) scores of the task's pictures."""
TEXTS = 64


@dataclass(frozen=True)
class JudgedTask:
    """Topics, and which pictures of a library were judged for them.

    Attributes:
        topics: (T,) ids.
        texts: (T,) their words.
        relevant: (T,) columns judged right, at least one each.
        pairs: rows (topic, better column, worse column), all pairs of a right and a wrong picture.
        size: M, pictures in the library.
        absent: judgements of pictures that the library does not hold.
        silent: topics left out because no picture of the library was judged right for them.
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
            topics: topic → words; topics without a judgement are no queries.
            pictures: (M,) ids of the library, in the order of the score columns.
        Raises:
            DataError: a judged topic has no words, or none has a right picture in the library.
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
                f"judgements: of {counted(len(judged), 'topic')} none has a relevant picture in this library"
                f" (not in it: {counted(absent, 'judged picture')}); was it made from another collection?"
            )
        table = np.array(pairs, dtype=np.int64).reshape(-1, 3)
        names, texts = tuple(relevant), tuple(topics[name] for name in relevant)
        return cls(names, texts, tuple(relevant.values()), table, len(pictures), absent, tuple(silent))


class JudgedResult(Record):
    """Scores of one system; its JSON form is printed.

    Attributes:
        system: its name.
        metrics: metric name → value with its interval by topic; ``preferred`` is the share of pairs in which
            the right picture scores above the wrong one, ties counting half; absent without pairs.
        ties: policy of the ranks.
        gallery, queries, pairs: sizes.
        absent: judgements of pictures that are not in the library.
        silent: topics without a right picture in the library, which are no queries.
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
    """Rank every topic against the whole library and put intervals on what comes out.

    Args:
        system: name for the record.
        task: see `JudgedTask.of`.
        scorer: texts → (T, M) scores.
        resamples: resamples of the bootstrap.
    Raises:
        ShapeError, NumericsError: scores of another shape than (T, M), or not finite.
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
    qrels: Path, topics: Path, library: Path, channel: Sequence[str] = (), weights: Sequence[str] = ()
) -> tuple[JudgedResult, JudgedResult]:
    """Rank all pictures of a library for every judged topic, by chance and by its channels.

    Args:
        qrels: judgements in TREC format, of picture ids.
        topics: their words.
        library: folder of the library.
        channel: names; none for all that the library has.
        weights: see `linear_channels`.
    Raises:
        LimnerError: as `read_qrels`, `read_topics`, `JudgedTask.of` and `linear_channels`.
    """
    judged, words = read_qrels(qrels), read_topics(topics)
    opened = PictureStore.open(library)
    channels = linear_channels(opened, channel, weights=weights)
    index = Index(opened.gallery(sorted({one.space for one in channels})))
    task = JudgedTask.of(judged, words, index.gallery.ids)
    rng, rows = np.random.default_rng(0), np.arange(task.size)

    def chance(texts: Sequence[str]) -> NDArray[np.floating]:
        return rng.standard_normal((len(texts), task.size), dtype=np.float32)

    def scores(texts: Sequence[str]) -> NDArray[np.floating]:
        codes = [one.code for one in languages_of(texts).each]
        return index.score([EncodedChannel.encode(one, list(texts), codes) for one in channels], rows).scores

    name = "+".join(one.name for one in channels)
    return evaluate_judged("random", task, chance)[0], evaluate_judged(name, task, scores)[0]
