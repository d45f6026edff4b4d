"""The library that a studio works on, loaded once and again whenever it was indexed anew.

Requests ask for the current illustrator and keep it to their end. It decides nothing.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from limner.apps.illustrator import Illustrator
from limner.apps.studio.asking import made
from limner.apps.trained import TrainedRun, check_kinds
from limner.data.records import Step, Story
from limner.errors import LimnerError
from limner.retrieval.library import Library
from limner.retrieval.storyboard import BoardOptions

LOOK_S = 2.0
"""Seconds between looks at whether another process has indexed."""


class Engine:
    """Hands out the current illustrator of one library."""

    def __init__(self, library: Path, *, model: Path | None = None, metric: Path | None = None) -> None:
        """Open a library and the runs that look at it.

        Args:
            library: folder of the library.
            model: folder of a trained run, or None.
            metric: folder of a trained same-document metric, or None.
        Raises:
            LimnerError: as `Library.open` and `TrainedRun.open`.
        """
        self.folder = library
        self.model = None if model is None else TrainedRun.open(model)
        self.metric = None if metric is None else TrainedRun.open(metric)
        check_kinds([run for run in (self.model, self.metric) if run is not None], model, metric)
        self._lock = threading.Lock()
        self._holds = 0
        self._version, self._illustrator = self._read()
        self._looked = time.monotonic()

    def illustrator(self) -> Illustrator:
        """The library as it is, or as it was before indexing that is under way."""
        with self._lock:
            now = time.monotonic()
            if not self._holds and now - self._looked >= LOOK_S:
                if Library.open(self.folder).version() != self._version:
                    self._version, self._illustrator = self._read()
                self._looked = time.monotonic()
            return self._illustrator

    def hold(self) -> None:
        """Keep the illustrator while indexing changes the library bit by bit."""
        with self._lock:
            self._holds += 1

    def release(self) -> None:
        """Indexing is over: look again at once."""
        with self._lock:
            self._holds -= 1
            self._looked = -LOOK_S

    def warm(self) -> None:
        """Load what the first storyboard would have to wait for; trouble is left for it to tell."""
        story = Story(id="warm", steps=(Step(text="warm"),))
        try:
            made(self.illustrator(), story, BoardOptions())
        except LimnerError:
            return

    def _read(self) -> tuple[tuple[int, ...], Illustrator]:
        library = Library.open(self.folder)
        return library.version(), Illustrator(library, model=self.model, metric=self.metric)
