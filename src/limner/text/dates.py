"""Dates and places of a text: what its steps, headings, title and front matter say of when and where.

Patterns and words are in `dates.toml`. A place is any name that stands where a place would stand: only the
pictures tell which names are places.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limner.language import folded
from limner.records import Story

DAY, WEEKDAY, MONTH, YEAR = range(4)
WORDS = ("month", "weekday", "on", "at", "dotted", "until", "and", "day")


@dataclass(frozen=True)
class Date:
    """A day, month or year that a text names, or several that follow each other.

    Attributes:
        first, last: month and day, as 514 for 14 May; both with every day of a month or year.
        year: 0 if none is named.
        weekday: 1 for Monday to 7; 0 if no weekday alone is named.
        nth: number of a day of the text, as in "Day 3"; 0 if no such day is named.
    """

    first: int = 101
    last: int = 1231
    year: int = 0
    weekday: int = 0
    nth: int = 0

    @property
    def fineness(self) -> int:
        """`DAY`, `WEEKDAY`, `MONTH` or `YEAR`."""
        if self.nth or self.first % 100 != 1 or self.last % 100 != 31:
            return DAY
        return WEEKDAY if self.weekday else YEAR if self.last - self.first == 1130 else MONTH

    def holds(self, days: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of days, as 20240514 or 0 if unknown, that it names; none for the day of a text."""
        years, rest = np.divmod(days, 10_000)
        after, before = rest >= self.first, rest <= self.last
        inside = after & before if self.first <= self.last else after | before  # over New Year
        fits: NDArray[np.bool_] = (days > 0) & inside & (self.nth == 0)
        if self.year and self.first <= self.last:
            fits &= years == self.year
        if self.weekday:
            months = ((years - 1970) * 12 + rest // 100 - 1).astype("M8[M]")
            since = (months.astype("M8[D]") + (rest % 100 - 1)).astype(np.int64)  # from a Thursday
            fits &= (since + 3) % 7 + 1 == self.weekday
        return fits


@dataclass(frozen=True)
class Said:
    """What a step, a heading, the title or the front matter says of when and where.

    Attributes:
        dates: dates of the finest kind that is named.
        names: names that stand where a place would stand, as `limner.language.folded`.
    """

    dates: tuple[Date, ...] = ()
    names: tuple[str, ...] = ()


def said_in(story: Story, codes: Sequence[str]) -> list[tuple[Said, ...]]:
    """What holds for each step: what it says itself, then its headings, title, front matter.

    What a heading says holds until the next one of its level or above that says any. A date without a year
    has that of the next heading above that names one.

    Args:
        story: the text.
        codes: ISO 639 code of each step.
    """
    main = max(codes, key=list(codes).count)
    front = "; ".join(field for one in _FRONT.findall(story.markdown) for field in _FIELD.findall(one[1]))
    above = [(-1, said_by(front, main, heading=True))]
    above.insert(0, (0, said_by(story.title, main, heading=True, above=above)))
    found: list[tuple[Said, ...]] = []
    for step, blocks in story.runs():
        code = main if step is None else codes[step]
        for block in (one for one in blocks if one.kind == "heading"):
            higher = [one for one in above if one[0] < block.level]
            if (said := said_by(block.text, code, heading=True, above=higher)) != Said():
                above = [(block.level, said), *higher]
        if step is not None:
            words = "\n".join(one.text for one in blocks if one.kind not in ("heading", "code"))
            found.append((said_by(words, code, above=above), *(said for _, said in above)))
    return found


_FRONT = re.compile(r"\A(---|\+\+\+)[ \t]*\n(.*?\n)\1[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"(?im)^(?:date|location|place)[ \t]*[:=][ \t]*[\"']?(.+?)[\"']?[ \t]*$")


def said_by(text: str, code: str, *, heading: bool = False, above: Sequence[tuple[int, Said]] = ()) -> Said:
    """What a piece of text says of when and where.

    Args:
        text: the words.
        code: their ISO 639 code.
        heading: whether it is a heading, in which a month, weekday, year or place may stand alone.
        above: headings that hold, the lowest first, with their levels.

    Example:
        >>> said_by("On 14 May we took the bus to Siena.", "en")
        Said(dates=(Date(first=514, last=514, year=0, weekday=0, nth=0),), names=('siena',))
    """
    text = "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
    dates, rest = _grammar(code).dates(text, heading=heading)
    year = next((date.year for _, said in above for date in said.dates if date.year), 0)
    finest = min((date.fineness for date in dates), default=YEAR)
    kept = (replace(one, year=one.year or year) for one in dates if one.fineness == finest)
    names = map(folded, _grammar(code).names(rest, heading=heading))
    return Said(tuple(dict.fromkeys(kept)), tuple(dict.fromkeys(names)))


class _Grammar:
    """Patterns of the dates and places of a language, from `dates.toml`."""

    def __init__(self, code: str) -> None:
        held = tomllib.loads(Path(__file__).with_name("dates.toml").read_text(encoding="utf-8"))
        table = held["language"].get(code, {})
        forms = {name: [one.split("|") for one in each] for name, each in table.items() if name in WORDS}
        months, weekdays = forms.get("month", []), forms.get("weekday", [])
        self._number = {
            word.lower(): at for each in (months, weekdays) for at, one in enumerate(each, 1) for word in one
        }
        words = {name.upper(): _either(chain(*forms.get(name, ()))) for name in WORDS}
        lone = (
            one for each in months for one in each if not any(other[:-1].startswith(one) for other in each)
        )
        words |= {"LONE": _either(lone), "DOT": r"\." if forms.get("dotted") else "(?!)"}
        words = held["part"] | table | words

        def filled(pattern: str) -> str:
            return re.sub("<([A-Z_]+)>", lambda word: filled(words[word[1]]), pattern)

        self._dates, self._alone = (
            [re.compile(filled(one)) for one in held[name]] for name in ("dates", "alone")
        )
        self._pattern = {name: re.compile(filled(one)) for name, one in held.items() if isinstance(one, str)}

    def dates(self, text: str, *, heading: bool) -> tuple[list[Date], str]:
        """The dates of a text, and the text with semicolons in their place."""
        dates: list[Date] = []

        def take(match: re.Match[str]) -> str:
            date = self._made(match.groupdict())
            dates.extend([date] if date else [])
            return ";" if date else match[0]

        for pattern in (*self._dates, *(self._alone if heading else ())):
            text = pattern.sub(take, text)
        return dates, text

    def _made(self, named: Mapping[str, str | None]) -> Date | None:
        """The date that a match means; None if there is no such day."""
        year = int(named.get("y") or 0)
        year -= 543 if year > 2400 else 0  # of the Thai calendar
        if not (month := named.get("m")):
            weekday = self._number.get((named.get("w") or "").lower(), 0)
            return Date(year=year, weekday=weekday, nth=int(named.get("n") or 0))
        day = named.get("d")
        ends = (month, int(day or 1)), (named.get("o") or month, int(named.get("e") or day or 31))
        numbers = [(int(at) if at.isdecimal() else self._number[at.lower()], of) for at, of in ends]
        valid = all(1 <= at <= 12 and 1 <= of <= 31 for at, of in numbers)
        first, last = (100 * at + of for at, of in numbers)
        return Date(first, last, year) if valid and (first <= last or named.get("o")) else None

    def names(self, text: str, *, heading: bool) -> list[str]:
        """Names that stand where a place would stand."""
        runs = [match[1] for match in self._pattern["place"].finditer(text)]
        runs += self._pattern["divided"].split(text) if heading else []
        every = [name for run in runs for name in self._pattern["and"].split(run)]
        named = [name for name in every if self._pattern["name"].fullmatch(name)]
        return [part for name in named for part in (name, self._pattern["link"].split(name)[0])]


def _either(words: Iterable[str]) -> str:
    """Pattern of some words, in any case unless the table has them with a capital."""
    escaped = (re.escape(word) for word in sorted(words, key=len, reverse=True))
    each = [one if one != one.lower() else f"(?i:{one})" for one in escaped]
    return f"(?:{'|'.join(each) or '(?!)'})"


_grammar = cache(_Grammar)
