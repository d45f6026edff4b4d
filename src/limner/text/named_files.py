"""Which files a text may have shown by naming them: those below its own folder, and what its reader allows.

A text can come from anywhere, and what it names is exported with it.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from limner.files import sha256_of
from limner.records import Part, PictureRef, Story

Elsewhere = Callable[[Path], Path | None]
"""What to show for a file outside the text's folder, such as the same picture of a library; None: nothing."""
WEB = "is not a file on this machine"
MISSING = "is not there"
OUTSIDE = "lies outside the folder of the text; --allow-outside shows it all the same"
NO_FOLDER = "is named by a text without a folder, which can show no file"


def nowhere(_: Path) -> None:
    """Show nothing outside the text's folder."""


def anywhere(path: Path) -> Path:
    """Show every file that the text names."""
    return path


def checked(story: Story, base: Path | None, elsewhere: Elsewhere) -> Story:
    """The story, its pictures without the files that it may not show, each with the reason.

    Args:
        story: as read.
        base: folder of the text; links are followed. None: it has none.
        elsewhere: asked for each file outside it.
    """
    home = None if base is None else base.resolve()

    def one(picture: PictureRef) -> PictureRef:
        path = None if picture.path is None else Path(picture.path).resolve()
        if path is None and home is None:
            return picture.model_copy(update={"problem": ""})
        if path is None or not path.is_file():
            problem = WEB if is_web(picture.target) else MISSING
        elif (shown := path if home and path.is_relative_to(home) else elsewhere(path)) is not None:
            return picture.model_copy(update={"path": str(shown), "problem": ""})
        else:
            problem = OUTSIDE if home else NO_FOLDER
        return picture.model_copy(update={"path": None, "problem": problem})

    def parts(found: Iterable[Part]) -> tuple[Part, ...]:
        return tuple(_with(part, tuple(map(one, part.pictures))) for part in found)

    steps = (
        step.model_copy(
            update={"pictures": tuple(_known(one(ref)) for ref in step.pictures), "parts": parts(step.parts)}
        )
        if step.pictures or any(part.pictures for part in step.parts)
        else step
        for step in story.steps
    )
    between = tuple(_with(part, tuple(map(_known, part.pictures))) for part in parts(story.between))
    return story.model_copy(update={"steps": tuple(steps), "between": between})


def _known(picture: PictureRef) -> PictureRef:
    """A picture of no library with the hash of its file: by it an export knows the file again."""
    if picture.path is None:
        return picture
    with suppress(OSError):  # of a file that cannot be read: an export says so
        return picture.model_copy(update={"sha256": sha256_of(Path(picture.path))})
    return picture


def _with(part: Part, pictures: tuple[PictureRef, ...]) -> Part:
    return part.model_copy(update={"pictures": pictures}) if pictures else part


def is_web(target: str) -> bool:
    """Whether the address of a picture is one of the web."""
    try:
        parts = urlsplit(target)
    except ValueError:  # no address at all
        return False
    return parts.scheme != "file" and (bool(parts.netloc) or len(parts.scheme) > 1)
