"""EPUB: the rules that EPUBCheck holds a book to."""

import zipfile
from pathlib import Path

import pytest
from exports import members
from lxml import etree

from limner.export import LAYOUTS, Plan, export


@pytest.mark.parametrize("layout", LAYOUTS[".epub"])
@pytest.mark.parametrize("name", ["recipe", "travels", "arabic_board"])
def test_a_book_keeps_the_rules_of_its_format(request, tmp_path: Path, name: str, layout) -> None:
    board = request.getfixturevalue(name)
    path = export(board, tmp_path / "out.epub", plan=Plan(layout=layout, with_reasons=True)).path
    with zipfile.ZipFile(path) as book:
        first = book.infolist()[0]
        assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
        assert book.read("mimetype") == b"application/epub+zip"
        assert len(set(book.namelist())) == len(book.namelist())
    parts = {file.removeprefix("EPUB/"): data for file, data in members(path).items()}
    package = etree.fromstring(parts["content.opf"])
    items = {item.get("href"): item for item in package.iter("{*}item")}
    assert {*items, "content.opf", "mimetype", "META-INF/container.xml"} == set(parts)
    assert [href for href, item in items.items() if item.get("properties") == "nav"] == ["nav.xhtml"]
    core = "{http://purl.org/dc/elements/1.1/}"
    stated = (package.findtext(f".//{core}title"), package.findtext(f".//{core}language"))
    assert stated == (board.story.title, board.story.language)
    assert package.findtext(".//{*}meta[@property='dcterms:modified']").endswith("Z")
    spine = {reference.get("idref") for reference in package.iter("{*}itemref")}
    assert spine <= {item.get("id") for item in items.values()}
    pages = [etree.fromstring(data) for file, data in parts.items() if file.endswith(".xhtml")]  # well formed
    for page in (package, *pages):
        ids = [node.get("id") for node in page.iter() if node.get("id")]
        assert len(ids) == len(set(ids))
        images = list(page.iter("{*}img"))
        assert all(image.get("alt") is not None and image.get("src") in parts for image in images)
        for link in page.iter("{*}a"):
            target, _, anchor = link.get("href").partition("#")
            assert target in parts or target.startswith("https:")
            assert not anchor or f'id="{anchor}"'.encode() in parts[target]
