"""All errors that limner raises on purpose, and the wording that their messages share.

A message has one line: where the error is, what was found, what was expected, and what to do.
The command line prints it; a caller of the library catches the class.

LimnerError
├── ConfigError      (ValueError)  a setting, option or configuration file
├── DataError        (ValueError)  a text, picture, library or data set
├── MissingError     (OSError)     a file, weight or optional package that does not exist
├── StorageError     (OSError)     a disk that is full, read-only or failing
├── ShapeError       (ValueError)  arrays whose sizes contradict each other
├── NumericsError    (ValueError)  NaN or infinity instead of a finite number
└── CheckpointError  (ValueError)  a saved model or vector store that is damaged or another one
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

RESEARCH = "'limner[research]'"
"""Argument for ``pip install`` with the packages that the research commands need."""


class LimnerError(Exception):
    """Base of all errors that limner raises on purpose.

    Example:
        >>> try:
        ...     limner.Library("lib").find("no such picture.jpg")
        ... except limner.LimnerError as error:
        ...     print(type(error).__name__)
        DataError
    """


class ConfigError(LimnerError, ValueError):
    """A setting, option or configuration file is wrong."""


class DataError(LimnerError, ValueError):
    """A text, picture, library or data set is wrong."""


class MissingError(LimnerError, OSError):
    """A file, weight or optional package does not exist."""


class StorageError(LimnerError, OSError):
    """A disk cannot be written: it is full, over a quota, read-only, or failing.

    Args:
        number: error number, as in `errno`.
        reason: the system's message, with the space needed and available.
        filename: name of the file or folder that was to be written.
        remedy: advice to the user.
    """

    def __init__(self, number: int, reason: str, filename: str, remedy: str) -> None:
        super().__init__(number, reason, filename)
        self.remedy = remedy

    def __str__(self) -> str:
        """One line."""
        return f"{self.filename}: {self.strerror}; what was stored before is safe; {self.remedy}"


class ShapeError(LimnerError, ValueError):
    """The sizes of arrays contradict each other or the request."""


class NumericsError(LimnerError, ValueError):
    """A value is NaN or infinite instead of finite."""


class CheckpointError(LimnerError, ValueError):
    """A saved model or vector store is damaged, or is not the requested one."""


class LimnerWarning(UserWarning):
    """A warning to the caller; a command prints it as a line."""


@contextmanager
def installed(what: str, package: str) -> Iterator[None]:
    """Report what to install if an import in this block fails.

    Args:
        what: the missing part, such as ``"open_clip"``.
        package: argument for ``pip install``, such as ``"'limner[clip]'"``.
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
        noun: singular, with any words before it.
        plural: plural; by default the noun with its usual ending.
    """
    if count == 1:
        return f"1 {noun}"
    if not plural:
        plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count:,} {plural}"
