"""Words in an XMP packet, inside a picture or as a sidecar file.

XMP is RDF in XML; the same property may be an attribute, an element or a list, in any of several
languages. It is parsed without entities or outside references. It writes nothing.
"""

import re
from datetime import datetime
from typing import TYPE_CHECKING

from limner.data.words import Words, captions, clean

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_PHOTOSHOP = "{http://ns.adobe.com/photoshop/1.0/}"
_IPTC = "{http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/}"
_EXIF = "{http://ns.adobe.com/exif/1.0/}"
_XMP = "{http://ns.adobe.com/xap/1.0/}"
_RIGHTS = "{http://ns.adobe.com/xap/1.0/rights/}"
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def read_xmp(packet: bytes) -> Words:
    """Alt text, description, headline, title, subject, creator, credit and rights of a packet.

    Args:
        packet: the XML, with or without the packet wrapper.
    Raises:
        ParseError: not well-formed XML; DefusedXmlException: it uses entities.
    """
    from defusedxml.ElementTree import fromstring

    root: Element = fromstring(packet.strip(b"\0 \r\n\t"))
    properties: dict[str, list[str]] = {}
    for description in root.iter(f"{_RDF}Description"):
        for name, value in description.attrib.items():
            properties.setdefault(name, []).append(value)
        for child in description:
            properties.setdefault(child.tag, []).extend(_values(child))

    def texts(*names: str) -> list[str]:
        return [text for name in names for text in properties.get(name, [])]

    described = texts(
        f"{_IPTC}AltTextAccessibility",
        f"{_DC}description",
        f"{_IPTC}ExtDescrAccessibility",
        f"{_PHOTOSHOP}Headline",
        f"{_DC}title",
    )
    keywords = ", ".join(dict.fromkeys(filter(None, map(clean, texts(f"{_DC}subject")))))
    people = [clean(text) for text in texts(f"{_DC}creator", f"{_PHOTOSHOP}Credit")]
    return Words(
        captions=captions(described, "xmp") + captions([keywords], "keywords"),
        credit=", ".join(dict.fromkeys(filter(None, people))),
        license=clean(" ".join(texts(f"{_DC}rights", f"{_RIGHTS}UsageTerms", f"{_RIGHTS}WebStatement")[:1])),
        taken=_time(texts(f"{_EXIF}DateTimeOriginal", f"{_PHOTOSHOP}DateCreated", f"{_XMP}CreateDate")),
    )


def _values(element: "Element") -> list[str]:
    """Texts of a property: its own, its list's, or of a list of languages the default one alone."""
    items = list(element.iter(f"{_RDF}li"))
    if not items:
        return [element.text] if element.text and element.text.strip() else []
    default = [item for item in items if item.get(_LANG) == "x-default"]
    if default and all(item.get(_LANG) for item in items):
        items = default
    return [item.text for item in items if item.text and item.text.strip()]


def _time(stated: list[str]) -> datetime | None:
    """The first stated time that is complete to the minute."""
    for text in stated:
        if re.match(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}", text):
            try:
                return datetime.fromisoformat(text)
            except ValueError:
                continue
    return None
