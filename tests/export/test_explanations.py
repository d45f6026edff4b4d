"""Explanations and credits: the words for what the storyboard holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.export.wording import (
    alt_text,
    credit_line,
    explain,
    first_words,
    how_made,
    paragraphs,
    picture_alt,
    picture_credits,
    settings,
    step_numbers,
)
from limner.records import chance_in_words
from limner.templates import carried


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "under 1 % (weak)"),
        (0.19, "19 % (weak)"),
        (0.2, "20 % (may fit)"),
        (0.5, "50 % (fits)"),
        (1.0, "over 99 % (fits)"),
    ],
)
def test_a_chance_in_words(board, value: float, said: str) -> None:
    assert chance_in_words(value) == said
    told = explain(board.steps[0].model_copy(update={"probability": value}))
    assert told.chance == f"Probability that this picture fits: {said}."


def test_paragraphs() -> None:
    assert paragraphs("a\nb\n\n c \r\n \r\nd\n\n\n") == ("a\nb", "c", "d")
    assert paragraphs(" x ") == ("x",)


@given(st.text(min_size=1, max_size=60))
def test_paragraphs_lose_no_words(text: str) -> None:
    assert " ".join(paragraphs(text)).split() == carried(text).split()


def test_runners_up_are_named_with_their_chances(board) -> None:
    step = board.steps[0]
    assert explain(step).runners_up == "Runners-up: it's (a) [näive] %20 & #1.jpg (40 %), clear.png (40 %)."
    first, second = (
        one.model_copy(update={"probability": chance})
        for one, chance in zip(step.runners_up, (0.4, None), strict=True)
    )
    told = explain(step.model_copy(update={"runners_up": (second, first)}))
    assert told.runners_up == "Runners-up: clear.png, it's (a) [näive] %20 & #1.jpg (40 %)."
    assert explain(step.model_copy(update={"runners_up": (second,)})).runners_up == "Runner-up: clear.png."
    assert explain(step.model_copy(update={"runners_up": ()})).runners_up == ""


def test_a_blank_tells_the_best_chance(board) -> None:
    assert explain(board.steps[3]).lines() == (
        "Left blank. No picture is likely enough.",
        "Probability that the best picture fits: 10 % (weak).",
    )


def test_how_a_board_was_made(board) -> None:
    """The number stated is the number applied; of settings, those that say something to a reader."""
    assert how_made(board) == (
        "Pictures chosen from the library my-library with limner 0.1.0; a step stays blank below a"
        " probability of 12 %."
    )
    plain = board.model_copy(update={"library": "", "threshold": 0.0})
    assert how_made(plain) == "Pictures chosen with limner 0.1.0."
    asked = {"show": "usual", "allow_repeats": False, "pins": "", "bans": "b", "decoder": "chain"}
    assert settings(board.model_copy(update={"settings": asked})) == [
        ("Pictures shown", "usual"),
        ("Repeats allowed", "no"),
        ("Banned", "b"),
    ]


def test_alternative_texts(board, pictures) -> None:
    texts = [alt_text(step, board.story) for step in board.steps]
    assert texts[:4] == ["A red roof", first_words(board.story.steps[1].text), "Given words", ""]
    labelled = pictures["wide"].model_copy(update={"labels": (("lion", 0.6), ("dog", 0.1))})
    assert alt_text(board.steps[1], board.story, labelled) == texts[1]
    assert picture_alt(labelled, "Picture") == "Picture; no description, perhaps: lion, dog"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Fold the\n dough.", "Fold the dough."),
        ("knead " * 40, "knead " * 20 + "…"),
        ("x" * 130, "x" * 120 + " …"),
    ],
    ids=["short", "long", "no-spaces"],
)
def test_first_words(text: str, said: str) -> None:
    assert first_words(text) == said


def test_credits_once_per_picture(make_board) -> None:
    ((picture, steps),) = picture_credits(make_board(["a", "b", "c"]))
    assert steps == [1, 2, 3]
    assert credit_line(picture) == "Ana Lima · CC BY 4.0"
    assert step_numbers(steps) == "steps 1, 2, 3"
    assert step_numbers([2]) == "step 2"
