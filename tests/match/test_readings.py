"""The words that are compared with pictures, and what each channel hears of them."""

from dataclasses import replace

import numpy as np
import pytest
from boards import TableEncoder, space, story_of, unit

from limner.errors import NumericsError
from limner.match.calibration import load
from limner.match.candidates import EncodedSteps, QueryTexts, pool_of
from limner.match.illustrate import query_texts
from limner.store.search import COSINE, Channel, Index
from limner.store.vectors import Gallery, Space

ONE, TWO = "The fox ran home.", "It was very late."
STEPS = [f"{ONE} {TWO}", "A boat sailed."]


class Drawn(TableEncoder):
    """A vector for every text, drawn when it is first asked for; remembers what it was asked."""

    def __init__(self, dim=6):
        super().__init__({"": np.zeros(dim)})
        self.asked = []

    def encode_text(self, texts):
        self.asked += texts
        for text in texts:
            seed = np.frombuffer(text.encode().ljust(4, b"."), np.uint8)
            self.table.setdefault(text, unit(np.random.default_rng(seed).normal(size=self.dim)))
        return super().encode_text(texts)


def channel(name="captions", **more):
    return Channel(name, Drawn(), name, COSINE, **more)


def gallery(rng, name="captions", present=None):
    ids = [str(n) for n in range(7)]
    return Gallery(ids, ids, {name: space(rng.normal(size=(7, 6)), present)})


def test_a_step_is_read_by_its_sentences_and_with_the_title():
    readings = QueryTexts.of(STEPS, "Finn's night")
    assert readings.parts == [[ONE, TWO], [STEPS[1]]]
    assert readings.titled == [f"Finn's night: {step}" for step in STEPS]
    assert not QueryTexts.of(STEPS).titled
    assert not QueryTexts.of(STEPS[:1], "Finn's night").titled  # one step: its words say it all


def test_a_channel_compares_the_mean_of_the_sentences_and_the_best_alike():
    held = gallery(np.random.default_rng(0))
    captions = channel()
    asked = EncodedSteps.by(captions, QueryTexts.of(STEPS, "Night"))
    one, two, alone = captions.encoder.encode_text([ONE, TWO, STEPS[1]])
    np.testing.assert_allclose(asked.whole, np.stack([unit(one + two), alone]), atol=1e-6)
    pool = pool_of(Index(held), [asked], load(), count=7, barred=np.zeros(7, bool))
    vectors = held.space("captions").vectors(range(7))
    due = [(vectors @ unit(one + two) + np.maximum(vectors @ one, vectors @ two)) / 2, vectors @ alone]
    np.testing.assert_allclose(pool.channels["captions"].cosine, due, atol=1e-5)


@pytest.mark.parametrize(("name", "titled"), [("captions", True), ("base", False)])
def test_only_channels_of_words_hear_the_title(name, titled):
    own = channel(name)
    asked = EncodedSteps.by(own, QueryTexts.of(STEPS, "Night"))
    assert (asked.titled is not None) == titled
    assert any("Night" in text for text in own.encoder.asked) == titled
    held = gallery(np.random.default_rng(0), name)
    pool = pool_of(Index(held), [asked], load(), count=7, barred=np.zeros(7, bool))
    assert pool.channels[name].titled.any() == titled


def test_what_the_title_adds_is_a_difference_of_standard_scores():
    """A title that changes nothing about the words of a step adds nothing to any picture."""
    asked = EncodedSteps.by(channel(), QueryTexts.of(["A fox ran.", "A boat sailed."], "Night"))
    asked = replace(asked, titled=asked.whole)
    held = gallery(np.random.default_rng(0))
    found = pool_of(Index(held), [asked], load(), count=7, barred=np.zeros(7, bool)).channels["captions"]
    assert found.z.any()
    np.testing.assert_allclose(found.titled, 0, atol=1e-6)


def test_what_a_channel_does_not_read_it_does_not_encode_and_finds_nothing_for():
    own = channel(reads=frozenset(["en"]))
    readings = QueryTexts.of([STEPS[0], "Ein Boot fuhr. Es war wirklich spät."], "Night", ["en", "de"])
    asked = EncodedSteps.by(own, readings)
    assert not any("Boot" in text or "spät" in text for text in own.encoder.asked)
    assert asked.reads.tolist() == [True, False]
    assert not asked.titled[1].any()
    held = gallery(np.random.default_rng(0))
    pool = pool_of(Index(held), [asked], load(), count=3, barred=np.zeros(7, bool))
    assert pool.there.sum(axis=1).tolist() == [3, 0]
    assert not pool.channels["captions"].present[1].any()


def test_a_picture_without_a_vector_is_neither_found_nor_compared():
    held = gallery(np.random.default_rng(0), present=[True, False, True, True, False, True, True])
    asked = EncodedSteps.by(channel(), QueryTexts.of(STEPS))
    barred = np.arange(7) == 2
    pool = pool_of(Index(held), [asked], load(), count=7, extra=[1], barred=barred)
    assert pool.rows.tolist() == [0, 1, 3, 5, 6]
    captions = pool.channels["captions"]
    unknown = pool.items == 1
    assert not captions.present[unknown].any()
    assert captions.present[~unknown].all()
    for value in (captions.cosine, captions.z, captions.titled, captions.trust):
        assert not value[unknown].any()
    assert pool.available == 6
    assert pool.column(1, 5) == 3


def test_a_model_that_reads_a_whole_story_gets_it_at_once():
    own = channel("model", whole=True)
    asked = EncodedSteps.by(own, QueryTexts.of(STEPS, "Night"))
    assert own.encoder.asked == STEPS
    assert (asked.titled, [len(one) for one in asked.parts]) == (None, [0, 0])


def test_a_model_of_whole_stories_reads_the_words_as_they_are_written():
    """It was trained on the steps, short sentences and all."""
    own = channel("model", whole=True)
    texts = ["Oh no! Finn the fox  ran home.\nIt was very late.", "He and Finn slept."]
    EncodedSteps.by(own, query_texts(story_of(texts))[1])
    assert own.encoder.asked == texts


def test_one_text_is_encoded_once():
    own = channel()
    EncodedSteps.by(own, QueryTexts.of([STEPS[0], STEPS[0], STEPS[1]], "Night"))
    assert len(own.encoder.asked) == len(set(own.encoder.asked)) == 5


def test_a_vector_that_is_not_finite_is_refused():
    held = gallery(np.random.default_rng(0))
    matrix = np.array(held.space("captions").matrix)
    broken = Gallery(held.ids, held.groups, {"captions": Space(matrix, np.ones(7, bool))})
    asked = EncodedSteps.by(channel(), QueryTexts.of(STEPS))
    matrix[3, 0] = np.nan
    with pytest.raises(NumericsError):
        pool_of(Index(broken), [asked], load(), count=7, barred=np.zeros(7, bool))
