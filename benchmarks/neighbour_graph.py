"""Neighbour graphs: the searched one (HNSW) against comparing all with all, in one run.

Prints the ratio of their times, the recall of the searched one over 1,000 rows drawn at random, and peak
memory. Vectors are made up: rows around many centres, as vectors of texts are.

    python benchmarks/neighbour_graph.py
"""

import argparse
import resource
import time

import numpy as np

from limner.research.datasets.neighbours import build_graph


def made_up(rows, width, seed):
    """(rows, width) float32 around one centre per forty rows."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(2, rows // 40), width), dtype=np.float32)
    return centres[rng.integers(0, len(centres), rows)] + rng.standard_normal((rows, width), dtype=np.float32)


def timed(vectors, size, method):
    ids = np.arange(len(vectors))
    began = time.perf_counter()
    graph = build_graph(vectors, size=size, text_ids=ids, image_ids=ids, method=method)
    return time.perf_counter() - began, graph


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--neighbours", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    vectors = made_up(options.rows, options.width, options.seed)
    searched_s, searched = timed(vectors, options.neighbours, "hnsw")
    exact_s, exact = timed(vectors, options.neighbours, "exact")
    some = np.random.default_rng(options.seed).permutation(len(vectors))[:1000]
    found = np.mean([np.isin(exact[row], searched[row]).mean() for row in some])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{options.rows:,} rows of {options.width}, {options.neighbours} neighbours:"
        f" searched {searched_s:.0f} s, exact {exact_s:.0f} s, ratio {exact_s / searched_s:.2f} x;"
        f" recall {found:.4f}; peak {peak:.1f} GB"
    )


if __name__ == "__main__":
    main()
