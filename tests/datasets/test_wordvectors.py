"""Word vectors: the same bits for the same seed, rows in the order of the vocabulary, no pickle."""

import os
import subprocess
import sys

import numpy as np
import pytest

from limner.datasets.vocabulary import Vocabulary
from limner.datasets.word_vectors import CbowSettings, learn_vectors
from limner.errors import ConfigError, DataError

pytest.importorskip("gensim", reason="gensim is not installed")

TEXTS = ["stir the red soup", "stir the green soup", "bake the sweet bread", "bake the brown bread"] * 40
SMALL = CbowSettings(width=8, window=2, epochs=20, seed=3)


@pytest.fixture(scope="module")
def learned():
    return learn_vectors(TEXTS, Vocabulary.build(TEXTS), SMALL)


def test_rows_follow_the_vocabulary(learned):
    from gensim.models import Word2Vec

    assert learned.matrix.shape == (len(learned.vocabulary), 8)
    assert learned.matrix.dtype == np.float32
    assert not learned.matrix[0].any()
    assert learned.matrix[1].any()
    oracle = Word2Vec(
        [text.split() for text in TEXTS],
        vector_size=8,
        window=2,
        epochs=20,
        min_count=1,
        seed=3,
        workers=1,
    )
    for word in learned.vocabulary.words:
        (number,) = learned.vocabulary.numbers(word)
        np.testing.assert_array_equal(learned.matrix[number], oracle.wv[word])


def test_the_same_seed_gives_the_same_bits_in_any_process(learned, tmp_path):
    code = (
        "import sys; from limner.datasets.vocabulary import Vocabulary\n"
        "from limner.datasets.word_vectors import *\n"
        f"t = {TEXTS[:4]!r} * 40\n"
        "learn_vectors(t, Vocabulary.build(t), CbowSettings(8, 2, 20, 3)).matrix.tofile(sys.argv[1])"
    )
    other = tmp_path / "other"
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    subprocess.run([sys.executable, "-c", code, str(other)], check=True, env=environment)
    assert other.read_bytes() == learned.matrix.tobytes()
    changed = learn_vectors(TEXTS, learned.vocabulary, CbowSettings(8, 2, 20, 4))
    assert not np.array_equal(changed.matrix, learned.matrix)


def test_unseen_and_rare_words_keep_a_row():
    vocabulary = Vocabulary(("stir", "zebra"))
    found = learn_vectors(["stir the soup", "", "no"], vocabulary, CbowSettings(4, 2, 1))
    assert found.matrix.shape == (4, 4)
    assert found.matrix[3].any()
    with pytest.raises(DataError, match="no training text"):
        learn_vectors(["other words"], vocabulary)
    with pytest.raises(ConfigError, match="width=0"):
        CbowSettings(width=0)
