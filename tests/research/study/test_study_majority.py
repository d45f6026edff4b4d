"""Majorities counted by hand, in both protocols."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_studies import pair, step, study_of, votes_of

from limner.errors import DataError
from limner.research.study.analysis import checked, majority, meaning, tally
from limner.research.study.records import KeyEntry, check_votes


@pytest.mark.parametrize(
    ("answers", "due"),
    [
        (["first", "first", "second"], ("better", 2)),
        (["second", "second", "second"], ("worse", 3)),
        (["first", "second", "same"], ("no majority", 1)),
        (["first", "second", None], ("no majority", 1)),
        (["neither", None, "neither"], ("neither", 2)),
        (["same", "same", "neither"], ("same", 2)),
    ],
)
@pytest.mark.parametrize("flipped", [False, True])
def test_pairs_by_hand(answers, due, flipped):
    turned = {"first": "second", "second": "first"} if flipped else {}
    cast = votes_of({"i1": [turned.get(answer, answer) for answer in answers]})
    found = tally(study_of([pair(1, flipped=flipped)]), cast).decided
    assert [(one.outcome, one.votes) for one in found] == [due]


def test_scores_unrated_incomplete_and_prefilled():
    files = study_of([pair(1), pair(2, flipped=True), pair(3), pair(4, prefilled=True), pair(5), pair(6)])
    cast = votes_of(
        {
            "i1": ["first"] * 3,
            "i2": ["first", "first", "neither"],
            "i3": ["first", None, None],
            "i5": ["neither", "neither"],
        }
    )
    found = tally(files, cast)
    assert {one.item: one.score for one in found.decided} == {"i1": 1, "i2": -1, "i4": 0, "i5": 0}
    assert found.unrated == ("i3", "i6")
    assert found.incomplete == 1
    same = next(one for one in found.decided if one.prefilled)
    assert (same.outcome, same.votes) == ("same", 0)


def test_four_votes_need_three():
    files = study_of([pair(1), pair(2)], raters=4)
    cast = votes_of({"i1": ["first"] * 3 + ["second"], "i2": ["first", "first", "second", "second"]})
    assert [one.outcome for one in tally(files, cast).decided] == ["better", "no majority"]


def test_a_study_of_single_votes_counts_them():
    files = study_of([pair(1)], raters=1)
    assert tally(files, votes_of({"i1": ["first"]})).decided[0].outcome == "better"


@pytest.mark.parametrize(
    ("systems", "ticks", "due", "score"),
    [
        ((("A",), ("B",), ("C",)), [("a",), ("a",), ("a", "b")], "A", 0),
        ((("A",), ("B",), ("C",)), [("a", "b"), ("a", "b"), ("a",)], "AB", 1),
        ((("A",), ("C",), ("B",)), [("a", "b"), ("a", "b"), ()], "AC", -1),
        ((("A",), ("B",), ("C",)), [(), (), ("a",)], "nothing", 0),
        ((("A",), ("B",), ("C",)), [("a",), ("b",), ("c",)], "no majority", 0),
        # no pattern has a majority, yet two of three tick B
        ((("A",), ("B",), ("C",)), [("b",), ("a", "b"), ()], "no majority", 1),
        ((("A",), ("B",), ("C",)), [("c",), ("a", "c"), ("b",)], "no majority", -1),
        ((("A",), ("B",), ("C",)), [("b", "c"), ("b",), ("a", "c")], "no majority", 0),
        # one picture of two systems counts for both
        ((("A",), ("B", "C")), [("a", "b"), ("a", "b"), ("a",)], "ABC", 0),
        ((("A", "B"), ("C",)), [("a",), ("a",), ()], "AB", 1),
        ((("A", "B", "C"),), [("a",), ("a",), ("a",)], "ABC", 0),
    ],
)
def test_ticks_by_hand(systems, ticks, due, score):
    found = tally(study_of([step(1, systems)], "tick-all"), votes_of({"i1": ticks})).decided[0]
    assert (found.outcome, found.score) == (due, score)


def test_attention_checks_never_count_and_their_failures_do():
    files = study_of([pair(1), pair(2, right="neither"), pair(3, right="same")])
    cast = votes_of(
        {
            "i1": ["first"] * 4,
            "i2": ["neither", "first", None, "neither"],
            "i3": ["same", "first", None, None],
        }
    )
    found = checked(files, cast)
    assert (found.raters, found.answered, found.wrong, found.failed, found.unchecked) == (4, 5, 2, ("r1",), 1)
    assert [one.item for one in tally(files, cast).decided] == ["i1"]
    sound = [vote for vote in cast if vote.rater not in found.failed]
    assert tally(files, sound).decided[0].votes == 3


def test_ticking_everything_where_due_passes_and_nothing_where_due():
    every, none = step(1, right=("a", "b", "c")), step(2, right=(), sequence="s2")
    files = study_of([step(3, sequence="s3"), every, none], "tick-all")
    cast = votes_of({"i1": [("a", "b", "c"), ("a",)], "i2": [(), ()]})
    assert checked(files, cast).failed == ("r1",)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"i9": ["first"]}, "no such item"),
        ({"i1": [("first",)]}, "expected one of first, second"),
        ({"i2": ["same"]}, "an item that raters are shown"),
    ],
)
def test_votes_that_do_not_fit_are_refused(table, message):
    files = study_of([pair(1), pair(2, prefilled=True)])
    with pytest.raises(DataError, match=message):
        check_votes(votes_of(table), files.items, "pairwise")


def test_two_votes_of_one_rater_on_one_item_are_refused():
    cast = votes_of({"i1": ["first"]})
    with pytest.raises(DataError, match="appears twice"):
        check_votes([*cast, *cast], study_of([pair(1)]).items, "pairwise")


@given(st.lists(st.sampled_from("abcd"), max_size=9))
def test_majority_is_more_than_half_and_no_order_matters(answers):
    answer, votes = majority(answers)
    counts = {one: answers.count(one) for one in set(answers)}
    winners = [one for one, count in counts.items() if count > len(answers) / 2]
    assert answer == (winners[0] if winners else "no majority")
    assert votes == max(counts.values(), default=0)
    assert majority(reversed(answers)) == (answer, votes)


def test_meaning_of_an_answer():
    entry = KeyEntry(systems={"first": ("B",), "second": ("A",)})
    assert [meaning(one, entry) for one in ("first", "second", "same", "neither")] == [
        "worse",
        "better",
        "same",
        "neither",
    ]
