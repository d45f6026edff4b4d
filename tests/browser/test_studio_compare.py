"""Pictures side by side, other views of the board, and the board at other sizes and in other directions."""

import re

import pytest
from accessibility import COLOURS, broken_in_both_schemes, broken_rules
from browsing import arrived, from_menu

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.slow
ARABIC = "\n\n".join(("خرج الثعلب من بيته.", "طارت الطائرة الورقية.", "نام الثعلب في سريره."))


def offers_ready(page, step: int) -> None:
    page.wait_for_selector(f"#panel[aria-label='Step {step}'] #offers:not([aria-busy]) .offer")


def slots(page) -> list[str]:
    """Ids of the pictures that are compared."""
    return page.locator(".slots .large figure").evaluate_all("all => all.map(one => one.dataset.picture)")


def slot(page, number: int):
    """One of the pictures that are compared."""
    return page.locator(".slots .large figure").nth(number)


def offered(page) -> list[str]:
    return page.evaluate("[...document.querySelectorAll('#offers li')].map(item => item.dataset.picture)")


def shown(page) -> list[str]:
    return page.evaluate(
        "[...document.querySelectorAll('.plate')].map(plate =>"
        " plate.querySelector('img')?.src.match(/[0-9a-f]{64}/)[0] ?? null)"
    )


def test_compare_up_to_three_and_take_one(storyboard) -> None:
    page = storyboard()
    before, offers = shown(page), offered(page)
    page.locator(".plate").first.focus()
    page.keyboard.press("ArrowRight")
    offers_ready(page, 2)
    offers = offered(page)
    page.keyboard.press("c")
    dialog = page.get_by_role("dialog")
    assert slots(page) == [before[1], next(one for one in offers if one != before[1])]
    expect(dialog).to_contain_text(page.locator(".step p").nth(1).inner_text())
    beside = dialog.locator(".beside img")
    expect(beside.nth(0)).to_have_attribute("src", re.compile(before[0]))
    expect(beside.nth(1)).to_have_attribute("src", re.compile(before[2]))
    strip = dialog.locator(".strip button")
    strip.nth(4).click()
    strip.nth(5).click()  # A fourth takes the place of the third.
    expect(slot(page, 2)).to_have_attribute("data-picture", offers[5])
    assert slots(page)[2] == offers[5]
    assert len(slots(page)) == 3
    assert broken_rules(page) == []
    page.keyboard.press("ArrowRight")
    expect(slot(page, 2)).to_have_attribute("data-picture", offers[6])
    taken = slots(page)[2]
    with page.expect_request("**/edits") as request:
        dialog.get_by_role("button", name="Use this picture").last.click()
    assert request.value.post_data_json["edit"]["offer"] == {"step": 1, "revision": 1}
    page.wait_for_selector(".step[data-step='1'][data-state=locked]")
    assert shown(page) == [before[0], taken, *before[2:]]
    expect(dialog).to_have_count(0)


def test_the_comparison_goes_from_step_to_step(storyboard) -> None:
    page = storyboard()
    before = shown(page)
    from_menu(page, page.locator("#panel .doing .button").last, "Compare").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name=re.compile("^Previous step"))).to_be_disabled()
    page.keyboard.press("PageDown")
    dialog.get_by_role("heading", name="Step 2 of 5").wait_for()
    page.wait_for_selector(".slots .large figure:nth-child(2)")
    assert slots(page)[0] == before[1]
    dialog.get_by_role("button", name=re.compile("^Go to step 3")).click()
    dialog.get_by_role("heading", name="Step 3 of 5").wait_for()
    page.keyboard.press("PageUp")
    page.keyboard.press("PageUp")
    dialog.get_by_role("heading", name="Step 1 of 5").wait_for()
    expect(dialog.get_by_role("button", name=re.compile("^Previous step"))).to_be_disabled()
    page.keyboard.press("Escape")
    expect(page.locator(".step.selected")).to_have_attribute("data-step", "0")


def test_the_comparison_on_a_phone(storyboard) -> None:
    page = storyboard(width=360, height=740, reduced_motion="reduce")  # nothing slides in
    page.locator(".plate").nth(1).click()
    offers_ready(page, 2)
    from_menu(page, page.locator("#panel .doing .button").last, "Compare").click()
    page.wait_for_selector(".slots .large figure")
    assert broken_in_both_schemes(page) == []
    page.locator(".slots .acts .main").first.click()
    page.wait_for_selector(".step[data-step='1'][data-state=locked]")


def test_four_views_of_the_board(storyboard) -> None:
    page = storyboard()
    boxes = {}
    for view in ("large", "small", "strip", "list"):
        page.locator(f"#views input[value={view}]").check(force=True)
        cards = page.locator(".step")
        boxes[view] = [cards.nth(number).bounding_box() for number in range(cards.count())]
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide == 0
        # All other rules, and the dark colours: test_studio_access.py::test_states_of_the_storyboard
        assert broken_rules(page, COLOURS) == []
    assert boxes["small"][0]["width"] < boxes["large"][0]["width"]
    assert len({box["y"] for box in boxes["strip"]}) == 1
    assert len({box["x"] for box in boxes["list"]}) == 1
    page.locator("#views input[value=strip]").check(force=True)
    page.locator(".plate").first.focus()
    page.keyboard.press("End")
    expect(page.locator(".step .plate").last).to_be_in_viewport(ratio=0.99)  # It scrolls there.
    page.reload()
    page.wait_for_selector(".step .plate")
    expect(page.locator("#views input[value=strip]")).to_be_checked()
    expect(page.locator("#steps")).to_have_attribute("data-view", "strip")


def test_a_blank_does_not_fill_a_phone_and_says_so_in_its_name(storyboard) -> None:
    page = storyboard(width=360, height=740)
    page.locator(".plate").nth(1).focus()
    with page.expect_response("**/edits"):
        page.keyboard.press("b")
    page.wait_for_selector(".plate .void")
    blank = page.locator(".plate:has(.void)")
    assert blank.bounding_box()["height"] <= 120
    assert page.locator(".plate").first.bounding_box()["height"] > 160
    expect(blank).to_have_attribute("aria-label", "Step 2: No picture")


def test_a_step_without_a_picture_is_named_as_it_is_shown(storyboard) -> None:
    text = "Quarterly tax statements were audited.\n\nA fox flies a kite on the hill."
    page = storyboard(text, options={"show": "cautious"})
    named = page.locator(".plate").evaluate_all(
        "all => all.map(one => [one.getAttribute('aria-label'), one.innerText.trim()])"
    )
    assert named[0] == ["Step 1: No picture fits", "No picture fits"]


def test_arrow_keys_work_right_after_loading(storyboard) -> None:
    page = storyboard()
    expect(page.locator("body")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".plate").nth(1)).to_be_focused()
    page.reload()
    page.wait_for_selector("#offers:not([aria-busy]) .offer")
    page.keyboard.press("End")
    expect(page.locator(".plate").nth(4)).to_be_focused()


def test_a_board_in_arabic_runs_from_right_to_left(storyboard) -> None:
    page = storyboard(ARABIC)
    places = [page.locator(".step").nth(number).bounding_box()["x"] for number in range(3)]
    assert places[0] > places[1] > places[2]
    page.locator(".plate").first.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".plate").nth(1)).to_be_focused()
    page.locator("#views input[value=strip]").check(force=True)
    places = [page.locator(".step").nth(number).bounding_box()["x"] for number in range(3)]
    assert places[0] > places[1] > places[2]
    assert broken_rules(page) == []


def test_the_first_offers_are_in_view(storyboard) -> None:
    """A window of 1280 by 900 at 200 % zoom, a low one, and a small one at 400 %."""
    page = storyboard(width=640, height=450, reduced_motion="reduce")  # nothing slides in
    for width, height in ((640, 450), (1280, 640), (320, 400)):
        page.set_viewport_size({"width": width, "height": height})
        page.reload()
        page.locator(".plate").nth(1).click()
        offers_ready(page, 2)
        box = page.locator("#offers .offer").first.bounding_box()
        assert box["y"] >= 0
        assert box["y"] + min(box["height"], 48) <= height


def test_nothing_loses_contrast_while_offers_load(storyboard) -> None:
    page = storyboard()

    def hold(route) -> None:
        held.append(route)

    held: list = []
    page.route("**/candidates*", hold)
    page.locator(".plate").first.focus()
    page.keyboard.press("l")
    page.wait_for_selector("#offers[aria-busy] .here")
    page.wait_for_selector("#saving[data-state=saved]")
    assert broken_rules(page) == []
    arrived(page, held).continue_()
    page.unroute("**/candidates*")
    page.wait_for_selector("#offers:not([aria-busy])")
