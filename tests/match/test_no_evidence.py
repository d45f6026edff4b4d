"""A picture that no channel knows is shown only where the user's pins ask for its like."""

import numpy as np
import pytest
from boards import TableEncoder, chosen_board, numbers, picture, picture_id, shown, space, story_of

from limner.match.illustrate import BoardOptions, step_texts
from limner.records import Step, Story
from limner.store.search import COSINE, Channel
from limner.store.vectors import Gallery

TEXTS = ("One comes now.", "Two comes now.")
STORY = story_of(TEXTS)
NAMES = [f"p{number}" for number in range(4)]


def board_of(options, calibration=None):
    """Only the first picture has words; all look alike."""
    words = space(np.tile([1.0, 0.0], (4, 1)), [True, False, False, False])
    looks = space(np.tile([1.0, 0.2], (4, 1)) + 0.01 * np.random.default_rng(0).normal(size=(4, 2)))
    ids = [picture_id(name) for name in NAMES]
    gallery = Gallery(ids, ids, {"captions": words, "looks": looks})
    channel = Channel("captions", TableEncoder({text: [1.0, 0.0] for text in TEXTS}), "captions", COSINE)
    records = {picture_id(name): picture(name) for name in NAMES}
    return chosen_board(
        STORY,
        gallery,
        [channel],
        lambda ids: [records[one] for one in ids],
        options,
        calibration=calibration or numbers(),
    )


@pytest.mark.parametrize("show", ["usual", "always"])
def test_what_nothing_is_known_of_is_not_shown(show):
    board = board_of(BoardOptions(show=show))
    assert sorted(shown(board), key=str) == [None, "p0"]
    assert not any(step.runners_up for step in board.steps if step.chosen is not None)


def test_a_pin_lets_its_like_follow():
    board = board_of(BoardOptions(pins={0: picture_id("p1")}))
    assert shown(board)[0] == "p1"
    assert shown(board)[1] is not None


def test_a_step_of_which_nothing_can_be_said_tells_so():
    board = board_of(BoardOptions(bans=(picture_id("p0"),)), numbers(chance={"one": -9.0}))
    assert shown(board) == [None, None]
    assert {step.reason for step in board.steps} == {
        "No picture in the library can be compared with this step."
    }


def test_a_heading_that_all_steps_share_is_not_searched():
    both = Story(id="s", steps=tuple(Step(text=text, title="Method") for text in ("One.", "Two.")))
    assert step_texts(both) == ["One.", "Two."]
    assert step_texts(both.model_copy(update={"steps": both.steps[:1]})) == ["Method. One."]
