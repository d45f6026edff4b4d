"""Diversity and discrepancy equal brute force over every neighbour, with ragged neighbourhoods too."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from limner.errors import NumericsError, ShapeError
from limner.research.losses import weighting
from limner.research.losses.weighting import (
    best_heads,
    discrepancy,
    diversity,
    fewer,
    means,
    neighbour_matrix,
    sampled_discrepancy,
)


def made(n=17, most=5, width=6, seed=0, *, ragged=True, dtype=torch.float64):
    """A table of neighbours, −1 where a row has fewer, and unit vectors."""
    rng = np.random.default_rng(seed)
    table = np.full((n, most), -1)
    for row in range(n):
        count = int(rng.integers(0, most + 1)) if ragged else most
        table[row, :count] = rng.choice([i for i in range(n) if i != row], count, replace=False)
    vectors = normalize(torch.from_numpy(rng.standard_normal((n, width))).to(dtype), dim=1)
    return torch.from_numpy(table), vectors


def lists(table):
    return [[j for j in row.tolist() if j >= 0] for row in table]


@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
@pytest.mark.parametrize("ragged", [True, False])
def test_diversity_is_the_mean_of_all_similarities(ragged, dtype, close):
    table, vectors = made(ragged=ragged, dtype=dtype)
    found = diversity(neighbour_matrix(table), vectors)
    for row, near in enumerate(lists(table)):
        alike = [float(vectors[a] @ vectors[b]) for a in near for b in near]
        assert float(found[row]) == pytest.approx(np.mean(alike) if alike else 0.0, abs=close)


def test_diversity_of_identical_and_of_orthonormal_neighbours():
    table = torch.tensor([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
    same = torch.eye(5, dtype=torch.float64)[[0, 0, 0, 0]]
    apart = torch.eye(4, dtype=torch.float64)
    assert diversity(neighbour_matrix(table), same).tolist() == pytest.approx([1.0] * 4)
    assert diversity(neighbour_matrix(table), apart).tolist() == pytest.approx([1 / 3] * 4)


@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
@pytest.mark.parametrize("own", ["keep", "drop"])
@pytest.mark.parametrize("seed", range(3))
def test_discrepancy_is_the_mean_over_neighbours_of_neighbours(own, seed, dtype, close):
    table, vectors = made(ragged=False, seed=seed, dtype=dtype)
    found = discrepancy(neighbour_matrix(table), vectors, own=own)
    every = lists(table)
    for row, near in enumerate(every):
        met = [far for middle in near for far in every[middle] if own == "keep" or far != row]
        assert float(found[row]) == pytest.approx(
            np.mean([float(vectors[row] @ vectors[far]) for far in met]), abs=close
        )


def test_of_ragged_neighbourhoods_it_is_the_mean_of_means():
    table, vectors = made(seed=4)
    found = discrepancy(neighbour_matrix(table), vectors)
    every = lists(table)
    for row, near in enumerate(every):
        middle = [vectors[every[j]].mean(dim=0) if every[j] else torch.zeros(6) for j in near]
        due = float(vectors[row] @ torch.stack(middle).mean(dim=0).double()) if near else 0.0
        assert float(found[row]) == pytest.approx(due, abs=1e-9)


@pytest.mark.parametrize("block", [1, 75, 1 << 22])  # rows at once: 1, 3, all
@pytest.mark.parametrize("own", ["keep", "drop"])
def test_unique_counts_every_row_once(own, block, monkeypatch):
    monkeypatch.setattr(weighting, "_BLOCK", block)
    table, vectors = made(seed=5)
    found = discrepancy(neighbour_matrix(table), vectors, own=own, nn="unique")
    every = lists(table)
    for row, near in enumerate(every):
        met = sorted({far for middle in near for far in every[middle] if own == "keep" or far != row})
        due = np.mean([float(vectors[row] @ vectors[far]) for far in met]) if met else 0.0
        assert float(found[row]) == pytest.approx(due, abs=1e-9)


def test_discrepancy_of_an_orthogonal_row_that_is_nobodys_neighbour_is_zero():
    table = torch.tensor([[1, 2], [2, 1], [1, 2]])
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert float(discrepancy(neighbour_matrix(table), vectors)[0]) == 0.0


def test_a_row_that_meets_only_itself_has_nothing_to_compare_with():
    # a mean of three equal vectors is rounded: what is left of row 0 is not exactly nothing
    rounded = torch.from_numpy(np.random.default_rng(0).standard_normal((4, 9))).float()
    hub = neighbour_matrix(torch.tensor([[1, 2, 3], [0, -1, -1], [0, -1, -1], [0, -1, -1]]))
    assert float(discrepancy(hub, rounded, own="drop")[0]) == 0.0
    vectors = torch.eye(2, dtype=torch.float64)
    assert discrepancy(neighbour_matrix(torch.tensor([[1], [0]])), vectors, own="drop").tolist() == [0.0, 0.0]


def test_heads_side_by_side_give_the_mean_of_aligned_heads():
    """Shortcut 10: K heads flattened and divided by √K."""
    table, _ = made(seed=6, ragged=False)
    heads = normalize(
        torch.randn(17, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(6)), dim=2
    )
    found = diversity(neighbour_matrix(table), heads.flatten(1) / 3**0.5)
    for row, near in enumerate(lists(table)):
        due = np.mean([float((heads[a] * heads[b]).sum(dim=1).mean()) for a in near for b in near])
        assert float(found[row]) == pytest.approx(due, abs=1e-9)
    averaged = diversity(neighbour_matrix(table), heads.mean(dim=1))  # shortcut 9: all K² pairs of heads
    near = lists(table)[0]
    due = np.mean([float((heads[a] @ heads[b].T).mean()) for a in near for b in near])
    assert float(averaged[0]) == pytest.approx(due, abs=1e-9)


@pytest.mark.parametrize("ragged", [True, False])
def test_direct_neighbours_are_compared_themselves(ragged):
    table, vectors = made(seed=8, ragged=ragged)
    found = discrepancy(neighbour_matrix(table), vectors, hops=1)
    for row, near in enumerate(lists(table)):
        due = np.mean([float(vectors[row] @ vectors[other]) for other in near]) if near else 0.0
        assert float(found[row]) == pytest.approx(due, abs=1e-9)


def test_a_row_whose_neighbours_point_to_it_differs_from_direct_ones():
    """By hand: 0 and 1 are each other's only neighbours, at a cosine of 0.6."""
    matrix = neighbour_matrix(torch.tensor([[1], [0]]))
    vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    assert discrepancy(matrix, vectors, hops=1).tolist() == pytest.approx([0.6, 0.6])
    assert discrepancy(matrix, vectors).tolist() == pytest.approx([1.0, 1.0])  # the way leads back


def best(first, second):
    """The largest of K² cosines, one after the other."""
    return max(float(a @ b) for a in first for b in second)


@pytest.mark.parametrize("ragged", [True, False])
@pytest.mark.parametrize("block", [1, 1 << 22])
def test_measures_of_the_largest_cosine_compare_every_pair_of_heads(ragged, block, monkeypatch):
    monkeypatch.setattr(weighting, "_BLOCK", block)
    table, _ = made(n=9, most=4, seed=9, ragged=ragged)
    draws = torch.Generator().manual_seed(9)
    heads = normalize(torch.randn(9, 3, 5, dtype=torch.float64, generator=draws), dim=2)
    every = lists(table)
    due = {
        "diverse": [[[best(heads[a], heads[b]) for b in near] for a in near] for near in every],
        "direct": [[[best(heads[row], heads[b]) for b in near]] for row, near in enumerate(every)],
        "far": [
            [[best(heads[row], heads[b]) for b in every[middle]] or [0.0] for middle in near]
            for row, near in enumerate(every)
        ],
    }
    found = {
        "diverse": best_heads(table, heads, diverse=True),
        "direct": best_heads(table, heads, diverse=False, hops=1),
        "far": best_heads(table, heads, diverse=False),
    }
    for name, values in due.items():
        averages = [np.mean([np.mean(part) for part in row]) if row and row[0] else 0.0 for row in values]
        assert found[name].tolist() == pytest.approx(averages, abs=1e-9), name


def test_the_largest_cosine_by_hand_and_of_one_head():
    """Row 0 has heads x and y, row 1 has y and −x: the best of the four cosines is 1, their mean 0."""
    x, y = torch.eye(2)
    heads = torch.stack([torch.stack([x, y]), torch.stack([y, -x])])
    assert best_heads(torch.tensor([[1], [0]]), heads, diverse=False, hops=1).tolist() == [1.0, 1.0]
    table, vectors = made(seed=10)
    matrix = neighbour_matrix(table)
    one = vectors[:, None]
    torch.testing.assert_close(best_heads(table, one, diverse=True), diversity(matrix, vectors))
    torch.testing.assert_close(best_heads(table, one, diverse=False), discrepancy(matrix, vectors))


def test_fewer_neighbours_are_drawn_by_seed_and_never_an_empty_place_before_a_neighbour():
    table, _ = made(n=12, most=7, seed=11)
    assert fewer(table, 7, seed=0) is table
    drawn = fewer(table, 3, seed=0)
    for few, near in zip(lists(drawn), lists(table), strict=True):
        assert len(few) == min(3, len(near))
        assert len(set(few)) == len(few)
        assert set(few) <= set(near)
    assert torch.equal(drawn, fewer(table, 3, seed=0))
    # The first row of a set is a neighbour like any other.
    assert fewer(torch.tensor([[0, -1, 4, -1]]), 2, seed=0).sort().values.tolist() == [[0, 4]]
    assert not torch.equal(drawn, fewer(table, 3, seed=1))


def test_samples_estimate_the_exact_value_and_repeat_by_seed():
    table, vectors = made(n=30, most=6, ragged=False, dtype=torch.float32)
    matrix = neighbour_matrix(table)
    exact = discrepancy(matrix, vectors)
    found = sampled_discrepancy(matrix, vectors, samples=20_000, seed=1)
    assert torch.allclose(found, exact, atol=0.02)
    assert torch.equal(found, sampled_discrepancy(matrix, vectors, samples=20_000, seed=1))
    assert not torch.equal(found, sampled_discrepancy(matrix, vectors, samples=20_000, seed=2))


def test_no_gradient_flows_and_rows_without_neighbours_are_zero():
    table, vectors = made()
    table[0] = -1
    learned = vectors.clone().requires_grad_()
    for score in (diversity, discrepancy):
        found = score(neighbour_matrix(table), learned)
        assert not found.requires_grad
        assert float(found[0]) == 0.0


def test_what_does_not_fit_is_refused():
    table, vectors = made()
    matrix = neighbour_matrix(table)
    assert matrix.indices.dtype == torch.int32
    with pytest.raises(ShapeError, match="neighbour 9 of 2 rows"):
        neighbour_matrix(torch.tensor([[9], [0]]))
    with pytest.raises(ShapeError, match="expected \\(17, H\\)"):
        means(matrix, vectors[:3])
    with pytest.raises(NumericsError, match=r"^neighbourhoods: .* not finite; lower the learning rate$"):
        diversity(matrix, vectors * float("nan"))
    with pytest.raises(ShapeError, match=r"^neighbourhoods: neighbours has shape"):
        neighbour_matrix(table[0])
    with pytest.raises(ShapeError, match=r"^best_heads: heads has shape"):
        best_heads(table, vectors, diverse=True)
    with pytest.raises(ShapeError, match=r"^best_heads: neighbours has shape"):
        best_heads(table[0], vectors[:, None], diverse=True)
    with pytest.raises(ShapeError, match=r"^best_heads: heads .* expected 17"):
        best_heads(table, vectors[:3, None], diverse=True)


def test_known_means_change_nothing():
    rng = np.random.default_rng(4)
    vectors = torch.from_numpy(rng.standard_normal((12, 5)))
    matrix = neighbour_matrix(torch.from_numpy(rng.integers(-1, 12, (12, 4))))
    near = means(matrix, vectors)
    for measure in (diversity, discrepancy):
        torch.testing.assert_close(measure(matrix, vectors, near=near), measure(matrix, vectors))


def test_the_last_rows_may_be_nobodys_neighbours():
    """By hand: 0 and 1 are each other's neighbours, 2 and 3 have 0 alone and nobody has them."""
    matrix = neighbour_matrix(torch.tensor([[1], [0], [0], [0]]))
    vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.8, 0.6]])
    # 2 and 3 reach 1 by way of 0; 0 and 1 reach only themselves
    assert discrepancy(matrix, vectors, own="drop").tolist() == pytest.approx([0, 0, 0.8, 0.96])
    assert discrepancy(matrix, vectors, own="drop", nn="unique").tolist() == pytest.approx([0, 0, 0.8, 0.96])


def test_a_sample_stays_at_a_neighbour_that_has_none():
    """By hand: 0 has only 1, which has none; rows 2 and 3 have each other."""
    matrix = neighbour_matrix(torch.tensor([[1], [-1], [3], [2]]))
    vectors = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.8, 0.6]])
    found = sampled_discrepancy(matrix, vectors, samples=50, seed=0)
    assert found.tolist() == pytest.approx([0.6, 0.0, 1.0, 1.0])
