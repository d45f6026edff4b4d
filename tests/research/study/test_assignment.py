"""Dealing pages: fewest raters first, drawn orders, and attention checks that every rater meets."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.research.study.assignment import EARLY, AssignmentPlan, Unit, units
from limner.research.study.records import Item, Key, KeyEntry, RatedPicture


def item(name: str, sequence: str = "", position: int = 0, **more) -> Item:
    pictures = ("0" * 64 + ".png", "1" * 64 + ".png", "2" * 64 + ".png")
    candidates = tuple(RatedPicture(id=i, picture=p) for i, p in zip("pqr", pictures, strict=True))
    return Item(
        **(
            {
                "id": name,
                "text": "words",
                "sequence": sequence,
                "position": position,
                "candidates": candidates,
            }
            | more
        )
    )


def plan(
    real: int, checks: int = 0, *, raters: int = 3, limit: int | None = None, study: str = "s"
) -> AssignmentPlan:
    pages = {f"i{n}": Unit(f"i{n}", (item(f"i{n}"),)) for n in range(real)}
    pages |= {f"c{n}": Unit(f"c{n}", (item(f"c{n}"),), check=True) for n in range(checks)}
    return AssignmentPlan(study, pages, raters, limit)


def path(dealt: AssignmentPlan, rater: str) -> list[str]:
    """Pages in the order in which one rater alone gets them."""
    mine: list[str] = []
    while True:
        real = dealt.choice(rater, mine, Counter(name for name in mine))
        following = dealt.due_check(rater, mine, last=real is None) or real
        if following is None:
            return mine
        mine.append(following)


def test_units_are_items_or_whole_sequences_without_the_prefilled():
    same = tuple(RatedPicture(id=i, picture="0" * 64 + ".png") for i in ("first", "second"))
    items = [
        item("b", "q", 1),
        item("alone"),
        item("a", "q", 0),
        item("equal", candidates=same, prefilled="same"),
    ]
    found = units(items, {"alone", "b"})
    assert {name: [one.id for one in unit.items] for name, unit in found.items()} == {
        "q": ["a", "b"],
        "alone": ["alone"],
    }
    assert (found["q"].check, found["alone"].check) == (False, True)


def test_only_checks_are_taken_from_the_key():
    entries = {
        "a": KeyEntry(systems={"first": ("A",)}),
        "b": KeyEntry(right="first"),
        "c": KeyEntry(right=()),
    }
    assert Key(systems={}, items=entries).checks.keys() == {"b", "c"}


@given(st.integers(1, 40), st.integers(0, 5), st.text(min_size=1, max_size=5))
def test_a_rater_alone_gets_every_page_once_and_checks_in_between(real, checks, rater):
    dealt = plan(real, min(checks, real))
    walk = path(dealt, rater)
    assert sorted(walk) == sorted(set(walk))
    assert {name for name in walk if name[0] == "i"} == set(dealt.names(check=False))
    places = [place for place, name in enumerate(walk) if name[0] == "c"]
    if dealt.names(check=True):
        assert 1 <= places[0] <= EARLY, "never the first page, and among the first few"


@pytest.mark.slow
def test_checks_are_spread_and_lie_elsewhere_for_others():
    dealt = plan(100, 10)
    walks = [path(dealt, f"r{number}") for number in range(20)]
    places = [tuple(place for place, name in enumerate(walk) if name[0] == "c") for walk in walks]
    assert all(len(found) == 10 for found in places)
    assert all(later - earlier <= 21 for found in places for earlier, later in pairwise(found))
    assert len(set(places)) == 20
    assert len({tuple(name for name in walk if name[0] == "c") for walk in walks}) > 10


def test_whoever_finds_little_left_still_meets_a_check():
    dealt = plan(60, 1)
    full = Counter({f"i{n}": 3 for n in range(1, 60)})
    assert dealt.due_check("r", [], last=True) is None, "not before anything was answered"
    assert dealt.choice("r", ["i0"], full) is None
    assert dealt.due_check("r", ["i0"], last=True) == "c0"
    assert dealt.due_check("r", ["i0", "c0"], last=True) is None


def test_the_page_with_fewest_raters_is_next_and_full_ones_never():
    dealt = plan(4)
    assert dealt.choice("r", [], {"i0": 2, "i1": 1, "i2": 2, "i3": 3}) == "i1"
    assert dealt.choice("r", ["i1"], {"i0": 3, "i1": 1, "i2": 3, "i3": 3}) is None
    first = Counter(dealt.choice(f"r{number}", [], {}) for number in range(400))
    assert set(first) == {"i0", "i1", "i2", "i3"}
    assert min(first.values()) > 60, "ties are drawn evenly"


def test_a_limit_ends_the_rating():
    dealt = plan(9, 1, limit=3)
    walk = path(dealt, "r")
    assert (sum(name[0] == "i" for name in walk), sum(name[0] == "c" for name in walk)) == (3, 1)


def test_orders_are_drawn_again_the_same_and_all_occur():
    dealt, one = plan(1), item("i0")
    orders = Counter(dealt.shown_order(f"r{number}", one) for number in range(600))
    assert len(orders) == 6
    assert min(orders.values()) > 60
    assert dealt.shown_order("r1", one) == dealt.shown_order("r1", one)
    assert any(
        plan(1, study="another").shown_order(f"r{n}", one) != dealt.shown_order(f"r{n}", one)
        for n in range(9)
    )
    assert plan(1).shown_order("r4", one) == ("q", "p", "r"), "the same on every machine"
