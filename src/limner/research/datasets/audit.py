"""Leak audit: overlaps between the splits of a data set, compared with those of random splits.

Retrieval results mean little if test pairs also occur in training, so every set can be audited.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from itertools import combinations

import numpy as np

from limner.config import Record
from limner.errors import ConfigError, DataError, counted
from limner.research.datasets.pairs import SPLITS, Pair, PairSet, SplitKind, duplicate_groups, text_id
from limner.research.datasets.splits import is_short, pair_groups, share_of_test, split_pairs


class SharedParts(Record):
    """Overlap of two splits.

    Attributes:
        parts: names of the two splits.
        pictures: number of distinct pictures in both.
        texts: number of distinct texts of eight or more words in both, ignoring case and white space.
        groups: number of duplicate groups in both.
    """

    parts: tuple[str, str]
    pictures: int
    texts: int
    groups: int


def shared_parts(pairs: Sequence[Pair]) -> tuple[SharedParts, ...]:
    """Overlaps of train and validation, train and test, and validation and test, if they have pairs.

    Args:
        pairs: pairs with a split, and with a group if groups are to be counted.
    Source: docs/methods/data.md §4.2. Texts of fewer than eight words do not join pairs and are not counted.
    """
    held: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for pair in pairs:
        items = held[pair.split]
        items["pictures"].add(pair.image_id)
        if not is_short(pair.text):
            items["texts"].add(text_id(pair.text))
        if pair.group:
            items["groups"].add(pair.group)
    return tuple(
        SharedParts(
            parts=(one, two),
            **{what: len(held[one][what] & held[two][what]) for what in ("pictures", "texts", "groups")},
        )
        for one, two in combinations([name for name in SPLITS if name in held], 2)
    )


class LeakAudit(Record):
    """Test pairs that overlap with train or validation.

    Attributes:
        rows: number of test pairs.
        text, image, pair, sequence: number of test pairs whose text, picture, both in one pair, or sequence
            also occurs outside test.
        short_text: number of those in `text` with fewer than 8 tokens, which grouping does not separate.
    """

    rows: int
    text: int
    image: int
    pair: int
    sequence: int
    short_text: int


class SplitLeak(Record):
    """Leaks of one split.

    Attributes:
        kind: grouped, released, random, or stated (the split that the pairs have).
        train, val, test: numbers of pairs.
        leak: test pairs whose text, picture, pair or sequence occurs in train or val.
        either: number of test pairs whose text or picture does.
        repeated: number of test pairs that occur more than once in test.
        groups: number of groups in more than one split.
        shared: overlap of every two splits.
    """

    kind: str
    train: int
    val: int
    test: int
    leak: LeakAudit
    either: int
    repeated: int
    groups: int
    shared: tuple[SharedParts, ...]


class RandomLeak(Record):
    """Expected leaks of random splits, as shares of test pairs.

    Attributes:
        draws: number of random splits.
        test_share: share of the pairs in test.
        text, image, pair, sequence: (mean, standard deviation) of the share of test pairs that overlap.
        repeated: (mean, standard deviation) of the share of test pairs that occur more than once in test.
    """

    draws: int
    test_share: float
    text: tuple[float, float]
    image: tuple[float, float]
    pair: tuple[float, float]
    sequence: tuple[float, float]
    repeated: tuple[float, float]


class SetAudit(Record):
    """Result of an audit.

    Attributes:
        name: name of the set.
        rows: number of text–picture pairs.
        texts, images, pairs: numbers of distinct ones, compared exactly.
        same_texts: number of distinct texts, ignoring case and white space.
        positives: relation → share of pairs that have it.
        repeated: multiplicity → number of distinct pairs, compared exactly.
        disagreeing: number of repeated pairs whose copies differ in a relation.
        groups, largest_group: number of duplicate groups, and pairs in the largest.
        missing: number of pairs left out, such as for a missing picture.
        splits: leaks per split.
        random: expected leaks of random splits.
        notes: corrections made while reading.
    """

    name: str
    rows: int
    texts: int
    images: int
    pairs: int
    same_texts: int
    positives: dict[str, float]
    repeated: dict[int, int]
    disagreeing: int
    groups: int
    largest_group: int
    missing: int
    splits: tuple[SplitLeak, ...]
    random: RandomLeak | None
    notes: tuple[str, ...]


def audit(
    data: PairSet,
    kinds: Sequence[SplitKind] | None = None,
    *,
    seed: int = 0,
    draws: int = 200,
    strict: bool = False,
) -> SetAudit:
    """Audit a set for several kinds of split.

    Args:
        data: the set as read; "released" means the split stated in its files.
        kinds: kinds of split; None uses grouped, and released if the files state a split.
        seed: seed of the splits.
        draws: number of random splits to average over; 0 leaves them out.
        strict: whether short texts join pairs too.
    Raises:
        ConfigError: unknown kind, or `draws` < 0.
        DataError: the set is empty, or has no released split.
    """
    if draws < 0:
        raise ConfigError(f"audit: draws {draws}, expected 0 or more")
    if not data.pairs:
        raise DataError(f"{data.name}: no pairs to audit")
    stated = {"", "test"} & {pair.split for pair in data.pairs} == {
        "test"
    }  # the condition for a released split
    chosen: Sequence[SplitKind] = kinds or (("grouped", "released") if stated else ("grouped",))
    copies: dict[tuple[str, str], list[Pair]] = {}
    for pair in data.pairs:
        copies.setdefault((pair.text, pair.image), []).append(pair)
    sizes = Counter(pair_groups(data.pairs, strict=strict))
    return SetAudit(
        name=data.name,
        rows=len(data.pairs),
        texts=len({pair.text for pair in data.pairs}),
        images=len({pair.image for pair in data.pairs}),
        pairs=len(copies),
        same_texts=len({text_id(pair.text) for pair in data.pairs}),
        positives={
            name: sum(pair.labels[name] for pair in data.pairs) / len(data.pairs) for name in data.relations
        },
        repeated=dict(sorted(Counter(map(len, copies.values())).items())),
        disagreeing=sum(any(pair.labels != same[0].labels for pair in same) for same in copies.values()),
        groups=len(sizes),
        largest_group=max(sizes.values()),
        missing=len(data.missing),
        splits=tuple(split_leak(split_pairs(data, kind, seed, strict=strict).pairs, kind) for kind in chosen),
        random=random_leak(data.pairs, share_of_test(data), draws, seed) if draws else None,
        notes=data.notes,
    )


def split_leak(pairs: Sequence[Pair], kind: str = "stated") -> SplitLeak:
    """Leaks of the split that the pairs already have.

    Raises:
        DataError: a pair has no split.
    """
    loose = [pair.id for pair in pairs if not pair.split]
    if loose:
        raise DataError(f"audit: pair {loose[0]!r} has no split; make one first")
    sides = Counter(name for name, _ in {(pair.group, pair.split) for pair in pairs} if name)
    test = [pair for pair in pairs if pair.split == "test"]
    seen = list(leaked(pairs).values())
    often = Counter(name for what in seen for name in what)
    count = Counter(pair.split for pair in pairs)
    alike = Counter(_keys(pair)["pair"] for pair in test)
    return SplitLeak(
        kind=kind,
        **{name: count[name] for name in SPLITS},
        leak=LeakAudit(
            rows=len(test),
            **{name: often[name] for name in ("text", "image", "pair", "sequence")},
            short_text=sum(
                "text" in what and is_short(pair.text) for pair, what in zip(test, seen, strict=True)
            ),
        ),
        either=sum("text" in what or "image" in what for what in seen),
        repeated=sum(number for number in alike.values() if number > 1),
        groups=sum(number > 1 for number in sides.values()),
        shared=shared_parts(pairs),
    )


def leaked(pairs: Sequence[Pair]) -> dict[str, tuple[str, ...]]:
    """Overlaps of each test pair with train and validation, so that results can be reported without them.

    Returns:
        Id of each test pair, in order → kinds of overlap (text, image, pair, sequence); () if there is none.
    """
    seen = {key for pair in pairs if pair.split != "test" for key in _keys(pair).items()}
    return {
        pair.id: tuple(name for name, key in _keys(pair).items() if (name, key) in seen)
        for pair in pairs
        if pair.split == "test"
    }


def _keys(pair: Pair) -> dict[str, Hashable]:
    """Kind of overlap → key of a pair."""
    text, image = text_id(pair.text), pair.image_id
    keys: dict[str, Hashable] = {"text": text, "image": image, "pair": (text, image)}
    return keys | ({"sequence": pair.seq} if pair.seq else {})


def random_leak(
    pairs: Sequence[Pair], test_share: float = 0.2, draws: int = 200, seed: int = 0
) -> RandomLeak:
    """Estimate the overlaps of random splits.

    Args:
        pairs: (N,) pairs; their split is ignored.
        test_share: share of the pairs in test, in (0, 1).
        draws: number of random splits, at least 1.
        seed: seed of the splits.
    """
    total = len(pairs)
    size = round(test_share * total)
    if not 0 < size < total or draws < 1:
        raise ConfigError(
            f"audit: {counted(size, 'test row')} of {total} in {counted(draws, 'draw')}, expected"
            " at least 1 of each"
        )
    every = [{"sequence": row} | _keys(pair) for row, pair in enumerate(pairs)]
    keys = {
        name: np.array(duplicate_groups([[row_keys[name]] for row_keys in every]))
        for name in ("text", "image", "pair", "sequence")
    }
    random = np.random.default_rng(seed)
    shares: dict[str, list[float]] = {name: [] for name in (*keys, "repeated")}
    for _ in range(draws):
        order = random.permutation(total)
        test, rest = order[:size], order[size:]
        for name, codes in keys.items():
            seen = np.zeros(codes.max() + 1, bool)
            seen[codes[rest]] = True
            shares[name].append(float(seen[codes[test]].mean()))
        often = np.bincount(keys["pair"][test])
        shares["repeated"].append(float((often[keys["pair"][test]] > 1).mean()))
    spread = {name: (float(np.mean(values)), float(np.std(values))) for name, values in shares.items()}
    return RandomLeak(draws=draws, test_share=size / total, **spread)


def render(found: SetAudit) -> str:
    """Format the audit as plain text."""
    positive = ", ".join(f"{name} {share:.3f}" for name, share in found.positives.items())
    lines = [
        f"{found.name}: {counted(found.rows, 'row')}; distinct as written: {counted(found.texts, 'text')}, "
        f"{counted(found.images, 'image')}, {counted(found.pairs, 'pair')} "
        f"({counted(found.same_texts, 'text')}, ignoring case and white space)",
        "repeats: "
        + ", ".join(f"{counted(number, 'pair')} {times}x" for times, number in found.repeated.items())
        + (f"; copies of {found.disagreeing:,} disagree in a relation" if found.positives else ""),
        f"duplicate groups: {found.groups:,}, largest {counted(found.largest_group, 'row')}; "
        f"left out because of their picture: {counted(found.missing, 'row')}",
        *((f"positive: {positive}",) if positive else ()),
        "",
        f"{'split':<10}{'train':>8}{'val':>7}{'test':>7}   test rows seen outside test: "
        f"{'image':>7}{'text':>7}{'pair':>7}{'either':>8}{'sequence':>10}{'short text':>12}",
    ]
    for split in found.splits:
        leak = split.leak
        lines.append(
            f"{split.kind:<10}{split.train:>8,}{split.val:>7,}{split.test:>7,}   {'':<29}"
            f"{leak.image:>7,}{leak.text:>7,}{leak.pair:>7,}{split.either:>8,}{leak.sequence:>10,}{leak.short_text:>12,}"
        )
    lines += [
        "",
        f"{'split':<10}{'parts':<16}shared: {'pictures':>10}{'texts of 8+ words':>19}{'groups':>8}",
        *(
            f"{split.kind:<10}{' and '.join(both.parts):<16}{'':<8}"
            f"{both.pictures:>10,}{both.texts:>19,}{both.groups:>8,}"
            for split in found.splits
            for both in split.shared
        ),
    ]
    if found.random:
        chance = found.random
        shares = (
            f"{name} {100 * mean:.1f} ± {100 * deviation:.1f} %"
            for name, (mean, deviation) in (
                ("pair", chance.pair),
                ("text", chance.text),
                ("image", chance.image),
                ("sequence", chance.sequence),
                ("pair repeated inside test", chance.repeated),
            )
        )
        lines += [
            "",
            f"random splits ({chance.draws} draws, {chance.test_share:.0%} test) leak: {', '.join(shares)}",
        ]
    lines += [f"note: {note}" for note in found.notes]
    return "\n".join(lines)
