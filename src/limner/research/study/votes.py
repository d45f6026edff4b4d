"""The votes of a study: who takes part, who holds which place, and what was answered.

Everything that raters send ends here, once and for good: a vote is stored before it is acknowledged, and what
stands is never replaced.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from limner.errors import DataError, MissingError
from limner.research.study.assignment import AssignmentPlan, Unit
from limner.research.study.connection import CHECKSUMS, PLACES, VOTES, WITHDRAWALS, checksums_of, votes_url
from limner.research.study.raters import Raters
from limner.research.study.records import Answer, Vote, read_study

import sqlalchemy as sql  # isort: skip  (`connection` has said clearly what to install where this would fail)

HOLD_S = 1200.0
Outcome = Literal["stored", "stands", "gone"]


@dataclass(frozen=True)
class Turn:
    """What a rater is to do now.

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


class VoteBase(Raters):
    """The votes of one study in a database."""

    def turn(self, rater: str, plan: AssignmentPlan, *, hold_s: float = HOLD_S) -> Turn:
        """The page a rater holds, or else the next one, on which a place is then held for them.

        Args:
            rater: public id of one who takes part.
            plan: how pages are dealt.
            hold_s: seconds after which a place that was not answered may be given to another, whatever the
                machine's clock is set to meanwhile.
        Raises:
            DataError: the database refused.
        """

        def work(connection: sql.Connection) -> Turn:
            now = self._clock()
            gone = sql.select(WITHDRAWALS.c.rater).where(*self._of(WITHDRAWALS, rater=rater))
            if connection.scalar(gone):
                return Turn(None, 0, 0, withdrawn=True)
            mine = self._mine(connection, rater)
            answered = {unit for unit, row in mine.items() if row.voted is not None}
            load = self._load(connection, now, hold_s)
            held = next((unit for unit in mine if unit not in answered and unit in plan.units), None)
            if held is None:
                real = plan.choice(rater, answered, load)
                held = plan.due_check(rater, answered, last=real is None) or real
                if held is not None:
                    self._take(connection, rater, plan, held, now, hold_s)
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
            connection.execute(sql.insert(CHECKSUMS), checksums_of(rows))
            return "stored"

        return self.write(work)

    def answers(self, rater: str, items: Collection[str]) -> dict[str, Answer]:
        """What a rater answered on some items.

        Raises:
            DataError: a vote of theirs is damaged.
        """
        return {row["item"]: _answer(row["answer"]) for row in self._sound(VOTES, rater, items)}

    def votes(self) -> list[Vote]:
        """All votes that stand, by time.

        Raises:
            DataError: a vote is damaged.
        """
        return [
            Vote(
                item=row["item"],
                rater=row["rater"],
                answer=_answer(row["answer"]),
                shown_order=json.loads(row["shown_order"]),
                seconds=row["seconds"],
                time=datetime.fromtimestamp(row["time"], UTC),
            )
            for row in self._sound(VOTES)
        ]

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

    def _take(  # noqa: PLR0917
        self,
        connection: sql.Connection,
        rater: str,
        plan: AssignmentPlan,
        name: str,
        now: float,
        hold_s: float,
    ) -> None:
        """Hold a place on a page, one that was given up if no other is free."""
        number = None
        if not plan.units[name].check:
            here = self._of(PLACES, unit=name)
            rows = connection.execute(sql.select(PLACES).where(*here)).all()
            free = sorted(set(range(1, plan.raters + 1)) - {row.place for row in rows})
            if not free:
                old = min(
                    (row for row in rows if row.voted is None and _lapsed(row.held, now, hold_s)),
                    key=lambda row: row.held,
                    default=None,
                )
                if old is None:
                    raise DataError(f"votes: {name}: no place left of {plan.raters}")
                connection.execute(sql.delete(PLACES).where(*here, PLACES.c.rater == old.rater))
                free = [old.place]
            number = free[0]
        connection.execute(
            sql.insert(PLACES).values(
                study=self._study, unit=name, rater=rater, place=number, held=now, shown=now
            )
        )


def _lapsed(held: float, now: float, hold_s: float) -> bool:
    """Whether a place has been held for too long.

    A time to come is one as well: the server was started anew after the machine's clock had been set back.
    Other servers' clocks may be a little ahead.
    """
    return not now - hold_s <= held <= now + hold_s


def _answer(stored: str) -> Answer:
    said = json.loads(stored)
    answer: Answer = tuple(said) if isinstance(said, list) else said
    return answer


def read_stored(folder: Path | str, votes: str | None = None) -> list[Vote]:
    """All votes of a study without a server, those that were withdrawn last.

    Args:
        folder: of the study.
        votes: see `votes_url`.
    Raises:
        MissingError: there is no such file yet.
        LimnerError: as `read_study` and `VoteBase`.
    """
    with stored_votes(folder, votes) as base:
        return [*base.votes(), *base.withdrawn()]


@contextmanager
def stored_votes(folder: Path | str, votes: str | None = None) -> Iterator[VoteBase]:
    """The database of a study that has votes already.

    Args:
        folder: of the study.
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
