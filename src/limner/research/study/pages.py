"""Renders the pages of a study (consent, rating, pause, end) and parses the answers.

Uses only what raters may see: no key, system names or strata.
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
"""Item id, answer in canonical terms, and the order in which the candidates were shown."""


FIELD = "answer-"


def _field(token: str, number: int) -> str:
    """Form field of the n-th item of a page, from 1.

    Names differ between pages and raters, because browsers restore earlier answers into fields of the same
    name, even on another page.
    """
    return f"{FIELD}{token}-{number}"


def of_another_page(form: Form, unit: Unit, plan: AssignmentPlan, rater: str) -> bool:
    """Whether a form holds an answer from another page or rater."""
    page_fields = {_field(plan.token(rater, unit), number) for number in range(1, len(unit.items) + 1)}
    return any(name.startswith(FIELD) and name not in page_fields for name in form)


def read_answers(
    form: Form, unit: Unit, plan: AssignmentPlan, rater: str, *, pairs: bool
) -> list[Answered] | None:
    """Parse the answers to all items of a page; None if one is missing or invalid.

    Args:
        form: fields and their values.
        unit: the page.
        plan: gives the order that the rater saw.
        rater: public id.
        pairs: whether the protocol is pairwise; otherwise any number of pictures may be ticked, or "none".
    """
    answers: list[Answered] = []
    for number, item in enumerate(unit.items, start=1):
        order = plan.shown_order(rater, item)
        given = form.get(_field(plan.token(rater, unit), number), ())
        answer = _answer(given, order, item, pairs=pairs)
        if answer is None:
            return None
        answers.append((item.id, answer, order))
    return answers


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
"""Number of texts shown before and after the one to judge; the rest of the story opens on demand."""


@dataclass(frozen=True)
class RaterWording:
    """Text about a study for raters.

    Attributes:
        title, question, consent: as registered.
        pairs: whether two pictures are compared; otherwise any number may be ticked.
        notice: contact, purpose and retention.
        panel: display name of the panel that sends the raters; "" for none.
    """

    title: str
    question: str
    consent: str
    pairs: bool
    notice: Notice | None = None
    panel: str = ""

    @classmethod
    def of(cls, study: Study, notice: Notice | None = None, panel: str = "") -> RaterWording:
        """Wording of a registered study; `notice` is used if none was registered."""
        pairs = study.protocol == "pairwise"
        return cls(study.title, study.question, study.consent, pairs, study.notice or notice, panel)


@dataclass(frozen=True)
class ShownItem:
    """One item of a page.

    Attributes:
        number: from 1.
        field: name of the form field.
        text: text to judge.
        before, near, after: texts of the story before, around (with `text` itself) and after.
        current: index of `text` in `near`, from 0.
        pictures: file names from left to right; None if the system shows no picture.
        ticked: values to restore in a form that was sent incomplete.
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
        """Use this wording on all pages."""
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
        """Render the page to answer now, or the final page if none is left.

        Args:
            turn: the rater's next task, from the database.
            plan: gives the order of the pictures.
            rater: public id.
            link: URL with which the rater can return.
            ending: completion code or link, shown at the end.
            note: one sentence about the previous answer.
            form: fields of an incomplete form, to restore.
        """
        if turn.withdrawn:
            return self.render("withdrawn.html")
        if turn.unit is None:
            return self.render("end.html", turn=turn, link=link, rater=rater, ending=ending)
        token = plan.token(rater, turn.unit)
        items = [
            self._shown(item, number, _field(token, number), plan.shown_order(rater, item), form or {})
            for number, item in enumerate(turn.unit.items, start=1)
        ]
        return self.render(
            "pair.html" if self._wording.pairs else "ticks.html",
            unit=turn.unit.name,
            rater=rater,
            items=items,
            answered=turn.answered,
            total=turn.answered + turn.left + 1,
            note=note,
            incomplete=form is not None,
        )

    @staticmethod
    def _shown(item: Item, number: int, field: str, order: Sequence[str], form: Form) -> ShownItem:
        files = {rated.id: rated.picture for rated in item.candidates}
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
        """Render the template of this name."""
        return self._templates.get_template(template).render(study=self._wording, words=PAIR_WORDS, **values)
