"""Splits recipes by author: stratified by author, or with disjoint authors."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from hashlib import sha256
from typing import Literal

from limner.errors import DataError
from limner.research.datasets.pairs import SplitName

AuthorSplit = Literal["stratified", "disjoint"]
TEST_SHARE = 0.1
VAL_SHARE = 0.1


def author_key(author: str, source: str, story_id: str) -> Hashable:
    """Key of a recipe's author: the author, else the site, else the recipe itself.

    Source: docs/methods/data.md §3.4.
    """
    for kind, name in (("author", author), ("source", source)):
        if plain := " ".join(name.casefold().split()):
            return kind, plain
    return "story", story_id


def split_by_author(
    ids: Sequence[str], authors: Sequence[Hashable], kind: AuthorSplit = "stratified", seed: int = 0
) -> list[SplitName]:
    """Split into 90 % train and 10 % test, then take a tenth of train for validation.

    Stratified: of each author with two or more recipes, a tenth (at least one) goes to test; all authors with
    one recipe are treated as one author. Validation takes every tenth of the remaining recipes, author by
    author, but never an author's last one. Disjoint: whole authors, largest first, fill train, validation and
    test to 81, 9 and 10 %.

    Args:
        ids: (N,) unique ids of the recipes.
        authors: (N,) keys from `author_key`.
        kind: stratified or disjoint.
        seed: seed of the order of authors and of each author's recipes.
    Returns:
        (N,) train, val or test.
    Raises:
        DataError: disjoint, with fewer than three authors.
    Source: VRSS 2020, Section 5; docs/methods/data.md §3.4.
    """
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for number, author in enumerate(authors):
        groups[author].append(number)
    order = sorted(groups, key=lambda author: _shuffled(repr(author), seed))
    members = [sorted(groups[author], key=lambda number: _shuffled(ids[number], seed)) for author in order]
    return (_disjoint if kind == "disjoint" else _stratified)(members, len(ids))


def _stratified(groups: list[list[int]], count: int) -> list[SplitName]:
    result: list[SplitName] = ["train"] * count
    pool = [group[0] for group in groups if len(group) == 1]
    rest: list[list[int]] = []
    for group in [*(group for group in groups if len(group) > 1), pool]:
        number = max(1, round(TEST_SHARE * len(group))) if len(group) > 1 else 0
        for row in group[:number]:
            result[row] = "test"
        rest.append(group[number:])
    # never an author's last recipe, so that every author in validation is also in train
    free = [row for group in rest for row in group[1:]]
    wanted = max(1, round(VAL_SHARE * sum(map(len, rest)))) if len(free) > 1 else 0
    for place in range(min(wanted, len(free))):
        result[free[int(place * (len(free) / wanted))]] = "val"
    return result


def _disjoint(groups: list[list[int]], count: int) -> list[SplitName]:
    if len(groups) < 3:
        raise DataError(
            f"recipes: {len(groups)} authors, expected three or more for a split with disjoint authors;"
            " add pages or use --split stratified"
        )
    result: list[SplitName] = ["train"] * count
    test, val = TEST_SHARE * count, VAL_SHARE * (1 - TEST_SHARE) * count
    wanted: dict[SplitName, float] = {"train": count - test - val, "test": test, "val": val}
    filled = dict.fromkeys(wanted, 0)
    for place, group in enumerate(sorted(groups, key=len, reverse=True)):
        empty = [name for name in wanted if not filled[name]]
        # the last authors go to splits that are still empty
        choices = empty if len(empty) >= len(groups) - place else wanted
        best = max(choices, key=lambda name: (wanted[name] - filled[name]) / wanted[name])
        filled[best] += len(group)
        for row in group:
            result[row] = best
    return result


def _shuffled(name: str, seed: int) -> str:
    """A pseudorandom sort key that depends only on name and seed."""
    return sha256(f"{seed}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()
