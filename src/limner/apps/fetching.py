"""Progress of a fetch on the terminal: pictures that came, that died, and the time left.

A bar where somebody watches, a line now and then where the output goes to a file. It fetches nothing.
"""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from limner.apps.terminal import say

if TYPE_CHECKING:
    from limner.datasets.fetch import FetchProgress

_LINE_EVERY_S = 30.0


class FetchBar:
    """Shows progress on stderr."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._watched = sys.stderr.isatty()
        self._said_s = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[more]}"),
            console=Console(stderr=True),
            disable=not self._watched,
            transient=True,
        )
        self._task = self._bar.add_task("pictures", total=None, more="")

    def __enter__(self) -> Self:
        """Start to show."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal clean."""
        self._bar.stop()

    def __call__(self, now: "FetchProgress") -> None:
        """Show how far it is."""
        more = f"{now.dead:,} dead · {now.size_bytes / 1e6:,.0f} MB · {span(now.left_s)}"
        self._bar.update(self._task, total=now.total, completed=now.done + now.dead, more=more)
        if not self._watched and time.monotonic() - self._said_s >= _LINE_EVERY_S:
            self._said_s = time.monotonic()
            say(f"{now.done + now.dead:,} of {now.total:,} pictures, {more}")


def span(seconds: float | None) -> str:
    """A time left as a person says it: ``3 min left``."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.0f} s left"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min left"
    return f"{seconds / 3600:.1f} h left"
