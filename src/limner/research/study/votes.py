"""The votes of a study in SQLite (the default) or PostgreSQL (by URL): who takes part, who holds which place,
and what was answered.

A vote is stored before it is acknowledged, and what stands is never replaced. One writer of a study works at
a time, and what fails for a passing reason (a lock, a race, a server that was restarted) is done again.
"""

from __future__ import annotations

import json
import random
import secrets
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from limner.checksums import checksum
from limner.errors import ConfigError, DataError, LimnerError, MissingError
from limner.files import PRIVATE_FILE, storage_error
from limner.research.study.assignment import AssignmentPlan, Unit
from limner.research.study.records import Answer, Study, Vote, read_study, read_votes
from limner.research.study.recruitment import Panelist, public_id

try:
    import sqlalchemy as sql
except ModuleNotFoundError as error:
    raise MissingError(
        "sqlalchemy is not installed; it keeps the votes of a study; pip install 'limner[studies]'"
    ) from error

METADATA = sql.MetaData()
_LETTERS = {"sha256": 64, "study": 64, "id": 64, "rater": 64, "item": 64, "unit": 128}


def _table(name: str, keys: Sequence[str], *rest: sql.schema.SchemaItem) -> sql.Table:
    known = (sql.Column(key, sql.String(_LETTERS[key]), primary_key=True) for key in keys)
    return sql.Table(name, METADATA, *known, *rest)


def _text(name: str, most: int | None = None) -> sql.Column[str]:
    return sql.Column(name, sql.Text if most is None else sql.String(most), nullable=False)


def _number(name: str) -> sql.Column[float]:
    return sql.Column(name, sql.Float, nullable=False)


def _of_rater() -> sql.ForeignKeyConstraint:
    return sql.ForeignKeyConstraint(["study", "rater"], ["limner_raters.study", "limner_raters.id"])


# Writers of one study queue behind its row where the database itself would let them run at once.
STUDIES = _table("limner_studies", ["sha256"], _text("title"))
RATERS = _table(
    "limner_raters",
    ["study", "id"],
    _number("consented"),  # seconds since 1970, UTC, as all times here
    sql.ForeignKeyConstraint(["study"], ["limner_studies.sha256"]),
)
# A unit is what is shown on one page: an item, or all steps of a sequence. Places are numbered from 1 to the
# raters wanted; an attention check, which everybody is shown, has places without a number.
PLACES = _table(
    "limner_places",
    ["study", "unit", "rater"],
    sql.Column("place", sql.Integer),
    _number("held"),  # when the place was last asked for
    _number("shown"),  # when the page was first shown
    sql.Column("voted", sql.Float),  # when it was answered; an answered place is never given away
    sql.UniqueConstraint("study", "unit", "place", name="limner_one_rater_per_place"),
    sql.CheckConstraint("place IS NULL OR place >= 1", name="limner_places_from_one"),
    _of_rater(),
)
VOTES = _table(
    "limner_votes",
    ["study", "item", "rater"],
    _text("unit", 128),
    _text("answer"),  # JSON: a word, or a list of candidates
    _text("shown_order"),  # JSON list
    _number("seconds"),
    _number("time"),
    sql.ForeignKeyConstraint(
        ["study", "unit", "rater"], ["limner_places.study", "limner_places.unit", "limner_places.rater"]
    ),
)
# What a panel such as Prolific calls a rater, kept apart from the answers.
PANELISTS = _table(
    "limner_panelists",
    ["study", "rater"],
    _text("panel", 16),
    _text("worker", 128),
    _text("batch", 128),
    _text("session", 128),
    _text("salt", 64),
    sql.UniqueConstraint("study", "panel", "worker", name="limner_one_rater_per_worker"),
    _of_rater(),
)
# Later versions add tables and leave those above as they are, so that older databases open.
WITHDRAWALS = _table(
    "limner_withdrawals",
    ["study", "rater"],
    _number("time"),
    _text("asked_by", 16),  # the rater, or the owner of the study
    _of_rater(),
)
# Raters who began one after another from one network address, which itself is kept nowhere; a crowd is a
# random word.
CROWDS = _table("limner_crowds", ["study", "rater"], _text("crowd", 16), _of_rater())
# Votes without what they said, so that they can be counted.
WITHDRAWN = _table("limner_withdrawn_votes", ["study", "item", "rater"], _text("unit", 128), _number("time"))
# Of every vote, withdrawn ones among them, so that one which the disk changed or lost is found.
CHECKSUMS = _table("limner_vote_checksums", ["study", "item", "rater"], _text("checksum", 32))

VOTES_FILE = "votes.sqlite"
TRIES = 9
FIRST_WAIT_S = 0.02
BUSY_S = 30
HOLD_S = 1200.0
LEAST_LETTERS = 8
"""Least number of characters of a rater's id, if only its beginning is given."""
# Of errors that stay however often one tries.
_LASTING = ("full", "not a database", "readonly", "I/O", "does not exist", "authentication failed", "no such")
Made = TypeVar("Made")
Outcome = Literal["stored", "stands", "gone"]
Row = sql.RowMapping | Mapping[str, object]


class TakenError(DataError):
    """A worker of a panel who takes part already, by another submission."""


@dataclass(frozen=True)
class Turn:
    """Next task of a rater.

    Attributes:
        unit: the page to answer; None when there is none.
        answered: pages this rater has answered, checks among them.
        left: pages that may still come after this one, checks among them.
        waiting: nothing is free now, but others hold places that may become free again.
        withdrawn: the rater has withdrawn, and is asked nothing any more.
    """

    unit: Unit | None
    answered: int
    left: int
    waiting: bool = False
    withdrawn: bool = False


class CheckedVotes(NamedTuple):
    """Votes as they are stored, and what is wrong with them.

    Attributes:
        rows: table → its rows.
        damaged: a line for each vote that is not as it was written.
        unchecked: votes without a checksum, which were all written by an earlier version.
    """

    rows: Mapping[sql.Table, Sequence[sql.RowMapping]]
    damaged: list[str]
    unchecked: int


@dataclass(frozen=True)
class StoredVotes:
    """State of the votes of a study, without a server.

    Attributes:
        votes: all, those that were withdrawn last.
        crowds: rater → crowd, of those who began in one; a file of exported votes does not say.
        panelists: rater → how a panel knows them; nor this.
    """

    votes: list[Vote]
    crowds: Mapping[str, str] = field(default_factory=dict)
    panelists: Mapping[str, Panelist] = field(default_factory=dict)


class VoteBase:
    """The votes of one study in a database."""

    def __init__(
        self,
        folder: Path,
        study: Study,
        votes: str | None = None,
        *,
        clock: Callable[[], float] | None = None,
        reading_only: bool = False,
    ) -> None:
        """Connect, and make the tables if there are none.

        Args:
            folder: folder of the study.
            study: its registration; one database may hold the votes of several.
            votes: see `votes_url`.
            clock: seconds, by which places are held and answers take time; a `steady_clock` unless given.
                Dates are those of the machine.
            reading_only: change nothing, also where a table is absent.
        Raises:
            ConfigError: the kind of database is unknown.
            MissingError: its driver is not installed.
            DataError: it cannot be reached, or is no such database.
        """
        url = votes_url(folder, votes)
        self._sqlite = url.get_backend_name() == "sqlite"
        self.name = url.render_as_string(hide_password=True)
        self._place = url.database if self._sqlite and url.database else self.name
        self._study, self._reading_only = study.sha256, reading_only
        self._clock = clock or steady_clock()
        self._known: set[str] = set()  # nobody is ever taken out, so whoever was found once is there
        # Threads of one server wait for each other here, in order; the database makes them poll, or hold a
        # connection while they wait. Other servers are kept apart by the database alone.
        self._writer = threading.Lock()
        self._registered = sql.select(STUDIES.c.sha256).where(STUDIES.c.sha256 == self._study)
        self._engine = _engine(url, reading_only=reading_only)
        if reading_only:
            return
        self._patiently(lambda: METADATA.create_all(self._engine))

        def register(connection: sql.Connection) -> None:
            if connection.scalar(self._registered) is None:
                connection.execute(STUDIES.insert().values(sha256=self._study, title=study.title))
            # Votes of an earlier version get their checksums, and are taken as they are.
            if connection.scalar(sql.select(CHECKSUMS.c.item).where(*self._of(CHECKSUMS)).limit(1)) is None:
                for table in (VOTES, WITHDRAWN):
                    rows = connection.execute(sql.select(table).where(*self._of(table))).mappings().all()
                    self._add_checksums(connection, rows)

        self.write(register)

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """Consistent view of the stored votes."""
        try:
            with self._engine.connect() as connection:
                if self._sqlite:
                    connection.exec_driver_sql("BEGIN")
                else:
                    connection.execution_options(isolation_level="REPEATABLE READ")
                yield connection
        except (sql.exc.DBAPIError, UnicodeDecodeError) as error:
            raise self._refused(error) from error

    def write(self, work: Callable[[sql.Connection], Made], *, lasting: bool = True) -> Made:
        """Do `work` in a transaction of its own, again if it fails for a passing reason.

        Args:
            work: reads and writes; it may run several times, but only one run is kept.
            lasting: wait until it would outlive a power cut. What does not wait outlives the end of this
                program all the same, and lasts from the next transaction on that does.
        Returns:
            What `work` returned, once that is stored.
        Raises:
            DataError: it still failed after several tries.
            StorageError: the disk of the database is full, or cannot be written.
        """

        def once() -> Made:
            with self._writer, self._engine.connect() as connection, connection.begin():
                if self._sqlite:
                    connection.exec_driver_sql(f"PRAGMA synchronous={'FULL' if lasting else 'NORMAL'}")
                    # One that reads first and writes later may find that another has written in the meantime.
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                else:
                    if not lasting:
                        connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
                    connection.execute(self._registered.with_for_update())
                return work(connection)

        return self._patiently(once)

    def _patiently(self, work: Callable[[], Made]) -> Made:
        for turn in range(TRIES):
            try:
                return work()
            except (sql.exc.DBAPIError, UnicodeDecodeError) as error:
                if turn == TRIES - 1 or not _passing(error, turn):
                    raise self._refused(error) from error
            # Spread out, so that those who collided do not collide again.
            time.sleep(FIRST_WAIT_S * 2**turn * random.uniform(0.5, 1))  # noqa: S311
        raise AssertionError("unreachable")

    def _refused(self, error: sql.exc.DBAPIError | UnicodeDecodeError) -> LimnerError:
        said = (isinstance(error, sql.exc.DBAPIError) and error.orig) or error
        refused = storage_error(said, self._place)
        if refused is not None:
            return refused
        reason = " ".join(str(said).split())[:200]
        if any(word in reason for word in ("malformed", "not a database", "decode")):
            return DataError(f"votes {self.name}: damaged ({reason}); put the database back from a copy")
        return DataError(f"votes {self.name}: {reason}; is the database there, and may it be written?")

    def _of(self, table: sql.Table, **values: object) -> list[sql.ColumnElement[bool]]:
        """Conditions: rows of this study with these values."""
        return [table.c[name] == value for name, value in {"study": self._study, **values}.items()]

    def _holds(self, connection: sql.Connection, table: sql.Table, **values: object) -> bool:
        """Whether a table has such a row of this study."""
        return connection.scalar(sql.select(table.c.study).where(*self._of(table, **values))) is not None

    # Raters

    def join(self, secret: str, panelist: Panelist | None = None) -> str:
        """Register a rater who has just consented; the same secret is the same rater.

        Args:
            secret: see `limner.research.study.recruitment.new_secret`; by it they come back.
            panelist: how a panel knows them.
        Returns:
            The rater's public id: votes carry this hash, by which nobody can come back as them.
        Raises:
            TakenError: this worker takes part as another rater.
        """
        rater = public_id(secret)

        def work(connection: sql.Connection) -> str:
            if self._holds(connection, RATERS, id=rater):
                return rater
            same = panelist and panelist.model_dump(include={"panel", "worker"})
            if same and self._holds(connection, PANELISTS, **same):
                raise TakenError("this worker takes part already")
            row = {"study": self._study, "id": rater, "consented": time.time()}
            connection.execute(sql.insert(RATERS).values(**row))
            if panelist is not None:
                kept = {**panelist.model_dump(), "salt": secrets.token_hex(16)}
                connection.execute(sql.insert(PANELISTS).values(study=self._study, rater=rater, **kept))
            return rater

        return self.write(work)

    def knows(self, rater: str) -> bool:
        """Whether somebody of this public id takes part, or did before they withdrew."""
        if rater not in self._known:
            with self.reading() as connection:
                if not self._holds(connection, RATERS, id=rater):
                    return False
            self._known.add(rater)
        return True

    def find(self, words: str) -> str:
        """The public id of a rater.

        Args:
            words: the id, its first eight letters or more, or what a panel calls the rater.
        Raises:
            ConfigError: nobody is called so, or several are.
        """
        like = RATERS.c.id.startswith(words, autoescape=True) if len(words) >= LEAST_LETTERS else sql.false()
        with self.reading() as connection:
            found: set[str] = set(connection.scalars(sql.select(RATERS.c.id).where(*self._of(RATERS), like)))
            called = sql.select(PANELISTS.c.rater).where(*self._of(PANELISTS, worker=words))
            found |= set(connection.scalars(called))
        if len(found) != 1:
            raise ConfigError(
                f"--rater {words!r}: {len(found) or 'no'} raters of this study are called so; give the id in"
                f" their votes, its first {LEAST_LETTERS} letters or more, or the worker id of their panel"
            )
        return found.pop()

    def withdrew(self, rater: str) -> bool:
        """Whether a rater has withdrawn."""
        with self.reading() as connection:
            return self._holds(connection, WITHDRAWALS, rater=rater)

    def withdraw(self, rater: str, by: Literal["rater", "owner"]) -> int:
        """Delete all that a rater answered and what a panel calls them; others may take their places.

        That so many answers were withdrawn is kept, and of which items, but not what they were.

        Args:
            rater: public id of one who takes part.
            by: who asked for it.
        Returns:
            Votes deleted; 0 where the rater had withdrawn before.
        Raises:
            DataError: the database refused; nothing is deleted.
        """

        def work(connection: sql.Connection) -> int:
            if self._holds(connection, WITHDRAWALS, rater=rater):
                return 0
            row = {"study": self._study, "rater": rater, "time": time.time(), "asked_by": by}
            connection.execute(sql.insert(WITHDRAWALS).values(**row))
            names = [column.name for column in WITHDRAWN.columns]
            kept = sql.select(*(VOTES.c[name] for name in names)).where(*self._of(VOTES, rater=rater))
            connection.execute(sql.insert(WITHDRAWN).from_select(names, kept))
            count, *_ = [
                connection.execute(sql.delete(table).where(*self._of(table, rater=rater))).rowcount
                for table in (VOTES, PLACES, PANELISTS, CROWDS, CHECKSUMS)
            ]
            left = connection.execute(sql.select(WITHDRAWN).where(*self._of(WITHDRAWN, rater=rater)))
            self._add_checksums(connection, left.mappings().all())
            return count

        return self.write(work)

    def mark(self, crowd: str, raters: Sequence[str]) -> None:
        """Keep that raters began one after another from one network address.

        Args:
            crowd: a random word for it.
            raters: public ids, none of which was marked before.
        """

        def work(connection: sql.Connection) -> None:
            gone = set(connection.scalars(sql.select(WITHDRAWALS.c.rater).where(*self._of(WITHDRAWALS))))
            rows = [{"study": self._study, "rater": one, "crowd": crowd} for one in raters if one not in gone]
            if rows:
                connection.execute(sql.insert(CROWDS), rows)

        self.write(work, lasting=False)

    def crowds(self) -> Mapping[str, str]:
        """Public id → crowd, of those who began in one."""
        return {row["rater"]: row["crowd"] for row in self._rows(CROWDS)}

    def panelists(self) -> Mapping[str, Panelist]:
        """Public id → how a panel knows the rater."""
        return {
            row["rater"]: Panelist(**{name: row[name] for name in Panelist.model_fields})
            for row in self._rows(PANELISTS)
        }

    def _rows(self, table: sql.Table) -> Sequence[sql.RowMapping]:
        with self.reading() as connection:
            return connection.execute(sql.select(table).where(*self._of(table))).mappings().all()

    # Places and answers

    def turn(self, rater: str, plan: AssignmentPlan, *, hold_s: float = HOLD_S) -> Turn:
        """The page a rater holds, or else the next one, on which a place is then held for them.

        Args:
            rater: public id of one who takes part.
            plan: how pages are dealt.
            hold_s: seconds after which a place that was not answered may be given to another, whatever the
                machine's clock is set to in the meantime.
        Raises:
            DataError: the database refused.
        """

        def work(connection: sql.Connection) -> Turn:
            now = self._clock()
            if self._holds(connection, WITHDRAWALS, rater=rater):
                return Turn(None, 0, 0, withdrawn=True)
            mine = self._mine(connection, rater)
            answered = {unit for unit, row in mine.items() if row.voted is not None}
            load = self._load(connection, now, hold_s)
            held = next((unit for unit in mine if unit not in answered and unit in plan.units), None)
            if held is None:
                real = plan.choice(rater, answered, load)
                held = plan.due_check(rater, answered, last=real is None) or real
                if held is not None:
                    number = None
                    if not plan.units[held].check:
                        number = self._free_place(connection, held, plan.raters, now, hold_s)
                    row = {"study": self._study, "unit": held, "rater": rater, "place": number}
                    connection.execute(sql.insert(PLACES).values(**row, held=now, shown=now))
            else:
                # Whoever comes back after a long while begins to look anew.
                place = mine[held]
                anew = _lapsed(place.held, now, hold_s) or place.shown > now
                shown = now if anew else place.shown
                mine_now = self._of(PLACES, unit=held, rater=rater)
                connection.execute(sql.update(PLACES).where(*mine_now).values(held=now, shown=shown))
            unit = None if held is None else plan.units[held]
            room = plan.room(answered)
            left = room - 1 if unit is not None and not unit.check else room
            count = min(sum(name != held for name in plan.open(answered, load)), max(0, left))
            waiting = unit is None and room > 0 and self._others_hold(connection, plan, answered)
            seen = [plan.units[name] for name in answered if name in plan.units]
            seen += [] if unit is None else [unit]
            met = sum(one.check for one in seen)
            checks = plan.checks_among(rater, len(seen) - met + count) - met
            return Turn(unit, len(answered), count + max(0, checks), waiting)

        # A place that is lost in a power cut is held again when the page is asked for again.
        return self.write(work, lasting=False)

    def vote(self, rater: str, unit: Unit, answers: Sequence[tuple[str, Answer, Sequence[str]]]) -> Outcome:
        """Store what a rater answered on a page: all of it or nothing, and only the first time.

        Args:
            rater: public id.
            unit: the page, on which the rater holds a place.
            answers: per item its id, the answer in canonical terms, and the order shown.
        Returns:
            stored; stands, if the rater has answered this page before; gone, if the answer took so long that
            the place was given to another rater.
        Raises:
            DataError: the database refused; nothing is stored.
        """

        def work(connection: sql.Connection) -> Outcome:
            now = self._clock()
            place = self._mine(connection, rater).get(unit.name)
            if place is None:
                return "gone"
            if place.voted is not None:
                return "stands"
            here = self._of(PLACES, unit=unit.name, rater=rater)
            connection.execute(sql.update(PLACES).where(*here).values(voted=now))
            rows = [
                {
                    "study": self._study,
                    "item": item,
                    "rater": rater,
                    "unit": unit.name,
                    "answer": json.dumps(answer),
                    "shown_order": json.dumps(list(shown)),
                    "seconds": max(0.0, now - place.shown),
                    "time": time.time(),
                }
                for item, answer, shown in answers
            ]
            connection.execute(sql.insert(VOTES), rows)
            self._add_checksums(connection, rows)
            return "stored"

        return self.write(work)

    def _mine(self, connection: sql.Connection, rater: str) -> dict[str, sql.Row[Any]]:
        rows = connection.execute(sql.select(PLACES).where(*self._of(PLACES, rater=rater)))
        return {row.unit: row for row in rows}

    def _load(self, connection: sql.Connection, now: float, hold_s: float) -> dict[str, int]:
        """Page → raters that answered it or asked for it lately."""
        lately = PLACES.c.held.between(now - hold_s, now + hold_s)
        query = (
            sql.select(PLACES.c.unit, sql.func.count())
            .where(*self._of(PLACES), sql.or_(PLACES.c.voted.is_not(None), lately))
            .group_by(PLACES.c.unit)
        )
        return {row[0]: row[1] for row in connection.execute(query)}

    def _others_hold(self, connection: sql.Connection, plan: AssignmentPlan, answered: set[str]) -> bool:
        """Whether a page is full only because somebody has not answered yet."""
        query = sql.select(PLACES.c.unit).where(*self._of(PLACES, voted=None)).distinct()
        pages = set(connection.scalars(query)) - answered
        return any(not plan.units[name].check for name in pages if name in plan.units)

    def _free_place(
        self, connection: sql.Connection, name: str, raters: int, now: float, hold_s: float
    ) -> int:
        """A place on a page that nobody has, or one that was given up, which is then taken away."""
        here = self._of(PLACES, unit=name)
        rows = connection.execute(sql.select(PLACES).where(*here)).all()
        free = set(range(1, raters + 1)) - {row.place for row in rows}
        if free:
            return min(free)
        lapsed = [row for row in rows if row.voted is None and _lapsed(row.held, now, hold_s)]
        if not lapsed:
            raise DataError(f"votes: {name}: no place left of {raters}")
        old = min(lapsed, key=lambda row: row.held)
        connection.execute(sql.delete(PLACES).where(*here, PLACES.c.rater == old.rater))
        return int(old.place)

    # Votes and their checksums

    def answers(self, rater: str, items: Collection[str]) -> dict[str, Answer]:
        """Answers of a rater on some items.

        Raises:
            DataError: a vote of theirs is damaged.
        """
        rows = self._sound(self.checked(rater, items), VOTES)
        return {row["item"]: _answer(row["answer"]) for row in rows}

    def votes(self) -> list[Vote]:
        """All valid votes, by time.

        Raises:
            DataError: a vote is damaged.
        """
        return [
            _vote(row, _answer(row["answer"]), json.loads(row["shown_order"]), row["seconds"])
            for row in self._sound(self.checked(), VOTES)
        ]

    def withdrawn(self) -> list[Vote]:
        """Votes that were withdrawn, without what they said, by time.

        Raises:
            DataError: a vote is damaged.
        """
        return [_vote(row, None) for row in self._sound(self.checked(), WITHDRAWN)]

    def checked(self, rater: str | None = None, items: Collection[str] = ()) -> CheckedVotes:
        """Hold votes, withdrawn ones among them, against their checksums.

        Args:
            rater: whose; None for all votes.
            items: items of the rater.
        """
        with self.reading() as connection:
            names = sql.inspect(connection).get_table_names() if self._reading_only else METADATA.tables
            rows: dict[sql.Table, Sequence[sql.RowMapping]] = dict.fromkeys((VOTES, WITHDRAWN, CHECKSUMS), ())
            for table in rows:
                if table.name in names:  # those of earlier versions have fewer
                    query = sql.select(table).where(*self._of(table))
                    if rater is not None:
                        query = query.where(table.c.rater == rater, table.c.item.in_(items))
                    rows[table] = connection.execute(query).mappings().all()
        due = {(row["item"], row["rater"]): row["checksum"] for row in rows.pop(CHECKSUMS)}
        found = [row for own in rows.values() for row in own]
        if not due and rater is None:
            return CheckedVotes(rows, [], len(found))
        wrong = [
            (row["item"], row["rater"], "differs from its checksum")
            for row in found
            if due.pop((row["item"], row["rater"]), None) != _checksum(row)
        ]
        wrong += [(*lost, "is lost") for lost in due]
        told = [
            f"votes {self.name}: the vote of rater {str(rater)[:12]!r} on {item!r} {what}; put the database"
            " back from a copy, or leave that rater out: 'limner study withdraw'"
            for item, rater, what in wrong
        ]
        return CheckedVotes(rows, told, 0)

    def unsound(self) -> list[str]:
        """Errors that SQLite finds in the whole file; empty if it is sound, or not a file."""
        if not self._sqlite:
            return []
        with self.reading() as connection:
            said = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        return [] if said == ["ok"] else [f"{line}; put the database back from a copy" for line in said]

    @staticmethod
    def _sound(found: CheckedVotes, table: sql.Table) -> list[sql.RowMapping]:
        """Rows of votes by time.

        Raises:
            DataError: a vote is damaged.
        """
        if found.damaged:
            raise DataError(found.damaged[0])
        return sorted(found.rows[table], key=lambda row: (row["time"], row["rater"], row["item"]))

    @staticmethod
    def _add_checksums(connection: sql.Connection, votes: Sequence[Row]) -> None:
        rows = [{key: one[key] for key in ("study", "item", "rater")} for one in votes]
        rows = [row | {"checksum": _checksum(one)} for row, one in zip(rows, votes, strict=True)]
        if rows:
            connection.execute(sql.insert(CHECKSUMS), rows)


def _checksum(vote: Row) -> str:
    """Checksum of a row of `VOTES` or `WITHDRAWN`: of the names and values of its columns, as stored."""
    return checksum(repr(sorted(vote.items())).encode("utf-8", "surrogatepass"))


def _vote(row: sql.RowMapping, answer: Answer | None, shown: Sequence[str] = (), seconds: float = 0) -> Vote:
    return Vote(
        item=row["item"],
        rater=row["rater"],
        answer=answer,
        shown_order=tuple(shown),
        seconds=seconds,
        time=datetime.fromtimestamp(row["time"], UTC),
    )


def _answer(stored: str) -> Answer:
    said = json.loads(stored)
    answer: Answer = tuple(said) if isinstance(said, list) else said
    return answer


def _lapsed(held: float, now: float, hold_s: float) -> bool:
    """Whether a place has been held for too long.

    A time to come is one as well: the server was started again after the machine's clock had been set back.
    Other servers' clocks may be a little ahead.
    """
    return not now - hold_s <= held <= now + hold_s


def steady_clock() -> Callable[[], float]:
    """A clock that nobody sets: seconds since 1970 as they were when it was made, and on from there evenly.

    It goes on while the machine sleeps, where the system has a clock that does.
    """
    passed: Callable[[], float] = time.monotonic
    if sys.platform == "linux":
        passed = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    elif sys.platform == "darwin":
        passed = partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    start = time.time() - passed()
    return lambda: start + passed()


def votes_url(folder: Path, votes: str | None = None) -> sql.URL:
    """Location of the votes of a study.

    Args:
        folder: folder of the study.
        votes: a URL such as ``postgresql://user@host/name``, the path of an SQLite file, or None for the file
            in the folder of the study.
    Raises:
        ConfigError: neither SQLite nor PostgreSQL.
    """
    if votes is None or "://" not in votes:
        return sql.URL.create("sqlite", database=str(Path(votes or folder / VOTES_FILE).absolute()))
    try:
        url = sql.make_url(votes)
    except (sql.exc.ArgumentError, ValueError) as error:
        raise ConfigError(f"--votes: {error}; expected such as postgresql://user@host/name") from None
    kind = url.get_backend_name()
    if kind in ("postgresql", "postgres"):
        # psycopg 3 by name: releases of SQLAlchemy differ in what the bare word stands for.
        return url.set(drivername="postgresql+psycopg")
    if kind != "sqlite" or not url.database or url.database == ":memory:":
        raise ConfigError(f"--votes: {votes!r}; expected the path of an SQLite file or a postgresql:// URL")
    return url


def _engine(url: sql.URL, *, reading_only: bool) -> sql.Engine:
    pool: dict[str, Any] = {
        "poolclass": sql.QueuePool,
        "pool_size": 10,
        "max_overflow": 30,
        "pool_timeout": BUSY_S,
        "pool_pre_ping": True,
    }
    if url.get_backend_name() != "sqlite":
        try:
            return sql.create_engine(url, connect_args={"connect_timeout": 10}, **pool)
        except ModuleNotFoundError as error:
            raise MissingError(f"{error.name} is not installed; pip install 'limner[studies]'") from None
    place = Path(url.database or "").absolute()
    if not place.parent.is_dir():
        raise DataError(f"votes {url.database}: its folder is not there")
    if reading_only:
        url = url.set(database=place.as_uri(), query={"mode": "ro", "uri": "true"})
    elif not place.exists():
        with suppress(OSError):  # SQLite says what is wrong; it gives its other files the rights of this
            place.touch(mode=PRIVATE_FILE)

    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        """Let readers and a writer work at once, and keep what refers to each other together."""
        connection.isolation_level = None  # transactions begin where `VoteBase` says, not where it guesses
        for setting in () if reading_only else ("journal_mode=WAL", "foreign_keys=ON", "secure_delete=ON"):
            connection.execute(f"PRAGMA {setting}")  # the last overwrites what a rater withdraws

    engine = sql.create_engine(url, connect_args={"timeout": BUSY_S, "check_same_thread": False}, **pool)
    sql.event.listen(engine, "connect", prepare)
    return engine


def _passing(error: sql.exc.DBAPIError | UnicodeDecodeError, turn: int) -> bool:
    """Whether doing it again may help: a lock, a race, a deadlock, a connection that broke."""
    if isinstance(error, UnicodeDecodeError):  # of a damaged file
        return False
    said = str(error.orig)
    if error.connection_invalidated or "already exists" in said:  # another server made the tables just now
        return True
    if isinstance(error, sql.exc.IntegrityError):  # a race is over the next time; a fault of ours stays
        return turn < 3
    return isinstance(error, sql.exc.OperationalError) and not any(word in said for word in _LASTING)


def read_stored(folder: Path | str, votes: str | None = None) -> StoredVotes:
    """The votes of a study without a server.

    Args:
        folder: folder of the study.
        votes: see `votes_url`; or a .jsonl file of exported votes.
    Raises:
        MissingError: there is no such file yet.
        LimnerError: as `read_study` and `VoteBase`.
    """
    if votes is not None and votes.endswith(".jsonl"):
        return StoredVotes(read_votes(votes))
    with stored_votes(folder, votes) as base:
        return StoredVotes([*base.votes(), *base.withdrawn()], base.crowds(), base.panelists())


@contextmanager
def stored_votes(folder: Path | str, votes: str | None = None) -> Iterator[VoteBase]:
    """The database of a study that has votes already.

    Args:
        folder: folder of the study.
        votes: see `votes_url`.
    Raises:
        MissingError: there is no such file yet.
        LimnerError: as `read_study` and `VoteBase`.
    """
    home = Path(folder)
    study = read_study(home, pictures=False).study
    url = votes_url(home, votes)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        raise MissingError(
            f"{url.database}: no votes yet; 'limner study serve {home}' collects them; --votes names others"
        )
    with closing(VoteBase(home, study, votes)) as base:
        yield base
