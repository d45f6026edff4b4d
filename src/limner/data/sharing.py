"""What two parts of a split share: pictures, long texts and duplicate groups, each counted once.

The leak audit counts test rows; this says the same of any two parts, so that validation is watched too.
It makes no split.
"""

from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import get_args

from limner.data.pairs import Pair, row_of
from limner.data.records import Record
from limner.data.splits import SplitName, row_keys


class SharedParts(Record):
    """What two parts have in common.

    Attributes:
        parts: their names.
        pictures: distinct pictures that occur in both.
        texts: distinct texts of eight or more words that do, letter case and white space aside.
        groups: duplicate groups that do.
    """

    parts: tuple[str, str]
    pictures: int
    texts: int
    groups: int


def shared_parts(pairs: Sequence[Pair]) -> tuple[SharedParts, ...]:
    """Count for train and validation, train and test, validation and test, those parts that have rows.

    Args:
        pairs: with their split, and their group where groups are to be counted.
    Source: SPEC 1.4; a text of fewer than eight words joins no pairs there and is not counted here.
    """
    names: tuple[SplitName, ...] = get_args(SplitName)
    held: dict[str, dict[str, set[Hashable]]] = {}
    for pair in pairs:
        own = held.setdefault(pair.split, {"image": set(), "text": set(), "group": set()})
        for key in row_keys(row_of(pair), sequences=False):
            if isinstance(key, tuple):
                own[key[0]].add(key)
        if pair.group:
            own["group"].add(pair.group)
    return tuple(
        SharedParts(
            parts=(one, two),
            pictures=len(held[one]["image"] & held[two]["image"]),
            texts=len(held[one]["text"] & held[two]["text"]),
            groups=len(held[one]["group"] & held[two]["group"]),
        )
        for one, two in combinations([name for name in names if name in held], 2)
    )
