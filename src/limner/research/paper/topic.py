"""How the latent topic of one text moves through a run of VRSS: brings together what the page shows.

Validation stories are the background and their pictures the gallery, so that no test row is looked at. It
trains and measures nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from limner.counts import counted
from limner.errors import RESEARCH, ConfigError, DataError, installed, unknown
from limner.match.illustrate import step_texts
from limner.pictures.thumbnails import Copy
from limner.research.evaluation.ranking import rank
from limner.research.evaluation.sequences import by_story, of_stories, steps_of
from limner.research.losses.generative import gaussian_kl
from limner.research.paper import plots
from limner.research.paper.page import Example, check_page, write_page
from limner.research.paper.plots import GREY, panels
from limner.research.paper.run_pictures import Pictures, best_of, knows
from limner.research.runs.run import Run
from limner.research.runs.validation import vectors
from limner.research.systems.vrss import Vrss
from limner.research.training.corpus import rows_of
from limner.text.read import read_story_report

with installed("matplotlib", RESEARCH):
    from matplotlib import colormaps
    from matplotlib.figure import Figure

if TYPE_CHECKING:
    from PIL.Image import Image

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


def moved(latents: NDArray[np.float64]) -> NDArray[np.float64]:
    """‖z_t − z_{t−1}‖ of (T, Z) latents, with z_0 = 0: (T,).

    Source: docs/methods/vrss.md §2.2 for z_0.
    """
    found: NDArray[np.float64] = np.linalg.norm(np.diff(latents, axis=0, prepend=0), axis=1)
    return found


def plane(background: NDArray[np.float64], latents: NDArray[np.float64]) -> Plane:
    """Project a path on the two main components of other latents.

    Args:
        background: (N, Z) of all steps of many stories, Z of at least 2; they alone decide the plane.
        latents: (T, Z) of one story, T ≥ 1.
    Raises:
        DataError: less than two steps in the background, or all are equal: they span no plane.
    """
    if len(background) < 2 or not np.ptp(background, axis=0).any():
        raise DataError(
            f"figure: {len(background)} latents without spread span no plane; name a run with more stories"
        )
    found = PCA(2, svd_solver="full").fit(background)
    start = found.transform(np.zeros((1, background.shape[1])))[0]
    shares = np.array(found.explained_variance_ratio_)
    return Plane(found.transform(background), found.transform(latents), start, shares)


def topic_path(one: Plane) -> Figure:
    """The path, numbered by step, on the background; an arrow leads from every step to the next.

    Both axes have one scale, so that a distance is what it looks like. The first steps are dark, the last
    light; the cross is where all stories start.

    Args:
        one: as `plane` gives it.
    """
    count = len(one.path)
    figure, (axes,) = panels(1, _SIDE_IN, _SIDE_IN)
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
    for place, (point, colour) in enumerate(zip(one.path, colours, strict=True)):
        arrow = {
            "arrowstyle": "-|>",
            "color": colour,
            "linewidth": 1.1,
            "mutation_scale": 9 if large else 5,
            "shrinkA": size / 2 if place else 3,
            "shrinkB": size / 2,
        }
        axes.annotate("", point, points[place], arrowprops=arrow, zorder=3)
        axes.plot(*point, "o", markersize=size, color=colour, markeredgecolor="white", zorder=4 + place)
        number, top = str(place + 1), 4 + place
        if large:
            axes.annotate(
                number, point, ha="center", va="center_baseline", color="white", fontsize=7.5,
                fontweight="bold", zorder=top,
            )  # fmt: skip
        elif place in (0, count - 1) or (place + 1) % 5 == 0:
            axes.annotate(number, point, (4, 4), textcoords="offset points", fontsize=8, zorder=4 + count)
    names = [
        f"{name} component: {100 * share:.0f} % of the variance"
        for name, share in zip(("first", "second"), one.shares, strict=True)
    ]
    axes.set(xlabel=names[0], ylabel=names[1])
    axes.set_aspect("equal", adjustable="datalim")
    figure.legend(loc="outside upper left", frameon=False, ncols=2, fontsize=8, handletextpad=0.3)
    return figure


class Bar(NamedTuple):
    """A number of a step, drawn as a bar.

    Attributes:
        name: what it is.
        text: the number with its unit.
        share: length of the bar, 0 to 1.
        usual: where the mark of the usual number lies, 0 to 1.
    """

    name: str
    text: str
    share: float
    usual: float


@dataclass(frozen=True)
class TopicStep:
    """One step.

    Attributes:
        number: from 1.
        text: shown up to a length; the rest opens on a click.
        measured: its numbers.
        found: the best pictures in order.
        own: its own picture, None where none is known.
        remarks: what else is to be known of it.
    """

    number: int
    text: str
    measured: list[Bar]
    found: list[Example]
    own: "Image | None"
    remarks: list[str]


NOTE = (
    "Every step of a text moves the latent topic, and its picture is generated from where the topic was and"
    " where it went. Moved is the distance between both. KL, in nats, says how far the topic read in the"
    " text lies from what the step before alone foretold. The mark on a bar is the median of all validation"
    " steps. Below are the best five of their pictures, with their cosines."
)


class Moves(NamedTuple):
    """What a run makes of one story.

    Attributes:
        latents: (T, Z) posterior means.
        moved: (T,) how far each lies from the one before.
        surprise: (T,) KL of posterior against prior, in nats.
    """

    latents: NDArray[np.float64]
    moved: NDArray[np.float64]
    surprise: NDArray[np.float64]


def write_topic_path(run: Path, to: Path, texts: Sequence[str], weights: Path | None = None) -> None:
    """Write the page.

    Args:
        run: a folder; its model has latents.
        to: an .html file.
        texts: name of one validation story, or a text file; the first story of more than one step unless
            given.
        weights: of the backbone, where features have to be made.
    Raises:
        ConfigError: the model has no latents, `to` is no .html file, or there is no such story.
        DataError: the data set has no stories, or a picture does not open.
    """
    if len(texts) > 1:
        raise ConfigError(f"figure: vrss-topic shows one text, found {len(texts)}; pass one --text")
    check_page(to)
    opened = Run.open(run)
    model, config, name = opened.model, opened.config, opened.name
    if not opened.can.topics or not isinstance(model, Vrss):
        raise ConfigError(
            f"figure: {name} has no latent topic; train one of VRSS with --set model.latents=true"
        )
    data, rows = opened.data(weights=weights)
    pairs = data.split("val")
    if not of_stories(pairs):
        raise DataError(f"figure: {config.data.set} has no steps of stories to validate on; name another run")
    steps = steps_of(pairs)
    stories = by_story(steps.stories)
    words = [pairs[row].text for row in steps.rows]
    title, own = choose(stories, texts[0] if texts else None)
    places = stories.get(title) if own is None else None
    own = own or [words[place] for place in stories[title]]
    every = [moves_of(model, [words[place] for place in some]) for some in stories.values()]
    moves = moves_of(model, own)
    flat = plane(np.concatenate([one.latents for one in every]), moves.latents)
    _, images, _ = vectors(model, rows, rows_of(pairs, rows, ()), opened.can)
    scores = model.score(model.encode_stories([own])[0], images)
    relevant = None if places is None else [steps.relevant[place] for place in places]
    ranks = None if relevant is None else rank(scores, relevant).ranks()
    bars = _bars(moves, every)
    picture = Pictures(data, rows)

    def shown() -> Iterator[TopicStep]:
        for place, text in enumerate(own):
            right = () if relevant is None else relevant[place]
            best = best_of(scores[place], steps.names)
            found = [
                Example(
                    picture(steps.names[column]),
                    text,
                    (f"{at}: {scores[place, column]:.2f}".replace("-", "−"),),
                    right=column in right,
                )
                for at, column in enumerate(best, start=1)
            ]
            remarks = [] if knows(model, text) else ["None of these words was in the training texts."]
            missed = None
            if ranks is not None:
                remarks.append(f"Its own picture is at place {ranks[place]:g} of {scores.shape[1]}.")
                missed = None if set(best) & set(right) else picture(steps.names[right[0]])
            yield TopicStep(place + 1, text, bars[place], found, missed, remarks)

    write_page(
        to,
        "topic",
        f"The latent topic of {title}",
        NOTE,
        drawing=Copy(plots.drawn(".svg", topic_path, flat), "image/svg+xml", 0, 0).uri,
        path_alt=f"Path of the latent topic through {counted(len(own), 'step')};"
        " the list says how far each moves.",
        caption=f"Posterior means of {name}, projected on the two main components of"
        f" {counted(len(flat.background), 'step')} of {len(every)} validation stories, which explain"
        f" {100 * flat.shares.sum():.0f} % of their variance. What moves along the others is not seen here,"
        " so go by the numbers of the steps.",
        steps=shown(),
    )


def choose(stories: dict[str, list[int]], text: str | None) -> tuple[str, list[str] | None]:
    """The title of a story, or of a text file with its steps; None is the first story of more than one step.

    Raises:
        ConfigError: neither a story nor a file.
        DataError, MissingError: the file is no text.
    """
    if text is None:
        return next(name for name, places in stories.items() if len(places) > 1), None
    if text in stories:
        return text, None
    path = Path(text).expanduser()
    if not path.is_file():
        raise ConfigError(f"figure: no file {text!r}, and {unknown('validation story', text, stories)}")
    story = read_story_report(path).story
    return story.title or path.stem, list(step_texts(story))


def moves_of(model: Any, texts: Sequence[str]) -> Moves:  # noqa: ANN401
    """Latents of one story of at least one step, and what they cost."""
    made = model.story(texts)
    surprise = gaussian_kl(*(part.double() for part in (*made.posterior, *made.prior)))
    latents = made.latents.double().cpu().numpy()
    return Moves(latents, moved(latents), surprise.cpu().numpy())


def _bars(moves: Moves, every: Sequence[Moves]) -> list[list[Bar]]:
    """Per step both of its numbers, on scales that end at the greatest of this story or the usual one."""
    columns = []
    for name, unit, own, others in (
        ("moved", "", moves.moved, [one.moved for one in every]),
        ("KL", " nats", moves.surprise, [one.surprise for one in every]),
    ):
        usual = float(np.median(np.concatenate(others)))
        most = max(float(own.max()), usual) or 1.0
        columns.append([Bar(name, f"{one:.2f}{unit}", one / most, usual / most) for one in own.tolist()])
    return [list(both) for both in zip(*columns, strict=True)]
