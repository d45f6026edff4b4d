"""``limner demo``: from pictures to illustrated pages, on a generated collection; nothing is downloaded."""

from collections.abc import Sequence
from pathlib import Path

from limner.cli.main import emit, say
from limner.library import Library
from limner.match.encoder_setup import DEFAULT
from limner.records import Candidate, Show
from limner.research.worlds.demo import DemoCollection, demo_collection


def demo(folder: Path = Path("demo"), *, seed: int = 0) -> None:
    """Draw a picture-book collection and illustrate four texts with it.

    The first text is illustrated with a folder of its own, in which pictures lie in the order in which they
    were taken. Then a library is searched for all of them: three stories, and an article on photographs. The
    article is illustrated twice: from captioned photographs, and from a library without captions.

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
    pages = [_with_own_pictures(collection, folder)]
    emit("\nnow from a library")
    library = Library(folder / "library")
    emit(str(library.add(collection.pictures, encoders=[DEFAULT])))

    def page(text: Path) -> Path:
        return _illustrated(text, library, collection.answers[text.name], folder / f"{text.stem}.html")

    *stories, article = collection.texts
    pages += [page(text) for text in stories]
    emit("\nadding eight photographs and illustrating an article about them")
    emit(str(library.add(collection.photographs, encoders=[DEFAULT])))
    pages.append(page(article))
    emit("\nthe same article from a library without captions, with a picture at every step")
    unworded = Library(folder / "library-without-words")
    unworded.add(collection.pictures, collection.photographs, encoders=[DEFAULT], captions=False)
    alone = folder / f"{article.stem}-by-pixels.html"
    pages.append(_illustrated(article, unworded, collection.answers[article.name], alone, show="always"))
    emit("")
    for page_path in pages:
        emit(f"open {page_path.resolve().as_uri()}")


def _with_own_pictures(collection: DemoCollection, folder: Path) -> Path:
    """Illustrate the text that has a folder of its own, print its storyboard, and write its page."""
    (text, pictures), answers = collection.row, collection.row_answers
    library = Library(folder / "library-of-one-text")
    emit(str(library.add(pictures, encoders=[DEFAULT])))
    board = library.illustrate(text, pictures=[pictures])
    right = sum(
        step.chosen.picture.path.endswith(tuple(due)) if step.chosen and due else not step.chosen and not due
        for step, due in zip(board.steps, answers, strict=True)
    )
    emit(f"\n{board.story.title}, with its own pictures\n{board}")
    if board.row is not None:
        emit(board.row.summary([library.find(one.picture) for one in board.row.photographs]))
    emit(f"{right} of {len(answers)} steps got the picture that belongs to them")
    page = folder / f"{text.stem}-own-pictures.html"
    return board.save(page, overwrite=True, with_reasons=True).path


def _illustrated(
    text: Path, library: Library, answers: Sequence[str | None], page: Path, show: Show = "usual"
) -> Path:
    """Illustrate one text, print its storyboard, and write its page."""
    board = library.illustrate(text, count="all", show=show)
    right = sum(_is_right(step.chosen, due) for step, due in zip(board.steps, answers, strict=True))
    emit(f"\n{board.story.title or text.name}\n{board}")
    emit(f"{right} of {len(answers)} steps got the picture that belongs to them")
    return board.save(page, overwrite=True, with_reasons=True).path


def _is_right(chosen: Candidate | None, due: str | None) -> bool:
    """Whether a step got its own picture, or is blank if the collection has none for it."""
    if chosen is None:
        return due is None
    return due is not None and any(path.endswith(f"/{due}") for path in chosen.picture.paths)
