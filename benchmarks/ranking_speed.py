"""Ranks of a square gallery: limner's counting against sorting every row and searching it, in one run.

  python benchmarks/ranking_speed.py --size 5000

Prints both times (median, least and most of the repeats; by the clock and of the processor), the ratio of
each pair of turns and the memory each needs beside the scores. Ranks must agree.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from limner.research.evaluation.ranking import rank


def searched(scores: np.ndarray) -> np.ndarray:
    """As reference code does it: sort every row, look for the right column."""
    ranks = np.zeros(len(scores))
    for row in range(len(scores)):
        order = np.argsort(scores[row])[::-1]
        ranks[row] = np.where(order == row)[0][0] + 1
    return ranks


def timed(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, np.ndarray]:
    """(repeats, 2) seconds of each, by the clock and of the processor.

    The calls take turns, so that other work on the machine disturbs both alike.
    """
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            began, worked = time.perf_counter(), time.process_time()
            call()
            taken[name].append((time.perf_counter() - began, time.process_time() - worked))
    return {name: np.array(values) for name, values in taken.items()}


def spread(values: np.ndarray, form: str = ".3f") -> str:
    """Median, and least to most."""
    return f"{np.median(values):{form}} [{values.min():{form}}, {values.max():{form}}]"


def peak_mb(call: Callable[[], object]) -> float:
    """Largest memory allocated at once, MB."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", type=int, default=5000)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    size = options.size
    scores = np.random.default_rng(0).standard_normal((size, size)).astype(options.dtype)
    relevant = [[column] for column in range(size)]
    found, reference = rank(scores, relevant), searched(scores)
    # sorting breaks ties by the order of columns, which counting must not; elsewhere ranks are equal
    agree = bool(((reference > found.better) & (reference <= found.better + found.equal + 1)).all())
    seconds = timed(
        {"theirs": lambda: searched(scores), "ours": lambda: rank(scores, relevant)}, options.repeats
    )
    print(f"{size} x {size}, {options.dtype}, scores {scores.nbytes / 1e6:.0f} MB; ranks agree: {agree}")
    print(f"median [least, most] of {options.repeats} turns")
    for name, label, call in (
        ("theirs", "argsort and search", lambda: searched(scores)),
        ("ours", "limner", lambda: rank(scores, relevant)),
    ):
        clock, processor = seconds[name].T
        memory = peak_mb(call)
        print(f"{label + ':':<20}{spread(clock)} s, processor {spread(processor)} s, {memory:.1f} MB")
    for kind, theirs, ours in zip(
        ("clock", "processor"), seconds["theirs"].T, seconds["ours"].T, strict=True
    ):
        least = theirs.min() / ours.min()
        print(f"ratio, {kind}: {spread(theirs / ours, '.1f')}; of the least times {least:.1f}")
    assert agree


if __name__ == "__main__":
    main()
