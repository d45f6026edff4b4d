"""How quick the research's own computations are, each against the obvious loop that gives the same.

Makes: docs/results/speed.md (refinement, ranks, diversity and discrepancy, decoding)

    python benchmarks/research_speed.py
    python benchmarks/research_speed.py refinement --size 500 --rounds 5

Vectors and scores are made up, and both ways must agree. A loop that would take hours does a stated part of
the work, and its time is scaled. Prints medians, the ratio by the clock and of the processor, and the most
memory of NumPy's arrays that limner's way takes at a time.
"""

import argparse
import tracemalloc

import numpy as np
import torch
from harness import in_turn, load
from torch.nn.functional import normalize

from limner.research.evaluation.decoding import max_marginals
from limner.research.evaluation.ranking import rank
from limner.research.evaluation.refinement import OuterSum, Refinement, refine
from limner.research.losses.weighting import discrepancy, diversity, means, neighbour_matrix

RELATIONS, STRENGTH, NEIGHBOURS, SAMPLES, BATCH = 7, 0.13, 200, 1000, 128


def rows(count, width, seed):
    """(count, width) unit rows."""
    return normalize(torch.randn(count, width, generator=torch.Generator().manual_seed(seed)), dim=1)


# Each makes limner's way, the loop, a check that both agree, and what the loop's time is multiplied by.


def refinement(size, width, part):
    """CMCM's refinement: [t; v] for all v, the layer, the sigmoid (Equation 4), against two projections."""
    texts, images = rows(size, width, 0), rows(size, width, 1)
    layer = torch.nn.Linear(2 * width, RELATIONS).requires_grad_(requires_grad=False)
    torch.nn.init.normal_(layer.weight, std=0.5, generator=torch.Generator().manual_seed(2))
    scores, queries = (texts @ images.t()).numpy(), min(part, size)

    def limner():
        first, second = layer.weight.split(width, dim=1)
        terms = OuterSum((texts @ first.t() + layer.bias).numpy(), (images @ second.t()).numpy())
        return refine(scores, terms, Refinement(STRENGTH, float("inf")))

    def plain():
        found = np.empty((queries, size), dtype=np.float32)
        for row in range(queries):
            sure = (layer(torch.cat([texts[row].expand(size, -1), images], dim=1)).sigmoid() - 0.5).abs()
            found[row] = scores[row] * torch.exp(STRENGTH * sure).sum(dim=1).numpy()
        return found

    def agree(ours, due):
        np.testing.assert_allclose(ours[:queries], due, rtol=0, atol=2e-5)

    return limner, plain, agree, size / queries


def ranks(size, width, part):
    """Ranks of a square gallery: counting against sorting every row and searching it."""
    scores = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    relevant = [[column] for column in range(size)]

    def plain():
        orders = (np.argsort(row)[::-1] for row in scores)
        return np.array([np.where(order == row)[0][0] + 1 for row, order in enumerate(orders)])

    def agree(ours, due):  # sorting breaks ties by the order of columns, which counting must not
        assert ((due > ours.better) & (due <= ours.better + ours.equal + 1)).all()

    return lambda: rank(scores, relevant), plain, agree, 1.0


def neighbourhoods(size, width, part):
    """Diversity and discrepancy of all pairs in a few passes, against gathering neighbours for every batch.

    The loop takes a thousand neighbours of neighbours by chance, as the paper does; diversity must agree.
    """
    vectors, near = rows(size, width, 0), min(NEIGHBOURS, size)
    draws = torch.Generator().manual_seed(1)
    table = torch.empty(size, near, dtype=torch.int64)
    for own in torch.randperm(size, generator=draws).chunk(max(1, size // 1000)):
        table[own] = own[torch.rand(len(own), len(own), generator=draws).topk(near).indices]
    some = torch.randperm(size, generator=draws)[:part]

    def limner():
        matrix = neighbour_matrix(table)
        middles = means(matrix, vectors)
        found = diversity(matrix, vectors, near=middles)
        discrepancy(matrix, vectors, near=middles)
        return found

    def plain():
        found = []
        for batch in some.split(BATCH):
            around = vectors[table[batch]]
            found.append(torch.bmm(around, around.transpose(1, 2)).mean(dim=(1, 2)))
            first, second = torch.randint(near, (2, len(batch), SAMPLES), generator=draws)
            beyond = vectors[table[table[batch[:, None], first], second]]
            torch.bmm(beyond, vectors[batch][:, :, None]).mean(dim=(1, 2))
        return torch.cat(found)

    def agree(ours, due):
        torch.testing.assert_close(ours[some], due, rtol=1e-4, atol=1e-6)

    return limner, plain, agree, size / len(some)


def decoding(size, width, part):
    """Max-marginals of a chain of ten steps over a gallery, against a loop over steps and pairs."""
    rng, steps, gallery = np.random.default_rng(0), 10, min(size, 60)
    vectors, unary = 1.5 * rows(gallery, width, 0).numpy(), rng.normal(size=(10, gallery))
    pair = (vectors @ vectors.T).astype(np.float64)

    def plain():
        ahead, behind = unary.copy(), unary.copy()
        for s in range(1, steps):
            for here in range(gallery):
                behind[s, here] += (behind[s - 1] + pair[:, here]).max()
        for s in range(steps - 2, -1, -1):
            for here in range(gallery):
                ahead[s, here] += (ahead[s + 1] + pair[:, here]).max()
        return ahead + behind - unary

    def agree(ours, due):
        np.testing.assert_allclose(ours, due, rtol=1e-5, atol=1e-5)

    return lambda: max_marginals(unary, pair, "chain"), plain, agree, 1.0


# Name → the computation, its size, and how many rows the loop does.
KERNELS = {
    "refinement": (refinement, 2_000, 100),
    "ranks": (ranks, 5_000, 0),
    "neighbourhoods": (neighbourhoods, 100_000, 512),
    "decoding": (decoding, 60, 0),
}


def measure(name, rounds, size=None, width=1024):
    """A line of the table."""
    make, usual, part = KERNELS[name]
    limner, plain, agree, scale = make(size or usual, width, part)
    tracemalloc.start()
    found = limner()
    arrays_mb = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    agree(found, plain())
    times = in_turn({"limner": lambda number: limner(), "plain": lambda number: plain()}, rounds)
    ours, theirs = times["limner"], times["plain"]
    busy = scale * theirs.processor_median_s / ours.processor_median_s
    return (
        f"{name}: {1000 * ours.median_s:.1f} ms; the loop {scale * theirs.median_s:.2f} s,"
        f" {scale * theirs.median_s / ours.median_s:.1f} × (processor {busy:.1f} ×);"
        f" NumPy's arrays {arrays_mb:.0f} MB"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernels", nargs="*", choices=[[], *KERNELS], help="all of them by default")
    parser.add_argument("--size", type=int, help="texts, and pictures")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.kernels or KERNELS:
        print(measure(name, options.rounds, options.size), flush=True)
    print(load())


if __name__ == "__main__":
    main()
