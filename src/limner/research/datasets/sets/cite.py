"""CITE and CITE++: recipe steps with photographs and seven coherence relations.

Each relation is the answer to a yes/no question. Recipes repeated under several ids are kept; a grouped split
keeps the copies together.
"""

import re
from collections.abc import Iterable, Iterator

from limner.research.datasets.folders import flag, read_table
from limner.research.datasets.missing import pair_set
from limner.research.datasets.pairs import DataSet, MetaValue, Pair, PairSet, PairSplit, Source, register

QUESTIONS = ("q2", "q3", "q4", "q5", "q6", "q7", "q8")
RELATIONS = (
    "Expansion",
    "ImageNeeded",
    "Elaboration_t",
    "Elaboration_i-tool",
    "Temporal i<t",
    "Temporal i>t",
    "Temporal i=t",
)
_FILLED = ("stim_txt", "qimg")
_COLUMNS = (*_FILLED, *(f"{question}_resp" for question in QUESTIONS))
_IMAGE_NAME = re.compile(r"(?P<slug>.+)_(?P<step>[0-9]+)_(?P<number>[0-9]+)\.jpg")


def read_cite(source: Source) -> PairSet:
    """Read CITE (`data.csv`, ``|``-separated).

    Raises:
        MissingError: the file does not exist.
        DataError: a row is not of the form of docs/methods/data.md §2.1, or too many pictures are missing.
    Source: docs/methods/data.md §2.1.
    """
    file = source.file("data.csv")
    rows = read_table(file, "|", ("Index", "stim_id", *_COLUMNS), filled=_FILLED)
    return pair_set("cite", _pairs(rows, file.name, ""), source, relations=RELATIONS)


def read_cite_plus(source: Source) -> PairSet:
    """Read CITE++: ``q2-8_train_dis_11-08.csv`` and ``q2-8_test_dis_11-08.csv``, or ``train.csv`` and
    ``test.csv``, in a folder or its subfolders.

    Raises:
        MissingError: a file does not exist.
        DataError: a row is not of the form of docs/methods/data.md §2.2, or too many pictures are missing.
    Source: docs/methods/data.md §2.2.
    """
    splits: tuple[PairSplit, ...] = ("train", "test")
    files = {split: source.find(f"{split}.csv", f"q2-8_{split}_dis_11-08.csv") for split in splits}
    pairs = [
        pair
        for split, file in files.items()
        for pair in _pairs(read_table(file, ",", _COLUMNS, filled=_FILLED), file.name, split)
    ]
    return pair_set("cite++", pairs, source, relations=RELATIONS)


def _pairs(rows: Iterable[dict[str, str]], file: str, split: PairSplit) -> Iterator[Pair]:
    for number, row in enumerate(rows):
        where = f"{file}: row {number}"
        labels = {
            relation: flag(where, f"{question}_resp", row[f"{question}_resp"], ("False", "True"))
            for question, relation in zip(QUESTIONS, RELATIONS, strict=True)
        }
        named = _IMAGE_NAME.fullmatch(row["qimg"])
        meta: dict[str, MetaValue] = {"row": number}
        meta |= {name.lower(): row[name] for name in ("Index", "stim_id") if row.get(name)}
        yield Pair(
            id=f"{split or 'row'}-{number}",
            text=row["stim_txt"],
            image=row["qimg"],
            split=split,
            labels=labels,
            seq=named["slug"] if named else "",
            pos=int(named["step"]) if named else None,
            meta=meta,
        )


register(
    DataSet("cite", "recipe steps with photographs", read_cite, RELATIONS, sequence="recipe", folder="cite")
)
register(
    DataSet(
        "cite++",
        "the larger CITE, with its split",
        read_cite_plus,
        RELATIONS,
        sequence="recipe",
        folder="cite++",
    )
)
