"""Candidates of one step: the numbers of the whole computation, at the cost of one step."""

import asyncio
import itertools
import random
import time

import numpy as np
import pytest
from pydantic import TypeAdapter

from limner.match import illustrate
from limner.match.illustrate import BoardOptions
from limner.studio.app import create_app
from limner.studio.edits import Ban, Choose, Edit, Fix
from limner.studio.engine import illustrate_story
from limner.studio.jobs import JobCancelledError, Stoppable

pytestmark = pytest.mark.slow

TIMES = itertools.count(2)
TEXT = "\n\n".join(
    (
        "A fox looks out.",
        "The rabbit bakes a cake.",
        "Snow falls.",
        "A boat sails. It rains on the tree.",
        "The fox runs to the hill.",
        "A kite flies.",
        "A cat reads.",
        "The moon shines.",
    )
)


def whole(editor, project, step, limit):
    """Candidates of a step by the computation for all steps, the others held."""
    found = editor.projects.read(project.id)
    board, state = editor.projects.board(found), found.state
    held = {one: picture for one, picture in board.shown.items() if one != step}
    pins = {one: picture for one, picture in state.pins.items() if one != step}
    options = BoardOptions(candidates=max(state.options.candidates, limit), runners_up=limit)
    fixed = state.model_copy(update={"pins": pins})
    made_anew = illustrate_story(editor.engine.illustrator(), board.story, options, fixed, held=held).steps[
        step
    ]
    chosen = () if made_anew.chosen is None else (made_anew.chosen,)
    return [*chosen, *made_anew.runners_up][:limit]


def same(strip, others):
    """Whether two lists of candidates tell the same, to rounding."""
    assert [one.picture.id for one in strip] == [one.picture.id for one in others]
    for one, other in zip(strip, others, strict=True):
        assert (one.matched, one.channels) == (other.matched, pytest.approx(other.channels, abs=1e-4))
        for name in ("score", "agreement", "probability"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-6)


@pytest.fixture
def eight(editor):
    """A project of eight steps, one of which holds no words; no other test has weighed its text."""
    return editor.create(TEXT.replace("A kite flies", f"A kite flies {next(TIMES)} times"), format="plain")


@pytest.fixture
def weighings(monkeypatch):
    """One entry each time that all pictures are weighed for all steps."""
    calls, score_board = [], illustrate.score_board

    def counted(*given, **named):
        calls.append(1)
        return score_board(*given, **named)

    monkeypatch.setattr(illustrate, "score_board", counted)
    return calls


@pytest.mark.parametrize("limit", [2, 12])
def test_candidates_are_those_of_the_whole_computation_after_every_kind_of_edit(editor, eight, limit):
    items = editor.strip(eight.id, 4, 12).items
    acts = (
        Choose(kind="choose", step=4, picture=items[2].picture.id),
        Fix(kind="blank", step=2),
        Ban(kind="ban", picture=items[1].picture.id),
        Fix(kind="lock-others", step=0),
    )
    for act in (None, *acts):
        if act is not None:
            eight = editor.edit(eight.id, eight.revision, act)
        for step in range(len(eight.board.steps)):
            same(editor.strip(eight.id, step, limit).items, whole(editor, eight, step, limit))


def test_further_steps_of_a_storyboard_and_the_next_after_a_choice_weigh_nothing_anew(
    editor, eight, weighings
):
    items = editor.strip(eight.id, 4, 12).items
    for step in range(6):
        editor.strip(eight.id, step, 12)
    assert len(weighings) == 1
    choice = Choose(kind="choose", step=4, picture=items[2].picture.id)
    editor.edit(eight.id, eight.revision, choice)
    for step in (4, 5, 0):
        editor.strip(eight.id, step, 12)
    assert len(weighings) == 2, "once after the choice, which weighs nothing"


def test_an_edit_explains_no_step_that_stays(editor, eight, monkeypatch):
    explained, step_of = [], illustrate.explain.__globals__["_step"]

    def noted(board, step, *rest):
        explained.append(step)
        return step_of(board, step, *rest)

    picture = editor.strip(eight.id, 4, 12).items[2].picture.id
    monkeypatch.setitem(illustrate.explain.__globals__, "_step", noted)
    editor.edit(eight.id, eight.revision, Choose(kind="choose", step=4, picture=picture))
    assert len(explained) == 1


def test_weighing_ends_between_its_parts_once_nobody_waits(editor, eight):
    class Leaving(Stoppable):
        """Leaves at a later sign."""

        def __init__(self, signs):
            super().__init__()
            self.signs = signs

        def advance(self, count):
            self.signs -= 1
            if not self.signs:
                self.stop.set()
            super().advance(count)

    for signs in (1, 3, 5):
        with pytest.raises(JobCancelledError):
            editor.strip(eight.id, 4, 12, progress=Leaving(signs))


def test_a_request_for_candidates_whose_client_is_gone_ends(studio, monkeypatch):
    project = studio.editor.create(TEXT, format="plain")

    def endless(*_, progress, **__):
        for _ in range(3000):
            progress.advance(0)
            time.sleep(0.01)
        pytest.fail("it runs on")

    monkeypatch.setattr(illustrate, "score_board", endless)
    came = iter([{"type": "http.request", "body": b"", "more_body": False}])
    sent = []

    async def receive():
        return next(came, {"type": "http.disconnect"})

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "headers": [(b"host", b"127.0.0.1")], "query_string": b""}
    scope |= {"path": f"/api/projects/{project.id}/steps/1/candidates", "http_version": "1.1"}
    asyncio.run(create_app(studio)(scope, receive, send))
    assert sent[0]["status"] != 200


@pytest.mark.parametrize("seed", [1, 2])
def test_what_was_weighed_before_changes_no_number(editor, eight, monkeypatch, seed):
    score_board, reused = illustrate.score_board, []

    def compared(*given, known=None, **named):
        found = score_board(*given, known=known, **named)
        if known is not None and found.words is known.words:
            reused.append(found)
            fresh = score_board(*given, **named)
            for name in ("items", "there", "found", "groups"):
                np.testing.assert_array_equal(getattr(found.pool, name), getattr(fresh.pool, name))
            for name, one in fresh.pool.channels.items():
                for part, due in zip(found.pool.channels[name].arrays, one.arrays, strict=True):
                    np.testing.assert_allclose(part, due, rtol=1e-5, atol=1e-6)  # cosines are of float32
            for name in ("own", "freely", "alone", "odds"):
                np.testing.assert_allclose(getattr(found, name), getattr(fresh, name), rtol=1e-4, atol=1e-5)
        return found

    monkeypatch.setattr(illustrate, "score_board", compared)
    draw = random.Random(seed)
    for _ in range(12):
        step, other = draw.sample((0, 1, 2, 3, 4, 5, 7), 2)  # step 6 holds no words
        items = editor.strip(eight.id, step, 12).items
        picture = draw.choice(items).picture.id
        edit = draw.choice(
            (
                {"kind": "choose", "step": step, "picture": picture},
                {"kind": "lock", "step": step},
                {"kind": "unlock", "step": other},
                {"kind": "blank", "step": step},
                {"kind": "swap", "a": step, "b": other},
                {"kind": "reword", "step": step, "text": "A cat sleeps."},
            )
        )
        if edit["kind"] == "lock" and eight.board.steps[step].picture is None:
            continue
        eight = editor.edit(eight.id, eight.revision, TypeAdapter(Edit).validate_python(edit))
    assert reused
