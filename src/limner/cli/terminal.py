"""Output of commands: data to stdout, everything else to stderr.

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
    """Show all options in the help, for ``--help-all``."""
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
    """Print a line for the user on stderr."""
    sys.stderr.write(f"{line}\n")


def asked(question: str) -> bool:
    """Ask a yes-or-no question; False without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


STDOUT = "/dev/stdout"
"""Name of the standard output in messages about a full disk."""


def emit(text: str, *, flush: bool = False) -> None:
    """Print data on stdout; flush it if it must be read while the command runs.

    Raises:
        StorageError: stdout goes to a disk that is full.
    """
    with storing(STDOUT):
        sys.stdout.write(f"{text}\n")
        if flush:
            sys.stdout.flush()


def emit_json(value: object) -> None:
    """Print data as JSON on stdout; without UTF-8 output, other characters than ASCII are escaped."""
    from pydantic_core import to_jsonable_python

    escaped = not sys.stdout.encoding.lower().startswith("utf")
    emit(json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=escaped))


def emit_report(value: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a result on stdout, as JSON or as lines of text."""
    if as_json:
        emit_json(value)
    else:
        emit("\n".join(lines))


def deliver(text: str, to: Path | None, what: str, *, private: bool = False) -> None:
    """Print a text on stdout, or write it to a file and report that on stderr.

    Args:
        text: the text.
        to: file, or None for stdout.
        what: description of the text, for the report.
        private: see `limner.files.replacing`.
    """
    if to is None:
        emit(text)
    else:
        write_text(to, f"{text}\n" if text else "", private=private)
        say(f"{to}: {what}")


@contextmanager
def resumable() -> Iterator[None]:
    """Print how to continue after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted: run the same command again to continue")
        raise


def emit_table(table: "Table", rows: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout: formatted in a terminal, tab-separated in a pipe.

    Args:
        table: table with its columns; `rows` are added.
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
