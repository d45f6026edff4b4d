"""Typefaces for print: those that come with limner, and those of the system that hold a text."""

import os
import struct
import unicodedata
from pathlib import Path

from fontTools.ttLib import TTFont, TTLibError  # type: ignore[import-untyped]

OUTLINES = (".ttf", ".otf", ".ttc", ".otc")
# Where Linux, macOS and Windows keep fonts; a folder that is not there holds none.
FONT_FOLDERS = (
    *("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts"),
    *("/Library/Fonts", "/System/Library/Fonts", "~/Library/Fonts"),
    *("$WINDIR/Fonts", "$LOCALAPPDATA/Microsoft/Windows/Fonts"),
)


def dejavu(name: str) -> Path:
    """A font of the DejaVu family that comes with limner.

    Args:
        name: DejaVuSans, DejaVuSansMono, or DejaVuSerif, plain, with -Bold or with -Italic.
    """
    return Path(__file__).with_name("fonts") / f"{name}.ttf"


def visible(text: str) -> set[str]:
    """The characters of a text that need a glyph: no spaces, controls, joiners or direction marks."""
    return {
        letter
        for letter in text
        if unicodedata.category(letter) not in ("Cc", "Cf", "Zs", "Zl", "Zp")
        and not 0xFE00 <= ord(letter) <= 0xFE0F
    }


def fallbacks(characters: set[str], first: Path) -> tuple[list[Path], set[str]]:
    """Fonts of the system, beside one that is used anyway, that hold as many characters as can be held.

    Args:
        characters: those that are needed.
        first: the font that is used anyway.
    Returns:
        the fonts in the order to try them, and the characters that no installed font can draw.
    """
    left = {ord(letter) for letter in characters} - _points(first)
    chosen: list[Path] = []
    for font in system() if left else ():
        held = left & _points(font)
        if held:
            chosen.append(font)
            left -= held
        if not left:
            break
    return chosen, set(map(chr, left))


def system() -> list[Path]:
    """Font files of this system with outlines to embed, plain weights first, in a stable order."""

    def rank(path: str) -> tuple[bool, str]:
        name = Path(path).stem.lower()
        marks = ("bold", "italic", "oblique", "light", "thin", "black", "mono")
        return any(mark in name for mark in marks), path

    folders = (Path(os.path.expandvars(one)).expanduser() for one in FONT_FOLDERS)
    found = (str(path) for folder in folders for path in folder.rglob("*") if path.suffix.lower() in OUTLINES)
    return [Path(path) for path in sorted(found, key=rank) if "lastresort" not in path.lower()]


def _points(font: Path) -> set[int]:
    """Code points a font can draw with outlines; none for a file that is no usable font."""
    if font.suffix.lower() not in OUTLINES:
        return set()
    try:
        # Opened here, for fontTools leaves a damaged file open.
        with font.open("rb") as file, TTFont(file, fontNumber=0, lazy=True) as found:
            if "cmap" not in found or not ("glyf" in found or "CFF " in found):
                return set()
            return set(found.getBestCmap() or ())
    except (TTLibError, OSError, KeyError, ValueError, AssertionError, struct.error):
        # A damaged font of the system is no reason to fail: another may hold the character, and
        # if none does the caller is told.
        return set()
