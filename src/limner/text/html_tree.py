"""HTML text as a tree, as long as it can be read in a few seconds.

Pages come from anywhere. What would keep the parser, or the walks over its tree, busy for minutes is refused
in one line that names the bound.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lxml import etree, html

from limner.errors import DataError

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

# lxml reads these and then refuses to move text that holds them.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
MAX_ATTRIBUTES, MAX_ELEMENTS, MAX_NESTED = 1_000, 60_000, 2_000_000
"""Attributes of one element, elements of one text, and what the depths of all of these add up to, at most."""
# A start tag up to its end, as the HTML standard reads it; no part of it is looked at twice.
_START_TAG = re.compile(
    r"""<[a-zA-Z][^\s/>]*+((?:[\s/]++|[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+)*+)"""
)
_ATTRIBUTE = re.compile(r"""[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+""")


def parse_tree(text: str, where: str) -> Element:
    """An lxml tree of HTML text: bounded in size and depth, no network, no external entities.

    Raises:
        DataError: no element at all, more than a bound allows, or nested deeper than the parser does.
    """
    text = _NOT_XML.sub(" ", text)
    _check_attributes(text, where)
    # A declared encoding inside the text is about its bytes, which are decoded already.
    parser = html.HTMLParser(encoding="utf-8", huge_tree=False, no_network=True, remove_comments=True)
    try:
        root = html.document_fromstring(text.encode("utf-8"), parser=parser)
    except etree.ParserError:
        raise DataError(f"{where}: holds no text; expected HTML with words in it") from None
    except etree.XMLSyntaxError as error:
        raise DataError(
            f"{where}: HTML that the parser gave up ({str(error)[:120]}); expected a page that fits the"
            " memory; save it as plain text"
        ) from None
    if any(entry.level_name == "FATAL" for entry in parser.error_log):
        raise DataError(
            f"{where}: HTML nested too deeply or with a text of 10 MB in one piece, not to be read whole; "
            "expected at most 250 elements inside each other; save the page as plain text"
        )
    _check_size(root, where)
    return root


def _check_attributes(text: str, where: str) -> None:
    """Refuse an element with more attributes than any page has: the parser's time grows with their square."""
    for tag in _START_TAG.finditer(text):
        if len(tag[1]) > MAX_ATTRIBUTES:  # each takes two letters
            count = sum(1 for _ in _ATTRIBUTE.finditer(tag[1]))
            if count > MAX_ATTRIBUTES:
                raise DataError(
                    f"{where}: an HTML element <{tag[0][1:20].split()[0]}> has {count:,} attributes;"
                    f" expected at most {MAX_ATTRIBUTES:,}; save the page as plain text"
                )


def _check_size(root: Element, where: str) -> None:
    """Refuse more elements, or more of them inside each other, than can be read in a few seconds."""
    depth = count = weight = 0
    for event, node in etree.iterwalk(root, events=("start", "end")):
        if event == "end":
            depth -= 1
            continue
        depth, count = depth + 1, count + 1
        weight += depth * (1 + (len(node.text or "") + len(node.tail or "")) // 100)
        if count > MAX_ELEMENTS:
            raise DataError(
                f"{where}: has more than {MAX_ELEMENTS:,} HTML elements; expected a text that one can read;"
                " split it"
            )
        if weight > MAX_NESTED:
            raise DataError(
                f"{where}: HTML nested too deeply for its size: {depth} elements inside each other around"
                " most of the words; expected a page as a browser saves it; save the page as plain text"
            )
