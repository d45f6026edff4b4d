"""Photographs named beside a text: giving one lets the others follow, and nothing else moves them."""

import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from limner.cli.index import index
from limner.match.illustrate import BoardOptions
from limner.records import Framing
from limner.store import Only
from limner.studio.edits import Again, Ban, Choose, Fix, Retext, SetOptions, Swap
from limner.studio.engine import Engine
from limner.studio.project_editor import ProjectEditor
from limner.studio.projects import Projects
from limner.studio.schemas import changes
from limner.studio.step_edits import Frame, Insert

PAGES = [f"s000-0{number}.png" for number in range(2, 8)]
TEXT = "\n\n".join(f"{word} step." for word in ("First", "Second", "Third", "Fourth", "Fifth", "Sixth"))


def indexed(folder):
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        index(folder, library=folder.parent / "lib", encoder=("colour",), forget=True)


def walked(drawn, home):
    """A folder of six photographs in order, which is indexed with others; returns its path."""
    shutil.copytree(drawn, home / "pictures")
    captions = home / "pictures" / "metadata.jsonl"
    told = captions.read_text()
    (home / "pictures" / "walk").mkdir()
    for number, page in enumerate(PAGES, 1):
        name = f"walk/IMG_000{number}.png"
        (home / "pictures" / "images" / page).rename(home / "pictures" / name)
        told = told.replace(f"images/{page}", name)
        (home / "pictures" / "steps").mkdir(exist_ok=True)
        shutil.copy(home / "pictures" / name, home / "pictures" / "steps" / f"step {number}.png")
    captions.write_text(told)
    indexed(home / "pictures")
    return home / "pictures" / "walk"


@pytest.fixture(scope="module")
def walk(drawn, tmp_path_factory):
    """A folder of six photographs in a library that is not changed."""
    return walked(drawn, tmp_path_factory.mktemp("row"))


@pytest.fixture(scope="module")
def engine(walk):
    return Engine(walk.parent.parent / "lib")


@pytest.fixture
def editor(engine, tmp_path):
    return ProjectEditor(engine, Projects(tmp_path / "projects"))


@pytest.fixture
def options(walk):
    return BoardOptions(named=(str(walk),), min_probability=0)


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
    """Number of the photograph of each step, from 1; 0 for a blank, None for a picture from elsewhere."""
    numbers = {one.picture: number for number, one in enumerate(project.row.photographs, 1)}
    told = [0 if one is None else numbers.get(one) for one in project.board.shown.values()]
    for row in (project.row, project.board.row):
        steps = {one.step: numbers.get(one.picture) for one in row.photographs if one.step is not None}
        assert steps == {step: number for step, number in enumerate(told) if number}
    return told


def give(project, step, number):
    picture = project.row.photographs[number - 1].picture
    return Choose(kind="choose", step=step, picture=picture)


def locked(project):
    return [step.position for step in project.steps if step.state == "locked"]


def elsewhere(editor, project):
    known = {one.picture for one in project.row.photographs}
    return next(one for one in editor.engine.store.passing(Only()) if one not in known)


@pytest.mark.parametrize("folder", ["walk", "steps"])
def test_giving_reorders_the_list_and_locks_what_is_given(editor, act, walk, folder):
    options = BoardOptions(named=(str(walk.parent / folder),), min_probability=0)
    made = editor.create(TEXT, format="plain", options=options)
    assert made.row.order == ("counter" if folder == "walk" else "numbers")
    assert order(made) == [1, 2, 3, 4, 5, 6]
    assert [one.place for one in made.row.photographs] == [*range(6)]
    now = act(made, give(made, 1, 5))
    assert (order(now), locked(now)) == ([1, 5, 2, 3, 4, 6], [1])
    now = act(now, give(now, 0, 6))
    assert (order(now), locked(now)) == ([6, 5, 1, 2, 3, 4], [0, 1])
    now = act(now, give(now, 4, 5))  # from a locked step
    assert (order(now), locked(now)) == ([6, 1, 2, 3, 5, 4], [0, 4])
    for back in ([6, 5, 1, 2, 3, 4], [1, 5, 2, 3, 4, 6], [1, 2, 3, 4, 5, 6]):
        now = editor.undo(now.id, now.revision)
        assert order(now) == back


def test_what_moves_no_other_step(editor, act, made):
    now = act(made, give(made, 1, 5))
    picture = elsewhere(editor, now)
    for edit, due in (
        (Choose(kind="choose", step=1, picture=now.board.shown[1]), [1, 5, 2, 3, 4, 6]),
        (Fix(kind="lock", step=3), [1, 5, 2, 3, 4, 6]),
        (Fix(kind="unlock", step=1), [1, 5, 2, 3, 4, 6]),
        (Swap(kind="swap", a=1, b=2), [1, 2, 5, 3, 4, 6]),
        (Choose(kind="choose", step=0, picture=picture), [None, 2, 5, 3, 4, 6]),
        (Fix(kind="unlock", step=2), [None, 2, 5, 3, 4, 6]),
        (Retext(kind="retext", text=TEXT.replace("Third", "Last")), [None, 2, None, 3, 4, 6]),
        (Insert(kind="insert-after", step=4, text="Then more."), [None, 2, None, 3, 4, None, 6]),
    ):
        before, now = now, act(now, edit)
        told = order(now)
        assert [one if mark is None else mark for one, mark in zip(told, due, strict=True)] == told, edit
        assert now.row == changes(now, before.revision, None).row
    assert locked(now) == [0, 1, 3]


@pytest.mark.parametrize("how", ["blank", "ban"])
def test_the_others_close_the_gap(act, made, how):
    blank, ban = Fix(kind="blank", step=1), Ban(kind="ban", picture=made.board.shown[1])
    now = act(made, blank if how == "blank" else ban)
    told = order(now)
    shown = [one for one in told if one]
    assert (told[1] == 0) == (how == "blank")
    assert len(shown) == 5
    assert shown == sorted(shown) or shown[:-1] == sorted(shown[:-1])  # the first may be the finished thing
    back = act(now, give(now, 1, 2))
    assert order(back) == [1, 2, 3, 4, 5, 6]
    assert back.bans == ()


def test_crops_and_captions_go_with_the_photograph(act, made):
    framing = Framing(caption="By the river")
    now = act(made, Frame(kind="frame", step=4, picture=made.board.shown[4], framing=framing))
    now = act(now, give(now, 1, 5))
    assert [step.framing == framing for step in now.board.steps] == [False, True, *[False] * 4]
    assert locked(now) == [1]
    now = act(now, give(now, 1, 2))  # the one with a caption makes room
    (step,) = [step.position for step in now.board.steps if step.framing == framing]
    assert order(now)[step] == 5
    assert locked(now) == [1, step]


def test_without_a_row_giving_moves_nothing(editor, act):
    made = editor.create(TEXT, format="plain", options=BoardOptions(min_probability=0))
    assert made.row is None
    picture = made.board.shown[4]
    now = act(made, Choose(kind="choose", step=1, picture=picture))
    assert now.board.shown == {**made.board.shown, 1: picture}


def test_naming_chooses_all_unlocked_steps_again(editor, act, options):
    made = editor.create(TEXT, format="plain", options=BoardOptions(min_probability=0))
    made = act(made, Fix(kind="lock", step=0))
    now = act(made, SetOptions(kind="options", options=options))
    assert now.board.shown[0] == made.board.shown[0]
    told = order(now)[1:]
    assert told == sorted(told)
    assert 0 not in told
    loose = act(now, SetOptions(kind="options", options=options.model_copy(update={"order": "any"})))
    assert loose.row.order == "any"
    assert {one.place for one in loose.row.photographs} == {None}
    assert act(loose, SetOptions(kind="options", options=BoardOptions(min_probability=0))).row is None


def test_only_what_a_person_did_is_preferred(editor, act, made):
    now = act(made, give(made, 1, 5))
    act(now, Fix(kind="blank", step=3))
    (choice,) = editor.projects.read(made.id).choices
    assert (choice.step, choice.shown, choice.chosen) == (1, made.board.shown[1], made.board.shown[4])


def test_new_photographs_wait_and_the_steps_of_those_that_have_gone_are_open(drawn, tmp_path):
    folder = walked(drawn, tmp_path)
    engine = Engine(tmp_path / "lib")
    editor = ProjectEditor(engine, Projects(tmp_path / "projects"))
    options = BoardOptions(named=(str(folder),), min_probability=0)
    made = editor.create(TEXT, format="plain", options=options)
    gone = made.board.shown[5]
    editor.edit(made.id, 1, Fix(kind="lock", step=5))
    for file in (folder / "IMG_0006.png", folder.parent / "steps/step 6.png"):
        file.unlink()
    for number, page in ((0, 2), (7, 3)):
        (folder.parent / f"images/s001-0{page}.png").rename(folder / f"IMG_000{number}.png")
    indexed(folder.parent)
    engine.refresh()
    now = editor.get(made.id)
    assert now.board.shown == made.board.shown
    assert [one.new for one in now.row.photographs] == [True, *[False] * 5, True]
    assert now.row.gone == (gone,)
    assert 5 in [one.position for one in editor.preview(made.id, 2).steps]
    now = editor.edit(made.id, 2, give(now, 0, 3))
    assert [(one.step is None, one.new) for one in now.row.photographs if one.new] == [(True, True)] * 2
    assert sorted(order(now)) == [0, 2, 3, 4, 5, 6]
    assert locked(now) == [0]
    assert now.options == options
    assert now.board.settings["named"] == str(folder)
    told = editor.preview(made.id, 3)
    again = editor.edit(made.id, 3, Again(kind="again"))
    assert all(again.board.steps[one.position] == one.after for one in told.steps)
    assert again.row.gone == ()
    assert not any(one.new for one in again.row.photographs)
    assert 0 not in order(again)
