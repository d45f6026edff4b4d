"""c-way results of made-up systems whose order is known."""

import tempfile
from pathlib import Path

import numpy as np
from made_up_results import pairs_of
from made_up_scores import tabled

from limner.research.evaluation.choice import measure_choices
from limner.research.evaluation.results import About


def choice_result(
    system,
    quality,
    *,
    seed=0,
    c=5,
    data="flickr8k",
    split="grouped",
    part="test",
    preset="",
    count=120,
):
    """A system whose right options get `quality` more than noise that depends on the seed alone."""
    rng = np.random.default_rng([seed, 7])
    pairs = pairs_of(count)
    pictures = list(dict.fromkeys(pair.image_id for pair in pairs))
    right = np.array([[picture == pair.image_id for picture in pictures] for pair in pairs])
    scores = rng.normal(size=right.shape) + quality * right
    about = About(system=system, data=data, split=split, part=part, seed=seed, preset=preset)
    with tempfile.TemporaryDirectory() as folder:
        return measure_choices(about, pairs, tabled(scores), c, distractors=Path(folder))
