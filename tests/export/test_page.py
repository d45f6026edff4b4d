"""The page: self-contained, escaped, readable by all, and nothing but what the storyboard says."""

import base64
import hashlib
import io
import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from limner.export import Plan, export
from limner.records import Board, Part
from limner.templates import carried

HOSTILE = (
    "<script>alert(1)</script>",
    '" onerror="alert(1)',
    "' onload='alert(1)",
    "]]>--><!--",
    "{{ 7*7 }}{% raw %}",
    "</title></style><img src=x>",
    "&lt;b&gt; &amp;amp;",
    "javascript:alert(1)",
)


def page_of(board: Board, tmp_path: Path) -> tuple[str, BeautifulSoup]:
    """The page with all that it can say."""
    out = tmp_path / "page.html"
    export(board, out, overwrite=True, plan=Plan(with_reasons=True))
    text = out.read_text(encoding="utf-8")
    return text, BeautifulSoup(text, "lxml")


def squeezed(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def soup(board: Board, tmp_path_factory: pytest.TempPathFactory) -> BeautifulSoup:
    return page_of(board, tmp_path_factory.mktemp("page"))[1]


def offences(soup: BeautifulSoup) -> list[str]:
    """Everything on a page that could run, or ask for something elsewhere."""
    found = [
        str(tag.name)
        for tag in soup.find_all(["script", "link", "iframe", "object", "embed", "base", "form"])
    ]
    for tag in soup.find_all(True):
        for name, value in tag.attrs.items():
            if name.startswith("on") or name in ("style", "srcset", "action", "background", "ping"):
                found.append(f"{tag.name} {name}")
            if name in ("src", "href", "xlink:href") and not str(value).startswith(
                ("data:image/webp;", "#step-")
            ):
                found.append(f"{tag.name} {name}={value}")
    styles = [tag.string or "" for tag in soup.find_all("style")]
    found += [part for style in styles for part in re.findall(r"url\(|@import|https?:", style)]
    return found


def test_nothing_runs_and_nothing_is_asked_for(soup: BeautifulSoup) -> None:
    assert offences(soup) == []
    assert len(soup.find_all("style")) == 1


def test_offences_are_seen() -> None:
    bad = '<img src="http://x/y.png" onerror="a()"><style>a{background:url(x)}</style><script></script>'
    assert len(offences(BeautifulSoup(bad, "lxml"))) == 4


def test_policy_forbids_network_and_scripts_and_admits_the_style(soup: BeautifulSoup) -> None:
    policy = soup.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    digest = base64.b64encode(hashlib.sha256(soup.style.string.encode()).digest()).decode()
    assert rules == {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_structure(soup: BeautifulSoup, board: Board) -> None:
    assert soup.html["lang"]
    assert soup.title.string == "The red roof"
    assert [tag.get_text() for tag in soup.find_all("h1")] == ["The red roof"]
    assert len(soup.select("main > section.step")) == len(board.steps)
    for section in soup.select("section"):
        assert soup.find(id=section["aria-labelledby"]).name == "h2"
    assert all(soup.find(id=link["href"][1:]) for link in soup.find_all("a"))
    assert len(soup.select("main details > summary")) == len(board.steps)
    for image in soup.find_all("img"):
        assert image["alt"].strip()
    assert "Ana & Co" in soup.header.get_text()


def test_step_shows_text_picture_reasons_and_credit(soup: BeautifulSoup) -> None:
    step = soup.find(id="step-1")
    assert [p.get_text() for p in step.select(".text p")] == ["Once there was a red roof.", "It leaked."]
    assert [mark.get_text() for mark in step.select(".text mark")] == ["roof"]
    assert step.select_one("figure.plate img")["alt"] == "A red roof"
    assert squeezed(step.select_one("figcaption").get_text()) == "Ana Lima · CC BY 4.0"
    said = squeezed(step.details.get_text(" "))
    for part in (
        "Probability that this picture fits: 80 % (fits).",
        "Runners-up 40 % (may fit) it's (a)",
        "Its words fit.",
        "turned.jpg",
    ):
        assert part in said
    assert len(step.select(".runners-up img")) == 2
    assert "creator not stated · licence not stated" in squeezed(step.select_one(".runners-up").get_text())


def test_pins_given_and_blank(soup: BeautifulSoup) -> None:
    assert squeezed(soup.select_one("#step-2 figcaption").get_text()) == "Pinned by hand"
    assert squeezed(soup.select_one("#step-3 figcaption").get_text()) == "Given by the text"
    assert soup.select_one("#step-3 figure img")["alt"] == "Given words"
    blank = soup.find(id="step-4")
    assert blank.select_one("figure.plate") is None
    assert "No picture is likely enough." in blank.select_one(".void").get_text()
    assert "Left blank: steps 4" not in soup.footer.get_text()
    assert "Left blank: step 4." in soup.footer.get_text()


def test_credits_name_every_picture_shown(soup: BeautifulSoup) -> None:
    rows = [squeezed(row.get_text(" ")) for row in soup.select(".credits li")]
    assert len(rows) == 5
    assert rows[0] == "Step 1 Ana Lima · CC BY 4.0 turned.jpg"
    assert rows[1].startswith("Step 2 creator not stated · licence not stated")


def embedded(tag) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(tag["src"].split(",")[1]))).convert("RGB")


def test_pictures_are_upright_and_stripped(soup: BeautifulSoup) -> None:
    tag = soup.select_one("#step-1 figure.plate img")
    image = embedded(tag)
    assert image.size == (200, 300)
    red, blue = image.getpixel((100, 20)), image.getpixel((100, 280))
    assert red[0] > 200
    assert red[2] < 60
    assert blue[2] > 200
    assert blue[0] < 60
    assert int(tag["width"]) / int(tag["height"]) == pytest.approx(2 / 3, rel=0.01)
    data = base64.b64decode(tag["src"].split(",")[1])
    assert b"SECRET" not in data
    assert b"EXIF" not in data


def test_shapes_of_plates(soup: BeautifulSoup) -> None:
    assert "wide" in soup.find(id="step-5")["class"]
    assert "tall" in soup.find(id="step-6")["class"]
    assert "even" in soup.find(id="step-2")["class"]


def test_right_to_left(arabic_board: Board, tmp_path: Path) -> None:
    _, soup = page_of(arabic_board, tmp_path)
    assert soup.h1["dir"] == "rtl"
    assert soup.h1["lang"] == "ar"
    for section in soup.select("main > section"):
        assert section["dir"] == "rtl"
        assert section.details["dir"] == "ltr"
        assert section.select_one(".text")["lang"] == "ar"
        assert "initial" not in section.select_one(".text")["class"]


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_words_stay_words(make_board, pictures, tmp_path: Path, words: str) -> None:
    caption = pictures["turned"].captions[0].model_copy(update={"text": words})
    evil = pictures["turned"].model_copy(update={"captions": (caption,), "credit": words, "license": words})
    board = make_board([words, words], title=words, language=words, reason=words, swap=evil)
    text, soup = page_of(board, tmp_path)
    assert offences(soup) == []
    assert soup.title.string == words
    assert soup.h1.get_text() == words
    assert soup.select_one("#step-1 .text").get_text().strip() == words
    assert soup.select_one("#step-1 figure img")["alt"] == words
    assert soup.select_one("#step-1 figcaption bdi").get_text() == f"{words} · {words}"
    assert len(soup.find_all("section")) == 4
    assert text.count("<script") == 0


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(text=st.text(min_size=1, max_size=80), title=st.text(max_size=30))
@example(text="0", title="\n")
def test_odd_texts_come_through(make_board, tmp_path_factory, text: str, title: str) -> None:
    _, soup = page_of(make_board([text], title=title), tmp_path_factory.mktemp("odd"))
    assert offences(soup) == []
    shown = soup.select_one("#step-1 .text")
    for line_break in shown.find_all("br"):
        line_break.replace_with("\n")
    assert squeezed(shown.get_text()) == squeezed(carried(text))
    assert soup.h1.get_text().strip()


def test_control_characters_are_reported(make_board, tmp_path: Path) -> None:
    done = export(make_board(["bell\x07 and nul\x00"]), tmp_path / "page.html")
    assert done.warnings == ("2 control characters in the text shown as \ufffd",)


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """WCAG 2.2 contrast ratio of two colours."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_by_hand() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", [0, 1])
def test_contrast_is_enough(soup: BeautifulSoup, scheme: int) -> None:
    blocks = re.findall(r":root \{(.*?)\}", soup.style.string, re.S)
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", blocks[scheme]))
    for front, back in [
        ("ink", "paper"),
        ("soft", "paper"),
        ("rubric", "paper"),
        ("ink", "tint"),
        ("soft", "tint"),
        ("ink", "glow"),
    ]:
        assert contrast(colours[front], colours[back]) >= 4.5, (front, back)


def test_both_schemes_and_print_are_styled(soup: BeautifulSoup) -> None:
    for rule in ("prefers-color-scheme: dark", "@media print", "prefers-reduced-motion", ":focus-visible"):
        assert rule in soup.style.string


def test_predictions_of_a_model_are_shown(model_board: Board, tmp_path: Path) -> None:
    text, soup = page_of(model_board, tmp_path)
    assert offences(soup) == []
    assert "<b>Mood" not in text
    first, blank = soup.find(id="step-1"), soup.find(id="step-4")
    assert squeezed(first.find("figcaption").find(class_="relation").text) == (
        "The picture shows the result of this step."
    )
    assert [squeezed(line.text) for line in first.select(".relations li")] == [
        "The picture shows the result of this step. 81 %",
        "Holds: relation <b>Mood</b>. 60 %",
        "The text says what can be seen in the picture. 55 %",
    ]
    looked = {part.text: part["class"] for part in first.select(".text [class^=look]")}
    assert looked["Once"] == ["look4"]
    assert looked["leaked"] == ["look1"]
    assert squeezed(first.find(class_="text").text) == squeezed(model_board.story.steps[0].text)
    assert [item["class"] for item in first.select(".looks li")] == [[f"look{n}"] for n in range(1, 6)]
    assert blank.find(class_="relations") is None
    assert blank.find(class_="looks") is not None


def test_without_a_model_nothing_is_said_of_one(soup: BeautifulSoup) -> None:
    assert not soup.select(".relation, .relations, .looks, [class^=look]")


def test_an_unsure_relation_is_not_said_beside_the_picture(model_board: Board, tmp_path: Path) -> None:
    step = model_board.steps[0].model_copy(update={"relations": {"visible": 0.6}})
    board = model_board.model_copy(update={"steps": (step, *model_board.steps[1:])})
    first = page_of(board, tmp_path)[1].find(id="step-1")
    assert first.find(class_="relation") is None
    assert len(first.select(".relations li")) == 1


@pytest.mark.parametrize("with_reasons", [False, True])
def test_headings_inside_a_step_rank_below_its_own(make_board, tmp_path: Path, with_reasons) -> None:
    board = make_board(["Inside\n\nSaw it."])
    parts = (Part(text="Inside", kind="heading", level=1), Part(text="Saw it."))
    step = board.story.steps[0].model_copy(update={"title": "Cut", "parts": parts})
    board = board.model_copy(update={"story": board.story.model_copy(update={"steps": (step,)})})
    done = export(board, tmp_path / "page.html", plan=Plan(with_reasons=with_reasons))
    page = BeautifulSoup(done.path.read_text(encoding="utf-8"), "lxml")
    names = {node.get_text().split()[-1]: node.name for node in page.find_all(re.compile("^h[1-6]$"))}
    assert (names["roof"], names["Cut"], names["Inside"]) == ("h1", "h2", "h3")
