"""How much two pictures say for one story by a same-document metric, fitted on validation pictures.

Stored beside the run's weights, and read when it pulls the pictures of a storyboard. It trains no metric.
"""

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from limner.errors import CheckpointError, DataError
from limner.files import write_text
from limner.retrieval.channels import Evidence

if TYPE_CHECKING:
    from limner.training.corpus import Corpus

FILE = "pull.json"
PAIRS = 100_000


def fit_pull(model: Any, corpus: "Corpus") -> Evidence:  # noqa: ANN401
    """What a cosine says: the logarithm of P(cosine | same story) / P(cosine | different stories).

    Args:
        model: of pictures, see `limner.models.document`.
        corpus: whose validation pictures are compared, since training pictures lie closer together than
            unseen ones will: all pairs of one story and random others, up to 100,000 of either.
    Returns:
        Linear in the cosine, nats; by logistic regression, freed of the share of either kind of pairs.
    Raises:
        DataError: the validation pictures are all of one story, or all of different ones.
    """
    from sklearn.linear_model import LogisticRegression

    from limner.apps.validation import story_pictures

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
            f"{corpus.name}: no two validation pictures of {kind}, so nothing tells what a cosine means;"
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


def write_pull(run: Path, evidence: Evidence) -> None:
    """Store it, whole or not at all."""
    write_text(run / FILE, evidence.model_dump_json() + "\n")


def read_pull(run: Path) -> Evidence:
    """What training fitted.

    Raises:
        CheckpointError: none is there, or it is damaged.
    """
    file = run / FILE
    try:
        return Evidence.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        what = error.strerror if isinstance(error, OSError) else error.errors()[0]["msg"]
        raise CheckpointError(
            f"{file}: not the pull of a same-document metric ({what}); run limner train to its end"
        ) from error
