"""Trained runs as encoders of a library: their interface, and how they are opened.

A package that trains models names the functions that open them in its entry-point group `GROUP`; illustrating
imports none of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from limner.errors import RESEARCH, MissingError

if TYPE_CHECKING:
    from limner.arrays import FloatArray, ImageEncoder
    from limner.encoders.base_file import BaseCard

MODEL, DOCUMENT = "model", "document"


class TrainedModel(Protocol):
    """Interface of a trained model for storyboards; see `limner.research.systems.base.Model`."""

    relations: tuple[str, ...]

    @property
    def dim(self) -> int:
        """D."""

    @property
    def separable(self) -> bool:
        """Whether a relation's logit is a text term plus a picture term."""

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Encode N texts as (N, D) rows of unit length."""

    def encode_stories(self, stories: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Encode stories as (T, D) rows of unit length each."""

    def relation_terms(self, texts: FloatArray, images: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Text terms (N, C), with the bias, and picture terms (M, C), from (N, D) and (M, D) vectors."""

    def relation_probabilities(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """Probabilities (B, C) of B pairs of (B, D) texts and (B, D) pictures."""

    def attention(self, texts: Sequence[str]) -> list[list[tuple[str, float]]]:
        """Tokens of each text with their weights."""


class TrainedRun(Protocol):
    """A trained run that a library was indexed with; see `limner.research.runs.run.Run`."""

    @property
    def folder(self) -> Path:
        """Folder of the run."""

    @property
    def model(self) -> TrainedModel:
        """The model, in evaluation mode."""

    @property
    def system(self) -> str:
        """Name of its system."""

    @property
    def space(self) -> str:
        """Vector space of the run in a library."""

    @property
    def fingerprint(self) -> str:
        """Hash of the model and of its preprocessing."""

    @property
    def stories(self) -> bool:
        """Whether the model reads the steps of a story together."""

    @property
    def attends(self) -> bool:
        """Whether the model weighs the words of a text."""

    def encoder(self, weights: dict[str, Path]) -> ImageEncoder:
        """Image encoder, for indexing."""


GROUP, OPEN, EXPORT = "limner.runs", "open", "export"
"""Entry points that open runs, and write one as a file of the encoder base."""


class OpenRuns(Protocol):
    """Type of the entry point; see `limner.research.runs.run.library_runs`."""

    def __call__(
        self, model: Path | TrainedRun | None, metric: Path | TrainedRun | None, device: str
    ) -> tuple[TrainedRun | None, TrainedRun | None]:
        """Open runs, see `trained_runs`."""


def trained_runs(
    model: Path | TrainedRun | None, metric: Path | TrainedRun | None, device: str
) -> tuple[TrainedRun | None, TrainedRun | None]:
    """Open a model and a same-document metric, for indexing or searching a library.

    Args:
        model: the run or its folder; None for none.
        metric: same-document metric or its folder; None for none.
        device: device of runs that are opened here, see `limner.devices.device_of`.
    Raises:
        MissingError: no installed package opens runs, or there is none in a folder.
        ConfigError: an argument is not a run, or is a run of the other kind.
        CheckpointError: a run cannot be loaded.
    """
    if model is None and metric is None:
        return None, None
    open_runs: OpenRuns = _offered(OPEN)
    return open_runs(model, metric, device)


def export_run(run: Path, file: Path) -> BaseCard:
    """Write a trained run as a file of the encoder base.

    Args:
        run: folder of the run.
        file: file, ending in ``.safetensors``; an existing one is replaced.
    Raises:
        MissingError: no installed package trains runs.
        LimnerError: see `limner.research.runs.export.export_base`.
    """
    card: BaseCard = _offered(EXPORT)(run, file)
    return card


def _offered(name: str) -> Any:  # noqa: ANN401
    from importlib.metadata import entry_points  # needed by few libraries, like the runs themselves

    found = entry_points(group=GROUP, name=name)
    if not found:
        raise MissingError(f"no installed package opens trained runs; run: pip install {RESEARCH}")
    return next(iter(found)).load()
