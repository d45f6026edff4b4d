"""The storyboard as one self-contained web page: an illustrated book, with its reasons a click away.

It is the main thing a reader gets, so it must open anywhere, for ever, offline: style and pictures
are inside, scripts and requests are forbidden by its own policy. It chooses no picture and keeps none.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from markupsafe import Markup

from limner.export.targets import whole
from limner.export.wording import (
    STRENGTHS,
    Explanation,
    alt_text,
    credit_line,
    explain,
    file_name,
    highlighted,
    is_word,
    paragraphs,
    picture_alt,
    picture_credits,
    signed,
    step_numbers,
    story_credits,
    strength,
)
from limner.pages import environment, forbidden, policy
from limner.pictures.thumbnails import Copy, shrink
from limner.records import BoardStep, Storyboard
from limner.storyboard.illustrate import step_texts


@dataclass(frozen=True)
class Piece:
    """A part of a text that is shown alike.

    Attributes:
        text: the part.
        met: whether it is of the matching words in the picture's words.
        strength: of attention, 1 to 5; 0 where there is none.
    """

    text: str
    met: bool
    strength: int


def pieces(
    texts: Sequence[str], matched: tuple[str, ...], attention: Sequence[tuple[str, float]]
) -> tuple[tuple[Piece, ...], ...]:
    """Texts cut where the matching words or the attention change; joined, the pieces are the texts.

    Args:
        texts: parts of one text in their order, such as its title and its paragraphs.
        matched: matching words.
        attention: words of the text in their order, with their shares; one that is not found is left out.
    """
    owners = [[0] * len(text) for text in texts]  # 1 + the number of the word that a letter belongs to
    place, start = 0, 0
    for number, (word, _) in enumerate(attention, 1):
        if not is_word(word):
            continue
        pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
        for part in range(place, len(texts)):
            found = pattern.search(texts[part], start if part == place else 0)
            if found:
                place, start = part, found.end()
                owners[part][found.start() : start] = [number] * (start - found.start())
                break
    return tuple(_cut(text, matched, own, attention) for text, own in zip(texts, owners, strict=True))


def _cut(
    text: str, matched: tuple[str, ...], owners: list[int], attention: Sequence[tuple[str, float]]
) -> tuple[Piece, ...]:
    """One text in pieces."""
    met = [is_met for piece, is_met in highlighted(text, matched) for _ in piece]
    found = []
    for (is_met, owner), places in groupby(range(len(text)), key=lambda at: (met[at], owners[at])):
        shown = "".join(text[at] for at in places)
        share = strength(attention[owner - 1][1], len(attention)) if owner else 0
        found.append(Piece(shown, is_met, share))
    return tuple(found)


PLATE_AREA_PX = 1_200_000
RIVAL_AREA_PX = 60_000
STRIP_AREA_PX = 26_000

SHOWN_WIDTH_PX = 1180
SHOWN_HEIGHT_PX = 720
ENLARGED = 2.4
"""How much larger than its own pixels a small picture may be shown before it looks soft."""

SHORT_WORDS = 40
LONG_WORDS = 110


@dataclass(frozen=True)
class Plate:
    """A picture as shown.

    Attributes:
        copy: its scaled copy.
        alt: alternative text.
        width, height: shown size in CSS pixels at most.
        shape: wide, tall or even.
    """

    copy: Copy
    alt: str
    width: int
    height: int
    shape: str


@dataclass(frozen=True)
class Rival:
    """A runner-up as shown."""

    copy: Copy
    alt: str
    name: str
    credit: str
    total: str


@dataclass(frozen=True)
class Leaf:
    """One step as shown.

    Attributes:
        number: 1-based.
        title: pieces of the heading; none without one.
        paragraphs: pieces of text.
        length: short, medium or long.
        initial: whether the text may open with a large first letter.
        plate: the picture; None for a blank.
        credit, name: of the picture.
        why: the explanation.
        looked: whether there is attention to show.
        rivals: runners-up.
    """

    number: int
    title: tuple[Piece, ...]
    paragraphs: tuple[tuple[Piece, ...], ...]
    length: str
    initial: bool
    origin: str
    plate: Plate | None
    credit: str
    name: str
    why: Explanation
    looked: bool
    rivals: tuple[Rival, ...]


def write_page(board: Storyboard, out: Path) -> tuple[str, ...]:
    """Write the page.

    Args:
        board: the storyboard.
        out: the .html file; checked by the caller.
    Returns:
        warnings.
    Raises:
        DataError: a picture is not there or cannot be read.
    """
    own = environment()
    own.filters["signed"] = signed
    style = own.get_template("storyboard.css").render()
    warnings = list(forbidden(board.story))
    # Streamed, so that one step's pictures are in memory at a time.
    parts = own.get_template("storyboard.html").generate(
        board=board,
        story=board.story,
        style=Markup(style),  # noqa: S704 - our own file, no part of it comes from a user
        policy=policy(style),
        strip=_strip(board),
        leaves=_leaves(board, warnings),
        credits=picture_credits(board),
        story_credits=story_credits(board.story),
        step_numbers=step_numbers,
        strengths=STRENGTHS,
        blanks=[step.position + 1 for step in board.steps if step.chosen is None],
    )
    with whole(out) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for part in parts:
            file.write(part)
    return tuple(warnings)


def _strip(board: Storyboard) -> Iterator[tuple[int, Copy | None]]:
    """Small copies of all chosen pictures, for the overview."""
    for step in board.steps:
        where = f"step {step.position + 1}"
        copy = None
        if step.chosen is not None:
            copy = shrink(step.chosen.picture, where, area_px=STRIP_AREA_PX, quality=74)
        yield step.position + 1, copy


def _leaves(board: Storyboard, warnings: list[str]) -> Iterator[Leaf]:
    searched = step_texts(board.story)
    for step in board.steps:
        text = board.story.steps[step.position]
        title = text.title.strip()
        why = explain(step)
        words = len(text.text.split())
        plate = _plate(board, step)
        warnings += () if plate is None else plate.copy.warnings
        parts = paragraphs(text.text)
        # A heading that was not searched has none of the attention, which the text must get.
        if searched[step.position] == text.text:
            heading, body = pieces([title], (), ())[0], pieces(parts, why.matched, step.attention)
        else:
            heading, *rest = pieces([title, *parts], why.matched, step.attention)
            body = tuple(rest)
        yield Leaf(
            number=step.position + 1,
            title=heading,
            paragraphs=body,
            length="short" if words <= SHORT_WORDS else "long" if words >= LONG_WORDS else "medium",
            initial=step.position == 0 and words > 12 and _takes_initial(text.text),
            origin=step.origin,
            plate=plate,
            credit="" if step.chosen is None else credit_line(step.chosen.picture),
            name="" if step.chosen is None else file_name(step.chosen.picture),
            why=why,
            looked=any(piece.strength for part in (heading, *body) for piece in part),
            rivals=tuple(_rivals(step)),
        )


def _takes_initial(text: str) -> bool:
    """Whether the first character is a letter that stands alone, as those of joined scripts do not."""
    name = unicodedata.name(text[:1], "")
    return name.startswith(("LATIN CAPITAL", "GREEK CAPITAL", "CYRILLIC CAPITAL"))


def _plate(board: Storyboard, step: BoardStep) -> Plate | None:
    if step.chosen is None:
        return None
    where = f"step {step.position + 1}"
    copy = shrink(step.chosen.picture, where, area_px=PLATE_AREA_PX)
    aspect = copy.width_px / copy.height_px
    width = min(copy.width_px * ENLARGED, SHOWN_WIDTH_PX, SHOWN_HEIGHT_PX * aspect)
    shape = "wide" if aspect >= 1.9 else "tall" if aspect <= 0.72 else "even"
    return Plate(
        copy, alt_text(step, board.story), max(1, round(width)), max(1, round(width / aspect)), shape
    )


def _rivals(step: BoardStep) -> Iterator[Rival]:
    for place, candidate in enumerate(step.runners_up, 1):
        where = f"step {step.position + 1}, runner-up {place}"
        yield Rival(
            copy=shrink(candidate.picture, where, area_px=RIVAL_AREA_PX, quality=76),
            alt=picture_alt(candidate.picture, f"Runner-up {place}"),
            name=file_name(candidate.picture),
            credit=credit_line(candidate.picture),
            total=signed(candidate.score + candidate.pull),
        )
