"""The library that a studio uses, loaded once and reloaded after indexing.

A request gets the current illustrator and keeps it until it ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from limner.encoders.trained import trained_runs
from limner.errors import DataError, LimnerError
from limner.library import Library, open_store
from limner.match.given_pictures import match_given_pictures
from limner.match.illustrate import BoardOptions
from limner.match.illustrator import Illustrator
from limner.match.rows import NamedRow, named_row
from limner.progress import Progress
from limner.records import NO_COVER, Board, BoardStep, Candidate, Picture, Step, Story, limner_version
from limner.studio.edits import State
from limner.studio.step_edits import Constraints

NOTHING = Constraints()


def illustrate_story(
    asked: Illustrator,
    story: Story,
    options: BoardOptions,
    constraints: Constraints = NOTHING,
    *,
    held: Mapping[int, str | None] | None = None,
    as_it_is: Mapping[int, BoardStep] | None = None,
    progress: Progress | None = None,
) -> Board:
    """Illustrate a story, ignoring locks and bans of pictures that are no longer in the library.

    A step locked to such a picture is left blank; the caller restores what it showed. Pictures that the text
    itself shows stay, even if they are banned.

    Args:
        asked: the library.
        story: the text.
        options: storyboard options.
        constraints: locks, relations and bans.
        held: 0-based step → picture, or None for a blank, that stays although the step is not locked.
        as_it_is: see `Illustrator.board`.
        progress: see `Illustrator.board`.
    Raises:
        LimnerError: see `Illustrator.options` and `Illustrator.board`.
    """
    chosen, stay = _there(asked, options, constraints, held or {})
    given = match_given_pictures(story, asked.library)
    banned = {step: one for step, one in given.inside.items() if one in chosen.bans}
    inside = {step: one for step, one in given.inside.items() if step not in banned}
    records = dict(zip(banned, asked.library.pictures([*banned.values()]), strict=True))
    return asked.board(
        story,
        chosen,
        shown=replace(given, inside=inside, outside={**given.outside, **records}),
        held=stay,
        as_it_is=as_it_is,
        relations=constraints.relations,
        progress=progress,
    )


def _there(
    asked: Illustrator, options: BoardOptions, constraints: Constraints, held: Mapping[int, str | None]
) -> tuple[BoardOptions, dict[int, str | None]]:
    """Options with those pins, bans, kept pictures and cover that the library contains."""
    bans = tuple(one for one in dict.fromkeys(constraints.bans) if one in asked.library)
    pins = {step: one for step, one in constraints.pins.items() if one is None or one in asked.library}
    cover = options.cover if options.cover is None or options.cover in asked.library else NO_COVER
    chosen = asked.options(options.model_dump(exclude={"pins", "bans"}) | {"cover": cover}).model_copy(
        update={"pins": pins, "bans": bans}
    )
    kept = {**held, **dict.fromkeys(constraints.pins.keys() - pins.keys())}
    return chosen, {
        step: one if one is not None and one in asked.library and one not in bans else None
        for step, one in kept.items()
    }


def cover_of(asked: Illustrator, board: Board, options: BoardOptions) -> Picture | None:
    """The picture that stands for a text: by its options, or else as the storyboard has it.

    Raises:
        DataError: it is neither in the library nor on the storyboard.
    """
    if options.cover is None or options.cover == NO_COVER:
        return board.cover if options.cover is None else None
    shown = [step.picture for step in board.steps if step.picture and step.picture.id == options.cover]
    return (shown or asked.library.pictures([options.cover]))[0]


def row_now(asked: Illustrator, story: Story, options: BoardOptions) -> NamedRow | None:
    """What is named beside a text; None if nothing is, or if all of it has left the library."""
    with suppress(DataError):
        if options.named:
            return named_row(asked.library, options.named, story, options.order, shared=options.shared)
    return None


def without_new(asked: Illustrator, board: Board, options: BoardOptions) -> BoardOptions:
    """Options that name only the photographs of a storyboard's row, if others have come since."""
    now = row_now(asked, board.story, options)
    if now is None or board.row is None:
        return options
    known = {one.picture for one in board.row.photographs}.intersection(now.pictures)
    if not known or len(known) == len(now.pictures):
        return options
    files = (path for picture in asked.library.pictures(sorted(known)) for path in picture.paths)
    paths = (path for path in files if any(Path(path).is_relative_to(one) for one in options.named))
    return options.model_copy(update={"named": tuple(paths)})


def candidates_for(
    asked: Illustrator,
    board: Board,
    state: State,
    step: int,
    *,
    limit: int,
    progress: Progress | None = None,
) -> list[Candidate]:
    """Candidates for one step with all other steps unchanged, best first.

    Args:
        asked: the library.
        board: the current storyboard.
        state: state of the project, with the relation for this step.
        step: 0-based.
        limit: maximum number of candidates.
        progress: see `illustrate_story`.
    Raises:
        LimnerError: see `illustrate_story`.
    """
    fixed = _others(state, step)
    candidates = max(state.options.candidates, limit)
    wider = state.options.model_copy(update={"runners_up": limit, "candidates": candidates})
    chosen, stay = _there(asked, wider, fixed, board.shown)
    shown = {**stay, **chosen.pins}
    found = asked.offers(board.story, chosen, shown, step, relations=state.relations, progress=progress)
    return found[:limit]


def explain_steps(
    asked: Illustrator, board: Board, state: State, steps: Iterable[int], progress: Progress | None = None
) -> Board | None:
    """The storyboard with some steps explained again: they show their locked or previous picture.

    Nothing is chosen; only the candidates of these steps are scored.

    Args:
        asked: the library.
        board: the storyboard before.
        state: the current state.
        steps: 0-based.
        progress: see `illustrate_story`.
    Returns:
        The storyboard; None if these steps cannot be explained alone: with a trained run, or if the library
        no longer contains a picture.
    Raises:
        LimnerError: see `illustrate_story`.
    """
    if asked.model is not None:
        return None
    found = list(board.steps)
    now = {**board.shown, **state.pins}
    for step in steps:
        fixed = _others(state, step)
        chosen, stay = _there(asked, state.options, fixed, now)
        shown = {**stay, **chosen.pins, step: now[step]}
        if now[step] is not None and now[step] not in asked.library:
            return None
        pinned = step in state.pins
        found[step] = asked.explained(board.story, chosen, shown, step, pinned=pinned, progress=progress)
    settings = _there(asked, state.options, state, {})[0].settings()
    return board.model_copy(update={"steps": tuple(found), "settings": settings, "version": limner_version()})


def _others(state: State, step: int) -> Constraints:
    """Constraints of all steps but one."""
    others = {position: one for position, one in state.pins.items() if position != step}
    return state.model_copy(update={"pins": others})


LOOK_S = 2.0
"""Seconds between checks whether another process has indexed the library."""


class Engine:
    """Provides the current illustrator of one library."""

    def __init__(
        self,
        library: Path,
        *,
        model: Path | None = None,
        metric: Path | None = None,
        weights: tuple[str, ...] = (),
        device: str = "cpu",
    ) -> None:
        """Open a library and the trained runs.

        Args:
            library: folder or URL of the library.
            model: folder of a trained run, or None.
            metric: folder of a trained same-document metric, or None.
            weights: weights of clip, see `Illustrator`.
            device: device of the runs and of the encoders for added folders, see `limner.devices.device_of`.
        Raises:
            LimnerError: see `Library.open` and `limner.encoders.trained.trained_runs`.
        """
        self.place, self.weights, self.device = library, weights, device
        self.model, self.metric = trained_runs(model, metric, device)
        self._lock = threading.Lock()
        self._held = False
        self.store = open_store(library)
        self._version, self._illustrator = self._read()
        self._looked = time.monotonic()

    @property
    def folder(self) -> Path:
        """Folder for the studio's files: the library's, unless that is on object storage."""
        return self.store.folder

    def illustrator(self) -> Illustrator:
        """The current illustrator; during indexing, the previous one."""
        with self._lock:
            now = time.monotonic()
            if not self._held and now - self._looked >= LOOK_S:
                if self.library().version() != self._version:
                    self._version, self._illustrator = self._read()
                self._looked = time.monotonic()
            return self._illustrator

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the illustrator while the library is being indexed, and reload it afterwards."""
        with self._lock:
            self._held = True
        try:
            yield
        finally:
            with self._lock:
                self._held, self._looked = False, -LOOK_S

    def refresh(self) -> None:
        """Check the library again at the next request."""
        with self._lock:
            self._looked = -LOOK_S

    def warm(self) -> None:
        """Load what the first storyboard needs; errors are ignored here, because the storyboard will report
        them.
        """
        story = Story(id="warm", steps=(Step(text="warm"),))
        with suppress(LimnerError):
            illustrate_story(self.illustrator(), story, BoardOptions())

    def library(self) -> Library:
        """The library, reopened, so that nothing changes during a request."""
        return Library.open(self.place, weights=self.weights, device=self.device)

    def _read(self) -> tuple[int, Illustrator]:
        library = self.library()
        return library.version(), library.illustrator(self.model, self.metric)
