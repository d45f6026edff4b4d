"""The pages of a study over HTTP: consent first, blind, one vote a page, and a way to come back."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from made_up_studies import raters_of
from study_visitors import begin, fields, form_of, rate, served

from limner.research.study.assignment import AssignmentPlan, units
from limner.research.study.pages import read_answers
from limner.research.study.records import check_votes, read_study
from limner.research.study.recruitment import public_id


def test_nothing_before_consent(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s")) as (client, desk, files):
        visitor = client()
        first = visitor.get("/")
        assert files.study.consent in first.text
        assert files.study.question in first.text
        assert "set-cookie" not in first.headers
        assert visitor.get("/rate").headers["location"] == "/"
        picture = files.items[0].candidates[0].picture
        assert visitor.get(f"/pictures/{picture}").status_code == 401
        assert visitor.post("/rate", data={"unit": "i000", "answer-1": "1"}).status_code == 401
        refused = visitor.post("/begin", data=fields(first.text))
        assert refused.status_code == 422
        assert "tick the box" in refused.text
        assert visitor.post("/begin", data={"rater": "short", "consent": "yes"}).status_code == 400
        assert raters_of(desk.votes) == 0
        form = {**fields(refused.text), "consent": "yes"}
        cookies = [visitor.post("/begin", data=form).headers["set-cookie"] for _ in range(2)]
        assert raters_of(desk.votes) == 1, "a double click makes one rater"
        assert cookies[0] == cookies[1]
        assert {"HttpOnly", "SameSite=lax"} <= set(cookies[0].split("; "))


def test_a_rater_goes_through_and_is_told_how_far(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s", 4, checks=1)) as (client, desk, files):
        assert "at most 5 pages" in client().get("/").text
        rater = begin(client())
        assert "Page 1 <span>of 5</span>" in rater.get("/rate").text
        count = 0
        while rate(rater, "neither"):
            count += 1
        assert count == 5
        done = rater.get("/rate").text
        assert "Thank you" in done
        assert "answered 5 pages" in done
        votes = check_votes(desk.votes.votes(), files.items, "pairwise")
        assert {vote.answer for vote in votes} == {"neither"}
        assert len({vote.item for vote in votes}) == 5
        assert "i005" not in {vote.item for vote in votes}, "the pre-filled pair is not shown"


@pytest.mark.slow
def test_left_and_right_become_first_and_second(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s", 12, checks=0)) as (client, desk, files):
        rater = begin(client())
        items = {item.id: item for item in files.items}
        seen = {}
        for _ in range(12):
            page = rater.get("/rate").text
            seen[fields(page)["unit"]] = re.findall(r'<img src="/pictures/([^"]+)"', page)
            assert rate(rater, "2")
        answers = Counter()
        for vote in desk.votes.votes():
            files_of = {one.id: one.picture for one in items[vote.item].candidates}
            assert [files_of[name] for name in vote.shown_order] == seen[vote.item]
            assert vote.answer == vote.shown_order[1]
            answers[vote.answer] += 1
        assert len(answers) == 2, "both orders occur"


def test_ticks_are_stored_in_canonical_order_and_none_is_an_answer(tmp_path, tick_all_study):
    with served(tick_all_study(tmp_path / "s", 1, steps=3)) as (client, desk, files):
        rater = begin(client())
        page = rater.get("/rate").text
        assert [int(n) for n in re.findall(r'data-step="(\d)"', page)] == [1, 2, 3]
        form = form_of(page, ["3", "1"], ["none"])
        last = form_of(page, "2").keys() - form.keys()
        missing = rater.post("/rate", data=form)
        assert missing.status_code == 422
        assert missing.text.count("Tick the pictures that fit, or “None of these fits”.") == 1
        assert missing.text.count(" checked") == 3
        assert desk.votes.votes() == []
        for wrong in (["none", "1"], ["4"], ["0"], ["p"]):
            assert rater.post("/rate", data={**form, **dict.fromkeys(last, wrong)}).status_code == 422
        assert rater.post("/rate", data={**form, **{name: ["2"] for name in last}}).status_code == 303
        by_item = {vote.item: vote for vote in check_votes(desk.votes.votes(), files.items, "tick-all")}
        first = by_item["s0-0"]
        assert set(first.answer) == {first.shown_order[2], first.shown_order[0]}
        assert by_item["s0-1"].answer == ()
        assert by_item["s0-2"].answer == (by_item["s0-2"].shown_order[1],)


def test_double_clicks_and_other_windows_count_once(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s", 3, checks=0)) as (client, desk, _):
        rater = begin(client())
        page = rater.get("/rate").text
        with ThreadPoolExecutor(8) as pool:
            clicks = [pool.submit(rater.post, "/rate", data=form_of(page, str(1 + n % 2))) for n in range(8)]
        assert {click.result().status_code for click in clicks} == {303}
        assert len(desk.votes.votes()) == 1
        stands = desk.votes.votes()
        changed = rater.post("/rate", data=form_of(page, "neither"))
        assert desk.votes.votes() == stands
        assert "your first answer counts" in rater.get(changed.headers["location"]).text
        given = str(1 + stands[0].shown_order.index(stands[0].answer))
        assert rater.post("/rate", data=form_of(page, given)).headers["location"] == "/rate", "no change"
        # an empty form of a page that is answered leads on
        assert rater.post("/rate", data={"unit": fields(page)["unit"]}).headers["location"] == "/rate"


def test_a_browser_that_keeps_no_cookie_is_told(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s", 3, checks=0)) as (client, _, _):
        rater = client()
        begun = rater.post("/begin", data={**fields(rater.get("/").text), "consent": "yes"})
        rater.cookies.clear()
        answer = rater.get(begun.headers["location"])
        assert answer.status_code == 400
        assert "did not save the cookie" in answer.text


def test_resume_by_link_and_by_cookie(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s", 3, checks=0)) as (client, desk, _):
        rater = begin(client())
        rate(rater)
        here = fields(rater.get("/rate").text)["unit"]
        link = re.search(r'value="http://127.0.0.1:8420(/resume/[\w-]{24})"', rater.get("/pause").text)[1]
        assert rater.get("/").headers["location"] == "/rate"
        elsewhere = client()
        assert elsewhere.get(link).headers["location"] == "/rate?note=begun"
        assert fields(elsewhere.get("/rate").text)["unit"] == here
        assert raters_of(desk.votes) == 1
        for wrong in ("/resume/" + "x" * 24, "/resume/short", "/resume/" + "%2e" * 24):
            assert client().get(wrong).status_code == 404
        # who reads votes cannot come back as a rater
        assert client().get(f"/resume/{desk.votes.votes()[0].rater}").status_code == 404


def test_a_page_given_to_another_is_said(tmp_path, pairwise_study):
    now = [1_700_000_000.0]
    folder = pairwise_study(tmp_path / "s", 1, raters=1, checks=0)
    with served(folder, clock=lambda: now[0], hold_s=60) as (client, desk, _):
        slow, quick = begin(client()), begin(client())
        page = slow.get("/rate").text
        assert "Nothing to answer just now" in quick.get("/rate").text
        now[0] += 61
        assert rate(quick)
        gone = slow.post("/rate", data=form_of(page, "1"))
        assert gone.headers["location"] == "/rate?note=gone"
        assert "Other people have already answered everything" in slow.get("/rate?note=gone").text
        assert len(desk.votes.votes()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["pairwise", "tick_all"])
def test_no_byte_tells_a_system_the_key_or_a_check(request, tmp_path, protocol):
    folder = request.getfixturevalue(f"{protocol}_study")(tmp_path / "s")
    with served(folder) as (client, _, files):
        rater = client()
        sent = []

        def keep(response):
            sent.append(response.content + str(sorted(response.headers.items())).encode())
            return response

        secrets = {name for letters in files.key.systems.values() for name in letters.values()}
        secrets |= {*files.key.systems, *(item.stratum for item in files.items)}
        secrets |= {files.study.hypotheses[0], files.study.sha256, files.study.key_sha256}
        keep(rater.get("/"))
        begin(rater)
        while True:
            page = keep(rater.get("/rate"))
            for name in re.findall(r'src="(/pictures/[^"]+)"', page.text):
                keep(rater.get(name))
            keep(rater.get("/pause"))
            if not rate(rater):
                break
        for path in ("/static/study.css", "/static/study.js", "/nothing", "/pictures/x", "/rate?x"):
            keep(rater.get(path))
        everything = b"\n".join(sent)
        assert len(everything) > 10_000
        assert [name for name in secrets if name.encode() in everything] == []
        for word in (b"first", b"second"):
            assert word not in b"".join(re.findall(rb'(?:value|name|class|id|data-\w+)="[^"]*"', everything))
        for path in ("/key.json", "/study.json", "/items.jsonl", "/votes.sqlite", "/pictures/../key.json"):
            assert rater.get(path).status_code == 404
        assert rater.get("/pictures/%2e%2e%2fkey.json").status_code == 404
        assert rater.get("/static/%2e%2e/%2e%2e/cli.py").status_code == 404


def test_a_check_looks_like_any_other_page(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s", 3, checks=1)) as (client, _, files):
        rater, shapes = begin(client()), set()
        checks = files.key.checks
        seen = set()
        while True:
            page = rater.get("/rate").text
            if "unit" not in fields(page):
                break
            seen.add(fields(page)["unit"])
            form = page[page.index("<fieldset") : page.index("<dialog")]
            shapes.add(re.sub(r"[0-9a-f]{64}|answer-[0-9a-f]{16}", "ONE", form))
            rate(rater)
        assert checks.keys() <= seen
        assert len(shapes) == 1


def test_by_invitation_elsewhere(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s"), invitation="let-me-in") as (client, desk, _):
        for wrong in ("/", "/?token=", "/?token=nonsense", "/?token=let-me-i%C3%A9"):
            refused = client().get(wrong)
            assert refused.status_code == 401
            assert "by invitation" in refused.text
        assert client().post("/begin", data={"rater": "x" * 24, "consent": "yes"}).status_code == 401
        rater = begin(client(), "let-me-in")
        assert rate(rater)
        assert raters_of(desk.votes) == 1


def test_writes_from_other_pages_are_refused(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s")) as (client, desk, _):
        rater = begin(client())
        form = form_of(rater.get("/rate").text, "1")
        for origin in ("https://evil.example", "null", "http://127.0.0.1:9999"):
            assert rater.post("/rate", data=form, headers={"origin": origin}).status_code == 403
        assert rater.get("/rate", headers={"host": "evil.example:8420"}).status_code == 421
        assert rater.get("/rate").headers["referrer-policy"] == "same-origin"
        assert "default-src 'self'" in rater.get("/rate").headers["content-security-policy"]
        assert desk.votes.votes() == []


def test_what_raters_read_is_text_and_never_markup(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s")) as (client, _, _):
        page = begin(client()).get("/rate").text
        assert "<b>fox" not in page
        assert "&lt;b&gt;fox" in page or "fox" not in page
        assert " style=" not in page
        assert "<script>" not in page


def test_errors_are_pages_in_a_browser_and_problems_elsewhere(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s")) as (client, _, _):
        rater = begin(client())
        page = rater.post("/rate", data={"unit": "i999"})
        assert (page.status_code, page.headers["content-type"]) == (400, "text/html; charset=utf-8")
        assert "no such page" in page.text
        told = rater.post("/rate", data={"unit": "i999"}, headers={"accept": "*/*"})
        assert told.headers["content-type"] == "application/problem+json"
        garbage = rater.post("/rate", content=b"unit=\xff", headers={"content-type": "x/y"})
        assert garbage.status_code == 400
        many = rater.post("/rate", content=b"&".join(b"a=%d" % n for n in range(20_000)))
        assert many.status_code == 400


def test_only_places_of_the_page_are_answers(tmp_path, pairwise_study):
    files = read_study(pairwise_study(tmp_path / "s", 1, checks=0))
    plan = AssignmentPlan(files.study.sha256, units(files.items, ()), 3)
    unit = plan.units["i000"]
    rater = public_id("x")
    name = f"answer-{plan.token(rater, unit)}-1"
    for values in ([], ["first"], ["1", "2"], ["3"], ["0"], [""], ["１"]):
        assert read_answers({name: values}, unit, plan, rater, pairs=True) is None
    found = read_answers({name: ["same"]}, unit, plan, rater, pairs=True)
    assert found == [("i000", "same", plan.shown_order(rater, unit.items[0]))]
    assert read_answers({name: ["same"]}, unit, plan, "another", pairs=True) is None


def test_an_answer_of_another_page_or_rater_is_refused(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s", 3, checks=0)) as (client, desk, _):
        rater, other = begin(client()), begin(client())
        first = rater.get("/rate").text
        before = form_of(first, "1")
        assert rate(rater)
        stands = desk.votes.votes()
        here = rater.get("/rate").text
        # what a browser restores on another page, and the form of the page that was left
        mixed = {**before, "unit": fields(here)["unit"]}
        assert rater.post("/rate", data=mixed).headers["location"] == "/rate?note=other"
        assert rater.post("/rate", data={**form_of(here, "2"), **mixed}).status_code == 303
        assert rater.post("/rate", data=before).headers["location"] == "/rate"
        told = rater.get("/rate?note=other").text
        assert "was not saved" in told
        assert fields(told) == fields(here)
        # somebody else in the same browser: their pictures stand in an order of their own
        for _ in range(3):
            page = other.get("/rate").text
            form = {**form_of(page, "1"), "unit": fields(here)["unit"]}
            assert rater.post("/rate", data=form).headers["location"] == "/rate?note=other"
            assert rate(other, "2")
        assert [
            vote for vote in desk.votes.votes() if vote.answer and vote.rater == stands[0].rater
        ] == stands


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, 6])
def test_the_pages_that_are_promised_are_those_that_come(tmp_path, pairwise_study, limit):
    with served(pairwise_study(tmp_path / "s", 20, checks=3), limit=limit) as (client, _, _):
        for _ in range(4):
            visitor = client()
            promised = int(re.search(r"at most (\d+) pages", visitor.get("/").text)[1])
            assert promised > (limit or 20), "attention checks are among them"
            # every visit is a new rater, so the page is read again for the one who begins
            page = visitor.get("/").text
            promised = int(re.search(r"at most (\d+) pages", page)[1])
            visitor.post("/begin", data={**fields(page), "consent": "yes"})
            told = []
            while "unit" in fields(here := visitor.get("/rate").text):
                told.append(re.search(r"Page (\d+) <span>of (\d+)</span>", here).groups())
                visitor.post("/rate", data=form_of(here, "neither"))
            assert told == [(str(n + 1), str(promised)) for n in range(promised)]
            if limit is None:
                break
