"""A fixed picture pulls others of its occasion, where that is asked for, and nothing else changes."""

import pytest
from pydantic import ValidationError

from limner.storyboard.illustrate import BoardOptions, choose_pictures
from support.boards import picture_id, two_worlds

BASE = BoardOptions(decoder="off", pair_weight=0)


def occasions(ids):
    """Those of hand 0 were taken on one day; of the others nobody knows."""
    of_day = {picture_id(f"{thing}-0") for thing in ("kite", "beach", "boat")}
    return sorted(of_day) if of_day.intersection(ids) else []


def shown(board):
    return [step.picture.id for step in board.steps]


@pytest.fixture
def choose():
    def chosen(decoder="off", *, pins=None, weight=0.0, of=occasions):
        story, gallery, channels, shelf = two_worlds()
        options = BASE.model_copy(
            update={"decoder": decoder, "pins": pins or {}, "occasion_weight": weight, "candidates": 1}
        )
        return choose_pictures(story, gallery, channels, shelf, options, occasions=of)

    return chosen


def by(hand):
    return [picture_id(f"{thing}-{hand}") for thing in ("kite", "beach", "boat")]


@pytest.mark.parametrize("decoder", ["off", "greedy", "beam", "chain", "anchor"])
def test_a_fixed_picture_brings_its_occasion(choose, decoder):
    """Only the best picture of a step is considered: that of the occasion is found beside it."""
    words = shown(choose(decoder))
    other = 1 if words[1] == picture_id("beach-0") else 0

    def of(ids):
        own = {picture_id(f"{thing}-{other}") for thing in ("kite", "beach", "boat")}
        return sorted(own) if own.intersection(ids) else []

    pinned = {0: picture_id(f"kite-{other}")}
    board = choose(decoder, pins=pinned, weight=10.0, of=of)
    assert shown(board) == by(other)
    assert board.steps[1].chosen.pairwise == pytest.approx(10.0)
    assert board.steps[0].chosen.pairwise == pytest.approx(0.0)
    assert choose(decoder, pins=pinned, weight=0.0, of=of).steps[1].picture.id == words[1]


def test_by_default_and_without_a_fixed_picture_nothing_changes(choose):
    for pins, weight in (({}, 10.0), ({0: picture_id("kite-1")}, 10.0), ({0: None}, 10.0)):
        # hand 1 is of no known occasion, so that fixing one of its pictures pulls nothing
        with_it, without = choose(pins=pins, weight=weight), choose(pins=pins, of=None)
        assert [step.model_dump() for step in with_it.steps] == [step.model_dump() for step in without.steps]

    def never(ids):
        raise AssertionError("asked for occasions that do not count")

    choose(pins={0: picture_id("kite-0")}, of=never)


def test_what_no_weight_is():
    for weight in (-1.0, float("inf")):
        with pytest.raises(ValidationError):
            BoardOptions(occasion_weight=weight)
