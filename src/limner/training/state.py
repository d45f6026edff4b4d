"""What a resumed run needs: weights, optimiser, schedule, random generators, memory, position, history.

One file per process, replaced whole; the position is stored with everything else, so that they
always agree. It saves and restores, it decides nothing.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from limner.errors import CheckpointError
from limner.training import checkpoint, randomness

NAME = "resume.safetensors"


@dataclass
class Position:
    """Where training stands.

    Attributes:
        epoch: 0-based epoch in progress.
        step: batches of it already taken.
        taken: steps taken in all.
        sums: loss name → sum over the steps of this epoch.
        best: best validation value so far, None before the first.
        best_epoch: epoch it came from, −1 before the first.
        history: one entry per finished epoch.
    """

    epoch: int = 0
    step: int = 0
    taken: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    best: float | None = None
    best_epoch: int = -1
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def means(self) -> dict[str, float]:
        """Mean of each loss over the steps of this epoch."""
        return {name: total / max(self.step, 1) for name, total in self.sums.items()}


@runtime_checkable
class Remembering(Protocol):
    """A task that keeps more than weights between steps, such as a bank of embeddings."""

    def memory(self) -> Mapping[str, Tensor]:
        """All of it."""
        ...

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Go on from what `memory` gave, bit for bit; what does not fit is a CheckpointError."""
        ...


@dataclass(frozen=True)
class State:
    """The parts of a run that change while it trains.

    Attributes:
        model, optimiser, schedule: as built from the settings.
        position: where it stands.
        settings: plain values that must be the same when it is resumed.
        remembering: the task, where it keeps a memory.
    """

    model: nn.Module
    optimiser: Optimizer
    schedule: ReduceLROnPlateau | LambdaLR
    position: Position
    settings: dict[str, Any]
    remembering: Remembering | None = None

    def save(self, path: Path) -> None:
        """Write everything; see `checkpoint.save` for what a full disk does."""
        tensors, plain = randomness.capture()
        optimiser = self.optimiser.state_dict()
        moments = {f"{i}.{k}": v for i, own in optimiser["state"].items() for k, v in own.items()}
        everything = (
            checkpoint.prefixed("model", self.model.state_dict())
            | checkpoint.prefixed("optimiser", moments)
            | checkpoint.prefixed("random", tensors)
            | checkpoint.prefixed("memory", self.remembering.memory() if self.remembering else {})
        )
        rest = {
            "position": asdict(self.position),
            "random": plain,
            "schedule": self.schedule.state_dict(),
            "groups": optimiser["param_groups"],
            "settings": self.settings,
        }
        checkpoint.save(path, everything, rest)

    def restore(self, path: Path) -> None:
        """Go on from a file that `save` wrote.

        Raises:
            CheckpointError: it was written with other settings, or does not fit the model.
        """
        tensors, rest = checkpoint.load(path)
        changed = sorted(
            name
            for name in rest["settings"].keys() | self.settings.keys()
            if rest["settings"].get(name) != self.settings.get(name)
        )
        if changed:
            raise CheckpointError(
                f"{path}: the run was begun with other settings ({', '.join(changed)}); use another folder"
            )
        checkpoint.load_into(self.model, checkpoint.part("model", tensors), str(path))
        moments: dict[int, dict[str, Tensor]] = {}
        parameters = [one for group in self.optimiser.param_groups for one in group["params"]]
        for name, tensor in checkpoint.part("optimiser", tensors).items():
            index, _, key = name.partition(".")
            own = parameters[int(index)]
            # laid out in memory as its parameter is: a fused step takes that for granted
            laid = torch.empty_like(own, dtype=tensor.dtype).copy_(tensor) if tensor.ndim else tensor
            moments.setdefault(int(index), {})[key] = laid
        self.optimiser.load_state_dict({"state": moments, "param_groups": rest["groups"]})
        self.schedule.load_state_dict(rest["schedule"])
        if self.remembering:
            self.remembering.remember(checkpoint.part("memory", tensors))
        for name, value in rest["position"].items():
            setattr(self.position, name, value)
        randomness.restore(checkpoint.part("random", tensors), rest["random"])
