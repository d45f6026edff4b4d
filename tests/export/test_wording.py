"""Credits and reasons: the words for what the storyboard holds."""

import pytest

from limner.export.wording import credit_line, explain, how_made, picture_credits, sentence, step_numbers
from limner.records import chance_in_words


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
    assert f"Probability that this picture fits: {said}." in told


def test_reasons_of_a_picture_and_of_a_blank(board) -> None:
    step = board.steps[0]
    first, second = step.runners_up
    unknown = first.model_copy(update={"probability": None})
    assert explain(step.model_copy(update={"runners_up": (second, unknown)})) == (
        "Chosen from the library: turned.jpg (Ana Lima · CC BY 4.0). A reason.",
        "Probability that this picture fits: 80 % (fits).",
        "Matching words: roof.",
        "Runners-up: clear.png (40 %), it's (a) [näive] %20 & #1.jpg.",
    )
    assert explain(step.model_copy(update={"runners_up": (second,)}))[-1] == "Runner-up: clear.png (40 %)."
    assert explain(board.steps[3]) == (
        "Left blank. No picture is likely enough.",
        "Probability that the best picture fits: 10 % (weak).",
    )


def test_relations_in_words() -> None:
    assert (
        sentence("Temporal i<t")
        == sentence("temporal_before")
        == "The picture shows the preparation of this step."
    )
    assert sentence("Mood") == "Holds: relation Mood."


def test_how_a_board_was_made(board) -> None:
    assert how_made(board) == (
        "Pictures chosen from the library my-library by captions, labels with limner 0.1.0; a step stays"
        " blank below a probability of 12 %."
    )
    plain = board.model_copy(update={"library": "", "threshold": 0.0, "channels": ()})
    assert how_made(plain) == "Pictures chosen with limner 0.1.0."


def test_credits_once_per_picture(make_board) -> None:
    ((picture, steps),) = picture_credits(make_board(["a", "b", "c"]))
    assert credit_line(picture) == "Ana Lima · CC BY 4.0"
    assert (step_numbers(steps), step_numbers([2])) == ("steps 1, 2, 3", "step 2")
