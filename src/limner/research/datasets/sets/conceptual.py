"""Conceptual Captions: a TSV of captions and picture URLs, without a header.

Picture files are named by row number. Many URLs are dead; those rows are counted and listed.
"""

from collections.abc import Iterator
from pathlib import Path

from limner.research.datasets.folders import read_table
from limner.research.datasets.missing import pair_set
from limner.research.datasets.pairs import DataSet, Pair, PairSet, Source, register

FILE_NAMES = ("Train_GCC-training.tsv", "Train-GCC-training.tsv")
_COLUMNS = ("caption", "url")


def read_conceptual(source: Source) -> PairSet:
    """Read captions and URLs.

    Args:
        source: the TSV with ``caption <tab> url`` per line, or the folder of the released training file;
            pictures are named ``<row>.jpg``, with rows from 0. Since many URLs are dead, missing="drop" is
            usual.
    Returns:
        One pair per row, without a split; the URL identifies the picture until its bytes are known.
    Raises:
        MissingError: the file does not exist.
        DataError: the file is not UTF-8, a line does not have two non-empty fields, or too many pictures are
            missing.
    Source: docs/methods/data.md §2.6.
    """
    pairs = [
        Pair(id=f"conceptual-{number}", text=caption, image=url, meta={"url": url, "row": number})
        for number, caption, url in _rows(source)
    ]
    return pair_set("conceptual", pairs, source, files=wanted(source.place) if source.pictures else None)


def wanted(place: Path) -> dict[str, str]:
    """Picture URL → file name; a repeated URL gets the name of its first row.

    Args:
        place: the TSV, or a folder that contains it (or has it in a subfolder).
    Raises:
        MissingError, DataError: see `read_conceptual`.
    """
    files: dict[str, str] = {}
    for number, _, url in _rows(Source(place)):
        files.setdefault(url, f"{number}.jpg")
    return files


def _rows(source: Source) -> Iterator[tuple[int, str, str]]:
    """Yield number, caption and URL of each line."""
    file = source.file(*FILE_NAMES)
    rows = read_table(file, "\t", _COLUMNS, quoted=False, header=False, filled=_COLUMNS)
    return ((number, row["caption"], row["url"]) for number, row in enumerate(rows))


register(
    DataSet("conceptual", "web pictures with captions", read_conceptual, folder="conceptual", wanted=wanted)
)
