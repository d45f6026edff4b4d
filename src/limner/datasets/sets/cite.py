"""Reads CITE and CITE++: recipe steps with photographs and seven coherence relations.

Each relation is the yes or no of one question; repeats of one recipe under several question ids stay,
because only a grouped split can deal with them. It makes no split and changes no text.
"""

import re
from pathlib import Path

from limner.datasets.base import flag, read_table
from limner.datasets.missing import MAX_MISSING, MissingPolicy, with_pictures
from limner.datasets.pairs import Pair, PairSet, PairSplit
from limner.errors import DataError

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
_COLUMNS = ("stim_txt", "qimg", *(f"{question}_resp" for question in QUESTIONS))
_IMAGE_NAME = re.compile(r"(?P<slug>.+)_(?P<step>[0-9]+)_(?P<number>[0-9]+)\.jpg")


def read_cite(
    path: Path | str,
    *,
    pictures: Path | str | None,
    missing: MissingPolicy = "abort",
    max_missing: float = MAX_MISSING,
) -> PairSet:
    """Read CITE (`data.csv`, fields parted by ``|``).

    Args:
        path: the file, or the folder that holds it.
        pictures: folder of the pictures; None reads the texts alone.
        missing: what to do about pictures that are not there or do not open.
        max_missing: share of pairs in [0, 1] that "abort" lets pass.
    Raises:
        MissingError: no such file.
        DataError: a row is not as SPEC 1.3.1 says, or too many pictures are missing.
    Source: SPEC 1.3.1.
    """
    file = Path(path) / "data.csv" if Path(path).is_dir() else Path(path)
    rows = read_table(file, "|", ("Index", "stim_id", *_COLUMNS))
    data = PairSet("cite", RELATIONS, _pairs(rows, file.name, ""))
    return with_pictures(data, pictures, missing=missing, max_missing=max_missing)


def read_cite_plus(
    train: Path | str,
    test: Path | str,
    *,
    pictures: Path | str | None,
    missing: MissingPolicy = "abort",
    max_missing: float = MAX_MISSING,
) -> PairSet:
    """Read CITE++: two comma-separated files, train and test.

    Args:
        train: file of the training rows.
        test: file of the test rows.
        pictures: as in `read_cite`.
        missing: as in `read_cite`.
        max_missing: as in `read_cite`.
    Raises:
        MissingError: a file is not there.
        DataError: a row is not as SPEC 1.3.2 says, or too many pictures are missing.
    Source: SPEC 1.3.2.
    """
    first = _pairs(read_table(Path(train), ",", _COLUMNS), Path(train).name, "train")
    second = _pairs(read_table(Path(test), ",", _COLUMNS), Path(test).name, "test")
    data = PairSet("cite++", RELATIONS, first + second)
    return with_pictures(data, pictures, missing=missing, max_missing=max_missing)


def _pairs(rows: list[dict[str, str]], file: str, split: PairSplit) -> tuple[Pair, ...]:
    pairs = []
    for number, row in enumerate(rows):
        where = f"{file}: row {number}"
        if not row["stim_txt"].strip() or not row["qimg"].strip():
            raise DataError(f"{where}: stim_txt or qimg is empty; remove the row or fill it in")
        labels = {
            relation: flag(where, f"{question}_resp", row[f"{question}_resp"], ("False", "True"))
            for question, relation in zip(QUESTIONS, RELATIONS, strict=True)
        }
        named = _IMAGE_NAME.fullmatch(row["qimg"])
        meta: dict[str, str | int | float | bool | None] = {"row": number}
        meta |= {
            key: row[column]
            for key, column in (("index", "Index"), ("stim_id", "stim_id"))
            if row.get(column)
        }
        pairs.append(
            Pair(
                id=f"{split or 'row'}-{number}",
                text=row["stim_txt"],
                image=row["qimg"],
                split=split,
                labels=labels,
                seq=named["slug"] if named else "",
                pos=int(named["step"]) if named else None,
                meta=meta,
            )
        )
    return tuple(pairs)
