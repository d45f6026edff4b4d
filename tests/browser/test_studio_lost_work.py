"""Nothing typed or done in the studio is lost: through restarts, two windows, and uploads cut off."""

import json
import re
import shutil
import socket

import pytest
from browsing import project_of, without_retries
from PIL import Image

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.slow

TOKEN, OTHER = "a-token-that-was-chosen", "another-that-was-chosen"


@pytest.fixture
def port() -> int:
    """A port that a studio can be started on again and again."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def start(serve_studio, library, tmp_path, port):
    """Start a studio on the port, as the same one was started before."""

    def started(token: str = TOKEN, **how):
        return serve_studio(library, tmp_path / "projects", port=port, token=token, **how)

    return started


def state(page, step: int) -> str:
    return project_of(page)["steps"][step]["state"]


def saved(page) -> None:
    page.wait_for_selector("#saving[data-state=saved]")


def forgive(visit, *signs: str) -> None:
    """Requests that the test lets fail are reported by the browser itself, and nothing else is.

    A studio that ends answers 503 to what it has not answered yet.
    """
    visit.wrong[:] = [line for line in visit.wrong if not any(sign in line for sign in signs)]


def test_edits_outlive_restarts_new_tokens_and_errors_of_the_server(start, storyboard, visit, port):
    at = f"http://127.0.0.1:{port}"
    with start():
        page = storyboard(at=at)
        page.on("dialog", lambda dialog: dialog.accept())
        without_retries(page)
    page.keyboard.press("l")
    page.locator("#saving", has_text="Not saved").wait_for()
    with start():  # the same token: the browser is known
        page.locator("#saving").get_by_role("button", name="Try again").click()
        saved(page)
        assert state(page, 0) == "locked"
        page.route(
            "**/edits", lambda route: route.fulfill(status=507, json={"title": "Full", "detail": "full"})
        )
        page.keyboard.press("ArrowRight")
        page.keyboard.press("l")
        page.locator("#saving", has_text="Not saved").wait_for()
        expect(page.locator(".step").nth(1)).to_have_attribute("data-state", "free")  # not yet as if done
        page.reload()
        page.locator("#saving", has_text="Not saved").wait_for()
        assert state(page, 1) == "free"
        page.unroute("**/edits")
    with start(OTHER):
        page.locator("#saving").get_by_role("button", name="Try again").click()
        page.get_by_role("button", name="Sign in").click()
        page.locator("#sign-in").fill("wrong-wrong-wrong-wrong")
        page.locator("dialog").get_by_role("button", name="Sign in").click()
        page.locator("dialog .problem", has_text="not the token").wait_for()
        page.locator("#sign-in").fill(f"{at}/?token={OTHER}")
        page.locator("dialog").get_by_role("button", name="Sign in").click()
        saved(page)
        assert state(page, 1) == "locked"
        assert page.evaluate("performance.getEntries().filter(e => e.name.includes('token')).length") == 0
        visit.close()
    forgive(visit, "ERR_", "503", "507", "401")


def test_a_text_whose_job_a_restart_has_ended_is_started_again(start, visit, port):
    with start(held=True):
        page = visit("/", at=f"http://127.0.0.1:{port}")
        page.fill("#text", "A kite in the wind.")
        page.click("#go")
        page.locator("#working progress[max]").wait_for()
    with start():
        page.locator("#trouble .problem", has_text="was restarted").wait_for()
        page.get_by_role("button", name="Start again").click()
        page.wait_for_selector(".step .plate")
        page.click(".bar .mark")
        page.wait_for_selector("#projects:not([aria-busy])")
        expect(page.locator("#text")).to_have_value("")
        visit.close()
    forgive(visit, "ERR_", "503", "404")


def test_what_was_typed_is_kept_until_it_is_saved_or_discarded(storyboard):
    page = storyboard("A fox.\n\nA kite.\n\nA boat.")
    field = page.locator("#step-text")

    def begin(words: str) -> None:
        page.locator(".plate").nth(1).focus()
        page.keyboard.press("e")
        field.fill(words)

    begin("A red kite.")
    page.keyboard.press("Escape")
    page.locator(".unfinished", has_text="A red kite.").get_by_role("button", name="Go on").click()
    expect(field).to_have_value("A red kite.")
    page.reload()
    page.locator("#drafts").get_by_role("button", name="step 2").click()
    expect(field).to_have_value("A red kite.")
    field.fill("A blue kite.")
    at = page.url
    page.click(".bar .mark")
    page.wait_for_selector("#projects:not([aria-busy])")
    page.fill("#text", "Not yet a story.")
    page.get_by_role("link", name="Library", exact=True).click()
    page.wait_for_selector("#grid .cell")
    page.get_by_role("link", name="Texts", exact=True).click()
    expect(page.locator("#text")).to_have_value("Not yet a story.")
    page.goto(at)
    page.locator("#drafts").get_by_role("button", name="step 2").click()
    expect(field).to_have_value("A blue kite.")
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator(".words", has_text="A blue kite.").wait_for()
    saved(page)
    expect(page.locator("#drafts")).to_be_empty()
    begin("A green kite.")
    page.get_by_role("button", name="Discard").click()
    expect(page.locator("#drafts")).to_be_empty()

    for leave in (lambda: page.keyboard.press("Escape"), lambda: page.mouse.click(5, 450)):
        page.click("#retext")
        page.fill("#new-text", "A fox.\n\nA bear.")
        leave()
        expect(page.locator("dialog")).to_have_count(0)
        page.click("#retext")
        expect(page.locator("#new-text")).to_have_value("A fox.\n\nA bear.")
        page.keyboard.press("Escape")
    page.click("#retext")
    page.get_by_role("button", name="Discard").click()
    page.click("#retext")
    expect(page.locator("#new-text")).not_to_have_value(re.compile("bear"))


def test_undo_in_a_message_is_withdrawn_once_something_followed(storyboard):
    page = storyboard()
    page.locator(".plate").nth(1).focus()
    page.keyboard.press("Delete")
    undo = page.locator(".toast").get_by_role("button", name="Undo")
    undo.click()
    expect(page.locator(".step")).to_have_count(5)
    page.locator(".plate").nth(1).focus()
    page.keyboard.press("Shift+L")
    undo.wait_for()
    page.keyboard.press("l")
    expect(undo).to_have_count(0)
    expect(page.locator(".toast")).to_contain_text("All other steps are locked.")


def test_two_windows_meet_only_where_they_change_the_same_step(storyboard, visit):
    page = storyboard("A fox.\n\nA kite.\n\nA boat.")
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector("#saving[data-state=saved]")
    other.locator(".plate").nth(0).focus()
    other.keyboard.press("Delete")
    expect(other.locator(".step")).to_have_count(2)
    saved(other)
    page.locator(".plate").nth(2).focus()
    page.keyboard.press("l")  # the third step, which is the second one now
    expect(page.locator(".step")).to_have_count(2)
    page.wait_for_selector(".step[data-step='1'][data-state=locked]")
    saved(page)
    assert state(page, 1) == "locked"

    other.reload()
    other.wait_for_selector("#saving[data-state=saved]")
    page.locator(".plate").nth(0).focus()
    page.keyboard.press("b")
    page.wait_for_selector(".step[data-step='0'][data-state=blank]")
    other.locator(".plate").nth(0).focus()
    other.keyboard.press("e")
    other.locator("#step-text").fill("A red kite.")
    other.keyboard.press("Control+Enter")
    other.get_by_role("button", name="Review").click()
    expect(other.locator("dialog li")).to_contain_text("A red kite.")
    other.get_by_role("button", name="Apply mine").click()
    saved(other)
    project = project_of(other)
    assert project["board"]["story"]["steps"][0]["text"] == "A red kite."
    assert project["steps"][0]["state"] == "blank"
    forgive(visit, "409", "422")


def test_clicks_while_an_edit_is_on_its_way_are_queued_and_seen(storyboard):
    page = storyboard()
    held: list = []

    def hold(route) -> None:
        """Let the first one wait, and those that follow it through."""
        if any(held):
            route.continue_()
        else:
            held.append(route)

    page.route("**/edits", hold)
    page.keyboard.press("l")
    page.locator(".step[data-step='0'][data-waiting]").wait_for()
    offer = page.locator("#offers li:has(.offer:not([aria-current]))").nth(1)
    wanted = offer.get_attribute("data-picture")
    offer.locator(".offer").click()
    page.get_by_role("button", name="Try another picture at step 3").dispatch_event("click")
    expect(page.locator("#saving")).to_contain_text("3 changes")
    held[0].continue_()
    saved(page)
    project = project_of(page)
    assert project["board"]["steps"][0]["chosen"]["picture"]["id"] == wanted
    assert [one["state"] for one in project["steps"]] == ["locked", "free", "locked", "free", "free"]
    expect(page.locator("[data-waiting]")).to_have_count(0)
    before = project["board"]["steps"][2]["chosen"]["picture"]["id"]
    page.locator(".plate").nth(2).focus()
    page.keyboard.press("t")
    page.wait_for_selector("#saving[data-state=saving]", state="detached")
    page.wait_for_function("id => !document.querySelectorAll('.plate')[2].innerHTML.includes(id)", arg=before)


def test_an_upload_that_was_cut_off_says_what_is_missing_and_goes_on(
    serve_studio, library, tmp_path, port, visit
):
    pictures = []
    for number, colour in enumerate(("red", "green", "blue", "white")):
        Image.new("RGB", (40 + number, 30), colour).save(tmp_path / f"{colour}.png")
        pictures.append(tmp_path / f"{colour}.png")
    known = {"port": port, "token": TOKEN}
    own = tmp_path / "library"
    shutil.copytree(library, own)
    sent = []
    with serve_studio(own, tmp_path / "projects", **known):
        page = visit("/library", at=f"http://127.0.0.1:{port}")
        without_retries(page)
        page.route(
            "**/files?*",
            lambda route: (sent.append(1), route.continue_() if len(sent) == 1 else route.abort()),
        )
        page.click("#add-pictures")
        page.locator("input[type=file][multiple]").set_input_files(pictures)
        card = page.locator(".uploads")
        card.get_by_text("3 pictures of 4 missing.").wait_for()
        page.unroute("**/files?*")
    with serve_studio(own, tmp_path / "projects", **known):
        card.get_by_role("button", name="Go on").click()
        card.get_by_text("4 pictures added").wait_for()
        batches = page.request.get(f"http://127.0.0.1:{port}/api/library/batches").json()
        assert [one["files"] for one in batches] == [4]
        assert json.dumps(page.evaluate("Object.keys(localStorage)")) == "[]"
        visit.close()
    forgive(visit, "ERR_", "502", "503")
