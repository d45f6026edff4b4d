"""Who made the pictures and the text: credit lines and alternative texts.

One wording for all formats, so that a page and a slide never credit a picture differently. It
states what the metadata state and says so where they are silent; it looks nothing up.
"""

from dataclasses import dataclass
from pathlib import PurePath

from limner.data.records import Picture, Story
from limner.data.storyboards import BoardStep, Storyboard

NO_CREDIT = "creator not stated"
NO_LICENSE = "licence not stated"


@dataclass(frozen=True)
class Credit:
    """Credit of one picture, and where in the story it is shown.

    Attributes:
        steps: 1-based numbers of the steps that show it.
        picture: the picture.
        name: its file name, without folders.
        line: creator and licence in one line.
    """

    steps: tuple[int, ...]
    picture: Picture
    name: str
    line: str


def file_name(picture: Picture) -> str:
    """The name of the picture's first file, without its folders."""
    return PurePath(picture.path).name


def credit_line(picture: Picture) -> str:
    """Creator and licence, each "not stated" where the metadata are silent."""
    return f"{_one_line(picture.credit) or NO_CREDIT} · {_one_line(picture.license) or NO_LICENSE}"


def alt_text(step: BoardStep, story: Story) -> str:
    """Words for a reader who cannot see the chosen picture; never empty.

    Those of the text itself come first, then the picture's description, then its labels; else it
    says that there is no description.

    Args:
        step: a step with a chosen picture.
        story: its story.
    """
    if step.chosen is None:
        return ""
    if step.origin == "given":
        for reference in story.steps[step.position].pictures:
            if reference.alt.strip():
                return _one_line(reference.alt)
    return picture_alt(step.chosen.picture, f"Picture for step {step.position + 1}")


def picture_alt(picture: Picture, role: str) -> str:
    """The picture's description, or its labels, or `role` with a note that there is neither.

    Args:
        picture: the picture.
        role: what it is here, such as "Picture for step 3".
    """
    if picture.alt.strip():
        return _one_line(picture.alt)
    if picture.labels:
        return f"{role}; no description, perhaps: {', '.join(name for name, _ in picture.labels[:3])}"
    return f"{role}; no description"


def picture_credits(board: Storyboard) -> tuple[Credit, ...]:
    """One credit per picture shown, in order of first use."""
    shown: dict[str, tuple[Picture, list[int]]] = {}
    for step in board.steps:
        if step.chosen is not None:
            shown.setdefault(step.chosen.picture.id, (step.chosen.picture, []))[1].append(step.position + 1)
    return tuple(
        Credit(tuple(steps), picture, file_name(picture), credit_line(picture))
        for picture, steps in shown.values()
    )


def story_credits(story: Story) -> tuple[tuple[str, str], ...]:
    """What the text states about itself, as (name, value), silent where it is silent."""
    parts = (
        ("Text", story.author),
        ("Original illustrations", story.illustrator),
        ("Licence of the text", story.license),
        ("Source", story.source),
    )
    return tuple((name, _one_line(value)) for name, value in parts if value.strip())


def step_numbers(steps: tuple[int, ...]) -> str:
    """``"step 3"`` or ``"steps 3, 5"``."""
    return f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))}"


def _one_line(text: str) -> str:
    """White space, line ends included, as single spaces."""
    return " ".join(text.split())
