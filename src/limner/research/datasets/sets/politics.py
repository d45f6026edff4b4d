"""Politics: pictures of political issues with the text of their web pages, converted to JSON.

The set is distributed as pickles, which limner rejects because loading them can run code; docs/data.md
explains how to convert it. Texts are shortened as in the authors' code.
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from limner.errors import DataError
from limner.files import json_rows
from limner.language import split_sentences
from limner.research.datasets.folders import read_json, refuse_pickle
from limner.research.datasets.missing import pair_set
from limner.research.datasets.pairs import DataSet, Pair, PairSet, PairSplit, Source, register, text_id

FILE_NAMES = ("politics.json", "politics.jsonl")
MIN_CHARS = 500
"""Texts with at most this many characters are left out."""
SENTENCES = 2
"""Number of sentences kept, counted from the first."""


class _Item(BaseModel):
    local_path: str
    content_text: str | None


class _JsonLine(_Item):
    model_config = ConfigDict(extra="forbid")
    politics: str
    issue: str
    split: PairSplit = ""


def read_politics(source: Source) -> PairSet:
    """Read the converted set.

    Args:
        source: ``.json``, a nested map politics → issue → items; ``.jsonl`` with one item per line; or the
            folder of ``politics.json`` or ``politics.jsonl``. `local_path` is relative to the folder of the
            pictures.
    Returns:
        One pair per item; items with equal text form one sequence, so that a page stays in one split. `notes`
        counts the texts left out.
    Raises:
        MissingError: the file does not exist.
        DataError: the file is a pickle or has another form, nothing is left, or too many pictures are
            missing.
    Source: docs/methods/data.md §2.6.
    """
    file = source.file(*FILE_NAMES)
    pairs: list[Pair] = []
    short = 0
    for line in _lines(file) if file.suffix.lower() == ".jsonl" else _nested(file):
        text = line.content_text or ""
        words = " ".join(split_sentences(text)[:SENTENCES]) if len(text) > MIN_CHARS else ""
        if not words:
            short += 1
            continue
        pairs.append(
            Pair(
                id=f"politics-{len(pairs) + short}",
                text=words,
                image=line.local_path,
                split=line.split,
                seq=text_id(text),
                meta={"politics": line.politics, "issue": line.issue},
            )
        )
    if not pairs:
        raise DataError(f"{file}: no text of more than {MIN_CHARS} characters; is the file complete?")
    return pair_set(
        "politics", pairs, source, counted={f"texts of at most {MIN_CHARS} characters left out": short}
    )


def _nested(file: Path) -> Iterator[_JsonLine]:
    form = dict[str, dict[str, list[_Item]]]
    nested = read_json(file, form, "politics → issue → list of local_path and content_text")
    for politics, issues in nested.items():
        for issue, items in issues.items():
            for item in items:
                yield _JsonLine(politics=politics, issue=issue, **item.model_dump())


def _lines(file: Path) -> Iterator[_JsonLine]:
    refuse_pickle(file)
    rows = json_rows(file, _JsonLine, one="item", see="docs/data.md")
    return (line for _, line in rows)


register(
    DataSet("politics", "pictures of political issues with their pages", read_politics, folder="politics")
)
