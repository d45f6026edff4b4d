"""Markdown (CommonMark with tables and strikethrough) and its front matter.

markdown-it-py parses; its rendering is walked like any HTML, so raw HTML inside needs no second reader.
No dialect extensions: footnotes, admonitions and shortcodes stay as the words they are.
"""

import json
import re
import tomllib
from itertools import chain
from pathlib import Path

import yaml
from markdown_it import MarkdownIt

from limner.errors import DataError
from limner.text.document import CREDITS, Document, LeftOut
from limner.text.html_blocks import blocks_of
from limner.text.html_tree import MAX_ELEMENTS, parse_tree

# Deeper than anyone writes, shallower than the HTML parser's bound; beyond it markdown-it would skip text.
_MAX_NESTING = 60
# Each may begin or end an emphasis, or begin a link whose end is looked for.
_MOST = {"signs of emphasis": ("*_~", 100_000), "opening brackets": ("[", 20_000)}
_PARAGRAPHS = 5
"""How many paragraphs may have the most of each."""
_MAX_LINES, _MAX_REPEATED, _MAX_FRONT = 80_000, 2_000_000, 50_000
# What stands before the words of a line, and the marks of lists in it.
_BEFORE = re.compile(r"^[ \t>*+\-.)\d]++", re.MULTILINE)
_ITEM = re.compile(r"(?:[-+*]|\d[.)])(?=[ \t])")
_KEY = re.compile(r"[A-Za-z_][\w-]*\s*(:(\s|$)|=)")
_FRONTS = {"---": ("---", "..."), "+++": ("+++",)}
"""Line that begins front matter → lines that end it."""
_OTHER_NAMES = {"authors": "author", "licence": "license", "lang": "language", "dir": "direction"}


def read_markdown(text: str, where: str, base: Path | None) -> Document:
    """A Markdown text as a document.

    Args:
        text: the decoded file.
        where: its name, for messages.
        base: folder that relative picture paths start from, or None.

    Raises:
        DataError: front matter that is not YAML; lists or quotes nested too deeply; more signs of
            emphasis or brackets than anybody writes.
    """
    document = Document()
    body = _front_matter(text, where, document)
    if body.count("\n") - body.count("\n\n") > _MAX_LINES:
        raise DataError(
            f"{where}: holds more than {_MAX_LINES:,} lines of Markdown; expected a readable text; split it"
        )
    paragraphs = re.split(r"\n[ \t]*+\n", body)
    for name, (signs, most) in _MOST.items():
        counts = [sum(map(part.count, signs)) for part in paragraphs]
        if max(counts) > most or sum(counts) > most * _PARAGRAPHS:
            raise DataError(
                f"{where}: holds more than {most:,} {name} in one paragraph, or {most * _PARAGRAPHS:,} in"
                " all; expected a readable text; read it as plain text"
            )
    if sum(len(_ITEM.findall(line[0])) for line in _BEFORE.finditer(body)) > MAX_ELEMENTS:
        raise DataError(
            f"{where}: holds more than {MAX_ELEMENTS:,} items of lists; expected a readable text; split it"
        )
    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable(["table", "strikethrough"])
    # Nothing is followed, and a picture's address must stay exactly as written.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    tokens = parser.parse(body)
    if any(token.level >= _MAX_NESTING - 2 for token in tokens):
        raise DataError(
            f"{where}: Markdown nested deeper than {_MAX_NESTING // 2} lists or quotes; expected a readable "
            "text; flatten it"
        )
    # a link that is defined once and used often is written as often
    inner = chain.from_iterable(token.children or () for token in tokens)
    stated = sum(len(str(value)) for token in inner for value in token.attrs.values())
    if stated > len(body) + _MAX_REPEATED:
        raise DataError(
            f"{where}: repeats the addresses of its links over and over, {_MAX_REPEATED:,} letters of them;"
            " expected a readable text; read it as plain text"
        )
    rendered = parser.renderer.render(tokens, parser.options, {})
    if rendered.strip():
        document.blocks = blocks_of(parse_tree(f"<div>{rendered}</div>", where), base, document.left_out)
    return document


def _front_matter(text: str, where: str, document: Document) -> str:
    """Take the front matter at the top, if there is any, into the document; return the rest.

    It is YAML between lines of ``---``, TOML between lines of ``+++``, or one object of JSON.
    """
    first, newline, rest = text.partition("\n")
    mark, lines = first.rstrip(), rest.split("\n")
    if not newline or not (mark in _FRONTS or mark.startswith("{")):
        return text
    ends = _FRONTS.get(mark, ("}",))
    end = next((index for index, line in enumerate(lines) if line.rstrip() in ends), None)
    if end is None:
        return text
    # A thematic break at the top of a story is not front matter: keys are.
    keys = [line for line in lines[:end] if line.strip() and not line.lstrip().startswith(("#", "["))]
    stated, body = "\n".join(lines[:end]), "\n".join(lines[end + 1 :])
    if mark not in _FRONTS:
        stated = "\n".join((first, stated, "}"))
    elif not keys or not _KEY.match(keys[0]):
        return text
    if len(stated) > _MAX_FRONT:
        raise DataError(
            f"{where}: its front matter has more than {_MAX_FRONT:,} letters; expected a few 'title: ...'"
            " lines; move the rest below it"
        )
    data = _data_of(mark, stated, where)
    if not isinstance(data, dict):
        return text
    for key, value in data.items():
        lower, stated = str(key).lower(), _stated(value)
        name = _OTHER_NAMES.get(lower, lower)
        if name in CREDITS and stated and not getattr(document, name):
            setattr(document, name, stated)
        elif name == "direction" and value in ("rtl", "ltr"):
            document.direction = value
        else:
            document.left_out.append(LeftOut(f"front matter {str(key)[:40]!r}", stated))
    return body


def _data_of(mark: str, stated: str, where: str) -> object:
    """What front matter says; None of JSON that is none, since a text may begin with a brace.

    Args:
        mark: the line that begins it.
        stated: what it holds.
        where: name of the text, for messages.
    Raises:
        DataError: it is not what its mark says.
    """
    kind, shown = {"---": ("YAML", "title: ..."), "+++": ("TOML", "title = ...")}.get(mark, ("JSON", ""))
    try:
        if kind == "YAML":
            # BaseLoader: every value stays the words it is (`no` is not False), and no object is built.
            return yaml.load(stated, Loader=yaml.BaseLoader)  # noqa: S506
        return tomllib.loads(stated) if kind == "TOML" else json.loads(stated)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if kind == "JSON":
            return None
        line = " ".join(str(error).split())[:160]
        raise DataError(
            f"{where}: front matter is not {kind} ({line}); expected '{shown}' lines between two '{mark}' "
            "lines; mend or remove it"
        ) from None


def _stated(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return ", ".join(item.strip() for item in value if isinstance(item, str))
    return ""
