"""Bars on stderr for long jobs: what is done, how fast, and how long it will still take.

In a terminal a bar is drawn and redrawn; in a pipe or a log only notes are written.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from limner.cli.terminal import say

if TYPE_CHECKING:
    from limner.datasets.fetch import FetchProgress

_LINE_EVERY_S = 30.0


class Rate(ProgressColumn):
    """Units per second."""

    def render(self, task: Task) -> Text:
        """One cell."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f}/s" if speed is not None else "", style="progress.data.speed")


class Bar:
    """What all bars share; use it in a ``with`` statement."""

    def __init__(self, *columns: ProgressColumn, transient: bool = False) -> None:
        """Make a bar that is drawn in a terminal only.

        Args:
            columns: what follows description and bar.
            transient: leave nothing behind at the end.
        """
        self.console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            *columns,
            console=self.console,
            disable=not self.console.is_terminal,
            transient=transient,
            speed_estimate_period=60,
        )

    def __enter__(self) -> Self:
        """Start to draw."""
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Draw for the last time."""
        self.bar.stop()

    def note(self, line: str) -> None:
        """Print a line above the bar, also where no bar is drawn."""
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


class IndexProgress(Bar):
    """Draws what `limner.library.known.Progress` is told."""

    def __init__(self) -> None:
        super().__init__(MofNCompleteColumn(), Rate(), TimeRemainingColumn())
        self._task: TaskID | None = None

    def stage(self, name: str, total: int | None) -> None:
        """Begin a new bar below those that are done."""
        if self._task is not None:
            # a bar whose length was only guessed ends where it stands
            task = next(task for task in self.bar.tasks if task.id == self._task)
            self.bar.update(self._task, total=task.completed)
        self._task = self.bar.add_task(name, total=total)

    def total(self, total: int) -> None:
        """Set the length of the bar."""
        if self._task is not None:
            self.bar.update(self._task, total=total)

    def advance(self, count: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self.bar.advance(self._task, count)


class BytesProgress(Bar):
    """A bar for one download; call it with bytes so far and in all."""

    def __init__(self, name: str) -> None:
        super().__init__(DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self._task = self.bar.add_task(name, total=None)

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is; a total of 0 is unknown."""
        self.bar.update(self._task, completed=done, total=total or None)


class FetchBar(Bar):
    """Pictures of a fetch that came, that died, and the time left; in a log, a line now and then."""

    def __init__(self) -> None:
        super().__init__(MofNCompleteColumn(), TextColumn("{task.fields[more]}"), transient=True)
        self._said_s = time.monotonic()
        self._task = self.bar.add_task("pictures", total=None, more="")

    def __call__(self, now: FetchProgress) -> None:
        """Show how far it is."""
        more = f"{now.dead:,} dead · {now.size_bytes / 1e6:,.0f} MB · {span(now.left_s)}"
        self.bar.update(self._task, total=now.total, completed=now.done + now.dead, more=more)
        if not self.console.is_terminal and time.monotonic() - self._said_s >= _LINE_EVERY_S:
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
