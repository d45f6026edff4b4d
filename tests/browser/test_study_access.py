"""The pages of a study for everybody: axe, 360 px, light and dark, keyboard alone, and without scripts."""

import json
import sqlite3
from contextlib import ExitStack, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
from accessibility import broken_in_both_looks
from PIL import Image
from threaded_servers import study_served

from limner.cli.main import run
from limner.research.study.records import Notice
from limner.research.study.recruitment import Ending, Recruitment

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.slow
NOTICE = Notice(contact="Ada <ada@uni.example>", purpose="A thesis.", retention="Until 2030.")
PANEL = Ending(code="C0DE", url="https://panel.example/done?cc=C0DE")
LONG = "Antidisestablishmentarianism" * 4


@pytest.fixture(scope="module")
def studies(tmp_path_factory) -> dict[str, Path]:
    """A small study of each protocol, made by the command."""
    folder = tmp_path_factory.mktemp("studies")
    for number in range(12):
        Image.new("RGB", (300 + 40 * (number % 3), 300), (20 * number, 120, 200)).save(
            folder / f"{number}.png"
        )
    context = tuple(f"Sentence {n} of the story about {LONG if n == 2 else 'a fox'}." for n in range(8))
    pairs = [
        {"id": f"p{n}", "text": context[3], "context": context, "position": 3, "tested": f"{2 * n}.png",
         "control": f"{2 * n + 1}.png"}
        for n in range(4)
    ]  # fmt: skip
    steps = [
        {"id": f"s{n}", "text": f"Step {n}: {LONG}", "sequence": "q", "position": n, "truth": f"{3 * n}.png",
         "tested": f"{3 * n + 1}.png", "control": f"{3 * n + 2}.png"}
        for n in range(3)
    ]  # fmt: skip
    made = {}
    for protocol, lines, names in (("pairwise", pairs, "a,b"), ("tick-all", steps, "t,a,b")):
        file = folder / f"{protocol}.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)))
        made[protocol] = folder / protocol
        words = ["study", "create", made[protocol], "--protocol", protocol, "--items", file, "--names", names]
        words += [
            "--size",
            str(len(lines) if protocol == "pairwise" else 1),
            "--checks",
            "0",
            "--raters",
            "20",
        ]
        with redirect_stdout(StringIO()):
            assert run([str(word) for word in words]) == 0
    return made


def served(folder: Path, votes: Path):
    """Address of a study with a new database."""
    return study_served(folder, votes=votes, notice=NOTICE, recruitment=Recruitment(done=PANEL))


@pytest.fixture(scope="module")
def of_all(studies, tmp_path_factory):
    """Address of the study of a protocol whose raters are those of all tests."""
    with ExitStack() as running:
        place = tmp_path_factory.mktemp("votes")
        yield cache(
            lambda protocol: running.enter_context(served(studies[protocol], place / f"{protocol}.sqlite"))
        )


@pytest.fixture
def votes(tmp_path) -> Path:
    """The database of a study that is served for one test alone."""
    return tmp_path / "votes.sqlite"


@pytest.fixture(params=["pairwise", "tick-all"])
def study(request, studies, of_all):
    """Protocol and address of a study."""
    if "votes" not in request.fixturenames:
        yield request.param, of_all(request.param)
        return
    with served(studies[request.param], request.getfixturevalue("votes")) as address:
        yield request.param, address


@pytest.fixture
def opened(browser, study):
    """A new page of the study; in the end nothing may have gone wrong or left the machine."""
    contexts, wrong = [], []

    def page(**look):
        context = browser.new_context(**look)
        contexts.append(context)
        made = context.new_page()
        made.set_default_timeout(60_000)
        made.on("pageerror", lambda error: wrong.append(str(error)))
        made.on("request", lambda asked: asked.url.startswith(study[1]) or wrong.append(asked.url))
        made.goto(study[1])
        return made

    yield page
    for context in contexts:
        context.close()
    assert wrong == []


def begin(page) -> None:
    page.get_by_label("I have read this").check()
    page.get_by_role("button", name="Begin").click()
    page.wait_for_url("**/rate")


def fits(page, where: str) -> None:
    page.wait_for_load_state("load")  # before its style sheet is there, a page has the browser's colours
    assert broken_in_both_looks(page) == [], where


def follow(page, role: str, name: str) -> None:
    """Press what leads to another page, and wait for that."""
    with page.expect_navigation():
        page.get_by_role(role, name=name).click()


def test_every_page(opened, study):
    page = opened(color_scheme="dark", viewport={"width": 360, "height": 740}, has_touch=True)
    fits(page, "consent")
    begin(page)
    fits(page, "rating")
    page.get_by_role("button", name="Next page").click()
    page.locator(".foot .fault").wait_for()
    fits(page, "incomplete")
    page.locator(".zoom").first.click()
    page.locator("dialog[open] img").wait_for()
    page.locator("dialog[open] img").evaluate("image => image.decode()")
    fits(page, "enlarged")
    page.keyboard.press("Escape")
    follow(page, "link", "Pause")
    fits(page, "pause")
    page.goto(f"{study[1]}/nowhere")
    fits(page, "message")
    page.goto(f"{study[1]}/rate")
    while page.locator("fieldset").count():
        for step in page.locator("fieldset").all():
            step.locator("input").first.check()
        follow(page, "button", "Next page")
    page.get_by_role("heading", name="Thank you").wait_for()
    fits(page, "end")
    follow(page, "link", "withdraw")
    fits(page, "withdraw")
    follow(page, "button", "Withdraw and delete")
    page.get_by_role("heading", name="You have withdrawn").wait_for()
    fits(page, "withdrawn")


def test_by_keyboard_alone(opened, study):
    page = opened()
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/rate")
    pages = 4 if study[0] == "pairwise" else 1
    for _ in range(pages):
        before = page.locator("input[name=unit]").get_attribute("value")
        if study[0] == "pairwise":
            page.keyboard.press("2")
            expect(page.locator("input:checked")).to_have_value("2")
        else:
            page.keyboard.press("3")
            page.keyboard.press("1")
            page.keyboard.press("0")  # takes back the other two
            expect(page.locator("input:checked")).to_have_count(1)
            expect(page.locator("input:checked")).to_have_value("none")
            page.keyboard.press("2")
            for step in (1, 2):
                page.locator("fieldset").nth(step).locator("input").first.focus()
                page.keyboard.press("Space")
            told = [one.get_attribute("value") for one in page.locator("input:checked").all()]
            assert told == ["2", "1", "1"]
            expect(page.locator("#done")).to_have_text("3 of 3 steps answered")
        with page.expect_navigation():  # keys are heard once the next page is loaded
            page.keyboard.press("Enter")
        page.locator(f"input[name=unit][value='{before}']").wait_for(state="detached")
    page.get_by_role("heading", name="Thank you").wait_for()


def test_without_scripts(opened, study):
    page = opened(java_script_enabled=False)
    begin(page)
    page.get_by_role("button", name="Next page").click()
    assert "first" in page.locator(".foot .fault").inner_text() or page.locator(".step .fault").count() == 3
    while page.locator("fieldset").count():
        for step in page.locator("fieldset").all():
            step.locator("input").nth(1).check()
        with page.expect_navigation():  # a page on its way holds no form either
            page.get_by_role("button", name="Next page").click()
    expect(page.get_by_role("heading", name="Thank you")).to_have_count(1)


def test_ticks_outlive_a_reload(opened, study):
    if study[0] == "pairwise":
        pytest.skip("a pair is one click")
    page = opened()
    begin(page)
    page.locator("fieldset").nth(1).locator("input").nth(2).check()
    page.reload()
    expect(page.locator("fieldset").nth(1).locator("input:checked")).to_have_value("3")
    page.locator("fieldset").nth(1).locator("input").nth(2).uncheck()
    page.reload()
    expect(page.locator("input:checked")).to_have_count(0)


def stored(votes: Path) -> list[tuple[str, str]]:
    """Item and answer of all votes, in the order in which they were given."""
    with sqlite3.connect(votes) as base:
        return base.execute("SELECT item, answer FROM limner_votes ORDER BY time").fetchall()


def test_back_never_answers_another_page(opened, study, votes):
    if study[0] == "tick-all":
        pytest.skip("this study has one page")
    page = opened()
    begin(page)

    def unit() -> str:
        return page.locator("input[name=unit]").get_attribute("value")

    def nothing_is_chosen(where: str) -> None:
        expect(page.locator("input:checked"), where).to_have_count(0)

    answered = []
    for place in (1, 3):
        answered.append(unit())
        page.locator(".choice input").nth(place).check()
        with page.expect_navigation():
            page.get_by_role("button", name="Next page").click()
    here = unit()
    for way in (page.go_back, page.go_back, page.go_forward, page.reload):
        way()
        page.wait_for_load_state()
        if page.locator("input[name=unit]").count():
            assert unit() == here
            nothing_is_chosen(way.__name__)
    page.goto(f"{study[1]}/rate")
    page.locator(".choice input").nth(2).check()
    page.get_by_role("link", name="Pause").click()
    page.get_by_role("link", name="Continue now").click()
    page.wait_for_url("**/rate")
    nothing_is_chosen("after a pause")
    # pressing Enter or the button, as one does without looking, is no vote
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Next page").click()
    page.locator(".foot .fault").wait_for()
    assert [item for item, _ in stored(votes)] == answered
    # an answer moved here from another page, as a browser might that restores forms by place
    page.evaluate("""() => {
      for (const input of document.querySelectorAll(".choice input")) {
        input.name = input.name.replace(/-[0-9a-f]{16}-/, "-0123456789abcdef-");
      }
    }""")
    page.locator(".choice input").first.check()
    page.get_by_role("button", name="Next page").click()
    page.get_by_text("was for another page").wait_for()
    fits(page, "refused")
    assert [item for item, _ in stored(votes)] == answered


def answer_all(page) -> None:
    while page.locator("fieldset").count():
        for step in page.locator("fieldset").all():
            step.locator("input").first.check()
        with page.expect_navigation():
            page.get_by_role("button", name="Next page").click()


def test_withdrawing_by_the_link_on_a_page(opened, study, votes):
    page = opened()
    begin(page)
    page.get_by_role("link", name="Withdraw").click()
    page.get_by_role("link", name="go back to the study").click()
    page.wait_for_url("**/rate")
    answer_all(page)
    assert stored(votes)
    page.get_by_role("link", name="withdraw").click()
    page.get_by_role("button", name="Withdraw and delete").click()
    page.get_by_role("heading", name="You have withdrawn").wait_for()
    assert stored(votes) == []
    page.go_back()
    page.go_back()
    page.get_by_role("heading", name="You have withdrawn").wait_for()
    expect(page.get_by_role("button")).to_have_count(0)


def test_the_end_leads_back_by_itself_unless_one_stays(opened, study):
    page = opened()
    page.clock.install()
    begin(page)
    answer_all(page)
    link = page.get_by_role("link", name="Continue")
    expect(link).to_have_attribute("href", PANEL.url)
    expect(page.get_by_label("Your completion code")).to_have_value("C0DE")
    page.get_by_role("button", name="Stay here").click()
    expect(page.get_by_role("button", name="Stay here")).to_have_count(0)
    page.clock.run_for(60_000)
    assert page.url == f"{study[1]}/rate"
    asked = []
    page.reload()
    # the one address outside that this page may lead to, answered here
    page.evaluate("document.querySelector('[data-away]').href = '/pause'")
    page.on("request", lambda made: asked.append(made.url))
    page.clock.run_for(14_000)
    assert not any(url.endswith("/pause") for url in asked)
    page.clock.run_for(2_000)
    page.wait_for_url("**/pause")
