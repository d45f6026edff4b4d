"""Layout of a page: where its steps start and end, and whether pictures precede or follow their text.

Both are decided for each page from its blocks; parts outside the steps are listed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Literal

from limner.records import PictureRef
from limner.text.document import Block, LeftOut, pictures_of
from limner.text.plain import markers_in, names_method
from limner.text.segment import letters, omitted, split_sections, with_heading, without_supplies

PictureOrder = Literal["after", "before", "beside"]
"""Position of pictures: after their text, before it, or in the same card."""
_AFTER_STEPS = re.compile(
    r"(?:recipe |chef'?s |cook'?s |my )?(?:notes?|tips?|nutrition|storage|comments?|reviews?|faqs?)\b.{0,30}"
    r"|(?:\d+ )?(?:comments?|reviews?|thoughts|responses?)\b.{0,60}|leave a (?:reply|comment)"
    r"|(?:you (?:may|might|will|'ll|’ll) (?:also|like|love)|(?:more|related|similar|other|try (?:these|our)) "
    r"(?:recipes?|posts?|articles?|stories|guides?)|related|share this|about the author|about me).{0,40}"
    r"|notizen|tipps?|kommentare?|mehr rezepte|das könnte .*|notes? et .*|commentaires?|astuces?|conseils?"
    r"|notas?|consejos?|comentarios?|recetas relacionadas|note|consigli|commenti|dicas|coment[áa]rios"
    r"|opmerkingen|wskazówki|komentarze|примечания?|комментарии|советы|小贴士|附加内容|备注|ملاحظات|تعليقات",
    re.IGNORECASE,
)


def steps_of_page(blocks: Sequence[Block], whole: Collection[str]) -> tuple[list[Block], list[LeftOut]]:
    """Select the blocks that may be steps.

    Removes ingredients and tools; sections of notes, comments and related links after the first picture;
    everything before a heading such as "Method" that is followed by at least two pictures; and a first
    picture that shows the finished result, with its later repeats.

    Args:
        blocks: blocks of the main content.
        whole: file names and alt texts of pictures that show the finished result.
    Returns:
        The blocks, including headings; and what was left out.
    """
    sections, lost = without_supplies(split_sections(blocks))
    methods = [place for place, section in enumerate(sections) if names_method(section.title)]
    below = {
        place: pictures_of(block for item in sections[place:] for block in item.blocks) for place in methods
    }
    start = next((place for place in methods if len(below[place]) >= 2), 0)
    lost += [omitted("before the steps", with_heading(item)) for item in sections[:start]]
    result: list[Block] = []
    level = 0
    for section in sections[start:]:
        inside = level and section.level > level
        after = pictures_of(result) and _AFTER_STEPS.fullmatch(section.title.strip())
        level = level if inside else section.level if after else 0
        if level:
            lost.append(omitted("after the steps", with_heading(section)))
        else:
            result += with_heading(section)
    whole_targets = {
        item.target for item in pictures_of(result) if {file_name(item.target), item.alt} & {*whole}
    }
    first = pictures_of(result)[:1]
    if first and first[0].target in whole_targets:
        lost.append(LeftOut("picture of the whole", first[0].alt, (first[0].target,)))
        result = [_without(block, first[0].target) for block in result]
    return [item for item in result if item.text or item.pictures or item.kind == "break"], lost


def file_name(target: str) -> str:
    """The last part of a URL's path, without the query."""
    return target.partition("?")[0].rpartition("/")[2]


def _without(block: Block, target: str) -> Block:
    return replace(block, pictures=tuple(picture for picture in block.pictures if picture.target != target))


def without_captions(blocks: Sequence[Block]) -> tuple[list[Block], list[LeftOut]]:
    """Remove picture captions if they have less text than the paragraphs between the first and last picture.

    Otherwise the captions are the steps and are kept. A removed caption becomes the alt text of a picture
    that has none.
    """
    pictured = [place for place, block in enumerate(blocks) if block.pictures] or [0]
    between = blocks[pictured[0] : pictured[-1]]
    captions = [block for block in between if block.caption]
    paragraphs = [block for block in between if not block.caption and block.kind != "heading"]
    if not captions or letters(captions) >= letters(paragraphs):
        return list(blocks), []
    result: list[Block] = []
    for block in blocks:
        if not block.caption:
            result.append(block)
            continue
        bare = not block.pictures and result and result[-1].pictures and not result[-1].text
        holder = result.pop() if bare else block
        pictures = tuple(
            picture if picture.alt else picture.model_copy(update={"alt": block.text})
            for picture in holder.pictures
        )
        if pictures:
            result.append(replace(holder, text="", pictures=pictures, caption=False))
    return result, [LeftOut("caption of a picture", block.text) for block in blocks if block.caption]


def step_starts(blocks: Sequence[Block]) -> list[int]:
    """Indices of the blocks that begin an explicit step: numbered list items, and texts such as "Step 1"."""
    worded = {"paragraph", "heading"}
    marked = markers_in([block.text if block.kind in worded else "" for block in blocks])
    return [
        place
        for place, block in enumerate(blocks)
        if place in marked or (block.kind == "item" and block.ordered)
    ]


def picture_order(blocks: Sequence[Block], starts: Sequence[int]) -> PictureOrder:
    """Decide whether pictures precede or follow their text.

    1. With explicit steps: "before" if a picture directly precedes the first step and none follows the last.
    2. "before" if every heading directly follows a picture and none follows the last heading.
    3. Otherwise each run of blocks between headings and breaks votes: "before" if it starts with a picture
       and ends with text, "after" in the opposite case.
    4. In a tie, alt texts are compared with the texts on both sides; if that is a tie too, "after".

    Args:
        blocks: blocks of the steps, in order.
        starts: indices of the blocks that begin an explicit step.
    """
    if len(starts) >= 2:
        first, last = starts[0], starts[-1]
        leads = first > 0 and bool(blocks[first - 1].pictures) and not blocks[first - 1].text
        ends = next((n for n in range(last + 1, len(blocks)) if blocks[n].kind == "heading"), len(blocks))
        if leads and not pictures_of(blocks[last:ends]):
            return "before"
        if pictures_of(blocks[first:ends]):
            return "after"
    if _before_headings(blocks):
        return "before"
    votes = 0
    for run in _runs(blocks):
        first_block, last_block = run[0], run[-1]
        if any(entry.pictures for entry in run):
            leads, trails = not first_block.text, not last_block.text
            votes += leads - trails
    if not votes:
        for before, block, after in zip(blocks, blocks[1:], blocks[2:], strict=False):
            alt = _words(entry.alt for entry in block.pictures)
            if not block.text:
                votes += len(alt & _words([after.text])) - len(alt & _words([before.text]))
    return "before" if votes > 0 else "after"


def _before_headings(blocks: Sequence[Block]) -> bool:
    """Whether all headings, of one level, directly follow a picture, and no picture follows the last."""
    pictured = [place for place, block in enumerate(blocks) if block.pictures] or [0]
    headings = [
        place for place, block in enumerate(blocks) if block.kind == "heading" and place > pictured[0]
    ]
    if len(headings) < 2 or pictured[-1] > headings[-1]:
        return False
    level = blocks[headings[0]].level
    same_level = [
        place for place, block in enumerate(blocks) if block.kind == "heading" and block.level == level
    ]
    return same_level == headings and all(
        place - 1 in pictured and not blocks[place - 1].text for place in same_level
    )


def _runs(blocks: Iterable[Block]) -> list[list[Block]]:
    """Split blocks at headings and breaks."""
    runs: list[list[Block]] = [[]]
    for block in blocks:
        if block.kind in {"heading", "break"}:
            runs.append([])
        else:
            runs[-1].append(block)
    return [run for run in runs if run]


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in re.findall(r"\w{3,}", text.lower())}


def words_first(blocks: Sequence[Block]) -> list[Block]:
    """Reorder a page whose pictures precede their text: move them into the next block of text."""
    result: list[Block] = []
    waiting: tuple[PictureRef, ...] = ()
    for block in blocks:
        if not block.text and block.kind != "break":
            waiting += block.pictures
        else:
            moved = waiting if block.text else ()
            result.append(replace(block, pictures=moved + block.pictures))
            waiting = waiting if not block.text else ()
    return [*result, Block("paragraph", pictures=waiting)] if waiting else result


def cards_with_steps(blocks: Sequence[Block]) -> tuple[list[list[Block]], list[LeftOut]]:
    """The cards of a page, if they are its steps.

    Of several kinds of cards, the one with the most pictures is used. Its cards must contain at least half of
    the page's pictures and half of the letters between the first and last card.

    Returns:
        The blocks of each card in reading order, and the rest; both empty if the cards are not steps.
    """
    kinds: defaultdict[int, dict[int, list[Block]]] = defaultdict(dict)
    for block in blocks:
        kind, number = block.card
        if kind:
            kinds[kind].setdefault(number, []).append(block)
    if not kinds:
        return [], []
    held = {kind: [block for block in blocks if block.card[0] == kind] for kind in kinds}
    best = max(held, key=lambda kind: len(pictures_of(held[kind])))
    inside = held[best]
    places = [place for place, block in enumerate(blocks) if block.card[0] == best]
    between = blocks[places[0] : places[-1] + 1]
    whole = 2 * len(pictures_of(inside)) >= len(pictures_of(blocks))
    if not whole or 2 * letters(inside) < letters(between):
        return [], []
    rest = [block for block in blocks if block.card[0] != best]
    return list(kinds[best].values()), [omitted("beside the steps", rest)]
