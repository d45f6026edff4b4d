"""A story over two small worlds of pictures, chosen for and explained."""

import numpy as np
import pytest
from boards import Records, chosen_board, numbers, picture_id, shown, space, story_of, two_worlds
from pydantic import ValidationError

from limner.errors import DataError
from limner.match.illustrate import BoardOptions
from limner.records import Board, Step, Story
from limner.store.vectors import Gallery

PIN = {"pin": {"weight": 3.0, "floor": 0.05, "looks": 6.0}, "none": 8.0}
PULLED = numbers(agreement={"own": 1.0, "captions": 0, "looks": 0, "looks_beside_words": 0}, **PIN)


def board_of(options=None, calibration=None, story=None, gallery=None, **more):
    own, held, channels, shelf = two_worlds()
    return chosen_board(
        story or own,
        held if gallery is None else gallery,
        channels,
        more.pop("shelf", shelf),
        options,
        calibration=calibration or numbers(),
        **more,
    )


def test_the_story_finds_its_pictures_and_a_board_can_be_written_and_read():
    shelf = two_worlds()[3]
    board = board_of(library="pics", shelf=shelf)
    assert shown(board) == ["kite-0", "beach-0", "boat-0"]
    assert [step.origin for step in board.steps] == ["decoded"] * 3
    assert (board.library, board.channels) == ("pics", ("captions",))
    assert len(shelf.asked) == 1  # ids are looked up once
    assert len(set(shelf.asked[0])) == len(shelf.asked[0])
    assert Board.model_validate_json(board.model_dump_json()) == board


def test_a_gap_is_how_much_stronger_the_choice_is_than_the_runner_up():
    for step in board_of().steps:
        assert step.gap == pytest.approx(step.chosen.strength - step.runners_up[0].strength)
        strengths = [one.strength for one in step.runners_up]
        assert strengths == sorted(strengths, reverse=True)


def test_a_fixed_picture_brings_the_rest_of_its_book():
    options = BoardOptions(pins={1: picture_id("beach-1")})
    board = board_of(options, PULLED)
    assert shown(board) == ["kite-1", "beach-1", "boat-1"]
    assert [step.origin for step in board.steps] == ["decoded", "pinned", "decoded"]
    assert board.steps[1].reason == "You fixed this picture here."
    assert board.steps[1].probability is None
    assert "it looks like the pictures that you fixed" in board.steps[0].reason
    assert board.settings["pins"] == f"2={picture_id('beach-1')}"


def test_a_fixed_picture_brings_its_like_among_the_candidates():
    """With one candidate per step only its looks can find its world."""
    pins = {0: picture_id("kite-1")}
    assert shown(board_of(BoardOptions(candidates=1, pins=pins), PULLED))[0] == "kite-1"
    wide = board_of(BoardOptions(candidates=3, pins=pins), PULLED)
    assert set(shown(wide)) == {"kite-1", "beach-1", "boat-1"}


def test_of_several_fixed_pictures_each_counts_a_share():
    one = board_of(BoardOptions(pins={0: picture_id("kite-1")}), PULLED)
    both = board_of(BoardOptions(pins={0: picture_id("kite-1"), 1: picture_id("beach-0")}), PULLED)
    assert shown(one)[2] == "boat-1"
    assert both.steps[2].chosen.agreement < one.steps[2].chosen.agreement


def test_the_text_own_picture_is_kept_and_a_pin_goes_before_it():
    given = {0: picture_id("boat-1")}
    board = board_of(given=given)
    assert shown(board)[0] == "boat-1"
    assert board.steps[0].origin == "given"
    assert board.steps[0].reason == "The text itself shows this picture here."
    board = board_of(BoardOptions(pins={0: None}), given=given)
    assert board.steps[0].origin == "blank"
    assert board.steps[0].reason == "No picture here, as you asked."


def test_a_step_that_stays_is_explained_as_chosen_and_guides_no_other():
    plain = board_of(calibration=PULLED)
    board = board_of(calibration=PULLED, held={1: picture_id("beach-1"), 2: None})
    assert shown(board) == ["kite-0", "beach-1", None]
    assert [step.origin for step in board.steps] == ["decoded", "decoded", "blank"]
    assert board.steps[1].probability is not None
    assert board.steps[0].chosen == plain.steps[0].chosen
    assert shown(board_of(BoardOptions(pins={1: None}), held={1: picture_id("beach-1")}))[1] is None


def test_what_words_cannot_find_is_shown_where_it_stays():
    """A held picture of which no channel knows anything."""
    _, gallery, _, _ = two_worlds()
    captions = gallery.spaces["captions"]
    present = np.arange(6) != 3
    spaces = {**gallery.spaces, "captions": space(np.asarray(captions.matrix, np.float32), present)}
    board = board_of(gallery=Gallery(gallery.ids, gallery.groups, spaces), held={2: picture_id("kite-1")})
    assert shown(board) == ["kite-0", "beach-0", "kite-1"]
    assert board.steps[2].chosen.channels == {}


def test_bans_hold_and_are_said():
    board = board_of(BoardOptions(bans=(picture_id("kite-0"),)))
    assert shown(board)[0] == "kite-1"
    assert picture_id("kite-0") not in [one.picture.id for step in board.steps for one in step.runners_up]
    assert board.settings["bans"] == picture_id("kite-0")


def test_a_blank_gives_its_true_reason_and_the_board_counts_each():
    story, gallery, _, _ = two_worlds()
    four = Story(id="four", steps=(*story.steps, story.steps[0]))
    bans = tuple(picture_id(f"beach-{hand}") for hand in (0, 1))
    options = BoardOptions(pins={2: None}, bans=bans)
    twins = Gallery(gallery.ids, ["kite", "beach", "boat"] * 2, gallery.spaces)
    steep = numbers(chance={"one": -1.0, "share": 3.0, "mass": 0.3})
    board = board_of(options, steep, story=four, gallery=twins)
    assert {board.steps[0].blank, board.steps[3].blank} == {None, "all used"}
    assert [step.blank for step in board.steps[1:3]] == ["ruled out", "asked for"]
    reasons = [step.reason for step in board.steps]
    assert reasons[1] == "You ruled out the pictures that fit this step."
    assert any("might fit are shown at other steps" in reason for reason in (reasons[0], reasons[3]))
    assert board.blanks() == {"asked for": 1, "all used": 1, "ruled out": 1}
    strict = board_of(
        options.model_copy(update={"min_probability": 0.999, "bans": ()}), steep, story=four, gallery=twins
    )
    assert strict.blanks() == {"asked for": 1, "nothing fits": 3}
    assert "fits well enough" in strict.steps[0].reason
    assert strict.steps[0].gap is None


def test_a_banned_picture_that_fits_nothing_is_no_reason_for_a_blank():
    """With more steps than pictures, and a ban beside the point."""
    story, gallery, _, _ = two_worlds()
    twins = Gallery(gallery.ids, ["kite", "beach", "boat"] * 2, gallery.spaces)
    beaches = story_of([story.steps[1].text] * 3)
    boats = tuple(picture_id(f"boat-{hand}") for hand in (0, 1))
    board = board_of(BoardOptions(show="always", bans=boats), story=beaches, gallery=twins)
    assert board.blanks() == {"all used": 1}


def test_more_steps_than_pictures_leaves_blanks_not_errors():
    story, _, _, _ = two_worlds()
    long = Story(id="long", steps=story.steps * 3)
    board = board_of(BoardOptions(show="always"), story=long)
    pictures = [name for name in shown(board) if name]
    assert len(pictures) == len(set(pictures)) == 6
    blank = next(step for step in board.steps if step.origin == "blank")
    assert blank.reason == "All pictures that fit this step are shown at other steps."
    again = board_of(BoardOptions(show="always", allow_repeats=True), story=long)
    assert all(step.origin == "decoded" for step in again.steps)
    assert shown(again)[:3] == shown(again)[3:6] == shown(again)[6:]


def test_near_duplicates_are_never_shown_together():
    _, gallery, _, _ = two_worlds()
    board = board_of(gallery=Gallery(gallery.ids, [gallery.groups[0]] * 6, gallery.spaces))
    assert sum(step.chosen is not None for step in board.steps) == 1
    assert all(not step.runners_up for step in board.steps)


def test_library_without_pictures_leaves_everything_blank():
    for show in ("cautious", "usual", "always"):
        empty = Gallery([], [], {"captions": space(np.zeros((0, 3))), "looks": space(np.zeros((0, 2)))})
        board = board_of(BoardOptions(show=show), gallery=empty)
        assert [step.origin for step in board.steps] == ["blank"] * 3
        assert board.steps[0].reason == "The library contains no picture that may be shown."


def test_a_library_that_was_banned_as_a_whole_is_empty():
    _, gallery, _, _ = two_worlds()
    board = board_of(BoardOptions(bans=tuple(gallery.ids)))
    assert shown(board) == [None] * 3
    assert {step.blank for step in board.steps} == {"ruled out"}


def test_wrong_requests_are_named():
    for options, message in (
        ({"pins": {7: picture_id("kite-0")}}, "text has 3 steps"),
        ({"pins": {0: "f" * 64}}, "not in the library"),
        ({"bans": ("f" * 64,)}, "not in the library"),
        ({"pins": {0: picture_id("kite-0")}, "bans": (picture_id("kite-0"),)}, "fixed and banned"),
    ):
        with pytest.raises(DataError, match=message) as caught:
            board_of(BoardOptions(**options))
        assert "\n" not in str(caught.value)
    for wrong in (
        {"show": "sometimes"},
        {"candidates": 0},
        {"count": 0},
        {"colour": 1},
        {"min_probability": 1.0},
    ):
        with pytest.raises(ValidationError):
            BoardOptions(**wrong)


def test_headings_are_searched_with_their_words():
    titled = Story(id="t", steps=(Step(text="a boat", title="Sea"),))
    _, gallery, channels, shelf = two_worlds()
    channels[0].encoder.table["Sea. a boat"] = np.eye(3, dtype=np.float32)[2]
    assert shown(chosen_board(titled, gallery, channels, shelf, calibration=numbers())) == ["boat-0"]


def test_without_chances_that_hold_none_is_stated_and_no_step_left_blank():
    board = board_of(BoardOptions(show="cautious"), numbers(chance={"one": -9.0}), calibrated=False)
    assert shown(board) == ["kite-0", "beach-0", "boat-0"]
    assert board.threshold == 0
    for step in board.steps:
        assert step.probability is None
        assert {one.probability for one in (step.chosen, *step.runners_up)} == {None}
        assert not any(word in step.reason for word in ("probably", "may fit"))


def test_an_empty_shelf_is_not_asked_for_anything():
    shelf = Records([])
    empty = Gallery([], [], {"captions": space(np.zeros((0, 3))), "looks": space(np.zeros((0, 2)))})
    board_of(gallery=empty, shelf=shelf)
    assert [one for asked in shelf.asked for one in asked] == []
