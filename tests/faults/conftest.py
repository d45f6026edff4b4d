"""Pictures, a library and the jobs on them."""

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest
import sqlite_faults
from fakes import FakeImages, FakeTexts, noise_picture
from fault_jobs import Answered, Create, Edit, Illustrate, Index, Train

from limner.cli.main import run
from limner.match import encoder_setup
from limner.studio.engine import Engine


@pytest.fixture(scope="session")
def fault_pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults") / "pictures"
    folder.mkdir()
    for number in range(4):
        noise_picture(number).save(folder / f"red-barn-{number}.png")
    (folder / "red-barn-0.txt").write_text("a white goat", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def fault_library(tmp_path_factory, fault_pictures):
    """The pictures, indexed by the encoders of captions and by colours."""
    folder = tmp_path_factory.mktemp("faults") / "lib"
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        assert run(["index", str(fault_pictures), "--library", str(folder), "--encoder", "colour"]) == 0
    return folder


@pytest.fixture
def job(request, fault_pictures, monkeypatch):
    """One of the commands by its name, with cheap encoders where it makes vectors."""
    if request.param == "index":
        monkeypatch.setattr(encoder_setup, "picture_encoders", lambda *_, **__: [FakeImages()])
        monkeypatch.setattr(encoder_setup, "sentence_encoder", lambda *_: FakeTexts())
        monkeypatch.setattr(encoder_setup, "multilingual_encoder", lambda *_: None)
        return Index(fault_pictures)
    if request.param == "train":
        return Train()
    if request.param == "study create":
        return Create()
    if request.param == "vote":
        if not sqlite_faults.available:
            pytest.skip("the SQLite of this Python lets nobody in between it and the system")
        return Answered()
    library = request.getfixturevalue("fault_library")
    return Illustrate(library) if request.param == "illustrate" else Edit(_engine(library))


_ENGINES = {}


def _engine(library):
    if library not in _ENGINES:
        _ENGINES[library] = Engine(library)
    return _ENGINES[library]
