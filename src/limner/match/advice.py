"""What would help where a library hardly answers a text, in one line."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from limner.counts import counted

if TYPE_CHECKING:
    from limner.records import Board
    from limner.store.catalogue import Catalogue

UNANSWERED = ("nothing fits", "all used")
"""Reasons of a blank that more can be done about than to let it be."""


def advice(board: Board, catalogue: Catalogue, spaces: Collection[str]) -> str | None:
    """What would help, where most steps that nobody fixed are blank or have a weak picture; else None.

    Args:
        board: the storyboard.
        catalogue: pictures that it was chosen from.
        spaces: in which the library has vectors.
    """
    weak = set(board.weak)
    free = [step for step in board.steps if step.origin in ("decoded", "blank") and step.blank != "asked for"]
    poor = sum(step.blank in UNANSWERED or step.position in weak for step in free)
    if 2 * poor <= len(free):
        return None
    helps = []
    if 2 * catalogue.captioned < len(catalogue):
        helps.append("words on the pictures (captions in the files, or 'limner describe')")
    if "clip" not in spaces:
        helps.append("CLIP in place of the encoder that comes with limner ('limner models get clip')")
    helps.append("more pictures of what the text tells")
    return (
        f"No picture fits {poor} of {counted(len(free), 'step')}. What would help: {', '.join(helps)}, or a"
        " picture that you fix at a step (a pin), which the other steps follow."
    )
