"""Stores a study's raters, reserved places and votes in SQLite (default) or PostgreSQL (by URL).

A vote is stored before it is acknowledged and is never overwritten. Writers of one study run one at a time;
transient errors (a lock, a race, a server restart) are retried.
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
        "sqlalchemy, which stores the votes of a study, is not installed; pip install 'limner[studies]'"
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


# Writers of one study lock its row, because PostgreSQL would let them run concurrently.
STUDIES = _table("limner_studies", ["sha256"], _text("title"))
RATERS = _table(
    "limner_raters",
    ["study", "id"],
    _number("consented"),  # seconds since 1970, UTC, like all times here
    sql.ForeignKeyConstraint(["study"], ["limner_studies.sha256"]),
)
# A unit is the content of one page: an item, or all steps of a sequence. Places are numbered from 1 to the
# raters wanted; attention checks, which every rater is shown, have places without a number.
PLACES = _table(
    "limner_places",
    ["study", "unit", "rater"],
    sql.Column("place", sql.Integer),
    _number("held"),  # when the place was last requested
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
    _text("answer"),  # JSON: a string, or a list of candidates
    _text("shown_order"),  # JSON list
    _number("seconds"),
    _number("time"),
    sql.ForeignKeyConstraint(
        ["study", "unit", "rater"], ["limner_places.study", "limner_places.unit", "limner_places.rater"]
    ),
)
# Ids of raters on a panel such as Prolific, stored separately from the answers.
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
# Later versions add tables and never change those above, so that older databases still open.
WITHDRAWALS = _table(
    "limner_withdrawals",
    ["study", "rater"],
    _number("time"),
    _text("asked_by", 16),  # the rater, or the owner of the study
    _of_rater(),
)
# Raters who began shortly after one another from one network address. The address is not stored; a crowd has
# a random name.
CROWDS = _table("limner_crowds", ["study", "rater"], _text("crowd", 16), _of_rater())
# Withdrawn votes without their answers, so that they can be counted.
WITHDRAWN = _table("limner_withdrawn_votes", ["study", "item", "rater"], _text("unit", 128), _number("time"))
# Checksums of all votes, including withdrawn ones, to detect rows that were corrupted or lost.
CHECKSUMS = _table("limner_vote_checksums", ["study", "item", "rater"], _text("checksum", 32))

VOTES_FILE = "votes.sqlite"
TRIES = 9
FIRST_WAIT_S = 0.02
BUSY_S = 30
HOLD_S = 1200.0
LEAST_LETTERS = 8
"""Least length of a prefix that may be given instead of a rater's id."""
# Words in the messages of errors that are not transient.
_LASTING = ("full", "not a database", "readonly", "I/O", "does not exist", "authentication failed", "no such")
Made = TypeVar("Made")
Outcome = Literal["stored", "stands", "gone"]
Row = sql.RowMapping | Mapping[str, object]


class TakenError(DataError):
    """A panel's worker already takes part under another submission."""


@dataclass(frozen=True)
class Turn:
    """Next task of a rater.

    Attributes:
        unit: the page to answer; None if there is none.
        answered: number of pages this rater has answered, including checks.
        left: number of pages that may follow this one, including checks.
        waiting: whether all places are taken now, but reserved ones may become free.
        withdrawn: whether the rater has withdrawn.
    """

    unit: Unit | None
    answered: int
    left: int
    waiting: bool = False
    withdrawn: bool = False


class CheckedVotes(NamedTuple):
    """Votes as stored, and the results of checking them.

    Attributes:
        rows: table → its rows.
        damaged: one message per vote that was changed or lost.
        unchecked: number of votes without a checksum, all written by an earlier version.
    """

    rows: Mapping[sql.Table, Sequence[sql.RowMapping]]
    damaged: list[str]
    unchecked: int


@dataclass(frozen=True)
class StoredVotes:
    """Votes of a study, read without a server.

    Attributes:
        votes: all votes; withdrawn ones come last.
        crowds: rater → crowd; empty if the votes come from an exported file.
        panelists: rater → ids on the panel; empty if the votes come from an exported file.
    """

    votes: list[Vote]
    crowds: Mapping[str, str] = field(default_factory=dict)
    panelists: Mapping[str, Panelist] = field(default_factory=dict)


class VoteBase:
    """Store of the votes of one study."""

    def __init__(
        self,
        folder: Path,
        study: Study,
        votes: str | None = None,
        *,
        clock: Callable[[], float] | None = None,
        reading_only: bool = False,
    ) -> None:
        """Connect, and create missing tables.

        Args:
            folder: folder of the study.
            study: its registration; one database may hold the votes of several studies.
            votes: see `votes_url`.
            clock: returns seconds, for reservations and durations; default: `steady_clock`. Dates come from
                the machine's clock.
            reading_only: whether to open read-only, without creating missing tables.
        Raises:
            ConfigError: the kind of database is not supported.
            MissingError: its driver is not installed.
            DataError: the database cannot be reached or is invalid.
        """
        url = votes_url(folder, votes)
        self._sqlite = url.get_backend_name() == "sqlite"
        self.name = url.render_as_string(hide_password=True)
        self._place = url.database if self._sqlite and url.database else self.name
        self._study, self._reading_only = study.sha256, reading_only
        self._clock = clock or steady_clock()
        self._known: set[str] = set()  # a cache, which stays valid because raters are never deleted
        # Threads of one server wait here; in the database they would poll, or hold a connection while
        # waiting. Several servers are synchronised only by the database.
        self._writer = threading.Lock()
        self._registered = sql.select(STUDIES.c.sha256).where(STUDIES.c.sha256 == self._study)
        self._engine = _engine(url, reading_only=reading_only)
        if reading_only:
            return
        self._patiently(lambda: METADATA.create_all(self._engine))

        def register(connection: sql.Connection) -> None:
            if connection.scalar(self._registered) is None:
                connection.execute(STUDIES.insert().values(sha256=self._study, title=study.title))
            # Votes of an earlier version get checksums as they are now.
            if connection.scalar(sql.select(CHECKSUMS.c.item).where(*self._of(CHECKSUMS)).limit(1)) is None:
                for table in (VOTES, WITHDRAWN):
                    rows = connection.execute(sql.select(table).where(*self._of(table))).mappings().all()
                    self._add_checksums(connection, rows)

        self.write(register)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """A connection for reading, with a consistent view of the database."""
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
        """Run `work` in a transaction, and retry after a transient error.

        Args:
            work: reads and writes; it may run several times, but only one run is committed.
            lasting: whether to wait until the data are on disk. Otherwise the transaction survives a crash of
                the program, but perhaps not a power failure before the next lasting transaction.
        Returns:
            The result of `work`, after the commit.
        Raises:
            DataError: it failed, and for a transient error also after several tries.
            StorageError: the disk of the database is full, or cannot be written.
        """

        def once() -> Made:
            with self._writer, self._engine.connect() as connection, connection.begin():
                if self._sqlite:
                    connection.exec_driver_sql(f"PRAGMA synchronous={'FULL' if lasting else 'NORMAL'}")
                    # Take the write lock now: another writer may commit between our first read and first
                    # write.
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
            # random jitter, so that writers that collided do not collide again
            time.sleep(FIRST_WAIT_S * 2**turn * random.uniform(0.5, 1))  # noqa: S311
        raise AssertionError("unreachable")

    def _refused(self, error: sql.exc.DBAPIError | UnicodeDecodeError) -> LimnerError:
        cause = (isinstance(error, sql.exc.DBAPIError) and error.orig) or error
        refused = storage_error(cause, self._place)
        if refused is not None:
            return refused
        reason = " ".join(str(cause).split())[:200]
        if any(word in reason for word in ("malformed", "not a database", "decode")):
            return DataError(f"votes {self.name}: damaged ({reason}); restore the database from a backup")
        return DataError(f"votes {self.name}: {reason}; check that the database exists and is writable")

    def _of(self, table: sql.Table, **values: object) -> list[sql.ColumnElement[bool]]:
        """SQL conditions for rows of this study with these values."""
        return [table.c[name] == value for name, value in {"study": self._study, **values}.items()]

    def _holds(self, connection: sql.Connection, table: sql.Table, **values: object) -> bool:
        """Whether a table has a row of this study with these values."""
        return connection.scalar(sql.select(table.c.study).where(*self._of(table, **values))) is not None

    # Raters

    def join(self, secret: str, panelist: Panelist | None = None) -> str:
        """Register a rater who has just consented, unless the secret is already registered.

        Args:
            secret: the rater's secret, see `limner.research.study.recruitment.new_secret`.
            panelist: the rater's ids on the panel.
        Returns:
            The rater's public id, which is stored with votes and does not reveal the secret.
        Raises:
            TakenError: this worker already takes part as another rater.
        """
        rater = public_id(secret)

        def work(connection: sql.Connection) -> str:
            if self._holds(connection, RATERS, id=rater):
                return rater
            same = panelist and panelist.model_dump(include={"panel", "worker"})
            if same and self._holds(connection, PANELISTS, **same):
                raise TakenError("this worker already takes part")
            row = {"study": self._study, "id": rater, "consented": time.time()}
            connection.execute(sql.insert(RATERS).values(**row))
            if panelist is not None:
                ids = {**panelist.model_dump(), "salt": secrets.token_hex(16)}
                connection.execute(sql.insert(PANELISTS).values(study=self._study, rater=rater, **ids))
            return rater

        return self.write(work)

    def knows(self, rater: str) -> bool:
        """Whether a rater with this public id takes part, or did before withdrawing."""
        if rater not in self._known:
            with self.reading() as connection:
                if not self._holds(connection, RATERS, id=rater):
                    return False
            self._known.add(rater)
        return True

    def find(self, words: str) -> str:
        """The public id of a rater.

        Args:
            words: the id, a prefix of at least eight characters, or the panel's worker id.
        Raises:
            ConfigError: no rater or several raters match.
        """
        like = RATERS.c.id.startswith(words, autoescape=True) if len(words) >= LEAST_LETTERS else sql.false()
        with self.reading() as connection:
            raters: set[str] = set(connection.scalars(sql.select(RATERS.c.id).where(*self._of(RATERS), like)))
            called = sql.select(PANELISTS.c.rater).where(*self._of(PANELISTS, worker=words))
            raters |= set(connection.scalars(called))
        if len(raters) != 1:
            raise ConfigError(
                f"--rater {words!r}: {len(raters) or 'no'} raters of this study match; give the id in"
                f" the votes, its first {LEAST_LETTERS} characters or more, or the panel's worker id"
            )
        return raters.pop()

    def withdrew(self, rater: str) -> bool:
        """Whether a rater has withdrawn."""
        with self.reading() as connection:
            return self._holds(connection, WITHDRAWALS, rater=rater)

    def withdraw(self, rater: str, by: Literal["rater", "owner"]) -> int:
        """Delete a rater's answers and panel ids, and free the places.

        The number of withdrawn answers and their items stay on record, without the answers.

        Args:
            rater: public id of a rater who takes part.
            by: who asked for it.
        Returns:
            Number of votes deleted; 0 if the rater had already withdrawn.
        Raises:
            DataError: a database error; nothing was deleted.
        """

        def work(connection: sql.Connection) -> int:
            if self._holds(connection, WITHDRAWALS, rater=rater):
                return 0
            row = {"study": self._study, "rater": rater, "time": time.time(), "asked_by": by}
            connection.execute(sql.insert(WITHDRAWALS).values(**row))
            names = [column.name for column in WITHDRAWN.columns]
            stored = sql.select(*(VOTES.c[name] for name in names)).where(*self._of(VOTES, rater=rater))
            connection.execute(sql.insert(WITHDRAWN).from_select(names, stored))
            count, *_ = [
                connection.execute(sql.delete(table).where(*self._of(table, rater=rater))).rowcount
                for table in (VOTES, PLACES, PANELISTS, CROWDS, CHECKSUMS)
            ]
            left = connection.execute(sql.select(WITHDRAWN).where(*self._of(WITHDRAWN, rater=rater)))
            self._add_checksums(connection, left.mappings().all())
            return count

        return self.write(work)

    def mark(self, crowd: str, raters: Sequence[str]) -> None:
        """Record that raters began shortly after one another from one network address.

        Args:
            crowd: name of the crowd.
            raters: public ids that were not recorded before.
        """

        def work(connection: sql.Connection) -> None:
            gone = set(connection.scalars(sql.select(WITHDRAWALS.c.rater).where(*self._of(WITHDRAWALS))))
            rows = [
                {"study": self._study, "rater": rater, "crowd": crowd}
                for rater in raters
                if rater not in gone
            ]
            if rows:
                connection.execute(sql.insert(CROWDS), rows)

        self.write(work, lasting=False)

    def crowds(self) -> Mapping[str, str]:
        """Public id → crowd, for raters in a crowd."""
        return {row["rater"]: row["crowd"] for row in self._rows(CROWDS)}

    def panelists(self) -> Mapping[str, Panelist]:
        """Public id → the rater's ids on the panel."""
        return {
            row["rater"]: Panelist(**{name: row[name] for name in Panelist.model_fields})
            for row in self._rows(PANELISTS)
        }

    def _rows(self, table: sql.Table) -> Sequence[sql.RowMapping]:
        with self.reading() as connection:
            return connection.execute(sql.select(table).where(*self._of(table))).mappings().all()

    # Places and answers

    def turn(self, rater: str, plan: AssignmentPlan, *, hold_s: float = HOLD_S) -> Turn:
        """The page reserved for a rater, or the next page, which is then reserved.

        Args:
            rater: public id of a rater who takes part.
            plan: assignment of pages.
            hold_s: seconds after which an unanswered place may go to another rater; changes of the machine's
                clock have no effect.
        Raises:
            DataError: a database error.
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
                # If the reservation has lapsed, the time starts again.
                place = mine[held]
                anew = _lapsed(place.held, now, hold_s) or place.shown > now
                shown_at = now if anew else place.shown
                mine_now = self._of(PLACES, unit=held, rater=rater)
                connection.execute(sql.update(PLACES).where(*mine_now).values(held=now, shown=shown_at))
            unit = None if held is None else plan.units[held]
            room = plan.room(answered)
            left = room - 1 if unit is not None and not unit.check else room
            count = min(sum(name != held for name in plan.open(answered, load)), max(0, left))
            waiting = unit is None and room > 0 and self._others_hold(connection, plan, answered)
            seen = [plan.units[name] for name in answered if name in plan.units]
            seen += [] if unit is None else [unit]
            met = sum(page.check for page in seen)
            checks = plan.checks_among(rater, len(seen) - met + count) - met
            return Turn(unit, len(answered), count + max(0, checks), waiting)

        # A reservation lost in a power failure is made again with the next request.
        return self.write(work, lasting=False)

    def vote(self, rater: str, unit: Unit, answers: Sequence[tuple[str, Answer, Sequence[str]]]) -> Outcome:
        """Store a rater's answers on a page, all or none, and only once.

        Args:
            rater: public id.
            unit: the page, which is reserved for the rater.
            answers: for each item its id, the answer in canonical terms, and the order shown.
        Returns:
            ``stored``; ``stands`` if the rater has already answered this page; ``gone`` if the reservation
            lapsed and the place went to another rater.
        Raises:
            DataError: a database error; nothing was stored.
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
                    "shown_order": json.dumps(list(order)),
                    "seconds": max(0.0, now - place.shown),
                    "time": time.time(),
                }
                for item, answer, order in answers
            ]
            connection.execute(sql.insert(VOTES), rows)
            self._add_checksums(connection, rows)
            return "stored"

        return self.write(work)

    def _mine(self, connection: sql.Connection, rater: str) -> dict[str, sql.Row[Any]]:
        rows = connection.execute(sql.select(PLACES).where(*self._of(PLACES, rater=rater)))
        return {row.unit: row for row in rows}

    def _load(self, connection: sql.Connection, now: float, hold_s: float) -> dict[str, int]:
        """Page → number of raters that answered it or have it reserved."""
        lately = PLACES.c.held.between(now - hold_s, now + hold_s)
        query = (
            sql.select(PLACES.c.unit, sql.func.count())
            .where(*self._of(PLACES), sql.or_(PLACES.c.voted.is_not(None), lately))
            .group_by(PLACES.c.unit)
        )
        return {row[0]: row[1] for row in connection.execute(query)}

    def _others_hold(self, connection: sql.Connection, plan: AssignmentPlan, answered: set[str]) -> bool:
        """Whether a page is full only because of reservations."""
        query = sql.select(PLACES.c.unit).where(*self._of(PLACES, voted=None)).distinct()
        pages = set(connection.scalars(query)) - answered
        return any(not plan.units[name].check for name in pages if name in plan.units)

    def _free_place(
        self, connection: sql.Connection, name: str, raters: int, now: float, hold_s: float
    ) -> int:
        """Number of a free place on a page, else of the oldest lapsed reservation, which is deleted."""
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
        """Answers of a rater on some items: item → answer.

        Raises:
            DataError: one of these votes is damaged.
        """
        rows = self._sound(self.checked(rater, items), VOTES)
        return {row["item"]: _answer(row["answer"]) for row in rows}

    def votes(self) -> list[Vote]:
        """All votes that were not withdrawn, by time.

        Raises:
            DataError: a vote is damaged.
        """
        return [
            _vote(row, _answer(row["answer"]), json.loads(row["shown_order"]), row["seconds"])
            for row in self._sound(self.checked(), VOTES)
        ]

    def withdrawn(self) -> list[Vote]:
        """Withdrawn votes, without answers, by time.

        Raises:
            DataError: a vote is damaged.
        """
        return [_vote(row, None) for row in self._sound(self.checked(), WITHDRAWN)]

    def checked(self, rater: str | None = None, items: Collection[str] = ()) -> CheckedVotes:
        """Check votes, including withdrawn ones, against their checksums.

        Args:
            rater: public id; None for all votes.
            items: items to check; used only with `rater`.
        """
        with self.reading() as connection:
            names = sql.inspect(connection).get_table_names() if self._reading_only else METADATA.tables
            rows: dict[sql.Table, Sequence[sql.RowMapping]] = dict.fromkeys((VOTES, WITHDRAWN, CHECKSUMS), ())
            for table in rows:
                if table.name in names:  # databases of earlier versions have fewer tables
                    query = sql.select(table).where(*self._of(table))
                    if rater is not None:
                        query = query.where(table.c.rater == rater, table.c.item.in_(items))
                    rows[table] = connection.execute(query).mappings().all()
        due = {(row["item"], row["rater"]): row["checksum"] for row in rows.pop(CHECKSUMS)}
        votes = [row for table_rows in rows.values() for row in table_rows]
        if not due and rater is None:
            return CheckedVotes(rows, [], len(votes))
        wrong = [
            (row["item"], row["rater"], "differs from its checksum")
            for row in votes
            if due.pop((row["item"], row["rater"]), None) != _checksum(row)
        ]
        wrong += [(*lost, "is missing") for lost in due]
        messages = [
            f"votes {self.name}: the vote of rater {str(rater)[:12]!r} on {item!r} {what}; restore the"
            " database from a backup, or withdraw that rater: 'limner study withdraw'"
            for item, rater, what in wrong
        ]
        return CheckedVotes(rows, messages, 0)

    def unsound(self) -> list[str]:
        """Errors from SQLite's integrity check of the whole file; always empty for PostgreSQL."""
        if not self._sqlite:
            return []
        with self.reading() as connection:
            lines = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        return [] if lines == ["ok"] else [f"{line}; restore the database from a backup" for line in lines]

    @staticmethod
    def _sound(found: CheckedVotes, table: sql.Table) -> list[sql.RowMapping]:
        """Rows of a table of checked votes, by time.

        Raises:
            DataError: a vote is damaged.
        """
        if found.damaged:
            raise DataError(found.damaged[0])
        return sorted(found.rows[table], key=lambda row: (row["time"], row["rater"], row["item"]))

    @staticmethod
    def _add_checksums(connection: sql.Connection, votes: Sequence[Row]) -> None:
        rows = [{key: vote[key] for key in ("study", "item", "rater")} for vote in votes]
        rows = [row | {"checksum": _checksum(vote)} for row, vote in zip(rows, votes, strict=True)]
        if rows:
            connection.execute(sql.insert(CHECKSUMS), rows)


def _checksum(vote: Row) -> str:
    """Checksum of a row of `VOTES` or `WITHDRAWN`, over the names and stored values of its columns."""
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
    value = json.loads(stored)
    answer: Answer = tuple(value) if isinstance(value, list) else value
    return answer


def _lapsed(held: float, now: float, hold_s: float) -> bool:
    """Whether a reservation has lapsed.

    A time in the future counts as lapsed too (the clock was set back before the server restarted), unless it
    is less than `hold_s` ahead, as other servers' clocks may be.
    """
    return not now - hold_s <= held <= now + hold_s


def steady_clock() -> Callable[[], float]:
    """A monotonic clock that starts at the current time in seconds since 1970.

    On Linux it also advances while the machine sleeps.
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
        ConfigError: `votes` is neither SQLite nor PostgreSQL.
    """
    if votes is None or "://" not in votes:
        return sql.URL.create("sqlite", database=str(Path(votes or folder / VOTES_FILE).absolute()))
    try:
        url = sql.make_url(votes)
    except (sql.exc.ArgumentError, ValueError) as error:
        raise ConfigError(f"--votes: {error}; expected for example postgresql://user@host/name") from None
    kind = url.get_backend_name()
    if kind in ("postgresql", "postgres"):
        # psycopg 3 by name: the default driver differs between releases of SQLAlchemy.
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
        raise DataError(f"votes {url.database}: the folder does not exist")
    if reading_only:
        url = url.set(database=place.as_uri(), query={"mode": "ro", "uri": "true"})
    elif not place.exists():
        with suppress(OSError):  # SQLite reports the error itself; its other files get this file's mode
            place.touch(mode=PRIVATE_FILE)

    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        """Set up a connection: concurrent readers beside a writer, foreign keys, secure deletion."""
        connection.isolation_level = None  # `VoteBase` begins transactions explicitly
        for setting in () if reading_only else ("journal_mode=WAL", "foreign_keys=ON", "secure_delete=ON"):
            connection.execute(f"PRAGMA {setting}")  # secure_delete overwrites withdrawn answers

    engine = sql.create_engine(url, connect_args={"timeout": BUSY_S, "check_same_thread": False}, **pool)
    sql.event.listen(engine, "connect", prepare)
    return engine


def _passing(error: sql.exc.DBAPIError | UnicodeDecodeError, turn: int) -> bool:
    """Whether an error is transient: a lock, a race, a deadlock or a lost connection."""
    if isinstance(error, UnicodeDecodeError):  # the file is damaged
        return False
    message = str(error.orig)
    if (
        error.connection_invalidated or "already exists" in message
    ):  # another server has just created the tables
        return True
    if isinstance(error, sql.exc.IntegrityError):  # a race does not repeat; a bug does
        return turn < 3
    return isinstance(error, sql.exc.OperationalError) and not any(word in message for word in _LASTING)


def read_stored(folder: Path | str, votes: str | None = None) -> StoredVotes:
    """Read the votes of a study without a server.

    Args:
        folder: folder of the study.
        votes: see `votes_url`; or a .jsonl file of exported votes.
    Raises:
        MissingError: the file does not exist (yet).
        LimnerError: as `read_study` and `VoteBase`.
    """
    if votes is not None and votes.endswith(".jsonl"):
        return StoredVotes(read_votes(votes))
    with stored_votes(folder, votes) as base:
        return StoredVotes([*base.votes(), *base.withdrawn()], base.crowds(), base.panelists())


@contextmanager
def stored_votes(folder: Path | str, votes: str | None = None) -> Iterator[VoteBase]:
    """Open the existing vote database of a study.

    Args:
        folder: folder of the study.
        votes: see `votes_url`.
    Raises:
        MissingError: the file does not exist (yet).
        LimnerError: as `read_study` and `VoteBase`.
    """
    home = Path(folder)
    study = read_study(home, pictures=False).study
    url = votes_url(home, votes)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        raise MissingError(
            f"{url.database}: no votes yet; collect them with 'limner study serve {home}', or name another"
            " database with --votes"
        )
    with closing(VoteBase(home, study, votes)) as base:
        yield base
