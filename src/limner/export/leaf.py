"""One step of a storyboard as every format shows it: numbers, words and the picture."""

from limner.export.wording import alt_text, credit_line, explain, file_name, paragraphs
from limner.pictures.thumbnails import Copy, shrink
from limner.records import BoardStep, Story, Storyboard

INK, SOFT, RUBRIC, TINT = (29, 27, 26), (94, 90, 85), (165, 36, 43), (242, 240, 234)
"""Colours of print: text, what stands beside it, marks, and the ground of a blank."""


class Leaf:
    """One step as every format shows it.

    Attributes:
        step, text: what was decided, and the step of the story.
        number: from 1.
        where: such as "step 3", for messages.
        picture: None for a blank.
        alt, credit, file: of the picture; "" for a blank.
        caption: the credit, after who chose the picture where limner did not.
        paragraphs: of the text.
        lines: of all paragraphs, none empty.
        why: the explanation.
    """

    def __init__(self, step: BoardStep, story: Story) -> None:
        """Take a step of a storyboard."""
        self.step, self.text = step, story.steps[step.position]
        self.number = step.position + 1
        self.where = f"step {self.number}"
        self.picture = step.picture
        self.why = explain(step)
        self.alt = alt_text(step, story)
        self.credit = "" if self.picture is None else credit_line(self.picture)
        self.file = "" if self.picture is None else file_name(self.picture)
        chooser = self.why.origin if step.origin in ("pinned", "given") else ""
        self.caption = " · ".join(filter(None, (chooser, self.credit)))
        self.paragraphs = paragraphs(self.text.text)
        self.lines = [line for block in self.paragraphs for line in block.split("\n") if line.strip()]


def leaves(board: Storyboard) -> list[Leaf]:
    """All steps of a storyboard."""
    return [Leaf(step, board.story) for step in board.steps]


def printed(leaf: Leaf) -> Copy | None:
    """A copy of a step's picture for paper and slides; None for a blank.

    Raises:
        DataError: the picture is not there or cannot be read.
    """
    if leaf.picture is None:
        return None
    return shrink(leaf.picture, leaf.where, area_px=1_600_000, kind="JPEG", quality=88)
