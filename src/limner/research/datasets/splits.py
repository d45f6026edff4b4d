"""Splits without leaks: a picture, a longer text or a shared source puts two rows into one group.

A group never straddles a border between training, validation and test.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np

from limner.errors import ConfigError, DataError, counted, unknown
from limner.research.datasets.pairs import (
    Pair,
    PairSet,
    SplitKind,
    SplitName,
    duplicate_groups,
    plain,
    text_id,
)

if TYPE_CHECKING:
    from limner.records import Story

MIN_TOKENS = 8
SHARES: Mapping[SplitName, float] = {"val": 0.1, "test": 0.2}
VAL_SHARE = 0.1


def is_short(text: str) -> bool:
    """Whether a text has too few tokens to keep pairs together."""
    return len(plain(text).split()) < MIN_TOKENS


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


def story_keys(story: "Story") -> list[Hashable]:
    """The keys of all steps of a story with their pictures, and its source."""
    keys = [
        key
        for step in story.steps
        for ref in step.pictures
        for key in row_keys(step.text, ref.sha256 or ref.path or ref.target, story.id)
    ]
    return [*keys, ("source", story.source)] if story.source else keys


def pair_groups(pairs: Sequence[Pair], *, strict: bool = False) -> list[int]:
    """Duplicate group per pair: same picture, same text of enough tokens, same sequence.

    Args:
        pairs: (N,).
        strict: join over every text, however short; else short texts do not join pairs, because generic
            captions would chain unrelated pictures.
    Returns:
        (N,) group numbers, counted by first appearance.
    Source: docs/methods/data.md §4.2.
    """
    return duplicate_groups([row_keys(pair.text, pair.image_id, pair.seq, strict=strict) for pair in pairs])


def share_of_test(data: PairSet) -> float:
    """The part of all pairs that is tested, in (0, 1): as the files state it, 0.2 where they state none."""
    stated = sum(pair.split == "test" for pair in data.pairs)
    return stated / len(data.pairs) if stated else 0.2


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


def split_pairs(
    data: PairSet,
    kind: SplitKind = "grouped",
    seed: int = 0,
    *,
    strict: bool = False,
    test_share: float | None = None,
    val_share: float | None = None,
) -> PairSet:
    """The set with `group` and `split` filled in.

    Args:
        data: a set as read.
        kind: "grouped" parts no group; "released" keeps the test rows of the files and cuts whole groups off
            train for validation; "random" parts rows and leaks, to reproduce what was published.
        seed: of the order in which groups or rows are dealt.
        strict: group over every text, however short.
        test_share: of all pairs, in (0, 1); None for that of the files, see `share_of_test`.
        val_share: of all pairs, in (0, 1); None for a tenth of what is not test.
    Raises:
        ConfigError: unknown kind, or shares for a released split.
        DataError: released, but the files state no split; or too few groups.
    Source: docs/methods/data.md §4.3. Departs: where a split is released, validation is cut off by group, not
    by row.
    """
    if kind not in get_args(SplitKind):
        raise ConfigError(unknown("split", str(kind), get_args(SplitKind)))
    total = len(data.pairs)
    groups = pair_groups(data.pairs, strict=strict)
    if kind == "released":
        if test_share is not None or val_share is not None:
            raise ConfigError(
                f"{data.name}: a released split has sizes of its own; leave test_share and val_share out"
            )
        names = [pair.split for pair in data.pairs]
        if "test" not in names or "" in names:
            raise DataError(f"{data.name}: its files state no split; use grouped or random")
        if "val" not in names:
            train = [row for row, name in enumerate(names) if name == "train"]
            sizes = split_sizes(len(train), {"val": VAL_SHARE})
            parts = balanced_split([groups[row] for row in train], sizes, seed)
            for row, name in zip(train, parts, strict=True):
                names[row] = name
    else:
        test = share_of_test(data) if test_share is None else test_share
        val = (1 - test) * VAL_SHARE if val_share is None else val_share
        sizes = split_sizes(total, {"test": test, "val": val})
        names = [*balanced_split(groups if kind == "grouped" else range(total), sizes, seed)]
    pairs = tuple(
        pair.model_copy(update={"group": f"{data.name}-{group}", "split": name})
        for pair, group, name in zip(data.pairs, groups, names, strict=True)
    )
    return replace(data, pairs=pairs)


def split_by_source(data: PairSet, seed: int = 0) -> PairSet:
    """The set with a grouped split that parts no source either: no book, site or author is on two sides.

    Args:
        data: as `story_pairs` gives it; a pair without a source stays with its story alone.
        seed: of the order in which groups are dealt.
    Raises:
        DataError: too few sources for three splits.
    """
    whole = [pair.model_copy(update={"seq": str(pair.meta.get("source") or pair.seq)}) for pair in data.pairs]
    parted = split_pairs(replace(data, pairs=tuple(whole)), "grouped", seed).pairs
    pairs = tuple(
        pair.model_copy(update={"group": one.group, "split": one.split})
        for pair, one in zip(data.pairs, parted, strict=True)
    )
    return replace(data, pairs=pairs)


def split_stories(stories: Sequence["Story"]) -> "tuple[Story, ...]":
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
