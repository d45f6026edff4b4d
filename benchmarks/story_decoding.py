"""Decoding stories over a whole gallery: time and memory against the number of steps and of stories.

Every picture is a candidate of every step; scores and vectors are made up, with pictures in worlds that steps
of a story share. Chain and anchor rank all pictures for all steps by max-marginals and choose one for each,
without repeats; "off" chooses without any pull. Pair scores come in blocks, as products of vectors. Prints
milliseconds per story, the slope of their logarithm over that of the steps (1 is linear, less where making
pair scores weighs; the exact chain stops at a fixed amount of work), the ratio to a loop over steps and pairs
of pictures that must give the same marginals, and the peak of arrays in decoding one story, and all.
"""

import argparse
import json
import time
import tracemalloc

import numpy as np

from limner.research.evaluation.decoding import decode, max_marginals
from limner.research.evaluation.lattice import lattice

WORLD = 12  # pictures of one world


class VectorPull:
    """Products of vectors, a block at a time."""

    def __init__(self, vectors):
        self.vectors = vectors

    def block(self, rows, columns):
        """(R,) and (Q,) candidate numbers → (R, Q)."""
        return (self.vectors[rows] @ self.vectors[columns].T).astype(np.float64)


def gallery(pictures, width, rng):
    """(M, D) vectors of worlds, scaled so that the pull weighs about as much as a step's own score."""
    worlds = rng.normal(size=(-(-pictures // WORLD), width))
    vectors = rng.normal(size=(pictures, width)) + 1.5 * worlds[np.arange(pictures) // WORLD]
    return (1.5 * vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def story(steps, pictures, rng):
    """(S, M) scores: noise, and a world that suits all steps a little."""
    unary = rng.normal(size=(steps, pictures))
    unary[:, np.arange(pictures) // WORLD == rng.integers(0, -(-pictures // WORLD))] += 1
    return unary


def plain_marginals(problem, decoder):
    """The same by loops over steps and candidates."""
    unary, items, pair = problem.unary, problem.items, problem.pair
    steps, width = unary.shape
    if decoder == "anchor":
        best = np.full((steps, width), -np.inf)
        for anchor in items[0]:
            pull = np.array([[pair.block(items[s, c : c + 1], np.array([anchor]))[0, 0] for c in range(width)]
                             for s in range(steps)])  # fmt: skip
            values = unary + pull
            total = values.max(axis=1).sum()
            for s in range(steps):
                best[s] = np.maximum(best[s], total - values[s].max() + values[s])
        return best
    ahead, behind = unary.copy(), unary.copy()
    for s in range(1, steps):
        for here in range(width):
            column = pair.block(items[s - 1], items[s, here : here + 1])[:, 0]
            behind[s, here] += (behind[s - 1] + column).max()
    for s in range(steps - 2, -1, -1):
        for here in range(width):
            column = pair.block(items[s + 1], items[s, here : here + 1])[:, 0]
            ahead[s, here] += (ahead[s + 1] + column).max()
    return ahead + behind - unary


WAYS = {
    "chain, all ranked": lambda problem: max_marginals(problem, "chain"),
    "anchor, all ranked": lambda problem: max_marginals(problem, "anchor"),
    "off, chosen": lambda problem: decode(problem, "off"),
    "chain, chosen": lambda problem: decode(problem, "chain"),
    "anchor, chosen": lambda problem: decode(problem, "anchor"),
}


def run(way, vectors, stories):
    """Decode stories one after the other; seconds of each."""
    seconds = []
    for unary in stories:
        problem = lattice(unary, np.arange(len(vectors)), VectorPull(vectors))
        start = time.perf_counter()
        way(problem)
        seconds.append(time.perf_counter() - start)
    return seconds


def peak_mb(way, vectors, stories):
    """Greatest memory of arrays while stories are decoded, above what is there before."""
    tracemalloc.start()
    try:
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        run(way, vectors, stories)
        return (tracemalloc.get_traced_memory()[1] - held) / 1e6
    finally:
        tracemalloc.stop()


def measure(options):
    rng = np.random.default_rng(0)
    vectors = gallery(options.pictures, options.width, rng)
    found = {"pictures": options.pictures, "stories": options.stories, "steps": options.steps, "ways": {}}
    stories = {
        steps: [story(steps, options.pictures, rng) for _ in range(options.stories)]
        for steps in options.steps
    }
    for name, way in WAYS.items():
        run(way, vectors, stories[options.steps[0]][:1])
        medians = [float(np.median(run(way, vectors, stories[steps]))) for steps in options.steps]
        slope = np.polyfit(np.log(options.steps), np.log(medians), 1)[0] if len(options.steps) > 1 else None
        found["ways"][name] = {
            "ms_per_story": [round(1e3 * one, 2) for one in medians],
            "slope": None if slope is None else round(float(slope), 2),
            "peak_mb_by_steps": [round(peak_mb(way, vectors, stories[s][:1]), 2) for s in options.steps],
            "peak_mb_of_one_and_all_stories": [
                round(peak_mb(way, vectors, stories[options.steps[0]][:count]), 2)
                for count in (1, options.stories)
            ],
        }
    small = gallery(options.plain_pictures, options.width, rng)
    unary = story(options.plain_steps, options.plain_pictures, rng)
    problem = lattice(unary, np.arange(len(small)), VectorPull(small))
    found["times_a_plain_loop"] = {}
    for decoder in ("chain", "anchor"):
        start = time.perf_counter()
        due = plain_marginals(problem, decoder)
        plain_s = time.perf_counter() - start
        max_marginals(problem, decoder)
        start = time.perf_counter()
        ours = max_marginals(problem, decoder)
        found["times_a_plain_loop"][decoder] = round(plain_s / (time.perf_counter() - start), 1)
        np.testing.assert_allclose(ours, due, rtol=1e-5, atol=1e-5)
    return found


def parsed(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=600, help="M, all of them candidates of every step")
    parser.add_argument("--stories", type=int, default=12)
    parser.add_argument("--steps", type=int, nargs="+", default=[5, 10, 20, 40])
    parser.add_argument("--width", type=int, default=256, help="D of the vectors that pictures agree by")
    parser.add_argument("--plain-pictures", type=int, default=60, help="M of the plain loop")
    parser.add_argument("--plain-steps", type=int, default=10, help="S of the plain loop")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    print(json.dumps(measure(parsed()), indent=1))
