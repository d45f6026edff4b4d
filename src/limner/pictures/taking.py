"""The order in which the photographs of a folder (a row) were taken, or in which a person numbered them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from functools import cached_property
from itertools import combinations, pairwise
from math import inf
from operator import attrgetter
from pathlib import PurePath
from typing import Literal

from limner.pictures.find import EDITED
from limner.pictures.hashes import BURST_S, NEAR_BITS
from limner.pictures.metadata import is_day, readable_name
from limner.records import Picture

_STEP = re.compile(
    r"(?:.*[\W\d_])?(?:step|schritt|[ée]tape|paso|passo|stap|steg|trinn|krok|шаг|page|seite|p[áa]gina|figure|figura"
    r"|fig|abbildung|abb)[\s_\-.#]*(\d{1,3})([a-z]?)(?![^\W_]).*"
)
"""A number after a word for a step, and the letter of a shot of it."""
_LEADING = re.compile(r"(\d{1,3})([a-z]?)(?![^\W_])(?![\-._ ]\d).*")
_TRAILING = re.compile(r"(.*?)(?<!\d)(?:(\d{1,3})([a-z]?)| ?\((\d{1,3})\))")
_COUNTER = re.compile(r"(.*?)(?<!\d)(\d{1,7})")
_EDIT = re.compile(rf"(?<=img_)e(?=\d{{4}}$)|(?:-(?:edit|{EDITED})|~\d)$")
_COPY = re.compile(r"(?:[ _-](?:small|medium|large|copy|kopie|copie|copia)|[ _]?\(\d{1,2}\))$")
_NO_COPIES = re.compile(r"whatsapp|image")
"""Names that messengers and browsers give to different pictures, apart from a number."""

_LAST = (1000, "")
"""Later than every number of three digits."""

Kind = Literal["numbers", "taken", "counter", "name"]
Natural = tuple[str | int, ...]
"""Text in lower case and numbers, alternating."""


@dataclass(frozen=True)
class RowOrder:
    """Order of the photographs of a row.

    Attributes:
        kind: source of the order: numbers that a person gave, times, a counter in the names, or names alone.
        places: ids of the pictures by place; the first is the one to show, the others are further shots or
            versions of it.
        steps: index of the step from 0 by index of the place, if the numbers are those of steps.
    """

    kind: Kind
    places: tuple[tuple[str, ...], ...]
    steps: Mapping[int, int] = field(default_factory=dict)


Number = tuple[int, str]
"""A number, and the letter of a shot, as in ``3a``."""
Numbered = tuple[str, Number]
"""Text before a number, and the number."""


@dataclass(frozen=True, eq=False)
class _Shot:
    """A picture of the row.

    Attributes:
        picture: the picture.
        folder: its folder, as a key of natural order.
        stem: its file name in lower case, without suffix and without the mark of an edit.
        edited: whether the name has the mark of an edit.
        dated: time or day of taking.
    """

    picture: Picture
    folder: tuple[Natural, ...]
    stem: str
    edited: bool
    dated: datetime | None

    @cached_property
    def name(self) -> tuple[tuple[Natural, ...], Natural, str]:
        """Key of natural order."""
        return self.folder, _natural(self.stem), self.picture.id

    @cached_property
    def moment(self) -> datetime | None:
        """Time of taking; None if no more than the day is known."""
        return None if self.dated is None or is_day(self.dated) else self.dated

    @cached_property
    def number(self) -> Numbered | None:
        """Number of at most three digits that a person gave; the prefix of a step's number is "step"."""
        if (match := _STEP.fullmatch(self.stem) or _LEADING.fullmatch(self.stem)) is not None:
            return "step" if match.re is _STEP else "", (int(match[1]), match[2])
        match = _TRAILING.fullmatch(self.stem)
        if match is None or not readable_name(match[1]):
            return None
        return match[1].strip(" _-"), (int(match[2] or match[4]), match[3] or "")

    @cached_property
    def counter(self) -> Numbered | None:
        """Number at the end of the name; None for a year after a word."""
        match = _COUNTER.fullmatch(self.stem)
        if match is None or (re.fullmatch("(19|20)..", match[2]) and readable_name(match[1])):
            return None
        return match[1], (int(match[2]), "")


def row_order(
    pictures: Sequence[Picture],
    *,
    by: Literal["taken", "name"] = "taken",
    steps: int | None = None,
    root: str = "",
) -> RowOrder | None:
    """Order of the photographs of a folder and its subfolders.

    Numbers that a person gave come first, then times of taking, then a counter in the names; each counts if
    most photographs have one. Versions of one picture, and pictures of one burst, are one place.

    Args:
        pictures: the photographs, in any order.
        by: "name" for the natural order of names.
        steps: S, number of steps of the text; None if unknown.
        root: the folder, as in `Picture.paths`; of a picture with several paths, one below it counts.
    Returns:
        None if neither names nor times state an order.
    """
    places = {
        next((shot for shot in place if shot.moment), place[0]): place
        for place in _places(sorted((_shot(picture, root) for picture in pictures), key=attrgetter("name")))
    }
    shots = sorted(places, key=attrgetter("name"))

    def ordered(kind: Kind, order: Sequence[_Shot], numbers: Mapping[int, int]) -> RowOrder:
        return RowOrder(kind, tuple(_shown_first(places[shot]) for shot in order), numbers)

    if by == "name":
        return ordered("name", shots, {})
    numbers = _most({shot: shot.number for shot in shots})
    if numbers and len(set(numbers.values())) == len(numbers):
        order = sorted(shots, key=lambda shot: numbers.get(shot, _LAST))
        return ordered("numbers", order, _steps(order, numbers, steps))
    if (by_time := _by_time(shots)) is not None:
        return ordered("taken", by_time, {})
    counters = _most({shot: shot.counter for shot in shots})
    in_folders = {(shot.folder, number) for shot, number in numbers.items()}
    kind: Kind = "numbers" if numbers and len(in_folders) == len(numbers) else "counter"
    values = numbers if kind == "numbers" else counters
    order = sorted(shots, key=lambda shot: (shot not in values, shot.folder, values.get(shot, _LAST)))
    return ordered(kind, order, {}) if values else None


def _shot(picture: Picture, root: str) -> _Shot:
    paths = [PurePath(path) for path in picture.paths]
    inside = [path for path in paths if path.is_relative_to(root)] or paths
    path = min(inside, key=lambda path: _natural(path.stem))
    name = unicodedata.normalize("NFC", path.stem).lower()
    stem = _EDIT.sub("", name)
    dated = None if picture.taken_from == "digitized" else picture.taken
    return _Shot(picture, tuple(map(_natural, path.parts[:-1])), stem, stem != name, dated)


def _natural(text: str) -> Natural:
    """Key by which ``a2`` comes before ``a10``."""
    parts = re.split(r"([0-9]+)", unicodedata.normalize("NFC", text).lower())
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts))


def _places(shots: Sequence[_Shot]) -> list[list[_Shot]]:
    """Shots by place, each in natural order."""
    labels = {shot: shot for shot in shots}
    places = {shot: [shot] for shot in shots}
    for left, right in _same_place(shots):
        label, merged = labels[left], labels[right]
        if label is not merged:
            labels.update(dict.fromkeys(places[merged], label))
            places[label] += places.pop(merged)
    return [sorted(place, key=attrgetter("name")) for place in places.values()]


def _same_place(shots: Iterable[_Shot]) -> Iterator[tuple[_Shot, _Shot]]:
    """Pairs of versions of one picture, and of neighbours in a burst by the clock of one camera."""
    versions, copies, bursts = (defaultdict[object, list[_Shot]](list) for _ in range(3))
    for shot in shots:
        base = shot.stem if _NO_COPIES.match(shot.stem) else _COPY.sub("", shot.stem)
        copies[shot.folder, base].append(shot)
        if shot.moment is not None:
            versions[shot.stem, shot.moment].append(shot)
            if shot.picture.taken_from == "camera":
                bursts[shot.picture.group, shot.picture.camera].append(shot)
    for same in versions.values():
        yield from pairwise(same)
    for similar in copies.values():
        yield from (pair for pair in combinations(similar, 2) if _is_version(*pair))
    for burst in bursts.values():
        for before, after in pairwise(sorted(burst, key=lambda shot: _seconds(shot.moment))):
            if _seconds(after.moment) - _seconds(before.moment) < BURST_S:
                yield before, after


def _is_version(left: _Shot, right: _Shot) -> bool:
    """Whether two pictures of similar names are an original and its edit, or a picture and its copy."""
    if left.stem == right.stem and left.edited != right.edited:
        return True
    bits = (int(left.picture.phash, 16) ^ int(right.picture.phash, 16)).bit_count()
    return bits <= NEAR_BITS and (not left.moment or not right.moment or left.moment == right.moment)


def _shown_first(place: Sequence[_Shot]) -> tuple[str, ...]:
    """Ids of the pictures of a place: the edit or else the largest, then the others by name."""
    best = max(place, key=lambda shot: (shot.edited, shot.picture.width_px, shot.picture.size_bytes))
    return best.picture.id, *(shot.picture.id for shot in place if shot is not best)


def _most(numbers: Mapping[_Shot, Numbered | None]) -> dict[_Shot, Number]:
    """Numbers after the commonest prefix, if most shots have one; else none."""
    prefixes = Counter(number[0] for number in numbers.values() if number)
    common = next((prefix for prefix, count in prefixes.items() if 2 * count > len(numbers)), None)
    return {shot: number[1] for shot, number in numbers.items() if number and number[0] == common}


def _steps(order: Sequence[_Shot], numbers: Mapping[_Shot, Number], steps: int | None) -> dict[int, int]:
    """Index of the step by index of the place, if the numbers are those of steps: after a word for a step, or
    with gaps within 1 to S.
    """
    values = {value for value, _ in numbers.values()}
    named = any(shot.number is not None and shot.number[0] == "step" for shot in numbers)
    gaps = steps is not None and values != set(range(1, len(numbers) + 1))
    inside = min(values) >= 1 and (steps is None or max(values) <= steps)
    stated = {place: numbers[shot][0] - 1 for place, shot in enumerate(order) if shot in numbers}
    return stated if inside and (named or gaps) else {}


def _seconds(moment: datetime | None, *, zoned: bool = False) -> float:
    """A time in seconds, by its time zone or as the clock reads; infinite if there is none."""
    return inf if moment is None else (moment if zoned else moment.replace(tzinfo=UTC)).timestamp()


def _by_time(shots: Sequence[_Shot]) -> list[_Shot] | None:
    """Shots by time of taking; None if most have neither time nor day, or all have the same.

    Times are instants if all state a time zone, else as the clocks read. A shot without a time stands next to
    the one with the next lower number in its name, else at the end of its day, else last.

    Args:
        shots: in natural order.
    """
    moments = [shot.moment for shot in shots if shot.moment]
    zoned = all(moment.tzinfo for moment in moments)
    zone = moments[0].tzinfo if moments and zoned else UTC
    keys = {shot: (_seconds(shot.moment, zoned=zoned), 0) for shot in shots if shot.moment}
    for side, run in ((1, shots), (-1, shots[::-1])):
        last: dict[object, float] = {}
        for shot in run:
            pattern = shot.counter and (shot.folder, shot.counter[0])
            if shot.moment:
                last[pattern] = keys[shot][0]
            elif pattern in last and pattern is not None:
                keys.setdefault(shot, (last[pattern], side))
    for shot in shots:
        end = datetime.combine(shot.dated, time.max, zone).timestamp() if shot.dated else inf
        keys.setdefault(shot, (end, 1))
    dated = [keys[shot][0] for shot in shots if shot.dated]
    if 2 * len(dated) <= len(shots) or len(set(dated)) < min(2, len(shots)):
        return None
    return sorted(shots, key=keys.__getitem__)
