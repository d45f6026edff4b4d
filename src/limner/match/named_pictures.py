"""Finds the pictures that a text names by their files: ``[photo: IMG_0412]``, ``(see lake.jpg)``."""

import re
from collections.abc import Iterable, Iterator

from limner.records import Story
from limner.text.blocks import letters

_SEE = r"(?:see|cf\.|siehe|vgl\.|voir|véase|ver|vedi|zie|zob\.|см\.)\s+"
_FILE = r"[\w-]+\.(?:avif|bmp|gif|heic|jpe?g|png|tiff?|webp)\b|[A-Z]{2,}[_-]?\d+\b|fig(?:ure|\.)?\s*\d+\b"
_SAID = re.compile(
    rf"[\[(（]\s*(?:{_SEE}(?P<told>[^()\[\]（）]{{1,80}})|(?P<file>{_FILE}))\s*[\])）]|\b{_SEE}(?P<seen>{_FILE})",
    re.IGNORECASE,
)
_SUFFIX = re.compile(r"\.\w{3,5}\Z")


def named_pictures(story: Story, words: Iterable[tuple[str, str]]) -> dict[int, str]:
    """Pictures that steps name: marked places by a file name or word for word by a caption, others by a file.

    Args:
        story: the text.
        words: id of a picture with a file name or caption of it; what several have names none of them.
    Returns:
        Id of the picture, by index of the step, from 0.

    Example:
        >>> story = limner.Story(id="walk", steps=[limner.Step(text="We rested (see lake.jpg).")])
        >>> named_pictures(story, [("0a1b", "lake.jpg"), ("2c3d", "hut.jpg")])
        {0: '0a1b'}
    """
    said = [[*filter(None, map(_key, _names_in(story, place)))] for place in range(len(story.steps))]
    if not any(said):
        return {}
    found: dict[str, set[str]] = {}
    for picture, name in words:
        found.setdefault(_key(name), set()).add(picture)
    named: dict[int, str] = {}
    for place, key in ((place, key) for place, keys in enumerate(said) for key in keys):
        if len(found.get(key, ())) == 1:
            named.setdefault(place, next(iter(found[key])))
    return named


def _names_in(story: Story, place: int) -> Iterator[str]:
    """What may be the name of a file: the words of a marked place; what stands in brackets or after "see"."""
    block, step = story.blocks[story.steps[place].run[0]], story.steps[place]
    if block.kind == "wanted":
        yield block.text
        return
    for match in _SAID.finditer(step.text):
        yield match["told"] or match["file"] or match["seen"]


def _key(name: str) -> str:
    """A name without its suffix, case and punctuation: "fig. 3" and "Fig-3.png" are one."""
    return re.sub(r"^figure(?=\d)", "fig", letters(_SUFFIX.sub("", name.strip())))
