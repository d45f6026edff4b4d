"""Training in several processes (gloo or nccl), on one machine or on many: who they are, and how they wait.

With one process every function does nothing. `limner.research.training.shares` has what they compute together.
"""

import hashlib
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

from limner.devices import device_of
from limner.errors import ConfigError, LimnerError, StorageError
from limner.files import make_folder, replacing
from limner.research.training import checkpoint

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


def meet(seed: int, taken: int) -> None:
    """Wait for all, then draw on from a state that only depends on seed, process and step.

    The first process's file holds no other generators than its own; this makes those of the others
    the same whether a run was resumed here or not.
    """
    if several():
        distributed.barrier()
        checkpoint.seed_all(seed + rank() + 1_000_003 * (taken + 1))
