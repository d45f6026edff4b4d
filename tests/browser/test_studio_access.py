"""Every page of the studio for everybody: axe, narrow screens, light and dark, reduced motion, labels."""

import re

import pytest
from accessibility import broken_in_both_looks, broken_rules, scrolls_sideways
from browsing import from_menu, of_board, project_of, without_retries

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.slow


def settled(page) -> list[str]:
    """Names of the rules that the page as it is breaks, and whether it is too wide."""
    return [*broken_rules(page), *scrolls_sideways(page)]


def colours_follow(page, scheme: str) -> bool:
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 22, 24)"
    return dark == (scheme == "dark")


# Both schemes and both widths: colours do not depend on the width.
LOOKS = pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
WIDE = pytest.param(1280, "light", marks=pytest.mark.soak)
# What is narrow is what breaks.
ONE_LOOK = pytest.mark.parametrize(("width", "scheme"), [WIDE, (360, "dark")])


def test_start_page(visit) -> None:
    page = visit("/", reduced_motion="reduce")
    page.wait_for_selector("#projects:not([aria-busy])")
    assert broken_in_both_looks(page) == []
    page.click("#go")
    page.wait_for_selector(".problem")
    assert broken_in_both_looks(page) == []


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
    for control in ("#export", "#settings", "#retext", "#help", "#again"):
        of_board(page, control)
        if control == "#again":
            page.wait_for_selector(".again .actions")
        if control == "#export":
            page.frame_locator(".preview iframe").locator("h1").wait_for()
            assert settled(page) == []
            page.locator("input[value=json]").check()
            expect(page.get_by_label("With reasons")).to_be_hidden()
            page.locator("input[value=docx]").check()
            expect(page.get_by_label("With reasons")).to_be_visible()
            page.get_by_text("Export my choices as training data").click()
        assert settled(page) == []
        page.keyboard.press("Escape")


def test_library_page(visit) -> None:
    page = visit("/library", reduced_motion="reduce")
    page.wait_for_selector("#grid .cell")
    page.locator("#facts", has_text="pictures").wait_for()
    assert broken_in_both_looks(page) == []
    page.get_by_label("Sort").select_option("newest")
    page.locator(".months h2").first.wait_for()
    page.get_by_role("button", name="Select", exact=True).click()
    page.locator("#grid .cell").first.click()
    page.locator("#selection", has_text="1 picture selected").wait_for()
    assert broken_in_both_looks(page) == []
    for part in ("skipped", "duplicates"):
        page.click(f"#tab-{part}")
        assert broken_in_both_looks(page) == []
    page.click("#add")
    assert broken_in_both_looks(page) == []


@ONE_LOOK
def test_dialogs_of_the_start_page(storyboard, studio, *, width: int, scheme: str) -> None:
    page = storyboard(width=width, scheme=scheme, reduced_motion="reduce", title=f"Look {width} {scheme}")
    page.goto(studio)
    named = f"Look {width} {scheme}"
    page.get_by_role("button", name=f"Rename {named}", exact=True).click()
    assert settled(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name=f"Remove {named}", exact=True).click()
    assert settled(page) == []
    page.get_by_role("button", name="Remove", exact=True).click()
    page.locator(".toast", has_text="Removed").wait_for()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")  # Nothing is left under the note then.
    assert settled(page) == []
    page.click("#trash")
    page.get_by_role("button", name=f"Restore {named}", exact=True).wait_for()
    assert settled(page) == []
    page.keyboard.press("Escape")
    page.click("#help")
    assert settled(page) == []


@ONE_LOOK
def test_the_interface_and_what_is_not_there(visit, *, width: int, scheme: str) -> None:
    page = visit("/docs", width=width, scheme=scheme, reduced_motion="reduce")
    expect(page.locator("h1")).to_have_text("API")
    assert settled(page) == []
    assert colours_follow(page, scheme)
    for path in ("/nowhere", "/projects/0123456789abcdef", "/api/projects/0123456789abcdef"):
        page.goto(page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2] + path)
        expect(page.locator("h1")).to_have_text("Not found")
        assert settled(page) == []
        assert colours_follow(page, scheme)
    visit.wrong[:] = [line for line in visit.wrong if "404" not in line]


@ONE_LOOK
def test_a_missing_file_and_work_under_way(storyboard, visit, *, width: int, scheme: str) -> None:
    page = storyboard(width=width, scheme=scheme, reduced_motion="reduce")

    def gone(route):
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "missing": [1]})

    page.route("**/api/projects/*", gone)
    page.reload()
    page.locator(".step[data-missing]").wait_for()
    expect(page.locator("#summary")).to_contain_text("1 picture file missing")
    expect(page.locator(".step .plate").nth(1)).to_have_attribute("aria-label", re.compile(", file missing$"))
    assert settled(page) == []
    running = {"job": "0" * 16, "kind": "project", "subject": "", "state": "running", "stage": "text"}
    running |= {"done": 300, "total": 1000, "seconds_left": 130, "message": "", "left_out": 0}
    started = {"status": 202, "json": {"job": running["job"]}}
    page.route("**/edits", lambda route: route.fulfill(**started))
    page.route("**/events", lambda route: route.fulfill(status=404))
    over: list[bool] = []
    page.route(
        f"**/api/jobs/{running['job']}",
        lambda route: route.fulfill(json={**running, **({"state": "cancelled"} if over else {})}),
    )
    page.route("**/cancel", lambda route: (over.append(True), route.fulfill(json=running)))
    page.locator(".step .lock").first.click(force=True)
    page.locator(".afoot", has_text="Reading the text: 30 % · about 2 minutes left").wait_for()
    assert settled(page) == []
    page.locator(".afoot").get_by_role("button", name="Cancel").click()
    page.locator(".toast", has_text="Cancelled. Nothing was changed.").wait_for()
    visit.wrong[:] = [line for line in visit.wrong if "404" not in line]


@pytest.fixture
def looked():
    """Look at a page in one state after the other; in the end nothing may be wrong in any of them."""
    found: dict[str, list[str]] = {}

    def look(page, state: str) -> None:
        found[state] = settled(page)

    yield look
    assert {state: rules for state, rules in found.items() if rules} == {}
    assert len(found) > 5


@ONE_LOOK
def test_states_of_the_storyboard(storyboard, visit, looked, *, width: int, scheme: str) -> None:
    page = storyboard(width=width, scheme=scheme, reduced_motion="reduce")
    steps = project_of(page)["board"]["steps"]
    for view in ("small", "strip", "list", "large"):
        page.locator(f"#views input[value={view}]").check(force=True)
        looked(page, f"board, {view}")
    page.locator("#notes summary").click()
    looked(page, "notes unfolded")

    page.locator(".plate").nth(1).click()
    page.wait_for_selector("#panel[aria-label='Step 2'] #offers:not([aria-busy]) .offer")
    page.click("#tab-reasons")
    looked(page, "reasons")
    page.keyboard.press("c")
    page.wait_for_selector(".slots .large figure:nth-child(2)")
    looked(page, "compare")
    page.keyboard.press("Escape")
    page.click("#tab-offers")
    with page.expect_response("**/edits"):
        offer = page.locator("#offers li").nth(3)
        offer.hover()
        from_menu(page, offer.locator(".tiny"), "Don’t use in this project").click()
    page.locator(".toast", has_text="will not use").wait_for()
    page.keyboard.press("Escape")
    of_board(page, "#settings")
    page.locator(".banned .offer").wait_for()
    looked(page, "settings with a barred picture")
    changes = [
        {"position": n, "before": steps[n], "after": {**steps[n], "chosen": steps[(n + 1) % 3]["chosen"]}}
        for n in range(3)
    ]
    page.route("**/preview", lambda route: route.fulfill(json={"revision": 2, "steps": changes}))
    page.get_by_role("button", name="See what would change").click()
    page.locator(".changes input").nth(1).uncheck()
    expect(page.locator("[data-twice]")).to_have_count(2)
    looked(page, "what these settings would change, a picture at two steps")
    page.keyboard.press("Escape")

    page.locator(".plate").first.focus()
    with page.expect_response("**/edits"):
        page.keyboard.press("b")
    with page.expect_response("**/edits"):
        page.keyboard.press("Shift+L")
    page.locator(".toast", has_text="locked").wait_for()
    looked(page, "a blank, others locked")
    page.locator(".plate").nth(1).focus()
    page.keyboard.press("x")
    looked(page, "a picture picked up")
    page.keyboard.press("Escape")
    without_retries(page)
    page.route("**/edits", lambda route: route.abort())
    page.keyboard.press("l")
    page.locator("#saving", has_text="Not saved").wait_for()
    looked(page, "not saved")
    page.unroute("**/edits")
    page.locator("#saving").get_by_role("button", name="Try again").click()
    page.locator("#saving[data-state=saved]").wait_for()
    visit.wrong[:] = [line for line in visit.wrong if "ERR_FAILED" not in line]


@ONE_LOOK
def test_states_of_the_library(visit, looked, tmp_path, *, width: int, scheme: str) -> None:
    page = visit("/", width=width, scheme=scheme, reduced_motion="reduce")

    def listed(route) -> None:
        answer = route.fetch()
        told = answer.json()
        for one in told["items"][1::3]:
            one |= {"missing": True, "taken": "2026-01-02T03:04:05"}
        route.fulfill(response=answer, json=told)

    page.route("**/api/library/pictures?*", listed)
    batch = {"batch": "20260102-030405-abcdef", "files": 2, "brought_at": "2026-01-02T03:04:05Z"}
    page.route("**/api/library/batches", lambda route: route.fulfill(json=[batch]))
    page.goto(f"{page.url}library")
    page.wait_for_selector("#grid .cell")
    label = page.locator("#grid .cell", has=page.locator("img.gone")).first.locator(".gone-label")
    expect(label).to_have_text("File missing")
    expect(label).to_be_visible()
    expect(page.locator("#grid .cell:has(.gone-label) img:not(.gone)")).to_have_count(0)
    expect(page.locator("#grid .cell:not(:has(.gone-label)) img.gone")).to_have_count(0)
    looked(page, "wall with missing files")

    page.locator("#grid .cell").nth(1).click()
    page.get_by_role("button", name="Edit the caption").wait_for()
    expect(page.get_by_role("link", name="Open the file")).to_have_count(0)
    looked(page, "viewer, file missing")
    page.get_by_role("button", name="Edit the caption").click()
    looked(page, "viewer, words written")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name=re.compile("^More from that")).click()
    page.locator(".chip", has_text="Taken on the same day").wait_for()
    looked(page, "one day")
    page.get_by_role("button", name="Show all").click()
    page.fill("#filter", "no such words")
    page.locator("#shown", has_text="No results for").wait_for()
    looked(page, "nothing found")
    page.fill("#filter", "")

    page.click("#add-pictures")
    page.get_by_role("button", name="Take back").wait_for()
    looked(page, "pictures brought before")
    (tmp_path / "notes.txt").write_text("no picture")
    page.locator("dialog input[type=file]").first.set_input_files(tmp_path / "notes.txt")
    page.locator(".uploads", has_text="1 file skipped").wait_for()
    looked(page, "what was brought")
    page.get_by_role("button", name="Dismiss").click()
    (tmp_path / "inner").mkdir()
    page.click("#add")
    page.locator("dialog [role=status]", has_text="here").wait_for()
    page.fill("#path", str(tmp_path))
    page.keyboard.press("Tab")
    page.get_by_role("button", name="inner").wait_for()
    looked(page, "a folder with folders")
    page.fill("#path", str(tmp_path / "nowhere"))
    page.get_by_role("button", name="Add folder").click()
    page.locator("dialog .problem").wait_for()
    looked(page, "a folder that is not there")
    visit.wrong[:] = [line for line in visit.wrong if "status of 4" not in line]


def test_axe_would_find_something(visit, storyboard) -> None:
    page = visit("/")
    page.evaluate("document.querySelector('label[for=text]').remove()")
    page.evaluate("document.querySelector('#about').style.color = '#bbb'")
    assert any(line.startswith("color-contrast: ") for line in broken_rules(page))


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


def test_motion(storyboard) -> None:
    page = storyboard()
    page.evaluate("document.querySelector('.step').classList.add('changed')")
    for wish, due in (("no-preference", "arrive"), ("reduce", "none")):
        page.emulate_media(reduced_motion=wish)
        image = "document.querySelector('.changed .plate img')"
        assert page.evaluate(f"getComputedStyle({image}).animationName") == due


def test_a_project_that_is_not_there(visit) -> None:
    page = visit("/projects/0123456789abcdef")
    assert page.locator("h1").inner_text() == "Not found"
    expect(page.locator("main")).to_contain_text("it was removed, or is in another folder of projects.")
    expect(page.get_by_role("link", name="To the start page")).to_be_visible()
    visit.wrong[:] = [line for line in visit.wrong if "404" not in line]


def test_open_a_file(visit, tmp_path) -> None:
    page = visit("/")
    (tmp_path / "story.md").write_text("# A walk\n\nOne.\n\nTwo.\n")
    page.set_input_files("#file", tmp_path / "story.md")
    page.locator("#said", has_text="Opened story.md").wait_for(state="attached")
    expect(page.locator("#format")).to_have_value("markdown")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    page.set_input_files("#file", tmp_path / "picture.png")
    page.locator("#trouble .problem", has_text="icture.png: is not a text").wait_for()
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
