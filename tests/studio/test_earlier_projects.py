"""Projects and storyboards as the first version wrote them, and projects that moved with their library."""

import hashlib
import json

import pytest
from starlette.testclient import TestClient

from limner.errors import DataError
from limner.export.storyboard_json import load
from limner.match.illustrate import BoardOptions
from limner.studio.app import create_app
from limner.studio.preferences import read_preferences
from limner.studio.projects import Projects
from limner.studio.routes import Studio

ID = "0123456789abcdef"
# --- as written ---
TEXT = "A fox looks out.\n\nA boat sails."
TIME = "2025-01-02T03:04:05Z"
PICTURE = {
    "id": "a" * 64,
    "paths": ["/home/me/lib/pictures/20250101-000000-abcdef/fox.png"],
    "width_px": 64,
    "height_px": 64,
    "format": "PNG",
    "size_bytes": 100,
    "phash": "0" * 16,
    "group": "a" * 64,
    "taken": None,
    "captions": [{"text": "A fox.", "source": "metadata"}],
    "labels": [],
    "credit": "",
    "license": "",
}
CANDIDATE = {
    "picture": PICTURE,
    "score": 1.5,
    "channels": {"captions": 1.5},
    "pull": 0.25,
    "matched": ["fox"],
}
STEP = {"position": 0, "chosen": CANDIDATE, "origin": "decoded", "reason": "It fits.", "probability": 0.9}
STEP |= {"gap": None, "runners_up": [CANDIDATE], "relations": {}, "attention": []}
BLANK = STEP | {"position": 1, "chosen": None, "origin": "blank", "reason": "", "probability": None}
STORY = {
    "id": "day",
    "title": "",
    "steps": [
        {"title": "", "text": "A fox looks out.", "pictures": []},
        {"title": "", "text": "A boat sails.", "pictures": []},
    ],
}
BOARD = {"schema_version": 1, "story": STORY, "steps": [STEP, BLANK], "decoder": "anchor", "anchor": None}
BOARD |= {"library": "lib", "channels": ["captions"], "settings": {}, "objective": 1.5, "version": "0.1.0"}
OPTIONS = {"decoder": "anchor", "candidates": 200, "pair_weight": None, "allow_repeats": False}
OPTIONS |= {"min_probability": None, "runners_up": 3}
LATER_OPTIONS = OPTIONS | {"candidates": None, "context": None, "pinned_weight": 0.0, "pair_space": "visual"}
LATER_OPTIONS |= {"pair_evidence": {"slope": 0.0, "z_slope": 0.5, "offset": 0.0}, "pair_walk": None}
LATER_OPTIONS |= {"occasion_weight": 2.0, "beam_width": 8, "allow_repeats": True, "min_probability": 0.5}
LATER_OPTIONS |= {"pins": {}, "bans": []}
STATE = {"revision": 1, "time": TIME, "edit": None, "title": "A day", "format": "plain", "by": None}
STATE |= {"text": hashlib.sha256(TEXT.encode()).hexdigest()[:32], "options": OPTIONS}
STATE |= {"pins": {}, "given": {}, "bans": [], "relations": {}, "notes": []}
STATE |= {"board": hashlib.sha256(json.dumps(BOARD).encode()).hexdigest()[:32]}
EDITS = [
    {"kind": "lock", "step": 0},
    {"kind": "unlock", "step": 0},
    {"kind": "blank", "step": 1},
    {"kind": "ban", "picture": "b" * 64},
    {"kind": "unban", "picture": "b" * 64},
    {"kind": "choose", "step": 0, "picture": "a" * 64, "seen": ["a" * 64]},
    {"kind": "swap", "a": 0, "b": 1},
    {"kind": "options", "options": OPTIONS},
    {"kind": "options", "options": LATER_OPTIONS, "steps": None},
    {"kind": "relation", "step": 0, "relation": None},
    {"kind": "retitle", "title": "A day"},
    {"kind": "retext", "text": "", "format": None, "by": None},
]
CHOICE = {"time": TIME, "project": "0123456789abcdef", "revision": 7, "step": 0, "text": "A fox looks out."}
CHOICE |= {"context": ["A fox looks out."], "shown": None, "chosen": "a" * 64, "seen": [], "relation": None}
CHOICE |= {"settings": {}, "library": "lib", "withdrawn": False}
PROJECT = {
    "schema_version": 1,
    "id": "0123456789abcdef",
    "created": TIME,
    "revision": 13,
    "states": [
        STATE,
        *[
            STATE | {"revision": 2 + n, "edit": edit, "options": edit.get("options", OPTIONS)}
            for n, edit in enumerate(EDITS)
        ],
    ],
    "cursor": 12,
    "log": [{"revision": 2, "time": TIME, "act": "lock"}],
    "choices": [CHOICE],
}
# --- tests ---


@pytest.fixture
def folder(tmp_path):
    """A folder of projects with one of the first version."""
    parts = tmp_path / "projects" / ID / "parts"
    parts.mkdir(parents=True)
    (parts / f"{STATE['text']}.txt").write_text(TEXT)
    (parts / f"{STATE['board']}.json").write_text(json.dumps(BOARD))
    (parts.parent / "project.json").write_text(json.dumps(PROJECT))
    return tmp_path / "projects"


def test_a_project_of_the_first_version_is_read_and_changed(folder, drawn_engine, tmp_path):
    projects = Projects(folder)
    project = projects.read(ID)
    assert [state.edit.kind for state in project.states[1:]] == [edit["kind"] for edit in EDITS]
    assert projects.text(project) == TEXT
    assert projects.board(project).steps[0].chosen.agreement == 0.25
    assert [one.chosen for one in projects.choices()] == ["a" * 64]
    with TestClient(create_app(Studio(drawn_engine, folder, tmp_path / "small"))) as client:
        edit = {"revision": 13, "edit": {"kind": "retitle", "title": "Another"}}
        answer = client.post(f"/api/projects/{ID}/edits", json=edit)
        assert answer.status_code == 200, answer.text
    assert Projects(folder).read(ID).state.title == "Another"


def test_options_of_earlier_versions_are_read_as_far_as_they_still_count(folder):
    project = Projects(folder).read(ID)
    assert project.states[0].options == BoardOptions()
    later = next(state for state in project.states if state.options.allow_repeats)
    assert later.options == BoardOptions(allow_repeats=True, min_probability=0.5)
    assert later.edit.options == later.options
    (kept,) = read_preferences(folder)
    assert (kept.query, kept.preferred) == ("A fox looks out.", "a" * 64)


def test_an_option_of_a_newer_version_is_an_error(folder):
    newer = PROJECT | {"states": [STATE | {"options": {"moods": 3}}], "cursor": 0}
    (folder / ID / "project.json").write_text(json.dumps(newer))
    with pytest.raises(DataError, match="newer limner"):
        Projects(folder).read(ID)


def test_a_storyboard_of_the_first_version_is_loaded(tmp_path):
    (tmp_path / "board.json").write_text(json.dumps(BOARD))
    board = load(tmp_path / "board.json")
    assert board.steps[0].chosen.agreement == 0.25
    assert board.steps[1].chosen is None
