"""Photographs laid out as people keep them: in one folder, in the order of the steps.

A guide or a picture book has one picture a step. Further shots of a step are copies that are turned, cropped
and brightened; strangers are pictures of other texts of the same part. Every layout is drawn `DRAWS` times,
unless nothing is left to chance.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
from PIL import Image, ImageEnhance

from limner.language import words
from limner.pictures.decode import decode, read_file
from limner.records import Picture, Story
from limner.text.read import read_text
from ordinary.jobs import Job
from ordinary.pictures import Encoders, Part, Pool, Supply, Words, own_of, pool_of
from ordinary.texts import random, whole

DRAWS = 5
LEAST_STEPS = 3
SHOTS = 2
"""Copies of each picture, as its second and third shot."""
SETS = ("howto", "storybook")


@dataclass(frozen=True)
class Told:
    """A text with one picture a step.

    Attributes:
        story: the words, without pictures.
        pictures: id of each step's picture.
        others: pictures of the other texts of its set, text by text in order.
        part: whose text.
        name: of its set.
        cover: id of the picture on its cover, which is none of `pictures`; "" for none.
    """

    story: Story
    pictures: tuple[str, ...]
    others: tuple[str, ...]
    part: Part
    name: str
    cover: str = ""


@dataclass(frozen=True)
class Laid:
    """The photographs of a folder, in the order in which they were taken.

    Attributes:
        told: the text.
        photographs: ids in order.
        own: per step the photographs that are right.
        cover: the photograph that is right as the cover of the text; "" for none.
    """

    told: Told
    photographs: tuple[str, ...]
    own: tuple[frozenset[str], ...]
    cover: str = ""


def told(supply: Supply, name: str, part: Part) -> list[Told]:
    """The texts of a set with at least `LEAST_STEPS` steps, all with pictures of their own."""
    made, covers = [], supply.covers(name)
    for story in supply.stories(name, part):
        pictures = tuple(own_of(story, s) for s in range(len(story.steps)))
        if len(pictures) >= LEAST_STEPS and len(set(pictures)) == len(pictures):
            cover = f"cover-{story.id}" if story.id in covers else ""
            made.append(Told(whole(story, pictures).story, pictures, (), part, name, cover))
    pages = [picture for text in made for picture in text.pictures]
    return [
        replace(text, others=tuple(picture for picture in pages if picture not in text.pictures))
        for text in made
    ]


def marked(text: Told, says: Mapping[str, str]) -> Story:
    """A text after whose steps the author marks a place for a picture.

    Args:
        text: the text.
        says: words of the marks, by picture; others have none.
    """
    steps = zip(text.story.steps, text.pictures, strict=True)
    pages = [f"{step.text}\n\n![{says.get(picture, '')}]()" for step, picture in steps]
    story = read_text("\n\n".join([f"# {text.story.title}", *pages]), format="markdown").story
    assert len(story.places) == len(story.steps) == len(text.pictures)
    return story.model_copy(update={"id": text.story.id})


def shot(picture: str, number: int) -> str:
    """Id of a further shot of a picture, from 1; 0 is the picture itself."""
    return f"{picture}-{number}" if number else picture


def shots(supply: Supply, name: str, part: Part) -> Pool:
    """Further shots of all pictures of a set's texts."""
    pages = supply.pages(name, part)
    file = dict(zip(pages.ids, pages.files, strict=True))
    wanted = {picture for text in told(supply, name, part) for picture in text.pictures}
    folder = supply.folder / "shots" / f"{name}-{part}"
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for picture in sorted(wanted):
        for number in range(1, SHOTS + 1):
            path = folder / f"{shot(picture, number)}.jpg"
            if not path.exists():
                altered(file[picture], path, picture, number)
            files[shot(picture, number)] = str(path)
    return pool_of(f"shots-{name}-{part}", files, {}, supply.encoders, supply.folder)


def altered(file: str, path: Path, picture: str, number: int) -> None:
    """Write a copy that is turned, cropped and brightened."""
    rng = random("shot", picture, number)
    found = decode(read_file(os.fsencode(file)).data, suffix=Path(file).suffix.lower()).rgb
    image = Image.fromarray(found) if isinstance(found, np.ndarray) else cast(Image.Image, found)
    image.thumbnail((640, 640))
    angle = float(rng.choice([-1, 1]) * rng.uniform(1.5, 6))
    image = image.rotate(angle, Image.Resampling.BICUBIC, fillcolor=(128, 128, 128))
    wide, high = image.size
    share = rng.uniform(0.78, 0.92)
    left, top = (int(rng.uniform(0, (1 - share) * side)) for side in (wide, high))
    image = image.crop((left, top, left + int(share * wide), top + int(share * high)))
    image = ImageEnhance.Brightness(image).enhance(float(rng.uniform(0.8, 1.25)))
    part = path.with_suffix(".part")
    image.save(part, "JPEG", quality=88)
    part.replace(path)


Layout = Callable[[Told, Sequence[str], np.random.Generator], list[tuple[str, int | None]]]
"""Text, strangers and a generator → photographs in order, each with its step, or None for a stranger."""


def _one_each(text: Told, kept: Sequence[int] | None = None) -> list[tuple[str, int | None]]:
    steps = range(len(text.pictures)) if kept is None else kept
    return [(text.pictures[s], s) for s in steps]


def _several(text: Told, rng: np.random.Generator, kept: Sequence[int]) -> list[tuple[str, int | None]]:
    """One to three shots of each step, in any order among themselves."""
    photographs: list[tuple[str, int | None]] = []
    for s in kept:
        numbers = rng.permutation(SHOTS + 1)[: rng.integers(1, SHOTS + 2)]
        photographs += [(shot(text.pictures[s], int(number)), s) for number in numbers]
    return photographs


def _kept(text: Told, rng: np.random.Generator, lost: int) -> list[int]:
    """Steps that have a photograph, at least one."""
    count = len(text.pictures)
    return sorted(rng.permutation(count)[: max(count - lost, 1)].tolist())


def _each_kept(text: Told, rng: np.random.Generator, chance: float) -> list[int]:
    """Steps that have a photograph, each by chance; the first if none has."""
    return [s for s in range(len(text.pictures)) if rng.random() < chance] or [0]


def _among(
    photographs: list[tuple[str, int | None]], strangers: Sequence[str], rng: np.random.Generator, count: int
) -> list[tuple[str, int | None]]:
    """The photographs with some strangers at any places between them."""
    for place in range(count):
        at = int(rng.integers(0, len(photographs) + 1))
        photographs = [*photographs[:at], (strangers[place], None), *photographs[at:]]
    return photographs


def as_many(text: Told, strangers: Sequence[str], rng: np.random.Generator) -> list[tuple[str, int | None]]:
    return _one_each(text)


def one_missing(
    text: Told, strangers: Sequence[str], rng: np.random.Generator
) -> list[tuple[str, int | None]]:
    return _one_each(text, _kept(text, rng, 1))


def fifth_missing(
    text: Told, strangers: Sequence[str], rng: np.random.Generator
) -> list[tuple[str, int | None]]:
    return _one_each(text, _each_kept(text, rng, 0.8))


def half_missing(
    text: Told, strangers: Sequence[str], rng: np.random.Generator
) -> list[tuple[str, int | None]]:
    return _one_each(text, _each_kept(text, rng, 0.5))


def one_twice(text: Told, strangers: Sequence[str], rng: np.random.Generator) -> list[tuple[str, int | None]]:
    photographs = _one_each(text)
    s = int(rng.integers(0, len(photographs)))
    return [*photographs[: s + 1], (shot(text.pictures[s], 1), s), *photographs[s + 1 :]]


def some_shots(
    text: Told, strangers: Sequence[str], rng: np.random.Generator
) -> list[tuple[str, int | None]]:
    return _several(text, rng, range(len(text.pictures)))


def camera(text: Told, strangers: Sequence[str], rng: np.random.Generator) -> list[tuple[str, int | None]]:
    """Shots, a twentieth of the steps without one, a fifth of the photographs strangers."""
    photographs = _several(text, rng, _each_kept(text, rng, 0.95))
    return _among(photographs, strangers, rng, max(1, round(len(photographs) / 4)))


def many_strangers(
    text: Told, strangers: Sequence[str], rng: np.random.Generator
) -> list[tuple[str, int | None]]:
    return _among(_several(text, rng, range(len(text.pictures))), strangers, rng, len(text.pictures))


def finished_first(
    text: Told, strangers: Sequence[str], rng: np.random.Generator
) -> list[tuple[str, int | None]]:
    """The finished thing once more at the beginning."""
    return [(shot(text.pictures[-1], 1), len(text.pictures) - 1), *_one_each(text)]


def finished_last(
    text: Told, strangers: Sequence[str], rng: np.random.Generator
) -> list[tuple[str, int | None]]:
    """The finished thing once more at the end."""
    return [*_one_each(text), (shot(text.pictures[-1], 1), len(text.pictures) - 1)]


def cover_first(
    text: Told, strangers: Sequence[str], rng: np.random.Generator
) -> list[tuple[str, int | None]]:
    """The picture on the cover at the beginning."""
    return [(text.cover, None), *_one_each(text)]


def cover_last(
    text: Told, strangers: Sequence[str], rng: np.random.Generator
) -> list[tuple[str, int | None]]:
    return [*_one_each(text), (text.cover, None)]


def strangers_around(
    text: Told, strangers: Sequence[str], rng: np.random.Generator
) -> list[tuple[str, int | None]]:
    """A stranger at the beginning, and one at the end."""
    return [(strangers[0], None), *_one_each(text), (strangers[1], None)]


def exchanged(text: Told, strangers: Sequence[str], rng: np.random.Generator) -> list[tuple[str, int | None]]:
    photographs = _one_each(text)
    s = int(rng.integers(0, len(photographs) - 1))
    photographs[s], photographs[s + 1] = photographs[s + 1], photographs[s]
    return photographs


def roughly(text: Told, strangers: Sequence[str], rng: np.random.Generator) -> list[tuple[str, int | None]]:
    places = np.arange(len(text.pictures)) + rng.normal(0, 0.8, len(text.pictures))
    return [(text.pictures[s], s) for s in np.argsort(places, kind="stable").tolist()]


def shuffled(text: Told, strangers: Sequence[str], rng: np.random.Generator) -> list[tuple[str, int | None]]:
    return [(text.pictures[s], s) for s in rng.permutation(len(text.pictures)).tolist()]


def nothing(text: Told, strangers: Sequence[str], rng: np.random.Generator) -> list[tuple[str, int | None]]:
    """As many photographs as steps, of another text of the set, in order."""
    start = int(rng.integers(0, max(len(text.others) - len(text.pictures), 0) + 1))
    return [(picture, None) for picture in text.others[start : start + len(text.pictures)]]


def unlike(text: Told, strangers: Sequence[str], rng: np.random.Generator) -> list[tuple[str, int | None]]:
    """As many photographs as steps, of anything but the text."""
    return [(picture, None) for picture in strangers[: len(text.pictures)]]


LAYOUTS: dict[str, Layout] = {
    "as many": as_many,
    "one missing": one_missing,
    "a fifth missing": fifth_missing,
    "half missing": half_missing,
    "one step twice": one_twice,
    "one to three shots": some_shots,
    "camera": camera,
    "as many strangers": many_strangers,
    "finished thing first": finished_first,
    "finished thing last": finished_last,
    "strangers around": strangers_around,
    "two exchanged": exchanged,
    "roughly": roughly,
    "no order": shuffled,
    "of another text": nothing,
    "of anything else": unlike,
}
COVERS: dict[str, Layout] = {"cover first": cover_first, "cover last": cover_last}
"""Layouts of texts that have a cover."""
SOURCES = (
    "edited in a subfolder",
    "two phones",
    "a third by messenger",
    "a stretch of a month",
    "over ten days",
)
"""Layouts of one photograph a step that come from several devices, or lie in a large folder."""
FIXED = ("as many", "finished thing first", "finished thing last", *COVERS, *SOURCES[:3])
"""Layouts in which nothing is left to chance."""


def laid(text: Told, layout: str, strangers: Sequence[str], draw: int) -> Laid:
    """Lay out the photographs of a text.

    Args:
        text: the text.
        layout: name of the layout.
        strangers: ids of pictures of other texts.
        draw: number of the draw.
    """
    rng = random("row", layout, text.story.id, draw)
    mixed = [strangers[at] for at in rng.permutation(len(strangers)).tolist()]
    photographs = (LAYOUTS | COVERS)[layout](text, mixed, rng)
    own = [frozenset(one for one, s in photographs if s == step) for step in range(len(text.pictures))]
    taken = tuple(one for one, _ in photographs)
    cover = taken[-layout.endswith(" last")] if layout.endswith((" first", " last")) else ""
    return Laid(text, taken, tuple(own), cover)


FOLDER_DAYS, SHOT_S = 9, 120
"""Days between two folders, and seconds between two photographs of one."""
START = datetime(2024, 5, 12, 10)
OWN = "/library/own"


@dataclass(frozen=True)
class RowJob(Job):
    """A job whose pictures lie in folders, with times of taking.

    Attributes:
        layout: how the photographs of the text are laid out.
        named: folder that is named beside the text; "" for none.
        photographs: ids of the photographs of the text's folder, in order.
        cover: as in `Laid`.
    """

    layout: str = ""
    named: str = ""
    photographs: tuple[str, ...] = ()
    cover: str = ""


def job(  # noqa: PLR0917
    found: Laid,
    pool: Pool,
    encoders: Encoders,
    words: Words,
    folders: Sequence[Sequence[str]],
    stated: Mapping[str, dict[str, Any]] | None = None,
    **more: Any,
) -> RowJob:
    """A job with a library of folders.

    Args:
        found: the text and its photographs.
        pool: all pictures.
        encoders: encoders of the pool.
        words: whether pictures keep their words.
        folders: ids by folder, each in the order of taking; the first is the text's own.
        stated: what the records of some pictures state instead, by id.
        more: further attributes.
    """
    place = {
        picture: (f"{OWN if not number else f'/library/{number:03d}'}/IMG_{1000 + at}.jpg", number, at)
        for number, folder in enumerate(folders)
        for at, picture in enumerate(folder)
    }
    flat, called = more.pop("flat", False), more.pop("called", "")
    if called:
        place = {
            one: (path.replace(OWN, f"/library/{called}"), *rest) for one, (path, *rest) in place.items()
        }

    def records(ids: Sequence[str]) -> list[Picture]:
        made = []
        for record in pool.records(words)(ids):
            path, number, at = place[record.id]
            taken = START + timedelta(days=FOLDER_DAYS * number, seconds=SHOT_S * at)
            if not flat:
                shot_at = {"paths": (path,), "taken": taken, "taken_from": "camera", "camera": "Phone"}
                made.append(record.model_copy(update=shot_at | (stated or {}).get(record.id, {})))
            else:
                made.append(record)
        return made

    gallery = pool.gallery(list(place), words, encoders[0])
    text = found.told
    own = tuple(one & place.keys() for one in found.own)
    every = frozenset(one for shown in own for one in shown)
    return RowJob(
        kind=text.name,
        words=words,
        size=len(gallery),
        part=text.part,
        gallery=gallery,
        records=records,
        story=text.story,
        own=own,
        fits=(every,) * len(own),
        lacks=tuple("" if one else "withheld" for one in own),
        photographs=tuple(folders[0]),
        cover=found.cover,
        **more,
    )


class Rows:
    """Jobs of the texts of a set whose photographs lie in folders."""

    def __init__(self, stock: Supply, name: str, part: Part, *, large: bool = False) -> None:
        self.stock, self.texts = stock, told(stock, name, part)
        covers = {f"cover-{one}": file for one, file in stock.covers(name).items()}
        covers = {text.cover: covers[text.cover] for text in self.texts if text.cover}
        pools = [stock.pages(name, part), shots(stock, name, part), stock.photographs(part)]
        if covers:
            pools.append(pool_of(f"covers-{name}-{part}", covers, {}, stock.encoders, stock.folder))
        others = [stock.photographs(part)]
        if large:
            pools.append(stock.further(part))
            others.append(stock.further(part))
        self.pool = Pool.joined(pools)
        self._pages = [picture for text in self.texts for picture in text.pictures]
        self._others = [picture for pool in others for picture in pool.ids]

    def _strangers(self, text: Told) -> list[str]:
        """Pictures of the other texts, and as many others."""
        rng = random("strangers", text.story.id)
        pages = [one for one in self._pages if one not in text.pictures]
        others = [self._others[at] for at in rng.permutation(len(self._others)).tolist()]
        return [*pages, *others[: len(pages)]]

    def named(self, text: Told, layout: str, draw: int, words: Words = "hidden") -> RowJob:
        """A text and its own folder, which is named.

        Args:
            text: the text.
            layout: one of `LAYOUTS` or `SOURCES`.
            draw: number of the draw.
            words: whether pictures keep their words.
        """
        if layout in SOURCES:
            return self._from(text, layout, draw, words)
        found = laid(text, layout, self._strangers(text), draw)
        folders = [found.photographs]
        return job(found, self.pool, self.stock.encoders, words, folders, layout=layout, named=OWN)

    def _from(self, text: Told, layout: str, draw: int, words: Words) -> RowJob:
        """One photograph a step, from several devices, or in a large folder."""
        found = laid(text, "as many", (), draw)
        photographs, own = list(found.photographs), list(found.own)
        rng = random("from", layout, text.story.id, draw)
        stated: dict[str, dict[str, Any]] = {}
        for at, picture in enumerate(found.photographs):
            if layout == "a third by messenger" and at % 3 == 1:
                name = f"{OWN}/IMG-20240512-WA{at:04d}.jpg"
                day = START.replace(hour=0)
                stated[picture] = {"paths": (name,), "taken": day, "taken_from": "stated", "camera": ""}
            elif layout == "two phones" and at % 2:
                stated[picture] = {"paths": (f"{OWN}/PXL_{at:03d}.jpg",), "camera": "Another phone"}
            elif layout == "edited in a subfolder" and at % 2:
                edited = shot(picture, 1)
                taken = START + timedelta(seconds=SHOT_S * at)
                for one, inside in ((picture, ""), (edited, "edited/")):
                    stated[one] = {"paths": (f"{OWN}/{inside}IMG_{1000 + at}.jpg",), "taken": taken}
                own[at] |= {edited}
                photographs.append(edited)
        if layout in ("a stretch of a month", "over ten days"):
            others = [picture for picture in self._others if picture not in text.pictures]
            rest = [others[at] for at in rng.permutation(len(others))[: 300 - len(photographs)].tolist()]
            if layout == "a stretch of a month":
                start = int(rng.integers(0, len(rest)))
                photographs = [*rest[:start], *photographs, *rest[start:]]
            else:
                for number, picture in enumerate(photographs):
                    rest.insert(int((number + rng.random()) * 300 / len(photographs)), picture)
                photographs = rest
            for at, picture in enumerate(photographs):
                day, second = divmod(at, 30)
                stated[picture] = {"taken": START + timedelta(days=day, seconds=600 * second)}
        made = replace(found, photographs=tuple(photographs), own=tuple(own))
        return job(
            made, self.pool, self.stock.encoders, words, [photographs], stated, layout=layout, named=OWN
        )

    def among(self, text: Told, layout: str, size: int, draw: int, words: Words = "hidden") -> RowJob:
        """A text whose folder is one of many of its size.

        Args:
            text: the text.
            layout: one of `LAYOUTS`; or ``roll``, with the photographs of all folders as those of one camera;
                ``shots of a roll``, the same with one to three shots a step; ``flat``, without folders and
                times; ``scattered``, over the folders; ``called``, in a folder whose name has a word of the
                text's title; or ``not there``.
            size: number of pictures.
            draw: number of the draw.
            words: whether pictures keep their words.
        """
        base = {"shots of a roll": "one to three shots"}.get(layout, layout)
        found = laid(text, base if base in LAYOUTS else "as many", self._strangers(text), draw)
        rng = random("among", layout, text.story.id, draw)
        own = list(found.photographs)
        used = {*own, *text.pictures, *(shot(one, number) for one in text.pictures for number in (1, 2))}
        others = [self._others[at] for at in rng.permutation(len(self._others)).tolist()]
        rest = [one for one in [*text.others, *others] if one not in used]
        length = len(own)
        folders = [own]
        for start in range(0, size - length, length):
            folders.append(rest[start : start + length])
        if layout == "not there":
            folders[0] = rest[size : size + length]
        elif layout == "scattered":
            for at, picture in enumerate(own):
                other = folders[1 + at % (len(folders) - 1)]
                other[(at * 7) % len(other)] = picture
            folders[0] = rest[size : size + length]
        elif layout in ("roll", "shots of a roll"):
            order = rng.permutation(len(folders)).tolist()
            folders = [[picture for number in order for picture in folders[number]]]
        return job(
            found,
            self.pool,
            self.stock.encoders,
            words,
            folders,
            layout=layout,
            flat=layout == "flat",
            called=called(text) if layout == "called" else "",
        )


def called(text: Told) -> str:
    """One word of a text's title, or of the name of its file, and a word of no text."""
    title = text.story.title or Path(text.story.id.rpartition(":")[2]).parent.name
    told = sorted(words(title.replace("-", " ").replace("_", " ")), key=len)
    return f"{told[-1] if told else 'photographs'} weekend"
