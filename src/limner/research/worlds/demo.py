"""The demonstration: drawings, a few photographs, and four texts to illustrate.

Three texts paraphrase what some of the drawings show, using pronouns; the other drawings are distractors. The
fourth text is an article about the photographs. One paragraph each of the third and fourth text has no
picture.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

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
    """

    pictures: Path
    photographs: Path
    texts: tuple[Path, ...]
    answers: dict[str, list[str | None]]


@dataclass(frozen=True)
class _DemoText:
    """One text of the demonstration: its file, its steps, and the cast and style of its drawings."""

    file: str
    title: str
    leaves: tuple[_Leaf, ...]
    cast: tuple[Character, Character]
    style: Style
    captions: Carrier


def _plans() -> list[_DemoText]:
    """Read the table of texts."""
    plans = []
    for raw in read_table("demo")["book"]:
        leaves = tuple(_Leaf(step["words"], **step.get("scene", {})) for step in raw["step"])
        hero, friend = (Character(**who) for who in raw["cast"])
        style = Style(**(raw["style"] | {"ink": tuple(raw["style"]["ink"])}))
        plans.append(_DemoText(raw["file"], raw["title"], leaves, (hero, friend), style, raw["captions"]))
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
        The files. The answers are also in `answers.json` in the folder.
    Raises:
        DataError: the folder is neither empty nor an earlier demonstration.
    """
    root = Path(folder)
    mark = root / "answers.json"
    if root.exists() and any(root.iterdir()) and not mark.exists():
        raise DataError(f"{root}: is neither empty nor an earlier demonstration; give an empty folder")
    for part in ("pictures", "photographs", "texts"):
        shutil.rmtree(root / part, ignore_errors=True)
        (root / part).mkdir(parents=True)
    pictures, texts, answers = root / "pictures", [], {}
    for plan in _plans():
        name, title, leaves = plan.file, plan.title, plan.leaves
        book = _book(title, leaves, plan.cast, plan.style)
        folder_of = pictures / Path(name).stem.split("-")[-1]
        drawn = _album(folder_of, book, _crowd(book, seed, 8), plan.captions, seed=seed, size_px=size_px)
        path = root / "texts" / name
        path.write_text(_WRITERS[path.suffix](title, leaves), encoding="utf-8")
        texts.append(path)
        numbers = iter(range(len(leaves)))
        answers[name] = [
            drawn[next(numbers)].relative_to(pictures).as_posix() if leaf.tale else None for leaf in leaves
        ]
    for book in PictureBook(seed).stories(3, pages=(7, 8)):
        crowd = [(page.scene, i) for i, page in enumerate(book.pages)]
        _album(pictures / book.id, book, crowd, "sidecar", seed=seed, size_px=size_px)
    article = read_table("photographs")
    numbered = _photographs(root / "photographs", article["photograph"])
    path = root / "texts" / article["file"]
    words = "\n\n".join(step["words"] for step in article["step"])
    path.write_text(f"# {article['title']}\n\n{words}\n", encoding="utf-8")
    texts.append(path)
    answers[path.name] = [numbered.get(step.get("photograph")) for step in article["step"]]
    mark.write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")
    return DemoCollection(pictures, root / "photographs", tuple(texts), answers)


def _photographs(folder: Path, table: Sequence[dict[str, str]]) -> dict[str, str]:
    """Copy the photographs under uninformative names, with captions; returns packaged name → new name."""
    named: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    for number, entry in enumerate(table, start=1):
        name = named[entry["file"]] = f"DSC_{number:04d}.jpg"
        shutil.copyfile(Path(__file__).with_name("photographs") / entry["file"], folder / name)
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
    *,
    seed: int,
    size_px: int,
) -> dict[int, Path]:
    """Write pictures in shuffled order with camera-like names; returns page number → file."""
    folder.mkdir()
    order = np.random.default_rng([seed, book.style.seed, 1]).permutation(len(crowd))
    files: dict[int, Path] = {}
    rows: list[dict[str, Any]] = []
    for number, k in enumerate(order):
        scene, page = crowd[int(k)]
        path = folder / f"IMG_{number + 1:04d}.{'png' if carrier == 'xmp' else 'jpg'}"
        words = caption(scene)
        save(draw(scene, book.style, size_px), path, words, f"{book.illustrator}, {LICENSE}", carrier)
        rows.append({"file_name": path.name, "text": words, "credit": book.illustrator, "license": LICENSE})
        if page is not None:
            files[page] = path
    if carrier == "metadata":
        write_lines(folder / "metadata.jsonl", rows)
    return files
