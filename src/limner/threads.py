"""Parallel work in threads, with results in order and bounded memory."""

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
MOST_WORKERS = 16
_ARENA_MAX, _ARENAS = -8, 2
"""Number of the option M_ARENA_MAX in the GNU C library's malloc.h, and its value."""


def cores() -> int:
    """Default number of threads that decode: one per usable core, at most 16."""
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(max(usable, 1), MOST_WORKERS)


def share_memory() -> None:
    """Limit the number of malloc arenas, so that threads reuse each other's freed memory.

    The GNU C library has up to eight arenas per core, which never shrink. Other C libraries are not changed.
    """
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)


def ahead(
    items: Iterable[T],
    work: Callable[[T], R],
    *,
    workers: int,
    in_flight: int,
    initializer: Callable[..., Any] | None = None,
    initargs: tuple[Any, ...] = (),
) -> Generator[R, None, None]:
    """Map a function over items in threads, in order; closing the generator cancels items not yet begun.

    Args:
        items: items, which may be endless; they are read as workers become free.
        work: function called in a worker; its error is raised instead of its result.
        workers: number of threads, at least 1.
        in_flight: most items begun and not yet consumed, a bound on memory.
        initializer: function called in each thread before its first item.
        initargs: arguments of `initializer`.
    """
    waiting: deque[Future[R]] = deque()
    pool = ThreadPoolExecutor(workers, "limner-ahead", initializer, initargs)
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= in_flight:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_LIMITING = threading.Lock()
_limited: list[Any] = []
"""Limits in force, one for each open `one_core_products`."""


@contextmanager
def one_core_products() -> Iterator[None]:
    """Context in which each product of NumPy uses a single core, in all threads.

    For parallel work in own threads, as in `one_core_each`. Contexts may overlap; the last to end restores
    the number of cores.
    """
    from threadpoolctl import threadpool_limits

    with _LIMITING:
        _limited.append(_limited[-1] if _limited else threadpool_limits(1, "blas"))
    try:
        yield
    finally:
        with _LIMITING:
            held = _limited.pop()
            if not _limited:
                held.restore_original_limits()


def one_core_each(items: Iterable[T], work: Callable[[T], R], *, workers: int) -> Generator[R, None, None]:
    """Map like `ahead`, with torch on a single core in each worker; its number of threads is restored.

    Threads of one product wait for each other by spinning, which blocks cores for other work.
    """
    import torch

    threads = torch.get_num_threads()
    try:
        yield from ahead(
            items,
            work,
            workers=workers,
            in_flight=2 * workers + 1,
            initializer=torch.set_num_threads,
            initargs=(1,),
        )
    finally:
        # New threads use the number that any thread set last.
        torch.set_num_threads(threads)
