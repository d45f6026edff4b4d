"""HTML as a tree, and its blocks in reading order; Markdown and Word documents become HTML first.

One walk over the tree reports what a page shows and how it looks. What is a heading by its look, and what a
step, is decided for all formats alike in `limner.text.structure` and `limner.text.segment`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import chain, count, pairwise
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qs, urlsplit

from lxml import etree, html

from limner.errors import DataError
from limner.records import Block, Mark, Passage, PictureRef
from limner.text.blocks import Document, Find, LeftOut, changed, is_marked, letters, pictures_of, strip
from limner.text.declared import declared_document, place_steps
from limner.text.wanted import asked_in, asked_in_comment, place_for, said, stands_in
from limner.text.words import is_furniture, role_of

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


# Attributes of HTML made from other formats: an element outside the running text, and source lines "a-b".
ASIDE, LINES = "data-limner-aside", "data-limner-lines"
# Maximum number of attributes of an element, and of elements of a page.
MAX_ATTRIBUTES, MAX_ELEMENTS = 1_000, 60_000
_PICTURES, _HEADINGS = ("img", "amp-img"), ("h1", "h2", "h3", "h4", "h5", "h6")
_TABLE = ("table", "caption", "thead", "tbody", "tfoot", "tr", "td", "th")
_PLAIN, _BOXES = ("p", "div", "center"), ("div", "article", "section")
_NAMES = """address article aside blockquote body dd details dialog dir dl dt fieldset figcaption figure
footer form header hgroup hr html li main menu nav ol pre search section summary ul"""
_BLOCKS = frozenset(re.findall(r"\w+", _NAMES)).union(_HEADINGS, _TABLE, _PLAIN)
_WORDLESS = ("head", "script", "style", "template")
_UNREADABLE = ("audio", "button", "canvas", "iframe", "input", "object", "select", "svg", "textarea", "video")
_FURNITURE = ("nav", "footer", "aside", "form", "dialog", "menu")
_FURNITURE_NAME = re.compile(
    r"(?i)(?:(?:wprm|wprm-recipe|tasty-recipes?|mv-create|entry|post|recipe|blog|site)[-_])?"
    r"(?:comments?|commentlist|respond|disqus|sidebar|widget|share|sharing|sharedaddy|social|related"
    r"|jp-relatedposts|cookies?|newsletter|adverts?|advertisement|ads?|breadcrumbs?|promo|subscribe|subscription"
    r"|nav|navbar|navigation|pagination|pager|site-header|(?:site-|entry-|post-)?footer|skip-link|rating|toc"
    r"|ez-toc|mw-editsection|table-of-contents|properties|screen-reader-text|sr-only|visually-hidden)(?:[-_].*)?"
)
_SHORTCODE = re.compile(r"(?:\[/?[a-z]\w*(?:[-_]\w+)*(?:\s[^][]*)?\]\s*)+")
# A picture and its caption as WordPress stores them, which an export may contain.
_CAPTION_SHORTCODE = re.compile(
    r"(?i)\[caption\b[^][]{0,500}\]\s*((?:<a\b[^>]{0,2000}>\s*)?<img\b[^>]{0,5000}>(?:\s*</a>)?)"
    r"([^][]{0,5000})\[/caption\]"
)
_CAPTION_NAME = re.compile(
    r"(?i)(?:[\w-]*[-_])?caption(?:[-_]text)?|thumbcaption|gallerytext|(?:foto|image|img|photo)[-_]?credits?"
)
_FIGURE = re.compile(
    r"(?i)(?:(?:abb(?:ildung)?|afbeelding|bild|fig(?:ur[ae]?)?|foto|ilustraci[oó]n|obrázek|photo|rysunek|şekil"
    r"|рис(?:унок)?)\b\.?|[图圖図]|그림)\s?\d+\s?(?:[-–—.:：]|$)"
)
_LONGEST_CAPTION, _MOST_IN_BOX, _MOST_PIECES = 300, 6, 1_000
_TITLE_NAME = re.compile(r"(?i)(?:mso|(?:post|entry|article|page)[-_])?title")
_COMMENT = re.compile(r"<!--([^<>]{1,400}?)-->")
# A start tag as the HTML standard defines it; possessive quantifiers prevent backtracking.
_START_TAG = re.compile(r"""<[a-zA-Z](?:[^>=]|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+""")
_VALUE = re.compile(r"""=\s*+(?:"[^"]*+"|'[^']*+')""")
# lxml parses these characters, but raises an error if text with them is assigned.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_SPACES = re.compile(r"[ \t\n\r\f]+")
_PLACEHOLDER = re.compile(r"(?i)^data:|placeholder|blank|spacer|lazy|load(?:ing|er)|spinner|pixel|1x1")
_PICTURE_FILE = re.compile(r"(?i)\S{1,2000}\.(?:avif|gif|jpe?g|png|webp)(?:[?#]\S{0,2000})?")
_Kind = Literal["strong", "emphasis", "code", "struck", "above", "below", "link"]
_MARKS: dict[str, _Kind] = {
    **dict.fromkeys(("b", "strong", "u", "dt", "summary"), "strong"),
    **dict.fromkeys(("em", "i", "cite", "dfn", "var"), "emphasis"),
    **dict.fromkeys(("code", "kbd", "samp", "tt"), "code"),
    **dict.fromkeys(("s", "del", "strike"), "struck"),
    **{"sup": "above", "sub": "below", "a": "link"},
}
_STYLED = ("span", "font", "p", "b", "strong", "i", "em", "a")
_BOLD = ("bold", "600", "700", "800", "900")


def parse_tree(text: str, where: str) -> Element:
    """Parse HTML into an lxml tree of bounded size and depth; no network, no external entities.

    Args:
        text: the page, decoded.
        where: name of the source, for messages.
    Raises:
        DataError: the page is empty, exceeds a limit, or cannot be parsed.
    """
    text = _CAPTION_SHORTCODE.sub(r"<figure>\1<figcaption>\2</figcaption></figure>", _NOT_XML.sub(" ", text))
    text = _COMMENT.sub(_asked, text)
    for tag in _START_TAG.finditer(text):  # the parser's time is quadratic in the number of attributes
        long = len(tag[0]) > MAX_ATTRIBUTES
        if long and len(re.findall(r"[\s/=]+", _VALUE.sub("=", tag[0]))) > 2 * MAX_ATTRIBUTES:
            raise DataError(f"{where}: an HTML element has more than {MAX_ATTRIBUTES:,} attributes; split it")
    # The text is already decoded: an encoding that it declares is ignored.
    parser = html.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    try:
        root = html.document_fromstring(text.encode("utf-8"), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError) as error:
        reason = str(error)[:80]
        raise DataError(f"{where}: is empty, or no HTML ({reason}); save it as plain text") from None
    if any(entry.level_name == "FATAL" for entry in parser.error_log):
        limits = "deeper than 250 levels, or with more than 10 MB in one element"
        raise DataError(f"{where}: HTML nested {limits}; save it as plain text")
    if sum(1 for _ in root.iter()) > MAX_ELEMENTS:
        raise DataError(f"{where}: has more than {MAX_ELEMENTS:,} HTML elements; split it")
    return root


def _asked(match: re.Match[str]) -> str:
    """A comment that says what is to be seen, as a picture without an address."""
    words = asked_in_comment(match[1])
    return match[0] if words is None else f'<img alt="{escape(words)}">'


def blocks_of(root: Element, find: Find, left_out: list[LeftOut]) -> list[Block]:
    """Blocks of an element and everything inside it.

    Args:
        root: lxml element.
        find: finds the files of pictures.
        left_out: receives furniture of the page: menus, forms, hidden elements, buttons.

    Example:
        >>> root = parse_tree("<h1>Tea</h1><ol><li>Boil <b>water</b>.</ol>", "tea.html")
        >>> [(block.kind, block.text) for block in blocks_of(root, finder(None), [])]
        [('heading', 'Tea'), ('item', 'Boil water.')]
    """
    css = _css(root)
    for figure in root.iter("figure"):  # one with only a caption asks for a picture
        words = "".join(figure.itertext())
        if [child.tag for child in figure] == ["figcaption"] and asked_in(f"[{words}]") is None:
            figure.insert(0, etree.Element("img"))
    etree.strip_elements(root, "script", "style", "template", with_tail=False)
    walk = _Walk(root, find, left_out, css, _sizes(root))
    walk.element(root)
    walk.flush()
    pairs = pairwise([*walk.blocks, Block()])
    return [block for block, below in pairs if block.kind != "item" or block.text or below.kind == "code"]


def read_html(text: str, where: str, find: Find, *, declared: bool = True) -> Document:
    """Read the main content of a page.

    Args:
        text: the decoded page.
        where: its name, for messages.
        find: finds the files of pictures.
        declared: whether to look for steps that the page declares.
    Returns:
        The blocks of the main content, with the steps that the page declares (schema.org), where it shows
        them; only what it declares, where it shows less than half of it.
    """
    root = parse_tree(text, where)
    notes: list[str] = []
    stated = declared_document(root, find, notes) if declared else None
    body = next(root.iterchildren("body"), root)
    main, document = _main(body, text), Document()
    document.blocks = blocks_of(main, find, document.left_out)
    share = 1.0 if stated is None else place_steps(document, stated)
    for path in ("preceding-sibling::*", "following-sibling::*"):
        beside = main.xpath(f"ancestor-or-self::*/{path}")
        document.left_out += [_left_out(node) for node in beside if node.tag not in _WORDLESS]
    if stated is not None and not document.declared:
        what = "only what it declares is read" if share < 0.5 else "its visible text is read"
        notes.append(f"the page shows its steps in other words than it declares: {what}")
        document = replace(stated, left_out=[_left_out(body)], notes=[]) if share < 0.5 else document
    document.left_out = [part for part in document.left_out if part.text or part.pictures]
    document.notes += notes
    _describe(document, root, main)
    return document


def _main(body: Element, text: str) -> Element:
    """The element with the main content: <main>, the only <article>, or the one that trafilatura finds."""
    for path in ("//main | //*[@role='main']", "//article", "//*[@itemprop='articleBody']"):
        worded = [node for node in body.xpath(path) if any(map(str.strip, node.itertext()))]
        if len(worded) == 1:
            return worded[0]
    if not any(_is_named_furniture(node) for node in body.iter()):
        return body  # a hand-written page: everything is content
    import trafilatura

    # It only helps to locate the element, because it alters the text.
    words = letters(trafilatura.extract(text, include_comments=False, favor_recall=True) or "")
    pieces = [(letters(text or ""), node) for node in body.iter() for text in _texts(node)]
    weights: Counter[Element] = Counter()
    for piece, parent in sorted(pieces, key=lambda pair: -len(pair[0]))[:500]:
        if len(piece) > 20 and piece in words:
            weights.update(dict.fromkeys((parent, *parent.iterancestors()), len(piece)))
    main = inner = body
    while inner is not None and weights:
        main = inner
        inner = next((child for child in main if weights[child] >= 0.9 * weights[body]), None)
    return main if main.tag in _BLOCKS else next(main.iterancestors(*_BLOCKS), body)


def _describe(document: Document, root: Element, main: Element) -> None:
    """Add the page's title, credits, language and direction."""
    titles = root.xpath("//meta[@property='og:title']/@content")[:1]
    authors = root.xpath("//meta[@name='author']/@content")[:1]
    first = document.blocks[0] if document.blocks else Block()
    has_bold_title = is_marked(first.text, first.marks, "strong")  # structure knows whether it is the title
    has_heading = sum(block.level == 1 for block in document.blocks) == 1
    if not (document.title or has_heading or has_bold_title):
        headings = [_words(node) for node in root.iter("h1")]
        document.title = headings[0] if len(headings) == 1 else _plain("".join(titles)) or _head_title(root)
    document.author = document.author or _plain("".join(authors))
    licenses = root.xpath("//link[@rel='license']/@href | //a[@rel='license']/@href")
    document.license = document.license or "".join(licenses[:1])
    languages = main.xpath("ancestor-or-self::*/@lang")
    document.language = document.language or "".join(languages[-1:]).strip()
    directions = [stated.strip().lower() for stated in main.xpath("ancestor-or-self::*/@dir")]
    document.direction = "rtl" if "rtl" in directions[-1:] else "ltr" if "ltr" in directions[-1:] else None


def _head_title(root: Element) -> str:
    """The <title> of a page, without the name of the site where a heading repeats the rest."""
    title = " ".join(map(_words, root.xpath("//head/title")))
    headings = {letters(_words(node)) for node in root.iter(*_HEADINGS)}
    return next((part for part in re.split(r"\s*[-–—|·»:]+\s+", title) if letters(part) in headings), title)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _texts(node: Element) -> list[str]:
    """The text that is directly in an element, in pieces."""
    return [node.text or "", *(child.tail or "" for child in node)]


def _words(node: Element) -> str:
    return _plain("".join(node.itertext()))


def _names(node: Element) -> list[str]:
    return (node.get("class") or "").split()


def _is_named_furniture(node: Element) -> bool:
    """Whether the name of an element says that it is furniture of the page."""
    if node.tag in ("html", "body", "main", "article"):
        return False
    if node.tag in _FURNITURE or node.get("role") in ("navigation", "banner"):
        return node.get(ASIDE) is None
    if node.tag == "header":
        return next(node.iterancestors("article", "main", "section"), None) is None
    return any(map(_FURNITURE_NAME.fullmatch, [*_names(node), node.get("id") or ""]))


def _note(node: Element) -> str:
    """What a part of a page by Google Docs is: a comment (cmnt), its mark, or a footnote (ftnt)."""
    stated = node.get("id") if node.tag == "a" else node.xpath("string(p[1]/a[1]/@id)")
    return (stated or "").rstrip("0123456789") if node.tag in ("a", "div") else ""


def _left_out(node: Element) -> LeftOut:
    pictures = (next(iter(_targets(picture)), "") for picture in node.iter(*_PICTURES))
    return LeftOut("page furniture", _plain(" ".join(node.itertext())), tuple(filter(None, pictures)))


def _sizes(root: Element) -> dict[Element, tuple[int, int]]:
    """Number of letters and of pictures inside each element."""
    sizes: dict[Element, tuple[int, int]] = {}
    for _, node in etree.iterwalk(root, events=("end",)):
        words = letters("".join(_texts(node)))
        inner = [sizes[child] for child in node]
        pictures = (node.tag in _PICTURES) + sum(size[1] for size in inner)
        sizes[node] = len(words) + sum(size[0] for size in inner), pictures
    return sizes


def _css(root: Element) -> dict[str, str]:
    """Class → its rule in the style sheets inside a page; rules for a class alone."""
    sheets = "".join(style.text or "" for style in root.getroottree().iter("style"))
    rules = (re.fullmatch(r"\s*\w*\.([\w-]+)\s*\{(.*)", rule, re.DOTALL) for rule in sheets.split("}"))
    return {rule[1]: rule[2] for rule in rules if rule}


@dataclass(frozen=True)
class _Place:
    """What an element gives to all blocks inside it; a flat element becomes one passage with lines."""

    depth: int = 0
    level: int = 0
    quoted: bool = False
    is_aside: bool = False
    is_caption: bool = False
    is_flat: bool = False
    lines: tuple[int, int] | None = None
    group: int = 0


@dataclass
class _Walk:
    root: Element
    find: Find
    left_out: list[LeftOut]
    css: Mapping[str, str]
    sizes: Mapping[Element, tuple[int, int]]
    at: _Place = _Place()
    blocks: list[Block] = field(default_factory=list)
    lower: bool = False  # whether headings stand below a title that is none of them
    counts: list[int | None] = field(default_factory=list)  # last number in each list around
    item: int | None = None  # index of an item that has no words yet
    groups: dict[Element, int] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=lambda: count(1))
    # the text since the last block
    words: list[str] = field(default_factory=list)
    length: int = 0
    gap: bool = False  # whether white space follows
    open: list[tuple[_Kind, str, int]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    pictures: list[tuple[int, PictureRef]] = field(default_factory=list)
    wanted: list[Block] = field(default_factory=list)

    def element(self, node: Element) -> None:
        tag = node.tag
        if lines := _lines(node):
            self.at = replace(self.at, lines=lines)
        is_caption = tag == "figcaption" or any(map(_CAPTION_NAME.fullmatch, _names(node)))
        is_caption = is_caption and not self.sizes[node][1]
        if tag == "title":
            return
        if self.is_left_out(node):
            self.left_out.append(_left_out(node))
        elif tag in (*_PICTURES, "noscript"):  # which repeats pictures that are loaded late
            for picture in node.iter(*_PICTURES):
                self.picture(picture)
        elif tag == "br":
            self.line()
        elif tag in _BLOCKS or is_caption:
            self.flush()
            around = self.at
            self.at = replace(
                around,
                quoted=around.quoted or tag == "blockquote",
                is_aside=around.is_aside or node.get(ASIDE) is not None or _note(node) == "ftnt",
                is_caption=around.is_caption or is_caption,
                group=self.groups.get(node, around.group),
            )
            self.block(node)
            self.flush()
            self.at = around
        else:
            self.content(node)

    def content(self, node: Element) -> None:
        """Text and children of an element, with its marks."""
        kinds = {_MARKS[node.tag]} if node.tag in _MARKS else set()
        if node.tag in _STYLED:
            rules = [self.css.get(name, "") for name in _names(node)]
            style = ";".join([*rules, node.get("style") or ""]).lower()
            for weight in re.findall(r"font-weight:\s*(\w+)", style)[-1:]:
                kinds ^= {"strong"} if (weight in _BOLD) != ("strong" in kinds) else set()
            kinds |= {"emphasis"} if re.search(r"font-style:\s*italic", style) else set()
        target = _link(node) if node.tag == "a" else ""
        before, around = len(self.open), {kind for kind, *_ in self.open} - {"link"}
        self.open += [
            (kind, target, self.length) for kind in sorted(kinds - around) if kind != "link" or target
        ]
        boxes = [child for child in node if child.tag in _BOXES and all(self.sizes[child])]
        alike = Counter(child.tag for child in boxes if self.sizes[child][1] <= _MOST_IN_BOX)
        self.groups |= {child: next(self.numbers) for child in boxes if alike[child.tag] > 1}
        self.say(node.text or "")
        for child in node:
            self.element(child)
            self.say(child.tail or "")
        self.marks += self.closed(self.open[before:])
        del self.open[before:]

    def block(self, node: Element) -> None:
        tag = node.tag
        is_title = tag in ("p", *_HEADINGS) and any(map(_TITLE_NAME.fullmatch, _names(node)))
        if (is_title or tag in _HEADINGS) and not self.at.depth:
            level = 1 if is_title else min(6, int(tag[1]) + self.lower)
            self.at, self.lower = replace(self.at, level=level), self.lower or tag == "p"
            self.content(node)
        elif tag in ("ul", "ol", "dir"):
            self.counts.append(_integer(node.get("start"), 1) - 1 if tag == "ol" else None)
            self.content(node)
            self.flush()
            self.counts.pop()
        elif tag == "li":
            last = self.counts[-1] if self.counts else None
            number = None if last is None else _integer(node.get("value"), last + 1)
            self.counts[-1:] = [number]
            self.at = replace(self.at, depth=max(1, len(self.counts)))
            self.add(Block(kind="item", number=number))
            self.item = len(self.blocks) - 1
            self.content(node)
            self.flush()
            self.item = None
        elif tag == "pre":
            self.code(node)
        elif tag == "hr":
            self.add(Block(kind="break"))
        elif tag == "table":
            self.table(node)
        else:
            for caption in node.iterchildren("figcaption"):
                node.append(caption)  # below its picture
            self.content(node)

    def code(self, node: Element) -> None:
        for end in node.iter("br"):
            end.tail = f"\n{end.tail or ''}"
        self.add(Block(kind="code", text="".join(node.itertext()).strip("\n").rstrip()))
        for picture in node.iter(*_PICTURES):
            self.picture(picture)

    def table(self, node: Element) -> None:
        rows = [[cell for cell in row if cell.tag in ("td", "th")] for row in node.xpath("tr | */tr")]
        rows = [row for row in rows if row]
        captions = list(node.iterchildren("caption"))
        cells = [*captions, *chain.from_iterable(rows)]
        if self.is_layout(node, rows) or self.inside(cells) != self.sizes[node]:  # words outside of cells
            self.layout(rows)
            self.content(node)
            return
        for above in captions:
            self.element(above)
        table = [[self.cell(cell) for cell in row] for row in rows]
        head = next((n for n, row in enumerate(rows) if any(cell.tag == "td" for cell in row)), len(rows))
        text = "\n".join(" | ".join(cell.text.replace("\n", " ") for cell in row) for row in table)
        passages = tuple(tuple(Passage(text=cell.text, marks=cell.marks) for cell in row) for row in table)
        pictures = pictures_of(chain.from_iterable(table))
        self.add(Block(kind="table", text=text, rows=passages, head=head, pictures=pictures))

    def cell(self, node: Element) -> Block:
        """What is in a cell of a table, with a line for each of its paragraphs."""
        at = _Place(is_flat=True)
        walk = replace(self, at=at, words=[], length=0, open=[], marks=[], pictures=[], wanted=[])
        walk.content(node)
        return changed(strip(walk.taken()), pictures=tuple(picture for _, picture in walk.pictures))

    def is_layout(self, table: Element, rows: Sequence[Sequence[Element]]) -> bool:
        """Whether a table only positions what is in it, as old pages and documents do."""
        tags = {node.tag for node in table.iterdescendants()} - {*_TABLE[1:], *_PLAIN}
        pictured = sum(2 - bool(words) for words, pictures in map(self.inside, rows) if pictures)
        return len(rows) < 2 or max(map(len, rows)) == 1 or pictured > 1 or not _BLOCKS.isdisjoint(tags)

    def inside(self, row: Sequence[Element]) -> tuple[int, int]:
        return sum(self.sizes[cell][0] for cell in row), sum(self.sizes[cell][1] for cell in row)

    def layout(self, rows: Sequence[Sequence[Element]]) -> None:
        """Group the cells of a table by rows, or by columns where each picture stands above its words."""
        upper, lower = rows[::2], rows[1::2]
        above = all(pictures and not words for words, pictures in map(self.inside, upper))
        if above and list(map(len, upper)) == list(map(len, lower)):
            pairs = chain.from_iterable(map(zip, upper, lower))
            rows = [pair for pair in pairs if pair[0].addnext(pair[1]) is None]
        for row in rows:
            number = next(self.numbers)
            for cell in row:  # a cell with picture and words is a box of its own
                self.groups[cell] = next(self.numbers) if all(self.sizes[cell]) else number

    def is_left_out(self, node: Element) -> bool:
        """Whether an element is hidden, or furniture of the page and not most of it in spite of its name."""
        words, pictures = self.sizes[node]
        style = re.sub(r"\s", "", node.get("style") or "").lower()
        return (
            node.tag in _UNREADABLE
            or node.get("hidden") is not None
            or _note(node) in ("cmnt", "cmnt_ref")
            or re.search("display:none|visibility:hidden", style) is not None
            or (node.get("aria-hidden") == "true" and not pictures)
            or (2 * words <= self.sizes[self.root][0] and _is_named_furniture(node))
        )

    def say(self, text: str) -> None:
        """Add text, with white space as a browser shows it."""
        spaced = _SPACES.sub(" ", text)
        if spaced.strip():
            is_apart = (self.gap or spaced[0] == " ") and not self.is_blank()
            self.words.append(" " * is_apart + spaced.strip(" "))
            self.length += len(self.words[-1])
        self.gap = spaced[-1:] == " " or (not spaced.strip() and (self.gap or spaced != ""))

    def is_blank(self) -> bool:
        """Whether the last line has no words yet."""
        return self.words[-1:] in ([], ["\n"])

    def line(self) -> None:
        """End a line; a line without words ends the block, as does the end of a very long one."""
        if not self.is_blank() and (self.at.is_flat or len(self.words) < _MOST_PIECES):
            self.words.append("\n")
            self.length += 1
            self.gap = False
        elif not self.at.is_flat:
            self.flush()

    def picture(self, node: Element) -> None:
        targets = _targets(node)
        alt = _plain(node.get("alt") or "")
        alt = "" if alt.lower() == "untitled" else alt
        if "emoji" in _names(node):
            self.say(alt)
        elif all(map(stands_in, targets)) and self.is_asked(node, alt):
            at = self.at
            where = {"depth": at.depth, "quoted": at.quoted, "lines": at.lines, "group": at.group}
            self.wanted.append(changed(place_for(alt), **where))
            self.gap = True
        elif not targets or {node.get("width"), node.get("height")} <= {"0", "1"}:
            self.left_out.append(LeftOut("page furniture", alt, tuple(targets[:1])))
        else:
            links = [target for _, target, _ in self.open if _PICTURE_FILE.fullmatch(target)]
            refs = [self.find(target, alt) for target in (*targets, *links)]
            shown = self.length, next((ref for ref in refs if ref.path or ref.data), refs[0])
            self.pictures += [] if shown in self.pictures[-1:] else [shown]
            self.gap = True

    def is_asked(self, node: Element, alt: str) -> bool:
        """Whether a picture without an address is a place for one; others are loaded later, or links."""
        late = any(name.startswith(("data-", ":", "v-bind", "ng-")) for name in node.keys())  # noqa: SIM118
        after = node.getnext()
        late = (
            late
            or (after is not None and after.tag == "noscript")
            or next(node.iterancestors("a"), None) is not None
        )
        return not (late or self.at.is_aside) and bool(
            said(alt) or self.at.lines or next(node.iterancestors("figure"), None) is not None
        )

    def closed(self, marks: Sequence[tuple[_Kind, str, int]]) -> list[Mark]:
        return [Mark(start=start, end=self.length, kind=kind, target=target) for kind, target, start in marks]

    def taken(self) -> Block:
        """The text since the last block, with its marks."""
        text = "".join(self.words)
        marks = []
        for mark in sorted([*self.marks, *self.closed(self.open)], key=lambda mark: (mark.start, -mark.end)):
            piece = text[mark.start : mark.end]
            if words := piece.strip():
                start = mark.start + piece.index(words)
                marks.append(mark.model_copy(update={"start": start, "end": start + len(words)}))
        self.words, self.length, self.gap, self.marks = [], 0, False, []
        self.open = [(kind, target, 0) for kind, target, _ in self.open]
        return Block(text=text, marks=tuple(marks))

    def flush(self) -> None:
        """End a block with the text and pictures since the last one."""
        if self.at.is_flat:
            self.line()
            return
        wanted, self.wanted = self.wanted, []
        if self.words or self.pictures:
            pictures, self.pictures = self.pictures, []
            end = self.length - self.is_blank()
            block = strip(self.taken())
            is_caption = is_marked(block.text, block.marks, "emphasis")
            end = -1 if is_caption or self.at.level else end
            if self.at.level:  # a heading is one line
                block = changed(block, text=block.text.replace("\n", " "))
            inside = tuple(picture for place, picture in pictures if place <= end)
            alone = [Block(kind="picture", pictures=(picture,)) for place, picture in pictures if place > end]
            text = [changed(block, pictures=inside)] if block.text else []
            for part in [*alone, *text] if is_caption else [*text, *alone]:
                self.add(part)
        self.blocks += wanted

    def add(self, block: Block) -> None:
        """Add a block at the place of the walk; words right below a picture may be its caption."""
        last = self.blocks[-1] if self.blocks else Block()
        words = block.text.strip()
        if block.kind == "paragraph" and not block.pictures:
            below = last.kind == "picture" and last.pictures[-1].target and _is_caption_line(block, last)
            if last.pictures and not last.pictures[-1].caption and (self.at.is_caption or below):
                picture = last.pictures[-1].model_copy(update={"caption": words})
                lines = last.lines and (last.lines[0], (self.at.lines or last.lines)[1])
                self.blocks[-1] = changed(last, pictures=(*last.pictures[:-1], picture), lines=lines)
                return
            is_code = _SHORTCODE.fullmatch(words) and re.search("[=_/-]", words) and asked_in(words) is None
            if is_furniture(words) or is_code:
                self.left_out.append(LeftOut("page furniture", words))
                return
        at = self.at
        role = "aside" if at.is_aside else ""
        block = changed(block, depth=at.depth, quoted=at.quoted, lines=at.lines, group=at.group, role=role)
        if self.at.level and block.kind == "paragraph":
            block = changed(block, kind="heading", level=self.at.level)
        elif self.item is not None and words:
            place, self.item = self.item, None
            if block.kind == "paragraph":  # the words of the item, perhaps below its pictures
                self.blocks[place] = changed(block, kind="item", number=self.blocks[place].number)
                return
        self.blocks.append(block)


def _is_caption_line(block: Block, picture: Block) -> bool:
    """Whether a paragraph right below a picture is its caption: emphasised, numbered, or its description."""
    if len(block.text) > _LONGEST_CAPTION or role_of(block.text) is not None:
        return False
    same = letters(block.text) == letters(picture.pictures[-1].alt) != ""
    return same or is_marked(block.text, block.marks, "emphasis") or _FIGURE.match(block.text) is not None


def _link(node: Element) -> str:
    """Address of a link, also of one that Google Docs redirects; "" for a place of the same page."""
    target = (node.get("href") or "").strip()
    if target.startswith("https://www.google.com/url?"):
        target = parse_qs(urlsplit(target).query).get("q", [target])[0]
    return "" if target.lower().startswith(("#", "javascript:")) else target


def _targets(node: Element) -> list[str]:
    """Addresses at which a picture may be found, the one that the page shows first; no placeholders."""
    late = [node.get(name) or "" for name in ("data-src", "data-lazy-src", "data-original")]
    shown = [node, *(source for parent in node.iterancestors("picture") for source in parent.iter("source"))]
    sets = [item.get(name) or "" for item in shown for name in ("data-srcset", "data-lazy-srcset", "srcset")]
    others = (
        value for name, value in node.items() if name.startswith("data-") and _PICTURE_FILE.fullmatch(value)
    )
    stated = [*late, node.get("src") or "", *chain.from_iterable(map(_sized, sets)), *others]
    targets = list(dict.fromkeys(filter(None, map(str.strip, stated))))
    return [target for target in targets if not _PLACEHOLDER.search(target)] or targets[:1]


def _sized(srcset: str) -> list[str]:
    """The addresses of a srcset, ``a.jpg 480w, b.jpg 2x``, the largest first."""
    candidates = filter(None, map(str.split, re.split(r",\s", srcset)))
    sized = sorted(candidates, key=lambda words: _integer(words[-1].rstrip(",")[:-1], 0), reverse=True)
    return [words[0].rstrip(",") for words in sized]


def _lines(node: Element) -> tuple[int, int] | None:
    """Source lines of an element, if it was made from another format."""
    stated = node.get(LINES) or (node[0].get(LINES) if node.tag == "pre" and len(node) else None)
    match = re.fullmatch(r"([0-9]{1,7})-([0-9]{1,7})", stated or "")
    return None if match is None else (int(match[1]), int(match[2]))


def _integer(value: str | None, default: int) -> int:
    return int(value) if value and re.fullmatch(r"\s*-?\d{1,9}\s*", value) else default
