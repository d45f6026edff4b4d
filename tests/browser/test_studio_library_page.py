"""The library page in a real browser: pictures, skipped files, duplicates, folders added, long lists."""

import io
import json
import re
import shutil
from pathlib import Path

import pytest
from browsing import answered, arrived, from_menu
from PIL import Image

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.slow
MANY = 100_000


def test_pictures_skipped_and_duplicates(visit, studio: str) -> None:
    page = visit("/library")
    page.wait_for_selector("#grid .cell")
    library = answered(page, f"{studio}/api/library")
    page.locator("h1", has_text="picture book").wait_for()
    expect(page.locator("#facts")).to_contain_text(f"{library['pictures']} pictures")
    page.fill("#filter", "kite")
    found = answered(page, f"{studio}/api/library/pictures?q=kite")
    page.locator("#shown", has_text=f"{found['total']} of {library['pictures']} pictures").wait_for()
    page.locator("#grid .cell").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("kite")
    page.locator("dialog img").evaluate("image => image.decode()")  # it can be shown
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#grid .cell").first).to_be_focused()
    page.fill("#filter", "no such words")
    page.locator("#shown", has_text="No results for").wait_for()

    page.get_by_role("tab", name="Skipped").click()
    expect(page.locator("#skipped")).to_contain_text("broken.jpg")
    expect(page.locator("#skipped")).to_contain_text(library["left_out"][0]["reason"])
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Duplicates")).to_have_attribute("aria-selected", "true")
    assert library["duplicate_groups"] >= 2
    expect(page.locator(".group")).to_have_count(library["duplicate_groups"])
    expect(page.locator("#duplicates")).to_contain_text("in 2 files")
    page.reload()
    page.wait_for_selector(".group")
    expect(page.locator("#duplicates")).to_be_visible()
    page.get_by_role("tab", name="Pictures").click()
    page.wait_for_selector("#grid .cell")


def test_add_a_folder_and_stop_another(
    browser, visit, serve_studio, collection: Path, tmp_path: Path
) -> None:
    from contextlib import redirect_stdout

    from limner.cli.index import index

    few, more, many = tmp_path / "few", tmp_path / "more", tmp_path / "many"
    drawings = sorted((collection / "shore").glob("*.jpg"))
    for folder, files in ((few, drawings[:3]), (more, drawings[3:5])):
        folder.mkdir()
        for file in files:
            shutil.copy(file, folder)
        shutil.copy(collection / "shore" / "metadata.jsonl", folder)
    many.mkdir()
    large = io.BytesIO()  # Quick to write, slow to read: the job is still under way when the page is back.
    Image.linear_gradient("L").resize((3000, 2000)).save(large, "png")
    for number in range(800):
        (many / f"{number}.png").write_bytes(large.getvalue() + number.to_bytes(2, "big"))
    with redirect_stdout(io.StringIO()):
        index(few, library=tmp_path / "library", encoder=("colour",))
    with serve_studio(tmp_path / "library", tmp_path / "projects") as address:
        page = visit("/library", at=address)
        page.locator("#facts", has_text="3 pictures").wait_for()
        page.click("#add")
        expect(page.locator("#path")).not_to_have_value("")  # the folder it begins with
        page.fill("#path", str(tmp_path / "nowhere"))
        page.get_by_role("button", name="Add folder").click()
        expect(page.locator("dialog .problem")).to_contain_text("nowhere")
        page.fill("#path", str(more))
        page.get_by_role("button", name="Add folder").click()
        page.locator("#job", has_text=f"Read {more}").wait_for()
        page.locator("#facts", has_text="5 pictures").wait_for()
        page.wait_for_selector("#grid [aria-setsize='5']", state="attached")

        page.click("#add")
        expect(page.locator("#path")).not_to_have_value("")  # the folder it begins with
        page.fill("#path", str(many))
        page.get_by_role("button", name="Add folder").click()
        page.locator("#job progress[max='800']").wait_for()
        page.reload()  # The job goes on, and the page finds it again.
        page.get_by_role("button", name="Stop").click()
        page.locator("#job", has_text="Stopped indexing").wait_for()
        visit.close()
        # The browser reports the answer 4xx to the folder that is not there, as it should.
        visit.wrong[:] = [
            line for line in visit.wrong if "the server responded with a status of 4" not in line
        ]


def test_pictures_of_an_emptied_folder_are_forgotten_by_a_button(serve_studio, visit, tmp_path: Path) -> None:
    from contextlib import redirect_stdout

    from limner.cli.index import index

    album, drive = tmp_path / "album", tmp_path / "drive"
    for number, folder in enumerate((album, drive, drive)):
        folder.mkdir(exist_ok=True)
        Image.effect_noise((64, 48), 40 + 30 * number).save(folder / f"{number}.png")
    with redirect_stdout(io.StringIO()):
        index(album, drive, library=tmp_path / "library", encoder=("colour",))
    for file in drive.iterdir():
        file.unlink()
    with serve_studio(tmp_path / "library", tmp_path / "projects") as address:
        page = visit("/library", at=address)
        page.locator("#facts", has_text="3 pictures").wait_for()
        page.click("#add")
        expect(page.locator("#path")).not_to_have_value("")  # the folder it begins with
        page.fill("#path", str(drive))
        page.get_by_role("button", name="Add folder").click()
        page.locator("#job", has_text="2 pictures missing. Is the drive connected?").wait_for()
        page.locator("#facts", has_text="3 pictures").wait_for()
        page.get_by_role("button", name="Forget 2 pictures").click()
        page.locator("#facts", has_text="1 picture").wait_for()
        visit.close()
        # The files of the pictures are not there, so that nothing can be shown of them.
        visit.wrong[:] = [line for line in visit.wrong if "status of 422" not in line]


def dated(serve_studio, place: Path):
    """Address of a studio over twelve photographs: two days, two folders, half of them with words."""
    from contextlib import redirect_stdout

    from limner.cli.index import index

    for number in range(12):
        folder = place / "album" / ("beach" if number < 6 else "alps")
        folder.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        exif.get_ifd(0x8769)[0x9003] = f"202{3 + number // 8}:07:14 {8 + number % 8:02}:00:00"
        size = (64, 48) if number % 3 else (48, 64)
        Image.effect_noise(size, 20 + 9 * number).save(folder / f"shot_{number:02}.jpg", exif=exif)
        if number % 2:
            (folder / f"shot_{number:02}.txt").write_text(f"a kite, number {number}")
    with redirect_stdout(io.StringIO()):
        index(place / "album", library=place / "library", encoder=("colour",))
    return serve_studio(place / "library", place / "projects")


@pytest.fixture(scope="module")
def album(tmp_path_factory) -> Path:
    """The folder of `dated_studio`."""
    return tmp_path_factory.mktemp("dated")


@pytest.fixture(scope="module")
def dated_studio(serve_studio, album: Path):
    """A studio for tests that leave it as it was."""
    with dated(serve_studio, album) as address:
        yield address


@pytest.fixture
def own_studio(serve_studio, visit, tmp_path: Path):
    """A studio for a test that changes it."""
    with dated(serve_studio, tmp_path) as address:
        yield address
        visit.close()


def names(page) -> list[str]:
    """Names of the pictures that the wall shows."""
    page.locator("#grid .cell").first.wait_for()
    return [
        answered(page, f"{page.url.partition('/library')[0]}/api/pictures/{one}")["name"]
        for one in page.evaluate(
            "[...document.querySelectorAll('#grid .cell img')].map(one => one.src.match(/[0-9a-f]{64}/)[0])"
        )
    ]


def test_pictures_chosen_by_folder_time_shape_words_and_day(visit, dated_studio: str) -> None:
    page = visit("/library", at=dated_studio)
    page.wait_for_selector("#grid [aria-setsize='12']", state="attached")
    page.get_by_label("Folder", exact=True).select_option(label="\u2003beach (6)")
    page.locator("#shown", has_text="6 of 12 pictures").wait_for()
    assert names(page) == [f"shot_{number:02}.jpg" for number in range(6)]
    page.get_by_label("Captions").select_option(label="Without captions (6)")
    page.locator("#shown", has_text="3 of 12 pictures").wait_for()
    page.get_by_label("Shape").select_option(label="Upright (4)")
    page.locator("#shown", has_text="1 of 12 pictures").wait_for()
    page.reload()  # The address keeps what is chosen.
    page.locator("#shown", has_text="1 of 12 pictures").wait_for()
    page.get_by_role("button", name="Show all").click()
    page.wait_for_selector("#grid [aria-setsize='12']", state="attached")
    page.get_by_label("Taken").select_option("2024")
    page.locator("#shown", has_text="4 of 12 pictures").wait_for()
    page.get_by_label("Use", exact=True).select_option("true")
    page.locator("#shown", has_text="No picture matches all of these").wait_for()
    page.get_by_role("button", name="Show all").click()
    page.wait_for_selector("#grid [aria-setsize='12']", state="attached")

    page.locator(".cell").nth(11).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).not_to_contain_text("July 14, 2023 at 8:00 AM")
    page.keyboard.press("ArrowLeft")
    dialog.get_by_role("heading", name="shot_05.jpg").or_(
        dialog.get_by_role("heading", name="shot_04.jpg")
    ).wait_for()
    page.get_by_role("button", name="More from that day").click()
    page.locator("#shown", has_text="8 of 12 pictures").wait_for()
    assert sorted(names(page)) == [f"shot_{number:02}.jpg" for number in range(8)]
    expect(page.locator("#filters")).to_contain_text("Taken on the same day as shot_0")


def test_pictures_by_time_under_their_months_and_filters_as_chips(visit, dated_studio: str) -> None:
    page = visit("/library", at=dated_studio)
    page.get_by_label("Sort").select_option("newest")
    expect(page.locator(".months h2")).to_have_text(["July 2024 4", "July 2023 8"])
    assert names(page) == [f"shot_{number:02}.jpg" for number in (11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)]
    tops = "all => all.map(one => one.getBoundingClientRect().top)"
    younger, older = page.locator(".months h2").evaluate_all(tops)
    cells = page.locator("#grid .cell").evaluate_all(tops)
    assert younger < min(cells[:4])
    assert max(cells[:4]) < older < min(cells[4:])
    page.get_by_label("Captions").select_option(label="With captions")
    page.get_by_label("Shape").select_option(label="Wide (8)")
    expect(page.locator(".months h2")).to_have_text(["July 2024 1", "July 2023 3"])
    page.reload()
    expect(page.locator(".months h2")).to_have_text(["July 2024 1", "July 2023 3"])
    page.get_by_role("button", name="Remove filter: Wide").click()
    page.locator("#shown", has_text="6 of 12 pictures").wait_for()
    expect(page.get_by_role("button", name="Remove filter: With captions")).to_be_visible()


def test_pictures_are_found_by_meaning(visit, studio: str) -> None:
    page = visit("/library")
    page.fill("#filter", "children fly kites")  # words that no name or caption holds one after the other
    page.get_by_role("button", name="Search by meaning").click()
    asked = {"text": "children fly kites", "limit": 200}
    headers = {"Content-Type": "application/json", "Origin": studio}
    answer = page.request.post(f"{studio}/api/search", data=json.dumps(asked), headers=headers).json()
    page.locator("#shown", has_text=f"The best {len(answer['items'])} of {answer['searched']}").wait_for()
    best = answer["items"][0]["picture"]["id"]
    expect(page.locator("#grid [data-index='0'] img")).to_have_attribute("src", re.compile(best))


def test_several_pictures_are_selected_for_a_storyboard_and_for_keywords(
    storyboard, visit, own_studio: str
) -> None:
    page = storyboard("A kite in the wind.\n\nA kite at sea.", at=own_studio)
    board = page.url
    page.get_by_role("link", name="Library").click()
    page.wait_for_selector("#grid [aria-setsize='12']", state="attached")
    page.get_by_role("button", name="Select", exact=True).click()
    page.locator("#grid .cell").nth(1).click()
    page.locator("#grid .cell").nth(3).click(modifiers=["Shift"])
    page.locator("#selection", has_text="3 pictures selected").wait_for()
    page.get_by_role("button", name="Add keywords").click()
    page.fill("#several-keywords", "summer, wind")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.fill("#filter", "summer")
    page.locator("#shown", has_text="3 of 12 pictures").wait_for()
    page.get_by_role("button", name="Select", exact=True).click()
    page.locator("#grid .cell").nth(0).click()
    expect(page.get_by_role("button", name="Use at step 1")).to_be_enabled()
    page.locator("#grid .cell").nth(2).click()
    expect(page.get_by_role("button", name="Use at step 1")).to_be_disabled()
    chosen = [
        re.search("[0-9a-f]{64}", page.locator("#grid .cell img").nth(at).get_attribute("src"))[0]
        for at in (0, 2)
    ]
    page.get_by_role("button", name="Don’t use in this project").click()
    page.get_by_role("button", name="Back to the storyboard").click()
    page.wait_for_url(board)
    project = answered(page, board.replace("/projects/", "/api/projects/"))
    assert project["bans"] == chosen


def test_words_are_written_in_the_viewer_and_taken_back(visit, dated_studio: str) -> None:
    page = visit("/library", at=dated_studio)
    page.fill("#filter", "shot_00")
    page.locator("#shown", has_text="1 of 12").wait_for()
    page.locator(".cell").click()
    page.get_by_role("button", name="Add a caption").click()
    page.keyboard.type("A zeppelin over the beach")
    page.get_by_label("Keywords, separated").fill("airship, sky")
    page.keyboard.press("ArrowLeft")  # moves in the field, not to another picture
    page.get_by_role("button", name="Save").click()
    page.get_by_role("list", name="Keywords").wait_for()
    expect(page.get_by_role("dialog")).to_contain_text("Stored in the library")
    page.keyboard.press("Escape")
    expect(page.locator(".cell")).to_have_attribute("title", "A zeppelin over the beach")
    with page.expect_response("**/api/library/pictures?*q=airship*"):
        page.fill("#filter", "airship")
    page.locator("#shown", has_text="1 of 12").wait_for()
    page.locator(".cell").click()
    page.get_by_role("button", name="Edit the caption").click()
    page.get_by_role("button", name="Use the file’s own words").click()
    page.get_by_role("button", name="Add a caption").wait_for()


def test_words_kept_just_before_the_next_picture_reach_the_wall(visit, own_studio: str) -> None:
    page, held = visit("/library", at=own_studio), []

    def hold(route) -> None:
        held.append(route)

    page.route(re.compile("/api/pictures/[0-9a-f]{64}$"), hold)
    page.locator(".cell").first.click()
    heading = page.get_by_role("dialog").get_by_role("heading", name="shot_")
    first = heading.inner_text()
    page.get_by_role("button", name="Add a caption").click()
    page.keyboard.type("A zeppelin over the beach")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Edit the caption").wait_for()
    page.keyboard.press("ArrowRight")
    expect(heading).not_to_have_text(first)
    arrived(page, held).continue_()  # The picture is asked for again after its words were kept.
    page.keyboard.press("Escape")
    expect(page.locator(".cell").first).to_have_attribute("title", "A zeppelin over the beach")


def test_pictures_are_brought_and_taken_back(visit, dated_studio: str, album: Path, tmp_path: Path) -> None:
    page = visit("/library", at=dated_studio)
    page.locator("#facts", has_text="12 pictures").wait_for()
    mine = tmp_path / "mine"
    mine.mkdir()
    for number in range(3):
        Image.effect_noise((60, 60), 200 + number).save(mine / f"new_{number}.png")
    shutil.copy(album / "album" / "beach" / "shot_00.jpg", mine / "same.jpg")
    (mine / "page.png").write_text("<html>")
    (mine / "notes.txt").write_text("no picture")
    page.click("#add-pictures")
    with page.expect_file_chooser() as chosen:
        page.get_by_role("button", name="Choose a folder").click()
    chosen.value.set_files(mine)
    card = page.locator(".uploads")
    result = "3 pictures added · 1 picture already in the library · 1 file skipped (not a picture)"
    card.get_by_text(result).wait_for()
    card.get_by_text("1 file not added").click()
    expect(card).to_contain_text("mine/page.png")
    page.locator("#facts", has_text="15 pictures").wait_for()
    mine_option = page.locator("option", has_text="mine (3)")
    mine_option.wait_for(state="attached")
    expect(mine_option).to_have_text(re.compile(r"^\s*Added "))
    page.get_by_label("Folder", exact=True).select_option(mine_option.get_attribute("value"))
    page.locator("#shown", has_text="3 of 15 pictures").wait_for()
    card.get_by_role("button", name="Undo").click()
    card.get_by_text("Upload undone").wait_for()
    page.locator("#facts", has_text="12 pictures").wait_for()
    # The browser reports the answer 4xx to the file that is no picture, as it should.
    visit.wrong[:] = [line for line in visit.wrong if "the server responded with a status of 422" not in line]


def test_pictures_dropped_on_a_storyboard_can_be_searched_at_once(
    visit, storyboard, own_studio: str, tmp_path
) -> None:
    page = storyboard("A kite.\n\nAnother kite.", at=own_studio)
    data = io.BytesIO()
    Image.effect_noise((60, 60), 250).save(data, "PNG")
    page.evaluate(
        """bytes => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], "zeppelin.png", { type: "image/png" }));
          const all = { bubbles: true, cancelable: true, dataTransfer: data };
          for (const kind of ["dragover", "drop"])
            document.querySelector("#steps").dispatchEvent(new DragEvent(kind, all));
        }""",
        list(data.getvalue()),
    )
    page.locator(".uploads", has_text="1 picture added").wait_for()
    page.fill("#search", "zeppelin")
    page.locator("#offers-state", has_text="Best matches for").wait_for()
    page.locator("#offers img[alt='']").first.wait_for()
    expect(page.locator("#offers .offer").first).to_have_attribute("aria-label", "zeppelin")
    day = page.locator("#offers li").nth(1)
    day.hover()
    from_menu(page, day.locator(".tiny"), "More from that day").click()
    page.locator("#offers-state", has_text="Taken on the same day").wait_for()


def test_a_folder_is_found_by_going_from_one_to_the_next(visit, own_studio: str, tmp_path: Path) -> None:
    more = tmp_path / "elsewhere" / "inner"
    more.mkdir(parents=True)
    Image.effect_noise((60, 60), 77).save(more / "one.png")
    page = visit("/library", at=own_studio)
    page.click("#add")
    expect(page.locator("#path")).not_to_have_value("")  # the folder it begins with
    page.fill("#path", str(tmp_path))
    page.keyboard.press("Tab")
    page.get_by_role("button", name="elsewhere").click()
    page.get_by_role("button", name="inner").click()
    page.get_by_text("1 picture here").wait_for()
    page.get_by_role("button", name="Parent folder").click()
    page.get_by_role("button", name="inner").click()
    page.get_by_text("1 picture here").wait_for()
    page.get_by_role("button", name="Add folder").click()
    page.locator("#facts", has_text="13 pictures").wait_for()


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
    last = page.locator(f"[aria-posinset='{MANY}'] .cell")
    expect(last).to_have_attribute("title", f"picture {MANY - 1}")
    assert page.locator("#grid .cell").count() < 160
    page.keyboard.press("Home")
    page.wait_for_selector("[aria-posinset='1'] .cell:focus")
    page.keyboard.press("ArrowDown")
    below = page.locator("[aria-posinset]:not([aria-posinset='1'])", has=page.locator(".cell:focus"))
    assert int(below.get_attribute("aria-posinset")) > 2
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight / 2)")
    page.locator("#grid [aria-posinset='50001']").wait_for(state="attached")
    places = page.evaluate(
        "[...document.querySelectorAll('#grid > div')].map(one => Number(one.ariaPosInSet))"
    )
    assert places == sorted(places)
    assert len(places) < 200
    assert len(asked) < 12  # Only the pages that were looked at.
