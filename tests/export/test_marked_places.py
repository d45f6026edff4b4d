"""Marked places in exports: a picture takes the place of its mark, and no mark is ever printed.

For each text of `tests/marked_texts`, `golden/marked` holds the Markdown that comes back and the page, with
pictures in every other place. LIMNER_WRITE_GOLDEN=1 writes them.
"""

import io
import os
import re
import zipfile
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from docx import Document
from exports import candidate
from pptx import Presentation

from limner.export import Exported, Plan, export
from limner.records import Board, BoardStep, Picture
from limner.text.read import read

TEXTS = Path(__file__).parents[1] / "marked_texts"
GOLDEN = Path(__file__).with_name("golden") / "marked"
NAMES = sorted(path.name for path in TEXTS.iterdir() if path.suffix in (".md", ".txt", ".html"))
BREAD = (
    "# Bread\n\n[photo: flour]\n\nKnead it.\n\n1. Bake it. TODO photo: the oven\n2. Eat it.\n\n![crumbs]()\n"
)


def board_of_text(text: str | Path, pictures: list[Picture | None], **more: object) -> Board:
    """A storyboard of a text whose steps have pictures in turn."""
    story = read(text, format=None if isinstance(text, Path) else "markdown").story
    steps = []
    for place in range(len(story.steps)):
        picture = pictures[place % len(pictures)]
        chosen = {"chosen": candidate(picture), "origin": "decoded"} if picture else {"origin": "blank"}
        steps.append(BoardStep(position=place, reason="It fits.", **chosen))
    return Board(story=story, steps=tuple(steps), **more)


def written(board: Board, folder: Path, suffix: str, **plan: object) -> Exported:
    return export(board, folder / f"page{suffix}", overwrite=True, plan=Plan(**plan))


def page_in_lines(soup: BeautifulSoup) -> str:
    lines = []
    for node in soup.main.find_all(["h2", "h3", "p", "li", "img", "pre", "td", "blockquote"]):
        words = f"({node['alt']})" if node.name == "img" else " ".join(node.get_text(" ").split())
        lines.append(f"{node.name}: {words}")
    return "\n".join(lines)


@pytest.mark.parametrize("name", NAMES)
def test_texts_come_back_with_pictures_in_the_place_of_marks(pictures, tmp_path: Path, name: str) -> None:
    board = board_of_text(TEXTS / name, [pictures["turned"], None])
    markdown = written(board, tmp_path, ".md").path.read_text(encoding="utf-8")
    page = BeautifulSoup(written(board, tmp_path, ".html").path.read_text(encoding="utf-8"), "lxml")
    made = f"{markdown}\n{'=' * 40}\n{page_in_lines(page)}\n"
    golden = GOLDEN / f"{name}.golden"
    if os.environ.get("LIMNER_WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(made, encoding="utf-8")
    assert made == golden.read_text(encoding="utf-8")


def test_every_other_byte_of_the_source_stays(pictures, tmp_path: Path) -> None:
    text = BREAD.replace("\n", "\r\n")
    board = board_of_text(text, [pictures["turned"]])
    source = written(board, tmp_path, ".md").path.read_bytes().decode()
    assert re.sub(r"page_pictures/place-\d\d-turned-[0-9a-f]{8}\.jpg", "FILE", source) == (
        text.replace("[photo: flour]", "![flour](FILE)")
        .replace("TODO photo: the oven", "![the oven](FILE)")
        .replace("![crumbs]()", "![crumbs](FILE)")
    )


def test_a_filled_place_is_a_picture_of_the_text_and_a_blank_one_still_asks(pictures, tmp_path: Path) -> None:
    text = "Stones.\n\n[photo: wet stones]\n[photo: dry stones]\n\n[Photo: Ann]\n\nSand. [photo: dunes]\n"
    board = board_of_text(text, [pictures["turned"], None, None, pictures["wide"]])
    out = written(board, tmp_path, ".md").path
    assert "![dry stones]()" in out.read_text(encoding="utf-8")
    story = read(out).story
    assert [story.blocks[step.run[0]].text for step in story.steps] == ["dry stones", "Ann"]
    shown = [picture.alt for block in story.blocks for picture in block.pictures]
    assert shown == ["wet stones", "dunes"]


def test_pages_of_all_formats_show_pictures_and_no_mark(pictures, tmp_path: Path) -> None:
    board = board_of_text(BREAD, [pictures["wide"], None, pictures["odd"]])
    document = Document(written(board, tmp_path, ".docx").path)
    lines = [
        line.text or next((one.get("descr") for one in line._p.iter() if one.get("descr")), "")
        for line in document.paragraphs
    ]
    assert lines == ["Bread", "flour", "Knead it.", "Bake it.", "Eat it.", "crumbs"]
    shown = Presentation(written(board, tmp_path, ".pptx").path)
    said = [
        [shape.text_frame.text for shape in slide.shapes if shape.has_text_frame and shape.name == "Text"]
        for slide in shown.slides
    ]
    assert said == [[], [], ["Knead it.\n1. Bake it.\n2. Eat it."]]
    with zipfile.ZipFile(written(board, tmp_path, ".epub").path) as book:
        text = "".join(book.read(name).decode() for name in book.namelist() if name.endswith("xhtml"))
    assert "photo" not in text
    assert "TODO" not in text
    assert 'alt="flour"' in text
    for layout in ("book", "recipe", "article", "slides"):
        assert written(board, tmp_path, ".pdf", layout=layout).path.read_bytes().startswith(b"%PDF")
        page = written(board, tmp_path, ".html", layout=layout).path.read_text(encoding="utf-8")
        assert [image["alt"] for image in BeautifulSoup(page, "lxml").main.find_all("img")] == [
            "flour",
            "crumbs",
        ]
        assert "the oven" not in page


def test_reasons_stand_below_the_picture_and_credits_lead_to_it(pictures, tmp_path: Path) -> None:
    board = board_of_text(BREAD, [pictures["turned"], None, pictures["odd"]])
    page = written(board, tmp_path, ".html", with_reasons=True).path.read_text(encoding="utf-8")
    soup = BeautifulSoup(page, "lxml")
    assert "It fits." in soup.select_one("#step-1 figcaption").get_text()
    assert all(soup.find(id=link["href"][1:]) for link in soup.find_all("a"))


def test_blank_places_are_listed_as_still_wanted(pictures) -> None:
    board = board_of_text(BREAD, [None, pictures["turned"], None])
    assert board.wanted == ("flour", "crumbs")
    assert board.wanted_line() == '2 of 3 places stay blank: "flour", "crumbs"'
    assert Board.model_validate_json(board.model_dump_json()) == board
    assert '"wanted":["flour","crumbs"]' in board.model_dump_json()


def test_the_cover_stands_under_the_title_and_for_the_page(pictures, tmp_path: Path) -> None:
    board = board_of_text(BREAD, [None], cover=pictures["odd"], settings={"cover": pictures["odd"].id})
    page = written(board, tmp_path, ".html").path.read_text(encoding="utf-8")
    soup = BeautifulSoup(page, "lxml")
    assert soup.select_one("header.front img")["alt"] == "An odd name"
    assert soup.find("meta", property="og:image:alt")["content"] == "An odd name"
    assert Document(written(board, tmp_path, ".docx").path).inline_shapes[0].width > 0
    title = Presentation(written(board, tmp_path, ".pptx").path).slides[0]
    assert "Picture" in [shape.name for shape in title.shapes]
    with zipfile.ZipFile(written(board, tmp_path, ".epub").path) as book:
        assert any(name.endswith("cover.jpg") for name in book.namelist())
        assert "cover-image" in book.read("EPUB/content.opf").decode()
    for layout in ("book", "article"):
        assert written(board, tmp_path, ".pdf", layout=layout).path.read_bytes().startswith(b"%PDF")
    source = written(board, tmp_path, ".md").path
    assert source.read_text(encoding="utf-8").startswith("# Bread\n\n![An odd name](page_pictures/cover-")
    assert read(source).story.blocks[0].pictures[0].alt == "An odd name"


def test_without_a_cover_the_first_picture_serves_readers_and_links_alone(pictures, tmp_path: Path) -> None:
    board = board_of_text(BREAD, [None, pictures["turned"], None])
    soup = BeautifulSoup(written(board, tmp_path, ".html").path.read_text(encoding="utf-8"), "lxml")
    assert soup.find("meta", property="og:image:alt")["content"] == "the oven"
    assert soup.select_one("header.front img") is None
    assert "cover-" not in written(board, tmp_path, ".md").path.read_text(encoding="utf-8")
    with zipfile.ZipFile(io.BytesIO(written(board, tmp_path, ".epub").path.read_bytes())) as book:
        assert any(name.endswith("cover.jpg") for name in book.namelist())


def test_the_cover_that_front_matter_names_is_shown_unless_none_is_wanted(pictures, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(Path(pictures["odd"].path).read_bytes())
    (tmp_path / "text.md").write_text("---\nimage: a.jpg\n---\n# Bread\n\nKnead it.\n", encoding="utf-8")
    for setting, count in ((None, 1), ("none", 0)):
        board = board_of_text(tmp_path / "text.md", [None], settings={"cover": setting})
        soup = BeautifulSoup(written(board, tmp_path, ".html").path.read_text(encoding="utf-8"), "lxml")
        assert len(soup.select("header.front img")) == count
