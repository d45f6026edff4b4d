"""Result files of made-up systems whose order is known."""

import numpy as np
from made_up_scores import tabled

from limner.research.datasets.pairs import Pair
from limner.research.evaluation.results import About
from limner.research.evaluation.retrieval import measure

RELATIONS = ("Visible", "Subjective", "Action", "Story", "Meta", "Irrelevant")


def pairs_of(count):
    """`count` pairs, every tenth one a repeat of the one before; labels follow the number."""
    pairs = []
    for number in range(count):
        same = number - 1 if number % 10 == 9 else number
        labels = {name: int((number * 11 + place) % (place + 2) == 0) for place, name in enumerate(RELATIONS)}
        pairs.append(
            Pair(
                id=f"p{number}",
                text=f"text {same}",
                image=f"i{same}",
                group=f"g{same // 2}",
                labels=labels,
            )
        )
    return pairs


def result(
    system,
    quality,
    *,
    seed=0,
    split="grouped",
    data="clue",
    count=120,
    refined=None,
    relations=RELATIONS,
    pool_size=40,
    part="test",
    protocol="pools",
):
    """A system whose right pictures get `quality` more than noise; `refined` adds that much in refinement."""
    rng = np.random.default_rng([seed, 5])
    pairs = pairs_of(count)
    pictures = list(dict.fromkeys(pair.image_id for pair in pairs))
    right = np.array([[picture == pair.image_id for picture in pictures] for pair in pairs])
    scores = rng.normal(size=right.shape) + quality * right
    refine = None
    if refined is not None:

        def refine(table, rows, columns):
            return table + refined * right[np.ix_(rows, columns)]

    probabilities = None
    if relations:
        truth = {name: np.array([pair.labels[name] for pair in pairs]) for name in relations}
        noise = {name: rng.random(count) for name in relations}
        probabilities = {name: (truth[name] * quality + noise[name]) / 9 for name in relations}
    about = About(system=system, data=data, split=split, part=part, seed=seed, protocol=protocol)
    return measure(
        about,
        pairs,
        RELATIONS,
        score=None if system.startswith("text only") else tabled(scores),
        refine=refine,
        probabilities=probabilities,
        pool_size=pool_size,
        pool_count=3,
    )
