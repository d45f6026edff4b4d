"""Pages of many layouts, written by hand: every step gets its own picture, and nothing else is a step."""

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

from limner.research.datasets.recipes.saved_pages import read_page

PAGES = Path(__file__).parent / "pages"
EXPECTED = tomllib.loads((PAGES / "expected.toml").read_text(encoding="utf-8"))


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
@pytest.mark.parametrize("held_out", [False, True])
def test_steps_have_their_pictures_and_little_else_is_a_step(benchmark, held_out):
    names = [name for name, page in EXPECTED.items() if page.get("held_out", False) == held_out]
    found = [measured(benchmark, name) for name in names]
    right = sum(page.right for page in found)
    assert len(found) >= 10
    assert right >= 0.8 * sum(page.found for page in found)
    assert right >= 0.8 * sum(page.expected for page in found)


def test_every_page_is_listed():
    assert {path.stem for path in PAGES.glob("*.html")} == set(EXPECTED)


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
