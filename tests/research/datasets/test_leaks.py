"""The leak audit counts as a naive recount does, and as the specification says on the real files."""

from collections import Counter

import numpy as np
import pytest

from limner.errors import ConfigError, DataError
from limner.research.datasets.audit import audit, leaked, random_leak, render, shared_parts, split_leak
from limner.research.datasets.pairs import Pair, PairSet, Source
from limner.research.datasets.sets import cite, clue
from limner.research.datasets.splits import split_pairs

LONG = "one two three four five six seven eight"


def made_up(seed, number=60):
    random = np.random.default_rng(seed)
    pairs = tuple(
        Pair(
            id=str(row),
            text=["Stir.", "stir. ", f"{LONG} {random.integers(30)}"][random.integers(3)],
            image=f"{random.integers(40)}.jpg",
            seq=["", f"pie {random.integers(20)}"][random.integers(2)],
            split=["train", "val", "test"][random.integers(3)],
            labels={"a": int(random.integers(2)), "b": 0},
        )
        for row in range(number)
    )
    return PairSet("made-up", ("a", "b"), pairs, notes=("swapped",))


@pytest.mark.parametrize("seed", range(5))
def test_what_parts_share_equals_a_naive_recount(seed):
    pairs = [p.model_copy(update={"group": f"g{int(p.id) % 25}"}) for p in made_up(seed, 150).pairs]
    found = shared_parts(pairs)
    assert [one.parts for one in found] == [("train", "val"), ("train", "test"), ("val", "test")]
    for one in found:
        left, right = ([p for p in pairs if p.split == name] for name in one.parts)
        both = [(a, b) for a in left for b in right]
        assert one.pictures == len({a.image for a, b in both if a.image == b.image})
        long = {a.text for a, b in both if a.text == b.text and len(a.text.split()) >= 8}
        assert one.texts == len(long) > 0
        assert one.groups == len({a.group for a, b in both if a.group == b.group})
    assert shared_parts([p for p in pairs if p.split == "train"]) == ()


def same_text(one, two):
    return " ".join(one.text.lower().split()) == " ".join(two.text.lower().split())


@pytest.mark.parametrize("seed", range(5))
def test_the_audit_equals_a_naive_recount(seed):
    pairs = made_up(seed).pairs
    test = [pair for pair in pairs if pair.split == "test"]
    rest = [pair for pair in pairs if pair.split != "test"]
    shared = {
        one.id: {
            "text": any(same_text(one, two) for two in rest),
            "image": any(one.image == two.image for two in rest),
            "pair": any(same_text(one, two) and one.image == two.image for two in rest),
            "sequence": any(one.seq == two.seq != "" for two in rest),
        }
        for one in test
    }
    found = split_leak(pairs)
    for name in ("text", "image", "pair", "sequence"):
        assert getattr(found.leak, name) == sum(one[name] for one in shared.values())
    assert found.either == sum(one["text"] or one["image"] for one in shared.values())
    assert found.leak.short_text == sum(
        shared[one.id]["text"] and one.text.strip().lower() == "stir." for one in test
    )
    assert found.repeated == sum(
        any(one is not two and same_text(one, two) and one.image == two.image for two in test) for one in test
    )
    assert leaked(pairs) == {name: tuple(k for k, v in what.items() if v) for name, what in shared.items()}
    assert (found.train, found.val, found.test) == tuple(
        sum(pair.split == name for pair in pairs) for name in ("train", "val", "test")
    )
    assert sum(shared[one.id]["image"] for one in test) > 0


def test_a_grouped_split_leaks_only_short_texts():
    random = np.random.default_rng(0)
    texts = [f"short {random.integers(40)}" if row % 2 else f"{LONG} {row}" for row in range(400)]
    pairs = [Pair(id=str(row), text=text, image=str(row // 2)) for row, text in enumerate(texts)]
    data = PairSet("x", (), tuple(pairs))
    found = audit(data, ("grouped", "random"), draws=0)
    grouped, chance = found.splits
    assert (grouped.leak.image, grouped.leak.pair, grouped.groups) == (0, 0, 0)
    assert grouped.leak.text == grouped.leak.short_text > 0
    assert chance.leak.image > 0
    assert chance.groups > 0
    assert audit(data, strict=True, draws=0).splits[0].either == 0


def test_the_facts_are_counted_as_written():
    def row(number, text, image, label):
        return Pair(id=str(number), text=text, image=image, labels={"a": label})

    rows = [
        row(0, "Stir.", "a", 1),
        row(1, "Stir.", "a", 0),
        row(2, "stir.", "a", 1),
        row(3, "Bake.", "b", 1),
    ]
    rows += [row(n, f"{LONG} {n}", str(n), 0) for n in range(4, 20)]
    found = audit(PairSet("x", ("a",), tuple(rows)), draws=3)
    assert (found.rows, found.texts, found.same_texts, found.images, found.pairs) == (20, 19, 18, 18, 19)
    assert found.repeated == {1: 18, 2: 1}
    assert found.disagreeing == 1
    assert found.positives == {"a": 3 / 20}
    assert (found.groups, found.largest_group) == (18, 3)
    assert found.random.draws == 3


@pytest.mark.slow
def test_random_splits_leak_what_probability_says():
    # 500 pictures twice each: a test row's twin is among the other 999 rows, 800 of them train
    pairs = [Pair(id=str(n), text=f"{LONG} {n}", image=str(n % 500)) for n in range(1000)]
    found = random_leak(pairs, 0.2, 100)
    assert found.image[0] == pytest.approx(800 / 999, abs=0.01)
    assert found.text == found.pair == found.repeated == found.sequence == (0, 0)
    assert random_leak([pair.model_copy(update={"seq": "pie"}) for pair in pairs], 0.2, 9).sequence == (1, 0)
    assert found == random_leak(pairs, 0.2, 100)
    assert found != random_leak(pairs, 0.2, 100, seed=1)


def test_the_rendering_holds_every_number():
    data = split_pairs(made_up(1), "random")
    found = audit(data, draws=2)
    text = render(found)
    for split in found.splits:
        line = next(line for line in text.splitlines() if line.startswith(split.kind))
        numbers = [split.train, split.val, split.test, split.leak.image, split.leak.text, split.leak.pair]
        numbers += [split.either, split.leak.sequence, split.leak.short_text]
        assert [int(word) for word in line.split()[1:]] == numbers
    assert "note: swapped" in text
    assert f"{100 * found.random.image[0]:.1f} ±" in text


def test_what_cannot_be_audited_is_refused():
    with pytest.raises(DataError, match="has no split"):
        split_leak([Pair(id="1", text="x", image="a")])
    with pytest.raises(DataError, match="no pairs"):
        audit(PairSet("x", (), ()))
    with pytest.raises(ConfigError, match="draws -1"):
        audit(made_up(0), draws=-1)


@pytest.mark.slow
@pytest.mark.shared
def test_the_real_clue_leaks_what_the_specification_says(shared_data):
    data = clue.read_clue(Source(shared_data / "clue"))
    found = audit(data, ("released", "grouped"), draws=20)
    assert (found.rows, found.images, found.texts, found.pairs) == (7559, 5348, 6794, 7454)
    assert (found.repeated[2], found.disagreeing) == (105, 36)
    released, grouped = found.splits
    leak = released.leak
    assert (leak.image, leak.text, leak.pair, released.either) == (610, 202, 38, 633)
    assert sum(not what for what in leaked(split_pairs(data, "released").pairs).values()) == 879
    assert (grouped.leak.image, grouped.leak.pair, grouped.groups) == (0, 0, 0)
    assert grouped.leak.text == grouped.leak.short_text
    none = Counter((p.split, not any(p.labels.values())) for p in data.pairs)
    assert (none["train", True], none["test", True]) == (299, 80)


@pytest.mark.shared
def test_the_real_cite_leaks_what_the_specification_says(shared_data):
    found = audit(cite.read_cite(Source(shared_data / "cite")), draws=200)
    assert (found.rows, found.texts, found.images, found.pairs) == (2047, 1548, 1528, 1557)
    assert found.repeated == {1: 1135, 2: 362, 3: 52, 4: 8}
    assert found.disagreeing == 176
    assert [round(share, 3) for share in found.positives.values()] == [
        0.830,
        0.058,
        0.211,
        0.131,
        0.056,
        0.492,
        0.201,
    ]
    grouped = found.splits[0]
    assert (grouped.either, grouped.leak.sequence, grouped.groups) == (0, 0, 0)
    assert abs(grouped.test - 409) <= 1
    chance = found.random
    for spread, expected in (
        (chance.pair, 0.371),
        (chance.text, 0.377),
        (chance.image, 0.392),
        (chance.sequence, 0.989),
    ):
        assert spread[0] == pytest.approx(expected, abs=0.006)
    assert chance.pair[1] == pytest.approx(0.020, abs=0.003)
    assert chance.repeated[0] == pytest.approx(0.106, abs=0.006)
