"""Several processes that share work, played by threads."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from limner.research.datasets.neighbours import ProcessGroup


def together(size, work):
    """What ``work(group)`` returns in each process of a group."""
    given, meet = [None] * size, Barrier(size, timeout=60)

    def member(rank):
        def all_reduce(values):
            given[rank] = values
            meet.wait()
            total = sum(given)
            meet.wait()
            return total

        try:
            return work(ProcessGroup(rank, size, all_reduce))
        except BaseException:
            meet.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(member, range(size)))
