"""Evaluation of a library's search on judged topics, in the formats of TREC."""

import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import numpy as np

from limner.config import Record
from limner.errors import RESEARCH, DataError, MissingError, counted, installed
from limner.research.evaluation.uncertainty import RESAMPLES, Interval, interval

with installed("ir_measures", RESEARCH):
    import ir_measures

MEASURES = ("Success@1", "Success@5", "Success@10", "RR@100", "AP@100")
FIRST = 100
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


class JudgedResult(Record):
    """How well a library's search ranks pictures that were judged.

    Attributes:
        metrics: measure of ir_measures → its mean with a bootstrap interval over topics, in [0, 1].
        gallery, topics: numbers of pictures and of topics with a relevant picture in the library.
        absent: number of judgements of pictures that are not in the library.
        silent: ids of topics left out because the library has none of their relevant pictures.
    """

    metrics: dict[str, Interval]
    gallery: int
    topics: int
    absent: int
    silent: tuple[str, ...] = ()


def evaluate_judged(
    qrels: Path,
    topics: Path,
    pictures: Collection[str],
    search: Callable[[str], Iterable[str]],
    *,
    resamples: int = RESAMPLES,
) -> JudgedResult:
    """Search a library for every judged topic, and measure the ranks of the pictures judged relevant.

    Unjudged pictures count as not relevant.

    Args:
        qrels: judgements, see `read_qrels`; documents are ids of pictures.
        topics: texts of the topics, see `read_topics`.
        pictures: ids of the library's pictures.
        search: text → ids of at most `FIRST` pictures, best first.
        resamples: number of bootstrap resamples.
    Raises:
        DataError: a judged topic has no text, or no topic has a relevant picture in the library.
        MissingError, DataError: see `read_qrels` and `read_topics`.
    """
    judged, texts = read_qrels(qrels), read_topics(topics)
    known = set(pictures)
    held = {topic: {n: r for n, r in own.items() if n in known} for topic, own in judged.items()}
    asked = {topic: own for topic, own in held.items() if any(value > 0 for value in own.values())}
    absent = sum(map(len, judged.values())) - sum(map(len, held.values()))
    if unknown := [topic for topic in judged if topic not in texts]:
        raise DataError(f"{qrels}: topic {unknown[0]!r} is not in {topics}; use files of one set")
    if not asked:
        raise DataError(
            f"{qrels}: {counted(len(judged), 'topic')}, none with a relevant picture in this library (not in"
            f" it: {counted(absent, 'judged picture')}); use a library of the same collection"
        )
    found = {
        topic: {name: float(-place) for place, name in enumerate(search(texts[topic]))} for topic in asked
    }
    measures = [ir_measures.parse_measure(name) for name in MEASURES]
    values: dict[str, dict[str, float]] = {name: dict.fromkeys(asked, 0.0) for name in MEASURES}
    for one in ir_measures.iter_calc(measures, asked, found):
        values[str(one.measure)][one.query_id] = one.value
    metrics = {
        name: interval(np.array(list(own.values())), list(own), resamples=resamples)
        for name, own in values.items()
    }
    silent = tuple(topic for topic in judged if topic not in asked)
    return JudgedResult(metrics=metrics, gallery=len(known), topics=len(asked), absent=absent, silent=silent)
