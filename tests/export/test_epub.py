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
    parts = members(path)
    package = etree.fromstring(parts["EPUB/content.opf"])
    items = {item.get("href"): item for item in package.iter("{*}item")}
    assert {f"EPUB/{href}" for href in items} | {"EPUB/content.opf"} == {
        one for one in parts if "EPUB/" in one
    }
    assert [href for href, item in items.items() if item.get("properties") == "nav"] == ["nav.xhtml"]
    stated = {
        meta.tag.rpartition("}")[2]: meta.text for meta in package.iter("{http://purl.org/dc/elements/1.1/}*")
    }
    assert stated["title"] == board.story.title
    assert stated["language"] == board.story.language
    assert package.findtext(".//{*}meta[@property='dcterms:modified']").endswith("Z")
    _ids_are_unique(package)
    spine = [ref.get("idref") for ref in package.iter("{*}itemref")]
    assert set(spine) <= {item.get("id") for item in items.values()}
    for file, data in parts.items():
        if file.endswith(".xhtml"):
            page = etree.fromstring(data)  # which fails where a page is not well formed
            _ids_are_unique(page)
            assert all(image.get("alt") is not None for image in page.iter("{*}img"))
            assert all(f"EPUB/{image.get('src')}" in parts for image in page.iter("{*}img"))
            for link in page.iter("{*}a"):
                target, _, anchor = link.get("href").partition("#")
                inside = f'id="{anchor}"'.encode() in parts.get(f"EPUB/{target}", b"") if anchor else False
                assert inside or f"EPUB/{target}" in parts or target.startswith("https:")


def _ids_are_unique(page) -> None:
    ids = [node.get("id") for node in page.iter() if node.get("id")]
    assert len(ids) == len(set(ids))
