"""What the loop trains, and what it tells while it does.

A system becomes trainable by offering a `Task`; whoever shows progress receives `Event`s. Neither
knows the other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from torch import Tensor, nn

from limner.training.state import Position


class Task(Protocol):
    """What the loop trains."""

    @property
    def model(self) -> nn.Module:
        """Holds every weight."""
        ...

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one epoch of one process."""
        ...

    def batches(self, epoch: int) -> Iterable[Any]:
        """The batches of an epoch, a function of the seed, the process and the epoch alone."""
        ...

    def step(self, batch: Any) -> Mapping[str, Tensor]:  # noqa: ANN401  (a system's own batch)
        """Scalar losses by name; ``total`` is the one to minimise."""
        ...

    def describe(self, batch: Any) -> str:  # noqa: ANN401
        """Ids of a batch's samples, for the message when a loss is not finite."""
        ...


@dataclass(frozen=True)
class Event:
    """Something to show: a step taken or an epoch validated.

    Attributes:
        kind: step or epoch.
        position: where training stands.
        values: mean losses of the epoch so far, or validation figures.
        remaining_s: estimated seconds to the end.
    """

    kind: Literal["step", "epoch"]
    position: Position
    values: Mapping[str, float]
    remaining_s: float
