"""Which files a text may have shown by naming them."""

import json
import unicodedata
from pathlib import Path

import pytest

from limner.text.document import MISSING, NO_FOLDER, OUTSIDE, WEB, allow_any_file
from limner.text.read import parse_story_report, read_story_report


@pytest.fixture
def home(tmp_path):
    """A text's folder, with a picture in it and one beside it."""
    folder = tmp_path / "texts"
    (folder / "below").mkdir(parents=True)
    for file in (folder / "below" / "own.jpg", tmp_path / "private.jpg"):
        file.write_bytes(b"x")
    return folder


def named(folder, target, **options):
    text = folder / "t.md"
    text.write_text(f"# T\n\n![banner]({target})\n\n1. One. ![]({target})\n2. Two.\n", encoding="utf-8")
    story = read_story_report(text, **options).story
    shown = [*story.steps[0].pictures, *(one for part in story.between for one in part.pictures)]
    assert len(shown) == 2
    assert shown[0].path == shown[1].path
    return shown[0]


@pytest.mark.parametrize("target", ["below/own.jpg", "./below/../below/own.jpg", "{home}/below/own.jpg"])
def test_files_below_the_texts_own_folder_are_shown(home, target):
    found = named(home, target.format(home=home))
    assert (found.path, found.problem) == (str(home / "below" / "own.jpg"), "")


@pytest.mark.parametrize(
    "target", ["../private.jpg", "{up}/private.jpg", "file://{up}/private.jpg", "link.jpg"]
)
def test_files_outside_it_are_not_whatever_the_way_to_them(home, target):
    (home / "link.jpg").symlink_to(home.parent / "private.jpg")
    target = target.format(up=home.parent)
    found = named(home, target)
    assert (found.path, found.problem) == (None, OUTSIDE)
    assert named(home, target, file_policy=allow_any_file).path == str(home.parent / "private.jpg")
    assert named(home, target, file_policy=lambda _: Path("/library/same.jpg")).path == "/library/same.jpg"


def test_a_folder_reached_by_a_link_is_the_texts_own(home):
    (home.parent / "linked").symlink_to(home)
    assert named(home.parent / "linked", "below/own.jpg").problem == ""


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("no.jpg", MISSING),
        ("../no.jpg", MISSING),
        ("below", MISSING),
        ("https://e.org/a.jpg", WEB),
        ("//e/a", WEB),
    ],
)
def test_what_is_no_file_says_so(home, target, problem):
    assert named(home, target).problem == problem


@pytest.mark.parametrize("place", ["steps", "parts", "between"])
def test_stories_in_json_show_no_more_than_others(home, place):
    private = {"target": "p", "path": str(home.parent / "private.jpg")}
    step = {"text": "a", "pictures": [private]} if place == "steps" else {"text": "a"}
    if place == "parts":
        step["parts"] = [{"text": "a", "pictures": [private]}]
    data = {"steps": [step]}
    if place == "between":
        data["between"] = [{"text": "b", "before": 0, "pictures": [private]}]
    (home / "s.json").write_text(json.dumps(data))
    assert "private.jpg" not in read_story_report(home / "s.json").story.model_dump_json()
    assert NO_FOLDER in parse_story_report(json.dumps(data), format="json").story.model_dump_json()


@pytest.mark.parametrize("kind", ["markdown", "html", "plain"])
def test_a_text_in_memory_has_no_folder_and_shows_no_file(home, kind):
    target = home / "below" / "own.jpg"
    text = f"Words ![]({target}) and ![](file://{target}) <img src='{target}'> more."
    assert '"path":"' not in parse_story_report(text, format=kind).story.model_dump_json()


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_with_accents_is_found_however_the_disk_writes_them(home, form):
    folder = home / unicodedata.normalize(form, "Kärnten")
    folder.mkdir()
    file = folder / unicodedata.normalize(form, "Müller.jpg")
    file.write_bytes(b"x")
    other = {"NFC": "NFD", "NFD": "NFC"}[form]
    assert named(home, unicodedata.normalize(other, "Kärnten/Müller.jpg")).path == str(file)
