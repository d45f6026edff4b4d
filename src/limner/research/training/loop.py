"""The training loop for all models: steps, validation, best weights, and resuming.

A run resumes at the last saved step; on the CPU the result is bitwise the same.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from limner.devices import autocast
from limner.errors import NumericsError
from limner.files import make_folder
from limner.research.training import checkpoint, processes
from limner.research.training.checkpoint import BEST, HISTORY, RESUME, Position, TrainingState
from limner.research.training.settings import LoopConfig, OptimiserName


class Task(Protocol):
    """What the loop trains.

    Attributes:
        model: module with all weights.
        steps_per_epoch: number of batches in an epoch.
    """

    @property
    def model(self) -> nn.Module: ...  # noqa: D102

    @property
    def steps_per_epoch(self) -> int: ...  # noqa: D102

    def batches(self, epoch: int) -> Iterable[Any]:
        """This process's shares of an epoch's batches, which depend only on seed and epoch."""
        ...

    def step(self, batch: Any) -> Mapping[str, Tensor]:  # noqa: ANN401  (a system's own batch)
        """Scalar losses by name; ``total`` is minimised."""
        ...

    def describe(self, batch: Any) -> str:  # noqa: ANN401
        """Ids of a batch's samples, for the error message if a loss is not finite."""
        ...

    def open(self, folder: Path) -> None:
        """Called with the run folder before training or resuming, for data too large for checkpoints."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """State kept between steps besides the weights, such as a bank of embeddings.

        Called in every process, which must flush its own files before it returns; only the first process's
        state is saved.
        """
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state that `state_dict` returned, bit for bit; CheckpointError if it does not match."""
        ...


@dataclass(frozen=True)
class Event:
    """A finished step or a validated epoch, for displaying progress.

    Attributes:
        kind: step or epoch.
        position: epoch, step and totals so far.
        values: mean losses of the epoch so far, or validation metrics.
        remaining_s: estimated seconds to the end.
        steps: batches per epoch.
        epochs: total number of epochs.
        metric: metric by which the best weights are selected.
    """

    kind: Literal["step", "epoch"]
    position: Position
    values: Mapping[str, float]
    remaining_s: float
    steps: int = 0
    epochs: int = 0
    metric: str = ""


class Loop:
    """Trains one task in one run folder."""

    def __init__(
        self,
        task: Task,
        config: LoopConfig,
        folder: Path,
        *,
        validate: Callable[[nn.Module], Mapping[str, float]],
        maximise: bool,
        report: Callable[[Event], object] = lambda event: None,
        saved_with: Mapping[str, Any] | None = None,
        val_pairs: int | None = None,
    ) -> None:
        """Prepare the run without writing anything.

        Args:
            task: model, batches and losses.
            config: settings of the loop.
            folder: run folder; created if missing. Holds the best weights, the resumable state and the
                history.
            validate: returns metrics on the validation split; called once per epoch without gradients.
            maximise: whether higher values of `config.metric` are better.
            report: called after each step and epoch; returning True saves and stops.
            saved_with: values stored with the weights (the resolved settings).
            val_pairs: number of pairs used by `validate`, recorded in the history.
        """
        self._task, self._config, self._folder = task, config, folder
        self._validate, self._sign, self._report = validate, 1.0 if maximise else -1.0, report
        self._saved_with, self._val_pairs = dict(saved_with or {}), val_pairs
        self._rank = processes.rank()
        weights, rates = task.model.named_parameters(), (config.lr, config.betas, config.weight_decay)
        own = optimiser(config.optimiser, weights, *rates, rates=config.rates)
        # a part with its own rate keeps it: its minimum equals the rate
        floors = [0.0, *(group["lr"] for group in own.param_groups[1:])]
        others = config.learning_rate_factor if config.schedule == "cosine" else _unchanged
        schedule: ReduceLROnPlateau | LambdaLR = (
            # torch's relative threshold is wrong for negative values, and would count ties as improvements
            ReduceLROnPlateau(
                own,
                "max",
                factor=config.plateau_factor,
                patience=config.plateau_patience,
                threshold=0,
                threshold_mode="abs",
                min_lr=floors,
            )
            if config.schedule == "plateau"
            else LambdaLR(own, [config.learning_rate_factor, *([others] * (len(own.param_groups) - 1))])
        )
        settings = {"loop": config.model_dump(mode="json"), "run": self._saved_with}
        self._device = str(next(task.model.parameters()).device)
        self._scaler = torch.amp.GradScaler(
            self._device.partition(":")[0], enabled=config.precision == "float16"
        )
        self._state = TrainingState(task.model, own, schedule, Position(), settings, self._scaler)
        self._file = folder / RESUME
        self._started, self._started_at = time.monotonic(), 0

    def fit(self) -> Position:
        """Train to the end, starting from the saved state if the folder has one.

        Returns:
            The last position; `finished` tells whether training is complete.
        Raises:
            NumericsError: a loss is not finite; the message names step, term and samples.
            CheckpointError: the saved state does not match, or a file cannot be written.
        """
        make_folder(self._folder)
        self._task.open(self._folder)
        position = self._state.position
        processes.use_synchronised_norms(self._task.model)
        if self._file.exists():
            self._task.load_state_dict(self._state.restore(self._file))
            self._write_history()  # a crash or a full disk may have kept it from being written
        else:
            processes.seed_all(self._config.seed + self._rank)
            processes.broadcast_model(self._task.model)
        processes.barrier_and_seed(self._config.seed, position.taken)
        self._started, self._started_at = time.monotonic(), position.taken
        while not self.finished:
            self._task.model.train()
            drawn = islice(self._task.batches(position.epoch), position.step, None)
            # closed on a stop and on an error, which ends background decoding
            with closing(batch for batch in drawn) as batches:
                del drawn
                for batch in batches:
                    self._step(batch)
                    stop = self._emit("step", position.means)
                    if stop or position.taken % self._config.save_every_steps == 0:
                        self._save()
                    if stop:
                        return position
            if self._close_epoch():
                return position
        return position

    @property
    def finished(self) -> bool:
        """Whether the last epoch is done, or there was no improvement for `stop_after_stale` epochs."""
        position, patience = self._state.position, self._config.stop_after_stale
        stale = position.epoch - 1 - position.best_epoch
        return position.epoch >= self._config.epochs or (patience is not None and stale >= patience)

    def _step(self, batch: Any) -> None:  # noqa: ANN401
        """Take one step."""
        position, model, scaler = self._state.position, self._task.model, self._scaler
        self._state.optimiser.zero_grad(set_to_none=True)
        try:
            with autocast(self._device, self._config.precision):
                losses = self._task.step(batch)
            numbers = {name: float(value.detach()) for name, value in losses.items()}
            for name, number in numbers.items():
                if not math.isfinite(number):
                    raise NumericsError(
                        f"training: loss {name!r} is {number} at epoch {position.epoch}, step {position.step}"
                        f" (samples {self._task.describe(batch)}); lower loop.lr or check these samples"
                    )
        except NumericsError as error:
            wrong: NumericsError | None = error
            if not scaler.is_enabled():
                raise
        else:
            wrong = None
        before = scaler.get_scale()
        # if one process overflows, all skip the update, because the others would wait for its gradients
        if scaler.is_enabled() and processes.any_process(wrong is not None, model):
            # as torch does for overflowing gradients; here the loss overflowed
            less = {"scale": before * scaler.get_backoff_factor(), "_growth_tracker": 0}
            scaler.load_state_dict(scaler.state_dict() | less)
        else:
            scaler.scale(losses["total"]).backward()  # type: ignore[no-untyped-call]
            processes.average_gradients(model)
            if self._config.clip_norm is not None:
                scaler.unscale_(self._state.optimiser)
                nn.utils.clip_grad_norm_(model.parameters(), self._config.clip_norm)
            scaler.step(self._state.optimiser)
            scaler.update()
        position.step += 1
        position.taken += 1
        if scaler.get_scale() < before:
            position.skipped += 1
            if scaler.get_scale() < 1:
                raise NumericsError(
                    f"training: float16 overflows at epoch {position.epoch}, step {position.step - 1}"
                    f" (samples {self._task.describe(batch)}), and scaling gradients down does not help"
                    f" ({position.skipped} updates of this epoch skipped); train in bfloat16 or float32"
                ) from wrong
        else:
            for name, number in numbers.items():
                position.sums[name] = position.sums.get(name, 0.0) + number

    def _save(self) -> None:
        """Write the resumable state."""
        task_state = self._task.state_dict()
        processes.barrier()  # every process has flushed its own files
        if self._rank == 0:
            self._state.save(self._file, task_state)
        processes.barrier_and_seed(self._config.seed, self._state.position.taken)

    def _write_history(self) -> None:
        if self._rank == 0:
            checkpoint.write_history(self._folder / HISTORY, self._state.position.history)

    def _close_epoch(self) -> bool:
        """Validate, save the best weights, step the schedule, write a checkpoint; return whether to stop."""
        position, metric = self._state.position, self._config.metric
        processes.broadcast_model(self._task.model)
        self._task.model.eval()
        with torch.no_grad():
            metrics = dict(self._validate(self._task.model))
        # machines may round differently, but all must make the same decisions
        metrics[metric] = processes.broadcast_number(metrics[metric], self._device)
        if not math.isfinite(metrics[metric]):
            raise NumericsError(
                f"training: validation {metric} is {metrics[metric]} at epoch {position.epoch}"
            )
        value = self._sign * metrics[metric]
        lr = self._state.optimiser.param_groups[0]["lr"]
        schedule = self._state.schedule
        if isinstance(schedule, ReduceLROnPlateau):
            schedule.step(value)
        else:
            with warnings.catch_warnings():
                # a run resumed after the last step of an epoch takes no optimiser step before this
                warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler.step")
                schedule.step()
        if position.best is None or value > self._sign * position.best:
            position.best, position.best_epoch = metrics[metric], position.epoch
            if self._rank == 0:
                described = {"config": self._saved_with, "epoch": position.epoch, "validation": metrics}
                checkpoint.save(self._folder / BEST, self._task.model.state_dict(), described)
        entry = {"epoch": position.epoch, "lr": lr, "loss": position.means, "val": metrics}
        if self._val_pairs is not None:
            entry["val_pairs"] = self._val_pairs
        position.history.append(entry | ({"skipped": position.skipped} if self._scaler.is_enabled() else {}))
        position.epoch, position.step, position.sums, position.skipped = position.epoch + 1, 0, {}, 0
        self._save()
        self._write_history()
        return self._emit("epoch", metrics)

    def _emit(self, kind: Literal["step", "epoch"], values: Mapping[str, float]) -> bool:
        """Report an event and return whether to stop."""
        position = self._state.position
        done = max(position.taken - self._started_at, 1)
        left = self._config.epochs * self._task.steps_per_epoch - position.taken
        remaining_s = (time.monotonic() - self._started) / done * left
        config, steps = self._config, self._task.steps_per_epoch
        event = Event(kind, position, values, remaining_s, steps, config.epochs, config.metric)
        return processes.any_process(self._report(event) is True, self._task.model)


def _unchanged(epoch: int) -> float:
    """Factor of a part's own learning rate under schedules other than "cosine": always 1."""
    del epoch
    return 1.0


def optimiser(
    name: OptimiserName,
    parameters: Iterable[tuple[str, nn.Parameter]],
    lr: float,
    betas: tuple[float, float],
    weight_decay: float,
    *,
    rates: Mapping[str, float],
) -> torch.optim.Optimizer:
    """Build an optimiser for the parameters that require gradients.

    Args:
        name: adam or adadelta.
        parameters: all parameters of a model, with names.
        lr: learning rate.
        betas: betas of Adam.
        weight_decay: weight decay.
        rates: prefix of parameter names → learning rate of that part.
    Returns:
        The optimiser. Group 0 has the parameters without a rate of their own; the others follow in the order
        of `rates`, without empty groups.
    """
    groups: dict[str, list[nn.Parameter]] = {"": [], **{part: [] for part in rates}}
    for key, parameter in parameters:
        if parameter.requires_grad:
            part = next((part for part in rates if key == part or key.startswith(part + ".")), "")
            groups[part].append(parameter)
    some = [
        {"params": found, "lr": rates.get(part, lr)} for part, found in groups.items() if found or not part
    ]
    if name == "adadelta":
        return torch.optim.Adadelta(some, lr=lr, weight_decay=weight_decay)
    # fused: one kernel per step instead of several per tensor; a quarter of the time on a CPU
    return torch.optim.Adam(some, lr=lr, betas=betas, weight_decay=weight_decay, fused=True)
