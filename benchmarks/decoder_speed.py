"""Decoders: 30 steps of 200 candidates, compared with the plain loop over steps and pairs; then long texts.

    python benchmarks/decoder_speed.py [--long 200 400 1000]

Prints each decoder's time, its ratio to a Python Viterbi loop that ignores repeats, and whether its
answer is proven best. Scores are made up: own candidates per step, and candidates shared by all. Long texts
have 5,000 pictures in 40 looks; anchor is compared with an assignment, from scratch, of every anchor whose
bound without the rule against repeats is above the best found (as many as 20 s allow).
"""

import argparse
import time

import numpy as np

from limner.research.evaluation.decoding import DECODERS, decode
from limner.research.evaluation.lattice import assign, lattice

STEPS, CANDIDATES, PICTURES = 30, 200, 5_000


class TablePairwise:
    """Pairwise terms from a symmetric table of candidates, nats."""

    def __init__(self, table):
        self.table = table

    def block(self, rows, columns):
        """Candidate numbers (R,) and (Q,) → (R, Q) nats."""
        return np.asarray(self.table[np.ix_(rows, columns)], dtype=np.float64)


def story(total, seed=0, steps=STEPS):
    """Candidates in 40 looks; every step prefers some, and looks agree."""
    rng = np.random.default_rng(seed)
    looks = rng.normal(size=(40, 32))
    vectors = rng.normal(size=(total, 32)) + 2 * looks[rng.integers(0, 40, total)]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    own = np.arange(steps * CANDIDATES).reshape(steps, CANDIDATES)
    shared = np.array([rng.permutation(total)[:CANDIDATES] for _ in range(steps)])
    items = own if total == steps * CANDIDATES else shared
    liked = 2 * rng.normal(size=total)
    unary = liked[items] + rng.normal(size=items.shape)
    return lattice(unary, np.arange(total), TablePairwise(4 * vectors @ vectors.T), items=items)


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


def from_scratch(problem, limit_s=20.0):
    """Objective and proof of the anchor decoder as it was: assignments in order of their bounds."""
    start = time.perf_counter()
    anchors = np.unique(problem.items)
    bounds = np.array(
        [np.maximum((problem.unary + problem.pairwise(a)).max(axis=1), problem.blank).sum() for a in anchors]
    )
    best, solved = -np.inf, 0
    for number in np.argsort(-bounds):
        if bounds[number] <= best:
            return best, f"proven best after {solved} assignments"
        if time.perf_counter() - start > limit_s:
            return (
                best,
                f"given up after {solved} assignments; at most {bounds[number] - best:.2f} nats short",
            )
        values = problem.unary + problem.pairwise(int(anchors[number]))
        best, solved = max(best, assign(values, problem.group, problem.blank)[1]), solved + 1
    return best, f"proven best after {solved} assignments"


def proof_of(answer):
    """Whether a choice is proven best, in words."""
    gap = answer.bound - answer.objective
    return "proven best" if answer.exact else f"at most {gap:.2f} nats short of {answer.objective:.0f}"


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
    parser.add_argument("--long", type=int, nargs="*", default=[200, 400, 1_000])
    asked = parser.parse_args()
    for name, total in (("own candidates", STEPS * CANDIDATES), ("2,000 shared", 2_000)):
        problem = story(total)
        loop, _ = best_of(asked.rounds, lambda problem=problem: plain(problem))
        print(f"{name}: {STEPS} steps x {CANDIDATES}; plain loop {loop * 1e3:.0f} ms")
        for decoder in DECODERS:
            took, answer = best_of(asked.rounds, lambda p=problem, d=decoder: decode(p, d))
            print(
                f"  {decoder:7s} {took * 1e3:8.1f} ms; loop / decoder {loop / took:8.1f}; {proof_of(answer)}"
            )
    for steps in asked.long:
        problem = story(PICTURES, steps=steps)
        print(f"{steps} steps x {CANDIDATES} of {PICTURES:,} pictures")
        for decoder in ("anchor", "chain"):
            took, answer = best_of(1, lambda p=problem, d=decoder: decode(p, d))
            print(f"  {decoder:14s} {took:6.2f} s; {proof_of(answer)}", flush=True)
        took, (value, proof) = best_of(1, lambda p=problem: from_scratch(p))
        print(f"  anchor, before {took:6.2f} s; {value:.2f}; {proof}", flush=True)
