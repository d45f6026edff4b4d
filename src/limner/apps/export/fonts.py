"""Fonts for the PDF: DejaVu, which comes with matplotlib, and what the system has for other scripts.

A PDF carries its fonts, so a character no font here can draw must be known beforehand. It picks
files by the characters they hold; it shapes and draws nothing.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

REPLACEMENT = "\ufffd"


@dataclass(frozen=True)
class Face:
    """One font file.

    Attributes:
        path: the file.
        number: face within a collection, 0 elsewhere.
    """

    path: Path
    number: int = 0


@dataclass(frozen=True)
class Cover:
    """Fonts for a set of characters.

    Attributes:
        faces: fallback fonts, in the order to try them.
        missing: characters no font at hand can draw.
    """

    faces: tuple[Face, ...]
    missing: frozenset[str]


def dejavu(name: str) -> Path:
    """A font of the DejaVu family in matplotlib's data.

    Args:
        name: such as DejaVuSans or DejaVuSerif-Italic.
    """
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf"


def visible(text: str) -> set[str]:
    """The characters of a text that need a glyph: no spaces, controls, joiners or direction marks."""
    return {
        letter
        for letter in text
        if unicodedata.category(letter) not in ("Cc", "Cf", "Zs", "Zl", "Zp")
        and not 0xFE00 <= ord(letter) <= 0xFE0F
    }


def cover(characters: set[str], first: Iterable[Face], others: Iterable[Face] | None = None) -> Cover:
    """Fallback fonts that together hold as many of the characters as can be held.

    Args:
        characters: those that are needed.
        first: fonts that are used anyway.
        others: fonts to fall back on; those of the system if None, looked at only if needed.
    """
    left = {ord(letter) for letter in characters}
    for face in first:
        left -= _points(face)
    chosen: list[Face] = []
    if left:
        for face in system() if others is None else others:
            held = left & _points(face)
            if held:
                chosen.append(face)
                left -= held
            if not left:
                break
    return Cover(tuple(chosen), frozenset(map(chr, left)))


def system() -> list[Face]:
    """Font files of this system with outlines to embed, plain weights first, in a stable order."""
    from matplotlib import font_manager

    def rank(path: str) -> tuple[bool, bool, str]:
        name = Path(path).stem.lower()
        marked = any(word in name for word in ("bold", "italic", "oblique", "light", "thin", "black", "mono"))
        return "lastresort" in name, marked, path

    return [
        Face(Path(path))
        for path in sorted(font_manager.findSystemFonts(), key=rank)
        if "lastresort" not in path.lower()
    ]


def _points(face: Face) -> set[int]:
    """Code points a font can draw with outlines; none for a file that is no usable font."""
    import struct

    from fontTools.ttLib import TTFont, TTLibError  # type: ignore[import-untyped]

    if face.path.suffix.lower() not in (".ttf", ".otf", ".ttc", ".otc"):
        return set()
    try:
        # Opened here, for fontTools leaves a damaged file open.
        with face.path.open("rb") as file, TTFont(file, fontNumber=face.number, lazy=True) as font:
            if "cmap" not in font or not ("glyf" in font or "CFF " in font):
                return set()
            return set(font.getBestCmap() or ())
    except (TTLibError, OSError, KeyError, ValueError, AssertionError, struct.error):
        # A damaged font of the system is no reason to fail: another may hold the character, and
        # if none does the caller is told.
        return set()
