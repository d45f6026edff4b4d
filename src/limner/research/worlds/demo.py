"""The demonstration: drawn pictures and a few photographs, and four texts that want illustrating.

Three texts tell in their own words, with pronouns, what some of the drawings show; other drawings only look
like it. The fourth is an article about the photographs. One paragraph of the third and one of the fourth have
no picture at all. It neither indexes nor illustrates.
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
    """Result of the demonstration.

    Attributes:
        pictures: folder of the drawings, to index.
        photographs: folder of the photographs, to index; their captions and credits are beside them.
        texts: files to illustrate: Markdown, HTML, plain text, and Markdown again, the article.
        answers: file name of a text → per step, the picture relative to its folder, or None if none fits.
    """

    pictures: Path
    photographs: Path
    texts: tuple[Path, ...]
    answers: dict[str, list[str | None]]


@dataclass(frozen=True)
class _Plan:
    """One text of the demonstration: its file, its steps, and the book that they belong to."""

    file: str
    title: str
    leaves: tuple[_Leaf, ...]
    cast: tuple[Character, Character]
    style: Style
    captions: Carrier


def _plans() -> list[_Plan]:
    """The table beside this file."""
    found = []
    for raw in read_table("demo")["book"]:
        leaves = tuple(_Leaf(step["words"], **step.get("scene", {})) for step in raw["step"])
        hero, friend = (Character(**who) for who in raw["cast"])
        style = Style(**(raw["style"] | {"ink": tuple(raw["style"]["ink"])}))
        found.append(_Plan(raw["file"], raw["title"], leaves, (hero, friend), style, raw["captions"]))
    return found


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
    """The book as a synthetic story, for its distractors; its relations are not judged."""
    shown = [leaf for leaf in leaves if leaf.tale]
    no = dict.fromkeys(CITE + CLUE, False)
    scenes = [_scene(leaf, cast) for leaf in shown]
    pages = tuple(
        BookPage(scene, PageText(leaf.words, (), frozenset(), no), caption(scene))
        for leaf, scene in zip(shown, scenes, strict=True)
    )
    return SyntheticStory(title, title, "test", pages, style, cast, "limner")


def _crowd(book: SyntheticStory, seed: int, count: int) -> list[tuple[DrawnScene, int | None]]:
    """Pictures of a book: its pages with their numbers, then look-alikes without.

    A look-alike with the hero's own deed shows another character; strangers differ from each other.
    """
    rng = np.random.default_rng([seed, book.style.seed])
    crowd: list[tuple[DrawnScene, int | None]] = [(page.scene, i) for i, page in enumerate(book.pages)]
    seen = {page.caption for page in book.pages}
    # The kinds take turns; a small world may run out of other deeds, hence the bound and the spare turns.
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
        folder: created if missing; what an earlier call wrote there is replaced.
        seed: seed of the look-alikes and of the other books; the texts and photographs are always the same.
        size_px: side of the drawings.
    Returns:
        Where everything is. `answers.json` in the folder holds the answers too.
    Raises:
        DataError: the folder holds something else.
    """
    root = Path(folder)
    mark = root / "answers.json"
    if root.exists() and any(root.iterdir()) and not mark.exists():
        raise DataError(f"{root}: not empty and not an earlier demonstration; give an empty folder")
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
    """Copy the photographs under names that say nothing, with their captions; shipped name → name here."""
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
