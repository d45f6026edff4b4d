"""Files of c-way results: how every question was answered by one run, so that systems can be paired.

They lie beside the ranks of `results` in the run's folder, apart because another set of questions (another c)
is another result of the same run. It draws no question and makes no table.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import ConfigDict, Field, model_validator

from limner.data.records import Record
from limner.datasets.pairs import Pair
from limner.datasets.splits import duplicate_groups, text_id
from limner.errors import DataError, ShapeError
from limner.evaluation.choice import Choices, answer, stored_choices
from limner.evaluation.protocol import draw
from limner.evaluation.result_files import gather, read_as, write_whole
from limner.evaluation.results import About, Scores

FOLDER = "choices"


class ChoiceResult(Record):
    """One run's answers to one set of questions.

    Attributes:
        format: of the file.
        about: what it is of.
        c: options per question; chance is 1/c.
        draw: seed of the distractors.
        choices: digest of the questions, see `Choices.digest`.
        ids: (N,) different pairs, in order.
        groups: (N,) duplicate groups, the units of the bootstrap.
        picture_to_text: (N,) credit where the picture was given: 1, 0, or a share under ties.
        text_to_picture: (N,) credit where the text was given.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    format: Literal["limner-choice-result-1"] = "limner-choice-result-1"
    about: About
    c: int = Field(ge=2)
    draw: int = 0
    choices: str
    ids: tuple[str, ...] = Field(min_length=1)
    groups: tuple[str, ...]
    picture_to_text: tuple[float, ...]
    text_to_picture: tuple[float, ...]

    @model_validator(mode="after")
    def _lengths(self) -> "ChoiceResult":
        due = len(self.ids)
        for name in ("groups", "picture_to_text", "text_to_picture"):
            if len(getattr(self, name)) != due:
                raise ValueError(f"{name} has {len(getattr(self, name))} values for {due} pairs")
        if any(not 0 <= value <= 1 for value in (*self.picture_to_text, *self.text_to_picture)):
            raise ValueError("a credit is outside 0…1")
        return self

    @property
    def accuracy(self) -> tuple[float, float]:
        """Accuracy with the picture given and with the text given, fractions."""
        return float(np.mean(self.picture_to_text)), float(np.mean(self.text_to_picture))


def measure_choices(
    about: About,
    pairs: Sequence[Pair],
    scores: Scores,
    c: int,
    *,
    distractors: Path,
    seed: int = 0,
) -> ChoiceResult:
    """Answer c-way questions about the different pairs of a part.

    Args:
        about: what is measured.
        pairs: all rows of the part, with groups filled in; of a repeated pair the first row counts.
        scores: (rows, M) texts × different pictures in order of first appearance, as in `results.measure`.
        c: options per question.
        distractors: folder of stored questions that all runs share.
        seed: of the questions.
    Raises:
        ShapeError: the score table does not fit.
        DataError: a pair has no group, too few pairs, or the stored file is damaged.
    Source: SPEC 1.8.
    """
    lost = next((pair.id for pair in pairs if not pair.group), None)
    if lost is not None or not pairs:
        raise DataError(f"{about.data}: pair {lost!r} has no group; split the set first")
    texts = [text_id(pair.text) for pair in pairs]
    copies = duplicate_groups([[(text, pair.image_id)] for text, pair in zip(texts, pairs, strict=True)])
    rows = np.unique(np.array(copies, np.int64), return_index=True)[1]
    images = [pairs[row].image_id for row in rows]
    columns, full = draw(images, "full")
    size = len(full[0].pictures)
    if scores.shape != (len(pairs), size):
        raise ShapeError(
            f"{about.data}: scores have shape {scores.shape}, expected {len(pairs), size}"
            " (texts, different pictures)"
        )
    name = f"{about.data}-{about.split}-{about.part}".replace("/", "-")
    choices: Choices = stored_choices(distractors, name, [texts[row] for row in rows], images, c=c, seed=seed)
    answers = answer(lambda start, stop: scores[rows[start:stop]], size, columns, choices)
    return ChoiceResult(
        about=about,
        c=c,
        draw=seed,
        choices=choices.digest,
        ids=tuple(pairs[row].id for row in rows),
        groups=tuple(pairs[row].group for row in rows),
        picture_to_text=tuple(answers.picture_to_text.tolist()),
        text_to_picture=tuple(answers.text_to_picture.tolist()),
    )


def write_choice_result(result: ChoiceResult, run: Path | str) -> Path:
    """Write ``choices/<data>-<split>-<part>-<c>way.json`` of a run folder, whole or not at all."""
    return write_whole(result, Path(run) / FOLDER / f"{result.about.name}-{result.c}way.json")


def read_choice_result(path: Path) -> ChoiceResult:
    """Read one file of c-way results.

    Raises:
        MissingError: no such file.
        DataError: it is not one.
    """
    return read_as(path, ChoiceResult, "a c-way result", "run 'limner measure' with --choices")


def read_choice_results(runs: Path | str) -> list[ChoiceResult]:
    """All c-way results of the run folders below a folder, in the order of their paths.

    Raises:
        MissingError: no such folder.
        DataError: a file is none, or two are of the same system, data, split, part, preset, seed and c.
    """

    def identity(result: ChoiceResult) -> dict[str, object]:
        return {**result.about.identity, "c": result.c}

    return gather(runs, f"**/{FOLDER}/*way.json", read_choice_result, identity)
