"""The user's replacements as preference data and relevance judgements, if the user agrees.

Replacing picture A by B at a step means that B fits its words better than A. The caller asks for consent.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from limner.config import Record
from limner.errors import DataError, MissingError
from limner.files import write_lines, write_text
from limner.studio.projects import Projects

PREFERENCES, TOPICS, QRELS = "preferences.jsonl", "topics.tsv", "qrels.txt"


class Preference(Record):
    """One line of preference data.

    Attributes:
        query: words of the step.
        context: texts of the surrounding steps and of the step itself, in order.
        preferred: id of the picture that the user chose.
        rejected: id of the picture that it replaced; None if the step was blank.
        time: time of the choice, UTC.
        library: name of the library folder.
    """

    query: str
    context: tuple[str, ...]
    preferred: str
    rejected: str | None
    time: datetime
    library: str

    @property
    def topic(self) -> str:
        """Id of the topic: equal words in equal contexts get the same id in every export."""
        words = "\x1f".join((self.query, *self.context))
        return "t" + hashlib.sha256(words.encode("utf-8")).hexdigest()[:16]


def read_preferences(projects: Path) -> list[Preference]:
    """All replacements in the projects of a studio that were not undone, oldest first.

    Args:
        projects: folder of the studio's projects.
    Raises:
        MissingError: the folder does not exist.
        DataError: a project is damaged, or no picture was replaced in any.
    """
    if not projects.is_dir():
        raise MissingError(
            f"{projects}: no projects; 'limner studio' creates them there; or name another folder with"
            " --projects"
        )
    kept = [
        Preference(
            query=one.text,
            context=one.context,
            preferred=one.chosen,
            rejected=one.shown,
            time=one.time,
            library=one.library,
        )
        for one in Projects(projects).choices()
        if one.chosen != one.shown
    ]
    if not kept:
        raise DataError(f"{projects}: no picture was replaced in any project; there is nothing to export")
    return sorted(kept, key=lambda one: one.time)


def judgements(preferences: Sequence[Preference]) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """Topics with their words, and the latest judgement of each picture: 1 preferred, 0 replaced.

    Args:
        preferences: oldest first; a picture that was preferred and later replaced counts as replaced.
    """
    topics: dict[str, str] = {}
    judged: dict[str, dict[str, int]] = {}
    for one in preferences:
        topics[one.topic] = one.query
        said = judged.setdefault(one.topic, {})
        if one.rejected is not None:
            said[one.rejected] = 0
        said[one.preferred] = 1
    return topics, judged


def qrels_lines(judged: Mapping[str, Mapping[str, int]]) -> str:
    """Judgements as lines of a qrels file: topic, iteration, document, relevance."""
    return "".join(
        f"{topic} 0 {document} {relevance}\n"
        for topic, documents in judged.items()
        for document, relevance in documents.items()
    )


def topic_lines(topics: Mapping[str, str]) -> str:
    """Topics and their words, one line each; white space in the words becomes single spaces."""
    return "".join(f"{topic}\t{' '.join(words.split())}\n" for topic, words in topics.items())


def write_preferences(preferences: Sequence[Preference], folder: Path) -> tuple[int, int]:
    """Write `PREFERENCES`, `TOPICS` and `QRELS`; earlier ones are replaced.

    Args:
        preferences: oldest first.
        folder: created if missing.
    Returns:
        Number of topics, and of judgements.
    """
    topics, judged = judgements(preferences)
    folder.mkdir(parents=True, exist_ok=True)
    write_lines(folder / PREFERENCES, (one.model_dump_json() for one in preferences))
    write_text(folder / TOPICS, topic_lines(topics))
    write_text(folder / QRELS, qrels_lines(judged))
    return len(topics), sum(map(len, judged.values()))
