"""What commands write: data to stdout, everything else to stderr.

Colour and width follow the terminal; piped output is plain and never wrapped.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text


def say(line: str) -> None:
    """One plain line for the person, on stderr."""
    sys.stderr.write(f"{line}\n")


def emit(text: str) -> None:
    """Data, on stdout."""
    sys.stdout.write(f"{text}\n")


def emit_json(value: BaseModel | dict[str, Any] | list[Any]) -> None:
    """Data as JSON, on stdout; text that is not UTF-8 stays escaped."""
    plain = value if isinstance(value, dict | list) else value.model_dump(mode="json")
    emit(json.dumps(plain, indent=2, ensure_ascii=not sys.stdout.encoding.lower().startswith("utf")))


def emit_table(table: Table, rows: Sequence[Sequence[str]]) -> None:
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
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
