"""Scores of items with K embeddings, as models/pvse.py computes them, against the bare matrix product.

The bare product is (N·K × D)·(D × M·K) in as many threads, in blocks, nothing kept; beside it the same with
a maximum over K² after every block. Prints the seconds of every round, and ratios of medians and minima.
The ways take turns, so that other work on the machine falls on all of them.
"""

import argparse
import json
import statistics
import time
from types import SimpleNamespace

import numpy as np
import torch

from limner.research.systems.complementary.model import Pvse

BLOCK = 1024


def units(rng, *shape):
    rows = rng.standard_normal(shape, dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows


def product(texts, images):
    """Every product of two heads, in blocks, thrown away."""
    first = torch.from_numpy(texts).flatten(0, 1)
    second = torch.from_numpy(images).flatten(0, 1).t()
    for top in range(0, len(first), BLOCK):
        for left in range(0, second.shape[1], 4 * BLOCK):
            first[top : top + BLOCK] @ second[:, left : left + 4 * BLOCK]


def product_then_maximum(texts, images):
    """The same, and the best of K² of every pair."""
    heads, others = texts.shape[1], images.shape[1]
    first, second = torch.from_numpy(texts), torch.from_numpy(images)
    found = torch.empty(len(texts), len(images))
    rows, columns = BLOCK // heads, 4 * BLOCK // others
    for top in range(0, len(first), rows):
        for left in range(0, len(second), columns):
            one, other = first[top : top + rows], second[left : left + columns]
            table = one.flatten(0, 1) @ other.flatten(0, 1).t()
            table = table.reshape(len(one), heads, len(other), others)
            found[top : top + rows, left : left + columns] = table.amax(dim=(1, 3))
    return found.numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=5000)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--heads", type=int, default=5)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rng = np.random.default_rng(0)
    texts = units(rng, options.texts, options.heads, options.dim)
    images = units(rng, options.images, options.heads, options.dim)
    ours = SimpleNamespace()  # `score` uses nothing of the model
    ways = {
        "limner": lambda: Pvse.score(ours, texts, images),
        "product": lambda: product(texts, images),
        "product then maximum": lambda: product_then_maximum(texts, images),
    }
    some = texts[:50], images[:70]
    np.testing.assert_allclose(Pvse.score(ours, *some), product_then_maximum(*some), atol=1e-6)
    seconds = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - start)
    median = {name: statistics.median(times) for name, times in seconds.items()}
    least = {name: min(times) for name, times in seconds.items()}
    print(
        json.dumps(
            {
                "threads": options.threads,
                "seconds": {name: [round(one, 2) for one in times] for name, times in seconds.items()},
                "limner_over_product": round(median["limner"] / median["product"], 3),
                "of_the_least": round(least["limner"] / least["product"], 3),
                "product_then_maximum_over_limner": round(
                    median["product then maximum"] / median["limner"], 3
                ),
            }
        )
    )


if __name__ == "__main__":
    main()
