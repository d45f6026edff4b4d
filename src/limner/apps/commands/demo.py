"""``limner demo``: the whole way from pictures to pages, on a collection drawn on the spot.

Nothing is downloaded. It calls what the other commands call.
"""

from pathlib import Path
from typing import NamedTuple

from limner.apps.commands.illustrate import summary as board_summary
from limner.apps.commands.index import summary as index_summary
from limner.apps.equipment import DEFAULT, picture_encoders
from limner.apps.export import export
from limner.apps.illustrator import Illustrator
from limner.apps.terminal import emit, say
from limner.data.storyboards import Candidate
from limner.data.texts import read_story


class _By(NamedTuple):
    """One way to illustrate the texts: what it is said to be, channels, options, end of the pages' names."""

    told: str
    channels: tuple[str, ...]
    options: dict[str, str]
    suffix: str


WORDS = _By("By all that is known of the pictures, their captions first:", (), {}, "")
PIXELS = _By(
    f"By pixels alone, as if no picture had a word. {DEFAULT} learned mostly from photographs: among drawings"
    " like these, many of which differ by one thing, it is seldom right to the picture:",
    (DEFAULT,),
    {"pair_space": "looks"},
    "-by-pixels",
)


def demo(folder: Path = Path("demo"), *, seed: int = 0) -> None:
    """Draw a small picture-book collection, index it and illustrate three texts, by captions and by pixels.

    Example: limner demo

    Parameters
    ----------
    folder
        Where everything goes; an earlier demonstration there is replaced.
    seed
        Of the drawings that only look like the right ones.
    """
    from limner.apps.progress import IndexProgress
    from limner.data.picturebook.demo import demo_collection
    from limner.encoders.catalogue import MULTILINGUAL, sentence_encoder, text_encoder
    from limner.retrieval.indexing import index as fill

    say("drawing the collection …")
    collection = demo_collection(folder, seed=seed)
    sentences = text_encoder()
    place = folder / "library"
    with IndexProgress() as progress:
        report = fill(
            [collection.pictures],
            place,
            image_encoders=picture_encoders([DEFAULT], []),
            text_encoder=sentences,
            multilingual=sentence_encoder(MULTILINGUAL),
            progress=progress,
        )
    for line in index_summary(report):
        emit(line)
    pages = []
    for by in (WORDS, PIXELS):
        illustrator = Illustrator.open(place, channels=by.channels)
        emit("")
        emit(by.told)
        for text in collection.texts:
            story = read_story(text)
            board = illustrator.board(story, illustrator.options(by.options))
            answers = collection.answers[text.name]
            right = sum(_is_right(step.chosen, due) for step, due in zip(board.steps, answers, strict=True))
            page = folder / f"{text.stem}{by.suffix}.html"
            pages.append(export(board, page, overwrite=True).path)
            emit("")
            emit(f"{story.title or text.name}")
            for line in board_summary(board):
                emit(line)
            emit(f"{right} of {len(answers)} steps as drawn for them")
    emit("")
    for page in pages:
        emit(f"open {page.resolve().as_uri()}")


def _is_right(chosen: Candidate | None, due: str | None) -> bool:
    """Whether a step got the very picture that was drawn for it, or a blank where none was drawn."""
    if chosen is None or due is None:
        return chosen is None and due is None
    return any(path.endswith(f"/{due}") for path in chosen.picture.paths)
