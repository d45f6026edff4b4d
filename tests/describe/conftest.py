"""A server of the chat API and a small library to describe."""

import pytest
from chat_server import chat_server
from fakes import FakeTexts, noise_picture

from limner.store.database import Database
from limner.store.index import caption_encoders, index, sentences_of


@pytest.fixture(autouse=True)
def _captions_are_bags_of_words(monkeypatch):
    def bags(spaces):
        bag = "captions" in spaces and spaces["captions"].encoder == FakeTexts.name
        return sentences_of(FakeTexts(), None) if bag else caption_encoders(spaces)

    monkeypatch.setattr("limner.store.index.caption_encoders", bags)


@pytest.fixture
def server():
    with chat_server() as made:
        yield made


@pytest.fixture
def pictures(tmp_path):
    """Three pictures without words, and one with a file beside it that says what it shows."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(4):
        noise_picture(number).save(folder / f"IMG_{number:04}.png")
    (folder / "IMG_0003.txt").write_text("a kite over the sea")
    return folder


@pytest.fixture
def library(tmp_path, pictures):
    index([pictures], tmp_path / "lib", text_encoder=FakeTexts())
    return Database(tmp_path / "lib")
