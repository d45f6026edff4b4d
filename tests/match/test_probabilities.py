"""From words to chances: the texts that are compared, and what evidence and agreement may say."""

import json
import tracemalloc
from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest
from boards import numbers, random_board, space, story_of, unit
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.errors import DataError, NumericsError
from limner.match.calibration import load, parse
from limner.match.candidates import SHY, EncodedSteps, ExpectedSimilarity, Pool, QueryTexts, pool_of
from limner.match.illustrate import SPACES, query_texts
from limner.match.probabilities import agreement, evidence, probabilities
from limner.store.search import COSINE, Channel, Index
from limner.store.vectors import Gallery, Space

SEEDS = st.integers(0, 2**32 - 1)


def likes_of(pool, names=tuple(SPACES)):
    """How much pictures are alike, in spaces that some have."""
    held = [name for name in names if pool.gallery.spaces[name].present.any()]
    return {name: ExpectedSimilarity(pool, SPACES[name]) for name in held}


def pool_for(board, calibration, spaces=None, **more):
    """The candidates of a board, of a gallery with these spaces besides its own."""
    story, held, channels, _ = board
    gallery = Gallery(held.ids, held.groups, held.spaces | (spaces or {}))
    texts = QueryTexts.of([step.text for step in story.steps])
    asked = [EncodedSteps.by(channel, texts) for channel in channels]
    more = {"count": 400, "extra": (), "barred": np.zeros(len(gallery), bool)} | more
    return pool_of(Index(gallery), asked, calibration, **more)


def test_the_packaged_calibration_is_one_that_any_fit_must_be():
    shipped = load()
    weights = [shipped.evidence.weights[name] for name in ("words_cosine", "words_z", "pixels")]
    assert min(*weights, shipped.agreement.weights["own"], shipped.row.at_step["odds"]) > 0
    assert 0 < shipped.thresholds["usual"] < shipped.thresholds["cautious"] < 1
    assert parse(shipped.model_dump_json()) == shipped
    assert shipped.row.own(-1.0, 0.9, 1.0) < shipped.row.own(1.0, 0.9, 1.0)
    assert (np.diff(shipped.row.placed(np.linspace(0, 1, 9))) >= 0).all()


@pytest.mark.parametrize("name", ["extra", "schema_version", "sharpness", "thresholds", "typical"])
def test_a_damaged_file_is_one_line(name):
    wrong = {"thresholds": {"never": 0.5}, "typical": {"captions": {"mean": 1}}}.get(name, 0)
    with pytest.raises(DataError, match=rf"^calibration\.json: {name}[^\n]*$"):
        parse(json.dumps(load().model_dump() | {name: wrong}))


def judged(board, calibration, spaces=None, **more):
    """The candidates of a board, with their evidence, log-odds and probabilities."""
    pool = pool_for(board, calibration, spaces, **more)
    own = evidence(pool, calibration)
    odds = agreement(pool, own, calibration, likes_of(pool))
    return pool, own, odds, probabilities(pool, own, odds, calibration)


@pytest.mark.slow
@settings(max_examples=30)
@given(SEEDS, st.sampled_from([0.0, 0.3, 1.0]), st.booleans())
def test_what_is_known_has_evidence_and_a_chance_that_grows_with_its_odds(seed, captioned, shipped):
    calibration = load() if shipped else numbers()
    board = random_board(np.random.default_rng(seed), captioned=captioned)
    pool, own, odds, chance = judged(board, calibration, count=6, extra=range(20))
    captions, base = (board[1].space(name).present[pool.rows][pool.items] for name in ("captions", "base"))
    known = (captions | base) & pool.there
    for value in (np.isfinite(own), np.isfinite(odds), chance > 0):
        np.testing.assert_array_equal(value, known)
    assert (chance < 1).all()
    for cells in (captions & base, captions & ~base, base & ~captions):  # pictures of one kind
        for step, cell in enumerate(cells & known):
            assert (np.diff(chance[step, cell][np.argsort(odds[step, cell])]) >= -1e-12).all()


def test_the_first_channel_that_a_picture_has_counts():
    """A second encoder of the same words says nothing that the first has said."""
    board = random_board(np.random.default_rng(0), pictures=30, captioned=0.5)
    story, gallery, channels, shelf = board
    second = Channel("multilingual", channels[1].encoder, "multilingual", COSINE)
    spaces = {"multilingual": gallery.spaces["base"]}
    plain = pool_for(board, numbers(), extra=range(30))
    both = pool_for((story, gallery, [*channels, second], shelf), numbers(), spaces, extra=range(30))
    here, beside = (both.channels[name].present for name in ("captions", "multilingual"))
    first, found = (evidence(pool, numbers()) for pool in (plain, both))
    np.testing.assert_array_equal(found[here], first[here])
    assert (found[beside & ~here] != first[beside & ~here]).all()


@settings(max_examples=20)
@given(SEEDS, st.integers(1, 2))
def test_where_pictures_do_not_agree_or_nobody_can_the_order_of_a_step_stays(seed, steps):
    """One step, or looks that oppose each other: the expected mean likeness is below 0, and says nothing."""
    board = random_board(np.random.default_rng(seed), steps=steps, pictures=2, captioned=1.0, fitting=0.0)
    pool = pool_for(board, numbers(), {"looks": space(np.outer([1, -1], np.eye(8)[0]))})
    own = evidence(pool, numbers())
    np.testing.assert_allclose(agreement(pool, own, numbers(), likes_of(pool, ["looks"])), own)


@pytest.mark.parametrize("shipped", [False, True])
def test_one_caption_among_hundreds_changes_no_other_picture(shipped):
    """A fault of old: a caption of one picture judged all that had none."""
    calibration, rng = load() if shipped else numbers(), np.random.default_rng(5)
    board = random_board(rng, steps=8, pictures=301, dim=32, captioned=0, fitting=0.3)
    matrix = np.zeros((301, 32))
    matrix[7] = rng.normal(size=32)
    one = {"captions": space(matrix + 1e-9, np.arange(301) == 7)}
    found = [judged(board, calibration, spaces, extra=range(301)) for spaces in ({}, one)]
    own, own_with, chance, chance_with = (np.delete(each[n], 7, axis=1) for n in (1, 3) for each in found)
    np.testing.assert_array_equal(own, own_with)
    assert np.quantile(np.abs(chance - chance_with), 0.95) <= 0.01


def plain(pool, shares):
    """How much candidates are like the expected ones of the other steps, pair by pair, in float64."""
    held = pool.gallery.space("looks")
    every, found = held.matrix[held.present].astype(np.float64), np.zeros(pool.items.shape)
    there = pool.there & held.present[pool.rows][pool.items]

    def standard(i, j):
        one, other = (held.matrix[pool.rows[n]].astype(np.float64) for n in (i, j))
        return np.mean([(one @ other - (every @ own).mean()) / (every @ own).std() for own in (one, other)])

    for step, place in np.argwhere(there):
        j, total, whole = pool.items[step, place], 0.0, 0.0
        for other, column in np.argwhere(there):
            i, share = pool.items[other, column], shares[other, column] * (other != step)
            whole += share
            total += share * standard(i, j) * (pool.groups[i] != pool.groups[j])
        found[step, place] = total / (whole + SHY)
    return found


@pytest.mark.slow
@settings(max_examples=60)
@given(SEEDS, st.integers(1, 4), st.integers(0, 5), st.sampled_from([0.0, 0.4, 1.0]))
def test_likeness_is_that_of_its_definition(seed, steps, width, missing):
    rng = np.random.default_rng(seed)
    looks = space(rng.normal(size=(12, 5)) + 0.5, rng.random(12) >= missing)
    gallery = Gallery([str(n) for n in range(12)], list("abcdefghijkl"), {"looks": looks})
    count = width + 3
    items, there = np.zeros((steps, width), np.int64), np.zeros((steps, width), bool)
    for step in range(steps):
        own = np.sort(rng.choice(count, rng.integers(width + 1), replace=False))
        items[step, : len(own)], there[step, : len(own)] = own, True
    numbered = np.unique(rng.integers(rng.choice([1, 2, 30]), size=count), return_inverse=True)[1].reshape(-1)
    expected = np.where(there, rng.random((steps, width)) / max(width, 1), 0.0)
    pool = Pool(gallery, np.sort(rng.choice(12, count, replace=False)), numbered, items, there, {}, 12, there)
    if np.count_nonzero(looks.present) != 1:
        due = plain(pool, expected) if looks.present.any() else 0.0
        np.testing.assert_allclose(ExpectedSimilarity(pool, "looks").of(expected), due, atol=2e-4)


@pytest.mark.slow
def test_a_long_burst_of_one_scene_fits_into_memory():
    """The vectors of all its pairs would be 12 GB."""
    count, there = 2_000, np.ones((2, 3), bool)
    looks = {"looks": space(np.random.default_rng(0).normal(size=(count, 384)))}
    gallery = Gallery(list(map(str, range(count))), ["burst"] * count, looks)
    pool = Pool(
        gallery, np.arange(count), np.zeros(count, int), np.arange(6).reshape(2, 3), there, {}, count, there
    )
    tracemalloc.start()
    assert ExpectedSimilarity(pool, "looks").of(there / 3) == pytest.approx(0.0, abs=1e-4)
    assert tracemalloc.get_traced_memory()[1] < 2**30
    tracemalloc.stop()


ONE, TWO = "The fox ran home.", "It was very late."
STEPS = [f"{ONE} {TWO}", "A boat sailed."]


class Drawn:
    """Draws a vector for every text; remembers what it was asked."""

    name, fingerprint, dim = "drawn", "drawn", 6

    def __init__(self):
        self.asked = []

    def encode_text(self, texts):
        self.asked += texts
        return unit([np.random.default_rng(crc32(text.encode())).normal(size=6) for text in texts])


def heard(texts, name="captions", **more):
    """What a channel hears of texts, and its encoder."""
    channel = Channel(name, Drawn(), name, COSINE, **more)
    return EncodedSteps.by(channel, texts), channel.encoder


def found(asked, present=None, **more):
    """The vectors of seven pictures, and how an encoded text is compared with them."""
    held = space(np.random.default_rng(0).normal(size=(7, 6)), present)
    ids, more = [str(n) for n in range(7)], {"count": 7, "barred": np.zeros(7, bool)} | more
    pool = pool_of(Index(Gallery(ids, ids, {asked.space: held})), [asked], load(), **more)
    return held.vectors(range(7)), pool, pool.channels[asked.name]


def test_a_channel_compares_the_mean_of_the_sentences_and_the_best_alike():
    asked, encoder = heard(QueryTexts.of(STEPS, "Night"))
    one, two, alone = encoder.encode_text([ONE, TWO, STEPS[1]])
    vectors, _, captions = found(asked)
    due = [(vectors @ unit(one + two) + np.maximum(vectors @ one, vectors @ two)) / 2, vectors @ alone]
    np.testing.assert_allclose(captions.cosine, due, atol=1e-5)


@pytest.mark.parametrize(("name", "titled"), [("captions", True), ("base", False)])
def test_only_channels_of_words_hear_the_title_and_a_text_once(name, titled):
    asked, encoder = heard(QueryTexts.of([*STEPS, STEPS[0]], "Night"), name)
    assert len(encoder.asked) == len(set(encoder.asked)) == (5 if titled else 3)
    assert found(asked)[2].titled.any() == titled
    if titled:  # a title that changes nothing about the words of a step adds nothing to any picture
        np.testing.assert_allclose(found(replace(asked, titled=asked.whole))[2].titled[1], 0, atol=1e-6)


def test_what_a_channel_does_not_read_it_does_not_encode_and_finds_nothing_for():
    texts = QueryTexts.of([STEPS[1], "Ein Boot fuhr."], "Night", ["en", "de"])
    asked, encoder = heard(texts, reads=frozenset(["en"]))
    assert not any("Boot" in text for text in encoder.asked)
    _, pool, captions = found(asked, count=3)
    assert pool.there.sum(axis=1).tolist() == [3, 0]
    assert not captions.present[1].any()


def test_a_picture_without_a_vector_is_neither_found_nor_compared_and_a_barred_one_is_none():
    asked, _ = heard(QueryTexts.of(STEPS))
    _, pool, captions = found(asked, ~np.isin(range(7), [1, 4]), extra=[1], barred=np.arange(7) == 2)
    assert (pool.rows.tolist(), pool.available) == ([0, 1, 3, 5, 6], 6)
    np.testing.assert_array_equal(captions.present, pool.items != 1)
    for value in (captions.cosine, captions.z, captions.titled, captions.trust):
        assert not value[pool.items == 1].any()


def test_a_model_that_reads_a_whole_story_gets_the_words_at_once_and_as_they_are_written():
    texts = ["Oh no! Finn the fox  ran home.\nIt was very late.", "He and Finn slept."]
    _, encoder = heard(query_texts(story_of(texts, "Night"))[1], "model", whole=True)
    assert encoder.asked == texts


def test_a_vector_that_is_not_finite_is_refused():
    broken = Gallery(["a"], ["a"], {"captions": Space(np.full((1, 6), np.nan, np.float16), np.ones(1, bool))})
    with pytest.raises(NumericsError):
        pool_of(Index(broken), [heard(QueryTexts.of(STEPS))[0]], load(), count=7, barred=np.zeros(1, bool))
