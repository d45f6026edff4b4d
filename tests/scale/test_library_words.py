"""What the user writes about a picture: it counts at once, outlives indexing, and touches no file."""

import json

import numpy as np
import pytest

from limner.errors import CheckpointError, DataError
from limner.scale import words as words_module
from limner.scale.ingest import index
from limner.scale.library import PictureStore
from limner.scale.store import WORDS
from limner.scale.words import Described, words_of, write_words
from limner.scale.write import sentences_of
from support.fakes import FakeTexts, content, noise_picture


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(4):
        noise_picture(number).save(folder / f"p{number}.png")
    (folder / "p0.txt").write_text("a goat")
    return folder


@pytest.fixture
def library(tmp_path, pictures):
    index([pictures], tmp_path / "lib", text_encoder=FakeTexts())
    return PictureStore.open(tmp_path / "lib")


def captions(library, name):
    return [(one.text, one.source) for one in library.find(name).captions]


def vector(library, picture):
    space = library.gallery(["captions"], [picture]).space("captions")
    return space.matrix[0].astype(np.float32) if space.present[0] else None


def test_what_is_written_counts_and_is_encoded_alone(library, pictures):
    before = {one: one.read_bytes() for one in pictures.iterdir()}
    picture, texts = library.find("p0.png").id, FakeTexts()
    told = write_words(
        library,
        picture,
        Described(captions=("  A hen\n in a tree ",), keywords=("hen, tree", "farm")),
        sentences_of(texts, None),
    )
    assert told.edited
    assert told.now == Described(captions=("A hen in a tree",), keywords=("hen", "tree", "farm"))
    assert told.stated == Described(captions=("a goat",))
    assert captions(library, "p0.png") == [("A hen in a tree", "library"), ("hen, tree, farm", "keywords")]
    assert texts.encoded == ["A hen in a tree", "hen, tree, farm"]
    due = texts.encode_text(["A hen in a tree", "hen, tree, farm"]).sum(axis=0)
    assert np.allclose(vector(library, picture), due / np.linalg.norm(due), atol=1e-3)
    assert {one: one.read_bytes() for one in pictures.iterdir()} == before
    again = FakeTexts()
    report = index([pictures], library, text_encoder=again)
    assert (report.captions_encoded, again.encoded) == (0, [])


@pytest.mark.slow
def test_it_outlives_indexing_other_words_and_another_path(library, pictures):
    picture = library.find("p0.png").id
    write_words(library, picture, Described(captions=("a hen",)), sentences_of(FakeTexts(), None))
    (pictures / "p0.txt").write_text("a goat on a roof")
    assert index([pictures], library, text_encoder=FakeTexts()).changed == 1
    assert captions(library, "p0.png") == [("a hen", "library")]
    assert words_of(library, picture).stated.captions == ("a goat on a roof",)
    (pictures / "p0.png").rename(pictures / "elsewhere.png")
    index([pictures], library, text_encoder=FakeTexts())
    assert captions(library, "elsewhere.png") == [("a hen", "library")]
    assert vector(library, picture) is not None


def test_no_words_at_all_can_be_wished_for_and_taken_back(library, pictures):
    picture, sentences = library.find("p0.png").id, sentences_of(FakeTexts(), None)
    told = write_words(library, picture, Described(), sentences)
    assert (told.edited, told.now) == (True, Described())
    assert vector(library, picture) is None
    index([pictures], library, text_encoder=FakeTexts())
    assert captions(library, "p0.png") == []
    told = write_words(library, picture, None, sentences)
    assert (told.edited, told.now.captions) == (False, ("a goat",))
    assert vector(library, picture) is not None
    assert captions(library, "p0.png") == [("a goat", "sidecar")]


@pytest.mark.parametrize("taken_back", [False, True])
def test_a_kill_in_between_is_mended_by_the_next_run(library, pictures, monkeypatch, taken_back):
    picture, sentences = library.find("p0.png").id, sentences_of(FakeTexts(), None)
    if taken_back:
        write_words(library, picture, Described(captions=("a hen",)), sentences)
    whole = content(library)

    def killed(*rest):
        raise KeyboardInterrupt

    if taken_back:
        monkeypatch.setattr(type(library.store), "delete", killed)
    else:
        monkeypatch.setattr(words_module, "_take_over", killed)
    with pytest.raises(KeyboardInterrupt):
        write_words(library, picture, None if taken_back else Described(captions=("a hen",)), sentences)
    monkeypatch.undo()
    index([pictures], library, text_encoder=FakeTexts())
    assert captions(library, "p0.png") == [("a hen", "library")]
    if taken_back:
        assert content(library) == whole
    due = FakeTexts().encode_text(["a hen"])[0]
    assert np.allclose(vector(library, picture), due / np.linalg.norm(due), atol=1e-3)


def test_what_cannot_be_written(library, pictures):
    picture, sentences = library.find("p0.png").id, sentences_of(FakeTexts(), None)
    with pytest.raises(CheckpointError, match="another version"):
        write_words(library, picture, Described(), sentences_of(FakeTexts("bag-2"), None))
    with pytest.raises(DataError, match="no picture"):
        write_words(library, "0" * 64, Described(captions=("x",)), sentences)
    with pytest.raises(DataError, match="5,000 letters"):
        write_words(library, picture, Described(captions=("x" * 5000,)), sentences)
    with library.writing(), pytest.raises(DataError, match="another process"):
        write_words(library, picture, Described(captions=("x",)), sentences)
    assert not library.store.has(WORDS)
    assert words_of(library, picture).edited is False


def test_a_new_picture_with_a_caption_of_its_own_joins_the_edited(library, pictures):
    picture = library.find("p1.png").id
    write_words(library, picture, Described(captions=("a boat",)), sentences_of(FakeTexts(), None))
    (pictures / "metadata.jsonl").write_text(json.dumps({"file_name": "p2.png", "text": "a kite"}))
    index([pictures], library, text_encoder=FakeTexts())
    assert captions(library, "p1.png") == [("a boat", "library")]
    assert captions(library, "p2.png") == [("a kite", "metadata")]
