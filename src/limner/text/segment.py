"""Divides a structured text into steps, by the first of these that the text has.

Declared steps; the method of a recipe or guide; numbered headings; pages; a list; sections; paragraphs. What
is in no step stays where it stood: a step is a run of blocks. Where the author marks places for pictures,
these alone are steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from limner.errors import counted
from limner.language import split_sentences
from limner.records import Block, Role, Segmentation, Step
from limner.text.blocks import Document, changed, check_count, divided, pictures_of, text_of
from limner.text.lines import SENTENCE
from limner.text.wanted import describes, is_place
from limner.text.words import markers_in

_MOST_LETTERS = 5_000_000
_LINE = -2
"""Group of the lines of a method that were one paragraph."""
Run = tuple[int, int, str]
"""First block of a step, the block after its last, and its title."""


@dataclass
class Division:
    """A text divided into steps.

    Attributes:
        blocks: the whole text.
        steps: its steps, each with its run of blocks.
        by: how it was divided.
        notes: choices made, one sentence each.
    """

    blocks: tuple[Block, ...]
    steps: tuple[Step, ...]
    by: Segmentation = "step"
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Section:
    """A heading with the blocks below it, up to the next heading; the first section may have none.

    Attributes:
        start: index of its heading, or of its first block if it has none.
        inside: index of its first block below the heading.
        end: index of the block after its last.
        level: level of the heading; 0 without one.
        title: text of the heading.
        role: what it is for.
    """

    start: int
    inside: int
    end: int
    level: int = 0
    title: str = ""
    role: Role = ""


def segment(document: Document, by: Segmentation | None, where: str) -> Division:
    r"""Divide a text into steps.

    Args:
        document: with structure, see `limner.text.structure`.
        by: unit that is one step; None: the places that the text marks, or else as for "step": explicit
            steps, or else paragraphs. With a unit, marked places are steps besides the others.
        where: name of the text, for messages.
    Raises:
        DataError: there are too many steps.

    Example:
        >>> document = read_plain("1. Boil water.\n2. Pour it over the leaves.", "tea.txt")
        >>> [step.text for step in segment(document, None, "tea.txt").steps]
        ['Boil water.', 'Pour it over the leaves.']
    """
    division = _divided(document, by, where)
    if not any(map(is_place, division.blocks)) or any(block.kind == "wanted" for block in division.blocks):
        return division
    blocks = tuple(_wanted(block) if is_place(block) else block for block in division.blocks)
    places = asked_for(blocks, document.title)
    steps = [
        Step.model_construct(text=words, run=(place, place + 1)) for place, words in places.items() if words
    ]
    line = f"{counted(len(places), 'place')} that the text marks"
    if by is None:
        return Division(blocks, tuple(steps), notes=[f"{line} (--also-steps for its steps too)"])
    steps += [part for step in division.steps if (part := _without_places(step, blocks))]
    return Division(
        blocks, tuple(sorted(steps, key=lambda step: step.run)), division.by, [*division.notes, line]
    )


def _wanted(block: Block) -> Block:
    picture = block.pictures[0]
    return changed(block, kind="wanted", text=picture.alt or picture.caption, pictures=())


def asked_for(blocks: Sequence[Block], title: str) -> dict[int, str]:
    """What each mark asks for: its words, or the text before it in its section, or after it; or the title."""
    asked: dict[int, str] = {}
    waiting: list[int] = []
    before, head = title, title
    for place, block in enumerate(blocks):
        if block.kind == "wanted":
            asked[place] = block.text if describes(block.text) else before
            waiting += [] if asked[place] else [place]
        elif block.kind in ("heading", "break"):
            asked |= dict.fromkeys(waiting, head)
            waiting, before, head = [], "", block.text or head
        elif block.text:
            asked |= dict.fromkeys(waiting, block.text)
            waiting, before = [], block.text
    return {
        place: words or blocks[place].text for place, words in (asked | dict.fromkeys(waiting, head)).items()
    }


def _without_places(step: Step, blocks: Sequence[Block]) -> Step | None:
    """A step up to the first mark inside it, with all its words; None if it has none."""
    start, end = step.run
    while start < end and blocks[start].kind == "wanted":
        start += 1
    end = next((place for place in range(start, end) if blocks[place].kind == "wanted"), end)
    pictures = tuple(picture for picture in step.pictures if picture.target)
    worded = any(block.text for block in blocks[start:end]) or pictures
    return step.model_copy(update={"run": (start, end), "pictures": pictures}) if worded else None


def _divided(document: Document, by: Segmentation | None, where: str) -> Division:
    """The division of a text without regard to the places that it marks."""
    if document.declared and by in (None, "step"):
        steps = [_step(document.blocks, (*step.run, step.title)) for step in document.declared]
        return Division(tuple(map(_settled, document.blocks)), tuple(steps))
    blocks = list(document.blocks)
    if not any(map(_counts, blocks)):  # supplies or asides are all there is
        blocks = [changed(block, role="") for block in blocks]
    notes: list[str] = []
    used: Segmentation = by or "step"
    if used == "step":
        blocks = _with_method_lines(blocks)
        ways = (_method, _numbered_headings, _pages, _lists, _headed, _captions)
        way, runs = next(
            ((way, runs) for way in ways if (runs := way(blocks, _sections(blocks)))), (_paragraphs, [])
        )
        if way is _lists and blocks[runs[0][0]].number is not None:  # bullets before the steps are supplies
            first = runs[0][0]
            given = [
                changed(one, role=one.role or "supplies") if one.depth else one for one in blocks[:first]
            ]
            blocks[:first] = given
        if not runs:
            used = "paragraph"
            notes.append("no explicit steps found: divided into paragraphs")
    else:
        runs = []
    if used == "sentence":
        blocks = _in_sentences(blocks, where)
    if used == "paragraph" and any(_counts(block) and block.kind == "paragraph" for block in blocks):
        blocks = [changed(block, role="aside") if _is_task(block) else block for block in blocks]
    if not runs:
        each = _headed_all if used == "heading" else _paragraphs
        runs = each(blocks, _sections(blocks))
    check_count(len(runs), where)
    steps = [_step(blocks, run) for run in runs]
    return Division(tuple(map(_settled, blocks)), tuple(step for step in steps if step.text), used, notes)


def _step(blocks: Sequence[Block], run: Run) -> Step:
    """The step of a run: its words, or else its heading, or else what describes its pictures."""
    start, end, title = run
    head = next((place for place in range(start, end) if blocks[place].kind == "heading"), end)
    own = head < end and blocks[head].text == title and not any(block.text for block in blocks[start:head])
    inside = [block for place, block in enumerate(blocks[start:end], start) if place != head or not own]
    inside = [changed(block, kind="paragraph") if block.kind == "heading" else block for block in inside]
    pictures = pictures_of(blocks[start:end])
    text = text_of(inside)
    described = "\n".join(picture.caption or picture.alt for picture in pictures).strip()
    words = text or title or described
    return Step.model_construct(text=words, title=title if text else "", pictures=pictures, run=(start, end))


def _settled(block: Block) -> Block:
    """A block without what only its division needed."""
    return changed(block, look=(), group=0) if block.look or block.group else block


def _counts(block: Block) -> bool:
    """Whether a block has words that can be a step; tables and code go with the words beside them."""
    return (
        bool(block.text) and block.kind in ("paragraph", "item") and block.role not in ("supplies", "aside")
    )


def _sections(blocks: Sequence[Block]) -> list[_Section]:
    """Divide blocks at every heading; a section may begin with the pictures above its heading."""
    heads = [place for place, block in enumerate(blocks) if block.kind == "heading"]
    starts = [_above(blocks, head) for head in heads]
    leads = len(heads) > 1 and all(start < head for start, head in zip(starts, heads, strict=True))
    leads = leads and not pictures_of(blocks[heads[-1] :])
    for place, head in enumerate(heads):
        boxed = blocks[head].group and blocks[head - 1].group == blocks[head].group
        starts[place] = starts[place] if leads or (boxed and starts[place] < head) else head
    made = [_Section(0, 0, starts[0] if heads else len(blocks))] if not heads or starts[0] else []
    for start, inside, end in zip(starts, heads, [*starts, len(blocks)][1:], strict=bool(heads)):
        top = blocks[inside]
        made.append(_Section(start, inside + 1, end, top.level, top.text, top.role))
    return made


def _above(blocks: Sequence[Block], head: int) -> int:
    """The first of the pictures right above a heading, of one box if they are in one; or the heading."""
    start = head
    while (
        start and blocks[start - 1].kind == "picture" and blocks[start - 1].group in (0, blocks[head].group)
    ):
        start -= 1
    return start


def _top_items(blocks: Sequence[Block], section: _Section, *, numbered: bool) -> list[int]:
    """Items of a section's outer lists that may be steps."""
    return [
        place
        for place in range(section.inside, section.end)
        if blocks[place].kind == "item"
        and blocks[place].depth == 1
        and (blocks[place].number is not None) == numbered
        and blocks[place].role not in ("supplies", "aside")
    ]


def _item_runs(blocks: Sequence[Block], section: _Section, items: Sequence[int]) -> list[Run]:
    """A run for each item: up to the next block that is in no list, or the next item."""
    runs: list[Run] = []
    for place in items:
        end = place + 1
        while (
            end < section.end
            and blocks[end].depth
            and not (blocks[end].kind == "item" and blocks[end].depth == 1)
        ):
            end += 1
        start = place
        while (
            start > section.inside and blocks[place].group and _leads(blocks[start - 1], blocks[place].group)
        ):
            start -= 1
        runs.append((start, end, section.title))
    return _with_heading(runs, section)


def _leads(block: Block, group: int) -> bool:
    """Whether a block is a picture of a box, above the words of it."""
    return block.kind == "picture" and block.group == group and not block.depth


def _with_heading(runs: list[Run], section: _Section) -> list[Run]:
    """The runs of a section; the heading belongs to the only one directly below it."""
    if len(runs) == 1 and section.level and runs[0][0] == section.inside:
        return [(section.start, runs[0][1], section.title)]
    return runs


def _units(blocks: Sequence[Block], section: _Section) -> list[Run]:
    """A run for each paragraph, numbered item or list of bullets of a section, with its pictures.

    Pictures belong to the words of their box, else to those before them; in a section that begins with a
    picture and ends with words, to those after them.
    """
    inside = range(section.inside, section.end)
    shown = [blocks[place] for place in inside if blocks[place].text or blocks[place].pictures]
    leads = bool(shown) and not shown[0].text and bool(shown[-1].text)
    units: list[tuple[int, int, bool]] = []  # first block, block after the last, whether it has words
    for place in inside:
        block, before = blocks[place], blocks[place - 1] if place > section.inside else Block()
        if (not block.depth or _is_task(block)) and (
            block.kind == "break" or block.role in ("supplies", "aside")
        ):
            continue
        start, end, worded = units[-1] if units else (0, -1, False)
        if block.text and block.kind not in ("table", "code"):
            bulleted = _is_bullet(block) and before.depth > 0 and _is_bullet(blocks[start])
            goes_on = not worded or bulleted or block.depth > 1 or (block.depth == 1 and block.kind != "item")
        else:
            boxed = block.group and any(
                one.text and one.group == block.group for one in blocks[place + 1 : section.end]
            )
            forward = boxed and block.group != before.group if block.group else leads and not block.depth
            goes_on = not worded or not forward
        if goes_on and end == place:
            units[-1] = (start, place + 1, worded or _counts(block))
        else:
            units.append((place, place + 1, _counts(block)))
    runs: list[Run] = []
    for start, end, worded in units:
        if worded or (section.title and not any(words for _, _, words in units)):
            runs.append((start, end, section.title))
        elif runs and runs[-1][1] == start:
            runs[-1] = (runs[-1][0], end, section.title)
    return _with_heading(runs, section)


def _is_task(block: Block) -> bool:
    """Whether a block is a check box, which is no step beside paragraphs."""
    return block.kind == "item" and block.text.startswith(("☐", "☑"))


def _is_bullet(block: Block) -> bool:
    return block.kind == "item" and block.number is None and block.depth == 1


def _method(blocks: Sequence[Block], sections: Sequence[_Section]) -> list[Run]:
    """Steps of the method's section: numbered subheadings, else items, else paragraphs."""
    own = [section for section in sections if section.role == "method"]
    if not own:
        places = [place for place, block in enumerate(blocks) if block.role == "method" and not block.depth]
        return _units(blocks, _Section(places[0], places[0], places[-1] + 1)) if places else []
    numbered = _numbered_headings(blocks, own)
    if numbered:
        return numbered
    lists = {section.start: _top_items(blocks, section, numbered=True) for section in own}
    runs: list[Run] = []
    whole = 0  # level of a section with a list of its own
    for section, after in pairwise([*own, _Section(0, 0, 0)]):
        whole = 0 if section.level <= whole else whole
        items = lists[section.start]
        if not items:
            bullets = _top_items(blocks, section, numbered=False)
            others = [
                block for block in blocks[section.inside : section.end] if _counts(block) and not block.depth
            ]
            items = bullets if len(bullets) > max(1, len(others)) else []
        if items:
            runs += _item_runs(blocks, section, items)
            whole = section.level
        elif whole and section.level > whole:  # a note below the list of the method
            continue
        elif not (any(lists.values()) and after.level > section.level):  # words before the lists of a method
            units = _units(blocks, section)
            lined = [place for place in range(section.inside, section.end) if blocks[place].group == _LINE]
            ends = bool(lined) and bool(units) and units[0][0] <= lined[0] < units[0][1]
            runs += [unit for unit in units if not ends or unit[0] <= lined[-1]]
    return runs if any(blocks[place].text for start, end, _ in runs for place in range(start, end)) else []


def _numbered_headings(blocks: Sequence[Block], sections: Sequence[_Section]) -> list[Run]:
    """Sections whose headings are numbered, "Step 1: …" or "1. …", with what stands below them."""
    markers = markers_in([section.title for section in sections])
    markers = {
        place: one for place, one in markers.items() if sections[place].role not in ("supplies", "aside")
    }
    levels = [sections[place].level for place in markers]
    level = min(levels, default=0)
    starts = [place for place in markers if sections[place].level == level]
    others = sum(section.level == level and not section.role for section in sections)
    if len(starts) < 2 or not (
        any(marker.worded for marker in markers.values()) or 2 * len(starts) >= others
    ):
        return []
    runs: list[Run] = []
    for place in starts:
        end = place + 1
        while end < len(sections) and sections[end].level > level and sections[end].role != "supplies":
            end += 1
        last = sections[end - 1]
        rule = next((n for n in range(last.inside, last.end) if blocks[n].kind == "break"), last.end)
        runs.append((sections[place].start, rule, sections[place].title))
    return [_trimmed(blocks, run) for run in runs]


def _trimmed(blocks: Sequence[Block], run: Run) -> Run:
    """A run without breaks and asides at its end."""
    start, end, title = run
    while (
        end > start + 1
        and not blocks[end - 1].depth
        and (blocks[end - 1].kind == "break" or blocks[end - 1].role in ("aside", "supplies"))
    ):
        end -= 1
    return start, end, title


def _pages(blocks: Sequence[Block], sections: Sequence[_Section]) -> list[Run]:
    """Pages between breaks, in a text without a numbered list whose headings begin pages."""
    breaks = [place for place, block in enumerate(blocks) if block.kind == "break"]
    ordered = sum(block.kind == "item" and block.number is not None for block in blocks)
    heads = [section.start for section in sections if section.level and not section.role]
    within = len(heads) > 1 and any(start and _counts(blocks[start - 1]) for start in heads)
    if not breaks or ordered >= 2 or within:
        return []
    runs: list[Run] = []
    for before, end in pairwise([-1, *breaks, len(blocks)]):
        start = before + 1
        if start < end:
            head = blocks[start]
            runs.append(_trimmed(blocks, (start, end, head.text if head.kind == "heading" else "")))
    kept = [
        run
        for run in runs
        if _step(blocks, run).text and any(one.role != "aside" for one in blocks[run[0] : run[1]])
    ]
    return kept if len(kept) > 1 else []


def _lists(blocks: Sequence[Block], sections: Sequence[_Section]) -> list[Run]:
    """Items of the text's numbered lists, or of its only list of bullets, where little follows them."""
    numbered = {section.start: _top_items(blocks, section, numbered=True) for section in sections}
    bullets = {
        section.start: items for section in sections if (items := _top_items(blocks, section, numbered=False))
    }
    pictured = {start: items for start, items in bullets.items() if _show_pictures(blocks, items)}
    chosen = {
        start: items
        for start, items in {**pictured, **{k: v for k, v in numbered.items() if v}}.items()
        if items
    }
    strict = not chosen
    if strict:
        chosen = bullets if len(bullets) == 1 else {}
    places = [place for items in chosen.values() for place in items]
    if len(places) < 2:
        return []
    others = sum(
        _counts(blocks[place]) and not blocks[place].depth
        for section in sections
        for place in range(section.inside, section.end)
        if strict or place > places[-1] or (section.level and section.start not in chosen)
    )
    apart = any(
        section.level
        and section.start not in chosen
        and any(map(_counts, blocks[section.inside : section.end]))
        for section in sections
    )
    if others >= len(places) or (strict and apart):
        return []
    return [
        run
        for section in sections
        if section.start in chosen
        for run in _item_runs(blocks, section, chosen[section.start])
    ]


def _show_pictures(blocks: Sequence[Block], items: Sequence[int]) -> bool:
    """Whether at least two items of a list of bullets show a picture."""

    def shows(place: int) -> bool:
        end = place + 1
        while end < len(blocks) and blocks[end].depth and blocks[end].kind != "item":
            end += 1
        return bool(pictures_of(blocks[place:end]))

    return sum(map(shows, items)) >= 2


def _headed(blocks: Sequence[Block], sections: Sequence[_Section]) -> list[Run]:
    """Sections, if at least two have words or pictures of their own."""
    filled = [
        section
        for section in sections
        if section.level
        and section.role not in ("supplies", "aside")
        and any(_counts(block) or block.pictures for block in blocks[section.inside : section.end])
    ]
    empty = [section for section in sections if section.level and not section.role]
    only = not any(map(_counts, blocks)) and len(empty) > 1
    return _headed_all(blocks, sections) if len(filled) > 1 or only else []


def _captions(blocks: Sequence[Block], sections: Sequence[_Section]) -> list[Run]:
    """Pictures with captions, where these are most of the text."""
    captioned = [place for place, block in enumerate(blocks) if any(one.caption for one in block.pictures)]
    paragraphs = sum(_counts(block) for block in blocks)
    runs = [(place, place + 1, "") for place in captioned if blocks[place].kind == "picture"]
    return runs if len(sections) == 1 and paragraphs < 2 <= len(runs) else []


def _headed_all(blocks: Sequence[Block], sections: Sequence[_Section]) -> list[Run]:
    """One step a section; the heading of a group of sections is none."""
    runs: list[Run] = []
    for section, after in pairwise([*sections, _Section(0, 0, 0)]):
        inside = blocks[section.inside : section.end]
        if section.role in ("supplies", "aside") or (after.level > section.level and not inside):
            continue
        kept = [
            place
            for place in range(section.inside, section.end)
            if blocks[place].depth
            or (blocks[place].kind != "break" and blocks[place].role not in ("supplies", "aside"))
        ]
        if section.level:
            runs.append((section.start, kept[-1] + 1 if kept else section.inside, section.title))
        elif any(_counts(blocks[place]) for place in kept):
            runs.append((kept[0], kept[-1] + 1, ""))
    return runs


def _paragraphs(blocks: Sequence[Block], sections: Sequence[_Section]) -> list[Run]:
    """One step a paragraph."""
    runs: list[Run] = []
    for section, after in pairwise([*sections, _Section(0, 0, 0)]):
        if section.role in ("supplies", "aside"):
            continue
        found = _units(blocks, section)
        if found:
            runs += found
        elif section.level and after.level <= section.level:
            runs.append((section.start, section.end, section.title))
    return runs


def _with_method_lines(blocks: Sequence[Block]) -> list[Block]:
    """Blocks in which every line of a method's paragraph is a paragraph of its own.

    So is every line of the only paragraph, if all are sentences.
    """
    only = [block for block in blocks if _counts(block)]
    sentences = len(only) == 1 and all(map(SENTENCE.search, only[0].text.split("\n")))
    lined: list[Block] = []
    for block in blocks:
        starts = [place for place, sign in enumerate(block.text) if sign == "\n"]
        lines = block.role == "method" or (sentences and block is only[0])
        if lines and block.kind == "paragraph" and not block.depth and starts:
            lined += (changed(piece, group=_LINE) for piece in divided(block, starts))
        else:
            lined.append(block)
    return lined


def _in_sentences(blocks: Sequence[Block], where: str) -> list[Block]:
    """Blocks in which every sentence is one; code, tables and headings stay whole."""
    check_count(sum(len(block.text) for block in blocks), where, _MOST_LETTERS)
    parted: list[Block] = []
    for block in blocks:
        if not _counts(block):
            parted.append(block)
            continue
        ends = [0]
        for sentence in split_sentences(block.text):
            ends.append(block.text.index(sentence, ends[-1]) + len(sentence))
        first, *more = divided(block, ends[1:-1])
        parted += [first, *(changed(piece, kind="paragraph", number=None, depth=0) for piece in more)]
    return parted
