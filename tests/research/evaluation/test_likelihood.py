"""How likely whole storyboards are, against all of them written out."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from limner.errors import NumericsError, ShapeError
from limner.research.evaluation.likelihood import (
    ChannelWeights,
    Telling,
    anchor,
    chain,
    fit,
    log_likelihood,
    mixed,
    pin,
    posteriors,
)

STEPS, PICTURES = 3, 4


def drawn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def symmetric(seed, size=PICTURES):
    table = drawn(seed, size, size)
    return table + table.T


def enumerated(form, nats, pair):
    """Log weight of every storyboard; of an anchor summed over the latent pictures."""
    found = {}
    for board in product(range(nats.shape[1]), repeat=len(nats)):
        alone = sum(float(nats[t, x]) for t, x in enumerate(board))
        if form == "chain":
            found[board] = alone + sum(float(pair[a, b]) for a, b in pairwise(board))
        else:
            each = [sum(float(pair[z, x]) for x in board) for z in range(nats.shape[1])]
            found[board] = alone + float(np.logaddexp.reduce(each))
    return found


@pytest.mark.parametrize(("form", "compute"), [("chain", chain), ("anchor", anchor)])
@pytest.mark.parametrize("steps", [1, 2, STEPS])
def test_sums_and_shares_are_those_of_all_storyboards_written_out(form, compute, steps):
    nats, pair = 2 * drawn(0, steps, PICTURES), symmetric(1)
    every = enumerated(form, nats, pair)
    due = np.logaddexp.reduce(list(every.values()))
    total, shares = compute(nats, pair)
    assert float(total) == pytest.approx(due)
    for step in range(steps):
        for picture in range(PICTURES):
            some = [value for board, value in every.items() if board[step] == picture]
            assert float(shares[step, picture]) == pytest.approx(np.logaddexp.reduce(some) - due)
    told = Telling(nats, torch.tensor([2, 0, 3][:steps]))
    found = log_likelihood(form, told, torch.tensor(1.0, dtype=torch.float64), pair)
    assert float(found) == pytest.approx(every[tuple(told.columns.tolist())] - due)
    np.testing.assert_allclose(posteriors(form, told, torch.tensor(1.0), pair), shares)


def test_a_pin_is_a_softmax_over_what_is_left():
    scores, pair = drawn(2, STEPS, PICTURES), symmetric(3)
    told = Telling(scores, torch.tensor([1, 3, 1]))
    found = log_likelihood("pin", told, torch.tensor(2.0, dtype=torch.float64), pair)
    weights = np.exp(2 * scores[1].numpy() + pair[1].numpy())
    weights[1] = 0  # it is shown already; so the third step has no picture to find
    assert float(found) == pytest.approx(np.log(weights[3] / weights.sum()))
    shares = posteriors("pin", told, torch.tensor(2.0), pair)
    np.testing.assert_allclose(shares.exp().sum(dim=1), 1)
    assert (shares[:, 1] == -torch.inf).all()
    np.testing.assert_allclose(
        pin(scores, torch.zeros(PICTURES, dtype=torch.float64)), scores.log_softmax(dim=1)
    )


def stories_of(weights, form, evidence, *, count, seed):
    """Stories drawn from the model itself, by its shares step after step."""
    random, size = np.random.default_rng(seed), evidence.shape[1]
    pair = torch.einsum("k,kij->ij", torch.tensor(weights.pictures, dtype=torch.float64), evidence)
    told = []
    for number in range(count):
        scores = drawn(100 + number, 2, size)
        every = enumerated(form, weights.text * scores, pair)
        values = np.array(list(every.values()))
        shares = np.exp(values - np.logaddexp.reduce(values))
        board = list(every)[random.choice(len(every), p=shares)]
        told.append(Telling(scores, torch.tensor(board)))
    return told


@pytest.mark.slow
@pytest.mark.parametrize("form", ["chain", "anchor"])
def test_the_fit_finds_the_weights_that_drew_the_stories(form):
    evidence = torch.stack([symmetric(4, 5), symmetric(5, 5)])
    due = ChannelWeights(1.5, (0.8, -0.4))
    told = stories_of(due, form, evidence, count=600, seed=1)
    found = fit(form, [(told, evidence)], ChannelWeights(1.0, (0.0, 0.0)))
    assert found.text == pytest.approx(due.text, abs=0.3)
    np.testing.assert_allclose(found.pictures, due.pictures, atol=0.2)

    def likelihood(weights):
        pair = torch.einsum("k,kij->ij", torch.tensor(weights.pictures, dtype=torch.float64), evidence)
        text = torch.tensor(weights.text, dtype=torch.float64)
        return sum(float(log_likelihood(form, one, text, pair)) for one in told)

    best = likelihood(found)
    for step in (-0.05, 0.05):
        assert likelihood(ChannelWeights(found.text + step, found.pictures)) < best
        assert likelihood(ChannelWeights(found.text, (found.pictures[0] + step, found.pictures[1]))) < best


def test_a_pinned_chain_is_a_chain_that_the_given_picture_draws():
    steps = 4
    scores, both = drawn(8, steps, PICTURES), torch.stack([symmetric(9), symmetric(10)])
    told = Telling(scores, torch.tensor([1, 3, 1, 0]))  # the third shows the given picture again: not counted
    one = torch.tensor(1.0, dtype=torch.float64)
    nats = scores + both[1, 1]
    nats[:, 1] = -torch.inf
    every = enumerated("chain", nats[[1, 3]], both[0])
    due = every[3, 0] - np.logaddexp.reduce(list(every.values()))
    assert float(log_likelihood("pinned chain", told, one, both)) == pytest.approx(due)
    every = enumerated("chain", nats[1:], both[0])
    shares = posteriors("pinned chain", told, one, both)
    assert shares.shape == (steps, PICTURES)
    assert shares[0].argmax() == 1
    some = [value for board, value in every.items() if board[1] == 3]
    assert float(shares[2, 3]) == pytest.approx(
        np.logaddexp.reduce(some) - np.logaddexp.reduce(list(every.values()))
    )
    assert (shares[1:, 1] < -1e3).all()
    alone = Telling(scores[:1], torch.tensor([1]))
    assert float(log_likelihood("pinned chain", alone, one, both)) == 0
    assert posteriors("pinned chain", alone, one, both).shape == (1, PICTURES)


def test_kinds_of_evidence_are_weighed_once_or_for_neighbours_and_the_given_picture():
    evidence = torch.stack([symmetric(11), symmetric(12)])
    weights = torch.tensor([0.5, 2.0, -1.0, 3.0], dtype=torch.float64)
    near, given = 0.5 * evidence[0] + 2 * evidence[1], 3 * evidence[1] - evidence[0]
    np.testing.assert_allclose(mixed(weights[:2], evidence), near)
    np.testing.assert_allclose(mixed(weights, evidence), torch.stack([near, given]))


def test_a_fit_of_scores_that_are_not_finite_and_tables_of_other_sizes_are_refused():
    told = [Telling(torch.full((2, 3), torch.nan, dtype=torch.float64), torch.tensor([0, 1]))]
    evidence = torch.zeros(1, 3, 3, dtype=torch.float64)
    with pytest.raises(NumericsError, match="likelihood: chain: not finite"):
        fit("chain", [(told, evidence)], ChannelWeights(1.0, (0.0,)))
    with pytest.raises(ShapeError):
        chain(drawn(0, 2, 3), symmetric(1))
