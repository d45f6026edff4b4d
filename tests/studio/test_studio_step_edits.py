"""Words and pictures of one step change, all others stay, and undo brings back exactly what was."""

import random

import pytest

from limner.errors import DataError
from limner.match.illustrate import BoardOptions
from limner.records import Area, Framing
from limner.studio.edits import Choose, Fix, Retext, Retitle, Swap
from limner.studio.pictures import without_missing
from limner.studio.schemas import shown
from limner.studio.step_edits import (
    Frame,
    Insert,
    Join,
    Move,
    Reword,
    Split,
)

TEN = (
    "A fox looks out. It is cold.",
    "The rabbit bakes a cake.",
    "Snow falls. The fox sleeps.",
    "A boat sails.",
    "The fox runs to the hill.",
    "A kite flies.",
    "The rabbit sleeps in bed.",
    "A cat reads a book.",
)
OPTIONS = BoardOptions(min_probability=0)


@pytest.fixture
def story(editor):
    return editor.create("# A day\n\n" + "\n\n".join(TEN), format="markdown", by="paragraph", options=OPTIONS)


@pytest.fixture
def act(editor):
    return lambda project, edit: editor.edit(project.id, project.revision, edit)


def texts(project):
    return [step.text for step in project.board.story.steps]


def placed(step, position):
    return step.model_copy(update={"position": position})


def test_words_change_in_place_and_only_their_step_is_chosen_for(story, act):
    after = act(
        story, Reword(kind="reword", step=3, text="The rabbit bakes a cake for the cat.", title="Cake")
    )
    assert texts(after)[3] == "The rabbit bakes a cake for the cat."
    assert after.board.story.steps[3].title == "Cake"
    same = [step for step in range(8) if after.board.steps[step] == story.board.steps[step]]
    assert same == [0, 1, 2, 4, 5, 6, 7]
    assert after.board.steps[3] != story.board.steps[3]
    assert "The rabbit bakes a cake for the cat." in after.text


def test_a_locked_step_keeps_its_picture_whatever_its_words(story, act):
    locked = act(story, Fix(kind="lock", step=3))
    after = act(locked, Reword(kind="reword", step=3, text="Something wholly else."))
    assert after.board.shown == story.board.shown
    assert after.steps[3].state == "locked"
    blank = act(after, Fix(kind="blank", step=4))
    after = act(blank, Reword(kind="reword", step=4, text="Something wholly else."))
    assert after.board.shown[4] is None
    assert after.steps[4].state == "blank"


def test_signs_that_change_move_no_picture(story, act):
    after = act(story, Reword(kind="reword", step=3, text="A boat sails!"))
    assert after.board.steps == story.board.steps
    assert texts(after)[3] == "A boat sails!"


def test_what_is_fixed_moves_with_its_step(story, act):
    now = act(act(story, Fix(kind="lock", step=4)), Fix(kind="blank", step=6))
    now = act(now, Insert(kind="insert-before", step=2, text="A new step about a boat."))
    assert [one.state for one in now.steps] == ["free"] * 5 + ["locked", "free", "blank", "free"]
    now = act(now, Move(kind="move", step=5, to=0))
    assert [one.state for one in now.steps] == ["locked"] + ["free"] * 6 + ["blank", "free"]
    assert now.board.shown[0] == story.board.shown[4]
    now = act(now, Join(kind="remove", step=1))
    assert [one.state for one in now.steps] == ["locked"] + ["free"] * 5 + ["blank", "free"]
    now = act(now, Split(kind="split", step=0, at=8))
    assert texts(now)[:2] == ["The fox", "runs to the hill."]
    assert [one.state for one in now.steps[:2]] == ["locked", "free"]
    assert now.board.shown[0] == story.board.shown[4]


def test_merged_steps_show_the_picture_of_the_first_with_its_caption(story, act):
    locked = act(act(story, Fix(kind="lock", step=3)), Fix(kind="lock", step=4))
    framed = act(locked, frame(locked, 3, caption="The boat"))
    after = act(framed, Join(kind="merge", step=3))
    assert texts(after)[3] == "A boat sails. The fox runs to the hill."
    assert after.board.shown[3] == story.board.shown[3]
    assert after.board.steps[3].framing.caption == "The boat"
    assert after.steps[3].state == "locked"


def frame(project, step, picture=None, **framing):
    return Frame(
        kind="frame",
        step=step,
        picture=picture or project.board.shown[step],
        framing=Framing(**framing),
    )


def test_swapped_steps_swap_their_crops_and_captions(story, act):
    framed = act(story, frame(story, 2, alt="A thing"))
    swapped = act(framed, Swap(kind="swap", a=2, b=5))
    assert swapped.board.shown[5] == story.board.shown[2]
    assert swapped.board.steps[5].framing.alt == "A thing"
    assert swapped.board.steps[2].framing == Framing()


def test_crop_focus_caption_and_alt_are_kept_and_go_with_their_picture(story, act):
    crop = Area(x=0.1, y=0.2, width=0.5, height=0.6)
    edit = frame(story, 1, crop=crop, focus=(0.3, 0.4), caption="Our cake", alt="A cake on a table")
    now = act(story, edit)
    assert now.board.steps[1].framing == edit.framing
    assert now.board.shown == story.board.shown
    moved = act(now, Move(kind="move", step=1, to=6))
    assert moved.board.steps[6].framing == now.board.steps[1].framing
    plain = act(moved, frame(moved, 6))
    assert plain.board.steps[6].framing == Framing()
    framed = act(plain, edit.model_copy(update={"step": 6}))
    replaced = act(framed, Choose(kind="choose", step=6, picture=story.board.shown[3]))
    assert replaced.board.steps[6].framing == Framing()
    with pytest.raises(DataError, match="does not show"):
        act(replaced, edit.model_copy(update={"step": 6}))


def test_the_title_is_that_of_the_text_and_stays_when_the_text_is_read_anew(story, act):
    named = act(story, Retitle(kind="retitle", title="A cold day"))
    assert (named.title, named.board.story.title) == ("A cold day", "A cold day")
    again = act(named, Retext(kind="retext", text=story.text.replace("A boat", "A ship")))
    assert again.board.story.title == "A cold day"
    other = act(again, Retext(kind="retext", text=again.text.replace("# A day", "# A night")))
    assert other.board.story.title == "A night"


def test_the_text_as_a_whole_says_what_the_steps_say(story, act):
    now = act(story, Split(kind="split", step=2, at=12))
    now = act(now, Join(kind="merge", step=4))
    now = act(now, Move(kind="move", step=0, to=3))
    locked = act(now, Fix(kind="lock", step=4))
    again = act(locked, Retext(kind="retext", text=locked.text + "\n\nThe moon shines.\n"))
    assert texts(again) == [*texts(locked), "The moon shines."]
    assert again.board.steps[:-1] == locked.board.steps
    assert again.steps[4].state == "locked"


KINDS = ("reword", "split", "merge", "insert", "remove", "move", "frame", "lock")


def some_edit(chance, project):
    """An edit that can be made there."""
    step = chance.randrange(len(project.steps))
    text, shown = project.board.story.steps[step].text, project.board.shown[step]
    kind, last = chance.choice(KINDS), len(project.steps) - 1
    made = Reword(kind="reword", step=step, text=f"{chance.choice(TEN)} Again.")
    if kind == "split" and " " in text:
        made = Split(kind="split", step=step, at=text.index(" "))
    elif kind == "merge" and step < last:
        made = Join(kind="merge", step=step)
    elif kind == "insert":
        made = Insert(kind=chance.choice(("insert-before", "insert-after")), step=step, text="A cat sleeps.")
    elif kind == "remove" and last > 2:
        made = Join(kind="remove", step=step)
    elif kind == "move":
        made = Move(kind="move", step=step, to=chance.randrange(last + 1))
    elif kind == "frame" and shown:
        made = frame(project, step, caption=chance.choice((None, "Words")))
    elif kind == "lock" and shown:
        made = Fix(kind="lock", step=step)
    return made


def matched(before, after, edit):
    """Steps of the storyboard after an edit that it does not name, with those they were."""
    step, count = edit.step, len(before)
    match edit:
        case Split():
            olds = [*range(step), None, None, *range(step + 1, count)]
        case Join(kind="merge"):
            olds = [*range(step), None, *range(step + 2, count)]
        case Join():
            olds = [*range(step), *range(step + 1, count)]
        case Insert():
            at = step + (edit.kind == "insert-after")
            olds = [*range(at), None, *range(at, count)]
        case Move():
            olds = [one for one in range(count) if one != step]
            olds.insert(edit.to, step)
        case _:
            olds = [None if one == step else one for one in range(count)]
    return [(old, new) for new, old in enumerate(olds) if old is not None]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_edits_keeps_every_other_step_and_is_undone_exactly(editor, story, act, seed):
    chance, seen = random.Random(seed), [story]
    for _ in range(12):
        before = seen[-1]
        edit = some_edit(chance, before)
        after = act(before, edit)
        pairs = matched(before.board.steps, after.board.steps, edit)
        assert len(after.board.steps) == len(after.board.story.steps) == len(after.steps)
        for old, new in pairs:
            assert placed(before.board.steps[old], new) == after.board.steps[new], (edit, old, new)
            assert before.steps[old].state == after.steps[new].state, (edit, old, new)
        seen.append(after)
    now = seen[-1]
    for due in reversed(seen[:-1]):
        now = editor.undo(now.id, now.revision)
        assert (now.text, now.board, now.steps) == (due.text, due.board, due.steps)
    for due in seen[1:]:
        now = editor.redo(now.id, now.revision)
        assert (now.text, now.board, now.steps) == (due.text, due.board, due.steps)


def test_over_http_words_and_pictures_of_a_step(guarded, project, edit):
    after = edit(project, kind="reword", step=1, text="The rabbit eats the cake.", title="Later")
    assert after["board"]["story"]["steps"][1]["title"] == "Later"
    shown = after["board"]["steps"][1]["chosen"]["picture"]["id"]
    framing = {"crop": {"x": 0, "y": 0, "width": 0.5, "height": 1}, "caption": "Mine"}
    after = edit(after, kind="frame", step=1, picture=shown, framing=framing)
    assert after["board"]["steps"][1]["framing"]["caption"] == "Mine"
    undone = guarded.post(f"/api/projects/{project['id']}/undo", json={"revision": after["revision"]}).json()
    assert undone["board"]["steps"][1]["framing"]["caption"] is None


BEYOND = {"x": 0.6, "y": 0, "width": 0.5, "height": 1}


@pytest.mark.parametrize(
    ("status", "change"),
    [
        (422, {"kind": "reword", "step": 1, "text": ""}),
        (422, {"kind": "reword", "step": 1, "text": "…"}),
        (422, {"kind": "reword", "step": 9, "text": "Words."}),
        (422, {"kind": "split", "step": 1, "at": 4000}),
        (422, {"kind": "merge", "step": 3}),
        (422, {"kind": "move", "step": 0, "to": 4}),
        (422, {"kind": "frame", "step": 0, "picture": "0" * 64, "framing": {}}),
        (422, {"kind": "frame", "step": 0, "picture": "0" * 64, "framing": {"caption": "x" * 2001}}),
        (
            422,
            {
                "kind": "frame",
                "step": 0,
                "picture": "0" * 64,
                "framing": {"crop": {"x": 0.6, "y": 0, "width": 0.5, "height": 1}},
            },
        ),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(guarded, project, edit, status, change):
    edit(project, status, **change)
    assert guarded.get(f"/api/projects/{project['id']}").json()["revision"] == project["revision"]


def test_pictures_whose_files_are_gone_are_left_out_one_by_one(editor, story):
    step = story.board.steps[1]
    gone = step.picture.model_copy(update={"id": "0" * 64, "paths": ("/gone/away.jpg",)})
    step = step.model_copy(update={"chosen": step.chosen.model_copy(update={"picture": gone})})
    board = story.board.model_copy(update={"steps": (story.board.steps[0], step, *story.board.steps[2:])})
    left, lines = without_missing(board)
    assert left.steps[0].picture == story.board.steps[0].picture
    assert left.steps[1].picture is None
    assert len(lines) == 1
    state = editor.projects.read(story.id)
    assert shown(state, story.text, board).missing == (1,)
