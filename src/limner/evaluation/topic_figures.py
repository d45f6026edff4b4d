"""The latent topic of a story as numbers and as a path: how far every step moves it, and where in the plane.

The plane is that of the two main components of many stories' latents, so that paths can be compared. It opens
no model and chooses no story.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from limner.errors import DataError, NumericsError, ShapeError
from limner.evaluation.figures import GREY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUMBERED_STEPS = 24
"""More steps than these are small dots, of which every fifth bears its number."""
_SIDE_IN, _LARGE_PT, _SMALL_PT = 4.5, 13.5, 5


@dataclass(frozen=True)
class Plane:
    """A path of T steps among N others.

    Attributes:
        background: (N, 2).
        path: (T, 2).
        start: (2,) where every story begins, before its first step.
        shares: (2,) of the background's variance that either axis explains, 0 to 1, the greater first.
    """

    background: NDArray[np.float64]
    path: NDArray[np.float64]
    start: NDArray[np.float64]
    shares: NDArray[np.float64]


def moved(latents: NDArray[np.floating]) -> NDArray[np.float64]:
    """‖z_t − z_{t−1}‖ of (T, Z) latents, with z_0 = 0: (T,).

    Raises:
        ShapeError: no matrix.
        NumericsError: a value is not finite.
    Source: SPEC 5.4 for z_0.
    """
    own = _checked(latents)
    found: NDArray[np.float64] = np.linalg.norm(np.diff(own, axis=0, prepend=0), axis=1)
    return found


def plane(background: NDArray[np.floating], latents: NDArray[np.floating]) -> Plane:
    """Project a path on the two main components of other latents.

    Args:
        background: (N, Z) of all steps of many stories; they alone decide the plane.
        latents: (T, Z) of one story, T ≥ 1.
    Raises:
        ShapeError: widths differ, or there is no step or less than two dimensions.
        DataError: less than two steps in the background, or all are equal: they span no plane.
        NumericsError: a value is not finite.
    """
    all_steps, own = _checked(background), _checked(latents)
    if all_steps.shape[1] != own.shape[1] or own.shape[1] < 2 or not len(own):
        raise ShapeError(
            f"figure: latents have shapes {all_steps.shape} and {own.shape}, expected (N, Z) and (T, Z) with"
            " T of at least 1 and Z of at least 2"
        )
    if len(all_steps) < 2 or not np.ptp(all_steps, axis=0).any():
        raise DataError(
            f"figure: {len(all_steps)} latents without spread span no plane; name a run with more stories"
        )
    from sklearn.decomposition import PCA

    found = PCA(2, svd_solver="full").fit(all_steps)
    start = found.transform(np.zeros((1, own.shape[1])))[0]
    return Plane(
        found.transform(all_steps), found.transform(own), start, np.array(found.explained_variance_ratio_)
    )


def topic_path(one: Plane) -> "Figure":
    """The path, numbered by step, on the background; an arrow leads from every step to the next.

    Both axes have one scale, so that a distance is what it looks like. The first steps are dark, the last
    light; the cross is where all stories start.

    Args:
        one: as `plane` gives it.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    count = len(one.path)
    figure = Figure(figsize=(_SIDE_IN, _SIDE_IN), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    others, start = one.background, one.start
    axes.plot(
        others[:, 0], others[:, 1], "o", markersize=3.6, color=GREY, alpha=0.45, markeredgewidth=0,
        label="all validation steps",
    )  # fmt: skip
    axes.plot(start[0], start[1], "+", markersize=8, color="black", label="where stories start")
    colours = colormaps["viridis"](np.linspace(0.1, 0.72, count))
    large = count <= NUMBERED_STEPS
    size = _LARGE_PT if large else _SMALL_PT
    points = np.vstack([one.start, one.path])
    for place in range(count):
        axes.annotate(
            "",
            points[place + 1],
            points[place],
            arrowprops={
                "arrowstyle": "-|>",
                "color": colours[place],
                "linewidth": 1.1,
                "mutation_scale": 9 if large else 5,
                "shrinkA": size / 2 if place else 3,
                "shrinkB": size / 2,
            },
            zorder=3,
        )
    for place, (point, colour) in enumerate(zip(one.path, colours, strict=True)):
        axes.plot(*point, "o", markersize=size, color=colour, markeredgecolor="white", zorder=4 + place)
        if large:
            axes.annotate(
                str(place + 1), point, ha="center", va="center_baseline", color="white", fontsize=7.5,
                fontweight="bold", zorder=4 + place,
            )  # fmt: skip
        elif place in (0, count - 1) or (place + 1) % 5 == 0:
            axes.annotate(
                str(place + 1), point, (4, 4), textcoords="offset points", fontsize=8, zorder=4 + count
            )
    names = [
        f"{name} component: {100 * share:.0f} % of the variance"
        for name, share in zip(("first", "second"), one.shares, strict=True)
    ]
    axes.set(xlabel=names[0], ylabel=names[1])
    axes.set_aspect("equal", adjustable="datalim")
    figure.legend(loc="outside upper left", frameon=False, ncols=2, fontsize=8, handletextpad=0.3)
    return figure


def _checked(latents: NDArray[np.floating]) -> NDArray[np.float64]:
    own = np.asarray(latents, dtype=np.float64)
    if own.ndim != 2:
        raise ShapeError(f"figure: latents have shape {own.shape}, expected (T, Z)")
    if not np.isfinite(own).all():
        raise NumericsError("figure: a latent is not finite; train the run again")
    return own
