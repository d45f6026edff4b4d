"""The library page in a real browser: pictures, skipped files, duplicates, folders added, long lists."""

import io
import json
import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

pytestmark = pytest.mark.slow
MANY = 100_000


def test_pictures_skipped_and_duplicates(visit, studio: str) -> None:
    page = visit("/library")
    page.wait_for_selector("#grid .cell")
    library = page.request.get(f"{studio}/api/library").json()
    page.locator("h1", has_text="picture book").wait_for()
    assert f"{library['pictures']} pictures" in page.inner_text("#facts")
    page.fill("#filter", "kite")
    found = page.request.get(f"{studio}/api/library/pictures?q=kite").json()
    page.get_by_text(f"{found['total']} pictures", exact=True).wait_for()
    page.locator("#grid .cell").first.click()
    assert "kite" in page.get_by_role("dialog").inner_text()
    assert page.evaluate("document.querySelector('dialog img').complete || true")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert page.evaluate("document.activeElement.className") == "cell"
    page.fill("#filter", "no such words")
    page.locator("#shown", has_text="No picture holds").wait_for()

    page.get_by_role("tab", name="Skipped").click()
    assert re.search(r"broken\.jpg", page.inner_text("#skipped"))
    assert library["left_out"][0]["reason"] in page.inner_text("#skipped")
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Duplicates").get_attribute("aria-selected") == "true"
    page.wait_for_selector(".group")
    assert page.locator(".group").count() == library["duplicate_groups"] >= 2
    assert "in 2 files" in page.inner_text("#duplicates")
    page.reload()
    page.wait_for_selector(".group")
    assert page.locator("#duplicates").is_visible()
    page.get_by_role("tab", name="Pictures").click()
    page.wait_for_selector("#grid .cell")


def test_add_a_folder_and_stop_another(
    browser, visit, serve_studio, collection: Path, tmp_path: Path
) -> None:
    from contextlib import redirect_stdout

    from limner.cli.index import index

    few, more, many = tmp_path / "few", tmp_path / "more", tmp_path / "many"
    for folder, names in ((few, (1, 2, 3)), (more, (4, 5))):
        folder.mkdir()
        for number in names:
            shutil.copy(collection / "shore" / f"IMG_{number:04}.jpg", folder)
        shutil.copy(collection / "shore" / "metadata.jsonl", folder)
    many.mkdir()
    for number in range(800):
        Image.effect_noise((96, 72), 40 + number % 50).save(many / f"{number}.png")
    with redirect_stdout(io.StringIO()):
        index(few, library=tmp_path / "library", encoder=("colour",))
    with serve_studio(tmp_path / "library", tmp_path / "projects") as address:
        page = visit("/library", at=address)
        page.locator("#facts", has_text="3 pictures").wait_for()
        page.click("#add")
        page.fill("#path", str(tmp_path / "nowhere"))
        page.get_by_role("button", name="Read it").click()
        assert "nowhere" in page.locator("dialog .problem").inner_text()
        page.fill("#path", str(more))
        page.get_by_role("button", name="Read it").click()
        page.locator("#job", has_text=f"Read {more}").wait_for()
        page.locator("#facts", has_text="5 pictures").wait_for()
        page.wait_for_selector("#grid [aria-setsize='5']", state="attached")

        page.click("#add")
        page.fill("#path", str(many))
        page.get_by_role("button", name="Read it").click()
        page.locator("#job progress[max='800']").wait_for()
        page.reload()  # The job goes on, and the page finds it again.
        page.get_by_role("button", name="Stop").click()
        page.locator("#job", has_text="Stopped reading").wait_for()
        page.goto("about:blank")
        # The browser reports the answer 4xx to the folder that is not there, as it should.
        visit.wrong[:] = [
            line for line in visit.wrong if "the server responded with a status of 4" not in line
        ]


def test_a_wall_of_a_hundred_thousand(visit) -> None:
    page = visit("/")
    asked: list[str] = []

    def listed(route) -> None:
        asked.append(route.request.url)
        offset, limit = (int(re.search(rf"{key}=(\d+)", route.request.url)[1]) for key in ("offset", "limit"))
        items = [
            {
                "id": f"{number:064x}",
                "name": f"IMG_{number}.jpg",
                "width": 400,
                "height": 300,
                "captions": [f"picture {number}"],
                "credit": "",
                "license": "",
                "group": "",
                "paths": 1,
            }
            for number in range(offset, min(offset + limit, MANY))
        ]
        route.fulfill(body=json.dumps({"total": MANY, "items": items}), content_type="application/json")

    small = io.BytesIO()
    Image.new("RGB", (8, 6), "teal").save(small, "PNG")
    page.route("**/api/library/pictures?*", listed)
    page.route("**/thumbnail?*", lambda route: route.fulfill(body=small.getvalue(), content_type="image/png"))
    page.goto(f"{page.url}library")
    page.wait_for_selector("#grid .cell")
    assert page.locator("#grid .cell").count() < 120
    page.locator("#grid .cell").first.focus()
    page.keyboard.press("End")
    page.wait_for_selector(f"[aria-posinset='{MANY}'] .cell:focus")
    assert page.locator(f"[aria-posinset='{MANY}'] .cell").get_attribute("title") == f"picture {MANY - 1}"
    assert page.locator("#grid .cell").count() < 160
    page.keyboard.press("Home")
    page.wait_for_selector("[aria-posinset='1'] .cell:focus")
    page.keyboard.press("ArrowDown")
    row = int(page.evaluate("document.activeElement.parentElement.getAttribute('aria-posinset')")) - 1
    assert row > 1
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight / 2)")
    page.locator("#grid [aria-posinset='50001']").wait_for(state="attached")
    places = page.evaluate(
        "[...document.querySelectorAll('#grid > div')].map(one => Number(one.ariaPosInSet))"
    )
    assert places == sorted(places)
    assert len(places) < 200
    assert len(asked) < 12  # Only the pages that were looked at.
