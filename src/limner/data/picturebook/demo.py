"""The demonstration: a small collection of drawn pictures, and three texts that want illustrating.

The texts tell in their own words, with pronouns, what some of the pictures show; others of the pictures only look
like it. One paragraph has no picture at all. It neither indexes nor illustrates.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from limner.data.picturebook.drawing import draw
from limner.data.picturebook.files import Carrier, save, write_lines
from limner.data.picturebook.shelf import LICENSE, Page, PictureBook, SyntheticStory
from limner.data.picturebook.tales import Setting, compose, tales
from limner.data.picturebook.wording import CITE, CLUE, PageText, caption
from limner.data.picturebook.world import Character, Scene, Style
from limner.data.records import Step, Story
from limner.errors import DataError


@dataclass(frozen=True)
class _Leaf:
    """One step: its words and the scene that fits them, or no scene."""

    words: str
    tale: str = ""
    phase: str = "during"
    place: str = ""
    weather: str = "sunny"
    time: str = "noon"
    friend: bool = False
    flip: bool = False


@dataclass(frozen=True)
class DemoCollection:
    """What the demonstration wrote.

    Attributes:
        pictures: folder to index.
        texts: files to illustrate: Markdown, HTML, plain text.
        answers: file name of a text → per step, the picture relative to `pictures`, or None where none fits.
    """

    pictures: Path
    texts: tuple[Path, ...]
    answers: dict[str, list[str | None]]


FINN = Character("Finn", "fox", False, 0, "jumper", "blue", "striped", "scarf", "red", 1.0)
ADA = Character("Ada", "elephant", True, 0, "dress", "yellow", "dotted", "bow", "pink", 1.0)
BERTA = Character("Berta", "bear", True, 0, "dress", "green", "dotted", "bow", "red", 1.0)
ZURI = Character("Zuri", "girl", True, 2, "overalls", "blue", "plain", "straw hat", "red", 0.95)

KITE = (
    _Leaf("Finn the fox was up early. A little bluebird was hopping about outside his door, and he wished it a good morning.", "hello", place="garden", time="morning"),
    _Leaf("At last there was a breeze on the hill! He spread the kite out on the grass and knotted the line to it, tight and neat.", "kite", "before", "hill", "windy"),
    _Leaf("Then he ran as fast as his legs would go. The wind took hold, and up it soared, high over the meadows.", "kite", "during", "hill", "windy"),
    _Leaf("Oh dear! One gust too many, and now it was caught among the branches, far out of reach for a small fox.", "kite", "after", "hill", "windy"),
    _Leaf("Somebody came up the path. It was Ada the elephant, and the two friends waved to each other.", "friends", place="hill", weather="windy", time="sunset", friend=True),
    _Leaf("When it grew dark he warmed himself by the flames in the woods, with something sweet on the end of a stick.", "campfire", "after", "forest", time="night"),
    _Leaf("Back home he was asleep as soon as his head touched the pillow.", "bed", place="house", time="night"),
)  # fmt: skip
SUPPER = (
    _Leaf("Cut up the vegetables. A sharp knife makes it easy; keep your paws out of the way.", "soup", "before", "kitchen", time="noon"),
    _Leaf("Let everything bubble on the stove for an hour. Berta keeps the ladle going so that nothing sticks.", "soup", "during", "kitchen", time="noon"),
    _Leaf("Serve it in a deep bowl while it is hot, with a thick slice of bread. Taste it: she always does!", "soup", "after", "kitchen", time="noon"),
    _Leaf("Now for something sweet. Beat eggs, sugar and flour with a whisk until the mixture is smooth.", "cake", "before", "kitchen", time="sunset", flip=True),
    _Leaf("Slide the tin into the hot oven and wait. Do not open the door, however good it smells.", "cake", "during", "kitchen", time="sunset"),
    _Leaf("Cover it with pink icing, light the candles, and let the birthday begin. Hooray!", "cake", "after", "kitchen", time="sunset", flip=True),
)  # fmt: skip
SHORE = (
    _Leaf("Zuri sat for a long time over an empty page in the garden. How do you begin, when you have so much to say?", "letter", "before", "garden", time="morning"),
    _Leaf("Then the words came by themselves. Her pencil could hardly keep up, line after line after line.", "letter", "during", "garden", time="morning"),
    _Leaf("She sealed it and dropped it into the red post box. “I am coming to see you,” it said.", "letter", "after", "garden", time="noon"),
    _Leaf("In the capital, meanwhile, the ministers quarrelled about the tax on tea."),
    _Leaf("On the beach lay some old timber that nobody wanted. The girl picked up her hammer and looked at it.", "boat", "before", "beach", "cloudy"),
    _Leaf("For days the shore rang with her blows, until the hull was done. All it lacked was a mast.", "boat", "during", "beach", "cloudy"),
    _Leaf("And then she was away! The white sail filled, and the waves carried her out over the blue water.", "boat", "after", "beach", time="noon"),
    _Leaf("That evening she rested on a bench on the far side, tired and proud, and a small bird came to keep her company.", "home", place="hill", time="sunset"),
)  # fmt: skip

BOOKS: tuple[tuple[str, str, tuple[_Leaf, ...], tuple[Character, Character], Style, Carrier], ...] = (
    ("finns-kite.md", "Finn's kite", KITE, (FINN, ADA), Style(11, "bright", 0.004, (58, 44, 54), "paper", 0.0015, True), "exif"),
    ("birthday-supper.html", "Berta's birthday supper", SUPPER, (BERTA, FINN), Style(12, "earthy", 0.0055, (84, 56, 44), "watercolour", 0.0022, False), "xmp"),
    ("the-far-shore.txt", "The far shore", SHORE, (ZURI, ADA), Style(13, "retro", 0.0028, (44, 54, 84), "canvas", 0.0008, False), "metadata"),
)  # fmt: skip


def _markdown(title: str, leaves: Sequence[_Leaf]) -> str:
    return f"# {title}\n\n" + "\n\n---\n\n".join(leaf.words for leaf in leaves) + "\n"


def _html(title: str, leaves: Sequence[_Leaf]) -> str:
    steps = "\n".join(f"    <li>{escape(leaf.words, quote=False)}</li>" for leaf in leaves)
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{escape(title, quote=False)}</title></head>
<body>
<article>
  <h1>{escape(title, quote=False)}</h1>
  <ol>
{steps}
  </ol>
</article>
</body>
</html>
"""


def _plain(title: str, leaves: Sequence[_Leaf]) -> str:
    return "\n\n".join(leaf.words for leaf in leaves) + "\n"


_WRITERS = {".md": _markdown, ".html": _html, ".txt": _plain}


def _scene(leaf: _Leaf, cast: tuple[Character, Character]) -> Scene:
    setting = Setting(leaf.place, leaf.weather, leaf.time)
    return compose(
        tales()[leaf.tale], leaf.phase, setting, cast[0], cast[1] if leaf.friend else None, flip=leaf.flip
    )


def _book(
    title: str, leaves: Sequence[_Leaf], cast: tuple[Character, Character], style: Style
) -> SyntheticStory:
    """The book as a synthetic story, for its distractors; its relations are not judged."""
    shown = [leaf for leaf in leaves if leaf.tale]
    no = dict.fromkeys(CITE + CLUE, False)
    scenes = [_scene(leaf, cast) for leaf in shown]
    pages = tuple(
        Page(scene, PageText(leaf.words, (), frozenset(), no), caption(scene))
        for leaf, scene in zip(shown, scenes, strict=True)
    )
    story = Story(
        id=title, title=title, steps=tuple(Step(text=leaf.words) for leaf in shown), license=LICENSE
    )
    return SyntheticStory(story, pages, style, cast, "limner")


def _crowd(book: SyntheticStory, seed: int, count: int) -> list[tuple[Scene, int | None]]:
    """Pictures of a book: its pages with their numbers, then look-alikes without.

    A look-alike with the hero's own deed shows another character; strangers differ from each other.
    """
    rng = np.random.default_rng([seed, book.style.seed])
    crowd: list[tuple[Scene, int | None]] = [(page.scene, i) for i, page in enumerate(book.pages)]
    seen = {page.caption for page in book.pages}
    while len(crowd) < len(book.pages) + count:
        # One of each kind per draw; the kinds take turns.
        other = book.distractors(2, seed=int(rng.integers(2**31)))[len(crowd) % 2]
        if other.caption not in seen:
            seen.add(other.caption)
            crowd.append((other.scene, None))
    return crowd


def demo_collection(folder: Path | str, seed: int = 0, size_px: int = 384) -> DemoCollection:
    """Write the demonstration: about 70 pictures, three texts, and the right answers.

    Args:
        folder: made if absent; what an earlier call wrote there is replaced.
        seed: of the look-alikes and of the other books; the three texts are always the same.
        size_px: side of the pictures.
    Returns:
        Where everything is. `answers.json` in the folder holds the answers too.
    Raises:
        DataError: the folder holds something else.
    """
    root = Path(folder)
    mark = root / "answers.json"
    if root.exists() and any(root.iterdir()) and not mark.exists():
        raise DataError(f"{root}: not empty and not an earlier demonstration; give an empty folder")
    for part in ("pictures", "texts"):
        shutil.rmtree(root / part, ignore_errors=True)
        (root / part).mkdir(parents=True)
    pictures, texts, answers = root / "pictures", [], {}
    for name, title, leaves, cast, style, carrier in BOOKS:
        book = _book(title, leaves, cast, style)
        files = _album(
            pictures / Path(name).stem.split("-")[-1], book, _crowd(book, seed, 8), carrier, seed, size_px
        )
        path = root / "texts" / name
        path.write_text(_WRITERS[path.suffix](title, leaves), encoding="utf-8")
        texts.append(path)
        numbers = iter(range(len(leaves)))
        answers[name] = [
            files[next(numbers)].relative_to(pictures).as_posix() if leaf.tale else None for leaf in leaves
        ]
    for book in PictureBook(seed).stories(3, pages=(7, 8)):
        _album(
            pictures / book.story.id,
            book,
            [(page.scene, i) for i, page in enumerate(book.pages)],
            "sidecar",
            seed,
            size_px,
        )
    mark.write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")
    return DemoCollection(pictures, tuple(texts), answers)


def _album(
    folder: Path,
    book: SyntheticStory,
    crowd: Sequence[tuple[Scene, int | None]],
    carrier: Carrier,
    seed: int,
    size_px: int,
) -> dict[int, Path]:
    """Write pictures in shuffled order under camera-like names; page number → file."""
    folder.mkdir()
    order = np.random.default_rng([seed, book.style.seed, 1]).permutation(len(crowd))
    found: dict[int, Path] = {}
    rows: list[dict[str, Any]] = []
    for number, k in enumerate(order):
        scene, page = crowd[int(k)]
        path = folder / f"IMG_{number + 1:04d}.{'png' if carrier == 'xmp' else 'jpg'}"
        words = caption(scene)
        save(draw(scene, book.style, size_px), path, words, f"{book.illustrator}, {LICENSE}", carrier)
        rows.append({"file_name": path.name, "text": words, "credit": book.illustrator, "license": LICENSE})
        if page is not None:
            found[page] = path
    if carrier == "metadata":
        write_lines(folder / "metadata.jsonl", rows)
    return found
