"""Who is shown what: which page comes next for a rater, and in what order its pictures stand.

Pages with the fewest raters go first, so that places fill evenly, and whatever is equal is decided by a draw
that can be drawn again. It stores nothing; of the key it gets only which items are attention checks.
"""

import hashlib
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from limner.research.study.records import Item, StudyFiles

Thing = TypeVar("Thing")
EARLY = 5
"""The first attention check comes among so many pages, so that raters who soon stop meet one as well."""


@dataclass(frozen=True)
class Unit:
    """Content of one page.

    Attributes:
        name: name of the item, or of the sequence.
        items: one, or all steps of a sequence in order.
        check: an attention check: shown to everybody, and not counted among the raters wanted.
    """

    name: str
    items: tuple[Item, ...]
    check: bool = False


def units(items: Sequence[Item], checks: Collection[str]) -> dict[str, Unit]:
    """Pages by name, in the order of their first items; items that are pre-filled are on none.

    Args:
        items: items of a study.
        checks: ids of attention checks. A sequence is a check if all its steps are; a check among other steps
            is shown and counted with them.
    """
    pages: dict[str, list[Item]] = {}
    for item in items:
        if item.prefilled is None:
            pages.setdefault(item.sequence or item.id, []).append(item)
    return {
        name: Unit(
            name,
            tuple(sorted(steps, key=lambda step: step.position)),
            check=all(step.id in checks for step in steps),
        )
        for name, steps in pages.items()
    }


@dataclass(frozen=True)
class AssignmentPlan:
    """The rules of a study by which pages are dealt.

    Attributes:
        study: hash of the registration, from which all draws are made.
        units: pages by name.
        raters: wanted per page.
        limit: pages a rater is asked at most, checks not counted; None for all.
    """

    study: str
    units: Mapping[str, Unit]
    raters: int
    limit: int | None = None

    @classmethod
    def of(cls, files: StudyFiles, limit: int | None = None) -> "AssignmentPlan":
        """The rules of a study as registered."""
        pages = units(files.items, files.key.checks)
        return cls(files.study.sha256, pages, files.study.raters_per_item, limit)

    def names(self, *, check: bool) -> list[str]:
        """Names of the checks, or of the pages that are none."""
        return [name for name, unit in self.units.items() if unit.check == check]

    def due_check(self, rater: str, mine: Collection[str], *, last: bool) -> str | None:
        """The attention check that is this rater's turn now.

        Args:
            rater: public id.
            mine: pages the rater has answered.
            last: nothing else is left for the rater: whoever answered any page meets at least one check.
        """
        checks = self.names(check=True)
        met = sum(name in mine for name in checks)
        answered = len(mine) - met
        if met == len(checks):
            return None
        if answered >= self._check_place(rater, met) or (last and met == 0 and answered):
            return next(name for name in self.shuffled(checks, rater) if name not in mine)
        return None

    def _check_place(self, rater: str, met: int) -> int:
        """After how many pages a rater meets the next check, having met so many."""
        every = max(1, round(len(self.names(check=False)) / len(self.names(check=True))))
        spread = every if met else min(every, EARLY)
        return met * every + 1 + _draw(self.study, rater, "check", str(met)) % spread

    def checks_among(self, rater: str, pages: int) -> int:
        """Attention checks that a rater meets who answers so many pages that are none."""
        checks = len(self.names(check=True))
        due = sum(self._check_place(rater, met) <= pages for met in range(checks))
        return max(due, min(1, checks, pages))

    def choice(self, rater: str, mine: Collection[str], load: Mapping[str, int]) -> str | None:
        """The page for which fewest raters answered or hold a place; equal ones by the rater's own draw.

        Args:
            rater: public id.
            mine: pages the rater has answered.
            load: page → raters that answered it or hold a place on it.
        """
        free = self.open(mine, load)
        if not free or not self.room(mine):
            return None
        least = min(load.get(name, 0) for name in free)
        return self.shuffled([name for name in free if load.get(name, 0) == least], rater)[0]

    def open(self, mine: Collection[str], load: Mapping[str, int]) -> list[str]:
        """Pages that want another rater and were not answered by this one."""
        return [
            name for name in self.names(check=False) if name not in mine and load.get(name, 0) < self.raters
        ]

    def room(self, mine: Collection[str] = ()) -> int:
        """Pages that one who answered these may still be asked, checks not counted."""
        real = self.names(check=False)
        return max(0, min(len(real), self.limit or len(real)) - sum(name in mine for name in real))

    def shuffled(self, things: Sequence[Thing], *seeds: str) -> list[Thing]:
        """The things in an order drawn for these seeds and this study: always the same."""
        order = list(things)
        random.Random(_draw(self.study, *seeds)).shuffle(order)  # noqa: S311  (an order, not a secret)
        return order

    def token(self, rater: str, unit: Unit) -> str:
        """Key in the names of this rater's answers on this page, which is unique."""
        return f"{_draw(self.study, rater, 'page', unit.name):064x}"[:16]

    def shown_order(self, rater: str, item: Item) -> tuple[str, ...]:
        """Candidates of an item from left to right, as this rater sees them."""
        return tuple(self.shuffled(item.ids, rater, item.id))


def _draw(*seeds: str) -> int:
    """A number that only these words give, on every machine."""
    return int.from_bytes(hashlib.sha256("\x1f".join(seeds).encode()).digest())
