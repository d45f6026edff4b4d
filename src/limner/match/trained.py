"""A trained run instead of the channels: text encoder, relations, and predictions for a storyboard.

`limner.encoders.trained` defines the interface of a run.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from limner.arrays import FloatArray, unit_rows
from limner.encoders.trained import MODEL, TrainedRun
from limner.errors import CheckpointError, ConfigError, DataError, counted, unknown
from limner.match.illustrate import step_texts
from limner.store.search import Channel, Evidence

if TYPE_CHECKING:
    from limner.records import Board
    from limner.store import Store
    from limner.store.vectors import Gallery

RELATION = "relation"
# Chosen, not fitted: a picture one standard deviation above the mean of its text has even odds, and each
# further deviation adds two nats. The scale of cosines differs between runs, so only their spread is used.
PRIOR = Evidence(slope=0.0, z_slope=2.0, offset=-2.0)
DIGITS = 4


def run_channel(run: TrainedRun, library: Store) -> Channel:
    """Channel of a trained run, to use instead of all others.

    Args:
        run: run that the library was indexed with.
        library: the library.
    Raises:
        ConfigError: the run has no text encoder.
        DataError: the library was not indexed with a run.
        CheckpointError: the library was indexed with another run.
    """
    if run.space != MODEL:
        raise ConfigError(
            f"--model: {run.folder} compares pictures and reads no texts; give it with --metric"
        )
    check_run(run, library)
    return Channel(MODEL, RunTexts(run), MODEL, PRIOR, whole=True)


def check_run(run: TrainedRun, library: Store) -> None:
    """Check that a library has the vectors of a run.

    Raises:
        DataError: the library was not indexed with such a run.
        CheckpointError: the library was indexed with another run.
    """
    made_by = library.settings.spaces.get(run.space)
    if made_by is None:
        raise DataError(f"{library.place}: no vectors of a trained run; {_due(run, library)}")
    if made_by.fingerprint != run.fingerprint:
        raise CheckpointError(
            f"{library.place}: its vectors are of another run ({made_by.encoder}); {_due(run, library)}"
        )


def without_vectors(run: TrainedRun, held: int, pictures: int, library: Store) -> str:
    """Note on the number of pictures without a vector of a run; "" if all have one.

    Args:
        run: the run.
        held: number of pictures that have a vector.
        pictures: number of pictures.
        library: the library, for the command that adds the vectors.
    """
    if held >= pictures:
        return ""
    lacking = f"{pictures - held} of {counted(pictures, 'picture')}"
    return f"no vector of this run for {lacking}; {_due(run, library)}"


def _due(run: TrainedRun, library: Store) -> str:
    """Advice: the command that indexes a library with a run."""
    source = shlex.quote(next(iter(library.settings.sources), "PICTURES"))
    option = "--model" if run.space == MODEL else "--metric"
    places = f"--library {shlex.quote(library.place)} {option} {shlex.quote(str(run.folder))}"
    return f"run: limner index {source} {places}"


def asked(words: str, relations: Sequence[str]) -> tuple[str, float]:
    """Parse ``NAME`` or ``NAME=TIMES`` into a relation and its weight; a negative one avoids it.

    Args:
        words: value of the option.
        relations: known names, which may contain an equals sign.
    Raises:
        ConfigError: TIMES is not a finite number.
    """
    name, equals, times = words.rpartition("=")
    if words in relations or not equals or name not in relations:
        return words, 1.0
    try:
        number = float(times)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise ConfigError(f"--relation {words!r}: {times!r} is not a number; expected for example {name}=5")
    return name, number


def predicted(board: Board, run: TrainedRun, gallery: Gallery) -> Board:
    """Add the relations of each chosen picture and the attention over each text to a board.

    Pictures without a vector, such as those that the text itself shows, get no relations.

    Args:
        board: storyboard made with the run.
        run: the run.
        gallery: pictures, with the run's space.
    """
    texts, space = step_texts(board.story), gallery.space(MODEL)
    chosen = {step.position: step.chosen.picture.id for step in board.steps if step.chosen is not None}
    rows = zip(chosen, gallery.rows(chosen.values()).tolist(), strict=True)
    shown = {step: row for step, row in rows if row >= 0 and space.present[row]}
    relations: dict[int, dict[str, float]] = {}
    names = run.model.relations
    if names and shown:
        vectors = space.vectors(list(shown.values()))
        asked_texts = run.model.encode_text([texts[step] for step in shown])
        table = run.model.relation_probabilities(asked_texts, vectors)
        for step, row in zip(shown, table, strict=True):
            chances = (round(float(chance), DIGITS) for chance in row)
            relations[step] = dict(zip(names, chances, strict=True))
    attention = run.model.attention(texts) if run.attends else [[]] * len(texts)
    steps = []
    for each, words in zip(board.steps, attention, strict=True):
        shares = tuple((word, round(float(share), DIGITS)) for word, share in words)
        found = {"relations": relations.get(each.position, {}), "attention": shares}
        steps.append(each.model_copy(update=found))
    return board.model_copy(update={"steps": tuple(steps)})


class RunTexts:
    """Text encoder of a trained run; see `limner.arrays.TextEncoder`.

    The texts of one call are the steps of one story: models of sequences read them together.
    """

    def __init__(self, run: TrainedRun) -> None:
        """Wrap a run."""
        self._run, self.name, self.fingerprint = run, run.system, run.fingerprint

    @property
    def dim(self) -> int:
        """D."""
        return self._run.model.dim

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Encode N texts as (N, D) float32 rows of unit length."""
        model = self._run.model
        return model.encode_stories([list(texts)])[0] if self._run.stories else model.encode_text(texts)


def _direction(run: TrainedRun, relation: str) -> FloatArray:
    """Weights w (D,) of a relation's picture term w · v, the same for every text.

    In the linear module a logit is a text term plus w · v, so only w · v differs between pictures.

    Raises:
        ConfigError: the relation is unknown, the run predicts none, or they are not linear.
    Source: docs/methods/cmcm.md §2.4.
    """
    names = run.model.relations
    if not names:
        raise ConfigError(
            f"--relation: {run.folder} predicts no relations; train with --set model.relations=linear"
        )
    if relation not in names:
        raise ConfigError("--relation: " + unknown("relation", relation, names))
    if not run.model.separable:
        raise ConfigError(
            f"--relation: in {run.folder} relations are not linear, so no picture has one apart from its"
            " text; train with --set model.relations=linear"
        )
    # The picture terms of the D basis vectors are the rows of the picture half of the weights.
    basis = np.eye(run.model.dim, dtype=np.float32)
    weights: FloatArray = run.model.relation_terms(basis[:1], basis)[1][:, names.index(relation)]
    return weights


@dataclass(frozen=True)
class StepRelations:
    """Encodes each step as the requested relation, scaled by its weight; see `limner.arrays.TextEncoder`.

    Attributes:
        rows: (S, D) rows of length at most 1; zero for a step without a relation, which adds no evidence.
        fingerprint: fingerprint of the run.
        name: name of the channel.
    """

    rows: FloatArray
    fingerprint: str
    name: str = RELATION

    @property
    def dim(self) -> int:
        """D."""
        return int(self.rows.shape[1])

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Rows (S, D), independent of the texts."""
        return self.rows


def relation_channel(run: TrainedRun, relations: Sequence[str | None]) -> Channel:
    """Channel of each step's relation, with the picture term in nats: slope · cosine = times · w · v.

    Args:
        run: run that predicts relations.
        relations: ``NAME``, ``NAME=TIMES`` or None for each step, at least one of them not None.
    Raises:
        ConfigError: a relation is unknown, or the run has no linear relations.
    """
    rows = np.zeros((len(relations), run.model.dim), dtype=np.float32)
    for row, words in zip(rows, relations, strict=True):
        if words is not None:
            name, times = asked(words, run.model.relations)
            weights = _direction(run, name)
            row[:] = unit_rows(RELATION, weights[None])[0] * np.float32(times * np.linalg.norm(weights))
    # rows may have length 1 at most; the slope restores the factor
    slope = float(np.linalg.norm(rows, axis=1).max())
    encoder = StepRelations(rows / np.float32(slope) if slope else rows, run.fingerprint)
    evidence = Evidence(slope=slope, z_slope=0.0, offset=0.0)
    return Channel(RELATION, encoder, MODEL, evidence, whole=True)
