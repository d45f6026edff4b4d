"""What the screens of the studio show first, and what fits on a phone."""

import re

import pytest
from accessibility import broken_rules
from browsing import answered, from_menu, project_of

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.slow
PHONE = {"width": 390, "height": 844, "has_touch": True, "is_mobile": True}
BEYOND = """[...document.querySelectorAll('a, button, input, select, summary, label')].filter(one => {
  const box = one.getBoundingClientRect();
  return box.width > 2 && !one.closest('.unseen, .skip') && getComputedStyle(one).visibility !== 'hidden'
    && (box.right > innerWidth + 1 || box.left < -1);
}).map(one => one.id || one.className || one.textContent)"""


def shown(page) -> list[str]:
    return page.locator(".plate img").evaluate_all("all => all.map(one => one.src.match(/[0-9a-f]{64}/)[0])")


def test_pictures_fill_their_cards_around_their_focal_point(storyboard) -> None:
    page = storyboard()
    picture = project_of(page)["board"]["steps"][0]["chosen"]["picture"]["id"]
    url = page.url.replace("/projects/", "/api/projects/")
    framing = {"crop": {"x": 0.0, "y": 0.0, "width": 0.3, "height": 1.0}, "focus": [0.1, 0.9]}
    edit = {"kind": "frame", "step": 0, "picture": picture, "framing": framing}
    headers = {"Origin": url.split("/api/")[0]}
    assert page.request.post(f"{url}/edits", data={"revision": 1, "edit": edit}, headers=headers).ok
    page.reload()
    page.wait_for_selector("#panel .offer")
    view, place, image = page.locator(".step").first.evaluate(
        "item => ['.view', '.plate', '.view img'].map("
        "one => item.querySelector(one).getBoundingClientRect().toJSON())"
    )
    assert view["width"] == pytest.approx(place["width"], abs=2)
    assert view["height"] == pytest.approx(place["height"], abs=2)
    bottom = (view["bottom"] - image["top"]) / image["height"]
    assert bottom > 0.9  # What must stay in sight is low in this picture.


def test_cards_leave_out_list_markers_and_a_heading_that_repeats(storyboard) -> None:
    text = "A fox.\n\n- A kite in the wind."
    page = storyboard(text)

    def answer(route) -> None:
        response = route.fetch()
        told = response.json()
        for step in told["board"]["story"]["steps"]:
            step["title"] = "Preparation"
        told["board"]["story"]["steps"][1]["text"] = "- A kite in the wind.\n- A well-flown one."
        route.fulfill(response=response, json=told)

    page.route("**/api/projects/*", answer)
    page.reload()
    page.wait_for_selector("#panel .offer")
    words = page.locator(".words")
    expect(words.nth(0)).to_contain_text("Preparation")
    expect(words.nth(1)).not_to_contain_text("Preparation")
    expect(words.nth(1).locator("p")).to_have_text("A kite in the wind.\nA well-flown one.")


def test_the_panel_leads_with_the_offers(storyboard) -> None:
    page = storyboard()
    assert page.locator("#offers .offer").first.bounding_box()["y"] < 900 * 0.42
    assert page.locator("#panel .doing > .button").count() == 2
    page.locator("#panel .doing > .button").last.click()
    acts = page.locator(".menu-of .acts-list button")
    assert acts.count() >= 6
    assert broken_rules(page) == []
    page.keyboard.press("ArrowDown")
    expect(acts.nth(1)).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#panel .doing > .button").last).to_be_focused()


def test_a_phone_has_one_button_on_a_picture_and_swaps_by_touch(storyboard) -> None:
    page = storyboard(**PHONE)
    before = shown(page)
    card = page.locator(".step").first
    expect(card.locator(".frame > .button:visible")).to_have_count(1)
    from_menu(page, card.locator(".card-more"), "Swap with another step").tap()
    page.locator(".toast", has_text="Choose the step to swap with").wait_for()
    with page.expect_response("**/edits"):
        page.locator(".plate").nth(2).tap()
    page.wait_for_selector("#saving[data-state=saved]")
    assert [shown(page)[0], shown(page)[2]] == [before[2], before[0]]
    expect(page.locator(".toast")).to_have_count(0)

    page.locator(".plate").nth(1).tap()
    offer = page.locator("#offers li").nth(1)
    offer.locator(".offer").wait_for()
    places = [one.bounding_box() for one in (offer.locator(".offer"), offer.locator(".tiny"))]
    picture, button = [box["width"] * box["height"] for box in places]
    assert button < picture / 6
    assert offer.locator(".button:visible").count() == 1
    from_menu(page, offer.locator(".tiny"), "View large").tap()
    page.locator("dialog.viewer").wait_for()
    assert broken_rules(page) == []


LAID_OUT = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""The wall of pictures is laid out anew a frame after the window has another width."""


def beyond(page) -> dict[int, list[str]]:
    """Controls beyond the edge of a phone, per width of it."""
    found = {}
    for width in (360, 390):
        page.set_viewport_size({"width": width, "height": 844})
        page.evaluate(LAID_OUT)
        if out := page.evaluate(BEYOND):
            found[width] = out
    return found


def test_nothing_lies_beyond_the_edge_of_a_phone(storyboard) -> None:
    page = storyboard(**PHONE)
    assert beyond(page) == {}
    page.locator(".plate").first.tap()
    assert beyond(page) == {}
    page.keyboard.press("Escape")
    page.click("#export")
    page.get_by_label("With reasons").wait_for()
    assert beyond(page) == {}
    page.goto(f"{page.url.split('/projects/')[0]}/library")
    page.wait_for_selector("#grid .cell")
    page.get_by_role("button", name="Filters").tap()
    assert beyond(page) == {}
    page.get_by_label("Captions", exact=True).select_option("true")
    page.locator(".chip").wait_for()
    assert beyond(page) == {}


def test_on_a_phone_what_concerns_the_whole_board_is_one_menu(storyboard) -> None:
    page = storyboard(**PHONE | {"width": 360})
    row = page.locator(".about")
    assert row.locator(".button:visible").count() == 1
    assert row.bounding_box()["height"] < 60
    for name, dialog in (("Edit the text", "Edit the text"), ("Picture settings", "Picture settings")):
        page.get_by_role("button", name="More for the storyboard").tap()
        page.locator("dialog.menu-of").get_by_role("button", name=name).tap()
        page.get_by_role("dialog", name=dialog).wait_for()
        assert broken_rules(page) == []
        page.keyboard.press("Escape")
    page.get_by_role("button", name="More for the storyboard").tap()
    page.locator("dialog.menu-of").get_by_role("button", name="Library").tap()
    page.wait_for_url("**/library?project=*&step=1")


def test_the_large_view_shows_the_whole_picture_and_takes_another(storyboard) -> None:
    page = storyboard()
    page.locator(".plate").first.focus()
    page.keyboard.press("z")
    image = page.locator("dialog.viewer figure img")
    box = image.bounding_box()
    assert image.evaluate("one => getComputedStyle(one).objectFit") == "contain"
    assert box["height"] > 500
    first = image.get_attribute("src")
    page.keyboard.press("ArrowRight")
    expect(image).not_to_have_attribute("src", first)
    second = image.get_attribute("src")
    middle = image.bounding_box()
    page.mouse.move(middle["x"] + 300, middle["y"] + 200)
    page.mouse.down()
    page.mouse.move(middle["x"] + 180, middle["y"] + 200)
    page.mouse.up()
    expect(image).not_to_have_attribute("src", second)
    assert image.get_attribute("src") != first
    taken = re.search("[0-9a-f]{64}", image.get_attribute("src"))[0]
    with page.expect_response("**/edits"):
        page.get_by_role("button", name="Use this picture").click()
    page.wait_for_selector("#saving[data-state=saved]")
    assert shown(page)[0] == taken


def test_a_crop_keeps_its_ratio(storyboard) -> None:
    page = storyboard()
    for ratio, due in (("1:1", 1.0), ("16:9", 16 / 9)):
        page.locator(".plate").first.focus()
        page.keyboard.press("f")
        page.get_by_label(ratio, exact=True).check(force=True)
        page.locator(".handle.bottom.right").hover()
        page.mouse.down()
        page.mouse.move(*(page.locator(".stage").bounding_box()[axis] + 150 for axis in ("x", "y")))
        page.mouse.up()
        box = page.locator(".crop-box").bounding_box()
        assert box["width"] / box["height"] == pytest.approx(due, rel=0.05)
        stage = page.locator(".stage").bounding_box()
        assert box["width"] < 0.9 * stage["width"]
        page.get_by_role("button", name="Cancel").click()


def test_the_preview_of_a_pdf_is_its_first_page_of_the_size_chosen(storyboard) -> None:
    page = storyboard()
    page.click("#export")
    page.get_by_label("PDF").check()
    page.get_by_label("Layout").select_option("article")
    page.get_by_label("Page size").select_option("a5")
    for control in ("Page size", "With reasons"):
        expect(page.get_by_label(control)).to_be_in_viewport()
    frame = page.frame_locator(".preview iframe")
    first = frame.locator("img[alt='Page 1']")
    first.wait_for()
    expect(page.locator(".preview:not([aria-busy])")).to_be_visible()
    box = first.evaluate("one => one.naturalHeight / one.naturalWidth")
    assert box == pytest.approx(210 / 148, rel=0.01)


def test_errors_are_sentences_with_a_way_on(storyboard, visit) -> None:
    page = storyboard()
    page.route(
        "**/candidates*",
        lambda route: route.fulfill(
            status=500, json={"title": "Something went wrong", "detail": "the disk is busy"}
        ),
    )
    page.locator(".plate").nth(1).click()
    expect(page.locator("#offers .problem")).to_contain_text("Something went wrong. The disk is busy.")
    page.unroute("**/candidates*")
    page.locator("#offers").get_by_role("button", name="Try again").click()
    page.locator("#offers .offer").first.wait_for()
    page.route("**/candidates*", lambda route: route.abort())
    page.locator(".plate").nth(2).click()
    expect(page.locator("#offers .problem")).to_contain_text("Start it again")
    expect(page.locator("#offers .problem")).not_to_contain_text("limner studio")
    visit.wrong[:] = [line for line in visit.wrong if "500" not in line and "ERR_FAILED" not in line]


def test_advice_names_no_commands_and_leads_to_the_pictures_without_words(storyboard) -> None:
    page = storyboard()
    project = project_of(page)
    project["advice"] = (
        "What would help: words for the pictures (captions in the files, or 'limner describe'), more."
    )
    page.route("**/api/projects/*", lambda route: route.fulfill(json=project))
    library = answered(page, f"{page.url.split('/projects/')[0]}/api/library") | {"captioned": 1}
    page.route("**/api/library", lambda route: route.fulfill(json=library))
    page.reload()
    banner = page.get_by_role("region", name="What would help")
    expect(banner).to_contain_text("words for the pictures, more.")
    expect(banner).not_to_contain_text("limner ")
    banner.get_by_role("link", name="Pictures without captions").click()
    page.locator(".chip", has_text="Without captions").wait_for()
