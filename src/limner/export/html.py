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

from limner.export.leaf import Leaf, leaves
from limner.export.targets import Exported, whole
from limner.export.wording import (
    STRENGTHS,
    credit_line,
    file_name,
    is_word,
    picture_alt,
    picture_credits,
    signed,
    step_numbers,
    story_credits,
    strength,
)
from limner.pictures.thumbnails import Copy, shrink
from limner.records import Storyboard
from limner.storyboard.illustrate import step_texts
from limner.templates import environment, forbidden, policy


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
    texts: Sequence[str], matched: Sequence[str], attention: Sequence[tuple[str, float]]
) -> list[list[Piece]]:
    """Texts cut where the matching words or the attention change; joined, the pieces are the texts.

    Args:
        texts: parts of one text in their order, such as its title and its paragraphs.
        matched: matching words or phrases; whole words only, whatever their case.
        attention: words of the text in their order, with their shares; one that is not found is left out.
    """
    joined = "\0".join(texts)
    met = [False] * len(joined)
    wanted = sorted(filter(str.strip, matched), key=len, reverse=True)
    if wanted:
        pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, wanted))})(?!\w)"
        for found in re.finditer(pattern, joined, re.IGNORECASE):
            met[found.start() : found.end()] = [True] * len(found.group())
    owners = [0] * len(joined)  # 1 + the number of the word that a letter belongs to
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
            [Piece("".join(joined[n] for n in run), own_met, strengths[own]) for (own_met, own), run in runs]
        )
        start += len(text) + 1
    return cut


PLATE_AREA_PX = 1_200_000
RUNNER_UP_AREA_PX = 60_000
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
        width, height: shown size in CSS pixels at most.
        shape: wide, tall or even.
    """

    copy: Copy
    width: int
    height: int
    shape: str


def write(board: Storyboard, out: Path) -> Exported:
    """Write the page.

    Args:
        board: the storyboard.
        out: the .html file; checked by the caller.
    Raises:
        DataError: a picture is not there or cannot be read.
    """
    own = environment()
    own.filters |= {
        "signed": signed,
        "credit_line": credit_line,
        "file_name": file_name,
        "picture_alt": picture_alt,
        "step_numbers": step_numbers,
    }
    style = own.get_template("storyboard.css").render()
    warnings = list(forbidden(board.story))
    # Streamed, so that one step's pictures are in memory at a time.
    parts = own.get_template("storyboard.html").generate(
        board=board,
        story=board.story,
        style=Markup(style),  # noqa: S704 - our own file, no part of it comes from a user
        policy=policy(style),
        strip=_strip(board),
        pages=_pages(board, warnings),
        credits=picture_credits(board),
        story_credits=story_credits(board.story),
        strengths=STRENGTHS,
        blanks=[step.position + 1 for step in board.steps if step.chosen is None],
    )
    with whole(out) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for part in parts:
            file.write(part)
    return Exported(out, warnings=tuple(warnings))


def _strip(board: Storyboard) -> Iterator[tuple[int, Copy | None]]:
    """Small copies of all chosen pictures, for the overview."""
    for number, step in enumerate(board.steps, 1):
        copy = None
        if step.picture is not None:
            copy = shrink(step.picture, f"step {number}", area_px=STRIP_AREA_PX, quality=74)
        yield number, copy


def _pages(board: Storyboard, warnings: list[str]) -> Iterator[dict[str, object]]:
    """What the template shows of each step."""
    searched = step_texts(board.story)
    for leaf in leaves(board):
        text, step = leaf.text.text, leaf.step
        words = len(text.split())
        plate = _plate(leaf)
        warnings += () if plate is None else plate.copy.warnings
        title, matched = leaf.text.title.strip(), leaf.why.matched
        # A heading that was not searched has none of the attention, which the text must get.
        if searched[step.position] == text:
            (heading,), body = pieces([title], (), ()), pieces(leaf.paragraphs, matched, step.attention)
        else:
            heading, *body = pieces([title, *leaf.paragraphs], matched, step.attention)
        yield {
            "leaf": leaf,
            "heading": heading,
            "paragraphs": body,
            "length": "short" if words <= SHORT_WORDS else "long" if words >= LONG_WORDS else "medium",
            "initial": leaf.number == 1 and words > 12 and _takes_initial(text),
            "plate": plate,
            "looked": any(piece.strength for part in (heading, *body) for piece in part),
            "runners_up": [
                (
                    one,
                    shrink(
                        one.picture, f"{leaf.where}, runner-up {n}", area_px=RUNNER_UP_AREA_PX, quality=76
                    ),
                )
                for n, one in enumerate(step.runners_up, 1)
            ],
        }


def _takes_initial(text: str) -> bool:
    """Whether the first character is a letter that stands alone, as those of joined scripts do not."""
    name = unicodedata.name(text[:1], "")
    return name.startswith(("LATIN CAPITAL", "GREEK CAPITAL", "CYRILLIC CAPITAL"))


def _plate(leaf: Leaf) -> Plate | None:
    if leaf.picture is None:
        return None
    copy = shrink(leaf.picture, leaf.where, area_px=PLATE_AREA_PX)
    aspect = copy.width_px / copy.height_px
    width = min(copy.width_px * ENLARGED, SHOWN_WIDTH_PX, SHOWN_HEIGHT_PX * aspect)
    shape = "wide" if aspect >= 1.9 else "tall" if aspect <= 0.72 else "even"
    return Plate(copy, max(1, round(width)), max(1, round(width / aspect)), shape)
