"""Relevance judgements in TREC format, and the topics they are about.

``qrels``: a line per judgement, ``topic iteration document relevance``, white space between; topics: a line
per topic, its id, a tab, its words. It ranks nothing and knows no library.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from limner.errors import DataError, MissingError

Judged = Mapping[str, Mapping[str, int]]
"""Topic → document → relevance: above 0 relevant, else judged not to be."""
ITERATION = "0"
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


def read_qrels(path: Path | str) -> dict[str, dict[str, int]]:
    """Judgements of a file, in its order.

    Raises:
        MissingError: no such file.
        DataError: a line is not of the form, a document of a topic is judged twice, or there is no line.
    """
    found: dict[str, dict[str, int]] = {}
    for where, line in _lines(Path(path), "limner study preferences"):
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
        MissingError: no such file.
        DataError: a line is not of the form, or a topic comes twice.
    """
    found: dict[str, str] = {}
    for where, line in _lines(Path(path), "limner study preferences"):
        topic, tab, words = line.partition("\t")
        if not tab or not words.strip() or topic.split() != [topic]:
            raise DataError(f"{where}: {line[:80]!r}; expected the id of a topic, a tab, and its words")
        if topic in found:
            raise DataError(f"{where}: topic {topic!r} comes twice; keep one")
        found[topic] = words.strip()
    return found


def qrels_lines(judged: Judged) -> str:
    """Judgements as `read_qrels` reads them."""
    return "".join(
        f"{topic} {ITERATION} {document} {relevance}\n"
        for topic, documents in judged.items()
        for document, relevance in documents.items()
    )


def topic_lines(topics: Mapping[str, str]) -> str:
    """Topics as `read_topics` reads them; white space in the words becomes single spaces."""
    return "".join(f"{topic}\t{' '.join(words.split())}\n" for topic, words in topics.items())


def _lines(path: Path, maker: str) -> list[tuple[str, str]]:
    """Place and text of every line that is not blank."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise MissingError(f"{path}: not there; '{maker}' writes such files") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; expected a file that can be read") from error
    lines = enumerate(text.split("\n"), start=1)
    return [(f"{path.name}:{number}", line) for number, line in lines if line.strip()]
