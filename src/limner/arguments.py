"""What people pass to the Python library, as what it works with, or one line that says what was due."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from limner.errors import ConfigError

AnyPath = str | os.PathLike[str]
One = TypeVar("One")


def as_path(value: object, where: str) -> Path:
    """A path that somebody gave, with ``~`` expanded."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise wrong_type(where, value, "a path")
    return Path(value).expanduser()


def several(values: Sequence[One]) -> Sequence[One]:
    """Several values, where somebody may have given one alone: a string is no list of its letters."""
    return values if isinstance(values, list | tuple) else (values,)


def wrong_type(where: str, found: object, due: str) -> ConfigError:
    """An error on a value of a wrong type."""
    return ConfigError(f"{where}: {found!r:.60} is of type {type(found).__name__}; expected {due}")
