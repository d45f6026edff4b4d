"""Training in several processes (gloo or nccl), on one machine or on several with a shared disk.

With one process all functions are no-ops. Each process encodes its share of a batch and computes the loss of
the whole batch, so the gradients of a share are those of a single process times the number of processes;
`average_gradients` makes them equal.
"""

import os
import platform
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm

from limner.arrays import FloatArray
from limner.devices import device_of
from limner.errors import ConfigError, LimnerError, StorageError, counted
from limner.research.losses.ranking import wide

PATIENCE = timedelta(days=1)
"""Timeout while the first process works alone, on features or a neighbour graph."""
SILENCE = timedelta(minutes=20)
"""Timeout of a step; a node that loses power does not close its connections."""
_FAILED = "limner/failed"
_LOST = (
    "gloo",
    "nccl",
    "connection",
    "timed out",
    "socket",
)  # torch's messages for a lost process
_cpu_group: list[Any] = []


class OthersError(LimnerError):
    """Another process of the run failed and has reported the reason."""


def join(device: str) -> str:
    """Join the process group if started by ``torchrun``; nccl on CUDA devices, else gloo.

    Returns:
        The device of this process; with several processes, ``auto`` and ``cuda`` become one GPU per process.
    Raises:
        ConfigError: see `limner.devices.device_of`; or all processes would share one device.
    """
    chosen = device_of(device)
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count < 2 or distributed.is_initialized():
        return chosen
    if chosen == "cuda":
        chosen = device_of(f"cuda:{os.environ['LOCAL_RANK']}")
    elif chosen != "cpu":
        raise ConfigError(f"device {device!r}: {count} processes need a device each; use cuda, or cpu")
    if chosen == "cpu":
        distributed.init_process_group("gloo", timeout=SILENCE)
    else:
        torch.cuda.set_device(chosen)
        distributed.init_process_group("nccl", timeout=SILENCE, device_id=torch.device(chosen))
    return chosen


def leave() -> None:
    """Leave the process group, if there is one."""
    _cpu_group.clear()
    if distributed.is_initialized():
        distributed.destroy_process_group()


def is_distributed() -> bool:
    """Whether there is more than one process."""
    return distributed.is_initialized() and distributed.get_world_size() > 1


def rank() -> int:
    """Rank of this process; 0 writes files."""
    return distributed.get_rank() if is_distributed() else 0


def world_size() -> int:
    """Number of processes (world size)."""
    return distributed.get_world_size() if is_distributed() else 1


def cpu_group() -> Any:  # noqa: ANN401  (a group, as torch takes it)
    """Process group on the CPU with timeout `PATIENCE`, for waiting while one process works."""
    if not _cpu_group:
        _cpu_group.append(distributed.new_group(backend="gloo", timeout=PATIENCE))
    return _cpu_group[0]


@contextmanager
def main_first() -> Iterator[None]:
    """Context in which the first process runs before all others, so that they find the files it wrote."""
    if is_distributed() and rank() > 0:
        distributed.barrier(cpu_group())
    yield
    if is_distributed() and rank() == 0:
        distributed.barrier(cpu_group())


@contextmanager
def report_once() -> Iterator[None]:
    """Context in which only the first of several failing processes reports its error, with its machine.

    Raises:
        LimnerError: the error, of the same class, with machine and process before the message.
        OthersError: another process failed first and has reported it; the message is empty.
    """
    try:
        yield
    except (LimnerError, OSError, RuntimeError) as error:
        if not is_distributed():
            raise
        said = str(error)
        if not isinstance(error, LimnerError | OSError):
            if not any(word in said.lower() for word in _LOST):
                raise
            reason = " ".join(said.split())[-160:]
            said = f"another process is gone ({reason}); start all nodes again to continue"
        if _already_reported():
            raise OthersError("") from error
        named = f"node {platform.node()}, process {rank()} of {world_size()}: {said}"
        plain = isinstance(error, LimnerError) and not isinstance(error, StorageError)
        raise (type(error) if plain else LimnerError)(named) from error


def _already_reported() -> bool:
    """Whether another process has already reported a failure."""
    try:
        store = distributed.distributed_c10d._get_default_store()
        return int(store.add(_FAILED, 1)) > 1
    except RuntimeError:
        return False  # the store was on a machine that is gone


def broadcast_model(model: nn.Module) -> None:
    """Broadcast the weights and buffers of the first process."""
    if is_distributed():
        for tensor in model.state_dict().values():
            distributed.broadcast(tensor, src=0)


def any_process(asks: bool, model: nn.Module) -> bool:
    """Whether any process asks to stop, so that all stop at the same step."""
    if not is_distributed():
        return asks
    held = torch.tensor([int(asks)], device=next(model.parameters()).device)
    distributed.all_reduce(held, op=distributed.ReduceOp.MAX)
    return bool(held.item())


def barrier() -> None:
    """Barrier: wait for all processes."""
    if is_distributed():
        distributed.barrier()


def seed_all(seed: int) -> None:
    """Seed Python, NumPy and torch (all devices)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  (libraries still draw from the global generator)
    torch.manual_seed(seed)


def barrier_and_seed(seed: int, taken: int) -> None:
    """Wait for all processes, then seed the generators from seed, process and step.

    Checkpoints have only the first process's generators; this makes those of the others independent of
    whether the run was resumed.
    """
    if is_distributed():
        distributed.barrier()
        seed_all(seed + rank() + 1_000_003 * (taken + 1))


def rows_per_process(rows: int, number: int | None = None) -> list[int]:
    """Number of rows (or stories) of each process, in order.

    Args:
        rows: total number of rows.
        number: number of processes; None for the current ones.
    Raises:
        ConfigError: there are fewer rows than processes.
    """
    number = number or world_size()
    if rows < number:
        raise ConfigError(
            f"training: {counted(rows, 'row')} for {number} processes; raise data.batch, or start fewer"
        )
    return [rows // number + (one < rows % number) for one in range(number)]


def all_gather(own: Tensor, shares: Sequence[int]) -> Tensor:
    """Gather the rows of all processes, concatenated; gradients flow back to each.

    Args:
        own: (R, …) rows of this process, R = shares[rank].
        shares: number of rows of each process.
    """
    if not is_distributed():
        return own
    found: Tensor = _AllGather.apply(wide(own), tuple(shares))
    return found.to(own.dtype)


class _AllGather(torch.autograd.Function):
    """All-gather with gradients; torch's own needs equal shares or is deprecated."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, shares: tuple[int, ...]) -> Tensor:  # noqa: ANN401
        start = sum(shares[: rank()])
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
    """All-reduce (sum) with gradients."""

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


def gather_columns(
    own: Tensor, shares: Sequence[int], width: int, *, whole: bool = False
) -> Iterator[Tensor]:
    """Yield blocks of columns of all processes' rows; each process gets some of the blocks.

    Args:
        own: (R, D) rows of this process, on the CPU if there are several.
        shares: number of rows of each process, with sum N.
        width: columns per block, at least 1.
        whole: whether the first process gets all columns at once instead.
    Yields:
        (N, ≤ width) blocks.
    """
    number = world_size()
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
            receives = receiver == rank()
            found = [torch.empty_like(padded) for _ in shares] if receives else None
            distributed.gather(padded, found, dst=receiver, group=cpu_group())
            if found is not None:
                mine = torch.cat([one[:size] for one, size in zip(found, shares, strict=True)])
        if mine is not None:
            yield mine


def broadcast(drawn: Tensor) -> Tensor:
    """Broadcast the first process's random tensor."""
    if is_distributed():
        drawn = drawn.contiguous()
        distributed.broadcast(drawn, src=0)
    return drawn


def broadcast_number(value: float, device: str) -> float:
    """Broadcast the first process's number."""
    if not is_distributed():
        return value
    return float(broadcast(torch.tensor([value], dtype=torch.float64, device=device)))


def average_gradients(model: nn.Module) -> None:
    """Average the gradients over processes; a process without a gradient that others have counts as 0."""
    if not is_distributed():
        return
    parameters = list(model.parameters())
    reached = torch.tensor([float(one.grad is not None) for one in parameters], device=parameters[0].device)
    distributed.all_reduce(reached)
    for parameter, by in zip(parameters, reached.tolist(), strict=True):
        if by:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            distributed.all_reduce(parameter.grad)
            parameter.grad /= world_size()


def compute_blocks(
    rows: int, block: int, made: Callable[[slice], FloatArray], device: torch.device | None
) -> FloatArray:
    """Compute rows in blocks, each by one process, and gather them in all.

    Args:
        rows: number of rows, at least 1.
        block: rows per block, independent of the number of processes, so that results are equal to the bit.
        made: slice of rows → (R, …) values.
        device: device of the process group.
    """
    starts = range(0, rows, block)[rank() :: world_size()]
    blocks = [slice(start, min(start + block, rows)) for start in starts]
    parts = [made(some) for some in blocks]
    if not is_distributed():
        return np.concatenate(parts)
    # processes without a block get the shape of a row from the first process
    shape = parts[0].shape[1:] if parts else ()
    form = torch.tensor([len(shape), *shape, *([0] * 7)][:8], device=device)
    size, *axes = broadcast(form).tolist()
    found = np.zeros((rows, *axes[:size]), np.float32)
    for some, part in zip(blocks, parts, strict=True):
        found[some] = part
    return all_reduce(found, device)


def all_reduce(values: NDArray[Any], device: torch.device | None) -> NDArray[Any]:
    """Sum over processes; exact if all but one have 0."""
    if not is_distributed():
        return values
    held = torch.from_numpy(np.ascontiguousarray(values)).to(device)
    distributed.all_reduce(held)
    found: NDArray[Any] = held.cpu().numpy()
    return found


def from_main(make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """Compute an array in the first process, and broadcast it."""
    if not is_distributed():
        return make()
    group = cpu_group()
    found = torch.from_numpy(np.ascontiguousarray(make())) if rank() == 0 else torch.empty(0)
    kinds = (torch.float32, torch.float64, torch.int32, torch.int64)
    form = torch.zeros(10, dtype=torch.int64)
    if rank() == 0:
        form[: 2 + found.ndim] = torch.tensor([kinds.index(found.dtype), found.ndim, *found.shape])
    distributed.broadcast(form, src=0, group=group)
    if rank() > 0:
        found = torch.empty(form[2 : 2 + int(form[1])].tolist(), dtype=kinds[int(form[0])])
    distributed.broadcast(found, src=0, group=group)
    return found.numpy()


class SynchronisedBatchNorm(_BatchNorm):
    """Synchronised batch norm for any device, with the same weights and names (torch's needs GPUs)."""

    def forward(self, values: Tensor) -> Tensor:
        """Normalise (B, F, …) of this process."""
        if not (self.training and is_distributed()):
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


def use_synchronised_norms(model: nn.Module) -> None:
    """Replace all batch norms of a model by synchronised ones if there are several processes."""
    for module in model.modules() if is_distributed() else ():
        if isinstance(module, _BatchNorm):
            module.__class__ = SynchronisedBatchNorm
