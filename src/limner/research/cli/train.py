"""``limner train``: train a system from a settings file.

This module parses options, shows progress and handles signals; `limner.research.runs.train` trains.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Self

from cyclopts import Parameter
from rich.progress import MofNCompleteColumn, TextColumn

from limner.cli.main import emit_report, say
from limner.devices import Precision
from limner.errors import ConfigError, counted
from limner.progress import Bar, IndexProgress

if TYPE_CHECKING:
    from limner.research.runs.run import Run
    from limner.research.runs.train import FeatureProgress, Note
    from limner.research.training.loop import Event
    from limner.research.training.tensorboard import TensorBoardLog


def train(
    config: Path,
    *,
    to: Path,
    data: str = "",
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    smoke: Annotated[bool, Parameter(negative="")] = False,
    finetune: Annotated[bool, Parameter(negative="")] = False,
    weights: Path | None = None,
    device: str = "auto",
    precision: Precision | None = None,
    tensorboard: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train a system from a settings file; run it again to resume after an interruption.

    The test split is dropped first. Ctrl-C and SIGTERM save before stopping; a crash loses at most
    loop.save_every_steps steps. Under torchrun the processes train together.

    Example: limner train configs/cmcm/cmcm.toml --data picturebook --set preset=laptop --to runs/cmcm

    Parameters
    ----------
    config
        Settings file (TOML).
    to
        Folder of the run; created if missing.
    data
        Data set: NAME of configs/data/NAME.toml, whose settings are added, a name listed by
        'limner data sets', or another such TOML file.
    set_
        key=value that replaces a setting, such as loop.lr=2e-4 (repeatable).
    smoke
        Shrink everything to a run of a few seconds, as a test.
    finetune
        Train the image backbone as well, instead of using stored features.
    weights
        Weights of the backbone: a file, or a folder to look in.
    device
        Device: auto (a CUDA GPU if there is one), cpu, cuda, cuda:N or mps; under torchrun, auto and cuda
        are one card per process.
    precision
        Precision: float32, bfloat16 or float16; the last two are fast only on some GPUs and CPUs. Default:
        loop.precision of the settings.
    tensorboard
        Also write losses and validation figures to TO/tensorboard; needs the extra 'tensorboard'.
    json
        Print the result as JSON.
    """
    from limner.research.runs.train import StoppedError, read_config
    from limner.research.runs.train import train as train_run
    from limner.research.systems.base import system
    from limner.research.training import processes

    with processes.report_once():
        device = processes.join(device)
        first = processes.rank() == 0
        options = [
            *(["backbone=finetune"] if finetune else []),
            *([f"loop.precision={precision}"] if precision else []),
        ]
        if tensorboard:
            settings = read_config(config, [*set_, *options], data)
            if not system(settings.system).capabilities(settings).gradients:
                raise ConfigError(
                    f"train: {settings.system} is fitted at once, so it has no steps to log;"
                    " leave --tensorboard out"
                )
        try:
            with Watch(to if tensorboard else None, shown=first) as watch:
                run = train_run(
                    config,
                    to=to,
                    data=data,
                    overrides=[*set_, *options],
                    smoke=smoke,
                    weights=weights,
                    device=device,
                    progress=watch,
                )
        except StoppedError:
            if first:
                say("stopped: run the same command again to continue")
            raise
        if first:
            _show(run, as_json=json)


def _show(run: Run, *, as_json: bool) -> None:
    """Print the result."""
    from limner.research.evaluation.refinement import read_refinement

    position = run.position
    assert position is not None  # noqa: S101  (it was trained just now)
    best = position.history[position.best_epoch]["val"] if position.history else {}
    lines = [f"best epoch {position.best_epoch + 1} of {position.epoch}: {_figures(best)}"]
    found = read_refinement(run.folder) if run.can.refinement else None
    refinement = None
    if found is not None:  # JSON has no infinity, so the threshold is a string
        threshold = str(found.threshold)
        refinement = {"form": found.form, "strength": found.strength, "threshold": threshold}
        lines.append(f"refinement {found.form}: strength {found.strength}, T {threshold}")
    result = {
        "epochs": position.epoch,
        "steps": position.taken,
        "best_epoch": position.best_epoch + 1,
        "metric": run.config.loop.metric,
        "validation": best,
        "refinement": refinement,
    }
    emit_report(result, lines, as_json=as_json)


def _figures(values: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:.3f}" for name, value in values.items())


class Watch(ExitStack):
    """Context that shows the progress of training and stops it after Ctrl-C or SIGTERM.

    Epoch, losses, last validation and time left go to stderr; in a pipe, one line per epoch. During training
    a signal only sets a flag, so that no step or file is left half done.
    """

    def __init__(self, board: Path | None = None, *, shown: bool = True) -> None:
        """Prepare the display.

        Args:
            board: run folder, if TensorBoard's files should be written to it.
            shown: whether to show progress and write these files; False in all but the first process.
        """
        super().__init__()
        self._shown, self._stop, self._stepped = shown, False, False
        self._board: TensorBoardLog | None = None
        if board and shown:
            from limner.research.training import tensorboard

            self._board = tensorboard.TensorBoardLog(board)
        self._pictures: IndexProgress | None = None
        self._read, self._last = 0, ""
        self._steps = Bar(MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
        self._task = self._steps.bar.add_task("", total=None, left="")

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.signal(number, self._remember)
            self.callback(signal.signal, number, before)
        if self._board is not None:
            self.enter_context(self._board)
        self.callback(self._steps.bar.stop)
        self.callback(self._pictures_read)
        return self

    def __call__(self, news: Note | FeatureProgress | Event) -> bool:
        """Show an event and return whether to stop."""
        from limner.research.runs.train import FeatureProgress, Note

        if isinstance(news, FeatureProgress):
            if self._shown:
                self._pictures_are(news)
            return False
        self._pictures_read()
        if isinstance(news, Note):
            say(news.text)
            return False
        self._stepped = True
        if self._shown:
            self._steps.bar.start()
            self._step(news)
        if self._board is not None:
            self._board(news)
        return self._stop

    def _remember(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if not self._stepped:
            raise KeyboardInterrupt
        self._stop = True

    def _pictures_are(self, news: FeatureProgress) -> None:
        if self._pictures is None:
            self._pictures = IndexProgress()
            self._pictures.__enter__()
            self._pictures.stage("pictures", None)
        self._pictures.total(news.total)
        self._pictures.advance(news.done - self._read)
        self._read = news.done

    def _pictures_read(self) -> None:
        if self._pictures is not None:
            self._pictures.__exit__(None, None, None)
            self._pictures = None

    def _step(self, event: Event) -> None:
        position = event.position
        left = f"{event.remaining_s / 60:.1f} min left"
        values = _figures(event.values)
        if event.kind == "epoch":
            entry = position.history[-1]
            self._last = f"{event.metric} {event.values[event.metric]:.3f}"
            if "topics" in entry:
                say(f"{counted(entry['topics'], 'topic')}: {values}")
                return
            losses = _figures(entry["loss"])
            self._steps.note(f"epoch {position.epoch}/{event.epochs}: {losses} | {values} | {left}")
            return
        shown = f"epoch {position.epoch + 1}/{event.epochs}  {values}  {self._last}"
        self._steps.bar.update(
            self._task, completed=position.step, total=event.steps, description=shown, left=left
        )
