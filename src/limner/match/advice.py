"""What would help where a library hardly answers a text, in one line."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from limner.errors import counted
from limner.language import ENGLISH
from limner.records import WEAK, percent

if TYPE_CHECKING:
    from limner.records import Board
    from limner.store.catalogue import Catalogue

UNANSWERED = ("nothing fits", "all used")
"""Reasons of a blank that more can be done about than to let it be."""
SETTLED = ("asked for", "no words")
"""Reasons of a blank that no other picture would change."""


def advice(board: Board, catalogue: Catalogue, spaces: Collection[str]) -> str | None:
    """What would help, where most steps that nobody fixed are blank or have a weak picture; else None.

    Args:
        board: the storyboard.
        catalogue: pictures that it was chosen from.
        spaces: in which the library has vectors.
    """
    weak = set(board.weak)
    free = [step for step in board.steps if step.origin in ("decoded", "blank") and step.blank not in SETTLED]
    blank = sum(step.blank in UNANSWERED for step in free)
    poor = sum(step.position in weak for step in free)
    if 2 * (blank + poor) <= len(free):
        return None
    counts = [f"{blank:,} left blank"] if blank else []
    if poor:
        counts.append(f"{poor:,} with a weak match, of a chance below {percent(WEAK)} %")
    helps = []
    if 2 * catalogue.captioned < len(catalogue):
        helps.append("words on the pictures (captions in the files, or 'limner describe')")
    if board.story.language.partition("-")[0].lower() not in ("", ENGLISH):
        if "clip" in spaces and "base" not in spaces:
            helps.append(
                "the encoder base beside CLIP, which reads English alone ('limner index --encoder base')"
            )
    elif "clip" not in spaces:
        helps.append("CLIP in place of the encoder that comes with limner ('limner models get clip')")
    helps.append("more pictures of what the text tells")
    return (
        f"Few pictures fit: of {counted(len(free), 'step')}, {' and '.join(counts)}. What would help:"
        f" {', '.join(helps)}, or a picture that you fix at a step (a pin), which the other steps follow."
    )
