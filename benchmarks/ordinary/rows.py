"""Photographs laid out as people keep them: in one folder, in the order of the steps.

A guide or a picture book has one picture a step. Further shots of a step are copies that are turned, cropped
and brightened; strangers are pictures of other texts of the same part. Every layout is drawn `DRAWS` times,
unless nothing is left to chance.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
from PIL import Image, ImageEnhance

from limner.pictures.decode import decode, read_file
from limner.records import Step, Story
from ordinary.pictures import Part, Pool, Supply, own_of, pool_of
from ordinary.texts import random

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
    """

    story: Story
    pictures: tuple[str, ...]
    others: tuple[str, ...]
    part: Part
    name: str


@dataclass(frozen=True)
class Laid:
    """The photographs of a folder, in the order in which they were taken.

    Attributes:
        told: the text.
        photographs: ids in order.
        own: per step the photographs that are right.
    """

    told: Told
    photographs: tuple[str, ...]
    own: tuple[frozenset[str], ...]


def told(supply: Supply, name: str, part: Part) -> list[Told]:
    """The texts of a set with at least `LEAST_STEPS` steps, all with pictures of their own."""
    made = []
    for story in supply.stories(name, part):
        pictures = tuple(own_of(story, s) for s in range(len(story.steps)))
        if len(pictures) >= LEAST_STEPS and len(set(pictures)) == len(pictures):
            bare = tuple(Step(text=step.text, title=step.title) for step in story.steps)
            bared = story.model_copy(update={"steps": bare, "blocks": ()})
            made.append(Told(bared, pictures, (), part, name))
    pages = [picture for text in made for picture in text.pictures]
    return [
        replace(text, others=tuple(picture for picture in pages if picture not in text.pictures))
        for text in made
    ]


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
    "two exchanged": exchanged,
    "roughly": roughly,
    "no order": shuffled,
    "of another text": nothing,
    "of anything else": unlike,
}
FIXED = ("as many", "finished thing first")
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
    photographs = LAYOUTS[layout](text, mixed, rng)
    own = [frozenset(one for one, s in photographs if s == step) for step in range(len(text.pictures))]
    return Laid(text, tuple(one for one, _ in photographs), tuple(own))
