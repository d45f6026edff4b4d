"""Texts made to keep a reader busy: refused with the bound they break, or read at once."""

import json

import pytest

from limner.config import read_toml
from limner.errors import ConfigError, DataError
from limner.text.read import parse_story_report


def declared(*steps, **more):
    """A page's block that declares a recipe."""
    block = {"@type": "Recipe", "recipeInstructions": steps, **more}
    return f"<script type='application/ld+json'>{json.dumps(block)}</script>"


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
@pytest.mark.slow
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
        ("markdown", "*a" * 99_000 + ("\n\n" + "*a" * 99_000) * 5, "or 500,000 in all"),
        ("markdown", "[" * 20_001, "more than 20,000 opening brackets"),
        ("markdown", ("- " * 29 + "a\n") * 3_000, "more than 60,000 list items"),
        ("markdown", f"[a]: {'b' * 50_000}\n\n" + "[a] " * 100, "repeats the URLs of its links"),
        ("markdown", "---\n" + "a: b\n" * 20_000 + "---\nx", "front matter has more than 50,000 letters"),
        ("plain", "x\n\n" * 70_000, "more than 60,000 paragraphs"),
        ("plain", "\f" * 1_000_001 + "x", "more than 1,000,000 lines"),
        ("json", '["' + "a\\n\\n" * 70_000 + '"]', "more than 60,000 paragraphs"),
        ("json", '["a"' + ',"a"' * 70_000 + "]", "more than 60,000 paragraphs"),
    ],
)
def test_other_texts_have_bounds_too(kind, text, bound):
    by = "paragraph" if kind == "json" and text.startswith('["a\\n') else None
    with pytest.raises(DataError, match=bound) as caught:
        parse_story_report(text, format=kind, by=by)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "bound"),
    [("a" * 5_000_001, "longer than 5 million letters"), ("Go. " * 60_001, "60,000 paragr")],
)
def test_sentences_have_bounds(text, bound, monkeypatch):
    monkeypatch.setattr("limner.text.segment.split_sentences", str.split)
    with pytest.raises(DataError, match=bound):
        parse_story_report(text, by="sentence")


# Each took a minute or more, or for ever, with a time that grew with the square of the length or faster.
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("plain", "step" + " " * 1_000_000 + "x"),
        ("plain", "Step 1: a\n\n" + "words\n\n" * 15_000 + "Step 2: b"),
        ("plain", "\n\n".join(f"Step {number}: do it." for number in range(1, 9_000))),
        ("html", f"<p class='{'a_' * 40}!'>x</p>"),
        ("html", f"<p class='{'a-' * 100_000}!'>x</p>"),
        ("html", declared("a" * 4_000 + "b", "c") + "<p>a</p>" * 5_000),
    ],
    ids=["spaces", "continued", "many steps", "class", "long class", "declared"],
)
def test_these_are_read_in_time_that_grows_with_their_length_too(kind, text):
    assert parse_story_report(text, format=kind).story.steps


def test_keys_that_nobody_knows_are_told_in_few_lines():
    keys = "".join(f', "k{number}": 1' for number in range(80_000))
    lines = parse_story_report(f'{{"steps": ["a"]{keys}}}', format="json").summary()
    assert len(lines) == 51
    assert lines[0] == "left out: unknown key 'k0'"
    assert lines[-1] == "left out or not illustrated for 79,950 further reasons: 79,950"


def test_more_around_declared_steps_than_a_recipe_has_is_refused():
    with pytest.raises(DataError, match="20,001 lines are declared around the steps; expected at most 1,000"):
        parse_story_report(declared("a", "b", recipeIngredient=["salt"] * 20_000), format="html")


DEEP = "JSON-LD block of the page is nested too deeply"


@pytest.mark.parametrize("around", ["", json.dumps({"@type": "Recipe", "recipeInstructions": ["a", "b"]})])
@pytest.mark.parametrize(
    "block",
    [
        "[" * 100_000 + "]" * 100_000,
        "[" * 60 + json.dumps({"@type": "Recipe", "recipeInstructions": ["one", "two"]}) + "]" * 60,
        '{"@graph":' * 60 + json.dumps({"@type": "Recipe", "recipeInstructions": ["one", "two"]}) + "}" * 60,
    ],
    ids=["unreadable", "lists", "graphs"],
)
def test_a_json_ld_block_that_is_too_deep_is_told(block, around):
    blocks = "".join(f"<script type='application/ld+json'>{one}</script>" for one in (block, around))
    reading = parse_story_report(f"{blocks}<p>Some words.</p>", format="html")
    assert len([note for note in reading.notes if DEEP in note]) == 1
    assert len(reading.story.steps) == (2 if around else 1)


def test_settings_nested_too_deeply_are_one_line(tmp_path):
    (tmp_path / "a.toml").write_text("a = " + "[" * 5_000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        read_toml(tmp_path / "a.toml")
