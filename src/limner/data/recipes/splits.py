"""Splits of recipes by author: stratified, so that authors stand on both sides, or disjoint.

Recipes are parted whole. An author's habits are easy to learn, so the disjoint split is the harder and
sounder one. It knows nothing of pictures; the builder has dropped duplicates before.
"""

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Literal

from limner.data.splits import SplitName
from limner.errors import DataError

AuthorSplit = Literal["stratified", "disjoint"]
TEST_SHARE = 0.1
VAL_SHARE = 0.1


def author_key(author: str, source: str, story_id: str) -> Hashable:
    """Who a recipe is by: its author, else its site, else itself.

    Source: SPEC 1.3.7, rule 6.
    """
    for kind, name in (("author", author), ("source", source)):
        if plain := " ".join(name.casefold().split()):
            return kind, plain
    return "story", story_id


def split_by_author(
    ids: Sequence[str], authors: Sequence[Hashable], kind: AuthorSplit = "stratified", seed: int = 0
) -> list[SplitName]:
    """A split 90/10 into train and test, then a tenth of train for validation.

    Stratified: of every author with two or more recipes a tenth, at least one, goes to test; the single
    recipes of the others are dealt as one pool. Validation takes every tenth of the remaining ones, author
    by author, but never an author's last. Disjoint: whole authors, largest first, fill train, validation and
    test to 81, 9 and 10 %.

    Args:
        ids: of the recipes (N,), all different.
        authors: (N,) as `author_key` gives them.
        kind: which.
        seed: of the order inside authors and among them.
    Returns:
        (N,) train, val or test.
    Raises:
        DataError: disjoint, with fewer than three authors.
    Source: SPEC 1.3.7, rule 6.
    """
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for number, author in enumerate(authors):
        groups[author].append(number)
    for members in groups.values():
        members.sort(key=lambda number: _shuffled(ids[number], seed))
    order = sorted(groups, key=lambda author: _shuffled(repr(author), seed))
    if kind == "disjoint":
        return _disjoint([groups[author] for author in order], len(ids))
    return _stratified([groups[author] for author in order], len(ids))


def _stratified(groups: list[list[int]], count: int) -> list[SplitName]:
    result: list[SplitName] = ["train"] * count
    pool = [group[0] for group in groups if len(group) == 1]
    several = [group for group in groups if len(group) > 1]
    rest: list[list[int]] = []
    for group in [*several, pool]:
        number = round(TEST_SHARE * len(group))
        number = max(1, number) if len(group) > 1 else 0
        for one in group[:number]:
            result[one] = "test"
        rest.append(group[number:])
    # never an author's last, or validation would hold an author that train has not
    free = [one for group in rest[:-1] for one in group[1:]] + rest[-1][1:]
    wanted = round(VAL_SHARE * sum(map(len, rest)))
    wanted = max(1, wanted) if len(free) > 1 else 0
    step = len(free) / wanted if wanted else 1.0
    for place in range(min(wanted, len(free))):
        result[free[int(place * step)]] = "val"
    return result


def _disjoint(groups: list[list[int]], count: int) -> list[SplitName]:
    if len(groups) < 3:
        raise DataError(
            f"recipes: {len(groups)} authors, expected three or more for a split that keeps authors apart;"
            " add pages or use --split stratified"
        )
    result: list[SplitName] = ["train"] * count
    wanted: dict[SplitName, float] = {
        "test": TEST_SHARE * count,
        "val": VAL_SHARE * (1 - TEST_SHARE) * count,
    }
    wanted["train"] = count - wanted["test"] - wanted["val"]
    names: list[SplitName] = ["train", "test", "val"]
    filled = dict.fromkeys(names, 0)
    ordered = sorted(groups, key=len, reverse=True)
    for place, group in enumerate(ordered):
        left = len(ordered) - place
        empty = [name for name in names if not filled[name]]
        # the last authors go to the parts that are still empty
        choices = empty if len(empty) >= left else names
        best = max(choices, key=lambda name: (wanted[name] - filled[name]) / wanted[name])
        filled[best] += len(group)
        for one in group:
            result[one] = best
    return result


def _shuffled(name: str, seed: int) -> str:
    """A key that orders names at random, but alike on every machine and whatever else is there."""
    return hashlib.sha256(f"{seed}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()
