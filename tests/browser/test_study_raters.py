"""Five simulated raters in parallel browsers: the report of the study equals a count by hand."""

import asyncio
import hashlib
import json
import random
import re
from collections import Counter, defaultdict
from contextlib import redirect_stdout
from io import StringIO
from math import comb
from pathlib import Path

import pytest
from browsing import chromium_here
from PIL import Image, ImageDraw
from threaded_servers import study_served

from limner.cli.main import run

pytestmark = pytest.mark.slow
CHROMIUM = chromium_here()
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--in-process-gpu"]
RATERS = 5
CARELESS = 4
PAIRS = 6


def limner(*words: object) -> str:
    with redirect_stdout(StringIO()) as printed:
        assert run([str(word) for word in words]) == 0
    return printed.getvalue()


def picture(folder: Path, name: str, number: int) -> str:
    image = Image.new("RGB", (160, 120), (number * 37 % 200 + 40, number * 91 % 200 + 40, 120))
    ImageDraw.Draw(image).text((20, 40), f"{name} {number}", fill="white", font_size=28)
    file = folder / f"{hashlib.sha256(f'{name}{number}'.encode()).hexdigest()[:8]}.png"
    image.save(file)
    return file.name


def pairwise(folder: Path) -> Path:
    """`PAIRS` pairs and one of equal pictures."""
    folder.mkdir()
    lines = []
    for number in range(PAIRS + 1):
        tested = picture(folder, "tested", number)
        control = tested if number == PAIRS else picture(folder, "control", number)
        line = {
            "id": f"t{number}",
            "text": f"Story {number} has a fox in it.",
            "tested": tested,
            "control": control,
        }
        lines.append(json.dumps(line))
    (folder / "items.jsonl").write_text("\n".join(lines))
    limner("study", "create", folder / "study", "--items", folder / "items.jsonl", "--names", "ours,theirs",
           "--size", PAIRS + 1, "--raters", 3, "--checks", 0.1)  # fmt: skip
    return folder / "study"


def tick_all(folder: Path) -> Path:
    """Four sequences of three steps."""
    folder.mkdir()
    lines = [
        json.dumps(
            {
                "id": f"t{number}",
                "text": f"Step {number % 3} of dish {number // 3}: stir.",
                "truth": picture(folder, "truth", number),
                "tested": picture(folder, "tested", number),
                "control": picture(folder, "control", number),
                "sequence": f"dish{number // 3}",
                "position": number % 3,
            }
        )
        for number in range(12)
    ]
    (folder / "items.jsonl").write_text("\n".join(lines))
    limner("study", "create", folder / "study", "--protocol", "tick-all", "--items", folder / "items.jsonl",
           "--names", "gold,ours,theirs", "--size", 4, "--raters", 3, "--checks", 0)  # fmt: skip
    return folder / "study"


def pictures_of(folder: Path) -> dict[str, dict[str, str]]:
    """Item → picture file → letter of its system; known to the test alone."""
    key = json.loads((folder / "key.json").read_text())["items"]
    found = {}
    for line in (folder / "items.jsonl").read_text().splitlines():
        item = json.loads(line)
        systems = key[item["id"]]["systems"]
        found[item["id"]] = {
            one["picture"]: "".join(systems.get(one["id"], ())) for one in item["candidates"]
        }
    return found


class Rater:
    """A person at a browser of their own, who remembers what they answered."""

    def __init__(self, number: int, known: dict) -> None:
        self.number, self.known, self.log = number, known, []
        self.draws = random.Random(number)

    async def open(self, browser, address: str):
        phone = {"width": 360, "height": 740} if self.number == 1 else {"width": 1280, "height": 800}
        context = await browser.new_context(viewport=phone, has_touch=self.number == 1)
        context.set_default_timeout(60_000)
        page = await context.new_page()
        page.on("request", lambda made: self.away(made.url, address))
        await page.goto(address)
        return page

    def away(self, url: str, address: str) -> None:
        assert url.startswith(f"{address}/"), url

    async def rate(self, browser, address: str) -> None:
        page = await self.open(browser, address)
        if page.url.endswith("/rate"):
            raise AssertionError("a new browser is nobody yet")
        await page.get_by_label("I have read this").check()
        await page.get_by_role("button", name="Begin").dblclick()
        await page.wait_for_url("**/rate")
        while not await page.get_by_role("heading", name="Thank you").count():
            if await page.get_by_role("heading", name="Nothing to answer just now").count():
                # the others have the rest before them
                await asyncio.sleep(0.2)
                async with page.expect_navigation():
                    await page.get_by_role("link", name="Check again").click()
                continue
            pair = await page.locator(".choice").count()
            await (self.pair(page) if pair else self.ticks(page))
            if self.number == 2 and len(self.log) == 3:
                page = await self.another_browser(browser, page)
        await page.context.close()

    async def another_browser(self, browser, page):
        """Close everything in the middle, and come back by the link."""
        await page.get_by_role("link", name="Pause").click()
        link = await page.get_by_label("Your personal link").input_value()
        await page.context.close()
        context = await browser.new_context()
        context.set_default_timeout(60_000)
        page = await context.new_page()
        await page.goto(link)
        assert page.url.endswith("/rate")
        return page

    async def send(self, page) -> None:
        """Press the button twice, as people do."""
        before = await page.locator("input[name=unit]").get_attribute("value")
        await page.get_by_role("button", name="Next page").dblclick(no_wait_after=True)
        await page.locator(f"input[name=unit][value='{before}']").wait_for(state="detached")
        await page.wait_for_load_state()

    async def shown(self, scope) -> list[str]:
        return [
            (await one.get_attribute("src")).rpartition("/")[2]
            for one in await scope.locator(".plate img").all()
        ]

    async def pair(self, page) -> None:
        unit = await page.locator("input[name=unit]").get_attribute("value")
        words = await page.locator("mark").inner_text()
        letters = [self.known[unit][name] for name in await self.shown(page)]
        due = re.search("answer “(.+)”", words)
        if due and self.number != CARELESS:
            await page.get_by_label(due[1]).check()
        elif due or self.number == CARELESS:
            await page.keyboard.press("1")
        else:
            answer = self.draws.choices(
                [*letters, "same", "neither"], [6 if x == "A" else 3 for x in letters] + [1, 1]
            )
            key = [*letters, "same", "neither"].index(answer[0])
            if self.number % 2:
                await page.locator(".choice input").nth(key).check()
            else:
                await page.keyboard.press(str(key + 1))
        chosen = await page.locator(".choice input:checked").get_attribute("value")
        meaning = letters[int(chosen) - 1] if chosen in "12" else chosen
        self.log.append((unit, "check" if due else meaning, bool(due and chosen != self.right(due[1]))))
        await self.send(page)

    @staticmethod
    def right(words: str) -> str:
        return "neither" if "Neither" in words else "same"

    async def ticks(self, page) -> None:
        for step in await page.locator("fieldset").all():
            names = await self.shown(step)
            item = next(item for item, files in self.known.items() if set(files) == set(names))
            letters = [self.known[item][name] for name in names]
            ticked = [x for x in "ABC" if self.draws.random() < {"A": 0.95, "B": 0.6, "C": 0.2}[x]]
            for letter in ticked:
                await step.locator("input").nth(letters.index(letter)).check()
            if not ticked:
                await step.get_by_label("None of these fits").check()
            self.log.append((item, "".join(ticked), False))
        await self.send(page)


def rate_together(address: str, known: dict) -> list[Rater]:
    """All raters at once, each in a browser context of their own."""
    raters = [Rater(number, known) for number in range(RATERS)]

    async def everybody() -> None:
        from playwright.async_api import async_playwright

        async with async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=CHROMIUM, args=ARGS)
            await asyncio.gather(*(rater.rate(browser, address) for rater in raters))
            await browser.close()

    asyncio.run(everybody())
    return raters


@pytest.fixture(autouse=True)
def _chromium() -> None:
    pytest.importorskip("playwright.async_api")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")


def majorities(logs: list[tuple[str, str]]) -> tuple[Counter, dict]:
    """By hand: outcome of every item that has two votes, and how many votes it got."""
    votes = defaultdict(list)
    for item, answer in logs:
        votes[item].append(answer)
    outcomes, patterns = Counter(), defaultdict(Counter)
    for answers in votes.values():
        if len(answers) < 2:
            continue
        best = max(answers, key=answers.count)
        most = answers.count(best)
        won = 2 * most > len(answers)
        outcomes[best if won else "no majority"] += 1
        patterns[(best or "nothing") if won else "no majority"][most] += 1
    return outcomes, patterns


def sign_test(better: int, worse: int) -> float:
    total = better + worse
    tail = sum(comb(total, k) for k in range(max(better, worse), total + 1)) / 2**total
    return min(1.0, 2 * tail)


def test_pairwise_report_equals_a_count_by_hand(tmp_path):
    folder = pairwise(tmp_path / "made")
    with study_served(folder) as address:
        raters = rate_together(address, pictures_of(folder))
    report = json.loads(limner("study", "report", folder, "--format", "json", "--resamples", 200))
    rated = [(item, answer) for rater in raters for item, answer, _ in rater.log if answer != "check"]
    assert len(rated) == PAIRS * 3, "every pair has its three votes, and none has more"
    assert len({(r.number, item) for r in raters for item, _, _ in r.log}) == sum(len(r.log) for r in raters)
    failed = [rater.number for rater in raters if any(wrong for _, _, wrong in rater.log)]
    assert failed in ([], [CARELESS])
    assert len(report["checks"]["failed"]) == len(failed)

    for view, dropped in zip(report["views"], ([], failed), strict=False):
        counted = [
            (item, answer)
            for rater in raters
            if rater.number not in dropped
            for item, answer, _ in rater.log
            if answer != "check"
        ]
        outcomes, _ = majorities(counted)
        (found,) = view["strata"]
        due = {
            "better": outcomes["A"],
            "worse": outcomes["B"],
            "same": outcomes["same"] + 1,  # the pair of equal pictures, which nobody was shown
            "neither": outcomes["neither"],
            "no majority": outcomes["no majority"],
        }
        assert {name: found["outcomes"].get(name, 0) for name in due} == due
        assert view["votes"] == len(counted)
        if found["sign"] is not None:
            assert found["sign"]["p_value"] == pytest.approx(sign_test(outcomes["A"], outcomes["B"]))


@pytest.mark.soak
def test_tick_all_report_equals_a_count_by_hand(tmp_path):
    folder = tick_all(tmp_path / "made")
    with study_served(folder) as address:
        raters = rate_together(address, pictures_of(folder))
    report = json.loads(limner("study", "report", folder, "--format", "json", "--resamples", 200))
    rated = [(item, answer) for rater in raters for item, answer, _ in rater.log]
    assert len(rated) == 12 * 3
    _, patterns = majorities(rated)
    found = {
        name: {int(votes): steps for votes, steps in counts.items() if steps}
        for name, counts in report["views"][0]["patterns"].items()
    }
    assert {name: counts for name, counts in found.items() if counts} == {
        n: dict(c) for n, c in patterns.items()
    }
