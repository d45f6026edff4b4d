"""Catch what Pillow warns about while it reads damaged metadata, file by file.

Pillow warns on stderr, once per program, without a name; here each file gets the warnings of its own
reading, from any thread. Warnings of other libraries pass as they would.
"""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_lines = threading.local()


@contextmanager
def pillow_warnings() -> Iterator[None]:
    """Within, Pillow's warnings are kept for `noted` in place of being shown."""
    with warnings.catch_warnings():
        warnings.filterwarnings("always", module=r"PIL\b")
        shown = warnings.showwarning

        def keep(  # noqa: PLR0917
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if "PIL" in filename:
                _lines.kept = [*getattr(_lines, "kept", []), " ".join(str(message).split())]
            else:
                shown(message, category, filename, lineno, file, line)

        warnings.showwarning = keep
        yield


def noted() -> tuple[str, ...]:
    """Warnings kept in this thread since the last call, each once."""
    kept = tuple(dict.fromkeys(getattr(_lines, "kept", [])))
    _lines.kept = []
    return kept
