"""The command reference: every ``--help-all`` page as one Markdown text.

    python -m limner.cli.reference > docs/commands.md

A test compares the file with this, so that the documentation cannot drift.
"""

import io

from cyclopts import App
from rich.console import Console

from limner.cli.main import all_options, build_app, emit

WIDTH = 100


def reference() -> str:
    """Markdown with the help of every command and subcommand."""
    parts = ["# Commands\n"]
    for words in _commands(build_app(), ()):
        console = Console(file=io.StringIO(), width=WIDTH, color_system=None, force_terminal=False)
        with all_options():
            build_app(words).help_print(list(words), console=console)
        text = console.file.getvalue()  # type: ignore[attr-defined]
        lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
        parts.append(f"## {' '.join(('limner', *words))}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


def _commands(app: App, before: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Every command line prefix that has its own help page, the application itself first."""
    found = [before]
    for name in app:
        if not name.startswith("-"):
            found += _commands(app[name], (*before, name))
    return found


if __name__ == "__main__":
    emit(reference().rstrip())
