"""Words in files beside a picture, and in its file name.

`name.txt`, `name.jpg.txt`, `name.json` and `name.xmp` describe `name.jpg`: the way to caption pictures
without touching them. It reads those files; `folder` finds them, `metadata` reads inside pictures.
"""

import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from limner.data.images import display
from limner.data.metadata import exif_time
from limner.data.words import CaptionSource, Words, captions, clean, merge, readable_name
from limner.data.xmp import read_xmp

SIDECAR_SUFFIXES = (b".txt", b".json", b".xmp")
MAX_SIDECAR_BYTES = 256 * 1024
TEXT_KEYS = ("alt_text", "alt", "caption", "captions", "text", "description", "title", "headline")
KEYWORD_KEYS = ("keywords", "tags", "subject")
CREDIT_KEYS = ("credit", "creator", "author", "photographer", "illustrator", "artist", "byline")
LICENSE_KEYS = ("license", "licence", "copyright", "rights")
TIME_KEYS = ("taken", "date_taken", "datetime", "date")


def read_sidecars(paths: Iterable[bytes]) -> Words:
    """Words of all sidecars of one picture; a damaged sidecar is a warning.

    Args:
        paths: absolute paths, most trusted first.
    """
    return merge(_read_sidecar(path) for path in paths)


def _read_sidecar(path: bytes) -> Words:
    name = display(os.fsencode(Path(os.fsdecode(path)).name))
    try:
        with Path(os.fsdecode(path)).open("rb") as stream:
            data = stream.read(MAX_SIDECAR_BYTES + 1)
        if len(data) > MAX_SIDECAR_BYTES:
            return Words(warnings=(f"{name}: more than {MAX_SIDECAR_BYTES} bytes; not read",))
        if path.lower().endswith(b".xmp"):
            return read_xmp(data)
        text = data.decode("utf-8-sig", errors="replace" if path.lower().endswith(b".txt") else "strict")
        if path.lower().endswith(b".txt"):
            return Words(captions=captions([text], "sidecar"))
        return words_of_row(json.loads(text), "sidecar")
    # A parser of XML or JSON may raise its own classes; the picture is good whatever is beside it.
    except Exception as error:
        return Words(warnings=(f"{name}: {error}",))


def words_of_row(row: object, source: CaptionSource) -> Words:
    """Words of a JSON object or a row of a table, by the usual column names, letter case aside.

    Args:
        row: a mapping, a text, or a list of texts.
        source: recorded with each caption.
    Raises:
        ValueError: none of these.
    """
    if isinstance(row, str):
        row = {"text": row}
    if isinstance(row, list) and all(isinstance(part, str) for part in row):
        row = {"captions": row}
    if not isinstance(row, Mapping):
        raise ValueError(f"expected an object with one of {', '.join(TEXT_KEYS)}; found {type(row).__name__}")
    values = {str(key).strip().lower(): value for key, value in row.items()}
    described = [text for key in TEXT_KEYS for text in _texts(values.get(key))]
    described = [text for text in described if not _is_file_name(text)]
    keywords = [part for key in KEYWORD_KEYS for text in _texts(values.get(key)) for part in text.split(",")]
    keyword_line = ", ".join(dict.fromkeys(filter(None, map(clean, keywords))))
    return Words(
        captions=captions(described, source) + captions([keyword_line], "keywords"),
        credit=_first_line(values, CREDIT_KEYS),
        license=_first_line(values, LICENSE_KEYS),
        taken=_time(values),
    )


def words_of_name(path: bytes) -> Words:
    """The file name as a caption, where a person chose it."""
    stem = PurePath(os.fsdecode(path)).stem.encode("utf-8", "ignore").decode()
    return Words(captions=captions([readable_name(stem)], "filename"))


def _texts(value: object) -> list[str]:
    """Every text in a value: itself, a list's, or a mapping's "value"; numbers and the rest are no words."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return [text for part in value for text in _texts(part)]
    return []


def _first_line(values: Mapping[str, Any], keys: Iterable[str]) -> str:
    return next((line for key in keys if (line := clean(", ".join(_texts(values.get(key)))))), "")


def _is_file_name(text: str) -> bool:
    """Whether a title merely repeats a file name, as photo exports write it."""
    return " " not in text.strip() and PurePath(text).suffix.lower() in (
        ".jpg",
        ".jpeg",
        ".png",
        ".heic",
        ".webp",
    )


def _time(values: Mapping[str, Any]) -> datetime | None:
    """A stated time: text, or the time stamp of a photo export."""
    for key in TIME_KEYS:
        if isinstance(values.get(key), str) and (found := exif_time(values[key])) is not None:
            return found
    export = values.get("phototakentime")
    if isinstance(export, Mapping) and str(export.get("timestamp", "")).isdigit():
        return datetime.fromtimestamp(int(export["timestamp"]), tz=UTC)
    return None
