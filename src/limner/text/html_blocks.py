"""HTML as a tree, and its blocks in reading order: headings, paragraphs, items, tables, code, pictures.

Markdown is rendered to HTML first, so this is the only code that walks over markup. Hidden and unreadable
elements are dropped and counted. The input is untrusted: a page for which parsing or walking over the tree
would take minutes raises an error that names the limit.

Similar elements side by side, each with a picture and its text, are cards: rows of a table, figures with
captions, boxes. Within a card, picture and text belong together, whichever comes first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, islice, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lxml import etree, html

from limner.errors import DataError
from limner.records import Mark, Part, Passage, PictureRef
from limner.text.document import ASIDE, LINES, Block, LeftOut, pictures_of, resolve_picture
from limner.text.plain import read_plain
from limner.text.segment import with_captions

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


# lxml parses these characters, but raises an error if text with them is assigned.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
MAX_ATTRIBUTES, MAX_ELEMENTS, MAX_TOTAL_DEPTH = 1_000, 60_000, 2_000_000
"""Maximum number of attributes of an element, of elements of a page, and maximum sum of the elements' depths,
each counted once more per 100 characters of its text.
"""
# A start tag as the HTML standard defines it; possessive quantifiers prevent backtracking.
_START_TAG = re.compile(
    r"""<[a-zA-Z][^\s/>]*+((?:[\s/]++|[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+)*+)"""
)
_ATTRIBUTE = re.compile(r"""[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+""")


def parse_tree(text: str, where: str) -> Element:
    """Parse HTML into an lxml tree of bounded size and depth; no network, no external entities.

    Args:
        text: the page, decoded.
        where: name of the source, for messages.

    Raises:
        DataError: the page is empty, exceeds a limit, or cannot be parsed.
    """
    text = _SHORTCODE.sub(r"<figure>\1<figcaption>\2</figcaption></figure>", _NOT_XML.sub(" ", text))
    _check_attributes(text, where)
    # The text is already decoded: an encoding that it declares is ignored.
    parser = html.HTMLParser(encoding="utf-8", huge_tree=False, no_network=True, remove_comments=True)
    try:
        root = html.document_fromstring(text.encode("utf-8"), parser=parser)
    except etree.ParserError:
        raise DataError(f"{where}: is empty; expected an HTML page") from None
    except etree.XMLSyntaxError as error:
        raise DataError(
            f"{where}: the HTML parser failed ({str(error)[:120]}); save the page as plain text"
        ) from None
    if any(entry.level_name == "FATAL" for entry in parser.error_log):
        raise DataError(
            f"{where}: HTML nested too deeply, or with more than 10 MB of text in one element; expected at"
            " most 250 levels; save the page as plain text"
        )
    _check_size(root, where)
    return root


def _check_attributes(text: str, where: str) -> None:
    """Reject elements with too many attributes: the parser's time is quadratic in their number."""
    for tag in _START_TAG.finditer(text):
        if len(tag[1]) > MAX_ATTRIBUTES:  # an attribute and its separator are at least two characters
            count = sum(1 for _ in _ATTRIBUTE.finditer(tag[1]))
            if count > MAX_ATTRIBUTES:
                raise DataError(
                    f"{where}: an HTML element <{tag[0][1:20].split()[0]}> has {count:,} attributes;"
                    f" expected at most {MAX_ATTRIBUTES:,}; save the page as plain text"
                )


def _check_size(root: Element, where: str) -> None:
    """Reject pages with too many elements or too much nesting."""
    depth = count = weight = 0
    for event, node in etree.iterwalk(root, events=("start", "end")):
        if event == "end":
            depth -= 1
            continue
        depth, count = depth + 1, count + 1
        weight += depth * (1 + (len(node.text or "") + len(node.tail or "")) // 100)
        if count > MAX_ELEMENTS:
            raise DataError(
                f"{where}: has more than {MAX_ELEMENTS:,} HTML elements; expected at most that many; split"
                " the page into smaller ones"
            )
        if weight > MAX_TOTAL_DEPTH:
            raise DataError(
                f"{where}: HTML nested too deeply for its size: {depth} levels when the sum over its elements"
                f" passes {MAX_TOTAL_DEPTH:,}; expected less nesting; save the page as plain text"
            )


MarkKind = Literal["strong", "emphasis", "code", "struck", "above", "below", "link"]
HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_CONTAINERS = frozenset(
    re.findall(
        r"\w+",
        """address article aside blockquote body center dd details dialog div dl dt fieldset figcaption figure
        footer form header hgroup html li main nav p search section summary tbody td tfoot th thead tr""",
    )
)
_BLOCK_LEVEL = _CONTAINERS | HEADINGS | frozenset({"ul", "ol", "menu", "pre", "table", "hr"})
_ROWS, _CELLS = frozenset({"table", "tbody", "thead", "tfoot", "tr"}), frozenset({"td", "th", "caption"})
# Never text of the document; the title in the head is read by `limner.text.html`.
_SILENT = frozenset(re.findall(r"\w+", "head script style template link meta base param col colgroup"))
_UNREADABLE = frozenset(
    re.findall(r"\w+", "audio button canvas iframe input object select svg textarea video")
)
_SPACES = " \t\n\r\f"
_ASCII_SPACE = re.compile(r"[ \t\n\r\f]+")
_PLACEHOLDER = re.compile(r"placeholder|blank|spacer|lazy|load(?:ing|er)|spinner|pixel|1x1", re.IGNORECASE)
_PICTURE_FILE = re.compile(r"\S+\.(?:avif|gif|jpe?g|png|webp)(?:[?#]\S*)?", re.IGNORECASE)
_LONGEST_ADDRESS = 2_000
_FIGURE = re.compile(r"(?:abb(?:ildung)?|bild|fig(?:ur[ae]?)?|foto|photo|рис)\b\.?\s?\d+", re.IGNORECASE)
_FIGURE_LINE = re.compile(rf"(?:{_FIGURE.pattern})\s?(?:[-–—.:]|$)", re.IGNORECASE)
_CAPTION_NAME = re.compile(
    r"(?:(?:\w|(?<=\w)-){2,}(?<=\w[-_]))?caption(?:[-_]text)?|thumbcaption|gallerytext"
    r"|(?:foto|image|img|photo|picture)[-_]?credits?",
    re.IGNORECASE,
)
_FIGURE_NAMES = frozenset({"figure", "imageblock"})
"""Classes of the element around a picture and its title, in DocBook and AsciiDoc."""
_SHORTCODE = re.compile(
    r"\[caption\b[^][]{0,500}\]\s*((?:<a\b[^>]{0,2000}>\s*)?<img\b[^>]{0,5000}>(?:\s*</a>)?)"
    r"([^][]{0,5000})\[/caption\]",
    re.IGNORECASE,
)
"""A picture and its caption as WordPress stores them, which an export may contain."""
# Placeholders for <br>, a picture and a small picture until white space is collapsed; no text here contains
# them.
_LINE, _PICTURE, _ICON = "\0", "\1", "\2"
# Placeholder for the beginning or end of an inline element.
_TAG = "\3"
_MARKS: Mapping[str, MarkKind] = {
    **dict.fromkeys(("b", "strong"), "strong"),
    **dict.fromkeys(("em", "i", "cite", "dfn", "var"), "emphasis"),
    **dict.fromkeys(("code", "kbd", "samp", "tt"), "code"),
    **dict.fromkeys(("s", "del", "strike"), "struck"),
    "sup": "above",
    "sub": "below",
    "a": "link",
}
_ICON_PX = 64
# Pictures at the beginning or end of a line or sentence, not those inside one.
_ENDS = f"{_LINE}.!?…:。！？।؟۔"
_BLANK = re.compile(f"{_LINE}(?: ?{_LINE})+")
_BETWEEN = re.compile(
    rf"(?:^ ?|(?<=[{_ENDS}])|(?<=[{_ENDS}] )){_PICTURE}(?: ?{_PICTURE})*"
    rf"|{_PICTURE}(?: ?{_PICTURE})*(?= ?(?:{_LINE}|$))"
)


def collapse(text: str) -> str:
    """Join the lines of marked-up text as a browser does; only ASCII white space changes."""
    joined = _ASCII_SPACE.sub(" ", text.replace(_PICTURE, "").replace(_ICON, ""))
    return "\n".join(line.strip(" ") for line in joined.split(_LINE)).strip()


def _passage(words: str, tags: Sequence[tuple[MarkKind, str] | None]) -> Passage:
    """Collapsed text with its marks.

    Args:
        words: text with a placeholder where a mark begins or ends.
        tags: for each placeholder, kind and target of the mark that begins there; None where the last one
            ends.
    """
    pieces = words.split(_TAG)
    text = collapse("".join(pieces))
    if len(pieces) == 1:
        return Passage(text=text)
    # Collapsing changes the order of no letters, so the n-th letter is the same before and after it.
    places = [place for place, letter in enumerate(text) if letter not in _SPACES]
    met, opened, marks = 0, list[tuple[MarkKind, str, int]](), list[Mark]()
    for piece, tag in zip(pieces, tags, strict=False):
        met += sum(letter not in _SPACES + _PICTURE + _ICON + _LINE for letter in piece)
        if tag is not None:
            opened.append((*tag, met))
        elif opened:
            kind, target, first = opened.pop()
            if first < met <= len(places):
                marks.append(Mark(start=places[first], end=places[met - 1] + 1, kind=kind, target=target))
    return Passage(text=text, marks=tuple(sorted(marks, key=lambda mark: (mark.start, -mark.end))))


def blocks_of(root: Element, base: Path | None, left_out: list[LeftOut]) -> list[Block]:
    """Blocks of an element and everything inside it.

    Args:
        root: lxml element.
        base: folder that relative picture paths start from, or None.
        left_out: receives what was dropped.
    """
    walk = _Walk(base, left_out, cards_of(root))
    walk.element(root)
    walk.flush()
    return walk.blocks


@dataclass
class _Walk:
    base: Path | None
    left_out: list[LeftOut]
    cards: Mapping[Element, tuple[int, int]]
    lists: int = 0
    card: tuple[int, int] = (0, 0)
    caption: bool = False
    blocks: list[Block] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    tags: list[tuple[MarkKind, str] | None] = field(default_factory=list)
    quoted: bool = False
    aside: str = ""
    lines: tuple[int, int] | None = None
    pictures: list[PictureRef] = field(default_factory=list)
    pending: set[str] = field(default_factory=set)

    def flush(self, level: int = 0) -> None:
        """End a paragraph, or a heading of some level, with the text since the last block."""
        words, tags = "".join(self.words), self.tags
        self.words, self.tags = [], []
        if parted := [] if level else _parted(words.replace(_TAG, ""), self.pictures):
            first = len(self.blocks)
            for one in parted:
                kind, group = one.card
                card = self.card if any(self.card) or not kind else (kind, first + group)
                self.blocks.append(replace(one, card=card, aside=self.aside, lines=self.lines))
            self.shown()
        else:
            found = _passage(words, tags)
            if level and found.text:
                part = Part(**dict(found), kind="heading", level=level, quoted=self.quoted)
                self.close(Block("heading", found.text, level, parts=(part,)))
            else:
                part = Part(**dict(found), quoted=self.quoted)
                self.close(Block("paragraph", found.text, parts=(part,) if found.text else ()))

    def close(self, block: Block) -> None:
        """Add a block with the pictures since the last one."""
        if block.text or self.pictures:
            caption = self.caption and bool(block.text)
            shown = replace(block, pictures=tuple(self.pictures), card=self.card, caption=caption)
            self.blocks.append(replace(shown, aside=self.aside, lines=self.lines))
        self.shown()

    def shown(self, *pictures: PictureRef) -> None:
        """Clear the pending pictures, which are now in a block."""
        self.pictures, self.pending = list(pictures), {one.target for one in pictures}

    def element(self, node: Element) -> None:
        tag = node.tag if isinstance(node.tag, str) else ""
        if tag == "meta" and (lines := _lines(node)):  # precedes HTML inside Markdown
            begun = self.lines if self.pictures or any(map(str.strip, self.words)) else None
            self.lines = (begun or lines)[0], lines[1]
        if not tag or tag in _SILENT:
            return
        if tag in _UNREADABLE or _hidden(node):
            self.drop(node, f"<{tag}> element" if tag in _UNREADABLE else "hidden")
        elif tag in PICTURES:
            self.picture(node)
        elif tag == "noscript":
            self.fallback(node)
        elif tag == "br":
            self.words.append(_LINE)
        elif (caption := not self.caption and _is_caption(node, tag)) or tag in _BLOCK_LEVEL:
            self.flush()
            outer = self.card, self.caption, self.quoted, self.aside, self.lines
            self.card, self.caption = self.cards.get(node, self.card), self.caption or caption
            self.quoted = self.quoted or tag == "blockquote"
            aside = node.get(ASIDE) or ("summary of details" if tag == "summary" else "")
            self.aside, self.lines = aside or self.aside, _lines(node) or self.lines
            self.block(node, tag)
            self.flush()
            self.card, self.caption, self.quoted, self.aside, self.lines = outer
        elif kind := _MARKS.get(tag):
            self.words.append(_TAG)
            self.tags.append((kind, (node.get("href") or "").strip()))
            self.content(node)
            self.words.append(_TAG)
            self.tags.append(None)
        else:
            self.content(node)

    def content(self, node: Element) -> None:
        self.words.append(node.text or "")
        for child in node:
            self.element(child)
            self.words.append(child.tail or "")

    def block(self, node: Element, tag: str) -> None:
        if tag in HEADINGS:
            self.content(node)
            self.flush(int(tag[1]))
        elif tag in {"ul", "ol", "menu"}:
            self.items(node, ordered=tag == "ol")
        elif tag == "pre":
            for image in node.iter(*PICTURES):
                self.picture(image)
            # White space before code is significant, and after it is not.
            text = "".join(node.itertext()).strip("\n").rstrip()
            self.close(Block("verbatim", text, parts=(Part(kind="code", text=text, quoted=self.quoted),)))
        elif (
            tag == "table"
            and not _is_layout(node)
            and not _is_captioned(node)
            and self.cards.keys().isdisjoint(node.iterdescendants())
        ):
            self.table(node)
        elif tag == "hr":
            self.blocks.append(Block("break", lines=self.lines))
        else:
            self.content(node)

    def table(self, node: Element) -> None:
        captions = [self.inline(caption) for caption in node.iter("caption")]
        rows: list[tuple[Passage, ...]] = []
        head = 0
        for row in node.iter("tr"):
            cells = [cell for cell in row if cell.tag in {"td", "th"}]
            said = tuple(map(self.inline, cells))
            if any(cell.text for cell in said):
                head += head == len(rows) and all(cell.tag == "th" for cell in cells)
                rows.append(said)
        lines = [" | ".join(cell.text.replace("\n", " ") for cell in row) for row in rows]
        text = "\n".join([*filter(None, (caption.text for caption in captions)), *lines])
        shown = Part(kind="table", text="\n".join(lines), rows=tuple(rows), head=head, quoted=self.quoted)
        parts = [*(Part(**dict(caption)) for caption in captions if caption.text), *([shown] if rows else [])]
        self.close(Block("verbatim", text, parts=tuple(parts)))

    def inline(self, node: Element) -> Passage:
        """Text of an element without block structure; its pictures stay pending."""
        outer, self.words, self.tags = (self.words, self.tags), [], []
        self.content(node)
        found = _passage("".join(self.words), self.tags)
        self.words, self.tags = outer
        return found

    def items(self, node: Element, *, ordered: bool) -> None:
        self.lists += 1
        own, number = self.lists, _integer(node.get("start"), 1)
        self.words.append(node.text or "")
        self.flush()
        for child in node:
            if child.tag == "li" and not is_of_gallery(child, node):
                number = _integer(child.get("value"), number)
                around = self.aside, self.lines
                self.aside, self.lines = child.get(ASIDE) or self.aside, _lines(child) or self.lines
                inner = _Walk(self.base, self.left_out, self.cards, self.lists, quoted=self.quoted)
                inner.content(child)
                inner.flush()
                self.lists = inner.lists
                blocks = with_captions(inner.blocks)
                taken = (block.text for block in blocks if block.taken)
                self.left_out += (LeftOut("caption of a picture", words, kept=True) for words in taken)
                blocks = [block for block in blocks if not block.taken]
                self.shown(*pictures_of(blocks))
                text = _item_text(blocks)
                outer, self.card = self.card, self.cards.get(child, self.card)
                parts = _item_parts(blocks, number if ordered else None)
                self.close(Block("item", text, ordered=ordered, number=number, list_id=own, parts=parts))
                self.card = outer
                self.aside, self.lines = around
                number += 1
            else:  # a list or text directly inside a list: invalid, but common
                self.element(child)
            self.words.append(child.tail or "")
            self.flush()

    def picture(self, node: Element) -> None:
        target = _target(node)
        if not target or target.startswith("data:"):
            reason = "picture inside the file (data: URI)" if target else "picture without an address"
            self.left_out.append(LeftOut(reason, node.get("alt") or ""))
        elif {node.get("width"), node.get("height")} <= {"0", "1"}:
            self.left_out.append(LeftOut("tracking pixel", pictures=(target,)))
        elif target not in self.pending:
            self.pending.add(target)
            self.words.append(_ICON if _is_icon(node) else _PICTURE)
            self.pictures.append(resolve_picture(target, self.base, (node.get("alt") or "").strip()))

    def fallback(self, node: Element) -> None:
        # Pages that load pictures late repeat them here for browsers without scripts.
        seen = {picture.target for block in self.blocks[-1:] for picture in block.pictures}
        for image in node.iter(*PICTURES):
            if _target(image) not in seen:
                self.picture(image)

    def drop(self, node: Element, reason: str) -> None:
        text = collapse("".join(node.itertext()))
        images = tuple(filter(None, (_target(image) for image in node.iter(*PICTURES))))
        if text or images:
            self.left_out.append(LeftOut(reason, text, images))


def _parted(words: str, pictures: list[PictureRef]) -> list[Block]:
    """Divide text with pictures between its lines or sentences, as on pages without paragraphs.

    It is read as plain text, because only the lines show what belongs together. If blank lines divide it into
    groups of text with one picture, each group is a card.

    Args:
        words: text with a placeholder for every picture.
        pictures: pictures in order.
    Returns:
        Blocks in order, pictures in blocks of their own; empty if there is no text between two pictures.
    """
    text = _ASCII_SPACE.sub(" ", words.replace("\u00a0", " "))
    inner = "".join(_BETWEEN.split(text)[1:-1])
    if not any(map(str.isalnum, inner)) or text.count(_PICTURE) + text.count(_ICON) != len(pictures):
        return []
    groups = _BLANK.split(text)
    shown = [one for one in groups if _PICTURE in one]
    glued = len(shown) > 1 and all(collapse(one) and len(_BETWEEN.findall(one)) == 1 for one in shown)
    lines = _BETWEEN.sub(lambda found: f"\n\n{found[0].replace(' ', '')}\n\n", text)
    read = read_plain((_BLANK.sub("\f", lines) if glued else lines).replace(_LINE, "\n"), "HTML")
    blocks = [Block("heading", read.title, 2)] * bool(read.title) + read.blocks
    waiting, group, result = iter(pictures), 0, []
    for block in blocks:
        if glued and block.kind == "break":
            group += 1
            continue
        count = block.text.count(_PICTURE) + block.text.count(_ICON)
        made = replace(block, text=collapse(block.text), pictures=tuple(islice(waiting, count)), parts=())
        made = replace(made, list_id=-1 - block.list_id if block.list_id else 0)  # not a list of the page
        result.append(replace(made, card=(-1, group)) if glued else made)
    numbers = [block.card[1] for block in result if block.pictures]
    # text around the cards is in none of them
    return [
        block if numbers[0] <= block.card[1] <= numbers[-1] else replace(block, card=(0, 0))
        for block in result
    ]


def _is_icon(node: Element) -> bool:
    """Whether a picture is small by its stated size, or its description is only symbols, such as emoji."""
    alt = (node.get("alt") or "").strip()
    sides = [_integer(node.get(name), _ICON_PX + 1) for name in ("width", "height")]
    return min(sides) <= _ICON_PX or (bool(alt) and not any(map(str.isalnum, alt)))


def _is_captioned(table: Element) -> bool:
    """Whether a table contains only a picture above its caption."""
    cells = list(table.iter("td", "th"))
    shown = len(cells) == 2 and next(cells[0].iter(*PICTURES), None) is not None
    return shown and not letters(cells[0]) and _is_caption(cells[1], "td")


def _is_caption(node: Element, tag: str) -> bool:
    """Whether an element is a caption: named so, or emphasised or numbered text around or below a picture."""
    if tag == "figcaption":
        return True
    names, around = _names_of(node), node.getparent()
    titles = "title" in names and around is not None and not _FIGURE_NAMES.isdisjoint(_names_of(around))
    if titles or any(map(_CAPTION_NAME.fullmatch, names)):
        return not _shows(node)
    if tag == "td":
        return _FIGURE.match(collapse("".join(node.itertext()))) is not None and not _shows(node)
    if tag != "p" or not (_shows(node) or _is_below_picture(node)):
        return False
    emphasised = sum(letters(inner) for inner in node if inner.tag in {"em", "i", "small"})
    numbered = not _shows(node) and _FIGURE_LINE.match(collapse("".join(node.itertext()))) is not None
    return numbered or 0 < emphasised == letters(node)


def _shows(node: Element) -> bool:
    return next(node.iter(*PICTURES), None) is not None


def _names_of(node: Element) -> list[str]:
    return (node.get("class") or "").split()


def _is_below_picture(node: Element) -> bool:
    """Whether a paragraph follows one that contains only a picture."""
    above = node.getprevious()
    alone = above is not None and above.tag == "p" and _shows(above)
    return alone and not letters(above) and not (above.tail or "").strip()


def _item_text(blocks: list[Block]) -> str:
    """One text for a list item: paragraphs are separated, and the items of inner lists are on lines of their
    own.
    """
    text = ""
    for block in blocks:
        if block.text and block.kind == "item":
            text += "\n" + block.mark + block.text.replace("\n", "\n  ")
        elif block.text:
            text += "\n\n" + block.text
    return text.lstrip("\n")


def _item_parts(blocks: list[Block], number: int | None) -> tuple[Part, ...]:
    """Parts of an item: its marker precedes the first, and the others are one list deeper."""
    inner = [part for block in blocks for part in block.parts]
    if not inner or inner[0].kind != "paragraph" or inner[0].depth:
        inner.insert(0, Part())
    first = {"kind": "item", "number": number, "depth": 1}
    deeper = (part.model_copy(update={"depth": part.depth + 1}) for part in inner[1:])
    return (inner[0].model_copy(update=first), *deeper)


def _target(node: Element) -> str:
    """URL of a picture: late-loading attributes if `src` is only a placeholder."""
    source = (node.get("src") or "").strip()
    stated = [node.get(name) for name in ("data-src", "data-lazy-src", "data-original")]
    others = (
        value for name, value in node.items() if name.startswith("data-") and len(value) <= _LONGEST_ADDRESS
    )
    late = next(filter(None, (*stated, *filter(_PICTURE_FILE.fullmatch, others))), "")
    if late and (not source or source.startswith("data:") or _PLACEHOLDER.search(source)):
        return late.strip()
    sets = [node.get("data-srcset"), node.get("data-lazy-srcset"), node.get("srcset")]
    # libxml2 treats <source>, <wbr> and <embed> as parents of what follows them
    for parent in node.iterancestors("picture"):
        sets += [item.get("srcset") or item.get("data-srcset") for item in parent.iter("source")]
    largest = next(filter(None, map(_largest, filter(None, sets))), "")
    if source and not source.startswith("data:") and not (largest and _PLACEHOLDER.search(source)):
        return source
    return largest or source


def _largest(srcset: str) -> str:
    """The largest candidate of a srcset: ``a.jpg 480w, b.jpg 2x``."""
    sized = []
    for candidate in re.split(r",\s+|,$", srcset.strip()):
        address, _, descriptor = candidate.strip().partition(" ")
        match = re.match(r"[\d.]*\d", descriptor.strip())
        if address and not address.startswith("data:"):
            sized.append((float(match[0]) if match and match[0].count(".") <= 1 else 0.0, address))
    return max(sized, key=itemgetter(0), default=(0.0, ""))[1].strip()


def _lines(node: Element) -> tuple[int, int] | None:
    """Source lines of an element, if it comes from Markdown."""
    stated = node.get(LINES) or (node[0].get(LINES) if node.tag == "pre" and len(node) else None)
    found = re.fullmatch(r"([0-9]{1,7})-([0-9]{1,7})", stated or "")
    return None if found is None else (int(found[1]), int(found[2]))


def _integer(value: str | None, default: int) -> int:
    return int(value) if value and re.fullmatch(r"\s*-?\d{1,9}\s*", value) else default


def _hidden(node: Element) -> bool:
    style = (node.get("style") or "").replace(" ", "").lower()
    return node.get("hidden") is not None or "display:none" in style or "visibility:hidden" in style


def _has_words_outside_cells(row: Element) -> bool:
    """Whether a table, a part of it or a row has text outside cells and captions."""
    outside = (child.text for child in row if child.tag not in _ROWS | _CELLS)
    return any(map(str.strip, filter(None, (row.text, *outside, *(child.tail for child in row)))))


def _is_layout(table: Element) -> bool:
    """Whether a table only positions content: old pages place whole articles in tables."""
    tags = [node.tag for node in table.iterdescendants()]
    inner = _BLOCK_LEVEL - {"td", "th", "tr", "tbody", "thead", "tfoot", "p", "div"}
    if table.get("role") == "presentation" or not inner.isdisjoint(tags) or tags.count("p") > 3:
        return True
    if any(_has_words_outside_cells(row) for row in table.iter(*_ROWS)):
        return True
    return any(sum(1 for _ in cell.iter(*PICTURES)) > 1 for cell in table.iter("td"))


PICTURES = ("img", "amp-img")
_CARDS = frozenset({"article", "dd", "div", "figure", "li", "section", "td", "tr"})
_MOST_PICTURES = 6
Card = tuple[int, int]


def cards_of(root: Element) -> dict[Element, Card]:
    """The cards below an element.

    Two or more children of one parent are cards if they have the same tag and first class and each has words
    and one to six pictures; siblings of the same kind are then cards too, even with only words or only
    pictures. Innermost cards count. Figures are cards only if they contain most of the words around them;
    otherwise they illustrate these. Items of numbered lists and of galleries are not cards. In a table, a row
    of pictures above a row of words makes each column a card.

    Returns:
        Element → (kind, number), both from 1; the cells of a column share one.
    """
    found: dict[Element, Card] = {}
    kinds: defaultdict[tuple[str, str], int] = defaultdict(count(1).__next__)
    numbers = count(1)
    parents = [node for node in root.iter() if isinstance(node.tag, str) and len(node)]
    for parent in reversed(parents):  # children come before their parents
        if parent.tag in {"table", "tbody"}:
            for upper, lower in _columns(parent):
                found[upper] = found[lower] = kinds["column", ""], next(numbers)
        alike: defaultdict[tuple[str, str], list[Element]] = defaultdict(list)
        for child in parent:
            numbered = child.tag == "li" and parent.tag == "ol"
            if child.tag in _CARDS and not numbered and not is_of_gallery(child, parent):
                alike[child.tag, (child.get("class") or "").partition(" ")[0]].append(child)
        for kind, nodes in alike.items():
            full = [
                node for node in nodes if _is_card(node) and found.keys().isdisjoint(node.iterdescendants())
            ]
            if len(full) < 2 or (kind[0] == "figure" and 2 * sum(map(letters, full)) < letters(parent)):
                continue
            for node in nodes:
                is_head = node.tag == "tr" and not any(cell.tag == "td" for cell in node)
                if not is_head and found.keys().isdisjoint(node.iterdescendants()):
                    found[node] = kinds[kind], next(numbers)
    return found


def is_of_gallery(node: Element, parent: Element) -> bool:
    """Whether an element is one of several pictures in a figure, or in a list whose class says gallery."""
    return node.tag == "figure" == parent.tag or (node.tag == "li" and "gallery" in (node.get("class") or ""))


def _columns(table: Element) -> list[tuple[Element, Element]]:
    """Cells with only pictures, each with the text cell below it."""
    rows = [[cell for cell in row if cell.tag == "td"] for row in table if row.tag == "tr"]
    return list(
        chain.from_iterable(
            zip(upper, lower, strict=True)
            for upper, lower in pairwise(rows)
            if len(upper) == len(lower) > 1
            and all(_pictures(cell) and not letters(cell) for cell in upper)
            and all(letters(cell) and not _pictures(cell) for cell in lower)
        )
    )


def _is_card(node: Element) -> bool:
    return 1 <= _pictures(node) <= _MOST_PICTURES and letters(node) > 0


def _pictures(node: Element) -> int:
    return sum(1 for _ in node.iter(*PICTURES))


def letters(node: Element) -> int:
    """Number of letters in an element."""
    return sum(map(str.isalpha, "".join(node.itertext())))
