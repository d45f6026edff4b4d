"""Conceptual Captions: a TSV of captions and addresses, without a header.

Pictures are files named by row number, as a download in file order leaves them; many addresses are dead,
and each such row is counted and listed.
"""

from collections.abc import Iterator
from pathlib import Path

from limner.research.datasets.folders import read_table
from limner.research.datasets.missing import pair_set
from limner.research.datasets.pairs import DataSet, Pair, PairSet, Source, register

FILE_NAMES = ("Train_GCC-training.tsv", "Train-GCC-training.tsv")
_COLUMNS = ("caption", "url")


def read_conceptual(source: Source) -> PairSet:
    """Read captions and addresses.

    Args:
        source: the TSV, one ``caption <tab> url`` per line, or the folder of that of training as released;
            a picture is ``<row>.jpg``, rows counted from 0. Many links are dead, so missing="drop" is the
            rule here.
    Returns:
        One pair per row, without a split; the address is the picture's identity until its bytes are known.
    Raises:
        MissingError: no such file.
        DataError: not UTF-8, a line is not two filled fields, or too many pictures are missing.
    Source: docs/methods/data.md §2.6.
    """
    pairs = [
        Pair(id=f"conceptual-{number}", text=caption, image=url, meta={"url": url, "row": number})
        for number, caption, url in _rows(source)
    ]
    return pair_set("conceptual", pairs, source, files=wanted(source.place) if source.pictures else None)


def wanted(place: Path) -> dict[str, str]:
    """Picture URL → file name; an address that comes twice has that of its first row.

    Args:
        place: the TSV, or a folder that holds it, in it or below.
    Raises:
        MissingError, DataError: see `read_conceptual`.
    """
    files: dict[str, str] = {}
    for number, _, url in _rows(Source(place)):
        files.setdefault(url, f"{number}.jpg")
    return files


def _rows(source: Source) -> Iterator[tuple[int, str, str]]:
    """Number, caption and address of every line."""
    file = source.file(*FILE_NAMES)
    rows = read_table(file, "\t", _COLUMNS, quoted=False, header=False, filled=_COLUMNS)
    return ((number, row["caption"], row["url"]) for number, row in enumerate(rows))


register(
    DataSet("conceptual", "web pictures with captions", read_conceptual, folder="conceptual", wanted=wanted)
)
