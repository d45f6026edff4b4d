"""Matching words of a step with captions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.match.explain import matched, stem, words


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("kites", "kite"),
        ("running", "run"),
        ("stories", "story"),
        ("boxes", "box"),
        ("baked", "bake"),
        ("baking", "bakes"),
        ("beaches", "beach"),
        ("houses", "house"),
        ("rolling", "roll"),
        ("glasses", "glass"),
    ],
)
def test_forms_of_a_word_meet(left, right):
    assert stem(left) == stem(right)


@pytest.mark.parametrize(
    ("left", "right"), [("bus", "bush"), ("sing", "sang"), ("red", "ring"), ("bee", "bed")]
)
def test_other_words_do_not(left, right):
    assert stem(left) != stem(right)


def test_match_keeps_order_and_spelling_and_drops_function_words():
    assert matched("The Dogs and the kite, dogs again at 7", ["a dog with a kite", "the 7"]) == (
        "dogs",
        "kite",
    )
    assert matched("the and with", ["the and with"]) == ()
    assert matched("", ["x"]) == ()


def test_scripts_with_marks_stay_whole():
    assert words("हिन्दी में पुस्तक") == ("हिन्दी", "में", "पुस्तक")
    assert matched("Das Mädchen läuft", ["ma\u0308dchen"]) == ("mädchen",)
    assert words("don't 3D") == ("don", "t", "d")


@given(st.text())
def test_any_text_is_fine_and_matches_itself(text):
    found = matched(text, [text])
    assert set(found) <= set(words(text))
    assert matched(text, []) == ()
    assert len({stem(word) for word in found}) == len(found)
