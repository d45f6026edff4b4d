"""Politics: pictures of political issues with the web pages they stood on, converted to JSON.

The set is handed out as pickles, which run code when loaded: they are refused, and docs/data.md says how
to convert them elsewhere. The texts are cut as its authors cut them.
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
"""Texts of no more characters are left out."""
SENTENCES = 2
"""Of a text, how many count, from the first."""


class _Item(BaseModel):
    local_path: str
    content_text: str | None


class _Line(_Item):
    model_config = ConfigDict(extra="forbid")
    politics: str
    issue: str
    split: PairSplit = ""


def read_politics(source: Source) -> PairSet:
    """Read the converted set.

    Args:
        source: ``.json``, the nested map politics → issue → items, or ``.jsonl``, one item a line, or the
            folder of ``politics.json`` or ``politics.jsonl``; `local_path` lies below the folder of the
            pictures.
    Returns:
        One pair per item; pages of equal text are one sequence, so that no page is parted. `notes` counts the
        texts left out.
    Raises:
        MissingError: no such file.
        DataError: a pickle, not of either form, nothing left, or too many pictures are missing.
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
        raise DataError(f"{file}: no text of more than {MIN_CHARS} characters; is the file whole?")
    return pair_set(
        "politics", pairs, source, counted={f"texts of at most {MIN_CHARS} characters left out": short}
    )


def _nested(file: Path) -> Iterator[_Line]:
    form = dict[str, dict[str, list[_Item]]]
    found = read_json(file, form, "politics → issue → list of local_path and content_text")
    for politics, issues in found.items():
        for issue, items in issues.items():
            for item in items:
                yield _Line(politics=politics, issue=issue, **item.model_dump())


def _lines(file: Path) -> Iterator[_Line]:
    refuse_pickle(file)
    rows = json_rows(file, _Line, one="item", see="docs/data.md")
    return (line for _, line in rows)


register(
    DataSet("politics", "pictures of political issues with their pages", read_politics, folder="politics")
)
