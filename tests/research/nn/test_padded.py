"""Padded rows are read as packed ones, in value and slope."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from limner.errors import ShapeError
from limner.research.nn.words import last_states, states

KINDS = {"gru": nn.GRU, "lstm": nn.LSTM}


def packed(own, padded, lengths):
    """Every state, and the last of both directions side by side."""
    given = pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
    out, final = own(given)
    final = final[0] if isinstance(own, nn.LSTM) else final
    whole, _ = pad_packed_sequence(out, batch_first=True, total_length=padded.shape[1])
    return whole, torch.cat(list(final), dim=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("both", [True, False])
@given(
    counts=st.lists(st.integers(1, 14), min_size=1, max_size=8), more=st.integers(0, 3), bias=st.booleans()
)
@settings(max_examples=25, deadline=None)
def test_values_and_slopes_are_those_of_packed_rows(kind, both, counts, more, bias):
    torch.manual_seed(len(counts))
    own = KINDS[kind](3, 4, batch_first=True, bidirectional=both, bias=bias).double()
    lengths = torch.tensor(counts)
    slopes = []
    for whole_of, last_of in ((lambda *a: packed(*a)[0], lambda *a: packed(*a)[1]), (states, last_states)):
        own.zero_grad()
        rows = torch.randn(
            len(counts),
            max(counts) + more,
            3,
            generator=torch.Generator().manual_seed(1),
            dtype=torch.float64,
        ).requires_grad_()
        whole, last = whole_of(own, rows, lengths), last_of(own, rows, lengths)
        ((whole * torch.arange(whole.shape[2])).square().sum() + last.sin().sum()).backward()
        slopes.append([whole.detach(), last.detach(), rows.grad, *(w.grad for w in own.parameters())])
    for due, found in zip(*slopes, strict=True):
        torch.testing.assert_close(found, due)


def test_padding_has_no_influence():
    own = nn.GRU(3, 4, batch_first=True, bidirectional=True)
    rows, lengths = torch.randn(3, 6, 3), torch.tensor([6, 1, 4])
    other = rows.clone()
    other[1, 1:] = 7
    other[2, 4:] = torch.inf
    assert torch.equal(states(own, rows, lengths), states(own, other, lengths))
    assert torch.equal(last_states(own, rows, lengths), last_states(own, other, lengths))


def test_what_does_not_fit_is_refused():
    own, rows = nn.GRU(3, 4, batch_first=True), torch.zeros(2, 5, 3)
    for function in (states, last_states):
        with pytest.raises(ShapeError, match="outside 1…5"):
            function(own, rows, torch.tensor([0, 5]))
        with pytest.raises(ShapeError, match="outside 1…5"):
            function(own, rows, torch.tensor([6, 5]))
        with pytest.raises(ShapeError, match="lengths has shape"):
            function(own, rows, torch.tensor([5]))
