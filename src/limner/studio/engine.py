"""The library that a studio works on, loaded once and again whenever it was indexed anew.

Requests ask for the current illustrator and keep it to their end. It decides nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from limner.encoders.trained import trained_runs
from limner.errors import LimnerError
from limner.library import Library
from limner.match.illustrate import BoardOptions
from limner.match.illustrator import Illustrator
from limner.match.shown import GivenPictures
from limner.progress import Progress
from limner.records import Board, BoardStep, Candidate, Step, Story, limner_version
from limner.studio.edits import State
from limner.studio.step_edits import Constraints

NOTHING = Constraints()


def made(
    asked: Illustrator,
    story: Story,
    options: BoardOptions,
    constraints: Constraints = NOTHING,
    *,
    held: Mapping[int, str | None] | None = None,
    as_it_is: Mapping[int, BoardStep] | None = None,
    progress: Progress | None = None,
) -> Board:
    """Illustrate a story; bans and given pictures that the library no longer holds are passed over.

    A step fixed to such a picture is left blank: who keeps a storyboard puts back what stood there.

    Args:
        asked: the library.
        story: the text.
        options: how.
        constraints: what is fixed.
        held: 0-based step → picture, or None for a blank, that stays though nobody fixed it.
        as_it_is: as of `Illustrator.board`.
        progress: as of `Illustrator.board`.
    Raises:
        LimnerError: as `Illustrator.options` and `Illustrator.board`.
    """
    chosen, stay = _there(asked, options, constraints, held or {})
    there = constraints.given.items()
    given = {step: one for step, one in there if one in asked.catalogue and one not in chosen.bans}
    return asked.board(
        story,
        chosen,
        shown=GivenPictures(given),
        held=stay,
        as_it_is=as_it_is,
        relations=constraints.relations,
        progress=progress,
    )


def _there(
    asked: Illustrator, options: BoardOptions, constraints: Constraints, held: Mapping[int, str | None]
) -> tuple[BoardOptions, dict[int, str | None]]:
    """Options with pins and bans, and what stays, as far as the library holds the pictures."""
    bans = tuple(one for one in dict.fromkeys(constraints.bans) if one in asked.catalogue)
    pins = {step: one for step, one in constraints.pins.items() if one is None or one in asked.catalogue}
    chosen = asked.options(options.model_dump(exclude={"pins", "bans"})).model_copy(
        update={"pins": pins, "bans": bans}
    )
    kept = {**held, **dict.fromkeys(constraints.pins.keys() - pins.keys())}
    return chosen, {
        step: one if one is not None and one in asked.catalogue and one not in bans else None
        for step, one in kept.items()
    }


def strip_of(
    asked: Illustrator,
    board: Board,
    state: State,
    step: int,
    *,
    limit: int,
    progress: Progress | None = None,
) -> list[Candidate]:
    """Candidates for one step, all others staying as they are; the one it would show first.

    Args:
        asked: the library.
        board: as it is.
        state: of the project; its relation for this step counts.
        step: 0-based.
        limit: candidates at most.
        progress: as of `made`.
    Raises:
        LimnerError: as `made`.
    """
    fixed = _others(state, step)
    candidates = max(state.options.candidates, limit)
    wider = state.options.model_copy(update={"runners_up": limit, "candidates": candidates})
    chosen, stay = _there(asked, wider, fixed, board.shown)
    shown = {**stay, **chosen.pins}
    found = asked.offers(board.story, chosen, shown, step, relations=state.relations, progress=progress)
    return found[:limit]


def explained(
    asked: Illustrator, board: Board, state: State, steps: Iterable[int], progress: Progress | None = None
) -> Board | None:
    """The storyboard in which some steps show what is fixed there, or what they showed, and say so.

    Nothing is chosen, and nothing is weighed that the candidates of these steps have not weighed.

    Args:
        asked: the library.
        board: as it was.
        state: as it is.
        steps: 0-based.
        progress: as of `made`.
    Returns:
        it; None where that cannot be said of these steps alone: there is a trained run, or the library no
        longer holds a picture.
    Raises:
        LimnerError: as `made`.
    """
    if asked.model is not None:
        return None
    found = list(board.steps)
    now = {**board.shown, **state.pins}
    for step in steps:
        fixed = _others(state, step)
        chosen, stay = _there(asked, state.options, fixed, now)
        shown = {**stay, **chosen.pins, step: now[step]}
        if now[step] is not None and now[step] not in asked.catalogue:
            return None
        pinned = step in state.pins
        found[step] = asked.explained(board.story, chosen, shown, step, pinned=pinned, progress=progress)
    settings = _there(asked, state.options, state, {})[0].settings()
    return board.model_copy(update={"steps": tuple(found), "settings": settings, "version": limner_version()})


def _others(state: State, step: int) -> Constraints:
    """What is fixed at all steps but one; that one, and what the text itself shows, merely stays."""
    others = {position: one for position, one in state.pins.items() if position != step}
    return state.model_copy(update={"pins": others, "given": {}})


LOOK_S = 2.0
"""Seconds between looks at whether another process has indexed."""


class Engine:
    """Hands out the current illustrator of one library."""

    def __init__(
        self,
        library: Path,
        *,
        model: Path | None = None,
        metric: Path | None = None,
        weights: tuple[str, ...] = (),
        device: str = "cpu",
    ) -> None:
        """Open a library and the runs that look at it.

        Args:
            library: folder or address of the library.
            model: folder of a trained run, or None.
            metric: folder of a trained same-document metric, or None.
            weights: of clip, as of `Illustrator`.
            device: of the runs, and of what looks at folders that are added, as
                `limner.devices.device_of` takes it.
        Raises:
            LimnerError: as `Library.open` and `limner.encoders.trained.trained_runs`.
        """
        self.place, self.weights, self.device = library, weights, device
        self.model, self.metric = trained_runs(model, metric, device)
        self._lock = threading.Lock()
        self._held = False
        self._version, self._illustrator = self._read()
        self._looked = time.monotonic()

    @property
    def folder(self) -> Path:
        """Folder of this machine for what the studio keeps: the library's own, unless that is elsewhere."""
        return self._illustrator.library.folder

    def illustrator(self) -> Illustrator:
        """The library as it is, or as it was before indexing that is under way."""
        with self._lock:
            now = time.monotonic()
            if not self._held and now - self._looked >= LOOK_S:
                if self.library().version() != self._version:
                    self._version, self._illustrator = self._read()
                self._looked = time.monotonic()
            return self._illustrator

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the illustrator while indexing changes the library bit by bit, and look again afterwards."""
        with self._lock:
            self._held = True
        try:
            yield
        finally:
            with self._lock:
                self._held, self._looked = False, -LOOK_S

    def refresh(self) -> None:
        """Look at the library again with the next question."""
        with self._lock:
            self._looked = -LOOK_S

    def warm(self) -> None:
        """Load what the first storyboard would have to wait for; trouble is left for it to report."""
        story = Story(id="warm", steps=(Step(text="warm"),))
        with suppress(LimnerError):
            made(self.illustrator(), story, BoardOptions())

    def library(self) -> Library:
        """The library, opened anew: of what a request asks, nothing changes with it."""
        return Library.open(self.place, weights=self.weights, device=self.device)

    def _read(self) -> tuple[tuple[int, ...], Illustrator]:
        library = self.library()
        return library.version(), library.illustrator(self.model, self.metric)
