"""One pass over all rows of a gallery in blocks, on every core, and the best values met on the way.

A thread takes a whole block through all its short steps: its scores stay in that core's cache, and no core
waits for another after each step. It knows nothing of texts, channels or scores.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from limner.similarity import FloatArray

IntArray = NDArray[np.int64]
T = TypeVar("T")


def over_blocks(rows: int, block_rows: int, work: Callable[[int, int], T]) -> Iterator[tuple[int, T]]:
    """Call `work` for every block of rows, several at a time.

    Args:
        rows: how many there are.
        block_rows: rows of a block.
        work: (first row, row after the last) → result; called in threads.
    Yields:
        First row and result of each block, in order; few results wait at a time.
    """
    import torch

    blocks = [(start, min(start + block_rows, rows)) for start in range(0, rows, block_rows)]
    threads = torch.get_num_threads()
    if min(threads, len(blocks)) < 2:
        yield from ((start, work(start, stop)) for start, stop in blocks)
        return
    # Products inside a thread run on it alone. Torch remembers the number last set for threads begun later,
    # so it is set back at the end.
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    waiting: deque[tuple[int, Future[T]]] = deque()
    try:
        for start, stop in blocks:
            waiting.append((start, pool.submit(work, start, stop)))
            if len(waiting) > 2 * threads:
                first, done = waiting.popleft()
                yield first, done.result()
        while waiting:
            first, done = waiting.popleft()
            yield first, done.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        torch.set_num_threads(threads)


class Pool:
    """The best values of one text so far, and their rows."""

    def __init__(self, kept: int) -> None:
        """Start empty.

        Args:
            kept: how many are wanted, at least 1.
        """
        self._kept = kept
        self._floor = -np.inf
        self._values: FloatArray = np.zeros(0, dtype=np.float32)
        self._rows: IntArray = np.zeros(0, dtype=np.int64)

    def add(self, values: FloatArray, start: int) -> None:
        """Take in the values of one block; only those above the worst kept can matter.

        Args:
            values: (R,).
            start: row of the first.
        """
        found = np.flatnonzero(values > self._floor)
        if len(found):
            self._values = np.concatenate([self._values, values[found]])
            self._rows = np.concatenate([self._rows, found + start])
        if len(self._values) > 2 * self._kept:
            self._cut()

    def best(self) -> tuple[FloatArray, IntArray]:
        """(K,) values and rows, in no order; K is what is wanted or all there is, if less."""
        if len(self._values) > self._kept:
            self._cut()
        return self._values, self._rows

    def _cut(self) -> None:
        order = np.argpartition(-self._values, self._kept - 1)[: self._kept]
        self._values, self._rows = self._values[order], self._rows[order]
        self._floor = float(self._values.min())
