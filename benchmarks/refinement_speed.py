"""Selective refinement of all pairs by the outer sum, compared with the obvious loop.

The loop takes one query at a time, repeats its vector beside every picture's and runs the layer on the pairs.
It is timed on a stated number of queries and scaled; both see the same made-up vectors and must agree.
Prints ratios of times taken in turn in one run (median of several) and the peak memory of the fast way. With
one thread, as here by default, seconds are those of the processor, which other work on the machine does not
change; with more they are those of the clock.
"""

import argparse
import json
import time
import tracemalloc

import numpy as np
import torch

from limner.research.evaluation.refinement import OuterSum, Refinement, refine

WIDTH, RELATIONS, STRENGTH = 1024, 7, 0.13


def unit(rows):
    return rows / rows.norm(dim=1, keepdim=True)


def loop(texts, images, layer, scores, queries):
    """Every query refined: [t; v] for all v, the layer, the sigmoid, Equation 4."""
    found = np.empty((queries, len(images)), dtype=np.float32)
    with torch.no_grad():
        for row in range(queries):
            pairs = torch.cat([texts[row].expand(len(images), -1), images], dim=1)  # (M, 2D)
            sure = (layer(pairs).sigmoid() - 0.5).abs()
            found[row] = scores[row] * torch.exp(STRENGTH * sure).sum(dim=1).numpy()
    return found


def fast(texts, images, layer, scores):
    """Two projections and blocks of the outer sum; nothing is prepared beforehand."""
    with torch.no_grad():
        first, second = layer.weight.split(WIDTH, dim=1)
        terms = OuterSum((texts @ first.t() + layer.bias).numpy(), (images @ second.t()).numpy())
    return refine(scores, terms, Refinement(STRENGTH, float("inf")))


def timed(run):
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    found = run()
    return clock() - start, found


def peak(run):
    """Bytes that NumPy asked for, at most, at one time."""
    tracemalloc.start()
    run()
    bytes_ = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return bytes_


def measure(size, subset, repeats):
    generator = torch.Generator().manual_seed(size)
    texts, images = (unit(torch.randn(size, WIDTH, generator=generator)) for _ in range(2))
    layer = torch.nn.Linear(2 * WIDTH, RELATIONS)
    torch.nn.init.normal_(layer.weight, std=0.5, generator=generator)
    scores = (texts @ images.t()).numpy()
    subset = min(subset, size)
    slow_s, fast_s = [], []
    loop(texts, images, layer, scores, 4)
    fast(texts, images, layer, scores)
    for _ in range(repeats):
        seconds, due = timed(lambda: loop(texts, images, layer, scores, subset))
        slow_s.append(seconds * size / subset)
        seconds, found = timed(lambda: fast(texts, images, layer, scores))
        fast_s.append(seconds)
    np.testing.assert_allclose(found[:subset], due, rtol=0, atol=2e-5)
    return {
        "size": size,
        "loop_queries_timed": subset,
        "loop_s": float(np.median(slow_s)),
        "refine_s": float(np.median(fast_s)),
        "ratio": float(np.median(slow_s) / np.median(fast_s)),
        "refine_peak_mb": peak(lambda: fast(texts, images, layer, scores)) / 1e6,
        "result_mb": size * size * 4 / 1e6,
        "all_pairs_2d_mb": size * size * 2 * WIDTH * 4 / 1e6,
        "threads": torch.get_num_threads(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--subset", type=int, default=100, help="queries of the loop that are timed")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of torch; NumPy's blocks use one anyway")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for size in options.sizes:
        print(json.dumps(measure(size, options.subset, options.repeats)), flush=True)


if __name__ == "__main__":
    main()
