"""The storyboard as PDF: a picture book, a recipe, an article or slides.

For printing and sending. Typst lays it out from one template, `pages.typ`, which gets the text as data. Text
is shaped for every script, fonts are embedded, and the file is tagged as PDF/UA requires; characters without
a font are shown as U+FFFD and reported.
"""

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typst
from PIL import ImageFont

from limner.errors import counted
from limner.export import Exported, Plan, made_at, picture_share
from limner.export.markup import Listing, nested, runs_of
from limner.export.outline import INK, RUBRIC, SOFT, TINT, Illustration, Outline, Panel, Piece, divided
from limner.export.wording import how_made, one_line
from limner.files import storing, write_bytes
from limner.records import Block, Board, Passage
from limner.templates import carried

TEMPLATE = Path(__file__).with_name("pages.typ")
FONTS = Path(__file__).with_name("fonts")
WIDEST = FONTS / "DejaVuSans.ttf"
"""Font that comes with limner; it has all characters of the other fonts, and more scripts."""
SLIDE_MM = (338.67, 190.5)
PREVIEW_PPI = 96
DEEPEST = 6
"""Maximum nesting of lists that is shown as such; Typst refuses deeper ones."""
_SPACES = re.compile(r"[^\S\xa0\u202f]+")
_SELECTORS = re.compile("[\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Variation selectors, which select a glyph for the preceding character and have none themselves."""
Data = dict[str, Any]


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the document.

    Args:
        board: the storyboard.
        out: the .pdf file; the caller has made sure that it may be written.
        plan: options.

    Raises:
        DataError: a picture is missing or cannot be read.
    """
    made, notes = _typeset(board, plan)
    write_bytes(out, made[0])
    return Exported(out, warnings=notes)


def page_images(board: Board, plan: Plan) -> list[bytes]:
    """The pages of the document as PNG pictures, for a preview.

    Raises:
        DataError: see `write`.
    """
    return _typeset(board, plan, ppi=PREVIEW_PPI)[0]


def _typeset(board: Board, plan: Plan, *, ppi: float | None = None) -> tuple[list[bytes], tuple[str, ...]]:
    """The document, or with `ppi` its pages as pictures, and warnings."""
    book = _Book(Outline(board, plan, ".pdf"))
    # a mark of byte order, which no tagged file may contain, is a space of no width
    data, warnings = json.dumps(book.data(), ensure_ascii=False).replace("\ufeff", ""), book.outline.warnings
    lost, by_system = missing(visible(data))
    if lost:
        warnings.append(undrawable(data, lost))
        data = data.translate(dict.fromkeys(map(ord, lost), "\ufffd"))
    with TemporaryDirectory(prefix="limner-") as name, storing(name):
        # The template has access to this folder only.
        folder = Path(name)
        for file, content in book.files.items():
            (folder / file).write_bytes(content)
        (folder / "data.json").write_text(data, encoding="utf-8")
        (folder / "unseen.json").write_text(json.dumps(book.unseen), encoding="utf-8")
        (folder / TEMPLATE.name).write_bytes(TEMPLATE.read_bytes())
        options: Data = {
            "root": folder,
            "font_paths": [FONTS],
            "ignore_system_fonts": not by_system,
            "timestamp": int(made_at().timestamp()),
        }
        if ppi is not None:
            pages: Any = typst.compile(folder / TEMPLATE.name, format="png", ppi=ppi, **options)
            return pages if isinstance(pages, list) else [pages], ()
        try:
            made: Any = typst.compile(folder / TEMPLATE.name, pdf_standards="ua-1", **options)
        except typst.TypstError as error:
            if "PDF/UA" not in str(error):
                raise
            warnings.append(f"the file does not meet PDF/UA, for readers who cannot see: {error}")
            made = typst.compile(folder / TEMPLATE.name, **options)
    return [made], tuple(warnings)


class _Book:
    """The input of the template: text, sizes and pictures."""

    def __init__(self, outline: Outline) -> None:
        self.outline, self.layout = outline, outline.layout
        self.files: dict[str, bytes] = {}
        self.unseen: list[str] = []  # text that needs no glyph: metadata of the file, or read aloud
        width, height = outline.plan.page_mm()
        if self.layout in ("book", "slides"):
            width, height = max(width, height), min(width, height)
        if self.layout == "slides" and outline.plan.page_size is None:
            width, height = SLIDE_MM
        self.page, self.side = (width, height), min(width, height) * 0.095
        self.inner = wide, high = width - 2 * self.side, height - self.side - 18
        rooms = {
            "recipe": (wide * picture_share(outline.story) - 4, 70.0),
            "article": (wide, min(high * 0.36, wide * 0.75)),
        }
        self.room = rooms.get(self.layout, (wide * 0.52, high))
        """Maximum width and height of a step's picture in mm; in books, of all pictures of a step together.
        """
        self.above = self.level = 1  # level of the heading above the steps, and of the last heading

    def data(self) -> Data:
        """All data of the template."""
        outline = self.outline
        tags = [tag.lower() for tag in outline.language.split("-")]
        chinese = {"hant": "TW", "hans": "CN"}
        regions = [chinese.get(tag, tag.upper()) for tag in tags[1:] if tag in chinese or len(tag) == 2]
        return {
            "title": outline.title,
            "author": outline.author,
            "metadata": {"title": self.aside(outline.title), "author": self.aside(outline.author)},
            "language": tags[0] if re.fullmatch("[a-z]{2,3}", tags[0]) else "und",
            "region": next(filter(str.isalpha, regions), None),
            "rtl": outline.rtl,
            "layout": self.layout,
            "page": self.page,
            "side": self.side,
            "inner": self.inner,
            "room": self.room,
            "colours": {"ink": INK, "soft": SOFT, "rubric": RUBRIC, "tint": TINT},
            "cover": None if outline.cover is None else self.picture(outline.cover, *self.inner),
            "pieces": [self.piece(piece) for piece in outline.pieces],
            "colophon": outline.colophon,
            "made": carried(how_made(outline.board)) if outline.plan.with_reasons else "",
        }

    def piece(self, piece: Piece) -> Data:
        """Data of a step, or of the text between two."""
        if not isinstance(piece, Panel):
            runs = [{"supplies": one, "blocks": self.blocks(blocks)} for one, blocks in divided(piece)]
            self.above = self.level if any(block.kind == "heading" for block in piece) else self.above
            return {"step": False, "runs": runs}
        (wide, high), count, across = self.room, max(1, len(piece.plate)), 1
        if self.layout in ("book", "slides"):
            across = 2 if count > 3 else 1
            wide, high = wide / across, high / -(-count // across)
        reasons: list[str] = []
        if self.outline.plan.with_reasons:
            reasons = [f"{piece.position}  {piece.why[0]}", *piece.why[1:]]
        level = piece.level if piece.title else self.above + 1
        return {
            "step": True,
            "number": None if piece.number is None else str(piece.number),
            "title": piece.title,
            "level": self.heading(level) if piece.title or piece.number is not None else 0,
            "blocks": self.blocks(piece.body),
            "pictures": [self.picture(figure, wide, high) for figure in piece.plate],
            "across": across,
            "blank": carried(one_line(piece.step.reason)) if reasons and not piece.figures else None,
            "reasons": reasons,
        }

    def heading(self, level: int) -> int:
        """Level of a heading, at most one below that of the heading before it, as PDF/UA requires."""
        self.level = min(6, max(2, level), self.level + 1)
        return self.level

    def picture(self, figure: Illustration, width_mm: float, height_mm: float) -> Data:
        """Data of a picture, whose file is stored once."""
        copy = figure.printed(width_mm, height_mm)
        name = f"{hashlib.sha256(copy.data).hexdigest()[:16]}.jpg"
        self.files[name] = copy.data
        size = {"file": name, "aspect": copy.width_px / copy.height_px}
        return {"kind": "picture", "alt": self.aside(figure.alt), "caption": figure.caption, **size}

    def aside(self, text: str) -> int | None:
        """Index of a text among the invisible ones; None without text."""
        if not text:
            return None
        self.unseen.append(text)
        return len(self.unseen) - 1

    def blocks(self, blocks: Sequence[Block]) -> list[Data]:
        """Blocks, nested in their lists and quotations."""
        made: list[Data] = []
        for quoted, group in groupby(blocks, key=lambda block: block.quoted):
            flat = [block.model_copy(update={"depth": min(block.depth, DEEPEST)}) for block in group]
            inside = self.inside(nested(flat))
            made += [{"kind": "quote", "blocks": inside}] if quoted else inside
        return made

    def inside(self, blocks: Iterable[Block | Listing]) -> list[Data]:
        """Blocks and lists, each block preceded by its pictures."""
        made: list[Data] = []
        for block in blocks:
            if isinstance(block, Listing):
                numbers = range(block.start or 0, (block.start or 0) + len(block.items))
                items = [
                    {"number": None if block.start is None else number, "blocks": self.inside(item)}
                    for number, item in zip(numbers, block.items, strict=True)
                ]
                made.append({"kind": "list", "items": items})
                continue
            room = self.inner[0], self.page[1] * 0.36
            made += [self.picture(self.outline.figures[one], *room) for one in block.pictures]
            if block.kind == "table" and any(block.rows):
                across = max(map(len, block.rows))
                rows = [[self.runs(cell) for cell in row] + [[]] * (across - len(row)) for row in block.rows]
                made.append({"kind": "table", "rows": rows, "head": min(block.head, len(rows))})
            elif block.kind == "code":
                made.append({"kind": "code", "text": block.text})
            elif block.kind == "break" or block.text:
                kind = block.kind if block.kind in ("heading", "break") else "paragraph"
                level = self.heading(block.level) if kind == "heading" else 0
                made.append({"kind": kind, "runs": self.runs(block), "level": level})
        return made

    def runs(self, passage: Passage) -> list[Data]:
        """A passage as runs of uniform format, each a list of lines."""
        made: list[Data] = []
        for run in runs_of(passage):
            lines = [_SPACES.sub(" ", line) for line in run.text.split("\n")]
            lines[0] = lines[0] if made else lines[0].lstrip()
            made.append({"lines": lines, "to": self.aside(run.target), "kinds": sorted(run.kinds)})
        return made


def visible(text: str) -> set[str]:
    """Characters of a text that need a glyph: no spaces, controls, joiners or direction marks."""
    unseen = ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp")
    return {one for one in set(_SELECTORS.sub("", text)) if unicodedata.category(one) not in unseen}


def missing(letters: set[str]) -> tuple[set[str], bool]:
    """Characters without a glyph in any font on this machine, and whether fonts of the system are needed.

    Args:
        letters: characters that need a glyph.
    """
    left = undrawn(letters, WIDEST)
    needed = bool(left)
    for path, index in system_fonts() if left else ():
        left = undrawn(left, path, index) if left else left
    return left, needed


def undrawn(letters: Iterable[str], font: Path, index: int = 0) -> set[str]:
    """Characters for which a font has no glyph; all if the file is no font with outlines.

    Args:
        letters: the characters.
        font: file of the font.
        index: index in a file of several fonts.
    """
    try:
        face = ImageFont.truetype(font, 24, index=index, layout_engine=ImageFont.Layout.BASIC)
        drawn = {one: (face.getlength(one), bytes(face.getmask(one))) for one in {*letters, "\U0010ffff"}}
    except (OSError, ValueError):  # a damaged font of the system: another may have the character
        return set(letters)
    # no font has a glyph for this character, so it is drawn like any missing one
    return {one for one in letters if drawn[one] == drawn["\U0010ffff"]}


@cache
def system_fonts() -> tuple[tuple[Path, int], ...]:
    """Fonts of the system: file, and index in it."""
    fonts = typst.Fonts(include_embedded_fonts=False).fonts()
    return tuple((Path(font.path), font.index) for font in fonts if font.path)


def undrawable(text: str, lost: set[str]) -> str:
    """Warning about characters without a font, counted by the first words of their Unicode names."""
    counts: Counter[str] = Counter()
    for letter in lost:
        counts[unicodedata.name(letter, "unassigned").split()[0]] += text.count(letter)
    scripts = ", ".join(f"{script} {number:,}" for script, number in sorted(counts.items()))
    named = ", ".join(f"U+{ord(letter):04X}" for letter in sorted(lost)[:8])
    return (
        f"{counted(counts.total(), 'character')} that no font on this machine can draw, shown as \ufffd:"
        f" {scripts} ({named}{', …' if len(lost) > 8 else ''}); install fonts that hold them, such as Noto,"
        " and export again"
    )
