"""Training in several processes (gloo or nccl), on one machine or on many: each its share, all the whole.

With one process every function does nothing. A loss is computed by every process on the whole batch, so that
gradients that flow back to a share are those of one process that holds it all, times the number of processes,
and `average_gradients` makes them equal.
"""

import hashlib
import os
import platform
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm

from limner.arrays import FloatArray
from limner.devices import device_of
from limner.errors import ConfigError, LimnerError, StorageError, counted
from limner.files import make_folder, replacing
from limner.research.losses.ranking import wide

PATIENCE = timedelta(days=1)
"""How long others wait where the first process works alone: for features, for a graph of neighbours."""
SILENCE = timedelta(minutes=20)
"""How long a step waits for a process that says nothing: a node without power closes no connection."""
_PIECE = 1 << 26  # bytes of a file that are sent at once
_FAILED = "limner/failed"
_LOST = (
    "gloo",
    "nccl",
    "connection",
    "timed out",
    "socket",
)  # how torch words that a process does not answer
_waiting: list[Any] = []


class OthersError(LimnerError):
    """Another process of the run ended; it has said why."""


def join(device: str) -> str:
    """Join the group that ``torchrun`` started, if it did; nccl on CUDA devices, else gloo.

    Returns:
        The device of this process: among several, ``auto`` and ``cuda`` become one card per process.
    Raises:
        ConfigError: see `limner.devices.device_of`; or all processes would share one card.
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
    """Leave the group, if there is one."""
    _waiting.clear()
    if distributed.is_initialized():
        distributed.destroy_process_group()


def several() -> bool:
    """Whether there are others."""
    return distributed.is_initialized() and distributed.get_world_size() > 1


def rank() -> int:
    """0 for the process that writes files."""
    return distributed.get_rank() if several() else 0


def count() -> int:
    """How many processes train together."""
    return distributed.get_world_size() if several() else 1


def leads() -> bool:
    """Whether this is the first process of its machine, or node, which looks after the files there."""
    return not several() or os.environ.get("LOCAL_RANK", str(rank())) == "0"


def waiting() -> Any:  # noqa: ANN401  (a group, as torch takes it)
    """All processes, on the CPU and with `PATIENCE`: where one works and the others wait."""
    if not _waiting:
        _waiting.append(distributed.new_group(backend="gloo", timeout=PATIENCE))
    return _waiting[0]


@contextmanager
def first_alone() -> Iterator[None]:
    """Within it the first process works before all others, so that they find the files it wrote.

    Then come the first ones of the other machines, which find them where the disk is shared and make their
    own where it is not, and then all others.
    """
    turn = 0 if rank() == 0 else 1 if leads() else 2
    for _ in range(turn if several() else 0):
        distributed.barrier(waiting())
    yield
    for _ in range(2 - turn if several() else 0):
        distributed.barrier(waiting())


def mirror(path: Path) -> bool:
    """Give every machine the first process's file, where their disks are not shared.

    Args:
        path: on every machine; a file that differs from the first process's is replaced.
    Returns:
        Whether the first process has such a file; without one, nothing is done to others.
    """
    if not several():
        return path.exists()
    own = torch.zeros(5, dtype=torch.int64)  # its size, and its SHA-256
    if path.exists():
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
        own = torch.tensor([path.stat().st_size, *torch.frombuffer(bytearray(digest), dtype=torch.int64)])
    due = own.clone()
    distributed.broadcast(due, src=0, group=waiting())
    lacks = torch.tensor([int(not torch.equal(own, due))])
    distributed.all_reduce(lacks, group=waiting())
    size = int(due[0])
    if size and lacks:
        writes = leads() and not torch.equal(own, due)
        make_folder(path.parent)
        if rank() == 0:
            with path.open("rb") as file:
                for start in range(0, size, _PIECE):
                    piece = torch.frombuffer(bytearray(file.read(_PIECE)), dtype=torch.uint8)
                    distributed.broadcast(piece, src=0, group=waiting())
                    del start
        elif writes:
            with replacing(path, wanted=size) as draft, draft.open("wb") as file:
                for piece in _received(size):
                    file.write(piece.numpy().tobytes())
        else:
            list(_received(size))
        distributed.barrier(waiting())
    return size > 0


def _received(size: int) -> Iterator[torch.Tensor]:
    for start in range(0, size, _PIECE):
        piece = torch.empty(min(_PIECE, size - start), dtype=torch.uint8)
        distributed.broadcast(piece, src=0, group=waiting())
        yield piece


@contextmanager
def one_voice() -> Iterator[None]:
    """Of all processes that fail, the first alone says why, and on which machine.

    Raises:
        LimnerError: of the same class as within, its message beginning with machine and process.
        OthersError: another process failed before, and has said so; its message is empty then.
    """
    try:
        yield
    except (LimnerError, OSError, RuntimeError) as error:
        if not several():
            raise
        said = str(error)
        if not isinstance(error, LimnerError | OSError):
            if not any(word in said.lower() for word in _LOST):
                raise
            said = (
                f"another process is gone ({' '.join(said.split())[-160:]}); start all nodes again to go on"
            )
        if _spoken():
            raise OthersError("") from error
        named = f"node {platform.node()}, process {rank()} of {count()}: {said}"
        plain = isinstance(error, LimnerError) and not isinstance(error, StorageError)
        raise (type(error) if plain else LimnerError)(named) from error


def _spoken() -> bool:
    """Whether another process has failed before this one."""
    try:
        store = distributed.distributed_c10d._get_default_store()
        return int(store.add(_FAILED, 1)) > 1
    except RuntimeError:
        return False  # the store has gone with its machine


def share(model: nn.Module) -> None:
    """Give every process the weights and buffers of the first."""
    if several():
        for tensor in model.state_dict().values():
            distributed.broadcast(tensor, src=0)


def any_asks(asks: bool, model: nn.Module) -> bool:
    """Whether any process asks, so that a signal which reaches them at different steps stops all at one."""
    if not several():
        return asks
    held = torch.tensor([int(asks)], device=next(model.parameters()).device)
    distributed.all_reduce(held, op=distributed.ReduceOp.MAX)
    return bool(held.item())


def gather() -> None:
    """Wait for all."""
    if several():
        distributed.barrier()


def seed_all(seed: int) -> None:
    """Seed python, NumPy and torch (every device)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  (libraries still draw from the global generator)
    torch.manual_seed(seed)


def meet(seed: int, taken: int) -> None:
    """Wait for all, then draw on from a state that only depends on seed, process and step.

    The first process's file holds no other generators than its own; this makes those of the others
    the same whether a run was resumed here or not.
    """
    if several():
        distributed.barrier()
        seed_all(seed + rank() + 1_000_003 * (taken + 1))


def share_of(rows: int, number: int | None = None) -> list[int]:
    """How many of some rows or stories each process takes, in their order.

    Args:
        rows: to share out.
        number: of processes; None for those there are.
    Raises:
        ConfigError: there are fewer than processes.
    """
    number = number or count()
    if rows < number:
        raise ConfigError(
            f"training: {counted(rows, 'row')} for {number} processes; raise data.batch, or start fewer"
        )
    return [rows // number + (one < rows % number) for one in range(number)]


def whole(own: Tensor, shares: Sequence[int]) -> Tensor:
    """All processes' rows, end to end; gradients flow back to each.

    Args:
        own: (R, …) of this process, R = shares[rank].
        shares: rows of every process.
    """
    if not several():
        return own
    found: Tensor = _Whole.apply(wide(own), tuple(shares))
    return found.to(own.dtype)


class _Whole(torch.autograd.Function):
    """The rows of all; torch's own gathers with gradients take shares of one size, or are going away."""

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
    number = count()
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
            distributed.gather(padded, found, dst=receiver, group=waiting())
            if found is not None:
                mine = torch.cat([one[:size] for one, size in zip(found, shares, strict=True)])
        if mine is not None:
            yield mine


def alike(drawn: Tensor) -> Tensor:
    """The first process's draw from chance, for all."""
    if several():
        drawn = drawn.contiguous()
        distributed.broadcast(drawn, src=0)
    return drawn


def alike_number(value: float, device: str) -> float:
    """The first process's number, for all."""
    if not several():
        return value
    return float(alike(torch.tensor([value], dtype=torch.float64, device=device)))


def average_gradients(model: nn.Module) -> None:
    """Mean over processes; whoever's share does not reach a parameter that others reach has 0 there."""
    if not several():
        return
    parameters = list(model.parameters())
    reached = torch.tensor([float(one.grad is not None) for one in parameters], device=parameters[0].device)
    distributed.all_reduce(reached)
    for parameter, by in zip(parameters, reached.tolist(), strict=True):
        if by:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            distributed.all_reduce(parameter.grad)
            parameter.grad /= count()


def in_shares(
    rows: int, block: int, made: Callable[[slice], FloatArray], device: torch.device | None
) -> FloatArray:
    """Rows that are made block by block, each block by one process, and then known to all.

    Args:
        rows: how many, at least 1.
        block: rows of a block; the same for any number of processes, and so is every bit of a row.
        made: rows → (R, …).
        device: of the processes' group.
    """
    starts = range(0, rows, block)[rank() :: count()]
    blocks = [slice(start, min(start + block, rows)) for start in starts]
    parts = [made(some) for some in blocks]
    if not several():
        return np.concatenate(parts)
    # whoever has no block learns the shape of a row from the first process, which has one
    shape = parts[0].shape[1:] if parts else ()
    form = torch.tensor([len(shape), *shape, *([0] * 7)][:8], device=device)
    size, *axes = alike(form).tolist()
    found = np.zeros((rows, *axes[:size]), np.float32)
    for some, part in zip(blocks, parts, strict=True):
        found[some] = part
    return summed(found, device)


def summed(values: NDArray[Any], device: torch.device | None) -> NDArray[Any]:
    """The sum over processes; exact where all but one have 0."""
    if not several():
        return values
    held = torch.from_numpy(np.ascontiguousarray(values)).to(device)
    distributed.all_reduce(held)
    found: NDArray[Any] = held.cpu().numpy()
    return found


def by_first(make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """What the first process makes while the others wait, for all."""
    if not several():
        return make()
    group = waiting()
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


class WholeBatchNorm(_BatchNorm):
    """Batch norm whose mean and variance are of the whole batch, on any device; the same weights and names.

    torch's own for several processes takes cards alone.
    """

    def forward(self, values: Tensor) -> Tensor:
        """(B, F, …) of this process."""
        if not (self.training and several()):
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
    for module in model.modules() if several() else ():
        if isinstance(module, _BatchNorm):
            module.__class__ = WholeBatchNorm
