"""What a trained model predicts for a step, in words: relations as sentences, attention as five strengths.

One wording for all formats. It reads what the storyboard holds; it predicts nothing.
"""

from dataclasses import dataclass

from limner.data.storyboards import BoardStep

HOLDS = 0.5
"""Probability from which a relation is put into words."""

SURE = 2 / 3
"""Probability, odds of two to one, from which a reader is told without asking why."""

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
    "story": "The text tells what lies behind the picture.",
    "meta": "The text tells how the picture was made.",
    "irrelevant": "The text has little to do with the picture.",
}
"""Relations of CITE and of Clue, by their names in the picture book. Source: SPEC 1.3.2, 1.3.3."""

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
"""Other names of the same, as the data sets spell them, in lower case."""

STRENGTHS = ("least", "less", "an even share", "more", "most")
EDGES = (0.5, 0.8, 1.25, 2.0)
"""Where one strength ends and the next begins, in even shares: 1 / number of words."""

MOST = 5


@dataclass(frozen=True)
class Relation:
    """A relation that is predicted to hold.

    Attributes:
        sentence: what it says of text and picture.
        percent: its probability, from 50 to 100.
        sure: whether it is likely enough to be said beside the picture.
    """

    sentence: str
    percent: int
    sure: bool


def sentence(relation: str) -> str:
    """What a relation says, or ``relation NAME`` where the name is no known one."""
    name = relation.casefold()
    return SENTENCES.get(SPELLINGS.get(name, name), f"Holds: relation {relation}.")


def holding(step: BoardStep) -> tuple[Relation, ...]:
    """Relations that are likelier than not to hold, the likeliest first."""
    found = sorted(step.relations.items(), key=lambda item: -item[1])
    return tuple(
        Relation(sentence(name), round(100 * chance), sure=chance >= SURE)
        for name, chance in found
        if chance >= HOLDS
    )


def strength(share: float, words: int) -> int:
    """How strong a share of attention is beside an even share.

    Args:
        share: in [0, 1].
        words: among which it is shared.
    Returns:
        1 to 5, 3 for about an even share.
    """
    return 1 + sum(share * words >= edge for edge in EDGES)


def most_attended(step: BoardStep) -> tuple[str, ...]:
    """Up to five different words with more than an even share, the most attended first."""
    count = len(step.attention)
    found = sorted((item for item in step.attention if is_word(item[0])), key=lambda item: -item[1])
    return tuple(dict.fromkeys(word for word, share in found if strength(share, count) > 3))[:MOST]


def is_word(token: str) -> bool:
    """Whether a token has a letter or a digit: signs are attended to as well, and say nothing to a reader."""
    return any(letter.isalnum() for letter in token)
