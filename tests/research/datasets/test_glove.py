"""Word vectors as text: the words asked for come back, wrong lines are named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.encoders.vocabulary import Vocabulary
from limner.errors import DataError, LimnerError, MissingError
from limner.research.datasets.word_vectors import read_glove
from limner.research.nn.words import glove_vectors


def test_only_the_words_asked_for_are_read(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("dog 1 2 -3e-1\n. . . 4 5 6\ndog 9 9 9\nchien 7 8 9\n")
    found = read_glove(path, ["dog", "cat", ". . ."])
    assert list(found) == ["dog", ". . ."]
    np.testing.assert_allclose(found["dog"], [1, 2, -0.3])
    assert found["dog"].dtype == np.float32
    np.testing.assert_allclose(found[". . ."], [4, 5, 6])
    path.write_text("2 3\ndog 1 2 3 \n")
    np.testing.assert_allclose(read_glove(path, {"dog"})["dog"], [1, 2, 3])


words = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=8)
numbers = st.lists(st.floats(-9, 9, width=32), min_size=3, max_size=3)


@pytest.mark.slow
@given(st.dictionaries(words, numbers, min_size=1, max_size=5), st.data())
def test_what_is_written_comes_back(tmp_path_factory, vectors, data):
    path = tmp_path_factory.mktemp("glove") / "vectors.txt"
    lines = [" ".join([word, *map(repr, row)]) for word, row in vectors.items()]
    path.write_bytes("\n".join(lines).encode())
    asked = data.draw(st.sets(st.sampled_from([*vectors, "absent word"])))
    found = read_glove(path, asked)
    assert set(found) == asked - {"absent word"}
    for word, row in found.items():
        np.testing.assert_array_equal(row, np.asarray(vectors[word], np.float32))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "no word vectors"),
        ("dog 1\n", ":1: 2 fields"),
        ("dog 1 2 3\ncat 1 2\n", ":2: 3 fields, expected a word and 3 numbers"),
        ("cow 1 2 3\ndog 1 x 3\n", ":2: could not convert"),
        ("dog 1 nan 3\n", ":1: a number is not finite"),
        ("dog 1  3\n", ":1: could not convert"),
        ("400000 50\n", "no word vectors"),
    ],
)
def test_wrong_lines_are_named(tmp_path, content, told):
    path = tmp_path / "glove.txt"
    path.write_text(content)
    with pytest.raises(DataError, match=told) as error:
        read_glove(path, {"dog", "cat"})
    assert "\n" not in str(error.value)


def start(path, vocabulary, **options):
    words = {*vocabulary.words, *map(str.lower, vocabulary.words)}
    return glove_vectors(read_glove(path, words), vocabulary, where=str(path), **options)


def test_a_vocabulary_starts_from_a_file(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("dog 1 2 3\nthe 4 5 6\nThe 7 8 9\n")
    vocabulary = Vocabulary(("The", "Dog", "wug"))
    found = start(path, vocabulary, width=3, seed=1)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found[[0, 2, 3]], [[0, 0, 0], [7, 8, 9], [1, 2, 3]])
    drawn = found[[1, 4]]  # the unknown word, and one that the file lacks
    assert (np.abs(drawn) <= 0.5 / 3).all()
    assert (drawn != 0).all()
    np.testing.assert_array_equal(found, start(path, vocabulary, width=3, seed=1))
    assert not np.array_equal(found[4], start(path, vocabulary, width=3, seed=2)[4])
    with pytest.raises(
        DataError, match=r"vectors have 3 dimensions, but model\.word_width is 4; set it to 3"
    ):
        start(path, vocabulary, width=4)
    with pytest.raises(DataError, match="none of the 1 word of the training texts"):
        start(path, Vocabulary(("wug",)), width=3)
    with pytest.raises(MissingError, match=r"add --set data\.glove=FILE"):
        start(tmp_path / "none.txt", vocabulary, width=3)


def test_what_would_run_is_refused(tmp_path, executable_payload):
    path = tmp_path / "glove.txt"
    path.write_bytes(executable_payload(tmp_path / "ran"))
    with pytest.raises(LimnerError):
        read_glove(path, {"dog"})
    assert not (tmp_path / "ran").exists()
    with pytest.raises(MissingError):
        read_glove(tmp_path / "none", {"dog"})
