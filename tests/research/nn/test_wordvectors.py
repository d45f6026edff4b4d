"""Word vectors: rows in the order of the vocabulary, no pickle.

The same seed gives the same bits in any process: tests/research/datasets/test_document_vectors.py.
"""

import numpy as np
import pytest

from limner.encoders.vocabulary import Vocabulary
from limner.errors import DataError
from limner.research.nn.words import learn_vectors

TEXTS = ["stir the red soup", "stir the green soup", "bake the sweet bread", "bake the brown bread"] * 40
SMALL = {"width": 8, "window": 2, "epochs": 20, "seed": 3}
VOCABULARY = Vocabulary.build(TEXTS)


@pytest.fixture(scope="module")
def learned():
    return learn_vectors(TEXTS, VOCABULARY, **SMALL)


def test_rows_follow_the_vocabulary(learned):
    from gensim.models import Word2Vec

    assert learned.shape == (len(VOCABULARY), 8)
    assert learned.dtype == np.float32
    assert not learned[0].any()
    assert learned[1].any()
    oracle = Word2Vec(
        [text.split() for text in TEXTS],
        vector_size=8,
        window=2,
        epochs=20,
        min_count=1,
        seed=3,
        workers=1,
    )
    for word in VOCABULARY.words:
        (number,) = VOCABULARY.numbers(word)
        np.testing.assert_array_equal(learned[number], oracle.wv[word])


def test_another_seed_gives_other_bits(learned):
    changed = learn_vectors(TEXTS, VOCABULARY, **SMALL | {"seed": 4})
    assert not np.array_equal(changed, learned)


def test_unseen_and_rare_words_keep_a_row():
    vocabulary = Vocabulary(("stir", "zebra"))
    found = learn_vectors(["stir the soup", "", "no"], vocabulary, width=4, window=2, epochs=1)
    assert found.shape == (4, 4)
    assert found[3].any()
    with pytest.raises(DataError, match="no training text"):
        learn_vectors(["other words"], vocabulary)
