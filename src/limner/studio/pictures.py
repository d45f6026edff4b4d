"""Pictures as files and thumbnails, by id, sent only if the file still has the content that the id names.

If another file, or a link to one, has taken its place, the hash differs and nothing is sent. Thumbnails are
stored in a folder of the studio, never next to the pictures.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import tempfile
import threading
import unicodedata
import warnings
import zipfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from PIL import Image

from limner.checksums import seal_bytes, unseal_bytes
from limner.errors import DataError, LimnerWarning
from limner.export import Plan, export
from limner.files import write_bytes
from limner.pictures.decode import RAW_SUFFIXES, PictureError, identify
from limner.pictures.thumbnails import MAX_SIDE_PX, indexed, locate, shrink
from limner.records import Board, Picture
from limner.store import Store
from limner.templates import environment

SIDES = (96, 128, 192, 256, 384, 512, 768, 1024, 1600)
MEDIA_TYPE = "image/webp"
# Formats that every browser shows; of others (HEIF, camera raw, TIFF …) it gets a copy.
SHOWN = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "AVIF", "BMP", "DIB", "ICO")


@dataclass(frozen=True)
class Download:
    """A file to send.

    Attributes:
        data: content.
        media_type: its media type.
        name: file name to save it as.
        warnings: what the user should know about the file, one line each.
    """

    data: bytes
    media_type: str
    name: str
    warnings: tuple[str, ...] = ()

    @property
    def disposition(self) -> str:
        """Content-Disposition header: the name in ASCII, and in full for browsers that support it."""
        plain = unicodedata.normalize("NFKD", self.name).encode("ascii", "ignore").decode() or "storyboard"
        return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(self.name)}"


def original(picture: Picture) -> Download:
    """The file itself, or a large WebP copy if browsers do not show its format.

    Raises:
        DataError: it does not exist, cannot be read, or no longer has the indexed content.
    """
    where = f"picture {picture.id[:12]}"
    if picture.format not in SHOWN:
        copy = shrink(picture, where, area_px=MAX_SIDE_PX**2, quality=90)
        return Download(copy.data, copy.media_type, f"{picture.id[:12]}.webp")
    path, file = indexed(picture, where)
    try:
        identify(file.data, path.suffix.lower())
    except PictureError as error:
        raise DataError(f"{where}: {error}") from error
    suffix = Path(picture.path).suffix.lower()
    name = f"{picture.id[:12]}{suffix if suffix.isascii() else ''}"
    Image.init()
    # Browsers treat the first picture of a multi-picture file as a plain JPEG.
    kind = Image.MIME["JPEG" if picture.format == "MPO" else picture.format]
    return Download(file.data, kind, name)


def is_there(picture: Picture) -> bool:
    """Whether a file of a picture exists at its indexed path; its content is not read."""
    with suppress(DataError):
        return bool(locate(picture, "picture"))
    return False


def holds(picture: Picture) -> bool:
    """Whether a file of a picture exists at its indexed path and has its content."""
    with suppress(DataError, PictureError):
        path, file = indexed(picture, "picture")
        suffix = path.suffix.lower()
        return suffix.encode("utf-8", "replace") in RAW_SUFFIXES or bool(identify(file.data, suffix))
    return False


def without_missing(board: Board) -> tuple[Board, tuple[str, ...]]:
    """A storyboard without the pictures that cannot be exported, and a line for each of these.

    A picture is omitted if its file is gone or has other content: a project may come from elsewhere and name
    any file of this machine.
    """
    steps, lines = [], []
    for number, step in enumerate(board.steps, 1):
        others = tuple(one for one in step.runners_up if holds(one.picture))
        changes: dict[str, object] = {"runners_up": others}
        if step.picture is not None and not holds(step.picture):
            what = "has changed" if is_there(step.picture) else "is missing"
            lines.append(f"step {number}: the file {step.picture.path} {what}; its picture is left out")
            changes |= {"chosen": None, "gap": None, "origin": "blank", "blank": "asked for"}
            changes["reason"] = "The file of its picture is missing or has changed."
        steps.append(step.model_copy(update=changes))
    cover = board.cover
    if cover is not None and not holds(cover):
        lines.append(f"cover: the file {cover.path} is missing or has changed; it is left out")
        cover = None
    return board.model_copy(update={"steps": tuple(steps), "cover": cover}), tuple(lines)


def side_for(asked: int) -> int:
    """Thumbnail size for a requested one: there are few sizes, so that the cache stays small."""
    return next((side for side in SIDES if side >= asked), SIDES[-1])


class Thumbnails:
    """Thumbnails, each stored once, with its checksum at the end of the file."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, created with the first thumbnail."""
        self.folder = folder
        # One per core, since each keeps a decoded picture in memory.
        self._room = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._told = False

    def get(self, picture: Picture, side: int) -> bytes:
        """An upright WebP copy without metadata, its longer side at most as requested.

        Args:
            picture: a picture of the library.
            side: pixels, one of `SIDES`.
        Raises:
            DataError: the picture does not exist, cannot be read, or no longer has the indexed content.
        """
        place = self.folder / picture.id[:2] / f"{picture.id}-{side}.webp"
        with suppress(OSError):
            kept = unseal_bytes(place.read_bytes())
            if kept is not None:
                return kept
            if not self._told:
                self._told = True
                warnings.warn(
                    f"{place}: damaged, or of an older version; it is created again",
                    LimnerWarning,
                    stacklevel=2,
                )
        made = self.make(picture, side)
        with suppress(OSError):  # with a full disk or a read-only folder, the thumbnail is not cached
            place.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(place, seal_bytes(made))
        return made

    def make(self, picture: Picture, side: int) -> bytes:
        """As `get`, without storing it."""
        small, large = sorted((picture.width_px, picture.height_px))
        with self._room:
            copy = shrink(
                picture,
                f"picture {picture.id[:12]}",
                area_px=max(1, round(side * side * small / large)),
                quality=78,
            )
        return copy.data


def cache_folder(library: Store) -> Path:
    """Folder for the thumbnails of a library: inside it, unless it is among the pictures."""
    home = library.folder.resolve()
    for source in library.settings.sources:
        root = Path(source).resolve()
        if home == root or root in home.parents:
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            return base / "limner" / "thumbnails" / hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    return home / "thumbnails"


ExportFormat = Literal["html", "pdf", "docx", "epub", "pptx", "md", "json"]
EXPORT_TYPES: dict[ExportFormat, str] = {
    "html": "text/html; charset=utf-8",
    "md": "application/zip",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "epub": "application/epub+zip",
    "json": "application/json",
}


PREVIEWED = 6
"""Number of steps in a preview."""


def previewed(board: Board, title: str, kind: ExportFormat, plan: Plan) -> Download:
    """The beginning of an export, as a web page or, if the format has pages, as pictures of its pages.

    Slides are shown as in the PDF; Word and EPUB as a web page.

    Raises:
        LimnerError: see `limner.export.export`.
    """
    story = board.story
    count = min(PREVIEWED, len(story.steps))
    end = story.steps[count - 1].run[1] if count < len(story.steps) else len(story.blocks)
    begun = story.model_copy(update={"steps": story.steps[:count], "blocks": story.blocks[:end]})
    board = board.model_copy(update={"story": begun, "steps": board.steps[:count]})
    if kind not in ("pdf", "pptx"):
        return exported(board, title, "html", plan)
    from limner.export.pdf import page_images

    plan.check(f".{kind}")
    if kind == "pptx":
        plan = replace(plan, layout="slides")
    images = page_images(_titled(without_missing(board)[0], title), plan)
    pages = [base64.b64encode(image).decode() for image in images]
    page = environment("limner.studio").get_template("pages.html").render(title=title, pages=pages)
    return Download(page.encode(), EXPORT_TYPES["html"], "pages.html", ())


def _titled(board: Board, title: str) -> Board:
    """The storyboard with a title for its story."""
    if board.story.title:
        return board
    return board.model_copy(update={"story": board.story.model_copy(update={"title": title})})


def exported(board: Board, title: str, kind: ExportFormat, plan: Plan | None = None) -> Download:
    """Export a storyboard.

    Args:
        board: the storyboard.
        title: title for the file name, and for a story that has none.
        kind: format; md is returned as a ZIP of the text and its pictures.
        plan: contents and layout; None for the defaults.

    Raises:
        LimnerError: see `limner.export.export`.
    Returns:
        The file; its warnings name pictures omitted because their files are missing.
    """
    board, missing = without_missing(board)
    stem = file_stem(title)
    board = _titled(board, title)
    with tempfile.TemporaryDirectory(prefix="limner-export-") as place:
        folder = Path(place)
        made = export(board, folder / f"{stem}.{kind}", plan=plan)
        if kind != "md":
            return Download(
                made.path.read_bytes(), EXPORT_TYPES[kind], made.path.name, (*missing, *made.warnings)
            )
        packed = io.BytesIO()
        # Pictures are already compressed.
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            for file in sorted(one for one in folder.rglob("*") if one.is_file()):
                archive.write(file, file.relative_to(folder).as_posix())
    return Download(packed.getvalue(), EXPORT_TYPES[kind], f"{stem}.zip", (*missing, *made.warnings))


def file_stem(title: str) -> str:
    """File name without extension from a title: letters and digits of any script, joined by hyphens."""
    words = re.sub(r"[^\w]+", "-", unicodedata.normalize("NFC", title), flags=re.UNICODE).strip("-_")
    # Some systems limit names in bytes.
    while len(words.encode("utf-8")) > 80:
        words = words[:-1]
    return words.strip("-_") or "storyboard"
