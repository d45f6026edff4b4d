"""The canonical pair, one text with one picture, and sets of them: groups of duplicates and splits.

Readers of data sets give it, training and evaluation take it. A picture, a longer text or a shared source
puts two rows into one group, and a group never straddles a border.
"""

import hashlib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from limner.counts import counted
from limner.errors import ConfigError, DataError, unknown
from limner.records import Record, Story

SplitName = Literal["train", "val", "test"]
SPLITS: tuple[SplitName, ...] = get_args(SplitName)
MIN_TOKENS = 8
SHARES: Mapping[SplitName, float] = {"val": 0.1, "test": 0.2}


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
    """Keys by which pairs belong together in a split: picture, long enough text, sequence.

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
        seed: seed of the order.
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


SplitKind = Literal["grouped", "released", "random"]

VAL_SHARE = 0.1
PairSplit = Literal["", "train", "val", "test"]
Label = Annotated[int, Field(ge=0, le=1)]
MetaValue = str | int | float | bool | None


class Pair(Record):
    """One text with one picture.

    Attributes:
        id: unique inside its data set.
        text: the words, unmodified.
        image: file path, or URL where no picture is there; only ever compared or opened.
        image_hash: SHA-256 of the picture's bytes, 64 hex digits; "" while unknown.
        group: duplicate group; "" before a split was made.
        split: train, val or test; "" if none was made.
        labels: relation → 0 or 1, in the order of the data set.
        seq: recipe, story, article or album it belongs to; "" for none.
        pos: place in it, from 0; None for none.
        meta: what else the source states: row number, URL, author, origin of the text.
    Source: docs/methods/data.md §1.1.
    """

    id: str = Field(min_length=1)
    text: str
    image: str
    image_hash: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    group: str = ""
    split: PairSplit = ""
    labels: Mapping[str, Label] = Field(default_factory=dict)
    seq: str = ""
    pos: int | None = Field(default=None, ge=0)
    meta: Mapping[str, MetaValue] = Field(default_factory=dict)

    @property
    def image_id(self) -> str:
        """Identity of the picture: hash of its bytes, else its URL, else its file name."""
        url = self.meta.get("url")
        return self.image_hash or (url if isinstance(url, str) else "") or self.image


def one_row_per_pair(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Keep one row of every repeated pair, with the majority of its labels; for retrieval.

    Rows repeat where text (letter case and white space aside) and picture agree inside one split.
    The first row stays and takes, per relation, the majority of those rows that state it; a tie is 1.
    `meta` gains ``copies``. Training of relations uses all rows instead.

    Source: docs/methods/data.md §4.4.
    """
    copies: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        copies.setdefault((pair.split, text_id(pair.text), pair.image_id), []).append(pair)
    kept = []
    for same in copies.values():
        stated: dict[str, list[int]] = {}
        for name, label in (one for pair in same for one in pair.labels.items()):
            stated.setdefault(name, []).append(label)
        labels = {name: int(2 * sum(votes) >= len(votes)) for name, votes in stated.items()}
        meta = {**same[0].meta, "copies": len(same)}
        kept.append(same[0].model_copy(update={"labels": labels, "meta": meta}))
    return tuple(kept)


class MissingPicture(Record):
    """A pair that was left out because of its picture.

    Attributes:
        id: id of the pair.
        image: the picture's name.
        reason: one line.
    """

    id: str
    image: str
    reason: str


@dataclass(frozen=True)
class PairSet:
    """A data set of annotated pairs.

    Attributes:
        name: such as ``"clue"``.
        relations: names in the order of the label vector.
        pairs: in file order; `split` as the files state it, "" if they state none.
        missing: pairs left out because of their picture.
        notes: one line for everything put right while reading.
    """

    name: str
    relations: tuple[str, ...]
    pairs: tuple[Pair, ...]
    missing: tuple[MissingPicture, ...] = ()
    notes: tuple[str, ...] = ()

    def split(self, name: SplitName) -> tuple[Pair, ...]:
        """The pairs of one split, in file order.

        Raises:
            DataError: the set has none.
        """
        chosen = tuple(pair for pair in self.pairs if pair.split == name)
        if not chosen:
            raise DataError(f"{self.name}: no pair of split {name!r}; make one with split_pairs")
        return chosen


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


def identities(
    pairs: Sequence[Pair],
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Numbers by which equal texts and equal pictures are known, so that a loss can leave duplicates out.

    Args:
        pairs: (N,).
    Returns:
        (N,) int64 of the texts and (N,) int64 of the pictures: equal where `text_id` and `image_id` are.
    Source: docs/methods/index.md §2.2.
    """
    texts = duplicate_groups([[text_id(pair.text)] for pair in pairs])
    images = duplicate_groups([[pair.image_id] for pair in pairs])
    return np.array(texts, np.int64), np.array(images, np.int64)


def places_in(known: Mapping[str, int], ids: Sequence[str]) -> NDArray[np.int64]:
    """(B,) rows of some pictures.

    Args:
        known: picture → row.
        ids: (B,) by `Pair.image_id`.
    Raises:
        DataError: one has no row.
    """
    absent = [name for name in ids if name not in known]
    if absent:
        raise DataError(f"pictures: {absent[0]!r} has no row ({len(absent)} of {len(ids)}); make them again")
    return np.array([known[name] for name in ids], dtype=np.int64)


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
        seed: seed of the order in which groups or rows are dealt.
        strict: group over every text, however short.
        test_share: share of test among all pairs, in (0, 1); None for that of the files, see `share_of_test`.
        val_share: share of validation among all pairs, in (0, 1); None for a tenth of what is not test.
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


def shuffle_relations(data: PairSet, seed: int) -> PairSet:
    """The control: whole label rows dealt again inside each split, so that they say nothing about their pair.

    Args:
        data: with labels.
        seed: seed of the order.
    """
    rng = np.random.default_rng(seed)
    pairs = list(data.pairs)
    for split in dict.fromkeys(pair.split for pair in pairs):
        rows = [row for row, pair in enumerate(data.pairs) if pair.split == split]
        for row, other in zip(rows, rng.permutation(rows).tolist(), strict=True):
            pairs[row] = pairs[row].model_copy(update={"labels": data.pairs[other].labels})
    return replace(data, pairs=tuple(pairs))


def split_by_source(data: PairSet, seed: int = 0) -> PairSet:
    """The set with a grouped split that parts no source either: no book, site or author is on two sides.

    Args:
        data: see `story_pairs`; a pair without a source stays with its story alone.
        seed: seed of the order in which groups are dealt.
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


def licensed(data: PairSet, allowed: Sequence[str]) -> PairSet:
    """The pairs under some licences.

    Args:
        data: whose pairs state theirs in ``meta["license"]``, see `illustrated.story_pairs`.
        allowed: licences, spelt as the data spell them; none allows all.
    Raises:
        DataError: no pair is left.
    """
    if not allowed:
        return data
    kept = tuple(pair for pair in data.pairs if pair.meta.get("license") in allowed)
    stated = (pair.meta.get("license") for pair in data.pairs)
    other = Counter(str(name or "none stated") for name in stated if name not in allowed)
    if not kept:
        found = ", ".join(sorted(other)) or "no pairs"
        raise DataError(
            f"{data.name}: no pair under {', '.join(allowed)}, found {found}; allow another licence or leave"
            " the set out"
        )
    if not other:
        return data
    counted = ", ".join(f"{name} {number:,}" for name, number in other.most_common())
    note = f"{data.name}: {other.total():,} of {len(data.pairs):,} pairs left out by licence ({counted})"
    return replace(data, pairs=kept, notes=(*data.notes, note))
