"""Perplexity and text scores by hand; the start of a sentence flatters nobody."""

import math
import sys

import numpy as np
import pytest

from limner.errors import DataError, MissingError
from limner.research.evaluation.caption_scores import perplexity, text_scores


def counted(*values):
    return np.array(values, np.int64)


def test_one_who_knows_nothing_has_the_perplexity_of_the_vocabulary():
    tokens = counted(2, 9, 5)
    found = perplexity(tokens * math.log(1000), tokens)
    assert found == pytest.approx(1000)
    # a certain start counted as a token would read less than half for a sentence of one word and its end
    flattered = math.exp(2 * math.log(1000) / 3)
    assert flattered < 500 < found


def test_tokens_weigh_alike():
    found = perplexity(np.array([2 * math.log(2), 6 * math.log(8)]), counted(2, 6))
    assert found == pytest.approx(2 ** ((2 * 1 + 6 * 3) / 8))
    assert perplexity(np.zeros(1), counted(2)) == 1


def test_equal_texts_are_best_whatever_their_case():
    texts = ["The quick brown fox jumps.", "a dog sleeps in the sun all day"]
    found = text_scores(texts, [text.upper() for text in texts])
    assert (found.bleu, found.chrf, found.texts) == (pytest.approx(1), pytest.approx(1), 2)
    assert "case:lc" in found.settings[0]
    assert "case:lc" in found.settings[1]


def test_bleu_by_hand():
    found = text_scores(["the cat sat on the mat"], ["the cat sat on a mat"])
    # n-grams found: 5 of 6, 3 of 5, 2 of 4, 1 of 3; equal lengths
    assert found.bleu == pytest.approx((5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)


def test_a_text_that_is_too_short_pays():
    long = "one two three four five six seven eight"
    found = text_scores(["one two three four five six"], [long])
    assert found.bleu == pytest.approx(math.exp(1 - 8 / 6))


def test_chrf_by_hand():
    # letters: 1 of 2 told, 1 of 2 true; pairs: 0; orders above are not there; F is 0 for pairs
    assert text_scores(["ab"], ["ac"]).chrf == pytest.approx((1 / 2 + 0) / 2)


def test_an_empty_text_counts_as_nothing_said():
    told, true = ["the cat sat on the mat", ""], ["the cat sat on the mat", "the dog sat on the cat"]
    found = text_scores(told, true)
    assert found.bleu == pytest.approx(math.exp(1 - 12 / 6))


def test_what_cannot_be_compared_is_refused():
    for told, true in (([], []), (["a"], []), (["a"], [" "])):
        with pytest.raises(DataError, match="captions"):
            text_scores(told, true)


def test_a_missing_package_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "sacrebleu"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(MissingError, match="sacrebleu is not installed"):
        text_scores(["a"], ["a"])


def test_nothing_is_fetched(monkeypatch):
    def refuse(*_):
        raise AssertionError("a network connection")

    monkeypatch.setattr("socket.socket.connect", refuse)
    assert text_scores(["a b c d"], ["a b c d"]).bleu == pytest.approx(1)
