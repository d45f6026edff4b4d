"""From material to a registered study: draw, copy, blind, add attention checks, write.

The folder appears whole or not at all, and nothing in what raters see gives a system away. A file says more
than its picture: its kind, size, age and place in the folder may each belong to one system alone. All copies
are JPEG files of one size, written in the order of their contents, with the same times.
"""

import hashlib
import io
import math
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL.Image import Resampling
from pydantic import Field

from limner.config import Record
from limner.errors import ConfigError, DataError, counted
from limner.files import make_folder, make_private, sync_folder, sync_tree
from limner.pictures.decode import PictureError, decode, read_file
from limner.records import limner_version
from limner.research.study.analysis import LEAST_VOTES
from limner.research.study.records import (
    PAIR_WORDS,
    PICTURES,
    Answer,
    Item,
    Key,
    KeyEntry,
    Notice,
    PairAnswer,
    Population,
    Protocol,
    RatedPicture,
    Study,
    draw,
    shuffled,
    write_study,
)
from limner.research.study.sources import Material, PictureSource, Proposal
from limner.research.study.statistics import detectable_effect

QUESTIONS: dict[Protocol, str] = {
    "pairwise": "Which picture fits the text better?",
    "tick-all": "Tick every picture that is appropriate for its step; tick none where none is.",
}
HYPOTHESES: dict[Protocol, str] = {
    "pairwise": "In each stratum the picture of A is preferred to that of B more often than the other way.",
    "tick-all": "The picture of B is ticked without that of C in more steps than the other way round.",
}
"""Hypotheses of the published studies, with letters for the systems."""
CONSENT = (
    "You will see texts with pictures and say which pictures fit. There are no right or wrong opinions; some"
    " items ask for one certain answer, to check that texts are read. Your answers, the time they take and a"
    " random number are stored. You may stop at any time and come back later."
)


class StudySettings(Record):
    """Design of a study.

    Attributes:
        protocol: pairwise or tick-all.
        title: shown to raters.
        question: what raters are asked.
        consent: what they agree to.
        notice: contact, purpose and retention, which raters beyond this machine must be told.
        hypotheses: one sentence each; the usual one unless given.
        size: drawn per stratum; None draws all.
        seed: seed of the draw and of all orders.
        raters: votes wanted per item.
        checks: attention checks per item or sequence that is none.
        level: level of the tests.
        power: power of the sensitivity.
    """

    protocol: Protocol
    title: str = Field(default="Texts and pictures", min_length=1)
    question: str = Field(min_length=1)
    consent: str = Field(default=CONSENT, min_length=1)
    notice: Notice | None = None
    hypotheses: tuple[str, ...] = ()
    size: int | None = Field(default=100, ge=1, le=100_000)
    seed: int = Field(default=0, ge=0)
    raters: int = Field(default=3, ge=1, le=100)
    checks: float = Field(default=0.1, ge=0, le=1)
    level: float = Field(default=0.05, gt=0, lt=0.5)
    power: float = Field(default=0.95, ge=0.5, lt=1)


def planned_analysis(settings: StudySettings, items: int, strata: int) -> tuple[str, ...]:
    """The analysis as sentences.

    Args:
        settings: settings of the study.
        items: judged, attention checks left out.
        strata: their number.
    """
    least = min(LEAST_VOTES, settings.raters)
    level, power = f"{settings.level:g}", f"{settings.power:g}"
    effect = detectable_effect(items, settings.level, settings.power)
    scored = (
        "An item scores +1 where its majority prefers A, -1 where it prefers B, 0 else; pairs of one and the"
        " same picture are shown to nobody and count as answered 'same'."
        if settings.protocol == "pairwise"
        else "A step scores +1 where more than half of its raters tick the picture of B and not that of C,"
        " each by itself, -1 the other way round, 0 else; a tick of a picture that systems share counts for"
        " each."
    )
    return (
        f"An answer is an item's majority where more than half of its votes give it; items with fewer than"
        f" {counted(least, 'vote')} are left out and counted.",
        scored,
        f"Exact two-sided sign test and one-sample t-test of the scores against 0 at level {level}"
        + (f", p values by Holm's correction over {strata} strata." if strata > 1 else "."),
        f"Effect: mean over standard deviation, with its interval by the noncentral t distribution."
        f" {counted(items, 'item')} together can show one of {effect:.3f} with power {power}"
        " (normal approximation).",
        "Agreement: Fleiss' kappa over items with the commonest number of votes, and Krippendorff's alpha for"
        " nominal answers.",
        "A rater fails who answers any attention check wrongly; everything is reported with all raters, and"
        " again without those who failed.",
    )


SIDE_PX = 1600
QUALITY = 92


class Copies:
    """Pictures on their way into the folder of a study."""

    def __init__(self, waiting: Path) -> None:
        """Take an empty folder, which is not the study's: what lies there is in the order it was added."""
        self._waiting = waiting

    def add(self, picture: PictureSource) -> str:
        """Read a picture.

        Args:
            picture: a file, or a drawn picture.
        Returns:
            A word for it; equal pictures have the same.
        Raises:
            DataError: the file does not open.
        """
        data = _encoded(picture)
        word = hashlib.sha256(data).hexdigest()
        (self._waiting / word).write_bytes(data)
        return word

    def write(self, folder: Path) -> dict[str, str]:
        """Write all copies into an empty folder.

        What is added to the end of the smaller ones is no part of the picture, and compresses no better than
        one: neither a file system nor a connection makes it short again.

        Args:
            folder: that is there.
        Returns:
            Word → name of the copy: SHA-256 of its bytes, and an ending.
        """
        waiting = sorted(self._waiting.iterdir())  # names are hashes: an order that no system has a part in
        size, now = max((file.stat().st_size for file in waiting), default=0), time.time_ns()
        names = {}
        for file in waiting:
            data = file.read_bytes()
            data += hashlib.shake_256(data).digest(size - len(data))
            name = f"{hashlib.sha256(data).hexdigest()}.jpg"
            (folder / name).write_bytes(data)
            os.utime(folder / name, ns=(now, now))
            names[file.name] = name
        return names


def _encoded(picture: PictureSource) -> bytes:
    """A picture written again: upright, no larger than a screen, without a word beside its pixels."""
    if isinstance(picture, Path):
        try:
            read = read_file(os.fsencode(picture.absolute()))
            shown = decode(read.data, None, picture.suffix.lower()).rgb
        except PictureError as error:
            raise DataError(f"study: {picture}: {error}; restore the file or leave it out") from error
    else:
        shown = picture.convert("RGB")
    file = io.BytesIO()
    shown.thumbnail((SIDE_PX, SIDE_PX), Resampling.LANCZOS)
    shown.info.clear()
    shown.save(file, "JPEG", quality=QUALITY, subsampling=0)
    return file.getvalue()


Draft = tuple[Item, KeyEntry]
"""An item with a placeholder for its id, and its entry in the key."""
UNNAMED = "x"
PAIR = ("first", "second")
PAIR_DUE: tuple[PairAnswer, ...] = ("neither", "same")
TICKED = "abc"


def attention_checks(
    protocol: Protocol, pages: Sequence[Sequence[Draft]], count: int, seed: int
) -> list[list[Draft]]:
    """Pages of one check each.

    Args:
        protocol: pairwise or tick-all.
        pages: those that raters are shown; their pictures are used again.
        count: checks wanted.
        seed: seed of the choice of pictures.
    Returns:
        As many; none where the pages have fewer than two different pictures.
    """
    pictures = sorted(
        {one.picture for page in pages for item, _ in page for one in item.candidates if one.picture}
    )
    strata = [page[0][0].stratum for page in pages]
    if len(pictures) < 2:
        return []
    found = []
    for number in range(count):
        stratum = strata[int(shuffled(map(str, range(len(strata))), seed, "check stratum", number)[0])]
        names = PAIR if protocol == "pairwise" else TICKED
        candidates: dict[str, str | None] = dict(
            zip(names, shuffled(pictures, seed, "check", number), strict=False)
        )
        due: Answer
        if protocol == "pairwise":
            due = PAIR_DUE[number % len(PAIR_DUE)]
            asked = f"answer “{PAIR_WORDS[due]}”"
        else:
            due = () if number % 2 else tuple(candidates)
            asked = f"tick {'every' if due else 'no'} picture of this step"
        text = f"This is a check that texts are read. Whatever the pictures show, {asked}."
        found.append([(_item(protocol, text, candidates, stratum), KeyEntry(right=due))])
    return found


def _item(
    protocol: Protocol,
    text: str,
    candidates: Mapping[str, str | None],
    stratum: str,
    **more: Any,  # noqa: ANN401  (fields of an item)
) -> Item:
    """An item with placeholders for its names, of candidates and their pictures."""
    return Item(
        id=UNNAMED,
        text=text,
        candidates=tuple(RatedPicture(id=name, picture=one) for name, one in candidates.items()),
        stratum=stratum,
        sequence="" if protocol == "pairwise" else UNNAMED,
        **more,
    )


def create_study(to: Path, material: Material, settings: StudySettings) -> Study:
    """Write a study folder.

    Args:
        to: folder to make; absent or empty.
        material: what can be drawn.
        settings: what is asked, of whom, and how it will be analysed.
    Returns:
        The registration.
    Raises:
        DataError: the folder is not empty, or a picture does not open.
        ConfigError: a setting does not go with the material.
    """
    if "all" in material.strata and len(material.strata) > 1:
        raise ConfigError("study: stratum 'all' stands for everything; give the strata other names")
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise DataError(f"{to}: not an empty folder; name a new one for the study")
    population = draw(material.strata, settings.size, settings.seed)
    make_folder(to.parent)
    # What cannot be cleared away of the draft is no reason to deny a study that is there.
    with TemporaryDirectory(prefix=f".{to.name}.", dir=to.parent, ignore_cleanup_errors=True) as draft:
        part, waiting = Path(draft) / "study", Path(draft) / "waiting"
        (part / PICTURES).mkdir(parents=True)
        waiting.mkdir()
        study = _write(part, Copies(waiting), material, population, settings)
        make_private(part)
        sync_tree(part, set())
        if to.exists():
            to.rmdir()
        part.replace(to)
        sync_folder(to.parent)
    return study


def _write(
    folder: Path, copies: Copies, material: Material, population: Population, settings: StudySettings
) -> Study:
    proposed = [
        [(one, stratum, _added(one, copies)) for one in material.strata[stratum][name]]
        for stratum, drawn in population.strata.items()
        for name in drawn.drawn
    ]
    compared = ("A", "B") if settings.protocol == "pairwise" else ("B", "C")
    if all(words[compared[0]] == words[compared[1]] for page in proposed for _, _, words in page):
        raise DataError(
            "study: the two systems show the same picture, or none, everywhere, so there is nothing to ask;"
            " compare other systems, settings or texts"
        )
    names = copies.write(folder / PICTURES)
    pages = [
        [
            _drafted(one, stratum, {letter: word and names[word] for letter, word in words.items()}, settings)
            for one, stratum, words in page
        ]
        for page in proposed
    ]
    asked = [page for page in pages if not page[0][0].prefilled]
    wanted = math.ceil(settings.checks * len(asked))
    checks = attention_checks(settings.protocol, asked, wanted, settings.seed)
    items, entries = _named([*pages, *checks], settings.seed)
    key = Key(systems=material.systems, items=entries)
    checked = len(key.checks)
    prefilled = sum(item.prefilled is not None for item in items)
    sizes = {
        name: {"population": len(one.population), "drawn": len(one.drawn)}
        for name, one in population.strata.items()
    }
    values = {
        **settings.model_dump(
            include={"protocol", "title", "question", "consent", "notice", "level", "power"}
        ),
        "hypotheses": settings.hypotheses or (HYPOTHESES[settings.protocol],),
        "systems": tuple(next(iter(material.systems.values()))),
        "items": len(items) - prefilled,
        "prefilled": prefilled,
        "checks": checked,
        "check_share": settings.checks,
        "raters_per_item": settings.raters,
        "sample": {
            "unit": "item" if settings.protocol == "pairwise" else "sequence",
            "seed": settings.seed,
            "strata": sizes,
        },
        "analysis": (*planned_analysis(settings, len(items) - checked, len(sizes)), *material.rules),
        "created": datetime.now(UTC),
        "version": limner_version(),
    }
    return write_study(folder, values, items, key, population)


def _added(one: Proposal, copies: Copies) -> dict[str, str | None]:
    """Letter of a system → the word for its copy; None if it shows no picture."""
    if not one.text.strip():
        raise DataError(f"study: {one.source!r} has no words; mend or remove it in the data")
    return {
        letter: None if picture is None else copies.add(picture) for letter, picture in one.pictures().items()
    }


def _drafted(
    one: Proposal, stratum: str, pictures: Mapping[str, str | None], settings: StudySettings
) -> Draft:
    """A text with its pictures in a canonical order that says nothing.

    A pair shows either system's picture, or that it shows none, pre-filled where they are equal; a step every
    different picture once.
    """
    systems: dict[str, tuple[str, ...]]
    more: dict[str, Any] = {"position": one.position}
    if settings.protocol == "pairwise":
        order = shuffled(pictures, settings.seed, "sides", stratum, one.source)
        systems = {side: (letter,) for side, letter in zip(PAIR, order, strict=True)}
        same = len(set(pictures.values())) == 1
        more |= {"context": one.context, "prefilled": "same" if same else None}
    else:
        order = shuffled(
            {name for name in pictures.values() if name}, settings.seed, "order", stratum, one.source
        )
        systems = {
            name: tuple(letter for letter, own in pictures.items() if own == picture)
            for name, picture in zip(TICKED, order, strict=False)
        }
    shown = {name: pictures[letters[0]] for name, letters in systems.items()}
    item = _item(settings.protocol, one.text, shown, stratum, **more)
    return item, KeyEntry(systems=systems, source=one.source, cluster=one.cluster)


def _named(pages: Sequence[Sequence[Draft]], seed: int) -> tuple[list[Item], dict[str, KeyEntry]]:
    """Items under numbers in an order that gives away neither strata nor checks, and their entries."""
    order = shuffled((str(number) for number in range(len(pages))), seed, "pages")
    items: list[Item] = []
    entries: dict[str, KeyEntry] = {}
    for page, number in enumerate(order, start=1):
        for item, entry in pages[int(number)]:
            name = f"i{len(items) + 1:05d}"
            sequence = f"s{page:05d}" if item.sequence else ""
            items.append(item.model_copy(update={"id": name, "sequence": sequence}))
            entries[name] = entry
    return items, entries
