"""Citations of docs/methods lead to a section, and the code that its pages name is there."""

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
METHODS = ROOT / "docs" / "methods"
PLACES = ("src", "tests", "benchmarks", "configs", "docs")
CITED = re.compile(r"docs/methods/(\w+)\.md((?:,? (?:to |and )?§\d+(?:\.\d+)?)+)")
ABSENT = re.compile(r"\bSPEC\b")  # a document that is not in the repository


def files(*suffixes):
    found = [path for place in PLACES for path in (ROOT / place).rglob("*")]
    return sorted(p for p in [*found, ROOT / "README.md"] if p.suffix in suffixes and p != Path(__file__))


@cache
def sections(page):
    """Numbers of the headings of a page, such as 3 and 3.1."""
    return set(re.findall(r"^##+ (\d+(?:\.\d+)?)\.? ", page.read_text(encoding="utf-8"), re.MULTILINE))


@cache
def anchors(page):
    """Headings of a page as links name them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_a_citation_names_a_page_and_sections_that_exist():
    count = 0
    for path in files(".py", ".toml"):
        text = " ".join(path.read_text(encoding="utf-8").split())  # a citation may be cut by a line's end
        cited = CITED.findall(text)
        assert len(cited) == text.count("docs/methods/"), f"{path}: a citation without page and section"
        for page, numbers in cited:
            missing = set(re.findall(r"[\d.]*\d", numbers)) - sections(METHODS / f"{page}.md")
            assert not missing, f"{path}: docs/methods/{page}.md has no section {', '.join(sorted(missing))}"
        count += len(cited)
    assert count > 100


def test_nothing_cites_a_document_that_is_not_here():
    wrong = [str(path) for path in files(".py", ".toml", ".md") if ABSENT.search(path.read_text("utf-8"))]
    assert not wrong


@pytest.mark.parametrize("page", sorted(METHODS.glob("*.md")), ids=lambda page: page.stem)
def test_the_pages_name_code_that_exists(page):
    text = page.read_text(encoding="utf-8")
    for name in sorted(set(re.findall(r"`(limner(?:\.\w+)+)`", text))):
        assert exists(name), f"{page.name}: {name}"
    for place in set(re.findall(r"`((?:src|benchmarks)/[\w./]+)", text)):
        assert (ROOT / place).exists(), f"{page.name}: {place}"


def exists(name):
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part, None)
        return found is not None
    return False


def test_links_between_documents_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            file, _, anchor = link.partition("#")
            if "://" in link:
                continue
            target = (page.parent / file).resolve() if file else page
            assert target.exists(), f"{page}: {link}"
            assert not anchor or anchor in anchors(target), f"{page}: {link}"
