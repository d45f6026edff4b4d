"""Retrieval of pictures of the same story, for a model of pictures alone."""

from collections.abc import Sequence

import numpy as np

from limner.errors import NumericsError, ShapeError, counted
from limner.research.evaluation.ranking import ALL, BLOCK_CELLS, Score, host


def same_document(score: Score, stories: Sequence[frozenset[str]]) -> dict[str, float]:
    """R@1 and mAP of retrieving other pictures of the same story, computed in blocks.

    Args:
        score: scores of the M distinct pictures with each other.
        stories: (M,) the stories in which each picture occurs.
    Returns:
        ``R@1`` and ``mAP``, in [0, 1], averaged over the pictures that share a story with another; ties share
        the credit.
    Raises:
        ShapeError: sizes differ, or no story has two pictures.
        NumericsError: a score is not finite.
    """
    size = len(stories)
    members: dict[str, list[int]] = {}
    for row, own in enumerate(stories):
        for story in own:
            members.setdefault(story, []).append(row)
    asked = [row for row, own in enumerate(stories) if any(len(members[story]) > 1 for story in own)]
    if not asked:
        raise ShapeError(
            f"same document: none of {counted(size, 'picture')} share a story; expected two that do"
        )
    first, precision = [], []
    step = max(1, BLOCK_CELLS // size)
    for start in range(0, len(asked), step):
        some = np.array(asked[start : start + step])
        table = host(score(some, ALL))
        if table.shape != (len(some), size):
            raise ShapeError(f"same document: scores {table.shape}, expected ({len(some)}, {size})")
        for row, near in zip(some.tolist(), table, strict=True):
            if not np.isfinite(near).all():
                raise NumericsError(
                    f"same document: a score of picture {row} is not finite; check its features"
                )
            right = {other for story in stories[row] for other in members[story]} - {row}
            held, others = np.sort(near[list(right)]), np.sort(np.delete(near, row))
            # precision at each relevant picture, with ties counted in full
            above, all_above = (len(one) - np.searchsorted(one, held) for one in (held, others))
            shares = above / all_above
            precision.append(float(shares.mean()))
            first.append(float(shares[-1]) if held[-1] == others[-1] else 0.0)
    return {"R@1": float(np.mean(first)), "mAP": float(np.mean(precision))}
