"""Words that belong to a picture: captions, credit, licence and capture time.

Every origin (EXIF, IPTC, XMP, sidecars, metadata rows, the file name) yields the same `Words`,
so that they merge by one rule. It cleans and merges; it opens no files.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from limner.records import Caption

CaptionSource = Literal["exif", "iptc", "xmp", "keywords", "sidecar", "metadata", "filename"]
CAPTION_SOURCES: tuple[CaptionSource, ...] = get_args(CaptionSource)
MAX_CAPTION_CHARS = 4000

# Written by cameras, scanners and programs into the description field; they say nothing about the picture.
_RUBBISH = re.compile(
    r"""((olympus|konica\ minolta|minolta|kodak|samsung|canon|nikon)?\ ?(digital\ )?(still\ )?camera
    |sony\ dsc|samsung(\ csc|\ camera\ pictures)?|maginon|jvc|exif_jpeg_picture|exif[_ ]?jpeg[_ ]?(t?4?2?2?)
    |dcim\\?\w*|dcf\ 1\.0|my\ beautiful\ picture|<?\s*digimax.*|untitled[ _\-]?\(?\d*\)?|default|charset\s*=.*
    |cof|edf|ptr|sdr|hdr|hdrpl|ozt?ln?|mde|rhdr|nor|_?bokeh|lavc\d.*|(adobe\ )?photoshop.*
    |(created|made|edited|processed)\ with\ (the\ )?(gimp|inkscape|vsco|snapseed|picasa|canva|paint).*
    |file\ (source|written)\ .*|screenshot|image|picture|photo|thumbnail
    |(cd-?\d+\ .*|creator:\ )gd-jpeg.*|optimized\ by\ .*)""",
    re.IGNORECASE | re.VERBOSE,
)
_CAMERA_TOKENS = frozenset(
    re.split(
        " ", "img dsc dscn dscf pict pxl mvimg vid mov wp dji gopr gh gx cimg p r s hpim sam imgp kodak fb"
    )
)
# Ordinary words that programs put into names: kept beside others, but no caption by themselves.
_FILLERS = frozenset(
    re.split(
        r"\s+",
        """image picture pic photo scan scanned capture snapshot bild foto untitled unnamed download
        file received page slide fig figure frame thumb thumbnail copy edit edited final new large small
        medium original default a i at am pm of the and""",
    )
)
_PROGRAMS = re.compile(r"(?i)(screen[ _-]?shot|bildschirmfoto|captura|capture d|whatsapp|signal-\d|telegram)")
_VOWEL = re.compile(r"[aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüýÿœ]", re.IGNORECASE)


@dataclass(frozen=True)
class Words:
    """What one or more origins say about a picture.

    Attributes:
        captions: in the order they should be read.
        credit: creator or credit line, or "".
        license: copyright or licence, or "".
        taken: capture time, without zone where none is stated.
        warnings: one line per damaged piece of metadata.
    """

    captions: tuple[Caption, ...] = ()
    credit: str = ""
    license: str = ""
    taken: datetime | None = None
    warnings: tuple[str, ...] = ()


def clean(text: str) -> str:
    """Words without control characters, surplus white space or what a camera wrote; "" if none are left."""
    text = "".join(" " if unicodedata.category(letter) in ("Cc", "Cs") else letter for letter in text)
    text = " ".join(text.split())
    if not any(letter.isalpha() for letter in text) or _RUBBISH.fullmatch(text):
        return ""
    return text[:MAX_CAPTION_CHARS]


def captions(texts: Iterable[str], source: CaptionSource) -> tuple[Caption, ...]:
    """Captions of one source from raw texts; empty and meaningless ones are left out."""
    cleaned = (clean(text) for text in texts)
    return tuple(Caption(text=text, source=source) for text in cleaned if text)


def unique_captions(found: Iterable[Caption]) -> tuple[Caption, ...]:
    """The first caption of every wording, letter case and final stop aside; order kept."""
    first: dict[str, Caption] = {}
    for caption in found:
        first.setdefault(caption.text.casefold().rstrip(" ."), caption)
    return tuple(first.values())


def merge(parts: Iterable[Words]) -> Words:
    """One `Words` from several, most trusted first.

    Captions add up; the first credit, licence and time win.
    """
    every = list(parts)
    return Words(
        captions=unique_captions(caption for part in every for caption in part.captions),
        credit=next((part.credit for part in every if part.credit), ""),
        license=next((part.license for part in every if part.license), ""),
        taken=next((part.taken for part in every if part.taken), None),
        warnings=tuple(warning for part in every for warning in part.warnings),
    )


def readable_name(stem: str) -> str:
    """A file name as words, or "" where a camera or a program chose it.

    ``grandma-baking-bread`` → "grandma baking bread"; ``IMG_2031``, hashes, UUIDs and screenshots → "".
    Two words of letters are asked for, or a single one of at least four letters in a name without digits.

    Args:
        stem: file name without folder and suffix.
    """
    text = unicodedata.normalize("NFC", stem)
    if _PROGRAMS.match(text):
        return ""
    if re.fullmatch(r"(?i)[0-9a-f]{8,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text):
        return ""
    text = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", text)
    tokens = [token for token in re.split(r"[\s_\-.+,()\[\]~&=%@#]+", text) if token]
    words = [token for token in tokens if _is_word(token)]
    mixed = [token for token in tokens if not token.isdigit() and token not in words]
    telling = [word for word in words if word.casefold() not in _FILLERS]
    if not telling or len(mixed) > len(words):
        return ""
    if len(words) == 1 and (len(words[0]) < 4 or any(letter.isdigit() for letter in text)):
        return ""
    kept = [token for token in tokens if token in words or (token.isdigit() and len(token) <= 4)]
    while kept and kept[-1].isdigit():
        kept.pop()
    while kept and kept[0].isdigit():
        kept.pop(0)
    return " ".join(kept)


def _is_word(token: str) -> bool:
    """Whether a piece of a file name is a word of some language, not a serial number or a code."""
    token = token.strip("'’")
    letters = [letter for letter in token if letter.isalpha()]
    if not letters or any(letter.isdigit() for letter in token) or token.casefold() in _CAMERA_TOKENS:
        return False
    if not all(
        letter.isalpha() or unicodedata.category(letter).startswith("M") or letter in "'’" for letter in token
    ):
        return False
    latin = all(ord(letter) < 0x250 for letter in letters)
    return (
        not latin or token.casefold() in {"a", "i"} or (len(letters) > 1 and _VOWEL.search(token) is not None)
    )
