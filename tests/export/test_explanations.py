"""Explanations and credits: the words for what the storyboard holds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.export.wording import (
    alt_text,
    credit_line,
    explain,
    paragraphs,
    picture_alt,
    picture_credits,
    shares_of,
    signed,
    step_numbers,
)
from limner.templates import carried


@pytest.mark.parametrize(
    ("nats", "said"), [(2, "+2.00"), (-0.5, "−0.50"), (0, "0.00"), (-0.001, "0.00"), (0.005001, "+0.01")]
)
def test_signed(nats: float, said: str) -> None:
    assert signed(nats) == said


def test_paragraphs() -> None:
    assert paragraphs("a\nb\n\n c \r\n \r\nd\n\n\n") == ("a\nb", "c", "d")
    assert paragraphs(" x ") == ("x",)


@given(st.text(min_size=1, max_size=60))
def test_paragraphs_lose_no_words(text: str) -> None:
    assert " ".join(paragraphs(text)).split() == carried(text).split()


def test_shares_are_fractions_of_the_largest(board) -> None:
    shares = shares_of(board.steps[0].chosen)
    assert [(share.nats, share.extent) for share in shares] == [(2.0, 1.0), (-0.5, 0.25), (0.25, 0.125)]
    empty = board.steps[0].chosen.model_copy(update={"channels": {}, "pairwise": 0.0})
    assert shares_of(empty) == ()
    level = board.steps[0].chosen.model_copy(update={"channels": {"clip": 0.0}, "pairwise": 0.0})
    assert [share.extent for share in shares_of(level)] == [0.0]


@pytest.mark.parametrize(
    ("gap", "said"),
    [
        (math.log(2), "weaker by 0.69 (odds 2.0 to 1)"),
        (-math.log(20), "stronger by 3.00 (odds 20 to 1)"),
        (0.0, "equally strong"),
        (500.0, "odds far more than 1000 to 1"),
        (None, "Runner-up: it's"),
    ],
)
def test_gap_in_words(board, gap: float | None, said: str) -> None:
    assert said in explain(board.steps[0].model_copy(update={"gap": gap})).runner_up


@pytest.mark.parametrize(("value", "said"), [(0.0, "under 1 %"), (0.5, "50 %"), (1.0, "over 99 %")])
def test_probability_in_words(board, value: float, said: str) -> None:
    assert said in explain(board.steps[0].model_copy(update={"probability": value})).probability


def test_blank_has_no_evidence(board) -> None:
    blank = explain(board.steps[3])
    assert (blank.shares, blank.total, blank.runner_up) == ((), None, "")
    assert blank.lines()[0] == "Left blank. No picture is likely enough."


def test_alternative_texts(board, pictures) -> None:
    texts = [alt_text(step, board.story) for step in board.steps]
    assert texts[:4] == ["A red roof", "Picture for step 2; no description", "Given words", ""]
    labelled = pictures["wide"].model_copy(update={"labels": (("lion", 0.6), ("dog", 0.1))})
    assert picture_alt(labelled, "Picture") == "Picture; no description, perhaps: lion, dog"


def test_credits_once_per_picture(make_board) -> None:
    ((picture, steps),) = picture_credits(make_board(["a", "b", "c"]))
    assert steps == [1, 2, 3]
    assert credit_line(picture) == "Ana Lima · CC BY 4.0"
    assert step_numbers(steps) == "steps 1, 2, 3"
    assert step_numbers([2]) == "step 2"
