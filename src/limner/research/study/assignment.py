"""Assigns pages to raters and orders the pictures on a page.

Pages with the fewest raters come first; ties are broken by a reproducible pseudorandom order. Of the key,
only the ids of the attention checks are used.
"""

import hashlib
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from limner.research.study.records import Item, StudyFiles

Thing = TypeVar("Thing")
EARLY = 5
"""The first attention check comes within this many pages, so that raters who stop early get one too."""


@dataclass(frozen=True)
class Unit:
    """Content of one page.

    Attributes:
        name: name of the item, or of the sequence.
        items: one, or all steps of a sequence in order.
        check: whether it is an attention check, which any number of raters may answer.
    """

    name: str
    items: tuple[Item, ...]
    check: bool = False


def units(items: Sequence[Item], checks: Collection[str]) -> dict[str, Unit]:
    """Group items into pages, in the order of their first items; pre-filled items are left out.

    Args:
        items: items of a study.
        checks: ids of attention checks. A sequence is a check if all its steps are; a check among other steps
            is shown and counted with them.
    Returns:
        Name of an item or sequence → its page.
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
    """Rules for assigning pages to raters.

    Attributes:
        study: hash of the registration, which seeds every order.
        units: pages by name.
        raters: number of raters wanted per page.
        limit: most pages per rater, without attention checks; None for all.
    """

    study: str
    units: Mapping[str, Unit]
    raters: int
    limit: int | None = None

    @classmethod
    def of(cls, files: StudyFiles, limit: int | None = None) -> "AssignmentPlan":
        """Build the plan of a registered study."""
        pages = units(files.items, files.key.checks)
        return cls(files.study.sha256, pages, files.study.raters_per_item, limit)

    def names(self, *, check: bool) -> list[str]:
        """Names of the attention checks, or of all other pages."""
        return [name for name, unit in self.units.items() if unit.check == check]

    def due_check(self, rater: str, mine: Collection[str], *, last: bool) -> str | None:
        """The attention check to show this rater now, or None.

        Args:
            rater: public id.
            mine: pages the rater has answered.
            last: whether no other page is left; a rater who answered any page then gets a first check.
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
        """Number of pages after which a rater who has had `met` checks gets the next one."""
        every = max(1, round(len(self.names(check=False)) / len(self.names(check=True))))
        spread = every if met else min(every, EARLY)
        return met * every + 1 + _draw(self.study, rater, "check", str(met)) % spread

    def checks_among(self, rater: str, pages: int) -> int:
        """Number of attention checks that a rater who answers `pages` other pages gets."""
        checks = len(self.names(check=True))
        due = sum(self._check_place(rater, met) <= pages for met in range(checks))
        return max(due, min(1, checks, pages))

    def choice(self, rater: str, mine: Collection[str], load: Mapping[str, int]) -> str | None:
        """The open page with the fewest raters; ties are broken by a pseudorandom order for this rater.

        Args:
            rater: public id.
            mine: pages the rater has answered.
            load: page → number of raters that answered it or have it reserved.
        Returns:
            Name of the page, or None if there is none for this rater.
        """
        free = self.open(mine, load)
        if not free or not self.room(mine):
            return None
        least = min(load.get(name, 0) for name in free)
        return self.shuffled([name for name in free if load.get(name, 0) == least], rater)[0]

    def open(self, mine: Collection[str], load: Mapping[str, int]) -> list[str]:
        """Pages that need more raters and that this rater has not answered."""
        return [
            name for name in self.names(check=False) if name not in mine and load.get(name, 0) < self.raters
        ]

    def room(self, mine: Collection[str] = ()) -> int:
        """Number of pages that a rater who answered `mine` may still get, without attention checks."""
        real = self.names(check=False)
        return max(0, min(len(real), self.limit or len(real)) - sum(name in mine for name in real))

    def shuffled(self, things: Sequence[Thing], *seeds: str) -> list[Thing]:
        """Shuffle in a pseudorandom order that depends only on the seeds and the study."""
        order = list(things)
        random.Random(_draw(self.study, *seeds)).shuffle(order)  # noqa: S311  (an order, not a secret)
        return order

    def token(self, rater: str, unit: Unit) -> str:
        """Part of the form field names that is unique to this rater and page."""
        return f"{_draw(self.study, rater, 'page', unit.name):064x}"[:16]

    def shown_order(self, rater: str, item: Item) -> tuple[str, ...]:
        """Ids of an item's candidates, from left to right as this rater sees them."""
        return tuple(self.shuffled(item.ids, rater, item.id))


def _draw(*seeds: str) -> int:
    """A 256-bit integer that depends only on the seeds, equal on every machine."""
    return int.from_bytes(hashlib.sha256("\x1f".join(seeds).encode()).digest())
