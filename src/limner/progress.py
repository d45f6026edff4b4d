"""Progress bars for long jobs, with speed and time left.

In a terminal a bar is drawn on stderr, in a notebook below its cell; in a pipe or a log, a line is written
every ten seconds.
"""

from __future__ import annotations

import threading
import time
from html import escape
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as RichBars
from rich.text import Text

REDRAW_S = 0.2
LINE_S = 10.0
"""Seconds between two lines in a pipe or a log."""
RESUME = "stopped; pictures already indexed stay in the library. Run the same command again to continue."
"""Message after an interruption of indexing."""


class Progress:
    """Receiver of the progress of a long job; this class ignores it. If a method raises an error, the job
    ends.
    """

    def stage(self, name: str, total: int | None) -> None:
        """Begin a new part of the job, of `total` units if known."""

    def total(self, total: int) -> None:
        """Set the number of units of this part."""

    def advance(self, count: int) -> None:
        """Add to the number of finished units."""

    def note(self, line: str) -> None:
        """Show a line to the user."""


class Rate(ProgressColumn):
    """Units per second."""

    def render(self, task: Task) -> Text:
        """Render one cell."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f}/s" if speed is not None else "", style="progress.data.speed")


class Bar:
    """Base of all bars; use it in a ``with`` statement."""

    def __init__(self, *columns: ProgressColumn, transient: bool = False) -> None:
        """Create a bar; without a terminal it prints a line from time to time.

        Args:
            columns: columns after description and bar.
            transient: whether the bar disappears at the end.
        """
        self.console = Console(stderr=True)
        self.bar = RichBars(
            TextColumn("{task.description}"),
            BarColumn(),
            *columns,
            console=self.console,
            disable=not self.console.is_terminal,
            transient=transient,
            speed_estimate_period=60,
        )
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        """Start to draw."""
        self.bar.start()
        if not self.console.is_terminal:
            threading.Thread(target=self._write_lines, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """Draw for the last time."""
        self._ended.set()
        self.bar.stop()

    def _write_lines(self) -> None:
        """Print the progress of the current part from time to time, until the end."""
        while not self._ended.wait(LINE_S):
            under_way = [task for task in self.bar.tasks if not task.finished]
            if under_way:
                self.note(self.line(under_way[-1]))

    def line(self, task: Task) -> str:
        """Progress of a task, in words."""
        total = f" of {task.total:,.0f}" if task.total else ""
        left = f", {span(task.time_remaining)}" if task.time_remaining else ""
        speed = f", {task.speed:,.1f}/s" if task.speed else ""
        return f"{task.description}: {task.completed:,.0f}{total}{speed}{left}"

    def note(self, line: str) -> None:
        """Print a line above the bar, even if no bar is drawn."""
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def span(seconds: float | None) -> str:
    """Format the time left: ``3 min left``."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.0f} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 5400 else f"{seconds / 3600:.1f} h left"


class IndexProgress(Bar, Progress):
    """Progress of indexing, as bars."""

    def __init__(self) -> None:
        super().__init__(MofNCompleteColumn(), Rate(), TimeRemainingColumn())
        self._task: TaskID | None = None

    def stage(self, name: str, total: int | None) -> None:
        """Begin a new bar below those that are done."""
        if self._task is not None:
            # a bar whose length was a guess ends at its current value
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


class NotebookProgress(Progress):
    """Progress of indexing in a notebook: HTML that is replaced, without widgets."""

    def __init__(self) -> None:
        self._notes: list[str] = []
        self._stages: list[tuple[str, int, int | None]] = []
        self._drawn_s = 0.0

    def __enter__(self) -> Self:
        """Begin below the cell."""
        from IPython.display import HTML, display

        self._html, self._place = HTML, display(HTML(""), display_id=True)
        return self

    def __exit__(self, *error: object) -> None:
        """Draw for the last time."""
        self._draw(now=True)

    def stage(self, name: str, total: int | None) -> None:
        """Begin a new bar below those that are done."""
        self._stages.append((name, 0, total))
        self._draw(now=True)

    def total(self, total: int) -> None:
        """Set the length of the bar."""
        name, done, _ = self._stages[-1]
        self._stages[-1] = name, done, total

    def advance(self, count: int) -> None:
        """Move the bar."""
        name, done, total = self._stages[-1]
        self._stages[-1] = name, done + count, total
        self._draw()

    def note(self, line: str) -> None:
        """Show a line below the bars."""
        self._notes.append(line)
        self._draw(now=True)

    def _draw(self, *, now: bool = False) -> None:
        if not now and time.monotonic() - self._drawn_s < REDRAW_S:
            return
        self._drawn_s = time.monotonic()
        rows = [
            f"<div>{escape(name)} <progress value={done} max={total or done or 1}></progress>"
            f" {done:,}{f' of {total:,}' if total else ''}</div>"
            for name, done, total in self._stages
        ]
        rows += [f"<div>{escape(line)}</div>" for line in self._notes]
        self._place.update(self._html("".join(rows)))


def index_progress() -> IndexProgress | NotebookProgress:
    """Progress bar for the terminal or notebook in which this runs; use it in a ``with`` statement."""
    return NotebookProgress() if Console().is_jupyter else IndexProgress()


class BytesProgress(Bar):
    """A bar for one download; call it with bytes so far and in all."""

    def __init__(self, name: str) -> None:
        super().__init__(DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self._task = self.bar.add_task(name, total=None)

    def line(self, task: Task) -> str:
        """Progress of the download, in words."""
        total = f" of {task.total / 1e6:,.1f}" if task.total else ""
        left = f", {span(task.time_remaining)}" if task.time_remaining else ""
        return f"{task.description}: {task.completed / 1e6:,.1f}{total} MB{left}"

    def __call__(self, done: int, total: int) -> None:
        """Show the progress; a total of 0 means unknown."""
        self.bar.update(self._task, completed=done, total=total or None)
