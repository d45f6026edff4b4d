"""Same-document metrics: validation during training, and calibration of their cosines."""

from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path

import numpy as np

from limner.arrays import FloatArray
from limner.checksums import noting, seal
from limner.errors import DataError
from limner.files import write_text
from limner.research.evaluation.ranking import different
from limner.research.evaluation.stories import same_document
from limner.research.runs.run import encoded_images
from limner.research.systems.base import Model
from limner.research.training.checkpoint import stored
from limner.research.training.corpus import Corpus, PictureRows, Rows
from limner.store.search import Evidence


def validation_of_pictures(corpus: Corpus) -> Callable[[Model], Mapping[str, float]]:
    """Return a function that measures R@1 and mAP of a model's ranking of same-story validation pictures."""

    def measure(model: Model) -> dict[str, float]:
        pictures, stories = story_pictures(model, corpus.pictures, corpus.val)
        return same_document(model.scorer(pictures, pictures), stories)

    return measure


def story_pictures(
    model: Model, pictures: PictureRows, rows: Rows
) -> tuple[FloatArray, list[frozenset[str]]]:
    """(M, D) vectors of the distinct pictures of some rows, and the stories in which each occurs."""
    columns, first = different([pair.image_id for pair in rows.pairs])
    stories: list[set[str]] = [set() for _ in first]
    for pair, column in zip(rows.pairs, columns.tolist(), strict=True):
        stories[column].add(pair.seq or pair.id)
    return encoded_images(model, pictures, rows.places[first]), [frozenset(own) for own in stories]


PAIRWISE = "pairwise.json"
PAIRS = 100_000


def fit_pairwise(model: Model, corpus: Corpus) -> Evidence:
    """Calibrate the cosine: log P(cosine | same story) / P(cosine | different stories).

    Args:
        model: model of the system document.
        corpus: corpus whose validation pictures are compared (training pictures would be too similar): all
            pairs within stories and random others, up to 100,000 of each.
    Returns:
        Evidence linear in the cosine, in nats, from a logistic regression whose intercept is corrected for
        the numbers of pairs.
    Raises:
        DataError: there are no pairs within, or none across, stories.
    """
    from sklearn.linear_model import LogisticRegression

    vectors, stories = story_pictures(model, corpus.pictures, corpus.val)
    members: dict[str, list[int]] = {}
    for row, own in enumerate(stories):
        for story in own:
            members.setdefault(story, []).append(row)
    together = {pair for rows in members.values() for pair in combinations(rows, 2)}
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(stories), (min(PAIRS, 20 * len(stories)), 2)).tolist()
    apart = [(a, b) for a, b in drawn if not stories[a] & stories[b]]
    if not together or not apart:
        kind = "one story" if apart else "different stories"
        raise DataError(
            f"{corpus.name}: no two validation pictures of {kind}, so the cosine cannot be calibrated;"
            " use a larger validation part"
        )
    near = sorted(together)
    if len(near) > PAIRS:
        near = [near[place] for place in rng.permutation(len(near))[:PAIRS]]
    first, second = np.array(near + apart).T
    same = np.arange(len(first)) < len(near)
    cosines = (vectors[first] * vectors[second]).sum(axis=1, dtype=np.float64)
    fitted = LogisticRegression(C=np.inf, max_iter=1000).fit(cosines[:, None], same)
    prior = float(np.log(same.mean() / (1 - same.mean())))
    return Evidence(slope=float(fitted.coef_[0, 0]), z_slope=0.0, offset=float(fitted.intercept_[0]) - prior)


def write_pairwise(run: Path, evidence: Evidence) -> None:
    """Store the calibration, atomically."""
    with noting(run, PAIRWISE):
        write_text(run / PAIRWISE, seal(evidence.model_dump_json() + "\n"))


def read_pairwise(run: Path) -> Evidence:
    """Read the calibration of a run.

    Raises:
        CheckpointError: the file is missing or damaged.
    """
    return stored(run / PAIRWISE, Evidence.model_validate_json, "pairwise term of a same-document metric")
