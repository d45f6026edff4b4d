"""Places that a text marks for pictures: their words, new ones, and the cover, in a project."""

import io
import zipfile

import pytest
from PIL import Image

from limner.errors import DataError
from limner.match.illustrate import BoardOptions
from limner.studio.edits import Again, Choose, Fix, Retext, SetOptions
from limner.studio.pictures import exported, without_missing
from limner.studio.project_editor import ProjectEditor, StaleError
from limner.studio.projects import Projects
from limner.studio.step_edits import Insert, Join, Move, Place, Reword, Split
from limner.text import edit as text_edit
from limner.text.read import read_text

KNIFE = """# Sharpening a knife

Soak the stone for ten minutes.

![stone under water]()
![bubbles rising]()

Draw the blade over it at fifteen degrees.

[photo: the angle between blade and stone]
"""
DAY = """# A day

Out of the house.

1. A fox looks out.
2. The rabbit bakes a cake.
3. A boat sails.

So it ended.
"""
OPTIONS = BoardOptions(min_probability=0)


@pytest.fixture
def marked(editor):
    return editor.create(KNIFE, format="markdown", options=OPTIONS)


@pytest.fixture
def day(editor):
    return editor.create(DAY, format="markdown", options=OPTIONS)


@pytest.fixture
def act(editor):
    return lambda project, edit: editor.edit(project.id, project.revision, edit)


def others(project, *steps):
    """The storyboard of all other steps, without their positions."""
    kept = [step for step in project.board.steps if step.position not in steps]
    return [step.model_copy(update={"position": 0}) for step in kept]


def cover(project, picture):
    """The edit that lets a picture stand for the text."""
    options = project.options.model_copy(update={"cover": picture})
    return SetOptions(kind="options", options=options)


def texts(project):
    return [step.text for step in project.board.story.steps]


def test_a_marked_text_has_its_places_as_steps(marked):
    assert texts(marked) == ["stone under water", "bubbles rising", "the angle between blade and stone"]
    assert marked.board.story.places == {0, 1, 2}
    assert len(set(marked.board.shown.values())) == 3


def test_words_of_a_place_change_its_picture_and_mark_alone(marked, act):
    before = marked.board.steps[2]
    after = act(marked, Reword(kind="reword", step=2, text=before.runners_up[0].picture.captions[0].text))
    assert after.board.steps[2].picture == before.runners_up[0].picture
    assert others(after, 2) == others(marked, 2)
    assert after.text == marked.text.replace("the angle between blade and stone", texts(after)[2])
    assert "[photo: " in after.text


@pytest.mark.parametrize(
    ("typed", "due"),
    [
        ("a [red]\nkettle", "[photo: a red kettle]"),
        ("by Maria Keller", "![by Maria Keller]()"),  # in brackets, it would be a credit
        ("TODO", "[photo: ]"),
    ],
)
def test_the_mark_says_what_was_typed_or_is_written_anew(marked, act, typed, due):
    after = act(marked, Reword(kind="reword", step=2, text=typed))
    assert after.text.endswith(f"\n\n{due}\n")
    read = read_text(after.text, format="markdown").story
    assert [step.text for step in read.steps] == texts(after)


def test_a_place_without_words_asks_for_what_stands_before_it(marked, act):
    after = act(marked, Reword(kind="reword", step=2, text=""))
    assert texts(after)[2] == "Draw the blade over it at fifteen degrees."
    again = act(after, Reword(kind="reword", step=2, text="a boat"))
    assert texts(again)[2] == "a boat"
    assert "![a boat]()" in again.text


def test_a_locked_place_keeps_its_picture_whatever_its_words(marked, act):
    locked = act(marked, Fix(kind="lock", step=0))
    after = act(locked, Reword(kind="reword", step=0, text="something wholly else"))
    assert after.board.shown == marked.board.shown


@pytest.mark.parametrize("at", range(6))
def test_a_place_is_left_anywhere_and_changes_no_other_step(editor, day, act, at):
    after = act(day, Place(kind="place", at=at, text="a kite in the wind"))
    new = next(iter(after.board.story.places))
    assert len(after.board.steps) == 4
    assert others(after, new) == others(day)
    assert [text for n, text in enumerate(texts(after)) if n != new] == texts(day)
    assert after.board.steps[new].picture is not None
    assert [line for line in after.text.splitlines() if line.strip() and "![" not in line] == [
        line for line in DAY.splitlines() if line.strip()
    ]
    again = act(after, Retext(kind="retext", text=after.text + "\nThe end.\n"))
    assert texts(again) == texts(after)
    assert again.board.steps == after.board.steps
    reopened = ProjectEditor(editor.engine, Projects(editor.projects.folder)).get(day.id)
    assert (reopened.board, reopened.text) == (again.board, again.text)
    back = editor.undo(day.id, again.revision)
    back = editor.undo(day.id, back.revision)
    assert (back.text, back.board, back.by) == (day.text, day.board, day.by)


def test_a_place_in_prose_is_filled_although_prose_has_few_pictures(editor, act):
    words = "The fox went out of his house and over the hill to the sea, where he looked for a boat." * 2
    prose = editor.create("\n\n".join([words] * 6), format="plain", options=OPTIONS)
    shown = sum(step.picture is not None for step in prose.board.steps)
    assert shown < 6
    after = act(prose, Place(kind="place", at=3, text="a boat"))
    assert after.board.steps[3].picture is not None
    assert others(after, 3) == others(prose)


def test_places_among_places_leave_the_others_alone(marked, act):
    after = act(marked, Place(kind="place", at=2))
    assert texts(after)[1] == "Soak the stone for ten minutes."
    assert others(after, 1) == others(marked)
    assert (after.by, after.board.story.places) == (None, {0, 1, 2, 3})
    moved = act(after, Move(kind="move", step=1, to=3))
    assert others(moved, 3) == others(marked)
    assert moved.text.rstrip().endswith("\n\n![]()")
    gone = act(moved, Join(kind="remove", step=3))
    assert (gone.text.split(), others(gone)) == (marked.text.split(), others(marked))


def test_a_step_with_a_mark_inside_keeps_its_words_around_it(editor, act):
    text = "# Box\n\n1. Saw it.\n\n   ![a saw]()\n\n   Then sand it.\n2. Nail it.\n"
    box = editor.create(text, format="markdown", by="step", options=OPTIONS)
    assert texts(box) == ["Saw it.\n\nThen sand it.", "a saw", "Nail it."]
    after = act(box, Reword(kind="reword", step=1, text="a long saw"))
    assert others(after, 1) == others(box, 1)
    assert texts(after) == ["Saw it.\n\nThen sand it.", "a long saw", "Nail it."]
    after = act(after, Reword(kind="reword", step=0, text="Saw it well.\n\nThen sand it."))
    assert after.text == text.replace("Saw it.", "Saw it well.").replace("a saw", "a long saw")
    with pytest.raises(DataError, match="step 1: its words below a mark stay here"):
        act(after, Reword(kind="reword", step=0, text="Saw it well.\n\nThen paint it."))


def test_what_a_place_is_not_is_refused_in_one_line(marked, day, act):
    for edit in (Split(kind="split", step=0, at=5), Join(kind="merge", step=0)):
        with pytest.raises(DataError, match=r"step 1 is a place for a picture"):
            act(marked, edit)
    for at in (9, 1000):
        with pytest.raises(DataError, match=rf"no place before block {at}: expected 0 to 5"):
            act(day, Place(kind="place", at=at))
    item = read_text("1. Mix.\n\n   For long.\n2. Bake.\n", format="markdown").story
    with pytest.raises(DataError, match="not inside a step"):
        text_edit.add_place(item, 1)


def test_a_place_is_left_only_in_the_text_that_was_seen(editor, day, act):
    act(day, Fix(kind="lock", step=0))
    after = act(day, Place(kind="place", at=2))  # made for an earlier revision
    assert after.steps[0].state == "locked"
    act(after, Insert(kind="insert-after", step=0, text="A kite flies."))
    with pytest.raises(StaleError):
        act(after, Place(kind="place", at=2))


def test_exports_fill_the_marks_and_show_no_blank_place(marked, act):
    blank = act(marked, Fix(kind="blank", step=1))
    page = exported(blank.board, blank.title, "html").data.decode()
    assert "bubbles rising" not in page
    assert page.count('class="own"') == 2
    packed = zipfile.ZipFile(io.BytesIO(exported(blank.board, blank.title, "md").data))
    text = packed.read("Sharpening-a-knife.md").decode()
    assert "![bubbles rising]()" in text
    assert "[photo: " not in text
    assert sum("/place-" in name for name in packed.namelist()) == 2


def test_a_cover_is_chosen_and_taken_away_and_no_step_changes(editor, day, act):
    offered = [one.picture.id for step in day.board.steps for one in step.runners_up]
    picture = next(one for one in offered if one not in day.board.shown.values())
    after = act(day, cover(day, picture))
    assert (after.board.cover.id, after.options.cover) == (picture, picture)
    assert after.board.steps == day.board.steps
    reworded = act(after, Reword(kind="reword", step=0, text="The fox sleeps."))
    again = act(reworded, Again(kind="again"))
    assert (again.board.cover, again.board.settings["cover"]) == (after.board.cover, picture)
    packed = zipfile.ZipFile(io.BytesIO(exported(again.board, again.title, "md").data))
    assert any("/cover-" in name for name in packed.namelist())
    assert editor.summaries()[0].cover[0] == picture
    none = act(again, cover(again, "none"))
    assert (none.board.cover, none.board.settings["cover"]) == (None, "none")
    assert none.board.steps == again.board.steps
    back = editor.undo(day.id, none.revision)
    assert back.board.cover.id == picture
    with pytest.raises(DataError, match="000000"):
        act(back, cover(back, "0" * 64))
    with pytest.raises(DataError, match="000000"):
        editor.create(DAY, format="markdown", options=BoardOptions(cover="0" * 64))


def test_a_cover_whose_file_is_not_that_picture_is_left_out(day, act, tmp_path):
    after = act(day, cover(day, day.board.shown[1]))
    other = tmp_path / "other.png"
    Image.new("RGB", (8, 8)).save(other)
    wrong = after.board.cover.model_copy(update={"paths": (str(other),)})
    left, lines = without_missing(after.board.model_copy(update={"cover": wrong}))
    assert left.cover is None
    assert lines == (f"cover: the file {other} is missing or has changed; it is left out",)


def test_the_cover_that_a_text_names_is_kept_with_the_project(editor, tmp_path, act):
    file = tmp_path / "cake.png"
    Image.new("RGB", (40, 30), "red").save(file)
    text = f"---\nimage: cake.png\n---\n\n{DAY}".encode()
    made = editor.open(text, "day.md", folder=tmp_path, options=OPTIONS)
    file.unlink()
    now = editor.get(made.id)
    assert now.board.story.cover.path.startswith(str(editor.projects.folder / made.id))
    assert 'property="og:image"' in exported(now.board, now.title, "html").data.decode()
    again = act(now, Retext(kind="retext", text=now.text + "\nThe end.\n"))
    assert again.board.story.cover == now.board.story.cover


def test_a_picture_of_the_text_outside_the_library_can_be_its_cover(editor, tmp_path, act):
    file = tmp_path / "cake.png"
    Image.new("RGB", (40, 30), "red").save(file)
    text = DAY.replace("3. A boat sails.", "3. A boat sails.\n\n   ![a cake](cake.png)")
    made = editor.open(text.encode(), "day.md", folder=tmp_path, options=OPTIONS)
    shown = next(step.picture for step in made.board.steps if step.origin == "given")
    assert shown.id not in editor.engine.illustrator().library
    now = act(made, cover(made, shown.id))
    chosen = act(now, Choose(kind="choose", step=0, picture=made.board.shown[1]))
    again = act(chosen, Again(kind="again"))
    assert again.board.cover.id == shown.id
    assert again.board.settings["cover"] == shown.id
    copy = editor.get(editor.duplicate(made.id).id)
    assert copy.id in copy.board.cover.path


def told(project):
    """A project without what follows from the rest, and without its source."""
    board = {**project["board"], "wanted": None}
    board["story"] = {**board["story"], "markdown": None, "by": None}
    return {**project, "board": board}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "place", "at": 2, "text": "a kite"},
        {"kind": "reword", "step": 1, "text": "A goat."},
        {"kind": "remove", "step": 0},
        {"kind": "lock", "step": 0},
    ],
)
def test_the_changes_told_make_the_project_with_its_blocks(guarded, change):
    body = {"text": DAY, "format": "markdown", "options": {"min_probability": 0}}
    project = guarded.post("/api/projects", json=body).json()
    shown = project["board"]["steps"][1]["chosen"]["picture"]["id"]
    cover = {"kind": "options", "options": {**project["options"], "cover": shown}}
    url = f"/api/projects/{project['id']}"
    for edit in (cover, change):
        body = {"revision": project["revision"], "edit": edit}
        answer = guarded.post(f"{url}/edits", json=body).json()
        assert (answer["blocks"] is None) == (edit["kind"] in ("options", "lock"))
        project = applied(project, answer)
        assert told(project) == told(guarded.get(url).json())


def applied(project, changes):
    """A project with the changes of one answer, as a client makes it."""
    order, board = changes["order"] or range(changes["count"]), project["board"]
    story, steps, states = (
        [
            None if place is None else {**items[place], **({"position": n} if numbered else {})}
            for n, place in enumerate(order)
        ]
        for items, numbered in (
            (board["story"]["steps"], False),
            (board["steps"], True),
            (project["steps"], True),
        )
    )
    for step in changes["steps"]:
        at = step["position"]
        story[at], steps[at], states[at] = step["story"], step["board"], step["state"]
    if changes["runs"] is not None:
        story = [step | {"run": run} for step, run in zip(story, changes["runs"], strict=True)]
    blocks = board["story"]["blocks"] if changes["blocks"] is None else changes["blocks"]
    named = {name: value for name, value in changes.items() if name in project and name != "steps"}
    text = project["text"] if changes["text"] is None else changes["text"]
    whole = {name: changes[name] for name in ("cover", "threshold", "settings")} | {"steps": steps}
    told = board["story"] | changes["story"] | {"steps": story, "blocks": blocks}
    return project | named | {"text": text, "steps": states, "board": board | whole | {"story": told}}
