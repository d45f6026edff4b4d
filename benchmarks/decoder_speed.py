"""Decoders: 30 steps of 200 candidates, compared with the plain loop over steps and pairs.

Prints each decoder's time, its ratio to a Python Viterbi loop that ignores repeats, and whether its
answer is proven best. Scores are made up: own candidates per step, and candidates shared by all.
"""

import argparse
import time

import numpy as np

from limner.retrieval.decoding import DECODERS, decode
from limner.retrieval.lattice import TablePull, lattice

STEPS, CANDIDATES = 30, 200


def story(total, seed=0):
    """Candidates in 40 looks; every step prefers some, and looks agree."""
    rng = np.random.default_rng(seed)
    looks = rng.normal(size=(40, 32))
    vectors = rng.normal(size=(total, 32)) + 2 * looks[rng.integers(0, 40, total)]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    own = np.arange(STEPS * CANDIDATES).reshape(STEPS, CANDIDATES)
    shared = np.array([rng.permutation(total)[:CANDIDATES] for _ in range(STEPS)])
    items = own if total == STEPS * CANDIDATES else shared
    liked = 2 * rng.normal(size=total)
    unary = liked[items] + rng.normal(size=items.shape)
    return lattice(unary, np.arange(total), TablePull(4 * vectors @ vectors.T), items=items)


def plain(problem):
    """O(S·K²) Viterbi in plain Python, repeats allowed."""
    unary, items, table = problem.unary.tolist(), problem.items.tolist(), problem.pair.table
    values = unary[0]
    for s in range(1, STEPS):
        pairs = table[np.ix_(items[s - 1], items[s])].tolist()
        values = [
            unary[s][j] + max(values[i] + pairs[i][j] for i in range(CANDIDATES)) for j in range(CANDIDATES)
        ]
    return max(values)


def best_of(rounds, call):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return min(times), result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    for name, total in (("own candidates", STEPS * CANDIDATES), ("2,000 shared", 2_000)):
        problem = story(total)
        loop, _ = best_of(rounds, lambda problem=problem: plain(problem))
        print(f"{name}: {STEPS} steps x {CANDIDATES}; plain loop {loop * 1e3:.0f} ms")
        for decoder in DECODERS:
            took, answer = best_of(rounds, lambda p=problem, d=decoder: decode(p, d))
            proof = (
                "proven best" if answer.exact else f"at most {answer.bound - answer.objective:.2f} nats short"
            )
            print(f"  {decoder:7s} {took * 1e3:8.1f} ms; loop / decoder {loop / took:8.1f}; {proof}")
