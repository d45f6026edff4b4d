"""Conceptual Captions: a TSV of captions and addresses, without a header.

Pictures are files named by row number, as a download in file order leaves them; many addresses are dead,
and each such row is counted and listed.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from limner.datasets.base import DataSet, Source, refuse_pickle, register
from limner.datasets.missing import with_pictures
from limner.datasets.pairs import Pair, PairSet
from limner.errors import DataError


def read_conceptual(
    source: Source,
    *,
    limit: int | None = None,
) -> PairSet:
    """Read captions and addresses.

    Args:
        source: the TSV, one ``caption <tab> url`` per line; a picture is ``<row>.jpg``, rows counted from 0.
            Many links are dead, so missing="drop" is the rule here.
        limit: rows to read, from the first; None for all.
    Returns:
        One pair per row, without a split; the address is the picture's identity until its bytes are known.
    Raises:
        MissingError: no such file.
        DataError: not UTF-8, a line is not two filled fields, or too many pictures are missing.
    Source: docs/methods/data.md §2.6.
    """
    file = source.place
    refuse_pickle(file)
    pairs = []
    for number, (caption, url) in enumerate(_lines(file)):
        if limit is not None and number >= limit:
            break
        pairs.append(
            Pair(id=f"conceptual-{number}", text=caption, image=url, meta={"url": url, "row": number})
        )
    if not pairs:
        raise DataError(f"{file}: no rows; is the file whole?")
    # an address that comes twice was fetched twice; its first file stands for it
    files: dict[str, str] = {}
    for pair in pairs:
        files.setdefault(pair.image, f"{pair.meta['row']}.jpg")
    data = PairSet("conceptual", (), tuple(pairs))
    return with_pictures(data, source, files)


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        rows = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        try:
            for row in rows:
                if len(row) != 2 or not all(field.strip() for field in row):
                    raise DataError(
                        f"{file}:{rows.line_num}: {len(row)} fields, expected a caption, a tab and an address"
                    )
                yield row[0], row[1]
        except UnicodeDecodeError as error:
            raise DataError(f"{file}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
        except csv.Error as error:
            raise DataError(f"{file}:{rows.line_num}: {error}; is the file whole?") from error


register(DataSet("conceptual", "web pictures with captions", read_conceptual, folder="conceptual"))
