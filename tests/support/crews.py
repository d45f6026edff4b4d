"""Several processes that share work, played by threads."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from limner.research.datasets.neighbours import Crew


def together(size, work):
    """What ``work(crew)`` gives to each member of a crew."""
    given, meet = [None] * size, Barrier(size, timeout=60)

    def member(number):
        def summed(values):
            given[number] = values
            meet.wait()
            total = sum(given)
            meet.wait()
            return total

        try:
            return work(Crew(number, size, summed))
        except BaseException:
            meet.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(member, range(size)))
