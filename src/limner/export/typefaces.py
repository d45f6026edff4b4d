"""Fonts for print: those that come with limner, and a check whether fonts of the system are needed."""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import typst
from PIL import ImageFont

FOLDER = Path(__file__).with_name("fonts")
WIDEST = FOLDER / "DejaVuSans.ttf"
"""Font that comes with limner; it has all characters of the other fonts, and more scripts."""

_SELECTORS = re.compile("[\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Variation selectors, which select a glyph for the preceding character and have none themselves."""
UNASSIGNED = "unassigned or private"
_NOTO = {"Han": "fonts-noto-cjk", "emoji": "fonts-noto-color-emoji"}


def script_of(letter: str) -> str:
    """Script of a letter by its Unicode name, such as Thai; Han for Chinese characters."""
    if unicodedata.category(letter) in ("Cn", "Co"):
        return UNASSIGNED
    first = unicodedata.name(letter, "unnamed").split()[0]
    if first in (
        "CJK",
        "HIRAGANA",
        "KATAKANA",
        "HANGUL",
        "IDEOGRAPHIC",
        "BOPOMOFO",
        "FULLWIDTH",
        "HALFWIDTH",
    ):
        return {"HANGUL": "Korean", "HIRAGANA": "Japanese", "KATAKANA": "Japanese"}.get(first, "Han")
    if unicodedata.category(letter)[0] in "LM" and first not in ("COMBINING", "MODIFIER", "MATHEMATICAL"):
        return first.capitalize()
    return "emoji" if ord(letter) >= 0x1F000 else "signs"


def package_for(scripts: Iterable[str]) -> str:
    """Debian packages whose fonts hold some scripts; "" if Unicode has no such characters."""
    east = {"Korean", "Japanese"}
    held = set(scripts) - {UNASSIGNED}
    found = {_NOTO["Han"] if one in east else _NOTO.get(one, "fonts-noto-core") for one in held}
    return " ".join(sorted(found))


def visible(text: str) -> set[str]:
    """Characters of a text that need a glyph: no spaces, controls, joiners or direction marks."""
    return {
        letter
        for letter in text
        if unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp")
        and not _SELECTORS.match(letter)
    }


def undrawn(letters: Iterable[str], font: Path, index: int = 0) -> set[str]:
    """Characters for which a font has no glyph; all if the file is no font with outlines.

    Args:
        letters: the characters.
        font: file of the font.
        index: index in a file of several fonts.
    """
    try:
        face = ImageFont.truetype(font, 24, index=index, layout_engine=ImageFont.Layout.BASIC)

        def drawn(letter: str) -> tuple[float, bytes]:
            return face.getlength(letter), bytes(face.getmask(letter))

        # no font has a glyph for this character, so it is drawn like any missing one
        nothing = drawn("\U0010ffff")
        return {letter for letter in letters if drawn(letter) == nothing}
    except (OSError, ValueError):
        # A damaged font of the system is not an error: another may have the character, and
        # if none does, it is reported.
        return set(letters)


def missing(letters: set[str]) -> tuple[set[str], bool]:
    """Characters without a glyph in any font on this machine, and whether fonts of the system are needed.

    Args:
        letters: characters that need a glyph.
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
    """Fonts of the system: file, and index in it."""
    found = typst.Fonts(include_embedded_fonts=False).fonts()
    return tuple((Path(font.path), font.index) for font in found if font.path)
