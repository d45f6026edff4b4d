"""Finds the declared steps of a page in its visible text, so that the text around them stays in place."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise

from limner.records import Between, Part, Step
from limner.text.document import Block, Document, LeftOut, pictures_of, with_parts

_LONG = 12
"""Minimum number of letters of a text inside a longer sentence to count as the same text."""
_MOST = 2 / 3
"""Share of the letters of a list from which the declared steps count as the whole list."""


def place_steps(document: Document, blocks: Sequence[Block]) -> bool:
    """Copy the visible text before, between and after the declared steps of a page into the document.

    Other declared parts, such as ingredients, stay if the page does not show them. A step that declares no
    picture gets those that the page shows in it.

    Args:
        document: document with declared steps, a title and the declared parts around them; its steps and the
            parts between them are replaced, and what is left out is added.
        blocks: of the page's main content.

    Returns:
        Whether all steps occur there in order and in the declared words; if not, nothing changes.
    """
    places = _places(document.steps, [_letters(block.text) for block in blocks])
    if places is None:
        return False
    title = _letters(document.title)
    used = {place for span in places for place in span}
    starts = [span.start for span in places]
    found: list[Between] = []
    for place, block in enumerate(blocks):
        if (
            place in used
            or block.taken
            or (block.kind == "heading" and _letters(block.text) == title and not found)
        ):
            continue
        before = sum(start < place for start in starts)
        first, *more = with_parts(block).parts or (Part(),)
        shown = first.model_copy(update={"pictures": block.pictures})
        found += (Between(**dict(part), before=before) for part in (shown, *more))
    document.between = tuple(_with_unwritten(document.between, found))
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


def shown_more(steps: Sequence[Step], blocks: Sequence[Block]) -> str:
    """A note if the main content of a page shows its steps better than the page declares them, else "".

    This is so if one step is declared and shown in several blocks, and if all that is declared is less than
    `_MOST` of the list that contains it.
    """
    words = [_letters(block.text) for block in blocks]
    places = _places(steps, words) if len(steps) == 1 else None
    if places is not None and len(places[0]) > 1:
        return "the page declares all its steps as one: its visible text is used"
    lists: dict[int, list[str]] = {}
    for block, letters in zip(blocks, words, strict=True):
        if block.kind == "item" and letters:
            lists.setdefault(block.list_id, []).append(letters)
    wanted = [_letters(step.text) for step in steps]
    for items in lists.values():
        if sum(map(len, wanted)) < _MOST * sum(map(len, items)) and _stand_in(wanted, items):
            return "the page declares only part of the steps that it lists: its visible text is used"
    return ""


def _stand_in(wanted: Sequence[str], items: Sequence[str]) -> bool:
    """Whether each block is a list item, or at least `_LONG` letters of one, in order."""
    rest = iter(items)
    return all(
        any(letters == item or (len(letters) >= _LONG and letters in item) for item in rest)
        for letters in wanted
    )


def _letters(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def _places(steps: Sequence[Step], words: Sequence[str]) -> list[range] | None:
    """The blocks of each step, with a heading directly above that is its title."""
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
    """The blocks from `first` whose combined text is that of a step.

    Args:
        wanted: letters of the step.
        written: letters of all blocks.
        starts: start of each block in these letters, and the end of the last one.
        first: index of a block.
    """
    start = starts[first]
    end = start + len(wanted)
    if not wanted or starts[first + 1] == start or not written.startswith(wanted, start):
        return None
    last = bisect_left(starts, end)
    return range(first, last) if starts[last] == end else None


def _with_unwritten(declared: Sequence[Between], found: Sequence[Between]) -> list[Between]:
    """The visible text, with declared parts that the page does not show.

    If the page shows part of a list, the rest of the list follows that part; everything else comes first, a
    heading only with content below it.
    """
    written = [_letters(part.text) for part in found]
    inside = "\n".join(written)

    def stands(part: Between) -> bool:
        words = _letters(part.text)
        return words in written or (len(words) >= _LONG and words in inside)

    first: list[Between] = []
    after: dict[int, list[Between]] = {}
    starts = [n for n, part in enumerate(declared) if part.kind == "heading"]
    begin = starts[0] if starts else len(declared)
    first += (part for part in declared[:begin] if not stands(part))
    for start, end in pairwise([*starts, len(declared)]):
        heading, items = declared[start], declared[start + 1 : end]
        missing = [part for part in items if not stands(part)]
        there = {_letters(part.text) for part in items if part not in missing}
        shown = [n for n, words in enumerate(written) if words in there]
        if missing and shown:
            place = max(shown)
            after[place] = [part.model_copy(update={"before": found[place].before}) for part in missing]
        elif missing:
            first += [heading, *missing]
    return [*first, *(one for n, part in enumerate(found) for one in (part, *after.get(n, ())))]
