"""Which pictures of the pages may illustrate a step: large enough, no icons, no duplicates.

Judged over the whole set, because a banner is known by standing on many pages. Files are read, never changed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from limner.data.hashes import NEAR_BITS, near_groups, phash
from limner.data.images import PictureError, decode, read_file

MIN_SIDE_PX = 200
MAX_PAGES = 3
_MAX_ASPECT = 6.0


@dataclass(frozen=True)
class Judged:
    """A picture as found on disk.

    Attributes:
        path: its file.
        rule: why it is not to be used; "" when it is.
        sha256: of its bytes, "" when unreadable.
        suffix: by its content, such as ".jpg".
        phash: 64-bit perceptual hash, None when it was not computed.
    """

    path: str
    rule: str = ""
    sha256: str = ""
    suffix: str = ""
    phash: int | None = None


def judge(path: str) -> Judged:
    """Open a picture and judge it by itself."""
    try:
        file = read_file(path.encode("utf-8", "surrogateescape"))
        decoded = decode(file.data)
    except PictureError:
        return Judged(path, "picture does not open")
    short, long = sorted((decoded.width_px, decoded.height_px))
    if short < MIN_SIDE_PX:
        return Judged(path, f"picture below {MIN_SIDE_PX} px", file.sha256)
    if long > _MAX_ASPECT * short:
        return Judged(path, "picture is a banner or rule", file.sha256)
    low, high = decoded.rgb.convert("L").getextrema()
    if low == high:
        return Judged(path, "picture is of one colour", file.sha256)
    suffix = "." + decoded.format.lower().replace("jpeg", "jpg")
    return Judged(path, "", file.sha256, suffix, phash(decoded.rgb))


def repeated(pages: Sequence[Iterable[str]], judged: Mapping[str, Judged]) -> dict[tuple[int, str], str]:
    """Pictures that are copies, or near-copies, of one that stands earlier, or that stand on many pages.

    Args:
        pages: per page, the targets of its pictures in order.
        judged: target → picture; those that are refused already are not looked at.
    Returns:
        (page number, target) → rule. Of a picture on one or two pages the first occurrence stays; one on
        three or more is decoration and none stays.
    """
    places = [
        (number, target)
        for number, targets in enumerate(pages)
        for target in dict.fromkeys(targets)
        if target in judged and not judged[target].rule
    ]
    hashes = np.array([judged[target].phash or 0 for _, target in places], dtype=np.uint64)
    groups: dict[int, list[int]] = defaultdict(list)
    for row, group in enumerate(near_groups(hashes, NEAR_BITS).tolist()):
        groups[group].append(row)
    result: dict[tuple[int, str], str] = {}
    for rows in groups.values():
        decoration = len({places[row][0] for row in rows}) >= MAX_PAGES
        for row in rows if decoration else rows[1:]:
            result[places[row]] = (
                f"picture on {MAX_PAGES} or more pages" if decoration else "near-duplicate picture"
            )
    return result
