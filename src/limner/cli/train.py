"""``limner train``: a settings file becomes a trained run.

It reads the settings, opens the data, shows progress and handles signals; `limner.training` does the work.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from limner.cli.terminal import emit, emit_json, say
from limner.errors import DataError

if TYPE_CHECKING:
    from limner.training.checkpoint import Position
    from limner.training.settings import RunConfig


def train(
    config: Path,
    *,
    to: Path,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    smoke: Annotated[bool, Parameter(negative="")] = False,
    finetune: Annotated[bool, Parameter(negative="")] = False,
    weights: Path | None = None,
    device: str = "cpu",
    tensorboard: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train a system as a settings file says; run it again to go on after a stop.

    The test split is dropped before anything is made from the data. A stop (Ctrl-C, SIGTERM) saves first;
    a kill loses at most the steps since the last save, loop.save_every_steps apart. Under torchrun the
    processes train together.

    Example: limner train configs/cmcm/picturebook/cmcm.toml --to runs/cmcm --smoke

    Parameters
    ----------
    config
        Settings, TOML.
    to
        Folder of the run; made if absent.
    set_
        key=value that replaces a setting, such as loop.lr=2e-4 (repeatable).
    smoke
        Shrink everything to a run of seconds, to see that it works.
    finetune
        Train the picture backbone along instead of using stored features.
    weights
        Weights of the backbone: a file, or a folder to look in.
    device
        torch device that trains; under torchrun, cuda is one card per process.
    tensorboard
        Write losses and figures below TO/tensorboard as well; needs the extra of that name.
    json
        Print the result as JSON.
    """
    from limner.datasets.missing import write_left_out
    from limner.datasets.neighbours import write_pair_scores
    from limner.evaluation.validation import HINGE, MARGIN, choices_of, maximise, validation
    from limner.progress import IndexProgress
    from limner.training.corpus import corpus_of, open_corpus
    from limner.training.loop import Loop
    from limner.training.processes import first_alone, join, leave, rank
    from limner.training.systems import read_config, system
    from limner.training.tensorboard import Board

    device = join(device)
    first = rank() == 0
    board = Board(to) if tensorboard and first else None
    words = [*set_, *(["trunk=finetune"] if finetune else [])]
    settings = read_config(config, words)
    settings = settings.smoke() if smoke else settings
    more_is_better = maximise(settings.loop.metric)
    tuned = getattr(settings, "trunk", "") == "finetune"
    with first_alone(), IndexProgress() as progress:
        progress.stage("pictures", None)
        data, pictures = open_corpus(
            settings.data,
            files=tuned,
            layer=getattr(settings, "layer", "pooled"),
            mirrored=getattr(settings, "mirrored", False),
            weights=weights,
            device=device,
            report=_Report(progress),
        )
    corpus = corpus_of(data, pictures, settings.data.relations, settings.data.limit)
    if first:
        _say_all((*data.notes, write_left_out(data.missing, to)))
        say(
            f"{corpus.name}: {len(corpus.train)} training and {len(corpus.val)} validation pairs;"
            f" preset {settings.preset}, deviations: {', '.join(settings.deviations()) or 'none'}"
        )
    judge = validation(
        corpus,
        choices_of(settings.loop.metric),
        getattr(settings, "margin", MARGIN) if settings.loop.metric == HINGE else None,
    )
    if system(settings.system).fit is not None:
        _fit(settings, corpus, to, judge, maximise=more_is_better, tensorboard=tensorboard, as_json=json)
        return
    brought = _brought(settings)
    prepared = system(settings.system).prepare(
        settings, corpus, device=device, backbone=_backbone(settings, weights) if tuned else None, **brought
    )
    _say_all(prepared.notes if first else ())
    shown = _Bar(settings, prepared.task.steps_per_epoch) if first else nullcontext()
    with shown as bar, board or nullcontext(), _stopping() as stop:

        def report(event: Any) -> bool:  # noqa: ANN401
            for show in (bar, board):
                if show is not None:
                    show(event)
            return bool(stop())

        loop = Loop(
            prepared.task,
            settings.loop,
            to,
            validate=judge,
            maximise=more_is_better,
            report=report,
            saved_with=prepared.saved_with,
        )
        position = loop.fit()
    leave()
    if not loop.finished:
        if first:
            say("stopped: run the same command again to go on")
        raise KeyboardInterrupt
    if not first:
        return
    scores = getattr(prepared.task, "pair_scores", lambda: None)()
    if scores is not None:
        write_pair_scores(scores, to)
    refinement = _refinement(settings, to, corpus, device)
    _show(position, settings, refinement, as_json=json)


def _say_all(notes: Iterable[str]) -> None:
    for note in notes:
        if note:
            say(note)


def _fit(
    settings: RunConfig,
    corpus: Any,  # noqa: ANN401
    to: Path,
    judge: Any,  # noqa: ANN401
    *,
    maximise: bool,
    tensorboard: bool,
    as_json: bool,
) -> None:
    """Fit a system that has no gradients, in the first process alone, and print the result.

    A stop leaves the best model so far, and the next run starts anew.

    Raises:
        ConfigError: curves were asked for, and there are none.
    """
    from limner.errors import ConfigError
    from limner.training.processes import leave, rank
    from limner.training.systems import system

    if tensorboard:
        raise ConfigError(f"train: {settings.system} takes no steps to draw; leave --tensorboard out")
    fit = system(settings.system).fit

    def tell(entry: Any) -> None:  # noqa: ANN401
        values = "  ".join(f"{name} {value:.3f}" for name, value in entry["val"].items())
        say(f"{entry['topics']} topics: {values}")

    if fit is not None and rank() == 0:
        position = fit(settings, corpus, to, validate=judge, maximise=maximise, report=tell)
        _show(position, settings, None, as_json=as_json)
    leave()


def _backbone(settings: RunConfig, weights: Path | None) -> Any:  # noqa: ANN401
    """The pretrained backbone in training form, giving vectors or grids, and its width."""
    from limner.encoders.catalogue import weight_file
    from limner.encoders.pixels import FromBytes, build, grid_trunk
    from limner.encoders.weights import read_state

    name = settings.data.backbone
    file = weight_file(name, weights)
    built = build(name, read_state(file), str(file.path))
    as_grid = getattr(settings, "layer", "pooled") == "grid"
    return FromBytes(grid_trunk(built.trunk, name) if as_grid else built.trunk), built.width


def _brought(settings: RunConfig) -> dict[str, Any]:
    """The frozen encoders of sentences that a system asks for; none needs a download."""
    from limner.encoders.catalogue import MULTILINGUAL, SENTENCES, text_encoder

    wanted = {"sentences": SENTENCES, "multilingual": MULTILINGUAL}
    return {
        name: text_encoder(encoder)
        for name, encoder in wanted.items()
        if getattr(settings, f"needs_{name}", False)
    }


def _refinement(settings: RunConfig, to: Path, corpus: Any, device: str) -> dict[str, Any] | None:  # noqa: ANN401
    """Choose and store how the best weights' scores are refined, or how a metric's cosines are read.

    None for models without relations.
    """
    from limner.evaluation.run import write_refinement
    from limner.evaluation.validation import chosen_refinement, fit_pull, write_pull
    from limner.training.systems import system

    model, _ = system(settings.system).load(to, device)
    if not hasattr(model, "encode_text"):
        try:
            write_pull(to, fit_pull(model, corpus))
        except DataError as error:
            say(f"{error}; until then 'limner illustrate --metric' will not take this run")
        return None
    if not getattr(model, "relations", ()):
        return None
    chosen = chosen_refinement(model, corpus, getattr(settings, "refinement", "multiply"))
    return write_refinement(to, chosen)


def _show(
    position: Position, settings: RunConfig, refinement: dict[str, Any] | None, *, as_json: bool
) -> None:
    """The result on stdout."""
    best = position.history[position.best_epoch]["val"] if position.history else {}
    if as_json:
        emit_json(
            {
                "epochs": position.epoch,
                "steps": position.taken,
                "best_epoch": position.best_epoch,
                "metric": settings.loop.metric,
                "validation": best,
                "refinement": refinement,
            }
        )
        return
    figures = "  ".join(f"{name} {value:.3f}" for name, value in best.items())
    emit(f"best epoch {position.best_epoch} of {position.epoch}: {figures}")
    if refinement is not None:
        emit(
            f"refinement {refinement['form']}: strength {refinement['strength']}, T {refinement['threshold']}"
        )


class _Report:
    """Moves a bar to where the extraction of features stands."""

    def __init__(self, progress: Any) -> None:  # noqa: ANN401
        self._progress, self._done = progress, 0

    def __call__(self, done: int, total: int) -> None:
        self._progress.total(total)
        self._progress.advance(done - self._done)
        self._done = done


class _Bar:
    """Epoch, losses, last validation and time left on stderr; in a pipe, one line per epoch."""

    def __init__(self, settings: RunConfig, steps: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._console = Console(stderr=True)
        self._epochs, self._metric, self._last = settings.loop.epochs, settings.loop.metric, ""
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=steps, left="")

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def __call__(self, event: Any) -> None:  # noqa: ANN401
        """Show an event of the loop."""
        position = event.position
        left = f"{event.remaining_s / 60:.1f} min left"
        values = "  ".join(f"{name} {value:.3f}" for name, value in event.values.items())
        if event.kind == "epoch":
            self._last = f"{self._metric} {event.values[self._metric]:.3f}"
            losses = "  ".join(f"{k} {v:.3f}" for k, v in position.history[-1]["loss"].items())
            self._console.print(
                f"epoch {position.epoch}/{self._epochs}: {losses} | {values} | {left}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
            return
        self._bar.update(
            self._task,
            completed=position.step,
            description=f"epoch {position.epoch + 1}/{self._epochs}  {values}  {self._last}",
            left=left,
        )


@contextmanager
def _stopping() -> Iterator[Any]:
    """Within it SIGTERM and Ctrl-C raise a flag, which calling the result tells.

    So no step and no file is ever half done, and a stop looks the same from wherever it comes.
    """
    asked: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        del frame
        asked.append(number)

    before = {number: signal.signal(number, remember) for number in (signal.SIGTERM, signal.SIGINT)}

    def stop() -> bool:
        return bool(asked)

    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
