"""``limner demo``: from pictures to pages, on a collection that comes with limner.

Nothing is downloaded. The same takes a few lines of Python.
"""

from collections.abc import Sequence
from pathlib import Path

from limner.cli.main import emit, say
from limner.library import Library
from limner.match.equipment import DEFAULT
from limner.records import Candidate
from limner.research.worlds.demo import demo_collection


def demo(folder: Path = Path("demo"), *, seed: int = 0) -> None:
    """Draw a picture-book collection, index it and illustrate three texts, and an article about photographs.

    The article is illustrated twice: from captioned photographs, and from a library without any captions.

    Example: limner demo

    Parameters
    ----------
    folder
        Folder to write; an earlier demonstration in it is replaced.
    seed
        Seed of the distractors: drawings that only look like the right ones.
    """
    say("drawing the collection …")
    collection = demo_collection(folder, seed=seed)
    library = Library(folder / "library")
    emit(str(library.add(collection.pictures, encoders=[DEFAULT])))

    def page(text: Path) -> Path:
        return _illustrated(text, library, collection.answers[text.name], folder / f"{text.stem}.html")

    *stories, article = collection.texts
    pages = [page(text) for text in stories]
    emit("\nEight photographs are added, and an article about them is illustrated")
    emit(str(library.add(collection.photographs, encoders=[DEFAULT])))
    pages.append(page(article))
    emit("\nThe same article by pixels alone: no picture has a caption")
    unworded = Library(folder / "library-without-words")
    unworded.add(collection.pictures, collection.photographs, encoders=[DEFAULT], captions=False)
    alone = folder / f"{article.stem}-by-pixels.html"
    pages.append(_illustrated(article, unworded, collection.answers[article.name], alone))
    emit("")
    for page_path in pages:
        emit(f"open {page_path.resolve().as_uri()}")


def _illustrated(text: Path, library: Library, answers: Sequence[str | None], page: Path) -> Path:
    """Illustrate one text, print its storyboard, and write its page."""
    board = library.illustrate(text)
    right = sum(_is_right(step.chosen, due) for step, due in zip(board.steps, answers, strict=True))
    emit(f"\n{board.story.title or text.name}\n{board}")
    emit(f"{right} of {len(answers)} steps got the picture that belongs to them")
    return board.save(page, overwrite=True, with_reasons=True).path


def _is_right(chosen: Candidate | None, due: str | None) -> bool:
    """Whether a step got the picture that belongs to it, or a blank if none does."""
    if chosen is None:
        return due is None
    return due is not None and any(path.endswith(f"/{due}") for path in chosen.picture.paths)
