"""``limner demo``: the whole way from pictures to pages, on a collection drawn on the spot.

Nothing is downloaded. It calls what the other commands call.
"""

import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from limner.cli.terminal import emit, say
from limner.export import export
from limner.progress import IndexProgress
from limner.records import Candidate
from limner.storyboard.equipment import DEFAULT, add_pictures
from limner.storyboard.illustrator import Illustrator
from limner.text.read import read_story_report
from limner.worlds.demo import demo_collection

# Photographs that come with packages limner needs → what a text says of each.
PHOTOGRAPHS = {
    "sklearn/datasets/images/china.jpg": "An old pavilion with golden roofs rises above the trees.",
    "matplotlib/mpl-data/sample_data/grace_hopper.jpg": "A woman in a dark uniform and a cap looks at us.",
    "sklearn/datasets/images/flower.jpg": "A large flower is in full bloom.",
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
    place = folder / "library"
    with IndexProgress() as progress:
        report = add_pictures(place, [collection.pictures], encoders=[DEFAULT], progress=progress)
    emit(str(report))
    pages = [
        _illustrated(text, place, folder / f"{text.stem}.html", collection.answers[text.name])
        for text in collection.texts
    ]
    photographs, unworded = folder / "photographs", folder / "library-without-words"
    found = _copied(photographs)
    if found:
        with IndexProgress() as progress:
            sources = [collection.pictures, photographs]
            add_pictures(unworded, sources, encoders=[DEFAULT], captions=False, progress=progress)
        text = folder / "texts" / "photographs.txt"
        text.write_text("\n\n".join(found.values()) + "\n", encoding="utf-8")
        emit("")
        emit(f"By pixels alone, no picture having a word: {len(found)} {CREDITS}, among the drawings")
        pages.append(_illustrated(text, unworded, folder / "photographs.html", list(found)))
    emit("")
    for page in pages:
        emit(f"open {page.resolve().as_uri()}")


def _illustrated(text: Path, library: Path, page: Path, answers: Sequence[str | None]) -> Path:
    """Illustrate one text, print what came of it, and write its page."""
    story = read_story_report(text).story
    board = Illustrator.open(library).board(story)
    right = sum(_is_right(step.chosen, due) for step, due in zip(board.steps, answers, strict=True))
    emit("")
    emit(story.title or text.name)
    emit(str(board))
    emit(f"{right} of {len(answers)} steps got the picture that belongs to them")
    return export(board, page, overwrite=True).path


def _copied(folder: Path) -> dict[str, str]:
    """Copy the photographs that are there under names that say nothing; name → what a text says of it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found = {}
    for number, (path, words) in enumerate(PHOTOGRAPHS.items(), start=1):
        package, _, inside = path.partition("/")
        spec = find_spec(package)
        source = Path(spec.origin).parent / inside if spec and spec.origin else None
        if source is not None and source.is_file():
            name = f"DSC_{number:04d}.jpg"
            shutil.copyfile(source, folder / name)
            found[name] = words
    return found


def _is_right(chosen: Candidate | None, due: str | None) -> bool:
    """Whether a step got the very picture that was drawn for it, or a blank where none was drawn."""
    if chosen is None or due is None:
        return chosen is None and due is None
    return any(path.endswith(f"/{due}") for path in chosen.picture.paths)
