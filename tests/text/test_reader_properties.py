"""Whatever stands in a text, its readers lose no word of it without saying so, or refuse it in one line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.errors import LimnerError
from limner.text.read import parse_story_report

WORDS = st.sampled_from(
    ["fox", "Step 1", "2.", "hare", "第一步", "שועל", "a < b", "&amp;", "\u00a0", "e\u0301"]
)
TAGS = st.sampled_from(
    [
        "p",
        "div",
        "h1",
        "h2",
        "ul",
        "ol",
        "li",
        "b",
        "a",
        "table",
        "tr",
        "td",
        "pre",
        "blockquote",
        "span",
        "br",
        "hr",
    ]
)
PAGES = st.recursive(
    WORDS | st.sampled_from(["<img src=a.png>", "<p>", "</div>", "<!-- x -->", "<br>"]),
    lambda inner: st.builds(
        lambda tag, parts, close: f"<{tag}>{' '.join(parts)}{f'</{tag}>' if close else ''}",
        TAGS,
        st.lists(inner, max_size=4),
        st.booleans(),
    ),
    max_leaves=12,
)
KEYS = (
    *(
        "@type",
        "@graph",
        "@id",
        "name",
        "text",
        "image",
        "author",
        "step",
        "steps",
        "itemListElement",
        "parts",
    ),
    *(
        "recipeInstructions",
        "recipeIngredient",
        "tool",
        "title",
        "between",
        "pages",
        "pictures",
        "target",
        "by",
    ),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS) | st.text(max_size=3),
            inner | st.sampled_from(["Recipe", "HowTo", "HowToSection", "HowToStep", "ListItem"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


def read(text, kind):
    """The reading, or None where it is refused in one line; any other error passes through."""
    try:
        return parse_story_report(text, format=kind)
    except LimnerError as error:
        lines = str(error).count("\n") + 1
    assert lines == 1
    return None


def written(reading):
    """All letters and digits of a story and of what was left out of it."""
    story = reading.story
    said = [story.title, *(one.reason for one in reading.left_out), *(one.text for one in reading.left_out)]
    said += [words for step in story.steps for words in (step.title, step.text)]
    said += [cell.text for part in story.between for row in part.rows for cell in row]
    said += [part.text for part in story.between]
    numbers = [str(part.number) for step in story.steps for part in step.parts if part.number is not None]
    return "".join(filter(str.isalnum, "".join([*said, *numbers])))


@given(st.lists(PAGES, min_size=1, max_size=4).map(" ".join))
def test_a_page_is_read_or_refused_and_loses_no_word(page):
    reading = read(page, "html")
    if reading is not None:
        kept = written(reading)
        for word in ("fox", "hare", "שועל"):
            assert kept.count(word) >= page.count(word), (page, reading)


@given(VALUES | st.lists(WORDS | st.fixed_dictionaries({"text": WORDS}, optional={"title": WORDS})))
def test_json_is_read_or_refused_and_loses_no_step(data):
    reading = read(json.dumps(data), "json")
    if reading is not None and isinstance(data, list):
        due = [one if isinstance(one, str) else one.get("text") for one in data]
        kept = [step.text for step in reading.story.steps]
        assert len(kept) == len(due)
        assert all(
            str(one).strip() in step for step, one in zip(kept, due, strict=True) if isinstance(one, str)
        )


@given(VALUES, st.booleans())
def test_whatever_a_page_declares_its_words_are_read(thing, recipe):
    block = {"@type": "Recipe", "recipeInstructions": thing} if recipe else thing
    told = json.dumps(block).replace("<", "\\u003c")
    reading = read(f"<script type='application/ld+json'>{told}</script><p>A fox.</p><p>A hare.</p>", "html")
    assert reading is not None
    if any("schema.org" in note for note in reading.notes):
        assert reading.story.steps
    else:
        assert [step.text for step in reading.story.steps] == ["A fox.", "A hare."]


@given(st.text(max_size=60), st.lists(WORDS, max_size=6).map("\n\n".join))
def test_markdown_and_plain_texts_are_read_or_refused(text, words):
    for kind in ("markdown", "plain"):
        for one in (text, words, f"---\ntitle: {text}\n---\n{words}"):
            read(one, kind)


@pytest.mark.parametrize(
    "page",
    [
        "<ul>A fox.<li>one<li>two</ul>",
        "<table>A fox.<tr><td>one<td>two</table>",
        "<table><tr>A fox.<td>one<td>two</table>",
        "<table><tr><td>one</td>A fox.<td>two</table>",
    ],
)
def test_words_outside_items_and_cells_are_kept(page):
    kept = written(read(page, "html"))
    assert all(word in kept for word in ("Afox", "one", "two"))
