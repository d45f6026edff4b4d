"""Storyboards over small made libraries: what a step shows, why, or why it shows nothing."""

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
    two_worlds,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from limner.encoders.catalogue import text_encoder
from limner.errors import DataError
from limner.match.calibration import load
from limner.match.cast import cast_of
from limner.match.illustrate import BoardOptions, step_texts
from limner.records import Board, Step, Story, fit_of
from limner.store.search import COSINE, Channel, Index
from limner.store.vectors import Gallery

OWN = {"own": 1.0, "captions": 0, "looks": 0, "looks_beside_words": 0}
PULL = {"calibration": numbers(agreement=OWN, pin={"weight": 3.0, "floor": 0.05, "looks": 6.0}, none=8.0)}
TWINS = ["kite", "beach", "boat"] * 2
KITE, BEACH, BOAT = (tuple(picture_id(f"{one}-{hand}") for hand in (0, 1)) for one in TWINS[:3])
TEXTS = [step.text for step in two_worlds()[0].steps]


def board_of(calibration=None, *, texts=TEXTS, groups=None, spaces=None, more=None, **options):
    """A board over two worlds; `more` goes to the scoring."""
    _, gallery, channels, records = two_worlds()
    held = Gallery(gallery.ids, groups or gallery.groups, gallery.spaces | (spaces or {}))
    given = {"calibration": calibration or numbers(), **(more or {})}
    return chosen_board(story_of(texts), held, channels, records, BoardOptions(**options), **given)


GIVEN, HELD = {"given": {0: BOAT[1]}}, {"held": {1: BEACH[1], 2: None}}
UNSURE, AGREED = numbers(chance={"one": -9.0}), {"calibration": numbers(none=5.0, doubt=1e4)}
LACKING = {
    "captions": space(np.tile(np.eye(3), (2, 1)), np.arange(6) != 0)
}  # worlds fit alike; one has no kite
BOARDS = {
    "plain": ({}, "kite-0 beach-0 boat-0"),
    "a ban": ({"bans": KITE[:1]}, "kite-1 beach-0 boat-0"),
    "a blank": ({"pins": {1: None}}, "kite-0 - boat-0"),
    "a pin brings its world": ({**PULL, "pins": {1: BEACH[1]}}, "kite-1 beach-1 boat-1"),
    "by looks alone": ({**PULL, "pins": {0: KITE[1]}, "candidates": 3}, "kite-1 beach-1 boat-1"),
    "what looks like the other steps gains": ({**AGREED, "spaces": LACKING}, "kite-1 beach-1 boat-1"),
    "the text's own picture": ({"more": GIVEN}, "boat-1 beach-0 boat-0"),
    "a pin before it": ({"more": GIVEN, "pins": {0: None}}, "- beach-0 boat-0"),
    "held steps guide no other": ({**PULL, "more": HELD}, "kite-0 beach-1 -"),
    "a pin before a held one": ({"more": HELD, "pins": {1: None}}, "kite-0 - -"),
    "near-duplicates": ({"groups": ["one"] * 6}, "- - boat-0"),
    "fixed twice": ({"pins": {0: BOAT[0], 1: BOAT[0]}, "groups": TWINS}, "boat-0 boat-0 -"),
    "repeats": ({"texts": TEXTS[:1] * 3, "allow_repeats": True}, "kite-0 kite-0 kite-0"),
    "turned round": ({"texts": TEXTS[::-1]}, "boat-0 beach-0 kite-0"),
    "no chances": ({"calibration": UNSURE, "more": {"calibrated": False}}, "kite-0 beach-0 boat-0"),
}


@pytest.mark.parametrize("case", BOARDS)
def test_a_board_shows_what_it_should(case):
    options, due = BOARDS[case]
    board = board_of(**options)
    assert " ".join(name or "-" for name in shown(board)) == due
    assert Board.model_validate_json(board.model_dump_json()) == board
    for step in board.steps:
        fixed = {"pinned": options.get("pins", {}), "given": options.get("more", {}).get("given", {})}
        due = next((name for name, steps in fixed.items() if step.position in steps), "decoded")
        assert step.origin == ("blank" if step.picture is None else due)
        if case == "no chances":
            assert {one.probability for one in (step, step.chosen, *step.runners_up)} == {None}
        if step.gap is not None:
            assert step.gap == pytest.approx(step.chosen.strength - step.runners_up[0].strength)
        strengths = [one.strength for one in step.runners_up]
        assert strengths == sorted(strengths, reverse=True)


def test_a_blank_gives_its_true_reason_and_the_board_counts_each():
    steep = numbers(chance={"one": -1.0, "share": 3.0, "mass": 0.3})
    four = {"calibration": steep, "texts": [*TEXTS, TEXTS[0]], "groups": TWINS, "pins": {2: None}}
    board = board_of(**four, bans=BEACH)
    assert {board.steps[0].blank, board.steps[3].blank} == {None, "all used"}
    assert [step.blank for step in board.steps[1:3]] == ["ruled out", "asked for"]
    assert board.blanks() == {"asked for": 1, "all used": 1, "ruled out": 1}
    strict = board_of(**four, min_probability=0.999)
    assert strict.blanks() == {"asked for": 1, "nothing fits": 3}
    assert board_of(bans=(*KITE, *BEACH, *BOAT)).blanks() == {"ruled out": 3}
    beside = board_of(texts=[TEXTS[1]] * 3, groups=TWINS, show="always", bans=BOAT)
    assert beside.blanks() == {"all used": 1}  # a ban that is beside the point is no reason
    many = board_of(texts=TEXTS * 3, show="always")
    assert (len({*shown(many)}), many.blanks()) == (7, {"all used": 3})
    _, _, channels, _ = two_worlds()
    empty = Gallery([], [], {"captions": space(np.zeros((0, 3))), "looks": space(np.zeros((0, 2)))})
    board = chosen_board(story_of(TEXTS), empty, channels, Records([]), BoardOptions(show="always"))
    assert {step.reason for step in board.steps} == {"The library contains no picture that may be shown."}


def test_wrong_requests_are_named():
    for options, message in (
        ({"pins": {7: KITE[0]}}, "text has 3 steps"),
        ({"pins": {0: "f" * 64}}, "not in the library"),
        ({"bans": ("f" * 64,)}, "not in the library"),
        ({"pins": {0: KITE[0]}, "bans": KITE[:1]}, "fixed and banned"),
    ):
        with pytest.raises(DataError, match=message):
            board_of(**options)
    for wrong in ({"show": "never"}, {"candidates": 0}, {"colour": 1}, {"count": 0}, {"min_probability": 1}):
        with pytest.raises(ValidationError):
            BoardOptions(**wrong)


@pytest.mark.parametrize("titles", [("Sea",), ("Sea", "Land"), ("Method", "Method")])
def test_headings_are_searched_with_their_words_unless_all_share_one(titles):
    story = Story(id="t", steps=tuple(Step(title=title, text="a boat") for title in titles))
    heading = "" if titles[0] == "Method" else "{}. "
    assert step_texts(story) == [f"{heading}a boat".format(title) for title in titles]


def test_a_picture_that_no_channel_knows_is_shown_only_where_pins_ask_for_its_like():
    """Only the first of the pictures, which all look alike, has words; both steps fit it."""
    words, rng = np.tile(np.eye(3), (2, 1)), np.random.default_rng(0)
    looks = space([1.0, 0.2] + 0.01 * rng.normal(size=(6, 2)))
    one = {"texts": [TEXTS[0]] * 2, "spaces": {"captions": space(words, np.arange(6) == 0), "looks": looks}}
    for show in ("usual", "always"):
        assert sorted(shown(board_of(**one, show=show)), key=str) == [None, "kite-0"]
    first, second = shown(board_of(**one, pins={0: BEACH[0]}))
    assert (first, second is None) == ("beach-0", False)
    board = board_of(UNSURE, **one, bans=KITE[:1])
    reason = "No picture in the library can be compared with this step."
    assert [step.reason for step in board.steps] == [reason] * 2
    held = board_of(**one | {"texts": TEXTS, "more": {"held": {2: KITE[1]}}})
    assert shown(held)[2] == "kite-1"
    assert held.steps[2].chosen.channels == {}


APART = {"one": 1.0, "share": 1.0, "mass": 0.3, "words_share": -0.3, "wordless": -1.0, "agreed": 0.4}
CALIBRATIONS = [load(), numbers(), numbers(chance=APART)]


@st.composite
def boards(draw):
    """A random gallery, with or without captions and near-duplicates, and a calibration."""
    rng, one_of = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), st.sampled_from
    sizes = {"steps": draw(st.integers(1, 7)), "pictures": draw(st.integers(1, 25))}
    sizes |= {"captioned": draw(one_of([0.0, 0.3, 1.0])), "groups": draw(one_of([None, 4]))}
    return random_board(rng, fitting=draw(one_of([0.2, 0.8])), **sizes), draw(one_of(CALIBRATIONS))


def chosen(case, **options):
    board, calibration = case
    return chosen_board(*board, BoardOptions(runners_up=99, **options), calibration=calibration)


@settings(max_examples=60)
@given(boards(), st.sampled_from(["cautious", "usual", 0.0, 0.4, 0.9]))
def test_a_step_is_blank_exactly_if_no_free_picture_has_the_chance_that_is_asked_for(case, show):
    board = chosen(case, **({"show": show} if isinstance(show, str) else {"min_probability": show}))
    assert board.threshold == case[1].thresholds.get(show, show)
    for step in board.steps:
        if step.chosen is not None:
            assert step.probability == step.chosen.probability >= board.threshold
            continue
        assert board.threshold == 0 or all(one.probability < board.threshold for one in step.runners_up)
        nothing = step.probability < board.threshold or step.probability == 0
        assert step.blank == ("nothing fits" if nothing else "all used")
        doubtful = step.blank == "all used" and fit_of(step.probability) != "fits"
        assert ("might fit" in step.reason) == doubtful


@settings(max_examples=40)
@given(boards(), st.data())
def test_no_board_shows_near_duplicates_or_bans_and_who_asks_for_less_gets_no_fewer(case, data):
    (_, gallery, _, shelf), _ = case
    bans = tuple(data.draw(st.lists(st.sampled_from(list(gallery.ids)), unique=True, max_size=5)))
    found = [chosen(case, bans=bans, show=show) for show in ("cautious", "usual", "always")]
    assert found[-1] == chosen(case, bans=bans, show="always")
    counts = []
    for board in found:
        groups = [shelf.pictures[one.picture.id].group for one in board.steps if one.picture is not None]
        assert len(set(groups)) == len(groups)
        offered = [one.picture.id for step in board.steps for one in (step.chosen, *step.runners_up) if one]
        assert not set(bans).intersection(offered)
        counts.append(len(groups))
    assert counts == sorted(counts)
    assert found[-1].threshold == 0


@settings(max_examples=30)
@given(boards(), st.data())
def test_fixing_a_picture_turns_no_other_step_blank(case, data):
    """Unless the picture that it showed is shown at another step now, where there are too few."""
    (story, gallery, _, _), _ = case
    position = data.draw(st.integers(0, len(story.steps) - 1))
    fixed = data.draw(st.sampled_from(list(gallery.ids)))
    before, after = chosen(case), chosen(case, pins={position: fixed})
    assert after.shown[position] == fixed
    groups = {one.picture.group for one in after.steps if one.picture is not None}
    for one, other in zip(before.steps, after.steps, strict=True):
        if one.picture is not None and other.picture is None:
            assert one.picture.group in groups
            assert other.blank == "all used"


NIGHT = ("Finn the fox walked home.", "Then Finn saw a kite.", "He fell asleep.")
CAPTIONS = {"home": "A fox at its den", "kite": "A red kite and a fox", "sleep": "A fox with closed eyes"}
RECORDS = [picture(name, caption=caption) for name, caption in {**CAPTIONS, "bus": "A bus"}.items()]
BUSES = [picture(name, caption="A fast bus") for name in ("home", "kite", "sleep", "bus")]
KITES = [RECORDS[0], picture("kite", labels=[("kite", 0.6), ("asleep", 0.01)]), *RECORDS[2:]]
SLEEP = [*RECORDS[:2], picture("sleep", labels=[("asleep", 0.01)]), RECORDS[3]]
FOX, MATCH = "it shows the fox that the text is about", "Caption word “kite” matches; "
LOOKS, BUS = "it looks like the pictures that you fixed", {"pins": {0: picture_id("bus")}}
OCR = "the text in the picture means nearly the same"
STRONG = {"calibration": numbers(pin={"weight": 3.0, "floor": 0.1, "looks": 5.0}, none=8.0)}


def night_board(calibration=None, records=RECORDS, channels=("captions",), lead=1.0, writing=None, **options):
    """Each step is on an axis with one picture, which is so much nearer to it than the others.

    The last two pictures look alike. `writing` is the cosine of the text in a picture with its step.
    """
    axes = dict(zip(map(cast_of(NIGHT).spelled, NIGHT), np.eye(5), strict=False))
    spaces = {name: space(np.full((4, 5), 0.3) + lead * np.eye(4, 5)) for name in channels}
    if writing is not None:
        spaces["ocr"] = space(writing * np.eye(4, 5) + np.sqrt(1 - writing**2) * np.eye(5)[4])
    asked = [Channel(name, TableEncoder(axes), name, COSINE) for name in spaces]
    spaces["looks"] = space([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    gallery = Gallery([one.id for one in records], [one.group for one in records], spaces)
    options, given = BoardOptions(show="always", **options), {"calibration": calibration or numbers()}
    return chosen_board(story_of(NIGHT), gallery, asked, Records(records), options, **given)


@pytest.mark.parametrize(
    ("case", "step", "said", "unsaid"),
    [
        ({}, 1, MATCH + FOX, "“fox”"),  # a name is read as its kind, and no reader has written that word
        ({}, 2, FOX, "word"),
        ({"records": BUSES}, 1, "", "it shows the"),
        ({"records": KITES, "channels": ["labels"]}, 1, "Label word “kite” matches", FOX),
        ({"records": SLEEP, "channels": ["labels"]}, 2, "", "asleep"),
        ({"channels": ["base"]}, 1, "", "word"),  # pixels found it: that a caption has the word too is chance
        ({"writing": 0.9}, 1, MATCH + OCR, ""),
        ({"writing": 0.3}, 1, MATCH, OCR),
        ({"calibration": numbers(chance={"one": 3.0})}, 1, "", "fit"),
        ({"calibration": numbers(chance={"one": -0.7})}, 1, "it may fit", "probably"),
        ({"calibration": numbers(chance={"one": -4.0})}, 1, "it probably does not fit", "may"),
        ({"lead": 0.0}, 0, "another picture fits as well", ""),
        (STRONG, 2, "", LOOKS),
        (STRONG | BUS, 0, "You fixed this picture here.", LOOKS),
        (STRONG | BUS, 1, "", LOOKS),
        (STRONG | BUS, 2, LOOKS, ""),
    ],
)
def test_a_reason_says_what_is_so_and_nothing_else(case, step, said, unsaid):
    board = night_board(**case)
    assert shown(board)[1:] == ["kite", "sleep"] or case.get("channels") or not case.get("lead", 1)
    reason = board.steps[step].reason
    assert said in reason
    assert not unsaid or unsaid not in reason
    assert reason.endswith(".")
    assert not re.search(r"decod|log-odds|evidence|threshold|\b(nan|inf|nats?)\b", reason, re.IGNORECASE)
    matched = board.steps[step].chosen.matched
    assert (matched == ("kite",)) == ("word “kite”" in reason)


PHOTOGRAPHS = """ball: A brown dog playing with a tennis ball on a beach
black: A black dog runs along the beach
waves: A dog jumps over the waves at the sea shore
puppy: A white puppy digs a hole in the sand
shake: A wet dog shakes the water out of its fur
sleep: A dog sleeps on a blanket in the evening sun
drive: A dog looks out of the window of a car
crowd: A crowd cheers at a football match in a stadium
cake: Children blow out the candles of a birthday cake
train: A train crosses a bridge over a river
climber: A climber hangs from a steep red rock face
guitar: A man with a beard plays the guitar on a stage
kite: A boy flies a kite on a green hill"""
DAY = {
    "We put our dog into the car and drove off.": "drive",
    "At the sea he ran along the beach.": "black",
    "A brown dog chased a yellow tennis ball.": "ball",
    "Our puppy dug a deep hole in the sand.": "puppy",
    "In the evening he fell asleep on the blanket.": "sleep",
    "The football team in red scored twice, and the crowd went wild.": "crowd",
}
FOUR = dict(list(DAY.items())[:4])
EMOJI = "🎉🎉 !!"
TAX = "The revised directive obliges member states to transpose the tax threshold into national law."
ALONE = {"A train goes over a bridge.": "train", "Kids blow out birthday candles.": "cake"}
REX = {"Rex the dog woke up.": ..., "Then Rex ran along the shore.": "black ball waves puppy"}  # by the cast


@pytest.fixture(scope="module")
def ask():
    """Texts → board over the captioned photographs, as limner asks a library by default."""
    captions = dict(line.split(": ") for line in PHOTOGRAPHS.splitlines())
    records = [picture(name, caption=caption) for name, caption in captions.items()]
    sentences, ids = text_encoder(), [one.id for one in records]
    gallery = Gallery(ids, ids, {"captions": space(sentences.encode_text(list(captions.values())))})
    index, channel = Index(gallery), Channel("captions", sentences, "captions", COSINE)
    held = index, [channel], Records(records)
    return lambda texts, **options: chosen_board(story_of(texts), *held, BoardOptions(**options))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (DAY, {}),
        (DAY | {"At the sea he ran along the beach.": "waves"}, {"pins": {1: picture_id("waves")}}),
        (FOUR | {TAX: None}, {}),
        (FOUR | {TAX: None}, {"show": "cautious"}),
        (ALONE, {}),
        *(({words: due}, {}) for words, due in ALONE.items()),
        (REX, {}),
        (FOUR | {EMOJI: None}, {"show": "always"}),
    ],
)
def test_each_step_shows_its_photograph(ask, text, options):
    board = ask(tuple(text), **options)
    for name, due in zip(shown(board), text.values(), strict=True):
        assert due is ... or (name in due.split() if due else name is None)
    assert board.blanks() == (
        {"nothing fits": 1} if TAX in text else {"no words": 1} if EMOJI in text else {}
    )
