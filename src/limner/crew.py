"""Work that several processes share, told to those who know nothing of processes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Crew:
    """Who of several processes this is, and how what each found becomes known to all.

    Attributes:
        number: from 0.
        size: processes.
        summed: an array → its sum over all processes, exact where all but one have 0.
    """

    number: int = 0
    size: int = 1
    summed: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray

    def share(self, count: int) -> slice:
        """Of so many rows those that are this process's."""
        return slice(count * self.number // self.size, count * (self.number + 1) // self.size)


ALONE = Crew()
