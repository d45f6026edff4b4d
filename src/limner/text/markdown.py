"""Markdown as a document: its front matter, and its words by way of HTML.

markdown-it-py parses, with the dialects of `limner.text.dialects`; its rendering is walked like any HTML, so
raw HTML inside needs no second reader.
"""

from pathlib import Path

from limner.errors import counted
from limner.text.dialects import parsed
from limner.text.document import CREDITS, Document, LeftOut
from limner.text.front_matter import without_front
from limner.text.html_blocks import blocks_of
from limner.text.html_tree import parse_tree
from limner.text.insertion import without_inserted

_OTHER_NAMES = {"authors": "author", "licence": "license", "lang": "language", "dir": "direction"}


def read_markdown(text: str, where: str, base: Path | None) -> Document:
    """A Markdown text as a document.

    Args:
        text: the decoded file.
        where: its name, for messages.
        base: folder that relative picture paths start from, or None.

    Raises:
        DataError: front matter that is not YAML or TOML; as `limner.text.dialects.parsed`.
    """
    document = Document()
    document.markdown, inserted = without_inserted(text, where)
    if inserted:
        document.notes.append(
            f"{counted(inserted, 'picture')} that an earlier export put in left out, to be chosen anew"
        )
    body, front = without_front(document.markdown, where)
    _take(front.stated, document)
    document.notes += [front.note] if front.note else []
    _, rendered, code = parsed(body, where)
    document.left_out += [LeftOut("code of the page", words) for words in code]
    if rendered.strip():
        document.blocks = blocks_of(parse_tree(f"<div>{rendered}</div>", where), base, document.left_out)
    return document


def _take(stated: dict[object, object], document: Document) -> None:
    """Note what front matter states."""
    for key, value in stated.items():
        lower, words = str(key).lower(), _stated(value)
        name = _OTHER_NAMES.get(lower, lower)
        if name in CREDITS and words and not getattr(document, name):
            setattr(document, name, words)
        elif name == "direction" and value in ("rtl", "ltr"):
            document.direction = value
        else:
            document.left_out.append(LeftOut(f"front matter {str(key)[:40]!r}", words))


def _stated(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return ", ".join(item.strip() for item in value if isinstance(item, str))
    return ""
