"""Places at which an author asks for a picture: ``![the oven]()``, ``[photo: the oven]``, ``TODO photo``.

What such a mark is, is decided here for every format. Readers report one as a picture without an address;
`limner.text.segment` makes each a block of the kind "wanted" and a step of its own.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from limner.records import Block, PictureRef
from limner.text.blocks import changed, cut, pictures_of, strip
from limner.text.words import words_for

_LONGEST = 400
_STAND_IN = re.compile(r"#|todo|tbd|url|\.{3}|…|https?:(?://)?", re.IGNORECASE)
_SAYS_NOTHING = re.compile(
    r"(?:todo|tbd|alt|alt[ -]?text|untitled|caption|description|(?:image|img|picture|photo|foto|bild)"
    r"[ _-]?\d{0,2}(?:\.\w{3,4})?|[\W\d_]*)",
    re.IGNORECASE,
)
_FILE_NAME = re.compile(r"\S+\.(?:avif|gif|heic|jpe?g|png|tiff?|webp)|[A-Z]{2,5}[_-]?\d{3,}", re.IGNORECASE)
_CREDIT = re.compile(r"(?:©|\(c\)|by\b|courtesy\b|credits?\b|copyright\b|source\b|via\b)", re.IGNORECASE)
_BRACKETS = rf"[\[<［【]([^\[\]<>［］【】]{{1,{_LONGEST}}})[\]>］】][.。]?"
_ALONE = re.compile(rf"{_BRACKETS}|TODO\b[\s:：–-]*([^\[\]]{{1,{_LONGEST}}})", re.IGNORECASE)
_LAST = re.compile(rf"(?:^|(?<=\s))(?:{_BRACKETS}|TODO\b[\s:：–-]*([^\[\]\n]{{1,{_LONGEST}}}))$")
_ROUND = re.compile(
    r"\((?:(?:insert|add|put|place)\s+)?(?:(?:a|an|the)\s+)?(?:photo|picture|image|illustration|drawing|screenshot)s?"
    rf"\s+of\s+([^()]{{1,{_LONGEST}}}?)(?:\s+(?:goes\s+)?here)?\)\.?",
    re.IGNORECASE,
)
_BARE = re.compile(rf"!\[([^\[\]]{{0,{_LONGEST}}})\]")
_SOURCE = re.compile(
    r"!\[(?P<alt>(?:[^\[\]\\]|\\.)*)\](?:\((?P<target>[^()\n]*)\))?|<!--(?P<comment>[^<>]*)-->"
    r"|<img\b(?=[^<>]*\balt=[\"'](?P<told>[^\"'<>]*))[^<>]*>|<figure[^<>]*>\s*<figcaption[^<>]*>(?P<caption>[^<>]*)"
    r"</figcaption>\s*</figure>|\\?[\[<［【][^\[\]<>［］【】]*[\]>］】]|\([^()\n]*\)|TODO\b[^\r\n\[\]]*"
)
_SENTENCE = re.compile(r"[.!?…:。！？]\W*$")


def stands_in(target: str) -> bool:
    """Whether the address of a picture is missing, or only stands in for one: "", ``todo``, ``#``."""
    return not target.strip() or _STAND_IN.fullmatch(target.strip()) is not None


def said(words: str) -> str:
    """What the words of a mark say is to be seen; "" if they say nothing, such as ``TODO``."""
    words = " ".join(words.split()).strip(" :：–—-")
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

    ends = r"(?:\s+|(?<=')|(?<=[^\x00-\u02ff\u0400-\u04ff]))"
    return re.compile(
        rf"(?:(?:{either('picture_ask')}){ends})*(?:{either('picture')})(?!\w)(?:\s*(?:no\.|nr\.|#)?\s*\d{{1,3}})?"
        rf"(?:\s*[:：]\s*(?P<colon>.*)|\s+[–—-]\s+(?P<dash>.*)|\s+(?P<word>{either('picture_of')}){ends}(?P<of>.+)"
        rf"|\s*(?:{either('picture_here')})|)\s*",
        re.IGNORECASE | re.DOTALL,
    )


@cache
def _here() -> re.Pattern[str]:
    return re.compile(rf"\s+(?:{'|'.join(map(re.escape, words_for('picture_here')))})\W*$", re.IGNORECASE)


def _requested(text: str) -> str | None:
    """Words of a request for a picture, without its brackets; None for any other text and for credits."""
    match = _request().fullmatch(text.replace("’", "'").strip())
    if match is None:
        return None
    words = match["colon"] or match["dash"] or match["of"] or ""
    last = re.search(
        rf"\s+(?:{'|'.join(map(re.escape, words_for('picture_here')))})\W*$", words, re.IGNORECASE
    )
    words = words[: last.start()] if last else words
    names = [word[0].isupper() for word in words.split()]
    is_name = match["of"] and match["word"].lower() != "of" and len(names) > 1 and all(names)
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
    if match := _BARE.fullmatch(line) or _ROUND.fullmatch(line):
        return said(match[1])
    match = _ALONE.fullmatch(line)
    words = _requested(match[1] or match[2]) if match else None
    return None if words is None else said(words)


def marks_in(source: str, start: int = 0) -> Iterator[tuple[int, int, str]]:
    """Start, end and words of what may be marks in a Markdown source, from a position on."""
    for match in _SOURCE.finditer(source, start):
        target, comment = match["target"] or "", match["comment"]
        alt = next((one for one in match.group("alt", "told", "caption") if one is not None), None)
        if alt is not None:
            words = said(alt) if stands_in(target) else None
        else:
            words = asked_in(f"[{comment}]" if comment else re.sub(r"\\([\[\]<>])", r"\1", match[0]))
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
        if block.kind in ("paragraph", "item") and block.text:
            below = below and all(map(_may_credit, block.text.split("\n")))
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
        other = {"kind": "paragraph", "number": None} if pieces and block.kind == "item" else {}
        kept = changed(piece, pictures=block.pictures if place + 1 == len(words) else (), **other)
        pieces += [kept] if kept.text else [changed(kept, kind="picture")] if kept.pictures else []
        pieces += [changed(place_for(spans[place][2]), **around)] if place < len(spans) else []
    return pieces if spans else [block]


def _spans(block: Block) -> Iterator[tuple[int, int, str]]:
    """Start, end and words of each mark in a block: a line, the end of a line, or the whole block."""
    text = block.text
    linked = [mark for mark in block.marks if mark.kind in ("link", "code")]
    if (words := asked_in(text.replace("\n", " "))) is not None and not linked:
        yield 0, len(text), words
        return
    end = 0
    for line in text.split("\n"):
        start, end = end, end + len(line) + 1
        found: list[tuple[int, int, str]] = []
        until = len(line.rstrip())
        if (words := asked_in(line)) is not None:
            found, until = [(start, start + len(line), words)], 0
        while match := _LAST.search(line, 0, until):
            asked = _requested(match[1] or match[2])
            before = line[: match.start()].strip()
            if asked is None or (before and not (asked or _SENTENCE.search(before))):
                break
            found.insert(0, (start + match.start(), start + match.end(), said(asked)))
            until = len(line[: match.start()].rstrip())
        yield from (one for one in found if not any(m.start < one[1] and m.end > one[0] for m in linked))
