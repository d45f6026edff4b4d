"""Divides a document into steps: by explicit step, heading, paragraph or sentence.

Every format is divided here, in the same way. Nothing is lost: every word of the document is in a step, in a
title, or between the steps, where it is listed as left out.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, pairwise
from operator import attrgetter, itemgetter

from limner.errors import DataError
from limner.language import split_sentences
from limner.records import Between, Part, PictureRef, Segmentation, Step
from limner.text.document import Block, Document, LeftOut, check_count, pictures_of, with_parts
from limner.text.plain import markers_in, names_method, names_supplies

_MAX_TOLD = 5_000_000
"""Maximum number of letters of a text that is divided into sentences."""


@dataclass
class Section:
    """A heading and the blocks under it, up to the next heading of any level.

    Attributes:
        title: text of the heading, "" before the first.
        level: 1 to 6, 0 before the first heading.
        blocks: blocks below it, by default without page breaks.
        heading: the heading, None before the first.
    """

    title: str = ""
    level: int = 0
    blocks: list[Block] = field(default_factory=list)
    heading: Block | None = None


def split_sections(blocks: Iterable[Block]) -> list[Section]:
    """Divide blocks at every heading; blocks before the first form a section of level 0."""
    sections = [Section()]
    for block in blocks:
        if block.kind == "heading":
            sections.append(
                Section(
                    block.text, block.level, heading=replace(block, pictures=(), card=(0, 0), caption=False)
                )
            )
            if block.pictures:
                shown = Block("paragraph", pictures=block.pictures, places=block.places)
                sections[-1].blocks.append(shown)
        else:
            sections[-1].blocks.append(block)
    return sections if sections[0].blocks else sections[1:]


def with_heading(section: Section) -> list[Block]:
    """Blocks of a section, preceded by its heading."""
    return [section.heading, *section.blocks] if section.heading else section.blocks


def mark_steps(blocks: Sequence[Block]) -> list[Block]:
    """Convert paragraphs that begin with "Step 1:" or "1." into items of a numbered list.

    A marker with a word takes everything up to the next marker, heading or break; a number only its own
    paragraph.
    """
    counted = markers_in([block.text if block.kind == "paragraph" else "" for block in blocks])
    result: list[Block] = []
    open_step = False
    more: list[Block] = []  # of the open step, joined at its end
    for place, block in enumerate(blocks):
        if more and (place in counted or block.kind in {"heading", "break"}):
            result[-1], more = join_blocks(result[-1], more), []
        if mark := counted.get(place):
            item = Block("item", mark.rest, 0, block.pictures, ordered=True, number=mark.number, list_id=-1)
            words = (
                part_between(block.parts[0], len(block.text.rstrip()) - len(mark.rest))
                if block.parts
                else Part()
            )
            words = words.model_copy(update={"kind": "item", "number": mark.number, "depth": 1})
            result.append(
                replace(item, parts=(words, *block.parts[1:]) if block.parts else (), places=block.places)
            )
            open_step = mark.worded
        elif open_step and block.kind not in {"heading", "break"}:
            more.append(block)
        else:
            open_step = False
            result.append(block)
    if more:
        result[-1] = join_blocks(result[-1], more)
    return [block for block in result if block.kind in {"break", "heading"} or block.text or block.pictures]


def without_supplies(sections: list[Section]) -> tuple[list[Section], list[LeftOut]]:
    """Remove sections of ingredients or tools, with their subsections, unless nothing else would remain."""
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
    """Append blocks between items n and n + 1 to item n, and pictures after the last item to that."""
    result: list[Block] = []
    places = [place for place, block in enumerate(blocks) if block.kind == "item" and block.ordered]
    follows = {
        here: there for here, there in pairwise(places) if blocks[there].number == blocks[here].number + 1 > 1
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


@dataclass(frozen=True)
class StepDraft:
    """A step, with the indices of the blocks from which it is made."""

    step: Step
    places: tuple[int, ...]


def _draft(block: Block, title: str) -> StepDraft:
    parts = () if _is_plain(block) else block.parts
    return StepDraft(Step(text=block.text, title=title, pictures=block.pictures, parts=parts), block.places)


def _is_plain(block: Block) -> bool:
    """Whether the parts contain no more than the text."""
    return len(block.parts) == 1 and block.parts[0] == Part(text=block.text)


def whole_step(blocks: Iterable[Block], title: str) -> list[StepDraft]:
    """One step of all blocks; its text is the heading if there is no other. None without any text."""
    whole = join_blocks(Block("paragraph"), list(blocks))
    if whole.text:
        return [_draft(whole, title)]
    return [_draft(replace(whole, text=title), "")] if title else []


def part_between(part: Part, start: int, end: int | None = None) -> Part:
    """Text of a part between two of its letters."""
    text = part.text[start:end]
    shifted = ((mark, max(0, mark.start - start), min(len(text), mark.end - start)) for mark in part.marks)
    marks = tuple(mark.model_copy(update={"start": a, "end": b}) for mark, a, b in shifted if a < b)
    return part.model_copy(update={"text": text, "marks": marks})


def text_of(blocks: Iterable[Block]) -> str:
    """Text of blocks: paragraphs are separated, and items of a list are on lines of their own."""
    text, last = "", Block("break")
    for block in filter(attrgetter("text"), blocks):
        same = last.kind == block.kind == "item" and last.list_id == block.list_id
        text += ("\n" if same else "\n\n") + block.mark + block.text
        last = block
    return text.removeprefix("\n\n")


def join_blocks(first: Block, more: Sequence[Block]) -> Block:
    """Append the text and pictures of further blocks to the first."""
    text = "\n\n".join(filter(None, (first.text, text_of(more))))
    return replace(
        first,
        text=text,
        pictures=first.pictures + pictures_of(more),
        parts=first.parts + tuple(part for block in more for part in block.parts),
        places=first.places + tuple(place for block in more for place in block.places),
    )


def without_breaks(section: Section) -> list[Block]:
    """Blocks of a section without page breaks."""
    return [block for block in section.blocks if block.kind != "break"]


def letters(blocks: Iterable[Block]) -> int:
    """Number of letters in blocks, without white space."""
    # Letters, not words, because some scripts have no spaces between words.
    return sum(len("".join(block.text.split())) for block in blocks)


def omitted(reason: str, blocks: Iterable[Block]) -> LeftOut:
    """Record of blocks that are left out."""
    kept = [block for block in blocks if block.kind != "break"]
    return LeftOut(reason, text_of(kept), tuple(picture.target for picture in pictures_of(kept)))


@dataclass
class Cut:
    """Result of dividing a text: the unit used, the steps, and the parts that are in none of them.

    Attributes:
        by: unit that is one step.
        drafts: steps, with the blocks from which they are made.
        left_out: parts in no step, and why.
        between: the same as parts of the text, in place.
        paged: whether page breaks of the text separate its steps.
    """

    by: Segmentation = "step"
    drafts: list[StepDraft] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    between: tuple[Between, ...] = ()
    paged: bool = False

    @property
    def steps(self) -> list[Step]:
        """The steps, in order."""
        return [draft.step for draft in self.drafts]


def cut(document: Document, by: Segmentation, where: str) -> Cut:
    """Divide a document into steps.

    ``step`` takes the first of these that the text has:

    1. steps the source declares;
    2. headings that are numbered or say "Step": each with all under it is a step;
    3. pages between breaks (no numbered list, at most one heading a page);
    4. numbered lists, paragraphs beginning "Step 1:" or "1.", bullets under "Method" or bullets with
       pictures of their own. When these hold at least half of the letters under the headings, as in a
       recipe, each item is a step and the introduction and notes around them are left out; otherwise
       the text between is kept as steps too;
    5. two or more headed sections, the introduction being a step of its own;
    6. paragraphs: `by` then says so.

    Lists of ingredients or supplies under a heading that says so are left out of 2 to 6.
    The other three units leave out only headings of groups.

    Args:
        document: the document.
        by: unit that is one step.
        where: name of the text, for messages.

    Raises:
        DataError: nothing is left for a step, or `by` is heading and there is none.
    """
    check_count(sum(step.text.count("\n\n") + 1 for step in document.steps), where)
    if by == "sentence" and _letters_in(document) > _MAX_TOLD:
        raise DataError(
            f"{where}: longer than {_MAX_TOLD // 10**6} million letters; expected a text whose sentences can"
            " be found in a few seconds; cut it by paragraph, or split it"
        )
    blocks = with_captions(document.blocks or _blocks_of_steps(document.steps))
    blocks = [replace(with_parts(block), places=(place,)) for place, block in enumerate(blocks)]
    blocks = _with_asides(blocks)
    every, blocks = blocks, [block for block in blocks if not block.caption and block.aside != "footnote"]
    if by == "step":
        declared = [StepDraft(step, ()) for step in document.steps]
        result = Cut(drafts=declared) if declared else _by_step(replace(document, blocks=blocks))
    else:
        if by == "heading" and not any(block.kind == "heading" for block in blocks):
            raise DataError(f"{where}: has no headings; expected at least one; use --by paragraph")
        result = _by_unit(split_sections(blocks), by, where)
    if not result.drafts:
        raise DataError(f"{where}: no step found (no words outside markup); expected a text with words in it")
    result.left_out += [
        LeftOut("caption of a picture" if block.taken else "caption", block.text)
        for block in every
        if block.caption
    ]
    result.left_out += [LeftOut("footnote", block.text) for block in every if block.aside == "footnote"]
    result.left_out = [one for one in result.left_out if one.text or one.pictures]
    # Pictures without any text, such as a banner above the first paragraph.
    known = {picture.target for step in result.steps for picture in step.pictures}
    known |= {target for item in result.left_out for target in item.pictures}
    result.left_out += [
        LeftOut("picture without text", picture.alt, (picture.target,))
        for picture in dict.fromkeys(pictures_of(document.blocks))
        if picture.target not in known
    ]
    result.left_out = [replace(one, kept=bool(document.blocks)) for one in result.left_out]
    result.drafts = _with_lines(every, result.drafts)
    result.between = _between(every, result) if document.blocks else _around_all(document, len(result.drafts))
    return result


def with_captions(blocks: Sequence[Block]) -> list[Block]:
    """Blocks in which separate captions are attached to the picture before or after them.

    A picture whose alt text has fewer than two words gets its caption as alt text. Captions in a card stay
    text if they are the card's only text, and so does the only text of a document.
    """
    worded = {block.card for block in blocks if block.text and not block.caption}
    aside = [block.caption and (not any(block.card) or block.card in worded) for block in blocks]
    if not letters(block for block, is_aside in zip(blocks, aside, strict=True) if not is_aside):
        return [replace(block, caption=False) for block in blocks]
    result: list[Block] = []
    for block, is_aside in zip(blocks, aside, strict=True):
        if not is_aside:
            said = ""
            if block.pictures and result and result[-1].caption and not result[-1].taken:
                said = result[-1].text
                result[-1] = replace(result[-1], taken=True)
            result.append(replace(block, caption=False, pictures=_described(block.pictures, said)))
            continue
        if block.pictures:
            result.append(Block("paragraph", pictures=block.pictures, lines=block.lines))
        shown = bool(block.text and result and result[-1].pictures)
        if shown:
            result[-1] = replace(result[-1], pictures=_described(result[-1].pictures, block.text))
        result.append(replace(block, pictures=(), taken=shown))
    return result


def _with_asides(blocks: Sequence[Block]) -> list[Block]:
    """Blocks, some of which are marked as text outside the steps, including tables and code.

    The only text of a document is never outside.
    """
    blocks = [
        replace(block, aside=block.aside or block.parts[-1].kind)
        if block.kind == "verbatim" and block.parts and not block.pictures
        else block
        for block in blocks
    ]
    if letters(block for block in blocks if not (block.aside or block.caption or block.kind == "heading")):
        return blocks
    return [replace(block, aside="") for block in blocks]


def _beside(blocks: Sequence[Block]) -> bool:
    """Whether all text of some blocks is outside the steps."""
    return all(block.aside for block in blocks if block.text) and any(block.aside for block in blocks)


def _aside(blocks: Iterable[Block]) -> str:
    """Kind of text outside the steps, from the first block that states one."""
    return next(block.aside for block in blocks if block.aside)


def _with_lines(blocks: Sequence[Block], drafts: Sequence[StepDraft]) -> list[StepDraft]:
    """Steps with the source lines of their blocks; a step of only a heading has those of the heading."""
    made: list[StepDraft] = []
    after = 0
    for draft in drafts:
        places = (
            draft.places
            or tuple(
                place
                for place in range(after, len(blocks))
                if blocks[place].kind == "heading" and blocks[place].text == draft.step.text
            )[:1]
        )
        lines = [found for place in places if (found := blocks[place].lines)]
        after = max((after, *(place + 1 for place in places)))
        span = (min(start for start, _ in lines), max(end for _, end in lines)) if lines else None
        made.append(replace(draft, step=draft.step.model_copy(update={"lines": span})))
    return made


def _described(pictures: Sequence[PictureRef], caption: str) -> tuple[PictureRef, ...]:
    """Pictures, the last of which has a caption: it replaces alt texts of fewer than two words."""
    described = [
        one.model_copy(update={"alt": caption}) if caption and len(one.alt.split()) < 2 else one
        for one in pictures
    ]
    if caption and described:
        described[-1] = described[-1].model_copy(update={"caption": caption})
    return tuple(described)


def _letters_in(document: Document) -> int:
    return sum(len(one.text) for one in document.blocks) + sum(len(one.text) for one in document.steps)


def _between(blocks: Sequence[Block], made: Cut) -> tuple[Between, ...]:
    """Parts of a document that are in no step, each with the index of the step that follows."""
    used = {place for draft in made.drafts for place in draft.places}
    starts = [min(draft.places) for draft in made.drafts if draft.places]
    found: list[Between] = []
    for place, block in enumerate(blocks):
        if place in used or block.taken or (block.kind == "break" and made.paged):
            continue
        before = bisect_left(starts, place)
        parts = block.parts or (Part(),)
        shown = parts[0].model_copy(update={"pictures": block.pictures})
        found += (Between(**dict(part), before=before) for part in (shown, *parts[1:]))
    return tuple(found)


def _around_all(document: Document, steps: int) -> tuple[Between, ...]:
    """Parts that a source declares around steps divided in another way: before all of them, or after."""
    return tuple(part.model_copy(update={"before": steps if part.before else 0}) for part in document.between)


def _by_step(document: Document) -> Cut:
    kept, supplies = without_supplies(split_sections(mark_steps(document.blocks)))
    found = (shape(kept) for shape in (_numbered_headings, _pages, _lists, _headed))
    made = next((one for one in found if len(one.drafts) >= 2), None) or _by_unit(kept, "paragraph")
    return replace(made, left_out=supplies + made.left_out)


def _numbered_headings(sections: list[Section]) -> Cut:
    starts = markers_in([section.title if section.level else "" for section in sections])
    level = min((sections[place].level for place in starts), default=0)
    if len(starts) < 2 or 2 * len(starts) < sum(0 < section.level <= level for section in sections):
        return Cut()
    made = Cut()
    groups: list[list[Section]] = []
    is_open = False
    for place, section in enumerate(sections):
        if place in starts:
            groups.append([section])
            is_open = True
        elif is_open and section.level > groups[-1][0].level:
            groups[-1].append(section)
        else:
            is_open = False
            reason = "after the steps" if groups else "introduction"
            made.left_out.append(omitted(reason, with_heading(section)))
    for first, *below in groups:
        inner = [block for one in below for block in _as_words(with_heading(one))]
        made.drafts += whole_step(first.blocks + inner, first.title)
    return made


def _pages(sections: list[Section]) -> Cut:
    blocks = [block for section in sections for block in with_heading(section)]
    breaks = sum(block.kind == "break" for block in blocks)
    ordered = sum(block.kind == "item" and block.ordered for block in blocks)
    headings = sum(block.kind == "heading" for block in blocks)
    if not breaks or ordered >= 2 or headings > breaks + 1:
        return Cut()
    pages = groupby(blocks, key=lambda block: block.kind == "break")
    drafts = [draft for is_break, page in pages if not is_break for draft in _page(list(page))]
    return Cut(drafts=drafts, paged=True)


def _as_words(blocks: Iterable[Block]) -> list[Block]:
    """Blocks with headings treated as text."""
    return [replace(block, kind="paragraph") if block.kind == "heading" else block for block in blocks]


def _page(blocks: list[Block]) -> list[StepDraft]:
    title = blocks[0].text if blocks[0].kind == "heading" else ""
    inner = _as_words(blocks[1:] if title else blocks)
    if not title and not letters(inner):
        # A page with only a picture still has text if the picture is described.
        inner += [Block("paragraph", picture.alt) for picture in pictures_of(inner)]
    return whole_step(inner, title)


def _lists(sections: list[Section]) -> Cut:
    joined = [replace(section, blocks=join_continuations(without_breaks(section))) for section in sections]
    flagged = [list(zip(_step_flags(section), section.blocks, strict=True)) for section in joined]
    items = [block for pairs in flagged for is_step, block in pairs if is_step]
    if len(items) < 2:
        return Cut()
    stepwise = [any(is_step for is_step, _ in pairs) for pairs in flagged]
    bodies = [one.blocks for one, has_steps in zip(joined, stepwise, strict=True) if one.level or has_steps]
    recipe = 2 * letters(items) >= letters(chain.from_iterable(bodies))
    made = Cut()
    for section, pairs, has_steps in zip(joined, flagged, stepwise, strict=True):
        if recipe and not has_steps:
            made.left_out.append(omitted(_around(made), with_heading(section)))
            continue
        if section.level and not section.blocks:
            made.left_out.append(LeftOut("heading without text", section.title))
        for is_step, run in groupby(pairs, itemgetter(0)):
            blocks = [block for _, block in run]
            if is_step:
                for item in blocks:  # every item is a step, without its list marker
                    made.drafts += whole_step([replace(item, kind="paragraph")], section.title)
            elif recipe:
                made.left_out.append(omitted(_around(made), blocks))
            elif _beside(blocks):
                alone = len(blocks) == len(pairs)
                made.left_out.append(omitted(_aside(blocks), with_heading(section) if alone else blocks))
            else:
                made.drafts += whole_step(blocks, section.title)
    return made


def _around(made: Cut) -> str:
    return "around the steps" if made.drafts else "before the steps"


def _step_flags(section: Section) -> list[bool]:
    """Mask of the blocks of a section that are steps: numbered items, and bullets of a method or with
    pictures.
    """
    bullets = [block for block in section.blocks if block.kind == "item" and not block.ordered]
    pictured = Counter(block.list_id for block in bullets if block.pictures)
    lists = {one.list_id for one in bullets if names_method(section.title) or pictured[one.list_id] >= 2}
    return [block.kind == "item" and (block.ordered or block.list_id in lists) for block in section.blocks]


def _headed(sections: list[Section]) -> Cut:
    headed = [section for section in sections if section.level]
    filled = sum(any(block.text or block.pictures for block in section.blocks) for section in headed)
    if filled < 2 and (len(headed) < 2 or any(section.blocks for section in sections)):
        return Cut()
    return replace(_by_unit(sections, "heading"), by="step")


def _by_unit(sections: list[Section], by: Segmentation, where: str = "text") -> Cut:
    """Make a step of every heading with its content, every paragraph, or every sentence."""
    made = Cut(by)
    for section, following in pairwise([*sections, Section()]):
        blocks = without_breaks(section)
        if not blocks and following.level > section.level:  # the heading of a group, not of a step
            made.left_out.append(LeftOut("heading without text", section.title))
        elif _beside(blocks) and not (by == "heading" and section.level):
            made.left_out.append(omitted(_aside(blocks), with_heading(section)))
        elif by == "heading":
            made.drafts += whole_step(blocks, section.title)
        else:
            made.left_out += [omitted(block.aside, [block]) for block in blocks if block.aside]
            units = _units([block for block in blocks if not block.aside])
            if by == "sentence":
                units = [piece for unit in units for piece in _sentences(unit)]
                check_count(len(made.drafts) + len(units), where)
            made.drafts += _settled(units, section.title)
    return made


def _units(blocks: list[Block]) -> list[Block]:
    """Group blocks into paragraphs: each block is one, but the bullets of a list belong together."""
    units: list[Block] = []
    for (bulleted, _), run in groupby(blocks, key=lambda block: (block.mark == "- ", block.list_id)):
        items = list(run)
        units += [join_blocks(Block("verbatim"), items)] if bulleted else items
    return units


def _sentences(block: Block) -> list[Block]:
    """Sentences of a block; its pictures stay with the last."""
    if block.kind == "verbatim" or not block.text:
        return [block]
    pieces: list[Block] = []
    end = 0
    for sentence in split_sentences(block.text):
        start = block.text.index(sentence, end)
        end = start + len(sentence)
        whole = len(block.parts) == 1 and block.parts[0].text == block.text
        parts: tuple[Part, ...] = (part_between(block.parts[0], start, end),) if whole else ()
        if pieces:  # the marker of an item precedes its first sentence
            plain = {"kind": "paragraph", "number": None}
            parts = tuple(part.model_copy(update=plain) for part in parts)
        pieces.append(Block("paragraph", sentence, parts=parts, places=block.places))
    return [*pieces[:-1], replace(pieces[-1], pictures=block.pictures)]


def _settled(units: list[Block], title: str) -> list[StepDraft]:
    """Attach separate pictures to the text before them, or after them if the section begins with a picture.

    In a section with pictures and no text, the heading becomes the text.
    """
    if not any(unit.text for unit in units):
        return whole_step(units, title)
    leads = not units[0].text and units[-1].text
    gathered: list[Block] = []
    waiting: list[Block] = []
    for unit in units:
        if unit.text:
            places = tuple(place for block in (*waiting, unit) for place in block.places)
            gathered.append(replace(unit, pictures=pictures_of([*waiting, unit]), places=places))
            waiting = []
        elif leads or not gathered:
            waiting.append(unit)
        else:
            gathered[-1] = join_blocks(gathered[-1], [unit])
    return [_draft(unit, title) for unit in gathered]


def _blocks_of_steps(steps: tuple[Step, ...]) -> list[Block]:
    """Blocks of steps, to be divided in another way."""
    blocks: list[Block] = []
    title = ""
    for step in steps:
        if step.title != title:
            title = step.title
            blocks.append(Block("heading", title, level=2)) if title else None
        paragraphs = [part.strip() for part in step.text.split("\n\n") if part.strip()]
        blocks += [Block("paragraph", part) for part in paragraphs[:-1]]
        blocks.append(Block("paragraph", paragraphs[-1], pictures=step.pictures))
    return blocks
