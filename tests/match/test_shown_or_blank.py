"""When a step shows a picture: the chance that is stated is the one that decides."""

import numpy as np
import pytest
from boards import chosen_board, numbers, picture_id, random_board, shown, story_of
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.match.calibration import load
from limner.match.illustrate import BoardOptions, query_texts
from limner.records import fit_of
from limner.store.vectors import Gallery

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32 - 1)
CALIBRATIONS = {"shipped": load(), "by hand": numbers()}
CALIBRATIONS["words apart"] = numbers(
    chance={"one": 1.0, "share": 1.0, "mass": 0.3, "words_share": -0.3, "wordless": -1.0, "agreed": 0.4}
)
ALL = 99


@st.composite
def boards(draw):
    """A random gallery, with or without captions and near-duplicates, and a calibration."""
    rng = np.random.default_rng(draw(SEEDS))
    board = random_board(
        rng,
        steps=draw(st.integers(1, 7)),
        pictures=draw(st.integers(1, 25)),
        captioned=draw(st.sampled_from([0.0, 0.3, 1.0])),
        groups=draw(st.sampled_from([None, 4])),
        fitting=draw(st.sampled_from([0.2, 0.8])),
    )
    return board, CALIBRATIONS[draw(st.sampled_from(sorted(CALIBRATIONS)))]


def chosen(case, options=None, **more):
    (story, gallery, channels, shelf), calibration = case
    return chosen_board(story, gallery, channels, shelf, options, calibration=calibration, **more)


def free_chance(step):
    """The best chance of the candidates that a step could show; all are named as runners-up."""
    return max((one.probability for one in step.runners_up), default=-1.0)


@settings(max_examples=60)
@given(case=boards(), show=st.sampled_from(["cautious", "usual"]))
def test_a_step_is_blank_exactly_if_no_free_picture_has_the_chance_that_is_asked_for(case, show):
    board = chosen(case, BoardOptions(show=show, runners_up=ALL))
    for step in board.steps:
        if step.chosen is None:
            assert free_chance(step) < board.threshold
            nothing = step.probability < board.threshold or step.probability == 0
            assert step.blank == ("nothing fits" if nothing else "all used")
            doubtful = step.blank == "all used" and fit_of(step.probability) != "fits"
            assert ("might fit" in step.reason) == doubtful
        else:
            assert step.probability == step.chosen.probability >= board.threshold


@settings(max_examples=30)
@given(case=boards(), least=st.floats(0, 0.99))
def test_a_number_of_the_user_takes_the_place_of_the_position(case, least):
    board = chosen(case, BoardOptions(min_probability=least, show="cautious", runners_up=ALL))
    assert board.threshold == pytest.approx(least, abs=1e-12)
    for step in board.steps:
        assert free_chance(step) < least if step.chosen is None else step.probability >= least


@settings(max_examples=20)
@given(case=boards())
def test_who_asks_for_less_gets_no_fewer_pictures(case):
    counts = [
        sum(step.chosen is not None for step in chosen(case, BoardOptions(show=show)).steps)
        for show in ("cautious", "usual", "always")
    ]
    assert counts == sorted(counts)


@settings(max_examples=40)
@given(case=boards(), data=st.data())
def test_always_leaves_nothing_blank_and_shows_no_near_duplicates_and_no_banned_picture(case, data):
    (_, gallery, _, shelf), _ = case
    bans = tuple(data.draw(st.lists(st.sampled_from(list(gallery.ids)), unique=True, max_size=5)))
    board = chosen(case, BoardOptions(bans=bans, show="always", runners_up=ALL))
    assert board.threshold == 0
    for step in board.steps:
        if step.chosen is None:
            assert not step.runners_up
            assert step.blank in ("all used", "nothing fits", *(["ruled out"] if bans else []))
    groups = [shelf.pictures[one.picture.id].group for one in board.steps if one.picture is not None]
    assert len(set(groups)) == len(groups)
    named = {one.picture.id for step in board.steps for one in step.runners_up}
    assert not set(bans) & (named | {own for own in board.shown.values() if own})


@settings(max_examples=15)
@given(case=boards(), show=st.sampled_from(["cautious", "usual", "always"]))
def test_the_same_question_has_the_same_answer(case, show):
    options = BoardOptions(show=show)
    assert chosen(case, options) == chosen(case, options)


@settings(max_examples=30)
@given(case=boards(), data=st.data())
def test_fixing_a_picture_turns_no_other_step_blank(case, data):
    """Unless the picture that it showed is shown at another step now, where there are too few."""
    (story, gallery, _, _), _ = case
    before = chosen(case)
    position = data.draw(st.integers(0, len(story.steps) - 1))
    fixed = data.draw(st.sampled_from(list(gallery.ids)))
    after = chosen(case, BoardOptions(pins={position: fixed}))
    assert after.shown[position] == fixed
    groups = {one.picture.group for one in after.steps if one.picture is not None}
    for one, other in zip(before.steps, after.steps, strict=True):
        if one.picture is not None and other.picture is None:
            assert one.picture.group in groups
            assert other.blank == "all used"


def test_a_fixed_picture_that_nothing_is_known_of_makes_no_other_step_blank():
    """It brings pictures that look like it among the candidates, of which nothing is known either."""
    story, gallery, channels, shelf = random_board(np.random.default_rng(0), pictures=200, captioned=0.1)
    captions, base = gallery.spaces["captions"], gallery.spaces["base"]
    spaces = {**gallery.spaces, "base": type(base)(np.zeros_like(base.matrix), np.zeros(200, bool))}
    held = Gallery(gallery.ids, gallery.groups, spaces)
    unknown = np.flatnonzero(~captions.present & gallery.spaces["looks"].present)[:5]
    for calibration in CALIBRATIONS.values():
        case = (story, held, channels[:1], shelf), calibration
        before = chosen(case)
        for row in unknown:
            after = chosen(case, BoardOptions(pins={0: held.ids[row]}, runners_up=ALL))
            assert after.threshold == pytest.approx(before.threshold, abs=1e-12)
            for one, other in zip(before.steps[1:], after.steps[1:], strict=True):
                assert one.picture is None or other.picture is not None
                chances = {
                    own.picture.id: own.probability for own in (other.chosen, *other.runners_up) if own
                }
                if one.picture is not None and one.picture.id in chances:
                    assert chances[one.picture.id] >= one.probability - 1e-9


def test_rewritten_words_that_are_empty_change_nothing():
    case = random_board(np.random.default_rng(2)), numbers()
    plain = chosen(case)
    assert chosen(case, readings=query_texts(case[0][0], None, [""] * 5)) == plain


def test_rewritten_words_find_pictures_and_are_never_shown():
    (story, gallery, channels, shelf), calibration = random_board(np.random.default_rng(2)), numbers()
    for channel in channels:
        table = channel.encoder.table
        table["A secret."] = table[story.steps[3].text]
    case = (story, gallery, channels, shelf), calibration
    readings = query_texts(story, None, ["A secret.", "", "", "", ""])
    plain, other = chosen(case), chosen(case, readings=readings)
    assert other.steps[0].runners_up != plain.steps[0].runners_up
    assert other.story == plain.story == story
    assert "secret" not in other.model_dump_json()


def test_a_fixed_picture_is_shown_whatever_else_happens_and_even_twice():
    case = random_board(np.random.default_rng(4)), numbers()
    one = picture_id("p3")
    options = BoardOptions(pins={0: one, 2: one, 4: None}, show="cautious")
    board = chosen(case, options)
    assert [shown(board)[step] for step in (0, 2, 4)] == ["p3", "p3", None]
    assert "p3" not in (shown(board)[1], shown(board)[3])
    assert [board.steps[step].origin for step in (0, 2, 4)] == ["pinned", "pinned", "blank"]
    assert board.steps[4].blank == "asked for"


def test_steps_keep_their_order():
    case = random_board(np.random.default_rng(4), steps=4), numbers()
    board = chosen(case)
    assert [step.position for step in board.steps] == [0, 1, 2, 3]
    (story, gallery, channels, shelf), calibration = case
    turned = story_of([step.text for step in reversed(story.steps)])
    assert shown(chosen(((turned, gallery, channels, shelf), calibration))) == shown(board)[::-1]


@pytest.mark.parametrize("seed", [4, 24, 52, 121, 132])
def test_a_picture_that_one_blank_leaves_is_free_for_another_step(seed):
    """The assignment gave it to a step that then stayed blank, and another was left blank beside it."""
    case = (
        random_board(np.random.default_rng(seed), steps=6, pictures=5, captioned=1.0, fitting=0.8),
        numbers(),
    )
    board = chosen(case, BoardOptions(min_probability=0.8, runners_up=ALL))
    assert all(free_chance(step) < 0.8 for step in board.steps if step.chosen is None)
