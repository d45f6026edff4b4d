"""Random batches for the tests of losses: scores of unit vectors, and masks with duplicates."""

import torch

from limner.research.losses.ranking import negatives


def others(size):
    """Everything but the diagonal."""
    return ~torch.eye(size, dtype=torch.bool)


def generator(seed):
    return torch.Generator().manual_seed(seed)


def unit(size, dim, seed=0):
    """(size, dim) unit rows, float64."""
    return torch.nn.functional.normalize(
        torch.randn(size, dim, generator=generator(seed), dtype=torch.float64), dim=1
    )


def score_table(size, seed=0, dim=4):
    """(size, size) cosines, float64."""
    return unit(size, dim, seed) @ unit(size, dim, seed + 1000).t()


def duplicates(size, seed=0):
    """A mask in which some texts and some pictures occur twice."""
    draws = generator(seed + 77)
    return negatives(
        torch.randint(size - 1, (size,), generator=draws), torch.randint(size, (size,), generator=draws)
    )
