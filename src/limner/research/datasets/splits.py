"""Splits without leaks: duplicate groups are assigned whole, and every split can be audited.

A picture, a longer text or a shared source puts two rows into one group, and a group never straddles
a border.
"""

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from limner.counts import counted
from limner.errors import DataError
from limner.records import Story

SplitName = Literal["train", "val", "test"]
SPLITS: tuple[SplitName, ...] = get_args(SplitName)
MIN_TOKENS = 8
SHARES: Mapping[SplitName, float] = {"val": 0.1, "test": 0.2}
AuthorSplit = Literal["stratified", "disjoint"]
AUTHOR_SHARES: Mapping[SplitName, float] = {"test": 0.1, "val": 0.1}
"""Of recipes split by author; validation's of what test leaves."""


def text_id(text: str) -> str:
    """SHA-256 of the NFC-normalised, lower-cased, whitespace-collapsed text.

    Source: docs/methods/data.md §4.1.
    """
    return hashlib.sha256(_plain(text).encode("utf-8", "surrogatepass")).hexdigest()


def duplicate_groups(keys: Sequence[Iterable[Hashable]]) -> list[int]:
    """Number the connected components of items that share a key.

    Args:
        keys: per item (N,), what it must not be parted over.
    Returns:
        (N,) group numbers, counted by first appearance.
    """
    parent = list(range(len(keys)))

    def root(item: int) -> int:
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    first: dict[Hashable, int] = {}
    for item, shared in enumerate(keys):
        for key in shared:
            parent[root(item)] = root(first.setdefault(key, item))
    numbers: dict[int, int] = {}
    return [numbers.setdefault(root(item), len(numbers)) for item in range(len(keys))]


def row_keys(text: str, image: str = "", sequence: str = "", *, strict: bool = False) -> list[Hashable]:
    """What a text with its picture must not be parted over: picture, text of enough tokens, sequence.

    Short texts are left out, unless `strict`, because they would chain unrelated pictures.
    Source: docs/methods/data.md §4.2.
    """
    named = {
        "image": image,
        "text": text_id(text) if strict or not is_short(text) else "",
        "sequence": sequence,
    }
    return [key for key in named.items() if key[1]]


def story_keys(story: Story) -> list[Hashable]:
    """The keys of all steps of a story with their pictures, and its source."""
    keys = [
        key
        for step in story.steps
        for ref in step.pictures
        for key in row_keys(step.text, ref.sha256 or ref.path or ref.target, story.id)
    ]
    return [*keys, ("source", story.source)] if story.source else keys


def split_sizes(total: int, shares: Mapping[SplitName, float]) -> dict[SplitName, int]:
    """Rounded sizes of the named splits, at least 1 each; train is the rest.

    Args:
        total: number of items.
        shares: split other than train → share of all items, in (0, 1).
    """
    sizes = {name: max(1, round(share * total)) for name, share in shares.items()}
    return {"train": total - sum(sizes.values()), **sizes}


def balanced_split(groups: Sequence[int], sizes: Mapping[SplitName, int], seed: int = 0) -> list[SplitName]:
    """Deal whole groups to splits, so that every split gets its share of large and of small groups.

    Groups come larger first, in seeded order among equals; each goes to the split that lacks the largest part
    of its size and has room for it. (Dealing to the split that lacks most rows would give all large groups to
    train, and with them every text a captioning model wrote.)

    Args:
        groups: (N,) group number per item.
        sizes: split → number of items, each at least 1; they sum to N.
        seed: of the order.
    Returns:
        (N,) split names; none stays empty.
    Raises:
        DataError: fewer groups than splits.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for item, group in enumerate(groups):
        members[group].append(item)
    if len(members) < len(sizes):
        raise DataError(
            f"split: {counted(len(members), 'group')} for {len(sizes)} splits, so that one would be empty;"
            " use more data or fewer splits"
        )
    order = list(members)
    np.random.default_rng(seed).shuffle(order)
    order.sort(key=lambda group: -len(members[group]))
    lacking = dict(sizes)
    given: dict[int, SplitName] = {}
    empty = list(sizes)
    for place, group in enumerate(order):
        # the last groups fill splits that got nothing, so that none stays empty
        choices = empty if len(order) - place <= len(empty) else list(sizes)
        room = [choice for choice in choices if lacking[choice] >= len(members[group])]
        if room:
            name = max(room, key=lambda choice: (lacking[choice] / sizes[choice], sizes[choice]))
        else:
            name = max(choices, key=lambda choice: lacking[choice])
        if name in empty:
            empty.remove(name)
        lacking[name] -= len(members[group])
        for item in members[group]:
            given[item] = name
    return [given[item] for item in range(len(groups))]


def split_stories(stories: Sequence[Story]) -> tuple[Story, ...]:
    """The stories with a split filled in that parts none which share a picture, a text or their source.

    Args:
        stories: without a split.
    Raises:
        DataError: a story already states a split, or there are fewer groups than splits.
    """
    for story in stories:
        if story.split:
            raise DataError(f"split: story {story.id!r} already states {story.split!r}; use the stated split")
    if len(stories) <= len(SHARES):
        raise DataError(
            f"split: {counted(len(stories), 'story')} for {len(SHARES) + 1} splits; use more data"
        )
    groups = duplicate_groups([story_keys(story) for story in stories])
    names = balanced_split(groups, split_sizes(len(stories), SHARES))
    return tuple(story.model_copy(update={"split": name}) for story, name in zip(stories, names, strict=True))


def is_short(text: str) -> bool:
    """Whether a text has too few tokens to keep pairs together."""
    return len(_plain(text).split()) < MIN_TOKENS


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


def author_key(author: str, source: str, story_id: str) -> Hashable:
    """Who a recipe is by: its author, else its site, else itself.

    Source: docs/methods/data.md §3.4.
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
    Source: VRSS 2020, Section 5; docs/methods/data.md §3.4.
    """
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for number, author in enumerate(authors):
        groups[author].append(number)
    order = sorted(groups, key=lambda author: _place(repr(author), seed))
    members = [sorted(groups[author], key=lambda number: _place(ids[number], seed)) for author in order]
    return (_disjoint if kind == "disjoint" else _stratified)(members, len(ids))


def _stratified(groups: list[list[int]], count: int) -> list[SplitName]:
    result: list[SplitName] = ["train"] * count
    pool = [group[0] for group in groups if len(group) == 1]
    rest: list[list[int]] = []
    for group in [*(group for group in groups if len(group) > 1), pool]:
        number = max(1, round(AUTHOR_SHARES["test"] * len(group))) if len(group) > 1 else 0
        for one in group[:number]:
            result[one] = "test"
        rest.append(group[number:])
    # never an author's last, or validation would hold an author that train has not
    free = [one for group in rest for one in group[1:]]
    wanted = max(1, round(AUTHOR_SHARES["val"] * sum(map(len, rest)))) if len(free) > 1 else 0
    for place in range(min(wanted, len(free))):
        result[free[int(place * (len(free) / wanted))]] = "val"
    return result


def _disjoint(groups: list[list[int]], count: int) -> list[SplitName]:
    if len(groups) < 3:
        raise DataError(
            f"recipes: {len(groups)} authors, expected three or more for a split that keeps authors apart;"
            " add pages or use --split stratified"
        )
    result: list[SplitName] = ["train"] * count
    test, val = AUTHOR_SHARES["test"] * count, AUTHOR_SHARES["val"] * (1 - AUTHOR_SHARES["test"]) * count
    wanted: dict[SplitName, float] = {"train": count - test - val, "test": test, "val": val}
    filled = dict.fromkeys(wanted, 0)
    for place, group in enumerate(sorted(groups, key=len, reverse=True)):
        empty = [name for name in wanted if not filled[name]]
        # the last authors go to the parts that are still empty
        choices = empty if len(empty) >= len(groups) - place else wanted
        best = max(choices, key=lambda name: (wanted[name] - filled[name]) / wanted[name])
        filled[best] += len(group)
        for one in group:
            result[one] = best
    return result


def _place(name: str, seed: int) -> str:
    """A key that orders names at random, but alike on every machine and whatever else is there."""
    return hashlib.sha256(f"{seed}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()
