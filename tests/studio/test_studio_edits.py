"""An edit changes the steps it names and no other; choosing again is an act of its own."""

import pytest

from limner.match.illustrate import BoardOptions
from limner.studio.edits import Again, Ban, Choose, Fix, Retext, SetOptions, Swap
from limner.studio.engine import illustrate_story
from limner.studio.project_editor import StaleError
from limner.studio.projects import digest
from limner.studio.step_edits import Constraints

TEN = (
    "A fox looks out.",
    "The rabbit bakes a cake.",
    "Snow falls.",
    "A boat sails.",
    "The fox runs to the hill.",
    "A kite flies.",
    "The rabbit sleeps in bed.",
    "A cat reads a book.",
    "It rains on the tree.",
    "The moon shines.",
)
OPTIONS = BoardOptions(min_probability=0)


@pytest.fixture
def ten(editor):
    """A project of ten steps, each with a picture."""
    return editor.create("\n\n".join(TEN), format="plain", options=OPTIONS)


def changed(before, after):
    """Steps whose picture, reason or numbers are not what they were."""
    pairs = zip(before.board.steps, after.board.steps, strict=True)
    return [step for step, (old, new) in enumerate(pairs) if old != new]


def states(project):
    return [step.state for step in project.steps]


def unused(editor, project, step):
    """The last picture offered that no step shows."""
    items = editor.strip(project.id, step, 22).items
    return next(
        one.picture.id for one in reversed(items) if one.picture.id not in project.board.shown.values()
    )


def test_three_wrong_steps_of_ten_take_three_acts_and_disturb_no_other(editor, ten):
    now, wrong = ten, (2, 5, 8)
    for step in wrong:
        picture = ten.board.shown[4] if step == 2 else unused(editor, now, step)
        after = editor.edit(now.id, now.revision, Choose(kind="choose", step=step, picture=picture))
        assert changed(now, after) == [step]
        assert after.board.shown[step] == picture
        now = after
    assert [one.revision for one in editor.projects.read(ten.id).states] == [1, 2, 3, 4]
    assert changed(ten, now) == list(wrong)
    assert states(now) == ["locked" if step in wrong else "free" for step in range(10)]
    pins = {step: now.board.shown[step] for step in wrong}
    again = illustrate_story(editor.engine.illustrator(), now.board.story, OPTIONS, Constraints(pins=pins))
    moved = [step for step in range(10) if again.shown[step] != now.board.shown[step]]
    assert 4 in moved  # its picture is taken, if the others were chosen again


def test_every_act_on_one_step_leaves_the_others_as_they_are(editor, ten):
    for kind in ("lock", "unlock", "blank", "unlock"):
        after = editor.edit(ten.id, ten.revision, Fix(kind=kind, step=3))
        assert set(changed(ten, after)) <= {3}, kind
        ten = after
    swapped = editor.edit(ten.id, ten.revision, Swap(kind="swap", a=1, b=6))
    assert changed(ten, swapped) == [1, 6]
    assert (swapped.board.shown[1], swapped.board.shown[6]) == (ten.board.shown[6], ten.board.shown[1])


def test_unlocking_keeps_what_is_shown_and_says_no_more_that_it_was_fixed(editor, ten):
    picture = unused(editor, ten, 2)
    locked = editor.edit(ten.id, 1, Choose(kind="choose", step=2, picture=picture))
    free = editor.edit(ten.id, 2, Fix(kind="unlock", step=2))
    assert states(free) == ["free"] * 10
    assert free.board.shown == locked.board.shown
    step = free.board.steps[2]
    assert (locked.board.steps[2].origin, step.origin) == ("pinned", "decoded")
    assert step.gap < 0
    assert "every other picture matches less" not in step.reason
    assert "the text as a whole" not in step.reason


def test_the_picture_of_another_step_is_not_taken_from_it(editor, ten):
    picture = ten.board.shown[4]
    after = editor.edit(ten.id, 1, Choose(kind="choose", step=9, picture=picture))
    assert changed(ten, after) == [9]
    assert after.board.shown[4] == after.board.shown[9] == picture


def test_a_ban_changes_the_steps_that_show_the_picture(editor, ten):
    picture = ten.board.shown[0]
    twice = editor.edit(ten.id, 1, Choose(kind="choose", step=7, picture=picture))
    banned = editor.edit(ten.id, 2, Ban(kind="ban", picture=picture))
    shows = banned.board.shown
    assert picture not in shows.values()
    assert {step for step, one in twice.board.shown.items() if shows[step] != one} == {0, 7}
    assert states(banned) == ["free"] * 10
    named = [other.picture.id for step in banned.board.steps for other in step.runners_up]
    assert picture not in named
    back = editor.edit(ten.id, 3, Ban(kind="unban", picture=picture))
    assert back.board.shown == shows


def test_a_step_chosen_anew_shows_what_it_would_in_the_whole(editor, ten):
    blank = editor.edit(ten.id, 1, Fix(kind="blank", step=4))
    free = editor.edit(ten.id, 2, Fix(kind="unlock", step=4))
    assert changed(blank, free) == [4]
    assert free.board.shown == ten.board.shown
    was, now = ten.board.steps[4], free.board.steps[4]
    assert now.origin == "decoded"
    assert now.chosen.score == pytest.approx(was.chosen.score, abs=1e-6)
    assert now.chosen.agreement == pytest.approx(was.chosen.agreement, abs=1e-6)


def test_locking_all_others_leaves_one_step_open(editor, ten):
    picture = ten.board.shown[1]
    locked = editor.edit(ten.id, 1, Fix(kind="lock-others", step=1))
    assert [step for step, state in enumerate(states(locked)) if state == "free"] == [1]
    assert locked.board.shown == ten.board.shown
    assert {one.position for one in editor.preview(ten.id, 2).steps} <= {1}
    kept = editor.edit(ten.id, 2, Fix(kind="lock", step=1))
    kept = editor.edit(ten.id, 3, Fix(kind="lock-others", step=0))
    assert "free" not in states(kept)
    assert kept.board.shown[1] == picture


def test_a_new_text_is_illustrated_where_its_words_are_new(editor, ten):
    words = ["It is morning.", *TEN[:4], "A cat sits on the hill.", *TEN[5:9]]
    after = editor.edit(ten.id, 1, Retext(kind="retext", text="\n\n".join(words)))
    old, new = ten.board.steps, after.board.steps
    for before, now in {0: 1, 1: 2, 2: 3, 3: 4, 5: 6, 6: 7, 7: 8, 8: 9}.items():
        assert new[now] == old[before].model_copy(update={"position": now})
    assert states(after) == ["free"] * 10
    assert [step.text for step in after.board.story.steps] == words


class TestChoosingAgain:
    """Previewed, then taken whole or in part."""

    @pytest.fixture
    def pinned(self, editor, ten):
        """Three steps were mended with pictures of others, which would follow if chosen again."""
        for step in range(3):
            picture = ten.board.shown[step + 5]
            now = editor.edit(ten.id, step + 1, Choose(kind="choose", step=step, picture=picture))
        return now

    def test_a_preview_changes_nothing_and_says_what_would_change(self, editor, pinned):
        told = editor.preview(pinned.id, 4)
        assert editor.get(pinned.id) == pinned
        assert told.revision == 4
        assert {5, 6, 7} <= {one.position for one in told.steps}
        due = illustrate_story(
            editor.engine.illustrator(),
            pinned.board.story,
            OPTIONS,
            Constraints(pins={step: pinned.board.shown[step] for step in range(3)}),
        )
        for one in told.steps:
            assert one.before == pinned.board.steps[one.position]
            assert one.after == due.steps[one.position]
        silent = set(range(10)) - {one.position for one in told.steps}
        assert all(due.shown[step] == pinned.board.shown[step] for step in silent)

    def test_all_of_it(self, editor, pinned):
        told = editor.preview(pinned.id, 4)
        after = editor.edit(pinned.id, 4, Again(kind="again"))
        for one in told.steps:
            assert after.board.steps[one.position] == one.after
        assert states(after) == states(pinned)
        assert editor.undo(pinned.id, 5).board == pinned.board

    def test_some_of_it(self, editor, pinned):
        told = editor.preview(pinned.id, 4)
        taken, *others = told.steps
        after = editor.edit(pinned.id, 4, Again(kind="again", steps=(taken.position,)))
        assert after.board.steps[taken.position] == taken.after
        for one in others:
            assert after.board.steps[one.position] == one.before
        assert editor.edit(pinned.id, 5, Again(kind="again", steps=())).board.shown == after.board.shown

    def test_a_picture_that_comes_to_stand_twice_is_named(self, editor, ten):
        editor.edit(ten.id, 1, Swap(kind="swap", a=3, b=4))
        editor.edit(ten.id, 2, Fix(kind="unlock", step=3))
        begun = editor.edit(ten.id, 3, Fix(kind="unlock", step=4))
        assert begun.repeated == ()
        assert [one.position for one in editor.preview(ten.id, 4).steps] == [3, 4]  # back to their own
        some = editor.edit(ten.id, 4, Again(kind="again", steps=(3,)))
        assert some.repeated == ((3, 4),)
        assert editor.get(begun.id).repeated == some.repeated
        assert editor.edit(begun.id, 5, Again(kind="again")).repeated == ()
        editor.undo(begun.id, 6)
        allowed = OPTIONS.model_copy(update={"allow_repeats": True})
        free = editor.edit(begun.id, 7, SetOptions(kind="options", options=allowed, steps=()))
        assert free.board.shown == some.board.shown
        assert free.repeated == ()

    def test_other_options(self, editor, pinned):
        cautious = BoardOptions(show="cautious")
        told = editor.preview(pinned.id, 4, cautious)
        assert editor.get(pinned.id).options == OPTIONS
        assert told.steps
        after = editor.edit(pinned.id, 4, SetOptions(kind="options", options=cautious, steps=()))
        assert after.options == cautious
        assert after.board.settings["show"] == "cautious"
        assert after.board.shown == pinned.board.shown
        whole = editor.edit(pinned.id, 5, SetOptions(kind="options", options=cautious))
        for one in told.steps:
            assert whole.board.steps[one.position] == one.after

    def test_what_was_seen_is_what_is_taken(self, editor, pinned, monkeypatch):
        told = editor.preview(pinned.id, 4)
        monkeypatch.setattr(
            "limner.studio.project_editor.illustrate_story", lambda *_: pytest.fail("chosen twice")
        )
        after = editor.edit(pinned.id, 4, Again(kind="again"))
        assert after.board.steps[told.steps[0].position] == told.steps[0].after

    def test_of_a_revision_that_is_gone(self, editor, pinned):
        with pytest.raises(StaleError):
            editor.preview(pinned.id, 3)


def test_over_http(guarded, project, edit):
    url = f"/api/projects/{project['id']}/preview"
    body = {"revision": 1, "options": {"min_probability": 0.9}}
    told = guarded.post(url, json=body).json()
    gone = [one["position"] for one in told["steps"] if one["after"]["chosen"] is None]
    assert gone
    after = edit(project, kind="options", options=body["options"], steps=gone[:1])
    shows = [step["chosen"] is None for step in after["board"]["steps"]]
    assert [step for step, blank in enumerate(shows) if blank] == gone[:1]
    assert guarded.post(url, json=body).status_code == 409
    assert guarded.post(url, json={"revision": 2, "options": {"pins": {"0": None}}}).status_code == 422
    assert edit(after, kind="again")["revision"] == 3


def test_offers_name_their_step_and_revision_and_are_refused_elsewhere(guarded, project, edit):
    url = f"/api/projects/{project['id']}"
    strip = guarded.get(f"{url}/steps/1/candidates").json()
    assert (strip["step"], strip["revision"]) == (1, 1)
    offer = {"step": 1, "revision": 1}
    picture = strip["items"][3]["picture"]["id"]
    refused = edit(project, 422, kind="choose", step=2, picture=picture, offer=offer)
    assert "offered for step 1, not for step 2" in refused["detail"]
    assert guarded.get(url).json() == project
    taken = edit(project, kind="choose", step=1, picture=picture, offer=offer)
    stale = edit(taken, 409, kind="choose", step=1, picture=strip["items"][0]["picture"]["id"], offer=offer)
    assert stale["type"] == "urn:limner:stale-revision"
    assert guarded.get(url).json() == taken
    assert [one["step"] for one in guarded.get(f"{url}/preferences").json()] == [1]


def test_a_picture_that_left_the_library_stays_where_it_stood(editor, ten):
    """What a step shows is in the storyboard itself: edits elsewhere do not touch it, locked or not."""
    gone = "0" * 64
    found = editor.projects.read(ten.id)
    steps = list(ten.board.steps)
    for step in (1, 6):
        picture = steps[step].chosen.picture.model_copy(update={"id": gone})
        chosen = steps[step].chosen.model_copy(update={"picture": picture})
        steps[step] = steps[step].model_copy(update={"chosen": chosen})
    board = ten.board.model_copy(update={"steps": tuple(steps)})
    state = found.state.model_copy(update={"pins": {6: gone}})
    state = state.model_copy(update={"board": digest(board.model_dump_json())})
    editor.projects.save(found.model_copy(update={"states": (state,)}), board=board)
    assert editor.strip(ten.id, 3, 5).items
    now = editor.edit(ten.id, 1, Fix(kind="blank", step=3))
    assert (now.board.steps[1], now.board.steps[6]) == (steps[1], steps[6])
    now = editor.edit(ten.id, 2, Again(kind="again"))
    assert now.board.steps[6] == steps[6]
    assert now.board.shown[1] != gone


def test_what_is_held_guides_nothing(editor, ten):
    """A step that only stays does not make the others look like it, as a pinned one does."""
    asked, board = editor.engine.illustrator(), ten.board
    pulled = []
    for step in range(10):
        others = {place: one for place, one in board.shown.items() if place != step}
        held = illustrate_story(asked, board.story, OPTIONS, held=others)
        assert held.steps[step] == board.steps[step]
        wished = illustrate_story(asked, board.story, OPTIONS, Constraints(pins=others))
        pulled += [step] * (wished.steps[step] != board.steps[step])
    assert pulled
