"""The leak audit: what the parts of a split share, and what chance would give.

A number of a retrieval table means little while its test rows were seen in training, so every set can
say how many were.
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
    """Overlap of two parts.

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
    Source: docs/methods/data.md §4.2; a text of fewer than eight words joins no pairs there and is not
    counted here.
    """
    held: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for pair in pairs:
        own = held[pair.split]
        own["pictures"].add(pair.image_id)
        if not is_short(pair.text):
            own["texts"].add(text_id(pair.text))
        if pair.group:
            own["groups"].add(pair.group)
    return tuple(
        SharedParts(
            parts=(one, two),
            **{what: len(held[one][what] & held[two][what]) for what in ("pictures", "texts", "groups")},
        )
        for one, two in combinations([name for name in SPLITS if name in held], 2)
    )


class LeakAudit(Record):
    """Test rows that a reader of the other rows has already seen.

    Attributes:
        rows: test rows.
        text, image, pair, sequence: test rows whose text, picture, both at once, or sequence also
            occurs outside the test split.
        short_text: of `text`, those with fewer than 8 tokens, which no grouping keeps apart.
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
        kind: grouped, released, random, or stated for splits as they are.
        train, val, test: rows.
        leak: test rows whose text, picture, pair or sequence occurs in train or val.
        either: test rows whose text or picture does.
        repeated: test rows with an identical pair elsewhere in the test split.
        groups: groups that lie in more than one split.
        shared: what each two parts have in common.
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
    """Leaks to expect of random splits: mean and standard deviation over draws, as shares of test rows.

    Attributes:
        draws: number of random splits.
        test_share: share of the rows that is test.
        text, image, pair, sequence: (mean, deviation) of the share of test rows that occur in the rest.
        repeated: (mean, deviation) of the share of test rows with an identical pair inside test.
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
        rows: pairs of text and picture.
        texts, images, pairs: how many of them are distinct, as written.
        same_texts: distinct texts, letter case and white space aside.
        positives: relation → share of rows.
        repeated: multiplicity → distinct pairs, as written.
        disagreeing: repeated pairs whose copies differ in a relation.
        groups, largest_group: duplicate groups, and rows in the largest.
        missing: rows left out because of their picture.
        splits: leaks per split.
        random: what random splits leak.
        notes: what was put right while reading.
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
    """Audit a set under each kind of split.

    Args:
        data: as read; its own split is what "released" means.
        kinds: kinds of splits; None uses grouped, and released where the files state one.
        seed: seed of the splits and draws.
        draws: random splits for the expectation; 0 leaves it out.
        strict: group over every text, however short.
    Raises:
        ConfigError: unknown kind, or draws < 0.
        DataError: the set is empty, or has no released split.
    """
    if draws < 0:
        raise ConfigError(f"audit: draws {draws}, expected 0 or more")
    if not data.pairs:
        raise DataError(f"{data.name}: no pairs to audit")
    stated = {"", "test"} & {pair.split for pair in data.pairs} == {"test"}  # as a released split needs
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
    """Leaks of the split that the pairs carry.

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
    """Overlaps of each test pair with train and validation, for results with and without them.

    Returns:
        id of every test pair, in order → what it shares: text, image, pair, sequence; () for a clean one.
    """
    seen = {key for pair in pairs if pair.split != "test" for key in _keys(pair).items()}
    return {
        pair.id: tuple(name for name, key in _keys(pair).items() if (name, key) in seen)
        for pair in pairs
        if pair.split == "test"
    }


def _keys(pair: Pair) -> dict[str, Hashable]:
    """Keys of a pair by kind of overlap, without a sequence if it belongs to none."""
    text, image = text_id(pair.text), pair.image_id
    keys: dict[str, Hashable] = {"text": text, "image": image, "pair": (text, image)}
    return keys | ({"sequence": pair.seq} if pair.seq else {})


def random_leak(
    pairs: Sequence[Pair], test_share: float = 0.2, draws: int = 200, seed: int = 0
) -> RandomLeak:
    """Overlaps of random splits, measured on samples.

    Args:
        pairs: (N,), any split is ignored.
        test_share: in (0, 1).
        draws: at least 1.
        seed: seed of the draws.
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
        name: np.array(duplicate_groups([[one[name]] for one in every]))
        for name in ("text", "image", "pair", "sequence")
    }
    random = np.random.default_rng(seed)
    found: dict[str, list[float]] = {name: [] for name in (*keys, "repeated")}
    for _ in range(draws):
        order = random.permutation(total)
        test, rest = order[:size], order[size:]
        for name, codes in keys.items():
            seen = np.zeros(codes.max() + 1, bool)
            seen[codes[rest]] = True
            found[name].append(float(seen[codes[test]].mean()))
        often = np.bincount(keys["pair"][test])
        found["repeated"].append(float((often[keys["pair"][test]] > 1).mean()))
    spread = {name: (float(np.mean(values)), float(np.std(values))) for name, values in found.items()}
    return RandomLeak(draws=draws, test_share=size / total, **spread)


def render(found: SetAudit) -> str:
    """The audit as plain text."""
    positive = ", ".join(f"{name} {share:.3f}" for name, share in found.positives.items())
    lines = [
        f"{found.name}: {counted(found.rows, 'row')}; distinct as written: {counted(found.texts, 'text')}, "
        f"{counted(found.images, 'image')}, {counted(found.pairs, 'pair')} "
        f"({counted(found.same_texts, 'text')}, letter case and white space aside)",
        "repeats: "
        + ", ".join(f"{counted(number, 'pair')} {times}x" for times, number in found.repeated.items())
        + (f"; copies of {found.disagreeing:,} disagree in a relation" if found.positives else ""),
        f"duplicate groups: {found.groups:,}, largest {counted(found.largest_group, 'row')}; "
        f"left out for want of their picture: {counted(found.missing, 'row')}",
        *((f"positive: {positive}",) if positive else ()),
        "",
        f"{'split':<10}{'train':>8}{'val':>7}{'test':>7}   test rows seen outside test: "
        f"{'image':>7}{'text':>7}{'pair':>7}{'either':>8}{'sequence':>10}{'short text':>12}",
    ]
    for one in found.splits:
        leak = one.leak
        lines.append(
            f"{one.kind:<10}{one.train:>8,}{one.val:>7,}{one.test:>7,}   {'':<29}"
            f"{leak.image:>7,}{leak.text:>7,}{leak.pair:>7,}{one.either:>8,}{leak.sequence:>10,}{leak.short_text:>12,}"
        )
    lines += [
        "",
        f"{'split':<10}{'parts':<16}shared: {'pictures':>10}{'texts of 8+ words':>19}{'groups':>8}",
        *(
            f"{one.kind:<10}{' and '.join(both.parts):<16}{'':<8}"
            f"{both.pictures:>10,}{both.texts:>19,}{both.groups:>8,}"
            for one in found.splits
            for both in one.shared
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
