"""Pictures as files and thumbnails, by id only, and only with the very content that the id names.

Whatever took the place of a picture's file, a link elsewhere or another file, has another hash and is never
handed out. Thumbnails are kept in a folder of the studio, never beside the pictures.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tempfile
import threading
import unicodedata
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from PIL import Image

from limner.errors import DataError
from limner.export import export
from limner.files import write_bytes
from limner.library.library import Library
from limner.pictures.decode import PictureError, read_file
from limner.pictures.thumbnails import locate, shrink
from limner.records import Picture, Storyboard

SIDES = (96, 128, 192, 256, 384, 512, 768, 1024, 1600)
MEDIA_TYPE = "image/webp"


@dataclass(frozen=True)
class Download:
    """A file to send.

    Attributes:
        data: bytes.
        media_type: of them.
        name: to save it under.
        warnings: what the reader of the file should know, one line each.
    """

    data: bytes
    media_type: str
    name: str
    warnings: tuple[str, ...] = ()

    @property
    def disposition(self) -> str:
        """The header that makes a browser save it: the name in ASCII, and whole for those who read it."""
        plain = unicodedata.normalize("NFKD", self.name).encode("ascii", "ignore").decode() or "storyboard"
        return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(self.name)}"


def original(picture: Picture) -> Download:
    """The file itself.

    Raises:
        DataError: it is not there, cannot be read, or is no longer what was indexed.
    """
    path = locate(picture, f"picture {picture.id[:12]}")
    try:
        file = read_file(os.fsencode(path))
    except PictureError as error:
        raise DataError(f"picture {picture.id[:12]}: {error}") from error
    if file.sha256 != picture.id:
        raise _changed(picture)
    suffix = Path(picture.path).suffix.lower()
    name = f"{picture.id[:12]}{suffix if suffix.isascii() else ''}"
    Image.init()
    # The first picture of a file of several is a plain JPEG to browsers.
    kind = Image.MIME.get("JPEG" if picture.format == "MPO" else picture.format, "application/octet-stream")
    return Download(file.data, kind, name)


def side_for(asked: int) -> int:
    """The side that is made for one that was asked for: few different ones, so that the cache stays small."""
    return next((side for side in SIDES if side >= asked), SIDES[-1])


class Thumbnails:
    """Small copies of pictures, made once and kept."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, made when the first copy is."""
        self.folder = folder
        # One per core, since each holds a decoded picture.
        self._room = threading.BoundedSemaphore(os.cpu_count() or 1)

    def get(self, picture: Picture, side: int) -> bytes:
        """A copy in WebP, upright, with its longer side as asked for or less, without metadata.

        Args:
            picture: of the library.
            side: pixels, one of `SIDES`.
        Raises:
            DataError: the picture is not there, cannot be read, or is no longer what was indexed.
        """
        place = self.folder / picture.id[:2] / f"{picture.id}-{side}.webp"
        with suppress(OSError):
            return place.read_bytes()
        made = self._make(picture, side)
        with suppress(OSError):  # a full disk or a read-only folder costs speed, not the picture
            place.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(place, made)
        return made

    def _make(self, picture: Picture, side: int) -> bytes:
        small, large = sorted((picture.width_px, picture.height_px))
        with self._room:
            copy = shrink(
                picture,
                f"picture {picture.id[:12]}",
                area_px=max(1, round(side * side * small / large)),
                quality=78,
            )
        if copy.warnings:
            raise _changed(picture)
        return copy.data


def cache_folder(library: Library) -> Path:
    """Where the thumbnails of a library go: into its folder, unless that lies among the pictures."""
    home = library.folder.resolve()
    for source in library.settings.sources:
        root = Path(source).resolve()
        if home == root or root in home.parents:
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            return base / "limner" / "thumbnails" / hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    return home / "thumbnails"


def _changed(picture: Picture) -> DataError:
    return DataError(f"picture {picture.id[:12]}: its file has changed since it was indexed; index again")


ExportFormat = Literal["html", "md", "pptx", "pdf", "json"]
EXPORT_TYPES: dict[ExportFormat, str] = {
    "html": "text/html; charset=utf-8",
    "md": "application/zip",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "pdf": "application/pdf",
    "json": "application/json",
}


def exported(board: Storyboard, title: str, kind: ExportFormat) -> Download:
    """Export a storyboard.

    Args:
        board: the storyboard.
        title: names the file, and the story where that has no title.
        kind: of file; md comes as a ZIP of the text and its pictures.
    Raises:
        LimnerError: as `limner.export.export`.
    """
    stem = file_stem(title)
    if not board.story.title:
        board = board.model_copy(update={"story": board.story.model_copy(update={"title": title})})
    with tempfile.TemporaryDirectory(prefix="limner-export-") as place:
        folder = Path(place)
        made = export(board, folder / f"{stem}.{kind}")
        if kind != "md":
            return Download(made.path.read_bytes(), EXPORT_TYPES[kind], made.path.name, made.warnings)
        packed = io.BytesIO()
        # Pictures are compressed already.
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            for file in sorted(one for one in folder.rglob("*") if one.is_file()):
                archive.write(file, file.relative_to(folder).as_posix())
    return Download(packed.getvalue(), EXPORT_TYPES[kind], f"{stem}.zip", made.warnings)


def file_stem(title: str) -> str:
    """A title as a file name without suffix: letters and digits of any script, joined by hyphens."""
    words = re.sub(r"[^\w]+", "-", unicodedata.normalize("NFC", title), flags=re.UNICODE).strip("-_")
    # Some systems bound names by bytes.
    while len(words.encode("utf-8")) > 80:
        words = words[:-1]
    return words.strip("-_") or "storyboard"
