"""The storyboard as PDF: a picture book, a recipe, an article or slides.

For printing and sending. Typst lays it out from one template, `pages.typ`, which gets the text as data. Text
is shaped for every script, fonts are embedded, the file is tagged, and pictures have alt text; characters
without a font are shown as U+FFFD and reported.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typst

from limner.export import Exported, Plan, made_at, picture_share, put
from limner.export.leaf import INK, RUBRIC, SOFT, TINT, Leaf, divided, fit, fit_own, language_of, pieces_of
from limner.export.markup import Listing, ListItem, nested, runs_of
from limner.export.typefaces import FOLDER, missing, package_for, script_of, visible
from limner.export.wording import colophon, credit_line, how_made
from limner.files import storing
from limner.pictures.thumbnails import Copy
from limner.records import Board, Part, Passage
from limner.templates import carried, forbidden

TEMPLATE = Path(__file__).with_name("pages.typ")
SLIDE_MM = (338.67, 190.5)
DEEPEST = 6
"""Maximum nesting of lists that is shown as such; Typst refuses deeper ones."""

_CHINESE = {"hant": "TW", "hans": "CN"}
_SPACES = re.compile(r"[^\S\xa0\u202f]+")
Data = dict[str, Any]


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the document.

    Args:
        board: the storyboard.
        out: the .pdf file; the caller has made sure that it may be written.
        plan: content and layout.

    Raises:
        DataError: a picture is missing or cannot be read.
    """
    made, notes = _typeset(board, plan)
    put(out, made[0])
    return Exported(out, warnings=notes)


PREVIEW_PPI = 96


def page_images(board: Board, plan: Plan) -> list[bytes]:
    """The pages of the document as PNG pictures, for a preview.

    Raises:
        DataError: see `write`.
    """
    return _typeset(board, plan, ppi=PREVIEW_PPI)[0]


def _typeset(board: Board, plan: Plan, *, ppi: float | None = None) -> tuple[list[bytes], tuple[str, ...]]:
    """The document, or with `ppi` its pages as pictures, and warnings."""
    book = _Book(board, plan)
    data = json.dumps(book.data(), ensure_ascii=False)
    lost, by_system = missing(visible(data))
    if lost:
        book.warnings.append(undrawable(data, lost))
        data = data.translate(dict.fromkeys(map(ord, lost), "\ufffd"))
    with TemporaryDirectory(prefix="limner-") as name, storing(name):
        # The template has access to this folder only.
        folder = Path(name)
        for file, content in book.files.items():
            (folder / file).write_bytes(content)
        (folder / "data.json").write_text(data, encoding="utf-8")
        (folder / "unseen.json").write_text(json.dumps(book.unseen), encoding="utf-8")
        pages = folder / TEMPLATE.name
        pages.write_bytes(TEMPLATE.read_bytes())
        made = typst.compile(
            pages,
            root=folder,
            font_paths=[FOLDER],
            ignore_system_fonts=not by_system,
            timestamp=int(made_at().timestamp()),
            format="pdf" if ppi is None else "png",
            ppi=ppi,
        )
    return made if isinstance(made, list) else [made], tuple(book.warnings)


class _Book:
    """The input of the template: text, sizes and pictures."""

    def __init__(self, board: Board, plan: Plan) -> None:
        self.board, self.plan, self.layout = board, plan, plan.layout_for(board.story, ".pdf")
        self.warnings = list(forbidden(board.story))
        self.files: dict[str, bytes] = {}
        self.unseen: list[str] = []  # text that needs no glyph: metadata of the file, or read aloud
        width, height = plan.page_mm()
        if self.layout in ("book", "slides"):
            width, height = max(width, height), min(width, height)
        if self.layout == "slides" and plan.page_size is None:
            width, height = SLIDE_MM
        self.page = width, height
        self.side = min(width, height) * 0.095
        self.inner = width - 2 * self.side, height - self.side - 18
        (wide, high), share = self.inner, picture_share(board.story)
        self.room = {
            "recipe": (wide * share - 4, 70.0),
            "article": (wide, min(high * 0.36, wide * 0.75)),
        }.get(self.layout, (wide * 0.52, high))
        """Maximum width and height of a step's picture in mm; in books, of all pictures of a step together.
        """
        self.above = 1  # level of the heading above the steps

    def data(self) -> Data:
        """All data of the template."""
        story, board = self.board.story, self.board
        title = _words(story.title.strip() or story.id)
        pieces = [self.piece(piece) for piece in pieces_of(board, self.plan, self.layout)]
        tags = language_of(story).split("-")
        return {
            "title": title,
            "author": _words(story.author),
            "metadata": {"title": self.aside(title), "author": self.aside(_words(story.author))},
            "language": tags[0].lower() if re.fullmatch("[A-Za-z]{2,3}", tags[0]) else "und",
            "region": next(filter(None, map(_region, tags[1:])), None),
            "rtl": story.direction == "rtl",
            "layout": self.layout,
            "page": self.page,
            "side": self.side,
            "inner": self.inner,
            "room": self.room,
            "colours": {"ink": INK, "soft": SOFT, "rubric": RUBRIC, "tint": TINT},
            "pieces": pieces,
            "colophon": list(map(_words, colophon(story))),
            "made": _words(how_made(board)) if self.plan.with_reasons else "",
        }

    def piece(self, piece: Leaf | tuple[Part, ...]) -> Data:
        """Data of a step, or of the text between two."""
        if not isinstance(piece, Leaf):
            levels = [max(2, part.level) for part in piece if part.kind == "heading"]
            self.above = levels[-1] if levels else self.above
            runs = [{"supplies": one, "blocks": self.blocks(parts)} for one, parts in divided(piece)]
            return {"step": False, "runs": runs}
        count = len(piece.pictures)
        wide, high = self.room
        pictures = []
        for shown in piece.pictures:
            share = 1 if self.layout in ("recipe", "article") else count
            copy = fit(shown, piece.where, self.plan, (wide, high / share))
            pictures.append(self.picture(copy, shown.alt, shown.caption))
        reasons: tuple[str, ...] = ()
        if self.plan.with_reasons:
            credit = f"{credit_line(piece.picture)} · {piece.file}" if piece.picture else "No picture"
            reasons = (f"{piece.position}  {credit}", *piece.why.lines())
        return {
            "step": True,
            "number": None if piece.number is None else str(piece.number),
            "title": _words(piece.title),
            "level": piece.level if piece.title else min(6, self.above + 1),
            "blocks": self.blocks(piece.body),
            "pictures": pictures,
            "blank": _words(piece.step.reason) if reasons and not count else None,
            "reasons": list(map(_words, reasons)),
        }

    def picture(self, copy: Copy, alt: str, caption: str = "") -> Data:
        """Data of a picture, whose file is stored once."""
        name = f"{hashlib.sha256(copy.data).hexdigest()[:16]}.jpg"
        self.files[name] = copy.data
        size = {"file": name, "aspect": copy.width_px / copy.height_px}
        return {"kind": "picture", "alt": self.aside(_words(alt)), "caption": _words(caption), **size}

    def aside(self, text: str) -> int | None:
        """Index of a text among the invisible ones; None without text."""
        if not text:
            return None
        self.unseen.append(text)
        return len(self.unseen) - 1

    def blocks(self, parts: Sequence[Part]) -> list[Data]:
        """Parts, nested in their lists and quotations."""
        made: list[Data] = []
        for quoted, group in groupby(parts, key=lambda part: part.quoted):
            flat = [part.model_copy(update={"depth": min(part.depth, DEEPEST)}) for part in group]
            inside = self.inside(nested(flat))
            made += [{"kind": "quote", "blocks": inside}] if quoted else inside
        return made

    def inside(self, blocks: Iterable[Part | Listing]) -> list[Data]:
        """Parts and lists, each part preceded by its pictures."""
        made: list[Data] = []
        for block in blocks:
            if isinstance(block, Listing):
                made.append({"kind": "list", "items": list(map(self.item, block.items))})
                continue
            made += self.own(block)
            if block.kind == "table" and block.rows:
                across = max(map(len, block.rows))
                rows = [[self.runs(cell) for cell in row] + [[]] * (across - len(row)) for row in block.rows]
                made.append({"kind": "table", "rows": rows, "head": block.head, "across": across})
            elif block.kind == "code":
                made.append({"kind": "code", "text": carried(block.text)})
            elif block.kind == "break" or block.text:
                kind = block.kind if block.kind in ("heading", "break") else "paragraph"
                made.append({"kind": kind, "runs": self.runs(block), "level": max(2, block.level)})
        return made

    def item(self, item: ListItem) -> Data:
        """Data of a list item."""
        part = item.part
        words = {"kind": "paragraph", "runs": self.runs(part)}
        return {"number": part.number, "blocks": [*self.own(part), words, *self.inside(item.inner)]}

    def own(self, part: Part) -> list[Data]:
        """Pictures of the text before a part."""
        box = self.inner[0], self.page[1] * 0.36
        copies = ((fit_own(own, self.plan, box, self.warnings), own) for own in part.pictures)
        return [self.picture(copy, own.alt, own.caption) for copy, own in copies if copy is not None]

    def runs(self, passage: Passage) -> list[Data]:
        """A passage as runs of uniform format, each a list of lines."""
        made: list[Data] = []
        for run in runs_of(passage):
            lines = [_SPACES.sub(" ", line) for line in carried(run.text).split("\n")]
            lines[0] = lines[0] if made else lines[0].lstrip()
            made.append({"lines": lines, "to": self.aside(run.target), "kinds": sorted(run.kinds)})
        return made


def _region(tag: str) -> str | None:
    """Region stated in a language tag, or that of a Chinese script."""
    return tag.upper() if re.fullmatch("[A-Za-z]{2}", tag) else _CHINESE.get(tag.lower())


def _words(text: str) -> str:
    """One line of text that any document can contain."""
    return _SPACES.sub(" ", carried(text)).strip()


def undrawable(text: str, lost: set[str]) -> str:
    """Warning about characters without a font."""
    counts = Counter(dict.fromkeys(sorted(map(script_of, lost)), 0))
    for letter in lost:
        counts[script_of(letter)] += text.count(letter)
    count = counts.total()
    scripts = ", ".join(f"{script} {number:,}" for script, number in counts.most_common())
    named = ", ".join(f"U+{ord(letter):04X}" for letter in sorted(lost)[:8])
    more = f" and {len(lost) - 8} others" if len(lost) > 8 else ""
    packages = package_for(counts)
    remedy = f"; install fonts that hold them, on Debian {packages}, and export again" if packages else ""
    return (
        f"{count:,} character{'s' if count > 1 else ''} that no font on this machine can draw, shown as"
        f" \ufffd: {scripts} ({named}{more}){remedy}"
    )
