"""Finds the headings of a text by how its lines look, its title and author, and what each section is for.

Readers report what they see; this module alone decides what is a heading, for every format alike.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence
from itertools import pairwise

from limner.records import Block, Role
from limner.text.blocks import Document, LeftOut, changed, cut, divided, is_marked, letters, strip
from limner.text.lines import BULLET, bullets_in
from limner.text.wanted import with_places
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

_LONGEST, _SHORT = 80, 60
"""Maximum number of characters of a line that is a heading by its look, and of one that has no look."""
_COLUMN = -1
"""Group of the sections that were columns of a table."""
_REPLY = re.compile(r"(?:(?:re|fwd?|aw|wg|tr|rv):\s*)+", re.IGNORECASE)
_SENTENCE = re.compile(r"[.!?…;,。！？।؟۔։។][\"'”’»)）\]」』]*$")
_STOP = re.compile(r"[.!…;,。！।۔։។][\"'”’»)）\]」』]*$")
_COLON = re.compile(r"[:：]\s*$")
_CHAPTER = re.compile(r"\W*[^\W\d_]+\W+(?:[IVXLC]+|\d+)\W*")
_INNER_NUMBER = re.compile(r"(?:(?<=[.!?:;)。] )|^)(\d{1,2})[.)]\s")
_GREETING = re.compile(r"[^,.!?\n]{1,30},")
_SIGNS = re.compile(r"[^\w\s]+[\ufe0f\s]*")
_LABEL = re.compile(r"[^:：.!?]{1,30}[:：]\s?\S.{0,60}(?<![.!?])")
_AMOUNT = re.compile(
    r"(?!\d+:)[\d½⅓¼¾⅔⅛]|(?:half|a|an|one|two|three|some)\s+(?:\w+\s+)?(?:cup|pinch|spoon|glass|bunch|handful)"
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
        document: as read; of one that declares its steps only the roles around these are found.

    Example:
        >>> document = read_plain("Tea\n\nMethod:\nBoil water.\nPour it.", "tea.txt")
        >>> structure(document)
        >>> document.title, [(block.kind, block.role) for block in document.blocks[:2]]
        ('Tea', [('heading', 'method'), ('paragraph', 'method')])
    """
    if document.declared:
        inside = {place for step in document.declared for place in range(*step.run)}
        roles = enumerate(zip(document.blocks, _with_roles(document.blocks), strict=True))
        document.blocks = [block if place in inside else other for place, (block, other) in roles]
        return
    document.blocks = with_places(document.blocks)
    _drop_furniture(document)
    _with_pages(document)
    blocks = [piece for block in document.blocks for piece in _of_table(block)]
    blocks = [piece for block in blocks for piece in _items_in(block)]
    blocks = [piece for block in _with_first_lines(blocks) for piece in _lines_of(block)]
    document.blocks = _with_items(_with_headings(_with_boxed_numbers(blocks)))
    _take_title(document)
    document.blocks = _with_continuations(_with_method(_with_asides(_with_roles(document.blocks))))


def is_bold(block: Block) -> bool:
    """Whether a whole line is bold."""
    return "bold" in block.look or is_marked(block.text, block.marks, "strong")


def _is_italic(block: Block) -> bool:
    return "italic" in block.look or is_marked(block.text, block.marks, "emphasis")


def _is_plain(block: Block) -> bool:
    """Whether a block is a paragraph of the running text."""
    return block.kind == "paragraph" and bool(block.text) and not (block.depth or block.quoted or block.role)


def _may_head(block: Block) -> bool:
    """Whether a line is short enough for a heading, and does not end as a statement does."""
    return len(block.text) <= _LONGEST and "\n" not in block.text and not _STOP.search(block.text)


def _is_short_line(block: Block) -> bool:
    """Whether a paragraph is a short line without the end of a sentence, and no label or shout."""
    text = block.text
    is_line = _is_plain(block) and not block.pictures and len(text) <= _SHORT and "\n" not in text
    if not is_line or _SENTENCE.search(text) or _COLON.search(text) or marker_of(text):
        return False
    return not (author_in(text) or lead_in(text) or (text.isupper() and text.isascii()))


def _is_capital(text: str) -> bool:
    """Whether a line of capitals is a heading, not a shout."""
    heads = not _SENTENCE.search(text) or _CHAPTER.fullmatch(text) is not None
    return text.isupper() and heads and sum(map(str.isalpha, text)) >= 4 and text[0] not in "\"“'«("


def _is_bare_marker(text: str) -> bool:
    """Whether a line is only the worded marker of a step: "Page 3"."""
    marker = marker_of(text)
    return marker is not None and marker.worded and not marker.rest


def _is_aside(block: Block) -> bool:
    """Whether a paragraph is no step by its own words: "Tip: …", "Enjoy!", values, a quoted mail."""
    lines = block.text.split("\n")
    labels = len(lines) > 1 and all(map(_LABEL.fullmatch, lines))
    said = labels or is_closing(block.text) or lead_in(block.text) == "aside"
    return block.kind == "paragraph" and (said or all(line.startswith(">") for line in lines))


def _drop_furniture(document: Document) -> None:
    """Take the subject of a mail as title; its header, buttons and labels of pages are furniture."""
    first = document.blocks[0].text.split("\n") if document.blocks else []
    header = [_MAIL.fullmatch(line) for line in first]
    stated = {match[1].casefold(): match[2].strip() for match in header if match}
    subject = next((stated[name] for name in stated if name in _SUBJECTS), "")
    is_header = all(header) and (bool(subject) or len(header) > 1)
    if is_header:
        document.title = document.title or _REPLY.sub("", subject)
    kept: list[Block] = []
    for place, block in enumerate(document.blocks):
        is_label = block.kind in ("paragraph", "item") and bool(block.text) and not block.pictures
        is_label = is_label and (all(map(is_furniture, block.text.split("\n"))) or not letters(block.text))
        if is_label or (is_header and not place):
            document.left_out.append(LeftOut("page furniture", block.text))
        else:
            kept.append(block)
    document.blocks = kept


def _with_pages(document: Document) -> None:
    """Turn the lines that number the pages, "Page 1", "Page 2: …", into breaks."""
    lines = [block.text if block.kind in ("paragraph", "heading") else "" for block in document.blocks]
    markers = {place: marker for place, marker in markers_in(lines).items() if marker.page}
    blocks: list[Block] = []
    for place, block in enumerate(document.blocks):
        if place not in markers:
            blocks.append(block)
            continue
        label, *rest = divided(
            block, [len(block.text) - len(markers[place].rest)] if markers[place].rest else []
        )
        document.left_out.append(LeftOut("page furniture", label.text))
        blocks += [Block(kind="break", lines=label.lines), *rest]
    document.blocks = blocks


def _of_table(block: Block) -> list[Block]:
    """A table that holds the text: numbered rows as a list, the columns of a recipe as sections."""
    top = block.rows[0] if block.rows else ()
    body = block.rows[block.head or (len(block.rows) > 1 and top[0].text[:1] not in "01") :]
    columns = [role_of(cell.text) for cell in top]
    numbers = [row[0].text.strip(" .)") for row in body]
    if "method" in columns and len(columns) == len(set(columns)) > 1 and not block.depth:
        sections: list[Block] = []
        for place, head in enumerate(top):
            cells = [row[place] for row in block.rows[1:] if place < len(row) and row[place].text]
            sections.append(Block(**dict(head), kind="heading", level=3, group=_COLUMN))
            sections += (Block(**dict(cell), group=_COLUMN) for cell in cells)
        return sections
    if len(numbers) < 2 or numbers != [str(n) for n in range(1, len(numbers) + 1)] or block.depth:
        return [block]
    items: list[Block] = []
    for number, row in enumerate(body, 1):
        first, *more = [Block(**dict(cell), depth=1) for cell in row[1:] if cell.text] or [Block(depth=1)]
        items += [changed(first, kind="item", number=number), *more]
    return [*items[:-1], changed(items[-1], pictures=block.pictures)]


def _items_in(block: Block) -> list[Block]:
    """A paragraph that is a whole list, "1. Mix. 2. Bake. 3. Eat." or "👉 Mix. 👉 Bake.", as its items."""
    sign = block.text[:1]
    starts: list[int] = []
    if block.kind == "paragraph" and sign == "1":
        for number in _INNER_NUMBER.finditer(block.text):
            starts += [number.start()] if int(number[1]) == len(starts) + 1 else []
        return divided(block, starts) if len(starts) > 2 else [block]
    if block.kind == "paragraph" and sign and unicodedata.category(sign) == "So":
        starts = [place for place, letter in enumerate(block.text) if letter == sign]
    if len(starts) < 2:
        return [block]
    signs = [(piece, _SIGNS.match(piece.text)) for piece in divided(block, starts)]
    return [
        changed(strip(cut(piece, start.end() if start else 0)), kind="item", depth=1)
        for piece, start in signs
    ]


def _with_first_lines(blocks: list[Block]) -> list[Block]:
    """Paragraphs with the heading that stands right above them, or with the title of the text, cut there."""
    lines = [block.text.split("\n") if _is_plain(block) else [] for block in blocks]
    glued = [
        len(parts) == 2
        and _is_short_line(Block(text=parts[0]))
        and len(parts[1]) > len(parts[0])
        and _SENTENCE.search(parts[1]) is not None
        for parts in lines
    ]
    glued = glued if max(2, sum(map(bool, lines)) / 2) <= sum(glued) else [False] * len(blocks)
    first, after = lines[0] if lines else [], blocks[1] if len(blocks) > 1 else Block()
    short = all(len(line) <= _SHORT and not _SENTENCE.search(line) for line in first)
    if 1 < len(first) < 6 and short and not glued[0]:
        title = bool(role_of(after.text) or after.look or glued[1:2] == [True] or author_in(first[1]))
    else:
        title = False
    pieces: list[Block] = []
    for place, (block, parts) in enumerate(zip(blocks, lines, strict=True)):
        if not glued[place] and not (title and not place):
            pieces.append(block)
            continue
        head, body = divided(block, [len(parts[0])])
        pieces += [changed(head, look=("underlined",)) if glued[place] else head, body]
    return pieces


def _lines_of(block: Block) -> list[Block]:
    """A paragraph whose lines contain a role word or a whole bold line, divided there."""
    lines = block.text.split("\n")
    if not _is_plain(block) or len(lines) < 2:
        return [block]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    pieces = [strip(cut(block, start, start + len(line))) for start, line in zip(starts, lines, strict=False)]
    heads = [role_of(piece.text) is not None or (is_bold(piece) and _may_head(piece)) for piece in pieces]
    heads[0] = heads[0] or (_is_capital(lines[0]) and not lines[1].isupper())
    if not any(heads) or all(map(is_bold, pieces)):
        return [block]
    edges = {place for place, is_head in enumerate(heads) if is_head}
    edges |= {place + 1 for place in edges}
    return divided(block, [starts[place] for place in sorted(edges) if 0 < place < len(lines)])


def _with_boxed_numbers(blocks: Sequence[Block]) -> list[Block]:
    """Paragraphs that are only a number, 1, 2, …, as the markers of what follows them."""
    bare = {
        place: int(block.text.strip(" .)"))
        for place, block in enumerate(blocks[:-1])
        if block.kind == "paragraph" and re.fullmatch(r"\d{1,2}[.)]?", block.text.strip())
        if blocks[place + 1].kind in ("paragraph", "heading")
    }
    if len(bare) < 2 or list(bare.values()) != [*range(1, len(bare) + 1)]:
        return list(blocks)
    kept: list[Block] = []
    inside = False
    for place, block in enumerate(blocks):
        number = bare.get(place - 1)
        with_box = (
            inside and block.group == blocks[place - 1].group and block.kind in ("paragraph", "picture")
        )
        inside = block.kind == "paragraph" if number else with_box
        if place in bare:
            continue
        if number and not inside:
            kept.append(changed(block, text=f"{number}. {block.text}", marks=()))
        elif number:
            kept.append(changed(block, kind="item", number=number, depth=1))
        else:
            kept.append(changed(block, depth=1) if with_box else block)
    return kept


def _with_headings(blocks: Sequence[Block]) -> list[Block]:
    """Lines that people use as headings, as headings with a level below the heading above them."""
    heads = _heads(blocks)
    levels = [(place, block.level) for place, block in enumerate(blocks) if block.kind == "heading"]
    headed: list[Block] = []
    above = minor = 1
    for place, block in enumerate(blocks):
        if block.kind == "heading":
            above = minor = block.level
        if place not in heads:
            headed.append(block)
            continue
        after = next((level for head, level in levels if head > place), 0)
        usual = minor + 1 if heads[place] == "minor" else after if after > above else above + 1
        level = min(6, block.level or usual)
        minor = minor if heads[place] == "minor" else level
        headed.append(changed(block, text=block.text.strip(), kind="heading", level=level, pictures=()))
        headed += [Block(kind="picture", pictures=block.pictures, lines=block.lines)] * bool(block.pictures)
    return headed


def _heads(blocks: Sequence[Block]) -> dict[int, str]:
    """Index of each line that is a heading by its look → "major", or "minor" for one above part of a list."""
    heads: dict[int, str] = {}
    long = [block for block in blocks if block.kind == "paragraph" and block.text and not _may_head(block)]
    usual_bold = 2 * sum(map(is_bold, long)) > len(long)
    capital = sum(_is_capital(block.text) for block in blocks[1:])
    role: Role | None = None
    for place, (block, after) in enumerate(pairwise(blocks)):
        if block.kind == "heading":
            role = role_of(block.text)
        if not _is_plain(block) or len(block.text) > _LONGEST or "\n" in block.text:
            continue
        named = None if lead_in(block.text) else role_of(block.text)
        stands_out = bool(set(block.look) - {"bold", "italic"}) or _is_bare_marker(block.text)
        stands_out = stands_out or (_is_capital(block.text) and (capital > 1 or not place))
        bold = is_bold(block) and not usual_bold and not block.pictures and _may_head(block)
        if named is not None:
            heads[place], role = "major", named
        elif stands_out or bold:
            heads[place] = "major"
        elif after.kind == "item" and _may_head(block) and not lead_in(block.text):
            goes_on = bool(role) or (after.number or 0) > 1
            heads |= {place: "minor"} if (goes_on if _COLON.search(block.text) else _is_italic(block)) else {}
    looks = {place for place in heads if place and role_of(blocks[place].text) is None}
    if not looks and not any(block.kind == "heading" and block.level > 1 for block in blocks):
        heads |= dict.fromkeys(_short_lines(blocks, heads), "major")
    return heads


def _short_lines(blocks: Sequence[Block], named: Collection[int]) -> list[int]:
    """Short lines above paragraphs, in a text whose other paragraphs, but for role words, are sentences."""
    dates = sum(is_date(block.text) for block in blocks)
    heads = {
        place
        for place, (block, after) in enumerate(pairwise(blocks))
        if _is_short_line(block) and after.kind == "paragraph" and not (dates == 1 and is_date(block.text))
        if not (named and _AMOUNT.match(block.text))
    }
    written = all(
        _SENTENCE.search(block.text) or place in heads or not block.text or lead_in(block.text)
        for place, block in enumerate(blocks)
        if block.kind == "paragraph" and place and place not in named
    )
    apart = all(place + 1 not in heads for place in heads if place)
    return sorted(heads - {0}) if apart and written else []


def _with_items(blocks: Sequence[Block]) -> list[Block]:
    """Paragraphs that begin with a typed number or bullet, as items; "Step 2: …" owns what follows it."""
    plain = [block.text if block.kind == "paragraph" and not block.depth else "" for block in blocks]
    markers = markers_in(plain)
    bullets = bullets_in([text.replace("\n", " ") or "x" for text in plain], markers)
    listed: list[Block] = []
    worded, last = False, max(markers, default=0)
    for place, block in enumerate(blocks):
        marker = markers.get(place)
        start = len(block.text) - len(block.text.lstrip())
        if marker and marker.rest:
            words = strip(cut(block, len(block.text.rstrip()) - len(marker.rest)))
            listed.append(changed(words, kind="item", number=marker.number, depth=1))
            worded = marker.worded
        elif place in bullets and (bullet := BULLET.match(block.text[start:])):
            listed.append(changed(strip(cut(block, start + bullet.end())), kind="item", depth=1 + worded))
        elif worded and block.kind not in ("heading", "break") and not (place > last and _is_aside(block)):
            listed.append(changed(block, depth=block.depth + 1))
        else:
            worded = False
            listed.append(block)
    return listed


def _take_title(document: Document) -> None:
    """Remove the heading or line that is the title, and the line with the author's name below it."""
    blocks = document.blocks
    place = _title_place(document)
    if place is None:
        return
    title = blocks.pop(place)
    document.title = document.title or title.text
    if title.pictures:
        blocks.insert(place, Block(kind="picture", pictures=title.pictures, lines=title.lines))
    # labels above the title of a page
    blocks[:place] = [changed(one, role="aside") if _is_short_line(one) else one for one in blocks[:place]]
    heads = [block for block in blocks if block.kind == "heading"]
    if heads and heads == blocks[place : place + 1] and role_of(heads[0].text) is None:  # a subtitle
        blocks[place] = changed(heads[0], kind="paragraph", level=0, role="aside")
        place += 1
    sentences = [bool(_SENTENCE.search(one.text)) for one in blocks if one.kind == "paragraph" and one.text]
    written = 2 * sum(sentences) >= len(sentences)
    for _ in range(4):
        line = blocks[place] if place < len(blocks) else Block()
        after = blocks[place + 1] if place + 1 < len(blocks) else Block()
        if line.kind != "paragraph" or line.pictures or not line.text:
            return
        if (name := author_in(line.text)) or is_date(line.text):
            document.author = document.author or name
            document.left_out.append(LeftOut("page furniture", line.text))
            del blocks[place]
        elif (_is_short_line(line) and written) or (_is_italic(line) and len(line.text) <= _LONGEST):
            blocks[place] = changed(line, role="aside")
            place += 1
        elif _SENTENCE.search(line.text) and author_in(after.text):
            place += 1
        else:
            return


def _title_place(document: Document) -> int | None:
    """Index of the block that states the title, or None."""
    blocks = document.blocks
    heads = [place for place, block in enumerate(blocks) if block.kind == "heading"]
    worded = [place for place, block in enumerate(blocks) if block.text and block.role != "aside"]
    if document.title:
        title = letters(document.title)
        return next((place for place in heads[:3] + worded[:1] if letters(blocks[place].text) == title), None)
    tops = [place for place in heads if blocks[place].level == 1]
    if len(tops) == 1 and len(worded) > 1:
        return tops[0]
    first, block = (worded[0], blocks[worded[0]]) if worded else (0, Block())
    after = next((block for block in blocks[first + 1 :] if block.kind != "picture"), Block(kind="break"))
    if len(blocks) < first + 2 or role_of(block.text) is not None or _is_bare_marker(block.text):
        return None
    if block.kind == "heading":
        others = [blocks[place] for place in heads if place != first]
        above = all(other.level > block.level or role_of(other.text) for other in others)
        return first if above or after.kind == "heading" else None
    is_line = _is_short_line(block) or (block.kind == "paragraph" and is_bold(block) and _may_head(block))
    if not is_line or lead_in(block.text) or len(blocks) < first + 3:
        return None
    differs = after.kind != "paragraph" or _SENTENCE.search(after.text) or {"\n", ":"} & set(after.text)
    is_headed = author_in(after.text) or lead_in(after.text) or role_of(blocks[first + 2].text)
    return first if differs or is_headed else None


def _with_roles(blocks: Sequence[Block]) -> list[Block]:
    """Blocks with the role of their section; a section below another has its role unless it names one."""
    given: list[Block] = []
    above: list[tuple[int, Role]] = []  # level and role of the open sections
    column = False  # whether the section is a column of a table, which ends with it
    inner = False  # whether headings without a role, as high as the one above, stand below it
    for place, block in enumerate(blocks):
        before, after = blocks[place - 1 : place], blocks[place + 1 : place + 2]
        if block.kind == "heading":
            named = role_of(block.text) or role_of_start(block.text)
            if named is not None or not above or block.level < above[0][0]:
                inner = False
            elif before and before[0].kind == "heading" and before[0].level == block.level:
                inner = inner or given[-1].role in ("supplies", "method")
            goes_on = (block.level, "method") in above and bool(after) and after[0].number is not None
            if named is not None or not (inner or goes_on):
                above = [section for section in above if section[0] < block.level]
                above.append((block.level, named or (above[-1][1] if above else "")))
            column = False
            given.append(changed(block, role=above[-1][1]))
            continue
        column = column or block.group == _COLUMN
        role: Role = "aside" if column and block.group != _COLUMN else above[-1][1] if above else ""
        if block.kind == "paragraph" and not block.depth:
            role = "aside" if _is_aside(block) else lead_in(block.text) or role
        given.append(block if block.role else changed(block, role=role))
    return given


def _with_asides(blocks: list[Block]) -> list[Block]:
    """The head of a letter, a colophon, a signature or tags below a text of sentences, as asides."""
    asides: set[int] = set()
    first, after = (*blocks[:2], Block(), Block())[:2]
    lines = first.text.split("\n")
    if len(lines) > 1 and after.text.rstrip().endswith(","):
        asides |= {0} if all(len(line) <= 40 and not _SENTENCE.search(line) for line in lines) else set()
    elif _GREETING.fullmatch(first.text) and len(after.text) > _SHORT:
        asides.add(0)
    if len(blocks) > 2 and blocks[-2].kind == "break" and _is_italic(blocks[-1]):
        asides.add(len(blocks) - 1)
    last = max((n for n, block in enumerate(blocks) if _SENTENCE.search(block.text)), default=len(blocks))
    signed = all(
        block.kind == "heading" or _is_short_line(block) or (block.kind == "item" and len(block.text) <= 30)
        for block in blocks[last + 1 :]
    )
    asides |= {*range(last + 1, len(blocks))} if signed and 2 * last > len(blocks) else set()
    return [changed(block, role="aside") if n in asides else block for n, block in enumerate(blocks)]


def _with_method(blocks: list[Block]) -> list[Block]:
    """In a text without a method, the paragraphs after a list of supplies in the same section are its method.

    A list of which most items begin with an amount is one of supplies, also without a heading.
    """
    numbered = any(block.number is not None and block.depth == 1 for block in blocks)
    heads = [block.text for block in blocks if block.kind == "heading"]
    if numbered or any(block.role == "method" for block in blocks) or markers_in(heads):
        return blocks
    given: list[Block] = []
    supplied = False
    for place, block in enumerate(blocks):
        if block.kind == "item" and not block.role and not (place and blocks[place - 1].depth):
            end = next((n for n in range(place, len(blocks)) if not blocks[n].depth), len(blocks))
            amounts = sum(_AMOUNT.match(item.text) is not None for item in blocks[place:end])
            supplied = end - place > 1 and 2 * amounts > end - place
        elif block.kind == "heading" or (block.kind == "item" and block.role == "supplies"):
            supplied = block.kind == "item"
        lines = block.text.split("\n")
        amounts = sum(_AMOUNT.match(line) is not None and not _STOP.search(line) for line in lines)
        listed = len(lines) > 2 and 2 * amounts > len(lines)
        supplied = supplied or (listed and block.kind == "paragraph" and not block.role)
        if supplied and (block.depth or listed) and not block.role:
            given.append(changed(block, role="supplies"))
        elif supplied and not block.depth and block.role != "aside" and _SENTENCE.search(block.text):
            given.append(changed(block, role="method"))
        else:
            given.append(block)
    return given


def _with_continuations(blocks: list[Block]) -> list[Block]:
    """What stands between items n and n + 1, as further blocks of item n; and pictures after the last item.

    Where items have such paragraphs, those after the last item belong to it, too.
    """
    joined = list(blocks)
    last: int | None = None  # index of the last numbered item outside other lists
    longer = False
    for place, block in enumerate([*blocks, Block(kind="break")]):
        is_item = block.kind == "item" and block.number is not None and block.depth == 1
        if not is_item and block.kind not in ("heading", "break"):
            continue
        follows = is_item and last is not None and block.number == (blocks[last].number or 0) + 1
        if last is not None:
            _extend(joined, last, place, whole=follows or (longer and not is_item))
        longer = follows and (longer or any(other.text and not other.depth for other in blocks[last:place]))
        last = place if is_item else None
    return joined


def _extend(blocks: list[Block], item: int, end: int, *, whole: bool) -> None:
    """Give the blocks after an item to it: all of them, or only the pictures right after it."""
    for place in range(item + 1, end):
        block = blocks[place]
        if block.depth and (block.kind != "item" or block.number is not None or block.depth > 1):
            continue
        if not whole and (block.kind != "picture" or block.role == "aside"):
            return
        blocks[place] = changed(block, depth=block.depth + 1)
