"""Places at which an author asks for a picture: ``![the oven]()``, ``[photo: the oven]``, ``TODO photo``.

What such a mark is, is decided here for every format. Readers report one as a picture without an address;
`limner.text.segment` makes each a block of the kind "wanted" and a step of its own.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import unescape
from itertools import pairwise

from limner.records import Block, PictureRef
from limner.text.blocks import changed, cut, pictures_of, strip
from limner.text.words import words_for

_LONGEST = 400
_STAND_IN = re.compile(r"#|todo|tbd|url|\.{3}|…|https?:(?://)?", re.IGNORECASE)
_TODO = re.compile(r"todo\b[\s:：–-]*|\|\d+(?:x\d+)?$", re.IGNORECASE)
_SAYS_NOTHING = re.compile(
    r"(?:tbd|alt|alt[ -]?text|untitled|caption|description|(?:image|img|picture|photo|foto|bild)"
    r"[ _-]?\d{0,2}(?:\.\w{3,4})?|[\W\d_]*)",
    re.IGNORECASE,
)
_FILE_NAME = re.compile(r"\S+\.(?:avif|gif|heic|jpe?g|png|tiff?|webp)|[A-Z]{2,5}[_-]?\d{3,}", re.IGNORECASE)
_CREDIT = re.compile(r"©|\(c\)|courtesy\b|credits?\s*:|copyright\b|(?-i:by\s+[A-Z])|автора?\b", re.IGNORECASE)
_BRACKETS = rf"[\[<［【]([^\[\]<>［］【】]{{1,{_LONGEST}}})[\]>］】][.。]?"
_MARK = re.compile(rf"{_BRACKETS}|TODO\b([^\[\]\n]{{1,{_LONGEST}}})")
_OPENS = re.compile(r"[\[<［【]|\bTODO\b")
_ROUND = re.compile(
    r"\((?:(?:insert|add|put|place)\s+)?(?:(?:a|an|the)\s+)?(?:photo|picture|image|illustration|drawing|screenshot)s?"
    rf"\s+of\s+([^()]{{1,{_LONGEST}}}?)(?:\s+(?:goes\s+)?here)?\.?\)\.?",
    re.IGNORECASE,
)
_BARE = re.compile(rf"!\[([^\[\]]{{0,{_LONGEST}}})\]")
_COMMENT = re.compile(
    r"[^:：]*(?<!section)[:：](?!.*\b(?:start|end|begin|block|section|header|footer)\b)", re.DOTALL
)
_SOURCE = re.compile(
    r"(?P<code>`[^`\n]*`)|!\[(?P<alt>(?:[^\[\]\\]|\\.|\[[^\[\]]*\])*)\]"
    r"(?:\((?P<target>[^()\s]*)(?:\s+[\"'][^\"'()\n]*[\"'])?\s*\)|\[[^\[\]\n]*\])?"
    r"|<!--(?P<comment>[^<>]*)-->|<figure\b[^<>]*>(?P<figure>(?:(?!</?figure).)*)</figure>"
    r"|(?P<img><img\b[^<>]*>|\{\{[<%][^{}]*\}\}|\{%[^{}]*%\})"
    r"|\\?[\[<［【](?:[^\[\]<>［］【】]|</?\w+>)*[\]>］】]|\([^()\n]*\)|TODO\b[^\r\n\[\]]*?(?=[*_~=\s]*(?:\r|\n|\Z))",
    re.DOTALL,
)
_ALT = re.compile(r"\b(?:alt|caption)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"']+))", re.IGNORECASE)
_TAG = re.compile(r"</?\w[^<>]*>")
_SENTENCE = re.compile(r"[.!?…:。！？]\W*$")


def stands_in(target: str) -> bool:
    """Whether the address of a picture is missing, or only stands in for one: "", ``todo``, ``#``."""
    return not target.strip() or _STAND_IN.fullmatch(target.strip()) is not None


def said(words: str) -> str:
    """What the words of a mark say is to be seen; "" if they say nothing, such as ``TODO``."""
    whole = " ".join(words.split())
    words = _TODO.sub("", whole).strip(" :：–—-")
    asks = whole[:4].lower() == "todo" or re.match(r"\w[^:：]{0,20}[:：]", words)
    words = (_requested(words) or words) if asks else words
    return "" if _SAYS_NOTHING.fullmatch(words) else words


def describes(words: str) -> bool:
    """Whether words say what is to be seen, and are not only the name of a file."""
    return bool(words) and _FILE_NAME.fullmatch(words) is None


def place_for(words: str) -> Block:
    """A place for a picture, as readers report it."""
    return Block(kind="picture", pictures=(PictureRef(target="", alt=said(words)),))


def is_place(block: Block) -> bool:
    """Whether a block is a place for a picture."""
    return block.kind == "wanted" or (block.kind == "picture" and block.pictures[0].target == "")


@cache
def _request() -> re.Pattern[str]:
    """Pattern of words that ask for a picture: "insert photo 3: the oven", "picture of the oven here"."""

    def either(kind: str) -> str:
        return "|".join(map(re.escape, sorted(words_for(kind), key=len, reverse=True)))

    ends, here, picture = r"(?:\s+|(?<=')|(?<=[^\x00-\u04ff]))", either("picture_here"), either("picture")
    return re.compile(
        rf"(?:(?:{either('picture_ask')}){ends})*(?:{picture})(?:(?={here})|(?!\w))(?:\s*(?:no\.|nr\.|#)?\s*\d{{1,3}})?"
        rf"(?:\s*(?:{here}))*(?:\s*[:：]\s*(?P<colon>.*)|\s+[–—-]\s+(?P<dash>.*)"
        rf"|\s+(?P<word>{either('picture_of')}){ends}(?P<of>.+?)(?:\s+(?:{here}))*|\s+(?P<case>[\u0400-\u06ff].*)|)"
        rf"|(?P<whole>.+)[の的](?:{picture})",
        re.IGNORECASE | re.DOTALL,
    )


def _requested(text: str) -> str | None:
    """Words of a request for a picture, without its brackets; None for any other text and for credits."""
    text = _TODO.sub("", text.replace("’", "'").strip()).lstrip(" :：–-")
    match = _request().fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    words = next(filter(None, match.group("colon", "dash", "of", "case", "whole")), "").strip()
    names = [word[0].isupper() for word in words.split()]
    is_name = (match["word"] or "").lower() in ("von", "de", "di", "van") and len(names) > 1 and all(names)
    return None if is_name or _CREDIT.match(words) else words


def asked_in(line: str) -> str | None:
    """Words of a line that is only a mark, "" if it has none; None for any other line.

    Example:
        >>> asked_in("[photo: hands folding the dough]"), asked_in("TODO: insert image here")
        ('hands folding the dough', '')
        >>> asked_in("Photo: Maria Keller"), asked_in("[Photo by Maria Keller]")
        (None, None)
    """
    line = line.strip()
    if len(line) > 2 * _LONGEST:
        return None
    if match := _BARE.fullmatch(line) or _ROUND.fullmatch(line):
        return said(match[1])
    match = _MARK.fullmatch(re.sub(r"^todo\b", "TODO", line, flags=re.IGNORECASE))
    words = _requested(match[1] or match[2]) if match else None
    return None if words is None else said(words)


def asked_in_comment(text: str) -> str | None:
    """Words of a comment ``photo: the oven``, but for those of page templates; None for any other."""
    return asked_in(f"[{text.strip()}]") or None if _COMMENT.match(text) else None


def before_mark(line: str) -> str:
    """A line without the mark at its end."""
    spans = [*_spans(Block(text=line))]
    return line[: spans[0][0]].rstrip() if spans else line


def marks_in(source: str, start: int = 0) -> Iterator[tuple[int, int, str]]:
    """Start, end and words of what may be marks in a Markdown source, from a position on."""
    for match in _SOURCE.finditer(source, start):
        alt, html = match["alt"], match["figure"] or match["img"]
        if html:
            found = _ALT.search(html)
            alt = next(filter(None, found.groups()), "") if found else ""
            alt = unescape(alt or _TAG.sub("", html))
        if match["code"]:
            continue
        if alt is not None:
            words = (
                said(re.sub(r"\\([^\w\s])", r"\1", unescape(alt)))
                if stands_in(match["target"] or "")
                else None
            )
        elif match["comment"] is not None:
            words = asked_in_comment(match["comment"])
        else:
            words = asked_in(re.sub(r"\\(?=[^\w\s])|[*_~`]|</?\w+>", "", unescape(match[0])))
        if words is not None:
            yield *match.span(), words


def with_places(blocks: Sequence[Block]) -> list[Block]:
    """Blocks in which each mark among the words is a place of its own; what stands around it stays.

    Lines below a picture that the text shows name its author, up to the next text.
    """
    made: list[Block] = []
    below = False
    for block in blocks:
        pieces = [block]
        if block.kind in ("paragraph", "item", "heading") and block.text:
            below = bool(block.pictures) or (below and all(map(_may_credit, block.text.split("\n"))))
            is_open = not (below or block.role == "aside" or block.text.startswith(("☐", "☑")))
            pieces = _divided(block) if is_open else pieces
        elif block.kind != "break":
            below = any(picture.target for picture in pictures_of([block])) or (below and is_place(block))
        made += pieces
    return made


def _may_credit(line: str) -> bool:
    """Whether a line below a picture may name its author: "[Photo: M. Keller]", "Photo: city archive"."""
    return asked_in(line) is not None or asked_in(f"[{line}]") is not None


def _divided(block: Block) -> list[Block]:
    """A block in pieces: places, and the words around them."""
    spans = list(_spans(block))
    pieces: list[Block] = []
    around = {"depth": block.depth, "quoted": block.quoted, "lines": block.lines, "group": block.group}
    edges = [0, *(edge for start, end, _ in spans for edge in (start, end)), len(block.text)]
    words = [strip(cut(block, start, end)) for start, end in list(pairwise(edges))[::2]]
    for place, piece in enumerate(words):
        other = {"kind": "paragraph", "number": None, "level": 0} if pieces else {}
        pieces += [changed(piece, **other)] if any(map(str.isalnum, piece.text)) else []
        pieces += [changed(place_for(spans[place][2]), **around)] if place < len(spans) else []
    return pieces if spans else [block]


def _spans(block: Block) -> Iterator[tuple[int, int, str]]:
    """Start, end and words of each mark in a block: a line, the end of a line, or the whole block."""
    text = block.text
    barred = [mark for mark in block.marks if mark.kind in ("link", "code", "struck", "above")]
    if (words := asked_in(text.replace("\n", " "))) is not None and not barred:
        yield 0, len(text), words
        return
    end = 0
    for line in text.split("\n"):
        start, end = end, end + len(line) + 1
        found: list[tuple[int, int, str]] = []
        until = len(line.rstrip())
        if (words := asked_in(line)) is not None:
            found, until = [(start, start + len(line), words)], 0
        for opening in reversed([*_OPENS.finditer(line)]):
            match = _MARK.fullmatch(line, opening.start(), until)
            asked = _requested(match[1] or match[2]) if match else None
            before = line[: opening.start()].rstrip()
            stands = opening.start() in (0, len(before) + 1) or not before[-1:].isalnum()
            if asked is None or not stands or (before and not (asked or _SENTENCE.search(before))):
                break
            found.insert(0, (start + opening.start(), start + until, said(asked)))
            until = len(before.rstrip(" ,;"))
        yield from (one for one in found if not any(m.start < one[1] and m.end > one[0] for m in barred))
