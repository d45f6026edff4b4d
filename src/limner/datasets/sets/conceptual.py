"""Conceptual Captions: a TSV of captions and addresses, without a header.

Pictures are files named by row number, as a download in file order leaves them; many addresses are dead,
and each such row is counted and listed.
"""

from limner.datasets.base import DataSet, Source, read_table, register
from limner.datasets.missing import pair_set
from limner.datasets.pairs import Pair, PairSet


def read_conceptual(source: Source) -> PairSet:
    """Read captions and addresses.

    Args:
        source: the TSV, one ``caption <tab> url`` per line; a picture is ``<row>.jpg``, rows counted from 0.
            Many links are dead, so missing="drop" is the rule here.
    Returns:
        One pair per row, without a split; the address is the picture's identity until its bytes are known.
    Raises:
        MissingError: no such file.
        DataError: not UTF-8, a line is not two filled fields, or too many pictures are missing.
    Source: docs/methods/data.md §2.6.
    """
    pairs = []
    columns = ("caption", "url")
    rows = read_table(source.place, "\t", columns, quoted=False, header=False, filled=columns)
    for number, row in enumerate(rows):
        caption, url = row["caption"], row["url"]
        pairs.append(
            Pair(id=f"conceptual-{number}", text=caption, image=url, meta={"url": url, "row": number})
        )
    # an address that comes twice was fetched twice; its first file stands for it
    files: dict[str, str] = {}
    for pair in pairs:
        files.setdefault(pair.image, f"{pair.meta['row']}.jpg")
    return pair_set("conceptual", pairs, source, files=files)


register(DataSet("conceptual", "web pictures with captions", read_conceptual, folder="conceptual"))
