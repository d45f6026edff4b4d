"""Texts in pieces: nothing lost, the right words marked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.export.html import PagePart, pieces


def test_words_get_their_strength_in_order():
    shares = [("the", 0.05), ("cat", 0.6), (",", 0.1), ("the", 0.25)]
    (found,) = pieces(["the cat, the"], (), shares)
    assert found == [
        PagePart("the", met=False, strength=1),
        PagePart(" ", met=False, strength=0),
        PagePart("cat", met=False, strength=5),
        PagePart(", ", met=False, strength=0),
        PagePart("the", met=False, strength=3),
    ]


@pytest.mark.parametrize(
    ("text", "words", "due"),
    [
        ("The cat.", ("cat",), [("The ", False), ("cat", True), (".", False)]),
        ("Cats concatenate", ("cat",), [("Cats concatenate", False)]),
        ("CAT cat", ("cat",), [("CAT", True), (" ", False), ("cat", True)]),
        ("red roof", ("red", "red roof"), [("red roof", True)]),
        ("a+b (c)", ("a+b",), [("a+b", True), (" (c)", False)]),
        ("عنكبوت صغير", ("صغير",), [("عنكبوت ", False), ("صغير", True)]),
        ("", ("x",), []),
        ("x", ("", " "), [("x", False)]),
    ],
)
def test_matching_words_are_met(text, words, due):
    (found,) = pieces([text], words, ())
    assert [(piece.text, piece.met) for piece in found] == due


def test_words_met_and_words_looked_at_may_overlap():
    ((first, second),) = pieces(["red-hot"], ("red",), [("red-hot", 1.0)])
    assert (first.text, first.met, first.strength) == ("red", True, 3)
    assert (second.text, second.met, second.strength) == ("-hot", False, 3)


def test_the_heading_takes_its_own_words_first():
    shares = [("cake", 0.5), (".", 0.1), ("Eat", 0.1), ("cake", 0.3)]
    heading, body = pieces(["cake", "Eat cake"], (), shares)
    assert [piece.strength for piece in heading] == [5]
    assert [piece.strength for piece in body] == [1, 0, 3]


def test_a_word_inside_another_is_not_taken_for_it():
    (found,) = pieces(["Says a"], (), [("a", 1.0)])
    assert [(piece.text, piece.strength) for piece in found] == [("Says ", 0), ("a", 3)]


def test_a_word_that_is_not_there_is_left_out():
    (found,) = pieces(["one two"], (), [("nine", 0.5), ("two", 0.5)])
    assert [(piece.text, piece.strength) for piece in found] == [("one ", 0), ("two", 3)]


words = st.text(alphabet="ab.,- é", max_size=12)


@given(
    st.lists(words, max_size=3),
    st.lists(words, max_size=2),
    st.lists(st.tuples(words, st.floats(0, 1)), max_size=6),
)
def test_the_pieces_are_the_texts(texts, matched, attention):
    found = pieces(texts, tuple(matched), attention)
    assert ["".join(piece.text for piece in parts) for parts in found] == texts


def test_all_words_of_a_text_are_found():
    text = "The little mouse heaved one lump, on to the other one."
    tokens = ["The", "little", "mouse", "heaved", "one", "lump", ",", "on", "to", "the", "other", "one", "."]
    (found,) = pieces([text], (), [(token, 1 / len(tokens)) for token in tokens])
    assert [piece.text for piece in found if piece.strength] == [word for word in tokens if word.isalpha()]
