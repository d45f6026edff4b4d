"""The pages of a study, and what raters answer on them: consent, something to judge, a pause, the end.

Made on the server from what raters may see: neither key nor systems nor strata come in here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from limner.research.study.assignment import AssignmentPlan, Unit
from limner.research.study.records import PAIR_WORDS, Answer, Item, Notice, PairAnswer, Study
from limner.research.study.recruitment import Ending
from limner.research.study.votes import Turn
from limner.templates import environment

Form = Mapping[str, Sequence[str]]
Answered = tuple[str, Answer, tuple[str, ...]]
"""Item, answer in canonical terms, and the order in which its candidates were shown."""


FIELD = "answer-"


def _field(token: str, number: int) -> str:
    """Name of the form field of a page's item, counted from 1.

    It differs from page to page and from rater to rater: browsers put answers back into fields of the same
    name when somebody goes back, although another page is shown by then.
    """
    return f"{FIELD}{token}-{number}"


def of_another_page(form: Form, unit: Unit, plan: AssignmentPlan, rater: str) -> bool:
    """Whether a form holds an answer that was not given by this rater on this page."""
    own = {_field(plan.token(rater, unit), number) for number in range(1, len(unit.items) + 1)}
    return any(name.startswith(FIELD) and name not in own for name in form)


def read_answers(
    form: Form, unit: Unit, plan: AssignmentPlan, rater: str, *, pairs: bool
) -> list[Answered] | None:
    """The answers on all items of a page, or None if one is missing or makes no sense.

    Args:
        form: fields and their values.
        unit: the page.
        plan: draws the order that the rater saw.
        rater: public id.
        pairs: pairs of the pairwise protocol; else any number of pictures may be ticked, or none of them.
    """
    found: list[Answered] = []
    for number, item in enumerate(unit.items, start=1):
        shown = plan.shown_order(rater, item)
        given = form.get(_field(plan.token(rater, unit), number), ())
        answer = _answer(given, shown, item, pairs=pairs)
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
class RaterWording:
    """Text about a study for raters.

    Attributes:
        title, question, consent: as registered.
        pairs: two pictures to compare; else any number of pictures to tick.
        notice: contact, purpose and retention.
        panel: that sends the raters, in words; "" for none.
    """

    title: str
    question: str
    consent: str
    pairs: bool
    notice: Notice | None = None
    panel: str = ""

    @classmethod
    def of(cls, study: Study, notice: Notice | None = None, panel: str = "") -> RaterWording:
        """The words of a registration; a notice given here stands where none was registered."""
        pairs = study.protocol == "pairwise"
        return cls(study.title, study.question, study.consent, pairs, study.notice or notice, panel)


@dataclass(frozen=True)
class ShownItem:
    """One item of a page.

    Attributes:
        number: from 1.
        field: field of the form.
        text: to judge by.
        before, near, after: texts of the story: far ahead, around and including it, far behind.
        current: place of the one to judge in `near`.
        pictures: file names from left to right; None stands for no picture.
        ticked: values that the form held when it came back incomplete.
    """

    number: int
    field: str
    text: str
    before: tuple[str, ...]
    near: tuple[str, ...]
    after: tuple[str, ...]
    current: int
    pictures: tuple[str | None, ...]
    ticked: tuple[str, ...] = ()


class Pages:
    """Renders pages of one study."""

    def __init__(self, wording: RaterWording) -> None:
        """Set the texts that all pages share."""
        self._templates = environment("limner.research.study")
        self._wording = wording

    def rating(
        self,
        turn: Turn,
        plan: AssignmentPlan,
        rater: str,
        *,
        link: str,
        ending: Ending,
        note: str = "",
        form: dict[str, list[str]] | None = None,
    ) -> str:
        """The page to answer now, or what there is to say when there is none.

        Args:
            turn: from the database.
            plan: draws the order of pictures.
            rater: public id.
            link: by which the rater comes back.
            ending: what a rater takes away who is through.
            note: one sentence on the last answer.
            form: what came back incomplete.
        """
        if turn.withdrawn:
            return self.render("withdrawn.html")
        if turn.unit is None:
            return self.render("end.html", turn=turn, link=link, rater=rater, ending=ending)
        token = plan.token(rater, turn.unit)
        shown = [
            self._shown(item, number, _field(token, number), plan.shown_order(rater, item), form or {})
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

    @staticmethod
    def _shown(item: Item, number: int, field: str, order: Sequence[str], form: Form) -> ShownItem:
        files = {one.id: one.picture for one in item.candidates}
        story = item.context
        first, last = max(0, item.position - AROUND), item.position + AROUND + 1
        return ShownItem(
            number=number,
            field=field,
            text=item.text,
            before=story[:first],
            near=story[first:last],
            after=story[last:],
            current=item.position - first,
            pictures=tuple(files[candidate] for candidate in order),
            ticked=tuple(form.get(field, ())),
        )

    def render(self, template: str, **values: object) -> str:
        """A page by the name of its template."""
        return self._templates.get_template(template).render(study=self._wording, words=PAIR_WORDS, **values)
