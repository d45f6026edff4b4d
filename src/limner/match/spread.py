"""How many pictures a text gets, and at which steps: where they fit best, with others between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np

from limner.language import words
from limner.match.board import BLANK, Float64Array, IntArray
from limner.match.cast import instructs
from limner.records import Story
from limner.store.vectors import BoolArray

ADJACENT_COST = 0.1
"""What two pictures at steps that follow directly cost, as a probability."""
WORDS_PER_PICTURE = 200
"""Number of words of prose that get one picture by default."""
PROSE_LINE = 25
"""Mean number of words of a line from which paragraphs are prose; verses and picture books have fewer."""


def picture_count(story: Story, texts: Sequence[str], count: int | Literal["all"] | None) -> int:
    """Number of pictures that a text gets.

    Args:
        story: the text.
        texts: words of its steps.
        count: number asked for; None for one for each step, or in prose for each 200 words.
    """
    if isinstance(count, int):
        return count
    lines = [len(words(line)) for text in texts for line in text.splitlines() if line.strip()]
    is_prose = (
        count is None
        and story.by == "paragraph"
        and sum(lines) >= PROSE_LINE * len(lines)
        and not any(block.role in ("supplies", "method") for block in story.blocks)
        and not instructs(texts)
    )
    return max(1, round(sum(lines) / WORDS_PER_PICTURE)) if is_prose else len(texts)


def spared_steps(  # noqa: PLR0917
    columns: IntArray,
    chances: Float64Array,
    fits: BoolArray,
    count: int,
    fixed: Mapping[int, int],
    outside: Collection[int] = (),
) -> list[int]:
    """Steps that get no picture, although some fit, so that no more than a number of pictures are shown.

    Args:
        columns: (S,) chosen columns, or `BLANK`.
        chances: (S, K) probabilities, 0 to 1.
        fits: (S, K) whether a candidate may be shown.
        count: number of pictures.
        fixed: column of a fixed picture, or `BLANK`, by step.
        outside: steps that show a picture that is not a candidate.
    """
    shown = np.flatnonzero(columns != BLANK)
    own = np.full(len(columns), -np.inf)
    own[shown] = chances[shown, columns[shown]]
    kept = spread(own, count, {*outside, *(step for step, column in fixed.items() if column != BLANK)})
    if kept.issuperset(shown.tolist()):
        return []
    return [step for step in np.flatnonzero(fits.any(axis=1)).tolist() if step not in kept | fixed.keys()]


def spread(
    chances: Float64Array, count: int, fixed: Collection[int] = (), *, cost: float = ADJACENT_COST
) -> set[int]:
    """Choose steps so that the sum of their probabilities, less a cost for each two that follow directly, is
    largest.

    Args:
        chances: (S,) probability of each step's picture, 0 to 1; −inf without one.
        count: number of steps; fewer if fewer have a picture, more if more are fixed.
        fixed: steps that are among them in any case.
        cost: what two steps that follow directly cost.
    """
    must = np.isin(np.arange(len(chances)), list(fixed))
    may = must | (chances > -np.inf)
    count = int(np.clip(count, must.sum(), may.sum()))
    if count == may.sum():
        return set(np.flatnonzero(may).tolist())
    # best[shown, n]: largest value of the steps so far, n of them chosen, by whether the last one is
    best = np.full((2, count + 1), -np.inf)
    best[0, 0] = 0.0
    follows = np.zeros((len(chances), 2, count + 1), dtype=bool)
    for step, chance in enumerate(np.where(must, 0.0, chances)):
        paid = best - np.array([[0.0], [cost]])
        follows[step] = best[1] > best[0], paid[1] > paid[0]
        skipped = np.full(count + 1, -np.inf) if must[step] else best.max(axis=0)
        chosen = np.full(count + 1, -np.inf)
        chosen[1:] = paid.max(axis=0)[:-1] + chance
        best = np.stack([skipped, chosen])
    shown, left = bool(best[1, count] > best[0, count]), count
    found = set()
    for step in reversed(range(len(chances))):
        if shown:
            found.add(step)
            left -= 1
        shown = bool(follows[step, int(shown), left])
    return found
