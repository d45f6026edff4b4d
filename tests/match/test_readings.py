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

    def __init__(self):
        super().__init__({"": np.zeros(6)})
        self.asked = []

    def encode_text(self, texts):
        self.asked += texts
        for text in texts:
            seed = np.frombuffer(text.encode().ljust(4, b"."), np.uint8)
            self.table.setdefault(text, unit(np.random.default_rng(seed).normal(size=6)))
        return super().encode_text(texts)


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
    texts = QueryTexts.of([STEPS[0], "Ein Boot fuhr. Es war wirklich spät."], "Night", ["en", "de"])
    asked, encoder = heard(texts, reads=frozenset(["en"]))
    assert not any("Boot" in text or "spät" in text for text in encoder.asked)
    _, pool, captions = found(asked, count=3)
    assert pool.there.sum(axis=1).tolist() == [3, 0]
    assert not captions.present[1].any()


def test_a_picture_without_a_vector_is_neither_found_nor_compared_and_a_barred_one_is_none():
    asked, _ = heard(QueryTexts.of(STEPS))
    present = [True, False, True, True, False, True, True]
    _, pool, captions = found(asked, present, extra=[1], barred=np.arange(7) == 2)
    assert (pool.rows.tolist(), pool.available) == ([0, 1, 3, 5, 6], 6)
    np.testing.assert_array_equal(captions.present, pool.items != 1)
    for value in (captions.cosine, captions.z, captions.titled, captions.trust):
        assert not value[pool.items == 1].any()


def test_a_model_that_reads_a_whole_story_gets_the_words_at_once_and_as_they_are_written():
    texts = ["Oh no! Finn the fox  ran home.\nIt was very late.", "He and Finn slept."]
    _, encoder = heard(query_texts(story_of(texts, "Night"))[1], "model", whole=True)
    assert encoder.asked == texts


def test_a_vector_that_is_not_finite_is_refused():
    asked, _ = heard(QueryTexts.of(STEPS))
    broken = Gallery(["a"], ["a"], {"captions": Space(np.full((1, 6), np.nan, np.float16), np.ones(1, bool))})
    with pytest.raises(NumericsError):
        pool_of(Index(broken), [asked], load(), count=7, barred=np.zeros(1, bool))
