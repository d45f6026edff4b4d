"""Where on a page its declared steps stand: what the author wrote around them stays in its place."""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate

from limner.records import Between, Part, Step
from limner.text.document import Block, Document, LeftOut, pictures_of, with_parts

_LONG = 12
"""Letters from which words inside a longer sentence are taken for the same words."""


def place_steps(document: Document, blocks: Sequence[Block]) -> bool:
    """Take over what stands on the page before, between and after the steps that it declares.

    What is declared beside the steps, such as ingredients, stays where the page does not show it. A step that
    declares no picture has those that the page shows in it.

    Args:
        document: with declared steps, a title and what is declared around them; its steps and what is
            between them are replaced, what is left out is added.
        blocks: of the page's main content.

    Returns:
        Whether all steps stand there in order and in the declared words; else nothing is changed.
    """
    places = _places(document.steps, [_letters(block.text) for block in blocks])
    if places is None:
        return False
    title = _letters(document.title)
    used = {place for span in places for place in span}
    starts = [span.start for span in places]
    found: list[Between] = []
    for place, block in enumerate(blocks):
        if place in used or (block.kind == "heading" and _letters(block.text) == title and not found):
            continue
        before = sum(start < place for start in starts)
        first, *more = with_parts(block).parts or (Part(),)
        shown = first.model_copy(update={"pictures": block.pictures})
        found += (Between(**dict(part), before=before) for part in (shown, *more))
    written = dict.fromkeys(_letters(part.text) for part in found)
    document.between = (*_unwritten(document.between, written), *found)
    own = [pictures_of(blocks[place] for place in span) for span in places]
    others = [
        picture.target
        for step, shown in zip(document.steps, own, strict=True)
        for picture in shown
        if step.pictures and picture not in step.pictures
    ]
    if others:
        document.left_out.append(LeftOut("pictures of steps that declare others", pictures=tuple(others)))
    document.steps = tuple(
        step if step.pictures else step.model_copy(update={"pictures": shown})
        for step, shown in zip(document.steps, own, strict=True)
    )
    return True


def is_several(steps: Sequence[Step], blocks: Sequence[Block]) -> bool:
    """Whether a page declares one step and shows it in several blocks of its main content."""
    places = _places(steps, [_letters(block.text) for block in blocks]) if len(steps) == 1 else None
    return places is not None and len(places[0]) > 1


def _letters(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def _places(steps: Sequence[Step], words: Sequence[str]) -> list[range] | None:
    """The blocks of each step, with a heading just above that is its title."""
    places: list[range] = []
    begin, starts, written = 0, [0, *accumulate(map(len, words))], "".join(words)
    for step in steps:
        wanted, title = _letters(step.text), _letters(step.title)
        found = (_span(wanted, written, starts, first) for first in range(begin, len(words)))
        own = next(filter(None, found), None)
        if own is None:
            return None
        above = own.start - 1
        titled = title and above >= begin and words[above] == title
        places.append(range(above if titled else own.start, own.stop))
        begin = own.stop
    return places


def _span(wanted: str, written: str, starts: Sequence[int], first: int) -> range | None:
    """The blocks from `first` whose words together are those of a step.

    Args:
        wanted: letters of the step.
        written: letters of all blocks.
        starts: where in them each block begins, and where the last one ends.
        first: number of a block.
    """
    start = starts[first]
    end = start + len(wanted)
    if not wanted or starts[first + 1] == start or not written.startswith(wanted, start):
        return None
    last = bisect_left(starts, end)
    return range(first, last) if starts[last] == end else None


def _unwritten(declared: Sequence[Between], written: Collection[str]) -> Iterator[Between]:
    """What is declared and not written on the page; a heading only with something below it."""
    heading: Between | None = None
    inside = "\n".join(written)
    for part in declared:
        if part.kind == "heading":
            heading = part
        elif (words := _letters(part.text)) not in written and (len(words) < _LONG or words not in inside):
            if heading is not None:
                yield heading
            heading = None
            yield part
