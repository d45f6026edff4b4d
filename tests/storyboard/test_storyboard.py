"""A story over two small worlds of pictures, decoded and explained."""

import numpy as np
import pytest
from boards import Shelf, TableEncoder, picture, picture_id, space, two_worlds
from pydantic import ValidationError

from limner.errors import ConfigError, DataError
from limner.library.channels import Channel, Evidence
from limner.library.gallery import Gallery
from limner.library.search import Index
from limner.records import Candidate, Step, Story, Storyboard
from limner.storyboard.calibration import Suitability
from limner.storyboard.coherence import Walk
from limner.storyboard.illustrate import BoardOptions, choose_pictures

LOOK = Evidence(slope=2.0, z_slope=0.0, offset=-1.0)


def names(board, shelf):
    return [
        None if s.chosen is None else s.chosen.picture.path.split("/")[-1].split(".")[0] for s in board.steps
    ]


@pytest.mark.parametrize("decoder", ["off", "greedy", "beam", "chain", "anchor"])
def test_every_decoder_finds_the_story(decoder):
    story, gallery, channels, shelf = two_worlds()
    board = choose_pictures(
        story, gallery, channels, shelf, BoardOptions(decoder=decoder, pair_evidence=LOOK), library="pics"
    )
    assert names(board, shelf) == ["kite-0", "beach-0", "boat-0"]
    assert [s.origin for s in board.steps] == ["decoded"] * 3
    assert board.decoder == decoder
    assert board.library == "pics"
    assert board.channels == ("captions",)
    assert (board.anchor is not None) == (decoder == "anchor")
    assert len(shelf.asked) == 1
    assert Storyboard.model_validate_json(board.model_dump_json()) == board


def test_numbers_of_a_step_add_up():
    story, gallery, channels, shelf = two_worlds()
    board = choose_pictures(
        story, gallery, channels, shelf, BoardOptions(decoder="chain", pair_evidence=LOOK)
    )
    total = 0.0
    for step in board.steps:
        assert step.chosen.score == pytest.approx(sum(step.chosen.channels.values()))
        best = step.runners_up[0]
        assert step.gap == pytest.approx(
            step.chosen.score + step.chosen.pairwise - best.score - best.pairwise
        )
        assert step.gap >= 0
        assert step.probability is None
        total += step.chosen.score
    # Each neighbour pair is heard by both of its steps.
    assert board.objective == pytest.approx(total + sum(s.chosen.pairwise for s in board.steps) / 2)


def test_sentence_names_words_look_and_runner_up():
    story, gallery, channels, shelf = two_worlds()
    board = choose_pictures(story, gallery, channels, shelf, BoardOptions(pair_evidence=LOOK))
    first = board.steps[0]
    assert first.chosen.matched == ("kites",)
    assert first.reason == (
        "Caption word “kites” matches; it looks like the pictures of the other steps; "
        f"the runner-up is {'much weaker' if first.gap >= 3 else 'weaker'}."
    )
    assert first.gap > 1


@pytest.mark.parametrize("decoder", ["greedy", "beam", "chain", "anchor"])
def test_one_pin_pulls_the_rest_of_the_book_in(decoder):
    story, gallery, channels, shelf = two_worlds()
    options = BoardOptions(decoder=decoder, pair_evidence=LOOK, pins={1: picture_id("beach-1")})
    board = choose_pictures(story, gallery, channels, shelf, options)
    assert names(board, shelf) == ["kite-1", "beach-1", "boat-1"]
    assert [s.origin for s in board.steps] == ["decoded", "pinned", "decoded"]
    assert board.steps[1].reason == "You fixed this picture here."
    assert board.steps[1].probability is None
    off = choose_pictures(story, gallery, channels, shelf, options.model_copy(update={"decoder": "off"}))
    assert names(off, shelf) == ["kite-0", "beach-1", "boat-0"]


def test_a_pin_brings_pictures_that_look_like_it_among_the_candidates():
    """With one candidate per step only the pin's look can find its world."""
    story, gallery, channels, shelf = two_worlds()
    options = BoardOptions(
        candidates=1, pair_evidence=Evidence(slope=40, z_slope=0, offset=-20), pins={0: picture_id("kite-1")}
    )
    assert names(choose_pictures(story, gallery, channels, shelf, options), shelf)[0] == "kite-1"
    wide = options.model_copy(update={"candidates": 3})
    assert set(names(choose_pictures(story, gallery, channels, shelf, wide), shelf)) == {
        "kite-1",
        "beach-1",
        "boat-1",
    }


@pytest.mark.parametrize("decoder", ["anchor", "chain"])
def test_a_pin_reaches_over_pictures_that_look_like_both(decoder):
    """Both boats are as far from the pin, but a picture lies on the way to one of them."""
    angles = {"kite": 0, "way": 40, "boat": 80, "other boat": -80, "sea": -90, "sand": -100}
    words = {"kite": (1, 0), "boat": (0, 1), "other boat": (0, 1.05)}
    shown = [picture(name, caption=name) for name in angles]
    turned = np.radians(list(angles.values()))
    told = np.array([(*words.get(name, (0, 0)), 0.3) for name in angles])
    gallery = Gallery(
        [one.id for one in shown],
        [one.group for one in shown],
        {"caption": space(told), "visual": space(np.stack([np.cos(turned), np.sin(turned)], axis=1))},
    )
    encoder = TableEncoder({"Kites.": (1, 0, 0), "A boat!": (0, 1, 0)})
    channel = Channel("captions", encoder, "caption", Evidence(slope=10.0, z_slope=0.0, offset=-5.0))
    story = Story(id="trip", steps=(Step(text="Kites."), Step(text="A boat!")))
    found = {}
    for walk in (None, Walk(temperature=0.1, stay=0.9)):
        options = BoardOptions(
            decoder=decoder, pair_evidence=LOOK, pins={0: picture_id("kite")}, pair_walk=walk
        )
        board = choose_pictures(story, gallery, [channel], Shelf(shown), options)
        found[walk is not None] = names(board, Shelf(shown))
    assert found == {False: ["kite", "other boat"], True: ["kite", "boat"]}
    assert board.settings["pair_walk_stay"] == 0.9


def test_the_text_own_picture_is_kept_and_a_pin_goes_before_it():
    story, gallery, channels, shelf = two_worlds()
    given = {0: picture_id("boat-1")}
    board = choose_pictures(story, gallery, channels, shelf, BoardOptions(pair_evidence=LOOK), given=given)
    assert names(board, shelf)[0] == "boat-1"
    assert board.steps[0].origin == "given"
    assert board.steps[0].reason == "The text itself shows this picture here."
    options = BoardOptions(pair_evidence=LOOK, pins={0: None})
    board = choose_pictures(story, gallery, channels, shelf, options, given=given)
    assert board.steps[0].origin == "blank"
    assert board.steps[0].reason == "No picture here, as you asked."


def test_bans_hold_and_are_said():
    story, gallery, channels, shelf = two_worlds()
    options = BoardOptions(bans=(picture_id("kite-0"),), decoder="off")
    board = choose_pictures(story, gallery, channels, shelf, options)
    assert names(board, shelf)[0] == "kite-1"
    shown = [c.picture.id for s in board.steps for c in s.runners_up]
    assert picture_id("kite-0") not in shown
    assert board.settings["bans"] == picture_id("kite-0")


def test_a_blank_gives_its_true_reason_and_the_board_counts_each():
    story, gallery, channels, shelf = two_worlds()
    curve = Suitability(slope=1.0, offset=0.0, deficit=1.0, threshold=0.5)
    four = Story(id="four", steps=(*story.steps, story.steps[0]))
    options = BoardOptions(
        decoder="off", pins={2: None}, bans=tuple(picture_id(f"beach-{hand}") for hand in (0, 1))
    )
    twins = Gallery(
        gallery.ids,
        ["kite", "beach", "boat"] * 2,
        gallery.spaces,
    )
    board = choose_pictures(four, twins, channels, shelf, options, suitability=curve)
    assert {board.steps[0].blank, board.steps[3].blank} == {None, "all used"}
    assert [step.blank for step in board.steps[1:3]] == ["ruled out", "asked for"]
    reasons = [step.reason for step in board.steps]
    assert reasons[1] == "You ruled out the pictures that fit this step."
    assert "All pictures that fit this step are shown at other steps." in (reasons[0], reasons[3])
    assert board.blanks() == {"asked for": 1, "all used": 1, "ruled out": 1}
    strict = options.model_copy(update={"min_probability": 0.999})
    assert choose_pictures(four, twins, channels, shelf, strict, suitability=curve).blanks() == {
        "asked for": 1,
        "nothing fits": 3,
    }


def test_abstention_follows_the_threshold():
    story, gallery, channels, shelf = two_worlds()
    options = BoardOptions(decoder="off")
    curve = Suitability(slope=1.0, offset=0.0, deficit=0.2, threshold=0.5)
    evidence = Index(gallery).search([_encode(channels[0], story)], 2).evidence
    probability = 1 / (1 + np.exp(-evidence))
    for threshold in (probability.min() - 0.01, probability.max() + 0.01):
        board = choose_pictures(
            story,
            gallery,
            channels,
            shelf,
            options.model_copy(update={"min_probability": float(threshold)}),
            suitability=curve,
        )
        for step, p in zip(board.steps, probability, strict=True):
            assert step.probability == pytest.approx(p, abs=1e-3)
            assert (step.origin == "blank") == (p < threshold)
    assert "fits well enough" in board.steps[0].reason
    assert len(board.steps[0].runners_up) == 3
    assert board.steps[0].gap is None


@pytest.mark.parametrize("decoder", ["greedy", "beam", "chain", "anchor"])
def test_fixing_one_picture_turns_no_perfect_step_into_a_blank(decoder):
    """A pinned picture of the other hand speaks against hand 0, and may not cost what fits."""
    story, gallery, channels, shelf = two_worlds()
    curve = Suitability(slope=0.0, offset=0.5, threshold=0.5)
    harsh = Evidence(slope=200.0, z_slope=0.0, offset=-150.0)
    options = BoardOptions(
        decoder=decoder,
        pair_evidence=harsh,
        pins={0: picture_id("kite-1")},
        bans=(picture_id("beach-1"), picture_id("boat-1")),
    )
    board = choose_pictures(story, gallery, channels, shelf, options, suitability=curve)
    assert names(board, shelf) == ["kite-1", "beach-0", "boat-0"]


def _encode(channel, story):
    from limner.library.channels import EncodedChannel

    return EncodedChannel.encode(channel, [step.text for step in story.steps])


def test_a_world_rescues_a_step_that_alone_would_be_blank():
    story, gallery, channels, shelf = two_worlds()
    # Every step is 0.5 nats short of its threshold; a picture of the pinned world brings 1.
    curve = Suitability(slope=0.0, offset=-0.5, threshold=0.5)
    alone = choose_pictures(story, gallery, channels, shelf, BoardOptions(decoder="off"), suitability=curve)
    assert names(alone, shelf) == [None, None, None]
    options = BoardOptions(pair_evidence=LOOK, pins={0: picture_id("kite-0")})
    board = choose_pictures(story, gallery, channels, shelf, options, suitability=curve)
    assert names(board, shelf) == ["kite-0", "beach-0", "boat-0"]


def test_more_steps_than_pictures_leaves_blanks_not_errors():
    story, gallery, channels, shelf = two_worlds()
    long = Story(id="long", steps=story.steps * 3)
    for decoder in ("off", "greedy", "beam", "chain", "anchor"):
        board = choose_pictures(
            long, gallery, channels, shelf, BoardOptions(decoder=decoder, pair_evidence=LOOK)
        )
        shown = [s.chosen.picture.id for s in board.steps if s.chosen]
        assert len(shown) == len(set(shown)) == 6
        blank = next(s for s in board.steps if s.origin == "blank")
        assert blank.reason == "All pictures that fit this step are shown at other steps."
        assert abs(board.objective) < 1000
        again = choose_pictures(
            long, gallery, channels, shelf, BoardOptions(decoder=decoder, allow_repeats=True, pair_weight=0)
        )
        assert all(s.origin == "decoded" for s in again.steps)


def test_near_duplicates_are_never_shown_together():
    story, gallery, channels, shelf = two_worlds()
    twin = Gallery(gallery.ids, [gallery.groups[0]] * 6, gallery.spaces)
    board = choose_pictures(story, twin, channels, shelf)
    assert sum(s.chosen is not None for s in board.steps) == 1
    assert all(not s.runners_up for s in board.steps)


def test_library_without_pictures_leaves_everything_blank():
    story, _, channels, shelf = two_worlds()
    empty = Gallery([], [], {"caption": space(np.zeros((0, 3))), "visual": space(np.zeros((0, 2)))})
    board = choose_pictures(story, empty, channels, shelf)
    assert [s.origin for s in board.steps] == ["blank"] * 3
    assert board.steps[0].reason == "The library holds no picture that may be shown."


def test_wrong_requests_are_named():
    story, gallery, channels, shelf = two_worlds()
    for options, message in (
        ({"pins": {7: picture_id("kite-0")}}, "story has 3 steps"),
        ({"pins": {0: "f" * 64}}, "not in the library"),
        ({"bans": ("f" * 64,)}, "not in the library"),
        ({"pins": {0: picture_id("kite-0")}, "bans": (picture_id("kite-0"),)}, "fixed and banned"),
        ({"pair_space": "visuall"}, "did you mean 'visual'"),
    ):
        with pytest.raises(DataError, match=message):
            choose_pictures(story, gallery, channels, shelf, BoardOptions(**options))
    with pytest.raises(ConfigError, match="needs a calibration"):
        choose_pictures(story, gallery, channels, shelf, BoardOptions(min_probability=0.2))
    for wrong in ({"decoder": "chian"}, {"candidates": 0}, {"colour": 1}, {"pair_weight": -1}):
        with pytest.raises(ValidationError):
            BoardOptions(**wrong)


def test_headings_are_searched_with_their_words():
    _, gallery, channels, shelf = two_worlds()
    titled = Story(id="t", steps=(Step(text="a boat", title="Sea"),))
    channels[0].encoder.table["Sea. a boat"] = np.eye(3, dtype=np.float32)[2]
    assert names(choose_pictures(titled, gallery, channels, shelf), shelf) == ["boat-0"]


def test_labels_are_quoted_only_when_credible():
    story, gallery, channels, shelf = two_worlds()
    first = story.steps[0]
    shelf.pictures[picture_id("kite-0")] = picture("kite-0", labels=[("kite", 0.6), ("flying fish", 0.01)])
    board = choose_pictures(story, gallery, channels, shelf, BoardOptions(decoder="off"))
    assert first.text == "The kites are flying."
    assert board.steps[0].chosen.matched == ("kites",)
    assert board.steps[0].reason.startswith("Label word “kites” matches; the runner-up is ")


def test_a_channel_that_tells_nothing_apart_is_silent_and_no_reason():
    story, gallery, channels, shelf = two_worlds()
    flat = Channel("labels", channels[0].encoder, "caption", Evidence(slope=0.1, z_slope=0.0, offset=3.0))
    wordless = Shelf([one.model_copy(update={"captions": ()}) for one in shelf.pictures.values()])
    board = choose_pictures(story, gallery, [flat], wordless, BoardOptions(decoder="off"))
    assert [step.silent for step in board.steps] == [("labels",)] * 3
    assert board.steps[0].reason.startswith("All pictures match this step about equally")
    both = choose_pictures(story, gallery, [*channels, flat], wordless, BoardOptions(decoder="off"))
    assert both.steps[0].silent == ("labels",)
    assert both.steps[0].reason.startswith("The best evidence is the channel captions")


def test_a_board_under_the_older_name_of_the_pairwise_term_is_read():
    found = Candidate.model_validate({"picture": picture("kite"), "score": 1.0, "pull": 0.5})
    assert found.pairwise == 0.5
    assert "pull" not in found.model_dump_json()
