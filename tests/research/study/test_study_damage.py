"""A vote that the disk changed or lost is named when it is read, and never counted as another."""

import json
import random
import sqlite3
from contextlib import closing

import pytest
import sqlalchemy as sql
from damaged import unnamed

from limner.cli.main import run
from limner.errors import DataError, LimnerError
from limner.research.study.assignment import AssignmentPlan
from limner.research.study.records import read_study
from limner.research.study.recruitment import new_secret
from limner.research.study.votes import (
    CHECKSUMS,
    METADATA,
    VOTES,
    WITHDRAWN,
    VoteBase,
    read_stored,
    votes_url,
)

BOTH = pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(autouse=True)
def leave_nothing(request):
    """One server serves all tests: what is damaged here would be found there."""
    if "postgresql" not in request.node.name:
        yield
        return
    engine = sql.create_engine(votes_url(None, request.getfixturevalue("postgres").url))
    METADATA.drop_all(engine)
    yield
    METADATA.drop_all(engine)
    engine.dispose()


def rated(folder, url=None, raters=2):
    """Votes of some raters on every item; the raters."""
    files = read_study(folder)
    plan = AssignmentPlan.of(files)
    with closing(VoteBase(folder, files.study, url)) as base:
        taking_part = [base.join(new_secret()) for _ in range(raters)]
        for rater in taking_part:
            while (turn := base.turn(rater, plan)).unit is not None:
                rows = [(item.id, "second", plan.shown_order(rater, item)) for item in turn.unit.items]
                base.vote(rater, turn.unit, rows)
    return taking_part


def change(folder, url, statement):
    with closing(VoteBase(folder, read_study(folder).study, url)) as base:
        base.write(lambda connection: connection.execute(statement))


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("column", ["answer", "shown_order", "seconds", "time"])
def test_a_vote_that_was_changed_is_named_and_not_counted(tmp_path, pairwise_study, database_url, column):
    folder = pairwise_study(tmp_path / "study", 2, checks=0)
    rater, _ = rated(folder, database_url)
    before = read_stored(folder, database_url).votes
    value = {"answer": '"first"', "shown_order": "[]", "seconds": 9.5, "time": 1.5}[column]
    where = (VOTES.c.rater == rater, VOTES.c.item == before[0].item)
    change(folder, database_url, sql.update(VOTES).where(*where).values({column: value}))
    with pytest.raises(DataError, match=f"{rater[:12]}.* on '{before[0].item}' differs from its checksum"):
        read_stored(folder, database_url)
    with closing(VoteBase(folder, read_study(folder).study, database_url)) as base:
        with pytest.raises(DataError, match="restore the database from a backup, or withdraw that rater"):
            base.answers(rater, [before[0].item])
        base.withdraw(rater, "owner")
    left = read_stored(folder, database_url).votes
    assert [vote.answer for vote in left] == ["second"] * 2 + [None] * 2


@BOTH
def test_a_vote_that_was_lost_is_named_and_so_is_one_that_nobody_gave(tmp_path, pairwise_study, database_url):
    folder = pairwise_study(tmp_path / "study", 2, checks=0)
    rater, other = rated(folder, database_url)
    where = (VOTES.c.rater == rater, VOTES.c.item == read_stored(folder, database_url).votes[0].item)
    change(folder, database_url, sql.delete(VOTES).where(*where))
    with pytest.raises(DataError, match=f"{rater[:12]}.* is missing"):
        read_stored(folder, database_url)
    change(folder, database_url, sql.delete(CHECKSUMS).where(CHECKSUMS.c.rater != other))
    with pytest.raises(DataError, match=f"{rater[:12]}.* differs from its checksum"):
        read_stored(folder, database_url)


@BOTH
def test_a_withdrawn_vote_is_checked_too(tmp_path, pairwise_study, database_url):
    folder = pairwise_study(tmp_path / "study", 2, checks=0)
    rater, _ = rated(folder, database_url)
    with closing(VoteBase(folder, read_study(folder).study, database_url)) as base:
        base.withdraw(rater, "owner")
        assert len(base.withdrawn()) == 2
    change(folder, database_url, sql.update(WITHDRAWN).values(time=WITHDRAWN.c.time + 1))
    with pytest.raises(DataError, match="differs from its checksum"):
        read_stored(folder, database_url)


@BOTH
def test_votes_of_an_earlier_version_are_read_and_get_checksums_when_it_is_opened_to_write(
    tmp_path, pairwise_study, database_url
):
    folder = pairwise_study(tmp_path / "study", 2, checks=0)
    rated(folder, database_url)
    due, study = read_stored(folder, database_url).votes, read_study(folder).study
    with closing(VoteBase(folder, study, database_url)) as base:
        base.write(lambda connection: connection.exec_driver_sql(f"DROP TABLE {CHECKSUMS.name}"))
    for _ in range(2):  # looking changes nothing
        with closing(VoteBase(folder, study, database_url, reading_only=True)) as base:
            found = base.checked()
        assert (found.damaged, found.unchecked, len(found.rows[VOTES])) == ([], 4, 4)
    assert read_stored(folder, database_url).votes == due
    with closing(VoteBase(folder, study, database_url, reading_only=True)) as base:
        assert base.checked().unchecked == 0


@pytest.mark.slow
def test_no_flipped_bit_of_the_file_changes_a_vote_silently(tmp_path, pairwise_study, monkeypatch):
    monkeypatch.setattr("limner.research.study.votes.FIRST_WAIT_S", 0)
    folder = pairwise_study(tmp_path / "study", 2, checks=0)
    rated(folder)
    due, file = read_stored(folder).votes, folder / "votes.sqlite"
    whole, draw, found = file.read_bytes(), random.Random(0), []
    written = [place for place, byte in enumerate(whole) if byte]  # most of the file is empty
    for place in draw.sample(written, 120):
        data = bytearray(whole)
        data[place] ^= 1 << draw.randrange(8)
        file.write_bytes(data)
        try:
            assert read_stored(folder).votes == due, place
        except LimnerError as error:
            found.append(str(error))
        for rest in folder.glob("votes.sqlite-*"):
            rest.unlink()
    assert found
    assert not any("\n" in line for line in found)


def told(capsys, *words):
    """Status, path → state, and all advice of `limner verify`."""
    status = run(["verify", *map(str, words), "--json"])
    found = json.loads(capsys.readouterr().out)
    return status, {one["path"]: one["state"] for one in found}, "\n".join(one["advice"] for one in found)


def flip(path, number):
    data = bytearray(path.read_bytes())
    data[number] ^= 4
    path.write_bytes(data)


def test_verify_says_that_a_study_is_sound_and_leaves_it_as_it_is(tmp_path, pairwise_study, capsys):
    folder = pairwise_study(tmp_path / "study", 2, checks=0)
    names = ("study.json", "items.jsonl", "key.json", "population.json")
    status, states, _ = told(capsys, folder)
    pictures = {str(path) for path in (folder / "pictures").iterdir()}
    assert (status, set(states.values())) == (0, {"sound"})
    assert states.keys() == {str(folder / name) for name in names} | pictures
    rated(folder)
    before = (folder / "votes.sqlite").read_bytes()
    votes = str(folder / "votes.sqlite")
    assert told(capsys, folder)[1] == {
        **states,
        votes: "sound",
        f"{votes} (places and raters)": "not checked",
    }
    assert (folder / "votes.sqlite").read_bytes() == before


@pytest.mark.parametrize("name", ["study.json", "items.jsonl", "key.json", "population.json", "pictures"])
def test_verify_names_the_file_of_a_study_that_is_damaged(tmp_path, pairwise_study, capsys, name):
    folder = pairwise_study(tmp_path / "study", 2, checks=0)
    path = folder / name
    path = min(path.iterdir()) if path.is_dir() else path
    flip(path, path.read_bytes().find(b"a", 40))
    status, states, advice = told(capsys, folder)
    assert (status, states[str(path)]) == (1, "damaged")
    others = {state for other, state in states.items() if other != str(path) and "pictures" not in other}
    # The registration holds the hashes of the others.
    assert others == ({"not checked"} if name == "study.json" else {"sound"})
    assert "put" in advice


@pytest.mark.slow
@BOTH
def test_verify_names_every_vote_that_is_damaged(tmp_path, pairwise_study, database_url, capsys):
    folder = pairwise_study(tmp_path / "study", 2, checks=0)
    rater, _ = rated(folder, database_url)
    change(folder, database_url, sql.update(VOTES).where(VOTES.c.rater == rater).values(seconds=1.25))
    status, states, advice = told(capsys, folder, "--votes", database_url)
    assert (status, list(states.values()).count("damaged")) == (1, 1)
    assert advice.count(f"the vote of rater {rater[:12]!r} on") == 2


def test_verify_names_a_damaged_votes_file(tmp_path, pairwise_study, capsys):
    folder = pairwise_study(tmp_path / "study", 2, checks=0)
    rated(folder)
    flip(folder / "votes.sqlite", 3)
    status, states, advice = told(capsys, folder)
    assert (status, states[str(folder / "votes.sqlite")]) == (1, "damaged")
    assert "restore the database from a backup" in advice


def test_verify_says_of_older_votes_that_they_are_not_checked(tmp_path, pairwise_study, capsys):
    folder = pairwise_study(tmp_path / "study", 2, checks=0)
    rated(folder)
    with closing(sqlite3.connect(folder / "votes.sqlite")) as base:
        base.execute(f"DROP TABLE {CHECKSUMS.name}")
        base.execute(f"DROP TABLE {WITHDRAWN.name}")
    status, states, advice = told(capsys, folder)
    assert (status, states[str(folder / "votes.sqlite")]) == (0, "not checked")
    assert "written before checksums" in advice


@pytest.mark.slow
def test_every_file_of_a_study_is_named_or_said_to_be_not_covered(tmp_path, pairwise_study):
    folder = pairwise_study(tmp_path / "study", 2, checks=0)
    rated(folder)
    assert unnamed(folder) == []
