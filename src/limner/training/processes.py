"""Training in several processes (gloo or nccl): the few places where they must agree.

With one process every function does nothing. Gradients are averaged; negatives are those of a
process's own batch.
"""

import os

import torch
from torch import distributed, nn

from limner.training import randomness


def join(device: str) -> None:
    """Join the group that ``torchrun`` started, if it did; nccl on CUDA devices, else gloo."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not distributed.is_initialized():
        distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")


def several() -> bool:
    """Whether there are others."""
    return distributed.is_initialized() and distributed.get_world_size() > 1


def rank() -> int:
    """0 for the process that writes files."""
    return distributed.get_rank() if several() else 0


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
        randomness.seed_all(seed + rank() + 1_000_003 * (taken + 1))
