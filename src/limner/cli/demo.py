"""``limner demo``: the whole way from pictures to pages, on a collection drawn on the spot.

Nothing is downloaded. It calls what a few lines of Python would.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from limner import worlds
from limner.api import Library
from limner.cli.terminal import emit, say
from limner.records import Candidate
from limner.storyboard.equipment import DEFAULT
from limner.worlds.demo import demo_collection

# Photographs that come with limner → what a text says of each.
PHOTOGRAPHS = {
    "china.jpg": "An old pavilion with golden roofs rises above the trees.",
    "grace_hopper.jpg": "A woman in a dark uniform and a cap looks at us.",
    "flower.jpg": "A large flower is in full bloom.",
}
CREDITS = "photographs by danielbuechele and vultilion (CC BY 2.0) and the US Navy (public domain)"


def demo(folder: Path = Path("demo"), *, seed: int = 0) -> None:
    """Draw a picture-book collection, index it and illustrate three texts, then a fourth by pixels alone.

    The fourth is asked of a library without a word: the same drawings, and three photographs.

    Example: limner demo

    Parameters
    ----------
    folder
        Where everything goes; an earlier demonstration there is replaced.
    seed
        Of the drawings that only look like the right ones.
    """
    say("drawing the collection …")
    collection = demo_collection(folder, seed=seed)
    library = Library(folder / "library")
    emit(str(library.add(collection.pictures, encoders=[DEFAULT])))
    pages = [_illustrated(text, library, collection.answers[text.name]) for text in collection.texts]
    photographs = folder / "photographs"
    copied = _copied(photographs)
    unworded = Library(folder / "library-without-words")
    unworded.add(collection.pictures, photographs, encoders=[DEFAULT], captions=False)
    text = folder / "texts" / "photographs.txt"
    text.write_text("\n\n".join(PHOTOGRAPHS.values()) + "\n", encoding="utf-8")
    emit("")
    emit(f"By pixels alone, no picture having a word: {len(copied)} {CREDITS}, among the drawings")
    pages.append(_illustrated(text, unworded, copied))
    emit("")
    for page in pages:
        emit(f"open {page.resolve().as_uri()}")


def _illustrated(text: Path, library: Library, answers: Sequence[str | None]) -> Path:
    """Illustrate one text, print what came of it, and write its page beside the library."""
    board = library.illustrate(text)
    right = sum(_is_right(step.chosen, due) for step, due in zip(board.steps, answers, strict=True))
    emit(f"\n{board.story.title or text.name}\n{board}")
    emit(f"{right} of {len(answers)} steps got the picture that belongs to them")
    page = library.folder.with_name(f"{text.stem}.html")
    return board.save(page, overwrite=True, with_reasons=True).path


def _copied(folder: Path) -> list[str]:
    """Copy the photographs under names that say nothing; returns these."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = [f"DSC_{number:04d}.jpg" for number in range(1, len(PHOTOGRAPHS) + 1)]
    for name, photograph in zip(names, PHOTOGRAPHS, strict=True):
        shutil.copyfile(Path(worlds.__file__).parent / "photographs" / photograph, folder / name)
    return names


def _is_right(chosen: Candidate | None, due: str | None) -> bool:
    """Whether a step got the very picture that was drawn for it, or a blank where none was drawn."""
    if chosen is None:
        return due is None
    return due is not None and any(path.endswith(f"/{due}") for path in chosen.picture.paths)
