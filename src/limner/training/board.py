"""Scalars of a run for TensorBoard: the losses of every few steps, the figures of every epoch.

The package is an optional extra, imported when a board is made and not before. It draws nothing and
decides nothing; a run that resumes goes on in the same folder without a step twice.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Self

from limner.errors import MissingError
from limner.training.task import Event

if TYPE_CHECKING:
    pass

FOLDER, EVERY_STEPS = "tensorboard", 10


class Board:
    """Writes below ``RUN/tensorboard``; a context, because the last scalars are written at its end."""

    def __init__(self, run: Path) -> None:
        """Check that the package is there; nothing is written before the first event.

        Args:
            run: folder of the run.
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
        """Write an event of the loop: ``loss/`` by steps; ``epoch/``, ``val/`` and ``lr`` by epochs."""
        step = event.position.taken
        if self._writer is None:
            # What a killed run wrote after its last save is taken anew, so viewers must forget it.
            self._writer = self._kind(str(self._folder), purge_step=step)
        if event.kind == "step":
            if step % EVERY_STEPS == 0:
                self._write("loss/", dict(event.values), step)
            return
        last = event.position.history[-1]
        self._write("epoch/", last["loss"], step)
        self._write("val/", last["val"], step)
        self._write("", {"lr": last["lr"]}, step)

    def _write(self, group: str, values: dict[str, float], step: int) -> None:
        assert self._writer is not None  # noqa: S101  (made by the caller)
        for name, value in values.items():
            self._writer.add_scalar(f"{group}{name}", value, step)
