"""Reads Markdown as people write it, by way of HTML.

Front matter, then CommonMark with tables, footnotes, containers and admonitions by markdown-it-py. What else
GitHub, Obsidian, Hugo, Jekyll and Notion add is one table of patterns, whose matches become CommonMark or
furniture before the parser sees them. No replacement changes the number of lines.
"""

import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from html import escape
from itertools import pairwise

import yaml
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.container import container_plugin
from mdit_py_plugins.footnote import footnote_plugin

from limner.errors import DataError, counted
from limner.records import Block, Role
from limner.text.blocks import CREDITS, Document, Find, LeftOut
from limner.text.edit import without_inserted
from limner.text.lines import SENTENCE
from limner.text.markup import ASIDE, LINES, blocks_of, parse_tree
from limner.text.wanted import asked_in, before_mark, stands_in
from limner.text.words import role_of

_MAX_NESTING, _MAX_LINES = 60, 80_000
_MOST = {"*_~": 100_000, "[": 20_000}
"""Number of signs in one paragraph up to which the parser is quick."""
_FRONT = re.compile(r"\A(---|\+\+\+)[ \t]*\n(.*?)^(?:\1|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_LONGEST_FRONT = 50_000
_ALIAS = re.compile(r"[\[{,:-][ \t]*\*\w")
_OTHER_NAMES = {"authors": "author", "licence": "license", "lang": "language", "dir": "direction"}
_BOXES = (
    "note|tip|hint|info|important|success|warning|caution|danger|error|seealso|attention|notice|callout|alert"
    "|admonition|example|quote|question|todo|abstract|summary|bug|failure"
)
_BOX = re.compile(rf"[ \t]*\{{?\.?(?:callout-)?({_BOXES})\b(.*)", re.IGNORECASE)
_CALLOUT = re.compile(r"\[!([\w -]+)\][+-]?[ \t]*(.*)")
_BOLD = re.compile(r"(\*\*|__)(?!\s)(?:(?!\1).)+\1:?")
_IMAGE = re.compile(r"!\[[^\[\]\n]*\]\([^\n]*\)")
_EMPHASIS = re.compile(r"([*_])(?![*_\s])[^\n]+\1")
_LONGEST_HEADING = 80


def read_markdown(text: str, where: str, find: Find) -> Document:
    r"""Read a Markdown text.

    Args:
        text: the decoded file.
        where: its name, for messages.
        find: finds the files of pictures.
    Returns:
        The document; its blocks know their source lines, except what stands in front matter.
    Raises:
        DataError: it is nested too deeply, or has more lines, emphasis or brackets than a readable text.

    Example:
        >>> story = limner.read("# Tea\n\n1. Boil *water*.", format="markdown")
        >>> [(block.kind, block.text, block.lines) for block in story.blocks]
        [('item', 'Boil water.', (2, 3))]
    """
    document = Document()
    document.markdown, inserted = without_inserted(text)
    if inserted:
        document.notes.append(
            f"{counted(inserted, 'picture')} inserted by an earlier export left out; they are chosen again"
        )
    body = re.sub(r"\r\n?", "\n", document.markdown.removeprefix("\ufeff")).replace("\0", "\ufffd")
    fields: dict[object, object] = {}
    if (front := _FRONT.match(body)) and (stated := _stated(front[1], front[2], document.notes)) is not None:
        fields, body = stated, "\n" * front[0].count("\n") + body[front.end() :]
    html = _html(_common(body, document.left_out), where)
    if html.strip():
        document.blocks = blocks_of(parse_tree(f"<div>{html}</div>", where), find, document.left_out)
    _take(fields, document, find)
    return document


def _stated(mark: str, text: str, notes: list[str]) -> dict[object, object] | None:
    """Fields of front matter; None if it is none, but text between two rules."""
    data: object
    try:
        # An alias can stand for millions of texts.
        if len(text) > _LONGEST_FRONT or _ALIAS.search(text):
            raise ValueError
        # BaseLoader: every value remains text (`no` is not False), and no object is created.
        data = tomllib.loads(text) if mark == "+++" else yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506
    except (yaml.YAMLError, ValueError, RecursionError):
        data = dict(re.findall(r"^([A-Za-z][\w-]*)[ \t]*[:=][ \t]*(.*\S)", text, re.MULTILINE)) or None
        notes += ["front matter is not YAML or TOML: read line by line"] if data else []
    if not text.strip():
        return {}
    return dict(data) if isinstance(data, dict) else None


def _take(fields: dict[object, object], document: Document, find: Find) -> None:
    """Add metadata, the cover, and the ingredients and directions that front matter states."""
    sections: dict[str, list[Block]] = {"supplies": [], "method": []}
    for key, value in fields.items():
        lower, lines = str(key).lower(), list(_strings(value))
        name, role = _OTHER_NAMES.get(lower, lower), role_of(lower.replace("_", " ").replace("-", " "))
        listed = isinstance(value, list) or len("".join(lines).splitlines()) > 1
        if lower in ("image", "images", "cover", "thumbnail", "featured_image", "featuredimage"):
            stated = value if isinstance(value, dict) else {}
            of, alt = stated.get("image", stated.get("src")), str(stated.get("alt") or "")
            first, *others = [str(of)] if of else lines or [""]
            document.cover = document.cover or (None if stands_in(first) else find(first, alt))
            document.left_out += [LeftOut("page furniture", "", tuple(others))] if others else []
        elif name in CREDITS and lines and not getattr(document, name):
            setattr(document, name, ", ".join(lines))
        elif name == "direction" and value in ("rtl", "ltr"):
            document.direction = "rtl" if value == "rtl" else "ltr"
        elif role in sections and listed:
            sections[role].append(
                Block(kind="heading", text=str(key).replace("_", " ").capitalize(), level=2)
            )
            for number, line in enumerate("\n".join(lines).split("\n"), 1):
                text = line.strip().removeprefix("- ").strip()
                count = number if role == "method" else None
                sections[role] += [Block(kind="item", text=text, depth=1, number=count)] if text else []
        else:
            document.left_out.append(LeftOut("page furniture", ", ".join(lines)))
    document.blocks += sections["supplies"] + sections["method"]


def _strings(value: object) -> Iterator[str]:
    """All texts of a field of front matter; an object is one text."""
    if isinstance(value, dict):
        yield " ".join(text for each in value.values() for text in _strings(each))
    elif isinstance(value, list):
        yield from (text for each in value for text in _strings(each))
    elif str(value).strip():
        yield str(value).strip()


def _wiki_picture(match: re.Match[str]) -> str:
    """``![[a.jpg|At sea|300]]`` as a picture; the number is its width."""
    parts = [part.strip() for part in (match[2] or "").split("|")]
    alt = " ".join(part for part in parts if not re.fullmatch(r"\d+(?:x\d+)?", part))
    return f"![{alt}](<{match[1].strip()}>)"


def _figure(match: re.Match[str]) -> str:
    """``{{< figure src="a.jpg" caption="At sea" >}}`` as a picture with its caption."""
    stated = {name: a or b for name, a, b in re.findall(r"(\w+)=(?:\"([^\"]*)\"|([^\s\"]+))", match[0])}
    source = next((stated[name] for name in ("src", "url", "image_path", "image") if name in stated), "")
    caption = escape(stated.get("caption") or stated.get("title") or "")
    image = f'<img src="{escape(source)}" alt="{escape(stated.get("alt", ""))}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"


def _asked(match: re.Match[str]) -> str:
    """``<photo of the oven>``, which would be a tag, as ``[photo of the oven]``."""
    return match[0] if asked_in(match[0]) is None else f"[{match[1]}]"


_PROPERTY = (
    "(?:created|date|last edited|tags?|status|updated|published|priority|type|category|url|owner|assign)"
)
_PICTURE_NAME = r"[^\[\]|\n]+\.(?i:avif|bmp|gif|heic|jpe?g|png|svg|tiff?|webp)"
_FURNITURE = None
_DIALECTS: tuple[tuple[str, str | Callable[[re.Match[str]], str] | None], ...] = (
    # places for pictures
    (r"<([^<>!/\n][^<>\n]{0,400})>", _asked),
    # Notion: properties below the title; the name of a picture without one
    (rf"(?im)(?<=\n\n)^{_PROPERTY}[\w ]*: .*$(?:\n[A-Z][\w ]{{0,30}}: .*$)*(?=\n\n)", _FURNITURE),
    (r"(?<=!\[)Untitled(?: \d+)?(?=\]\()", ""),
    # Obsidian: comments, pictures and their widths, embedded notes, links, highlights, tags, names of blocks
    (r"%%(?:(?!%%)[^\0]){1,5000}%%", _FURNITURE),
    (rf"!\[\[({_PICTURE_NAME})(?:\|([^\[\]\n]*))?\]\]", _wiki_picture),
    (r"!\[\[[^\[\]\n]+\]\]", _FURNITURE),
    (r"(?im)^[ \t]*\[\[?_?toc_?\]\]?[ \t]*$|^[*-] toc\n\{:toc\}", _FURNITURE),
    (r"\[\[(?:[^\[\]|\n]+\|)?([^\[\]|\n]+)\]\](?![(\[])", r"\1"),
    (r"\|\d+(?:x\d+)?(?=\]\([^)\n])", ""),
    (r"(?<![\w=])==(?=[^\s=])([^=\n]*[^\s=])==(?![\w=])", r"\1"),
    (r"(?m)^ {0,3}(?:#[^\W\d_][\w/-]*[ \t]*)+$", _FURNITURE),
    (r"(?m)[ \t]\^[\w-]+[ \t]*$", ""),
    # Hugo and Jekyll: figures, boxes, everything else
    (r"\{\{[<%]\s*(?:figure|img|image)\b[^{}]*\bsrc=[^{}]*\}\}", _figure),
    (r"\{%\s*include\s[^{}]*\b(?:src|url|image_path|image)=[^{}]*%\}", _figure),
    (rf"(?m)^[ \t]*\{{\{{[<%]\s*({_BOXES})\b[^{{}}]*\}}\}}[ \t]*$", r"::: \1"),
    (rf"(?m)^[ \t]*\{{\{{[<%]\s*/\s*(?:{_BOXES})\b[^{{}}]*\}}\}}[ \t]*$", ":::"),
    (r"(?s)\{%-?\s*comment\b[^%]*%\}(?:(?!\{%).)*\{%-?\s*endcomment\b[^%]*%\}", _FURNITURE),
    (r"\{\{[<%][^{}]*[>%]\}\}|\{%[^{}]*%\}|\{\{[^{}\n]*\}\}", _FURNITURE),
    # kramdown and pandoc: attributes
    (r"\{:[^{}\n]*\}|(?<=\))\{[^{}\n]*\}|(?m:(?<=[^\s:])[ \t]+\{[#.:][^{}\n]*\}[ \t]*$)", ""),
    # tasks of GitHub
    (r"(?m)^([ \t>]*(?:[-+*]|\d{1,9}[.)])[ \t]+)\[ \][ \t]+(?=\S)", r"\1☐ "),
    (r"(?m)^([ \t>]*(?:[-+*]|\d{1,9}[.)])[ \t]+)\[[xX]\][ \t]+(?=\S)", r"\1☑ "),
)
"""What other dialects add to CommonMark, and what becomes of it: a replacement, or furniture of the page."""
_CODE = re.compile(
    r"^[ \t>]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})(?:.*?^[ \t>]*\1[`~]*[ \t]*$|.*\Z)"
    r"|(`+)(?!`)[^\n]{1,1000}?(?<!`)\2(?!`)|\\[!-/:-@\[-`{-~]",
    re.MULTILINE | re.DOTALL,
)


_HELD = re.compile("\0(\\d+)\0")


def _common(body: str, left_out: list[LeftOut]) -> str:
    """A text without what CommonMark does not know, outside code, with as many lines as before."""
    held: list[str] = []

    def hold(match: re.Match[str]) -> str:
        held.append(match[0])
        return f"\0{len(held) - 1}\0"

    def restore(match: re.Match[str]) -> str:
        return held[int(match[1])]

    def leave_out(match: re.Match[str]) -> str:
        left_out.append(LeftOut("page furniture", _HELD.sub(restore, match[0]).strip()))
        return "\n" * match[0].count("\n")

    body = re.sub(r"(?m)^\{%-?\s*(?:end)?highlight\b\s*(\w*).*$", r"```\1", body)
    body = _CODE.sub(hold, body)
    for pattern, becomes in _DIALECTS:
        body = re.sub(pattern, leave_out if becomes is _FURNITURE else becomes, body)
    return _HELD.sub(restore, body)


def _html(body: str, where: str) -> str:
    """HTML of a text whose elements state their source lines.

    Raises:
        DataError: the parser would take very long, or leave out what is nested too deeply.
    """
    parts = body.split("\n\n")
    signs = max(sum(map(part.count, each)) / most for part in parts for each, most in _MOST.items())
    if body.count("\n") > _MAX_LINES or signs > 1 or sum(map(body.count, "*_~[")) > 5 * _MOST["*_~"]:
        raise DataError(
            f"{where}: has more lines, emphasis or brackets than a readable text; read it as plain text"
        )
    parser, env = _parser(), dict[str, object]()
    tokens = parser.parse(body, env)
    if any(token.level >= _MAX_NESTING - 2 for token in tokens):
        raise DataError(f"{where}: nested deeper than {_MAX_NESTING // 2} lists or quotes; flatten it")
    urls = sum(
        len(str(value))
        for token in tokens
        for inner in token.children or ()
        for value in inner.attrs.values()
    )
    if urls > len(body) + 2_000_000:  # a link that is defined once is repeated where it is used
        raise DataError(f"{where}: repeats the addresses of its links too often; read it as plain text")
    html: str = parser.renderer.render(tokens, parser.options, env)
    return html


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable(["table", "strikethrough"])
    # No link is followed, and a picture's address must stay exactly as written.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    parser.use(footnote_plugin, inline=False, move_to_end=False)
    parser.use(container_plugin, "box", validate=lambda info, _: bool(info.strip(": \t")))
    parser.use(admon_plugin)
    parser.core.ruler.after("block", "dialects", _prepare)
    parser.core.ruler.push("footnotes", _mark_footnotes)
    return parser


def _mark_footnotes(state: StateCore) -> None:
    for token in state.tokens:
        for inner in token.children or ():
            if inner.type == "footnote_ref":
                inner.type, inner.content = "html_inline", f"<sup>[{escape(inner.meta['label'])}]</sup>"


def _prepare(state: StateCore) -> None:
    """Give elements their lines, mark asides, and divide paragraphs at lines that are more than lines."""
    tokens: list[Token] = []
    lines, skip = state.src.split("\n"), 0
    role: Role | None = None
    for token, inline in pairwise([*state.tokens, Token("", "", 0)]):
        skip -= 1
        if skip >= 0:  # in a paragraph that was divided
            continue
        if token.map is not None and token.nesting >= 0:
            token.attrSet(LINES, f"{token.map[0]}-{token.map[1]}")
        if token.type == "paragraph_open":  # shown in lists without empty lines, too
            tokens += _paragraphs(token, inline, tokens[-1] if tokens else token, role)
            role = role_of(inline.content.strip("*_")) or role
            skip = 2
            continue
        tokens.append(token)
        if token.type == "heading_open":
            role = role_of(inline.content)
        if token.type == "html_block":
            token.content = f'<meta {LINES}="{token.attrGet(LINES)}">' + _ASIDE.sub(_aside, token.content)
        elif token.type.startswith("footnote_reference"):
            token.content = f'<div {ASIDE}="">' if token.nesting > 0 else "</div>\n"
            token.type, token.nesting = "html_block", 0
        elif token.type == "admonition_open":
            token.attrSet(ASIDE, "")
        elif token.type == "container_box_open" and token.map:
            box = _BOX.match(token.info)
            if box and any(":::" in line for line in lines[token.map[1] : token.map[1] + 1]):
                token.attrSet(ASIDE, "")
                stated = re.search(r"\btitle=\"([^\"]*)\"|\A([^=]*)\Z", box[2])
                title = (stated[1] or stated[2] or "").strip(" \t[]{}\"'") if stated else ""
                tokens += _paragraph(f"**{title or box[1].capitalize()}**", token.map[0], 1)
    state.tokens = tokens


def _aside(match: re.Match[str]) -> str:
    """A box of Notion, which is a part of the text, not the margin of a page."""
    return "</div" if match[1] else f'<div {ASIDE}=""'


def _paragraph(content: str, line: int, count: int) -> list[Token]:
    start = Token("paragraph_open", "p", 1, attrs={LINES: f"{line}-{line + count}"})
    return [start, Token("inline", "", 0, content=content, children=[]), Token("paragraph_close", "p", -1)]


def _paragraphs(token: Token, inline: Token, around: Token, role: Role | None) -> Iterator[Token]:
    """A paragraph, divided at pictures on lines of their own, at headings, and at sentences of a method."""
    content = inline.content
    if around.type == "blockquote_open" and (match := _CALLOUT.match(content)):
        around.attrSet(ASIDE, "")
        title = (match[2] or match[1].capitalize()).strip().rstrip(":")
        content = f"**{title}:**{content[match.end() :]}"
    elif "label" in around.meta:
        label = re.sub(r"([^\w\s])", r"\\\1", around.meta["label"])
        content = f"\\[{label}\\] {content}"
    start, lines = token.map[0] if token.map else 0, content.split("\n")
    bare = [line.removesuffix("\\").strip() for line in lines]
    heads = list(map(_is_head, bare))
    pictured = [_IMAGE.fullmatch(line) is not None or asked_in(line) is not None for line in bare]
    is_divided = any(heads) and not all(heads) and ASIDE not in around.attrs
    is_divided |= (
        role == "method"
        and not token.level
        and all(SENTENCE.search(before_mark(line).rstrip("*_")) for line in bare)
    )
    cuts, width = [0], max(map(len, bare))
    for place, (before, line) in enumerate(pairwise(bare), 1):
        captioned = _IMAGE.fullmatch(before) and _EMPHASIS.fullmatch(line)
        is_hard = lines[place - 1].strip(" ") != before or lines[place - 1].endswith("  ")
        wraps = not (is_hard or heads[place - 1] or heads[place]) and _wraps(before_mark(before), line, width)
        if ((pictured[place] or pictured[place - 1]) and not captioned) or (is_divided and not wraps):
            cuts.append(place)
    for begin, end in pairwise([*cuts, len(lines)]):
        yield from _paragraph("\n".join([*lines[begin : end - 1], bare[end - 1]]), start + begin, end - begin)


_ASIDE = re.compile(r"<(/?)aside\b")


def _is_head(line: str) -> bool:
    """Whether a line of a paragraph is a heading: wholly bold, or a role word."""
    words = re.sub(r"[*_]{2}", "", line)
    bold = _BOLD.fullmatch(line) and len(words) <= _LONGEST_HEADING and not re.search(r"[.!…;,。！]$", words)
    return bool(bold) or role_of(words) is not None


def _wraps(line: str, after: str, width: int) -> bool:
    """Whether a line goes on in the next only because there was no more space."""
    is_full = len(line) + 1 + len((after.split() or [""])[0]) > width
    return is_full and re.search(r"[.!?…:;。！？]$", line) is None
