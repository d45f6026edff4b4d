"""Scores and weights of training pairs as a run leaves them, one number per pair and name.

Training writes them, figures and pages read them, so the form is neither's; no pickle is involved. It
computes no score.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limner.errors import DataError, MissingError, ShapeError

FILE = "pair_scores.safetensors"
FORMAT = "limner-pair-scores-1"


@dataclass(frozen=True)
class PairScores:
    """Scores of n training pairs after some epoch.

    Attributes:
        ids: (n,) of the pairs, in the order of all scores.
        scores: ``MEASURE/modality`` → (n,) float32 raw scores before Γ, such as ``DIVERSITY/text``; a name
            without a slash is no score of a measure, such as ``weight``.
        epoch: whose embeddings they were computed from, from 0.
    """

    ids: tuple[str, ...]
    scores: Mapping[str, NDArray[np.float32]]
    epoch: int

    def measures(self) -> dict[str, dict[str, NDArray[np.float32]]]:
        """Measure → modality → scores, in order of name."""
        found: dict[str, dict[str, NDArray[np.float32]]] = {}
        for name in sorted(self.scores):
            measure, slash, modality = name.partition("/")
            if slash:
                found.setdefault(measure, {})[modality] = self.scores[name]
        return found


def write_pair_scores(scores: PairScores, run: Path) -> Path:
    """Write ``pair_scores.safetensors`` of a run folder, whole or not at all.

    Raises:
        ShapeError: a score is not one number per pair.
    """
    from safetensors.numpy import save

    for name, values in scores.scores.items():
        if values.shape != (len(scores.ids),):
            raise ShapeError(f"pair scores: {name} has shape {values.shape}, expected {(len(scores.ids),)}")
    held = {name: np.ascontiguousarray(values, np.float32) for name, values in scores.scores.items()}
    about = {"format": FORMAT, "epoch": str(scores.epoch), "ids": json.dumps(scores.ids)}
    target = run / FILE
    part = target.with_name(f".{FILE}.{secrets.token_hex(4)}.part")
    try:
        part.write_bytes(save(held, about))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def read_pair_scores(run: Path) -> PairScores:
    """Read what `write_pair_scores` wrote into a run folder.

    Raises:
        MissingError: the run left none.
        DataError: not such a file, or damaged.
    """
    from safetensors import SafetensorError, safe_open

    file = run / FILE
    if not file.is_file():
        raise MissingError(f"{file}: not there; train a system that weighs pairs by their neighbourhoods")
    try:
        with safe_open(file, framework="np") as opened:
            about = opened.metadata() or {}
            found = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  (no mapping)
        if about.get("format") != FORMAT:
            raise DataError(f"{file}: format {about.get('format')!r}, expected {FORMAT!r}")
        scores = PairScores(tuple(json.loads(about["ids"])), found, int(about["epoch"]))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{file}: not a file of pair scores ({error}); train the run again") from error
    for name, values in found.items():
        if values.shape != (len(scores.ids),) or values.dtype != np.float32:
            raise DataError(
                f"{file}: {name} has shape {values.shape} of {values.dtype}, expected"
                f" {(len(scores.ids),)} of float32; train the run again"
            )
    return scores
