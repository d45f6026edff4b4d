"""``limner illustrate`` in a pipe, over several texts, and its formats and options."""

import io
import json
import sys
import zipfile
from pathlib import Path

import pytest
from chat_server import chat_server, says
from docx import Document
from fakes import noise_picture
from PIL import Image
from pypdf import PdfReader

from limner.cli.main import run

WHOLE = "# Three colours\n\nThey came from far.\n\n## Method\n\n1. A red field.\n2. A blue lake.\n"
PINNED = ("--pin", "1=red field.png", "--pin", "2=blue lake.png")
TEXT = "# Three colours\n\nA red field.\n\nA blue lake.\n"


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    root = tmp_path_factory.mktemp("illustrate")
    pictures = root / "pictures"
    pictures.mkdir()
    for name in ("red field", "blue lake", "green hill"):
        Image.new("RGB", (64, 48), name.split()[0]).save(pictures / f"{name}.png")
    assert run(["index", str(pictures), "--library", str(root / "lib"), "--encoder", "colour"]) == 0
    return str(root / "lib")


@pytest.fixture
def typed(monkeypatch, tmp_path):
    """Runs the command in a folder of its own, with some bytes on standard input."""
    monkeypatch.chdir(tmp_path)

    def illustrate(lib, *words, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return run(["illustrate", *words, "--library", lib])

    return illustrate


def test_standard_input_to_standard_output(lib, typed, capfdbinary, tmp_path):
    assert typed(lib, "-", "-o", "-", stdin=TEXT.encode()) == 0
    out, err = capfdbinary.readouterr()
    assert out.lower().startswith(b"<!doctype html")
    assert out.rstrip().lower().endswith(b"</html>")
    assert b"Three colours" in out
    assert b"2 steps" in err
    assert b"2 steps: 2 chosen" not in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("many", [False, True])
def test_a_text_is_never_written_to(lib, typed, tmp_path, capsys, many):
    names = ["text.md", "more.md"] if many else ["text.md"]
    for name in names:
        (tmp_path / name).write_text(TEXT, "utf-8")
    out = tmp_path if many else tmp_path / "text.md"
    words = [str(tmp_path / name) for name in names]
    assert typed(lib, *words, "-o", str(out), "--format", "md", "--overwrite") == 2
    assert "this is the text itself, which is never written to" in capsys.readouterr().err
    assert [(tmp_path / name).read_text("utf-8") for name in names] == [TEXT] * len(names)


@pytest.mark.parametrize(
    ("kind", "start"), [("pdf", b"%PDF-"), ("pptx", b"PK\x03\x04"), ("json", b"{"), (".PDF", b"%PDF-")]
)
def test_the_format_of_standard_output_is_named(lib, typed, capfdbinary, kind, start):
    assert typed(lib, "-", "-o", "-", "--format", kind, stdin=TEXT.encode()) == 0
    assert capfdbinary.readouterr().out.startswith(start)


def test_standard_input_is_read_as_said(lib, typed, tmp_path):
    page = b"<html><body><h1>Two</h1><ol><li>A red field.</li><li>A blue lake.</li></ol></body></html>"
    assert typed(lib, "-", "-o", "a.json", "--text-format", "html", stdin=page) == 0
    assert typed(lib, "-", "-o", "b.json", stdin=TEXT.encode()) == 0
    first, second = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    assert [step["text"] for step in first["story"]["steps"]] == ["A red field.", "A blue lake."]
    assert second["story"]["title"] == "Three colours"


def test_what_an_export_leaves_is_told_with_its_name(lib, typed, tmp_path, capsys):
    (tmp_path / "a.md").write_text(TEXT)
    (tmp_path / "out_pictures").mkdir()
    (tmp_path / "out_pictures" / "mine.txt").write_text("mine")
    assert typed(lib, "a.md", "-o", "out.md") == 0
    assert "\nout.md: out_pictures holds 1 other file" in f"\n{capsys.readouterr().err}"


def test_a_name_without_a_suffix_gets_that_of_the_format(lib, typed, tmp_path):
    (tmp_path / "a.md").write_text(TEXT)
    assert typed(lib, "a.md", "-o", "page", "--format", "json") == 0
    assert (tmp_path / "page.json").is_file()


@pytest.mark.slow
def test_several_texts_and_one_that_fails(lib, typed, tmp_path, capsys):
    for name in ("a", "c"):
        (tmp_path / f"{name}.md").write_text(TEXT)
    (tmp_path / "b.md").write_text(" \n")
    assert typed(lib, "a.md", "b.md", "gone.md", "c.md", "-o", "out") == 1
    out, err = capsys.readouterr()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.html", "c.html"]
    assert [line for line in err.splitlines() if line.startswith("limner: ")] == [
        "limner: b.md: b.md: is empty; expected a text with words in it",
        "limner: gone.md: gone.md: No such file or directory; expected a text file that can be read",
        "limner: 2 of 4 texts could not be illustrated, see above",
    ]
    assert out.count("written: ") == 2
    assert typed(lib, "a.md", "c.md", "-o", "out") == 1
    assert "out/a.html exists already; name another file, or pass --overwrite" in capsys.readouterr().err
    assert typed(lib, "a.md", "c.md", "-o", "out", "--overwrite", "--json") == 0
    boards = json.loads(capsys.readouterr().out)
    assert [board["story"]["id"] for board in boards] == ["a", "c"]


def test_one_text_into_a_folder_that_is_there(lib, typed, tmp_path):
    (tmp_path / "a.md").write_text(TEXT)
    (tmp_path / "out").mkdir()
    assert typed(lib, "a.md", "-o", "out", "--format", "md") == 0
    assert (tmp_path / "out" / "a.md").is_file()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["-o", "x.html"], "no text given; example: limner illustrate"),
        (["a.md", "-o", "-", "--json"], "--json and --out - both write to standard output"),
        (["a.md", "a.md", "-o", "-"], "--out -: holds one page, found 2 texts"),
        (["a.md", "-o", "-", "--format", "md"], "--out -: md comes with a folder of pictures"),
        (
            ["a.md", "-o", "-", "--format", "pfd"],
            "--format: unknown output format 'pfd'; did you mean 'pdf'",
        ),
        (["a.md", "-o", "x.html", "--format", "pdf"], "--format pdf: --out x.html has another format"),
        (["a.md", "sub/a.md", "-o", "out"], "several texts are called a"),
        (["a.md", "b.md", "-o", "a.html"], "expected a folder for 2 texts"),
        (["a.md", "-o", "x"], "unknown output format ''"),
        (["a.md", "-o", "x.html", "--min-probability", "2"], "for --min-probability. Must be < 1"),
        (["a.md", "-o", "x.html", "--show", "often"], "--show"),
        (["a.md", "-o", "x.html", "--pictures", "0"], "--pictures '0': expected a number from 1, or all"),
        (["a.md", "-o", "x.html", "--pictures", "many"], "--pictures 'many': expected a number from 1"),
        (["a.md", "-o", "x.html", "--rewrite", "m"], "--rewrite and --endpoint go together"),
        (["a.md", "-o", "x.html", "--endpoint", "http://127.0.0.1:1/v1"], "--rewrite and --endpoint go"),
        (
            ["a.md", "-o", "x.html", "--rewrite", "m", "--endpoint", "http://example.org/v1"],
            "example.org is not this machine",
        ),
        (["a.md", "-o", "x.html", "--layout", "recipes"], "--layout"),
        (["a.md", "-o", "x.pptx", "--layout", "recipe"], ".pptx has no layout recipe; expected slides;"),
        (["a.md", "-o", "x.epub", "--layout", "slides"], ".epub has no layout slides; expected book or"),
        (["a.md", "-o", "x.md", "--layout", "book"], ".md has no layout book; expected none;"),
        (["a.md", "-o", "x.epub", "--page-size", "a5"], ".epub has no pages; leave the page size out"),
        (["a.md", "-o", "x.md", "--page-size", "a5"], ".md has no pages; leave the page size out"),
        (["a.md", "-o", "x.json", "--with-reasons"], "--with-reasons: .json holds the whole storyboard"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(lib, typed, tmp_path, capsys, words, part):  # noqa: PLR0917
    assert typed(lib, *words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert part in err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def whole(tmp_path):
    """A text with words between its steps."""
    (tmp_path / "a.md").write_text(WHOLE)


@pytest.mark.usefixtures("whole")
def test_reasons_stand_in_the_file_where_they_are_asked_for(lib, typed, tmp_path):
    assert typed(lib, "a.md", "-o", "plain.html") == 0
    assert typed(lib, "a.md", "-o", "told.html", "--with-reasons") == 0
    assert "Why " not in (tmp_path / "plain.html").read_text()
    assert "Probability that " in (tmp_path / "told.html").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("whole")
def test_layout_and_page_size_shape_the_file(lib, typed, tmp_path):
    assert typed(lib, "a.md", "-o", "a.html", "--layout", "recipe") == 0
    assert 'class="layout-recipe"' in (tmp_path / "a.html").read_text()
    assert typed(lib, "a.md", "-o", "a.pdf", "--page-size", "A5", "--layout", "book") == 0
    pages = PdfReader(tmp_path / "a.pdf").pages
    assert (round(pages[0].mediabox.width), round(pages[0].mediabox.height)) == (595, 420)
    assert typed(lib, "a.md", "-o", "a.docx", "--page-size", "Letter") == 0
    section = Document(str(tmp_path / "a.docx")).sections[0]
    assert section.page_width.inches == pytest.approx(8.5, abs=0.01)


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("kind", ["docx", "epub"])
def test_documents_and_books_hold_the_words_and_the_pictures(lib, typed, tmp_path, kind):
    assert typed(lib, "a.md", "-o", f"a.{kind}", *PINNED) == 0
    with zipfile.ZipFile(tmp_path / f"a.{kind}") as made:
        names = made.namelist()
        words = b"".join(made.read(name) for name in names if name.endswith(("xml", "xhtml")))
    assert b"They came from far." in words
    assert b"A blue lake." in words
    assert len([name for name in names if "media/" in name or "/pictures/" in name]) == 2


@pytest.fixture(scope="module")
def different(tmp_path_factory):
    """A library of pictures of which none is nearly another."""
    root = tmp_path_factory.mktemp("different")
    (root / "pictures").mkdir()
    for number, name in enumerate(("red field", "blue lake", "green hill", "old boat")):
        noise_picture(number).save(root / "pictures" / f"{name}.png")
    assert run(["index", str(root / "pictures"), "--library", str(root / "lib"), "--encoder", "colour"]) == 0
    return str(root / "lib")


@pytest.mark.slow
def test_how_readily_pictures_are_shown(different, typed, tmp_path, capsys):
    """From one position to the next no picture goes; the number stated is the number applied."""
    (tmp_path / "a.md").write_text("# Odd\n\nA red field.\n\nThe parliament debates a tax on shipping.\n")
    boards = {}
    for name, words in {
        "cautious": ["--show", "cautious"],
        "usual": [],
        "always": ["--show", "always"],
        "number": ["--min-probability", "0.999"],
    }.items():
        assert typed(different, "a.md", "-o", f"{name}.json", "--json", *words) == 0
        boards[name] = json.loads(capsys.readouterr().out)
    shown = {
        name: {step["position"] for step in board["steps"] if step["chosen"]}
        for name, board in boards.items()
    }
    assert shown["cautious"] <= shown["usual"] <= shown["always"] == {0, 1}
    assert shown["number"] <= shown["cautious"]
    assert (
        boards["cautious"]["threshold"] >= boards["usual"]["threshold"] > boards["always"]["threshold"] == 0
    )
    assert boards["number"]["threshold"] == 0.999
    for board in boards.values():
        for step in board["steps"]:
            assert (step["chosen"] is None) == (step["probability"] < board["threshold"])


def test_where_little_fits_it_says_what_would_help(lib, typed, tmp_path, capsys):
    (tmp_path / "a.md").write_text("One.\n\nThe parliament debates a tax.\n\nHe thought about it.\n")
    (tmp_path / "b.md").write_text(TEXT)
    assert typed(lib, "a.md", "-o", "a.html", "--min-probability", "0.99") == 0
    out, err = capsys.readouterr()
    (line,) = (line for line in err.splitlines() if "What would help" in line)
    assert line.startswith("Few pictures fit: of 3 steps, 3 left blank. What would help: CLIP")
    assert "limner models get clip'" in line
    assert "more pictures on the subject of the text" in line
    assert "pinning a picture" in line
    assert "3 left blank: no picture fits" in out
    assert typed(lib, "b.md", "-o", "b.html", *PINNED) == 0
    assert "What would help" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_model_reads_the_steps_beside_their_own_words(different, typed, tmp_path, capsys):
    """What it says finds the picture, and is nowhere to be seen; the text goes to that endpoint alone."""
    (tmp_path / "a.md").write_text("# Finn\n\nFinn came home.\n\nHe slept.\n")
    words = ["a.md", "-o", "a.json", "--json", "--show", "always"]
    with chat_server() as server:
        server.answer = says('{"sentence": "A green hill."}', '{"sentence": "A blue lake."}')
        assert typed(different, *words, "--rewrite", "small", "--endpoint", server.endpoint) == 0
        assert [asked["model"] for asked in server.requests] == ["small", "small"]
    out = capsys.readouterr().out
    names = [Path(step["chosen"]["picture"]["paths"][0]).stem for step in json.loads(out)["steps"]]
    assert names == ["green hill", "blue lake"]
    assert "A green hill" not in out


def test_two_pictures_for_one_step_are_refused(lib, typed, tmp_path, capsys):
    (tmp_path / "a.md").write_text(TEXT)
    words = ["a.md", "-o", "a.html", "--pin", "1=red field.png", "--pin", "1=blue lake.png"]
    assert typed(lib, *words) == 2
    assert "step 1 is given red field.png and blue lake.png" in capsys.readouterr().err


def test_a_storyboard_read_as_a_text_says_what_it_leaves_behind(lib, typed, tmp_path, capsys):
    (tmp_path / "b.md").write_text(TEXT)
    assert typed(lib, "b.md", "-o", "b.json", *PINNED) == 0
    assert typed(lib, "b.json", "-o", "c.html") == 0
    assert "its 2 pins" in capsys.readouterr().err


@pytest.mark.slow
def test_notes_say_what_was_found(lib, typed, tmp_path, capsys):
    front = "---\ntags: [a]\n---\n"
    (tmp_path / "a.md").write_text(f"{front}{TEXT}\n![](nosuch.jpg)\n\n- more\n")
    (tmp_path / "b.md").write_text("Other words.\n\nOf another text.\n")
    twice = ("--pin", "1=red field.png", "--pin", "2=red field.png")
    assert typed(lib, "a.md", "-o", "a.json", *twice) == 0
    assert "red field.png is pinned to steps 1, 2" in capsys.readouterr().err
    assert typed(lib, "a.md", "-o", "out.md", "--ignore-given") == 0
    told = capsys.readouterr().err
    assert "left out: front matter" not in told
    assert "still linked: nosuch.jpg" in told
    assert typed(lib, "b.md", "-o", "b.html", "--keep", "a.json") == 0
    assert "of another text, Three colours" in capsys.readouterr().err
    both = ("--pin", "1=red field.png", "--ban", "red field.png")
    assert typed(lib, "b.md", "-o", "c.html", *both) == 1
    assert "red field.png is pinned to step 1 and banned" in capsys.readouterr().err


def test_pictures_without_a_text_and_a_folder_without_pictures(typed, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.md").write_text(TEXT)
    assert typed("new", "empty", "-o", "a.html") == 2
    assert "empty is a picture, or holds or lists pictures" in capsys.readouterr().err
    assert typed("new", "a.md", "empty", "-o", "a.html") == 1
    assert not (tmp_path / "new").exists()
    assert typed("new", "a.md", "-o", "/proc/x.html") == 1  # before a library is looked for
    assert "/proc" in capsys.readouterr().err
