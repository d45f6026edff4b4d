"""Many who come at once: half-open connections, one person who would be many raters, clocks that are set."""

import socket
import time
from contextlib import ExitStack
from urllib.error import HTTPError

import pytest
from made_up_studies import pair, raters_of, step, study_of, votes_of
from study_visitors import Browser, begin, fields, form_of, rate, served, serving

from limner.cli.main import run
from limner.research.study import votes as votes_module
from limner.research.study.analysis import analyse, least_seconds
from limner.research.study.assignment import AssignmentPlan, units
from limner.research.study.records import read_study
from limner.research.study.recruitment import APART_S, CROWD, Newcomers, crowd_of, new_secret
from limner.research.study.report import report_text, standing_lines
from limner.research.study.votes import VoteBase, stored_votes

FEW_FILES = "ulimit -n 256"
"""As on a Mac, where a program may have 256 files and sockets open."""


HALF_OPEN = (
    b"",
    b"GET / HTTP/1.1\r\nX-Never: ",
    b"POST /begin HTTP/1.1\r\nHost: %b\r\nContent-Length: 99\r\n\r\nrater=",
)


@pytest.mark.slow
def test_400_half_open_connections_do_not_silence_it(tmp_path, pairwise_study):
    folder = pairwise_study(tmp_path / "s", 2, checks=0)
    with serving(folder, "--port", "0", first=FEW_FILES) as (_, address):
        host, port = address.removeprefix("http://").split(":")
        for sent in HALF_OPEN:
            with ExitStack() as sockets:
                for _ in range(400):
                    one = sockets.enter_context(socket.create_connection((host, int(port)), timeout=20))
                    one.sendall(sent.replace(b"%b", f"{host}:{port}".encode()))
                browser = Browser(address)
                assert browser.unit(browser.begin()), sent


@pytest.mark.slow
def test_one_client_does_not_become_a_hundred_raters(tmp_path, pairwise_study):
    folder = pairwise_study(tmp_path / "s", 2, checks=0)
    with serving(folder, "--port", "0", "--new-raters", "5") as (_, address):
        begun, got, refused = time.monotonic(), 0, None
        for _ in range(30):
            try:
                got += bool(Browser(address).begin())
            except HTTPError as error:
                refused = (error.code, int(error.headers["retry-after"]), error.read().decode())
        allowed = 5 + (time.monotonic() - begun) * 5 / 60 + 1
    assert 5 <= got <= allowed
    code, wait_s, page = refused
    assert code == 429
    assert 1 <= wait_s <= 12
    assert f"again in {wait_s} second" in page
    assert " checked" in page


@pytest.mark.slow
def test_a_class_behind_one_address_gets_in_at_once_and_is_told_in_the_report(
    tmp_path, pairwise_study, capsys
):
    folder = pairwise_study(tmp_path / "s", 40, checks=0)
    still = Newcomers(clock=lambda: 100.0)  # however long thirty of them take
    with served(folder, newcomers=still) as (client, desk, files):
        visitors = [begin(client()) for _ in range(30)]
        assert raters_of(desk.votes) == 30
        late = client()
        form = {**fields(late.get("/").text), "consent": "yes"}
        assert late.post("/begin", data=form).status_code == 429
        assert visitors[0].get("/rate").status_code == 200, "who has begun is never kept waiting"
        crowds = desk.votes.crowds()
        assert (len(crowds), len(set(crowds.values()))) == (30, 1), "the first ones as well"
        assert all(rate(one) for one in visitors[:3])
        gone = desk.votes.votes()[0].rater
        desk.votes.withdraw(gone, "rater")
        assert gone not in desk.votes.crowds()
        (line,) = [
            one
            for one in standing_lines(analyse(files, desk.votes.votes(), crowds=crowds))
            if "began one after another" in one
        ]
        assert "2 raters with 2 votes began one after another from one network address (1 crowd of 2" in line
        assert "most of the votes on 2 of 40 items" in line
    assert run(["study", "report", str(folder), "--resamples", "100"]) == 0
    assert line.replace("_", "\\_") in capsys.readouterr().out


def test_newcomers_of_an_address_by_the_minute():
    now = [100.0]
    found = Newcomers(6, clock=lambda: now[0])
    assert [found.wait_s("192.0.2.1") for _ in range(8)] == [0.0] * 6 + [10.0] * 2
    assert found.wait_s("192.0.2.2") == 0, "another address"
    now[0] += 4
    assert found.wait_s("::ffff:192.0.2.1") == pytest.approx(6), "the same, written in IPv6"
    now[0] += 6.5
    assert found.wait_s("192.0.2.1") == 0
    assert found.wait_s("192.0.2.1") > 0
    for number in range(6):
        assert found.wait_s(f"2001:db8::{number}") == 0
    assert found.wait_s("2001:db8:0:0:ffff::1") > 0, "half an address of IPv6 is one customer"
    assert found.wait_s("2001:db8:0:1::1") == 0
    assert [Newcomers(0).wait_s("x") for _ in range(100)] == [0.0] * 100


def test_a_crowd_comes_one_after_another():
    now = [100.0]
    found = Newcomers(0, clock=lambda: now[0])

    def come(address, names, gap):
        marked = []
        for name in names:
            now[0] += gap
            marked.append(found.began(address, name))
        return marked

    names = [f"r{n}" for n in range(CROWD + 2)]
    marked = come("192.0.2.1", names, APART_S - 1)
    assert marked[: CROWD - 1] == [None] * (CROWD - 1)
    words = {word for word, _ in marked[CROWD - 1 :]}
    assert [who for _, who in marked[CROWD - 1 :]] == [names[:CROWD], [names[CROWD]], [names[CROWD + 1]]]
    assert len(words) == 1
    assert come("192.0.2.2", names, APART_S + 1) == [None] * len(names), "they did not come together"


@pytest.mark.parametrize(("raters", "crowd"), [(1, 2), (3, 2), (5, 3), (40, 10)])
def test_a_crowd_is_as_many_as_could_decide_a_page(raters, crowd):
    assert crowd_of(raters) == crowd
    assert Newcomers(crowd=crowd).began("192.0.2.1", "first") is None


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--proxy", "127.0.0.1")], ids=["no proxy", "proxy"])
def test_one_person_of_three_cookies_is_flagged_and_forged_addresses_do_not_hide_it(
    tmp_path, pairwise_study, options
):
    folder = pairwise_study(tmp_path / "s", 3, raters=3, checks=0)
    with serving(folder, "--port", "0", *options) as (_, address):
        for number in range(3):
            browser = Browser(address)
            browser.opener.addheaders = [("X-Forwarded-For", f"192.0.2.{number}")]
            page = browser.begin()
            while unit := browser.unit(page):
                page = browser.ask("/rate", {"unit": unit, browser.field(page): "1"})
    with stored_votes(folder) as base:
        votes, crowds = base.votes(), base.crowds()
    assert len(votes) == 9
    found = analyse(read_study(folder), votes, crowds=crowds).flags
    if options:  # the proxy says whence they come
        assert found.crowds == 0
    else:
        assert (found.crowds, len(found.crowded), found.crowd_votes, found.crowd_items) == (1, 3, 9, 3)


def test_answers_faster_than_anybody_reads_are_flagged_by_the_page_and_count():
    steps = [step(1), step(2)]  # one page of six pictures
    files = study_of([*steps, step(3, sequence="s2")], "tick-all", raters=1)
    least = least_seconds([item for item, _ in steps])
    assert least == pytest.approx(6 * 0.25 + 2 * len("step 1") / 50)

    def cast(*seconds):
        votes = votes_of({"i1": [("a",)], "i2": [("a",)], "i3": [("a",)]})
        return [one.model_copy(update={"seconds": s}) for one, s in zip(votes, seconds, strict=True)]

    assert analyse(files, cast(least, least, least / 2 + 0.01)).flags.hurried == 0
    report = analyse(files, cast(least - 0.01, least - 0.01, 0.2))
    assert (report.flags.hurried, report.flags.hurried_by) == (3, ("r0",))
    assert report.flags.hurried_s == pytest.approx(least - 0.01)
    assert report.votes == 3
    assert "FLAG: 3 votes of 1 rater came faster" in report_text(files, report)


@pytest.fixture
def clocks(monkeypatch):
    """The machine's clock, which people set, and the seconds that pass."""
    now = {"wall": 1_700_000_000.0, "passed": 50.0}
    monkeypatch.setattr(votes_module.time, "time", lambda: now["wall"])
    monkeypatch.setattr(votes_module.time, "clock_gettime", lambda kind: now["passed"])
    return now


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("jump", [-86_400, -3600, 86_400])
def test_a_clock_that_is_set_keeps_nobody_waiting(tmp_path, pairwise_study, clocks, jump, restarted):
    folder = pairwise_study(tmp_path / "s", 1, raters=1, checks=0)
    files = read_study(folder)
    plan = AssignmentPlan(files.study.sha256, units(files.items, ()), 1)
    base = VoteBase(folder, files.study)
    first, second = (base.join(new_secret()) for _ in range(2))
    unit = base.turn(first, plan, hold_s=60).unit
    clocks["passed"] += 5
    clocks["wall"] += 5 + jump
    if restarted:
        base.close()
        base = VoteBase(folder, files.study)
    else:
        assert base.turn(second, plan, hold_s=60).waiting, "five seconds are no minute"
        clocks["passed"] += 56
        clocks["wall"] += 56
    assert base.turn(second, plan, hold_s=60).unit == unit
    clocks["passed"] += 7
    clocks["wall"] += jump
    shown = plan.shown_order(second, unit.items[0])
    assert base.vote(second, unit, [(unit.items[0].id, "first", shown)]) == "stored"
    (vote,) = base.votes()
    assert vote.seconds == pytest.approx(7)
    assert vote.time.timestamp() == clocks["wall"]
    base.close()


def test_who_answers_while_the_server_starts_anew_with_an_earlier_clock(tmp_path, pairwise_study, clocks):
    """The time that an answer took is not known then: 0 is stored, and the report says so."""
    folder = pairwise_study(tmp_path / "s", 1, raters=1, checks=0)
    with served(folder) as (client, _, files):
        rater = begin(client())
        page = rater.get("/rate").text
        cookies = dict(rater.cookies)
    clocks["wall"] -= 30
    with served(folder) as (client, desk, _):
        again = client()
        again.cookies.update(cookies)
        assert again.post("/rate", data=form_of(page, "1")).status_code == 303
        (vote,) = desk.votes.votes()
    assert vote.seconds == 0
    assert any("1 vote of 1 rater took 0 seconds" in line for line in standing_lines(analyse(files, [vote])))


def test_votes_without_time_are_flagged_and_others_are_not():
    files = study_of([pair(1), pair(2)])
    votes = votes_of({"i1": ["first"] * 3, "i2": ["second"] * 3})
    assert "FLAG" not in report_text(files, analyse(files, votes))
    odd = [vote.model_copy(update={"seconds": 0.0}) if vote.rater == "r1" else vote for vote in votes]
    report = analyse(files, odd)
    assert (report.flags.untimed, report.flags.untimed_by, report.flags.crowds) == (2, ("r1",), 0)
    assert "FLAG: 2 votes of 1 rater took 0 seconds" in report_text(files, report)
    assert report.votes == 6, "they count"
