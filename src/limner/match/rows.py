"""Rows: photographs with an order, which may be those of a text.

A text's own row is what is named beside it. In a library, every folder is a row, and every sitting in a
folder whose photographs were taken at several times.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np

from limner.errors import DataError, counted
from limner.language import words
from limner.pictures.taking import RowOrder, row_order
from limner.records import Arrangement, Picture, Story
from limner.store.catalogue import IntArray

LARGE = 4
"""A named folder with more photographs a step than this is searched like a library."""
SITTING_S = 3 * 3600.0
"""Pause after which another sitting begins."""
LONG = 300
"""Maximum number of photographs that are compared as one row."""


class Folders(Protocol):
    """What a catalogue knows about folders."""

    def under(self, folder: str) -> list[Picture]:
        """Pictures with a file in a folder or below it; or with this file."""

    def folders_of(self, ids: Iterable[str]) -> IntArray:
        """Number of each picture's folder."""

    def in_folder(self, number: int) -> list[str]:
        """Ids of the pictures of a folder, in order of time and name."""

    def sizes(self) -> IntArray:
        """Number of pictures of each folder."""

    def pictures(self, ids: Sequence[str]) -> list[Picture]:
        """Records by id, in that order."""


@dataclass(frozen=True)
class NamedRow:
    """The photographs that are named beside a text.

    Attributes:
        name: name of the folder, or number of the pictures.
        pictures: ids of all of them.
        places: see `limner.pictures.taking.RowOrder`; without an order, one place for each picture.
        order: how the order was found; ``any`` if there is none.
        steps: see `limner.pictures.taking.RowOrder`.
    """

    name: str
    pictures: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]
    order: str
    steps: dict[int, int] = field(default_factory=dict)


def named_row(
    catalogue: Folders, named: Sequence[str], story: Story, by: Arrangement = "taken"
) -> NamedRow:
    """Find the pictures named beside a text, and their order.

    If a folder below what is named is called like the text's file or title, only its pictures count.

    Args:
        catalogue: the library.
        named: paths of folders and pictures.
        story: the text.
        by: how the pictures are ordered.
    Raises:
        DataError: nothing that is named is in the library.
    """
    found: dict[str, Picture] = {}
    for path in named:
        for picture in catalogue.under(path):
            inside = tuple(one for one in picture.paths if one == path or one.startswith(_within(path)))
            found.setdefault(picture.id, picture.model_copy(update={"paths": inside or picture.paths}))
    if not found:
        raise DataError(f"{', '.join(named)}: no picture of it is in the library; index it first")
    pictures, name = _called(list(found.values()), named, story)
    if not name:
        name = Path(named[0]).name if len(named) == 1 else counted(len(pictures), "picture")
    ids = tuple(picture.id for picture in pictures)
    made = None if by == "any" else row_order(pictures, by=by, steps=len(story.steps))
    if made is None:
        return NamedRow(name, ids, tuple((one,) for one in ids), "any")
    return NamedRow(name, ids, made.places, made.kind, dict(made.steps))


def _within(folder: str) -> str:
    return folder.rstrip(os.sep) + os.sep


def _called(
    pictures: list[Picture], named: Sequence[str], story: Story
) -> tuple[list[Picture], str]:
    """The pictures of a folder that is called like the text, and its name; else all, and ""."""
    titles = {" ".join(words(text)) for text in (story.title, Path(story.id).stem.replace("_", " "))} - {""}
    roots = {Path(path) for path in named}
    for picture in pictures:
        for folder in Path(picture.path).parents:
            if folder in roots or not any(root in folder.parents for root in roots):
                continue
            if " ".join(words(folder.name.replace("_", " ").replace("-", " "))) in titles:
                inside = _within(str(folder))
                return [one for one in pictures if one.path.startswith(inside)], folder.name
    return pictures, ""


@dataclass(frozen=True)
class Row:
    """A row of a library.

    Attributes:
        name: name of its folder.
        places: see `limner.pictures.taking.RowOrder`.
    """

    name: str
    places: tuple[tuple[str, ...], ...]


def rows_in(catalogue: Folders, folder: int, wanted: Sequence[str]) -> list[Row]:
    """Rows of a folder: all its photographs, and its sittings; of a long folder, the parts around pictures.

    Args:
        catalogue: the library.
        folder: its number.
        wanted: ids of the pictures around which a long folder is read, best first.
    """
    ids = catalogue.in_folder(folder)
    if len(ids) > LONG:
        place = {picture: number for number, picture in enumerate(ids)}
        middle = int(np.median([place[picture] for picture in wanted]))
        start = max(0, min(middle - LONG // 2, len(ids) - LONG))
        ids = ids[start : start + LONG]
    pictures = catalogue.pictures(ids)
    made = row_order(pictures)
    if made is None or len(made.places) < 2:
        return []
    name = Path(pictures[0].path).parent.name
    found = [Row(name, made.places)]
    sittings = _sittings(made, {picture.id: picture.taken for picture in pictures})
    if len(sittings) > 1:
        found += [Row(name, places) for places in sittings if len(places) > 1]
    return found


def _sittings(
    made: RowOrder, taken: dict[str, datetime | None]
) -> list[tuple[tuple[str, ...], ...]]:
    """Places of a row in order of time, divided at long pauses."""
    if made.kind != "taken":
        return []
    times = [taken[place[0]] for place in made.places]
    cuts = [0]
    for number, (before, after) in enumerate(pairwise(times)):
        if before is not None and after is not None:
            pause = after.replace(tzinfo=None) - before.replace(tzinfo=None)
            if pause.total_seconds() > SITTING_S:
                cuts.append(number + 1)
    return [made.places[start:end] for start, end in pairwise([*cuts, len(made.places)])]
