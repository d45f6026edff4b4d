"""Do pictures of one story find each other? Every picture asks among all others.

What chooses and judges a same-document metric. It encodes nothing.
"""

from collections.abc import Sequence

import numpy as np

from limner.errors import ShapeError
from limner.evaluation.labels import average_precision
from limner.similarity import FloatArray


def same_document(vectors: FloatArray, stories: Sequence[frozenset[str]]) -> dict[str, float]:
    """Share of pictures whose nearest other is of one of their stories, and mean average precision.

    Args:
        vectors: (M, D) rows of unit length, one per different picture.
        stories: (M,) the stories each picture occurs in.
    Returns:
        ``R@1`` and ``mAP`` over the pictures that have another one of their stories, in [0, 1]; equal scores
        share what they could win.
    Raises:
        ShapeError: sizes differ, or no picture has another of its story.
    """
    if vectors.ndim != 2 or len(vectors) != len(stories):
        raise ShapeError(f"worlds: vectors {vectors.shape} for {len(stories)} pictures, expected (M, D)")
    first, precision = [], []
    for row, own in enumerate(stories):
        others = np.arange(len(vectors)) != row
        right = np.array([bool(own & other) for other in stories])[others]
        if not right.any():
            continue
        near = (vectors @ vectors[row])[others]
        best = near == near.max()
        first.append(float(right[best].mean()))
        precision.append(average_precision(near, right.astype(np.int64)))
    if not first:
        raise ShapeError(f"worlds: none of {len(vectors)} pictures has another one of its story")
    return {"R@1": float(np.mean(first)), "mAP": float(np.mean(precision))}
