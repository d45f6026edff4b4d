"""The page and the notebook's fragment: self-contained, escaped, and nothing but what the storyboard says."""

import base64
import hashlib
import io
import os
import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from limner.export import Plan, export
from limner.export.fragment import board_fragment, hits_fragment
from limner.export.html import matches
from limner.export.outline import Outline
from limner.export.storyboard_json import load
from limner.records import Area, Board, Framing
from limner.templates import carried

GOLDEN = Path(__file__).with_name("golden")
HOSTILE = (
    "<script>alert(1)</script> \" onerror=\"alert(1) ' onload='alert(1) ]]>--><!-- {{ 7*7 }}{% raw %}"
    " </title></style><img src=x> &lt;b&gt; &amp;amp;"
)


def page_of(board: Board, tmp_path: Path, **options: object) -> BeautifulSoup:
    """The page, by default with all that it can say."""
    plan = Plan(**{"with_reasons": True, **options})
    done = export(board, tmp_path / "page.html", overwrite=True, plan=plan)
    return BeautifulSoup(done.path.read_text(encoding="utf-8"), "lxml")


def offences(soup: BeautifulSoup) -> list[str]:
    """Everything on a page that could run, or ask for something elsewhere."""
    forbidden = ["script", "link", "iframe", "object", "embed", "base", "form"]
    found = [tag.name for tag in soup.find_all(forbidden)]
    for tag in soup.find_all(True):
        for name, value in tag.attrs.items():
            if name.startswith("on") or name in ("style", "srcset", "action", "background", "ping"):
                found.append(f"{tag.name} {name}")
            inside = str(value).startswith(("data:image/webp;", "#step-", "#story"))
            if name in ("src", "href", "xlink:href") and not inside:
                found.append(f"{tag.name} {name}={value}")
    styles = [tag.string or "" for tag in soup.find_all("style")]
    return found + [part for style in styles for part in re.findall(r"url\(|@import|https?:", style)]


def test_nothing_runs_and_nothing_is_asked_for(board: Board, tmp_path: Path) -> None:
    soup = page_of(board, tmp_path)
    assert offences(soup) == []
    assert all(soup.find(id=link["href"][1:]) for link in soup.find_all("a"))
    policy = soup.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"]
    digest = base64.b64encode(hashlib.sha256(soup.style.string.encode()).digest()).decode()
    allowed = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert {rule.strip() for rule in policy.split(";")} == set(allowed.split("; "))
    bad = '<img src="http://x/y.png" onerror="a()"><style>a{background:url(x)}</style><script></script>'
    assert len(offences(BeautifulSoup(bad, "lxml"))) == 4


@pytest.mark.parametrize("name", ["recipe", "travels", "board"])
def test_pages_are_as_before(request, tmp_path: Path, name: str) -> None:
    """Markup of a recipe, an article and, with reasons, a picture book, against the files of `golden`."""
    soup = page_of(request.getfixturevalue(name), tmp_path, with_reasons=name == "board")
    for image in soup.find_all("img"):
        image["src"] = "{} × {}".format(*embedded(image).size)
    for front in soup.find_all("meta", property="og:image"):
        assert front["content"].startswith("data:image/jpeg;base64,")
        front["content"] = "a picture"
    for inside in (soup.style, soup.find("meta", attrs={"http-equiv": True})):
        inside.decompose()
    golden, made = GOLDEN / f"{name}.html", str(soup)
    if os.environ.get("LIMNER_WRITE_GOLDEN"):
        golden.write_text(made, encoding="utf-8")
    assert made == golden.read_text(encoding="utf-8"), "if it should change, set LIMNER_WRITE_GOLDEN=1"


def embedded(tag) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(tag["src"].split(",")[1]))).convert("RGB")


def test_the_overview_keeps_the_focal_point_in_sight(make_board, pictures, tmp_path: Path) -> None:
    board = make_board(["One.", "Two."])
    first = board.steps[0].model_copy(update={"framing": Framing(focus=(0.5, 0))})
    framed = board.model_copy(update={"steps": (first, board.steps[1])})
    strip = page_of(framed, tmp_path, layout="book").select(".strip img")
    middles = [embedded(tag).resize((1, 5)).getpixel((0, 4)) for tag in strip]
    assert [red > blue for red, _, blue in middles] == [True, False]
    figure = Outline(framed, Plan(), ".html").panels[0].plate[0]
    assert figure.filling(4 / 3) == Area(x=0, y=0, width=1, height=0.5)


def test_hostile_words_stay_words(make_board, pictures, tmp_path: Path) -> None:
    words = HOSTILE
    caption = pictures["turned"].captions[0].model_copy(update={"text": words})
    evil = pictures["turned"].model_copy(update={"captions": (caption,), "credit": words, "license": words})
    board = make_board([words, words], title=words, language=words, swap=evil)
    soup = page_of(board, tmp_path)
    assert offences(soup) == []
    assert soup.title.string == soup.h1.get_text() == words
    assert soup.select_one("#step-1 .text").get_text().strip() == words
    assert soup.select_one("#step-1 figure img")["alt"] == words
    assert soup.select_one("#step-1 figcaption bdi").get_text() == f"{words} · {words}"
    for fragment in (board_fragment(board, [words]), hits_fragment([board.steps[0].chosen], [words])):
        inside = BeautifulSoup(fragment, "lxml")
        assert inside.find("script") is None
        assert inside.find_all("small")[-1].get_text() == words


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(text=st.text(min_size=1, max_size=80).filter(str.strip), title=st.text(max_size=30))
@example(text="0", title="\n")
def test_odd_texts_come_through(make_board, tmp_path_factory, text: str, title: str) -> None:
    board, folder = make_board([text], title=title), tmp_path_factory.mktemp("odd")
    soup = page_of(board, folder)
    assert offences(soup) == []
    shown = soup.select_one("#step-1 .text")
    for line_break in shown.find_all("br"):
        line_break.replace_with("\n")
    first, second = (letters.replace("\ufffd", " ").split() for letters in (shown.get_text(), carried(text)))
    assert first == second
    assert soup.h1.get_text().strip()
    assert load(export(board, folder / "odd.json").path) == board


def test_matching_words_are_whole_words() -> None:
    for text, words, due in (
        ("Cats concatenate CAT cat", ("cat",), ["CAT", "cat"]),
        ("red roof", ("red", "red roof", " "), ["red roof"]),
        ("a+b (c)", ("a+b",), ["a+b"]),
        ("عنكبوت صغير", ("صغير",), ["صغير"]),
    ):
        assert [text[start:end] for start, end in matches(text, words)] == due


def test_a_notebook_shows_all_pictures_of_a_step(travels: Board, tmp_path: Path) -> None:
    soup = BeautifulSoup(board_fragment(travels), "lxml")
    assert [image["alt"] for image in soup("img")] == ["Cheese", "Fish", "", "A train", "A red roof"]
    assert "gone.jpg of the text is left out" in soup.get_text()
