"""Pages are read by the first reader that fits; broken ones give one line or a page, never a traceback."""

import json
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.errors import DataError, LimnerError
from limner.research.datasets.recipes.saved_pages import read_page


def read(html, url="", where="soup.html", base=None):
    return read_page(html.encode("utf-8", "surrogatepass"), where, base, url)


@contextmanager
def at_most_one_line():
    """Whatever limner refuses, it refuses in one line; anything else is a traceback and fails."""
    said = []
    try:
        yield
    except LimnerError as error:
        said.append(str(error))
    assert not any("\n" in one or len(one) > 400 for one in said)


def shown(page):
    return [(piece.text, [one.target for one in piece.pictures]) for piece in page.pieces]


def test_declared_steps_with_pictures_come_first():
    thing = {
        "@type": "Recipe",
        "name": "Soup",
        "author": {"name": "Ada"},
        "recipeInstructions": [
            {"@type": "HowToStep", "text": "Chop the leeks.", "image": "a.jpg"},
            {"@type": "HowToStep", "text": "Boil them.", "image": "/b.jpg"},
        ],
    }
    page = read(
        f'<script type="application/ld+json">{json.dumps(thing)}</script><p>Hello', "https://x.example/soup/"
    )
    assert (page.reader, page.title, page.author, page.source) == (
        "declared steps",
        "Soup",
        "Ada",
        "x.example",
    )
    assert shown(page) == [
        ("Chop the leeks.", ["https://x.example/soup/a.jpg"]),
        ("Boil them.", ["https://x.example/b.jpg"]),
    ]


def test_declared_steps_without_pictures_give_way_to_the_page():
    thing = {"@type": "Recipe", "author": "Ada", "recipeInstructions": ["Chop the leeks.", "Boil them."]}
    page = read(
        f'<script type="application/ld+json">{json.dumps(thing)}</script><h1>Soup</h1>'
        "<ol><li>Chop the leeks.<img src=a.jpg></li><li>Boil them.<img src=b.jpg></li></ol>"
    )
    assert (page.reader, page.author) == ("explicit steps", "Ada")
    assert shown(page) == [("Chop the leeks.", ["a.jpg"]), ("Boil them.", ["b.jpg"])]


def test_pictures_close_segments_where_there_are_no_steps():
    page = read(
        "<h1>Soup</h1><p>Chop the leeks.</p><img src=data:x data-src=a.jpg><p>Boil them.</p><img src=b.jpg>"
        "<p>Eat."
    )
    assert page.reader == "pictures close segments"
    assert [names for _, names in shown(page)] == [["a.jpg"], ["b.jpg"], []]


def test_a_list_without_pictures_does_not_hide_those_of_the_page():
    page = read(
        "<p>First the leeks.</p><img src=a.jpg><p>Then water.</p><img src=b.jpg>"
        "<ol><li>Chop the leeks well.</li><li>Boil them in water.</li></ol>"
    )
    assert page.reader == "pictures close segments"


def test_a_known_site_is_read_by_its_scraper():
    thing = {
        "@context": "https://schema.org",
        "@type": "Recipe",
        "name": "Leek soup",
        "author": {"@type": "Person", "name": "Ada Cook"},
        "recipeInstructions": [
            {"@type": "HowToStep", "text": "Chop the leeks into rings."},
            {"@type": "HowToStep", "text": "Boil them in salted water."},
        ],
    }
    page = read(
        f'<html><head><script type="application/ld+json">{json.dumps(thing)}</script></head><body><article>'
        "<p>My story.</p><img src=me.jpg><p>Chop the leeks into rings.</p><img src=a.jpg><p>A tip.</p>"
        "<p>Boil them in salted water.</p><img src=b.jpg><p>More recipes of mine</p><img src=c.jpg>",
        "https://www.allrecipes.com/recipe/1/soup/",
    )
    assert (page.reader, page.title, page.author) == ("known site", "Leek soup", "Ada Cook")
    root = "https://www.allrecipes.com/recipe/1/soup/"
    assert shown(page) == [
        ("Chop the leeks into rings.", [f"{root}a.jpg"]),
        ("Boil them in salted water.", [f"{root}b.jpg"]),
    ]


def test_a_known_site_with_another_page_falls_to_the_general_reader():
    page = read(
        "<p>Words here.</p><img src=a.jpg><p>More words.</p><img src=b.jpg>", "https://www.allrecipes.com/x"
    )
    assert page.reader == "pictures close segments"


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    [
        "<!-- saved from url=(0022)https://x.example/soup -->",
        "<link rel=canonical href=https://x.example/soup>",
        "<meta property=og:url content=https://x.example/soup>",
    ],
)
def test_a_saved_page_says_where_it_came_from(head):
    assert read(f"{head}<p>Soup of leeks").url == "https://x.example/soup"
    assert read("<link rel=canonical href=http://[bad><p>Soup").url == ""


def test_markdown_guides_are_read(tmp_path):
    (tmp_path / "a.png").write_bytes(b"x")
    page = read(
        "# Box\n\nCut the wood.\n\n![](a.png)\n\nGlue it.\n\n![](b.png)\n", where="box.md", base=tmp_path
    )
    pictures = [one for piece in page.pieces for one in piece.pictures]
    assert [one.path for one in pictures] == [str(tmp_path / "a.png"), None]
    assert page.source == tmp_path.name


@pytest.mark.parametrize("text", ["", " \n", "\0", "<!-- -->", "<script>x</script>"])
def test_a_page_without_words_is_one_line(text):
    with pytest.raises(DataError, match=r"^soup\.html: (is empty|is not a text|no words)"):
        read(text)


@pytest.mark.slow
def test_a_line_of_ten_megabytes_and_deep_nesting():
    with pytest.raises(DataError, match="more than 10 MB in one element"):
        read("<p>" + "stir well " * 1_100_000 + "<img src=a.jpg>")
    page = read("<p>" + "stir well " * 900_000 + "<img src=a.jpg>")
    assert len(page.pieces[0].text) == 8_999_999
    page = read("<p>stir well</p><img src=a.jpg>" * 1_000)
    assert len(page.pieces) == 1_000
    with pytest.raises(LimnerError, match="larger than 20 MB"):
        read("a" * 20_000_001)
    for deep in ("<div>" * 100_000 + "x", "<b><ul><li>" * 3000 + "x<img src=a.jpg>"):
        with at_most_one_line():
            read(deep)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["@type", "@graph", "@id", "name", "text", "image", "author", "itemListElement"])
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(values, values, st.sampled_from(["Recipe", "HowTo", ["Recipe"], None]))
def test_declared_steps_of_any_type_are_read_or_refused(instructions, author, kind):
    thing = {"@type": kind, "author": author, "recipeInstructions": instructions, "name": instructions}
    html = f'<script type="application/ld+json">{json.dumps(thing)}</script><p>Words<img src=a>'
    for url in ("", "https://www.allrecipes.com/recipe/1/"):
        with at_most_one_line():
            read(html, url)


MARKUP = """<p> </p> <div> <ol> <li> </ol> <img> <h2>Step_1 <img_src=a.jpg> <table> <tr> <td> <!-- -->
<script> <img_src='//[x'> &# &nbsp; <svg> <noscript> <pre>
<link_rel=license_href=x> words <base_href=x> <li"""
tags = st.sampled_from(MARKUP.split())


@pytest.mark.slow
@settings(deadline=None, max_examples=120)
@given(st.lists(tags | st.text(max_size=5), max_size=25), st.sampled_from(["", "https://x.example/a"]))
def test_unclosed_tags_and_noise_are_read_or_refused(parts, url):
    with at_most_one_line():
        read(" ".join(part.replace("_", " ") for part in parts), url)


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=200), st.sampled_from(["a.html", "a.md"]))
def test_any_bytes_are_read_or_refused(data, where):
    with at_most_one_line():
        read_page(data, where, None)


@pytest.mark.slow
def test_pages_made_to_keep_a_reader_busy_are_refused_in_one_line():
    block = json.dumps({"@type": "Recipe", "recipeInstructions": ["Chop."] * 10_001})
    for page, bound in (
        ("<p>Chop.</p>" * 10_001, "more than 10,000 paragraphs"),
        (f"<script type='application/ld+json'>{block}</script><p>Hello", "more than 10,000 paragraphs"),
        ("<p " + " ".join(f"a{number}=1" for number in range(2_000)) + ">", "more than 1,000 attributes"),
        ("<p>x" * 60_001, "more than 60,000 HTML elements"),
    ):
        with pytest.raises(DataError, match=bound) as caught:
            read(page)
        assert "\n" not in str(caught.value)
