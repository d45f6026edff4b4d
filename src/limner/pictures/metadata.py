"""Reads captions and other metadata of a picture: from its file (EXIF, IPTC, XMP, PNG), its sidecars, and its
name.

Editors and agencies describe their pictures there, so their collections can be searched without further work.
Every source yields the same `Words`, which are merged by one rule; damaged metadata cause a warning.
"""

from __future__ import annotations

import html
import json
import os
import re
import unicodedata
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from defusedxml.ElementTree import fromstring
from PIL import ExifTags
from PIL.ExifTags import Base as Exif
from PIL.Image import Image
from PIL.ImageFile import ImageFile
from PIL.IptcImagePlugin import getiptcinfo

from limner.encodings import LATIN, decode_caption
from limner.errors import counted
from limner.files import display
from limner.locations import beginning
from limner.records import Caption

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


CaptionSource = Literal["exif", "iptc", "xmp", "keywords", "sidecar", "metadata", "filename"]
CAPTION_SOURCES: tuple[CaptionSource, ...] = get_args(CaptionSource)
TakenFrom = Literal["", "camera", "stated", "digitized"]
"""Source of a time: the camera (EXIF); other metadata or the file name; or only the time of digitizing."""
MAX_CAPTION_CHARS = 4000
MAX_METADATA_BYTES = 4 * 2**20
"""Maximum size of XMP, or of a text, inside a picture."""
MAX_CAMERA_CHARS = 100
MAX_CAPTIONS = 100
"""Maximum number of captions of a picture; each is encoded."""

# Texts that cameras, scanners and programs write into the description field, and that say nothing about the
# picture.
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
    re.findall(
        r"\w+", "img dsc dscn dscf pict pxl mvimg vid mov wp dji gopr gh gx cimg p r s hpim sam imgp kodak fb"
    )
)
# Ordinary words that programs, or people who number pictures, put into names: kept next to others, but no
# caption by themselves.
_FILLERS = frozenset(
    re.findall(
        r"\w+",
        """image picture pic photo scan scanned capture snapshot bild foto untitled unnamed download
        file received page slide fig figure frame thumb thumbnail copy edit edited final new large
        small medium original default pano burst shot collage kopie bearbeitet step schritt étape etape
        paso passo stap seite pagina página abb abbildung january february march april may june july
        august september october november december januar februar märz mai juni juli oktober
        dezember a i at am pm um of the and""",
    )
)
_PROGRAMS = re.compile(
    r"(?i)(screen[ _-]?shot|bildschirmfoto|schermata|schermafbeelding|captura|capture d"
    r"|whatsapp|signal-\d|telegram)"
)
_HASH = re.compile(r"(?i)[0-9a-f]{8,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FIRST_IDEOGRAPH = "\u3040"
_VOWEL = re.compile(r"[aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüýÿœ]", re.IGNORECASE)


Coordinates = tuple[float, float]
"""Latitude and longitude in degrees (WGS 84), positive to the north and the east."""


@dataclass(frozen=True)
class Words:
    """Captions and other metadata of a picture, from one or more sources.

    Attributes:
        captions: captions, in reading order.
        credit: creator or credit line, or "".
        license: copyright or licence, or "".
        taken: capture time, without a time zone if none is stated; at midnight if only the day is known.
        taken_from: source of `taken`.
        camera: make and model of the camera, or "".
        coordinates: where it was taken, or None.
        warnings: one line per damaged piece of metadata.
    """

    captions: tuple[Caption, ...] = ()
    credit: str = ""
    license: str = ""
    taken: datetime | None = None
    taken_from: TakenFrom = ""
    camera: str = ""
    coordinates: Coordinates | None = None
    warnings: tuple[str, ...] = ()


def plain(text: str) -> str:
    """Text without control characters and surplus white space."""
    text = "".join(" " if unicodedata.category(letter) in ("Cc", "Cs") else letter for letter in text)
    return " ".join(text.split())


_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});")
_TAG = re.compile(
    r"</?(?:a|b|big|blockquote|br|div|em|font|h[1-6]|i|li|ol|p|small|span|strong|sub|sup|u|ul)\b[^<>]*>",
    re.IGNORECASE,
)
_BREAK = re.compile(r"(?i)</?(?:blockquote|br|div|h[1-6]|li|ol|p|ul)\b")


def unmarked(text: str) -> str:
    """Text of a web program: its entities decoded once, its tags removed."""
    if _ENTITY.search(text):
        text = html.unescape(text)
    return _TAG.sub(lambda tag: " " if _BREAK.match(tag[0]) else "", text)


def clean(text: str) -> str:
    """`plain` text without markup; "" if it has no letters or a camera wrote it."""
    text = plain(unmarked(text[: 16 * MAX_CAPTION_CHARS]))  # white space may go
    if not any(letter.isalpha() for letter in text) or _RUBBISH.fullmatch(text):
        return ""
    return text[:MAX_CAPTION_CHARS]


_FILE_NAME = re.compile(r"(?i).{1,250}\.(jpe?g|png|heic|webp|gif|tiff?|avif|bmp|dng|mp4|mov|m4v|3gp)")


def captions(texts: Iterable[str], source: CaptionSource) -> tuple[Caption, ...]:
    """Captions from the raw texts of one source, without empty and meaningless ones, and without file names,
    which programs write as titles.
    """
    cleaned = (clean(text) for text in texts)
    return tuple(Caption(text=text, source=source) for text in cleaned if text and not _is_file_name(text))


def _is_file_name(text: str) -> bool:
    """Whether a text is only a file name, with its suffix or as a camera or program chose it."""
    chosen = " " not in text and (camera_number(text) or _HASH.fullmatch(text))
    return bool(chosen or _FILE_NAME.fullmatch(text))


def unique_captions(found: Iterable[Caption]) -> tuple[Caption, ...]:
    """Captions without repeats; those that differ only in letter case or a final full stop count as equal."""
    first: dict[str, Caption] = {}
    for caption in found:
        first.setdefault(caption.text.casefold().rstrip(" ."), caption)
    return tuple(first.values())


def merge(parts: Iterable[Words]) -> Words:
    """Merge several `Words`, most trusted first.

    All captions are kept, up to `MAX_CAPTIONS`; of credit, licence, time, camera and coordinates, the first
    counts. A capture time has priority over a time of digitizing, a more precise time over the same one, and
    local time over the same moment in UTC.
    """
    every = list(parts)
    found = unique_captions(caption for part in every for caption in part.captions)
    kept = f"{counted(len(found), 'caption')}; the first {MAX_CAPTIONS} are kept"
    more = (kept,) * (len(found) > MAX_CAPTIONS)
    taken, taken_from = _first_time(every)
    return Words(
        captions=found[:MAX_CAPTIONS],
        credit=next((part.credit for part in every if part.credit), ""),
        license=next((part.license for part in every if part.license), ""),
        taken=taken,
        taken_from=taken_from,
        camera=next((part.camera for part in every if part.camera), ""),
        coordinates=next((part.coordinates for part in every if part.coordinates), None),
        warnings=(*(warning for part in every for warning in part.warnings), *more),
    )


_ZONES = timedelta(hours=14)
"""Maximum difference between local time and UTC."""


def _first_time(parts: Iterable[Words]) -> tuple[datetime | None, TakenFrom]:
    """The time to use, and its source; see `merge`."""
    stated = [(part.taken, part.taken_from) for part in parts if part.taken is not None]
    captured = [(taken, source) for taken, source in stated if source != "digitized"] or stated
    if not captured:
        return None, ""
    first, first_source = captured[0]
    for other, source in captured[1:]:
        apart = abs(other.replace(tzinfo=None) - first.replace(tzinfo=None))
        of_day = is_day(first) and other.date() == first.date()
        of_second = source == "camera" and apart < timedelta(seconds=1)
        local = first.utcoffset() == timedelta(0) != other.utcoffset() and apart <= _ZONES
        if not is_day(other) and (of_day or of_second or local):
            return other, source
    return first, first_source


def is_day(taken: datetime) -> bool:
    """Whether only the day of a capture time is known."""
    return taken.time() == time.min


def readable_name(stem: str) -> str:
    """A file name as words, or "" if a camera or a program chose it.

    ``grandma-baking-bread`` → "grandma baking bread"; ``IMG_2031``, hashes, UUIDs and screenshots → "".
    A name needs two words of letters, or one word of at least three letters (``beach 2``, ``Oslo 2019``).

    Args:
        stem: file name without folder and suffix.
    """
    text = unicodedata.normalize("NFC", stem)
    if _PROGRAMS.match(text) or _HASH.fullmatch(text):
        return ""
    text = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", text)
    tokens = list(filter(None, re.split(r"[\s_\-.+,()\[\]~&=%@#]+", text)))
    words = list(filter(_is_word, tokens))
    mixed = [token for token in tokens if not token.isdigit() and token not in words]
    telling = [word for word in words if word.casefold() not in _FILLERS]
    if not telling or len(mixed) > len(words):
        return ""
    kept = [token for token in tokens if token in words or (token.isdigit() and len(token) <= 4)]
    short = len(words[0]) < (2 if words[0] >= _FIRST_IDEOGRAPH else 3)
    if len(words) == 1 and (short or len(kept) < len(tokens)):
        return ""
    places = [place for place, token in enumerate(kept) if token in words]
    return " ".join(kept[places[0] : places[-1] + 1])


_FRAME = re.compile(
    r"(_?(?:dsc[nf]?|pict|dji|gopr|cimg|hpim|sam|imgp|mg(?=_\d{4})|img(?=[-_]?\d{4})|p(?=\d{7})).*?)(\d+)",
    re.IGNORECASE,
)


def camera_number(stem: str) -> tuple[str, int] | None:
    """Prefix and number of a file name chosen by a camera; None for other names.

    Args:
        stem: file name without folder and extension, such as ``DSC_0012``; ``img1`` and ``p12`` may be pages
            of a book.
    """
    found = _FRAME.fullmatch(stem)
    return None if found is None else (found[1], int(found[2]))


_DATE = r"(?<!\d)((?:19|20)\d\d)([-_.]?)(\d\d)\2(\d\d)"
_DAY = re.compile(_DATE + r"(?!\d)")
_MOMENT = re.compile(
    _DATE + r"(?:[-_ T]| (?:at|um|à|a|a las?|a la\(s\)|alle|às|om|kl\.?|в) |)"
    r"(\d\d|\d(?=[.:]))([-.:_]?)(\d\d)\6(\d\d)(\d{3})?(?!\d)(?:\s?([AaPp])[Mm])?"
)


def moment_of_name(stem: str) -> datetime | None:
    """Time in a file name chosen by a program, such as ``IMG_20190721_140355``; PXL names have it in UTC.

    Returns:
        The time; midnight for a day, as in ``IMG-20190721-WA0003``; None if there is none.
    """
    stem = unicodedata.normalize("NFC", stem)
    zone = "+00:00" if stem.startswith("PXL_") else ""
    if (found := _MOMENT.search(stem)) is not None:
        year, _, month, day, hour, _, minute, second, thousandths, half = found.groups()
        hours = int(hour) if half is None else int(hour) % 12 + 12 * (half in "Pp")
        clock = f"{hours:02}:{minute}:{second}"
        if (moment := exif_time(f"{year}:{month}:{day} {clock}", zone, thousandths or "")) is not None:
            return moment
    found = _DAY.search(stem)
    return None if found is None else exif_time("{0}:{2}:{3} 00:00".format(*found.groups()))


def _is_word(token: str) -> bool:
    """Whether a part of a file name is a word of some language, not a serial number or a code."""
    token = token.strip("'’")
    letters = [letter for letter in token if letter.isalpha()]
    marks = "'’" + "".join(one for one in token if unicodedata.category(one).startswith("M"))
    if not letters or set(token) - {*letters, *marks} or token.casefold() in _CAMERA_TOKENS:
        return False
    foreign = any(ord(letter) >= 0x250 for letter in letters)
    spoken = len(letters) > 1 and _VOWEL.search(token) is not None
    return foreign or spoken or token.casefold() in {"a", "i"}


_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_PHOTOSHOP = "{http://ns.adobe.com/photoshop/1.0/}"
_IPTC = "{http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/}"
_XMP = "{http://ns.adobe.com/xap/1.0/}"
_TREES = {
    "{http://ns.adobe.com/lightroom/1.0/}hierarchicalSubject": "|",
    "{http://www.digikam.org/ns/1.0/}TagsList": "/",
    "{http://ns.microsoft.com/photo/1.0/}LastKeywordXMP": "/",
    "{http://ns.microsoft.com/photo/1.2/}LastKeywordXMP": "/",
    "{http://ns.acdsee.com/iptc/1.0/}Keywords": "|",
    "{http://ns.iview-multimedia.com/mediapro/1.0/}CatalogSets": "|",
}
"""Properties with hierarchical keywords such as ``Places|Norway|Bergen``, and their separators."""
_DEEP = (
    "{http://www.metadataworkinggroup.com/schemas/keywords/}Keyword",
    "{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}PersonInImage",
    "{http://www.metadataworkinggroup.com/schemas/regions/}Name",
    "{http://ns.microsoft.com/photo/1.2/t/Region#}PersonDisplayName",
)
"""Nested keywords, and names of people in regions, at any depth."""
_PLACES = (f"{_IPTC}Location", f"{_PHOTOSHOP}City", f"{_PHOTOSHOP}State", f"{_PHOTOSHOP}Country")
_EXIF = "{http://ns.adobe.com/exif/1.0/}"
_RIGHTS = "{http://ns.adobe.com/xap/1.0/rights/}"
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def read_xmp(packet: bytes, suffix: str = "") -> Words:
    """Read alt text, description, headline, title, keywords, places, creator, credit and rights of an XMP
    packet.

    Args:
        packet: the XML, with or without the packet wrapper.
        suffix: extension of the picture next to the packet, such as ``.jpg``; "" for a packet that certainly
            belongs to it. A packet that states another extension is ignored.
    Raises:
        ParseError: not well-formed XML; DefusedXmlException: it uses entities.
    """
    if not packet.startswith(BOM_UTF16_LE):  # its letters end with a zero
        packet = packet.strip(b"\0 \r\n\t")
    root: Element = fromstring(packet)
    properties: dict[str, list[str]] = defaultdict(list)
    for description in root.iter(f"{_RDF}Description"):
        for name, value in description.attrib.items():
            properties[name] += [value] if value.strip() else []
        for child in description:
            properties[child.tag] += _values(child)
    for name in _DEEP:
        properties[name] += filter(None, (element.text for element in root.iter(name)))

    def texts(*names: str) -> list[str]:
        return [text for name in names for text in properties[name]]

    owners = {owner.strip(" .").lower() for owner in texts(f"{_PHOTOSHOP}SidecarForExtension")} - {""}
    if suffix and owners and suffix.lower().lstrip(".") not in owners:
        return Words()
    described = texts(
        f"{_IPTC}AltTextAccessibility",
        f"{_DC}description",
        f"{_IPTC}ExtDescrAccessibility",
        f"{_PHOTOSHOP}Headline",
        f"{_DC}title",
    )
    trees = [part for name, mark in _TREES.items() for text in texts(name) for part in text.split(mark)]
    keywords = _listed([*texts(f"{_DC}subject"), *trees, *texts(*_DEEP, *_PLACES)])
    rights = texts(f"{_DC}rights", f"{_RIGHTS}UsageTerms", f"{_RIGHTS}WebStatement")
    original = texts(f"{_EXIF}DateTimeOriginal")
    captured = [*original, *texts(f"{_PHOTOSHOP}DateCreated")]
    return Words(
        captions=captions(described, "xmp") + captions([keywords], "keywords"),
        credit=_listed(texts(f"{_DC}creator", f"{_PHOTOSHOP}Credit")),
        license=clean(" ".join(rights[:1])),
        # The day of a scan is not used as the day of the photograph, even if that is unknown.
        taken=_xmp_time(captured or texts(f"{_EXIF}DateTimeDigitized", f"{_XMP}CreateDate")),
        taken_from="camera" if original else "stated" if captured else "digitized",
        coordinates=coordinates(
            *(next(map(_xmp_degrees, texts(f"{_EXIF}GPS{name}")), None) for name in ("Latitude", "Longitude"))
        ),
    )


def _values(element: Element) -> list[str]:
    """Texts of a property or of its list. Of a list by language, the default one; if that is missing or
    empty, all.
    """
    items = element.findall(f"*/{_RDF}li")  # only its own list: nested lists would be read repeatedly
    if not items:
        return [element.text] if element.text and element.text.strip() else []
    told = [item for item in items if item.text and item.text.strip()]
    default = [item for item in told if item.get(_LANG, "").lower() == "x-default"]
    if default and all(item.get(_LANG) for item in items):
        told = default
    return [item.text for item in told if item.text]


def _xmp_time(stated: list[str]) -> datetime | None:
    """The first stated time that is complete to the day; some programs write it as EXIF does."""
    for text in map(str.strip, stated):
        if re.match(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}|$)", text):
            with suppress(ValueError):
                return datetime.fromisoformat(text)
        elif (found := exif_time(text)) is not None:
            return found
    return None


def coordinates(latitude: object, longitude: object) -> Coordinates | None:
    """Two numbers as coordinates.

    Returns:
        None if they are no valid coordinates, or 0° 0°, which programs write if they know no place.
    """
    if not (isinstance(latitude, int | float) and isinstance(longitude, int | float)):
        return None
    there = abs(latitude) <= 90 and abs(longitude) <= 180 and (latitude or longitude)
    return (float(latitude), float(longitude)) if there else None


def _xmp_degrees(text: str) -> float | None:
    """``48,12.5N``, ``48,12,30N`` or ``48.2083`` → degrees; south and west are negative."""
    found = re.fullmatch(r"([+-]?\d+(?:\.\d+)?(?:,[0-5]?\d(?:\.\d+)?){0,2})([NSEW]?)", text.strip().upper())
    return None if found is None else _degrees([float(part) for part in found[1].split(",")], found[2])


def _degrees(parts: Sequence[float], toward: str) -> float:
    """Degrees, minutes and seconds as degrees; those to the south and the west are negative."""
    value = sum(float(part) / 60.0**place for place, part in enumerate(parts))
    return -value if toward in ("S", "W") else value


_PNG_DESCRIPTIONS = ("Description", "Title", "Comment", "Caption", "parameters")


def embedded(image: Image) -> Words:
    """All metadata of a loaded picture, most trusted source first.

    Args:
        image: picture as loaded by Pillow, before any conversion (which may drop metadata).
    """
    found = []
    for name, read in {"XMP": _xmp, "IPTC": _iptc, "EXIF": _exif, "EXIF GPS": _gps, "PNG text": _png}.items():
        # Parsers of damaged metadata raise nearly any error (struct.error, SyntaxError, KeyError …); the
        # picture itself is usable.
        try:
            found.append(read(image))
        except Exception as error:
            found.append(Words(warnings=(f"damaged {name}: {error or type(error).__name__}",)))
    return merge(found)


def _exif(image: Image) -> Words:
    """EXIF: ImageDescription, UserComment, the XP fields of Windows, date, camera, artist and copyright.

    DateTime is the time of the last change and so not used.
    """
    exif = image.getexif()
    if not exif:
        return Words()
    inner = exif.get_ifd(ExifTags.IFD.Exif)
    stated = [_raw(exif.get(field)) for field in (Exif.ImageDescription, Exif.Artist, Exif.Copyright)]
    encoding, noted = _exif_encoding(b"\n".join(stated).replace(b"\0", b"\n"))
    description, artist, rights = (raw.decode(encoding, errors="replace") for raw in stated)
    fields = (Exif.XPTitle, Exif.XPSubject, Exif.XPComment)
    described = [
        description,
        *(_utf16(exif.get(field)) for field in fields),
        _user_comment(inner.get(Exif.UserComment), big_endian=exif.endian == ">"),
    ]
    keywords = _keywords([_utf16(exif.get(Exif.XPKeywords))])
    captured, digitized = (
        exif_time(*(_text(inner.get(field)) for field in fields))
        for fields in (
            (Exif.DateTimeOriginal, Exif.OffsetTimeOriginal, Exif.SubsecTimeOriginal),
            (Exif.DateTimeDigitized, Exif.OffsetTimeDigitized, Exif.SubsecTimeDigitized),
        )
    )
    return Words(
        captions=captions(described, "exif") + captions([keywords], "keywords"),
        credit=clean(artist) or clean(_utf16(exif.get(Exif.XPAuthor))),
        license=clean(rights.replace("\0", " ")),
        taken=captured or digitized,
        taken_from="camera" if captured else "digitized",
        camera=_camera(plain(_text(exif.get(Exif.Make))), plain(_text(exif.get(Exif.Model)))),
        warnings=noted,
    )


def _camera(make: str, model: str) -> str:
    """``Apple`` and ``iPhone 13`` → both; ``NIKON CORPORATION`` and ``NIKON D750`` → the model."""
    repeated = make.split()[:1] == model.split()[:1]
    return (model if repeated else f"{make} {model}".strip())[:MAX_CAMERA_CHARS]


def _exif_encoding(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Encoding of EXIF texts, which should be ASCII, and a warning if it was guessed.

    A text with few non-ASCII letters whose encoding is uncertain is read as Windows-1252.
    """
    certain = _certain_encoding(data)
    beyond, plain_letters = len(re.findall(rb"[\x80-\xff]", data)), len(re.findall(rb"[A-Za-z]", data))
    if certain is None and beyond > plain_letters:
        return _likely_encoding("EXIF", data)
    return certain or "cp1252", ()


def _gps(image: Image) -> Words:
    """Coordinates from the GPS block of EXIF; None if it does not state the hemispheres."""
    gps = image.getexif().get_ifd(ExifTags.IFD.GPSInfo)
    fields = (
        (ExifTags.GPS.GPSLatitude, ExifTags.GPS.GPSLatitudeRef, "NS"),
        (ExifTags.GPS.GPSLongitude, ExifTags.GPS.GPSLongitudeRef, "EW"),
    )
    found: list[float | None] = []
    for number, reference, letters in fields:
        toward = _text(gps.get(reference)).strip().upper()[:1]
        parts = gps.get(number)
        is_told = toward != "" and toward in letters
        found.append(_degrees(parts, toward) if is_told and isinstance(parts, tuple) else None)
    return Words(coordinates=coordinates(*found))


def exif_time(moment: str, offset: str = "", fraction: str = "") -> datetime | None:
    """``2019:07:21 14:03:55``, ``+02:00`` and ``48`` → a time, with a time zone only if one is stated.

    Args:
        moment: day and time.
        offset: time zone, or "".
        fraction: decimals of the second, or "".
    Returns:
        None for a time that is empty, zero or impossible, as written by cameras without a set clock.
    """
    found = re.match(r"(\d{4})[:\-](\d{2})[:\-](\d{2})[ T](\d{2}:\d{2}(?::\d{2})?)", moment)
    zone = offset if re.fullmatch(r"[+-]\d{2}:\d{2}", offset) else ""
    microsecond = int(f"{re.sub('[^0-9].*', '', fraction)[:6]:0<6}")
    with suppress(ValueError):
        if found is not None:
            taken = datetime.fromisoformat("{}-{}-{}T{}".format(*found.groups()) + zone)
            return taken.replace(microsecond=microsecond)
    return None


_ISO_2022 = {
    **{b"A": "iso8859-1", b"B": "iso8859-2", b"C": "iso8859-3", b"D": "iso8859-4", b"F": "iso8859-7"},
    **{b"G": "iso8859-6", b"H": "iso8859-8", b"L": "iso8859-5", b"M": "iso8859-9", b"V": "iso8859-10"},
    **{b"Y": "iso8859-13", b"_": "iso8859-14", b"b": "iso8859-15", b"f": "iso8859-16"},
}
"""Final byte of an escape sequence → right half of the code table that it selects."""
_IPTC_CHARSET = (1, 90)


def _iptc(image: Image) -> Words:
    """IPTC: caption, headline, title, keywords, places, by-line, credit and copyright.

    Source: IPTC Information Interchange Model 4.2, 1:90 (coded character set), with ISO 2022's escapes.
    """
    found = getiptcinfo(cast(ImageFile, image))
    if not found:
        return Words()
    raw: dict[int, list[bytes]] = {}
    for (record, number), value in found.items():
        if record == 2:
            raw[number] = [bytes(one) for one in (value if isinstance(value, list) else [value])]
    encoding, noted = _iptc_encoding(found.get(_IPTC_CHARSET), b"\n".join(chain.from_iterable(raw.values())))

    def texts(*numbers: int) -> list[str]:
        parts = (part.strip(b"\0 ") for number in numbers for part in raw.get(number, []))
        return [part.decode(encoding, errors="replace") for part in parts]

    described = texts(120, 105, 5)
    keywords = _listed([_keywords(texts(25)), *texts(92, 90, 95, 101)])
    return Words(
        captions=captions(described, "iptc") + captions([keywords], "keywords"),
        credit=clean(", ".join(dict.fromkeys(filter(None, texts(80) + texts(110))))),
        license=clean(" ".join(texts(116))),
        taken=_iptc_time(" ".join(texts(55)), " ".join(texts(60))),
        taken_from="stated",
        warnings=noted,
    )


def _iptc_encoding(declared: object, data: bytes) -> tuple[str, tuple[str, ...]]:
    """Encoding of IPTC texts: the declared one if they are valid in it, else UTF-8, else the most likely one.

    Args:
        declared: escape sequence of the file, as given by Pillow, or None.
        data: all its texts.
    Returns:
        The encoding, and a warning if it was guessed.
    """
    escape = bytes(declared[-1]) if isinstance(declared, list) and declared else declared
    called = re.findall(rb"\x1b[-./](.)", escape) if isinstance(escape, bytes) else []
    for encoding in (_ISO_2022.get(final, "utf-8") for final in called[-1:]):
        if _is_valid(data, encoding):
            return encoding, ()
    certain = _certain_encoding(data)
    return _likely_encoding("IPTC", data) if certain is None else (certain, ())


def _certain_encoding(data: bytes) -> str | None:
    """Encoding of texts if it is certain, whatever the file declares; otherwise None."""
    for encoding in (*_escaped(data), "utf-8"):
        if _is_valid(data, encoding):
            return encoding
    with suppress(ValueError):
        certain = decode_caption(data)
        valid = (one for one in (*LATIN, "cp932") if _is_valid(data, one))
        return next((one for one in valid if data.decode(one) == certain), None)
    return None


def _likely_encoding(where: str, data: bytes) -> tuple[str, tuple[str, ...]]:
    """The most likely encoding of texts, and a warning."""
    from charset_normalizer import from_bytes

    best = from_bytes(data).best()
    encoding = "cp1252" if best is None else best.encoding
    return encoding, (
        f"{where}: the texts are not UTF-8 and name no other encoding; read as {encoding}; if that is wrong,"
        " write them again as UTF-8",
    )


def _escaped(data: bytes) -> tuple[str, ...]:
    """Encoding of 7-bit Japanese, if its escape sequences occur."""
    return ("iso2022_jp",) if b"\x1b$" in data else ()


def _is_valid(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _iptc_time(date: str, time: str) -> datetime | None:
    """``20190721`` and ``140355+0200`` → a time; without a time of day only the day; None without a day."""
    if not re.fullmatch(r"\d{8}", date):
        return None
    time = time if re.match(r"\d{6}", time) else "000000"
    zone = f"{time[6:9]}:{time[9:11]}" if re.fullmatch(r"\d{6}[+-]\d{4}", time) else ""
    moment = f"{date[:4]}:{date[4:6]}:{date[6:]} {time[:2]}:{time[2:4]}:{time[4:6]}"
    return exif_time(moment, zone)


def _xmp(image: Image) -> Words:
    """The XMP packet, wherever the format stores it."""
    packet = image.info.get("xmp") or b""
    packet = packet.encode() if isinstance(packet, str) else bytes(packet)
    if len(packet) > MAX_METADATA_BYTES:
        return Words(warnings=(f"XMP: {len(packet):,} bytes; only up to {MAX_METADATA_BYTES:,} are read",))
    return read_xmp(packet) if packet else Words()


def _png(image: Image) -> Words:
    """Text chunks of a PNG: Description, Title, Comment, Author, Copyright."""
    if image.format != "PNG":
        return Words()
    texts = {key: _text(value) for key, value in image.info.items() if isinstance(value, str)}
    described = [texts.get(key, "") for key in _PNG_DESCRIPTIONS]
    return Words(
        captions=captions(described, "exif"),
        credit=clean(texts.get("Author", "")),
        license=clean(texts.get("Copyright", "")),
    )


def _keywords(words: list[str]) -> str:
    """Keywords as one caption: "baking, bread, kitchen"; hierarchy marks become commas."""
    return _listed(part for word in words for part in re.split(r"[|;,]", word))


def _listed(words: Iterable[str]) -> str:
    """Cleaned keywords without repeats, separated by commas."""
    return ", ".join(dict.fromkeys(filter(None, map(clean, words))))


def _text(value: object) -> str:
    """An EXIF text as Pillow gives it (bytes, or Latin-1 wrongly taken for the writer's UTF-8) → str."""
    if isinstance(value, str) and not _is_latin(value):
        return value.strip("\0 ")
    return _decode(_raw(value))


def _is_latin(text: str) -> bool:
    return all(ord(letter) < 0x100 for letter in text)


def _raw(value: object) -> bytes:
    """Bytes of an EXIF text, without the zeros and spaces around it."""
    if isinstance(value, str):
        value = value.encode("latin-1" if _is_latin(value) else "utf-8")
    return value[:MAX_METADATA_BYTES].strip(b"\0 ") if isinstance(value, bytes) else b""


def _decode(raw: bytes) -> str:
    """Decode bytes as UTF-8 if they are valid, else as Windows-1252, whatever the file declares."""
    raw = raw.strip(b"\0 ")
    encoding = next((one for one in (*_escaped(raw), "utf-8") if _is_valid(raw, one)), "cp1252")
    return raw.decode(encoding, errors="replace")


def _utf16(value: object) -> str:
    """An XP field of Windows: UTF-16 little endian, terminated by zeros."""
    raw = bytes(value) if isinstance(value, tuple) else value
    return raw.decode("utf-16-le", errors="replace").strip("\0 ") if isinstance(raw, bytes) else _text(raw)


def _user_comment(value: object, *, big_endian: bool) -> str:
    """UserComment: eight bytes name the character code, the rest is text.

    Args:
        value: as Pillow gives it.
        big_endian: byte order of the block that it is in.
    """
    if not isinstance(value, bytes) or len(value) <= 8:
        return _text(value)
    code, body = value[:8], value[8:]
    if code.startswith(b"UNICODE"):
        # The standard leaves the byte order open. Letters of one script share their high bytes.
        body = body[: len(body) // 2 * 2]
        first, second = len(set(body[::2])), len(set(body[1::2]))
        big = first < second or (first == second and big_endian)
        marked = body[:2] in (BOM_UTF16_BE, BOM_UTF16_LE)
        encoding = "utf-16" if marked else "utf-16-be" if big else "utf-16-le"
        return body.decode(encoding, errors="replace").strip("\0 ")
    return _decode(body if code.startswith((b"ASCII", b"JIS", b"\0")) else value)


SIDECAR_SUFFIXES = (b".txt", b".json", b".xmp")
MAX_SIDECAR_BYTES = 256 * 1024
TEXT_KEYS = ("alt_text", "alt", "caption", "captions", "text", "description", "title", "headline")
KEYWORD_KEYS = ("keywords", "tags", "subject")
CREDIT_KEYS = ("credit", "creator", "author", "photographer", "illustrator", "artist", "byline")
LICENSE_KEYS = ("license", "licence", "copyright", "rights")
TIME_KEYS = ("taken", "date_taken", "datetime", "date")


def read_sidecars(paths: Iterable[bytes], picture: bytes = b"") -> Words:
    """Words of all sidecars of a picture; a damaged sidecar is a warning.

    Args:
        paths: absolute paths, most trusted first.
        picture: path of the picture; its extension decides which of the sidecars with its name are its own.
    """
    return merge(_read_sidecar(path, PurePath(os.fsdecode(picture)).suffix) for path in paths)


def _read_sidecar(path: bytes, suffix: str) -> Words:
    name = PurePath(os.fsdecode(path)).name
    try:
        data = beginning(path, MAX_SIDECAR_BYTES + 1)
    except OSError as error:
        return Words(warnings=(f"{display(os.fsencode(name))}: {error}",))
    return words_of_bytes(name, data, suffix)


def words_of_bytes(name: str, data: bytes, suffix: str = "") -> Words:
    """Words of the content of a sidecar; a damaged one is a warning.

    Args:
        name: name of the sidecar; its extension decides how it is read.
        data: its content.
        suffix: see `read_xmp`.
    """
    try:
        if len(data) > MAX_SIDECAR_BYTES:
            raise ValueError(f"more than {MAX_SIDECAR_BYTES} bytes; not read")
        match PurePath(name).suffix.lower():
            case ".xmp":
                return read_xmp(data, suffix)
            case ".txt":
                return Words(captions=captions([decode_caption(data)], "sidecar"))
            case _:
                return words_of_row(json.loads(decode_caption(data)), "sidecar")
    # XML and JSON parsers may raise errors of their own; the picture is usable anyway.
    except Exception as error:
        return Words(warnings=(f"{display(os.fsencode(name))}: {error}",))


def words_of_row(row: object, source: CaptionSource) -> Words:
    """Words of a JSON object or a table row, by the usual column names, ignoring case.

    Args:
        row: an object, a text, or a list of texts.
        source: source recorded with each caption.
    Raises:
        ValueError: it is none of these.
    """
    if isinstance(row, str):
        row = {"text": row}
    if isinstance(row, list) and all(isinstance(part, str) for part in row):
        row = {"captions": row}
    if not isinstance(row, Mapping):
        raise ValueError(f"expected an object with one of {', '.join(TEXT_KEYS)}; found {type(row).__name__}")
    values = {str(key).strip().lower(): value for key, value in row.items()}
    described = [text for key in TEXT_KEYS for text in _texts(values.get(key))]
    keywords = [part for key in KEYWORD_KEYS for text in _texts(values.get(key)) for part in text.split(",")]
    keywords += _names(values.get("people"))
    return Words(
        captions=captions(described, source) + captions([_listed(keywords)], "keywords"),
        credit=_first_line(values, CREDIT_KEYS),
        license=_first_line(values, LICENSE_KEYS),
        taken=_time(values),
        taken_from="stated",
        coordinates=_export_coordinates(values.get("geodata"))
        or _export_coordinates(values.get("geodataexif")),
    )


def words_of_name(path: bytes) -> Words:
    """The file name as a caption, if a person chose it, and the time in it."""
    stem = PurePath(os.fsdecode(path)).stem.encode("utf-8", "ignore").decode()
    named = captions([readable_name(stem)], "filename")
    return Words(captions=named, taken=moment_of_name(stem), taken_from="stated")


def _names(people: object) -> list[str]:
    """Names of people, as photo exports list them: ``[{"name": "Ana"}]``."""
    found = people if isinstance(people, list) else []
    return [text for one in found if isinstance(one, Mapping) for text in _texts(one.get("name"))]


def _texts(value: object) -> list[str]:
    """Every text in a value: itself, those of a list, or an object's "value"; others are ignored."""
    if isinstance(value, list | tuple):
        return [text for part in value for text in _texts(part)]
    return [value] if isinstance(value, str) else []


def _export_coordinates(place: object) -> Coordinates | None:
    """Coordinates in a photo export: ``{"latitude": 48.2083, "longitude": 16.3731}``."""
    return coordinates(place.get("latitude"), place.get("longitude")) if isinstance(place, Mapping) else None


def _first_line(values: Mapping[str, Any], keys: Iterable[str]) -> str:
    return next((line for key in keys if (line := clean(", ".join(_texts(values.get(key)))))), "")


def _time(values: Mapping[str, Any]) -> datetime | None:
    """A stated time: a text, or the timestamp of a photo export."""
    for key in TIME_KEYS:
        if isinstance(values.get(key), str) and (found := exif_time(values[key])) is not None:
            return found
    export = values.get("phototakentime")
    stamp = str(export.get("timestamp", "")) if isinstance(export, Mapping) else ""
    if re.fullmatch(r"-?[1-9]\d{0,10}", stamp):  # 0 means that no time is known
        return datetime.fromtimestamp(0, UTC) + timedelta(seconds=int(stamp))
    return None
