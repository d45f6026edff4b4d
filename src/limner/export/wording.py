"""Credits, and the reasons for the choice of a picture, in the same sentences for all formats."""

from collections.abc import Sequence
from pathlib import PurePath

from limner.language import ENGLISH
from limner.records import Board, BoardStep, Candidate, Picture, Story, chance_in_words, percent

HOLDS = 0.5
"""Probability from which a relation is put into words."""

SENTENCES = {
    "expansion": "The picture shows what this step is about.",
    "image_needed": "The picture is needed to follow this step.",
    "elaboration_t": "The text gives amounts that the picture cannot show.",
    "elaboration_i_tool": "The picture shows a tool that the text does not name.",
    "temporal_before": "The picture shows the preparation of this step.",
    "temporal_after": "The picture shows the result of this step.",
    "temporal_during": "The picture shows this step in progress.",
    "visible": "The text says what can be seen in the picture.",
    "subjective": "The text gives an opinion on what the picture shows.",
    "action": "The picture shows a moment of the action in the text.",
    "story": "The text tells the story behind the picture.",
    "meta": "The text says how, when or where the picture was made.",
    "irrelevant": "The text has little to do with the picture.",
}
"""Relations of CITE and of Clue, by their names in the picture book.

Source: docs/methods/data.md §2.1, §2.3.
"""

SPELLINGS = {
    "imageneeded": "image_needed",
    "elaboration_i-tool": "elaboration_i_tool",
    "temporal i<t": "temporal_before",
    "temporal i>t": "temporal_after",
    "temporal i=t": "temporal_during",
}
"""Other names of the relations in CITE, in lower case."""

MUCH_ATTENTION = 1.25
"""Share of attention that is named, as a multiple of an even share, which is 1 / number of tokens."""
MAX_ATTENDED_WORDS = 5


def sentence(relation: str) -> str:
    """Meaning of a relation as a sentence, or ``Holds: relation NAME.`` for an unknown name."""
    name = relation.casefold()
    return SENTENCES.get(SPELLINGS.get(name, name), f"Holds: relation {relation}.")


def holding(step: BoardStep) -> tuple[tuple[str, int], ...]:
    """Meanings of the relations that more probably hold than not, with percent; the most probable first."""
    ranked = sorted(step.relations.items(), key=lambda item: -item[1])
    return tuple((sentence(name), round(100 * chance)) for name, chance in ranked if chance >= HOLDS)


def most_attended(step: BoardStep) -> tuple[str, ...]:
    """Up to five different words with much attention, the most first."""
    ranked = sorted(step.attention, key=lambda item: -item[1])
    much = [word for word, share in ranked if share * len(ranked) >= MUCH_ATTENTION]
    return tuple(dict.fromkeys(word for word in much if any(map(str.isalnum, word))))[:MAX_ATTENDED_WORDS]


def file_name(picture: Picture) -> str:
    """The name of the picture's first file, without its folders."""
    return PurePath(picture.path).name


def credit_line(picture: Picture) -> str:
    """Creator and licence, each "not stated" if the metadata have none."""
    creator = one_line(picture.credit) or "creator not stated"
    return f"{creator} · {one_line(picture.license) or 'licence not stated'}"


def known_credit(picture: Picture | None) -> str:
    """Creator and licence, if the metadata state them, or ""."""
    stated = () if picture is None else (picture.credit, picture.license)
    return " · ".join(filter(None, map(one_line, stated)))


def picture_credits(board: Board) -> list[tuple[Picture, list[int]]]:
    """Every picture of a step, in order of first use, with the numbers, from 1, of the steps that show it."""
    used: dict[str, tuple[Picture, list[int]]] = {}
    for step in board.steps:
        if step.picture is not None:
            used.setdefault(step.picture.id, (step.picture, []))[1].append(step.position + 1)
    return list(used.values())


def colophon(story: Story) -> list[str]:
    """The text's metadata except its author, one line each.

    They are labelled if the text is English or states no language.
    """
    names = ("Original illustrations", "Licence of the text", "Source")
    stated = zip(names, (story.illustrator, story.license, story.source), strict=True)
    named = story.language.partition("-")[0].lower() in ("", ENGLISH)
    return [f"{name}: {value}" if named else value for name, value in stated if value.strip()]


def step_numbers(steps: Sequence[int]) -> str:
    """``"step 3"`` or ``"steps 3, 5"``."""
    return f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))}"


def one_line(text: str) -> str:
    """Text with white space, including line ends, as single spaces."""
    return " ".join(text.split())


ORIGINS = {
    "decoded": "Chosen from the library",
    "pinned": "Pinned by hand",
    "given": "Given by the text",
    "blank": "Left blank",
}


def explain(step: BoardStep) -> tuple[str, ...]:
    """Reasons for a step's picture, one sentence or two a line."""
    is_shown = step.chosen is not None
    named = "" if step.picture is None else f": {file_name(step.picture)} ({credit_line(step.picture)})"
    lines = [f"{ORIGINS[step.origin]}{named}. {one_line(step.reason)}".strip()]
    if step.probability is not None:
        which = "this picture" if is_shown else "the best picture"
        lines.append(f"Probability that {which} fits: {chance_in_words(step.probability)}.")
    if step.chosen is not None and step.chosen.matched:
        lines.append(f"Matching words: {', '.join(step.chosen.matched)}.")
    if is_shown and step.runners_up:
        others = ", ".join(map(_with_chance, step.runners_up))
        lines.append(f"Runner{'s' if len(step.runners_up) > 1 else ''}-up: {others}.")
    if relations := holding(step):
        meanings = " ".join(f"{meaning[:-1]} ({chance} %)." for meaning, chance in relations)
        lines.append(f"Predicted by the model: {meanings}")
    if attended := most_attended(step):
        lines.append(f"Words with the most attention: {', '.join(attended)}.")
    return tuple(lines)


def _with_chance(candidate: Candidate) -> str:
    name, chance = file_name(candidate.picture), candidate.probability
    return name if chance is None else f"{name} ({percent(chance)} %)"


def how_made(board: Board) -> str:
    """How a storyboard was made, in one sentence."""
    library = f" from the library {one_line(board.library)}" if board.library else ""
    channels = f" by {', '.join(board.channels)}" if board.channels else ""
    blank = ""
    if board.threshold:
        blank = f"; a step stays blank below a probability of {percent(board.threshold)} %"
    return f"Pictures chosen{library}{channels} with {f'limner {board.version}'.strip()}{blank}."
