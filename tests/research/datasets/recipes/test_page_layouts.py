"""Pages of many layouts, written by hand: every step gets its own picture, and nothing else is a step."""

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

from limner.records import PictureRef
from limner.research.datasets.recipes.layout import (
    picture_order,
    step_starts,
    without_captions,
    words_first,
)
from limner.research.datasets.recipes.saved_pages import read_page
from limner.text.document import Block, pictures_of
from limner.text.html_blocks import blocks_of, parse_tree

PAGES = Path(__file__).parent / "pages"
EXPECTED = tomllib.loads((PAGES / "expected.toml").read_text(encoding="utf-8"))
ORDERS = {
    "picture-before": "before",
    "before-with-hero": "before",
    "before-numbered-headings": "before",
    "picture-after": "after",
    "right-to-left": "after",
    "multi-picture": "after",
    "table-rows": "beside",
    "two-columns": "beside",
}


@pytest.fixture(scope="module")
def benchmark():
    place = Path(__file__).parents[4] / "benchmarks" / "recipe_pages.py"
    spec = importlib.util.spec_from_file_location("recipe_pages", place)
    module = importlib.util.module_from_spec(spec)
    sys.modules["recipe_pages"] = module  # its dataclass looks for its own module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["recipe_pages"]


def measured(benchmark, name):
    page = EXPECTED[name]
    text = (PAGES / f"{name}.html").read_text(encoding="utf-8")
    found = benchmark.by_limner(text)
    return benchmark.score(found, [tuple(pair) for pair in page["pairs"]], page.get("outside", ()))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, page in EXPECTED.items() if not page.get("held_out")])
def test_every_step_has_its_picture_and_nothing_else_is_a_step(benchmark, name):
    found = measured(benchmark, name)
    assert found.right == found.found == found.expected


@pytest.mark.slow
def test_pages_it_was_not_made_for_are_read_mostly_right(benchmark):
    found = [measured(benchmark, name) for name, page in EXPECTED.items() if page.get("held_out")]
    right = sum(one.right for one in found)
    assert len(found) >= 10
    assert right >= 0.8 * sum(one.found for one in found)
    assert right >= 0.8 * sum(one.expected for one in found)


def test_every_page_is_listed():
    assert {path.stem for path in PAGES.glob("*.html")} == set(EXPECTED)


@pytest.mark.parametrize(("name", "order"), ORDERS.items())
def test_the_order_of_words_and_pictures_is_found(name, order):
    page = read_page((PAGES / f"{name}.html").read_bytes(), f"{name}.html", None)
    assert page.order == order


def test_a_pair_counts_with_its_own_words_alone(benchmark):
    expected = [("chop", "1"), ("boil", "2")]
    assert benchmark.score([("chop it", "1"), ("boil it", "2")], expected) == benchmark.Score(2, 2, 2)
    assert benchmark.score([("chop, then boil", "1"), ("boil it", "1")], expected).right == 0
    assert benchmark.score([("chop it, see ads", "1")], expected, ["ads"]).right == 0


def test_words_after_elements_without_an_end_are_kept():
    page = read_page(
        b"<p>Stir the mar<wbr>malade well.</p><img src=a.jpg><p>Fill it<embed src=x> in jars.", "a.html", None
    )
    assert [piece.text for piece in page.pieces] == ["Stir the marmalade well.", "Fill it in jars."]


def blocks(shape):
    """P a picture, T words, H a heading."""
    kinds = {"H": "heading"}
    return [
        Block(
            kinds.get(one, "paragraph"),
            "" if one == "P" else f"words {n}",
            pictures=(PictureRef(target=f"{n}"),) * (one == "P"),
        )
        for n, one in enumerate(shape)
    ]


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ("TPTP", "after"),
        ("PTPT", "before"),
        ("PTPTP", "after"),
        ("HPTHPT", "before"),
        ("HTPHTP", "after"),
        ("TT", "after"),
        ("PHTPHT", "before"),
        ("HTPHTPHT", "after"),
    ],
)
def test_the_stretches_between_headings_vote(shape, order):
    assert picture_order(blocks(shape), []) == order


def test_the_alternative_texts_decide_a_draw():
    made = blocks("TPTPT")
    made[1] = Block("paragraph", pictures=(PictureRef(target="a", alt="words of 2"),))
    assert picture_order(made, []) == "after"
    made[2] = Block("paragraph", "beat the eggs")
    made[1] = Block("paragraph", pictures=(PictureRef(target="a", alt="eggs, beaten"),))
    assert picture_order(made, []) == "before"


def test_pictures_move_behind_their_words_and_none_is_lost():
    moved = words_first(blocks("PHTPPTP"))
    assert [(one.text, [ref.target for ref in one.pictures]) for one in moved] == [
        ("words 1", ["0"]),
        ("words 2", []),
        ("words 5", ["3", "4"]),
        ("", ["6"]),
    ]


def test_pictures_between_lines_or_sentences_part_the_words():
    def parted(text):
        return [(one.text, len(one.pictures)) for one in blocks_of(parse_tree(text, "x"), None, [])]

    assert parted("<p>Chop it.<br><img src=a><br>Fry it. <img src=b> Eat it.") == [
        ("Chop it.", 0),
        ("", 1),
        ("Fry it.", 0),
        ("", 1),
        ("Eat it.", 0),
    ]
    # signs inside a sentence, small pictures and emoji part nothing; nor do two pictures after the words
    assert parted("<p>Press <img src=a> and then <img src=b> twice.") == [("Press and then twice.", 2)]
    assert parted("<p>Good.<img src=a width=20>Very good.<img src=b alt=\U0001f600>Yes.") == [
        ("Good.Very good.Yes.", 2)
    ]
    assert parted("<p>Chop it.<br><img src=a><br><img src=b>") == [("Chop it.", 2)]


@pytest.mark.parametrize(("parent", "are_cards"), [("ul", True), ("ol", False)])
def test_items_of_lists_without_numbers_are_cards(parent, are_cards):
    items = "".join(f"<li><img src={n}><p>Words of number {n}.</p></li>" for n in range(3))
    blocks = blocks_of(parse_tree(f"<{parent}>{items}</{parent}>", "x"), None, [])
    cards = {block.card for block in blocks}
    assert len(cards) == (3 if are_cards else 1)
    assert any(any(card) for card in cards) == are_cards


def test_captions_go_where_they_say_less_than_the_words_beside_them():
    def shown(words):
        said = [Block("paragraph", "Sown in March.", caption=True), Block("paragraph", words)]
        picture = Block("paragraph", pictures=(PictureRef(target="a"),))
        return without_captions([picture, *said, picture, said[0]])

    kept, lost = shown("Sow the seeds in rows, a finger deep, and water them.")
    assert [one.text for one in kept] == ["", "Sow the seeds in rows, a finger deep, and water them.", ""]
    assert [one.alt for one in pictures_of(kept)] == ["Sown in March."] * 2
    assert [one.text for one in lost] == ["Sown in March."] * 2
    kept, lost = shown("Sow.")
    assert [one.text for one in kept] == ["", "Sown in March.", "Sow.", "", "Sown in March."]
    assert lost == []


def test_items_of_numbered_lists_and_counted_headings_begin_steps():
    made = [
        Block("heading", "Step 1: Beat"),
        Block("paragraph", "the eggs"),
        Block("heading", "Step 2: Bake"),
        Block("item", "an oven", ordered=False),
        Block("item", "Eat", ordered=True),
    ]
    assert step_starts(made) == [0, 2, 4]
