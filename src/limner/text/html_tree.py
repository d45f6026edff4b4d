"""HTML text as a tree. Pages that would take more than a few seconds are rejected.

The input is untrusted: a page that would keep the parser, or the walks over its tree, busy for minutes raises
an error that names the limit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lxml import etree, html

from limner.errors import DataError

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

# lxml parses these characters, but raises an error if text with them is assigned.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
MAX_ATTRIBUTES, MAX_ELEMENTS, MAX_TOTAL_DEPTH = 1_000, 60_000, 2_000_000
"""Most attributes of an element, most elements of a page, and the largest sum of the elements' depths, each
counted once more per 100 characters of its text."""
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
    text = _NOT_XML.sub(" ", text)
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
