"""A server of the chat API and a small library to describe."""

import pytest
from chat_server import chat_server
from fakes import FakeTexts, noise_picture

from limner.scale.ingest import index
from limner.scale.library import PictureStore


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
    return PictureStore.open(tmp_path / "lib")
