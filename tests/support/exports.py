"""Storyboards made of blocks, and what a reader finds in an export: words, pictures, alternative texts."""

import base64
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

from limner.records import Block, Board, BoardStep, Candidate, Picture, Step, Story
from limner.text.blocks import pictures_of, text_of

FORMATS = (".html", ".pdf", ".docx", ".epub", ".pptx")


def candidate(picture: Picture) -> Candidate:
    return Candidate(picture=picture, score=1.5, agreement=0.25, probability=0.4, matched=("roof",))


def board_of(*parts: Block | list, title: str = "Lemon cake", **story: object) -> Board:
    """A storyboard of blocks between steps, and of steps: lists of blocks, last the chosen picture if any."""
    blocks: list[Block] = []
    steps: list[Step] = []
    chosen: list[BoardStep] = []
    for part in parts:
        start = len(blocks)
        if isinstance(part, Block):
            blocks.append(part)
            continue
        picture = part[-1] if isinstance(part[-1], Picture) else None
        inside = [block for block in part if isinstance(block, Block)]
        blocks += inside
        heading = inside[0].text if inside[0].kind == "heading" else ""
        words = text_of(inside[bool(heading) :]) or heading
        run = (start, len(blocks))
        steps.append(Step(text=words, title=heading, pictures=pictures_of(inside), run=run))
        chosen.append(
            BoardStep(
                position=len(chosen),
                chosen=None if picture is None else candidate(picture),
                origin="blank" if picture is None else "decoded",
                reason="A reason.",
            )
        )
    told = Story(id="sample", title=title, steps=steps, blocks=blocks, **{"language": "en", **story})
    return Board(story=told, steps=tuple(chosen), version="0.1.0")


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
        spine = [files[one["idref"]] for one in package.find_all("itemref")]
        pages = [BeautifulSoup(parts[f"EPUB/{name}"], "xml") for name in spine]
    for page in pages:
        for overview in page.select("nav"):
            overview.decompose()
    return pages


def slides_of(path: Path) -> list[dict]:
    """Shapes of each slide by name."""
    return [{shape.name: shape for shape in slide.shapes} for slide in Presentation(path).slides]


def paragraphs_of(path: Path) -> list[tuple[str, bool]]:
    """Paragraphs of a Word document, also in its tables: the words, and whether a picture is in them."""
    lines = Document(path).element.body.iter(qn("w:p"))
    return [
        (
            "".join(node.text or "" for node in line.iter(qn("w:t"))),
            any(True for _ in line.iter(qn("w:drawing"))),
        )
        for line in lines
    ]


def words_of(path: Path) -> str:
    """All words of an export as a reader meets them."""
    if path.suffix == ".pdf":
        text = " ".join(page.extract_text() for page in PdfReader(path).pages)
    elif path.suffix == ".docx":
        text = " ".join(words for words, _ in paragraphs_of(path))
    elif path.suffix == ".pptx":
        shapes = [shape for slide in Presentation(path).slides for shape in slide.shapes]
        text = " ".join(one.text_frame.text for one in shapes if one.has_text_frame and one.top >= 0)
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
    return [image["alt"] for page in chapters(path) for image in page.find_all("img")]


def _tagged(node) -> list[str]:
    """Alternative texts of a PDF's structure tree."""
    node = node.get_object() if hasattr(node, "get_object") else node
    if isinstance(node, list):
        return [alt for one in node for alt in _tagged(one)]
    if not isinstance(node, dict):
        return []
    return [*([str(node["/Alt"])] if "/Alt" in node else []), *_tagged(node.get("/K", []))]


def _pictures(path: Path) -> list:
    shapes = [shape for slide in Presentation(path).slides for shape in slide.shapes]
    return [shape for shape in shapes if shape.shape_type == MSO_SHAPE_TYPE.PICTURE]


def images_of(path: Path) -> list[Image.Image]:
    """Different pictures of an export, in no particular order."""
    if path.suffix == ".pdf":
        found = [one.data for page in PdfReader(path).pages for one in page.images]
    elif path.suffix == ".html":
        sources = [image["src"] for page in chapters(path) for image in page.find_all("img")]
        found = [base64.b64decode(source.partition(",")[2]) for source in sources]
    else:
        parts = members(path)
        names = [name for name in parts if re.search(r"\.jpg$", name) and "thumbnail" not in name]
        found = [parts[name] for name in names]
    return [Image.open(io.BytesIO(data)).convert("RGB") for data in dict.fromkeys(found)]


def printed_sizes(path: Path) -> list[tuple[int, float]]:
    """Width of each picture in pixels and in inches on the page, for PDF, Word and slides."""
    if path.suffix == ".pptx":
        return [(shape.image.size[0], shape.width / 914_400) for shape in _pictures(path)]
    if path.suffix == ".docx":
        document = Document(path)
        widths = [shape.width / 914_400 for shape in document.inline_shapes]
        return list(zip([image.width for image in images_of(path)], widths, strict=True))
    pages = [(page, page.get_contents().get_data()) for page in PdfReader(path).pages]
    widths = [wide for _, data in pages for wide in re.findall(rb"q ([\d.]+) 0 0 [^q]+cm\s*/x\d+ Do", data)]
    images = [image.image.width for page, _ in pages for image in page.images]
    return [(pixels, float(wide) / 72) for pixels, wide in zip(images, widths, strict=True)]
