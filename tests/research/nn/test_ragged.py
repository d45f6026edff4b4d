"""Recurrences over ragged sequences are those over each alone, in value and slope."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from limner.errors import ShapeError
from limner.research.nn.words import read_both_ways, read_forward

READ = {"both": read_both_ways, "forward": read_forward}


def recurrence(way, seed=0):
    torch.manual_seed(seed)
    return torch.nn.LSTM(4, 3, num_layers=2, batch_first=True, bidirectional=way == "both")


@pytest.mark.parametrize("way", READ)
@given(counts=st.lists(st.integers(1, 12), min_size=1, max_size=7), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_sequences_are_read_as_each_alone(way, counts, seed):
    own = recurrence(way, seed)
    rows = torch.randn(sum(counts), 4)
    alone = [own(part[None])[0][0] for part in rows.split(counts)]
    torch.testing.assert_close(READ[way](own, rows, torch.tensor(counts)), torch.cat(alone))


def test_slopes_are_those_of_packed_sequences():
    counts = [2, 9, 1, 3, 8]
    slopes = []
    for packed in (True, False):
        own = recurrence("forward")
        rows = torch.randn(sum(counts), 4, generator=torch.Generator().manual_seed(1), requires_grad=True)
        if packed:
            padded = pad_sequence(list(rows.split(counts)), batch_first=True)
            given = pack_padded_sequence(padded, torch.tensor(counts), batch_first=True, enforce_sorted=False)
            read, _ = pad_packed_sequence(own(given)[0], batch_first=True)
            found = torch.cat([read[row, :count] for row, count in enumerate(counts)])
        else:
            found = read_forward(own, rows, torch.tensor(counts))
        (found.square() * torch.arange(float(len(found)))[:, None]).sum().backward()
        slopes.append([rows.grad, *(weight.grad for weight in own.parameters())])
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other)


def test_sequences_of_like_length_are_read_together():
    own = recurrence("forward")
    shapes = []
    own.register_forward_pre_hook(lambda _, given: shapes.append(tuple(given[0].shape[:2])))
    read_forward(own, torch.zeros(10 + 12 + 8 + 7 + 2 + 2, 4), torch.tensor([10, 12, 8, 7, 2, 2]))
    assert shapes == [(3, 12), (1, 7), (2, 2)]


@pytest.mark.parametrize("way", READ)
@pytest.mark.parametrize("counts", [[], [6, 0], [5], [7], [8, -2]])
def test_counts_that_do_not_fit_are_refused(way, counts):
    for rows, steps in ((torch.zeros(6, 4), counts), (torch.zeros(6), [6])):
        with pytest.raises(ShapeError, match="S in all"):
            READ[way](recurrence(way), rows, torch.tensor(steps, dtype=torch.int64))
