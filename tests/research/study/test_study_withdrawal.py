"""Raters withdraw on every page, or by command: answers are gone but counted, and nobody is asked again."""

import re
import sqlite3

import pytest
from study_visitors import begin, fields, form_of, rate, served

from limner.cli.main import run
from limner.research.study.analysis import analyse
from limner.research.study.assignment import AssignmentPlan
from limner.research.study.records import Notice, read_study, read_votes, vote_lines
from limner.research.study.recruitment import Recruitment, new_secret, public_id
from limner.research.study.report import report_text
from limner.research.study.votes import METADATA, VoteBase, read_stored

NOTICE = Notice(contact="Ada <ada@uni.example>", purpose="A thesis.", retention="Until 2030.")
BOTH = pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)


def leave(visitor):
    """Withdraw as a person does, by the link and the button."""
    page = visitor.get("/withdraw").text
    assert "Withdraw and delete my answers" in page
    done = visitor.post("/withdraw")
    assert (done.status_code, done.headers["location"]) == (303, "/withdraw")
    assert "You have withdrawn" in visitor.get("/withdraw").text


def test_every_page_leads_to_withdrawal(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s", 1, checks=0), notice=NOTICE) as (client, desk, _):
        visitor = client()
        assert "withdraw at any time" in visitor.get("/").text
        assert visitor.get("/withdraw").status_code == 401
        begin(visitor)
        for path in ("/rate", "/pause"):
            assert 'href="/withdraw"' in visitor.get(path).text
        assert rate(visitor)
        end = visitor.get("/rate").text
        assert "Thank you" in end
        assert 'href="/withdraw"' in end
        (vote,) = desk.votes.votes()
        number = re.search(r"<code>([0-9a-f]+)</code>", end)[1]
        assert vote.rater.startswith(number)
        assert "ada@uni.example" in end, "whom to name it to"
        for words in ("A thesis.", "Until 2030.", "Ada &lt;ada@uni.example&gt;"):
            assert words in client().get("/").text


@pytest.mark.slow
def test_who_withdraws_is_forgotten_and_their_places_go_to_others(tmp_path, pairwise_study):
    folder = pairwise_study(tmp_path / "s", 2, raters=1, checks=1)
    with served(folder) as (client, desk, files):
        visitor, other = begin(client()), begin(client())
        while rate(visitor, "neither"):
            pass
        assert not rate(other), "every page has its rater"
        page = visitor.get("/withdraw").text
        assert desk.votes.votes(), "asking is not withdrawing"
        assert "/rate" in page
        leave(visitor)
        assert desk.votes.votes() == []
        withdrawn = desk.votes.withdrawn()
        assert {vote.item for vote in withdrawn} == {"i000", "i001", "i002"}
        assert {vote.answer for vote in withdrawn} == {None}
        # nothing more is asked of them, whatever they try
        assert "You have withdrawn" in visitor.get("/rate").text
        assert "unit" not in fields(visitor.get("/rate").text)
        leave_again = visitor.post("/withdraw")
        assert leave_again.status_code == 303
        assert len(desk.votes.withdrawn()) == 3
        while rate(other, "1"):
            pass
        assert {vote.item for vote in desk.votes.votes()} == {"i000", "i001", "i002"}
        assert len({vote.rater for vote in desk.votes.votes()}) == 1
        report = analyse(files, read_stored(folder).votes, resamples=20)
        assert (report.withdrawn.raters, report.withdrawn.votes) == (1, 3)
        assert report.checks.raters == 1
        assert report.views[0].votes == 2
        assert "1 rater withdrew; 3 votes are left out" in report_text(files, report)
    # nothing of what they answered is in the file
    assert b"neither" not in (folder / "votes.sqlite").read_bytes()


def test_a_page_sent_after_withdrawing_is_no_vote(tmp_path, pairwise_study):
    with served(pairwise_study(tmp_path / "s", 3, checks=0)) as (client, desk, _):
        visitor = begin(client())
        form = form_of(visitor.get("/rate").text, "1")
        leave(visitor)
        assert visitor.post("/rate", data=form).status_code == 303
        assert desk.votes.votes() == []
        origin = {"origin": "https://evil.example"}
        assert begin(client()).post("/withdraw", headers=origin).status_code == 403


@pytest.mark.slow
@BOTH
def test_withdrawal_by_command(tmp_path, pairwise_study, database_url, capsys):
    folder = pairwise_study(tmp_path / "s", 4, checks=1)
    with served(folder):
        pass
    files = read_study(folder)
    plan = AssignmentPlan.of(files)
    base = VoteBase(folder, files.study, database_url)
    raters = [base.join(new_secret()) for _ in range(2)]
    for rater in raters:
        while (turn := base.turn(rater, plan)).unit is not None:
            rows = [(item.id, "first", plan.shown_order(rater, item)) for item in turn.unit.items]
            assert base.vote(rater, turn.unit, rows) == "stored"
    base.close()

    def withdraw(words):
        status = run(["study", "withdraw", str(folder), "--rater", words, "--votes", database_url])
        return status, *capsys.readouterr()

    for unknown in ("0" * 12, raters[0][:7], "%" * 9, ""):
        status, _, told = withdraw(unknown)
        assert status == 2
        assert "no raters of this study match" in told
        assert told.count("\n") == 1
    assert withdraw(raters[0][:12])[:2] == (0, f"{raters[0][:12]} withdrawn: 5 votes deleted\n")
    assert "has already withdrawn" in withdraw(raters[0])[1]
    left = read_stored(folder, database_url).votes
    assert {vote.rater for vote in left if vote.answer is not None} == {raters[1]}
    assert sum(vote.answer is None for vote in left) == 5
    # exported and read again, they are counted as they are from the database
    file = tmp_path / "votes.jsonl"
    file.write_text(vote_lines(left), encoding="utf-8")
    assert read_votes(file) == left
    one, two = (analyse(files, votes, resamples=20) for votes in (left, read_votes(file)))
    assert one == two
    assert one.withdrawn.votes == 5


def test_a_worker_is_found_and_forgotten(tmp_path, pairwise_study, capsys):
    folder = pairwise_study(tmp_path / "s", 2, checks=0)
    with served(folder, recruitment=Recruitment(panel="prolific")) as (client, desk, _):
        visitor = client()
        page = visitor.get("/?PROLIFIC_PID=5f0a1b2c3d4e&STUDY_ID=st1&SESSION_ID=se1").text
        visitor.post("/begin", data={**fields(page), "consent": "yes"})
        assert rate(visitor)
        assert desk.votes.panelists()
        assert run(["study", "withdraw", str(folder), "--rater", "5f0a1b2c3d4e"]) == 0
        assert "1 vote deleted" in capsys.readouterr().out
        assert desk.votes.panelists() == {}
        assert "return your submission on Prolific" in visitor.get("/rate").text
    assert b"5f0a1b2c3d4e" not in (folder / "votes.sqlite").read_bytes()


def test_a_database_of_an_earlier_version_opens(tmp_path, pairwise_study):
    folder = pairwise_study(tmp_path / "s", 3, checks=0)
    study = read_study(folder).study
    old = sqlite3.connect(folder / "votes.sqlite")
    names = ("limner_studies", "limner_raters", "limner_places", "limner_votes")
    assert set(METADATA.tables) - set(names) == {
        "limner_crowds",
        "limner_panelists",
        "limner_vote_checksums",
        "limner_withdrawals",
        "limner_withdrawn_votes",
    }
    secret = new_secret()
    rater = public_id(secret)
    old.executescript(
        """CREATE TABLE limner_studies (sha256 VARCHAR(64) NOT NULL, title TEXT NOT NULL,
          PRIMARY KEY (sha256));
        CREATE TABLE limner_raters (study VARCHAR(64) NOT NULL, id VARCHAR(64) NOT NULL,
          consented FLOAT NOT NULL, PRIMARY KEY (study, id));
        CREATE TABLE limner_places (study VARCHAR(64) NOT NULL, unit VARCHAR(128) NOT NULL,
          rater VARCHAR(64) NOT NULL, place INTEGER, held FLOAT NOT NULL, shown FLOAT NOT NULL, voted FLOAT,
          PRIMARY KEY (study, unit, rater));
        CREATE TABLE limner_votes (study VARCHAR(64) NOT NULL, item VARCHAR(64) NOT NULL,
          rater VARCHAR(64) NOT NULL, unit VARCHAR(128) NOT NULL, answer TEXT NOT NULL,
          shown_order TEXT NOT NULL, seconds FLOAT NOT NULL, time FLOAT NOT NULL,
          PRIMARY KEY (study, item, rater));"""
    )
    of = study.sha256
    old.execute("INSERT INTO limner_studies VALUES (?, 't')", (of,))
    old.execute("INSERT INTO limner_raters VALUES (?, ?, 1)", (of, rater))
    old.execute("INSERT INTO limner_places VALUES (?, 'i000', ?, 1, 1, 1, 2)", (of, rater))
    vote = (of, rater, '"same"', '["first", "second"]')
    old.execute("INSERT INTO limner_votes VALUES (?, 'i000', ?, 'i000', ?, ?, 1, 2)", vote)
    old.commit()
    old.close()
    with served(folder) as (client, desk, _):
        assert [one.answer for one in desk.votes.votes()] == ["same"]
        visitor = client()
        visitor.get(f"/resume/{secret}")
        assert rate(visitor)
        leave(visitor)
        assert desk.votes.votes() == []
        assert len(desk.votes.withdrawn()) == 2
