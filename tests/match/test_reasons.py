"""Why a step shows what it shows, in a sentence that its reader can check."""

import re

import numpy as np
import pytest
from boards import (
    Records,
    TableEncoder,
    chosen_board,
    numbers,
    picture,
    picture_id,
    random_board,
    shown,
    space,
    story_of,
)

from limner.match.calibration import load
from limner.match.cast import cast_of
from limner.match.illustrate import BoardOptions
from limner.store.search import COSINE, Channel
from limner.store.vectors import Gallery

NIGHT = ("Finn the fox walked home.", "Then Finn saw a kite.", "He fell asleep.")
RECORDS = [
    picture("home", caption="A fox at its den"),
    picture("kite", caption="A red kite and a fox"),
    picture("sleep", caption="A fox with closed eyes"),
    picture("bus", caption="A bus"),
]


def board_of(calibration=None, records=RECORDS, channel="captions", lead=1.0, **options):
    """Each step is on an axis with one picture, which is so much nearer to it than the others."""
    vectors = np.full((4, 4), 0.3) + lead * np.eye(4)
    cast = cast_of(NIGHT)
    texts = [cast.spelled(text) for text in NIGHT]
    encoder = TableEncoder(dict(zip(texts, np.eye(4), strict=False)))
    looks = space([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])  # the last two are alike
    spaces = {channel: space(vectors), "looks": looks}
    gallery = Gallery([one.id for one in records], [one.group for one in records], spaces)
    return chosen_board(
        story_of(NIGHT),
        gallery,
        [Channel(channel, encoder, channel, COSINE)],
        Records(records),
        BoardOptions(show="always", **options),
        calibration=calibration or numbers(),
    )


def test_it_names_the_words_that_match_and_who_the_picture_shows():
    board = board_of()
    assert shown(board) == ["home", "kite", "sleep"]
    assert board.steps[1].chosen.matched == ("kite",)
    assert board.steps[1].reason.startswith(
        "Caption word “kite” matches; it shows the fox that the text is about"
    )
    assert "it shows the fox that the text is about" in board.steps[2].reason
    assert board.steps[2].chosen.matched == ()


def test_the_words_are_those_of_the_text_as_written():
    """A name is read as its kind, and no reader has written that word."""
    board = board_of()
    assert "“fox”" not in board.steps[1].reason
    assert board.story == story_of(NIGHT)


def test_a_picture_that_shows_somebody_else_is_not_said_to_show_the_protagonist():
    others = [picture(name, caption="A fast bus") for name in ("home", "kite", "sleep", "bus")]
    assert all("it shows the" not in step.reason for step in board_of(records=others).steps)


def test_labels_are_quoted_only_when_credible():
    labelled = [
        picture("kite", labels=[("kite", 0.6), ("asleep", 0.01)]) if one.path.endswith("kite.jpg") else one
        for one in RECORDS
    ]
    board = board_of(records=labelled, channel="labels")
    assert board.steps[1].reason.startswith("Label word “kite” matches")
    assert board.steps[1].chosen.matched == ("kite",)


def test_where_no_word_was_compared_none_is_the_reason():
    """Pixels found it: that a caption has the word too is chance."""
    board = board_of(channel="base")
    assert board.steps[1].chosen.matched == ()
    assert not any("word" in step.reason for step in board.steps)


@pytest.mark.parametrize(("nearness", "counts"), [(0.9, True), (0.3, False)])
def test_text_in_the_picture_is_named_as_a_reason_where_it_counts(nearness, counts):
    """It has no word in common with the step, but the caption has."""
    axes = dict(zip(map(cast_of(NIGHT).spelled, NIGHT), np.eye(5), strict=False))
    writing = nearness * np.eye(4, 5) + np.sqrt(1 - nearness**2) * np.eye(5)[4]
    spaces = {"captions": space(np.full((4, 5), 0.3) + np.eye(4, 5)), "ocr": space(writing)}
    board = chosen_board(
        story_of(NIGHT),
        Gallery([one.id for one in RECORDS], [one.group for one in RECORDS], spaces),
        [Channel(name, TableEncoder(axes), name, COSINE) for name in spaces],
        Records(RECORDS),
        BoardOptions(show="always"),
        calibration=numbers(),
    )
    assert shown(board) == ["home", "kite", "sleep"]
    assert board.steps[1].reason.startswith("Caption word “kite” matches")
    assert ("the text in the picture means nearly the same" in board.steps[1].reason) == counts


@pytest.mark.parametrize(
    ("one", "told"), [(3.0, ""), (-0.7, "it may fit"), (-4.0, "it probably does not fit")]
)
def test_how_likely_it_fits_is_said_where_it_is_not_likely(one, told):
    board = board_of(numbers(chance={"one": one}))
    for step in board.steps:
        said = [
            own
            for own in ("it may fit", "it probably does not fit", "it probably fits")
            if own in step.reason
        ]
        assert said == ([told] if told else [])
    assert (len(board.weak) == 3) == (one < -2)


def test_it_tells_a_fixed_picture_and_what_looks_like_it():
    calibration = numbers(pin={"weight": 3.0, "floor": 0.1, "looks": 5.0}, none=8.0)
    board = board_of(calibration, pins={0: picture_id("bus")})
    assert board.steps[0].reason == "You fixed this picture here."
    told = "it looks like the pictures that you fixed"
    assert [told in step.reason for step in board.steps] == [False, False, True]
    assert all("it looks like" not in step.reason for step in board_of(calibration).steps)


def test_a_picture_as_good_is_told_and_so_is_a_better_one():
    assert "another picture fits as well" in board_of(lead=0.0).steps[0].reason
    twice = story_of((NIGHT[1], NIGHT[1]))
    cast = cast_of([NIGHT[1]])
    encoder = TableEncoder({cast.spelled(NIGHT[1]): np.eye(4)[1], NIGHT[1]: np.eye(4)[1]})
    gallery = Gallery(
        [one.id for one in RECORDS], [one.group for one in RECORDS], {"captions": space(np.eye(4) + 0.1)}
    )
    channel = Channel("captions", encoder, "captions", COSINE)
    options = BoardOptions(show="always")
    board = chosen_board(twice, gallery, [channel], Records(RECORDS), options, calibration=numbers())
    assert sum(step.chosen.picture.id == picture_id("kite") for step in board.steps) == 1


@pytest.mark.parametrize("seed", range(6))
def test_no_reason_speaks_of_how_it_is_computed(seed):
    rng = np.random.default_rng(seed)
    story, gallery, channels, shelf = random_board(rng, steps=8, pictures=12, captioned=0.5)
    pins = {0: gallery.ids[0], 1: None}
    options = BoardOptions(pins=pins, bans=tuple(gallery.ids[1:3]))
    for calibration in (load(), numbers()):
        board = chosen_board(story, gallery, channels, shelf, options, calibration=calibration)
        for step in board.steps:
            assert step.reason.endswith(".")
            assert step.reason[0].isupper()
            assert not re.search(
                r"\bnats?\b|decod|anchor|chain|log-odds|evidence|threshold|nan|inf\b",
                step.reason,
                re.IGNORECASE,
            )
