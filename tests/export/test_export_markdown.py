"""Markdown: what a renderer makes of it is what the text says, and every link leads to a true copy."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from limner.errors import DataError
from limner.export import Plan
from limner.export import export as write
from limner.export.markdown import inline
from limner.export.wording import first_words
from limner.templates import carried


def export(board, out, **more):
    """All that the format can tell, so that every part of it is looked at."""
    return write(board, out, plan=Plan(with_reasons=True, originals=True), **more)


HOSTILE = [
    "](http://evil.example) ![x](y",
    "<script>alert(1)</script>",
    "# heading",
    "- item",
    "1. item",
    "12) item",
    "> quote",
    "===",
    "---",
    "* * *",
    "```",
    "    code",
    "*a* _b_ **c** `d` ~~e~~",
    "&lt; &#65; &amp;",
    "[ref]: http://evil.example",
    "back\\slash\\",
    "a | b\n--|--",
    "+ plus",
    '" onerror="x',
    "]]>",
]


def rendered(path: Path) -> BeautifulSoup:
    source = path.read_text(encoding="utf-8")
    return BeautifulSoup(MarkdownIt("gfm-like", {"linkify": False}).render(source), "lxml")


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_links_lead_to_true_copies(board, pictures, tmp_path: Path) -> None:
    done = export(board, tmp_path / "my story 100%.md")
    images = rendered(done.path).find_all("img")
    files = [tmp_path / unquote(image["src"]) for image in images]
    assert files == list(done.pictures)
    names = ["turned", "cmyk", "odd", "wide", "tall"]
    assert [file.read_bytes() for file in files] == [Path(pictures[name].path).read_bytes() for name in names]
    assert all(re.fullmatch(r"[A-Za-z0-9.-]+", file.name) for file in files)
    assert [file.suffix for file in files] == [Path(pictures[name].path).suffix.lower() for name in names]
    assert {file.parent.name for file in files} == {"my story 100%_pictures"}
    assert [image["alt"] for image in images[:3]] == [
        "A red roof",
        first_words(board.story.steps[1].text),
        "Given words",
    ]
    assert done.warnings == ()


def test_everything_is_said(board, tmp_path: Path) -> None:
    soup = rendered(export(board, tmp_path / "out.md").path)
    assert [tag.get_text() for tag in soup.find_all("h1")] == ["The red roof"]
    assert [tag.get_text() for tag in soup.find_all("h2")] == [
        "1",
        "2 · A wall",
        "3",
        "4",
        "5",
        "6",
        "Pictures",
    ]
    text = squeezed(soup.get_text(" "))
    for part in (
        "Once there was a red roof.",
        "It leaked.",
        "No picture here. No picture is likely enough.",
        "Ana Lima · CC BY 4.0",
        "Pinned by hand.",
        "Probability that this picture fits: 80 % (fits).",
        "Step 1: Ana Lima",
        "clear.png (40 %)",
    ):
        assert part in text


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_words_stay_words(make_board, tmp_path: Path, words: str) -> None:
    board = make_board([words], title=words, alt=words, reason=words)
    soup = rendered(export(board, tmp_path / "out.md").path)
    assert soup.h1.get_text() == squeezed(words)
    assert len(soup.find_all("h1")) == 1
    assert len(soup.find_all("h2")) == 2
    assert len(soup.find_all("img")) == 1
    assert soup.img["alt"] == squeezed(words)
    assert soup.find(["a", "script", "code", "table", "ol", "s"]) is None
    body = soup.h2.find_next_siblings("p")[1]
    assert squeezed(body.get_text()) == squeezed(words)


@settings(max_examples=60, deadline=None)
@given(
    text=st.text(min_size=1, max_size=60) | st.text("#*_-+=>.)1`~<&;[]()!|\\ \n\ta", min_size=1, max_size=24)
)
def test_any_text_comes_through(text: str) -> None:
    soup = BeautifulSoup(
        MarkdownIt("gfm-like", {"linkify": False}).render(f"x\n\n{inline(text)}\n\ny"), "lxml"
    )
    shown = [squeezed(tag.get_text()) for tag in soup.body.find_all(recursive=False)]
    said = squeezed(carried(text))
    assert shown == ["x", *([said] if said else []), "y"]
    assert {tag.name for tag in soup.body.find_all(True)} == {"p"}


def test_lines_of_verse_are_kept(make_board, tmp_path: Path) -> None:
    soup = rendered(export(make_board(["- one\n2. two\n\n# three"]), tmp_path / "out.md").path)
    body = soup.h2.find_next_siblings("p")[1]
    assert len(body.find_all("br")) == 1
    assert squeezed(body.get_text(" ")) == "- one 2. two"


def test_one_copy_for_a_repeated_picture(make_board, tmp_path: Path) -> None:
    done = export(make_board(["a", "b"]), tmp_path / "out.md")
    assert len(done.pictures) == 1
    assert len(rendered(done.path).find_all("img")) == 2
    assert "Steps 1, 2:" in done.path.read_text()


def test_copies_made_before_are_kept(board, tmp_path: Path) -> None:
    first = export(board, tmp_path / "out.md")
    stamps = [file.stat().st_mtime_ns for file in first.pictures]
    (first.pictures[0].parent / "mine.txt").write_text("mine")
    second = export(board, tmp_path / "out.md", overwrite=True)
    assert second.pictures == first.pictures
    assert [file.stat().st_mtime_ns for file in second.pictures] == stamps
    assert second.warnings == ("out_pictures holds 1 other file, left as found",)


def test_another_file_of_that_name_is_not_replaced(board, tmp_path: Path) -> None:
    first = export(board, tmp_path / "out.md")
    first.pictures[0].write_bytes(b"edited by hand")
    with pytest.raises(DataError, match="another content"):
        export(board, tmp_path / "out.md", overwrite=True)
    assert first.pictures[0].read_bytes() == b"edited by hand"


def test_a_file_in_place_of_the_folder(board, tmp_path: Path) -> None:
    (tmp_path / "out_pictures").write_text("mine")
    with pytest.raises(DataError, match="expected a folder"):
        export(board, tmp_path / "out.md")
    assert not (tmp_path / "out.md").exists()
