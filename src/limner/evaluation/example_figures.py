"""The figures of CMCM that show examples: attention over words, and galleries of found pictures.

Each draws the texts and pictures it is given and returns the figure; `figures.write` makes the file. It opens
no model and no picture, and chooses no example.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from limner.errors import DataError
from limner.evaluation.figures import BLUE, GREEN, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

TEXT_HEIGHT = 0.28  # of the line of text above a row of pictures, in rows


@dataclass(frozen=True)
class Shown:
    """One row of a gallery.

    Attributes:
        text: the query.
        truth: its own picture.
        answers: per system, its name, its best pictures in order, and the place of the right one among them
            (from 0; None where it is not shown).
    """

    text: str
    truth: "Image"
    answers: Sequence[tuple[str, Sequence["Image"], int | None]]


def attention_bars(texts: Sequence[Sequence[tuple[str, float]]]) -> "Figure":
    """How much every word of a text counts (Figure 7).

    Args:
        texts: per text its words and their weights, which sum to 1.
    Raises:
        DataError: no text, or one without words.
    """
    if not texts or not all(texts):
        raise DataError("figure: a text without words has no attention; leave it out")
    from matplotlib.figure import Figure

    heights = [0.24 * len(words) + 0.5 for words in texts]
    figure = Figure(figsize=(5.2, sum(heights)), layout="constrained")
    grid = figure.subplots(len(texts), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    for axes, words in zip(grid[:, 0], texts, strict=True):
        places = np.arange(len(words))
        axes.barh(places, [weight for _, weight in words], color=BLUE, height=0.72)
        # one word is an even share: what the weight would be if no word counted more
        axes.axvline(1 / len(words), color=GREY, linewidth=0.8, linestyle=":")
        axes.set_yticks(places, [_plain(word) for word, _ in words])
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
    grid[-1, 0].set_xlabel("attention (dotted: an even share)")
    return figure


def gallery(rows: Sequence[Shown]) -> "Figure":
    """Texts with their own picture and the best ones of several systems, the right one framed (Figure 6).

    Args:
        rows: each with the same systems.
    Raises:
        DataError: no rows.
    """
    if not rows:
        raise DataError("figure: no text to show; name one or measure a run first")
    from matplotlib.figure import Figure

    columns = 1 + max((len(pictures) for row in rows for _, pictures, _ in row.answers), default=0)
    # A text has a line of its own across all columns, or its length would widen the first of them.
    heights = [height for row in rows for height in (TEXT_HEIGHT, *[1.0] * len(row.answers))]
    figure = Figure(figsize=(1.35 * columns, 1.3 * sum(heights)), layout="constrained")
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    line = 0
    for row in rows:
        head = figure.add_subplot(grid[line, :])
        head.set_axis_off()
        head.text(0, 0, _short(row.text), fontsize=7, va="bottom", transform=head.transAxes)
        for number, (system, pictures, right) in enumerate(row.answers, start=1):
            if number == 1:
                _draw(figure.add_subplot(grid[line + 1, 0]), row.truth, GREY, 1)
            for place, picture in enumerate(pictures):
                axes = figure.add_subplot(grid[line + number, place + 1])
                hit = right == place
                _draw(axes, picture, GREEN if hit else None, 3 if hit else 1)
                if place == 0:
                    axes.set_ylabel(_plain(system), fontsize=7)
        line += 1 + len(row.answers)
    return figure


def _draw(axes: "Axes", picture: "Image", colour: str | None, width: float) -> None:
    """A picture in a frame, or without one."""
    axes.imshow(np.asarray(picture.convert("RGB")))
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(visible=colour is not None, color=colour or GREY, linewidth=width)


def _plain(text: str) -> str:
    """Text without characters that cannot be drawn."""
    return "".join(c if c.isprintable() else "·" for c in text)


def _short(text: str, most: int = 150, line: int = 75) -> str:
    import textwrap

    cut = _plain(" ".join(text.split()))
    return "\n".join(textwrap.wrap(cut if len(cut) <= most else cut[: most - 1] + "…", line))
