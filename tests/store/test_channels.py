"""Channels: evidence as an affine function, context, and what overlaps."""

from dataclasses import replace

import numpy as np
import pytest

from limner.arrays import unit_rows
from limner.store import search as channels
from limner.store.search import Channel, EncodedChannel, Evidence, Index
from limner.store.vectors import Gallery, Space

EVEN = Evidence(slope=2.0, z_slope=0.0, offset=0.5)


class Letters:
    """Counts of a, b and c: a text encoder whose vectors can be worked out by hand."""

    name, fingerprint, dim = "letters", "0", 3

    def encode_text(self, texts):
        return unit_rows("letters", np.array([[t.count(x) for x in "abc"] for t in texts], dtype=np.float32))


def test_affine_equals_the_formula():
    evidence = Evidence(slope=3.0, z_slope=0.5, offset=-1.0)
    mean, std = np.array([0.1, 0.2]), np.array([0.05, 0.0])
    scale, shift = evidence.affine(mean, std)
    for i, cosine in enumerate((0.4, 0.6)):
        z = (cosine - mean[i]) / std[i] if std[i] else 0.0
        assert scale[i] * cosine + shift[i] == pytest.approx(3.0 * cosine + 0.5 * z - 1.0)


def test_a_handful_of_pictures_is_steadied_by_what_is_typical():
    evidence = Evidence(slope=0, z_slope=1, offset=0, typical_mean=0.1, typical_std=0.1, typical_count=5)
    mean, std = evidence.steadied(np.array([0.7]), np.array([0.0]), 1)
    values = np.concatenate([[0.7], 0.1 + 0.1 * np.array([-1.5, -0.5, 0.0, 0.5, 1.5])])
    scale = np.sqrt((0.7**2 + 5 * (0.1**2 + 0.1**2)) / 6 - np.mean(values) ** 2)
    assert mean[0] == pytest.approx(np.mean(values))
    assert std[0] == pytest.approx(scale)
    many = evidence.steadied(np.array([0.3]), np.array([0.05]), 10**7)
    assert many[0][0] == pytest.approx(0.3, abs=1e-5)
    assert many[1][0] == pytest.approx(0.05, abs=1e-5)


def test_what_overlaps_counts_only_in_part_and_only_where_it_overlaps():
    eye = np.eye(3, dtype=np.float16)
    full = Space(eye * np.array([[1], [0], [1]], np.float16), np.array([True, False, True]))
    gallery = Gallery(
        ["p", "q", "r"], ["p", "q", "r"], {"captions": full, "labels": Space(eye, np.ones(3, bool))}
    )
    texts = np.full((1, 3), 3**-0.5, dtype=np.float32)
    channels = [
        EncodedChannel("captions", "captions", EVEN, texts),
        EncodedChannel("labels", "labels", EVEN, texts, beside=0.25),
    ]
    hits = Index(gallery).search(channels, 3)
    one = 2.0 * 3**-0.5 + 0.5
    share = {gallery.ids[row]: hits.shares["labels"][0, place] for place, row in enumerate(hits.rows[0])}
    total = {gallery.ids[row]: hits.scores[0, place] for place, row in enumerate(hits.rows[0])}
    assert share == pytest.approx({"p": one / 4, "q": one, "r": one / 4}, rel=1e-3)
    assert total == pytest.approx({"p": one * 1.25, "q": one, "r": one * 1.25}, rel=1e-3)
    alone = Index(gallery).search(channels[1:], 3)
    assert alone.scores[0] == pytest.approx([one] * 3, rel=1e-3)


def test_a_text_that_a_channel_does_not_read_gets_nothing_from_it():
    """English is judged by captions where there are some, Spanish by the multilingual channel alone."""
    eye = np.eye(3, dtype=np.float16)
    english = Space(eye * np.array([[1], [1], [0]], np.float16), np.array([True, True, False]))
    gallery = Gallery(
        ["p", "q", "r"], ["p", "q", "r"], {"captions": english, "multilingual": Space(eye, np.ones(3, bool))}
    )
    channels = [
        Channel("captions", Letters(), "captions", EVEN, reads=frozenset({"en"})),
        Channel("multilingual", Letters(), "multilingual", EVEN, beside=0.0, reads=frozenset({"en", "es"})),
    ]
    texts, languages = ["a", "a", "b", "a"], ["en", "es", "en", "sw"]
    encoded = [EncodedChannel.encode(one, texts, languages) for one in channels]
    assert encoded[0].texts.any(axis=1).tolist() == [True, False, True, False]
    assert np.array_equal(encoded[1].texts[1], Letters().encode_text(["a"])[0])
    index = Index(gallery)
    scored = index.score(encoded, np.arange(3))
    yes, no = 2.5, 0.5
    assert scored.shares["multilingual"] == pytest.approx(
        np.array([[0, 0, no], [yes, no, no], [0, 0, no], [0, 0, 0]]), abs=1e-2
    )
    assert (scored.shares["captions"][[1, 3]] == 0).all()
    assert (scored.shares["captions"][[0, 2], :2] != 0).all()
    hits = index.search(encoded, 3)
    assert np.take_along_axis(scored.scores, hits.rows, axis=1) == pytest.approx(hits.scores, abs=1e-6)
    assert hits.rows[1, 0] == 0


def test_a_long_text_is_encoded_in_portions_and_a_story_that_is_read_as_one_is_not(monkeypatch):
    monkeypatch.setattr(channels, "PORTION_LETTERS", 4)
    texts, languages = ["aa", "bb", "zz", "cccccc", "d", "e"], ["en", "en", "es", "en", "en", "en"]
    own = Channel("captions", Letters(), "captions", EVEN, reads=frozenset({"en"}))
    assert own.portions(texts, languages) == [["aa", "bb"], ["cccccc"], ["d", "e"]]
    assert own.portions(["zz"], ["es"]) == []
    together = replace(own, whole=True)
    assert together.portions(texts, languages) == [["aa", "bb", "cccccc", "d", "e"]]
    apart = EncodedChannel.encode(own, texts, languages).texts
    assert apart.tolist() == EncodedChannel.encode(together, texts, languages).texts.tolist()
    assert not apart[2].any()
