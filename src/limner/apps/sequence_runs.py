"""Measures the steps of stories for any run: brings its scores and fixed features of the pictures together.

What a picture looks like is asked of features that no run has trained, so that all runs are measured alike.
It trains no retrieval model.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from limner.apps.terminal import say

if TYPE_CHECKING:
    from limner.datasets.pairs import Pair
    from limner.evaluation.results import About, Scores
    from limner.evaluation.saliency import Saliency
    from limner.evaluation.sequence_results import Definition, SequenceResult
    from limner.training.pictures import PictureRows

MOST_PICTURES = 5000
COLOURS = "mean colours of drawings"


class SequenceMeter:
    """Measures one run after the other; the models of saliency are made once per test set."""

    def __init__(self, *, saliency: bool | None = None) -> None:
        """Take whether saliency is measured; None measures it for galleries of at most 5000 pictures."""
        self._wanted = saliency
        self._made: dict[str, Mapping[Definition, Saliency]] = {}

    def measure(
        self, about: "About", pairs: "Sequence[Pair]", scores: "Scores", pictures: "PictureRows"
    ) -> "SequenceResult | None":
        """Ranks of one run by step, or None where the pairs are no steps of stories.

        Args:
            about: what is measured.
            pairs: (N,) all rows of the part.
            scores: (N, M), see `limner.evaluation.sequences.measure_sequences`.
            pictures: as the run's corpus holds them.
        """
        from limner.evaluation.sequences import measure_sequences, told

        if not told(pairs):
            return None
        ids = list(dict.fromkeys(pair.image_id for pair in pairs))
        features, described, similar = fixed_features(pictures, ids)
        wanted = self._wanted if self._wanted is not None else len(ids) <= MOST_PICTURES
        if features is None:
            say(f"{about.system}: no fixed features of its pictures are at hand; VSR and VFS are left out")
        elif not wanted:
            say(f"{about.system}: VSR of {len(ids)} pictures is left out; --saliency measures it")
        return measure_sequences(
            about,
            pairs,
            scores,
            features=features,
            described=described,
            similarity=similar,
            saliency=self._saliency if wanted else None,
        )

    def _saliency(
        self,
        texts: Sequence[str],
        stories: Sequence[str],
        relevant: Sequence[Sequence[int]],
        features: NDArray[np.floating],
    ) -> "Mapping[Definition, Saliency]":
        """Those of the same steps and features, made once."""
        from limner.evaluation.sequences import saliency_of

        digest = hashlib.sha256(repr((list(texts), list(stories), list(relevant))).encode())
        digest.update(np.ascontiguousarray(features).tobytes())
        key = digest.hexdigest()
        if key not in self._made:
            self._made[key] = saliency_of(texts, stories, relevant, features)
        return self._made[key]


def fixed_features(
    pictures: "PictureRows", ids: Sequence[str]
) -> tuple[NDArray[np.float32] | None, str, bool]:
    """Features of some pictures that no run has trained.

    Args:
        pictures: stored features, or drawings; of others there are none.
        ids: (M,) by `Pair.image_id`.
    Returns:
        (M, F) features or None, what they are of, and whether their cosine says that pictures are alike,
        which the colours of drawings do not.
    """
    from limner.datasets.features import Features
    from limner.training.pictures import ArrayRows

    if isinstance(pictures, Features):
        rows = pictures.take(pictures.places(ids))
        # A grid's mean is what the backbone pools.
        pooled = rows.mean(axis=1) if rows.ndim == 3 else rows
        name = pictures.key.backbone.removesuffix("-grid")
        return pooled, f"features of {name} ({pictures.key.weights_sha256[:8]})", True
    if isinstance(pictures, ArrayRows):
        import torch

        from limner.encoders.cells import CellColours

        values = pictures.take(pictures.places(ids))
        if values.dtype == np.uint8:
            return CellColours()(torch.from_numpy(values)).numpy(), COLOURS, False
    return None, "", False
