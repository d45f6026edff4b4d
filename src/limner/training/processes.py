"""Training in several processes (gloo or nccl): the few places where they must agree.

With one process every function does nothing. Gradients are averaged; negatives are those of a
process's own batch.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
from torch import distributed, nn

from limner.devices import device_of
from limner.errors import ConfigError
from limner.training import checkpoint

PATIENCE = timedelta(days=1)  # others wait for the first one's features; torchrun ends who waits for the dead


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
        distributed.init_process_group("gloo", timeout=PATIENCE)
        return chosen
    torch.cuda.set_device(chosen)
    distributed.init_process_group("nccl", timeout=PATIENCE, device_id=torch.device(chosen))
    return chosen


def leave() -> None:
    """Leave the group, if there is one."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


@contextmanager
def first_alone() -> Iterator[None]:
    """Within it the first process works before all others, so that they find the files it wrote."""
    if several() and rank() > 0:
        distributed.barrier()
    yield
    if several() and rank() == 0:
        distributed.barrier()


def several() -> bool:
    """Whether there are others."""
    return distributed.is_initialized() and distributed.get_world_size() > 1


def rank() -> int:
    """0 for the process that writes files."""
    return distributed.get_rank() if several() else 0


def count() -> int:
    """How many processes train together."""
    return distributed.get_world_size() if several() else 1


def share(model: nn.Module) -> None:
    """Give every process the weights and buffers of the first."""
    if several():
        for tensor in model.state_dict().values():
            distributed.broadcast(tensor, src=0)


def share_number(value: float, model: nn.Module) -> float:
    """The first process's number, so that all decide alike."""
    if not several():
        return value
    held = torch.tensor([value], dtype=torch.float64, device=next(model.parameters()).device)
    distributed.broadcast(held, src=0)
    return float(held.item())


def any_asks(asks: bool, model: nn.Module) -> bool:
    """Whether any process asks, so that a signal which reaches them at different steps stops all at one."""
    if not several():
        return asks
    held = torch.tensor([int(asks)], device=next(model.parameters()).device)
    distributed.all_reduce(held, op=distributed.ReduceOp.MAX)
    return bool(held.item())


def average_gradients(model: nn.Module) -> None:
    """Mean over processes."""
    if several():
        for parameter in model.parameters():
            if parameter.grad is not None:
                distributed.all_reduce(parameter.grad)
                parameter.grad /= distributed.get_world_size()


def meet(seed: int, taken: int) -> None:
    """Wait for all, then draw on from a state that only depends on seed, process and step.

    The first process's file holds no other generators than its own; this makes those of the others
    the same whether a run was resumed here or not.
    """
    if several():
        distributed.barrier()
        checkpoint.seed_all(seed + rank() + 1_000_003 * (taken + 1))
