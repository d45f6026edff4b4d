"""Vectors of texts, and of words: the same in every process, near for like texts, zero without words."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from limner.encoders.vocabulary import Vocabulary
from limner.errors import DataError
from limner.research.datasets.word_vectors import document_vectors, words_of
from limner.research.nn.words import learn_vectors

ANIMALS = [
    "the fox hunts rabbits near the forest",
    "rabbits hide while the fox hunts",
    "forest fox and rabbits",
]
BOATS = ["the captain sails his boat across stormy seas", "stormy seas rock the boat", "captain and boat"]
TEXTS = [*ANIMALS, *BOATS] * 20
SETTINGS = {"size": 12, "min_count": 2, "epochs": 100, "seed": 3}

OTHER_PROCESS = """
import sys
sys.path.insert(0, sys.argv[1])
from test_document_vectors import bits
print(*bits())
"""


def bits():
    """Vectors of texts and of their words, in hexadecimal."""
    words = learn_vectors(TEXTS, Vocabulary.build(TEXTS), width=8, window=2, epochs=20, seed=3)
    return [made.tobytes().hex() for made in (document_vectors(TEXTS, **SETTINGS), words)]


def cosine(one, other):
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.slow
def test_like_texts_lie_nearer_than_others():
    found = document_vectors(TEXTS, **SETTINGS)
    assert found.shape == (120, 12)
    assert found.dtype == np.float32
    within = np.mean([cosine(found[0], found[1]), cosine(found[3], found[4]), cosine(found[0], found[2])])
    across = np.mean([cosine(found[0], found[3]), cosine(found[1], found[4]), cosine(found[2], found[5])])
    assert within > across + 0.2
    np.testing.assert_array_equal(found[0], found[6])  # equal texts, equal vectors


@pytest.mark.slow
def test_other_processes_and_seeds():
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, str(Path(__file__).parent)],
        env=os.environ | {"PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == bits()
    found = document_vectors(TEXTS, **SETTINGS)
    assert not np.array_equal(document_vectors(TEXTS, **SETTINGS | {"seed": 4}), found)


@pytest.mark.slow
def test_a_text_without_a_known_word_is_zero():
    found = document_vectors([*TEXTS, "", "of the and", "xylophone"], **SETTINGS)
    assert not found[-3:].any()
    assert found[:-3].any(axis=1).all()


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("The <b>Foxes</b> ran; 12 foxes!", ["foxes", "ran", "foxes"]),
        ("a at to ox", []),
        ("Über größe, naïve", ["über", "größe", "naïve"]),  # not a question mark for each
        ("don't stop-motion", ["stop", "motion"]),
    ],
)
def test_the_words_that_count(text, due):
    assert words_of(text) == due


def test_what_cannot_be_is_refused():
    with pytest.raises(DataError, match="lower graph"):
        document_vectors(["only once"], size=4, min_count=5, epochs=1, seed=0)
