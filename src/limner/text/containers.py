"""What a file is by its content: a text, a document that has a reader of its own, or neither.

Names mislead: a document is read as what it is, and what is no text is refused, whatever its suffix says.
"""

import io
import re
import zipfile
from typing import Literal

from limner.errors import DataError

Container = Literal["docx", "pdf"]
CONTAINERS: dict[Container, str] = {"docx": "a Word document (DOCX)", "pdf": "a PDF"}
MAX_BYTES = 200_000_000
"""Bytes of a document with its pictures, at most."""
_PDF = re.compile(rb"(?:\xef\xbb\xbf)?[\s\0]*%PDF-\d")
_ZIP = b"PK\x03\x04", b"PK\x05\x06"
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MAGIC = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"RIFF": "a WebP picture, or a sound or a video",
    b"II*\0": "a TIFF picture",
    b"MM\0*": "a TIFF picture",
    b"{\\rtf": "an RTF document",
    b"\x1f\x8b": "a gzip file",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
    b"Rar!": "a RAR archive",
    b"SQLite format 3": "an SQLite database",
}
_INSIDE = {
    "wordprocessingml.": "",
    "ms-word.": "",
    "spreadsheetml": "an Excel workbook",
    "ms-excel": "an Excel workbook",
    "presentationml": "a PowerPoint presentation",
    "ms-powerpoint": "a PowerPoint presentation",
    "oasis.opendocument.text": "an OpenDocument text (ODT)",
    "oasis.opendocument": "an OpenDocument file",
    "epub+zip": "an e-book (EPUB)",
}
"""What the description of a ZIP archive holds → what the archive is; "" for a Word document."""
_EXPECTED = "expected a text, a Word document (.docx) or a PDF; save or export it as one of these"


def is_container(data: bytes) -> bool:
    """Whether a file begins as a document does, which may be larger than a text."""
    return data.startswith(_ZIP) or _PDF.match(data[:1024]) is not None


def container_of(data: bytes, where: str) -> Container | None:
    """Which document a file is; None for anything that may be a text.

    Args:
        data: the whole file.
        where: its name, for messages.
    Raises:
        DataError: it is neither a text nor a document that can be read.
    """
    if data.startswith(_ZIP):
        return _zipped(data, where)
    if _PDF.match(data[:1024]):
        return "pdf"
    if data.startswith(_OLD_OFFICE):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise DataError(
                f"{where}: is an encrypted Office document; remove its password and save it again"
            )
        raise DataError(f"{where}: is an Office document of before 2007, such as .doc; {_EXPECTED}")
    for magic, name in _MAGIC.items():
        if data.startswith(magic):
            raise DataError(f"{where}: is {name}; {_EXPECTED}")
    return None


def _zipped(data: bytes, where: str) -> Container:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            said = "".join(
                archive.open(name).read(100_000).decode("utf-8", "replace")
                for name in ("[Content_Types].xml", "mimetype")
                if name in archive.NameToInfo
            )
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        raise DataError(
            f"{where}: a damaged ZIP archive or Office document ({' '.join(str(error).split())[:80]});"
            " expected a whole file; copy or save it anew"
        ) from None
    name = next((name for sign, name in _INSIDE.items() if sign in said), "a ZIP archive")
    if name:
        raise DataError(f"{where}: is {name}; {_EXPECTED}")
    return "docx"
