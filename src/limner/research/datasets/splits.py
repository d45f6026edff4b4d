"""Splits without overlap: pairs that share a picture, a long text or a sequence form a group.

All pairs of a group go to the same split.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import get_args
from urllib.parse import urlsplit

import numpy as np

from limner.errors import ConfigError, DataError, counted, unknown
from limner.research.datasets.pairs import (
    MissingPicture,
    Pair,
    PairSet,
    SplitKind,
    SplitName,
    duplicate_groups,
    plain,
    text_id,
)

MIN_TOKENS = 8
VAL_SHARE = 0.1
SOURCE_SHARES: Mapping[SplitName, float] = {"test": 0.15, "val": 0.08}
"""Shares of rows by the sources of a split alone; test comes first."""


def is_short(text: str) -> bool:
    """Whether a text has too few tokens to join pairs into a group."""
    return len(plain(text).split()) < MIN_TOKENS


def row_keys(text: str, image: str = "", sequence: str = "", *, strict: bool = False) -> list[Hashable]:
    """Keys that join pairs into a group: picture, text (if long enough), sequence.

    Short texts are left out unless `strict`, because they would join unrelated pictures.
    Source: docs/methods/data.md §4.2.
    """
    named = {
        "image": image,
        "text": text_id(text) if strict or not is_short(text) else "",
        "sequence": sequence,
    }
    return [key for key in named.items() if key[1]]


def pair_groups(pairs: Sequence[Pair], *, strict: bool = False) -> list[int]:
    """Group pairs with the same picture, the same text (if long enough) or the same sequence.

    Args:
        pairs: (N,) pairs.
        strict: whether short texts join pairs too; by default not, because generic captions would join
            unrelated pictures.
    Returns:
        (N,) group numbers from 0, in order of first appearance.
    Source: docs/methods/data.md §4.2.
    """
    return duplicate_groups([row_keys(pair.text, pair.image_id, pair.seq, strict=strict) for pair in pairs])


def share_of_test(data: PairSet) -> float:
    """Share of test pairs in (0, 1), from the split stated in the files; 0.2 if there is none."""
    stated = sum(pair.split == "test" for pair in data.pairs)
    return stated / len(data.pairs) if stated else 0.2


def split_sizes(total: int, shares: Mapping[SplitName, float]) -> dict[SplitName, int]:
    """Sizes of the splits, rounded and at least 1; the rest is train.

    Args:
        total: number of items.
        shares: split (not train) → share of all items, in (0, 1).
    """
    sizes = {name: max(1, round(share * total)) for name, share in shares.items()}
    return {"train": total - sum(sizes.values()), **sizes}


def balanced_split(groups: Sequence[int], sizes: Mapping[SplitName, int], seed: int = 0) -> list[SplitName]:
    """Assign whole groups to splits, so that each split gets its share of large and small groups.

    The largest groups come first (equal sizes in seeded order). Each goes to the split that is furthest from
    its target size, in proportion, and has room. By absolute numbers, all large groups would go to train: for
    example, all of Clue's captions written by models.

    Args:
        groups: (N,) group number of each item.
        sizes: split → target number of items, at least 1 each; they sum to N.
        seed: seed of the order.
    Returns:
        (N,) split names; no split is empty.
    Raises:
        DataError: there are fewer groups than splits.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for item, group in enumerate(groups):
        members[group].append(item)
    if len(members) < len(sizes):
        raise DataError(
            f"split: {counted(len(members), 'group')} for {len(sizes)} splits, so one would be empty;"
            " use more data or fewer splits"
        )
    order = list(members)
    np.random.default_rng(seed).shuffle(order)
    order.sort(key=lambda group: -len(members[group]))
    lacking = dict(sizes)
    given: dict[int, SplitName] = {}
    empty = list(sizes)
    for place, group in enumerate(order):
        # the last groups go to splits that are still empty
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
    """Split a set; returns it with `group` and `split` filled in.

    Args:
        data: a set as read.
        kind: "grouped" splits by group; "released" keeps the test pairs stated in the files and takes whole
            groups of train for validation; "random" splits by pair, with overlaps, to reproduce papers.
        seed: seed of the order in which groups or pairs are assigned.
        strict: whether short texts join pairs too.
        test_share: share of all pairs, in (0, 1); None for the share stated in the files, see
            `share_of_test`.
        val_share: share of all pairs, in (0, 1); None for a tenth of the pairs outside test.
    Raises:
        ConfigError: unknown kind, or shares given for a released split.
        DataError: kind "released" but the files state no split; or too few groups.
    Source: docs/methods/data.md §4.3. Departs: of a released split, validation is taken by group, not by row.
    """
    if kind not in get_args(SplitKind):
        raise ConfigError(unknown("split", str(kind), get_args(SplitKind)))
    total = len(data.pairs)
    groups = pair_groups(data.pairs, strict=strict)
    if kind == "released":
        if test_share is not None or val_share is not None:
            raise ConfigError(
                f"{data.name}: a released split has fixed sizes; leave test_share and val_share out"
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


def sources_of(pair: Pair) -> frozenset[str]:
    """The organisation or site that a pair comes from; of a picture book, every person of its credit.

    Args:
        pair: `meta` states ``source`` (a repository ``owner/name``, or a URL) or ``illustrator``; without
            either, the pair's sequence is its source.

    Example:
        >>> sources_of(Pair(id="1", text="", image="1.jpg", meta={"illustrator": "Ann Lee, Bo Ray"}))
        frozenset({'Ann Lee', 'Bo Ray'})
    """
    stated = str(pair.meta.get("source") or "")
    if stated:
        return frozenset({urlsplit(stated).netloc or stated.partition("/")[0]})
    people = re.split(r",| & | and ", str(pair.meta.get("illustrator") or ""))
    return frozenset(filter(None, map(str.strip, people))) or frozenset({pair.seq or pair.id})


def split_by_source(data: PairSet, seed: int = 0) -> PairSet:
    """Split a set so that no source (organisation, site or person) is in two splits.

    Rows are grouped by their sources. If rows by several sources chain more than half of the set into one
    group, sources are drawn instead, see `drawn_splits`. Rows by sources of two splits, or with a picture or
    long text of another split, are then left out, and listed in `PairSet.missing`.

    Args:
        data: a set whose pairs state their sources, see `sources_of`.
        seed: seed of the order in which groups or sources are assigned.
    Raises:
        DataError: there are too few sources for three splits.
    """
    sources = [sources_of(pair) for pair in data.pairs]
    keys = [row_keys(pair.text, pair.image_id) for pair in data.pairs]
    groups = duplicate_groups(
        [
            [*own, pair.seq or pair.id, *(("source", name) for name in names)]
            for own, pair, names in zip(keys, data.pairs, sources, strict=True)
        ]
    )
    alone = max(map(len, sources)) == 1
    if alone or 2 * max(Counter(groups).values()) <= len(groups):
        test = share_of_test(data)
        sizes = split_sizes(len(groups), {"test": test, "val": (1 - test) * VAL_SHARE})
        pairs = tuple(
            pair.model_copy(update={"group": f"{data.name}-{group}", "split": name})
            for pair, group, name in zip(data.pairs, groups, balanced_split(groups, sizes, seed), strict=True)
        )
        return replace(data, pairs=pairs)
    parts = drawn_splits(sources, seed)
    held: dict[Hashable, SplitName] = {}
    for part in ("test", "val", "train"):  # a picture stays in the first of them
        new = {key for row, name in enumerate(parts) if name == part for key in keys[row]}
        held |= dict.fromkeys(new - held.keys(), part)
    kept, left = [], []
    for pair, name, own, credit in zip(data.pairs, parts, keys, sources, strict=True):
        if name is not None and all(held[key] == name for key in own):
            kept.append(pair.model_copy(update={"split": name}))
            continue
        reason = "its picture or text is in another split"
        if name is None:
            reason = f"its sources are in two splits: {', '.join(sorted(credit))}"
        left.append(MissingPicture(id=pair.id, image=pair.image, reason=reason))
    if {pair.split for pair in kept} != {"train", *SOURCE_SHARES}:
        raise DataError(
            f"{data.name}: {counted(len(frozenset().union(*sources)), 'source')} for three splits, so one"
            " would be empty; use more data, or leave by_source out"
        )
    note = f"{data.name}: {counted(len(left), 'pair')} left out: shared with another split"
    grouped = tuple(
        pair.model_copy(update={"group": f"{data.name}-{group}"})
        for pair, group in zip(kept, pair_groups(kept), strict=True)
    )
    return replace(
        data, pairs=grouped, missing=(*data.missing, *left), notes=(*data.notes, *[note] * bool(left))
    )


def drawn_splits(sources: Sequence[frozenset[str]], seed: int = 0) -> list[SplitName | None]:
    """Draw sources for test, then for validation, until the rows by them alone reach its share.

    A source is passed over if it would leave out more rows than it adds, or fill more than half of the share.

    Args:
        sources: (N,) sources of every row.
        seed: seed of the order in which sources are drawn.
    Returns:
        (N,) split names; None for rows by sources of two splits.
    """
    rows = Counter(sources)
    free = sorted(frozenset().union(*rows))
    np.random.default_rng(seed).shuffle(free)

    def gain(name: str) -> tuple[int, int]:
        """Rows that a further source adds, and rows that it leaves out in addition."""
        own = [some for some in rows if name in some]
        adds = sum(rows[some] for some in own if some <= {*drawn, name})
        return adds, sum(rows[some] for some in own if not some & drawn) - adds

    parts: dict[SplitName, set[str]] = {}
    for part, share in SOURCE_SHARES.items():
        due, size, drawn = share * len(sources), 0, set[str]()
        while size < due:
            gains = {name: gain(name) for name in free}
            fits = [n for n, (adds, loses) in gains.items() if adds > loses and adds <= due / 2]
            if not fits:
                break
            size += gains[fits[0]][0]
            drawn.add(fits[0])
            free.remove(fits[0])
        parts[part] = drawn
    taken = frozenset().union(*parts.values())
    return [
        next((part for part, drawn in parts.items() if own <= drawn), None if own & taken else "train")
        for own in sources
    ]
