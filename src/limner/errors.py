"""Every error limner raises on purpose, and the words that its messages share.

A message says where, what was found, what was expected and what to do, in one line.
No handling here: the command line prints the line, a library user catches the class.

LimnerError
├── ConfigError      (ValueError)  a setting, option or configuration file
├── DataError        (ValueError)  a text, picture, library or data set
├── MissingError     (OSError)     a file, weight or optional package that is not there
├── StorageError     (OSError)     a disk that is full, read-only or failing
├── ShapeError       (ValueError)  arrays that do not fit each other
├── NumericsError    (ValueError)  NaN or infinity where a number was due
└── CheckpointError  (ValueError)  a saved model or vector store that does not fit
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

RESEARCH = "'limner[research]'"
"""What pip is asked for where a command of research lacks a package."""


class LimnerError(Exception):
    """Root of the errors a caller of limner may want to catch."""


class ConfigError(LimnerError, ValueError):
    """A setting, option or configuration file is wrong."""


class DataError(LimnerError, ValueError):
    """A text, picture, library or data set is wrong."""


class MissingError(LimnerError, OSError):
    """A file, weight or optional package is not there."""


class StorageError(LimnerError, OSError):
    """A disk does not take what is to be written: it is full, over a quota, read-only, or failing.

    Args:
        number: of the system's refusal, as in `errno`.
        reason: what the disk said, and how much was wanted and is free.
        filename: of the file or folder that was to be written.
        remedy: what to do.
    """

    def __init__(self, number: int, reason: str, filename: str, remedy: str) -> None:
        super().__init__(number, reason, filename)
        self.remedy = remedy

    def __str__(self) -> str:
        """One line."""
        return f"{self.filename}: {self.strerror}; what was stored before is safe; {self.remedy}"


class ShapeError(LimnerError, ValueError):
    """Arrays do not fit each other or what was asked for."""


class NumericsError(LimnerError, ValueError):
    """NaN or infinity where a finite number was due."""


class CheckpointError(LimnerError, ValueError):
    """A saved model or vector store does not fit what was asked for."""


class LimnerWarning(UserWarning):
    """Something that a caller should know and that stops nothing; the command prints it as a line."""


@contextmanager
def installed(what: str, package: str) -> Iterator[None]:
    """Say what to install where an import in this block fails.

    Args:
        what: the missing part, such as ``"open_clip"``.
        package: as pip takes it, such as ``"'limner[clip]'"``.
    Raises:
        MissingError: an import failed.
    """
    try:
        yield
    except ImportError as error:
        raise MissingError(f"{what} is not installed; run: pip install {package}") from error


def unknown(what: str, found: object, choices: Iterable[str]) -> str:
    """One line for a name that does not exist: the nearest choice, then all of them.

    Args:
        what: the kind of thing named, such as ``"channel"``.
        found: the name as given.
        choices: the names that exist.
    """
    names = sorted(set(choices))
    from difflib import get_close_matches  # slow to load, and only needed here

    near = get_close_matches(str(found), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ";"
    return f"unknown {what} {found!r}{hint} choices: {', '.join(names) or 'none'}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and its noun: ``1 picture``, ``1,906 pictures``, ``0 near-duplicate groups``.

    Args:
        count: how many, ≥ 0.
        noun: of one, with any words before it.
        plural: of several; unless given the noun with its usual ending.
    """
    if count == 1:
        return f"1 {noun}"
    if not plural:
        plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count:,} {plural}"
