"""Tokenisers and vocabulary."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.encoders.vocabulary import PADDING, UNKNOWN, Vocabulary, default_tokens, release_tokens
from limner.errors import DataError
from limner.research.datasets.pairs import Source
from limner.research.datasets.sets import clue


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A dog, running.", ["A", "dog", ",", "running", ".", ""]),
        (" a  b ", ["", "a", "b", ""]),
        (r"caf\xa0e \xa0", ["cafe", ""]),
        (r"a\tb \t c", ["a", "b", "c"]),
        (r"a\nb", ["a", "b"]),
        ('(5%) "no"!', ["", "(", "5", "%", ")", '"', "no", '"', "!", ""]),
        ("x&y:z*w;v?", ["x", "&", "y", ":", "z", "*", "w", ";", "v", "?", ""]),
        ("a\tb\u00a0c", ["a\tb\u00a0c"]),
        ("don't - stop", ["don't", "-", "stop"]),
        ("", [""]),
    ],
)
def test_release_tokens_keep_the_quirks(text, tokens):
    assert release_tokens(text) == tokens


def test_default_tokens_part_at_real_white_space_and_drop_the_empty():
    assert default_tokens(" a\tb\u00a0c\nd,  e ") == ["a", "b", "c", "d", ",", "e"]
    assert default_tokens("") == []


@given(st.text(max_size=40))
def test_default_tokens_lose_no_letter(text):
    text = text.replace("\\", "/")  # backslash sequences are the release's business
    assert "".join(default_tokens(text)) == "".join(text.split())
    assert all(token.strip() == token != "" for token in default_tokens(text))


def test_words_count_from_two_most_frequent_first():
    vocabulary = Vocabulary.build(["d b", "a d", "d b"])
    assert vocabulary.words == ("d", "b", "a")
    assert len(vocabulary) == 5
    assert vocabulary.numbers("d a new b") == [2, 4, UNKNOWN, 3]
    assert vocabulary.numbers("") == [UNKNOWN]
    assert ("a" in vocabulary, "new" in vocabulary) == (True, False)
    assert Vocabulary.build(["d b", "a d", "d b"], min_count=2).words == ("d", "b")
    assert Vocabulary.build(["b a c"]).words == ("a", "b", "c")


def test_a_batch_is_padded_at_the_end_and_cut():
    vocabulary = Vocabulary.build(["a b c d"])
    ids, lengths = vocabulary.batch(["a", "a b c d", ""], 3)
    assert ids.tolist() == [[2, PADDING, PADDING], [2, 3, 4], [UNKNOWN, PADDING, PADDING]]
    assert lengths.tolist() == [1, 3, 1]
    assert ids.dtype == lengths.dtype == np.int64
    assert vocabulary.batch(["a"], 9)[0].shape == (1, 1)
    assert vocabulary.batch([], 9)[0].shape == (0, 1)


@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=6),
    st.sampled_from(["default", "release"]),
)
def test_json_round_trip_and_every_training_word_is_known(texts, tokeniser):
    vocabulary = Vocabulary.build(texts, tokeniser)
    again = Vocabulary.from_json(vocabulary.to_json())
    assert again == vocabulary
    for text in texts:
        assert again.numbers(text) == vocabulary.numbers(text)
        if vocabulary.tokens(text):
            assert UNKNOWN not in vocabulary.numbers(text)


def test_wrong_vocabularies_are_refused():
    with pytest.raises(DataError, match="come twice"):
        Vocabulary(("a", "a"))
    with pytest.raises(DataError, match="expected tokeniser and words"):
        Vocabulary.from_json(json.dumps({"words": ["a"]}))
    # an executable payload is not JSON: it is refused, never run
    with pytest.raises(DataError, match="expected tokeniser"):
        Vocabulary.from_json(b"cposix\nsystem\n(S'echo bad'\ntR.")


@pytest.mark.slow
@pytest.mark.shared
def test_the_release_vocabulary_of_clue(shared_data):
    train = [pair.text for pair in clue.read_clue(Source(shared_data / "clue")).split("train")]
    release = Vocabulary.build(train, "release")
    assert len(release.words) == 5611
    assert "" in release
    # one entry less: the empty token
    assert len(Vocabulary.build(train).words) == 5610
