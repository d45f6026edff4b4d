"""The tidy table: one row a vote, which another program counts as the report does."""

import csv
import io
import json
from collections import Counter

import pytest
from made_up_studies import THREE, pair, step, study_of, vote, votes_of
from study_visitors import begin, fields, form_of, rate, served

from limner.cli.main import run
from limner.research.study.analysis import analyse
from limner.research.study.recruitment import Recruitment
from limner.research.study.report import tidy_csv


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_pairs_row_by_row():
    named = {"Story": {"A": "ours, v2", "B": "theirs"}, "Meta": {"A": "other", "B": "theirs"}}
    files = study_of(
        [pair(1, "Story"), pair(2, "Meta", flipped=True), pair(9, "Meta", right="neither")], systems=named
    )
    cast = [
        vote("i1", "r1", "first"),
        vote("i2", "r1", "first"),
        vote("i9", "r1", "neither"),
        vote("i9", "r2", "same"),
        vote("i1", "r2", "neither"),
        vote("i2", "r3", None),
    ]
    rows = rows_of(tidy_csv(files, cast))
    assert len(rows) == len(cast)
    assert [row["system"] for row in rows] == ["ours, v2", "theirs", "", "", "", ""]
    assert [row["stratum"] for row in rows] == ["Story", "Meta", "Meta", "Meta", "Story", "Meta"]
    assert [row["check"] for row in rows] == ["no", "no", "yes", "yes", "no", "no"]
    assert [row["passed"] for row in rows] == ["", "", "yes", "no", "", ""]
    assert [row["withdrawn"] for row in rows] == ["no"] * 5 + ["yes"]
    assert (rows[5]["answer"], rows[5]["seconds"]) == ("", "")
    assert (rows[0]["page"], rows[0]["item"], rows[0]["source"]) == ("i1", "i1", "t1")
    assert rows[0]["time"] == "2026-01-03T12:00:00+00:00"
    assert {row["worker"] for row in rows} == {""}


@pytest.mark.parametrize(
    "name", ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1"], ids=["=", "+", "-", "@", "tab", "cr"]
)
def test_no_cell_is_a_formula_to_a_spreadsheet(name):
    files = study_of([pair(1)], systems={"all": {"A": name, "B": "theirs"}})
    (row,) = rows_of(tidy_csv(files, [vote("i1", "r1", "first")]))
    assert row["system"] == "'" + name.replace("\r", "\n")
    (row,) = rows_of(tidy_csv(files, [vote("i1", "=r1", "second")]))
    assert (row["rater"], row["system"]) == ("'=r1", "theirs")


def test_ticks_name_every_system_ticked():
    shared = step(2, (("A", "C"), ("B",)))
    files = study_of([step(1), shared], "tick-all", systems={"all": THREE})
    cast = [vote("i1", "r1", ("a", "c")), vote("i2", "r1", ("a",)), vote("i1", "r2", ())]
    rows = rows_of(tidy_csv(files, cast))
    assert [row["system"] for row in rows] == ["true picture + plain", "true picture + plain", ""]
    assert [row["answer"] for row in rows] == ["a + c", "a", "none"]
    assert {row["page"] for row in rows} == {"s1"}


def test_the_table_counts_as_the_report_does():
    files = study_of([pair(n) for n in range(5)] + [pair(9, right="same")])
    cast = votes_of({f"i{n}": ["first", "second", "first"] for n in range(5)} | {"i9": ["same", "first"]})
    report = analyse(files, cast, resamples=20)
    rows = [row for row in rows_of(tidy_csv(files, cast)) if row["withdrawn"] == "no"]
    judged = [row for row in rows if row["check"] == "no"]
    assert len(judged) == report.views[0].votes
    failed = {row["rater"] for row in rows if row["passed"] == "no"}
    assert failed == set(report.checks.failed)
    assert Counter(row["system"] for row in judged) == {"tested": 10, "control": 5}


@pytest.mark.slow
def test_workers_are_hashed_unless_asked(tmp_path, pairwise_study, capsys):
    folder = pairwise_study(tmp_path / "s", 2, checks=1)
    with served(folder, recruitment=Recruitment(panel="prolific")) as (client, _, _):
        for worker in ("wanda", "wim"):
            visitor = client()
            address = {"PROLIFIC_PID": worker, "STUDY_ID": "st", "SESSION_ID": f"visit-{worker}"}
            page = visitor.get("/", params=address).text
            visitor.post("/begin", data={**fields(page), "consent": "yes"})
            while rate(visitor):
                pass

    def exported(*words):
        assert run(["study", "export", str(folder), *words]) == 0
        return capsys.readouterr().out

    plain = exported("--format", "csv")
    rows = rows_of(plain)
    assert len(rows) == 6
    assert len({row["worker"] for row in rows}) == len({row["rater"] for row in rows}) == 2
    assert "" not in {row["worker"] for row in rows}
    for word in ("wanda", "wim", "visit-", "127.0.0.1"):
        assert word not in plain
        assert word not in exported()
    named = rows_of(exported("--format", "csv", "--worker-ids"))
    assert Counter(row["worker"] for row in named) == {"wanda": 3, "wim": 3}
    assert {row["session"] for row in named} == {"visit-wanda", "visit-wim"}
    assert run(["study", "export", str(folder), "--worker-ids"]) == 2
    assert "add --format csv" in capsys.readouterr().err


@pytest.mark.slow
def test_no_address_of_a_visitor_is_kept(tmp_path, pairwise_study):
    folder = pairwise_study(tmp_path / "s", 2, checks=0)
    with served(folder) as (client, desk, _):
        visitor = begin(client())
        visitor.headers["x-forwarded-for"] = "203.0.113.77"
        visitor.headers["user-agent"] = "telling-browser"
        page = visitor.get("/rate").text
        visitor.post("/rate", data=form_of(page, "1"))
        assert len(desk.votes.votes()) == 1
    kept = b"".join(path.read_bytes() for path in folder.glob("votes.sqlite*"))
    assert kept
    for word in (b"203.0.113", b"testclient", b"127.0.0.1", b"telling-browser"):
        assert word not in kept


@pytest.mark.parametrize("words", [("--format", "csv"), ()])
def test_a_file_of_votes_becomes_a_table_too(tmp_path, pairwise_study, capsys, words):
    folder = pairwise_study(tmp_path / "s", 1, checks=0)
    file = tmp_path / "votes.jsonl"
    line = vote("i000", "r1", "first").model_dump(mode="json")
    file.write_text(json.dumps(line) + "\n")
    assert run(["study", "export", str(folder), "--votes", str(file), *words]) == 0
    assert "r1" in capsys.readouterr().out
