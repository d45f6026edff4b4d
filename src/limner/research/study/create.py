"""Creates a registered study: samples items, copies and blinds pictures, adds attention checks, writes files.

The folder is created atomically. Nothing that raters see may identify a system, not even the format, size,
time or order of picture files: all copies are JPEG files of equal size with equal times, in the order of
their hashes.
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
    "tick-all": "Tick every picture that is appropriate for its step. If none is, tick none.",
}
HYPOTHESES: dict[Protocol, str] = {
    "pairwise": "In each stratum, raters prefer the picture of A to that of B more often than the reverse.",
    "tick-all": "Raters tick the picture of B but not that of C in more steps than the reverse.",
}
"""Hypotheses of the published studies, with the letters of the systems."""
CONSENT = (
    "You will see texts with pictures and say which pictures fit. There are no right or wrong opinions. Some"
    " items ask for a particular answer, to check that you read the texts. Your answers, the time they take"
    " and a random number are stored. You may stop at any time and come back later."
)


class StudySettings(Record):
    """Design of a study.

    Attributes:
        protocol: pairwise or tick-all.
        title: shown to raters.
        question: what raters are asked.
        consent: what they agree to.
        notice: contact, purpose and retention; required if raters use other machines.
        hypotheses: one sentence each; empty for the default of the protocol.
        size: sample size per stratum; None takes all.
        seed: seed of the sample and of all orders.
        raters: votes wanted per item.
        checks: attention checks per other item or sequence, in [0, 1].
        level: level of the tests.
        power: power for the sensitivity analysis.
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
    """The planned analysis as sentences to register.

    Args:
        settings: settings of the study.
        items: number of items, without attention checks.
        strata: number of strata.
    """
    least = min(LEAST_VOTES, settings.raters)
    level, power = f"{settings.level:g}", f"{settings.power:g}"
    effect = detectable_effect(items, settings.level, settings.power)
    scored = (
        "An item scores +1 if its majority prefers A, -1 if it prefers B, and 0 otherwise; pairs of the same"
        " picture are not shown and count as answered 'same'."
        if settings.protocol == "pairwise"
        else "A step scores +1 if more than half of its raters tick the picture of B but no such majority"
        " ticks that of C, -1 in the reverse case, and 0 otherwise; a tick on a picture that several systems"
        " share counts for each."
    )
    return (
        f"An answer is an item's majority if more than half of its votes give it; items with fewer than"
        f" {counted(least, 'vote')} are left out and counted.",
        scored,
        f"Exact two-sided sign test and one-sample t-test of the scores against 0 at level {level}"
        + (f", p values by Holm's correction over {strata} strata." if strata > 1 else "."),
        f"Effect: mean divided by standard deviation, with an interval from the noncentral t distribution."
        f" {counted(items, 'item')} together detect an effect of {effect:.3f} with power {power}"
        " (normal approximation).",
        "Agreement: Fleiss' kappa over units with the most frequent number of votes, and Krippendorff's alpha"
        " for nominal answers.",
        "A rater who answers any attention check wrongly fails; all results are reported with all raters, and"
        " again without those who failed.",
    )


SIDE_PX = 1600
QUALITY = 92


class Copies:
    """Copies of pictures: first collected in a temporary folder, then written to the study folder."""

    def __init__(self, waiting: Path) -> None:
        """Use an empty temporary folder, outside the study folder, because it shows the order of arrival."""
        self._waiting = waiting

    def add(self, picture: PictureSource) -> str:
        """Read, re-encode and store a picture.

        Args:
            picture: a file, or an image in memory.
        Returns:
            SHA-256 of the copy; equal pictures have the same.
        Raises:
            DataError: the file is not a readable picture.
        """
        data = _encoded(picture)
        word = hashlib.sha256(data).hexdigest()
        (self._waiting / word).write_bytes(data)
        return word

    def write(self, folder: Path) -> dict[str, str]:
        """Write all copies into an empty folder.

        Smaller files are padded to equal size with incompressible bytes after the JPEG data, so that neither
        a file system nor a connection can compress them to different sizes.

        Args:
            folder: an existing, empty folder.
        Returns:
            Hash from `add` → file name of the copy: SHA-256 of the padded bytes, and ``.jpg``.
        """
        waiting = sorted(self._waiting.iterdir())  # names are hashes: an order independent of the systems
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
    """Re-encode a picture as JPEG: upright, at most `SIDE_PX` pixels a side, without metadata."""
    if isinstance(picture, Path):
        try:
            read = read_file(os.fsencode(picture.absolute()))
            image = decode(read.data, None, picture.suffix.lower()).rgb
        except PictureError as error:
            raise DataError(f"study: {picture}: {error}; restore the file or leave it out") from error
    else:
        image = picture.convert("RGB")
    file = io.BytesIO()
    image.thumbnail((SIDE_PX, SIDE_PX), Resampling.LANCZOS)
    image.info.clear()
    image.save(file, "JPEG", quality=QUALITY, subsampling=0)
    return file.getvalue()


Draft = tuple[Item, KeyEntry]
"""An item with a placeholder id, and its entry in the key."""
UNNAMED = "x"
PAIR = ("first", "second")
PAIR_DUE: tuple[PairAnswer, ...] = ("neither", "same")
TICKED = "abc"


def attention_checks(
    protocol: Protocol, pages: Sequence[Sequence[Draft]], count: int, seed: int
) -> list[list[Draft]]:
    """Make attention checks, one per page.

    Args:
        protocol: pairwise or tick-all.
        pages: pages that raters are shown; their pictures are reused.
        count: number of checks.
        seed: seed of the choice of pictures.
    Returns:
        `count` pages; none if `pages` have fewer than two different pictures.
    """
    pictures = sorted(
        {
            candidate.picture
            for page in pages
            for item, _ in page
            for candidate in item.candidates
            if candidate.picture
        }
    )
    strata = [page[0][0].stratum for page in pages]
    if len(pictures) < 2:
        return []
    checks = []
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
        text = f"This is to check that you read the texts. Whatever the pictures show, {asked}."
        checks.append([(_item(protocol, text, candidates, stratum), KeyEntry(right=due))])
    return checks


def _item(
    protocol: Protocol,
    text: str,
    candidates: Mapping[str, str | None],
    stratum: str,
    **more: Any,  # noqa: ANN401  (fields of an item)
) -> Item:
    """An item with placeholder ids and the given candidates (name → picture)."""
    return Item(
        id=UNNAMED,
        text=text,
        candidates=tuple(RatedPicture(id=name, picture=picture) for name, picture in candidates.items()),
        stratum=stratum,
        sequence="" if protocol == "pairwise" else UNNAMED,
        **more,
    )


def create_study(to: Path, material: Material, settings: StudySettings) -> Study:
    """Write a study folder.

    Args:
        to: folder to create; absent or empty.
        material: population to sample from.
        settings: design of the study.
    Returns:
        The registration.
    Raises:
        DataError: the folder is not empty, a picture cannot be read, a text is empty, or the two systems show
            the same picture for every text.
        ConfigError: a stratum is called ``all`` although there are others.
    """
    if "all" in material.strata and len(material.strata) > 1:
        raise ConfigError("study: stratum 'all' is reserved for the union of the others; rename it")
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise DataError(f"{to}: not an empty folder; name a new one for the study")
    population = draw(material.strata, settings.size, settings.seed)
    make_folder(to.parent)
    # Once the study exists, a draft that cannot be deleted is not an error.
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
            "study: the two systems show the same picture, or none, for every text; compare other systems,"
            " settings or texts"
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
    """Letter of a system → hash of the copy; None if it shows no picture."""
    if not one.text.strip():
        raise DataError(f"study: {one.source!r} has no text; correct or remove it in the data")
    return {
        letter: None if picture is None else copies.add(picture) for letter, picture in one.pictures().items()
    }


def _drafted(
    one: Proposal, stratum: str, pictures: Mapping[str, str | None], settings: StudySettings
) -> Draft:
    """Draft an item, with its pictures in a pseudorandom canonical order.

    A pair shows each system's picture, or that the system shows none; if both are equal, the item is
    pre-filled. A tick-all step shows each distinct picture once.
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
            name: tuple(letter for letter, letter_picture in pictures.items() if letter_picture == picture)
            for name, picture in zip(TICKED, order, strict=False)
        }
    candidates = {name: pictures[letters[0]] for name, letters in systems.items()}
    item = _item(settings.protocol, one.text, candidates, stratum, **more)
    return item, KeyEntry(systems=systems, source=one.source, cluster=one.cluster)


def _named(pages: Sequence[Sequence[Draft]], seed: int) -> tuple[list[Item], dict[str, KeyEntry]]:
    """Number the items in an order that reveals neither strata nor checks; also return their key entries."""
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
