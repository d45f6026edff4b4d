"""A trained run asks a library: its texts, a relation one would like, and what it predicts for a storyboard.

It stands in for the channels of untrained use. `limner.encoders.trained` says what a run offers.
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
from limner.store.channels import Channel, Evidence

if TYPE_CHECKING:
    from limner.records import Board
    from limner.store.library import PictureStore
    from limner.store.vectors import Gallery

RELATION = "relation"
# A prior, fitted on nothing: a picture one standard deviation above the mean of its text is even odds, and
# every further one adds two nats. A run's cosines have a scale of their own, so only their spread is used.
PRIOR = Evidence(slope=0.0, z_slope=2.0, offset=-2.0)
DIGITS = 4


def run_channel(run: TrainedRun, library: PictureStore) -> Channel:
    """The channel to ask a library with, in place of those of untrained use.

    Args:
        run: that the library was indexed with.
        library: whose pictures are asked.
    Raises:
        ConfigError: the run reads no texts.
        DataError: the library was not indexed with a run.
        CheckpointError: it was indexed with another one.
    """
    if run.space != MODEL:
        raise ConfigError(
            f"--model: {run.folder} compares pictures and reads no texts; give it with --metric"
        )
    check_run(run, library)
    return Channel(MODEL, RunTexts(run), MODEL, PRIOR, whole=True)


def check_run(run: TrainedRun, library: PictureStore) -> None:
    """Refuse a library that does not hold a run's vectors.

    Raises:
        DataError: the library was not indexed with a run of its kind.
        CheckpointError: it was indexed with another one.
    """
    made_by = library.settings.spaces.get(run.space)
    if made_by is None:
        raise DataError(f"{library.place}: no vectors of a trained run; {_due(run, library)}")
    if made_by.fingerprint != run.fingerprint:
        raise CheckpointError(
            f"{library.place}: its vectors are of another run ({made_by.encoder}); {_due(run, library)}"
        )


def without_vectors(run: TrainedRun, held: int, pictures: int, library: PictureStore) -> str:
    """A line that counts the pictures of a library without a vector of a run; "" where all have one.

    Args:
        run: whose vectors are meant.
        held: pictures that have one.
        pictures: of the library.
        library: for the command that mends it.
    """
    if held >= pictures:
        return ""
    lacking = f"{pictures - held} of {counted(pictures, 'picture')}"
    return f"no vector of this run for {lacking}; {_due(run, library)}"


def _due(run: TrainedRun, library: PictureStore) -> str:
    """The command that indexes a library with a run."""
    source = shlex.quote(next(iter(library.settings.sources), "PICTURES"))
    option = "--model" if run.space == MODEL else "--metric"
    places = f"--library {shlex.quote(library.place)} {option} {shlex.quote(str(run.folder))}"
    return f"run: limner index {source} {places}"


def asked(words: str, relations: Sequence[str]) -> tuple[str, float]:
    """``NAME`` or ``NAME=TIMES`` as a relation and how many times its evidence counts; below 0 avoids it.

    Args:
        words: as a person writes them.
        relations: known names, which may have an equals sign themselves.
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
        raise ConfigError(f"--relation {words!r}: {times!r} is not a number; write such as {name}=5")
    return name, number


def predicted(board: Board, run: TrainedRun, gallery: Gallery) -> Board:
    """The board with the relations of each chosen picture and the attention over each text.

    Pictures without a vector, such as those that a text brings along, get no relations.

    Args:
        board: made with the run's channels.
        run: whose predictions are wanted.
        gallery: with the run's space.
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
    """The text side of a trained run; see `limner.arrays.TextEncoder`.

    The texts of one call are the steps of one story: models of sequences read them together.
    """

    def __init__(self, run: TrainedRun) -> None:
        """Take a run."""
        self._run, self.name, self.fingerprint = run, run.system, run.fingerprint

    @property
    def dim(self) -> int:
        """D."""
        return self._run.model.dim

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 rows of unit length."""
        model = self._run.model
        return model.encode_stories([list(texts)])[0] if self._run.stories else model.encode_text(texts)


def _direction(run: TrainedRun, relation: str) -> FloatArray:
    """(D,) weights w of a relation's picture term w · v, the same for every text.

    For the linear module a logit is a text term plus w · v, so among pictures only w · v matters.

    Raises:
        ConfigError: no such relation, none at all, or they are not linear.
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
    """The direction each step asks for, as long as it counts; see `limner.arrays.TextEncoder`.

    Attributes:
        rows: (S, D) of length at most 1; zero for a step without a relation, which adds no evidence.
        fingerprint: of the run.
        name: of the channel.
    """

    rows: FloatArray
    fingerprint: str
    name: str = RELATION

    @property
    def dim(self) -> int:
        """D."""
        return int(self.rows.shape[1])

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """(S, D) the rows, whatever the words."""
        return self.rows


def relation_channel(run: TrainedRun, relations: Sequence[str | None]) -> Channel:
    """The picture term of each step's relation, in nats: slope · cosine = times · w · v.

    Args:
        run: that predicts relations.
        relations: per step ``NAME``, ``NAME=TIMES`` or None; one at least is a relation.
    Raises:
        ConfigError: an unknown relation, or a run without linear ones.
    """
    rows = np.zeros((len(relations), run.model.dim), dtype=np.float32)
    for row, words in zip(rows, relations, strict=True):
        if words is not None:
            name, times = asked(words, run.model.relations)
            weights = _direction(run, name)
            row[:] = unit_rows(RELATION, weights[None])[0] * np.float32(times * np.linalg.norm(weights))
    # Rows may be shorter than 1 but not longer; the slope gives them their lengths back.
    slope = float(np.linalg.norm(rows, axis=1).max())
    encoder = StepRelations(rows / np.float32(slope) if slope else rows, run.fingerprint)
    evidence = Evidence(slope=slope, z_slope=0.0, offset=0.0)
    return Channel(RELATION, encoder, MODEL, evidence, whole=True)
