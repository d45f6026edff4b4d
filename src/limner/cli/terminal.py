"""What commands write: data to stdout, everything else to stderr.

Colour and width follow the terminal; piped output is plain and never wrapped.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter
from typing_extensions import override

from limner.files import storing, write_text

if TYPE_CHECKING:
    from rich.table import Table

PLAIN = Parameter(negative="", show_default=False)
Flag = Annotated[bool, PLAIN]
Many = Annotated[tuple[str, ...], PLAIN]

_everything: ContextVar[bool] = ContextVar("everything", default=False)


@contextmanager
def all_options() -> Iterator[None]:
    """Help shows all options, as ``--help-all`` asks."""
    before = _everything.set(True)
    try:
        yield
    finally:
        _everything.reset(before)


class _MoreOptions(Group):
    @property
    @override
    def show(self) -> bool:
        return _everything.get()


MORE = Parameter(group=_MoreOptions("More options", sort_key=1))
"""An option that few people need: ``--help`` leaves it out, ``--help-all`` shows it."""


def say(line: str) -> None:
    """One plain line for the person, on stderr."""
    sys.stderr.write(f"{line}\n")


def asked(question: str) -> bool:
    """Whether the person says yes; nobody says so where there is no terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


STDOUT = "/dev/stdout"
"""Names the disk that the standard output goes to, where it goes to one."""


def emit(text: str, *, flush: bool = False) -> None:
    """Data, on stdout; flushed where it must be read while the command goes on.

    Raises:
        StorageError: stdout goes to a disk that is full.
    """
    with storing(STDOUT):
        sys.stdout.write(f"{text}\n")
        if flush:
            sys.stdout.flush()


def emit_json(value: object) -> None:
    """Data as JSON, on stdout; text that is not UTF-8 stays escaped."""
    from pydantic_core import to_jsonable_python

    escaped = not sys.stdout.encoding.lower().startswith("utf")
    emit(json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=escaped))


def emit_report(value: object, lines: Iterable[str], *, as_json: bool) -> None:
    """A result on stdout: as JSON, or as the lines that tell it."""
    if as_json:
        emit_json(value)
    else:
        emit("\n".join(lines))


def deliver(text: str, to: Path | None, what: str, *, private: bool = False) -> None:
    """A text on stdout, or into a file with a line that says what is in it.

    Args:
        text: to write.
        to: file, or None.
        what: is in it.
        private: as of `limner.files.replacing`.
    """
    if to is None:
        emit(text)
    else:
        write_text(to, f"{text}\n" if text else "", private=private)
        say(f"{to}: {what}")


@contextmanager
def resumable() -> Iterator[None]:
    """Says how to go on after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted: run the same command again to go on")
        raise


def emit_table(table: "Table", rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout: drawn in a terminal, tab-separated in a pipe.

    Args:
        table: with its columns; `rows` are added.
        rows: cells as plain text.
    """
    if not sys.stdout.isatty():
        emit("\t".join(str(column.header) for column in table.columns))
        for row in rows:
            emit("\t".join(cell.replace("\t", " ") for cell in row))
        return
    from rich.console import Console
    from rich.text import Text

    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
