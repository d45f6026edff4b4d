"""The draw: a function of names and a seed, equally likely for all, and open to be drawn again."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.errors import DataError
from limner.research.study.records import Population, SampleDraw, draw, redrawn, shuffled

IDS = [f"t{number}" for number in range(40)]


@given(st.permutations(IDS), st.integers(0, 5), st.integers(1, 40))
def test_the_order_in_which_ids_come_does_not_matter(order, seed, size):
    assert draw({"Story": order}, size, seed) == draw({"Story": IDS}, size, seed)


def test_a_sample_has_no_repeats_and_a_larger_one_contains_it():
    small, large = (draw({"s": IDS}, size, 7).strata["s"].drawn for size in (10, 25))
    assert large[:10] == small
    assert len(set(large)) == 25
    assert set(large) <= set(IDS)


def test_seeds_and_strata_draw_apart_and_other_strata_change_nothing():
    one = draw({"a": IDS, "b": IDS}, 10, 0)
    assert one.strata["a"].drawn != one.strata["b"].drawn
    assert one.strata["a"].drawn != draw({"a": IDS}, 10, 1).strata["a"].drawn
    assert one.strata["a"] == draw({"a": IDS}, 10, 0).strata["a"]


def test_every_id_and_every_pair_is_equally_likely():
    ids, size, seeds = list("abcdefgh"), 3, 4000
    drawn = [draw({"s": ids}, size, seed).strata["s"].drawn for seed in range(seeds)]
    singles = Counter(name for one in drawn for name in one)
    pairs = Counter(frozenset(p) for one in drawn for p in ((one[0], one[1]), (one[0], one[2])))
    # 4 standard deviations of a binomial count
    assert all(abs(singles[name] - seeds * 3 / 8) < 4 * (seeds * 15 / 64) ** 0.5 for name in ids)
    assert len(pairs) == 28
    assert all(abs(count - 2 * seeds / 28) < 80 for count in pairs.values())


def test_small_strata_are_taken_whole_and_repeated_ids_count_once():
    found = draw({"s": ["b", "a", "b"]}, 5, 0).strata["s"]
    assert found.population == ("a", "b")
    assert sorted(found.drawn) == ["a", "b"]
    assert len(draw({"s": IDS}, None, 0).strata["s"].drawn) == 40


def test_a_stored_draw_can_be_drawn_again_and_a_swapped_item_shows():
    honest = draw({"s": IDS}, 10, 3)
    assert redrawn(honest)
    own = honest.strata["s"]
    better = next(name for name in IDS if name not in own.drawn)
    swapped = Population(
        seed=3, strata={"s": SampleDraw(population=own.population, drawn=(*own.drawn[:-1], better))}
    )
    assert not redrawn(swapped)


def test_a_known_draw_stays_what_it_was():
    # what was registered once must be redrawn by later versions
    assert shuffled("abcdef", 0, "draw", "all") == ("a", "f", "c", "e", "b", "d")


@pytest.mark.parametrize("strata", [{}, {"s": []}])
def test_nothing_to_draw_is_refused(strata):
    with pytest.raises(DataError, match="study"):
        draw(strata, 1, 0)
