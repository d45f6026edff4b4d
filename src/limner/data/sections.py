"""Sections of a document: blocks under their heading, and the joins that every way of cutting needs.

Kept apart from the choice of cut, so that each shape of text reads as a few lines there.
Nothing here decides what a step is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from limner.data.documents import Block, LeftOut
from limner.data.records import Step
from limner.data.step_markers import in_sequence, marker_of, names_supplies


@dataclass
class Section:
    """A heading and the blocks under it, up to the next heading of any level.

    Attributes:
        title: words of the heading, "" before the first.
        level: 1 to 6, 0 before the first heading.
        blocks: what stands under it, page breaks taken out unless asked for.
    """

    title: str = ""
    level: int = 0
    blocks: list[Block] = field(default_factory=list)


def split_sections(blocks: Iterable[Block]) -> list[Section]:
    """Cut blocks at every heading; the blocks before the first make a section of level 0."""
    sections = [Section()]
    for block in blocks:
        if block.kind == "heading":
            sections.append(Section(block.text, block.level))
            if block.pictures:
                sections[-1].blocks.append(Block("paragraph", pictures=block.pictures))
        else:
            sections[-1].blocks.append(block)
    return sections if sections[0].blocks else sections[1:]


def with_heading(section: Section) -> list[Block]:
    """A section's blocks with its heading put back in front."""
    heading = [Block("heading", section.title, section.level)] if section.level else []
    return heading + section.blocks


def mark_steps(blocks: Sequence[Block]) -> list[Block]:
    """Turn paragraphs that begin "Step 1:" or "1." into items of a numbered list.

    A worded mark takes in everything up to the next mark, heading or break; a bare number only its own
    paragraph.
    """
    marks = [
        (place, mark)
        for place, block in enumerate(blocks)
        if block.kind == "paragraph" and (mark := marker_of(block.text))
    ]
    flags = in_sequence([mark.number for _, mark in marks])
    counted = {place: mark for (place, mark), flag in zip(marks, flags, strict=True) if flag}
    result: list[Block] = []
    open_step = False
    for place, block in enumerate(blocks):
        mark = counted.get(place)
        if mark:
            item = Block("item", mark.rest, 0, block.pictures, ordered=True, number=mark.number, list_id=-1)
            result.append(item)
            open_step = mark.worded
        elif open_step and block.kind not in {"heading", "break"}:
            result[-1] = join_blocks(result[-1], [block])
        else:
            open_step = False
            result.append(block)
    return [block for block in result if block.kind in {"break", "heading"} or block.text or block.pictures]


def without_supplies(sections: list[Section]) -> tuple[list[Section], list[LeftOut]]:
    """Take out sections of ingredients or tools, with their subsections, unless nothing else remains."""
    kept: list[Section] = []
    dropped: list[Section] = []
    level = 0
    for section in sections:
        inside = level and section.level > level
        level = level if inside else section.level if names_supplies(section.title) else 0
        (dropped if level else kept).append(section)
    if not letters(block for section in kept for block in section.blocks):
        return sections, []
    return kept, [omitted("ingredients or supplies", with_heading(section)) for section in dropped]


def join_continuations(blocks: list[Block]) -> list[Block]:
    """Give what stands between item n and item n + 1 to item n, and pictures after the last item to it."""
    result: list[Block] = []
    places = [place for place, block in enumerate(blocks) if block.kind == "item" and block.ordered]
    follows = {
        here: there
        for here, there in pairwise(places)
        if blocks[there].number == blocks[here].number + 1 and blocks[there].number > 1
    }
    place = 0
    while place < len(blocks):
        block, end = blocks[place], place + 1
        if place in follows:
            end = follows[place]
        elif block.kind == "item" and block.ordered:
            while end < len(blocks) and not blocks[end].text and blocks[end].pictures:
                end += 1
        result.append(join_blocks(block, blocks[place + 1 : end]))
        place = end
    return result


def whole_step(blocks: Iterable[Block], title: str) -> list[Step]:
    """One step of all blocks, the heading being its words where there are no others; none without any."""
    blocks = list(blocks)
    pictures = tuple(picture for block in blocks for picture in block.pictures)
    text = text_of(blocks)
    if text:
        return [Step(text=text, title=title, pictures=pictures)]
    return [Step(text=title, pictures=pictures)] if title else []


def text_of(blocks: Iterable[Block]) -> str:
    """The words of blocks: paragraphs apart, items of one list on lines of their own."""
    text, last = "", None
    for block in blocks:
        if not block.text:
            continue
        bullet = block.kind == "item" and not block.ordered
        line = f"- {block.text}" if bullet else block.text
        if block.kind == "item" and block.ordered:
            line = f"{block.number}. {block.text}"
        same = last is not None and last.kind == block.kind == "item" and last.list_id == block.list_id
        text += ("" if last is None else "\n" if same else "\n\n") + line
        last = block
    return text


def join_blocks(first: Block, more: Sequence[Block]) -> Block:
    """Append the words and pictures of more blocks to the first."""
    if not more:
        return first
    rest = text_of(more)
    pictures = first.pictures + tuple(picture for block in more for picture in block.pictures)
    return replace(first, text="\n\n".join(filter(None, (first.text, rest))), pictures=pictures)


def without_breaks(section: Section) -> list[Block]:
    """A section's blocks but its page breaks."""
    return [block for block in section.blocks if block.kind != "break"]


def letters(blocks: Iterable[Block]) -> int:
    """Letters in blocks, white space not counted."""
    # Scripts without spaces have no words to count; letters serve all alike.
    return sum(len("".join(block.text.split())) for block in blocks)


def omitted(reason: str, blocks: Iterable[Block]) -> LeftOut:
    """Blocks as a record of what was left out."""
    kept = [block for block in blocks if block.kind != "break"]
    pictures = tuple(picture.target for block in kept for picture in block.pictures)
    return LeftOut(reason, text_of(kept), pictures)
