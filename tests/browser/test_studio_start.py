"""The start page: a long text followed and cancelled, and the projects there are, kept in order."""

import io
import json
import re

import docx
import pytest
from PIL import Image

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.slow


@pytest.fixture
def start(serve_studio, library, tmp_path, visit):
    """The start page of a studio of the test's own, and a way to put projects into it."""
    with serve_studio(library, tmp_path / "projects") as at:

        def opened(titles=(), **look):
            page = visit("/", at=at, **look)
            for title in titles:
                made = page.request.post(
                    f"{at}/api/projects",
                    data=json.dumps({"title": title, "text": "A kite.", "format": "plain"}),
                    headers={"Content-Type": "application/json", "Origin": at},
                )
                assert made.ok
            page.reload()
            page.wait_for_selector("#projects:not([aria-busy])")
            return page

        yield opened
        visit.close()


def test_all_that_a_text_needs_is_on_the_first_screen(visit):
    page = visit("/")
    for width, height in ((1280, 900), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.fill("#text", "\n\n".join(f"Step {number} of a long recipe." for number in range(60)))
        field, go = page.locator("#text").bounding_box(), page.locator("#go").bounding_box()
        assert go["y"] + go["height"] <= height
        paper = page.locator("#new .sheet").bounding_box()
        assert field["y"] + field["height"] == pytest.approx(paper["y"] + paper["height"], abs=3)


def test_a_long_text_shows_how_far_it_is_and_can_be_cancelled(serve_studio, library, tmp_path, visit):
    with serve_studio(library, tmp_path / "projects", held=True) as at:
        page = visit("/", at=at)
        page.fill("#text", "The fox walked over the hill.\n\nUp went the kite.")
        page.click("#go")
        page.locator("#working progress[max]").wait_for()
        page.locator("#working", has_text=re.compile("Reading the text: .* left")).wait_for()
        expect(page.locator("#go")).to_be_disabled()
        page.reload()  # the work goes on, and the page finds it again
        page.locator("#working progress[max]").wait_for()
        page.get_by_role("button", name="Cancel").click()
        page.locator("#said", has_text="Cancelled").wait_for(state="attached")
        page.locator("#working:empty").wait_for(state="attached")
        page.reload()
        page.locator("#projects", has_text="Nothing yet").wait_for()
        visit.close()


def test_a_text_that_cannot_be_illustrated_says_why(start):
    page = start()
    page.fill("#text", "A kite flew. " * 301)
    page.select_option("#by", "sentence")
    page.click("#go")
    page.locator(
        "#trouble .problem", has_text="The text was not illustrated. The text has 301 steps"
    ).wait_for()
    expect(page.locator("#go")).to_be_enabled()


def test_projects_are_found_named_copied_thrown_away_and_brought_back(start):
    names = [f"Story {number}" for number in range(5)] + ["Kite"]
    page = start(names)
    page.fill("#find", "kITE")
    titles = page.locator(".projects a")
    expect(titles).to_have_text(["Kite"])
    expect(page.locator("#counted")).to_have_text("1 project")
    page.fill("#find", "zeppelin")
    page.locator("#counted", has_text="No results for “zeppelin”").wait_for()
    page.fill("#find", "")
    expect(titles).to_have_count(6)

    page.get_by_role("button", name="Rename Kite").click()
    page.get_by_label("Title", exact=True).fill("A windy day")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="A windy day").wait_for()

    page.get_by_role("button", name="Duplicate A windy day").click()
    page.get_by_role("link", name="A windy day (copy)").wait_for()
    expect(titles).to_have_count(7)

    expect(page.locator("#trash")).to_be_hidden()
    page.get_by_role("button", name="Remove A windy day", exact=True).click()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.locator(".toast", has_text="Removed “A windy day”").wait_for()
    page.get_by_role("link", name="A windy day", exact=True).wait_for(state="detached")
    page.click("#trash")
    page.get_by_role("button", name="Restore A windy day").click()
    page.get_by_role("link", name="A windy day", exact=True).wait_for()
    page.locator("#trash").wait_for(state="hidden")
    page.locator(".toast button", has_text="Open it").click()
    page.wait_for_selector(".step .plate")
    expect(page.locator("#title")).to_have_value("A windy day")


def word_document(*pictures):
    """The bytes of a Word document whose second step shows pictures."""
    document, data = docx.Document(), io.BytesIO()
    document.add_paragraph("The fox stepped out.", style="List Number")
    document.add_paragraph("Up went the kite.", style="List Number")
    for picture in pictures:
        document.add_picture(picture)
    document.save(data)
    return data.getvalue()


def test_a_word_document_is_illustrated_at_once_and_its_pictures_stay(start, collection):
    own = io.BytesIO()
    Image.new("RGB", (90, 60), "teal").save(own, "png")
    page = start()
    data = word_document(str(min((collection / "kite").glob("*.jpg"))), own)
    page.evaluate(
        """async (bytes) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(bytes)], "kite.docx"));
            document.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true }));
        }""",
        list(data),
    )
    page.wait_for_selector("#board:not([aria-busy])")
    expect(page.locator(".step .words")).to_have_count(2)
    plate = page.locator(".plate").nth(1)
    expect(plate.locator("img")).to_have_count(2)
    expect(plate).to_have_attribute("aria-label", re.compile("Step 2, from the text"))
    for place in (0, 1):
        page.wait_for_function(
            "place => document.querySelectorAll('.plate')[1].querySelectorAll('img')[place].naturalWidth > 0",
            arg=place,
        )
    made = page.request.get(f"{page.url.replace('/projects/', '/api/projects/')}").json()
    assert made["board"]["steps"][1]["origin"] == "given"
