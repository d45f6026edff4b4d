"""Which files a text may have shown by naming them, however its program writes their names."""

import json
import unicodedata
from base64 import b64encode
from pathlib import Path

import pytest

from limner.text.picture_files import MISSING, NO_FOLDER, OUTSIDE, UNREADABLE, WEB, finder
from limner.text.read import read, read_text

DATA = b"a picture"


def put(folder, *names):
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(name.encode())


@pytest.fixture
def home(tmp_path):
    """A text's folder, with a picture in it and one beside it."""
    put(tmp_path, "texts/below/own.jpg", "private.jpg")
    return tmp_path / "texts"


def test_a_picture_below_the_texts_folder_has_its_file_alt_text_and_hash(home):
    picture = finder(home)("below/own.jpg", "an owl")
    assert (picture.path, picture.alt, picture.problem) == (str(home / "below" / "own.jpg"), "an owl", "")
    assert picture.sha256 is not None


@pytest.mark.parametrize(
    "target",
    [
        "./below/../below/own.jpg",
        "{home}/below/own.jpg",
        "file://{home}/below/own.jpg",
        "below%2Fown.jpg",
        "below/own.jpg?width=300",
        "below/own.jpg#center",
        "below\\own.jpg",
        "Below/OWN.JPG",
        "/below/own.jpg",
        "below/own-1024x768.jpg",
        "below/own-scaled.jpg",
    ],
)
def test_names_are_read_as_programs_write_them(home, target):
    assert finder(home)(target.format(home=home), "").path == str(home / "below" / "own.jpg")


def test_the_file_that_is_named_comes_before_one_that_may_be_meant(home):
    put(home, "a b.jpg", "a%20b.jpg", "A.jpg", "a.jpg", "c-1x1.jpg", "c.jpg", "d.jpg", "d.jpg#e")
    find = finder(home)
    for name in ("a%20b.jpg", "a.jpg", "A.jpg", "c-1x1.jpg", "d.jpg#e"):
        assert Path(find(name, "").path).name == name


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_with_accents_is_found_however_the_disk_writes_them(home, form):
    name = unicodedata.normalize(form, "Kärnten/Müller.jpg")
    put(home, name)
    other = {"NFC": "NFD", "NFD": "NFC"}[form]
    assert finder(home)(unicodedata.normalize(other, name), "").path == str(home / name)


@pytest.mark.parametrize(
    "target", ["../private.jpg", "{up}/private.jpg", "file://{up}/private.jpg", "link.jpg"]
)
def test_files_outside_are_shown_only_if_they_are_in_the_library(home, target):
    (home / "link.jpg").symlink_to(home.parent / "private.jpg")
    target = target.format(up=home.parent)
    picture = finder(home)(target, "")
    assert (picture.path, picture.problem, picture.sha256) == (None, OUTSIDE, None)
    assert finder(home, lambda file: home / "below" / file.name)(target, "").path == str(
        home / "below" / "private.jpg"
    )


def test_a_folder_reached_by_a_link_is_the_texts_own(home):
    (home.parent / "linked").symlink_to(home)
    assert finder(home.parent / "linked")("below/own.jpg", "").problem == ""


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("no.jpg", MISSING),
        ("../no.jpg", MISSING),
        ("below", MISSING),
        ("", MISSING),
        ("a\0b", MISSING),
        ("a" * 5_000, MISSING),
        ("https://e.org/a.jpg", WEB),
        ("//e/a", WEB),
        ("cid:a@b", WEB),
        ("data:image/png;base64,", UNREADABLE),
        ("data:image/svg+xml,%3Csvg/%3E", UNREADABLE),
        ("data:image/png;base64,A", UNREADABLE),
    ],
)
def test_what_is_no_file_says_so(home, target, problem):
    picture = finder(home)(target, "")
    assert (picture.path, picture.data, picture.problem) == (None, None, problem)


def test_pictures_of_a_vault_are_found_by_name(tmp_path):
    put(tmp_path, "v/.obsidian/app.json", "v/files/deep/lake.jpg", "v/more/lake.jpg", "v/.trash/old.jpg")
    put(tmp_path, "v/Journal/note.md", "v/Journal/beside.jpg", "v/beside.jpg", "private.jpg")
    find = finder(tmp_path / "v" / "Journal")
    assert find("lake.jpg", "").path == str(tmp_path / "v/more/lake.jpg")
    assert find("deep/Lake.jpg", "").path == str(tmp_path / "v/files/deep/lake.jpg")
    assert find("files/deep/lake.jpg", "").path == str(tmp_path / "v/files/deep/lake.jpg")
    assert find("beside.jpg", "").path == str(tmp_path / "v/Journal/beside.jpg")
    assert find("../beside.jpg", "").path == str(tmp_path / "v/beside.jpg")
    assert find("old.jpg", "").problem == MISSING
    assert find("private.jpg", "").problem == MISSING
    assert find("../../private.jpg", "").problem == OUTSIDE


def test_pictures_of_a_site_are_found_from_its_root(tmp_path):
    put(tmp_path, "s/content/posts/alps/index.md", "s/content/posts/alps/a.jpg", "s/static/img/c.jpg")
    find = finder(tmp_path / "s" / "content" / "posts" / "alps")
    assert find("a.jpg", "").problem == ""
    assert find("/img/c.jpg", "").path == str(tmp_path / "s/static/img/c.jpg")
    put(tmp_path, "j/_config.yml", "j/_posts/a.md", "j/assets/b.jpg")
    assert finder(tmp_path / "j" / "_posts")("/assets/b.jpg", "").path == str(tmp_path / "j/assets/b.jpg")


def test_a_picture_inside_the_text_has_its_bytes_and_a_short_target():
    picture = finder(None)(f"data:image/png;base64,{b64encode(DATA).decode()}", "alt")
    assert (picture.data, picture.alt, picture.path) == (DATA, "alt", None)
    assert picture.target == f"data:image/png#{picture.sha256[:8]}"
    assert (
        finder(None)(f"data:image/png;base64,{b64encode(bytes([251, 255])).decode()}", "").data == b"\xfb\xff"
    )
    assert finder(None)("data:image/png;base64,%2B%2F8%3D", "").data == b"\xfb\xff"


@pytest.mark.parametrize("kind", ["markdown", "html"])
def test_large_pictures_inside_a_text_do_not_count_as_its_letters(kind):
    data = b64encode(b"x" * 4_000_000).decode()
    text = {"markdown": f"A fox.\n\n![an owl][i]\n\n[i]: <data:image/png;base64,{data}>\n", "html": ""}
    text["html"] = f"<p>A fox.</p><img alt='an owl' src='data:image/png;base64,{data}'>"
    story = read_text(text[kind], format=kind).story
    (picture,) = story.steps[0].pictures
    assert (picture.alt, len(picture.data)) == ("an owl", 4_000_000)
    assert story.markdown == (text[kind] if kind == "markdown" else "")
    assert len(story.model_copy(update={"markdown": ""}).model_dump_json()) < 2_000


@pytest.mark.parametrize("place", ["pictures", "blocks"])
def test_stories_in_json_show_no_more_than_others(home, place):
    private = {"target": "p", "path": str(home.parent / "private.jpg")}
    data = {"steps": [{"text": "a", "pictures": [private]}]}
    if place == "blocks":
        blocks = [{"text": "a"}, {"kind": "picture", "pictures": [private]}]
        data = {"steps": [{"text": "a", "run": [0, 1]}], "blocks": blocks}
    (home / "s.json").write_text(json.dumps(data))
    assert "private.jpg" not in read(home / "s.json").story.model_dump_json()
    assert NO_FOLDER in read_text(json.dumps(data), format="json").story.model_dump_json()


@pytest.mark.parametrize("kind", ["markdown", "html", "plain"])
def test_a_text_in_memory_has_no_folder_and_shows_no_file(home, kind):
    target = home / "below" / "own.jpg"
    text = f"Words ![]({target}) and ![](file://{target}) <img src='{target}'> more."
    assert '"path":"' not in read_text(text, format=kind).story.model_dump_json()
