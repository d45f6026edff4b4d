"""The pages of a study for everybody: axe, 360 px, light and dark, keyboard alone, and without scripts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

pytestmark = pytest.mark.slow
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
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
        words += ["--size", str(len(lines) if protocol == "pairwise" else 1), "--checks", "0"]
        subprocess.run([sys.executable, "-m", "limner", *map(str, words)], check=True, capture_output=True)
    return made


@pytest.fixture(params=["pairwise", "tick-all"])
def study(request, studies, tmp_path):
    """Address of a study with a fresh database."""
    command = [sys.executable, "-m", "limner", "study", "serve", str(studies[request.param]), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--votes", str(tmp_path / "votes.sqlite")], stdout=subprocess.PIPE, text=True
    )
    yield request.param, process.stdout.readline().split()[-1].rstrip("/")
    process.terminate()
    process.wait(20)
    process.stdout.close()


@pytest.fixture
def opened(browser, study):
    """A new page of the study; in the end nothing may have gone wrong or left the machine."""
    contexts, wrong = [], []

    def page(**look):
        context = browser.new_context(**look)
        contexts.append(context)
        made = context.new_page()
        made.set_default_timeout(15_000)
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
    from axe_playwright_python.sync_playwright import Axe

    page.wait_for_load_state("load")  # before its style sheet is there, a page has the browser's colours
    found = Axe().run(page, options=RULES)
    assert found.response["violations"] == [], f"{where}: {found.generate_report()}"
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width, where


@pytest.mark.parametrize("look", [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)], ids=str)
def test_every_page(opened, study, look):
    scheme, width = look
    page = opened(color_scheme=scheme, viewport={"width": width, "height": 740}, has_touch=width < 500)
    fits(page, "consent")
    begin(page)
    fits(page, "rating")
    page.get_by_role("button", name="Next page").click()
    page.locator(".foot .fault").wait_for()
    fits(page, "incomplete")
    page.locator(".zoom").first.click()
    page.locator("dialog[open] img").wait_for()
    page.wait_for_function("document.querySelector('dialog img').naturalWidth > 0")
    fits(page, "enlarged")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Pause").click()
    fits(page, "pause")
    page.goto(f"{study[1]}/nowhere")
    fits(page, "message")
    page.goto(f"{study[1]}/rate")
    while page.locator("fieldset").count():
        for step in page.locator("fieldset").all():
            step.locator("input").first.check()
        page.get_by_role("button", name="Next page").click()
        page.wait_for_load_state()
    page.get_by_role("heading", name="Thank you").wait_for()
    fits(page, "end")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 22, 24)"
    assert dark == (scheme == "dark")


def test_by_keyboard_alone(opened, study):
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
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
            assert page.locator("input:checked").get_attribute("value") == "2"
        else:
            page.keyboard.press("3")
            page.keyboard.press("1")
            page.keyboard.press("0")  # takes back the other two
            values = [one.get_attribute("value") for one in page.locator("input:checked").all()]
            assert values == ["none"]
            page.keyboard.press("2")
            for step in (1, 2):
                page.locator("fieldset").nth(step).locator("input").first.focus()
                page.keyboard.press("Space")
            told = [one.get_attribute("value") for one in page.locator("input:checked").all()]
            assert told == ["2", "1", "1"]
            assert page.locator("#done").inner_text() == "3 of 3 steps answered"
        page.keyboard.press("Enter")
        page.wait_for_function("u => document.querySelector('input[name=unit]')?.value !== u", arg=before)
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
    assert page.get_by_role("heading", name="Thank you").count() == 1


def test_ticks_outlive_a_reload(opened, study):
    if study[0] == "pairwise":
        pytest.skip("a pair is one click")
    page = opened()
    begin(page)
    page.locator("fieldset").nth(1).locator("input").nth(2).check()
    page.reload()
    assert page.locator("fieldset").nth(1).locator("input:checked").get_attribute("value") == "3"
    page.locator("fieldset").nth(1).locator("input").nth(2).uncheck()
    page.reload()
    assert page.locator("input:checked").count() == 0
