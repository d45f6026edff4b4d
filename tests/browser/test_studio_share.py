"""A read-only copy of a board: one file that opens from a disk, without a network, and runs nothing."""

import re
from pathlib import Path

import pytest

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.slow
ARABIC = "\n\n".join(("خرج الثعلب من بيته.", "طارت الطائرة الورقية.", "نام الثعلب في سريره."))


def copy_of(page, folder: Path) -> Path:
    """Press the button of the dialog and keep what it downloads."""
    page.click("#export")
    with page.expect_download() as download:
        page.get_by_label("Shareable page").check()
        page.get_by_role("button", name="Download", exact=True).click()
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    expect(page.get_by_role("dialog")).to_have_count(0)
    return file


@pytest.fixture
def offline(browser):
    """Open a file in a browser without a network; gives the page and all that it asked for."""
    contexts = []

    def opened(file: Path):
        context = browser.new_context(offline=True, viewport={"width": 360, "height": 740})
        contexts.append(context)
        page = context.new_page()
        asked, wrong = [], []
        page.on("request", lambda made: asked.append(made.url))
        page.on("console", lambda said: wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(file.as_uri())
        page.wait_for_load_state("networkidle")
        assert wrong == []
        assert all(url == file.as_uri() or url.startswith("data:") for url in asked)
        return page

    yield opened
    for context in contexts:
        context.close()


def test_a_copy_opens_offline_with_its_pictures_and_nothing_else(
    storyboard, offline, library: Path, story: str, tmp_path: Path
) -> None:
    page = storyboard()
    page.evaluate("localStorage.setItem('limner.export', JSON.stringify({ with_reasons: 'true' }))")
    shared = copy_of(page, tmp_path)
    assert shared.name == "A-windy-day.html"
    told = shared.read_text(encoding="utf-8")
    assert str(library) not in told
    assert str(library.parents[1]) not in told  # Where the pictures are, too.
    assert "Match strength" not in told  # What was asked of the last export does not count here.
    copy = offline(shared)
    expect(copy.locator("h1")).to_have_text("A windy day")
    assert copy.locator("html").get_attribute("lang") == "en"
    said = " ".join(copy.locator("main").text_content().split())
    for step in story.split("\n\n"):
        assert step in said
    sizes = copy.locator("main img").evaluate_all(
        "all => all.map(one => one.naturalWidth * one.naturalHeight)"
    )
    assert len(sizes) == 5
    assert all(0 < size <= 1_300_000 for size in sizes)
    assert copy.locator("script, input, button, form, a[href^='http']").count() == 0
    assert copy.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_copy_of_a_board_in_arabic_runs_from_right_to_left(storyboard, offline, tmp_path: Path) -> None:
    page = storyboard(ARABIC, title="يوم عاصف")
    copy = offline(copy_of(page, tmp_path))
    assert copy.locator("html").get_attribute("dir") == "rtl"
    assert re.fullmatch("ar|und", copy.locator("html").get_attribute("lang"))
    assert copy.locator("h1").inner_text() == "يوم عاصف"
