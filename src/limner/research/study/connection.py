"""The votes database: its tables, and patient transactions on SQLite (the default) or PostgreSQL (by URL).

One writer of a study works at a time, and what fails for a passing reason (a lock, a race, a server that was
restarted) is done again.
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from limner.checksums import checksum
from limner.errors import ConfigError, DataError, LimnerError, MissingError
from limner.files import PRIVATE_FILE, storage_error

try:
    import sqlalchemy as sql
except ModuleNotFoundError as error:
    raise MissingError(
        "sqlalchemy is not installed; it keeps the votes of a study; pip install 'limner[studies]'"
    ) from error

METADATA = sql.MetaData()

STUDIES = sql.Table(
    "limner_studies",
    METADATA,
    sql.Column("sha256", sql.String(64), primary_key=True),
    # Writers of one study queue behind this row where the database itself would let them run at once.
    sql.Column("title", sql.Text, nullable=False),
)
RATERS = sql.Table(
    "limner_raters",
    METADATA,
    sql.Column("study", sql.String(64), sql.ForeignKey("limner_studies.sha256"), primary_key=True),
    sql.Column("id", sql.String(64), primary_key=True),
    sql.Column("consented", sql.Float, nullable=False),  # seconds since 1970, UTC, as all times here
)
# A unit is what is shown on one page: an item, or all steps of a sequence. Places are numbered from 1 to the
# raters wanted; an attention check, which everybody is shown, has places without a number.
PLACES = sql.Table(
    "limner_places",
    METADATA,
    sql.Column("study", sql.String(64), primary_key=True),
    sql.Column("unit", sql.String(128), primary_key=True),
    sql.Column("rater", sql.String(64), primary_key=True),
    sql.Column("place", sql.Integer),
    sql.Column("held", sql.Float, nullable=False),  # when the place was last asked for
    sql.Column("shown", sql.Float, nullable=False),  # when the page was first shown
    sql.Column("voted", sql.Float),  # when it was answered; an answered place is never given away
    sql.UniqueConstraint("study", "unit", "place", name="limner_one_rater_per_place"),
    sql.CheckConstraint("place IS NULL OR place >= 1", name="limner_places_from_one"),
    sql.ForeignKeyConstraint(["study", "rater"], ["limner_raters.study", "limner_raters.id"]),
)
VOTES = sql.Table(
    "limner_votes",
    METADATA,
    sql.Column("study", sql.String(64), primary_key=True),
    sql.Column("item", sql.String(64), primary_key=True),
    sql.Column("rater", sql.String(64), primary_key=True),
    sql.Column("unit", sql.String(128), nullable=False),
    sql.Column("answer", sql.Text, nullable=False),  # JSON: a word, or a list of candidates
    sql.Column("shown_order", sql.Text, nullable=False),  # JSON list
    sql.Column("seconds", sql.Float, nullable=False),
    sql.Column("time", sql.Float, nullable=False),
    sql.ForeignKeyConstraint(
        ["study", "unit", "rater"], ["limner_places.study", "limner_places.unit", "limner_places.rater"]
    ),
)
# What a panel such as Prolific calls a rater, kept apart from the answers.
PANELISTS = sql.Table(
    "limner_panelists",
    METADATA,
    sql.Column("study", sql.String(64), primary_key=True),
    sql.Column("rater", sql.String(64), primary_key=True),
    sql.Column("panel", sql.String(16), nullable=False),
    sql.Column("worker", sql.String(128), nullable=False),
    sql.Column("batch", sql.String(128), nullable=False),
    sql.Column("session", sql.String(128), nullable=False),
    sql.Column("salt", sql.String(64), nullable=False),
    sql.UniqueConstraint("study", "panel", "worker", name="limner_one_rater_per_worker"),
    sql.ForeignKeyConstraint(["study", "rater"], ["limner_raters.study", "limner_raters.id"]),
)
# Later versions add tables and leave those above as they are, so that older databases open.
WITHDRAWALS = sql.Table(
    "limner_withdrawals",
    METADATA,
    sql.Column("study", sql.String(64), primary_key=True),
    sql.Column("rater", sql.String(64), primary_key=True),
    sql.Column("time", sql.Float, nullable=False),
    sql.Column("asked_by", sql.String(16), nullable=False),  # the rater, or the owner of the study
    sql.ForeignKeyConstraint(["study", "rater"], ["limner_raters.study", "limner_raters.id"]),
)
# Raters who began one after another from one network address, which itself is kept nowhere.
CROWDS = sql.Table(
    "limner_crowds",
    METADATA,
    sql.Column("study", sql.String(64), primary_key=True),
    sql.Column("rater", sql.String(64), primary_key=True),
    sql.Column("crowd", sql.String(16), nullable=False),  # a random word
    sql.ForeignKeyConstraint(["study", "rater"], ["limner_raters.study", "limner_raters.id"]),
)
WITHDRAWN = sql.Table(  # votes without what they said, so that they can be counted
    "limner_withdrawn_votes",
    METADATA,
    sql.Column("study", sql.String(64), primary_key=True),
    sql.Column("item", sql.String(64), primary_key=True),
    sql.Column("rater", sql.String(64), primary_key=True),
    sql.Column("unit", sql.String(128), nullable=False),
    sql.Column("time", sql.Float, nullable=False),
)
# Of every vote, withdrawn ones among them, so that one which the disk changed or lost is found.
CHECKSUMS = sql.Table(
    "limner_vote_checksums",
    METADATA,
    sql.Column("study", sql.String(64), primary_key=True),
    sql.Column("item", sql.String(64), primary_key=True),
    sql.Column("rater", sql.String(64), primary_key=True),
    sql.Column("checksum", sql.String(32), nullable=False),  # see `checksum_of`
)


VOTES_FILE = "votes.sqlite"
TRIES = 9
FIRST_WAIT_S = 0.02
BUSY_S = 30
_WRITING, _LASTING = "limner_writing", "limner_lasting"
Made = TypeVar("Made")


class Connections:
    """Transactions on the votes of one study.

    Args:
        url: see `votes_url`.
        study: hash of the study, by which its rows are known.
        title: kept beside it for whoever reads the database by hand.
        reading_only: change nothing, also where a table is absent.
    Raises:
        ConfigError: no such kind of database.
        MissingError: its driver is not installed.
        DataError: it cannot be reached, or is no such database.
    """

    def __init__(self, url: sql.URL, study: str, title: str, *, reading_only: bool = False) -> None:
        self.name = url.render_as_string(hide_password=True)
        self._place = url.database if url.get_backend_name() == "sqlite" and url.database else self.name
        self._study = study
        self._engine = _engine(url, reading_only=reading_only)
        # Threads of one server wait for each other here, in order; the database makes them poll, or hold a
        # connection while they wait. Other servers are kept apart by the database alone.
        self._writer = threading.Lock()
        self._registered = sql.select(STUDIES.c.sha256).where(STUDIES.c.sha256 == study)
        self._reading_only = reading_only
        if reading_only:
            return
        self._patiently(lambda: METADATA.create_all(self._engine))

        def register(connection: sql.Connection) -> None:
            if connection.scalar(self._registered) is None:
                connection.execute(STUDIES.insert().values(sha256=study, title=title))
            self._sum_older(connection)

        self.write(register)

    def _sum_older(self, connection: sql.Connection) -> None:
        """Give checksums to votes of an earlier version, which are taken as they are."""
        if connection.scalar(sql.select(CHECKSUMS.c.item).where(CHECKSUMS.c.study == self._study).limit(1)):
            return
        for table in (VOTES, WITHDRAWN):
            rows = connection.execute(sql.select(table).where(table.c.study == self._study)).mappings().all()
            if rows:
                connection.execute(sql.insert(CHECKSUMS), checksums_of(rows))

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    def unsound(self) -> list[str]:
        """What SQLite finds wrong with the whole file; nothing where it is sound."""
        with self.reading() as connection:
            said = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        return [] if said == ["ok"] else [f"{line}; put the database back from a copy" for line in said]

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """One consistent view of what is stored."""
        try:
            with self._engine.connect() as connection:
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
            options = self._engine.execution_options(**{_WRITING: True, _LASTING: lasting})
            with self._writer, options.connect() as connection, connection.begin():
                if connection.dialect.name == "postgresql":  # SQLite has one writer anyhow, see `_begin`
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


def votes_url(folder: Path, votes: str | None = None) -> sql.URL:
    """Where the votes of a study lie.

    Args:
        folder: of the study.
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
    if url.get_backend_name() == "sqlite":
        if not Path(url.database or "").absolute().parent.is_dir():
            raise DataError(f"votes {url.database}: its folder is not there")
        if reading_only:
            place = Path(url.database or "").absolute().as_uri()
            url = url.set(database=place, query={"mode": "ro", "uri": "true"})
        elif not Path(url.database or "").exists():
            with suppress(OSError):  # SQLite says what is wrong; it gives its other files the rights of this
                Path(url.database or "").touch(mode=PRIVATE_FILE)
        engine = sql.create_engine(url, connect_args={"timeout": BUSY_S, "check_same_thread": False}, **pool)
        sql.event.listen(engine, "connect", _prepare_reading if reading_only else _prepare)
        sql.event.listen(engine, "begin", _begin)
        return engine
    try:
        return sql.create_engine(url, connect_args={"connect_timeout": 10}, **pool)
    except ModuleNotFoundError as error:
        raise MissingError(f"{error.name} is not installed; pip install 'limner[studies]'") from None


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    """Make SQLite let readers and a writer work at once, and keep what refers to each other together."""
    connection.isolation_level = None  # transactions begin where `_begin` says, not where the driver guesses
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA secure_delete=ON")  # what a rater withdraws is overwritten


def _prepare_reading(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None


def checksum_of(vote: sql.RowMapping | Mapping[str, object]) -> str:
    """Of a row of `VOTES` or `WITHDRAWN`: the names and values of its columns, as they are stored."""
    return checksum(repr(sorted(vote.items())).encode("utf-8", "surrogatepass"))


def checksums_of(votes: Sequence[sql.RowMapping | Mapping[str, object]]) -> list[dict[str, object]]:
    """Rows of `CHECKSUMS` for such rows."""
    return [
        {name: one[name] for name in ("study", "item", "rater")} | {"checksum": checksum_of(one)}
        for one in votes
    ]


def _begin(connection: sql.Connection) -> None:
    # A transaction that reads first and writes later may find that another has written meanwhile, and fails.
    options = connection.get_execution_options()
    connection.exec_driver_sql(f"PRAGMA synchronous={'FULL' if options.get(_LASTING, True) else 'NORMAL'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get(_WRITING) else "BEGIN")


def _passing(error: sql.exc.DBAPIError | UnicodeDecodeError, turn: int) -> bool:
    """Whether doing it again may help: a lock, a race, a deadlock, a connection that broke."""
    if isinstance(error, UnicodeDecodeError):  # of a damaged file
        return False
    said = str(error.orig)
    if error.connection_invalidated:
        return True
    if isinstance(error, sql.exc.IntegrityError):  # a race is over the next time; a fault of ours stays
        return turn < 3
    if "already exists" in said:  # another server made the tables at the same moment
        return True
    # A full disk or a file that is no database stays so.
    lasting = (
        "full",
        "not a database",
        "readonly",
        "I/O",
        "does not exist",
        "authentication failed",
        "no such",
    )
    return isinstance(error, sql.exc.OperationalError) and not any(word in said for word in lasting)
