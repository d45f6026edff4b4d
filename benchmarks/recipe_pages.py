"""Precision and recall of (step, picture) pairs on hand-written pages, for docs/data.md.

Makes: docs/data.md (pairs of step and picture on saved pages)

    python benchmarks/recipe_pages.py

A pair is right when its picture is the step's and its words hold those of the step, of no other pictured
step, and none that belong to no step. `nearest`: every picture with the words before it. `trafilatura`: the
same inside what trafilatura finds to be the main content. `scrapers`: the steps that recipe-scrapers finds,
each with the next picture after its words.
"""

import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import trafilatura
from lxml import etree, html
from recipe_scrapers import scrape_html  # type: ignore[import-untyped, unused-ignore]
from recipe_scrapers._exceptions import RecipeScrapersExceptions  # type: ignore[import-untyped, unused-ignore]

from limner.errors import DataError
from limner.research.datasets.recipes.saved_pages import one_picture_each, read_page

Pairs = list[tuple[str, str]]


class Score(NamedTuple):
    """Pairs of one page, or of several: found and expected, found, expected."""

    right: int
    found: int
    expected: int

    @property
    def shown(self) -> str:
        """Precision and recall in percent; a dash for a share of nothing."""
        shares = ((self.right, self.found), (self.right, self.expected))
        return "  ".join(f"{100 * part / whole:5.0f}" if whole else "    –" for part, whole in shares)


def score(found: Pairs, expected: Pairs, outside: Iterable[str] = ()) -> Score:
    """Compare the pairs of a page with those that are right.

    Args:
        found: (words, picture).
        expected: (some words that stand in this step alone, picture).
        outside: words that belong to no step.
    """
    right = set()
    for text, picture in found:
        held = [place for place, (words, _) in enumerate(expected) if words in text]
        if len(held) == 1 and expected[held[0]][1] == picture and not any(one in text for one in outside):
            right.add(held[0])
    return Score(len(right), len(found), len(expected))


def by_limner(text: str) -> Pairs:
    """What `limner data build-recipes` makes of the page, before pictures are opened."""
    try:
        page = read_page(text.encode(), "page.html", None)
    except DataError:
        return []
    return [(one.text, one.picture.target) for one in one_picture_each(page.pieces)[0]]


def by_nearest(text: str) -> Pairs:
    """Every <img> with the paragraph, item, cell, caption or heading that begins last before it."""
    return _closest(html.document_fromstring(text), "img", "src")


def by_trafilatura(text: str) -> Pairs:
    """Every picture of trafilatura's main content with the words before it."""
    found = trafilatura.extract(text, output_format="xml", include_images=True, favor_recall=True)
    return _closest(etree.fromstring(found.encode()), "graphic", "src") if found else []


def _closest(root: etree._Element, kind: str, name: str) -> Pairs:
    words, pairs = "", []
    for node in root.iter("p", "li", "td", "figcaption", "h1", "h2", "h3", "item", "head", "cell", kind):
        if node.tag == kind:
            pairs.append((words, node.get(name) or ""))
        elif own := " ".join("".join(node.itertext()).split()):
            words = own
    return pairs


def by_scrapers(text: str) -> Pairs:
    """The steps of recipe-scrapers, each with the next picture after its words."""
    try:
        steps = scrape_html(text, org_url="https://x.example/", supported_only=False).instructions_list()
    except (RecipeScrapersExceptions, AttributeError, TypeError):
        return []
    body = html.document_fromstring(text)
    pairs, waiting = [], ""
    for node in body.iter("p", "li", "td", "div", "span", "img"):
        if node.tag == "img" and waiting:
            pairs.append((waiting, node.get("src") or ""))
            waiting = ""
        elif node.tag != "img":
            own = " ".join("".join(node.itertext()).split())
            waiting = next((step for step in steps if step == own), waiting)
    return pairs


READERS: dict[str, Callable[[str], Pairs]] = {
    "limner": by_limner,
    "nearest": by_nearest,
    "trafilatura": by_trafilatura,
    "scrapers": by_scrapers,
}


def measure(folder: Path) -> dict[str, dict[str, Score]]:
    """Page → reader → score, in the order of ``expected.toml``."""
    table = tomllib.loads((folder / "expected.toml").read_text(encoding="utf-8"))
    found: dict[str, dict[str, Score]] = {}
    for name, page in table.items():
        text = (folder / f"{name}.html").read_text(encoding="utf-8")
        pairs = [(words, picture) for words, picture in page["pairs"]]
        label = f"{name} (held out)" if page.get("held_out") else name
        found[label] = {
            reader: score(read(text), pairs, page.get("outside", ())) for reader, read in READERS.items()
        }
    return found


def main() -> None:
    """Print the table."""
    found = measure(Path(__file__).parents[1] / "tests" / "research" / "datasets" / "recipes" / "pages")
    held = {name: scores for name, scores in found.items() if name.endswith("(held out)")}
    seen = {name: scores for name, scores in found.items() if name not in held}
    totals = {"all developed on": seen, "all held out": held, "all": found}
    print(f"{'precision and recall, %':36}" + "".join(f"{reader:>14}" for reader in READERS))
    for name, part in totals.items():
        sums = {
            one: Score(*map(sum, zip(*(row[one] for row in part.values()), strict=True))) for one in READERS
        }
        found = found | {f"{name} ({len(part)} pages)": sums}
    for name, scores in found.items():
        print(f"{name:36}" + "".join(f"{one.shown:>14}" for one in scores.values()))


if __name__ == "__main__":
    main()
