"""The storyboard as a self-contained web page, on which the reasons can be unfolded.

It must open anywhere, offline, and still in many years: styles and pictures are embedded, and its content
security policy forbids scripts and requests.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from markupsafe import Markup

from limner.export import Exported, Plan, picture_share
from limner.export.markup import html_of, inline_html
from limner.export.outline import Illustration, Outline, Panel, divided
from limner.export.wording import credit_line, file_name, holding, how_made, picture_credits, step_numbers
from limner.files import replacing
from limner.pictures.thumbnails import Copy, shrink
from limner.records import Block, Board, Passage, chance_in_words
from limner.templates import environment, policy

PLATE_AREA_PX = 1_200_000
SMALL_AREA_PX = 400_000
RUNNER_UP_AREA_PX = 60_000
FRONT_AREA_PX = 160_000
"""Pixels of the picture that stands for a page where it is linked to."""
STRIP_AREA_PX = 26_000
STRIP_SHAPE = 4 / 3

SHOWN_WIDTH_PX = 1180
SHOWN_HEIGHT_PX = 720
ENLARGED = 2.4
"""Largest magnification of a small picture before it looks blurred."""

SURE = 67
"""Probability in percent from which a relation is stated next to the picture."""
SHORT_WORDS = 40
LONG_WORDS = 110


def matches(text: str, phrases: Sequence[str]) -> list[tuple[int, int]]:
    """Ranges of the words of a text that match those of a picture: whole words, whatever their case."""
    known = sorted(filter(str.strip, phrases), key=len, reverse=True)
    pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, known))})(?!\w)"
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)] if known else []


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the page.

    Args:
        board: the storyboard.
        out: the .html file; the caller has made sure that it may be written.
        plan: options.

    Raises:
        DataError: a picture is missing or cannot be read.
    """
    outline = Outline(board, plan, ".html")
    templates = environment()
    templates.filters |= {
        "chance_in_words": chance_in_words,
        "credit_line": credit_line,
        "file_name": file_name,
        "step_numbers": step_numbers,
    }
    width, height = plan.page_mm()
    turned = " landscape" if outline.layout == "slides" else ""
    sheet = f"@page {{ size: {width:g}mm {height:g}mm{turned}; }}\n"
    style = templates.get_template("storyboard.css").render() + sheet
    # Streamed, so that one step's pictures are in memory at a time.
    parts = templates.get_template("storyboard.html").generate(
        board=board,
        outline=outline,
        roomy=outline.layout == "recipe" and picture_share(board.story) >= 0.5,
        reasons=plan.with_reasons,
        style=Markup(style),  # noqa: S704 - our own file, no part of it comes from a user
        policy=policy(style),
        strip=_strip(outline) if outline.layout == "book" and len(board.steps) > 1 else (),
        pages=_pages(outline),
        credits=picture_credits(board),
        made=how_made(board),
        blanks=[panel.position for panel in outline.panels if not panel.figures],
        cover=None if outline.cover is None else _plate(outline.cover, PLATE_AREA_PX),
        front=None if outline.front is None else outline.front.copy(FRONT_AREA_PX, kind="JPEG", quality=80),
    )
    with replacing(out) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for part in parts:
            file.write(part)
    return Exported(out, warnings=tuple(outline.warnings))


def _strip(outline: Outline) -> Iterator[tuple[int, Copy | None]]:
    """Thumbnails of the first pictures of all steps, for the overview."""
    for panel in outline.panels:
        copy = None
        if panel.figures:
            figure = panel.figures[0]
            copy = figure.copy(STRIP_AREA_PX, quality=74, crop=figure.filling(STRIP_SHAPE))
        yield panel.position, copy


def _pages(outline: Outline) -> Iterator[dict[str, object]]:
    """Yield the template's values of each step, and of the text between steps."""
    is_small = outline.layout == "recipe" and picture_share(outline.story) < 0.5
    area_px = SMALL_AREA_PX if is_small else PLATE_AREA_PX

    numbers = {id(figure): place + 1 for place, figure in outline.filled.items()}

    def shown(block: Block) -> Markup:
        figures = [outline.figures[one] for one in block.pictures]
        return Markup("\n").join(_own(figure, numbers.get(id(figure))) for figure in figures)

    for piece in outline.pieces:
        if not isinstance(piece, Panel):
            for is_supplies, blocks in divided(piece):
                yield {"panel": None, "words": html_of(blocks, shown), "supplies": is_supplies}
            continue
        reasons = outline.plan.with_reasons
        words = piece.step.chosen.matched if reasons and piece.step.chosen is not None else ()
        count = len(piece.text.split())
        yield {
            "panel": piece,
            "heading": inline_html(Passage(text=piece.title), matches(piece.title, words)),
            "body": html_of(piece.body, shown, marks=partial(matches, phrases=words), least=3),
            "length": "short" if count <= SHORT_WORDS else "long" if count >= LONG_WORDS else "medium",
            "initial": piece.position == 1
            and count > 12
            and outline.layout == "book"
            and _takes_initial(piece.body),
            "plates": [_plate(figure, area_px) for figure in piece.plate],
            "runners_up": [
                (other, shrink(other.picture, "runner-up", area_px=RUNNER_UP_AREA_PX, quality=76))
                for other in (piece.step.runners_up if reasons else ())
            ],
            "relation": next(
                (meaning for meaning, chance in holding(piece.step) if chance >= SURE and reasons), ""
            ),
        }


def _takes_initial(body: Sequence[Block]) -> bool:
    """Whether the text can have an initial: its first letter is not joined to the next."""
    first = body[0] if body else Block(kind="break")
    name = unicodedata.name(first.text[:1], "") if first.kind == "paragraph" and not first.pictures else ""
    return name.startswith(("LATIN CAPITAL", "GREEK CAPITAL", "CYRILLIC CAPITAL"))


def _own(figure: Illustration, number: int | None) -> Markup:
    """HTML of a picture among the words; one in a place that the text marks has the number of its step."""
    shown = _plate(figure, PLATE_AREA_PX)
    caption = Markup("<figcaption>{}</figcaption>").format(figure.caption) if figure.caption else ""
    image = Markup('<img src="{uri}" width="{width}" height="{height}" alt="{alt}"/>').format(**shown)
    name = Markup("") if number is None else Markup(' id="step-{}"').format(number)
    return Markup('<figure class="own"{}>{}{}</figure>').format(name, image, caption)


def _plate(figure: Illustration, area_px: int) -> dict[str, object]:
    """The template's values of a picture: its copy, and the largest displayed size in CSS pixels."""
    copy = figure.copy(area_px)
    aspect = copy.width_px / copy.height_px
    width = min(copy.width_px * ENLARGED, SHOWN_WIDTH_PX, SHOWN_HEIGHT_PX * aspect)
    shape = "wide" if aspect >= 1.9 else "tall" if aspect <= 0.72 else "even"
    size = {"width": max(1, round(width)), "height": max(1, round(width / aspect)), "shape": shape}
    return {"uri": copy.uri, "alt": figure.alt, "caption": figure.caption, **size}
