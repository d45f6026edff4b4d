"""Steps that keep their picture from an earlier storyboard."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from limner.errors import DataError, counted

if TYPE_CHECKING:
    from limner.match.given_pictures import GivenPictures
    from limner.match.illustrate import BoardOptions
    from limner.records import Board, BoardStep, Step, Story
    from limner.store import Store

STAYS_BLANK = "No picture here, as in the storyboard that was kept."


@dataclass(frozen=True)
class KeptSteps:
    """Steps that keep their picture from an earlier storyboard.

    Attributes:
        steps: steps of the earlier storyboard with the same words, by index of the new step, from 0.
        notes: pictures that could not be kept, one line each.
        is_again: whether steps to choose again were named, which then all get a picture.
    """

    steps: dict[int, BoardStep] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_again: bool = False

    @property
    def held(self) -> dict[int, str | None]:
        """Id of the kept picture, or None for a blank, by index of the step, from 0; see `score_board`."""
        return {n: None if step.picture is None else step.picture.id for n, step in self.steps.items()}

    def pinned(self, options: BoardOptions) -> BoardOptions:
        """Options with the pins that are kept from the earlier storyboard."""
        pins = {n: picture for n, picture in self.held.items() if _is_pin(self.steps[n])}
        count = options.count or ("all" if self.is_again else None)
        return options.model_copy(update={"pins": pins | options.pins, "count": count})

    def dressed(self, board: Board) -> Board:
        """Add crops and captions of the kept steps to a new storyboard."""
        steps = list(board.steps)
        for n, old in self.steps.items():
            changes: dict[str, object] = {"framing": old.framing}
            if old.picture is None and not _is_pin(old):
                changes = {"blank": old.blank, "reason": STAYS_BLANK}
            steps[n] = steps[n].model_copy(update=changes)
        return board.model_copy(update={"steps": tuple(steps)})


def kept_steps(
    before: Board,
    story: Story,
    options: BoardOptions,
    shown: GivenPictures,
    library: Store,
    *,
    again: Sequence[int] = (),
) -> KeptSteps:
    """Find the steps of an earlier storyboard to keep: those with the same words, in any position.

    Steps with a new pin are not kept, nor steps whose picture is banned, gone, or pinned to another step. A
    step that has pictures of its own keeps only a pin, or the first of them.

    Args:
        before: the earlier storyboard.
        story: the current text.
        options: the current pins and bans.
        shown: pictures that the text shows.
        library: pictures that can be shown.
        again: indices of steps to choose again, from 0.
    Raises:
        DataError: `again` names a step that the text does not have.
    """
    if again and not 0 <= min(again) <= max(again) < len(story.steps):
        wrong = next(n for n in again if not 0 <= n < len(story.steps))
        there = counted(len(story.steps), "step")
        raise DataError(f"again: step {wrong + 1} does not exist; the text has {there}")
    earlier: dict[object, deque[BoardStep]] = defaultdict(deque)
    for decided in before.steps:
        earlier[_words(before.story.steps[decided.position])].append(decided)
    outside = {n: picture.id for n, picture in shown.outside.items()}
    own: dict[int, str | None] = {**dict.fromkeys(shown.missing), **shown.inside, **outside}
    steps: dict[int, BoardStep] = {}
    notes = []
    if not any(_words(step) in earlier for step in story.steps):
        title = before.story.title.strip() or before.story.steps[0].text
        notes.append(
            f"keep: the storyboard is of another text, {title:.40}: no step has the same words as one of its"
        )
    for n, step in enumerate(story.steps):
        same = earlier[_words(step)]
        old = same.popleft() if same else None
        picture = None if old is None else old.picture
        if old is None or n in again or n in options.pins:
            continue
        if picture is not None and picture.id in options.bans:
            continue
        if picture is None and options.named and not _is_pin(old):
            continue  # a photograph that was added since may belong to it
        if n in own and not _is_pin(old) and (picture is None or picture.id != own[n]):
            continue
        if picture is not None and picture.id not in library and picture.id != outside.get(n):
            notes.append(f"step {n + 1}: {picture.path} is no longer in the library; chosen again")
            continue
        steps[n] = old
    if not options.allow_repeats:
        fixed = {n: one for n, one in {**shown.inside, **options.pins}.items() if n not in steps}
        groups = {one.group for one in library.pictures([one for one in fixed.values() if one is not None])}
        steps = {n: old for n, old in steps.items() if old.picture is None or old.picture.group not in groups}
    return KeptSteps(steps, tuple(notes), bool(again))


def _words(step: Step) -> object:
    """What must be equal in two steps for the picture to be kept."""
    return step.title, step.text, tuple(one.target for one in step.pictures)


def _is_pin(step: BoardStep) -> bool:
    """Whether the user fixed the picture, or asked for a blank."""
    return step.origin == "pinned" or (step.picture is None and step.blank == "asked for")
