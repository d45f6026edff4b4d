"""Training from Python, with progress shown in the terminal or notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from limner.library import AnyPath, as_path, several, wrong_type
from limner.progress import Progress, index_progress

if TYPE_CHECKING:
    from limner.research.runs.run import Run
    from limner.research.runs.train import FeatureProgress, Note
    from limner.research.training.loop import Event
    from limner.research.training.settings import RunConfig


def train(
    config: AnyPath | RunConfig,
    *,
    to: AnyPath,
    data: AnyPath = "",
    overrides: Mapping[str, object] | Sequence[str] = (),
    smoke: bool = False,
    weights: AnyPath | None = None,
    device: str = "auto",
) -> Run:
    """Train a system from its settings, or resume a run that was stopped in the same folder.

    Args:
        config: settings, or a TOML file of them.
        to: folder of the run; created if missing.
        data: settings of the data set, which override `config`: a name such as ``clue``, or a TOML file.
        overrides: values of single settings: ``{"loop.lr": 2e-4}``, or strings ``key=value``.
        smoke: whether to shrink the run to a few seconds, to test the settings.
        weights: weights of the backbone: a file, or a folder to look in.
        device: auto (a CUDA GPU if there is one), cpu, cuda, cuda:N or mps.
    Returns:
        The run, with the weights that did best on validation.
    Raises:
        LimnerError: see `limner.research.runs.train.train`.

    Example:
        >>> run = limner.train("configs/dual/mean.toml", data="picturebook", to="run", smoke=True)
        >>> run.config.row
        'dual, context mean'
        >>> limner.Run.open("run").system
        'dual'
    """
    from limner.research.runs.train import train as run_of
    from limner.research.training.settings import RunConfig

    words = overrides if isinstance(overrides, Mapping) else several(overrides)
    if not all(isinstance(word, str) for word in words):
        raise wrong_type("overrides", overrides, "a mapping such as {'loop.lr': 2e-4}, or key=value strings")
    with index_progress() as bar:
        return run_of(
            config if isinstance(config, RunConfig) else as_path(config, "train"),
            to=as_path(to, "to"),
            data=str(as_path(data, "data")) if data else "",
            overrides=words,
            smoke=smoke,
            weights=None if weights is None else as_path(weights, "weights"),
            device=device,
            progress=_Training(bar),
        )


class _Training:
    """Shows the progress of training: pictures read, steps of the epoch, and one line per epoch."""

    def __init__(self, bar: Progress) -> None:
        self._bar, self._stage, self._done = bar, "", 0

    def __call__(self, news: Note | FeatureProgress | Event) -> None:
        """Show one progress event."""
        from limner.research.runs.train import FeatureProgress, Note

        if isinstance(news, Note):
            self._bar.note(news.text)
        elif isinstance(news, FeatureProgress):
            self._until("pictures", news.done, news.total)
        elif news.kind == "step":
            self._until(f"epoch {news.position.epoch + 1} of {news.epochs}", news.position.step, news.steps)
        else:
            values = "  ".join(f"{name} {value:.3f}" for name, value in news.values.items())
            self._bar.note(f"epoch {news.position.epoch} of {news.epochs}: {values}")

    def _until(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self._bar.stage(stage, total)
            self._stage, self._done = stage, 0
        self._bar.advance(done - self._done)
        self._done = done
