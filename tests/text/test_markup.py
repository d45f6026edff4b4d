"""HTML becomes blocks in reading order: each page is a real fault, with the blocks that a reader sees."""

import pytest
from block_notation import marked, notation

from limner.errors import DataError
from limner.records import PictureRef
from limner.text.blocks import LeftOut
from limner.text.markup import blocks_of, parse_tree, read_html

FIGURE = "<figure><img src={0}.jpg><figcaption>Day {0}</figcaption></figure>"


def find(target, alt):
    """A finder without a disk, on which files named `there` are."""
    return PictureRef(target=target, alt=alt, path="/there" if "there" in target else None)


def read(page, **options):
    return read_html(page, "page.html", find, **options)


BLOCKS = {
    "headings and paragraphs": (
        "<h1>Tea</h1><p>Boil\n water.<h3>Then</h3>Pour",
        ["# Tea", "Boil water.", "### Then", "Pour"],
    ),
    "a heading of two lines, with a picture": ("<h2><img src=a.jpg>A<br>day</h2>", ["## A day", "[a.jpg]"]),
    "a page without a body": ("<title>x</title><article><p>Boil.</p></article>", ["Boil."]),
    "nested lists, numbers, further paragraphs": (
        "<ol start=3><li>Mix<ul><li>slowly</ul><li><p>Bake</p><p>long</p><li value=9>Eat</ol>",
        ["3. Mix", "   - slowly", "4. Bake", "| long", "9. Eat"],
    ),
    "a picture above the words of its item": (
        "<ol><li><img src=a.jpg><p>Mix</p><li>Bake</ol>",
        ["1. Mix", "| [a.jpg]", "2. Bake"],
    ),
    "an item that begins with code": ("<ol><li><pre>x\n  y</pre><li>z</ol>", ["1.", "| {x ⏎   y}", "2. z"]),
    "an item with a figure": ("<ul><li>Wait.<figure><img src=a.jpg></figure></ul>", ["- Wait.", "| [a.jpg]"]),
    "lines of a blog in one element": (
        "<div>It sets.<br><br><b>Method</b><br>1. Mix.<br><br><img src=a.jpg><br>2. Bake<br>it.</div>",
        ["It sets.", "Method ⏎ 1. Mix.", "[a.jpg]", "2. Bake ⏎ it."],
    ),
    "pictures in a line and alone": (
        "<p>a <img src=a.jpg> b</p><p><img src=b.jpg> <img src=c.jpg></p><p>d.<br><img src=d.jpg></p>",
        ["a b [a.jpg]", "[b.jpg]", "[c.jpg]", "d.", "[d.jpg]"],
    ),
    "a gallery": (
        f"<figure>{FIGURE.format('a')}{FIGURE.format('b')}</figure>",
        ["[a.jpg: Day a]", "[b.jpg: Day b]"],
    ),
    "boxes": (
        "<div><div><img src=a.jpg><p>A</p></div><div><p>B</p><img src=b.jpg></div></div>",
        ["g1 [a.jpg]", "g1 A", "g2 B", "g2 [b.jpg]"],
    ),
    "rows of pictures and words": (
        "<table><tr><td><img src=a.jpg><td>A<tr><td><img src=b.jpg><td>B</table>",
        ["g1 [a.jpg]", "g1 A", "g2 [b.jpg]", "g2 B"],
    ),
    "pictures above words": (
        "<table><tr><td><img src=a.jpg><td><img src=b.jpg><tr><td>A<td>B</table>",
        ["g1 [a.jpg]", "g1 A", "g2 [b.jpg]", "g2 B"],
    ),
    "a table": (
        "<table><caption>Oven</caption><tr><th>a<th>b<tr><td><p>1</p><p>2</p><td><img src=i.png>3</table>",
        ["Oven", "a | b / 1\n2 | 3 [i.png]"],
    ),
    "a picture with emoji": ("<p>Hi <img class=emoji alt=🙂 src=x.svg></p>", ["Hi 🙂"]),
    "a title that is no heading": (
        "<p class=title>Garden</p><h1>Spring</h1><h2>May</h2>",
        ["# Garden", "## Spring", "### May"],
    ),
    "the title of a post": ("<h3 class=post-title>Fudge</h3><p>It sets.</p>", ["# Fudge", "It sets."]),
    "source lines": (
        "<ol><li data-limner-lines=2-9><p data-limner-lines=2-3>b</p><p data-limner-lines=4-5>c</p></ol>"
        "<aside data-limner-aside=note data-limner-lines=10-11>d</aside>",
        ["1. b", "| c", "(aside) d"],
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_page_is_its_blocks_in_reading_order(name):
    page, expected = BLOCKS[name]
    assert notation(blocks_of(parse_tree(page, "page.html"), find, [])) == expected


def test_blocks_have_the_source_lines_of_their_own_element():
    page, _ = BLOCKS["source lines"]
    raw = "<meta data-limner-lines=20-22><div>raw</div>"
    assert [block.lines for block in read(page + raw).blocks] == [(2, 3), (4, 5), (10, 11), (20, 22)]


@pytest.mark.parametrize(
    ("page", "marks"),
    [
        ("<p>a <b> b </b>c <i>d<sub>2</sub></i>", [("b", "strong"), ("d2", "emphasis"), ("2", "below")]),
        ("<p><code>x</code><s>y</s><sup>z</sup>", [("x", "code"), ("y", "struck"), ("z", "above")]),
        (
            "<style>.c0{font-weight:700}</style><p><span class=c0>Ingredients</span>",
            [("Ingredients", "strong")],
        ),
        (
            "<p style='font-weight:600'>x <span style='font-style: italic'>y</span>",
            [("x y", "strong"), ("y", "emphasis")],
        ),
        ("<b><div>one</div></b>", [("one", "strong")]),
        (
            "<p>see <a href='https://www.google.com/url?q=https://a.org/b&amp;sa=D'>this</a>",
            [("this", "https://a.org/b")],
        ),
        ("<p><a href='#note'>1</a> <a href='javascript:x()'>2</a>", []),
    ],
)
def test_formats_are_marks(page, marks):
    (block,) = read(page).blocks
    assert marked(block) == marks


@pytest.mark.parametrize(
    "shown",
    [
        "<figure><img src=a.jpg><figcaption>At the <b>lake</b></figcaption></figure>",
        "<div class=wp-caption><img src=a.jpg><p class=wp-caption-text>At the lake</p></div>",
        "<p><img src=a.jpg> <em>At the lake</em></p>",
        "<p><img src=a.jpg alt='At the lake'></p><p>At the lake</p>",
        "<p><img src=a.jpg></p><p class=image-caption>At the lake</p>",
        "<table><tr><td><img src=a.jpg></td></tr><tr><td class=tr-caption>At the lake</td></tr></table>",
        "<p>[caption id='a_1' width='9']<a href=b.jpg><img src=a.jpg></a> At the lake[/caption]</p>",
    ],
)
def test_a_caption_belongs_to_its_picture(shown):
    blocks = read(f"<p>We walked.</p>{shown}<p>We swam.</p>").blocks
    assert [line.removeprefix("g1 ").removeprefix("g2 ") for line in notation(blocks)] == [
        "We walked.",
        "[a.jpg: At the lake]",
        "We swam.",
    ]


@pytest.mark.parametrize(
    ("words", "is_caption"),
    [
        ("Figure 2: the mill", True),
        ("Photos 3 and 4 show it", False),
        ("<em>Ingredients</em>", False),
        ("<em>Slowly</em> we rose", False),
        (f"<em>{'We went far. ' * 30}</em>", False),
    ],
)
def test_words_below_a_picture_are_its_caption_if_they_look_so(words, is_caption):
    blocks = read(f"<p><img src=a.jpg></p><p>{words}</p>").blocks
    assert bool(blocks[0].pictures[0].caption) == is_caption


@pytest.mark.parametrize(
    ("shown", "target"),
    [
        ("<img src='data:image/gif;base64,R0lG' data-src=a.jpg>", "a.jpg"),
        ("<noscript><img src=a.jpg></noscript><img src=spacer.gif data-lazy-src=a.jpg>", "a.jpg"),
        ("<picture><source srcset='a.jpg 1200w, b.jpg 300w'><img src=placeholder.gif></picture>", "a.jpg"),
        ("<img src=lake-1024x768.jpg srcset='s.jpg 1x, lake-there.jpg 2x'>", "lake-there.jpg"),
        ("<a href=big-there.jpg><img src=small.jpg></a>", "big-there.jpg"),
        ("<img src=there.jpg srcset='big-there.jpg 2x'>", "there.jpg"),
        ("<img src='data:image/png#1a2b'>", "data:image/png#1a2b"),
    ],
)
def test_the_picture_counts_of_which_there_is_a_file(shown, target):
    (block,) = read(f"<p>{shown}</p>").blocks
    assert [(picture.target, picture.alt) for picture in block.pictures] == [(target, "")]


LONG = "<p>In spring I sow the beans under glass, because the nights are cold.</p>"
FURNITURE = [
    "<nav>Home</nav>",
    "<div class=sharedaddy>Share it</div>",
    "<button>Save</button>",
    "<div hidden>secret</div>",
    "<span aria-hidden=true>#</span>",
    "<p>[contact-form-7 id='5' title='Contact']</p>",
    "<img src=pixel.gif width=1 height=1>",
]


@pytest.mark.parametrize("part", FURNITURE)
def test_furniture_of_a_page_is_left_out_and_named(part):
    document = read(f"<main><h1>Beans</h1>{LONG}{part}</main>")
    assert [block.kind for block in document.blocks] == ["heading", "paragraph"]
    (left_out,) = document.left_out
    assert left_out.reason == "page furniture"
    assert left_out.text or left_out.pictures


@pytest.mark.parametrize(
    "page",
    [
        f"<title>x</title><body><nav>Home</nav><main>{LONG}</main><script>x</script><footer>Contact</footer>",
        f"<body><nav>Home</nav><article>{LONG}</article><div>Contact</div>",
        f"<body><nav>Home</nav><div><div class=post>{LONG}</div></div><footer>Contact</footer>",
        f"<body><div class=navbar>Home</div><div itemprop=articleBody>{LONG}</div><p>Contact</p>",
    ],
)
def test_a_page_is_its_main_content(page):
    document = read(page)
    assert [block.text[:9] for block in document.blocks] == ["In spring"]
    assert " ".join(part.text for part in document.left_out).split() == ["Home", "Contact"]


def test_the_private_comments_of_a_google_document_are_no_text():
    page = """<p>We turned the soil<sup><a href="#cmnt1" id="cmnt_ref1">[a]</a></sup>.<sup><a href="#ftnt1"
    id="ftnt_ref1">[1]</a></sup></p><div><p><a href="#ftnt_ref1" id="ftnt1">[1]</a> Deep.</p></div>
    <div><p><a href="#cmnt_ref1" id="cmnt1">[a]</a>Was it?</p><p>Ask Ana.</p></div>"""
    document = read(page)
    assert notation(document.blocks) == ["We turned the soil.[1]", "(aside) [1] Deep."]
    assert LeftOut("page furniture", "[a] Was it? Ask Ana.") in document.left_out


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("<title>Beans - My garden</title><p>a</p><h2>Beans</h2>", "Beans"),
        ("<title>Beans</title><p><b>All my beans</b></p><p>a</p>", ""),
        ("<meta property=og:title content=Beans><title>x</title><p>a</p>", "Beans"),
        ("<header><h1>Beans</h1></header><nav>x</nav><main><p>a</p></main>", "Beans"),
        ("<title>Blog</title><h1>Beans</h1>", ""),  # structure takes the only heading of the first level
    ],
)
def test_the_title_is_what_the_page_shows_or_else_states(page, title):
    assert read(page).title == title


def test_credits_language_and_direction_are_stated():
    meta = "<meta name=author content=Ann><link rel=license href=https://cc/>"
    page = f"<html lang=ar>{meta}<body dir=rtl><p>قصة</p>"
    document = read(page)
    assert (document.author, document.license, document.language) == ("Ann", "https://cc/", "ar")
    assert document.direction == "rtl"


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (f"<p {' '.join(f'a{n}=1' for n in range(3_000))}>x", "more than 1,000 attributes"),
        ("<p>x" * 60_001, "more than 60,000 HTML elements"),
        ("<div>" * 400 + "x", "deeper than 250 levels"),
        ("<!-- -->", "empty, or no HTML"),
    ],
)
def test_what_would_take_minutes_is_one_line(page, message):
    with pytest.raises(DataError, match=message) as caught:
        read(page)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "page",
    [
        f"<p title='{'a=b ' * 5_000}'>x</p><img alt=\"{'> ' * 5_000}\" src=a>",
        "<div>" + "- x <b>y</b><br>" * 5_000,
        "<p>w. " + "".join(f"<img src=a{n}.jpg> " for n in range(20_000)),
        f"<p class='{'a_' * 100_000}!'>x",
        "<div>" * 240 + "word " * 100_000,
        "[caption " + "x" * 500_000,
    ],
    ids=["values", "lines", "pictures", "class", "depth", "shortcode"],
)
def test_long_pages_are_read_in_time_that_grows_with_their_length(page):
    assert read(page).blocks


def test_entities_are_not_expanded():
    bomb = '<!DOCTYPE a [<!ENTITY x "words"><!ENTITY f SYSTEM "file:///etc/passwd">]><p>&x;&f; end</p>'
    assert "root:" not in read(bomb).blocks[-1].text
