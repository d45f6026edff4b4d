"""The demonstration: drawings, a few photographs, and four texts to illustrate.

Three texts paraphrase what some of the drawings show, using pronouns; the other drawings are distractors. The
fourth text is an article about the photographs. One paragraph each of the third and fourth text has no
picture. One of the three texts also has a folder of its own, in which pictures lie in the order in which they
were taken: a row.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from limner.errors import DataError
from limner.research.worlds.book import LICENSE, BookPage, PictureBook, SyntheticStory
from limner.research.worlds.book_files import Carrier, save, write_lines
from limner.research.worlds.render import draw
from limner.research.worlds.tales import (
    CITE,
    CLUE,
    Character,
    DrawnScene,
    PageText,
    Setting,
    Style,
    caption,
    compose,
    read_table,
    tales,
)

ANSWERS = "answers.json"
FIRST_NUMBER = 101
"""Number in the name of the first picture of the row."""
_PHOTOGRAPHS = Path(__file__).with_name("photographs")
SHOTS_APART_S = 45
STEPS_APART_S = 560
"""Time between two shots of one step, and between those of two steps."""


@dataclass(frozen=True)
class _Leaf:
    """One step: its text and the scene that fits it, or no scene."""

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
    """Files of the demonstration.

    Attributes:
        pictures: folder of the drawings.
        photographs: folder of the photographs, with captions and credits.
        texts: texts to illustrate: Markdown, HTML, plain text, and the article in Markdown.
        answers: file name of a text → for each step the right picture, relative to its folder, or None.
        row: the text that has a folder of its own, and that folder.
        row_answers: for each step the file names that are right, the picture and its second shots; empty for
            a step without a picture.
    """

    pictures: Path
    photographs: Path
    texts: tuple[Path, ...]
    answers: dict[str, list[str | None]]
    row: tuple[Path, Path]
    row_answers: list[list[str]]

    @classmethod
    def read(cls, folder: Path) -> DemoCollection:
        """The demonstration in a folder, from its `answers.json`."""
        found = json.loads((folder / ANSWERS).read_text(encoding="utf-8"))
        texts = folder / "texts"
        return cls(
            folder / "pictures",
            folder / "photographs",
            tuple(texts / name for name in found["library"]),
            found["library"],
            (texts / found["row"]["text"], folder / found["row"]["folder"]),
            found["row"]["steps"],
        )


@dataclass(frozen=True)
class _DemoRow:
    """The row of a text: a folder in which its pictures lie in the order in which they were taken.

    Attributes:
        style: style of its drawings, which differs from that of the library.
        begins: time of the first picture.
        missing: steps without a picture, from 1.
        second_shots: steps with a second shot, from 1.
        stranger: packaged photograph that belongs to no step, and the step after which it was taken.
    """

    style: Style
    begins: datetime
    missing: tuple[int, ...]
    second_shots: tuple[int, ...]
    stranger: tuple[str, int]


@dataclass(frozen=True)
class _DemoText:
    """One text of the demonstration: its file, its steps, the cast and style of its drawings, and its row."""

    file: str
    title: str
    leaves: tuple[_Leaf, ...]
    cast: tuple[Character, Character]
    style: Style
    captions: Carrier
    row: _DemoRow | None


def _style(raw: dict[str, Any]) -> Style:
    return Style(**(raw | {"ink": tuple(raw["ink"])}))


def _row_plan(raw: dict[str, Any]) -> _DemoRow:
    stranger = raw["stranger"]["photograph"], raw["stranger"]["after"]
    steps = tuple(raw["missing"]), tuple(raw["second_shots"])
    return _DemoRow(_style(raw["style"]), raw["begins"], *steps, stranger)


def _plans() -> list[_DemoText]:
    """Read the table of texts."""
    plans = []
    for raw in read_table("demo")["book"]:
        leaves = tuple(_Leaf(step["words"], **step.get("scene", {})) for step in raw["step"])
        hero, friend = (Character(**who) for who in raw["cast"])
        row = _row_plan(raw["row"]) if "row" in raw else None
        cast = hero, friend
        plans.append(
            _DemoText(raw["file"], raw["title"], leaves, cast, _style(raw["style"]), raw["captions"], row)
        )
    return plans


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


def _scene(leaf: _Leaf, cast: tuple[Character, Character]) -> DrawnScene:
    setting = Setting(leaf.place, leaf.weather, leaf.time)
    return compose(
        tales()[leaf.tale], leaf.phase, setting, cast[0], cast[1] if leaf.friend else None, flip=leaf.flip
    )


def _book(
    title: str, leaves: Sequence[_Leaf], cast: tuple[Character, Character], style: Style
) -> SyntheticStory:
    """The text as a synthetic story, which is needed for distractors; its relations are all False."""
    illustrated = [leaf for leaf in leaves if leaf.tale]
    no = dict.fromkeys(CITE + CLUE, False)
    scenes = [_scene(leaf, cast) for leaf in illustrated]
    pages = tuple(
        BookPage(scene, PageText(leaf.words, (), frozenset(), no), caption(scene))
        for leaf, scene in zip(illustrated, scenes, strict=True)
    )
    return SyntheticStory(title, title, "test", pages, style, cast, "limner")


def _crowd(book: SyntheticStory, seed: int, count: int) -> list[tuple[DrawnScene, int | None]]:
    """Scenes of a book: its pages with their numbers, then distractors with None.

    A distractor with the hero's activity shows another character; no distractor repeats a caption.
    """
    rng = np.random.default_rng([seed, book.style.seed])
    crowd: list[tuple[DrawnScene, int | None]] = [(page.scene, i) for i, page in enumerate(book.pages)]
    seen = {page.caption for page in book.pages}
    # Alternate the two kinds; a small world may run out of other activities, hence the bound.
    for attempt in range(20 * count):
        if len(crowd) == len(book.pages) + count:
            break
        other = book.distractors(2, seed=int(rng.integers(2**31)))[attempt % 2]
        if other.caption not in seen:
            seen.add(other.caption)
            crowd.append((other.scene, None))
    return crowd


def demo_collection(folder: Path | str, seed: int = 0, size_px: int = 384) -> DemoCollection:
    """Write the demonstration: about 70 drawings, a few photographs, four texts, and the right answers.

    Args:
        folder: created if missing; an earlier demonstration there is replaced.
        seed: seed of the distractors and of the other books; texts and photographs are always the same.
        size_px: side of the drawings, pixels.
    Returns:
        The files, see `DemoCollection`. The answers are also in `answers.json` in the folder.
    Raises:
        DataError: the folder is neither empty nor an earlier demonstration.
    """
    root = Path(folder)
    mark = root / ANSWERS
    if root.exists() and any(root.iterdir()) and not mark.exists():
        raise DataError(f"{root}: is neither empty nor an earlier demonstration; give an empty folder")
    plans = _plans()
    rows = [Path(plan.file).stem for plan in plans if plan.row]
    for part in ("pictures", "photographs", "texts", *rows):
        shutil.rmtree(root / part, ignore_errors=True)
        (root / part).mkdir(parents=True)
    pictures, texts, answers = root / "pictures", [], {}
    row: dict[str, Any] = {}
    for plan in plans:
        name, title, leaves = plan.file, plan.title, plan.leaves
        book = _book(title, leaves, plan.cast, plan.style)
        folder_of = pictures / Path(name).stem.split("-")[-1]
        drawn = _album(folder_of, book, _crowd(book, seed, 8), plan.captions, size_px)
        path = root / "texts" / name
        path.write_text(_WRITERS[path.suffix](title, leaves), encoding="utf-8")
        texts.append(path)
        if plan.row is not None:
            row = {"text": name, "folder": path.stem}
            row["steps"] = _write_row(root / path.stem, plan, plan.row, size_px)
        numbers = iter(range(len(leaves)))
        answers[name] = [
            drawn[next(numbers)].relative_to(pictures).as_posix() if leaf.tale else None for leaf in leaves
        ]
    for book in PictureBook(seed).stories(3, pages=(7, 8)):
        crowd = [(page.scene, i) for i, page in enumerate(book.pages)]
        _album(pictures / book.id, book, crowd, "sidecar", size_px)
    article = read_table("photographs")
    numbered = _photographs(root / "photographs", article["photograph"])
    path = root / "texts" / article["file"]
    words = "\n\n".join(step["words"] for step in article["step"])
    path.write_text(f"# {article['title']}\n\n{words}\n", encoding="utf-8")
    texts.append(path)
    answers[path.name] = [numbered.get(step.get("photograph")) for step in article["step"]]
    mark.write_text(json.dumps({"library": answers, "row": row}, indent=1) + "\n", encoding="utf-8")
    return DemoCollection.read(root)


def _write_row(folder: Path, plan: _DemoText, row: _DemoRow, size_px: int) -> list[list[str]]:
    """Write the pictures of a text in the order in which they were taken.

    Returns:
        For each step the file names of its pictures.
    """
    names: list[list[str]] = []
    taken, number = row.begins, FIRST_NUMBER

    def write(picture: Image.Image, words: str = "") -> str:
        nonlocal number
        name = f"IMG_{number:04d}.jpg"
        exif = Image.Exif()
        exif.get_ifd(0x8769)[0x9003] = f"{taken:%Y:%m:%d %H:%M:%S}"
        if words:
            exif[0x010E] = words
        picture.save(folder / name, format="JPEG", quality=90, subsampling=0, exif=exif)
        number += 1
        return name

    for step, leaf in enumerate(plan.leaves, start=1):
        shots: list[str] = []
        if step not in row.missing:
            scene = _scene(leaf, plan.cast)
            picture, words = draw(scene, row.style, size_px), caption(scene)
            shots.append(write(picture, words))
            taken += timedelta(seconds=SHOTS_APART_S)
            if step in row.second_shots:
                shots.append(write(_second_shot(picture), words))
        taken += timedelta(seconds=STEPS_APART_S)
        names.append(shots)
        if step == row.stranger[1]:
            with Image.open(_PHOTOGRAPHS / row.stranger[0]) as photograph:
                write(photograph.convert("RGB"))
            taken += timedelta(seconds=STEPS_APART_S)
    return names


def _second_shot(picture: Image.Image) -> Image.Image:
    """The picture, turned a little, closer and brighter."""
    side = picture.width
    edge = side // 8
    turned = picture.rotate(4, resample=Image.Resampling.BICUBIC)
    closer = turned.crop((edge, edge, side - edge // 2, side - edge // 2)).resize(picture.size)
    return closer.point(lambda value: min(255, round(1.12 * value)))


def _nameless(words: str) -> str:
    """A file name that states neither content nor order."""
    return hashlib.sha256(words.encode("utf-8")).hexdigest()[:6]


def _photographs(folder: Path, table: Sequence[dict[str, str]]) -> dict[str, str]:
    """Copy the photographs under names that say nothing, with captions; returns packaged name → new name."""
    named: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    for entry in table:
        name = named[entry["file"]] = f"{_nameless(entry['caption'])}.jpg"
        shutil.copyfile(_PHOTOGRAPHS / entry["file"], folder / name)
        rows.append(
            {"file_name": name, "text": entry["caption"]} | {k: entry[k] for k in ("credit", "license")}
        )
    write_lines(folder / "metadata.jsonl", rows)
    return named


def _album(
    folder: Path,
    book: SyntheticStory,
    crowd: Sequence[tuple[DrawnScene, int | None]],
    carrier: Carrier,
    size_px: int,
) -> dict[int, Path]:
    """Write pictures under names that state neither content nor order; returns page number → file."""
    folder.mkdir()
    files: dict[int, Path] = {}
    rows: list[dict[str, Any]] = []
    for scene, page in crowd:
        words = caption(scene)
        path = folder / f"{_nameless(words)}.{'png' if carrier == 'xmp' else 'jpg'}"
        save(draw(scene, book.style, size_px), path, words, f"{book.illustrator}, {LICENSE}", carrier)
        rows.append({"file_name": path.name, "text": words, "credit": book.illustrator, "license": LICENSE})
        if page is not None:
            files[page] = path
    if carrier == "metadata":
        write_lines(folder / "metadata.jsonl", rows)
    return files
