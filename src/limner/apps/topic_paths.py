"""How the latent topic of one text moves through a run of VRSS: brings together what the page shows.

Validation stories are the background and their pictures the gallery, so that no test row is looked at. It
trains and measures nothing.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from limner.apps.export.examples import Example
from limner.apps.export.figure_page import check_page
from limner.apps.export.topics import Measured, Topic, TopicStep, write_topic
from limner.errors import ConfigError, DataError, unknown

if TYPE_CHECKING:
    from limner.apps.run_pictures import Pictures
    from limner.datasets.pairs import Pair
    from limner.evaluation.sequences import Steps
    from limner.similarity import FloatArray

TOP = 5
NOTE = (
    "Every step of a text moves the latent topic, and its picture is generated from where the topic was and"
    " where it went. Moved is the distance between both. KL, in nats, says how far the topic heard in the"
    " text lies from what the step before alone foretold. The mark on a bar is the median of all validation"
    " steps. Below are the best five of their pictures, with their cosines."
)


@dataclass(frozen=True)
class Told:
    """One story as the run hears it.

    Attributes:
        texts: T steps.
        relevant: columns of the steps' own pictures; None where none are known.
    """

    texts: tuple[str, ...]
    relevant: tuple[tuple[int, ...], ...] | None


@dataclass(frozen=True)
class Heard:
    """What a run makes of one story.

    Attributes:
        latents: (T, Z) posterior means.
        moved: (T,) how far each lies from the one before.
        surprise: (T,) KL of posterior against prior, in nats.
    """

    latents: NDArray[np.float64]
    moved: NDArray[np.float64]
    surprise: NDArray[np.float64]


@dataclass(frozen=True)
class Shelf:
    """The pictures that are searched.

    Attributes:
        scores: (T, M) of the story's steps.
        names: (M,) `Pair.id` of a row with each picture.
        picture: opens them.
    """

    scores: "FloatArray"
    names: Sequence[str]
    picture: "Pictures"


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
    from limner.apps.run_pictures import Pictures, open_run
    from limner.apps.validation import vectors
    from limner.evaluation.sequences import steps_of, told
    from limner.evaluation.topic_figures import plane
    from limner.training.corpus import open_corpus, rows_of

    if len(texts) > 1:
        raise ConfigError(f"figure: vrss-topic shows one text, found {len(texts)}; pass one --text")
    check_page(to)
    model, config = open_run(run)
    name = config.row or config.system
    if not hasattr(model, "story") or not getattr(model.architecture, "latents", False):
        raise ConfigError(f"figure: {name} has no latent topic; name a run of VRSS with model.latents=true")
    data, rows = open_corpus(config.data, weights=weights)
    pairs = data.split("val")
    if not told(pairs):
        raise DataError(f"figure: {config.data.set} has no steps of stories to validate on; name another run")
    steps = steps_of(pairs)
    stories = stories_told(pairs, steps)
    title, chosen = choose(stories, texts[0] if texts else None)
    every = [hear(model, story.texts) for story in stories.values()]
    heard = hear(model, chosen.texts)
    _, images, _ = vectors(model, rows, rows_of(pairs, rows, ()))
    scores = model.score(model.encode_stories([chosen.texts])[0], images)
    shelf = Shelf(scores, steps.names, Pictures(data, rows))
    flat = plane(np.concatenate([one.latents for one in every]), heard.latents)
    usual = [
        float(np.median(np.concatenate([getattr(one, key) for one in every])))
        for key in ("moved", "surprise")
    ]
    topic = Topic(
        f"The latent topic of {title}",
        NOTE,
        drawn(flat),
        f"Path of the latent topic through {_steps_in(len(chosen.texts))}; the list says how far each moves.",
        f"Posterior means of {name}, projected on the two main components of"
        f" {_steps_in(len(flat.background))} of {len(every)} validation stories, which explain"
        f" {100 * flat.shares.sum():.0f} % of their variance. What moves along the others is not seen here,"
        " so go by the numbers of the steps.",
    )
    write_topic(to, topic, _steps(model, chosen, heard, usual, shelf))


def stories_told(pairs: "Sequence[Pair]", steps: "Steps") -> dict[str, Told]:
    """The stories of some pairs by name, in order."""
    places: dict[str, list[int]] = {}
    for place, story in enumerate(steps.stories):
        places.setdefault(story, []).append(place)
    rows = steps.rows.tolist()
    return {
        story: Told(
            tuple(pairs[rows[place]].text for place in own), tuple(steps.relevant[place] for place in own)
        )
        for story, own in places.items()
    }


def choose(stories: dict[str, Told], text: str | None) -> tuple[str, Told]:
    """A title and what is told: a story by name, a text file, or the first story of more than one step.

    Raises:
        ConfigError: neither a story nor a file.
        DataError, MissingError: the file is no text.
    """
    from limner.data.texts import read_story
    from limner.retrieval.storyboard import step_texts

    if text is None:
        return next((name, one) for name, one in stories.items() if len(one.texts) > 1)
    if text in stories:
        return text, stories[text]
    path = Path(text).expanduser()
    if not path.is_file():
        raise ConfigError(f"figure: no file {text!r}, and {unknown('validation story', text, stories)}")
    story = read_story(path)
    return story.title or path.stem, Told(tuple(step_texts(story)), None)


def hear(model: Any, texts: Sequence[str]) -> Heard:  # noqa: ANN401
    """Latents of one story of at least one step, and what they cost."""
    from limner.evaluation.topic_figures import moved
    from limner.losses.variational import gaussian_kl

    made = model.story(texts)
    surprise = gaussian_kl(*(part.double() for part in (*made.posterior, *made.prior)))
    latents = made.latents.double().cpu().numpy()
    return Heard(latents, moved(latents), surprise.cpu().numpy())


def drawn(flat: Any) -> bytes:  # noqa: ANN401  (a Plane, whose module draws)
    """The path as an SVG file."""
    from limner.evaluation import figures
    from limner.evaluation.topic_figures import topic_path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "path.svg"
        figures.write(path, topic_path, flat)
        return path.read_bytes()


def _steps(
    model: Any,  # noqa: ANN401
    chosen: Told,
    heard: Heard,
    usual: Sequence[float],
    shelf: Shelf,
) -> Iterator[TopicStep]:
    from limner.evaluation.ranking import rank

    scores, names, picture = shelf.scores, shelf.names, shelf.picture
    ranks = None if chosen.relevant is None else rank(scores, chosen.relevant).ranks()
    longest = [
        max(float(own.max()), middle)
        for own, middle in zip((heard.moved, heard.surprise), usual, strict=True)
    ]
    size = scores.shape[1]
    for place, text in enumerate(chosen.texts):
        numbers = (float(heard.moved[place]), float(heard.surprise[place]))
        words = (f"{numbers[0]:.2f}", f"{numbers[1]:.2f} nats")
        bars = tuple(
            Measured(name, word, _part(number, most), _part(middle, most))
            for name, word, number, middle, most in zip(
                ("moved", "KL"), words, numbers, usual, longest, strict=True
            )
        )
        own = () if chosen.relevant is None else chosen.relevant[place]
        best = np.argsort(-scores[place], kind="stable")[:TOP].tolist()
        found = tuple(
            Example(
                picture(names[column]),
                text,
                (f"{at}: {scores[place, column]:.2f}".replace("-", "−"),),
                right=column in own,
            )
            for at, column in enumerate(best, start=1)
        )
        remarks = [] if _knows(model, text) else ["None of these words was in the training texts."]
        missed = None
        if ranks is not None:
            remarks.append(f"Its own picture is at place {ranks[place]:g} of {size}.")
            missed = None if set(best) & set(own) else picture(names[own[0]])
        yield TopicStep(place + 1, text, bars, found, missed, tuple(remarks))


def _steps_in(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"


def _part(number: float, most: float) -> float:
    return number / most if most else 0.0


def _knows(model: Any, text: str) -> bool:  # noqa: ANN401
    """Whether a run learned any word of a text; a full stop is none, and frozen encoders know all."""
    if getattr(model, "sentences", None) is not None:
        return True
    return any(word in model.vocabulary and word[:1].isalnum() for word in model.vocabulary.tokens(text))
