"""One recurrent layer over padded rows of different lengths, none of which hears its padding.

Packing says the same, but on a CPU its backward pass writes the whole input anew for every step. So rows of
like length are read together here, and the second direction reads rows turned round. No weights of its own.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from limner.errors import ShapeError

WASTE = 1.5  # the longest row of a group is at most this many times as long as the shortest


def states(recurrence: nn.GRU | nn.LSTM, padded: Tensor, lengths: Tensor) -> Tensor:
    """What a layer says at every place.

    Args:
        recurrence: of one layer, `batch_first`, one way or both.
        padded: (B, L, W); what stands after a row's length has no influence.
        lengths: (B,) int64 on the CPU, in 1…L.
    Returns:
        (B, L, H) or, both ways, (B, L, 2·H); zeros where a row is over.
    Raises:
        ShapeError: sizes do not fit.
    """
    _check(recurrence, padded, lengths)
    if padded.is_cuda:
        packed = pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
        whole, _ = pad_packed_sequence(recurrence(packed)[0], batch_first=True, total_length=padded.shape[1])
        return whole
    found, order = [], []
    for rows, part, own in _groups(padded, lengths):
        read = _one_way(recurrence, part, "")
        if recurrence.bidirectional:
            turned = _one_way(recurrence, _turned(part, own), "_reverse")
            read = torch.cat([read, _turned(turned, own)], dim=2)
        real = torch.arange(part.shape[1])[None] < own[:, None]
        found.append(
            pad(read.masked_fill(~real[:, :, None], 0.0), (0, 0, 0, padded.shape[1] - part.shape[1]))
        )
        order.append(rows)
    return torch.cat(found)[torch.cat(order).argsort()]


def last_states(recurrence: nn.GRU | nn.LSTM, padded: Tensor, lengths: Tensor) -> Tensor:
    """What a layer says when it has read a row, both ways one beside the other.

    Args:
        recurrence: as for `states`.
        padded: likewise.
        lengths: likewise.
    Returns:
        (B, H) or (B, 2·H).
    Raises:
        ShapeError: sizes do not fit.
    """
    _check(recurrence, padded, lengths)
    if padded.is_cuda:
        packed = pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
        final = recurrence(packed)[1]
        return torch.cat(list(final[0] if isinstance(recurrence, nn.LSTM) else final), dim=1)
    found, order = [], []
    for rows, part, own in _groups(padded, lengths):
        ends = torch.arange(len(rows)), own - 1
        read = [_one_way(recurrence, part, "")[ends]]
        if recurrence.bidirectional:
            read.append(_one_way(recurrence, _turned(part, own), "_reverse")[ends])
        found.append(torch.cat(read, dim=1))
        order.append(rows)
    return torch.cat(found)[torch.cat(order).argsort()]


def _groups(padded: Tensor, lengths: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Rows of like length: their numbers, their values cut to the longest, their lengths."""
    left = torch.argsort(lengths, descending=True, stable=True)
    while len(left):
        longest = int(lengths[left[0]])
        close = int((lengths[left] * WASTE >= longest).sum())
        rows, left = left[:close], left[close:]
        yield rows, padded[rows, :longest], lengths[rows]


def _one_way(recurrence: nn.GRU | nn.LSTM, rows: Tensor, direction: str) -> Tensor:
    """(B, L, W) → (B, L, H), from a zero state."""
    names = ["weight_ih_l0", "weight_hh_l0"] + (["bias_ih_l0", "bias_hh_l0"] if recurrence.bias else [])
    weights = [getattr(recurrence, name + direction) for name in names]
    start = rows.new_zeros(1, len(rows), recurrence.hidden_size)
    settings = (recurrence.bias, 1, 0.0, recurrence.training, False, True)
    if isinstance(recurrence, nn.LSTM):
        return torch.lstm(rows, (start, start), weights, *settings)[0]
    return torch.gru(rows, start, weights, *settings)[0]


def _turned(rows: Tensor, lengths: Tensor) -> Tensor:
    """Every row back to front, its padding where it was."""
    places = torch.arange(rows.shape[1])[None]
    ends = lengths[:, None]
    back = torch.where(places < ends, ends - 1 - places, places)
    return rows.gather(1, back[:, :, None].expand_as(rows))


def _check(recurrence: nn.GRU | nn.LSTM, padded: Tensor, lengths: Tensor) -> None:
    if recurrence.num_layers != 1 or not recurrence.batch_first:
        raise ShapeError("padded: a recurrence of several layers or not batch first, expected one layer")
    if padded.ndim != 3 or lengths.shape != padded.shape[:1] or not len(padded):
        raise ShapeError(
            f"padded: rows {tuple(padded.shape)} with {len(lengths)} lengths, expected (B, L, W)"
        )
    if int(lengths.min()) < 1 or int(lengths.max()) > padded.shape[1]:
        raise ShapeError(
            f"padded: a length lies outside 1…{padded.shape[1]}; give the lengths before padding"
        )
