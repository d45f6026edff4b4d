"""Diversity and discrepancy of all pairs in a few passes, compared with gathering for every batch.

The slow way is the paper's: for every batch of an epoch it gathers all neighbours of each row for DIV, and
samples neighbours of neighbours for DIS. It is timed on a stated number of batches and scaled to the epoch.
Vectors and graph are drawn with clusters; the building of a graph is not timed. DIV must agree, and exact DIS
with all N² neighbours of neighbours of a few rows. Prints the ratio, the peak memory of the process after
each way, and the error of the sampled DIS. With one thread seconds are those of the processor, else of the
clock.
"""

import argparse
import json
import resource
import time

import numpy as np
import torch
from scipy.stats import spearmanr
from torch.nn.functional import normalize

from limner.research.losses.weighting import discrepancy, diversity, means, neighbour_matrix

CLUSTER = 1000  # rows of one cluster


def drawn_graph(rows, size, rng):
    """(n, N): neighbours drawn from a row's cluster and, seldom, from the next; numbers say nothing."""
    order = rng.permutation(rows)
    clusters = np.array_split(order, max(1, rows // CLUSTER))
    table = np.empty((rows, size), np.int64)
    for own, following in zip(clusters, clusters[1:] + clusters[:1], strict=True):
        pool = np.concatenate([own, following])
        keys = rng.random((len(own), len(pool)), dtype=np.float32)
        keys[:, len(own) :] += 0.15
        keys[np.arange(len(own)), np.arange(len(own))] = np.inf
        table[own] = pool[np.argpartition(keys, size - 1, axis=1)[:, :size]]
    return torch.from_numpy(table), clusters


def drawn_vectors(clusters, rows, width, seed):
    """(n, H) unit rows around centres; clusters differ in how tight they are."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.empty(rows, width)
    for members in clusters:
        centre = normalize(torch.randn(width, generator=generator), dim=0)
        spread = 0.3 + 1.5 * torch.rand((), generator=generator)
        noise = torch.randn(len(members), width, generator=generator) / width**0.5
        vectors[torch.from_numpy(members)] = normalize(centre + spread * noise, dim=1)
    return vectors


def fast(neighbours, modalities):
    """DIV and DIS of all rows in every modality; the table becomes a matrix within the time."""
    matrix = neighbour_matrix(neighbours)
    found = []
    for vectors in modalities:
        near = means(matrix, vectors)
        div = diversity(matrix, vectors, near=near)
        found.append((div, discrepancy(matrix, vectors, near=near)))
    return found


def gathered_div(neighbours, vectors, rows):
    """Mean of s sᵀ for the gathered neighbours s of every row of a batch."""
    near = vectors[neighbours[rows]]  # (B, N, H)
    return torch.bmm(near, near.transpose(1, 2)).mean(dim=(1, 2))


def gathered_dis(neighbours, vectors, rows, samples, generator):
    """Mean similarity with sampled neighbours of neighbours of every row of a batch."""
    size = neighbours.shape[1]
    first, second = torch.randint(size, (2, len(rows), samples), generator=generator)
    beyond = neighbours[neighbours[rows[:, None], first], second]
    near = vectors[beyond]  # (B, samples, H)
    return torch.bmm(near, vectors[rows][:, :, None]).mean(dim=(1, 2))


def timed(call):
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    found = call()
    return clock() - start, found


def peak_gb():
    """Largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def measure(options):
    n = options.size
    neighbours, clusters = drawn_graph(n, options.neighbours, np.random.default_rng(0))
    modalities = [drawn_vectors(clusters, n, options.width, seed) for seed in (1, 2)]
    held = peak_gb()
    fast_s, exact = timed(lambda: fast(neighbours, modalities))
    fast_peak = peak_gb()

    generator = torch.Generator().manual_seed(0)
    epoch = torch.randperm(n, generator=generator).split(options.batch)
    batches = epoch[: options.batches]
    gathered_dis(neighbours, modalities[0], batches[0][:4], options.samples, generator)
    div_s = dis_s = 0.0
    exact_dis, sampled_dis = [], []
    for rows in batches:
        for vectors, (div, dis) in zip(modalities, exact, strict=True):
            seconds, found = timed(lambda: gathered_div(neighbours, vectors, rows))  # noqa: B023
            div_s += seconds
            torch.testing.assert_close(found, div[rows], rtol=1e-4, atol=1e-6)
            seconds, found = timed(
                lambda: gathered_dis(neighbours, vectors, rows, options.samples, generator)  # noqa: B023
            )
            dis_s += seconds
            exact_dis.append(dis[rows])
            sampled_dis.append(found)
    scale = n / sum(len(rows) for rows in batches)
    div_s, dis_s = div_s * scale, dis_s * scale
    slow_peak = peak_gb()
    for vectors, (_, dis) in zip(modalities, exact, strict=True):
        for row in batches[0][:3].tolist():
            due = (vectors[neighbours[neighbours[row]].flatten()] @ vectors[row]).mean()
            torch.testing.assert_close(dis[row], due, rtol=1e-4, atol=1e-6)
    true, guess = torch.cat(exact_dis).numpy(), torch.cat(sampled_dis).numpy()
    error = guess - true
    return {
        "n": n,
        "neighbours": options.neighbours,
        "width": options.width,
        "threads": torch.get_num_threads(),
        "exact_s": fast_s,
        "batches_timed": len(batches),
        "batches_of_an_epoch": len(epoch),
        "gathered_div_s_scaled": div_s,
        "sampled_dis_s_scaled": dis_s,
        "ratio": (div_s + dis_s) / fast_s,
        "inputs_peak_gb": held,
        "exact_peak_gb": fast_peak,
        "gathered_peak_gb": slow_peak,
        "dis_mean": float(true.mean()),
        "dis_deviation_over_rows": float(true.std()),
        "sampled_dis_rms_error": float(np.sqrt((error**2).mean())),
        "sampled_dis_rms_error_in_deviations": float(np.sqrt((error**2).mean()) / true.std()),
        "sampled_dis_bias": float(error.mean()),
        "sampled_dis_spearman": float(spearmanr(true, guess).statistic),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=100_000, help="n, pairs")
    parser.add_argument("--neighbours", type=int, default=200, help="N")
    parser.add_argument("--width", type=int, default=1024, help="H")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--batches", type=int, default=4, help="of the slow way that are timed")
    parser.add_argument("--samples", type=int, default=1000, help="neighbours of neighbours per row")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(json.dumps(measure(options), indent=1))


if __name__ == "__main__":
    main()
