"""What the studio asks of a library: a storyboard with what a user fixed, and the candidates of one step.

The illustrator answers; here a project's options and wishes become its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from limner.apps.illustrator import Illustrator
from limner.apps.shown import Shown
from limner.data.records import Record, Story
from limner.data.storyboards import Candidate, Storyboard
from limner.retrieval.decoding import Decoder


class Options(Record):
    """How to illustrate, as far as a project sets it; see `limner.retrieval.storyboard.BoardOptions`.

    Attributes:
        decoder: off, greedy, beam, chain or anchor.
        allow_repeats: whether a picture may be shown twice.
        min_probability: a step is left blank below it; None for the calibrated threshold, 0 for never.
        pair_weight: times the evidence of two pictures for each other; None for the calibrated one.
        candidates: pictures considered per step; None for 200, and with the decoder chain for fewer where a
            text has more than 20 steps, so that a long one is not waited for.
        runners_up: other candidates named per step.
    """

    decoder: Decoder = "anchor"
    allow_repeats: bool = False
    min_probability: float | None = Field(default=None, ge=0, lt=1)
    pair_weight: float | None = Field(default=None, ge=0, le=100)
    candidates: int | None = Field(default=None, ge=1, le=2000)
    runners_up: int = Field(default=3, ge=0, le=200)


@dataclass(frozen=True)
class Wishes:
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


NOTHING = Wishes({}, {})
# The work of chain grows with the square of candidates.
CANDIDATES, FEWEST, CANDIDATES_IN_ALL = 200, 20, 4_000


def considered(steps: int, decoder: Decoder) -> int:
    """Pictures considered per step of a text of so many."""
    if decoder != "chain":
        return CANDIDATES
    return min(CANDIDATES, max(FEWEST, CANDIDATES_IN_ALL // steps))


def made(asked: Illustrator, story: Story, options: Options, wishes: Wishes = NOTHING) -> Storyboard:
    """Illustrate a story; bans and given pictures that the library no longer holds are passed over.

    Args:
        asked: the library.
        story: the text.
        options: how.
        wishes: what is fixed.
    Raises:
        LimnerError: as `Illustrator.options` and `Illustrator.board`.
    """
    bans = tuple(one for one in dict.fromkeys(wishes.bans) if one in asked.catalogue)
    given = {
        step: one for step, one in (wishes.given or {}).items() if one in asked.catalogue and one not in bans
    }
    chosen = asked.options(options.model_dump(exclude_none=True)).model_copy(
        update={
            "candidates": options.candidates or considered(len(story.steps), options.decoder),
            "pins": dict(wishes.pins),
            "bans": bans,
        }
    )
    return asked.board(story, chosen, shown=Shown(given, {}, ()), relations=wishes.relations)


def strip_of(
    asked: Illustrator, board: Storyboard, options: Options, wishes: Wishes, *, step: int, limit: int
) -> list[Candidate]:
    """Candidates for one step, all others staying as they are; the one it would show first.

    Args:
        asked: the library.
        board: as it is.
        options: of the project.
        wishes: of the project; its relation for this step counts.
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
    bans = [one for one in wishes.bans if one not in pins.values()]
    # What looks like the other steps' pictures comes on top, so a long text needs no more of its own.
    usual = considered(len(board.steps), options.decoder)
    candidates = max(options.candidates or usual, min(limit, usual))
    wider = options.model_copy(update={"runners_up": limit, "candidates": candidates})
    found = made(asked, board.story, wider, Wishes(pins, wishes.relations, bans)).steps[step]
    chosen = () if found.chosen is None else (found.chosen,)
    return [*chosen, *found.runners_up][:limit]
