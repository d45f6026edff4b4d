"""Every page of the studio for everybody: axe, narrow screens, light and dark, reduced motion, labels."""

import pytest

pytestmark = pytest.mark.slow
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


def settled(page) -> list[str]:
    """Names of the rules that the page as it is breaks, and whether it scrolls sideways."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page, options=RULES)
    assert len(found.response["passes"]) > 15
    broken = [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found.response["violations"]]
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [*broken, *(["scrolls sideways"] if wide > 0 else [])]


def colours_follow(page, scheme: str) -> bool:
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 22, 24)"
    return dark == (scheme == "dark")


LOOKS = pytest.mark.parametrize(
    ("width", "scheme"), [(360, "dark"), (360, "light"), (1280, "light"), (1280, "dark")]
)


@LOOKS
def test_start_page(visit, *, width: int, scheme: str) -> None:
    page = visit("/", width=width, scheme=scheme, reduced_motion="reduce")
    page.wait_for_selector("#projects:not([aria-busy])")
    assert settled(page) == []
    assert colours_follow(page, scheme)
    page.click("#go")
    page.wait_for_selector(".problem")
    assert settled(page) == []


@LOOKS
def test_storyboard_page(storyboard, *, width: int, scheme: str) -> None:
    page = storyboard(width=width, scheme=scheme, reduced_motion="reduce")
    assert settled(page) == []
    assert colours_follow(page, scheme)
    page.locator(".plate").nth(1).click()
    page.click("#tab-reasons")
    assert settled(page) == []
    page.click("#tab-offers")
    page.fill("#search", "kite")
    page.locator("#offers-state", has_text="kite").wait_for()
    page.locator("#offers .offer").first.focus()
    assert settled(page) == []
    page.keyboard.press("Escape")
    for control in ("#export", "#settings", "#retext", "#help"):
        page.click(control)
        if control == "#export":
            page.get_by_text("My choices, to teach").click()
        assert settled(page) == []
        page.keyboard.press("Escape")


@LOOKS
def test_library_page(visit, *, width: int, scheme: str) -> None:
    page = visit("/library", width=width, scheme=scheme, reduced_motion="reduce")
    page.wait_for_selector("#grid .cell")
    page.locator("#facts", has_text="pictures").wait_for()
    assert settled(page) == []
    assert colours_follow(page, scheme)
    for part in ("skipped", "duplicates"):
        page.click(f"#tab-{part}")
        assert settled(page) == []
    page.click("#add")
    assert settled(page) == []


def test_axe_would_find_something(visit, storyboard) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = visit("/")
    page.evaluate("document.querySelector('label[for=text]').remove()")
    page.evaluate("document.querySelector('#about').style.color = '#bbb'")
    found = axe.Axe().run(page, options=RULES).response["violations"]
    assert {one["id"] for one in found} >= {"color-contrast"}


def test_every_control_shows_its_focus(storyboard) -> None:
    page = storyboard()
    page.locator("#board").evaluate("() => document.activeElement.blur()")
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        told = page.evaluate(
            "(() => { const here = document.activeElement;"
            " if (here === document.body) return null;"
            " const style = getComputedStyle(here);"
            " const ring = here.classList.contains('plate')"
            "   ? getComputedStyle(here.parentElement, '::after').borderTopWidth : style.outlineWidth;"
            " const shadow = style.boxShadow !== 'none';"
            " return [here.id || here.className || here.tagName, parseFloat(ring) >= 2 || shadow]; })()"
        )
        if told is None:
            break
        seen.add(told[0])
        assert told[1], f"{told[0]} shows no focus"
    assert {"title", "plate", "export", "undo"} - seen <= {"undo"}  # Undo is disabled at first.


@pytest.mark.parametrize("wish", ["reduce", "no-preference"])
def test_motion(storyboard, *, wish: str) -> None:
    page = storyboard(reduced_motion=wish)
    page.evaluate("document.querySelector('.step').classList.add('changed')")
    named = page.evaluate("getComputedStyle(document.querySelector('.changed .plate img')).animationName")
    assert named == ("none" if wish == "reduce" else "arrive")


def test_a_project_that_is_not_there(visit) -> None:
    page = visit("/projects/0123456789abcdef")
    page.wait_for_selector(".problem")
    assert page.get_by_role("link", name="To the start page").is_visible()
    visit.wrong[:] = [line for line in visit.wrong if "404" not in line]


def test_open_a_file(visit, tmp_path) -> None:
    page = visit("/")
    (tmp_path / "story.md").write_text("# A walk\n\nOne.\n\nTwo.\n")
    page.set_input_files("#file", tmp_path / "story.md")
    page.locator("#said", has_text="Opened story.md").wait_for(state="attached")
    assert page.input_value("#format") == "markdown"
    (tmp_path / "alt.txt").write_bytes("Über die Straße.".encode("cp1252"))
    page.set_input_files("#file", tmp_path / "alt.txt")
    page.locator("#trouble", has_text="Windows-1252").wait_for()
    assert page.input_value("#text") == "Über die Straße."
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    page.set_input_files("#file", tmp_path / "picture.png")
    page.locator("#trouble .problem", has_text="not a text file").wait_for()
    page.fill("#text", "")
    page.click("#go")
    page.locator("#trouble .problem", has_text="no text yet").wait_for()
    dropped = page.evaluate_handle(
        "() => { const moved = new DataTransfer();"
        " moved.items.add(new File(['A kite in the wind.'], 'kite.txt', {type: 'text/plain'}));"
        " return moved; }"
    )
    page.dispatch_event("#text", "drop", {"dataTransfer": dropped})
    page.locator("#said", has_text="Opened kite.txt").wait_for(state="attached")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".step .plate")
    page.goto(page.url.split("/projects/")[0])
    page.get_by_role("button", name="Remove A kite").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.locator(".toast", has_text="Removed").wait_for()
    page.get_by_role("link", name="A kite in the wind").wait_for(state="detached")
