"""Rows: photographs with an order, which may be those of a text.

A text's own row is what is named beside it. In a library, every folder is a row, and every sitting in a
folder whose photographs were taken at several times.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from limner.errors import DataError
from limner.language import stem, words
from limner.match.calibration import Calibration
from limner.match.candidates import Float64Array, IntArray, Pool
from limner.match.order import INSIDE, LOWEST, NAMED, OF_ROW, Photographs, align, beliefs
from limner.match.probabilities import PIXELS, WORDS, first_of
from limner.match.when_where import WhenWhere
from limner.pictures.taking import RowOrder, row_order
from limner.records import Arrangement, Picture, Story
from limner.store.vectors import BoolArray, Gallery

LARGE = 4
"""A named folder with more photographs a step than this is searched like a library."""
SITTING_S = 3 * 3600.0
"""Pause after which another sitting begins."""
LONG = 200
"""Maximum number of photographs that are compared as one row."""


class Folders(Protocol):
    """What a catalogue knows about folders."""

    def under(self, places: Sequence[str]) -> list[Picture]:
        """Pictures with a file at one of the paths, or below one of them."""

    def folders_of(self, ids: Iterable[str]) -> IntArray:
        """Number of each picture's folder."""

    def folder_name(self, number: int) -> str:
        """Name of a folder, without its parents."""

    def in_folder(self, number: int) -> list[str]:
        """Ids of the pictures of a folder, in order of time and name."""

    @property
    def folder_sizes(self) -> IntArray:
        """Number of pictures of each folder."""

    def pictures(self, ids: Sequence[str]) -> list[Picture]:
        """Records by id, in that order."""


@dataclass(frozen=True)
class NamedRow:
    """The photographs that are named beside a text.

    Attributes:
        name: name of the folder or picture that was named first, and of what was named besides.
        pictures: ids of all of them.
        places: see `limner.pictures.taking.RowOrder`; without an order, one place for each picture.
        order: how the order was found; ``any`` if there is none.
        steps: see `limner.pictures.taking.RowOrder`.
        shared: whether other texts are illustrated with the same pictures.
    """

    name: str
    pictures: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]
    order: Literal["numbers", "taken", "counter", "name", "any"]
    steps: dict[int, int] = field(default_factory=dict)
    shared: bool = False

    def follows(self, steps: int) -> bool:
        """Whether the photographs are assumed to follow the steps of the text.

        Without an order they do not, nor if they are those of several texts, or so many that most belong to
        no step: then they are searched like a library.
        """
        return self.order != "any" and not self.shared and len(self.places) <= LARGE * steps


def named_row(
    catalogue: Folders,
    named: Sequence[str],
    story: Story,
    by: Arrangement = "taken",
    *,
    shared: bool = False,
) -> NamedRow:
    """Find the pictures named beside a text, and their order.

    If a folder below what is named is called like the text's file or title, only its pictures count.

    Args:
        catalogue: the library.
        named: paths of folders and pictures.
        story: the text.
        by: how the pictures are ordered.
        shared: whether other texts are illustrated with the same pictures.
    Raises:
        DataError: nothing that is named is in the library.
    """
    found = catalogue.under(named)
    if not found:
        raise DataError(f"{', '.join(named)}: no picture of it is in the library; index it first")
    files, folders = set(named), tuple(map(_within, named))
    for at, picture in enumerate(found):
        inside = tuple(path for path in picture.paths if path in files or path.startswith(folders))
        found[at] = picture.model_copy(update={"paths": inside or picture.paths})
    pictures, name = _called(found, named, story)
    shared = shared and not name
    if not name:
        first, *others = (Path(path).name for path in named)
        name = f"{first} and {others[0] if len(others) == 1 else f'{len(others)} more'}" if others else first
    ids = tuple(picture.id for picture in pictures)
    made = None if by == "any" else row_order(pictures, by=by, steps=len(story.steps))
    if made is None:
        return NamedRow(name, ids, tuple((one,) for one in ids), "any", shared=shared)
    return NamedRow(name, ids, made.places, made.kind, dict(made.steps), shared)


def _within(folder: str) -> str:
    return folder.rstrip(os.sep) + os.sep


def _called(pictures: list[Picture], named: Sequence[str], story: Story) -> tuple[list[Picture], str]:
    """The pictures of a folder that is called like the text, and its name; else all, and ""."""
    titles = {" ".join(words(_spaced(text))) for text in (story.title, Path(story.id).stem)} - {""}
    roots = {Path(path) for path in named}
    for picture in pictures:
        for folder in Path(picture.path).parents:
            if folder in roots or not any(root in folder.parents for root in roots):
                continue
            if " ".join(words(_spaced(folder.name))) in titles:
                inside = _within(str(folder))
                return [one for one in pictures if one.path.startswith(inside)], folder.name
    return pictures, ""


@dataclass(frozen=True)
class LibraryRow:
    """A row of a library.

    Attributes:
        name: name of its folder.
        places: see `limner.pictures.taking.RowOrder`.
        titled: share of the words of its name that are in the title of the text or the name of its file.
    """

    name: str
    places: tuple[tuple[str, ...], ...]
    titled: float = 0.0


def rows_in(catalogue: Folders, folder: int, likely: Mapping[str, float]) -> list[LibraryRow]:
    """Rows of a folder: all its photographs, and its sittings; of a long folder, the most likely part.

    Args:
        catalogue: the library.
        folder: its number.
        likely: likelihood of its pictures, by id.
    """
    ids = catalogue.in_folder(folder)
    if len(ids) > LONG:
        sums = np.cumsum([0.0, *(likely.get(picture, 0.0) for picture in ids)])
        start = int(np.argmax(sums[LONG:] - sums[:-LONG]))
        ids = ids[start : start + LONG]
    pictures = catalogue.pictures(ids)
    made = row_order(pictures)
    if made is None or len(made.places) < 2:
        return []
    name = Path(pictures[0].path).parent.name
    found = [LibraryRow(name, made.places)]
    sittings = _sittings(made, {picture.id: picture.taken for picture in pictures})
    if len(sittings) > 1:
        found += [LibraryRow(name, places) for places in sittings if len(places) > 1]
    return found


def _sittings(made: RowOrder, taken: dict[str, datetime | None]) -> list[tuple[tuple[str, ...], ...]]:
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


ROWS = 12
"""Number of rows of a library that are compared with a text."""
OWN_STEP = 0.25
"""Factor of the log-odds by which a picture is less probable than the best one of a step, without any row."""
TITLED = 6.0
"""Log-odds of a folder that is called like the text, before its photographs are compared with it."""
MEMBERS = 300
"""No further row is compared after this many photographs."""
LIKELY = 0.9
"""Probability that a picture fits, if it belongs to the row of the text."""
ELSEWHERE = 0.8
"""Probability that a step that the row of the text leaves out shows a picture from elsewhere."""
PRESENT = 0.2
"""A photograph that belongs to the text with a lower probability is not shown."""
BELONGS = 0.5
"""Probability from which a photograph is said to belong to a step."""
LOOKS, CONTENT = "looks", "base"
"""Spaces in which photographs of a row are compared."""


@dataclass(frozen=True)
class Placed:
    """What rows say about the candidates; S steps, K columns.

    Attributes:
        value: (S, K) probability that a picture belongs to a step; −inf for those that may not be shown.
        chance: (S, K) probability that it belongs to the step, or fits it.
        place: (S, K) place of a picture in its row, from 1; 0 if the row does not speak for it.
        row: (S, K) index of the row in `names` and `sizes`.
        names, sizes: names of the rows, and numbers of their places.
        steps: step to which the photographs of a named row belong, by id; others belong to none.
        cover: probability that a photograph of a named row stands for the whole text, by id.
    """

    value: Float64Array
    chance: Float64Array
    place: IntArray
    row: IntArray
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    steps: Mapping[str, int] = field(default_factory=dict)
    cover: Mapping[str, float] = field(default_factory=dict)

    def part(self, cells: slice) -> Placed:
        """Some of the steps."""
        return replace(
            self,
            value=self.value[cells],
            chance=self.chance[cells],
            place=self.place[cells],
            row=self.row[cells],
        )


def _compared(gallery: Gallery, rows: IntArray) -> Photographs:
    """Compare photographs, given by gallery row, with each other."""
    if LOOKS not in gallery.spaces or CONTENT not in gallery.spaces:
        return Photographs.unknown(len(rows))
    return Photographs.of(
        *(gallery.space(name).vectors(rows).astype(np.float64) for name in (LOOKS, CONTENT))
    )


def _ids(pool: Pool, candidates: IntArray) -> list[str]:
    """Ids of some candidates."""
    return [pool.gallery.ids[row] for row in pool.rows[candidates].tolist()]


def _dense(pool: Pool, values: Float64Array, empty: float) -> Float64Array:
    """Values (S, K) by step and candidate, (S, C)."""
    found = np.full((len(values), len(pool.rows)), empty)
    steps, columns = np.nonzero(pool.there)
    found[steps, pool.items[steps, columns]] = values[steps, columns]
    return found


def _cells(pool: Pool, evidence: Float64Array, values: Any, empty: Any) -> Any:  # noqa: ANN401  (any array)
    """Values (S, C) by step and candidate, (S, K); `empty` for pictures without evidence (S, C)."""
    cells = np.arange(len(evidence))[:, None], pool.items
    return np.where(pool.there & np.isfinite(evidence[cells]), values[cells], empty)


def _worded(pool: Pool) -> BoolArray:
    """Mask (C,) of the candidates with words."""
    found: BoolArray = np.zeros(len(pool.rows), dtype=bool)
    found[pool.items[first_of(pool, WORDS).present]] = True
    return found


def place_named(  # noqa: PLR0917
    pool: Pool,
    evidence: Float64Array,
    row: NamedRow,
    given: Mapping[int, int | None],
    calibration: Calibration,
    title: Float64Array,
    stated: WhenWhere | None = None,
) -> Placed:
    """Place the photographs of a named row that has an order.

    Args:
        pool: the candidates, with all pictures of the row at every step.
        evidence: (S, K) from `limner.match.probabilities.evidence`, −inf for those that may not be shown.
        row: the row.
        given: gallery row of the picture of fixed steps, or None for a blank, by step.
        calibration: the weights.
        title: (C,) evidence of the candidates for the title of the text.
        stated: what the text says of when and where, compared with the photographs of the row.
    """
    number = {pool.gallery.ids[gallery_row]: at for at, gallery_row in enumerate(pool.rows.tolist())}
    known = _dense(pool, evidence, -np.inf)
    usable: BoolArray = np.asarray(np.isfinite(known).any(axis=0))
    fixed = {row: step for step, row in given.items() if row is not None}
    places = [
        [
            number[one]
            for one in place
            if one in number and (usable[number[one]] or pool.rows[number[one]] in fixed)
        ]
        for place in row.places
    ]
    kept = [place for place, shots in enumerate(places) if shots]
    shots = [places[place] for place in kept]
    step_of = {
        at: fixed[int(pool.rows[one])]
        for at, own in enumerate(shots)
        for one in own
        if int(pool.rows[one]) in fixed
    }
    free = [step for step in range(len(known)) if step not in given or step in step_of.values()]
    numbered = {at: row.steps[place] for at, place in enumerate(kept) if place in row.steps}
    if len(shots) == len(free) and any(numbered.get(at, step) != step for at, step in step_of.items()):
        numbered = {}  # a list that was reordered
    wanted = {at: free.index(step) for at, step in {**numbered, **step_of}.items() if step in free}
    value, place_of = np.zeros(known.shape), np.zeros(known.shape, dtype=np.int64)
    chance, lies, cover = np.zeros(known.shape), {}, {}
    if shots and free:
        first = np.array([own[0] for own in shots])
        cells = np.ix_(np.array(free), first)
        told = np.vstack([known[cells], title[first]])
        told *= np.where(_worded(pool)[first], NAMED["words"], NAMED["pixels"])
        told = np.where(np.isfinite(told), told, 0.0)
        ratios = stated.ratios(_ids(pool, first))[free] if stated else 1.0
        photographs = _compared(pool.gallery, pool.rows[first])
        found = align(told[:-1], photographs, wanted, told[-1], ratios)
        belongs = found.belongs
        present = belongs.sum(axis=0) >= PRESENT
        typical = _dense(pool, _typical(pool, calibration), 0.0)[cells]
        own = 1.0
        if not step_of:
            mean = float((belongs * typical).sum() / max(belongs.sum(), 1e-9))
            own = calibration.row.own(found.gain, found.kept, mean)
            own /= own + (1 - own) / stated.odds if stated else 1.0
        certain = own * calibration.row.placed(belongs)
        for at, mine in enumerate(shots):
            cover[pool.gallery.ids[int(pool.rows[mine[0]])]] = float(found.cover[at])
            for version, one in enumerate(mine):
                value[free, one] = belongs[:, at] * (1 - 1e-6 * version) if present[at] else -np.inf
                value[free[-1], one] *= 1 - found.cover[at]  # its other photographs go before the cover
                chance[free, one], place_of[free, one] = certain[:, at], at + 1
                if belongs[:, at].sum() >= BELONGS:
                    lies[pool.gallery.ids[int(pool.rows[one])]] = free[int(belongs[:, at].argmax())]
    return Placed(
        value=_cells(pool, known, value, -np.inf),
        chance=_cells(pool, known, chance, 0.0),
        place=_cells(pool, known, place_of, 0),
        row=np.zeros(pool.items.shape, dtype=np.int64),
        names=(row.name,),
        sizes=(len(shots),),
        steps=lies,
        cover=cover,
    )


def _typical(pool: Pool, calibration: Calibration) -> Float64Array:
    """Cosines (S, K) of the first channel that each picture has, as standard scores among typical cosines."""
    found, done = np.zeros(pool.items.shape), np.zeros(pool.items.shape, dtype=bool)
    for name in (*WORDS, *PIXELS):
        channel = pool.channels.get(name)
        if channel is None:
            continue
        typical = calibration.typical.get(name)
        score = channel.z if typical is None else (channel.cosine - typical.mean) / typical.std
        found = np.where(channel.present & ~done, score, found)
        done |= channel.present
    return found


def likely_rows(  # noqa: PLR0917
    pool: Pool,
    evidence: Float64Array,
    catalogue: Folders,
    story: Story,
    among: frozenset[str] | None = None,
    stated: WhenWhere | None = None,
) -> list[LibraryRow]:
    """The rows of a library that the candidates speak for, best first.

    Args:
        pool: the candidates.
        evidence: see `place_named`.
        catalogue: the library.
        story: the text.
        among: ids of the only pictures that count; None for all.
        stated: what the text says of when and where, compared with the library.
    """
    ids = [pool.gallery.ids[row] for row in pool.rows.tolist()]
    known = _likelihood(pool, evidence) * (stated.ratios(ids, once=True) if stated else 1.0)
    folders, inverse = np.unique(catalogue.folders_of(ids), return_inverse=True)
    sums = np.zeros((len(known), len(folders)))
    np.add.at(sums.T, inverse, known.T)
    sizes = catalogue.folder_sizes[folders]
    best = np.log(1 - OF_ROW + OF_ROW * sums / np.minimum(sizes, LARGE * len(known))).sum(axis=0)
    titles = [_shared_words(catalogue.folder_name(int(folder)), story) for folder in folders]
    best = np.where(sizes > 1, best + TITLED * np.array(titles), -np.inf)
    found: list[LibraryRow] = []
    strength = known.sum(axis=0)
    members = 0
    for folder in np.argsort(-best, kind="stable")[:ROWS].tolist():
        if best[folder] == -np.inf or members > MEMBERS:
            break
        mine = np.flatnonzero(inverse == folder)
        likely = {ids[at]: float(strength[at]) for at in mine.tolist()}
        rows = [
            replace(row, titled=titles[folder]) for row in rows_in(catalogue, int(folders[folder]), likely)
        ]
        members += max((len(row.places) for row in rows), default=0)
        found += rows
    if among is None:
        return found
    parts = (replace(row, places=tuple(place for place in row.places if place[0] in among)) for row in found)
    return [row for row in parts if len(row.places) > 1]


def _shared_words(name: str, story: Story) -> float:
    """Share of the words of a folder's name that are in the title of a text or the name of its file."""
    told = {stem(word) for text in (story.title, Path(story.id).stem) for word in words(_spaced(text))}
    named = [stem(word) for word in words(_spaced(name)) if len(word) > 3]
    return sum(word in told for word in named) / len(named) if named else 0.0


def _spaced(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")


def _likelihood(pool: Pool, evidence: Float64Array) -> Float64Array:
    """Likelihoods (S, C) of the candidates, with a mean of 1 over the library for each step.

    Pictures with words and pictures without have a mean of 1 each, because the evidence of the two cannot be
    compared well enough. Pictures that are no candidate count as half of the least likely candidate.
    """
    known = np.exp(INSIDE * np.maximum(_dense(pool, evidence, LOWEST), LOWEST))
    found = _dense(pool, (pool.found & np.isfinite(evidence)).astype(np.float64), 0.0) > 0
    said = _worded(pool)
    worded = np.zeros(len(pool.gallery), dtype=bool)
    for name in set(WORDS) & set(pool.gallery.spaces):
        worded |= np.asarray(pool.gallery.space(name).present)
    for mask, share in ((said, worded.mean()), (~said, 1 - worded.mean())):
        if not mask.any():
            continue
        there = found[:, mask]
        whole = np.maximum(share * pool.available, there.sum(axis=1))
        least = np.where(there, known[:, mask], 1.0).min(axis=1)
        total = np.where(there, known[:, mask], 0.0).sum(axis=1) + (whole - there.sum(axis=1)) * least / 2
        known[:, mask] /= np.maximum(total / np.maximum(whole, 1.0), 1e-12)[:, None]
    return known


def _members(
    pool: Pool,
    known: Float64Array,
    rows: Sequence[LibraryRow],
    free: Sequence[int],
    fixed: Mapping[int, int],
) -> tuple[list[LibraryRow], list[IntArray], list[dict[int, int]]]:
    """Rows with at least two photographs that can be compared with the text.

    Args:
        pool: the candidates.
        known: (S, C) evidence.
        rows: the rows.
        free: the steps that show one of the photographs.
        fixed: step of fixed pictures, by gallery row.
    Returns:
        The rows, the candidates of each, and the steps of those that are given to one, by place.
    """
    number = {pool.gallery.ids[row]: at for at, row in enumerate(pool.rows.tolist())}
    usable: BoolArray = np.asarray(np.isfinite(known).any(axis=0))
    kept, firsts, wanted = [], [], []
    for row in rows if free else ():
        shots = ([number[one] for one in place if one in number] for place in row.places)
        first = np.array([next(at for at in own if usable[at]) for own in shots if usable[own].any()])
        if len(first) > 1:
            steps = {at: fixed.get(int(pool.rows[one])) for at, one in enumerate(first)}
            wanted.append({at: free.index(step) for at, step in steps.items() if step is not None})
            firsts.append(first.astype(np.int64))
            kept.append(row)
    return kept, firsts, wanted


def place_in_library(  # noqa: PLR0917
    pool: Pool,
    evidence: Float64Array,
    alone: Float64Array,
    odds: Float64Array,
    rows: Sequence[LibraryRow],
    catalogue: Folders,
    given: Mapping[int, int | None],
    stated: WhenWhere | None = None,
) -> Placed | None:
    """Weigh the rows of a library, and place their photographs.

    Args:
        pool: the candidates, with the photographs of the rows at every step.
        evidence: see `place_named`.
        alone: (S, K) probability that a picture fits, without any row.
        odds: (S, K) log-odds from which it was computed, −inf where there are none.
        rows: from `likely_rows`.
        catalogue: the library.
        given: see `place_named`.
        stated: see `likely_rows`.
    Returns:
        None if there is no row.
    """
    known = _dense(pool, evidence, -np.inf)
    likelihood = _likelihood(pool, evidence)
    fixed = {row: step for step, row in given.items() if row is not None}
    free = [step for step in range(len(known)) if step not in given or given[step] is not None]
    kept, firsts, wanted = _members(pool, known, rows, free, fixed)
    if not kept:
        return None
    fitting = _dense(pool, alone, 0.0)
    # probabilities of pictures with words and without are not ordered as their odds are
    known_odds = _dense(pool, odds, -np.inf)
    best = np.maximum(known_odds.max(axis=1, keepdims=True), LOWEST)
    by_itself = fitting.max(axis=1, keepdims=True) * np.exp(OWN_STEP * np.minimum(known_odds - best, 0.0))
    told, compared, outside, inside = [], [], [], list[Float64Array]()
    for members in firsts:
        told.append(likelihood[np.ix_(np.array(free), members)])
        if stated:
            inside.append(told[-1] * stated.within(_ids(pool, members))[free])
            told[-1] = told[-1] * stated.ratios(_ids(pool, members), once=True)[free]
        compared.append(_compared(pool.gallery, pool.rows[members]))
        best = np.delete(by_itself[free], members, axis=1).max(axis=1, initial=0.0)
        outside.append(np.maximum(best - by_itself[np.ix_(np.array(free), members)].max(axis=1), 0.0))
    titled = [TITLED * row.titled for row in kept]
    sizes = catalogue.folder_sizes.tolist()
    weighed = beliefs(told, compared, sizes, wanted, outside, titled, pool.available, inside)
    none = max(1.0 - sum(one.weight for one in weighed), 0.0)
    value, chance = none * by_itself, none * fitting
    strongest, place_of = np.zeros(known.shape), np.zeros(known.shape, dtype=np.int64)
    row_of = np.zeros(known.shape, dtype=np.int64)
    for belief in weighed:
        members = firsts[belief.row]
        share = np.zeros(known.shape)
        fits = fitting.copy()
        share[np.ix_(np.array(free), members)] = belief.belongs
        rest = ELSEWHERE * np.clip(1 - share.sum(axis=1, keepdims=True), 0, 1) * by_itself
        rest[:, members] = 0.0
        fits[:, members] = np.maximum(LIKELY, fits[:, members])
        value += belief.weight * (share + rest)
        chance += belief.weight * fits
        stronger = belief.weight * share > strongest
        strongest = np.maximum(strongest, belief.weight * share)
        places = np.zeros(known.shape[1], dtype=np.int64)
        places[members] = np.arange(1, len(members) + 1)
        place_of = np.where(stronger, places, place_of)
        row_of = np.where(stronger, belief.row, row_of)
    place_of = np.where(2 * strongest > value, place_of, 0)
    return Placed(
        value=_cells(pool, known, value, -np.inf),
        chance=_cells(pool, known, chance, 0.0),
        place=_cells(pool, known, place_of, 0),
        row=_cells(pool, known, row_of, 0),
        names=tuple(row.name for row in kept),
        sizes=tuple(len(row.places) for row in kept),
    )
