"""A relation of its own for every step: one channel whose vector differs from step to step.

`RelationDirection` serves commands, where every step prefers the same. Nothing is learned here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from limner.apps.run_channels import RELATION, RelationDirection, asked
from limner.apps.trained import MODEL, TrainedRun
from limner.retrieval.channels import Channel, Evidence
from limner.similarity import FloatArray


class StepRelations:
    """The direction each step asks for, as long as it counts; see `limner.similarity.TextEncoder`.

    A step without a relation has the zero vector: it adds no evidence to any picture.
    """

    name = RELATION

    def __init__(self, run: TrainedRun, relations: Sequence[str | None]) -> None:
        """Take a run and what its steps ask for.

        Args:
            run: that predicts relations.
            relations: per step ``NAME``, ``NAME=TIMES`` or None; one at least is a relation.
        Raises:
            ConfigError: see `RelationDirection`.
        """
        wishes = [None if one is None else asked(one, run.relations) for one in relations]
        made = {name: RelationDirection(run, name) for name in {one[0] for one in wishes if one is not None}}
        self.fingerprint = run.fingerprint
        self._rows: FloatArray = np.zeros((len(wishes), run.model.dim), dtype=np.float32)
        for row, wish in enumerate(wishes):
            if wish is not None:
                name, times = wish
                direction = made[name]
                self._rows[row] = direction.encode_text([""])[0] * np.float32(times * direction.norm)
        # Rows may be shorter than 1 but not longer; the slope gives them their lengths back.
        self.norm = float(np.linalg.norm(self._rows, axis=1).max())
        if self.norm > 0:
            self._rows /= np.float32(self.norm)

    @property
    def dim(self) -> int:
        """D."""
        return int(self._rows.shape[1])

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """(S, D) rows of length at most 1, whatever the words."""
        return self._rows


def relation_channel(run: TrainedRun, relations: Sequence[str | None]) -> Channel:
    """The picture term of each step's relation, in nats; arguments and errors as `StepRelations`."""
    encoder = StepRelations(run, relations)
    return Channel(RELATION, encoder, MODEL, Evidence(slope=encoder.norm, z_slope=0.0, offset=0.0))
