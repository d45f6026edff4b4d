"""Storyboards made of blocks, and what a reader finds in an export: words, pictures, alternative texts."""

import base64
import hashlib
import io
import re
import zipfile
from pathlib import Path

from bs4 import BeautifulSoup
from docx import Document
from docx.oxml.ns import qn
from PIL import Image
from pptx import Presentation
from pptx.enum.shapes import MSO_SHAPE_TYPE
from pypdf import PdfReader

from limner.records import Block, Board, BoardStep, Candidate, Caption, Picture, Step, Story
from limner.text.blocks import pictures_of, text_of

FORMATS = (".html", ".pdf", ".docx", ".epub", ".pptx")


def picture_of(path: Path, *, caption: str = "", credit: str = "", licence: str = "") -> Picture:
    """A picture as a library knows it; `caption` is from a sidecar."""
    with Image.open(path) as image:
        size, kind = image.size, image.format or ""
        width, height = size[::-1] if image.getexif().get(0x0112, 1) >= 5 else size
    identity = hashlib.sha256(path.read_bytes()).hexdigest()
    return Picture(
        id=identity,
        paths=(str(path),),
        width_px=width,
        height_px=height,
        format=kind,
        size_bytes=path.stat().st_size,
        phash="0" * 16,
        group=identity,
        captions=(Caption(text=caption, source="sidecar"),) if caption else (),
        credit=credit,
        license=licence,
    )


def candidate(picture: Picture) -> Candidate:
    return Candidate(picture=picture, score=1.5, agreement=0.25, probability=0.4, matched=("roof",))


def board_of(*parts: Block | list, title: str = "Lemon cake", **story: object) -> Board:
    """A storyboard of blocks between steps, and of steps: lists of blocks, last the chosen picture if any."""
    blocks: list[Block] = []
    steps: list[Step] = []
    chosen: list[BoardStep] = []
    for part in parts:
        if isinstance(part, Block):
            blocks.append(part)
            continue
        inside = [block for block in part if isinstance(block, Block)]
        picked = candidate(part[-1]) if isinstance(part[-1], Picture) else None
        heading = inside[0].text if inside[0].kind == "heading" else ""
        words = text_of(inside[bool(heading) :]) or heading
        run = (len(blocks), len(blocks) + len(inside))
        blocks += inside
        steps.append(Step(text=words, title=heading, pictures=pictures_of(inside), run=run))
        origin = "decoded" if picked else "blank"
        chosen.append(BoardStep(position=len(chosen), chosen=picked, origin=origin, reason="A reason."))
    made = Story(id="sample", title=title, steps=steps, blocks=blocks, **{"language": "en", **story})
    return Board(story=made, steps=tuple(chosen), version="0.1.0")


def item(text: str, number: int | None = None, depth: int = 1, **more: object) -> Block:
    return Block(kind="item", text=text, number=number, depth=depth, **more)


def members(path: Path) -> dict[str, bytes]:
    """Files of an archive."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def chapters(path: Path) -> list[BeautifulSoup]:
    """Pages of an EPUB in the order of its spine, or the one of an HTML file, without the overview."""
    if path.suffix == ".html":
        pages = [BeautifulSoup(path.read_text("utf-8"), "lxml")]
    else:
        parts = members(path)
        package = BeautifulSoup(parts["EPUB/content.opf"], "xml")
        files = {item["id"]: item["href"] for item in package.find_all("item")}
        spine = [files[entry["idref"]] for entry in package.find_all("itemref")]
        pages = [BeautifulSoup(parts[f"EPUB/{name}"], "xml") for name in spine]
    for page in pages:
        for overview in page.select("nav"):
            overview.decompose()
    return pages


def paragraphs_of(path: Path) -> list[tuple[str, bool]]:
    """Paragraphs of a Word document, also in its tables: the words, and whether a picture is in them."""
    lines = Document(path).element.body.iter(qn("w:p"))
    return [("".join(line.itertext(qn("w:t"))), bool(line.xpath(".//w:drawing"))) for line in lines]


def words_of(path: Path) -> str:
    """All words of an export as a reader meets them."""
    if path.suffix == ".pdf":
        text = " ".join(page.extract_text() for page in PdfReader(path).pages)
    elif path.suffix == ".docx":
        text = " ".join(words for words, _ in paragraphs_of(path))
    elif path.suffix == ".pptx":
        shown = [shape for shape in _shapes(path) if shape.has_text_frame and shape.top >= 0]
        text = " ".join(shape.text_frame.text for shape in shown)
    else:
        text = " ".join(page.body.get_text(" ") for page in chapters(path))
    return " ".join(text.split())


def alts_of(path: Path) -> list[str]:
    """Alternative texts of the pictures, in order; in a PDF, those that are not empty."""
    if path.suffix == ".pdf":
        return _tagged(PdfReader(path).trailer["/Root"]["/StructTreeRoot"]["/K"])
    if path.suffix == ".docx":
        nodes = Document(path).element.body.iter()
        return [node.get("descr") for node in nodes if node.tag.endswith("}docPr")]
    if path.suffix == ".pptx":
        return [shape._element._nvXxPr.cNvPr.get("descr") for shape in _pictures(path)]
    return [image["alt"] for page in chapters(path) for image in page("img")]


def _tagged(node) -> list[str]:
    """Alternative texts of a PDF's structure tree."""
    node = node.get_object() if hasattr(node, "get_object") else node
    if isinstance(node, list):
        return [alt for child in node for alt in _tagged(child)]
    if not isinstance(node, dict):
        return []
    return [*([str(node["/Alt"])] if "/Alt" in node else []), *_tagged(node.get("/K", []))]


def _shapes(path: Path) -> list:
    return [shape for slide in Presentation(path).slides for shape in slide.shapes]


def _pictures(path: Path) -> list:
    return [shape for shape in _shapes(path) if shape.shape_type == MSO_SHAPE_TYPE.PICTURE]


def images_of(path: Path) -> list[Image.Image]:
    """Different pictures of an export, in no particular order."""
    if path.suffix == ".pdf":
        files = [image.data for page in PdfReader(path).pages for image in page.images]
    elif path.suffix == ".html":
        images = [image for page in chapters(path) for image in page("img")]
        files = [base64.b64decode(image["src"].partition(",")[2]) for image in images]
    else:
        files = [data for name, data in members(path).items() if re.search(r"(?<!thumbnail)\.jpg$", name)]
    return [Image.open(io.BytesIO(data)).convert("RGB") for data in dict.fromkeys(files)]


def printed_sizes(path: Path) -> list[tuple[int, float]]:
    """Width of each picture in pixels and in inches on the page, for PDF, Word and slides."""
    if path.suffix == ".pptx":
        return [(shape.image.size[0], shape.width / 914_400) for shape in _pictures(path)]
    if path.suffix == ".docx":
        widths = [shape.width / 914_400 for shape in Document(path).inline_shapes]
        return list(zip([image.width for image in images_of(path)], widths, strict=True))
    pages = [(page, page.get_contents().get_data()) for page in PdfReader(path).pages]
    widths = [wide for _, data in pages for wide in re.findall(rb"q ([\d.]+) 0 0 [^q]+cm\s*/x\d+ Do", data)]
    images = [image.image.width for page, _ in pages for image in page.images]
    return [(pixels, float(wide) / 72) for pixels, wide in zip(images, widths, strict=True)]
