"""The storyboard as an EPUB 3 book: one chapter, or a page per step of a picture book, pictures inside.

For e-readers. It reflows, so it has no page size; it states its language and direction, every picture has
alternative text, and a table of contents leads to titles and headings.
"""

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ebooklib import epub
from markupsafe import Markup

from limner.export import Exported, Plan, made_at, packed, put
from limner.export.leaf import Leaf, Piece, divided, fit, fit_own, language_of, pieces_of
from limner.export.markup import html_of
from limner.export.wording import colophon, credit_line, how_made
from limner.pictures.thumbnails import Copy
from limner.records import Board, PictureRef
from limner.templates import carried, environment, forbidden

SHOWN_MM = (160.0, 200.0)
"""Size of a picture on an e-reader."""


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the book.

    Args:
        board: the storyboard.
        out: the .epub file; the caller has made sure that it may be written.
        plan: content and layout.

    Raises:
        DataError: a picture is missing or cannot be read.
    """
    made = _Epub(board, plan)
    made.fill()
    # in memory, as ebooklib reports no error if the disk is full
    archive, now = io.BytesIO(), made_at()
    epub.write_epub(archive, made.book, {"mtime": now})
    put(out, packed(archive, now))
    return Exported(out, warnings=tuple(made.warnings))


class _Epub:
    """The book being written."""

    def __init__(self, board: Board, plan: Plan) -> None:
        story = board.story
        self.board, self.plan, self.layout = board, plan, plan.layout_for(story, ".epub")
        self.language, self.rtl = language_of(story) or "und", story.direction == "rtl"
        self.warnings = list(forbidden(story))
        self.title = carried(story.title.strip() or story.id)
        self.book: Any = epub.EpubBook()
        # equal storyboards get the same identifier, so that e-readers keep the reading position
        self.book.set_identifier(f"urn:sha256:{hashlib.sha256(board.model_dump_json().encode()).hexdigest()}")
        self.book.set_title(self.title)
        self.book.set_language(self.language)
        if story.author.strip():
            self.book.add_author(carried(story.author))
        if story.license.strip():
            self.book.add_metadata("DC", "rights", carried(story.license))
        self.book.set_direction("rtl" if self.rtl else "ltr")
        self.style = epub.EpubItem("style", "style.css", "text/css", _style().encode())
        self.book.add_item(self.style)
        self.chapters: list[Any] = []
        self.images: dict[str, str] = {}

    def fill(self) -> None:
        """Write all chapters and the table of contents."""
        story = self.board.story
        byline = Markup('<p class="byline" dir="auto">{}</p>').format(carried(story.author))
        front = Markup('<header class="front"><h1>{}</h1>{}</header>').format(
            self.title, byline if story.author.strip() else ""
        )
        made = [(piece, self.piece(piece)) for piece in pieces_of(self.board, self.plan, self.layout)]
        ending = Markup('<footer class="colophon">{}</footer>').format(
            Markup().join(Markup("<p>{}</p>").format(carried(line)) for line in self.last_lines())
        )
        links: list[Any] = []
        if self.layout == "book":
            self.chapter("front", self.title, front)
            for place, (piece, words) in enumerate(made):
                self.chapter(f"page-{place + 1}", _named(piece) or self.title, words)
                links += (
                    [epub.Link(f"page-{place + 1}.xhtml", _named(piece), f"toc-{place}")]
                    if _named(piece)
                    else []
                )
            if self.last_lines():
                self.chapter("colophon", self.title, ending)
        else:
            self.chapter(
                "text", self.title, Markup("\n").join([front, *(words for _, words in made), ending])
            )
            links = [
                epub.Link(f"text.xhtml#step-{piece.position}", _named(piece), f"toc-{piece.position}")
                for piece, _ in made
                if isinstance(piece, Leaf) and _named(piece)
            ]
        first = self.chapters[0]
        self.book.toc = [epub.Link(first.file_name, self.title, "toc-front"), *links]
        self.book.add_item(epub.EpubNcx())
        nav = epub.EpubNav(title=self.title, direction="rtl" if self.rtl else "ltr")
        self.book.add_item(nav)
        self.book.spine = list(self.chapters)

    def last_lines(self) -> list[str]:
        """Lines at the end of the book."""
        return [*colophon(self.board.story), *([how_made(self.board)] if self.plan.with_reasons else [])]

    def chapter(self, name: str, title: str, words: Markup) -> None:
        """Add a file to the book."""
        made: Any = epub.EpubHtml(
            uid=name,
            file_name=f"{name}.xhtml",
            title=title,
            lang=self.language,
            direction="rtl" if self.rtl else "ltr",
        )
        made.content = f"<html><body>{words}</body></html>"
        made.add_item(self.style)
        self.book.add_item(made)
        self.chapters.append(made)

    def piece(self, piece: Piece) -> Markup:
        """HTML of a step, or of the text between two."""
        if isinstance(piece, Leaf):
            return self.step(piece)
        return Markup("\n").join(
            Markup('<div class="{}">{}</div>').format(
                "supplies" if is_supplies else "prose", html_of(parts, picture=self.own)
            )
            for is_supplies, parts in divided(piece)
        )

    def step(self, leaf: Leaf) -> Markup:
        """HTML of a step with its pictures and, if requested, its reasons."""
        number = "" if leaf.number is None else Markup('<span class="number">{}</span>').format(leaf.number)
        heading = (
            Markup("<h{0}>{1}{2}</h{0}>").format(leaf.level, number, carried(leaf.title))
            if leaf.title
            else ""
        )
        alone = Markup('<p class="number">{}</p>').format(number) if number and not heading else ""
        words = html_of(leaf.body, least=leaf.level + 1)
        why = [] if leaf.picture is None else [f"{credit_line(leaf.picture)} · {leaf.file}"]
        lines = (*why, *leaf.why.lines()) if self.plan.with_reasons else ()
        told = Markup().join(
            Markup('<p class="why" dir="ltr" xml:lang="en" lang="en">{}</p>').format(one) for one in lines
        )
        return Markup('<section class="step" id="step-{}">\n{}{}\n{}\n{}{}</section>').format(
            leaf.position, heading, Markup("\n").join(self.pictures(leaf)), alone, words, told
        )

    def pictures(self, leaf: Leaf) -> Iterator[Markup]:
        """HTML of the pictures of a step, with captions."""
        for shown in leaf.pictures:
            copy = fit(shown, leaf.where, self.plan, SHOWN_MM)
            yield self.figure(copy, shown.alt, shown.caption)

    def own(self, picture: PictureRef) -> Markup:
        """HTML of a picture between the steps of the text."""
        copy = fit_own(picture, self.plan, SHOWN_MM, self.warnings)
        return Markup() if copy is None else self.figure(copy, picture.alt, picture.caption)

    def figure(self, copy: Copy, alt: str, caption: str) -> Markup:
        """HTML of a picture, whose file is in the book once."""
        content = hashlib.sha256(copy.data).hexdigest()[:16]
        if content not in self.images:
            self.images[content] = f"pictures/{content}.jpg"
            self.book.add_item(
                epub.EpubItem(f"picture-{content}", self.images[content], copy.media_type, copy.data)
            )
        below = Markup("<figcaption>{}</figcaption>").format(carried(caption)) if caption else ""
        return Markup('<figure><img src="{}" alt="{}"/>{}</figure>').format(
            self.images[content], carried(alt), below
        )


def _named(piece: Piece) -> str:
    """Title in the table of contents, or ""."""
    if isinstance(piece, Leaf):
        return carried(piece.title)
    return next((part.text for part in piece if part.kind == "heading"), "")


def _style() -> str:
    return environment().get_template("epub.css").render()
