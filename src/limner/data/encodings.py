"""From bytes to text: byte-order marks, UTF-8, a declared HTML charset, then detection.

A wrong guess spoils every word after it, so the choice is reported and nothing is replaced or dropped.
No parsing; a file that is not text is refused here.
"""

import codecs
import re

from limner.errors import DataError

# Longest first: the mark of UTF-32 little-endian begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MAGIC = {
    b"%PDF": "a PDF",
    b"PK\x03\x04": "a zip or Office file",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"{\\rtf": "an RTF document",
    b"\x1f\x8b": "a gzip file",
}
# The place and form the HTML standard's prescan looks for.
_DECLARED = re.compile(rb"charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]+)", re.IGNORECASE)
_PRESCAN_BYTES = 2048
_DETECT_BYTES = 1 << 20
_CONTROL = frozenset(range(32)) - {9, 10, 12, 13, 27}


def decode_text(data: bytes, where: str, *, html: bool = False) -> tuple[str, str]:
    """Decode a text file without changing or losing a character.

    Order: byte-order mark; UTF-8 when the bytes are valid and not plain ASCII; the charset an HTML page
    declares; ASCII; detection by charset-normalizer.

    Args:
        data: the whole file.
        where: its name, for messages.
        html: look for a declared charset.

    Returns:
        The text without its byte-order mark, and a note on the choice ("" when it was certain).

    Raises:
        DataError: binary data, or bytes that fit no encoding.
    """
    for magic, name in _MAGIC.items():
        if data.startswith(magic):
            raise DataError(f"{where}: is {name}; expected a text file; save or export it as text first")
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strict(data, encoding, where).removeprefix("\ufeff"), ""
    if b"\0" in data:
        raise DataError(
            f"{where}: holds zero bytes, so it is binary or UTF-16 without a byte-order mark; expected text; "
            "save it as UTF-8"
        )
    if not data.isascii():
        try:
            return data.decode("utf-8"), ""
        except UnicodeDecodeError:  # not UTF-8: a declared or detected encoding must say what it is
            pass
    declared = _declared(data) if html else None
    if declared is not None:
        return _strict(data, declared, where), f"read as {declared}, the charset the page declares"
    if data.isascii():
        return data.decode("ascii"), ""
    return _detected(data, where)


def _strict(data: bytes, encoding: str, where: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeError as error:
        raise DataError(
            f"{where}: not valid {encoding} ({str(error).splitlines()[0]}); expected text; save it as UTF-8"
        ) from None


def _declared(data: bytes) -> str | None:
    match = _DECLARED.search(data[:_PRESCAN_BYTES])
    if match is None:
        return None
    try:
        info = codecs.lookup(match.group(1).decode("ascii"))
        "".encode(info.name)  # refuses codecs between bytes and bytes, such as hex
    except (LookupError, UnicodeError):
        return None
    # Browsers read both as Windows-1252, and pages are written for browsers. UTF-16 cannot be
    # declared in ASCII, and bytes that are not UTF-8 cannot be UTF-8.
    if info.name in {"iso8859-1", "ascii"}:
        return "cp1252"
    return None if info.name.startswith(("utf-8", "utf-16", "utf-32", "idna", "punycode")) else info.name


def _detected(data: bytes, where: str) -> tuple[str, str]:
    from charset_normalizer import from_bytes

    sample = data[:_DETECT_BYTES]
    best = None
    if sum(byte in _CONTROL for byte in sample) * 50 <= len(sample):
        best = from_bytes(sample).best()
    if best is None:
        raise DataError(f"{where}: bytes fit no text encoding; expected a text file; save it as UTF-8")
    text = _strict(data, best.encoding, where)
    return text, f"not UTF-8: read as {best.encoding}, a guess; save it as UTF-8 if letters look wrong"
