"""The real commands, each in a folder of its own, with what they begin with and what they are to leave."""

import json
import shutil
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from fakes import content, noise_picture
from PIL import Image
from starlette.testclient import TestClient
from study_visitors import begin, fields, form_of, served

from limner.cli.main import run
from limner.errors import StorageError
from limner.export.storyboard_json import load
from limner.research.study.records import read_study
from limner.research.study.votes import VoteBase
from limner.research.training import checkpoint
from limner.store.database import Database
from limner.studio.app import create_app
from limner.studio.projects import Projects
from limner.studio.routes import Studio

CONFIG = Path(__file__).parents[2] / "configs" / "cmcm" / "base.toml"
Heard = Callable[[], None]
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


class Job:
    """Something that people do.

    Attributes:
        needs: pictures, a library or what works on it, made before and never changed.
        acknowledged: parts of it that were, one by one.
    """

    def __init__(self, needs: Any = None) -> None:
        self.needs, self.acknowledged = needs, []

    def begin(self, folder: Path) -> None:
        """What is there before."""

    def act(self, folder: Path, heard: Heard = lambda: None) -> Told:
        """Do it, or what is left of it to do; `heard` is called when it is acknowledged."""
        raise NotImplementedError

    def left(self, folder: Path) -> Any:
        """What an acknowledged change leaves, to be compared."""
        raise NotImplementedError

    def check(self, folder: Path) -> None:
        """Hold what must be there after every fault."""


class Command(Job):
    """A command as typed."""

    def words(self, folder: Path) -> list[str]:
        raise NotImplementedError

    def act(self, folder: Path, heard: Heard = lambda: None) -> Told:
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = run(self.words(folder))
        lines = err.getvalue().splitlines()
        assert status in (0, 1), err.getvalue()
        assert not any("Traceback" in line for line in lines), err.getvalue()
        assert sum(line.startswith("limner: ") for line in lines) == status, err.getvalue()
        if status == 0:
            heard()
        return Told(status == 0, lines[-1] if status else "")


class Index(Command):
    def words(self, folder):
        return ["index", str(self.needs), "--library", str(folder / "new" / "lib")]

    def left(self, folder):
        library = Database(folder / "new" / "lib")
        spaces = sorted(library.settings.spaces)
        return library.settings, content(library), spaces


class Illustrate(Command):
    def begin(self, folder):
        shutil.copytree(self.needs, folder / "lib")
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
        small = (
            "data.vectors=random",
            "data.picture_px=32",
            "data.limit=24",
            "loop.epochs=1",
            "loop.save_every_steps=2",
        )
        settings = [word for one in small for word in ("--set", one)]
        words = ["train", str(CONFIG), "--data", "picturebook", "--to", str(folder / "run"), "--smoke"]
        return [*words, *settings]

    def left(self, folder):
        tensors, state = checkpoint.load(folder / "run" / "model.safetensors")
        history = (folder / "run" / "history.jsonl").read_text(encoding="utf-8")
        return {name: one.numpy().tobytes() for name, one in tensors.items()}, state, history


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

    def act(self, folder, heard=lambda: None):
        there = (folder / "study").exists()  # done, though its answer was lost
        return Told(True) if there else super().act(folder, heard)

    def left(self, folder):
        files = read_study(folder / "study")
        pictures = sorted(one.name for one in (folder / "study" / "pictures").iterdir())
        for name in pictures:
            Image.open(folder / "study" / "pictures" / name).load()
        return files.items, files.key, pictures


class Edit(Job):
    """An edit in the studio."""

    def client(self, folder):
        return TestClient(create_app(Studio(self.needs, folder / "projects", folder / "thumbnails")))

    def begin(self, folder):
        options = {"min_probability": 0}
        made = self.client(folder).post(
            "/api/projects", json={"text": TEXT, "format": "markdown", "options": options}
        )
        assert made.status_code == 201, made.text

    def current(self, folder):
        projects = Projects(folder / "projects")
        (number,) = projects.ids()
        found = projects.read(number)
        projects.board(found)
        return found, projects.text(found)

    def act(self, folder, heard=lambda: None):
        found, _ = self.current(folder)
        if found.revision > 1:  # done, though its answer was lost
            return Told(True)
        body = {"revision": 1, "edit": {"kind": "retext", "text": TEXT.replace("red", "blue")}}
        answer = self.client(folder).post(f"/api/projects/{found.id}/edits", json=body)
        heard()
        return _told(answer)

    def left(self, folder):
        found, text = self.current(folder)
        return found.revision, text

    def check(self, folder):
        assert self.left(folder)[0] in (1, 2)


class Answered(Job):
    """Votes in a study, of which each is acknowledged."""

    def begin(self, folder):
        Create().begin(folder)
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            assert run([*Create().words(folder), "--raters", "1", "--checks", "0"]) == 0
        with served(folder / "study") as (client, _, _):
            browser = begin(client())
            secret = next(iter(browser.cookies.items()))
            browser.get("/rate")
        (folder / "cookie.json").write_text(json.dumps(secret), encoding="utf-8")

    def act(self, folder, heard=lambda: None):
        try:
            return self.rated(folder, heard)
        except StorageError as error:  # of the database, before there is an application
            return Told(False, str(error))

    def rated(self, folder, heard):
        name, secret = json.loads((folder / "cookie.json").read_text(encoding="utf-8"))
        with served(folder / "study") as (client, _, _):
            browser = client()
            browser.cookies.set(name, secret)
            answer = browser.get("/rate", headers={"accept": "*/*"})
            while answer.status_code == 200 and "unit" in fields(answer.text):
                form = form_of(answer.text, "1")
                answer = browser.post("/rate", data=form, headers={"accept": "*/*"})
                if answer.status_code == 303:
                    self.acknowledged += [name for name in form if name != "unit"]
                    answer = browser.get("/rate", headers={"accept": "*/*"})
            heard()  # the server goes on
            return _told(answer)

    def left(self, folder):
        files = read_study(folder / "study")
        with closing(VoteBase(folder / "study", files.study)) as base:
            return sorted(vote.item for vote in base.votes())

    def check(self, folder):
        assert len(self.left(folder)) >= len(self.acknowledged)


def _told(answer):
    if answer.status_code < 400:
        return Told(True)
    assert answer.status_code == 507, (answer.status_code, answer.text)
    assert answer.headers["content-type"].startswith("application/problem+json")
    return Told(False, answer.json()["detail"])
