"""The storyboard as a self-contained web page, on which the reasons can be unfolded.

It must open anywhere, offline, and still in many years: styles and pictures are embedded, and its content
security policy forbids scripts and requests.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby
from pathlib import Path

from markupsafe import Markup, escape

from limner.export import Exported, Layout, Plan, picture_share
from limner.export.leaf import Leaf, ShownPicture, divided, filling, fit_own, language_of, pieces_of
from limner.export.markup import html_of, inline_html
from limner.export.wording import (
    STRENGTHS,
    colophon,
    credit_line,
    file_name,
    how_made,
    is_word,
    picture_alt,
    picture_credits,
    settings,
    step_numbers,
    story_credits,
    strength,
)
from limner.files import replacing
from limner.match.illustrate import step_texts
from limner.pictures.thumbnails import Copy, shrink
from limner.records import Board, Framing, Part, Passage, PictureRef, chance_in_words
from limner.templates import environment, forbidden, policy


@dataclass(frozen=True)
class PagePart:
    """A part of a text with uniform formatting.

    Attributes:
        text: the part.
        met: whether its words match those of the picture.
        strength: strength of attention, 1 to 5; 0 if there is none.
    """

    text: str
    met: bool
    strength: int


def pieces(
    texts: Sequence[str], matched: Sequence[str], attention: Sequence[tuple[str, float]]
) -> list[list[PagePart]]:
    """Split texts where the matching words or the attention change; joined, the pieces are the texts.

    Args:
        texts: parts of one text in their order, such as its title and its paragraphs.
        matched: matching words or phrases; whole words only, whatever their case.
        attention: words of the text in order, with their shares; words that are not found are ignored.
    """
    joined = "\0".join(texts)
    met = [False] * len(joined)
    wanted = sorted(filter(str.strip, matched), key=len, reverse=True)
    if wanted:
        pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, wanted))})(?!\w)"
        for found in re.finditer(pattern, joined, re.IGNORECASE):
            met[found.start() : found.end()] = [True] * len(found.group())
    owners = [0] * len(joined)  # for each letter, 1 + the index of its word
    end = 0
    for number, (word, _) in enumerate(attention, 1):
        place = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)").search(joined, end) if is_word(word) else None
        if place:
            end = place.end()
            owners[place.start() : end] = [number] * len(word)
    strengths = [0, *(strength(share, len(attention)) for _, share in attention)]
    cut, start = [], 0
    for text in texts:
        runs = groupby(range(start, start + len(text)), key=lambda place: (met[place], owners[place]))
        cut.append(
            [
                PagePart("".join(joined[n] for n in run), own_met, strengths[own])
                for (own_met, own), run in runs
            ]
        )
        start += len(text) + 1
    return cut


PLATE_AREA_PX = 1_200_000
SMALL_AREA_PX = 400_000
OWN_MM = (150.0, 100.0)
RUNNER_UP_AREA_PX = 60_000
STRIP_AREA_PX = 26_000
STRIP_SHAPE = 4 / 3

SHOWN_WIDTH_PX = 1180
SHOWN_HEIGHT_PX = 720
ENLARGED = 2.4
"""Largest magnification of a small picture before it looks blurred."""

SHORT_WORDS = 40
LONG_WORDS = 110


@dataclass(frozen=True)
class PageFigure:
    """A picture as shown.

    Attributes:
        copy: its scaled copy.
        width, height: maximum displayed size in CSS pixels.
        shape: wide, tall or even.
        alt: alt text.
        caption: caption, or "".
    """

    copy: Copy
    width: int
    height: int
    shape: str
    alt: str
    caption: str


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the page.

    Args:
        board: the storyboard.
        out: the .html file; the caller has made sure that it may be written.
        plan: content and layout.

    Raises:
        DataError: a picture is missing or cannot be read.
    """
    own = environment()
    own.filters |= {
        "chance_in_words": chance_in_words,
        "credit_line": credit_line,
        "file_name": file_name,
        "picture_alt": picture_alt,
        "step_numbers": step_numbers,
    }
    layout = plan.layout_for(board.story, ".html")
    width, height = plan.page_mm()
    sheet = f"@page {{ size: {width:g}mm {height:g}mm{' landscape' if layout == 'slides' else ''}; }}\n"
    style = own.get_template("storyboard.css").render() + sheet
    warnings = list(forbidden(board.story))
    # Streamed, so that one step's pictures are in memory at a time.
    parts = own.get_template("storyboard.html").generate(
        board=board,
        story=board.story,
        language=language_of(board.story),
        layout=layout,
        roomy=layout == "recipe" and picture_share(board.story) >= 0.5,
        reasons=plan.with_reasons,
        style=Markup(style),  # noqa: S704 - our own file, no part of it comes from a user
        policy=policy(style),
        strip=_strip(board) if layout == "book" and len(board.steps) > 1 else (),
        pages=_pages(board, plan, layout, warnings),
        credits=picture_credits(board),
        story_credits=story_credits(board.story),
        settings=settings(board),
        made=how_made(board),
        colophon=colophon(board.story),
        strengths=STRENGTHS,
        blanks=[step.position + 1 for step in board.steps if step.chosen is None],
    )
    with replacing(out) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for part in parts:
            file.write(part)
    return Exported(out, warnings=tuple(warnings))


def _strip(board: Board) -> Iterator[tuple[int, Copy | None]]:
    """Thumbnails of all chosen pictures, for the overview."""
    for number, step in enumerate(board.steps, 1):
        copy = None
        if step.picture is not None:
            crop = filling(step.picture, step.framing.get(step.picture.id, Framing()), STRIP_SHAPE)
            copy = shrink(step.picture, f"step {number}", area_px=STRIP_AREA_PX, quality=74, crop=crop)
        yield number, copy


def _pages(board: Board, plan: Plan, layout: Layout, warnings: list[str]) -> Iterator[dict[str, object]]:
    """Yield the template's values of each step, and of the text between steps."""
    searched = step_texts(board.story)
    is_small = layout == "recipe" and picture_share(board.story) < 0.5
    usual = SMALL_AREA_PX if is_small else PLATE_AREA_PX
    area = None if plan.originals else usual
    for piece in pieces_of(board, plan, layout):
        if not isinstance(piece, Leaf):
            for is_supplies, parts in divided(piece):
                words = html_of(parts, picture=partial(_own, plan=plan, warnings=warnings))
                yield {"leaf": None, "words": words, "supplies": is_supplies}
            continue
        leaf, step = piece, piece.step
        words_count = len(leaf.text.text.split())
        plates = [_plate(shown, leaf.where, area) for shown in leaf.pictures]
        shown = leaf.body
        heading, body = escape(leaf.title), html_of(shown, least=3)
        looked = False
        if plan.with_reasons:
            # a heading that was not used in the search gets no attention
            alone = not searched[step.position].startswith(f"{leaf.text.title}. ")
            texts = [leaf.title, *(part.text for part in shown)]
            cut = pieces(texts[alone:], leaf.why.matched, step.attention)
            cut = [pieces(texts[:1], (), ())[0], *cut] if alone else cut
            looked = any(one.strength for part in cut for one in part)
            heading = inline_html(Passage(text=leaf.title), _marked(cut[0]))
            found = {id(part): _marked(own) for part, own in zip(shown, cut[1:], strict=True)}
            body = html_of(shown, marks=lambda part: found.get(id(part), ()), least=3)  # noqa: B023
        yield {
            "leaf": leaf,
            "heading": heading,
            "body": body,
            "length": "short"
            if words_count <= SHORT_WORDS
            else "long"
            if words_count >= LONG_WORDS
            else "medium",
            "initial": leaf.position == 1 and words_count > 12 and layout == "book" and _takes_initial(leaf),
            "plates": plates,
            "looked": looked,
            "runners_up": [
                (
                    one,
                    shrink(
                        one.picture, f"{leaf.where}, runner-up {n}", area_px=RUNNER_UP_AREA_PX, quality=76
                    ),
                )
                for n, one in enumerate(step.runners_up if plan.with_reasons else (), 1)
            ],
        }


def _marked(cut: Sequence[PagePart]) -> list[tuple[int, int, str]]:
    """Convert pieces of a text to marks."""
    ends = list(accumulate(len(piece.text) for piece in cut))
    marks = []
    for piece, end in zip(cut, ends, strict=True):
        start = end - len(piece.text)
        marks += [(start, end, "met")] if piece.met else []
        marks += [(start, end, f"look{piece.strength}")] if piece.strength else []
    return marks


def _own(picture: PictureRef, plan: Plan, warnings: list[str]) -> Markup:
    """HTML of a picture between the steps of the text."""
    copy = fit_own(picture, plan, OWN_MM, warnings, kind="WEBP")
    if copy is None:
        return Markup()
    caption = Markup("<figcaption>{}</figcaption>").format(picture.caption) if picture.caption else ""
    return Markup('<figure class="own"><img src="{}" width="{}" height="{}" alt="{}"/>{}</figure>').format(
        copy.uri, copy.width_px, copy.height_px, picture.alt, caption
    )


def _takes_initial(leaf: Leaf) -> bool:
    """Whether the text can have an initial: its first letter is not joined to the next."""
    first = leaf.parts[0] if leaf.parts else Part(kind="break")
    name = unicodedata.name(first.text[:1], "") if first.kind == "paragraph" else ""
    return name.startswith(("LATIN CAPITAL", "GREEK CAPITAL", "CYRILLIC CAPITAL"))


def _plate(shown: ShownPicture, where: str, area_px: int | None) -> PageFigure:
    copy = shrink(shown.picture, where, area_px=area_px, crop=shown.crop)
    aspect = copy.width_px / copy.height_px
    width = min(copy.width_px * ENLARGED, SHOWN_WIDTH_PX, SHOWN_HEIGHT_PX * aspect)
    shape = "wide" if aspect >= 1.9 else "tall" if aspect <= 0.72 else "even"
    return PageFigure(
        copy, max(1, round(width)), max(1, round(width / aspect)), shape, shown.alt, shown.caption
    )
