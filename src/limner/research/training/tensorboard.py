"""Writes scalars of a run for TensorBoard: losses every ten steps, validation figures every epoch.

The package is an optional extra, imported only when needed. A resumed run continues in the same folder,
without repeated or missing entries.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from limner.errors import MissingError
from limner.research.training.loop import Event

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FOLDER, EVERY_STEPS, RATE = "tensorboard", 10, "lr"


class TensorBoardLog:
    """Writes to ``RUN/tensorboard``; a context manager, which writes the last scalars when it ends."""

    def __init__(self, run: Path) -> None:
        """Check that the package is installed; nothing is written before the first event.

        Args:
            run: run folder.
        Raises:
            MissingError: the extra is not installed.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingError(
                f"tensorboard: not installed ({error}); pip install 'limner[tensorboard]',"
                " or leave --tensorboard out"
            ) from error
        self._kind, self._folder = SummaryWriter, run / FOLDER
        self._writer: SummaryWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def __call__(self, event: Event) -> None:
        """Write an event of the loop: ``loss/`` by step; ``epoch/``, ``val/`` and ``lr`` by epoch."""
        step = event.position.taken
        if self._writer is None:
            self._writer = self._begin(event)
        if event.kind == "epoch":
            self._epoch(self._writer, event.position.history[-1], step)
        elif step % EVERY_STEPS == 0:
            _write(self._writer, "loss/", dict(event.values), step)
            self._writer.flush()

    def _begin(self, event: Event) -> "SummaryWriter":
        """Continue the files in the folder; the last saved epoch is written now if they lack it."""
        position = event.position
        ended = position.taken - position.step
        lost = event.kind == "step" and bool(position.history) and ended not in _epochs_written(self._folder)
        # steps that a killed run wrote after its last save are repeated, so they are purged
        writer: SummaryWriter = self._kind(str(self._folder), purge_step=position.taken)
        if lost:
            self._epoch(writer, position.history[-1], ended)
        return writer

    def _epoch(self, writer: "SummaryWriter", entry: dict[str, Any], step: int) -> None:
        _write(writer, "epoch/", entry["loss"], step)
        _write(writer, "val/", entry["val"], step)
        # the rate is written last, so an epoch that has one is complete
        _write(writer, "", {RATE: entry["lr"]}, step)
        writer.flush()  # a killed process would lose buffered scalars


def _write(writer: "SummaryWriter", group: str, values: dict[str, float], step: int) -> None:
    for name, value in values.items():
        writer.add_scalar(f"{group}{name}", value, step)


def _epochs_written(folder: Path) -> set[int]:
    """Steps at which the files in a folder have a complete epoch."""
    from tensorboard.backend.event_processing import event_accumulator  # type: ignore[import-untyped]

    if not folder.is_dir():
        return set()
    read = event_accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    read.Reload()
    return {event.step for event in read.Scalars(RATE)} if RATE in read.Tags()["scalars"] else set()
