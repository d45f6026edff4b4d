"""Who takes part in a study: they join, come from a panel, and may withdraw with all that they answered.

A rater is a random number. What a panel calls them is kept apart from their answers, and goes when they do.
"""

from __future__ import annotations

import hashlib
import secrets
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from limner.errors import ConfigError, DataError
from limner.records import Record
from limner.research.study.connection import (
    CHECKSUMS,
    CROWDS,
    METADATA,
    PANELISTS,
    PLACES,
    RATERS,
    VOTES,
    WITHDRAWALS,
    WITHDRAWN,
    Connections,
    checksum_of,
    checksums_of,
    votes_url,
)
from limner.research.study.records import Study, Vote

import sqlalchemy as sql  # isort: skip  (`connection` has said clearly what to install where this would fail)

LEAST_LETTERS = 8
"""Of a rater's id, where only its beginning is given."""


class Panelist(Record):
    """How a panel knows a rater.

    Attributes:
        panel: prolific or mturk.
        worker: the person.
        batch: the study or the HIT, as the panel calls it.
        session: this submission or assignment.
        salt: random, of this rater alone.
    """

    panel: str
    worker: str
    batch: str = ""
    session: str = ""
    salt: str = ""

    @property
    def hashed(self) -> str:
        """What stands for the worker where nobody is to know them: a hash that needs the salt."""
        return hashlib.sha256(f"{self.salt}\x1f{self.panel}\x1f{self.worker}".encode()).hexdigest()[:16]

    def secret(self, study: str) -> str:
        """The rater's secret: the address that a panel gave leads to the same rater every time."""
        words = "\x1f".join((study, self.panel, self.worker, self.batch, self.session))
        return urlsafe_b64encode(hashlib.sha256(words.encode()).digest()[:18]).decode()


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


class TakenError(DataError):
    """A worker of a panel who takes part already, by another submission."""


class Raters(Connections):
    """Those who take part in one study."""

    def __init__(
        self,
        folder: Path,
        study: Study,
        votes: str | None = None,
        *,
        clock: Callable[[], float] | None = None,
        reading_only: bool = False,
    ) -> None:
        """Connect, and make the tables where there are none.

        Args:
            folder: of the study.
            study: its registration; one database may hold the votes of several.
            votes: see `votes_url`.
            clock: seconds, by which places are held and answers take time; a `steady_clock` unless given.
                Dates are those of the machine.
            reading_only: as of `Connections`.
        Raises:
            LimnerError: as `Connections`.
        """
        super().__init__(votes_url(folder, votes), study.sha256, study.title, reading_only=reading_only)
        self._clock = clock or steady_clock()
        self._known: set[str] = set()  # nobody is ever taken out, so whoever was found once is there

    def join(self, secret: str, panelist: Panelist | None = None) -> str:
        """Take in a rater who has just consented; the same secret again is the same rater.

        Args:
            secret: see `new_secret`; by it they come back.
            panelist: how a panel knows them.
        Returns:
            The rater's public id: votes carry this hash, by which nobody can come back as them.
        Raises:
            TakenError: this worker takes part as another rater.
        """
        rater = public_id(secret)

        def work(connection: sql.Connection) -> str:
            if self._takes_part(connection, rater):
                return rater
            if panelist is not None:
                same = {"panel": panelist.panel, "worker": panelist.worker}
                if connection.scalar(sql.select(PANELISTS.c.rater).where(*self._of(PANELISTS, **same))):
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
                if not self._takes_part(connection, rater):
                    return False
            self._known.add(rater)
        return True

    def withdrew(self, rater: str) -> bool:
        """Whether a rater has withdrawn."""
        query = sql.select(WITHDRAWALS.c.rater).where(*self._of(WITHDRAWALS, rater=rater))
        with self.reading() as connection:
            return connection.scalar(query) is not None

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
            if connection.scalar(sql.select(WITHDRAWALS.c.rater).where(*self._of(WITHDRAWALS, rater=rater))):
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
            sums = checksums_of(left.mappings().all())
            if sums:
                connection.execute(sql.insert(CHECKSUMS), sums)
            return count

        return self.write(work)

    def withdrawn(self) -> list[Vote]:
        """Votes that were withdrawn, without what they said, by time.

        Raises:
            DataError: a vote is damaged.
        """
        return [
            Vote(
                item=row["item"],
                rater=row["rater"],
                answer=None,
                seconds=0,
                time=datetime.fromtimestamp(row["time"], UTC),
            )
            for row in self._sound(WITHDRAWN)
        ]

    def checked(self, rater: str | None = None, items: Collection[str] = ()) -> CheckedVotes:
        """Hold votes, withdrawn ones among them, against their checksums.

        Args:
            rater: whose; None for all votes.
            items: of the rater, on which.
        """
        with self.reading() as connection:
            if connection.dialect.name == "postgresql":  # else each query would have a view of its own
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
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
            if due.pop((row["item"], row["rater"]), None) != checksum_of(row)
        ]
        wrong += [(*lost, "is lost") for lost in due]
        told = [
            f"votes {self.name}: the vote of rater {str(rater)[:12]!r} on {item!r} {what}; put the database"
            " back from a copy, or leave that rater out: 'limner study withdraw'"
            for item, rater, what in wrong
        ]
        return CheckedVotes(rows, told, 0)

    def _sound(
        self, table: sql.Table, rater: str | None = None, items: Collection[str] = ()
    ) -> list[sql.RowMapping]:
        """Rows of votes by time; see `checked`.

        Raises:
            DataError: a vote is damaged.
        """
        found = self.checked(rater, items)
        if found.damaged:
            raise DataError(found.damaged[0])
        return sorted(found.rows[table], key=lambda row: (row["time"], row["rater"], row["item"]))

    def panelists(self) -> Mapping[str, Panelist]:
        """Public id → how a panel knows the rater."""
        with self.reading() as connection:
            rows = connection.execute(sql.select(PANELISTS).where(*self._of(PANELISTS))).mappings().all()
        return {row["rater"]: Panelist(**{name: row[name] for name in Panelist.model_fields}) for row in rows}

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
        query = sql.select(CROWDS.c.rater, CROWDS.c.crowd).where(*self._of(CROWDS))
        with self.reading() as connection:
            return {row.rater: row.crowd for row in connection.execute(query)}

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

    def _takes_part(self, connection: sql.Connection, rater: str) -> bool:
        query = sql.select(RATERS.c.id).where(*self._of(RATERS, id=rater))
        return connection.scalar(query) is not None

    def _of(self, table: sql.Table, **values: object) -> list[sql.ColumnElement[bool]]:
        """Conditions: rows of this study with these values."""
        return [table.c[name] == value for name, value in {"study": self._study, **values}.items()]


def new_secret() -> str:
    """A random name for a rater that nobody can guess: 24 letters, digits, dashes and underscores."""
    return secrets.token_urlsafe(18)


def public_id(secret: str) -> str:
    """What votes carry in place of a rater's secret: nobody can come back as them by it."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()[:32]
