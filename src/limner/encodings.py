"""Decoding of files in an unknown encoding, and of captions, if theirs is certain.

A caption is too short for statistics of letters: the same bytes are "Smørrebrød" in Windows-1252 and
"Smřrebrřd" in Windows-1250. An encoding is possible only if one of its languages has all the letters.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress

from limner.errors import DataError
from limner.language import language_of

# longest first: the mark of UTF-32 little-endian begins with that of UTF-16
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte-order marks with their encodings."""
UNCERTAIN = "is not UTF-8, and in which encoding it is written is not certain; save it as UTF-8"
_WESTERN: dict[str, str] = {
    "ca": "àçèéíïòóúü",
    "da": "åæéø",
    "de": "äöüß",
    "en": "éèêëïöüçñ",
    "es": "áéíñóúü",
    "et": "äõöüšž",
    "fi": "äåöšž",
    "fr": "àâæçéèêëîïôœùûüÿ",
    "is": "áæéíðóöþúý",
    "it": "àèéìòù",
    "nl": "éëèêïóöüá",
    "no": "åæéòóôø",
    "pt": "àáâãçéêíóôõúü",
    "sv": "äåöé",
}
_CENTRAL: dict[str, str] = {
    "cs": "áčďéěíňóřšťúůýž",
    "hr": "ćčđšž",
    "hu": "áéíóöőúüű",
    "pl": "ąćęłńóśźż",
    "ro": "ăâîşţ",
    "sk": "áäčďéíĺľňóôŕšťúýž",
    "sl": "čšž",
}
_BALTIC: dict[str, str] = {"lt": "ąčęėįšųūž", "lv": "āčēģīķļņšūž", "et": _WESTERN["et"]}
_TURKISH: dict[str, str] = {"tr": "âçğıîöşüû"}
_LATIN = {
    "cp1252": _WESTERN,
    "cp1250": _CENTRAL | {"de": _WESTERN["de"]},
    "cp1254": _TURKISH | {"de": _WESTERN["de"]},
    "cp1257": _BALTIC,
}
"""Letters other than a to z, by encoding and language."""
LATIN = tuple(_LATIN)
"""Encodings of Latin letters that `decode_caption` tells apart."""
_LOW = re.compile(rb"[\x80-\x9f]")
"""Bytes that are mostly symbols in these encodings, and letters in those of DOS and of old Macintoshes."""
_WORD = re.compile(r"[^\W\d_]+")
_SIGNS = frozenset("‘’“”„«»–—…€¡¿\u00a0")
# symbols in unusual positions: a letter in another encoding
_MISPLACED = re.compile(
    r"[^\W\d_][«»–—…€¡¿“”„\u00a0][^\W\d_]|(?<!\S)[’”»–—…](?=\w)|(?<!\S)…(?!\S)|\u00a0(?!\S)"
)
# kana, which Japanese captions contain and which other encodings do not decode to
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_JAPANESE = re.compile("[\u3000-\u30ff\u4e00-\u9fff\uff01-\uff5e\\s\x21-\x7e]*")
_EXPECTED = dict.fromkeys((*_WESTERN, *_CENTRAL, *_BALTIC, *_TURKISH), 1.0) | {"en": 5.0}
# English typography of Windows; letters in other encodings
_APOSTROPHE = re.compile("(?<=[A-Za-z])’(?:s|t|re|ll|ve|d|m)\\b")
_LEAST, _FEWEST_WORDS = 0.9, 3
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]+)", re.IGNORECASE)
"""A charset declaration, in the form of the prescan of the HTML standard."""
_PRESCAN_BYTES, _DETECT_BYTES = 2048, 1 << 20
_CONTROL = frozenset(range(32)) - {9, 10, 12, 13, 27}


def decode_text(data: bytes, where: str, *, html: bool = False) -> tuple[str, str]:
    """Decode a text file without changing or losing a character.

    Order: byte-order mark; UTF-8 if the bytes are valid and not plain ASCII; the charset that an HTML page
    declares; ASCII; detection by charset-normalizer.

    Args:
        data: the whole file.
        where: its name, for messages.
        html: whether to look for a declared charset.
    Returns:
        The text without its byte-order mark, and a note on the choice ("" if it was certain).
    Raises:
        DataError: the data fit no encoding.
    """
    encoding = next((encoding for mark, encoding in MARKS if data.startswith(mark)), None)
    note = ""
    if encoding is None:
        encoding = _declared(data) if html else None
        note = f"read as {encoding}, the charset the page declares"
        if encoding is None or not data.isascii():
            with suppress(UnicodeDecodeError):
                return data.decode(), ""
        if encoding is None:
            encoding = _detected(data, where)
            note = f"not UTF-8: read as {encoding}, a guess; save it as UTF-8 if letters look wrong"
    try:
        return data.decode(encoding).removeprefix("\ufeff"), note
    except UnicodeError as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{where}: is not valid {encoding} ({reason}); expected a text; save it as UTF-8"
        ) from None


def _declared(data: bytes) -> str | None:
    """Charset that a page declares, if it is one that browsers would use."""
    match = _CHARSET.search(data[:_PRESCAN_BYTES])
    if match is None:
        return None
    try:
        info = codecs.lookup(match[1].decode("ascii"))
        "".encode(info.name)  # refuses codecs from bytes to bytes, such as hex
    except (LookupError, UnicodeError):
        return None
    # Browsers read both as Windows-1252, and pages are written for browsers. UTF-16 cannot be
    # declared in ASCII, and bytes that are not UTF-8 cannot be UTF-8.
    if info.name in {"iso8859-1", "ascii"}:
        return "cp1252"
    return None if info.name.startswith(("utf-8", "utf-16", "utf-32", "idna", "punycode")) else info.name


def _detected(data: bytes, where: str) -> str:
    from charset_normalizer import from_bytes

    sample = data[:_DETECT_BYTES]
    binary = sum(byte in _CONTROL for byte in sample) * 50 > len(sample)
    best = None if binary else from_bytes(sample).best()
    if best is None:
        raise DataError(f"{where}: is not a text in any known encoding; expected a text; save it as UTF-8")
    return best.encoding


def decode_caption(data: bytes) -> str:
    """Decode a short text if its encoding is certain.

    Certain are a byte-order mark, valid UTF-8, Japanese with kana in Shift-JIS, and Latin letters in an
    encoding of Windows, if all possible encodings give the same words, or if only one gives a text in one of
    its languages.

    Args:
        data: content of the file.
    Raises:
        ValueError: the encoding is not certain, or the bytes are not valid in it; the message is for users.
    """
    marked = next((encoding for mark, encoding in MARKS if data.startswith(mark)), None)
    try:
        return data.decode(marked or "utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        if marked:
            raise ValueError(
                f"is not valid {marked}, although it begins with its byte-order mark; save it as UTF-8"
            ) from None
    if b"\0" in data:
        raise ValueError(UNCERTAIN)
    japanese = _read(data, "cp932")
    if len(_KANA.findall(japanese)) > 1 and _JAPANESE.fullmatch(japanese):
        return japanese
    western = _read(data, "cp1252")
    if _APOSTROPHE.sub("", western).isascii() and western:
        return western
    found: dict[str, set[str]] = {}
    for encoding, alphabets in _LATIN.items():
        text = _read(data, encoding)
        if text and (spoken := _languages(text, alphabets)):
            found.setdefault(text, set()).update(spoken)
    if len(found) > 1 or western not in found or _LOW.search(data):
        found = {text: spoken for text, spoken in found.items() if _is_in(text, spoken)}
    if len(found) != 1:
        raise ValueError(UNCERTAIN)
    return next(iter(found))


def _read(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return ""


def _languages(text: str, alphabets: Mapping[str, str]) -> set[str]:
    """Languages that have all letters of a text and in which its words look like words."""
    beyond = [letter for letter in text if not letter.isascii()]
    letters = [letter for letter in beyond if letter.isalpha()]
    if not _SIGNS.issuperset(set(beyond) - set(letters)) or any(
        unicodedata.category(letter) not in {"Ll", "Lu"} for letter in letters
    ):
        return set()
    if 2 * len(letters) > sum(map(str.isalpha, text)):  # such as Cyrillic or Chinese decoded as Latin letters
        return set()
    foreign = [word for word in _WORD.findall(text) if not word.isascii()]
    if _MISPLACED.search(text) or not all(map(_is_word, foreign)):
        return set()
    lower = {letter.lower() for letter in letters}
    return {language for language, own in alphabets.items() if lower <= set(own)}


def _is_word(word: str) -> bool:
    """Whether special letters are between others, and capitals only at the beginning or throughout."""
    is_cased = word.islower() or word.isupper() or word[1:].islower()
    return is_cased and (len(word) == 1 or any(map(str.isascii, word)))


def _is_in(text: str, languages: set[str]) -> bool:
    """Whether a text of at least some words is clearly in one of the languages."""
    found = language_of(text, _EXPECTED)
    return len(text.split()) >= _FEWEST_WORDS and found.code in languages and found.probability >= _LEAST
