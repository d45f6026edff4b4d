"""Recurrences over sequences that lie one after the other, none of whose steps hears padding.

Both ways needs packed sequences. One way does not, and there packing is dear on a CPU: its backward pass
writes all rows anew for every step, so sequences of similar length are padded together instead. No weights
of its own.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from limner.errors import ShapeError

WASTE = 1.5  # the longest sequence of a group is at most this many times as long as the shortest


def read_both_ways(recurrence: nn.LSTM, rows: Tensor, counts: Sequence[int]) -> Tensor:
    """Run an LSTM that reads both ways over B sequences, from a zero state each.

    Args:
        recurrence: `batch_first`.
        rows: (N, W) the sequences one after the other.
        counts: B of them, at least 1 each, with sum N; short ones, since they are packed.
    Returns:
        (N, 2·H) its outputs in the order of the rows.
    Raises:
        ShapeError: the counts do not fit.
    """
    parts = _parts(rows, counts)
    lengths = torch.tensor(counts)
    padded = pad_sequence(parts, batch_first=True)  # (B, T, W)
    packed = pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
    outputs, _ = pad_packed_sequence(recurrence(packed)[0], batch_first=True)  # (B, T, 2·H)
    real = torch.arange(outputs.shape[1]) < lengths[:, None]
    found: Tensor = outputs[real.to(outputs.device)]
    return found


def read_forward(recurrence: nn.LSTM, rows: Tensor, counts: Sequence[int]) -> Tensor:
    """Run an LSTM that reads one way over B sequences of any length, from a zero state each.

    Args:
        recurrence: `batch_first`.
        rows: (N, W) the sequences one after the other.
        counts: B of them, at least 1 each, with sum N.
    Returns:
        (N, H) its outputs in the order of the rows.
    Raises:
        ShapeError: the counts do not fit.
    """
    parts = _parts(rows, counts)
    found: list[Tensor] = list(parts)
    left = sorted(range(len(parts)), key=lambda number: -counts[number])
    while left:
        close = [number for number in left if counts[number] * WASTE >= counts[left[0]]]
        left = left[len(close) :]
        # what is padded comes after a sequence, where it changes nothing
        outputs = recurrence(pad_sequence([parts[number] for number in close], batch_first=True))[0]
        for number, output in zip(close, outputs, strict=True):
            found[number] = output[: counts[number]]
    return torch.cat(found)


def _parts(rows: Tensor, counts: Sequence[int]) -> list[Tensor]:
    if rows.ndim != 2 or not counts or min(counts) < 1 or sum(counts) != len(rows):
        raise ShapeError(
            f"sequences: rows {tuple(rows.shape)} in parts of {list(counts)[:9]},"
            " expected (N, W) and counts of at least 1 that sum to N"
        )
    return list(torch.split(rows, list(counts)))
