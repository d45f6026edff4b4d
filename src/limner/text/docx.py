"""Reads Word documents: mammoth makes HTML of them, which is read like a page; pictures stay in memory.

What mammoth omits is added here: the numbers of lists and headings as Word counts them.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lxml import etree

from limner.errors import DataError, counted
from limner.records import PictureRef
from limner.text.blocks import Document, LeftOut
from limner.text.markup import ASIDE, blocks_of, parse_tree

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

MAX_BYTES, MAX_NODES = 300_000_000, 300_000
"""Maximum number of bytes of all unpacked files, and of elements and attributes of their XML."""
_MAX_XML_BYTES = 30_000_000
_STYLES = """
p[style-name='Title'] => p.title:fresh
p[style-name='caption'] => p.caption:fresh
p[style-name='Quote'] => blockquote > p:fresh
p[style-name='HTML Preformatted'] => pre:separator('\\n')
p[style-name^='toc '] => nav > p:fresh
u => u
br[type='page'] => hr
"""
_NUMBER = "limner-number-"
"""Prefix of bookmarks that carry the number of a paragraph through mammoth, with its written form."""
_BESIDE = re.compile(r"word/(?:header|footer|comments)\d*\.xml")
_IGNORED = re.compile(
    r"An unrecognised element was ignored: (?:\{[^}]*\}|\w+:)?(?:oMath|oMathPara|chart|relIds|altChunk)$"
)


def read_docx(data: bytes, where: str) -> Document:
    """Read a Word document; its pictures are in the blocks, as bytes.

    Args:
        data: the whole file.
        where: its name, for messages.
    Raises:
        DataError: the file is damaged, unpacks to more than a limit allows, or declares entities.
    """
    import mammoth

    document = Document()
    names: dict[str, str] = {}  # in the archive → of the picture in the text
    inside: dict[str, bytes] = {}

    def stored(image: Any) -> dict[str, str]:  # noqa: ANN401  (mammoth has no types)
        """Attributes of an image element; pictures outside the document are never opened."""
        alt = (image.alt_text or "").partition("\n")[0]  # Word adds who described it
        try:
            with image.open() as opened:
                name = opened.read().decode()  # see `_packed`
            target = names.setdefault(name, f"picture-{len(names) + 1}{Path(name).suffix}")
            inside[target] = inside.get(target) or archive.read(name)
        except Exception:  # it is damaged, on the web or on the author's disk; many kinds of errors say so
            return {"src": "a linked picture", "alt": alt}
        return {"src": target, "alt": alt}

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = _parts(archive, where)
            document.left_out += _hidden(parts)
            _add_numbers(parts)
            made = mammoth.convert_to_html(
                _packed(archive, parts),
                style_map=_STYLES,
                include_embedded_style_map=False,
                convert_image=mammoth.images.img_element(stored),
            )
    except DataError:
        raise
    except Exception as error:  # zipfile, zlib, lxml and mammoth report damage by many kinds of errors
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise DataError(
            f"{where}: a damaged Word document ({reason}); open it in Word and save it again"
        ) from None

    def find(target: str, alt: str) -> PictureRef:
        if target not in inside:
            return PictureRef(target=target, alt=alt, problem="cannot be read, or is not inside the document")
        digest = sha256(inside[target]).hexdigest()
        return PictureRef(target=target, alt=alt, sha256=digest, data=inside[target])

    ignored = sum(_IGNORED.match(message.message) is not None for message in made.messages)
    if ignored:
        document.notes.append(f"{counted(ignored, 'equation or chart', 'equations or charts')} left out")
    root = parse_tree(f"<div>{made.value}</div>", where)
    _tidy(root)
    document.blocks = blocks_of(root, find, document.left_out)
    return document


def _parts(archive: zipfile.ZipFile, where: str) -> dict[str, Element]:
    """The XML parts of a document by name, within the limits."""
    files = archive.infolist()
    xml = [file for file in files if file.filename.endswith((".xml", ".rels"))]
    total, worded = sum(file.file_size for file in files), sum(file.file_size for file in xml)
    parts: dict[str, Element] = {}
    count = 0
    if total <= MAX_BYTES and worded <= _MAX_XML_BYTES:
        for file in xml:
            parser = etree.XMLParser(resolve_entities=False, no_network=True)
            tree = parts[file.filename] = etree.fromstring(archive.read(file), parser)
            count += sum(1 + len(node.attrib) for node in tree.iter("*"))
            if tree.getroottree().docinfo.internalDTD is not None:
                raise DataError(f"{where}: declares a document type inside, as no Word document does")
    if total > MAX_BYTES or worded > _MAX_XML_BYTES or count > MAX_NODES:
        raise DataError(f"{where}: too large a Word document; split it, or save it as a web page")
    return parts


def _hidden(parts: Mapping[str, Element]) -> Iterator[LeftOut]:
    """Heads and feet of the pages, comments, and hidden text, which is removed."""
    for name, tree in parts.items():
        lines = dict.fromkeys("".join(line.itertext("{*}t")) for line in tree.iter("{*}p"))
        if _BESIDE.fullmatch(name) and (text := " ".join(filter(None, lines))):
            yield LeftOut("page furniture", text)
    for run in list(parts["word/document.xml"].iter("{*}r")):
        mark = run.find("{*}rPr/{*}vanish")
        if mark is not None and _value(mark) not in ("0", "false"):
            yield LeftOut("page furniture", "".join(run.itertext("{*}t")))
            run.getparent().remove(run)


def _packed(archive: zipfile.ZipFile, parts: Mapping[str, Element]) -> io.BytesIO:
    """The document as changed; each of its pictures is its name, by which it is read when it is met."""
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w") as into:
        for name in dict.fromkeys(archive.namelist()):
            into.writestr(name, etree.tostring(parts[name], encoding="UTF-8") if name in parts else name)
    changed.seek(0)
    return changed


def _add_numbers(parts: Mapping[str, Element]) -> None:
    """Put the number of each numbered paragraph into a bookmark, counted as Word does.

    Lists with one definition continue, unless one of them restarts. Simple fields, whose content mammoth
    leaves out, become text.
    """
    body, nothing = parts["word/document.xml"], etree.Element("none")
    numbering, styles = parts.get("word/numbering.xml", nothing), parts.get("word/styles.xml", nothing)
    kinds = {_value(kind, "abstractNumId"): kind for kind in numbering.iter("{*}abstractNum")}
    lists = {_value(item, "numId"): item for item in numbering.iter("{*}num")}
    named = {_value(style, "styleId"): style for style in styles.iter("{*}style")}
    counts: dict[str, dict[str, int]] = {}
    begun: set[str] = set()
    for field in list(body.iter("{*}fldSimple")):
        around = field.getparent()
        around[around.index(field) : around.index(field) + 1] = list(field)
    for line in body.iter("{*}p"):
        number, level = _listed(line, named)
        listed = lists.get(number)
        kind = _value(None if listed is None else listed.find("{*}abstractNumId"))
        levels = {_value(form, "ilvl"): form for form in kinds[kind].iter("{*}lvl")} if kind in kinds else {}
        if listed is None or level not in levels or _value(levels[level].find("{*}numFmt")) == "bullet":
            continue
        count = counts.setdefault(kind, {})
        starts = {at: _integer(_value(form.find("{*}start"))) for at, form in levels.items()}
        for start in listed.iter("{*}startOverride"):
            restarted = _value(start.getparent(), "ilvl")
            starts[restarted] = _integer(_value(start))
            if number not in begun:
                count.pop(restarted, None)
        begun.add(number)
        count[level] = count.get(level, starts[level] - 1) + 1
        for deeper in [at for at in count if at > level]:
            del count[deeper]
        written = _value(levels[level].find("{*}lvlText"))
        for at in range(9):
            written = written.replace(f"%{at + 1}", str(count.get(str(at), starts.get(str(at), 1))))
        space = f"{{{etree.QName(line).namespace}}}"
        mark = {f"{space}id": "0", f"{space}name": f"{_NUMBER}{count[level]}-{written}"}
        line.insert(line.find("{*}pPr") is not None, etree.Element(f"{space}bookmarkStart", mark))


def _listed(line: Element, named: Mapping[str, Element]) -> tuple[str, str]:
    """List and level of a paragraph, perhaps those of its style."""
    style = named.get(_value(line.find("{*}pPr/{*}pStyle")), line)
    path = "{*}pPr/{*}numPr/{*}"
    number, level = (
        _value(line.find(path + name)) or _value(style.find(path + name)) for name in ("numId", "ilvl")
    )
    return number, level or "0"


def _value(node: Element | None, name: str = "val") -> str:
    """An attribute of an element, in any edition of the format's namespace; "" for none."""
    items = () if node is None else node.items()
    return next((value for key, value in items if etree.QName(key).localname == name), "")


def _integer(value: str) -> int:
    return int(value) if re.fullmatch(r"\d{1,9}", value) else 1


def _tidy(root: Element) -> None:
    """Give items their numbers, other paragraphs their written ones, and set footnotes apart."""
    for mark in list(root.iter("a")):
        name, target = mark.get("id") or "", mark.get("href") or ""
        if name.startswith(_NUMBER):
            number, _, written = name.removeprefix(_NUMBER).partition("-")
            item = next(mark.iterancestors("li"), None)
            if item is None:
                mark.text = f"{written} "
            elif item.get("value") is None:
                item.set("value", number)
        elif target.startswith(("#footnote-ref-", "#endnote-ref-")):
            mark.drop_tree()  # the link back to the text
    for item in root.iter("li"):
        around = item.getparent()
        if (item.get("id") or "").startswith(("footnote-", "endnote-")) and around is not None:
            around.set(ASIDE, "")
