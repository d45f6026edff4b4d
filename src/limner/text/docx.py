"""Reads Word documents: mammoth converts them to HTML, which is read like any other, and their pictures to
files.

What mammoth omits is added here: the numbers of lists that pictures interrupt, and notes on what it drops.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lxml import etree

from limner.errors import DataError, counted
from limner.files import data_folder, make_folder, write_bytes
from limner.text.document import Block, Document, LeftOut
from limner.text.html_blocks import blocks_of, parse_tree

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

MAX_FILES, MAX_XML_BYTES, MAX_BYTES, MAX_RUNS = 10_000, 60_000_000, 500_000_000, 60_000
"""Maximum number of files in a document, of bytes of its XML and of all unpacked files, and of paragraphs and
runs.
"""
_STYLES = """
p[style-name='Title'] => h1.title:fresh
p[style-name='caption'] => p.caption:fresh
p.limner-caption => p.caption:fresh
p[style-name='Figure'] => p.caption:fresh
p[style-name='Illustration'] => p.caption:fresh
p[style-name='Drawing'] => p.caption:fresh
p[style-name='Quote'] => blockquote > p:fresh
p[style-name='Intense Quote'] => blockquote > p:fresh
p[style-name='HTML Preformatted'] => pre:separator('\\n')
p[style-name='List Continue'] => ul|ol > li > p.continued:fresh
p[style-name='List Continue 2'] => ul|ol > li > ul|ol > li > p.continued:fresh
p[style-name='List Continue 3'] => ul|ol > li > ul|ol > li > ul|ol > li > p.continued:fresh
br[type='page'] => hr
"""
_CAPTION = "limner-caption"
"""Style of a numbered figure's paragraph whose style is not a caption's."""
_SEQUENCE = re.compile(r"\s*SEQ\s")
_NUMBER = "limner-number-"
"""Prefix of bookmarks that preserve the number of an item in mammoth's output."""
_NOTES = ("footnote-", "endnote-")
_BESIDE = re.compile(r"word/(header|footer|comments)\d*\.xml")
_BESIDE_NAMES = {"header": "head of the pages", "footer": "foot of the pages", "comments": "comments"}
_IGNORED = re.compile(r"An unrecognised element was ignored: (?:\{[^}]*\}|\w+:)?(\w+)")
_DROPPED = {
    "oMath": "equation",
    "oMathPara": "equation",
    "chart": "chart",
    "relIds": "SmartArt",
    "altChunk": "text of another file",
}
_HEADING = re.compile(r"heading \d", re.IGNORECASE)


def read_docx(data: bytes, where: str) -> tuple[Document, Path]:
    """Read a Word document; returns the document and the folder with its pictures.

    Args:
        data: the whole file.
        where: its name, for messages.
    Raises:
        DataError: the file is damaged, unpacks to more than a limit allows, or declares entities.
    """
    import mammoth

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            trees = _checked(archive, where)
            left_out = _beside(trees)
            prepared = _prepared(archive, trees)
        pictures = _Pictures(data_folder() / "documents" / hashlib.sha256(data).hexdigest()[:32])
        made = mammoth.convert_to_html(
            prepared,
            style_map=_STYLES,
            include_embedded_style_map=False,
            convert_image=mammoth.images.img_element(pictures.stored),
        )
    except (DataError, OSError):
        raise
    except RecursionError:
        raise DataError(f"{where}: a Word document nested too deeply; save it as plain text") from None
    except Exception as error:  # zipfile, lxml and mammoth report damage by many kinds of errors
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise DataError(
            f"{where}: a damaged Word document ({reason}); expected one that Word opens; save it again"
        ) from None
    document = Document(left_out=left_out)
    ignored = Counter(found[1] for one in made.messages if (found := _IGNORED.match(one.message)))
    for name, count in ignored.items():
        if name in _DROPPED:
            document.left_out += [LeftOut(f"{_DROPPED[name]} inside the document")] * count
    document.left_out += pictures.left_out
    if made.value.strip():
        root = parse_tree(f"<div>{made.value}</div>", where)
        notes = _tidied(root)
        document.blocks = blocks_of(root, pictures.folder, document.left_out)
        for note in notes:
            document.blocks += _as_notes(blocks_of(note, pictures.folder, document.left_out))
    return document, pictures.folder


def _as_notes(blocks: list[Block]) -> list[Block]:
    return [replace(block, aside="footnote") for block in blocks]


@dataclass
class _Pictures:
    """Pictures of a document, stored once under the document's hash, as files that exports can read."""

    folder: Path
    names: dict[str, str] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    def stored(self, image: Any) -> dict[str, str]:  # noqa: ANN401  (mammoth has no types)
        """Attributes of an image element; pictures outside the document are never opened."""
        try:
            with image.open() as opened:
                content = opened.read()
        except Exception:  # mammoth raises it for a picture on the web or on the author's disk
            self.left_out.append(LeftOut("linked picture outside the document", image.alt_text or ""))
            return {"hidden": "hidden"}
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self.names:
            kind = re.sub(r"\W.*", "", (image.content_type or "").rpartition("/")[2].removeprefix("x-"))
            name = f"picture-{len(self.names) + 1}.{kind or 'bin'}"
            path = self.folder / name
            if not path.is_file() or path.stat().st_size != len(content):
                make_folder(self.folder)
                write_bytes(path, content)
            self.names[digest] = name
        return {"src": self.names[digest]}


def _checked(archive: zipfile.ZipFile, where: str) -> dict[str, Element]:
    """The XML parts of a document by name, after checking its limits and that it declares no entities."""
    files = archive.infolist()
    xml = [one for one in files if one.filename.endswith((".xml", ".rels"))]
    total, worded = sum(one.file_size for one in files), sum(one.file_size for one in xml)
    if len(files) > MAX_FILES or total > MAX_BYTES or worded > MAX_XML_BYTES:
        raise DataError(
            f"{where}: a Word document that unpacks to {counted(len(files), 'file')}, {total / 1e6:,.0f} MB,"
            f" {worded / 1e6:,.0f} MB of them XML; expected at most {counted(MAX_FILES, 'file')},"
            f" {MAX_BYTES // 10**6} MB and {MAX_XML_BYTES // 10**6} MB; split it"
        )
    if any(one.flag_bits & 1 for one in files):
        raise DataError(f"{where}: is encrypted; expected a Word document without a password; remove it")
    trees: dict[str, Element] = {}
    count = 0
    for one in xml:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
        tree = etree.fromstring(archive.read(one), parser)
        if tree.getroottree().docinfo.internalDTD is not None:
            raise DataError(
                f"{where}: {one.filename} inside it declares a document type or entities, as no Word document"
                " does; expected one that Word wrote"
            )
        count += sum(1 for _ in tree.iter("{*}p", "{*}r"))
        trees[one.filename] = tree
    if count > MAX_RUNS:
        raise DataError(
            f"{where}: a Word document with too many paragraphs and runs ({count:,});"
            f" expected at most {MAX_RUNS:,}; split it"
        )
    return trees


def _beside(trees: dict[str, Element]) -> list[LeftOut]:
    """Text outside the body of a document: headers, footers and comments."""
    said: dict[tuple[str, str], None] = {}
    for name, tree in trees.items():
        if found := _BESIDE.fullmatch(name):
            words = ("".join(_words(line)) for line in tree.iter("{*}p"))
            text = " ".join(filter(None, map(str.strip, words)))
            if text:
                said[_BESIDE_NAMES[found[1]], text] = None
    return [LeftOut(reason, text) for reason, text in said]


def _words(line: Element) -> Iterator[str]:
    return (words.text or "" for words in line.iter("{*}t"))


def _prepared(archive: zipfile.ZipFile, trees: dict[str, Element]) -> io.BytesIO:
    """The document with the number of every list item in a bookmark, and the numbers of headings in their
    text.

    Paragraphs with a figure number (field ``SEQ``) become captions, whatever their style.
    """
    lists = _ListCounter(trees.get("word/numbering.xml"), trees.get("word/styles.xml"))
    body = trees.get("word/document.xml")
    if body is None:
        return io.BytesIO(_bytes_of(archive))
    space = f"{{{etree.QName(body).namespace}}}"
    for line in body.iter("{*}p"):
        if _counts_figures(line) and not lists.is_heading(line):
            properties = line.find("{*}pPr")
            if properties is None:
                properties = etree.Element(f"{space}pPr")
                line.insert(0, properties)
            for old in properties.findall("{*}pStyle"):
                properties.remove(old)
            style = etree.Element(f"{space}pStyle", {f"{space}val": _CAPTION})
            properties.insert(0, style)
        for simple in list(line.iter("{*}fldSimple")):  # mammoth skips their content
            around = simple.getparent()
            if around is not None:
                place = around.index(simple)
                around[place : place + 1] = list(simple)
        number = lists.number_of(line)
        if number is None:
            continue
        first = next((child for child in line if etree.QName(child).localname != "pPr"), None)
        place = len(line) if first is None else line.index(first)
        if lists.is_heading(line):
            run = etree.Element(f"{space}r")
            etree.SubElement(run, f"{space}t", {"{http://www.w3.org/XML/1998/namespace}space": "preserve"})
            run[0].text = f"{number[1]} "
            line.insert(place, run)
        else:
            mark = {f"{space}id": "0", f"{space}name": f"{_NUMBER}{number[0]}"}
            line.insert(place, etree.Element(f"{space}bookmarkStart", mark))
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w") as into:
        for one in archive.infolist():
            own = one.filename == "word/document.xml"
            into.writestr(one.filename, etree.tostring(body, encoding="UTF-8") if own else archive.read(one))
    changed.seek(0)
    return changed


def _counts_figures(line: Element) -> bool:
    """Whether a paragraph has a figure-number field, and no picture of its own."""
    simple = (_value(field, "instr") for field in line.iter("{*}fldSimple"))
    stated = "".join(words.text or "" for words in line.iter("{*}instrText"))
    return any(map(_SEQUENCE.match, (*simple, stated))) and next(line.iter("{*}drawing"), None) is None


def _bytes_of(archive: zipfile.ZipFile) -> bytes:
    file = archive.fp
    if file is None:
        return b""
    file.seek(0)
    return file.read()


@dataclass(frozen=True)
class _Level:
    """One level of a list: its first number, its number format, and the text around the number."""

    start: int
    kind: str
    text: str


class _ListCounter:
    """Counts the items of numbered lists as Word does: lists with one definition continue, unless one
    restarts.
    """

    def __init__(self, numbering: Element | None, styles: Element | None) -> None:
        self.levels: dict[str, dict[int, _Level]] = {}  # of a list definition
        self.definitions: dict[str, str] = {}  # list → its definition
        self.restarts: dict[str, dict[int, int]] = {}  # list → level → first number
        self.counts: dict[str, dict[int, int]] = {}
        self.begun: set[str] = set()
        self.styles: dict[str, tuple[str, str, int | None, bool]] = {}  # by style: base, list, level, heading
        for one in () if numbering is None else numbering.iterchildren("{*}abstractNum"):
            own = {_level(level): _level_of(level) for level in one.iterchildren("{*}lvl")}
            self.levels[_value(one, "abstractNumId")] = own
        for one in () if numbering is None else numbering.iterchildren("{*}num"):
            named = _value(one, "numId")
            self.definitions[named] = _child(one, "abstractNumId")
            self.restarts[named] = {
                _level(changed): _integer(_child(changed, "startOverride"), 1)
                for changed in one.iterchildren("{*}lvlOverride")
                if changed.find("{*}startOverride") is not None
            }
        for one in () if styles is None else styles.iterchildren("{*}style"):
            listed, level = _listed(one.find("{*}pPr"))
            heading = bool(_HEADING.match(_child(one, "name")))
            self.styles[_value(one, "styleId")] = (_child(one, "basedOn"), listed, level, heading)

    def number_of(self, line: Element) -> tuple[int, str] | None:
        """Number of a paragraph in its list, and its format; None if it has none."""
        properties = line.find("{*}pPr")
        listed, level = _listed(properties)
        style, seen = _child(properties, "pStyle"), set[str]()
        while style in self.styles and style not in seen and not listed:
            seen.add(style)
            style, listed, own, _ = self.styles[style]
            level = own if level is None else level
        levels = self.levels.get(self.definitions.get(listed, ""))
        place = level or 0
        if listed in ("", "0") or not levels or place not in levels or levels[place].kind == "bullet":
            return None
        counts = self.counts.setdefault(self.definitions[listed], {})
        if listed not in self.begun:
            self.begun.add(listed)
            for restarted in self.restarts[listed]:
                counts.pop(restarted, None)
        starts = {at: self.restarts[listed].get(at, one.start) for at, one in levels.items()}
        counts[place] = counts.get(place, starts[place] - 1) + 1
        for deeper in [one for one in counts if one > place]:
            del counts[deeper]
        written = re.sub(
            r"%(\d)",
            lambda found: str(counts.get(int(found[1]) - 1, starts.get(int(found[1]) - 1, 1))),
            levels[place].text,
        )
        return counts[place], written

    def is_heading(self, line: Element) -> bool:
        """Whether the style of a paragraph, or a style on which it is based, is a heading."""
        style, seen = _child(line.find("{*}pPr"), "pStyle"), set[str]()
        while style in self.styles and style not in seen:
            seen.add(style)
            style, _, _, heading = self.styles[style]
            if heading:
                return True
        return False


def _value(node: Element, name: str) -> str:
    """An attribute of an element, in any edition of the format's namespace."""
    return next((value for key, value in node.items() if etree.QName(key).localname == name), "")


def _child(node: Element | None, name: str) -> str:
    """Value of an element's child; "" if there is none."""
    inner = None if node is None else node.find(f"{{*}}{name}")
    return "" if inner is None else _value(inner, "val")


def _listed(properties: Element | None) -> tuple[str, int | None]:
    """List and level that paragraph properties name."""
    numbered = None if properties is None else properties.find("{*}numPr")
    level = _child(numbered, "ilvl")
    return _child(numbered, "numId"), int(level) if level.isdecimal() else None


def _level(node: Element) -> int:
    return _integer(_value(node, "ilvl"), 0)


def _level_of(node: Element) -> _Level:
    return _Level(_integer(_child(node, "start"), 1), _child(node, "numFmt"), _child(node, "lvlText"))


def _integer(value: str, default: int) -> int:
    return int(value) if re.fullmatch(r"\d{1,9}", value) else default


def _tidied(root: Element) -> list[Element]:
    """Give items their numbers, cells plain text and headings their levels; remove notes and return them."""
    for mark in list(root.iter("a")):
        name = mark.get("id") or ""
        if name.startswith(_NUMBER):
            item = next(mark.iterancestors("li"), None)
            if item is not None and item.get("value") is None:
                item.set("value", name.removeprefix(_NUMBER))
            mark.drop_tree()
        elif (mark.get("href") or "").startswith(("#footnote-ref-", "#endnote-ref-")):
            mark.drop_tree()  # the link back to the text
        elif (mark.get("href") or "").startswith("#"):
            mark.drop_tag()  # an internal link has no target once the text is divided
    for line in list(root.iter("p")):
        if line.get("class") == "continued":
            _settle(line)
    for code in root.iter("pre"):
        for end in list(code.iter("br")):
            end.tail = f"\n{end.tail or ''}"
            end.drop_tag()
    for table in root.iter("table"):
        _tidy(table)
    _lower_headings(root)
    notes = [item for item in root.iter("li") if (item.get("id") or "").startswith(_NOTES)]
    for number, note in enumerate(notes, 1):
        around = note.getparent()
        note.tag = "div"
        first = next(note.iter("p"), note)
        first.text = f"[{number}] {(first.text or '').lstrip()}"
        note.drop_tree() if around is None else around.remove(note)
    return notes


def _settle(line: Element) -> None:
    """Remove the list item that mammoth puts around a paragraph that continues an item."""
    item = line.getparent()
    while item is not None and item.tag == "li" and item[0] is line and not (item.text or "").strip():
        around = item.getparent()
        item.drop_tag()
        if around is None or next(around.iterchildren("li"), None) is not None:
            return
        item = around.getparent()
        around.drop_tag()


def _tidy(table: Element) -> None:
    """Distinguish tables from layouts, which only position text and pictures; mammoth puts paragraphs into
    each cell.
    """
    cells = list(table.iter("td", "th"))
    rows = [sum(1 for _ in row.iterchildren("td", "th")) for row in table.iter("tr")]
    is_single = len(rows) == 1 or max(rows, default=0) == 1
    placed = any(one.tag != "p" or one.get("class") == "caption" for cell in cells for one in cell)
    if placed or (is_single and next(table.iter("img"), None) is not None):
        table.set("role", "presentation")
        return
    for cell in cells:  # a cell of several paragraphs has line breaks
        inner = list(cell)
        for one in inner[:-1]:
            one.append(etree.Element("br"))
        for one in inner:
            one.drop_tag()


def _lower_headings(root: Element) -> None:
    """Adjust heading levels: Word counts from 1 below a title; without one, those of level 1 are parts."""
    headings = list(root.iter("h1"))
    if len(headings) > 1:
        for level in range(5, 0, -1):
            for heading in list(root.iter(f"h{level}")):
                if heading.get("class") != "title":
                    heading.tag = f"h{level + 1}"
