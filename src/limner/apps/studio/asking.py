"""What the studio asks of a library: a storyboard with what a user fixed, and the candidates of one step.

The illustrator answers; here a project's options and constraints become its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from limner.apps.illustrator import Illustrator
from limner.apps.shown import Shown
from limner.data.records import Story
from limner.data.storyboards import Candidate, Storyboard
from limner.retrieval.decoding import Decoder
from limner.retrieval.storyboard import CANDIDATES, BoardOptions


@dataclass(frozen=True)
class Constraints:
    """What a user fixed on a storyboard.

    Attributes:
        pins: 0-based step → picture id, or None to keep it blank.
        relations: 0-based step → relation that its picture should have.
        bans: pictures that must not be shown.
        given: 0-based step → picture of the library that the text itself shows there.
    """

    pins: Mapping[int, str | None]
    relations: Mapping[int, str]
    bans: Sequence[str] = ()
    given: Mapping[int, str] | None = None


NOTHING = Constraints({}, {})
# The work of chain grows with the square of candidates.
FEWEST, CANDIDATES_IN_ALL = 20, 4_000


def considered(steps: int, decoder: Decoder) -> int:
    """Pictures considered per step of a text of so many."""
    if decoder != "chain":
        return CANDIDATES
    return min(CANDIDATES, max(FEWEST, CANDIDATES_IN_ALL // steps))


def made(
    asked: Illustrator, story: Story, options: BoardOptions, constraints: Constraints = NOTHING
) -> Storyboard:
    """Illustrate a story; bans and given pictures that the library no longer holds are passed over.

    Args:
        asked: the library.
        story: the text.
        options: how.
        constraints: what is fixed.
    Raises:
        LimnerError: as `Illustrator.options` and `Illustrator.board`.
    """
    bans = tuple(one for one in dict.fromkeys(constraints.bans) if one in asked.catalogue)
    given = {
        step: one
        for step, one in (constraints.given or {}).items()
        if one in asked.catalogue and one not in bans
    }
    # A page sends all options back: those as they were at first are for the calibration to say.
    chosen = asked.options(options.model_dump(exclude_defaults=True)).model_copy(
        update={
            "candidates": options.candidates or considered(len(story.steps), options.decoder),
            "pins": dict(constraints.pins),
            "bans": bans,
        }
    )
    return asked.board(story, chosen, shown=Shown(given, {}, ()), relations=constraints.relations)


def strip_of(
    asked: Illustrator,
    board: Storyboard,
    options: BoardOptions,
    constraints: Constraints,
    *,
    step: int,
    limit: int,
) -> list[Candidate]:
    """Candidates for one step, all others staying as they are; the one it would show first.

    Args:
        asked: the library.
        board: as it is.
        options: of the project.
        constraints: of the project; its relation for this step counts.
        step: 0-based.
        limit: candidates at most.
    Raises:
        LimnerError: as `made`.
    """
    pins = {
        one.position: None if one.chosen is None else one.chosen.picture.id
        for one in board.steps
        if one.position != step and (one.chosen is None or one.chosen.picture.id in asked.catalogue)
    }
    bans = [one for one in constraints.bans if one not in pins.values()]
    # What looks like the other steps' pictures comes on top, so a long text needs no more of its own.
    usual = considered(len(board.steps), options.decoder)
    candidates = max(options.candidates or usual, min(limit, usual))
    wider = options.model_copy(update={"runners_up": limit, "candidates": candidates})
    found = made(asked, board.story, wider, Constraints(pins, constraints.relations, bans)).steps[step]
    chosen = () if found.chosen is None else (found.chosen,)
    return [*chosen, *found.runners_up][:limit]
