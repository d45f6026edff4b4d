"""The ``limner`` command: names the commands, turns errors into one line, and writes what they give.

Commands live in `limner.cli` and are imported only when run, so that ``--help`` is quick. Data goes to
stdout, everything else to stderr; colour and width follow the terminal, and piped output is plain and never
wrapped. Exit status: 0 done, 1 failed, 2 misused.
"""

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import App, CycloptsError, Group, Parameter
from typing_extensions import override

from limner.errors import RESEARCH, ConfigError, LimnerError, LimnerWarning, MissingError, unknown

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
    from limner.files import storing

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
        from limner.files import write_text

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


_ILLUSTRATE = {
    "studio": "Make and change storyboards in a browser.",
    "index": "Read folders of pictures into a library.",
    "illustrate": "Choose a picture for every step of a text.",
    "search": "Find pictures by words.",
    "describe": "Let a vision model that you run describe your pictures.",
    "library": "Show where the library is and what it holds.",
    "verify": "Check stored files for corruption.",
    "models": "List and fetch pretrained weights.",
}
_EPILOGUE = """\
Example: limner illustrate recipe.md ~/Pictures -o recipe.html

--help-all after a command also shows rarely needed options; --debug shows the full traceback of an error."""


class Command(NamedTuple):
    """A command that is imported when it runs: where it lives, and what it is for in a line."""

    home: str
    summary: str


Groups = Mapping[str, Mapping[str, Command]]
"""Title of a group → name → command, as the help shows them."""


def _groups(words: Sequence[str] = ()) -> Groups:
    """The commands of limner, then those that packages register as entry points of ``limner.commands``.

    Args:
        words: the command line; where it names a command of limner, nothing else is looked up.
    """
    own = {name: Command(f"limner.cli.{name}:{name}", summary) for name, summary in _ILLUSTRATE.items()}
    groups = {"Illustrate": own}
    if not words[:1] or words[0] not in own:
        from importlib.metadata import entry_points

        for one in sorted(entry_points(group="limner.commands")):
            for title, commands in one.load().items():
                groups[title] = groups.get(title, {}) | commands
    return groups


def _version() -> str:
    from limner.records import limner_version  # and with it all records

    return limner_version()


_RESEARCH = ("torch", "torchvision", "scipy", "sklearn")
"""Packages of which nearly all commands of research are made, and none of the others."""


def build_app(words: Sequence[str] = ()) -> App:
    """The application with all commands, none of them imported yet.

    Args:
        words: the command line; the command it names shows its own full help, the others a line.
    """
    groups = _groups(words)
    named = {name for group in groups.values() for name in group} & set(words)
    app = App(
        name="limner",
        help="Illustrate a text with pictures from your own collection.",
        help_epilogue="" if named else _EPILOGUE,
        help_format="markdown" if named else "plaintext",
        version=_version,
        # Else Ctrl-C ends the process inside cyclopts, without a word.
        suppress_keyboard_interrupt=False,
    )
    options = Group("Options", sort_key=len(groups))
    for flag in ("--help", "--version"):
        app[flag].group = options
    for place, (title, commands) in enumerate(groups.items()):
        group = Group(title, sort_key=place)
        for number, (name, command) in enumerate(commands.items()):
            own = None if name in words[:1] else command.summary
            app.command(command.home, name=name, help=own, group=group, sort_key=number)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit status.

    Args:
        arguments: words of the command line without the program; None reads ``sys.argv``.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    status = run([word for word in words if word != "--debug"], debug=debug)
    try:
        sys.stdout.flush()
    except OSError:  # `run` has said so; else Python tries again, and says it in its own way
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


def run(words: list[str], *, debug: bool = False) -> int:
    """Run one command; returns the exit status instead of leaving."""
    if words and not words[0].startswith("-"):
        commands = [name for group in _groups(words).values() for name in group]
        if words[0] not in commands:
            return _refuse(2, unknown("command", words[0], commands))
        from limner.devices import share_memory

        share_memory()
    # cyclopts takes a lone hyphen for an option; as a path, "./-" is the same.
    everything = "--help-all" in words
    words = [{"-": "./-", "--help-all": "--help"}.get(word, word) for word in words]
    try:
        with warnings.catch_warnings(), all_options() if everything else nullcontext():
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

        # The machine's own refusals: no permission, a file where a folder was due.
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
    """Says why in one plain line on stderr, unless another process has; returns the exit status."""
    if line:
        sys.stderr.write(f"limner: {line}\n")
    return status
