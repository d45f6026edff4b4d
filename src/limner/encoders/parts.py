"""A batch in parts, one per core, each computed on one thread.

Threads of one product wait for each other by spinning after every layer, which takes the cores from those
that decode pictures meanwhile; parts meet once per batch and sleep. It knows nothing of what is computed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from limner.similarity import ByteArray, FloatArray
from limner.threads import one_core_each

SMALLEST_PART = 4
"""Pictures below which a part of its own does not pay."""


def in_parts(work: Callable[[ByteArray], FloatArray], batch: ByteArray) -> FloatArray:
    """The same as `work(batch)`, up to rounding.

    Args:
        work: (B, ...) bytes → (B, F), row by row; called in threads, where torch computes on one core.
        batch: (B, ...) bytes.
    """
    import torch

    threads = torch.get_num_threads()
    count = min(threads, len(batch) // SMALLEST_PART)
    if count < 2:
        return work(batch)
    return np.concatenate(list(one_core_each(np.array_split(batch, count), work, workers=count)))
