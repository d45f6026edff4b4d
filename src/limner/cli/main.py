"""The ``limner`` program: registers the commands, writes their output and reports errors in one line.

Commands live in `limner.cli` and are imported only when run, so that ``--help`` is quick. Data goes to
stdout, everything else to stderr; colour and width follow the terminal, and piped output is plain and never
wrapped. Exit status: 0 done, 1 failed, 2 misused.
"""

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import App, CycloptsError, Group, Parameter
from typing_extensions import override

from limner.errors import RESEARCH, ConfigError, LimnerError, LimnerWarning, MissingError, unknown

if TYPE_CHECKING:
    from rich.table import Table


PLAIN = Parameter(negative="")
Flag = Annotated[bool, PLAIN]
Many = Annotated[tuple[str, ...], PLAIN]

_everything: ContextVar[bool] = ContextVar("everything", default=False)


@contextmanager
def all_options() -> Iterator[None]:
    """Whether help shows all options, as with ``--help-all``."""
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
"""A rarely needed option, which only ``--help-all`` shows."""


def say(line: str) -> None:
    """Print one plain line on stderr."""
    sys.stderr.write(f"{line}\n")


def confirm(question: str) -> bool:
    """Ask a yes-or-no question; without a terminal the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


STDOUT = "/dev/stdout"
"""Path by which errors name the disk to which standard output is redirected, if it is."""


def emit(text: str, *, flush: bool = False) -> None:
    """Print data on stdout, and flush it if it must be readable while the command runs.

    Raises:
        StorageError: stdout goes to a full disk.
    """
    from limner.files import storing

    with storing(STDOUT):
        sys.stdout.write(f"{text}\n")
        if flush:
            sys.stdout.flush()


def emit_json(value: object) -> None:
    """Print data as JSON on stdout; text that is not UTF-8 stays escaped."""
    from pydantic_core import to_jsonable_python

    escaped = not sys.stdout.encoding.lower().startswith("utf")
    emit(json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=escaped))


def emit_report(value: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a result on stdout, as JSON or as lines of text."""
    if as_json:
        emit_json(value)
    else:
        emit("\n".join(lines))


def print_or_write(text: str, to: Path | None, what: str, *, private: bool = False) -> None:
    """Print a text on stdout, or write it to a file and print a line that describes it.

    Args:
        text: the text.
        to: file, or None.
        what: its description.
        private: see `limner.files.replacing`.
    """
    if to is None:
        emit(text)
    else:
        from limner.files import write_text

        write_text(to, f"{text}\n" if text else "", private=private)
        say(f"{to}: {what}")


@contextmanager
def resumable() -> Iterator[None]:
    """After Ctrl-C, print how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted: run the same command again to continue")
        raise


def emit_table(table: "Table", rows: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout: drawn in a terminal, tab-separated in a pipe.

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


_ILLUSTRATE = {
    "studio": "Create and edit storyboards (illustrated texts) in a browser.",
    "index": "Add folders of pictures to a library.",
    "illustrate": "Choose a picture for every step of a text.",
    "search": "Find pictures by words or by a picture.",
    "describe": "Caption your pictures with a vision model that you run yourself.",
    "library": "Show where the library is and what it contains.",
    "models": "List and download encoders.",
}
_EPILOGUE = """\
Example: limner illustrate recipe.md ~/Pictures -o recipe.html

'limner COMMAND --help-all' also shows rarely used options; --debug shows the full traceback of an error."""


class Command(NamedTuple):
    """A command that is imported when it runs: its module and its summary."""

    home: str
    summary: str


Groups = Mapping[str, Mapping[str, Command]]
"""Commands by name, by the title of their group, in the order of the help."""


def _groups(words: Sequence[str] = ()) -> Groups:
    """Commands of limner, then those that packages register as entry points of ``limner.commands``.

    Args:
        words: the command line; if it names a command of limner, nothing else is looked up.
    """
    own = {name: Command(f"limner.cli.{name}:{name}", summary) for name, summary in _ILLUSTRATE.items()}
    groups = {"Illustrate": own}
    if not words[:1] or words[0] not in own:
        from importlib.metadata import entry_points

        for one in sorted(entry_points(group="limner.commands")):
            for title, commands in one.load().items():
                groups[title] = groups.get(title, {}) | commands
    return groups


def _default(value: object) -> str | None:
    """How --help states a default; None, for no statement, if the option is off or empty."""
    if value is False or value in (None, "", ()):
        return None
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _version() -> str:
    from limner.records import limner_version  # and with it all records

    return limner_version()


_RESEARCH = ("torch", "torchvision", "scipy", "sklearn")
"""Packages that nearly all research commands need, and no other command."""


def build_app(words: Sequence[str] = ()) -> App:
    """Build the application with all commands, without importing any.

    Args:
        words: the command line; the command that it names gets its full help, the others a line.
    """
    groups = _groups(words)
    named = {name for group in groups.values() for name in group} & set(words)
    app = App(
        name="limner",
        help="Illustrate a text with pictures from your own collection.",
        help_epilogue="" if named else _EPILOGUE,
        help_format="markdown" if named else "plaintext",
        version=_version,
        default_parameter=Parameter(show_default=_default),
        group_parameters=Group("Options", sort_key=0),
        # Otherwise Ctrl-C ends the process inside cyclopts, without a message.
        suppress_keyboard_interrupt=False,
    )
    options = Group("Options", sort_key=len(groups))
    for flag in ("--help", "--version"):
        app[flag].group = options
    for place, (title, commands) in enumerate(groups.items()):
        group = Group(title, sort_key=place)
        for number, (name, command) in enumerate(commands.items()):
            summary = None if name in words[:1] else command.summary
            app.command(command.home, name=name, help=summary, group=group, sort_key=number)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its status.

    Args:
        arguments: words of the command line without the program; by default ``sys.argv[1:]``.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    status = run([word for word in words if word != "--debug"], debug=debug)
    try:
        sys.stdout.flush()
    except OSError:  # `run` has reported the error; otherwise Python would flush again and report it itself
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


def run(words: list[str], *, debug: bool = False) -> int:
    """Run one command and return the exit status."""
    if words and not words[0].startswith("-"):
        commands = [name for group in _groups(words).values() for name in group]
        if words[0] not in commands:
            return _refuse(2, unknown("command", words[0], commands))
        from limner.devices import share_memory

        share_memory()
    # cyclopts parses a single hyphen as an option; "./-" is the same path.
    shown: AbstractContextManager[None] = all_options() if "--help-all" in words else nullcontext()
    words = [{"-": "./-", "--help-all": "--help"}.get(word, word) for word in words]
    try:
        with warnings.catch_warnings(), shown:
            warnings.simplefilter("always", LimnerWarning)
            warnings.showwarning = _plain(warnings.showwarning)
            build_app(words)(words, exit_on_error=False, print_error=False, result_action="return_value")
            sys.stdout.flush()
    except CycloptsError as error:
        return _refuse(2, " ".join(str(error).split()))
    except KeyboardInterrupt as error:
        return _refuse(130, str(error) or "interrupted")
    except (LimnerError, ModuleNotFoundError, OSError) as error:
        if debug:
            raise
        if isinstance(error, ModuleNotFoundError):
            if error.name not in _RESEARCH:
                raise
            error = MissingError(f"{error.name} is not installed; run: pip install {RESEARCH}")
        if isinstance(error, LimnerError):
            return _refuse(2 if isinstance(error, ConfigError) else 1, str(error))
        from limner.files import storage_error

        # errors of the operating system: no permission, a file instead of a folder
        place = f"{error.filename}: " if error.filename is not None else ""
        refused = storage_error(error, error.filename or STDOUT)
        return _refuse(1, str(refused or f"{place}{error.strerror or error}; --debug shows where"))
    return 0


def _plain(show: Callable[..., None]) -> Callable[..., None]:
    """Show limner's own warnings as plain lines, and all others as before."""

    def shown(message: Warning | str, category: type[Warning], *place: Any) -> None:  # noqa: ANN401
        if issubclass(category, LimnerWarning):
            sys.stderr.write(f"{message}\n")
        else:
            show(message, category, *place)

    return shown


def _refuse(status: int, line: str) -> int:
    """Print the error in one line on stderr, unless another process does; return the exit status."""
    if line:
        sys.stderr.write(f"limner: {line}\n")
    return status
