"""Work in threads: results in order, and few of them waiting."""

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
"""The option's number in the GNU C library's malloc.h, and its value."""


def cores() -> int:
    """Threads that decode unless someone says otherwise: one per usable core, at most 16."""
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(max(usable, 1), MOST_WORKERS)


def share_memory() -> None:
    """Let all threads of this process take memory from few places, so that what one frees serves another.

    The GNU C library keeps eight places per core, each as large as it ever was; others are left alone.
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
    """`map` in threads, in order; when it is closed early, what has not begun is cancelled.

    Args:
        items: may be endless; taken as room appears.
        work: called in a worker; its error is raised where its result would come.
        workers: threads, at least 1.
        in_flight: most items begun and not yet taken, and so a bound on memory.
        initializer: called in each thread before its first item.
        initargs: for it.
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
"""The limit that holds, once for each that is within `one_core_products`."""


@contextmanager
def one_core_products() -> Iterator[None]:
    """Within, each product of NumPy is computed on a single core, whichever thread asks for it.

    For work in threads of its own, as in `one_core_each`. Several may be within at once; the last that leaves
    sets the number back.
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
    """`ahead` where torch computes on a single core in each worker; its number of threads is set back.

    Threads of one product wait for each other by spinning, which takes the cores from everyone else.
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
        # Torch remembers the number last set, by whichever thread, for threads begun later.
        torch.set_num_threads(threads)
