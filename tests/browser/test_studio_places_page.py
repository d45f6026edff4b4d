"""Places that a text marks for pictures, and its cover, on the storyboard page."""

import os

import pytest
from accessibility import broken_rules, scrolls_sideways
from browsing import project_of

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.slow

MARKED = """A fox stepped out of his door and said good morning.

[photo: a fox flies a kite on the hill]

A gust blew it into a tree, and there it hung until the evening.

At night he sat by the fire.

[photo here]
[photo: a fox asleep in his bed]

So it ended."""


def settled(page, name: str) -> list[str]:
    """Names of the rules that the page as it is breaks, and whether it is too wide."""
    if folder := os.environ.get("LIMNER_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{name}-{page.viewport_size['width']}.png", full_page=True)
    return [*broken_rules(page), *scrolls_sideways(page)]


def act(page, do, kind: str = "edits") -> None:
    """Do something that changes the project, and wait for what follows from it."""
    with page.expect_response(f"**/{kind}") as answer:
        do()
    page.wait_for_selector("#saving[data-state=saved]")
    page.wait_for_selector("#offers:not([aria-busy])", state="attached")
    assert answer.value.ok


def boards(page) -> list[dict]:
    """Text and picture of each step."""
    board = project_of(page)["board"]
    pictures = [step["chosen"] and step["chosen"]["picture"]["id"] for step in board["steps"]]
    return [(step["text"], picture) for step, picture in zip(board["story"]["steps"], pictures, strict=True)]


def test_words_of_a_place_are_edited_on_its_card_and_its_picture_follows(storyboard) -> None:
    page = storyboard(MARKED)
    assert settled(page, "places") == []
    expect(page.locator(".between p")).to_have_text(
        [
            "A fox stepped out of his door and said good morning.",
            "A gust blew it into a tree, and there it hung until the evening.",
            "At night he sat by the fire.",
            "So it ended.",
        ]
    )
    fields = page.locator(".asked")
    expect(fields).to_have_count(3)
    expect(fields.nth(0)).to_have_value("a fox flies a kite on the hill")
    expect(fields.nth(1)).to_have_value("")
    before = boards(page)
    for view in ("small", "strip", "list", "large"):
        page.locator(f"#views input[value={view}]").check(force=True)
        assert settled(page, f"places-{view}") == []
    page.locator(".plate").nth(0).focus()
    page.keyboard.press("e")
    expect(fields.nth(0)).to_be_focused()
    fields.nth(0).fill("no")
    page.keyboard.press("Escape")
    expect(fields.nth(0)).to_have_value("a fox flies a kite on the hill")
    fields.nth(0).fill("a fox reads a book")
    act(page, lambda: page.keyboard.press("Enter"))
    expect(page.locator(".plate").nth(0)).to_be_focused()
    after = boards(page)
    assert after[0][0] == "a fox reads a book"
    assert after[0][1] != before[0][1]
    assert after[1:] == before[1:]
    act(page, lambda: page.keyboard.press("Control+z"), "undo")
    expect(fields.nth(0)).to_have_value("a fox flies a kite on the hill")
    assert boards(page) == before


def test_words_that_are_typed_when_the_page_is_left_are_kept(storyboard) -> None:
    page = storyboard(MARKED)
    page.locator(".asked").nth(2).fill("a fox in the snow")
    page.reload()
    page.wait_for_selector("#saving[data-state=saved]")
    expect(page.locator(".asked").nth(2)).to_have_value("a fox in the snow")
    assert boards(page)[2][0] == "a fox in the snow"


@pytest.mark.parametrize("width", [360, 1280])
def test_a_picture_is_added_anywhere_and_no_other_step_changes(storyboard, width: int) -> None:
    page = storyboard(width=width)
    before = boards(page)
    expect(page.locator(".between")).to_have_count(0)
    page.locator(".plate").nth(1).click(button="right")
    act(page, page.get_by_role("button", name="Add a picture after").click)
    field = page.locator(".asked")
    expect(field).to_be_focused()
    field.fill("a bluebird in a tree")
    act(page, lambda: page.keyboard.press("Enter"))
    after = boards(page)
    assert after[2][0] == "a bluebird in a tree"
    assert after[2][1]
    assert after[:2] + after[3:] == before
    page.reload()
    page.wait_for_selector("#panel .offer", state="attached")
    expect(page.locator(".asked")).to_have_value("a bluebird in a tree")
    assert settled(page, "added") == []
    for _ in range(2):
        act(page, lambda: page.keyboard.press("Control+z"), "undo")
    assert boards(page) == before
    page = storyboard(MARKED, width=width)
    before = boards(page)
    page.locator(".between").nth(1).hover()
    assert settled(page, "adding") == []
    act(page, page.locator(".between").nth(1).get_by_role("button", name="Add a picture").nth(1).click)
    expect(page.locator(".asked").nth(1)).to_be_focused()
    after = boards(page)
    assert after[:1] + after[2:] == before
    assert after[1][0] == "A gust blew it into a tree, and there it hung until the evening."
    page.locator(".plate").nth(1).click()
    act(page, page.locator("#panel .offer").nth(3).click)
    assert project_of(page)["steps"][1]["state"] == "locked"


@pytest.mark.parametrize("width", [360, 1280])
def test_a_cover_is_chosen_seen_and_taken_away(storyboard, width: int) -> None:
    page = storyboard(MARKED, width=width)
    before = boards(page)
    cover = page.locator("#cover")
    expect(cover).to_be_hidden()
    page.locator(".plate").nth(0).click(button="right")
    act(page, page.get_by_role("button", name="Use as cover").click)
    expect(cover.get_by_role("img")).to_be_visible()
    assert settled(page, "cover") == []
    assert project_of(page)["board"]["cover"]["id"] == before[0][1]
    page.locator(".plate").nth(0).click(button="right")
    expect(page.locator("dialog").get_by_role("button", name="No cover")).to_be_visible()
    page.keyboard.press("Escape")
    act(page, cover.get_by_role("button", name="No cover").click)
    expect(cover).to_be_hidden()
    assert project_of(page)["board"]["cover"] is None
    assert boards(page) == before


def test_a_picture_of_the_library_becomes_the_cover(storyboard, visit) -> None:
    page = storyboard(MARKED)
    library = visit(f"/library?project={page.url.rsplit('/', 1)[1]}&step=1")
    library.get_by_role("button", name="Select", exact=True).click()
    library.locator("#grid .cell").nth(0).click()
    library.get_by_role("button", name="Use as cover").click()
    library.get_by_role("button", name="Back to the storyboard").click()
    expect(library.locator("#cover").get_by_role("img")).to_be_visible()
    shown = library.locator("#cover img").get_attribute("src")
    assert project_of(library)["board"]["cover"]["id"] in shown
