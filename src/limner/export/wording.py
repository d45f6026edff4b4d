"""Reasons for the choice of a picture, in words.

All formats use the same sentences.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from limner.language import ENGLISH
from limner.records import Board, BoardStep, Candidate, Picture, Story, chance_in_words, percent
from limner.templates import carried

HOLDS = 0.5
"""Probability from which a relation is put into words."""

SURE = 2 / 3
"""Probability (odds of two to one) from which a relation is stated next to the picture."""

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
    "q2": "expansion",
    "q3": "image_needed",
    "q4": "elaboration_t",
    "q5": "elaboration_i_tool",
    "q6": "temporal_before",
    "q7": "temporal_after",
    "q8": "temporal_during",
    "imageneeded": "image_needed",
    "elaboration_i-tool": "elaboration_i_tool",
    "temporal i<t": "temporal_before",
    "temporal i>t": "temporal_after",
    "temporal i=t": "temporal_during",
}
"""Other spellings of the relations in the data sets, in lower case."""

STRENGTHS = ("least", "less", "an even share", "more", "most")
EDGES = (0.5, 0.8, 1.25, 2.0)
"""Limits between the strengths, in multiples of an even share, which is 1 / number of tokens."""

MAX_ATTENDED_WORDS = 5


@dataclass(frozen=True)
class LikelyRelation:
    """A relation that is predicted to hold.

    Attributes:
        sentence: meaning of the relation.
        percent: its probability in percent, from 50 to 100.
        sure: whether it is likely enough to be stated next to the picture.
    """

    sentence: str
    percent: int
    sure: bool


def sentence(relation: str) -> str:
    """Meaning of a relation as a sentence, or ``Holds: relation NAME.`` for an unknown name."""
    name = relation.casefold()
    return SENTENCES.get(SPELLINGS.get(name, name), f"Holds: relation {relation}.")


def holding(step: BoardStep) -> tuple[LikelyRelation, ...]:
    """Relations more likely than not to hold, the most likely first."""
    found = sorted(step.relations.items(), key=lambda item: -item[1])
    return tuple(
        LikelyRelation(sentence(name), round(100 * chance), sure=chance >= SURE)
        for name, chance in found
        if chance >= HOLDS
    )


def strength(share: float, tokens: int) -> int:
    """Strength of a share of attention compared with an even share.

    Args:
        share: share, in [0, 1].
        tokens: number of tokens, with punctuation.
    Returns:
        1 to 5, 3 for about an even share.
    """
    return 1 + sum(share * tokens >= edge for edge in EDGES)


def most_attended(step: BoardStep) -> tuple[str, ...]:
    """Up to five different words with at least 1.25 times an even share of attention, the most first."""
    tokens = len(step.attention)
    words = sorted((item for item in step.attention if is_word(item[0])), key=lambda item: -item[1])
    attended = dict.fromkeys(word for word, share in words if strength(share, tokens) > 3)
    return tuple(attended)[:MAX_ATTENDED_WORDS]


def is_word(token: str) -> bool:
    """Whether a token has a letter or a digit; attention to punctuation is not shown."""
    return any(letter.isalnum() for letter in token)


NO_CREDIT = "creator not stated"
NO_LICENSE = "licence not stated"


def file_name(picture: Picture) -> str:
    """The name of the picture's first file, without its folders."""
    return PurePath(picture.path).name


def credit_line(picture: Picture) -> str:
    """Creator and licence, each "not stated" if the metadata have none."""
    return f"{_one_line(picture.credit) or NO_CREDIT} · {_one_line(picture.license) or NO_LICENSE}"


def known_credit(picture: Picture) -> str:
    """Creator and licence, if the metadata state them, or ""."""
    return " · ".join(filter(None, map(_one_line, (picture.credit, picture.license))))


def alt_text(step: BoardStep, story: Story, picture: Picture | None = None) -> str:
    """Alt text of a picture of a step; "" for a blank step.

    The text's own alt text has priority, then the picture's description; for a picture without words of its
    own, the first words of its step.

    Args:
        step: a step with a chosen picture.
        story: its story.
        picture: which of them; None for the first.
    """
    if step.chosen is None:
        return ""
    shown = picture or step.chosen.picture
    if step.origin == "given" and shown == step.chosen.picture:
        for reference in story.steps[step.position].pictures:
            if reference.alt.strip():
                return _one_line(reference.alt)
    return _one_line(shown.alt) or first_words(story.steps[step.position].text)


MAX_ALT_CHARACTERS = 120
"""Maximum number of characters of a step's first words."""


def first_words(text: str) -> str:
    """Beginning of a text on one line, cut between two words if it is long."""
    line = _one_line(text)
    if len(line) <= MAX_ALT_CHARACTERS:
        return line
    cut = line[: MAX_ALT_CHARACTERS + 1]
    return (cut.rpartition(" ")[0] or cut[:-1]) + " …"


def picture_alt(picture: Picture, role: str) -> str:
    """The picture's description; without one, `role` and "no description", with up to three labels.

    Args:
        picture: the picture.
        role: use of the picture, such as "Picture for step 3".
    """
    if picture.alt.strip():
        return _one_line(picture.alt)
    if picture.labels:
        return f"{role}; no description, perhaps: {', '.join(name for name, _ in picture.labels[:3])}"
    return f"{role}; no description"


def picture_credits(board: Board) -> list[tuple[Picture, list[int]]]:
    """Every picture shown, in order of first use, with the numbers, from 1, of the steps that show it."""
    shown: dict[str, tuple[Picture, list[int]]] = {}
    for step in board.steps:
        for picture in step.pictures:
            shown.setdefault(picture.id, (picture, []))[1].append(step.position + 1)
    return list(shown.values())


def story_credits(story: Story) -> tuple[tuple[str, str], ...]:
    """The text's metadata as (name, value), without missing ones."""
    parts = (
        ("Text", story.author),
        ("Original illustrations", story.illustrator),
        ("Licence of the text", story.license),
        ("Source", story.source),
    )
    return tuple((name, _one_line(value)) for name, value in parts if value.strip())


def colophon(story: Story) -> list[str]:
    """The text's metadata except its author, one line each.

    They are labelled if the text is English or states no language.
    """
    stated = [(name, value) for name, value in story_credits(story) if name != "Text"]
    named = story.language.partition("-")[0].lower() in ("", ENGLISH)
    return [f"{name}: {value}" if named else value for name, value in stated]


def step_numbers(steps: Sequence[int]) -> str:
    """``"step 3"`` or ``"steps 3, 5"``."""
    return f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))}"


def _one_line(text: str) -> str:
    """Text with white space, including line ends, as single spaces."""
    return " ".join(text.split())


ORIGINS = {
    "decoded": "Chosen from the library",
    "pinned": "Pinned by hand",
    "given": "Given by the text",
    "blank": "Left blank",
}
SETTINGS = {
    "show": "Pictures shown",
    "allow_repeats": "Repeats allowed",
    "pins": "Pinned",
    "bans": "Banned",
    "model": "Trained run",
    "relation": "Relation asked for",
}
"""Settings of a storyboard that may interest its reader."""


@dataclass(frozen=True)
class Explanation:
    """The reasons for a step's picture.

    Attributes:
        origin: who chose it, in words.
        reason: `BoardStep.reason` on one line.
        chance: sentence on the probability that the picture fits, or "".
        matched: words of the text that occur in the picture's words.
        runners_up: sentence on the other pictures, or "".
        relations: predicted relations between text and picture, most likely first.
        attended: words of the text with the most attention.
    """

    origin: str
    reason: str
    chance: str
    matched: tuple[str, ...]
    runners_up: str
    relations: tuple[LikelyRelation, ...] = ()
    attended: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """The whole explanation as plain sentences, one per line."""
        said = [f"{self.origin}. {self.reason}".strip()]
        said += [self.chance] if self.chance else []
        if self.matched:
            said.append(f"Matching words: {', '.join(self.matched)}.")
        said += [self.runners_up] if self.runners_up else []
        if self.relations:
            parts = " ".join(f"{one.sentence[:-1]} ({one.percent} %)." for one in self.relations)
            said.append(f"Predicted by the model: {parts}")
        if self.attended:
            said.append(f"Words with the most attention: {', '.join(self.attended)}.")
        return tuple(said)


def explain(step: BoardStep) -> Explanation:
    """Describe the decision for one step.

    Args:
        step: the step.
    """
    chosen, chance, runners_up = step.chosen, "", ""
    if step.probability is not None:
        which = "this picture" if chosen is not None else "the best picture"
        chance = f"Probability that {which} fits: {chance_in_words(step.probability)}."
    if chosen is not None and step.runners_up:
        named = (_with_chance(other) for other in step.runners_up)
        runners_up = f"Runner{'s' if len(step.runners_up) > 1 else ''}-up: {', '.join(named)}."
    return Explanation(
        origin=ORIGINS[step.origin],
        reason=_one_line(step.reason),
        chance=chance,
        matched=() if chosen is None else chosen.matched,
        runners_up=runners_up,
        relations=holding(step),
        attended=most_attended(step),
    )


def _with_chance(candidate: Candidate) -> str:
    name = file_name(candidate.picture)
    if candidate.probability is None:
        return name
    return f"{name} ({percent(candidate.probability)} %)"


def how_made(board: Board) -> str:
    """How a storyboard was made, in one sentence."""
    library = f" from the library {_one_line(board.library)}" if board.library else ""
    blank = ""
    if board.threshold:
        blank = f"; a step stays blank below a probability of {percent(board.threshold)} %"
    return f"Pictures chosen{library} with {f'limner {board.version}'.strip()}{blank}."


def settings(board: Board) -> list[tuple[str, str]]:
    """Settings of a storyboard, as (name, value)."""
    found = [(name, board.settings[key]) for key, name in SETTINGS.items() if key in board.settings]
    words = {True: "yes", False: "no"}
    return [
        (name, words[value] if isinstance(value, bool) else str(value))
        for name, value in found
        if value not in (None, "")
    ]


def paragraphs(text: str) -> tuple[str, ...]:
    """Split a step's text into paragraphs at blank lines.

    Line breaks inside a paragraph are kept; characters that XML does not allow become U+FFFD.
    """
    blocks = re.split(r"\n[^\S\n]*\n", re.sub(r"\r\n?|[\u2028\u2029]", "\n", carried(text)))
    kept = tuple(
        "\n".join(line.strip() for line in block.strip().split("\n")) for block in blocks if block.strip()
    )
    return kept or (text.strip(),)
