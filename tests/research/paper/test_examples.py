"""Pages of examples: self-contained, escaped, whole pictures, and long texts that fold."""

import html
import re

import pytest
from PIL import Image

from limner.errors import ConfigError, MissingError
from limner.research.paper.page import SIDE_PX, TEXT_CHARACTERS, Example, Group, copy_of, write_page


def test_a_page_holds_everything_and_runs_nothing(tmp_path):
    picture = Image.new("RGB", (900, 300), "teal")
    long = "word " * 200
    groups = (
        Group(title, examples, level)
        for title, examples, level in (
            ("<b>first</b>", [Example(picture, "a <script>alert(1)</script> & b", ("weight × 3",))], 2),
            ("second", [Example(None, long), Example(picture, "", right=True)], 3),
        )
    )
    write_page(tmp_path / "page.html", "examples", "Title & more", "note", groups=groups)
    page = (tmp_path / "page.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; b" in page
    assert "<h2>&lt;b&gt;first&lt;/b&gt;</h2>" in page
    assert "<h3>second</h3>" in page
    assert page.count("data:image/webp;base64,") == 2
    assert re.findall(r'width="(\d+)" height="(\d+)"', page) == [("360", "120")] * 2
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert "default-src 'none'" in html.unescape(page)
    assert re.findall('alt="(.*?)"', page)[1] == "picture without a text"
    assert page.count('<p class="right">its own</p>') == page.count('class="own"') == 1
    folded = re.search(r"<summary>(.*?)…</summary>(.*?)</details>", page, re.DOTALL)
    assert folded
    assert folded[1] + folded[2] == long  # nothing is lost
    assert len(folded[1]) == TEXT_CHARACTERS


def test_a_copy_is_small_and_carries_nothing():
    picture = Image.new("RGB", (100, 50))
    picture.info["exif"] = b"Exif\x00\x00secret"
    copy = copy_of(picture)
    assert (copy.width_px, copy.height_px) == (100, 50)
    assert b"secret" not in copy.data
    assert picture.info
    assert max(copy_of(Image.new("RGB", (10, 4000))).width_px, SIDE_PX) == SIDE_PX


@pytest.mark.parametrize(("name", "kind"), [("page.png", ConfigError), ("no/page.html", MissingError)])
def test_a_page_goes_where_a_page_can(tmp_path, name, kind):
    with pytest.raises(kind):
        write_page(tmp_path / name, "examples", "t", "n", groups=())


def test_a_page_that_fails_leaves_the_old_one(tmp_path):
    (tmp_path / "page.html").write_text("old")

    def broken():
        yield Group("one", [])
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_page(tmp_path / "page.html", "examples", "t", "n", groups=broken())
    assert (tmp_path / "page.html").read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
