"""What axe-core finds wrong with a page as a browser shows it."""

import pytest

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}


def broken_rules(page, rules=RULES) -> list[str]:
    """Rules that the page as it is breaks, each with the first place where it does."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe.Axe().axe_script)
    # Of what is as it should be, only how many rules: to describe it all takes five times as long.
    run = "rules => axe.run(rules).then(found => [found.violations, found.passes.length])"
    broken, passed = page.evaluate(run, {**rules, "resultTypes": ["violations"]})
    assert rules is not RULES or passed > 10
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in broken]


def broken_in_both_schemes(page) -> list[str]:
    """The same in light and in dark: what is not of colours is the same in both, and looked at once."""
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    broken = broken_rules(page)
    page.emulate_media(color_scheme="light" if dark else "dark")
    broken += broken_rules(page, COLOURS)
    page.emulate_media(color_scheme="dark" if dark else "light")
    return broken


def broken_in_both_looks(page) -> list[str]:
    """The same wide and light, and narrow and dark, and whether it is too wide or of one colour in both.

    The page stays as it was.
    """
    size, dark = page.viewport_size, page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    broken, grounds = [], []
    for width, scheme in ((1280, "light"), (360, "dark")):
        page.set_viewport_size({"width": width, "height": size["height"]})
        page.emulate_media(color_scheme=scheme)
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.evaluate(
            "scrollTo(0, document.body.scrollHeight)"
        )  # where a foot that stays in sight covers nothing
        broken += [f"{width} px: {rule}" for rule in (*broken_rules(page), *scrolls_sideways(page))]
    page.set_viewport_size(size)
    page.emulate_media(color_scheme="dark" if dark else "light")
    return broken if len({*grounds}) == 2 else [*broken, "its colours do not follow the scheme"]


def scrolls_sideways(page) -> list[str]:
    """A line if the page is wider than the screen."""
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return ["scrolls sideways"] if wide > 0 else []
