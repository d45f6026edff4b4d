"""Texts made to keep a reader busy: refused with the bound they break, or read at once."""

import pytest

from limner.config import read_toml
from limner.errors import ConfigError, DataError
from limner.text.read import parse_story_report

PICTURES = "".join(f"<img src=a{number}.jpg> " for number in range(20_000))
MANY = " ".join(f"a{number}=1" for number in range(100_000))


@pytest.mark.parametrize(
    ("page", "bound"),
    [
        (f"<p {MANY}>x", "<p> has 100,000 attributes; expected at most 1,000"),
        ("<p>x<img " + "".join(f"/a{n}" for n in range(2_000)) + ">", "<img> has 2,000 attributes"),
        ("<p>x" * 70_000, "more than 60,000 HTML elements"),
        ("<div>" * 240 + "word " * 200_000 + "</div>" * 240, "HTML nested too deeply for its size"),
        ("<ol><li>x" * 60 + "<li>x" * 50_000, "HTML nested too deeply for its size"),
    ],
    ids=["attributes", "slashes", "elements", "words", "items"],
)
@pytest.mark.parametrize("kind", ["html", "markdown"])
def test_what_would_take_minutes_is_refused_in_one_line(page, bound, kind):
    with pytest.raises(DataError, match=bound) as caught:
        parse_story_report(page, format=kind)
    assert "\n" not in str(caught.value)


def test_an_attribute_of_many_words_is_no_many_attributes():
    page = f"<p title='{'a=b ' * 5_000}' class=x>Words.</p><img alt=\"{'> ' * 5_000}\" src=a>"
    assert parse_story_report(page, format="html").story.steps[0].text == "Words."


# What grew with the square of its length took minutes.
@pytest.mark.parametrize(
    "page",
    [
        f"<p>w. {PICTURES}</p>",
        f"<img data-x='{'a.jpg?' * 100_000} '>x",
        "<nav>z</nav>" + "".join(f"<div><p>word {n} is here to be read now.</p></div>" for n in range(1_500)),
        "<nav>z</nav>" + "<article>" * 200 + "x y z " * 20_000,
    ],
    ids=["pictures", "address", "blocks", "articles"],
)
def test_what_is_long_is_read_in_time_that_grows_with_its_length(page):
    assert parse_story_report(page, format="html").story.steps


@pytest.mark.parametrize(
    ("kind", "text", "bound"),
    [
        ("markdown", "- x\n" * 250_000, "more than 80,000 lines"),
        ("markdown", "*a" * 500_000, "more than 100,000 signs of emphasis"),
        ("plain", "x\n\n" * 70_000, "more than 60,000 paragraphs"),
        ("json", '["a"' + ',"a"' * 70_000 + "]", "more than 60,000 paragraphs"),
    ],
)
def test_other_texts_have_bounds_too(kind, text, bound):
    with pytest.raises(DataError, match=bound):
        parse_story_report(text, format=kind)


def test_a_json_ld_block_that_is_too_deep_is_told():
    block = "[" * 100_000 + "]" * 100_000
    page = f"<script type='application/ld+json'>{block}</script><p>Some words.</p>"
    assert any("JSON-LD" in note for note in parse_story_report(page, format="html").notes)


def test_settings_nested_too_deeply_are_one_line(tmp_path):
    (tmp_path / "a.toml").write_text("a = " + "[" * 5_000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        read_toml(tmp_path / "a.toml")
