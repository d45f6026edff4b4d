"""A bar on stderr for long jobs: what is done, how fast, and how long it will still take.

In a terminal it is drawn and redrawn; in a pipe or a log it is silent but for notes. It decides nothing.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Task, TaskID
    from rich.text import Text


class IndexProgress:
    """Draws what `limner.retrieval.reports.Progress` is told; use it in a ``with`` statement."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        class Rate(ProgressColumn):
            """Units per second."""

            def render(self, task: Task) -> Text:
                from rich.text import Text

                speed = task.finished_speed or task.speed
                return Text(f"{speed:.1f}/s" if speed is not None else "", style="progress.data.speed")

        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            Rate(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
            speed_estimate_period=60,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> IndexProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def stage(self, name: str, total: int | None) -> None:
        """Begin a new bar below those that are done."""
        self._close()
        self._task = self._bar.add_task(name, total=total)

    def total(self, total: int) -> None:
        """Set the length of the bar."""
        if self._task is not None:
            self._bar.update(self._task, total=total)

    def advance(self, count: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._bar.advance(self._task, count)

    def note(self, line: str) -> None:
        """Print a line above the bar, also where no bar is drawn."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _close(self) -> None:
        """Let a bar whose length was only guessed end where it stands."""
        if self._task is not None:
            task = next(task for task in self._bar.tasks if task.id == self._task)
            self._bar.update(self._task, total=task.completed)


class BytesProgress:
    """A bar for one download; use it in a ``with`` statement and call it with bytes so far and in all."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        console = Console(stderr=True)
        self._bar = Progress(
            "{task.description}",
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(name, total=None)

    def __enter__(self) -> BytesProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is; a total of 0 is unknown."""
        self._bar.update(self._task, completed=done, total=total or None)
