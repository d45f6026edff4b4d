"""What a library knows about itself, in `library.json`, and the lock that keeps a second writer out.

Written in one step, so that a kill leaves the old state or the new one. Pictures are in the tables.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path

from pydantic import Field, ValidationError

from limner.errors import DataError, MissingError
from limner.files import locked, write_text
from limner.records import Record

FORMAT = 1
SETTINGS_FILE = "library.json"


class SpaceInfo(Record):
    """Who made the vectors of a space.

    Attributes:
        encoder: its name.
        fingerprint: of its weights and settings.
        dim: D.
    """

    encoder: str
    fingerprint: str
    dim: int


class Settings(Record):
    """What `library.json` holds.

    Attributes:
        format: version of the layout on disk.
        spaces: vector space → who made it.
        sources: folders and lists indexed so far, absolute; odd bytes as surrogates.
        reader: what opened the pictures; refused files are tried again when it changes.
        grouped: False while near-duplicate groups are out of date.
        languages: language → estimated share of the captions, largest first; empty while unknown.
    """

    format: int = FORMAT
    spaces: dict[str, SpaceInfo] = Field(default={})
    sources: tuple[str, ...] = ()
    reader: str = ""
    grouped: bool = True
    languages: dict[str, float] = Field(default={})


def read_settings(folder: Path) -> Settings:
    """Settings of the library in a folder.

    Raises:
        MissingError: there is none.
        DataError: they are damaged, or a newer limner wrote them.
    """
    try:
        values = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
        found = int(values["format"])
    except FileNotFoundError:
        raise MissingError(
            f"{folder}: no picture library here; make one with 'limner index PICTURES --library {folder}'"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder / SETTINGS_FILE}: damaged ({error}); index again into a new folder"
        ) from error
    if found > FORMAT:
        raise DataError(
            f"{folder}: library format {found}; this limner reads {FORMAT}; install a newer limner"
        )
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise DataError(f"{folder / SETTINGS_FILE}: damaged ({error.errors()[0]['msg']})") from error


def write_settings(folder: Path, settings: Settings) -> None:
    """Replace the settings in one step."""
    # ASCII keeps the surrogates that stand for odd bytes in names.
    write_text(
        folder / SETTINGS_FILE, json.dumps(settings.model_dump(mode="python"), indent=1, sort_keys=True)
    )


def only_writer(folder: Path) -> AbstractContextManager[None]:
    """Keep other writers out while indexing.

    Raises:
        DataError: another process is indexing into this library.
    """
    refusal = DataError(f"{folder}: another process is indexing into it; wait for it to end")
    return locked(folder / "lock", refusal)
