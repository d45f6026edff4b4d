"""Finds the headings of a text by how its lines look, its title and author, and what each section is for.

Readers report what they see; this module alone decides what is a heading, for every format alike.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import groupby

from limner.records import Block, Mark, Role
from limner.text.blocks import Document, LeftOut, cut, is_marked, letters, strip
from limner.text.lines import BULLET, bullets_in
from limner.text.words import (
    author_in,
    is_closing,
    is_date,
    is_furniture,
    lead_in,
    marker_of,
    markers_in,
    role_of,
    role_of_start,
)

_LONGEST = 80
"""Maximum number of characters of a line that is a heading by its look."""
_SENTENCE = re.compile(r"[.!?…;,。！？।؟۔։។][\"'”’»)）\]」』]*$")
_STOP = re.compile(r"[.!…;,。！।۔։។][\"'”’»)）\]」』]*$")
_COLON = re.compile(r"[:：]\s*$")
_CHAPTER = re.compile(r"\W*[^\W\d_]+\W+(?:[IVXLC]+|\d+)\W*")
_INNER_NUMBER = re.compile(r"(?:(?<=[.!?:;)。] )|^)(\d{1,2})[.)]\s")
_SIGNS = re.compile(r"[^\w\s]+[\ufe0f\s]*")
_LABEL = re.compile(r"[^:：.!?]{1,30}[:：]\s?\S.{0,60}(?<![.!?])")
_AMOUNT = re.compile(
    r"[\d½⅓¼¾⅔⅛]|(?:half|a|an|one|two|three|some)\s+(?:\w+\s+)?(?:cup|pinch|spoon|glass|bunch|handful)"
)
_MAIL = re.compile(
    r"(from|to|cc|date|sent|subject|von|an|betreff|gesendet|datum|de|à|objet|envoyé|para|asunto|da|a|oggetto|"
    r"aan|onderwerp|assunto|temat|тема|от|кому)\s?:\s(.*)",
    re.IGNORECASE,
)
_SUBJECTS = frozenset(
    ["subject", "betreff", "objet", "asunto", "oggetto", "onderwerp", "assunto", "temat", "тема"]
)


def structure(document: Document) -> None:
    r"""Find headings, title, author and roles; the document's blocks, title and author change in place.

    Headings become blocks of kind "heading" with a level, typed markers items of a list, tables of steps
    lists; every block gets the role of its section. Buttons and labels of pages are moved to `left_out`.

    Args:
        document: as read; steps that it declares keep their blocks, and only roles are found.

    Example:
        >>> document = read_plain("Tea\n\nMethod:\nBoil water.\nPour it.", "tea.txt")
        >>> structure(document)
        >>> document.title, [(block.kind, block.role) for block in document.blocks[:2]]
        ('Tea', [('heading', 'method'), ('paragraph', 'method')])
    """
    if document.declared:  # with runs of blocks, of which none may go
        inside = {place for step in document.declared for place in range(*step.run)}
        roles = enumerate(zip(document.blocks, _with_roles(document.blocks), strict=True))
        document.blocks = [block if place in inside else other for place, (block, other) in roles]
        return
    _mail(document)
    _drop_furniture(document)
    blocks = [_title_of_aside(block) for block in _with_tables(document.blocks)]
    blocks = [piece for block in blocks for piece in _numbers_in(block)]
    blocks = _with_glued_headings(blocks)
    blocks = _with_title_line([piece for block in blocks for piece in _lines_of(block)])
    document.blocks = _with_items(_with_headings(_without_bare_numbers(blocks)))
    _title(document)
    document.blocks = _continued(_with_roles(document.blocks))


def is_bold(block: Block) -> bool:
    """Whether a whole line is bold."""
    return "bold" in block.look or is_marked(block.text, block.marks, "strong")


def _is_italic(block: Block) -> bool:
    return "italic" in block.look or is_marked(block.text, block.marks, "emphasis")


def _mail(document: Document) -> None:
    """Take the subject of a mail as title; its other header lines are furniture."""
    first = document.blocks[0] if document.blocks else Block()
    found = [_MAIL.fullmatch(line) for line in first.text.split("\n")]
    if first.kind == "paragraph" and all(found):
        stated = {match[1].casefold(): match[2].strip() for match in found if match}
        subject = next((stated[name] for name in stated if name in _SUBJECTS), "")
        if not subject and len(found) < 2:
            return
        document.title = document.title or re.sub(
            r"^(?:(?:re|fwd?|aw|wg|tr|rv):\s*)+", "", subject, flags=re.I
        )
        document.left_out.append(LeftOut("page furniture", first.text))
        del document.blocks[0]


def _drop_furniture(document: Document) -> None:
    kept: list[Block] = []
    for block in document.blocks:
        is_label = block.kind in ("paragraph", "item") and not block.pictures
        lines = block.text.split("\n")
        if is_label and block.text and (all(map(is_furniture, lines)) or not letters(block.text)):
            document.left_out.append(LeftOut("page furniture", block.text))
        else:
            kept.append(block)
    document.blocks = kept


def _title_of_aside(block: Block) -> Block:
    """The title of a callout is a line of it, no heading of the text."""
    if block.kind != "heading" or block.role != "aside":
        return block
    bold = Mark(start=0, end=len(block.text), kind="strong")
    return block.model_copy(update={"kind": "paragraph", "level": 0, "marks": (*block.marks, bold)})


def _lines_of(block: Block) -> list[Block]:
    """A paragraph whose lines contain a role word or a whole bold line, divided there."""
    lines = block.text.split("\n")
    if block.kind != "paragraph" or block.depth or block.quoted or len(lines) < 2:
        return [block]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    pieces = [strip(cut(block, start, start + len(line))) for start, line in zip(starts, lines, strict=False)]
    heads = [role_of(piece.text) is not None or (is_bold(piece) and _may_head(piece)) for piece in pieces]
    heads[0] = heads[0] or (_is_capital(lines[0]) and not lines[1].isupper())
    if not any(heads) or all(map(is_bold, pieces)):
        return [block]
    made: list[Block] = []
    for is_head, run in groupby(range(len(pieces)), key=heads.__getitem__):
        places = list(run)
        last = places[-1]
        made += (
            [pieces[place] for place in places]
            if is_head
            else [strip(cut(block, starts[places[0]], starts[last] + len(lines[last])))]
        )
    first = [piece.model_copy(update={"pictures": ()}) for piece in made[:-1]]
    return [*first, made[-1].model_copy(update={"pictures": block.pictures})]


def _with_glued_headings(blocks: list[Block]) -> list[Block]:
    """Short lines right above paragraphs, without a blank line between, as lines of their own."""
    parts = [
        block.text.split("\n") if block.kind == "paragraph" and not block.depth else [] for block in blocks
    ]
    glued = [
        len(lines) == 2
        and _is_short_line(Block(text=lines[0]))
        and len(lines[1]) > len(lines[0])
        and _SENTENCE.search(lines[1]) is not None
        for lines in parts
    ]
    if sum(glued) < 2 or 2 * sum(glued) < sum(map(bool, parts)):
        return blocks
    made: list[Block] = []
    for block, lines, is_glued in zip(blocks, parts, glued, strict=True):
        if not is_glued:
            made.append(block)
            continue
        head = cut(block, 0, len(lines[0])).model_copy(update={"look": ("underlined",), "pictures": ()})
        made += [head, strip(cut(block, len(lines[0])))]
    return made


def _numbers_in(block: Block) -> list[Block]:
    """A paragraph that is a whole list, "1. Mix. 2. Bake. 3. Eat." or "👉 Mix. 👉 Bake.", as its items."""
    sign = block.text[:1]
    starts: list[int] = []
    if block.kind == "paragraph" and sign == "1":
        for found in _INNER_NUMBER.finditer(block.text):
            starts += [found.start()] if int(found[1]) == len(starts) + 1 else []
    elif block.kind == "paragraph" and sign and unicodedata.category(sign) == "So":
        starts = [place for place, letter in enumerate(block.text) if letter == sign]
    if len(starts) < 2 + (sign == "1"):
        return [block]
    made = [strip(cut(block, start, end)) for start, end in zip(starts, [*starts[1:], None], strict=True)]
    if sign != "1":
        made = [strip(cut(piece, len(_SIGNS.match(piece.text)[0]))) for piece in made]  # type: ignore[index]
        made = [piece.model_copy(update={"kind": "item", "depth": 1}) for piece in made]
    return [*(piece.model_copy(update={"pictures": ()}) for piece in made[:-1]), made[-1]]


def _with_title_line(blocks: list[Block]) -> list[Block]:
    """The first of the short lines above the first role word as a line of its own: it may be the title."""
    lines = blocks[0].text.split("\n") if blocks else []
    short = all(len(line) <= 60 and not _SENTENCE.search(line) for line in lines)
    if not (1 < len(lines) < 6 and short and len(blocks) > 1):
        return blocks
    if not (role_of(blocks[1].text) or blocks[1].look or author_in(lines[1])):
        return blocks
    first = cut(blocks[0], 0, len(lines[0]))
    return [first, cut(blocks[0], len(lines[0]) + 1), *blocks[1:]]


def _may_head(block: Block) -> bool:
    """Whether a line is short enough for a heading, and does not end as a statement does."""
    return len(block.text) <= _LONGEST and "\n" not in block.text and not _STOP.search(block.text)


def _with_tables(blocks: Sequence[Block]) -> list[Block]:
    """Tables that hold the text: numbered rows as a list, the columns of a recipe as sections."""
    made: list[Block] = []
    for block in blocks:
        body = block.rows[block.head or (len(block.rows) > 1 and block.rows[0][0].text[:1] not in "01") :]
        columns = [role_of(cell.text) for row in block.rows[:1] for cell in row]
        numbers = [row[0].text.strip(" .)") for row in body if row]
        if block.kind != "table" or block.depth:
            made.append(block)
        elif "method" in columns and len(columns) == len(set(columns)) > 1:
            for place, cell in enumerate(block.rows[0]):
                made.append(Block(**dict(cell), kind="heading", level=3, group=-1))
                cells = [row[place] for row in block.rows[1:] if place < len(row)]
                made += (Block(**dict(one), group=-1) for one in cells if one.text)
        elif len(numbers) > 1 and numbers == [str(n) for n in range(1, len(numbers) + 1)]:
            for number, row in enumerate(body, 1):
                first, *more = [Block(**dict(cell), depth=1) for cell in row[1:] if cell.text] or [
                    Block(depth=1)
                ]
                made += [first.model_copy(update={"kind": "item", "number": number}), *more]
            made[-1] = made[-1].model_copy(update={"pictures": block.pictures})
        else:
            made.append(block)
    return made


def _with_headings(blocks: Sequence[Block]) -> list[Block]:
    """Lines that people use as headings, as headings with a level below the heading above them."""
    found = _heads(blocks)
    made: list[Block] = []
    above = sub = 1
    heads = [(place, block.level) for place, block in enumerate(blocks) if block.kind == "heading"]
    for place, block in enumerate(blocks):
        if block.kind == "heading":
            above = sub = block.level
            made.append(block)
        elif kind := found.get(place):
            after = next((level for head, level in heads if head > place), 0)
            beside = after if after > above and kind == "major" else (sub if kind == "minor" else above) + 1
            level = block.level or beside
            sub = sub if kind == "minor" else level
            words = {"text": block.text.strip(), "kind": "heading", "level": min(6, level), "pictures": ()}
            made.append(block.model_copy(update=words))
            if block.pictures:
                made.append(Block(kind="picture", pictures=block.pictures, lines=block.lines))
        else:
            made.append(block)
    return made


def _heads(blocks: Sequence[Block]) -> dict[int, str]:
    """Index of each line that is a heading by its look → "major", or "minor" for one above part of a list."""
    found: dict[int, str] = {}
    text = [block for block in blocks if block.kind == "paragraph" and block.text]
    said = [block for block in text if not _may_head(block)]
    usual_bold = bool(said) and 2 * sum(map(is_bold, said)) > len(said)
    capital = [place for place, block in enumerate(blocks) if place and _is_capital(block.text)]
    role: Role | None = None
    for place, block in enumerate(blocks):
        following = blocks[place + 1] if place + 1 < len(blocks) else None
        if block.kind == "heading":
            role = role_of(block.text)
        if block.kind != "paragraph" or block.depth or block.quoted or not block.text or following is None:
            continue
        if block.role == "aside":
            continue
        named = None if lead_in(block.text) else role_of(block.text)
        seen = set(block.look) - {"bold", "italic"} or _is_bare_marker(block.text)
        seen = seen or (_is_capital(block.text) and (len(capital) > 1 or not place))
        bold = is_bold(block) and not usual_bold and not block.pictures and _may_head(block)
        if named is not None:
            found[place], role = "major", named
        elif len(block.text) <= _LONGEST and "\n" not in block.text and (seen or bold):
            found[place] = "major"
        elif following.kind == "item" and _may_head(block):
            goes_on = (following.number or 0) > 1
            is_label = bool(role) or goes_on if _COLON.search(block.text) else _is_italic(block)
            is_label = is_label and not lead_in(block.text)
            found |= {place: "minor"} if is_label else {}
    if not found and not any(block.kind == "heading" and block.level > 1 for block in blocks):
        found |= dict.fromkeys(_short_lines(blocks), "major")
    return found


def _is_bare_marker(text: str) -> bool:
    """Whether a line is only the worded marker of a step: "Page 3"."""
    marker = marker_of(text)
    return marker is not None and marker.worded and not marker.rest


def _is_capital(text: str) -> bool:
    """Whether a line of capitals is a heading, not a shout."""
    words = sum(map(str.isalpha, text)) >= 4 and text.isupper()
    return (
        words
        and (not _SENTENCE.search(text) or _CHAPTER.fullmatch(text) is not None)
        and text[0] not in "\"“'«("
    )


def _short_lines(blocks: Sequence[Block]) -> list[int]:
    """Short lines above paragraphs, in a text without other headings whose paragraphs are whole sentences."""
    dates = [place for place, block in enumerate(blocks) if is_date(block.text)]
    lines = [place for place, block in enumerate(blocks) if _is_short_line(block)]
    lines = [place for place in lines if place not in dates or len(dates) > 1]
    after = {place for place in lines if place + 1 < len(blocks) and blocks[place + 1].kind == "paragraph"}
    paragraphs = [
        place
        for place, block in enumerate(blocks)
        if block.kind == "paragraph" and place not in after and not lead_in(block.text)
    ]
    apart = all(place + 1 not in after for place in after if place)
    written = all(_SENTENCE.search(blocks[place].text) for place in paragraphs if blocks[place].text)
    first = 1 if lines and lines[0] == 0 else 0
    return sorted(after - {0}) if apart and written and len(after) > first else []


def _is_short_line(block: Block) -> bool:
    return (
        block.kind == "paragraph"
        and not (block.depth or block.quoted or block.pictures or block.role)
        and 0 < len(block.text) <= 60
        and "\n" not in block.text
        and not _SENTENCE.search(block.text)
        and not _COLON.search(block.text)
        and not marker_of(block.text)
        and not (author_in(block.text) or lead_in(block.text))
        and (not block.text.isupper() or not block.text.isascii())
    )


def _without_bare_numbers(blocks: Sequence[Block]) -> list[Block]:
    """Paragraphs that are only a number, 1, 2, … in boxes of their own, as the marker of what follows."""
    bare = {
        place: int(found[1])
        for place, block in enumerate(blocks[:-1])
        if block.kind == "paragraph" and (found := re.fullmatch(r"(\d{1,2})[.)]?", block.text.strip()))
        if blocks[place + 1].kind in ("paragraph", "heading")
    }
    if len(bare) < 2 or list(bare.values()) != [*range(1, len(bare) + 1)]:
        return list(blocks)
    made: list[Block] = []
    inside = False
    for place, block in enumerate(blocks):
        if place in bare:
            continue
        if place - 1 in bare and block.kind == "heading":
            number = f"{bare[place - 1]}. "
            marks = tuple(
                mark.model_copy(update={"start": mark.start + len(number), "end": mark.end + len(number)})
                for mark in block.marks
            )
            block = block.model_copy(update={"text": number + block.text, "marks": marks})  # noqa: PLW2901
            inside = False
        elif place - 1 in bare:
            block = block.model_copy(update={"kind": "item", "number": bare[place - 1], "depth": 1})  # noqa: PLW2901
            inside = True
        elif inside and block.group == blocks[place - 1].group and block.kind in ("paragraph", "picture"):
            block = block.model_copy(update={"depth": 1})  # noqa: PLW2901
        else:
            inside = False
        made.append(block)
    return made


def _with_items(blocks: Sequence[Block]) -> list[Block]:
    """Paragraphs that begin with a typed number or bullet, as items; "Step 2: …" owns what follows it."""
    plain = [block.text if block.kind == "paragraph" and not block.depth else "" for block in blocks]
    markers = markers_in(plain)
    bullets = bullets_in([text.replace("\n", " ") or "x" for text in plain], markers)
    made: list[Block] = []
    worded, last = False, max(markers, default=0)
    for place, block in enumerate(blocks):
        marker = markers.get(place)
        start = len(block.text) - len(block.text.lstrip())
        if marker and marker.rest:
            words = strip(cut(block, len(block.text.rstrip()) - len(marker.rest)))
            made.append(words.model_copy(update={"kind": "item", "number": marker.number, "depth": 1}))
            worded = marker.worded
        elif place in bullets and (bullet := BULLET.match(block.text[start:])):
            item = strip(cut(block, start + bullet.end()))
            made.append(item.model_copy(update={"kind": "item", "depth": 1 + worded}))
        elif worded and block.kind not in ("heading", "break") and not (place > last and _is_aside(block)):
            made.append(block.model_copy(update={"depth": block.depth + 1}))
        else:
            worded = False
            made.append(block)
    return made


def _is_aside(block: Block) -> bool:
    """Whether a paragraph is no step by its own words: "Tip: …", "Enjoy!"."""
    return block.kind == "paragraph" and (is_closing(block.text) or lead_in(block.text) == "aside")


def _title(document: Document) -> None:
    """Remove the heading or line that is the title, and the line with the author's name below it."""
    blocks = document.blocks
    place = _title_place(document)
    if place is None:
        return
    block = _removed(document, place)
    document.title = document.title or block.text
    if block.pictures and not document.declared:
        blocks.insert(place, Block(kind="picture", pictures=block.pictures, lines=block.lines))
    for before in range(place):  # labels above the title of a page
        if _is_short_line(blocks[before]):
            blocks[before] = blocks[before].model_copy(update={"role": "aside"})
    _below_title(document, place)


def _below_title(document: Document, place: int) -> None:
    """Take the author's name from the lines below the title; dates are furniture, a subtitle is an aside."""
    blocks = document.blocks
    sentences = [
        bool(_SENTENCE.search(block.text)) for block in blocks if block.kind == "paragraph" and block.text
    ]
    heads = [block for block in blocks if block.kind == "heading"]
    if place < len(blocks) and heads == [blocks[place]] and role_of(heads[0].text) is None:  # a subtitle
        blocks[place] = heads[0].model_copy(update={"kind": "paragraph", "level": 0, "role": "aside"})
        place += 1
    for _ in range(4):
        line = blocks[place] if place < len(blocks) else Block()
        if line.kind != "paragraph" or line.pictures or not line.text:
            return
        name = author_in(line.text)
        if name or is_date(line.text):
            document.author = document.author or name
            document.left_out.append(LeftOut("page furniture", line.text))
            _removed(document, place)
        elif _is_short_line(line) and (_is_italic(line) or 2 * sum(sentences) >= len(sentences)):
            blocks[place] = line.model_copy(update={"role": "aside"})
            place += 1
        elif _is_italic(line) and len(line.text) <= _LONGEST:
            blocks[place] = line.model_copy(update={"role": "aside"})
            return
        else:
            place += (
                _SENTENCE.search(line.text) is not None
                and place + 1 < len(blocks)
                and bool(author_in(blocks[place + 1].text))
            )
            if place >= len(blocks) or not author_in(blocks[place].text):
                return


def _removed(document: Document, place: int) -> Block:
    """Remove a block; the runs of declared steps move with the others."""

    def moved(at: int) -> int:
        return at - (at > place)

    document.declared = tuple(
        step.model_copy(update={"run": (moved(step.run[0]), moved(step.run[1]))})
        for step in document.declared
    )
    return document.blocks.pop(place)


def _title_place(document: Document) -> int | None:
    """Index of the block that states the title, or None."""
    blocks = document.blocks
    heads = [place for place, block in enumerate(blocks) if block.kind == "heading"]
    if document.title:
        top = [place for place, block in enumerate(blocks[:3]) if block.text][:1]
        same = (place for place in heads[:3] + top if letters(blocks[place].text) == letters(document.title))
        return next(same, None)
    first = next((place for place, block in enumerate(blocks) if block.text and block.role != "aside"), 0)
    tops = [place for place in heads if blocks[place].level == 1]
    if len(tops) == 1 and any(block.text for block in blocks if block is not blocks[tops[0]]):
        return tops[0]
    if len(blocks) <= first + 1:
        return None
    block = blocks[first]
    following = next((after for after in blocks[first + 1 :] if after.kind != "picture"), Block(kind="break"))
    if block.kind == "heading" and role_of(block.text) is None and not _is_bare_marker(block.text):
        others = [blocks[place] for place in heads if place != first]
        above = all(other.level > block.level or role_of(other.text) for other in others)
        return first if above or following.kind == "heading" else None
    line = _is_short_line(block) or (block.kind == "paragraph" and is_bold(block) and _may_head(block))
    if not line or role_of(block.text) is not None or lead_in(block.text) or len(blocks) < first + 3:
        return None
    told = following.kind != "paragraph" or _SENTENCE.search(following.text) or "\n" in following.text
    return first if told or ":" in following.text or author_in(following.text) else None


def _with_roles(blocks: Sequence[Block]) -> list[Block]:
    """Blocks with the role of their section; a section below another has its role unless it names one."""
    made: list[Block] = []
    open_: list[tuple[int, Role]] = []
    tabled = False  # whether the section is a column of a table, which ends with it
    inner = False  # whether headings without a role, as high as the one above, stand below it
    for place, block in enumerate(blocks):
        if block.kind == "heading":
            tabled = False
            named = role_of(block.text) or role_of_start(block.text)
            level = block.level
            above = blocks[place - 1] if place else Block()
            if named is not None or not open_ or level < open_[0][0]:
                inner = False
            elif above.kind == "heading" and made[-1].role and above.level == level:
                inner = True
            ordered = place + 1 < len(blocks) and blocks[place + 1].number is not None
            as_high = [one for one in open_ if one[0] == level]
            goes_on = bool(as_high) and as_high[-1][1] == "method" and ordered
            if not (named is None and (inner or goes_on)):
                open_ = [one for one in open_ if one[0] < level]
                role: Role = named or (open_[-1][1] if open_ else "")
                open_.append((level, role))
            made.append(block.model_copy(update={"role": open_[-1][1]}))
            continue
        tabled = tabled or block.group == -1
        role = "aside" if tabled and block.group != -1 else open_[-1][1] if open_ else ""
        if block.kind == "paragraph" and not block.depth:
            stated: Role | None = (
                "aside" if is_closing(block.text) or _are_labels(block.text) else lead_in(block.text)
            )
            role = stated or role
        made.append(block if block.role else block.model_copy(update={"role": role}))
    if len(made) > 1 and "\n" in made[0].text and made[1].text.rstrip().endswith(","):  # the head of a letter
        short = all(len(line) <= 40 and not _SENTENCE.search(line) for line in made[0].text.split("\n"))
        made[0] = made[0].model_copy(update={"role": "aside"}) if short else made[0]
    if len(made) > 2 and made[-2].kind == "break" and made[-1].kind == "paragraph" and _is_italic(made[-1]):
        made[-1] = made[-1].model_copy(update={"role": "aside"})  # a colophon
    last = max((place for place, block in enumerate(made) if _SENTENCE.search(block.text)), default=len(made))
    signed = [
        block.kind == "heading" or _is_short_line(block) or (block.kind == "item" and len(block.text) <= 30)
        for block in made[last + 1 :]
    ]
    if all(signed) and 2 * last > len(made):  # a signature or tags below a text of sentences
        made[last + 1 :] = [block.model_copy(update={"role": "aside"}) for block in made[last + 1 :]]
    return _with_method(made)


def _are_labels(text: str) -> bool:
    """Whether a paragraph is lines of names and values: "Year group: 3", "Duration: 45 minutes"."""
    lines = text.split("\n")
    return len(lines) > 1 and all(map(_LABEL.fullmatch, lines))


def _with_method(blocks: Sequence[Block]) -> list[Block]:
    """In a text without a method, the paragraphs after a list of supplies in the same section are its method.

    A list of quantities is one of supplies, also without a heading.
    """
    made = list(blocks)
    numbered = any(block.number is not None and block.depth == 1 for block in made)
    heads = [block.text for block in made if block.kind == "heading"]
    if numbered or any(block.role == "method" for block in made) or markers_in(heads):
        return made
    supplied = False
    for place, block in enumerate(made):
        before = made[place - 1] if place else Block()
        if block.kind == "heading":
            supplied = False
        elif block.kind == "item" and block.role == "" and not before.depth and _are_amounts(made, place):
            end = next((n for n in range(place, len(made)) if not made[n].depth), len(made))
            made[place:end] = [one.model_copy(update={"role": "supplies"}) for one in made[place:end]]
            supplied = True
        elif block.kind == "item" and block.role == "supplies":
            supplied = True
        elif supplied and not block.depth and block.role != "aside" and _SENTENCE.search(block.text):
            made[place] = block.model_copy(update={"role": "method"})
    return made


def _are_amounts(blocks: Sequence[Block], place: int) -> bool:
    """Whether most items of a list begin with an amount."""
    items: list[str] = []
    for block in blocks[place:]:
        if not block.depth:
            break
        items.append(block.text)
    return len(items) > 1 and 2 * sum(bool(_AMOUNT.match(text)) for text in items) > len(items)


def _continued(blocks: Sequence[Block]) -> list[Block]:
    """What stands between items n and n + 1, as further blocks of item n; and pictures after the last item.

    Where items have such paragraphs, those after the last item belong to it, too.
    """
    made = list(blocks)
    last: int | None = None  # index of the last numbered item outside other lists
    longer = False
    for place, block in enumerate(blocks):
        if block.kind in ("heading", "break"):
            _own(made, last, place, all_=longer)
            last, longer = None, False
        elif block.kind == "item" and block.number is not None and block.depth == 1:
            follows = last is not None and block.number == (blocks[last].number or 0) + 1
            if follows:
                longer = longer or any(one.depth == 0 and one.text for one in made[last:place])
            else:
                longer = False
            _own(made, last, place, all_=follows)
            last = place
    _own(made, last, len(made), all_=longer)
    return made


def _own(blocks: list[Block], item: int | None, end: int, *, all_: bool) -> None:
    """Give the blocks after an item to it: all of them, or only the pictures right after it."""
    if item is None:
        return
    for place in range(item + 1, end):
        block = blocks[place]
        if block.depth and (block.kind != "item" or block.number is not None or block.depth > 1):
            continue
        if not (all_ or block.kind == "picture") or (block.role == "aside" and not all_):
            return
        blocks[place] = block.model_copy(update={"depth": block.depth + 1})
