"""Raters of panels: who comes by an address, once each, and where they go in the end."""

import re

import pytest
from pydantic import ValidationError
from study_visitors import begin, fields, rate, served

from limner.research.study.recruitment import Ending, PanelError, Recruitment

PROLIFIC = Recruitment(panel="prolific", done={"code": "C0DE"}, screen_out=1, screened={"code": "SCREENED"})
COMPLETE = "https://app.prolific.com/submissions/complete?cc="
EVIL = "https://evil.example/"


def address(worker="w1", session="s1", **more):
    return {"PROLIFIC_PID": worker, "STUDY_ID": "st", "SESSION_ID": session, **more}


def come(client, **parameters):
    """A visitor who opens an address of the panel and agrees; None where there is nothing to agree to."""
    page = client.get("/", params=parameters)
    if page.status_code == 200 and "consent" in page.text:
        return client.post("/begin", data={**fields(page.text), "consent": "yes"})
    return page


def test_a_worker_comes_once_and_back_by_the_same_address(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s", 5, checks=0), recruitment=PROLIFIC) as (client, desk, _):
        first = client()
        assert "The ids that Prolific uses for you" in first.get("/", params=address()).text
        assert come(first, **address()).headers["location"] == "/rate?note=begun"
        assert rate(first)
        here = fields(first.get("/rate").text)["unit"]
        elsewhere = client()
        assert elsewhere.get("/", params=address()).headers["location"] == "/rate?note=begun"
        assert fields(elsewhere.get("/rate").text)["unit"] == here
        again = come(client(), **address(session="s2"))
        assert again.status_code == 409
        assert "already" in again.text
        # another worker in the same browser is another rater
        assert come(first, **address("w2", "s9")).headers["location"] == "/rate?note=begun"
        assert rate(first)
        assert len({vote.rater for vote in desk.votes.votes()}) == 2
        workers = {one.worker: one for one in desk.votes.panelists().values()}
        assert set(workers) == {"w1", "w2"}
        assert workers["w1"].batch == "st"
        assert len({one.hashed for one in workers.values()}) == 2
        assert not any("w1" in one.hashed for one in workers.values())


@pytest.mark.parametrize("missing", ["PROLIFIC_PID", "STUDY_ID", "SESSION_ID"])
def test_an_address_without_a_name_is_refused(tmp_path, pairwise_study, missing):
    with served(pairwise_study(tmp_path / "s", 1, checks=0), recruitment=PROLIFIC) as (client, desk, _):
        for wrong in ("", "a b", "<x>", "x" * 129):
            refused = client().get("/", params=address(**{missing: wrong}))
            assert refused.status_code == 400
            assert f"open this study from Prolific: the link has no valid {missing}".lower() in (
                refused.text.lower()
            )
        posted = client().post("/begin", data={"rater": "x" * 24, "consent": "yes"})
        assert posted.status_code == 400
        assert desk.votes.panelists() == {}


def test_without_a_panel_nothing_of_the_address_is_kept(tmp_path, pairwise_study):
    folder = pairwise_study(tmp_path / "s", 1, checks=0)
    with served(folder) as (client, desk, _):
        assert come(client(), **address("telling-worker")).status_code == 303
        assert desk.votes.panelists() == {}
    assert b"telling-worker" not in (folder / "votes.sqlite").read_bytes()


def test_mechanical_turk_previews_and_takes_part(tmp_path, pairwise_study):
    mturk = Recruitment(panel="mturk", done={"code": "PAID"})
    with served(pairwise_study(tmp_path / "s", 2, checks=0), recruitment=mturk) as (client, desk, files):
        preview = {"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE", "hitId": "h"}
        looked = client()
        page = looked.get("/", params=preview).text
        assert files.study.consent in page
        assert "This is a preview" in page
        assert "<form" not in page
        assert looked.post("/begin", data={**preview, "consent": "yes"}).status_code == 400
        worker = client()
        turned = {"workerId": "A1", "hitId": "h", "assignmentId": "a1", "turkSubmitTo": EVIL}
        assert come(worker, **turned).headers["location"] == "/rate?note=begun"
        while rate(worker):
            pass
        end = worker.get("/rate", params={"url": EVIL, "turkSubmitTo": EVIL}).text
        assert 'value="PAID"' in end
        assert "evil.example" not in end
        assert [one.session for one in desk.votes.panelists().values()] == ["a1"]


def test_the_end_has_the_code_and_leads_back(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s", 3, checks=0), recruitment=PROLIFIC) as (client, _, _):
        visitor = client()
        come(visitor, **address(redirect=EVIL, next=EVIL, cc="STOLEN"))
        assert "C0DE" not in visitor.get("/rate").text
        while rate(visitor):
            pass
        end = visitor.get("/rate").text
        assert "Thank you" in end
        assert re.findall(r'<a class="go" href="([^"]+)"', end) == [f"{COMPLETE}C0DE"]
        assert "SCREENED" not in end
        assert "Return to Prolific" in end


def test_who_fails_attention_checks_is_screened_out(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s", 20, checks=2), recruitment=PROLIFIC) as (client, desk, files):
        visitor, asked = client(), 0
        come(visitor, **address())
        while rate(visitor, "neither"):  # the checks ask for a picture
            asked += 1
        failed = [vote for vote in desk.votes.votes() if vote.item in files.key.checks]
        assert len(failed) == 1, "the first one ends it"
        assert asked < 22
        end = visitor.get("/rate").text
        assert re.findall(r'<a class="go" href="([^"]+)"', end) == [f"{COMPLETE}SCREENED"]
        assert "C0DE" not in end
        assert 'href="/withdraw"' in end
        held = [unit for unit in desk.plan.units if unit in end]
        assert held == []


def test_without_screening_wrong_answers_change_nothing(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s", 4, checks=1)) as (client, _, _):
        visitor = begin(client())
        while rate(visitor, "neither"):
            pass
        assert "Thank you" in visitor.get("/rate").text


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example",
        "//a.example",
        "javascript:alert(1)",
        "https://",
        "https://u@a.example",
        "https://a b",
    ],
)
def test_raters_are_sent_to_https_alone(url):
    with pytest.raises(ValidationError, match="https://"):
        Ending(url=url)


def test_codes_are_letters_and_numbers_and_make_the_address_of_prolific():
    with pytest.raises(ValidationError):
        Ending(code='"><script>')
    assert PROLIFIC.done.url == f"{COMPLETE}C0DE"
    own = Recruitment(panel="prolific", done={"code": "X", "url": "https://uni.example/done"})
    assert own.done.url == "https://uni.example/done"
    assert Recruitment(panel="mturk", done={"code": "X"}).done.url == ""
    with pytest.raises(PanelError, match="workerId"):
        Recruitment(panel="mturk").came({"assignmentId": "a", "hitId": "h"})


def test_who_waits_for_others_may_finish_with_the_code(tmp_path, pairwise_study):
    folder = pairwise_study(tmp_path / "s", 2, raters=1, checks=0)
    with served(folder, recruitment=PROLIFIC) as (client, _, _):
        slow, quick, late = client(), client(), client()
        come(slow, **address("slow"))
        come(quick, **address("quick"))
        assert "unit" in fields(slow.get("/rate").text), "holds a page, and does not answer it"
        assert rate(quick)
        waiting = quick.get("/rate").text
        assert "Nothing to answer just now" in waiting
        assert 'value="C0DE"' in waiting
        assert "data-away" not in waiting, "nobody is sent away who may still be needed"
        assert rate(slow)
        come(late, **address("late"))
        nothing = late.get("/rate").text
        assert "Please return your submission on Prolific" in nothing
        assert "C0DE" not in nothing, "nothing was answered"
