"""The pages of a study, and what raters answer on them: consent, something to judge, a pause, the end.

Made on the server from what raters may see: neither key nor systems nor strata come in here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from limner.study.assignment import Plan, Unit
from limner.study.records import PAIR_WORDS, Answer, Item, PairAnswer, Study
from limner.study.votes import Turn
from limner.templates import environment

Form = Mapping[str, Sequence[str]]
Answered = tuple[str, Answer, tuple[str, ...]]
"""Item, answer in canonical terms, and the order in which its candidates were shown."""


def _field(number: int) -> str:
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
    found: list[Answered] = []
    for number, item in enumerate(unit.items, start=1):
        shown = plan.shown_order(rater, item)
        answer = _answer(form.get(_field(number), ()), shown, item, pairs=pairs)
        if answer is None:
            return None
        found.append((item.id, answer, shown))
    return found


def _answer(values: Sequence[str], shown: Sequence[str], item: Item, *, pairs: bool) -> Answer | None:
    places = {str(place): candidate for place, candidate in enumerate(shown, start=1)}
    if pairs:
        meant = {**places, "same": "same", "neither": "neither"}
        return cast(PairAnswer, meant.get(values[0])) if len(values) == 1 else None
    if list(values) == ["none"]:
        return ()
    if not values or not places.keys() >= set(values):
        return None
    ticked = {places[value] for value in values}
    return tuple(candidate for candidate in item.ids if candidate in ticked)


AROUND = 2
"""Texts of the story shown before and after the one to judge; the rest opens on demand."""


@dataclass(frozen=True)
class Wording:
    """What raters read about a study, and nothing else of it.

    Attributes:
        title, question, consent: as registered.
        pairs: two pictures to compare; else any number of pictures to tick.
    """

    title: str
    question: str
    consent: str
    pairs: bool

    @classmethod
    def of(cls, study: Study) -> Wording:
        """The words of a registration."""
        return cls(study.title, study.question, study.consent, study.protocol == "pairwise")


@dataclass(frozen=True)
class Shown:
    """One item as it stands on a page.

    Attributes:
        number: from 1.
        field: of the form.
        text: to judge by.
        before, near, after: texts of the story: far ahead, around and including it, far behind.
        current: place of the one to judge in `near`.
        pictures: file names from left to right.
        ticked: values that the form held when it came back incomplete.
    """

    number: int
    field: str
    text: str
    before: tuple[str, ...]
    near: tuple[str, ...]
    after: tuple[str, ...]
    current: int
    pictures: tuple[str, ...]
    ticked: tuple[str, ...] = ()


class Pages:
    """Renders pages of one study."""

    def __init__(self, wording: Wording) -> None:
        """Take the words that all pages share."""
        self._templates = environment("limner.study")
        self._wording = wording

    def rating(
        self,
        turn: Turn,
        plan: Plan,
        rater: str,
        *,
        link: str,
        note: str = "",
        form: dict[str, list[str]] | None = None,
    ) -> str:
        """The page to answer now, or what there is to say when there is none.

        Args:
            turn: from the database.
            plan: draws the order of pictures.
            rater: public id.
            link: by which the rater comes back.
            note: one sentence on the last answer.
            form: what came back incomplete.
        """
        if turn.unit is None:
            return self.render("end.html", turn=turn, link=link)
        shown = [
            self._shown(item, number, plan.shown_order(rater, item), form or {})
            for number, item in enumerate(turn.unit.items, start=1)
        ]
        return self.render(
            "pair.html" if self._wording.pairs else "ticks.html",
            unit=turn.unit.name,
            rater=rater,
            items=shown,
            answered=turn.answered,
            total=turn.answered + turn.left + 1,
            note=note,
            incomplete=form is not None,
        )

    def _shown(self, item: Item, number: int, order: Sequence[str], form: Form) -> Shown:
        files = {one.id: one.picture for one in item.candidates}
        story = item.context
        first, last = max(0, item.position - AROUND), item.position + AROUND + 1
        return Shown(
            number=number,
            field=_field(number),
            text=item.text,
            before=story[:first],
            near=story[first:last],
            after=story[last:],
            current=item.position - first,
            pictures=tuple(files[candidate] for candidate in order),
            ticked=tuple(form.get(_field(number), ())),
        )

    def render(self, template: str, **values: object) -> str:
        """A page by the name of its template."""
        return self._templates.get_template(template).render(study=self._wording, words=PAIR_WORDS, **values)
