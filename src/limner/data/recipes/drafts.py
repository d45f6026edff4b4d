"""Drafts of a set as files: its lines, its pictures, and the lists of what was lost.

Every file appears whole or not at all, and pictures are copied byte by byte. It decides nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limner.data.recipes.pages import Page
from limner.data.recipes.pictures import Judged
from limner.data.recipes.segmentation import Removed, Segment
from limner.data.records import PictureRef
from limner.data.splits import SplitName
from limner.errors import DataError

DROPPED_NAME, PAGES_NAME = "dropped.jsonl", "pages.jsonl"


@dataclass
class Draft:
    """A page on its way into the set.

    Attributes:
        page: as read.
        root: folder that its saved pictures must lie below; None for a page off the web.
        segments: what is left of it.
        removed: what is not.
        page_sha256: of its bytes.
    """

    page: Page
    root: Path | None = None
    page_sha256: str = ""
    segments: list[Segment] = field(default_factory=list)
    removed: list[Removed] = field(default_factory=list)
    stripped: int = 0
    english: bool = True


def story_id(draft: Draft) -> str:
    """A name that stays the same when the page is read again, wherever the set is built."""
    return (
        "p" + hashlib.sha256((draft.page.url or draft.page.where).encode("utf-8", "replace")).hexdigest()[:16]
    )


def picture_key(picture: PictureRef) -> str:
    """What a picture is known by: its file, or its address."""
    return picture.path or picture.target


def row_of_set(
    draft: Draft, key: str, part: SplitName, judged: Mapping[str, Judged], to: Path
) -> dict[str, Any]:
    """A line of the set; its pictures are copied as they are."""
    page = draft.page
    pages = []
    for one in draft.segments:
        found = judged[picture_key(one.picture)]
        name = f"images/{found.sha256}{found.suffix}"
        _copy(Path(found.path), to / name, found.sha256)
        pages.append({"text": one.text, "image": name, "sha256": found.sha256})
    credits_ = {"title": page.title, "source": page.source, "license": page.license}
    return {
        "story_id": key,
        **credits_,
        "author": page.author,
        "url": page.url,
        "split": part,
        "pages": pages,
    }


def _copy(path: Path, to: Path, digest: str) -> None:
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        if to.is_file() and hashlib.sha256(to.read_bytes()).hexdigest() == digest:
            return
        part = to.with_name(f".{to.name}.part")
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise DataError(f"{path}: changed while the set was built; run the same command again")
        part.write_bytes(data)
        part.replace(to)
    except OSError as error:
        raise DataError(f"{to}: {error.strerror or error}; make room or choose another folder") from error


def write_lists(to: Path, drafts: Sequence[Draft], failed: Mapping[str, str]) -> None:
    """What was lost, and where every page came from."""
    lost: list[dict[str, Any]] = [
        {"page": name, "rule": f"page: {kind_of(reason)}", "detail": reason}
        for name, reason in failed.items()
    ]
    pages: list[dict[str, Any]] = [
        {"page": name, "state": "not read", "reason": reason} for name, reason in failed.items()
    ]
    for draft in drafts:
        page = draft.page
        lost += [
            {"page": page.where, "rule": one.rule, "text": one.text, "picture": one.picture}
            for one in draft.removed
        ]
        # words around the steps are cut by the readers, each with its reason
        lost += [
            {
                "page": page.where,
                "rule": f"read: {one.reason}",
                "text": one.text,
                "picture": " ".join(one.pictures),
            }
            for one in page.left_out
        ]
        stated = {
            name: getattr(page, name) for name in ("url", "source", "title", "author", "license", "reader")
        }
        pages.append(
            {
                "page": page.where,
                "story_id": story_id(draft),
                **stated,
                "language": page.language,
                "sha256": draft.page_sha256,
                "pieces": len(page.pieces),
                "segments": len(draft.segments),
                "state": "in the set" if draft.segments else "dropped",
            }
        )
    write_lines(to / DROPPED_NAME, lost)
    write_lines(to / PAGES_NAME, pages)


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Lines of JSON in a file that appears whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        with part.open("w", encoding="utf-8", errors="backslashreplace") as file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        part.replace(path)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; make room or choose another folder") from error


def kind_of(reason: str) -> str:
    """A reason without what is particular to one page, for counting."""
    return reason.rpartition(": ")[2].partition(";")[0] if ": " in reason else reason
