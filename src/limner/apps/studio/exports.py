"""A storyboard as a file to download, made by the exporters that the command uses.

They write into a folder that is gone when the file is in memory. It formats nothing itself.
"""

from __future__ import annotations

import io
import re
import tempfile
import unicodedata
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from limner.apps.export import export
from limner.data.storyboards import Storyboard

ExportFormat = Literal["html", "md", "pptx", "pdf", "json"]
MEDIA_TYPES: dict[ExportFormat, str] = {
    "html": "text/html; charset=utf-8",
    "md": "application/zip",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "pdf": "application/pdf",
    "json": "application/json",
}


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
    warnings: tuple[str, ...]

    @property
    def disposition(self) -> str:
        """The header that makes a browser save it: the name in ASCII, and whole for those who read it."""
        plain = unicodedata.normalize("NFKD", self.name).encode("ascii", "ignore").decode() or "storyboard"
        return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(self.name)}"


def exported(board: Storyboard, title: str, kind: ExportFormat) -> Download:
    """Export a storyboard.

    Args:
        board: the storyboard.
        title: names the file, and the story where that has no title.
        kind: of file; md comes as a ZIP of the text and its pictures.
    Raises:
        LimnerError: as `limner.apps.export.export`.
    """
    stem = file_stem(title)
    if not board.story.title:
        board = board.model_copy(update={"story": board.story.model_copy(update={"title": title})})
    with tempfile.TemporaryDirectory(prefix="limner-export-") as place:
        folder = Path(place)
        made = export(board, folder / f"{stem}.{kind}")
        if kind != "md":
            return Download(made.path.read_bytes(), MEDIA_TYPES[kind], made.path.name, made.warnings)
        packed = io.BytesIO()
        # Pictures are compressed already.
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            for file in sorted(one for one in folder.rglob("*") if one.is_file()):
                archive.write(file, file.relative_to(folder).as_posix())
    return Download(packed.getvalue(), MEDIA_TYPES[kind], f"{stem}.zip", made.warnings)


def file_stem(title: str) -> str:
    """A title as a file name without suffix: letters and digits of any script, joined by hyphens."""
    words = re.sub(r"[^\w]+", "-", unicodedata.normalize("NFC", title), flags=re.UNICODE).strip("-_")
    # Some systems bound names by bytes.
    while len(words.encode("utf-8")) > 80:
        words = words[:-1]
    return words.strip("-_") or "storyboard"
