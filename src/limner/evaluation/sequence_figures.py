"""The figure of VRSS that shows attention: how much every step of a story hears every other one.

It draws the texts and shares it is given and returns the figure; `figures.write` makes the file. It opens no
model and chooses no story.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from limner.errors import DataError, ShapeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL_CHARACTERS = 44
LABEL_LINES = 2
WRITTEN_STEPS = 12
_CELL_IN, _LABEL_IN, _BAR_IN, _BAR_HIGH_IN = 0.36, 2.9, 0.95, 1.6
_MARGIN_IN, _TITLE_IN, _SIZE = 0.9, 0.35, 7


@dataclass(frozen=True)
class Attended:
    """One story.

    Attributes:
        title: such as its name.
        steps: T texts.
        shares: (T, T) rows are steps, columns what they hear; rows sum to 1.
    """

    title: str
    steps: Sequence[str]
    shares: NDArray[np.floating]


def attention_maps(stories: Sequence[Attended]) -> "Figure":
    """A heat map per story: rows are steps with their text, columns the steps they attend to.

    Shares are written into the cells of stories of at most twelve steps, in per cent. The darkest colour is
    the greatest share of all stories, so that they can be compared.

    Args:
        stories: at least one.
    Raises:
        DataError: no story, or one without steps.
        ShapeError: shares do not fit the steps.
    Source: SPEC 5.10.
    """
    if not stories or not all(story.steps for story in stories):
        raise DataError("figure: no story, or one without steps, has no attention to draw; name another")
    for story in stories:
        due = (len(story.steps), len(story.steps))
        if story.shares.shape != due:
            raise ShapeError(
                f"figure: {story.title}: attention has shape {story.shares.shape}, expected {due}"
            )
    from matplotlib.figure import Figure

    # Placed by hand: a layout engine would give cells of one size to no two stories.
    heights = [_CELL_IN * len(story.steps) + _MARGIN_IN for story in stories]
    most = max(len(story.steps) for story in stories)
    wide, high = _LABEL_IN + _CELL_IN * most + _BAR_IN, sum(heights)
    figure = Figure(figsize=(wide, high))
    darkest = max(float(story.shares.max()) for story in stories)
    top = high
    for story, height in zip(stories, heights, strict=True):
        side = _CELL_IN * len(story.steps)
        place = (_LABEL_IN / wide, (top - _TITLE_IN - side) / high, side / wide, side / high)
        _map(figure.add_axes(place), story, darkest)
        top -= height
    left = (_LABEL_IN + _CELL_IN * most + 0.15) / wide
    tall = min(_BAR_HIGH_IN, heights[0] - _MARGIN_IN)
    bar = figure.colorbar(
        figure.axes[0].images[0],
        cax=figure.add_axes((left, (high - _TITLE_IN - tall) / high, 0.12 / wide, tall / high)),
        format=lambda share, _: f"{100 * share:.0f} %",
    )
    bar.set_label("attention", fontsize=_SIZE)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=_SIZE)
    return figure


def _map(axes: "Axes", story: Attended, darkest: float) -> None:
    count = len(story.steps)
    axes.imshow(story.shares, cmap="Blues", vmin=0, vmax=darkest, aspect="equal")
    numbers = [str(step) for step in range(1, count + 1)]
    axes.set_xticks(np.arange(count), numbers, fontsize=_SIZE)
    labels = [f"{number}  {_label(text)}" for number, text in zip(numbers, story.steps, strict=True)]
    axes.set_yticks(np.arange(count), labels, fontsize=_SIZE)
    axes.tick_params(length=0)
    axes.set_title(_plain(story.title), fontsize=_SIZE + 1, loc="left")
    axes.set_xlabel("step that is heard", fontsize=_SIZE)
    # white lines part the cells, since neighbours are often alike
    axes.set_xticks(np.arange(count + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(count + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)
    if count > WRITTEN_STEPS:
        return
    for row in range(count):
        for column in range(count):
            share = float(story.shares[row, column])
            colour = "white" if share > darkest / 2 else "black"
            axes.text(
                column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=_SIZE - 1, color=colour
            )


def _label(text: str) -> str:
    """The beginning of a text, in so many lines at most."""
    return "\n".join(
        textwrap.wrap(
            _plain(" ".join(text.split())), LABEL_CHARACTERS, max_lines=LABEL_LINES, placeholder=" …"
        )
    )


def _plain(text: str) -> str:
    """Text without characters that cannot be drawn."""
    return "".join(c if c.isprintable() else "·" for c in text)
