"""``limner study serve`` as its own process: killed in the middle, it has every vote it acknowledged."""

import signal
import threading
from http.client import HTTPException
from urllib.error import HTTPError

import pytest
from study_visitors import Browser, serving

from limner.cli.main import run
from limner.research.study.votes import read_stored


@pytest.mark.slow
def test_no_acknowledged_vote_is_lost_when_killed(tmp_path, pairwise_study):
    folder = pairwise_study(tmp_path / "s", 30, checks=0)
    acknowledged, raters = [], []
    enough = threading.Event()

    def rate(browser, name):
        page = browser.begin()
        try:
            while unit := browser.unit(page):
                page = browser.ask("/rate", {"unit": unit, browser.field(page): "1"})
                acknowledged.append((name, unit))
                if len(acknowledged) >= 12:
                    enough.set()
        except (HTTPException, OSError):  # URLError and HTTPError are OSErrors; an answer may also break off.
            return

    with serving(folder, "--port", "0") as (process, address):
        raters = [Browser(address) for _ in range(3)]
        threads = [threading.Thread(target=rate, args=(one, n)) for n, one in enumerate(raters)]
        for thread in threads:
            thread.start()
        assert enough.wait(60)
        process.send_signal(signal.SIGKILL)
        process.wait(20)
        for thread in threads:
            thread.join(30)
    votes = read_stored(folder).votes
    stored = {(vote.rater, vote.item) for vote in votes}
    assert len(stored) == len(votes)
    assert len(votes) >= len(acknowledged)
    # at most the one answer of each rater that was under way when the server died is there beyond those
    assert len(votes) <= len(acknowledged) + len(raters)
    assert {item for _, item in acknowledged} <= {item for _, item in stored}

    port = address.rpartition(":")[2]
    with serving(folder, "--port", port) as (_, again):
        assert again == address
        for browser in raters:  # the same cookies go on where they were, and finish
            page = browser.ask("/rate")
            while unit := browser.unit(page):
                page = browser.ask("/rate", {"unit": unit, browser.field(page): "2"})
            assert "Thank you" in page
    after = read_stored(folder).votes
    assert len(after) == 90
    assert len({(vote.rater, vote.item) for vote in after}) == 90
    assert after[: len(votes)] == votes


@pytest.mark.slow
def test_a_study_whose_files_differ_is_served_with_a_remark(tmp_path, pairwise_study):
    """As those of earlier versions do, in which pictures were copied as they were."""
    folder = pairwise_study(tmp_path / "s", 2)
    with serving(folder, "--port", "0") as (process, _):
        told = [process.stderr.readline() for _ in range(2)]
    assert "2 pages and 1 attention checks" in told[0]
    assert "might tell raters which system" in told[1]


NOTICE = ("--contact", "lab@uni.example", "--purpose", "A thesis.", "--retention", "Until 2030, on our disk.")


@pytest.mark.parametrize("elsewhere", [("--host", "0.0.0.0"), ("--name", "study.example")])  # noqa: S104
def test_nobody_elsewhere_is_asked_without_contact_purpose_and_retention(
    tmp_path, pairwise_study, capsys, elsewhere
):
    folder = pairwise_study(tmp_path / "s", 1, checks=0)
    assert run(["study", "serve", str(folder), "--port", "0", *elsewhere]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "raters on other machines must see contact" in told
    assert "--contact, --purpose and --retention" in told
    assert run(["study", "serve", str(folder), "--port", "0", *elsewhere, *NOTICE[:2]]) == 2
    assert "--purpose and --retention missing" in capsys.readouterr().err


@pytest.mark.slow
def test_elsewhere_only_by_invitation(tmp_path, pairwise_study):
    folder = pairwise_study(tmp_path / "s", 2, checks=0)
    with serving(folder, "--port", "0", "--host", "0.0.0.0", *NOTICE) as (_, told):  # noqa: S104
        address, token = told.split("/?token=")
        browser = Browser(address)
        with pytest.raises(HTTPError, match="401"):
            browser.ask("/")
        page = browser.ask(f"/?token={token}")
        assert "What you agree to" in page
        assert [words for words in NOTICE[1::2] if words not in page] == []
        hidden = {"rater": "x" * 24, "token": token, "consent": "yes"}
        assert browser.unit(browser.ask("/begin", hidden))
        assert browser.unit(browser.ask("/rate")), "whoever has begun needs no token"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--limit", "0"], "--limit 0: expected at least 1"),
        (["--hold-minutes", "0"], "--hold-minutes 0: expected more than 0"),
        (["--screen-out", "-1"], "--screen-out -1: expected 0 or more"),
        (["--completion-url", "http://plain.example"], "expected a URL that begins with https://"),
        (["--completion-url", "javascript:alert(1)"], "expected a URL that begins with https://"),
        (["--screen-out-url", "https://me@evil.example"], "expected a URL that begins with https://"),
        (["--completion-code", "a b"], "done.code"),
        (["--votes", "mysql://x/y"], "expected the path of an SQLite file or a postgresql:// URL"),
        (["--host", "192.0.2.1", *NOTICE], "cannot listen on 192.0.2.1"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path, pairwise_study, capsys, options, told):
    folder = pairwise_study(tmp_path / "s", 1, checks=0)
    assert run(["study", "serve", str(folder), *options]) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert told in line


def test_no_study_and_an_altered_one_are_refused(tmp_path, pairwise_study, capsys):
    assert run(["study", "serve", str(tmp_path)]) == 1
    assert "does not exist; name a folder that 'limner study create' made" in capsys.readouterr().err
    folder = pairwise_study(tmp_path / "s", 1, checks=0)
    (folder / "items.jsonl").write_text((folder / "items.jsonl").read_text().replace("fox", "dog"))
    assert run(["study", "serve", str(folder)]) == 1
    assert "altered after the study was registered" in capsys.readouterr().err
