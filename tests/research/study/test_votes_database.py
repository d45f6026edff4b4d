"""Votes in SQLite and PostgreSQL: stored once and for good, whatever arrives at the same time."""

import sqlite3
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import sqlalchemy as sql
from made_up_studies import raters_of

from limner.errors import ConfigError, DataError, MissingError, StorageError
from limner.research.study.assignment import AssignmentPlan
from limner.research.study.records import check_votes, read_study
from limner.research.study.recruitment import new_secret, public_id
from limner.research.study.votes import RATERS, VoteBase, read_stored, votes_url

BOTH = pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def answers_to(unit, plan, rater, answer="first"):
    return [(item.id, answer, plan.shown_order(rater, item)) for item in unit.items]


def rate_all(base, plan, rater, *, twice) -> int:
    """Answer until nothing is left; every answer at once from two threads if `twice`."""
    stored = 0
    while (turn := base.turn(rater, plan)).unit is not None:
        rows = answers_to(turn.unit, plan, rater)
        outcomes = []
        clicks = [
            threading.Thread(target=lambda: outcomes.append(base.vote(rater, turn.unit, rows)))  # noqa: B023
            for _ in range(2 if twice else 1)
        ]
        for click in clicks:
            click.start()
        for click in clicks:
            click.join()
        assert Counter(outcomes) == Counter(["stored"] + ["stands"] * (len(clicks) - 1))
        stored += 1
    return stored


@pytest.mark.slow
@BOTH
def test_many_raters_at_once_fill_every_place_once(tmp_path, pairwise_study, database_url):
    folder = pairwise_study(tmp_path / "study", 10, checks=1)
    files = read_study(folder)
    plan = AssignmentPlan.of(files)
    base = VoteBase(folder, files.study, database_url)
    # two servers on one database, as after a restart that overlapped
    other = VoteBase(folder, files.study, database_url)
    raters = [base.join(new_secret()) for _ in range(12)]
    start = threading.Barrier(len(raters))

    def rate(number: int) -> int:
        start.wait()
        return rate_all((base, other)[number % 2], plan, raters[number], twice=True)

    with ThreadPoolExecutor(len(raters)) as pool:
        stored = sum(pool.map(rate, range(len(raters))))
    votes = check_votes(base.votes(), files.items, "pairwise")
    assert len(votes) == stored
    counts = Counter(vote.item for vote in base.votes())
    checks = files.key.checks
    assert {item: count for item, count in counts.items() if item not in checks} == dict.fromkeys(
        plan.names(check=False), 3
    )
    active = {vote.rater for vote in votes}
    assert counts["i010"] == len(active)  # whoever rated anything met the attention check, once
    assert raters_of(base) == len(raters)
    for each in (base, other):
        each.close()


@pytest.mark.slow
@BOTH
def test_places_fill_evenly(tmp_path, pairwise_study, database_url):
    folder = pairwise_study(tmp_path / "study", 7, raters=4, checks=0)
    files = read_study(folder)
    base, plan = VoteBase(folder, files.study, database_url), AssignmentPlan.of(files)
    raters = [base.join(new_secret()) for _ in range(4)]
    for turn in range(28):
        rater = raters[turn % 4]
        unit = base.turn(rater, plan).unit
        assert base.turn(rater, plan).unit == unit, "the page that is held is shown again"
        counts = Counter(vote.item for vote in base.votes())
        mine = {vote.item for vote in base.votes() if vote.rater == rater}
        assert counts.get(unit.name, 0) == min(counts.get(name, 0) for name in plan.units.keys() - mine)
        assert base.vote(rater, unit, answers_to(unit, plan, rater)) == "stored"
    assert Counter(vote.item for vote in base.votes()) == dict.fromkeys(plan.units, 4)
    assert base.turn(raters[0], plan).unit is None
    orders = {tuple(v.item for v in base.votes() if v.rater == rater) for rater in raters}
    assert len(orders) == 4, "every rater has an order of their own"
    base.close()


@BOTH
def test_a_place_that_was_given_up_goes_to_another(tmp_path, pairwise_study, database_url):
    folder = pairwise_study(tmp_path / "study", 1, raters=1, checks=0)
    files = read_study(folder)
    clock = Clock()
    base = VoteBase(folder, files.study, database_url, clock=clock)
    plan = AssignmentPlan.of(files)
    first, second, third = (base.join(new_secret()) for _ in range(3))
    unit = base.turn(first, plan, hold_s=60).unit
    waiting = base.turn(second, plan, hold_s=60)
    assert (waiting.unit, waiting.waiting) == (None, True)
    clock.now += 61
    assert base.turn(second, plan, hold_s=60).unit == unit
    assert base.vote(first, unit, answers_to(unit, plan, first)) == "gone"
    clock.now += 5.5
    assert base.vote(second, unit, answers_to(unit, plan, second)) == "stored"
    assert base.vote(second, unit, answers_to(unit, plan, second, "second")) == "stands"
    done = base.turn(third, plan, hold_s=60)
    assert (done.unit, done.waiting) == (None, False)
    (vote,) = base.votes()
    assert (vote.answer, vote.rater, vote.seconds) == ("first", second, 5.5)
    base.close()


@pytest.mark.slow
@BOTH
def test_a_place_that_was_answered_is_never_given_away(tmp_path, pairwise_study, database_url):
    """One of two places was answered long ago, the other was given up later."""
    folder = pairwise_study(tmp_path / "study", 1, raters=2, checks=0)
    files = read_study(folder)
    clock = Clock()
    base, plan = VoteBase(folder, files.study, database_url, clock=clock), AssignmentPlan.of(files)
    first, second, third, fourth = (base.join(new_secret()) for _ in range(4))
    unit = base.turn(first, plan, hold_s=60).unit
    assert base.vote(first, unit, answers_to(unit, plan, first)) == "stored"
    clock.now += 10
    assert base.turn(second, plan, hold_s=60).unit == unit
    clock.now += 100
    assert base.turn(third, plan, hold_s=60).unit == unit
    assert base.vote(first, unit, answers_to(unit, plan, first, "second")) == "stands"
    assert base.vote(second, unit, answers_to(unit, plan, second)) == "gone"
    assert base.vote(third, unit, answers_to(unit, plan, third)) == "stored"
    assert [vote.rater for vote in base.votes()] == [first, third]
    clock.now += 3600
    late = base.turn(fourth, plan, hold_s=60)
    assert (late.unit, late.waiting) == (None, False), "answered places stay taken, however long ago"
    base.close()


def test_a_late_answer_counts_while_nobody_else_wants_the_place(tmp_path, pairwise_study):
    folder = pairwise_study(tmp_path / "study", 2, checks=0)
    files = read_study(folder)
    clock = Clock()
    base, plan = VoteBase(folder, files.study, clock=clock), AssignmentPlan.of(files)
    rater = base.join(new_secret())
    unit = base.turn(rater, plan, hold_s=60).unit
    clock.now += 3600
    assert base.vote(rater, unit, answers_to(unit, plan, rater)) == "stored"
    next_one = base.turn(rater, plan, hold_s=60).unit
    clock.now += 3600  # closed the browser, and came back
    assert base.turn(rater, plan, hold_s=60).unit == next_one
    clock.now += 4
    assert base.vote(rater, next_one, answers_to(next_one, plan, rater)) == "stored"
    assert base.votes()[-1].seconds == 4
    base.close()


@pytest.mark.slow
def test_a_sequence_is_stored_whole_or_not_at_all(tmp_path, tick_all_study):
    folder = tick_all_study(tmp_path / "study")
    files = read_study(folder)
    base, plan = VoteBase(folder, files.study), AssignmentPlan.of(files)
    rater = base.join(new_secret())
    unit = base.turn(rater, plan).unit
    assert [item.position for item in unit.items] == [0, 1, 2]
    rows = [(item.id, ("p", "r"), plan.shown_order(rater, item)) for item in unit.items]
    with pytest.raises(DataError):
        base.vote(rater, unit, [*rows, rows[0]])  # one item twice: the constraint of the database says no
    assert base.votes() == []
    assert base.vote(rater, unit, rows) == "stored"
    assert [vote.answer for vote in check_votes(base.votes(), files.items, "tick-all")] == [("p", "r")] * 3
    base.close()


def test_the_limit_per_rater_and_what_is_left(tmp_path, pairwise_study):
    folder = pairwise_study(tmp_path / "study", 6, checks=0)
    files = read_study(folder)
    base, plan = VoteBase(folder, files.study), AssignmentPlan.of(files, limit=2)
    rater = base.join(new_secret())
    seen = []
    while (turn := base.turn(rater, plan)).unit:
        seen.append((turn.answered, turn.left))
        base.vote(rater, turn.unit, answers_to(turn.unit, plan, rater))
    assert seen == [(0, 1), (1, 0)]
    assert not turn.waiting
    base.close()


@BOTH
def test_one_database_holds_several_studies(tmp_path, pairwise_study, tick_all_study, database_url):
    folders = pairwise_study(tmp_path / "a", 2, checks=0), tick_all_study(tmp_path / "b", 1)
    for folder, answer in zip(folders, ("neither", ("q",)), strict=True):
        files = read_study(folder)
        base, plan = VoteBase(folder, files.study, database_url), AssignmentPlan.of(files)
        rater = base.join(new_secret())
        unit = base.turn(rater, plan).unit
        base.vote(rater, unit, answers_to(unit, plan, rater, answer))
        base.close()
    assert {vote.answer for vote in read_stored(folders[0], database_url).votes} == {"neither"}
    assert {vote.answer for vote in read_stored(folders[1], database_url).votes} == {("q",)}
    assert len(read_stored(folders[0], database_url).votes) == 1


@BOTH
def test_what_is_read_together_is_of_one_moment(tmp_path, pairwise_study, database_url):
    folder = pairwise_study(tmp_path / "study", 1, checks=0)
    with closing(VoteBase(folder, read_study(folder).study, database_url)) as base:
        first = base.join(new_secret())
        query = sql.select(RATERS.c.id).where(RATERS.c.study == base._study)
        with base.reading() as connection:
            before = connection.scalars(query).all()
            base.join(new_secret())
            assert connection.scalars(query).all() == before == [first]
        assert raters_of(base) == 2


@pytest.mark.slow
def test_votes_outlive_a_crash_of_postgresql(tmp_path, pairwise_study, postgres):
    folder = pairwise_study(tmp_path / "study", 3, checks=0)
    files = read_study(folder)
    base, plan = VoteBase(folder, files.study, postgres.url), AssignmentPlan.of(files)
    rater = base.join(new_secret())
    unit = base.turn(rater, plan).unit
    assert base.vote(rater, unit, answers_to(unit, plan, rater)) == "stored"
    postgres.stop("immediate")
    postgres.start()
    assert Counter(vote.item for vote in base.votes()) == {unit.name: 1}
    after = base.turn(rater, plan).unit  # over connections that broke
    assert base.vote(rater, after, answers_to(after, plan, rater)) == "stored"
    assert sum(Counter(vote.item for vote in base.votes()).values()) == 2
    base.close()


@pytest.mark.slow
def test_a_busy_sqlite_file_is_waited_for(tmp_path, pairwise_study):
    folder = pairwise_study(tmp_path / "study", 3, checks=0)
    base = VoteBase(folder, read_study(folder).study)
    holder = sqlite3.connect(folder / "votes.sqlite", isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    threading.Timer(0.3, holder.rollback).start()
    secret = new_secret()
    assert base.join(secret) == base.join(secret) == public_id(secret)
    assert raters_of(base) == 1
    assert holder.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    holder.close()
    base.close()


def test_the_database_itself_refuses_what_must_never_be(tmp_path, pairwise_study):
    folder = pairwise_study(tmp_path / "study", 3, checks=0)
    files = read_study(folder)
    base, plan = VoteBase(folder, files.study), AssignmentPlan.of(files)
    rater, other = base.join(new_secret()), base.join(new_secret())
    unit = base.turn(rater, plan).unit
    base.vote(rater, unit, answers_to(unit, plan, rater))
    base.close()
    raw = sqlite3.connect(folder / "votes.sqlite")
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        raw.execute("INSERT INTO limner_votes SELECT * FROM limner_votes")
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        raw.execute(
            "INSERT INTO limner_places SELECT study, unit, ?, place, held, shown, voted FROM limner_places",
            (other,),
        )
    raw.close()


def test_urls(tmp_path):
    assert votes_url(tmp_path).database == str(tmp_path / "votes.sqlite")
    assert votes_url(tmp_path, "/x/y.sqlite").database == "/x/y.sqlite"
    assert votes_url(tmp_path, "postgresql://a@b/c").drivername == "postgresql+psycopg"
    for wrong in ("mysql://a@b/c", "sqlite://", "://", "postgresql://a:b:c@d:e/f"):
        with pytest.raises(ConfigError, match="--votes"):
            votes_url(tmp_path, wrong)


def test_errors_say_what_is_wrong_and_no_password(tmp_path, pairwise_study, monkeypatch):
    folder = pairwise_study(tmp_path / "study", 1, checks=0)
    study = read_study(folder).study
    monkeypatch.setattr("limner.research.study.votes.FIRST_WAIT_S", 0)
    with pytest.raises(MissingError, match="no votes yet; collect them with 'limner study serve"):
        read_stored(folder)
    with pytest.raises(DataError, match="check that the database exists") as refused:
        VoteBase(folder, study, "postgresql://me:hunter2@127.0.0.1:1/none")
    assert "hunter2" not in str(refused.value)
    (folder / "votes.sqlite").write_text("no database, but a long enough text to be read as one" * 20)
    with pytest.raises(DataError, match="not a database"):
        read_stored(folder)
    with pytest.raises(DataError, match="folder does not exist"):
        VoteBase(folder, study, str(tmp_path / "absent" / "votes.sqlite"))


def test_a_database_on_a_full_disk_is_asked_once_and_says_so(tmp_path, pairwise_study):
    study, turns = pairwise_study(tmp_path), []

    def fill(connection):
        turns.append(1)
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        connection.exec_driver_sql("CREATE TABLE large AS SELECT zeroblob(100000) AS zeros")

    base = VoteBase(study, read_study(study).study)
    with closing(base), pytest.raises(StorageError) as caught:
        base.write(fill)
    assert turns == [1]
    assert str(caught.value).startswith(f"{study / 'votes.sqlite'}: No space left on device (")
