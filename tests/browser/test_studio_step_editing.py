"""Words and pictures of a step changed in the panel, by pointer and by keyboard, in all looks."""

import json
import os
import re

import pytest
from accessibility import broken_rules, scrolls_sideways
from browsing import project_of

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.slow


def settled(page, name: str) -> list[str]:
    """Names of the rules that the page as it is breaks, and whether it is too wide."""
    if folder := os.environ.get("LIMNER_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{name}-{page.viewport_size['width']}.png")
    return [*broken_rules(page), *scrolls_sideways(page)]


def act(page, do) -> None:
    """Do something that edits the project, and wait for what follows from it."""
    with page.expect_response("**/edits") as answer:
        do()
    page.wait_for_selector("#saving[data-state=saved]")
    page.wait_for_selector("#offers:not([aria-busy])", state="attached")
    assert answer.value.ok  # 202 where it takes longer than a second


def texts(page) -> list[str]:
    return [step["text"] for step in project_of(page)["board"]["story"]["steps"]]


def test_words_are_changed_split_merged_added_moved_and_removed_by_keyboard(storyboard) -> None:
    page = storyboard("The fox flew a kite. It was red.\n\nNight fell.\n\nHe slept in his bed.")
    page.locator(".plate").nth(0).focus()
    page.keyboard.press("e")
    field = page.locator("#step-text")
    expect(field).to_be_focused()
    field.fill("The fox flew a kite. It was blue 🪁 and red.")
    page.keyboard.press("Escape")
    assert texts(page)[0] == "The fox flew a kite. It was red."
    page.keyboard.press("Escape")
    page.locator(".plate").nth(0).focus()
    page.keyboard.press("e")
    field.fill("🪁 The fox flew a kite. It was blue.")
    act(page, lambda: page.keyboard.press("Control+Enter"))
    assert texts(page)[0] == "🪁 The fox flew a kite. It was blue."
    expect(page.locator(".words p").nth(0)).to_have_text("🪁 The fox flew a kite. It was blue.")

    page.locator(".plate").nth(0).focus()
    page.keyboard.press("e")
    field.evaluate("field => field.setSelectionRange(23, 23)")  # two of them are the kite's
    act(page, lambda: page.keyboard.press("Control+Shift+Enter"))
    assert texts(page) == ["🪁 The fox flew a kite.", "It was blue.", "Night fell.", "He slept in his bed."]
    expect(page.locator(".step")).to_have_count(4)
    act(page, lambda: page.keyboard.press("j"))
    assert texts(page)[0] == "🪁 The fox flew a kite. It was blue."

    page.keyboard.press("n")
    field.fill("The wind blew.")
    page.fill("#step-title", "Wind")
    act(page, lambda: page.keyboard.press("Control+Enter"))
    assert texts(page)[1] == "The wind blew."
    expect(page.locator(".plate").nth(1)).to_be_focused()
    act(page, lambda: page.keyboard.press("Alt+ArrowDown"))
    assert texts(page)[2] == "The wind blew."
    expect(page.locator(".plate").nth(2)).to_be_focused()
    act(page, lambda: page.keyboard.press("Delete"))
    assert texts(page) == ["🪁 The fox flew a kite. It was blue.", "Night fell.", "He slept in his bed."]
    with page.expect_response(lambda answer: answer.url.endswith("/undo")):
        page.locator(".toast").get_by_role("button", name="Undo").click()
    page.wait_for_selector(".step >> nth=3")
    assert texts(page)[2] == "The wind blew."


def test_the_menu_does_the_same_by_pointer(storyboard) -> None:
    page = storyboard("One fox.\n\nTwo kites.\n\nThree boats.")
    page.locator(".plate").nth(1).click()
    menu = page.locator(".menu")
    for words, due in (
        ("Move up", ["Two kites.", "One fox.", "Three boats."]),
        ("Merge with the next step", ["Two kites. One fox.", "Three boats."]),
        ("Remove this step", ["Three boats."]),
    ):
        menu.locator("summary").click()
        act(page, menu.get_by_role("button", name=words).click)
        assert texts(page) == due
    menu.locator("summary").click()
    expect(menu.get_by_role("button", name="Remove this step")).to_be_disabled()
    menu.get_by_role("button", name="Add a step before").click()
    page.fill("#step-text", "At first.")
    act(page, page.get_by_role("button", name="Save").click)
    assert texts(page) == ["At first.", "Three boats."]


def test_a_picture_is_cropped_and_described(storyboard) -> None:
    page = storyboard()
    page.locator(".plate").nth(1).focus()
    page.keyboard.press("f")
    drag(page, ".handle.top.left", 0.2, 0.25)
    drag(page, ".handle.bottom.right", 0.7, 0.75)
    drag(page, ".focal", 0.6, 0.5)
    page.fill("#framing-caption", "On the hill <b>")
    page.fill("#framing-alt", "A fox with a kite")
    assert settled(page, "framing") == []
    act(page, page.get_by_role("button", name="Apply").click)
    framing = project_of(page)["board"]["steps"][1]["framing"]
    due = {"x": 0.2, "y": 0.25, "width": 0.5, "height": 0.5}
    assert framing["crop"] == pytest.approx(due, abs=0.02)
    assert framing["focus"] == pytest.approx([0.6, 0.5], abs=0.02)
    assert (framing["caption"], framing["alt"]) == ("On the hill <b>", "A fox with a kite")
    expect(page.locator(".plate").nth(1)).to_have_attribute("aria-label", re.compile("A fox with a kite"))
    inside = page.evaluate(
        "(() => { const view = document.querySelectorAll('.step')[1].querySelector('.view');"
        " const [box, image] = [view, view.firstChild].map(one => one.getBoundingClientRect());"
        " return [(box.left - image.left) / image.width, (box.top - image.top) / image.height,"
        " box.width / image.width, box.height / image.height]; })()"
    )
    assert inside[0] >= 0.2 - 0.02
    assert inside[0] + inside[2] <= 0.7 + 0.02
    assert inside[2] <= 0.5 + 0.02
    assert inside[3] <= 0.5 + 0.02


def drag(page, part: str, x: float, y: float) -> None:
    """Move a handle of the crop dialog to a place of the picture, in fractions."""
    stage = page.locator(".stage").bounding_box()
    page.locator(part).hover()
    page.mouse.down()
    page.mouse.move(stage["x"] + stage["width"] * x, stage["y"] + stage["height"] * y)
    page.mouse.up()


def test_crop_and_focal_point_are_set_by_keyboard_alone(storyboard) -> None:
    page = storyboard()
    page.locator(".plate").nth(0).focus()
    page.keyboard.press("f")
    for part, keys in (
        (".handle.left:not(.top, .bottom)", ["Shift+ArrowRight"]),
        (".handle.right:not(.top, .bottom)", ["Shift+ArrowLeft"] * 4),
        (".handle.top:not(.left, .right)", ["Shift+ArrowDown"] * 2),
        (".handle.bottom:not(.left, .right)", ["Shift+ArrowUp"] * 2),
        (".mover", ["ArrowRight", "ArrowLeft"]),
        (".focal", ["ArrowLeft"] * 5 + ["Shift+ArrowDown"] * 2),
    ):
        page.locator(part).first.focus()
        for key in keys:
            page.keyboard.press(key)
    page.locator("#framing-caption").focus()
    act(page, lambda: page.keyboard.press("Enter"))
    framing = project_of(page)["board"]["steps"][0]["framing"]
    assert framing["crop"] == pytest.approx({"x": 0.1, "y": 0.2, "width": 0.5, "height": 0.6}, abs=0.002)
    assert framing["focus"] == pytest.approx([0.3, 0.7], abs=0.002)
    assert json.dumps(framing["caption"]) == "null"
    page.keyboard.press("f")
    page.get_by_role("button", name="Whole picture").click()
    page.get_by_role("button", name="Center").click()
    act(page, page.get_by_role("button", name="Apply").click)
    assert set(project_of(page)["board"]["steps"][0]["framing"].values()) == {None}


def bent(page) -> list[float]:
    """How far each picture of the cards is from its own shape; 0 is not at all."""
    return page.evaluate(
        "[...document.querySelectorAll('.plate .view img')].map(image => {"
        " const box = image.getBoundingClientRect();"
        " const due = image.getAttribute('width') / image.getAttribute('height');"
        " return Math.abs(box.width / box.height / due - 1); })"
    )


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_every_state_is_for_everybody(storyboard, *, width: int, scheme: str) -> None:
    page = storyboard(width=width, scheme=scheme, reduced_motion="reduce")
    page.locator(".plate").nth(1).click()
    for view in ("large", "small", "strip", "list"):
        page.locator(f"#views input[value={view}]").check(force=True)
        assert max(bent(page)) < 0.05, view
    page.locator("#views input[value=large]").check(force=True)
    page.locator(".menu summary").click()
    assert settled(page, f"menu-{scheme}") == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Edit the text of this step").click()
    assert settled(page, f"editing-{scheme}") == []
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    assert settled(page, f"framing-{scheme}") == []
