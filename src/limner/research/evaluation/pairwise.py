"""The pair term of the decoders: how alike two pictures of one storyboard are, in nats.

The cosine of two pictures is standardised against the whole gallery from both sides and averaged (symmetric
score normalisation), then weighed like a channel.
"""

import numpy as np

from limner.arrays import scores
from limner.research.evaluation.decoding import Float64Array
from limner.store.search import Evidence, Index

MIXING = 0.9
"""Share of pictures of one story that are taken to be alike."""


def cosine_pairwise(index: Index, space: str, evidence: Evidence, weight: float) -> Float64Array:
    """Evidence from the cosine of two pictures, times a weight; 0 where either has no vector.

    The evidence is log(1 − ρ + ρ · exp(nats)) with ρ = `MIXING`: two pictures that look different may belong
    together all the same, so likeness says much for a picture and little against it. Two pictures of one
    near-duplicate group would agree perfectly without saying anything about the story, so their term is that
    of the closest picture of another group, the lower of the two.

    Args:
        index: index of the gallery.
        space: gallery space that compares pictures, such as ``visual``.
        evidence: how the cosine becomes nats.
        weight: times the evidence; 0 switches the term off.
    Returns:
        (M, M) nats, symmetric, in the order of the gallery.
    Raises:
        DataError: the gallery has no such space.
    Source: docs/methods/evaluation.md §11.2.
    """
    stored, rows = index.gallery.space(space), np.arange(len(index.gallery))
    if weight == 0:
        return np.zeros((len(rows), len(rows)))
    vectors, present = stored.vectors(rows), np.asarray(stored.present[rows])
    mean = std = np.zeros(len(rows))
    if evidence.z_slope != 0:
        mean, std = stored.moments.of_cosines(vectors)
    # Of both pictures: nats = (gain + gain) · cosine + shift + shift.
    standard = evidence.z_slope / 2 * np.divide(1.0, std, out=np.zeros_like(std), where=std > 0)
    gain, shift = evidence.slope / 2 + standard, evidence.offset / 2 - standard * mean
    nats = (gain[:, None] + gain) * scores(vectors, vectors) + shift[:, None] + shift
    nats = np.logaddexp(np.log(1 - MIXING), np.log(MIXING) + nats)
    nats[~present] = nats[:, ~present] = 0.0
    names = np.array([index.gallery.groups[row] for row in rows.tolist()])
    same = names[:, None] == names
    nats[same] = -np.inf
    ceiling = nats.max(axis=1)
    ceiling[~np.isfinite(ceiling)] = 0.0
    found: Float64Array = weight * np.where(same, np.minimum(ceiling[:, None], ceiling), nats)
    return found
