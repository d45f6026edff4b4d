"""Rank, world size and all-reduce, for code that must not import torch.distributed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Crew:
    """This process among several, and their all-reduce.

    Attributes:
        number: rank of this process, from 0.
        size: number of processes.
        summed: function that sums an array over all processes; exact if only one of them has other than 0.
    """

    number: int = 0
    size: int = 1
    summed: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray

    def share(self, count: int) -> slice:
        """The slice of `count` rows that this process works on."""
        return slice(count * self.number // self.size, count * (self.number + 1) // self.size)


ALONE = Crew()
