"""The page in a real browser: no request, no error, no sideways scrolling, and usable by keyboard."""

from pathlib import Path

import pytest
from accessibility import COLOURS, broken_rules

from limner.export import Plan, export

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["board", "arabic_board"])
def test_page(browser, request, tmp_path: Path, name: str) -> None:
    out = export(request.getfixturevalue(name), tmp_path / "page.html", plan=Plan(with_reasons=True)).path
    page = browser.new_page(viewport={"width": 360, "height": 900})
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda made: asked.append(made.url) if not made.url.startswith("data:") else None)
    page.goto(out.as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the story"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    for summary in page.query_selector_all("summary"):
        summary.focus()
        page.keyboard.press("Enter")
    assert page.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    page.wait_for_function("[...document.images].every(i => i.complete)")
    assert page.evaluate("[...document.images].every(i => i.naturalWidth > 0)")
    for width in (360, 800, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(
                "[...document.images].filter(i => !i.closest('nav, .runners-up')).every(i =>"
                " Math.abs(i.clientWidth * i.naturalHeight / i.clientHeight / i.naturalWidth - 1) < 0.08)"
            )
            dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 22, 24)"
            assert dark == (scheme == "dark")
            assert broken_rules(page, COLOURS) == []
    assert said == []
    assert asked == [out.as_uri()]
    page.close()
