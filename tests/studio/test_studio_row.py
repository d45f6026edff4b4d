"""Photographs named beside a text: giving one lets the others follow, and nothing else moves them."""

import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from limner.cli.index import index
from limner.match.illustrate import BoardOptions
from limner.records import Framing
from limner.studio.edits import Again, Ban, Choose, Fix, Retext, SetOptions, Swap
from limner.studio.engine import Engine
from limner.studio.project_editor import ProjectEditor
from limner.studio.projects import Projects
from limner.studio.schemas import changes
from limner.studio.step_edits import Frame, Insert

PAGES = [f"s000-0{number}.png" for number in range(2, 8)]
TEXT = "\n\n".join(f"{word} step." for word in ("First", "Second", "Third", "Fourth", "Fifth", "Sixth"))


def indexed(folder, library):
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        index(folder, library=library, encoder=("colour",))


@pytest.fixture(scope="module")
def walk(drawn, tmp_path_factory):
    """A folder of six photographs in order, next to others; and a library of all."""
    home = tmp_path_factory.mktemp("row")
    pictures = home / "pictures"
    shutil.copytree(drawn, pictures)
    (pictures / "walk").mkdir()
    rows = [json.loads(line) for line in (drawn / "metadata.jsonl").read_text().splitlines()]
    for number, page in enumerate(PAGES, 1):
        name = f"walk/IMG_000{number}.png"
        (pictures / "images" / page).rename(pictures / name)
        next(row for row in rows if row["file_name"] == f"images/{page}")["file_name"] = name
    (pictures / "metadata.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    indexed(pictures, home / "lib")
    return pictures / "walk", home / "lib"


@pytest.fixture(scope="module")
def engine(walk):
    return Engine(walk[1])


@pytest.fixture
def editor(engine, tmp_path):
    return ProjectEditor(engine, Projects(tmp_path / "projects"))


@pytest.fixture
def options(walk):
    return BoardOptions(named=(str(walk[0]),))


@pytest.fixture
def made(editor, options):
    """A project in which the six photographs lie along six steps."""
    return editor.create(TEXT, format="plain", options=options)


@pytest.fixture
def act(editor):
    def changed(project, edit):
        return editor.edit(project.id, project.revision, edit)

    return changed


def order(project):
    """Place of the photograph of each step, from 1; 0 for a blank, None for a picture from elsewhere."""
    place = {one.picture: number for number, one in enumerate(project.row.photographs, 1)}
    shown = project.board.shown.values()
    told = [0 if one is None else place.get(one) for one in shown]
    by_row = {one.step: place[one.picture] for one in project.row.photographs if one.step is not None}
    assert by_row == {step: number for step, number in enumerate(told) if number}
    kept = {one.step for one in project.board.row.photographs if one.step is not None}
    assert kept >= by_row.keys() - {one.step for one in project.row.photographs if one.new}
    return told


def give(project, step, place):
    picture = project.row.photographs[place - 1].picture
    return Choose(kind="choose", step=step, picture=picture)


def locked(project):
    return [step.position for step in project.steps if step.state == "locked"]


def elsewhere(editor, project):
    known = {one.picture for one in project.row.photographs}
    return next(one for one in editor.engine.illustrator().catalogue.ids if one not in known)


def test_x(made, act, editor):
    print(made.row.order, order(made))
    now = act(made, give(made, 1, 5))
    print(order(now), locked(now))
    now = act(now, give(now, 4, 5))
    print(order(now), locked(now))
    now = act(now, Fix(kind="blank", step=2))
    print(order(now), locked(now), now.steps[2])
    now = act(now, Choose(kind="choose", step=0, picture=elsewhere(editor, now)))
    print(order(now), locked(now), now.steps[2], now.board.steps[0].reason)
    now = act(now, Swap(kind="swap", a=1, b=3))
    print(order(now), locked(now), now.steps[2], now.board.steps[1].reason)
    now = act(now, Ban(kind="ban", picture=now.row.photographs[5].picture))
    print(order(now), locked(now), now.steps[2], now.board.steps[5].reason)
    assert 0
