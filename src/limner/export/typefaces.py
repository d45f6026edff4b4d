"""Typefaces for print: those that come with limner, and whether others of the system are needed."""

import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import typst
from PIL import ImageFont

FOLDER = Path(__file__).with_name("fonts")
WIDEST = FOLDER / "DejaVuSans.ttf"
"""The font of ours that holds all that the others hold, and more scripts."""


def visible(text: str) -> set[str]:
    """The characters of a text that need a glyph: no spaces, controls, joiners or direction marks."""
    return {
        letter
        for letter in text
        if unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp")
        and not 0xFE00 <= ord(letter) <= 0xFE0F
    }


def undrawn(letters: Iterable[str], font: Path, index: int = 0) -> set[str]:
    """Which of some characters a font has no glyph for; all where the file is no font with outlines.

    Args:
        letters: the characters.
        font: its file.
        index: its place in a file of several.
    """
    try:
        face = ImageFont.truetype(font, 24, index=index, layout_engine=ImageFont.Layout.BASIC)

        def drawn(letter: str) -> tuple[float, bytes]:
            return face.getlength(letter), bytes(face.getmask(letter))

        # No font has a glyph for this one: it is drawn as every character that is not there.
        nothing = drawn("\U0010ffff")
        return {letter for letter in letters if drawn(letter) == nothing}
    except (OSError, ValueError):
        # A damaged font of the system is no reason to fail: another may hold the character, and
        # if none does the caller is told.
        return set(letters)


def missing(letters: set[str]) -> tuple[set[str], bool]:
    """Characters that no font on this machine can draw, and whether fonts of the system are needed.

    Args:
        letters: those of a text that need a glyph.
    """
    left = undrawn(letters, WIDEST)
    needed = bool(left)
    for path, index in system() if left else ():
        left = undrawn(left, path, index)
        if not left:
            break
    return left, needed


@cache
def system() -> tuple[tuple[Path, int], ...]:
    """The system's fonts: file, and place in it."""
    found = typst.Fonts(include_embedded_fonts=False).fonts()
    return tuple((Path(font.path), font.index) for font in found if font.path)
