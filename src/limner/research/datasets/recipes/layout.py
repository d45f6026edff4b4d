"""Layout of the steps of a page: their start and end, and the order of picture and text.

All of it is judged page by page from the blocks alone, and what lies outside the steps is listed.
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
"""Position of pictures: after their text, before it, or in one card with it."""
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
    """The blocks that may be steps.

    Supplies go, and sections of notes, comments and further reading after the first picture. Where a heading
    such as "Method" has two pictures under it, what stands before goes, too. A picture before the steps that
    shows the whole goes, and so do pictures with the same address later on.

    Args:
        blocks: blocks of the main content.
        whole: file names and alternative texts of pictures that show the finished whole.
    Returns:
        Blocks, headings included, and what is left out.
    """
    kept, lost = without_supplies(split_sections(blocks))
    methods = [place for place, section in enumerate(kept) if names_method(section.title)]
    below = {place: pictures_of(block for one in kept[place:] for block in one.blocks) for place in methods}
    start = next((place for place in methods if len(below[place]) >= 2), 0)
    lost += [omitted("before the steps", with_heading(one)) for one in kept[:start]]
    result: list[Block] = []
    level = 0
    for section in kept[start:]:
        inside = level and section.level > level
        after = pictures_of(result) and _AFTER_STEPS.fullmatch(section.title.strip())
        level = level if inside else section.level if after else 0
        if level:
            lost.append(omitted("after the steps", with_heading(section)))
        else:
            result += with_heading(section)
    shown = {one.target for one in pictures_of(result) if {file_name(one.target), one.alt} & {*whole}}
    first = pictures_of(result)[:1]
    if first and first[0].target in shown:
        lost.append(LeftOut("picture of the whole", first[0].alt, (first[0].target,)))
        result = [_without(block, first[0].target) for block in result]
    return [one for one in result if one.text or one.pictures or one.kind == "break"], lost


def file_name(target: str) -> str:
    """The last part of an address, without what is asked of the server."""
    return target.partition("?")[0].rpartition("/")[2]


def _without(block: Block, target: str) -> Block:
    return replace(block, pictures=tuple(one for one in block.pictures if one.target != target))


def without_captions(blocks: Sequence[Block]) -> tuple[list[Block], list[LeftOut]]:
    """The blocks without the captions of their pictures, where these say less than what stands beside them.

    Captions that say more are the steps, and stay. Of those that go, pictures without an alternative text
    keep the words for it.
    """
    shown = [place for place, block in enumerate(blocks) if block.pictures] or [0]
    between = blocks[shown[0] : shown[-1]]
    captions = [block for block in between if block.caption]
    told = [block for block in between if not block.caption and block.kind != "heading"]
    if not captions or letters(captions) >= letters(told):
        return list(blocks), []
    kept: list[Block] = []
    for block in blocks:
        if not block.caption:
            kept.append(block)
            continue
        bare = not block.pictures and kept and kept[-1].pictures and not kept[-1].text
        holder = kept.pop() if bare else block
        pictures = tuple(
            one if one.alt else one.model_copy(update={"alt": block.text}) for one in holder.pictures
        )
        if pictures:
            kept.append(replace(holder, text="", pictures=pictures, caption=False))
    return kept, [LeftOut("caption of a picture", block.text) for block in blocks if block.caption]


def step_starts(blocks: Sequence[Block]) -> list[int]:
    """Places of the blocks that begin an explicit step: items of numbered lists, and what counts steps."""
    worded = {"paragraph", "heading"}
    marked = markers_in([block.text if block.kind in worded else "" for block in blocks])
    return [
        place
        for place, block in enumerate(blocks)
        if place in marked or (block.kind == "item" and block.ordered)
    ]


def picture_order(blocks: Sequence[Block], starts: Sequence[int]) -> PictureOrder:
    """Whether pictures stand before their words or after them.

    Where steps are marked, a picture right before the first and none after the last means before; so do
    headings right behind pictures, the last with none under it. Else every stretch between headings and
    breaks that begins with a picture and ends with words counts for before, one the other way round for
    after; then the alternative texts are compared with the words on both sides. A draw is after.

    Args:
        blocks: blocks of the steps, in order.
        starts: places of those that begin an explicit step.
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
        if any(one.pictures for one in run):
            leads, trails = not first_block.text, not last_block.text
            votes += leads - trails
    if not votes:
        for before, block, after in zip(blocks, blocks[1:], blocks[2:], strict=False):
            alt = _words(one.alt for one in block.pictures)
            if not block.text:
                votes += len(alt & _words([after.text])) - len(alt & _words([before.text]))
    return "before" if votes > 0 else "after"


def _before_headings(blocks: Sequence[Block]) -> bool:
    """Whether all headings of a level stand right behind a picture, and none has one under it at the end."""
    shown = [place for place, block in enumerate(blocks) if block.pictures] or [0]
    headings = [place for place, block in enumerate(blocks) if block.kind == "heading" and place > shown[0]]
    if len(headings) < 2 or shown[-1] > headings[-1]:
        return False
    level = blocks[headings[0]].level
    own = [place for place, block in enumerate(blocks) if block.kind == "heading" and block.level == level]
    return own == headings and all(place - 1 in shown and not blocks[place - 1].text for place in own)


def _runs(blocks: Iterable[Block]) -> list[list[Block]]:
    """Blocks between headings and breaks."""
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
    """The blocks of a page whose pictures come before their words, as if they came after.

    Pictures that stand alone move into the next block of words.
    """
    result: list[Block] = []
    waiting: tuple[PictureRef, ...] = ()
    for block in blocks:
        if not block.text and block.kind != "break":
            waiting += block.pictures
        else:
            own = waiting if block.text else ()
            result.append(replace(block, pictures=own + block.pictures))
            waiting = waiting if not block.text else ()
    return [*result, Block("paragraph", pictures=waiting)] if waiting else result


def cards_with_steps(blocks: Sequence[Block]) -> tuple[list[list[Block]], list[LeftOut]]:
    """The cards of a page as steps, if they are: (blocks of each card in reading order, the rest).

    Of several kinds of cards that with most pictures counts. It must hold half of the pictures of the page,
    and half of the letters between its first and last card; else there are none.
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
