"""What several processes compute together: each its share of a batch or of some rows, all of them the whole.

A loss is computed by every process on the whole batch, so that gradients that flow back to a share are those
of one process that holds it all, times the number of processes, and `average_gradients` makes them equal.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm

from limner.arrays import FloatArray
from limner.counts import counted
from limner.crew import Crew
from limner.errors import ConfigError
from limner.research.losses.checks import wide
from limner.research.training import processes


def share_of(count: int, number: int | None = None) -> list[int]:
    """How many of some rows or stories each process takes, in their order.

    Args:
        count: of the rows.
        number: of processes; None for those there are.
    Raises:
        ConfigError: there are fewer than processes.
    """
    number = number or processes.count()
    if count < number:
        raise ConfigError(
            f"training: {counted(count, 'row')} for {number} processes; raise data.batch, or start fewer"
        )
    return [count // number + (one < count % number) for one in range(number)]


def whole(own: Tensor, shares: Sequence[int]) -> Tensor:
    """All processes' rows, end to end; gradients flow back to each.

    Args:
        own: (R, …) of this process, R = shares[rank].
        shares: rows of every process.
    """
    if not processes.several():
        return own
    found: Tensor = _Whole.apply(wide(own), tuple(shares))
    return found.to(own.dtype)


class _Whole(torch.autograd.Function):
    """The rows of all; torch's own gathers with gradients take shares of one size, or are going away."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, shares: tuple[int, ...]) -> Tensor:  # noqa: ANN401
        start = sum(shares[: processes.rank()])
        ctx.own = slice(start, start + len(own))
        padded = torch.cat([own, own.new_zeros(max(shares) - len(own), *own.shape[1:])])
        parts = [torch.empty_like(padded) for _ in shares]
        distributed.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, shares, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        total = gradients[0].contiguous()
        distributed.all_reduce(total)
        return total[ctx.own], None


class _Sum(torch.autograd.Function):
    """The sum over processes."""

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:  # noqa: ANN401
        del ctx
        total = own.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:  # noqa: ANN401
        del ctx
        total = gradients[0].clone()
        distributed.all_reduce(total)
        return total


def columns(own: Tensor, shares: Sequence[int], width: int, *, whole: bool = False) -> Iterator[Tensor]:
    """Some columns of all rows at a time; of several processes, each gets some of them.

    Args:
        own: (R, D) of this process, on the CPU where there are several.
        shares: rows of every process, with sum N.
        width: columns at a time, at least 1.
        whole: all columns at once, for the first process alone.
    Yields:
        (N, width or fewer).
    """
    number = processes.count()
    if whole:
        width = own.shape[1]
    if number == 1:
        yield from (part.contiguous() for part in torch.split(own, width, dim=1))
        return
    parts = torch.split(own, width if whole else min(width, -(-own.shape[1] // number)), dim=1)
    for first in range(0, len(parts), number):
        mine = None
        for receiver, part in enumerate(parts[first : first + number]):
            padded = torch.cat([part, part.new_zeros(max(shares) - len(part), part.shape[1])])
            receives = receiver == processes.rank()
            found = [torch.empty_like(padded) for _ in shares] if receives else None
            distributed.gather(padded, found, dst=receiver, group=processes.waiting())
            if found is not None:
                mine = torch.cat([one[:size] for one, size in zip(found, shares, strict=True)])
        if mine is not None:
            yield mine


def alike(drawn: Tensor) -> Tensor:
    """The first process's draw from chance, for all."""
    if processes.several():
        drawn = drawn.contiguous()
        distributed.broadcast(drawn, src=0)
    return drawn


def alike_number(value: float, device: str) -> float:
    """The first process's number, for all."""
    if not processes.several():
        return value
    return float(alike(torch.tensor([value], dtype=torch.float64, device=device)))


def average_gradients(model: nn.Module) -> None:
    """Mean over processes; whoever's share does not reach a parameter that others reach has 0 there."""
    if not processes.several():
        return
    parameters = list(model.parameters())
    reached = torch.tensor([float(one.grad is not None) for one in parameters], device=parameters[0].device)
    distributed.all_reduce(reached)
    for parameter, by in zip(parameters, reached.tolist(), strict=True):
        if by:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            distributed.all_reduce(parameter.grad)
            parameter.grad /= processes.count()


def in_shares(
    count: int, block: int, made: Callable[[slice], FloatArray], device: torch.device | None
) -> FloatArray:
    """Rows that are made block by block, each block by one process, and then known to all.

    Args:
        count: rows, at least 1.
        block: rows of a block; the same for any number of processes, and so is every bit of a row.
        made: rows → (R, …).
        device: of the processes' group.
    """
    starts = range(0, count, block)[processes.rank() :: processes.count()]
    blocks = [slice(start, min(start + block, count)) for start in starts]
    parts = [made(some) for some in blocks]
    if not processes.several():
        return np.concatenate(parts)
    # whoever has no block learns the shape of a row from the first process, which has one
    shape = parts[0].shape[1:] if parts else ()
    form = torch.tensor([len(shape), *shape, *([0] * 7)][:8], device=device)
    size, *axes = alike(form).tolist()
    found = np.zeros((count, *axes[:size]), np.float32)
    for some, part in zip(blocks, parts, strict=True):
        found[some] = part
    return summed(found, device)


def summed(values: NDArray[Any], device: torch.device | None) -> NDArray[Any]:
    """The sum over processes; exact where all but one have 0."""
    if not processes.several():
        return values
    held = torch.from_numpy(np.ascontiguousarray(values)).to(device)
    distributed.all_reduce(held)
    found: NDArray[Any] = held.cpu().numpy()
    return found


def crew(device: torch.device) -> Crew:
    """The processes that work together: one, or those that torchrun started."""
    return Crew(processes.rank(), processes.count(), lambda values: summed(values, device))


def by_first(make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """What the first process makes while the others wait, for all."""
    if not processes.several():
        return make()
    group = processes.waiting()
    found = torch.from_numpy(np.ascontiguousarray(make())) if processes.rank() == 0 else torch.empty(0)
    kinds = (torch.float32, torch.float64, torch.int32, torch.int64)
    form = torch.zeros(10, dtype=torch.int64)
    if processes.rank() == 0:
        form[: 2 + found.ndim] = torch.tensor([kinds.index(found.dtype), found.ndim, *found.shape])
    distributed.broadcast(form, src=0, group=group)
    if processes.rank() > 0:
        found = torch.empty(form[2 : 2 + int(form[1])].tolist(), dtype=kinds[int(form[0])])
    distributed.broadcast(found, src=0, group=group)
    return found.numpy()


class WholeBatchNorm(_BatchNorm):
    """Batch norm whose mean and variance are of the whole batch, on any device; the same weights and names.

    torch's own for several processes takes cards alone.
    """

    def forward(self, values: Tensor) -> Tensor:
        """(B, F, …) of this process."""
        if not (self.training and processes.several()):
            alone: Tensor = super().forward(values)
            return alone
        table = wide(values)
        axes = [0, *range(2, table.ndim)]
        shape = [1, -1, *([1] * (table.ndim - 2))]
        number = torch.tensor(float(table.numel() // table.shape[1]), device=table.device)
        distributed.all_reduce(number)
        mean = _Sum.apply(table.sum(axes)) / number
        apart = table - mean.view(shape)
        variance = _Sum.apply(apart.square().sum(axes)) / number
        if self.track_running_stats and self.running_mean is not None and self.running_var is not None:
            assert self.num_batches_tracked is not None  # noqa: S101  (tracked together)
            self.num_batches_tracked += 1
            rate = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean), rate)
                unbiased = variance * number / (number - 1)
                self.running_var.lerp_(unbiased.to(self.running_var), rate)
        made: Tensor = apart * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            made = made * self.weight.view(shape) + self.bias.view(shape)
        return made.to(values.dtype)

    def _check_input_dim(self, values: Tensor) -> None:
        del values


def share_norms(model: nn.Module) -> None:
    """Let all batch norms of a model see the whole batch, where there are several processes."""
    for module in model.modules() if processes.several() else ():
        if isinstance(module, _BatchNorm):
            module.__class__ = WholeBatchNorm
