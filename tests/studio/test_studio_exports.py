"""Every exporter over HTTP: a whole file with alt text, credits and the pictures chosen."""

import hashlib
import io
import json
import re
import zipfile

import pytest
from bs4 import BeautifulSoup
from PIL import Image
from pptx import Presentation
from pypdf import PdfReader

from limner.records import Board, PictureRef
from limner.studio.pictures import exported, file_stem

pytestmark = pytest.mark.slow


def download(guarded, project, kind):
    answer = guarded.get(f"/api/projects/{project['id']}/export", params={"format": kind})
    assert answer.status_code == 200, answer.text
    name = re.search(r'attachment; filename="([^"]+)"', answer.headers["content-disposition"])[1]
    return answer, name


def captions(project):
    return [step["chosen"]["picture"]["captions"][0]["text"] for step in project["board"]["steps"]]


def test_html(guarded, project):
    answer, name = download(guarded, project, "html")
    assert name == "A-day.html"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = BeautifulSoup(answer.text, "html.parser")
    alts = [one["alt"] for one in page.find_all("img") if one.get("alt")]
    for caption in captions(project):
        assert any(caption in alt for alt in alts)
    assert "A fox looks out." in page.get_text()


def test_markdown_comes_with_its_pictures(guarded, project, drawn):
    answer, name = download(guarded, project, "md")
    assert (name, answer.headers["content-type"]) == ("A-day.zip", "application/zip")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        text = archive.read("A-day.md").decode()
        links = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", text)
        assert len(links) == 4
        for alt, link in links:
            assert alt
            Image.open(io.BytesIO(archive.read(link))).verify()
        assert set(archive.namelist()) == {"A-day.md", *(link for _, link in links)}


def test_slides(guarded, project):
    answer, name = download(guarded, project, "pptx")
    assert name == "A-day.pptx"
    slides = Presentation(io.BytesIO(answer.content)).slides
    pictures = [shape for slide in slides for shape in slide.shapes if shape.shape_type == 13]
    described = [shape._element.nvPicPr.cNvPr.get("descr") for shape in pictures]
    for caption in captions(project):
        assert any(caption in (one or "") for one in described)


def test_pdf(guarded, project):
    answer, name = download(guarded, project, "pdf")
    assert (name, answer.headers["content-type"]) == ("A-day.pdf", "application/pdf")
    pages = PdfReader(io.BytesIO(answer.content)).pages
    assert "A fox looks out." in " ".join(page.extract_text() for page in pages).replace("\n", " ")
    assert sum(len(page.images) for page in pages) >= 4


@pytest.mark.parametrize("kind", ["docx", "epub"])
def test_books_for_word_processors_and_readers(guarded, project, kind):
    answer, name = download(guarded, project, kind)
    assert name == f"A-day.{kind}"
    assert zipfile.ZipFile(io.BytesIO(answer.content)).testzip() is None


def test_the_choices_of_the_dialog_reach_the_file(guarded, project):
    url = f"/api/projects/{project['id']}/export"
    told = guarded.get(url, params={"format": "html", "with_reasons": "true", "layout": "recipe"}).text
    assert "Probability that this picture fits" in told
    assert 'class="layout-recipe"' in told
    assert "Probability that this picture fits" not in guarded.get(url, params={"format": "html"}).text


def test_a_copy_to_share_tells_nothing_of_this_machine_or_of_the_choosing(
    guarded, edit, drawn, drawn_library, studio
):
    picture = min(drawn.rglob("*.jpg"))
    first = f"A fox by ![a house]({picture}) and [notes](file://{drawn}/notes.txt)."
    text = f"# A day\n\n{first}\n\n---\n\nA boat.\n"
    body = {"text": text, "format": "markdown", "title": "The earlier name"}
    before = guarded.post("/api/projects", json=body).json()
    project = edit(edit(before, kind="retitle", title="A day"), kind="lock", step=0)
    for layout in (None, "recipe"):
        params = {"format": "html"} | ({"layout": layout} if layout else {})
        told = guarded.get(f"/api/projects/{project['id']}/export", params=params).text
        page = BeautifulSoup(told, "html.parser")
        words = re.sub(r"data:[^\"]+", "", told)
        for place in (drawn, drawn_library, studio.editor.projects.folder):
            assert str(place) not in words
            assert place.name not in words or place.name in ("pictures", "lib", "projects")
        for secret in (project["id"], project["board"]["library"], "The earlier name", "file:"):
            assert secret not in words
        for setting in ("allow_repeats", "min_probability", "Pictures shown", "Probability that"):
            assert setting not in words
        assert page.find_all(["script", "link", "iframe", "form", "details"]) == []
        sources = [one["src"] for one in page.find_all("img")]
        assert sources
        assert all(one.startswith("data:image/") for one in sources)


def test_a_preview_may_stand_in_our_own_pages_and_runs_nothing(guarded, project):
    answer = guarded.get(f"/api/projects/{project['id']}/export/preview", params={"layout": "recipe"})
    assert 'class="layout-recipe"' in answer.text
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    policy = answer.headers["content-security-policy"]
    assert "frame-ancestors 'self'" in policy
    assert "sandbox" in policy
    assert "script" not in policy


def test_json_is_the_board(guarded, project):
    answer, name = download(guarded, project, "json")
    assert name == "A-day.json"
    found = Board.model_validate(json.loads(answer.text))
    assert found == Board.model_validate(project["board"])


def test_what_cannot_be_exported(guarded, project):
    url = f"/api/projects/{project['id']}/export"
    assert guarded.get(url, params={"format": "odt"}).status_code == 422
    assert guarded.get(url, params={"format": "pdf", "layout": "no"}).status_code == 422
    assert guarded.get(url, params={"format": "pptx", "layout": "book"}).status_code == 400
    assert guarded.get(url.replace(project["id"], "0" * 16)).status_code == 404


def test_a_text_without_a_title_gets_that_of_the_project(guarded):
    body = {"text": "A fox.", "format": "plain", "title": "Größe & Glück / 雨"}
    made = guarded.post("/api/projects", json=body).json()
    answer, name = download(guarded, made, "html")
    assert name == "Groe-Gluck-.html" or name.isascii()
    assert (
        "filename*=UTF-8''Gr%C3%B6%C3%9Fe-Gl%C3%BCck-%E9%9B%A8.html" in answer.headers["content-disposition"]
    )
    assert "Größe &amp; Glück / 雨" in answer.text


@pytest.mark.parametrize(
    ("title", "due"),
    [
        ("A day", "A-day"),
        ("../../etc/passwd", "etc-passwd"),
        ("  ", "storyboard"),
        ("...", "storyboard"),
        ('a"b\r\nc', "a-b-c"),
        ("x" * 300, "x" * 80),
        ("雨" * 100, "雨" * 26),
        ("_-_", "storyboard"),
    ],
)
def test_titles_as_file_names(title, due):
    assert file_stem(title) == due


def test_nothing_is_left_in_the_temporary_folder(project, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "kept").touch()
    made = exported(Board.model_validate(project["board"]), "T", "md")
    assert made.name == "T.zip"
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("limner")] == []


def test_an_export_carries_no_camera_data(guarded, project):
    answer, _ = download(guarded, project, "pptx")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        media = [name for name in archive.namelist() if name.startswith("ppt/media/")]
        assert media
        for name in media:
            with Image.open(io.BytesIO(archive.read(name))) as image:
                assert not image.getexif()


@pytest.mark.parametrize("kind", ["html", "pdf", "docx", "epub", "pptx", "md"])
def test_a_project_from_elsewhere_copies_no_file_of_this_machine(project, tmp_path, kind):
    secret, text = tmp_path / "secret.png", tmp_path / "secret.txt"
    Image.new("RGB", (30, 20)).save(secret)
    text.write_text("a key")
    board = Board.model_validate(project["board"])
    first, second, *rest = board.steps

    def forged(step, **changes):
        chosen = step.chosen.model_copy(update={"picture": step.picture.model_copy(update=changes)})
        return step.model_copy(update={"chosen": chosen})

    known = hashlib.sha256(text.read_bytes()).hexdigest()
    steps = (forged(first, paths=(str(secret),)), forged(second, paths=(str(text),), id=known), *rest)
    own = PictureRef(target="x.png", path=str(secret))
    first, *others = board.story.blocks
    blocks = (first.model_copy(update={"pictures": (own,)}), *others)
    story = board.story.model_copy(update={"blocks": blocks})
    board = board.model_copy(update={"steps": steps, "story": story})
    made = exported(board, "A day", kind)
    assert len([line for line in made.warnings if "its picture is left out" in line]) == 2
    # the author's own Markdown goes on naming its pictures, and copies none of them
    left = "of the text not found from here" if kind == "md" else "x.png of the text is left out"
    assert any(left in line for line in made.warnings)
    assert secret.read_bytes() not in made.data
    assert b"a key" not in made.data
