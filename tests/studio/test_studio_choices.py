"""What the user preferred is kept with what was in view, taken back by undo, and leaves only with consent."""

import json

import pytest
from made_up_pictures import ids_of

from limner.studio.project_editor import CONTEXT_STEPS, ProjectEditor
from limner.studio.projects import Choice, Projects

pytestmark = pytest.mark.slow


def strip(guarded, project, step, limit=6):
    url = f"/api/projects/{project['id']}/steps/{step}/candidates"
    return [one["picture"]["id"] for one in guarded.get(url, params={"limit": limit}).json()["items"]]


def chosen(project, step):
    return project["board"]["steps"][step]["chosen"]["picture"]["id"]


def kept(guarded, project):
    found = guarded.get(f"/api/projects/{project['id']}/preferences").json()
    return [Choice.model_validate(one) for one in found]


def test_a_replacement_is_kept_with_all_that_explains_it(guarded, project, edit):
    seen = strip(guarded, project, 1)
    changed = edit(project, kind="choose", step=1, picture=seen[4])
    (choice,) = kept(guarded, changed)
    assert (choice.shown, choice.chosen) == (chosen(project, 1), seen[4])
    assert list(choice.seen) == seen
    assert choice.text == "The rabbit bakes a cake."
    assert choice.context == (
        "A fox looks out.",
        "The rabbit bakes a cake.",
        "Snow falls.",
        "A boat sails.",
    )
    assert (choice.project, choice.revision, choice.step) == (project["id"], 2, 1)
    assert choice.library == "lib"
    assert choice.settings == project["board"]["settings"]
    assert choice.time.utcoffset().total_seconds() == 0
    assert not choice.withdrawn


def test_choosing_what_is_there_prefers_nothing(guarded, project, edit):
    changed = edit(project, kind="choose", step=1, picture=chosen(project, 1))
    assert kept(guarded, changed) == []
    for kind in ("lock", "unlock", "blank"):
        changed = edit(changed, kind=kind, step=2)
    assert kept(guarded, changed) == []


def test_a_picture_put_on_a_blank_replaces_none(guarded, project, edit):
    picture = strip(guarded, project, 0)[-1]
    blank = edit(project, kind="blank", step=0)
    (choice,) = kept(guarded, edit(blank, kind="choose", step=0, picture=picture))
    assert choice.shown is None


def test_what_the_page_says_was_in_view_goes_first(guarded, project, edit):
    seen = strip(guarded, project, 1)
    changed = edit(project, kind="choose", step=1, picture=seen[3], seen=seen[:4])
    assert list(kept(guarded, changed)[0].seen) == seen[:4]


def test_without_a_strip_the_runners_up_were_in_view(guarded, project, edit):
    step = project["board"]["steps"][1]
    due = [chosen(project, 1), *(one["picture"]["id"] for one in step["runners_up"])]
    changed = edit(project, kind="choose", step=1, picture=due[-1])
    assert list(kept(guarded, changed)[0].seen) == due


def test_what_is_undone_is_withdrawn_and_what_is_redone_stands(guarded, project, edit, studio):
    url = f"/api/projects/{project['id']}"
    seen = strip(guarded, project, 1)
    first = edit(project, kind="choose", step=1, picture=seen[2])
    second = edit(first, kind="choose", step=1, picture=seen[3])
    assert [one.chosen for one in kept(guarded, second)] == [seen[2], seen[3]]
    assert kept(guarded, second)[1].shown == seen[2]
    undone = guarded.post(f"{url}/undo", json={"revision": second["revision"]}).json()
    assert [one.chosen for one in kept(guarded, undone)] == [seen[2]]
    redone = guarded.post(f"{url}/redo", json={"revision": undone["revision"]}).json()
    assert [one.chosen for one in kept(guarded, redone)] == [seen[2], seen[3]]
    undone = guarded.post(f"{url}/undo", json={"revision": redone["revision"]}).json()
    other = edit(undone, kind="choose", step=1, picture=seen[4])
    assert [one.chosen for one in kept(guarded, other)] == [seen[2], seen[4]]
    stored = studio.editor.projects.read(project["id"]).choices
    assert [one.withdrawn for one in stored] == [False, True, False]


def test_they_leave_only_with_consent(guarded, project, edit, studio):
    edit(project, kind="choose", step=1, picture=strip(guarded, project, 1)[2])
    for params in ({}, {"consent": "no"}, {"consent": "YES"}):
        answer = guarded.get("/api/preferences", params=params)
        assert answer.status_code == 403
        assert answer.json()["type"] == "urn:limner:consent"
    answer = guarded.get("/api/preferences", params={"consent": "yes"})
    assert answer.status_code == 200
    lines = [json.loads(line) for line in answer.text.splitlines()]
    (choice,) = Projects(studio.editor.projects.folder).choices()
    assert lines == [
        {
            "query": choice.text,
            "context": list(choice.context),
            "preferred": choice.chosen,
            "rejected": choice.shown,
            "time": json.loads(choice.model_dump_json())["time"],
            "library": "lib",
        }
    ]


def test_without_a_project_nothing_is_preferred(guarded):
    answer = guarded.get("/api/preferences", params={"consent": "yes"})
    assert answer.status_code == 422
    assert "nothing was replaced" in answer.json()["detail"]


def test_nothing_preferred_is_said(guarded, project):
    answer = guarded.get("/api/preferences", params={"consent": "yes"})
    assert answer.status_code == 422
    assert "no picture was replaced" in answer.json()["detail"]


def test_the_context_of_a_long_text_is_bounded(drawn_engine, tmp_path):
    from limner.studio.edits import Choose

    editor = ProjectEditor(drawn_engine, Projects(tmp_path))
    text = "\n\n".join(f"Part {number} of it." for number in range(60))
    made = editor.create(text, format="plain")
    picture = ids_of(drawn_engine.illustrator().library)[0]
    editor.edit(made.id, 1, Choose(kind="choose", step=30, picture=picture))
    (choice,) = editor.projects.choices()
    assert len(choice.context) == 2 * CONTEXT_STEPS + 1
    assert choice.context[CONTEXT_STEPS] == choice.text == "Part 30 of it."
