"""Evidence, agreement and chances of candidates: what each may say, and never says."""

import numpy as np
import pytest
from boards import TableEncoder, numbers, random_board, space, two_worlds
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.match.calibration import load
from limner.match.candidates import EncodedSteps, ExpectedSimilarity, QueryTexts, pool_of
from limner.match.illustrate import SPACES
from limner.match.probabilities import (
    WORDS,
    agreement,
    agreement_features,
    evidence,
    first_of,
    probabilities,
    shares,
)
from limner.store.search import COSINE, Channel, Index
from limner.store.vectors import Gallery

SEEDS = st.integers(0, 2**32 - 1)


def likes_of(pool, *names):
    """How much pictures are alike, in the spaces named or in all that they have."""
    held = pool.gallery.spaces
    chosen = names or [name for name in SPACES if name in held and held[name].present.any()]
    return {name: ExpectedSimilarity(pool, SPACES[name]) for name in chosen}


def pool_for(board, calibration, count=200, extra=()):
    """The candidates of a random board."""
    story, gallery, channels, _ = board
    readings = QueryTexts.of([step.text for step in story.steps])
    asked = [EncodedSteps.by(channel, readings) for channel in channels]
    barred = np.zeros(len(gallery), bool)
    return pool_of(Index(gallery), asked, calibration, count=count, extra=extra, barred=barred)


@given(
    odds=st.lists(
        st.lists(st.floats(-50, 50) | st.just(-np.inf), min_size=3, max_size=3), min_size=1, max_size=4
    ),
    available=st.integers(0, 10_000),
    sharpness=st.floats(0.1, 5),
    none=st.floats(-5, 5),
)
def test_shares_of_a_step_are_those_of_one_picture_at_most(odds, available, sharpness, none):
    odds = np.array(odds)
    found = shares(odds, available, sharpness=sharpness, none=none)
    assert (found >= 0).all()
    assert (found.sum(axis=1) <= 1 + 1e-9).all()
    assert not found[odds == -np.inf].any()


@pytest.mark.slow
@settings(max_examples=30)
@given(seed=SEEDS, captioned=st.sampled_from([0.0, 0.3, 1.0]))
def test_there_is_evidence_of_what_something_is_known_of(seed, captioned):
    calibration = numbers()
    board = random_board(np.random.default_rng(seed), captioned=captioned)
    pool = pool_for(board, calibration, count=6, extra=range(20))
    held = [board[1].space(name).present for name in ("captions", "base")]
    known = np.any(held, axis=0)[pool.rows][pool.items]
    np.testing.assert_array_equal(np.isfinite(evidence(pool, calibration)), known & pool.there)
    own = evidence(pool, calibration)
    odds = agreement(pool, own, calibration, likes_of(pool))
    np.testing.assert_array_equal(np.isfinite(odds), known & pool.there)
    chance = probabilities(pool, own, odds, calibration)
    np.testing.assert_array_equal(chance > 0, known & pool.there)
    assert (chance < 1).all()


def test_the_first_channel_that_a_picture_has_counts():
    """A second encoder of the same words, or of the same pixels, says nothing that the first has said."""
    rng = np.random.default_rng(0)
    story, gallery, channels, shelf = random_board(rng, pictures=30, captioned=0.5)
    second = Channel("multilingual", channels[1].encoder, "multilingual", COSINE)
    spaces = {**gallery.spaces, "multilingual": gallery.spaces["base"]}
    board = story, Gallery(gallery.ids, gallery.groups, spaces), [*channels, second], shelf
    pool = pool_for(board, numbers())
    words = first_of(pool, WORDS)
    here, beside = pool.channels["captions"], pool.channels["multilingual"]
    np.testing.assert_array_equal(words.present, here.present | beside.present)
    for name in ("cosine", "z", "titled", "trust"):
        due = np.where(here.present, getattr(here, name), getattr(beside, name))
        np.testing.assert_array_equal(getattr(words, name), due)
    nothing = first_of(pool, ("no such channel",))
    assert not nothing.present.any()
    assert nothing.present.shape == pool.there.shape


def test_one_step_has_nobody_to_agree_with():
    calibration = numbers()
    pool = pool_for(random_board(np.random.default_rng(0), steps=1), calibration)
    own = evidence(pool, calibration)
    odds = agreement(pool, own, calibration, likes_of(pool))
    np.testing.assert_array_equal(np.argsort(-odds[0]), np.argsort(-own[0]))
    np.testing.assert_allclose(odds, own * calibration.agreement.weights["own"])


@pytest.mark.slow
@settings(max_examples=20)
@given(seed=SEEDS)
def test_where_pictures_do_not_agree_the_order_of_each_step_stays(seed):
    """Looks that oppose each other: the expected mean likeness is below 0, and says nothing."""
    calibration = numbers()
    rng = np.random.default_rng(seed)
    story, gallery, channels, shelf = random_board(rng, steps=2, pictures=2, captioned=1.0, fitting=0.0)
    looks = gallery.spaces["looks"]
    matrix = np.zeros_like(looks.matrix)
    matrix[:, 0] = [1, -1]
    spaces = {**gallery.spaces, "looks": type(looks)(matrix, np.ones(2, bool))}
    pool = pool_for((story, Gallery(gallery.ids, gallery.groups, spaces), channels, shelf), calibration)
    own = evidence(pool, calibration)
    np.testing.assert_allclose(agreement(pool, own, calibration, likes_of(pool, "looks")), own)


def test_what_looks_as_the_other_steps_do_gains():
    """Beach and boat are there in both worlds and fit alike; the kite is there in one."""
    calibration = numbers(none=5.0, doubt=1e4)
    story, gallery, channels, shelf = two_worlds()
    words = np.tile(np.eye(3, 4), (2, 1))
    words[0] = [0, 0, 0, 1]
    spaces = {"captions": space(words), "looks": gallery.spaces["looks"]}
    pool = pool_for((story, Gallery(gallery.ids, gallery.groups, spaces), wide(channels), shelf), calibration)
    own = evidence(pool, calibration)
    odds = agreement(pool, own, calibration, likes_of(pool, "looks"))
    for step in (1, 2):
        first, second = (pool.column(step, step + 3 * hand) for hand in (0, 1))
        assert own[step, first] == pytest.approx(own[step, second])
        assert odds[step, second] > odds[step, first] + 0.005


def test_a_picture_that_is_sure_speaks_for_those_like_it():
    """Two worlds that fit alike, and one picture that a step is sure to show."""
    calibration = numbers(none=5.0, doubt=1e4)
    story, gallery, channels, shelf = two_worlds()
    spaces = {"captions": space(np.tile(np.eye(3, 4), (2, 1))), "looks": gallery.spaces["looks"]}
    pool = pool_for((story, Gallery(gallery.ids, gallery.groups, spaces), wide(channels), shelf), calibration)
    own, likes = evidence(pool, calibration), likes_of(pool, "looks")
    features = agreement_features(pool, own, own, calibration, likes, {0: pool.column(0, 3)})
    for step in (1, 2):
        first, second = (pool.column(step, step + 3 * hand) for hand in (0, 1))
        assert own[step, first] == pytest.approx(own[step, second])
        assert (
            features["looks_beside_words"][step, second] > features["looks_beside_words"][step, first] + 0.1
        )


def test_steps_that_know_their_picture_do_not_hear_the_others():
    """Expected pictures that are alike say something only as far as steps are in doubt."""
    story, gallery, channels, shelf = two_worlds()
    words = np.tile(np.eye(3, 4), (2, 1))
    words[0] = [0, 0, 0, 1]
    spaces = {"captions": space(words), "looks": gallery.spaces["looks"]}
    pool = pool_for((story, Gallery(gallery.ids, gallery.groups, spaces), wide(channels), shelf), numbers())
    own, heard = evidence(pool, numbers()), []
    for none in (-8.0, 5.0):
        calibration = numbers(none=none, doubt=1e4)
        features = agreement_features(pool, own, own, calibration, likes_of(pool, "looks"))
        heard.append(np.abs(features["looks_beside_words"]).max())
    assert heard[0] < 0.1 * heard[1]


def wide(channels):
    """A channel of words with an axis that no step is on."""
    table = {text: np.append(vector, 0) for text, vector in channels[0].encoder.table.items()}
    return [Channel("captions", TableEncoder(table), "captions", COSINE)]


@pytest.mark.parametrize("shipped", [False, True])
def test_one_caption_among_hundreds_changes_no_other_picture(shipped):
    """A fault of old: a caption of one picture judged all that had none."""
    calibration = load() if shipped else numbers()
    rng = np.random.default_rng(5)
    story, gallery, channels, shelf = random_board(
        rng, steps=8, pictures=301, dim=32, captioned=0, fitting=0.3
    )
    captions = gallery.spaces["captions"]
    matrix, present = np.array(captions.matrix), np.zeros(301, bool)
    matrix[7], present[7] = rng.normal(size=32) / np.sqrt(32), True
    one = Gallery(
        gallery.ids, gallery.groups, {**gallery.spaces, "captions": type(captions)(matrix, present)}
    )
    found = []
    for held in (gallery, one):
        pool = pool_for((story, held, channels, shelf), calibration, count=400, extra=range(301))
        own = evidence(pool, calibration)
        odds = agreement(pool, own, calibration, likes_of(pool))
        found.append((own, probabilities(pool, own, odds, calibration)))
    (own, chance), (own_with, chance_with) = found
    others = np.arange(301) != 7
    np.testing.assert_array_equal(own[:, others], own_with[:, others])
    moved = np.abs(chance - chance_with)[:, others]
    assert np.quantile(moved, 0.95) <= 0.01


def test_a_chance_grows_with_the_odds():
    calibration = numbers()
    pool = pool_for(random_board(np.random.default_rng(1)), calibration)
    odds = evidence(pool, calibration)
    for own, values in zip(probabilities(pool, odds, odds, calibration), odds, strict=True):
        assert (np.diff(own[np.argsort(values)]) >= -1e-12).all()
