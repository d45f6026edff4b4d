"""A model of sentence-transformers: a tiny one made on disk is named, used and kept to by a library."""

import sys

import numpy as np
import pytest
from PIL import Image

from limner.cli.main import run
from limner.encoders.catalogue import sentence_encoder
from limner.encoders.sentences import NamedSentences
from limner.errors import DataError, MissingError
from limner.match.illustrator import Illustrator
from limner.records import Step, Story
from limner.store.database import Database

WORDS = ["mbwa", "anakimbia", "ufukweni", "paka", "amelala", "kitandani", "mtoto", "anakula", "keki"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Bag of words: each word of a tiny vocabulary has its own direction."""
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    known = {word: number for number, word in enumerate(["[UNK]", *WORDS])}
    tokenizer = Tokenizer(WordLevel(known, unk_token="[UNK]"))  # noqa: S106  (no password)
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    weights = np.eye(len(WORDS) + 1, dtype=np.float32)
    weights[0] = 0.01
    folder = tmp_path_factory.mktemp("model") / "tiny"
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu").save(
        str(folder)
    )
    return folder


@pytest.mark.slow
def test_vectors_are_those_of_the_model(model):
    encoder = sentence_encoder(f"sentences:{model}")
    rows = encoder.encode_text(["mbwa anakimbia", "Mbwa", "paka amelala"])
    assert rows.shape == (3, encoder.dim) == (3, len(WORDS) + 1)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows @ rows.T, [[1, 0.5**0.5, 0], [0.5**0.5, 1, 0], [0, 0, 1]], atol=1e-6)
    np.testing.assert_allclose(encoder.encode_text(["Mbwa"])[0], rows[1], atol=1e-6)
    assert encoder.encode_text([]).shape == (0, encoder.dim)
    assert NamedSentences(str(model)).fingerprint == encoder.fingerprint
    assert encoder.reads is None
    with pytest.raises(DataError, match="text 2 of 2"):
        encoder.encode_text(["mbwa", " "])


@pytest.mark.slow
def test_a_library_keeps_to_its_model(model, tmp_path, capsys):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for seed, caption in enumerate(
        ["Mbwa anakimbia ufukweni", "Paka amelala kitandani", "Mtoto anakula keki"]
    ):
        noise = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((48, 48)).save(pictures / f"{seed}.png")
        (pictures / f"{seed}.txt").write_text(caption, encoding="utf-8")
    library = tmp_path / "library"
    common = ["--library", str(library), "--encoder", "colour"]
    assert run(["index", str(pictures), *common]) == 0
    printed = capsys.readouterr().out
    assert "no installed encoder reads the captions of 3 pictures" in printed
    assert "not read: " in printed
    assert "Swahili (sw)" in printed
    assert run(["index", str(pictures), *common, "--sentences", str(model)]) == 0
    assert "no installed encoder" not in capsys.readouterr().out
    assert run(["index", str(pictures), *common]) == 0
    story = Story(id="text", steps=tuple(Step(text=t) for t in ("Paka amelala.", "Mtoto anakula.", "Mbwa.")))
    opened = Illustrator(Database(library))
    assert [step.chosen.picture.path[-5] for step in opened.board(story).steps] == ["1", "2", "0"]
    assert opened.language_note(story) is None


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingError, match="cannot be loaded"):
        NamedSentences(str(tmp_path / "empty")).encode_text(["a"])
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingError, match=r"pip install 'limner\[sentences\]'"):
        NamedSentences("some/model").encode_text(["a"])
