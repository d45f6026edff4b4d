"""Projects over HTTP: made, changed, undone, redone, removed, and what is refused."""

import json
import os
import random
import shutil
import stat
import threading

import pytest

from limner.errors import DataError
from limner.records import Board
from limner.studio.projects import Projects

pytestmark = pytest.mark.slow


def shown(project):
    return [step["chosen"] and step["chosen"]["picture"]["id"] for step in project["board"]["steps"]]


def states(project):
    return [step["state"] for step in project["steps"]]


def other(guarded, project, step):
    """A picture that no step shows."""
    url = f"/api/projects/{project['id']}/steps/{step}/candidates?limit=20"
    return guarded.get(url).json()["items"][-1]["picture"]["id"]


def test_a_text_becomes_a_project(guarded, project, text):
    assert project["title"] == "A day"
    assert (project["revision"], project["schema_version"]) == (1, 1)
    assert (project["text"], project["format"], project["by"]) == (text, "markdown", None)
    assert states(project) == ["free"] * 4
    assert (project["can_undo"], project["can_redo"]) == (False, False)
    board = Board.model_validate(project["board"])
    assert [step.text for step in board.story.steps][2] == "Snow falls."
    assert guarded.get(f"/api/projects/{project['id']}").json() == project
    (listed,) = guarded.get("/api/projects").json()
    assert listed["id"] == project["id"]
    assert listed["steps"] == 4
    assert set(listed["cover"]) == {one for one in shown(project) if one}


@pytest.mark.skipif(os.name == "nt", reason="rights of files are those of POSIX")
def test_its_owner_alone_reads_a_project_whatever_the_umask(guarded, text, edit, tmp_path):
    before = os.umask(0)
    try:
        project = guarded.post("/api/projects", json={"text": text, "format": "markdown"}).json()
        edit(project, kind="lock", step=0)
        gone = guarded.post("/api/projects", json={"text": text, "format": "markdown"}).json()
        assert guarded.delete(f"/api/projects/{gone['id']}").status_code == 204
    finally:
        os.umask(before)
    folder = tmp_path / "projects"
    found = [one for one in (folder, *folder.rglob("*")) if one.name != "lock"]  # which holds nothing
    assert len(found) > 10
    rights = {(one.is_dir(), stat.S_IMODE(one.stat().st_mode)) for one in found}
    assert rights == {(True, 0o700), (False, 0o600)}


def test_the_board_is_that_of_illustrate(guarded, project, text):
    asked = {"text": text, "format": "markdown", "options": {"min_probability": 0}}
    board = guarded.post("/api/illustrate", json=asked).json()
    assert board == project["board"]
    assert len(guarded.get("/api/projects").json()) == 1


def test_choosing_locks_and_the_others_stay(guarded, project, edit):
    picture = other(guarded, project, 1)
    assert picture not in shown(project)
    changed = edit(project, kind="choose", step=1, picture=picture)
    assert shown(changed)[1] == picture
    assert states(changed) == ["free", "locked", "free", "free"]
    assert changed["revision"] == 2
    assert (changed["can_undo"], changed["can_redo"]) == (True, False)
    before, after = project["board"]["steps"], changed["board"]["steps"]
    assert [after[step] for step in (0, 2, 3)] == [before[step] for step in (0, 2, 3)]
    assert after[1]["origin"] == "pinned"


def test_lock_unlock_blank_and_swap(project, edit):
    before = shown(project)
    assert None not in before
    locked = edit(project, kind="lock", step=0)
    assert states(locked)[0] == "locked"
    assert shown(locked)[0] == before[0]
    blank = edit(locked, kind="blank", step=2)
    assert states(blank) == ["locked", "free", "blank", "free"]
    assert shown(blank)[2] is None
    swapped = edit(blank, kind="swap", a=0, b=2)
    assert states(swapped) == ["blank", "free", "locked", "free"]
    assert (shown(swapped)[0], shown(swapped)[2]) == (None, before[0])
    free = edit(swapped, kind="unlock", step=0)
    free = edit(free, kind="unlock", step=2)
    assert states(free) == ["free"] * 4
    assert shown(free)[1:] == [before[1], before[0], before[3]]
    assert shown(free)[0] not in (None, before[0])


def test_locking_a_blank_keeps_it_blank(project, edit):
    blank = edit(project, kind="blank", step=3)
    assert states(edit(blank, kind="lock", step=3))[3] == "blank"


def test_a_banned_picture_is_shown_nowhere(project, edit):
    picture = shown(project)[0]
    locked = edit(project, kind="lock", step=0)
    banned = edit(locked, kind="ban", picture=picture)
    assert picture not in shown(banned)
    assert banned["bans"] == [picture]
    assert states(banned)[0] == "free"
    again = edit(banned, kind="choose", step=0, picture=picture)
    assert shown(again)[0] == picture
    assert again["bans"] == []
    unbanned = edit(edit(again, kind="ban", picture=picture), kind="unban", picture=picture)
    assert unbanned["bans"] == []


def test_options_and_title(project, edit):
    cautious = edit(project, kind="options", options={"show": "cautious", "allow_repeats": True})
    assert cautious["board"]["settings"]["show"] == cautious["options"]["show"] == "cautious"
    assert cautious["options"]["allow_repeats"] is True
    assert cautious["options"]["min_probability"] is None
    never = edit(cautious, kind="options", options={"min_probability": 0})
    assert shown(never) == shown(project)
    assert never["options"]["show"] == "usual"
    named = edit(never, kind="retitle", title="  Ein Tag  ")
    assert named["title"] == "Ein Tag"
    assert named["board"]["steps"] == never["board"]["steps"]
    assert named["board"]["story"] == {**never["board"]["story"], "title": "Ein Tag"}
    assert edit(named, kind="retitle", title=" ")["title"] == "Untitled"


def test_a_number_of_pictures_is_kept_by_edits_but_those_asked_for_are_added(project, edit):
    def blanks(project):
        return [step["blank"] for step in project["board"]["steps"]]

    two = edit(project, kind="options", options={"min_probability": 0, "count": 2})
    assert sorted(map(str, blanks(two))) == ["None", "None", "enough", "enough"]
    step = shown(two).index(None)
    more = edit(two, kind="unlock", step=step)
    assert shown(more)[step] is not None
    assert [own for own in range(4) if shown(more)[own] != shown(two)[own]] == [step]
    assert more["options"]["count"] == more["board"]["settings"]["count"] == 2
    spared = blanks(more).index("enough")
    runner_up = more["board"]["steps"][spared]["runners_up"][0]["picture"]["id"]
    now = edit(more, kind="ban", picture=runner_up)
    assert blanks(now)[spared] == "enough"
    for reworded in (spared, step):
        now = edit(now, kind="reword", step=reworded, text=f"A fox walks in the snow at night {reworded}.")
        assert blanks(now) == blanks(more)
    again = edit(now, kind="again")
    assert blanks(again).count("enough") == 2
    assert None not in shown(edit(again, kind="options", options={"min_probability": 0, "count": "all"}))
    edit(again, 422, kind="options", options={"count": 0})


@pytest.mark.parametrize(
    "options",
    [{"show": "cautious"}, {"show": "usual"}, {"show": "always"}, {"min_probability": 0.3}],
    ids=str,
)
def test_the_number_that_is_stated_is_the_number_applied(guarded, text, options):
    asked = {"text": text, "format": "markdown", "options": options}
    board = guarded.post("/api/projects", json=asked).json()["board"]
    assert board["threshold"] == options.get("min_probability", board["threshold"])
    assert (board["threshold"] == 0) == (options.get("show") == "always")
    for step in board["steps"]:
        assert (step["chosen"] is None) == (step["probability"] < board["threshold"])


def test_one_threshold_decides_for_all_steps_also_after_changes_of_some(guarded, edit):
    dull = ("Interest rates rose.", "The senate adjourned until noon.")
    asked = {"text": "\n\n".join(["A fox looks out.", "Snow falls.", *dull]), "format": "plain"}
    first = guarded.post("/api/projects", json=asked).json()
    banned = edit(first, kind="ban", picture=shown(first)[0])
    longer = edit(banned, kind="insert-after", step=3, text="The bank's quarterly earnings fell.")
    told = edit(longer, kind="retext", text=f"{longer['text']}\n\nA bear bakes a cake.")
    for project in (banned, longer, told):
        assert project["board"]["threshold"] == first["board"]["threshold"]
        assert project["board"]["settings"]["min_probability"] is None
        for step in project["board"]["steps"]:
            assert (step["chosen"] is None) == (step["probability"] < first["board"]["threshold"])


def test_a_project_says_what_would_help_where_most_steps_lack_a_picture_that_fits(guarded, project, edit):
    assert project["advice"] == ""
    poor = edit(project, kind="options", options={"min_probability": 0.99})
    assert shown(poor) == [None] * 4
    assert poor["advice"].startswith("Few pictures fit: of 4 steps, 4 left blank.")
    assert guarded.get(f"/api/projects/{project['id']}").json() == poor
    for step, picture in enumerate(shown(project)):
        poor = edit(poor, kind="choose", step=step, picture=picture)
    assert poor["advice"] == ""  # nothing is said against what the user chose


def test_a_new_text_keeps_what_was_fixed_where_the_words_stay(project, edit):
    picture = shown(project)[1]
    locked = edit(edit(project, kind="lock", step=1), kind="blank", step=2)
    words = ("New.", "A fox looks out.", "The rabbit bakes a cake.", "A boat sails.")
    text = "# A day\n\n" + "\n\n---\n\n".join(words) + "\n"
    moved = edit(locked, kind="retext", text=text)
    assert states(moved) == ["free", "free", "locked", "free"]
    assert shown(moved)[2] == picture
    assert moved["notes"] == ["1 locked or blank steps were unlocked, because their words have changed"]
    assert moved["text"] == text
    sentences = edit(moved, kind="retext", text="One fox. Two boats.", format="plain", by="sentence")
    assert (len(sentences["steps"]), sentences["by"], sentences["format"]) == (2, "sentence", "plain")
    assert edit(sentences, kind="retext", text="One fox. Two boats.", by=None)["by"] is None


def test_undo_and_redo_bring_back_the_very_same(guarded, project, edit):
    seen = [project]
    seen.append(edit(seen[-1], kind="blank", step=0))
    seen.append(edit(seen[-1], kind="retitle", title="Other"))
    seen.append(edit(seen[-1], kind="choose", step=1, picture=other(guarded, seen[-1], 1)))
    url = f"/api/projects/{project['id']}"

    def same(found, due):
        volatile = ("revision", "updated_at", "can_undo", "can_redo")
        assert {k: v for k, v in found.items() if k not in volatile} == {
            k: v for k, v in due.items() if k not in volatile
        }

    now = seen[-1]
    for due in reversed(seen[:-1]):
        now = guarded.post(f"{url}/undo", json={"revision": now["revision"]}).json()
        same(now, due)
    assert (now["can_undo"], now["can_redo"]) == (False, True)
    assert guarded.post(f"{url}/undo", json={"revision": now["revision"]}).status_code == 400
    for due in seen[1:]:
        now = guarded.post(f"{url}/redo", json={"revision": now["revision"]}).json()
        same(now, due)
    assert guarded.post(f"{url}/redo", json={"revision": now["revision"]}).status_code == 400
    now = guarded.post(f"{url}/undo", json={"revision": now["revision"]}).json()
    branched = edit(now, kind="lock", step=3)
    assert not branched["can_redo"]
    assert branched["revision"] == 4 + 3 + 3 + 1 + 1


def test_a_stale_revision_changes_nothing_where_the_same_step_has_changed(guarded, project, edit):
    changed = edit(project, kind="blank", step=0)
    refused = edit(project, 409, kind="lock", step=0)
    assert refused["type"] == "urn:limner:stale-revision"
    for act in ("undo", "redo"):
        answer = guarded.post(f"/api/projects/{project['id']}/{act}", json={"revision": 1})
        assert answer.status_code == 409
    assert guarded.get(f"/api/projects/{project['id']}").json() == changed


CHANGES = {
    "other": ({"kind": "blank", "step": 0}, {"kind": "lock", "step": 2}, 2),
    "title": ({"kind": "retitle", "title": "New"}, {"kind": "swap", "a": 0, "b": 2}, 2),
    "removed": ({"kind": "remove", "step": 0}, {"kind": "lock", "step": 2}, 1),
    "moved": ({"kind": "move", "step": 0, "to": 3}, {"kind": "lock", "step": 2}, 1),
    "reworded": ({"kind": "reword", "step": 0, "text": "New."}, {"kind": "blank", "step": 1}, 1),
    "insert": ({"kind": "remove", "step": 0}, {"kind": "insert-after", "step": 3, "text": "End."}, None),
    "gone": ({"kind": "remove", "step": 2}, {"kind": "lock", "step": 2}, "late"),
    "parted": ({"kind": "insert-after", "step": 1, "text": "New."}, {"kind": "merge", "step": 1}, "late"),
    "all": ({"kind": "blank", "step": 0}, {"kind": "lock-others", "step": 2}, "late"),
    "titles": ({"kind": "retitle", "title": "New"}, {"kind": "retitle", "title": "Other"}, "late"),
}


@pytest.mark.parametrize(("first", "second", "at"), CHANGES.values(), ids=CHANGES)
def test_a_change_of_an_earlier_revision_is_made_where_its_steps_are_as_they_were(
    project, edit, first, second, at
):
    edit(project, **first)
    if at == "late":
        edit(project, 409, **second)
        return
    after = edit(project, **second)
    assert after["revision"] == 3
    if at is None:
        assert after["board"]["story"]["steps"][-1]["text"] == "End."
    else:
        assert after["steps"][at]["state"] == ("blank" if second["kind"] == "blank" else "locked")


def test_a_change_that_is_sent_twice_is_made_once(guarded, project):
    url = f"/api/projects/{project['id']}"
    body = {"revision": 1, "key": "a", "edit": {"kind": "remove", "step": 0}}
    first, again = (guarded.post(f"{url}/edits", json=body).json() for _ in range(2))
    assert first == again
    assert again["count"] == len(project["board"]["steps"]) - 1
    undone, twice = (guarded.post(f"{url}/undo", json={"revision": 2, "key": "b"}).json() for _ in range(2))
    assert undone == twice
    assert twice["revision"] == 3


def test_of_many_at_once_one_wins_for_each_step(guarded, project):
    def change(step):
        body = {"revision": 1, "edit": {"kind": "blank", "step": step}}
        answers.append(guarded.post(f"/api/projects/{project['id']}/edits", json=body).status_code)

    answers: list[int] = []
    threads = [threading.Thread(target=change, args=(number % 4,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(answers) == [200] * 4 + [409] * 4
    assert guarded.get(f"/api/projects/{project['id']}").json()["revision"] == 5


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"kind": "blank", "step": 4}, 422),
        ({"kind": "blank", "step": -1}, 422),
        ({"kind": "swap", "a": 0, "b": 9}, 422),
        ({"kind": "choose", "step": 0, "picture": "f" * 64}, 422),
        ({"kind": "choose", "step": 0, "picture": "../../etc/passwd"}, 422),
        ({"kind": "ban", "picture": "0" * 64}, 422),
        ({"kind": "relation", "step": 0, "relation": "action"}, 400),
        ({"kind": "options", "options": {"decoder": "magic"}}, 422),
        ({"kind": "options", "options": {"pins": {"0": None}}}, 422),
        ({"kind": "retext", "text": "   "}, 422),
        ({"kind": "retext", "text": "x" * 3_000_001}, 422),
        ({"kind": "dance"}, 422),
        ({"kind": "blank", "step": 0, "more": 1}, 422),
        ({}, 422),
    ],
    ids=lambda one: str(one)[:80],  # a whole text would be too long for the environment of a process
)
def test_a_change_that_cannot_be_leaves_the_project_as_it_is(guarded, project, edit, change, status):
    refused = edit(project, status, **change)
    assert refused["detail"]
    assert guarded.get(f"/api/projects/{project['id']}").json() == project


def test_a_relation_that_is_none_any_more(project, edit):
    assert edit(project, kind="relation", step=0, relation=None)["steps"][0]["relation"] is None


def test_candidates_begin_with_what_the_step_would_show(guarded, project):
    url = f"/api/projects/{project['id']}/steps/1/candidates"
    items = guarded.get(url, params={"limit": 8}).json()["items"]
    ids = [one["picture"]["id"] for one in items]
    assert len(items) == len(set(ids)) == 8
    assert ids[0] == shown(project)[1]
    elsewhere = set(shown(project)) - {shown(project)[1]}
    assert not elsewhere & set(ids)
    totals = [one["score"] + one["agreement"] for one in items[1:]]
    assert totals == sorted(totals, reverse=True)
    assert all(0 <= one["probability"] <= 1 for one in items)
    assert items[0]["probability"] == project["board"]["steps"][1]["probability"]
    assert guarded.get(url.replace("/1/", "/4/")).status_code == 422
    assert guarded.get(url.replace("/1/", "/-1/")).status_code == 422
    assert guarded.get(url, params={"limit": 0}).status_code == 422
    assert guarded.get(url, params={"relation": "action"}).status_code == 400


def test_a_removed_project_is_in_the_trash_whole(guarded, project, studio):
    folder = studio.editor.projects.folder
    before = (folder / project["id"] / "project.json").read_bytes()
    assert guarded.delete(f"/api/projects/{project['id']}").status_code == 204
    assert guarded.get(f"/api/projects/{project['id']}").status_code == 404
    assert guarded.delete(f"/api/projects/{project['id']}").status_code == 404
    assert guarded.get("/api/projects").json() == []
    (kept,) = (folder / "trash").iterdir()
    assert (kept / "project.json").read_bytes() == before
    kept.rename(folder / project["id"])
    assert guarded.get(f"/api/projects/{project['id']}").json() == project


@pytest.mark.parametrize(
    "name", ["0123456789abcdef", "trash", "%2e%2e%2ftrash", "..%2f..%2fetc", "0123456789ABCDEF"]
)
def test_projects_that_are_none(guarded, project, name):
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/export"), ("GET", "/preferences")):
        assert guarded.request(method, f"/api/projects/{name}{path}").status_code in (404, 405, 307)
    body = {"revision": 1, "edit": {"kind": "blank", "step": 0}}
    assert guarded.post(f"/api/projects/{name}/edits", json=body).status_code in (404, 405)
    assert len(guarded.get("/api/projects").json()) == 1


def test_a_damaged_project_is_told_and_hides_no_other(guarded, project, text, studio):
    second = guarded.post(
        "/api/projects", json={"text": text, "format": "markdown", "title": "Second"}
    ).json()
    file = studio.editor.projects.folder / project["id"] / "project.json"
    file.write_text(file.read_text()[:-20])
    listed = guarded.get("/api/projects").json()
    assert [one["id"] for one in listed] == [second["id"], project["id"]]
    assert "damaged" in listed[1]["damaged"]
    refused = guarded.get(f"/api/projects/{project['id']}")
    assert refused.status_code == 422
    assert str(file) in refused.json()["detail"]


def test_what_a_project_is_on_the_disk(guarded, project, edit, studio):
    now = project
    for step in range(4):
        now = edit(now, kind="blank", step=step)
    now = edit(now, kind="retext", text="Other words.")
    folder = studio.editor.projects.folder / project["id"]
    stored = json.loads((folder / "project.json").read_text())
    assert stored["schema_version"] == 2
    assert stored["revision"] == 6
    assert [one["act"] for one in stored["log"]] == ["create"] + ["blank"] * 4 + ["retext"]
    assert "Other words" not in (folder / "project.json").read_text()
    texts = [one for one in (folder / "parts").iterdir() if one.suffix == ".txt"]
    assert sorted(one.read_text() for one in texts) == sorted({project["text"], "Other words."})
    assert not [one for one in folder.rglob("*") if one.name.endswith(".part")]
    again = Projects(studio.editor.projects.folder)
    assert again.read(project["id"]) == studio.editor.projects.read(project["id"])


def test_the_history_forgets_the_oldest_states_and_their_parts(editor, text, monkeypatch):
    monkeypatch.setattr("limner.studio.project_editor.UNDO_STEPS", 3)
    from limner.studio.edits import Retext

    now = editor.create(text, format="markdown")
    for number in range(5):
        now = editor.edit(now.id, now.revision, Retext(kind="retext", text=f"Words {number}."))
    stored = editor.projects.read(now.id)
    assert [one.revision for one in stored.states] == [4, 5, 6]
    assert len(stored.log) == 6
    names = {one.suffix: [] for one in (editor.projects.folder / now.id / "parts").iterdir()}
    for one in (editor.projects.folder / now.id / "parts").iterdir():
        names[one.suffix].append(one.name)
    assert {suffix: len(found) for suffix, found in names.items()} == {".txt": 3, ".json": 3}
    for _ in range(2):
        now = editor.undo(now.id, now.revision)
    assert now.text == "Words 2."
    assert not now.can_undo


def test_a_copy_begins_a_history_of_its_own(guarded, project, edit):
    shown = project["board"]["steps"][0]["runners_up"][0]["picture"]["id"]
    changed = edit(project, kind="choose", step=0, picture=shown)
    answer = guarded.post(f"/api/projects/{project['id']}/duplicate")
    assert answer.status_code == 201
    copy = answer.json()
    assert copy["id"] != project["id"]
    assert (copy["title"], copy["revision"], copy["can_undo"]) == (f"{project['title']} (copy)", 1, False)
    assert (copy["board"], copy["text"], copy["steps"]) == tuple(
        changed[name] for name in ("board", "text", "steps")
    )
    # What the user chose was chosen once.
    assert guarded.get(f"/api/projects/{copy['id']}/preferences").json() == []
    edit(copy, kind="blank", step=1)
    assert guarded.get(f"/api/projects/{project['id']}").json() == changed
    assert guarded.post(f"/api/projects/{'0' * 16}/duplicate").status_code == 404


def test_the_trash_gives_back_what_was_removed(guarded, project, studio):
    other = guarded.post(f"/api/projects/{project['id']}/duplicate").json()
    for one in (project, other):
        assert guarded.delete(f"/api/projects/{one['id']}").status_code == 204
    assert guarded.get("/api/projects").json() == []
    thrown = {one["title"]: one for one in guarded.get("/api/trash").json()}
    assert set(thrown) == {project["title"], other["title"]}
    assert all(one["removed_at"].endswith("Z") and not one["damaged"] for one in thrown.values())
    item = thrown[project["title"]]["id"]
    assert guarded.post(f"/api/trash/{item}/restore").json() == project
    assert [one["id"] for one in guarded.get("/api/projects").json()] == [project["id"]]
    assert [one["title"] for one in guarded.get("/api/trash").json()] == [other["title"]]
    again = guarded.post(f"/api/trash/{item}/restore")
    assert again.status_code == 404
    assert again.json()["type"] == "urn:limner:unknown-project"
    for wrong in ("..", "%2e%2e", project["id"], "x" * 16):
        assert guarded.post(f"/api/trash/{wrong}/restore").status_code in (404, 405)
    (place,) = (studio.editor.projects.folder / "trash").iterdir()
    (place / "project.json").write_text("{")
    (damaged,) = guarded.get("/api/trash").json()
    assert "damaged" in damaged["damaged"]
    assert guarded.post(f"/api/trash/{damaged['id']}/restore").status_code == 422


def test_nothing_is_restored_over_a_project_that_is_there(guarded, project, studio):
    guarded.delete(f"/api/projects/{project['id']}")
    (item,) = guarded.get("/api/trash").json()
    folder = studio.editor.projects.folder
    shutil.copytree(folder / "trash" / item["id"], folder / project["id"])
    refused = guarded.post(f"/api/trash/{item['id']}/restore")
    assert refused.status_code == 422
    assert "already exists" in refused.json()["detail"]
    assert len(guarded.get("/api/trash").json()) == 1


def test_a_flipped_bit_of_a_project_its_text_or_its_storyboard_is_found(project, studio):
    projects = studio.editor.projects
    folder = projects.folder / project["id"]
    draw = random.Random(0)
    files = [folder / "project.json", *sorted((folder / "parts").iterdir())]
    assert len(files) == 3
    for file in files:
        whole = file.read_bytes()
        for number in draw.sample(range(len(whole)), min(len(whole), 150)):
            data = bytearray(whole)
            data[number] ^= 1 << draw.randrange(8)
            file.write_bytes(data)
            with pytest.raises(DataError, match=r"project\.json|damaged"):
                whole_of(projects, project["id"])
        file.write_bytes(whole)
    (folder / "project.json").write_text(projects.read(project["id"]).model_dump_json())
    assert projects.read(project["id"]).id == project["id"]  # as an older version wrote it


def whole_of(projects, name):
    held = projects.read(name)
    return projects.text(held), projects.board(held)
