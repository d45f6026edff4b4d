"""What a rater's form says, in terms of the study: places on the page become candidates of the item.

The page speaks of pictures 1, 2 and 3 as they stand, so that nothing it sends tells one system from another.
It stores nothing.
"""

from collections.abc import Mapping, Sequence

from limner.apps.study.assignment import Plan, Unit
from limner.data.studies import Answer, Item, PairAnswer

Form = Mapping[str, Sequence[str]]
Answered = tuple[str, Answer, tuple[str, ...]]
"""Item, answer in canonical terms, and the order in which its candidates were shown."""
SAME, NEITHER, NONE = "same", "neither", "none"


def field(number: int) -> str:
    """Name of the form field of a page's item, counted from 1."""
    return f"answer-{number}"


def read_answers(form: Form, unit: Unit, plan: Plan, rater: str, *, pairs: bool) -> list[Answered] | None:
    """The answers on all items of a page, or None where one is missing or makes no sense.

    Args:
        form: fields and their values.
        unit: the page.
        plan: draws the order that the rater saw.
        rater: public id.
        pairs: of the pairwise protocol; else any number of pictures may be ticked, or none of them.
    """
    read = _pair if pairs else _ticks
    found: list[Answered] = []
    for number, item in enumerate(unit.items, start=1):
        shown = plan.shown_order(rater, item)
        answer = read(form.get(field(number), ()), shown, item)
        if answer is None:
            return None
        found.append((item.id, answer, shown))
    return found


def _pair(values: Sequence[str], shown: Sequence[str], _item: Item) -> PairAnswer | None:
    answers: dict[str, PairAnswer] = {SAME: "same", NEITHER: "neither"}
    for place, candidate in enumerate(shown, start=1):
        answers[str(place)] = "first" if candidate == _item.ids[0] else "second"
    return answers.get(values[0]) if len(values) == 1 else None


def _ticks(values: Sequence[str], shown: Sequence[str], item: Item) -> tuple[str, ...] | None:
    if list(values) == [NONE]:
        return ()
    places = {str(place): candidate for place, candidate in enumerate(shown, start=1)}
    if not values or any(value not in places for value in values):
        return None
    ticked = {places[value] for value in values}
    return tuple(candidate for candidate in item.ids if candidate in ticked)
