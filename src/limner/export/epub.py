"""The storyboard as an EPUB 3 book: one chapter, or a page per step of a picture book, pictures inside.

For e-readers. It reflows, so it has no page size; it states its language and direction, and a table of
contents leads to titles and headings.
"""

import hashlib
import io
from pathlib import Path
from typing import Any

from ebooklib import epub
from markupsafe import Markup

from limner.export import Exported, Plan, made_at, packed
from limner.export.markup import html_of
from limner.export.outline import Illustration, Outline, Panel, Piece, divided
from limner.export.wording import how_made
from limner.files import write_bytes
from limner.records import Block, Board
from limner.templates import carried, environment

SHOWN_MM = (160.0, 200.0)
"""Size of a picture on an e-reader."""


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the book.

    Args:
        board: the storyboard.
        out: the .epub file; the caller has made sure that it may be written.
        plan: options.

    Raises:
        DataError: a picture is missing or cannot be read.
    """
    outline = Outline(board, plan, ".epub")
    # in memory, as ebooklib reports no error if the disk is full
    archive, now = io.BytesIO(), made_at()
    epub.write_epub(archive, _Epub(outline).book, {"mtime": now})
    write_bytes(out, packed(archive, now))
    return Exported(out, warnings=tuple(outline.warnings))


class _Epub:
    """The book being written."""

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self.language, self.direction = outline.language or "und", "rtl" if outline.rtl else "ltr"
        self.book: Any = epub.EpubBook()
        # equal storyboards get the same identifier, so that e-readers keep the reading position
        content = outline.board.model_dump_json().encode()
        self.book.set_identifier(f"urn:sha256:{hashlib.sha256(content).hexdigest()}")
        self.book.set_title(outline.title)
        self.book.set_language(self.language)
        self.book.set_direction(self.direction)
        if outline.author:
            self.book.add_author(outline.author)
        if outline.story.license.strip():
            self.book.add_metadata("DC", "rights", carried(outline.story.license))
        templates = environment()
        self.template = templates.get_template("epub.html")
        style = templates.get_template("epub.css").render().encode()
        self.style = epub.EpubItem("style", "style.css", "text/css", style)
        self.book.add_item(self.style)
        self.images: dict[str, str] = {}
        if outline.front is not None:
            self.book.set_cover("cover.jpg", outline.front.printed(*SHOWN_MM).data, create_page=False)
        self.cover = Markup("") if outline.cover is None else self.figure(outline.cover)
        self.fill()

    def fill(self) -> None:
        """Write all chapters and the table of contents."""
        outline, plan = self.outline, self.outline.plan
        last = [*outline.colophon, *([how_made(outline.board)] if plan.with_reasons else [])]
        pages = [self.page(piece, f"piece-{place}") for place, piece in enumerate(outline.pieces, 1)]
        chapters = [("text", outline.title, pages)]
        if outline.layout == "book":
            chapters = [(page["id"], page["title"] or outline.title, [page]) for page in pages]
            chapters.insert(0, ("front", outline.title, []))
            chapters += [("colophon", outline.title, [])] if last else []
        links, ends = [epub.Link(f"{chapters[0][0]}.xhtml", outline.title, "toc")], (0, len(chapters) - 1)
        for place, (name, title, inner) in enumerate(chapters):
            made: Any = epub.EpubHtml(name, f"{name}.xhtml", "", None, title, self.language, self.direction)
            is_first, is_last = (place == end for end in ends)
            words = self.template.render(
                outline=outline,
                cover=self.cover,
                pages=inner,
                reasons=plan.with_reasons,
                last=last,
                is_first=is_first,
                is_last=is_last,
            )
            made.content = f"<html><body>{words}</body></html>"
            made.add_item(self.style)
            self.book.add_item(made)
            self.book.spine.append(made)
            links += [
                epub.Link(f"{name}.xhtml#{page['id']}", page["title"], f"toc-{page['id']}")
                for page in inner
                if page["title"]
            ]
        self.book.toc = links
        self.book.add_item(epub.EpubNcx())
        self.book.add_item(epub.EpubNav(title=outline.title, direction=self.direction))

    def page(self, piece: Piece, identity: str) -> dict[str, Any]:
        """The template's values of a step, or of the text between two."""
        if isinstance(piece, Panel):
            words = [(False, html_of(piece.body, self.pictures, least=piece.level + 1))]
            plate = list(map(self.figure, piece.plate))
            return {"id": identity, "title": piece.title, "panel": piece, "plate": plate, "words": words}
        words = [(is_supplies, html_of(blocks, self.pictures)) for is_supplies, blocks in divided(piece)]
        title = next((block.text for block in piece if block.kind == "heading"), "")
        return {"id": identity, "title": title, "panel": None, "plate": [], "words": words}

    def pictures(self, block: Block) -> Markup:
        """HTML of the pictures among the words of a block."""
        return Markup("\n").join(self.figure(self.outline.figures[one]) for one in block.pictures)

    def figure(self, figure: Illustration) -> Markup:
        """HTML of a picture, whose file is in the book once."""
        copy = figure.printed(*SHOWN_MM)
        name = hashlib.sha256(copy.data).hexdigest()[:16]
        if name not in self.images:
            self.images[name] = f"pictures/{name}.jpg"
            item = epub.EpubItem(f"picture-{name}", self.images[name], copy.media_type, copy.data)
            self.book.add_item(item)
        caption = Markup("<figcaption>{}</figcaption>").format(figure.caption) if figure.caption else ""
        image = Markup('<img src="{}" alt="{}"/>').format(self.images[name], figure.alt)
        return Markup("<figure>{}{}</figure>").format(image, caption)
