"""Rewords, splits, merges, inserts, removes or moves a step of a story, and leaves everything else as
written.

Text between the steps stays in place, and formatting outside the changed words is kept. The author's
numbering is adjusted.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain

from limner.errors import DataError, counted
from limner.records import Between, Part, Step, Story
from limner.text.plain import marker_of
from limner.text.segment import part_between

_PARAGRAPHS = re.compile(r"\n\s*\n")


@dataclass(frozen=True)
class RevisedStep:
    """A step of a story that is being revised.

    Attributes:
        step: its current state.
        sources: steps of the original story from which it comes, counted from 0; empty for a new one.
        changed: whether its words differ from theirs.
        heading: heading of this step alone, directly before it, if any.
    """

    step: Step
    sources: tuple[int, ...] = ()
    changed: bool = True
    heading: Between | None = None


@dataclass
class StoryRevision:
    """A story that is being revised; `story` is the result.

    Attributes:
        before: the original story.
        steps: its current steps.
    """

    before: Story
    steps: list[RevisedStep] = field(init=False)

    def __post_init__(self) -> None:
        """Split the story into its steps and the text between them."""
        story = self.before
        self.gaps: list[list[Between]] = [[] for _ in range(len(story.steps) + 1)]
        for part in story.between:
            self.gaps[min(part.before, len(story.steps))].append(part)
        self.steps = []
        for place, step in enumerate(story.steps):
            following = [one.title for one in story.steps[place + 1 : place + 2]]
            last = self.gaps[place][-1] if self.gaps[place] else None
            own = last is not None and last.kind == "heading" and last.text == step.title
            heading = self.gaps[place].pop() if own and step.title and step.title not in following else None
            self.steps.append(RevisedStep(step, (place,), changed=False, heading=heading))

    @property
    def story(self) -> Story:
        """The revised story."""
        between = []
        for place, gap in enumerate(self.gaps):
            between += [part.model_copy(update={"before": place}) for part in gap]
            own = self.steps[place] if place < len(self.steps) else None
            if own is not None and own.heading is not None and own.step.title:
                title = own.step.title
                words = {} if own.heading.text == title else {"text": title, "marks": ()}
                between.append(own.heading.model_copy(update={"before": place, **words}))
        steps = tuple(one.step for one in self.steps)
        return self.before.model_copy(update={"steps": steps, "between": tuple(between)})

    def reword(self, place: int, text: str, title: str | None = None) -> None:
        """Change the text of a step.

        Args:
            place: index of the step, from 0.
            text: the new text.
            title: the new heading; None leaves it unchanged.
        Raises:
            DataError: there are no words.
        """
        words, one = _words(text), self.steps[place]
        parts = _reworded(one.step, words)
        heading = one.step.title if title is None else " ".join(title.split())
        changes = {"text": words, "parts": parts, "title": heading}
        step = one.step.model_copy(update=changes)
        told = _letters(f"{heading} {words}") == _letters(f"{one.step.title} {one.step.text}")
        self.steps[place] = replace(one, step=step, changed=one.changed or not told)

    def split(self, place: int, at: int) -> None:
        """Split a step in two; heading and pictures of the text stay with the first part.

        Args:
            place: index of the step, from 0.
            at: number of characters of its text before the split.
        Raises:
            DataError: there are no words before or after it.
        """
        one = self.steps[place]
        text, found = one.step.text, _placed(one.step)
        halves = [(0, at), (at, len(text))]
        if not all(text[start:end].strip() for start, end in halves):
            raise DataError(f"step {place + 1} cannot be split at {at}: expected words on both sides")
        made = []
        for start, end in halves:
            parts = tuple(
                _stripped(part_between(part, max(0, start - a), max(0, end - a))) for a, part in found
            )
            kept = tuple(part for part in parts if part.text or part.rows)
            made.append((text[start:end].strip(), kept if one.step.parts else ()))
        (first, own), (second, others) = made
        self.steps[place] = replace(
            one, step=one.step.model_copy(update={"text": first, "parts": own}), changed=True
        )
        title = one.step.title if self._grouped(place) else ""
        self._insert(place + 1, Step(text=second, title=title, parts=_numbered_as(one.step, others)))
        self._count()

    def merge(self, place: int) -> None:
        """Merge a step with the next one; short ones are joined into one paragraph, others keep their
        paragraphs.

        Raises:
            DataError: there is no next step.
        """
        if place + 1 >= len(self.steps):
            raise DataError(f"step {place + 1} is the last; there is none after it to merge with")
        one, other = self.steps[place], self.steps.pop(place + 1)
        title, words = one.step.title or other.step.title, other.step.text
        if other.step.title not in ("", title):
            words = f"{other.step.title}\n\n{words}"
        runs_on = "\n" not in one.step.text + words
        gap = _space(one.step.text) if runs_on else "\n\n"
        text = f"{one.step.text}{gap}{words}"
        step = one.step.model_copy(
            update={
                "text": text,
                "title": title,
                "pictures": one.step.pictures + other.step.pictures,
                "parts": _merged(one.step, other.step, gap, words)
                if one.step.parts or other.step.parts
                else (),
            }
        )
        sources, heading = one.sources + other.sources, one.heading or other.heading
        self.steps[place] = RevisedStep(step, sources, changed=True, heading=heading)
        self.gaps[place + 1 : place + 3] = [self.gaps[place + 1] + self.gaps[place + 2]]
        self._count()

    def insert(self, place: int, text: str, title: str | None = None, *, after: bool = False) -> None:
        """Insert a step.

        Args:
            place: index of the step next to which it is inserted, from 0.
            text: its text.
            title: its heading; None for that of its group, if its neighbours form one.
            after: whether to insert it after that step instead of before.
        Raises:
            DataError: there are no words.
        """
        words, beside = _words(text), self.steps[place].step
        if title is None:
            title = beside.title if self._grouped(place) else ""
        numbered = bool(beside.parts) and beside.parts[0].number is not None
        parts = _numbered_as(beside, (Part(text=words),)) if numbered else ()
        step = Step(text=words, title=" ".join(title.split()), parts=parts)
        self._insert(place + after, step, opens=not after)
        self._count()

    def remove(self, place: int) -> None:
        """Remove a step.

        Raises:
            DataError: it is the only one.
        """
        if len(self.steps) == 1:
            raise DataError("this is the only step, and a text needs one; change its words instead")
        self._take(place)
        self._count()

    def move(self, place: int, to: int) -> None:
        """Move a step to another position.

        Raises:
            DataError: there is no such position.
        """
        if not 0 <= to < len(self.steps):
            raise DataError(
                f"no place {to}: the text has {counted(len(self.steps), 'step')}, counted from 0 here"
            )
        if to == place:
            return
        one = self._take(place)
        self.steps.insert(to, one)
        self.gaps.insert(to + (to < place), [])
        self._count()

    def _insert(self, place: int, step: Step, *, opens: bool = False) -> None:
        """Insert a new step. Text between steps at that position comes before it if it is introductory, else
        after it.
        """
        self.steps.insert(place, RevisedStep(step))
        self.gaps.insert(place + opens, [])

    def _take(self, place: int) -> RevisedStep:
        """Remove a step and close the gap."""
        self.gaps[place : place + 2] = [self.gaps[place] + self.gaps[place + 1]]
        return self.steps.pop(place)

    def _grouped(self, place: int) -> bool:
        """Whether a step shares its title with a neighbour."""
        title = self.steps[place].step.title
        beside = [*self.steps[max(0, place - 1) : place], *self.steps[place + 1 : place + 2]]
        return bool(title) and any(one.step.title == title for one in beside)

    def _count(self) -> None:
        """Renumber lists and titles if their numbers were consecutive before."""
        listed, titled = (_runs(one(step) for step in self.before.steps) for one in (_listed, _titled))
        for kind, known in ((_listed, listed), (_titled, titled)):
            for group, run in _places(kind(one.step) for one in self.steps).items():
                for number, place in enumerate(run, known.get(group, 0)):
                    if group in known:
                        self._number(place, number, in_title=kind is _titled)

    def _number(self, place: int, number: int, *, in_title: bool) -> None:
        one, step = self.steps[place], self.steps[place].step
        changes: dict[str, object] = {"title": re.sub(r"\d+", str(number), step.title, count=1)}
        if not in_title:
            changes = {"parts": (step.parts[0].model_copy(update={"number": number}), *step.parts[1:])}
        self.steps[place] = replace(one, step=step.model_copy(update=changes))


Counted = tuple[str, int] | None
"""Key of the steps that are numbered together with a step, and its number among them."""


def _listed(step: Step) -> Counted:
    number = step.parts[0].number if step.parts else None
    return None if number is None else (step.title, number)


def _titled(step: Step) -> Counted:
    mark = marker_of(step.title) if re.search(r"\d", step.title) else None
    return None if mark is None else ("", mark.number)


def _places(counted: Iterable[Counted]) -> dict[str, list[int]]:
    """Key of steps that are numbered together → their indices."""
    found: dict[str, list[int]] = {}
    for place, one in enumerate(counted):
        if one is not None:
            found.setdefault(one[0], []).append(place)
    return found


def _runs(counted: Iterable[Counted]) -> dict[str, int]:
    """Key of steps that are numbered together → the first number, if each is one more than the previous."""
    numbers: dict[str, list[int]] = {}
    for one in counted:
        if one is not None:
            numbers.setdefault(one[0], []).append(one[1])
    return {group: run[0] for group, run in numbers.items() if run == [*range(run[0], run[0] + len(run))]}


def _words(text: str) -> str:
    words = text.replace("\r\n", "\n").strip()
    if not _letters(words):
        raise DataError("a step without words; write some, or remove the step")
    return words


def _letters(text: str) -> str:
    """Letters and digits, without case and punctuation."""
    return "".join(letter for letter in text.casefold() if unicodedata.category(letter)[0] in "LNMS")


def _space(before: str) -> str:
    """Separator of two sentences on one line; "" in scripts without spaces."""
    return "" if unicodedata.east_asian_width(before[-1]) in "WF" else " "


def _placed(step: Step) -> list[tuple[int, Part]]:
    """Parts of a step with the positions of their first letters; or else its paragraphs."""
    found: list[tuple[int, Part]] = []
    end = 0
    for part in step.parts:
        start = step.text.find(part.text, end)
        if start < 0:
            found = []
            break
        found.append((start, part))
        end = start + len(part.text)
    if found:
        return found
    ends = [*(match.span() for match in _PARAGRAPHS.finditer(step.text)), (len(step.text), len(step.text))]
    starts = [0, *(end for _, end in ends[:-1])]
    return [(start, Part(text=step.text[start:end])) for start, (end, _) in zip(starts, ends, strict=True)]


def _stripped(part: Part) -> Part:
    text = part.text
    start = len(text) - len(text.lstrip())
    return part_between(part, start, max(start, len(text.rstrip())))


def _reworded(step: Step, words: str) -> tuple[Part, ...]:
    """Parts of a step with a new text: those before and after the change stay as they are."""
    if not step.parts or words == step.text:
        return step.parts
    old, found = step.text, _placed(step)
    head = _alike(old, words)
    most = min(len(old), len(words)) - head
    tail = _alike(old[::-1][:most], words[::-1][:most])
    over = len(old) - tail
    before = [(start, part) for start, part in found if start + len(part.text) < head]
    after = [(start, part) for start, part in found if start > over]
    touched = found[len(before) : len(found) - len(after)]
    shift = len(words) - len(old)
    start = touched[0][0] if touched else head
    end = max((place + len(part.text) for place, part in touched), default=over) + shift
    start, end = min(start, head), max(end, len(words) - tail)
    if len(touched) == 1 and not _PARAGRAPHS.search(words[start:end]):
        place, part = touched[0]
        marks = tuple(
            mark.model_copy(update={"start": mark.start + by, "end": mark.end + by})
            for mark in part.marks
            for by in [0 if place + mark.end <= head else shift]
            if place + mark.end <= head or place + mark.start >= over
        )
        made = [part.model_copy(update={"text": words[start:end], "marks": marks})]
    else:
        plain = [Part(text=one.strip()) for one in _PARAGRAPHS.split(words[start:end]) if one.strip()]
        first = touched[0][1] if touched and plain else None
        made = plain
        if first is not None:
            made = [first.model_copy(update={"text": plain[0].text, "marks": ()}), *plain[1:]]
    return (*(part for _, part in before), *made, *(part for _, part in after))


def _alike(one: str, other: str) -> int:
    """Length of the common beginning of two texts."""
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _merged(one: Step, other: Step, gap: str, words: str) -> tuple[Part, ...]:
    """Parts of the merged step; the first item of a list loses its marker."""
    first = [part for _, part in _placed(one)]
    more = [part for _, part in _placed(other)]
    if more[0].kind == "item":
        more[0] = more[0].model_copy(update={"kind": "paragraph", "number": None})
    if words != other.text:
        more.insert(0, Part(text=other.title))
    if "\n" not in gap:
        last, follows = first[-1], more[0]
        by = len(last.text) + len(gap)
        shifted = (
            mark.model_copy(update={"start": mark.start + by, "end": mark.end + by}) for mark in follows.marks
        )
        text = f"{last.text}{gap}{follows.text}"
        first[-1] = last.model_copy(update={"text": text, "marks": (*last.marks, *shifted)})
        more = more[1:]
    return tuple(chain(first, more))


def _numbered_as(beside: Step, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Parts of a new step as an item of its neighbour's list."""
    like = beside.parts[0] if beside.parts else None
    if like is None or like.number is None or not parts:
        return parts
    item = {"kind": like.kind, "number": like.number + 1, "depth": like.depth, "quoted": like.quoted}
    return (parts[0].model_copy(update=item), *parts[1:])
