"""Sequence results of made-up systems whose order is known."""

import numpy as np
from made_up_scores import tabled

from limner.research.datasets.pairs import Pair
from limner.research.evaluation.results import About
from limner.research.evaluation.sequences import measure_sequences


def story_pairs(stories=12, steps=3):
    """Stories of so many steps, each with a picture and a noun of its own story."""
    return [
        Pair(
            id=f"{story}-{step}",
            text=f"the {'abcdefghijklmnopqrstuvwxyz'[story % 26] * 4} of step {step}",
            image=f"{story}-{step}.jpg",
            group=str(story),
            split="test",
            seq=f"story {story}",
            pos=step,
        )
        for story in range(stories)
        for step in range(steps)
    ]


def sequence_result(
    system, quality, *, seed=0, stories=12, part="test", features=True, described="made-up features", **about
):
    """A system whose right pictures get `quality` more than noise that depends on the seed alone."""
    rng = np.random.default_rng([seed, 3])
    pairs = story_pairs(stories)
    size = len(pairs)
    # some pictures suit every text, as in real embeddings: without it hardly any comes first twice
    scores = rng.normal(size=(size, size)) + rng.normal(size=size) + quality * np.eye(size)
    looks = np.random.default_rng(0).normal(size=(size, 5)) + np.repeat(np.eye(stories, 5), 3, axis=0) * 3
    from limner.research.evaluation.sequences import saliency_of

    return measure_sequences(
        About(
            system=system,
            part=part,
            seed=seed,
            **{"data": "storybook", "split": "grouped", "preset": "", **about},
        ),
        pairs,
        tabled(scores),
        features=looks if features else None,
        described=described,
        saliency=saliency_of if features else None,
    )
