"""Markdown comes out as it went in, with pictures put in; any other text is what a renderer makes of it."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup
from exports import candidate
from markdown_it import MarkdownIt
from PIL import Image

import limner
from limner.errors import DataError
from limner.export import Plan, export
from limner.files import sha256_of
from limner.records import Area, Block, Board, BoardStep, Framing, PictureRef, Step, Story

MANUAL = """---
title: Manual
tags: [a]
---

# Manual {#top}

<!-- for the editors -->

First, cut the wood[^1].

> [!NOTE]
> Mind your hands.

| a | b |
|:--|--:|
| 1 | 2 |

Then glue it.

[^1]: Oak is best.
"""
HOSTILE = [
    "](http://evil.example) ![x](y",
    "<script>alert(1)</script>",
    "12) item",
    "*a* _b_ **c** `d` ~~e~~ ==f==",
    "&lt; &#65; &amp;",
    "a | b\n--|--",
    '" onerror="x',
]


def board_of(story: Story, pictures, names=("turned", "odd"), **framing) -> Board:
    """Chosen pictures for the steps in turn, where the text shows none."""
    steps = []
    for place, step in enumerate(story.steps):
        name = names[place % len(names)] if names else None
        chosen = candidate(pictures[name]) if name else None
        origin = "given" if step.pictures else "decoded" if chosen else "blank"
        how = Framing(**framing) if chosen and framing else Framing()
        steps.append(BoardStep(position=place, chosen=chosen, origin=origin, framing=how, reason="It fits."))
    return Board(story=story, steps=tuple(steps), version="0.1.0")


def read(text: str) -> Story:
    return limner.read(text, format="markdown")


def rendered(path: Path) -> BeautifulSoup:
    source = path.read_text(encoding="utf-8")
    return BeautifulSoup(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(source), "lxml")


def test_an_export_is_the_source_with_pictures_and_their_credits(pictures, tmp_path: Path) -> None:
    text = MANUAL.replace("\n", "\r\n")
    (tmp_path / "manual.md").write_bytes(text.encode())
    done = export(board_of(limner.read(tmp_path / "manual.md"), pictures), tmp_path / "out.md")
    first, odd = (f"out_pictures/{file.name}" for file in done.pictures)
    credit = f"![A red roof]({first})\r\n*Ana Lima · CC BY 4.0*\r\n"
    expected = text.replace("wood[^1].\r\n", f"wood[^1].\r\n\r\n{credit}")
    expected = expected.replace("glue it.\r\n", f"glue it.\r\n\r\n![An odd name]({odd})\r\n")
    assert done.path.read_bytes() == expected.encode()
    assert done.warnings == ()


def test_an_export_read_again_gives_the_same_file(pictures, tmp_path: Path) -> None:
    first = export(board_of(read(MANUAL), pictures), tmp_path / "out.md").path.read_bytes()
    story = limner.read(tmp_path / "out.md")
    assert (story.markdown, story.steps) == (MANUAL, read(MANUAL).steps)
    (tmp_path / "again").mkdir()
    assert export(board_of(story, pictures), tmp_path / "again" / "out.md").path.read_bytes() == first


def test_links_lead_to_scaled_copies_named_by_their_content(pictures, tmp_path: Path) -> None:
    story = limner.read("One.\n\nTwo.\n\nThree.\n\nFour.")
    board = board_of(
        story, pictures, ("turned", "cmyk", "odd", "turned"), crop=Area(x=0, y=0, width=1, height=0.5)
    )
    done = export(board, tmp_path / "my story 100%.md")
    images = rendered(done.path).find_all("img")
    files = [tmp_path / unquote(image["src"]) for image in images]
    assert list(dict.fromkeys(files)) == list(done.pictures)
    assert files[0] == files[3]  # one copy for a repeated picture
    for number, file in enumerate(files[:3], 1):
        assert re.fullmatch(rf"0{number}-[A-Za-z0-9-]+-{sha256_of(file)[:8]}\.jpg", file.name)
    for file, size in zip(files, [(200, 150), (160, 60), (200, 75)], strict=False):
        with Image.open(file) as image:
            assert image.size == size
    assert files[0].parent.name == "my story 100%_pictures"


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_words_stay_words(pictures, tmp_path: Path, words: str) -> None:
    story = Story(id="x", title=words, steps=[Step(text=words), Step(text="End.")])
    board = board_of(story, pictures, ("odd",), alt=words, caption=words)
    soup = rendered(export(board, tmp_path / "out.md").path)
    plain = " ".join(words.split())
    assert soup.h1.get_text() == plain
    assert [image["alt"] for image in soup.find_all("img")] == [plain, plain]
    assert soup.find(["a", "script", "code", "table", "ol", "ul", "s", "blockquote", "hr"]) is None
    assert " ".join(soup.h1.find_next_sibling("p").get_text().split()) == plain
    blocks = limner.read(tmp_path / "out.md").blocks
    assert plain in [" ".join(block.text.split()) for block in blocks] or not any(map(str.isalnum, words))


PAGE = """<html lang="de"><head><meta name="author" content="Ana"></head><body><h1>Suppe</h1>
<h2>Zubereitung</h2><ol><li>Zwiebeln auf dem Brett schälen.<ul><li>halbieren</li></ul></li><li>Braten.
<figure><img src="odd.png"><figcaption>Im Topf</figcaption></figure></li><li>Essen.</li></ol></body></html>"""


def test_a_text_of_another_format_is_written_with_copies_of_its_own_pictures(pictures, tmp_path) -> None:
    (tmp_path / "a.html").write_text(PAGE)
    Image.new("RGB", (40, 30), "purple").save(tmp_path / "odd.png")
    story = limner.read(tmp_path / "a.html")
    (tmp_path / "out").mkdir()
    done = export(board_of(story, pictures, ("turned",)), tmp_path / "out" / "out.md")
    first, second = (f"out_pictures/{file.name}" for file in done.pictures)
    picture = f"   ![A red roof]({first})\n   *Ana Lima · CC BY 4.0*\n"
    assert done.path.read_text() == (
        '---\nlanguage: "de"\nauthor: "Ana"\n---\n\n# Suppe\n\n## Zubereitung\n\n'
        f"1. Zwiebeln auf dem Brett schälen.\n   - halbieren\n\n{picture}"
        f"2. Braten.\n\n   ![]({second})\n   *Im Topf*\n\n3. Essen.\n\n{picture}"
    )
    again = limner.read(done.path)
    assert [step.text for step in again.steps] == [step.text for step in story.steps]
    assert [ref.path for step in again.steps for ref in step.pictures] == [str(done.pictures[1])]
    first_text = done.path.read_text()
    done = export(board_of(again, pictures, ("turned",)), done.path, overwrite=True)
    assert (done.path.read_text(), done.warnings) == (first_text, ())


def test_a_picture_inside_a_document_is_copied_and_one_on_the_web_stays_a_link(pictures, tmp_path) -> None:
    data = Path(pictures["odd"].path).read_bytes()
    inside = PictureRef(target="image1.png", data=data, alt="Pot")
    web, lost = PictureRef(target="https://x.example/a b.jpg"), PictureRef(target="gone.jpg", caption="Gone")
    blocks = [Block(text="One."), *(Block(kind="picture", pictures=(ref,)) for ref in (inside, web, lost))]
    story = Story(id="x", blocks=blocks, steps=[Step(text="One.", run=(0, 4), pictures=(inside, web, lost))])
    done = export(board_of(story, pictures, ()), tmp_path / "out.md")
    (copy,) = done.pictures
    assert done.path.read_text() == (
        f"One.\n\n![Pot](out_pictures/{copy.name})\n\n![](https://x.example/a%20b.jpg)\n"
    )
    assert [warning for warning in done.warnings if "gone.jpg" in warning]


def test_the_text_s_own_picture_stays_and_what_cannot_be_found_is_named(pictures, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    Image.new("RGB", (40, 30), "purple").save(tmp_path / "in" / "own.jpg")
    text = "First cut.\n\n![own](own.jpg)\n\n![gone](gone.jpg)\n\nThen glue.\n"
    (tmp_path / "in" / "a.md").write_text(text)
    board = board_of(limner.read(tmp_path / "in" / "a.md"), pictures, ("turned",))
    done = export(board, tmp_path / "out.md")
    assert done.path.read_text().startswith(text.rstrip())
    assert len(done.pictures) == 1
    missing, lost = done.warnings
    assert "missing but still linked: gone.jpg" in missing
    assert "not found from here" in lost
    assert not any("own.jpg" in line for line in export(board, tmp_path / "in" / "out.md").warnings)


def test_pictures_stand_in_the_item_or_line_of_their_step(pictures, tmp_path: Path) -> None:
    text = "**Method**\nCut it.\nSew it.\n\n1. Chop:\n   - peel\n   - cut\n2. Fry.\n"
    story = read(text.partition("\n\n")[0] + "\n")
    done = export(board_of(story, pictures, ("odd",)), tmp_path / "a.md")
    picture = f"![An odd name](a_pictures/{done.pictures[0].name})"
    assert done.path.read_text() == f"**Method**\nCut it.\n{picture}\n\nSew it.\n\n{picture}\n"
    assert limner.read(done.path).markdown == story.markdown
    story = read(text.partition("\n\n")[2])
    done = export(board_of(story, pictures, ("odd",)), tmp_path / "b.md")
    picture = picture.replace("a_", "b_")
    assert (
        done.path.read_text() == f"1. Chop:\n   - peel\n   - cut\n\n   {picture}\n2. Fry.\n\n   {picture}\n"
    )


def test_a_title_that_was_changed_is_in_the_source(pictures, tmp_path: Path) -> None:
    story = read(MANUAL).model_copy(update={"title": "A *shed*"})
    text = export(board_of(story, pictures, ()), tmp_path / "out.md").path.read_text()
    assert text == MANUAL.replace("title: Manual", 'title: "A *shed*"').replace("# Manual", "# A \\*shed\\*")


def test_reasons_stand_below_their_steps_and_credits_at_the_end(pictures, tmp_path: Path) -> None:
    board = board_of(read(MANUAL), pictures, ("turned",))
    text = export(board, tmp_path / "out.md", plan=Plan(with_reasons=True)).path.read_text()
    assert "for the editors" in text
    assert text.count("> - Chosen from the library: turned.jpg") == 2
    assert "- Steps 1, 2: Ana Lima · CC BY 4.0 (turned.jpg)" in text


def test_pictures_that_are_no_longer_used_are_listed_and_removed_when_replaced(pictures, tmp_path) -> None:
    story = read("One fox.\n\nTwo hares.\n")
    first = export(board_of(story, pictures, ("turned",)), tmp_path / "out.md")
    (tmp_path / "out_pictures" / "01-mine-00000000.jpg").write_bytes(b"mine")
    stamp = first.pictures[0].stat().st_mtime_ns
    again = export(board_of(story, pictures, ("turned",)), tmp_path / "out.md", overwrite=True)
    assert again.pictures[0].stat().st_mtime_ns == stamp
    first.path.unlink()
    listed = export(board_of(story, pictures, ("odd",)), tmp_path / "out.md")
    assert first.pictures[0].name in listed.warnings[0]
    assert "--overwrite" in listed.warnings[0]
    replaced = export(board_of(story, pictures, ("odd",)), tmp_path / "out.md", overwrite=True)
    assert first.pictures[0].name in replaced.warnings[0]
    assert replaced.warnings[1] == "out_pictures holds 1 other file, left as found"
    left = {file.name for file in (tmp_path / "out_pictures").iterdir()}
    assert left == {replaced.pictures[0].name, "01-mine-00000000.jpg"}


def test_files_in_the_way_are_not_replaced(pictures, tmp_path: Path) -> None:
    board = board_of(read("One fox.\n\nTwo hares.\n"), pictures)
    first = export(board, tmp_path / "out.md")
    first.pictures[0].write_bytes(b"edited by hand")
    with pytest.raises(DataError, match="another content"):
        export(board, tmp_path / "out.md", overwrite=True)
    assert first.pictures[0].read_bytes() == b"edited by hand"
    (tmp_path / "b_pictures").write_text("mine")
    with pytest.raises(DataError, match="expected a folder"):
        export(board, tmp_path / "b.md")
    assert not (tmp_path / "b.md").exists()
