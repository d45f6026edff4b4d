"""Plain text: paragraphs between blank lines, pages between form feeds, numbered and bulleted lines.

The one format without markup; what counts as structure is only what a typist would mean by it.
It does not unwrap verse: line ends inside a paragraph become spaces.
"""

import re

from limner.text.document import Block, Document
from limner.text.markers import in_sequence, marker_of, names_method, names_supplies

_BULLET = re.compile(r"[*•‣◦▪●·-][ \t]+(?=\S)")
_RULE = re.compile(r"([-=_*~#])(?:[ \t]*\1){2,}|[⁂❦]")
_SENTENCE_END = re.compile(r"[.!?…:;,。！？।؟۔։።៕။\"'”’»)）]$")
_LONGEST_TITLE = 80


def read_plain(text: str) -> Document:
    """A plain text as a document.

    A first line that stands alone, is short and ends without punctuation is the title if the paragraph
    after it does end with some. Lines that are only "Ingredients" or "Method" (in many languages) are
    headings. Lines of dashes, stars or equals signs and form feeds are page breaks.

    Args:
        text: the decoded file.
    """
    lines = re.split(r"\r\n|[\n\r\u2028\u2029\v\x85]", text.replace("\f", "\n\f\n"))
    marked = _marked(lines)
    blocks: list[Block] = []
    pending: list[str] = []
    for index, line in enumerate(lines):
        stripped = line.strip()
        if index in marked or not stripped or line == "\f" or _RULE.fullmatch(stripped):
            _close(pending, blocks)
        if line == "\f" or _RULE.fullmatch(stripped):
            blocks.append(Block("break"))
        elif stripped:
            pending.append(stripped)
    _close(pending, blocks)
    document = Document(blocks=blocks)
    _take_title(document)
    return document


def _marked(lines: list[str]) -> set[int]:
    found = [(index, marker) for index, line in enumerate(lines) if (marker := marker_of(line))]
    kept = in_sequence([marker.number for _, marker in found])
    return {index for (index, _), keep in zip(found, kept, strict=True) if keep}


def _close(pending: list[str], blocks: list[Block]) -> None:
    """Turn the lines gathered so far into blocks."""
    if pending and (names_supplies(pending[0]) or names_method(pending[0])) and _is_name(pending[0]):
        blocks.append(Block("heading", pending.pop(0).rstrip(":：").strip(), level=2))
    if len(pending) >= 2 and all(_BULLET.match(line) for line in pending):
        own = len(blocks) + 1
        blocks += [Block("item", _BULLET.sub("", line, count=1), list_id=own) for line in pending]
    elif pending:
        blocks.append(Block("paragraph", " ".join(pending)))
    pending.clear()


def _is_name(line: str) -> bool:
    return len(line.split()) <= 4 and marker_of(line) is None and not re.search(r"[.!?。！？।؟]$", line)


def _take_title(document: Document) -> None:
    kinds = [block.kind for block in document.blocks[:2]]
    if kinds[:1] != ["paragraph"] or len(document.blocks) < 3:
        return
    first, second = document.blocks[:2]
    # A title page stays a page: its picture is the cover.
    ends = kinds[1] == "heading" or (kinds[1] == "paragraph" and _SENTENCE_END.search(second.text))
    if (
        ends
        and len(first.text) <= _LONGEST_TITLE
        and not _SENTENCE_END.search(first.text)
        and not marker_of(first.text)
    ):
        document.title = first.text
        del document.blocks[0]
