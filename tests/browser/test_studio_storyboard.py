"""The storyboard in a real browser: from a pasted text to an export, and everything found again."""

import json
import re
import zipfile
from pathlib import Path

import pytest
from accessibility import broken_rules
from browsing import arrived, from_menu, project_of

from limner.records import percent

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.slow


def shown(page) -> list[str | None]:
    """Per step, the id of the picture on its card, or None."""
    return page.evaluate(
        "[...document.querySelectorAll('.step')].map(item => {"
        " const image = item.querySelector('.plate img');"
        " return image ? image.src.match(/pictures\\/([0-9a-f]{64})/)[1] : null; })"
    )


def states(page) -> list[str]:
    return page.evaluate("[...document.querySelectorAll('.step')].map(item => item.dataset.state)")


def offered(page) -> list[str]:
    return page.evaluate("[...document.querySelectorAll('#offers li')].map(item => item.dataset.picture)")


def saved(page, after=None) -> None:
    """Wait until the server has kept the last change."""
    page.wait_for_selector("#saving[data-state=saved]")
    page.wait_for_selector("#offers:not([aria-busy])", state="attached")


def act(page, do) -> None:
    """Do something that edits the project, and wait for the answer and what follows from it."""
    with page.expect_response(
        lambda answer: "/edits" in answer.url or answer.url.endswith(("/undo", "/redo"))
    ):
        do()
    saved(page)


def choose(page, number: int) -> str:
    """Click an offered picture that is not on the board yet; returns its id."""
    offer = page.locator("#offers .offer:not(:has(.here)):not(:has(.there))").nth(number)
    picture = offer.locator("xpath=..").get_attribute("data-picture")
    act(page, offer.click)
    return picture


def test_from_a_pasted_text_to_an_export_and_back(visit, story: str, tmp_path: Path) -> None:
    page = visit("/")
    page.fill("#title", "A windy day")
    page.fill("#text", story)
    page.click("#go")
    page.wait_for_url(re.compile(r"/projects/"))
    page.wait_for_selector(".step .plate img")
    saved(page)
    expect(page.locator("#title")).to_have_value("A windy day")
    expect(page.locator(".step")).to_have_count(5)
    before = shown(page)
    assert len(set(before) - {None}) >= 4

    page.locator(".plate").nth(2).click()
    taken = choose(page, 0)
    assert shown(page)[2] == taken != before[2]
    assert states(page)[2] == "locked"

    page.locator(".plate").nth(0).click()
    act(page, page.get_by_role("button", name="Lock", exact=True).click)
    assert states(page)[0] == "locked"
    first = shown(page)[0]

    page.locator(".plate").nth(3).click()
    act(page, from_menu(page, page.locator("#panel .doing .button").last, "No picture").click)
    assert shown(page)[3] is None
    assert states(page)[3] == "blank"

    act(page, page.get_by_role("button", name="Undo").click)
    assert states(page)[3] == "free"
    assert shown(page)[3] is not None
    act(page, page.get_by_role("button", name="Redo").click)
    assert states(page)[3] == "blank"

    for kind, start in (
        ("html", b"<!doctype html"),
        ("pdf", b"%PDF"),
        ("pptx", b"PK"),
        ("md", b"PK"),
        ("json", b"{"),
    ):
        page.click("#export")
        page.check(f"input[value={kind}]")
        with page.expect_download() as caught:
            page.get_by_role("button", name="Download", exact=True).click()
        file = tmp_path / caught.value.suggested_filename
        caught.value.save_as(file)
        data = file.read_bytes()
        assert data.startswith(start)
        if kind == "md":
            names = zipfile.ZipFile(file).namelist()
            assert any(name.endswith(".md") for name in names)
            assert any(name.endswith((".jpg", ".png")) for name in names)
        if kind == "html":
            assert b"creator not stated" in data or b"CC0" in data
            assert b'alt="' in data
        page.wait_for_selector("dialog", state="detached")

    last = shown(page)
    page.reload()
    page.wait_for_selector(".step .plate img")
    saved(page)
    assert shown(page) == last
    assert shown(page)[0] == first
    assert states(page) == ["locked", "free", "locked", "blank", "free"]
    expect(page.locator("#title")).to_have_value("A windy day")
    page.goto(page.url.split("/projects/")[0])
    page.get_by_role("link", name="A windy day").first.click()
    page.wait_for_selector(".step .plate img")
    saved(page)
    assert shown(page) == last
    act(page, page.get_by_role("button", name="Undo").click)  # History outlives a reload as well.
    assert states(page)[3] == "free"


def test_a_choice_changes_its_step_and_no_other(storyboard) -> None:
    page = storyboard()
    before = shown(page)
    page.locator(".plate").nth(0).click()
    wanted = before[1]
    page.fill("#search", page.locator(".plate").nth(1).get_attribute("aria-label").split(": ", 1)[1])
    page.locator("#offers-state", has_text="Best matches for").wait_for()
    offer = page.locator(f"#offers li[data-picture='{wanted}'] .offer")
    act(page, offer.click)  # The picture of step 2 at step 1: step 2 keeps it all the same.
    assert shown(page) == [wanted, *before[1:]]
    assert states(page) == ["locked", "free", "free", "free", "free"]
    expect(page.locator("#said")).to_contain_text("Step 1, locked")
    expect(page.locator("#said")).not_to_contain_text("changed too")


def test_offers_belong_to_their_step(storyboard) -> None:
    """→ and then 2 at once gives the second step nothing that was offered for the first."""
    page = storyboard()
    before, held, edits = shown(page), [], []

    def hold(route) -> None:
        held.append(route)

    page.on("request", lambda made: edits.append(made.post_data_json) if "/edits" in made.url else None)
    page.route("**/candidates*", hold)
    page.locator(".plate").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("2")
    page.wait_for_selector("#panel[aria-label='Step 2']")
    expect(page.locator("#offers .offer")).to_have_count(0)
    assert offered(page) == [None] * 9  # Empty places, and nothing to click or drag.
    expect(page.locator("#offers-state")).to_contain_text("Looking for pictures")
    expect(page.locator("#said")).to_contain_text("still loading")
    page.wait_for_timeout(300)
    assert edits == []
    arrived(page, held).continue_()
    page.unroute("**/candidates*")
    page.wait_for_selector("#offers:not([aria-busy]) .offer")
    expect(page.locator("#offers .digit")).to_have_text([str(number) for number in range(1, 10)])
    assert shown(page) == before
    second = offered(page)[1]
    act(page, lambda: page.keyboard.press("2"))
    assert shown(page) == [before[0], second, *before[2:]]
    assert edits[0]["edit"]["offer"] == {"step": 1, "revision": 1}

    # The same step after a change: what is seen of the revision before is taken, but not as its offer.
    page.route("**/candidates*", hold)
    page.keyboard.press("l")
    page.wait_for_selector(".step[data-step='1'][data-state=free]")
    third = offered(page)[2]
    page.keyboard.press("3")
    page.wait_for_selector(".step[data-step='1'][data-state=locked]")
    assert shown(page)[1] == third
    assert "offer" not in edits[2]["edit"]
    arrived(page, held).continue_()
    page.unroute("**/candidates*")
    saved(page)
    fourth = offered(page)[3]
    act(page, lambda: page.keyboard.press("4"))
    assert shown(page)[1] == fourth
    assert edits[3]["edit"]["offer"] == {"step": 1, "revision": 4}


def test_choosing_again_is_seen_first_and_taken_in_part(storyboard) -> None:
    page = storyboard()
    before = shown(page)
    page.click("#again")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("No picture would change").wait_for()
    page.keyboard.press("Escape")

    # Options that were taken without their effect: choosing again shows it.
    url = page.url.replace("/projects/", "/api/projects/")
    edit = {"kind": "options", "options": {"min_probability": 0.99}, "steps": []}
    headers = {"Content-Type": "application/json", "Origin": url.split("/api/")[0]}
    body = json.dumps({"revision": 1, "edit": edit})
    assert page.request.post(f"{url}/edits", data=body, headers=headers).ok
    page.reload()
    page.wait_for_selector("#panel .offer")
    assert shown(page) == before
    page.locator(".plate").first.focus()
    page.keyboard.press("a")
    dialog.locator(".changes li").first.wait_for()
    changes = dialog.locator(".changes li")
    steps = [int(text.split()[-1]) - 1 for text in changes.locator(".number").all_inner_texts()]
    assert len(steps) >= 2
    assert shown(page) == before
    for number, step in enumerate(steps):
        assert before[step] in changes.nth(number).locator("img").first.get_attribute("src")
        changes.nth(number).get_by_text("No picture").wait_for()
    dialog.get_by_label("All of them").uncheck()
    expect(dialog.get_by_role("button", name="Apply 0 changes")).to_be_disabled()
    changes.nth(1).get_by_role("checkbox").check()
    act(page, dialog.get_by_role("button", name="Apply 1 change").click)
    assert shown(page) == [None if step == steps[1] else one for step, one in enumerate(before)]
    assert states(page) == ["free"] * 5
    act(page, lambda: page.keyboard.press("Control+z"))
    assert shown(page) == before


def test_a_picture_that_would_stand_at_two_steps_is_said_and_both_can_be_taken(storyboard) -> None:
    page = storyboard()
    steps = project_of(page)["board"]["steps"]
    changes = [
        {"position": n, "before": steps[n], "after": {**steps[n], "chosen": steps[(n + 1) % 3]["chosen"]}}
        for n in range(3)
    ]
    page.route("**/preview", lambda route: route.fulfill(json={"revision": 1, "steps": changes}))
    page.click("#again")
    dialog = page.get_by_role("dialog")
    rows = dialog.locator(".changes li")
    rows.nth(2).wait_for()
    expect(dialog.locator("[data-twice]")).to_have_count(0)
    rows.nth(1).get_by_role("checkbox").uncheck()
    expect(dialog).to_contain_text("1 picture would be used at two steps.")
    assert rows.nth(0).inner_text().count("Step 2 shows this picture too.") == 1
    assert rows.nth(1).inner_text().count("Step 1 would show the picture of this step.") == 1
    assert [rows.nth(n).get_attribute("data-twice") is not None for n in range(3)] == [True, True, False]
    rows.nth(0).get_by_role("button", name="Apply both").click()
    expect(dialog.locator("[data-twice]")).to_have_count(0)
    expect(dialog).not_to_contain_text("two steps")
    with page.expect_request("**/edits") as request:
        dialog.get_by_role("button", name="Apply 3 changes").click()
    assert request.value.post_data_json["edit"] == {"kind": "again", "steps": [0, 1, 2]}


def test_a_picture_at_two_steps_is_in_the_summary(storyboard) -> None:
    page = storyboard()
    first = shown(page)[0]
    url = page.url.replace("/projects/", "/api/projects/")
    edit = {"kind": "choose", "step": 4, "picture": first}
    headers = {"Content-Type": "application/json", "Origin": url.split("/api/")[0]}
    assert page.request.post(
        f"{url}/edits", data=json.dumps({"revision": 1, "edit": edit}), headers=headers
    ).ok
    page.reload()
    page.locator("#summary", has_text="steps 1 and 5 show the same picture").wait_for()


def test_lock_all_others_with_one_key(storyboard) -> None:
    page = storyboard()
    before = shown(page)
    page.locator(".plate").nth(2).focus()
    act(page, lambda: page.keyboard.press("Shift+L"))
    assert [state == "free" for state in states(page)] == [False, False, True, False, False]
    assert shown(page) == before
    act(page, page.locator(".toast").get_by_role("button", name="Undo").click)
    assert states(page) == ["free"] * 5
    act(page, from_menu(page, page.locator("#panel .doing .button").last, "Lock the rest").click)
    assert states(page).count("free") == 1


def test_drag_a_picture_onto_a_step(storyboard) -> None:
    page = storyboard()
    offer = page.locator("#offers .offer:not(:has(.here)):not(:has(.there))").first
    picture = offer.locator("xpath=..").get_attribute("data-picture")
    act(page, lambda: offer.drag_to(page.locator(".step").nth(1)))
    assert shown(page)[1] == picture
    assert states(page) == ["free", "locked", "free", "free", "free"]
    expect(page.locator(".step.target, body.dragging")).to_have_count(0)

    before = shown(page)  # and the picture of one step onto another
    act(page, lambda: page.locator(".plate").nth(0).drag_to(page.locator(".plate").nth(2)))
    assert [shown(page)[2], shown(page)[0]] == [before[0], before[2]]
    assert [states(page)[0], states(page)[2]] == ["locked", "locked"]


def test_all_by_keyboard(storyboard) -> None:
    page = storyboard()
    before = shown(page)
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the storyboard")
    page.locator(".plate").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".plate").nth(2)).to_be_focused()
    page.wait_for_selector("#panel[aria-label='Step 3'] #offers:not([aria-busy])")
    act(page, lambda: page.keyboard.press("l"))
    assert states(page)[2] == "locked"
    act(page, lambda: page.keyboard.press("l"))
    assert states(page)[2] == "free"
    act(page, lambda: page.keyboard.press("b"))
    assert states(page)[2] == "blank"
    act(page, lambda: page.keyboard.press("Control+z"))
    assert shown(page) == before
    act(page, lambda: page.keyboard.press("Control+Shift+Z"))
    assert states(page)[2] == "blank"
    act(page, lambda: page.keyboard.press("Control+z"))

    fourth = offered(page)[3]
    act(page, lambda: page.keyboard.press("4"))
    assert shown(page)[2] == fourth
    act(page, lambda: page.keyboard.press("Control+z"))

    page.keyboard.press("x")  # The picture of step 3 is picked up …
    page.keyboard.press("Home")
    act(page, lambda: page.keyboard.press("x"))  # … and put at step 1.
    assert [shown(page)[0], shown(page)[2]] == [before[2], before[0]]
    act(page, lambda: page.keyboard.press("Control+z"))
    page.keyboard.press("x")
    page.keyboard.press("Escape")
    expect(page.locator("body.carrying")).to_have_count(0)

    page.keyboard.press("Enter")
    page.wait_for_selector(".offer:focus")
    page.keyboard.press("ArrowRight")
    second = page.evaluate("document.activeElement.parentElement.dataset.picture")
    assert second == offered(page)[1]
    act(page, lambda: page.keyboard.press("Enter"))
    assert shown(page)[0] == second
    act(page, lambda: page.keyboard.press("Control+z"))

    page.locator(".plate").first.focus()
    page.keyboard.press("s")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("blx")  # Letters typed into a field do nothing else.
    assert states(page) == ["free"] * 5
    page.locator(".plate").first.focus()
    page.keyboard.press("r")
    page.wait_for_selector("#page-reasons:not([hidden])")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog").get_by_role("heading", name="Help and keyboard")).to_be_visible()
    page.uncheck("#single-keys")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator(".plate").first.focus()
    page.keyboard.press("l")
    page.wait_for_timeout(300)
    assert states(page) == ["free"] * 5
    page.keyboard.press("Control+e")
    expect(page.get_by_role("dialog").get_by_role("heading", name="Export")).to_be_visible()


def test_search_more_like_this_and_never(storyboard) -> None:
    page = storyboard()
    with page.expect_response("**/api/search") as asked:
        page.fill("#search", "a boat on the sea")
    found = [item["picture"]["id"] for item in asked.value.json()["items"]]
    page.locator("#offers-state", has_text="boat").wait_for()
    assert offered(page) == found
    expect(page.locator("#offers .offer").first).to_have_attribute("aria-label", re.compile("boat"))

    with page.expect_request("**/api/search") as request:
        page.locator("#offers li").nth(1).hover()
        from_menu(page, page.locator("#offers li").nth(1).locator(".tiny"), "More like this").click()
    assert request.value.post_data_json["picture"] == found[1]
    page.locator("#offers-state", has_text="Most similar").wait_for()
    assert found[1] not in offered(page)
    page.get_by_role("button", name="Back to the candidates").click()
    page.locator("#offers-state", has_text="Best matches first").wait_for()

    banned = shown(page)[0]
    page.locator(f"#offers li[data-picture='{banned}']").hover()
    more = page.locator(f"#offers li[data-picture='{banned}'] .tiny")
    act(page, from_menu(page, more, "Don’t use in this project").click)
    assert banned not in shown(page)
    assert banned not in offered(page)
    act(page, page.locator(".toast").get_by_role("button", name="Undo").click)
    assert shown(page)[0] == banned


def test_reasons_are_words_and_chances(storyboard) -> None:
    page = storyboard()
    page.click("#tab-reasons")
    step = project_of(page)["board"]["steps"][0]
    chosen, reasons = step["chosen"], page.locator("#page-reasons")
    expect(reasons.locator(".sentence")).to_contain_text(step["reason"])
    expect(reasons.locator(".verdict")).to_contain_text(re.compile("^The picture (probably|may|fits) "))
    expect(reasons.locator(".verdict .quiet")).to_have_text(f"Probability: {percent(step['probability'])} %")
    assert reasons.locator(".verdict .bar-line span").bounding_box()["width"] > 0
    assert not re.search(r"\d[.,]\d|odds|logarithm|nats", reasons.locator(".reasons").inner_text())
    ratings = reasons.locator(".rating").all_inner_texts()
    assert ratings
    assert all(re.match("It (stands out|is above average|is one of many) ", line) for line in ratings)
    for word in chosen["matched"]:
        page.locator(".telling-text mark", has_text=word).first.wait_for()
    rivals = reasons.locator(".rival")
    expect(rivals).to_have_count(len(step["runners_up"]))
    for rival, other in zip(rivals.all(), step["runners_up"], strict=True):
        assert other["picture"]["id"] in rival.locator("img").get_attribute("src")
        expect(rival).to_contain_text(re.compile(f"(fits|may fit|weak) {percent(other['probability'])} %"))
    page.locator(".plate").nth(1).click()
    page.wait_for_selector("#panel[aria-label='Step 2'] #page-reasons .rival >> visible=true")
    rivals.nth(1).get_by_role("button", name=re.compile("^Compare with")).click()
    second = project_of(page)["board"]["steps"][1]
    due = [second["chosen"]["picture"]["id"], second["runners_up"][1]["picture"]["id"]]
    slots = page.locator(".slots .large figure")
    slots.nth(1).wait_for()  # Where the offers of the step are still on their way, with them.
    assert slots.evaluate_all("all => all.map(one => one.dataset.picture)") == due


def set_options(page, options: dict) -> dict:
    """Choose anew by other options, beside the page, and load it again; the project."""
    url = page.url.replace("/projects/", "/api/projects/")
    body = {"revision": project_of(page)["revision"], "edit": {"kind": "options", "options": options}}
    headers = {"Content-Type": "application/json", "Origin": url.split("/api/")[0]}
    assert page.request.post(f"{url}/edits", data=json.dumps(body), headers=headers).ok
    page.reload()
    page.wait_for_selector("#panel .offer", state="attached")
    return project_of(page)


def test_cards_say_how_well_their_pictures_fit_and_what_would_help_is_said_once(storyboard) -> None:
    page = storyboard()
    project, chances = project_of(page), (0.05, 0.3, 0.7, 0.19, None)
    for step, chance in zip(project["board"]["steps"], chances, strict=True):
        step["probability"] = chance
    page.route("**/api/projects/*", lambda route: route.fulfill(json=project))
    page.reload()
    page.wait_for_selector("#panel .offer", state="attached")
    for card, words in zip(page.locator(".step").all(), ("weak", "may fit", "fits", "weak", ""), strict=True):
        expect(card.locator(".fitting")).to_have_text(words)
        expect(card.locator(".fitting")).to_be_visible(visible=bool(words))
        assert (f", {words}: " in card.locator(".plate").get_attribute("aria-label")) == bool(words)
    expect(page.locator("#summary")).to_contain_text("2 weak")
    project["advice"] = "More pictures would help."
    page.reload()
    banner = page.get_by_role("region", name="What would help")
    expect(banner).to_contain_text(project["advice"])
    assert broken_rules(page) == []
    banner.get_by_role("button", name="Add pictures").click()
    page.get_by_role("dialog").get_by_role("button", name="Choose a folder").wait_for()
    page.keyboard.press("Escape")
    banner.get_by_role("button", name="Dismiss").click()
    page.reload()
    page.wait_for_selector("#panel .offer", state="attached")
    expect(page.locator("#summary")).to_contain_text("2 weak")
    expect(banner).to_have_count(0)


def test_the_number_that_the_settings_state_is_the_one_applied(storyboard) -> None:
    page = storyboard()
    threshold = project_of(page)["board"]["threshold"]
    page.click("#settings")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Usual")).to_be_checked()
    expect(dialog).to_contain_text(f"below a probability of {percent(threshold)} %")
    page.keyboard.press("Escape")
    set_options(page, {"min_probability": 0.6})  # As a program, or an earlier version, may have set it.
    page.click("#settings")
    expect(dialog.locator("input[type=radio]:checked")).to_have_count(0)
    expect(dialog).to_contain_text("a threshold of its own, 60 %")
    dialog.get_by_label("Always show something").check()
    page.get_by_role("button", name="See what would change").click()
    act(page, page.get_by_role("button", name=re.compile("^(Apply|Use these settings)")).click)
    project = project_of(page)
    assert (project["options"]["show"], project["options"]["min_probability"]) == ("always", None)
    assert project["board"]["threshold"] == 0
    page.click("#settings")
    expect(dialog.get_by_label("Always show something")).to_be_checked()
    expect(dialog).not_to_contain_text("%")


def test_settings_text_and_title(storyboard, story: str) -> None:
    page = storyboard()
    page.fill("#title", "Kites")
    act(page, lambda: page.keyboard.press("Enter"))
    expect(page).to_have_title(re.compile("^Kites"))
    act(page, lambda: page.locator(".step").nth(1).locator(".lock").click())
    kept = shown(page)[1]
    page.click("#settings")
    page.check("input[value=cautious]")
    page.get_by_role("button", name="See what would change").click()
    act(
        page,
        page.get_by_role("button", name=re.compile("^(Apply|Use the settings|Use these settings)")).click,
    )
    page.click("#retext")
    page.fill("#new-text", "A bear sails a boat.\n\n" + story)
    act(page, page.get_by_role("button", name="Illustrate again").click)
    expect(page.locator(".step")).to_have_count(6)
    assert states(page) == ["free", "free", "locked", "free", "free", "free"]
    assert shown(page)[2] == kept
    project = project_of(page)
    assert project["options"]["show"] == project["board"]["settings"]["show"] == "cautious"


def test_a_text_is_cut_again_on_the_board_and_what_stays_keeps_its_picture(storyboard) -> None:
    page = storyboard("A fox looks out. Snow falls.\n\nA boat sails.")
    act(page, lambda: page.locator(".step").nth(1).locator(".lock").click())
    kept = shown(page)[1]
    told = project_of(page)["notes"]
    assert told == ["no explicit steps found: divided into paragraphs"]
    page.get_by_text("Import notes (1)").click()
    expect(page.locator("#notes li")).to_have_text(told)
    page.click("#retext")
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".notes li")).to_have_text(told)
    expect(dialog.get_by_label("One picture for each")).to_have_value("")
    dialog.get_by_label("One picture for each").select_option("sentence")
    act(page, page.get_by_role("button", name="Illustrate again").click)
    expect(page.locator(".step")).to_have_count(3)
    assert states(page) == ["free", "free", "locked"]
    assert shown(page)[2] == kept
    project = project_of(page)
    assert project["by"] == "sentence"
    assert project["notes"] == []
    expect(page.locator("#notes li")).to_have_count(0)
    page.click("#retext")
    expect(dialog.get_by_label("One picture for each")).to_have_value("sentence")


def test_a_change_in_another_window_is_not_overwritten(storyboard, visit) -> None:
    page = storyboard()
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector(".step .plate img")
    saved(other)
    for step in (0, 1):
        act(other, lambda: other.locator(".step").nth(1).locator(".lock").click())
        with page.expect_response("**/edits"):
            page.locator(".step").nth(step).locator(".lock").click()
    page.get_by_role("button", name="Review").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard mine").click()
    saved(page)
    assert states(page)[:2] == ["locked", "free"]
    visit.wrong[:] = [line for line in visit.wrong if "409" not in line]


def test_hostile_words_stay_words(storyboard, visit) -> None:
    hostile = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    page = storyboard(f"A zeppelin {hostile} flies by.\n\nIt is gone & forgotten.", title=hostile)
    expect(page.locator("#title")).to_have_value(hostile)
    expect(page.locator(".step p").first).to_contain_text(hostile)
    page.fill("#search", "zeppelin")
    page.locator("#offers-state", has_text="zeppelin").wait_for()
    offer = page.locator("#offers .offer[aria-label*='onerror']")
    expect(offer).to_have_count(1)
    act(page, offer.click)
    page.click("#tab-reasons")
    expect(page.locator("#page-reasons")).to_contain_text(hostile)
    page.goto(page.url.split("/projects/")[0])
    expect(page.locator(".projects")).to_contain_text(hostile)
    page.goto(f"{page.url}library")
    page.fill("#filter", "zeppelin")
    page.locator("#shown", has_text="1 of ").wait_for()
    page.locator("#grid .cell").click()
    page.locator("dialog .said p", has_text="zeppelin").wait_for()
    expect(page.get_by_role("dialog")).to_contain_text(hostile)
    page.get_by_role("button", name="Edit the caption").click()
    expect(page.locator("#own-captions")).to_have_value(re.compile(re.escape(hostile)))
    assert "owned" not in page.title()
    assert page.evaluate("document.querySelectorAll('img[src=x], main script, dialog script').length") == 0


def test_choices_leave_only_with_consent(storyboard, tmp_path: Path) -> None:
    page = storyboard(title="Consent")
    before = shown(page)[0]
    taken = choose(page, 1)
    page.click("#export")
    page.get_by_text("Export my choices as training data").click()
    go = page.get_by_role("button", name="Download my choices")
    expect(go).to_be_disabled()
    page.check("#consent")
    with page.expect_download() as caught:
        go.click()
    caught.value.save_as(tmp_path / "choices.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "choices.jsonl").read_text().splitlines()]
    assert all(
        set(line) == {"query", "context", "preferred", "rejected", "time", "library"} for line in lines
    )
    assert (lines[-1]["rejected"], lines[-1]["preferred"]) == (before, taken)


@pytest.mark.shared
def test_a_storybook_text(visit, shared_data: Path) -> None:
    with (shared_data / "storybook" / "stories.jsonl").open() as lines:
        book = next(json.loads(line) for line in lines if '"split": "train"' in line)
    page = visit("/")
    page.fill("#title", book["title"])
    page.fill("#text", "\n\n".join(leaf["text"] for leaf in book["pages"]))
    page.click("#go")
    page.wait_for_selector(".step .plate")
    saved(page)
    texts = page.locator(".step p").all_inner_texts()
    assert texts == [" ".join(leaf["text"].split()) for leaf in book["pages"]] or len(texts) >= len(
        book["pages"]
    )
    taken = choose(page, 0)
    assert shown(page)[0] == taken
    act(page, lambda: page.keyboard.press("Control+z"))
    page.reload()
    page.wait_for_selector(".step .plate")
    expect(page.locator("#title")).to_have_value(book["title"])
