"""Pages off the web: robots rules, redirects, bounds, and going on after a stop."""

import json
from itertools import pairwise

import pytest
from hostile_server import Handler, hostile_server
from test_recipe_builder import BOUNDS, WORDS, picture

from limner.errors import DataError
from limner.research.datasets import fetch as fetch_module
from limner.research.datasets.recipes.builder import build_recipes
from limner.research.datasets.recipes.web import REFUSED, UNASKED, UNREACHED, Robots, bring


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(fetch_module, "_BACKOFF_S", 0.01)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """The misbehaving server, with pages, pictures and rules of its own."""

    def say_recipe(self, rest):
        body = "".join(
            f"<p>{word.format(rest)}</p><img src='/drawn/{rest}{n}.png'>" for n, word in enumerate(WORDS)
        )
        self.answer(f"<html lang=en><title>{rest}</title>{body}".encode(), kind="text/html; charset=utf-8")

    def say_drawn(self, rest):
        path = tmp_path / "drawn" / rest
        picture(path, sum(rest.encode()) * 31 + len(rest))
        self.answer(path.read_bytes(), kind="image/png")

    def say_rules(self, rest):
        status, text = self.server.rules
        self.answer(text.encode(), status, "text/plain")

    def say_moved(self, rest):
        self.answer(status=302, Location=f"/recipe/{rest}")

    for name, say in (("recipe", say_recipe), ("drawn", say_drawn), ("moved", say_moved)):
        monkeypatch.setattr(Handler, f"say_{name}", say, raising=False)
    monkeypatch.setattr(Handler, "say_robots.txt", say_rules, raising=False)
    with hostile_server() as running:
        running.rules = (404, "")
        yield running


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_urls_become_a_set_and_a_second_run_asks_for_nothing_but_the_rules(server, tmp_path):
    to = tmp_path / "set"
    urls = [server.url(f"recipe/{name}") for name in ("leeks", "plums")] + [server.url("moved/beans")]
    report = build_recipes(urls, to, BOUNDS)
    assert (report.recipes, report.segments) == (3, 9)
    assert {one["url"] for one in lines(to / "stories.jsonl")} == {
        server.url(f"recipe/{name}") for name in ("leeks", "plums", "beans")
    }
    asked = dict(server.asked)
    assert build_recipes(urls, to, BOUNDS) == report
    more = {path: server.asked[path] - asked.get(path, 0) for path in server.asked}
    assert {path for path, number in more.items() if number} == {"/robots.txt"}


@pytest.mark.slow
def test_refused_pages_and_pictures_are_not_asked_for_and_listed(server, tmp_path):
    server.rules = (200, "User-agent: *\nDisallow: /recipe/secret\nDisallow: /drawn/*1.png$\n")
    report = build_recipes(
        [server.url("recipe/leeks"), server.url("recipe/secret"), server.url("moved/secret")],
        tmp_path / "set",
        BOUNDS,
    )
    assert "/recipe/secret" not in server.asked
    assert "/drawn/leeks1.png" not in server.asked
    assert (report.recipes, report.segments) == (1, 2)
    assert report.dropped[f"page: {REFUSED}"] == 2
    assert report.dropped[f"picture not downloaded: {REFUSED}"] == 1


@pytest.mark.parametrize(("status", "refusal"), [(404, ""), (403, ""), (503, UNREACHED), (429, UNREACHED)])
def test_hosts_without_rules_permit_all_and_silent_ones_nothing(server, status, refusal):
    server.rules = (status, "User-agent: *\nDisallow: /")
    robots = Robots(BOUNDS)
    assert robots.refusal(server.url("a")) == UNASKED + server.url("").rstrip("/")
    robots.ask([server.url("a")])
    assert robots.refusal(server.url("a")) == refusal


@pytest.mark.slow
def test_the_pause_that_a_host_asks_for_is_kept(server, tmp_path):
    server.rules = (200, "User-agent: limner\nCrawl-delay: 0.8\n")
    robots = Robots(BOUNDS)
    urls = [server.url(f"recipe/{number}") for number in range(3)]
    found = bring(urls, tmp_path / "pages", BOUNDS, robots, pages=True)
    assert [one.state for one in found.values()] == ["done"] * 3
    starts = server.starts[-3:]
    # noted by the server, which may be late with either; without the pause they lie milliseconds apart
    assert all(later - earlier >= 0.4 for earlier, later in pairwise(starts))


def test_pages_that_are_none_are_listed_with_a_reason(server, tmp_path):
    bad = ("gone/1", "reset/1", "nonsense/1", "ok/1", "loop/1", "declared/1", "away/file")
    bounds = BOUNDS.__class__(**{**vars(BOUNDS), "max_bytes": 100_000})
    with pytest.raises(DataError, match="no recipe left of 8 pages"):
        build_recipes([*map(server.url, bad), "http://[bad"], tmp_path / "set", bounds)
    reasons = {one["page"]: one["reason"] for one in lines(tmp_path / "set" / "pages.jsonl")}
    assert len(reasons) == 8
    assert reasons[server.url("gone/1")] == "HTTP 404"
    assert reasons[server.url("ok/1")] == "content type image/jpeg"
    assert all(reasons.values())
    assert server.poured < 10_000_000
