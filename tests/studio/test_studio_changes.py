"""An edit answers with what it has changed, and what it takes from earlier questions changes no decision."""

import random

import pytest
from fastapi.testclient import TestClient

from limner.studio.app import create_app
from limner.studio.edits import Choose, Fix, Swap
from limner.studio.engine import Engine
from limner.studio.project_editor import ProjectEditor
from limner.studio.projects import Projects
from limner.studio.routes import Studio
from limner.studio.step_edits import Reword

pytestmark = pytest.mark.slow

WORDS = (
    "A fox looks out.",
    "The rabbit bakes a cake. It is warm.",
    "Snow falls on the hill.",
    "A boat sails.",
    "The fox runs to the tree.",
    "A kite flies.",
    "The moon shines.",
)
TEXT = "\n\n".join(WORDS)
OPTIONS = {"candidates": 3, "min_probability": 0}


def applied(project, changes):
    """A project with the changes of one answer, as a client makes it."""
    order = changes["order"] or list(range(changes["count"]))
    old = project["board"]

    def of(items):
        return [None if place is None else items[place] | {"position": at} for at, place in enumerate(order)]

    story = [None if place is None else old["story"]["steps"][place] for place in order]
    board, states = of(old["steps"]), of(project["steps"])
    for step in changes["steps"]:
        at = step["position"]
        story[at], board[at], states[at] = step["story"], step["board"], step["state"]
    named = {name: value for name, value in changes.items() if name in project}
    whole = {"threshold": changes["threshold"], "settings": changes["settings"], "steps": board}
    return {
        **project,
        **named,
        "text": project["text"] if changes["text"] is None else changes["text"],
        "steps": states,
        "board": {**old, **whole, "story": {**old["story"], **changes["story"], "steps": story}},
    }


def told(project):
    """What is told of a project: all but where its steps stand in its source."""
    story = dict(project["board"]["story"])
    for name in ("markdown", "blocks", "by"):
        story.pop(name)
    story["steps"] = [{name: one[name] for name in one if name != "run"} for one in story["steps"]]
    return {**project, "board": {**project["board"], "story": story}}


def drawn(draw, project, client):
    """An edit that can be made."""
    count = len(project["steps"])
    step, other = draw.randrange(count), draw.randrange(count)
    url = f"/api/projects/{project['id']}/steps/{step}/candidates"
    found = [one["picture"]["id"] for one in client.get(url, params={"limit": 6}).json()["items"]]
    text = draw.choice(("A goat eats.", "The fox sleeps in the snow.", "Two boats race."))
    every = [
        {"kind": "lock", "step": step},
        {"kind": "unlock", "step": step},
        {"kind": "blank", "step": step},
        {"kind": "swap", "a": step, "b": other},
        {"kind": "again"},
        {"kind": "lock-others", "step": step},
        {"kind": "reword", "step": step, "text": text},
        {"kind": "insert-after", "step": step, "text": text},
        {"kind": "move", "step": step, "to": other},
        {"kind": "retitle", "title": text},
    ]
    if found:
        every += 3 * [{"kind": "choose", "step": step, "picture": draw.choice(found)}]
        every.append({"kind": "ban", "picture": draw.choice(found)})
    if count > 4:
        every += [{"kind": "remove", "step": step}]
        every += [{"kind": "merge", "step": step}] if step + 1 < count else []
    return draw.choice(every)


@pytest.mark.parametrize("seed", range(3))
def test_a_project_and_the_changes_told_make_the_project_as_it_is(guarded, seed):
    draw = random.Random(seed)
    body = {"text": TEXT, "format": "plain", "options": OPTIONS}
    project = guarded.post("/api/projects", json=body).json()
    url = f"/api/projects/{project['id']}"
    for _ in range(12):
        edit = drawn(draw, project, guarded)
        answer = guarded.post(f"{url}/edits", json={"revision": project["revision"], "edit": edit})
        assert answer.status_code == 200, answer.text
        assert answer.json()["since"] == project["revision"]
        now = guarded.get(url).json()
        assert told(applied(project, answer.json())) == told(now), edit
        project = now


def test_only_steps_that_changed_are_told(guarded):
    body = {"text": TEXT, "format": "plain", "options": OPTIONS}
    project = guarded.post("/api/projects", json=body).json()
    url = f"/api/projects/{project['id']}/edits"

    def changed(**edit):
        answer = guarded.post(url, json={"revision": project["revision"], "edit": edit}).json()
        project["revision"] = answer["revision"]
        return answer["order"], [step["position"] for step in answer["steps"]], answer["text"] is not None

    assert changed(kind="lock", step=2) == (None, [2], False)
    assert changed(kind="swap", a=0, b=4) == (None, [0, 4], False)
    assert changed(kind="retitle", title="Another") == (None, [], False)
    assert changed(kind="remove", step=1) == ([0, 2, 3, 4, 5, 6], [], True)
    assert changed(kind="reword", step=5, text="A goat.") == ([0, 1, 2, 3, 4, None], [5], True)


def test_of_a_revision_that_is_not_the_last_all_that_followed_is_told(guarded):
    project = guarded.post("/api/projects", json={"text": TEXT, "format": "plain", "options": OPTIONS}).json()
    url = f"/api/projects/{project['id']}/edits"
    guarded.post(url, json={"revision": 1, "edit": {"kind": "lock", "step": 1}})
    late = guarded.post(url, json={"revision": 1, "edit": {"kind": "blank", "step": 3}}).json()
    assert (late["since"], [step["position"] for step in late["steps"]]) == (1, [1, 3])


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_what_was_weighed_before_decides_as_what_is_weighed_anew(drawn_library, tmp_path, seed):
    def studio(name):
        return TestClient(create_app(Studio(Engine(drawn_library), tmp_path / name, tmp_path / "small")))

    draw = random.Random(100 + seed)
    body = {"text": TEXT, "format": "plain", "options": OPTIONS}
    clients = [studio("one")]
    projects = [clients[0].post("/api/projects", json=body).json()]
    clients.append(studio("two"))
    projects.append(clients[1].post("/api/projects", json=body).json())
    for number in range(10):
        edit = drawn(draw, projects[0], clients[0])
        clients[1] = studio("two")  # which remembers nothing
        for which, client in enumerate(clients):
            url = f"/api/projects/{projects[which]['id']}"
            answer = client.post(f"{url}/edits", json={"revision": number + 1, "edit": edit})
            assert answer.status_code == 200, answer.text
            projects[which] = client.get(url).json()
        one, two = ([pictures(step) for step in project["board"]["steps"]] for project in projects)
        assert one == two, edit


def pictures(step):
    """What a step shows, and what it names beside it."""
    others = [one["picture"]["id"] for one in step["runners_up"]]
    return step["chosen"] and step["chosen"]["picture"]["id"], others, step["origin"], step["blank"]


def test_reasons_of_a_picture_that_was_chosen_are_in_the_numbers_of_its_offer(editor):
    made = editor.create(TEXT, format="plain")
    offered = editor.strip(made.id, 4, 12).items[2]
    chosen = Choose(kind="choose", step=4, picture=offered.picture.id)
    now = editor.edit(made.id, 1, chosen)
    assert (now.board.steps[4].chosen, now.board.steps[4].origin) == (offered, "pinned")
    now = editor.edit(made.id, 2, Fix(kind="unlock", step=4))
    assert (now.board.steps[4].chosen, now.board.steps[4].origin) == (offered, "decoded")


def test_a_project_that_another_program_changed_is_read_again(editor):
    made = editor.create(TEXT, format="plain")
    other = ProjectEditor(editor.engine, Projects(editor.projects.folder))
    other.edit(made.id, 1, Swap(kind="swap", a=0, b=3))
    assert editor.get(made.id) == other.get(made.id)
    assert editor.edit(made.id, 2, Reword(kind="reword", step=2, text="A goat.")).revision == 3
