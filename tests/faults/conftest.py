"""The real commands, each in a folder of its own, with what they begin with and what they are to leave."""

import json
import random
import shutil
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeImages, FakeTexts, content, noise_picture
from PIL import Image
from starlette.testclient import TestClient
from study_visitors import begin, fields, form_of, served

from limner.cli.main import run
from limner.errors import StorageError
from limner.export.storyboard_json import load
from limner.library.library import Library
from limner.storyboard import equipment
from limner.studio.app import create_app
from limner.studio.engine import Engine
from limner.studio.routes import Studio
from limner.study.records import read_study
from limner.study.votes import VoteBase
from limner.training import checkpoint

CONFIG = Path(__file__).parents[2] / "configs" / "cmcm" / "base.toml"
_MOMENTS = {"index": 2, "train": 2, "edit": 2, "vote": 4}
TEXT = "# A day\n\nA red barn.\n\n---\n\nA white goat.\n"


@dataclass(frozen=True)
class Told:
    """What somebody was told.

    Attributes:
        done: whether the change was acknowledged.
        line: of a refusal.
    """

    done: bool
    line: str = ""


class Command:
    """A command as typed."""

    def words(self, folder: Path) -> list[str]:
        raise NotImplementedError

    def begin(self, folder: Path) -> None:
        """What is there before."""

    def act(self, folder: Path) -> Told:
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = run(self.words(folder))
        lines = err.getvalue().splitlines()
        assert status in (0, 1), err.getvalue()
        assert not any("Traceback" in line for line in lines), err.getvalue()
        assert sum(line.startswith("limner: ") for line in lines) == status, err.getvalue()
        return Told(status == 0, lines[-1] if status else "")

    def left(self, folder: Path) -> Any:
        """What an acknowledged change leaves, to be compared."""
        raise NotImplementedError

    def check(self, folder: Path) -> None:
        """Hold what must be there after every fault."""


class Index(Command):
    def __init__(self, pictures):
        self.pictures = pictures

    def words(self, folder):
        return ["index", str(self.pictures), "--library", str(folder / "new" / "lib")]

    def left(self, folder):
        library = Library.open(folder / "new" / "lib")
        spaces = sorted(library.settings.spaces)
        return library.settings, content(library), spaces


class Illustrate(Command):
    def __init__(self, library):
        self.library = library

    def begin(self, folder):
        shutil.copytree(self.library, folder / "lib")
        (folder / "text.md").write_text(TEXT, encoding="utf-8")
        (folder / "board.json").write_text("old", encoding="utf-8")

    def words(self, folder):
        words = ["illustrate", folder / "text.md", "--library", folder / "lib", "-o", folder / "board.json"]
        return [*map(str, words), "--overwrite"]

    def left(self, folder):
        return load(folder / "board.json")

    def check(self, folder):
        if (folder / "board.json").read_text(encoding="utf-8") != "old":
            self.left(folder)


class Train(Command):
    def words(self, folder):
        small = ("data.vectors=random", "data.picture_px=32", "loop.epochs=1", "loop.save_every_steps=3")
        settings = [word for one in small for word in ("--set", one)]
        words = ["train", str(CONFIG), "--data", "picturebook", "--to", str(folder / "run"), "--smoke"]
        return [*words, *settings]

    def left(self, folder):
        tensors, state = checkpoint.load(folder / "run" / "model.safetensors")
        history = (folder / "run" / "history.jsonl").read_text(encoding="utf-8")
        return {name: one.tolist() for name, one in tensors.items()}, state, history


class Create(Command):
    def begin(self, folder):
        for number in range(4):
            noise_picture(number).save(folder / f"p{number}.png")
        rows = [
            {"id": f"t{n}", "text": f"words {n}", "tested": f"p{n}.png", "control": f"p{n + 1}.png"}
            for n in range(3)
        ]
        (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def words(self, folder):
        return [
            "study",
            "create",
            str(folder / "study"),
            "--items",
            str(folder / "items.jsonl"),
            "--names",
            "a,b",
        ]

    def act(self, folder):
        there = (folder / "study").exists()  # done, though its answer was lost
        return Told(True) if there else super().act(folder)

    def left(self, folder):
        files = read_study(folder / "study")
        pictures = sorted(one.name for one in (folder / "study" / "pictures").iterdir())
        for name in pictures:
            Image.open(folder / "study" / "pictures" / name).load()
        return files.items, files.key, pictures


class Edit:
    """An edit in the studio."""

    def __init__(self, engine):
        self.engine = engine

    def client(self, folder):
        return TestClient(create_app(Studio(self.engine, folder / "projects", folder / "thumbnails")))

    def begin(self, folder):
        options = {"min_probability": 0}
        made = self.client(folder).post(
            "/api/projects", json={"text": TEXT, "format": "markdown", "options": options}
        )
        assert made.status_code == 201, made.text

    def current(self, folder, client=None):
        client = client or self.client(folder)
        number = client.get("/api/projects").json()[0]["id"]
        return client.get(f"/api/projects/{number}").json()

    def act(self, folder):
        client = self.client(folder)
        found = self.current(folder, client)
        if found["revision"] > 1:  # done, though its answer was lost
            return Told(True)
        body = {"revision": 1, "edit": {"kind": "retext", "text": TEXT.replace("red", "blue")}}
        answer = client.post(f"/api/projects/{found['id']}/edits", json=body)
        return _told(answer)

    def left(self, folder):
        found = self.current(folder)
        return found["revision"], found["text"]

    def check(self, folder):
        assert self.left(folder)[0] in (1, 2)


class Answered:
    """A vote in a study."""

    def begin(self, folder):
        Create().begin(folder)
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            assert run([*Create().words(folder), "--raters", "1", "--checks", "0"]) == 0
        with served(folder / "study") as (client, _, _):
            browser = begin(client())
            secret = next(iter(browser.cookies.items()))
            browser.get("/rate")
        (folder / "cookie.json").write_text(json.dumps(secret), encoding="utf-8")

    def act(self, folder):
        try:
            return self.rated(folder)
        except StorageError as error:  # of the database, before there is an application
            return Told(False, str(error))

    def rated(self, folder):
        name, secret = json.loads((folder / "cookie.json").read_text(encoding="utf-8"))
        with served(folder / "study") as (client, _, _):
            browser = client()
            browser.cookies.set(name, secret)
            answer = browser.get("/rate", headers={"accept": "*/*"})
            while answer.status_code == 200 and "unit" in fields(answer.text):
                form = form_of(answer.text, "1")
                answer = browser.post("/rate", data=form, headers={"accept": "*/*"})
                if answer.status_code == 303:
                    answer = browser.get("/rate", headers={"accept": "*/*"})
            return _told(answer)

    def left(self, folder):
        files = read_study(folder / "study")
        with closing(VoteBase(folder / "study", files.study)) as base:
            return sorted(vote.item for vote in base.votes())

    def check(self, folder):
        self.left(folder)


def _told(answer):
    if answer.status_code < 400:
        return Told(True)
    assert answer.status_code == 507, (answer.status_code, answer.text)
    assert answer.headers["content-type"].startswith("application/problem+json")
    return Told(False, answer.json()["detail"])


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
        monkeypatch.setattr(equipment, "picture_encoders", lambda *_, **__: [FakeImages()])
        monkeypatch.setattr(equipment, "sentence_encoder", lambda *_: FakeTexts())
        monkeypatch.setattr(equipment, "multilingual_encoder", lambda *_: None)
        return Index(fault_pictures)
    if request.param == "train":
        return Train()
    if request.param == "study create":
        return Create()
    if request.param == "vote":
        return Answered()
    library = request.getfixturevalue("fault_library")
    return Illustrate(library) if request.param == "illustrate" else Edit(_engine(library))


@pytest.fixture(params=["some", pytest.param("every", marks=pytest.mark.soak)])
def moments(request):
    """Draws moments from 1 to `count`: some, or in the long tests all."""

    def draw(count, seed=0):
        every = range(1, count + 1)
        size = _MOMENTS.get(request.node.callspec.params["job"], 6)
        some = request.param == "some"
        return sorted(random.Random(count + seed).sample(every, min(size, count))) if some else every

    return draw


_ENGINES = {}


def _engine(library):
    if library not in _ENGINES:
        _ENGINES[library] = Engine(library)
    return _ENGINES[library]
