"""Clue: web captions, written by people or by captioning models, with six coherence relations.

In one of the two released forms, the CSVs, the columns How and Where are swapped relative to the TSV; they
are swapped back while reading.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import StrictInt

from limner.errors import DataError
from limner.research.datasets.folders import flag, read_json, read_table
from limner.research.datasets.missing import pair_set
from limner.research.datasets.pairs import DataSet, MetaValue, Pair, PairSet, PairSplit, Source, register

RELATIONS = ("Visible", "Subjective", "Action", "Story", "Meta", "Irrelevant")
TSV_NAME = "data-both-04-08-cleaned.tsv"
CSV_NAMES: Mapping[PairSplit, str] = {"train": "conceptual_train_dis.csv", "test": "conceptual_test_dis.csv"}
MAP_NAME = "img2idxmap.json"
MODEL_FROM = 4581
"""First index of the captions written by captioning models; their pictures have several captions each."""
SWAP_NOTE = "clue CSVs: columns How and Where are swapped relative to the TSV; corrected while reading"
_FLAGS = ("Other", "When", "Where", "How")
_FILLED = ("caption", "url")
_COLUMNS = (*_FILLED, *RELATIONS, *_FLAGS, "Comment")


def read_clue(source: Source) -> PairSet:
    """Read the two CSVs of the CMCM release, with their split.

    Args:
        source: folder of the CSVs (or a folder above it) and, if there are pictures, of the map from URLs to
            numbers; pictures are named ``<number>.jpg``.
    Raises:
        MissingError: a file does not exist.
        DataError: a row is not of the form of docs/methods/data.md §2.3, or too many pictures are missing.
    Source: docs/methods/data.md §2.3, form (b).
    """
    root = source.place
    pairs: list[Pair] = []
    for split, name in CSV_NAMES.items():
        file = source.find(name)
        for number, row in enumerate(read_table(file, ",", ("index", *_COLUMNS), filled=_FILLED)):
            where = f"{name}: row {number}"
            if not row["index"].isdecimal():
                raise DataError(f"{where}: index is {row['index']!r}, expected a row number of the TSV")
            row["How"], row["Where"] = row["Where"], row["How"]
            row["Comment"] = "" if row["Comment"] == "False" else row["Comment"]
            pairs.append(_pair(where, row, int(row["index"]), split))
    numbers = [pair.id for pair in pairs]
    if len(set(numbers)) != len(numbers):
        raise DataError(f"{root.name}: an index is repeated in the CSVs; use the files as released")
    files = wanted(root) if source.pictures else None
    data = pair_set("clue", pairs, source, relations=RELATIONS, files=files)
    return replace(data, notes=(SWAP_NOTE, *data.notes))


def read_clue_tsv(source: Source) -> PairSet:
    """Read the TSV of all annotations; it states no split.

    Args:
        source: the file or its folder, which also has the map from URLs to numbers.
    Raises:
        MissingError: a file does not exist.
        DataError: a row is not of the form of docs/methods/data.md §2.3, or too many pictures are missing.
    Source: docs/methods/data.md §2.3, form (a).
    """
    file = source.file(TSV_NAME)
    pairs = []
    for number, row in enumerate(read_table(file, "\t", _COLUMNS, quoted=False, filled=_FILLED)):
        # captions are never quoted, but comments with quotation marks are
        if len(row["Comment"]) > 1 and row["Comment"][0] == row["Comment"][-1] == '"':
            row["Comment"] = row["Comment"][1:-1].replace('""', '"')
        pairs.append(_pair(f"{file.name}: row {number}", row, number, ""))
    files = wanted(file.parent) if source.pictures else None
    return pair_set("clue-tsv", pairs, source, relations=RELATIONS, files=files)


def wanted(place: Path) -> dict[str, str]:
    """Picture URL → file name.

    Args:
        place: the map from URLs to numbers, or a folder that contains it (or has it in a subfolder).
    Raises:
        MissingError: the file does not exist.
        DataError: not a JSON object of URL → integer ≥ 0, or a number is repeated.
    """
    file = Source(place).file(MAP_NAME)
    numbers = read_json(file, dict[str, StrictInt], "one JSON object, picture URL → file number")
    if len(set(numbers.values())) != len(numbers) or min(numbers.values(), default=0) < 0:
        raise DataError(f"{file}: a number is negative or belongs to two URLs; use the map as released")
    return {url: f"{number}.jpg" for url, number in numbers.items()}


def _pair(where: str, row: Mapping[str, str], index: int, split: PairSplit) -> Pair:
    labels = {name: flag(where, name, row[name], ("0", "1")) for name in RELATIONS}
    meta: dict[str, MetaValue] = {"index": index, "url": row["url"]}
    meta |= {name.lower(): flag(where, name, row[name], ("0", "1")) for name in _FLAGS}
    meta["comment"] = row["Comment"]
    meta["origin"] = "model" if index >= MODEL_FROM else "human"
    return Pair(
        id=f"clue-{index}", text=row["caption"], image=row["url"], split=split, labels=labels, meta=meta
    )


register(
    DataSet(
        "clue",
        "web captions by people and by models, with their split",
        read_clue,
        RELATIONS,
        folder="clue",
        wanted=wanted,
    )
)
register(
    DataSet("clue-tsv", "all annotations of Clue, without a split", read_clue_tsv, RELATIONS, folder="clue")
)
