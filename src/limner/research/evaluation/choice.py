"""c-way choice: find the true option among c − 1 distractors.

The result depends on the distractors as much as on the model. They are therefore sampled once, stored in a
file and identified by their hash, so that all systems answer the same questions.
"""

import hashlib
import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from limner.errors import ConfigError, DataError, NumericsError, ShapeError, counted
from limner.files import write_bytes
from limner.research.datasets.pairs import Pair, text_id
from limner.research.evaluation.ranking import Score, host
from limner.research.evaluation.results import About, ChoiceResult
from limner.research.evaluation.retrieval import different_pairs

FORMAT = "limner-choices-1"
DEFAULT_CHOICES = 5
OWN_CHOICES = {"coco": 100, "conceptual": 20}
_QUESTIONS = (
    64  # per block: larger blocks compute more scores that no question needs, smaller ones need more calls
)
Rows = NDArray[np.int32]
Credits = NDArray[np.float64]


@dataclass(frozen=True)
class Choices:
    """The distractors of N pairs in both directions.

    Attributes:
        texts: (N, c − 1) rows whose texts are the distractors when a picture is given.
        pictures: (N, c − 1) rows whose pictures are the distractors when a text is given.
        seed: seed of the sample.
        key: SHA-256 of the pairs' text and picture ids in order, 64 hex digits.
    """

    texts: Rows
    pictures: Rows
    seed: int
    key: str

    def __len__(self) -> int:
        """Number of pairs, N."""
        return len(self.texts)

    @property
    def c(self) -> int:
        """Number of options per question, including the true one."""
        return int(self.texts.shape[1]) + 1

    @property
    def digest(self) -> str:
        """SHA-256 of the pairs and their distractors: equal digests mean equal questions."""
        found = hashlib.sha256(f"{FORMAT} {self.key} {self.seed} {self.c}".encode())
        for table in (self.texts, self.pictures):
            found.update(np.ascontiguousarray(table, dtype="<i4").tobytes())
        return found.hexdigest()


class Answers(NamedTuple):
    """Credit for each answer: 1 if right, 0 if wrong, 1/t if t options tie at the top.

    Attributes:
        picture_to_text: (N,) credit when the picture is given.
        text_to_picture: (N,) credit when the text is given.
    """

    picture_to_text: Credits
    text_to_picture: Credits


def default_choices(data: str) -> int:
    """Options per question that T&K 2022 use on a data set; 5, their most frequent number, on others."""
    return OWN_CHOICES.get(data, DEFAULT_CHOICES)


def draw_choices(
    text_ids: Sequence[Hashable], image_ids: Sequence[Hashable], c: int, seed: int = 0
) -> Choices:
    """Sample c − 1 distractors for each pair and direction, uniformly without replacement.

    Args:
        text_ids: (N,) ids, equal for equal texts.
        image_ids: (N,) ids, equal for equal pictures.
        c: number of options per question, at least 2.
        seed: seed of the sample.
    Raises:
        ConfigError: c is below 2.
        DataError: there are no pairs, or a pair has fewer than c − 1 possible distractors.
    Source: T&K 2022, Section 4; docs/methods/evaluation.md §4. Departs: an option that is right for the
    query through another pair (a second caption or picture) is not a distractor.
    """
    if c < 2:
        raise ConfigError(f"choices: {c} options, expected at least 2: the right one and a distractor")
    if not len(text_ids):
        raise DataError("choices: no pairs; a question needs at least one")
    rng = np.random.default_rng(seed)
    texts = _drawn(image_ids, text_ids, c, rng, "text")
    pictures = _drawn(text_ids, image_ids, c, rng, "picture")
    return Choices(texts, pictures, seed, key_of(text_ids, image_ids))


def key_of(text_ids: Sequence[Hashable], image_ids: Sequence[Hashable]) -> str:
    """SHA-256 of the ids of pairs in order, 64 hex digits."""
    pairs = [[str(text), str(image)] for text, image in zip(text_ids, image_ids, strict=True)]
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()


def write_choices(choices: Choices, path: Path) -> None:
    """Write the distractors to a file, atomically; creates its folder."""
    held = {"texts": np.ascontiguousarray(choices.texts), "pictures": np.ascontiguousarray(choices.pictures)}
    about = {"format": FORMAT, "key": choices.key, "seed": str(choices.seed), "digest": choices.digest}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, save(held, about))


def read_choices(path: Path) -> Choices:
    """Read stored distractors.

    Raises:
        DataError: not a file of distractors, or its contents do not match their hash.
    """
    try:
        with safe_open(path, framework="np") as file:
            about = file.metadata() or {}
            texts, pictures = file.get_tensor("texts"), file.get_tensor("pictures")
        choices = Choices(texts, pictures, int(about["seed"]), about["key"])
        fits = texts.ndim == 2 and texts.shape == pictures.shape
        fits = fits and texts.dtype == pictures.dtype == np.int32
        sound = fits and choices.digest == about["digest"]
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise DataError(
            f"{path}: not a file of distractors ({error}); remove it, and the next run samples them again"
        ) from error
    if not sound:
        raise DataError(
            f"{path}: content does not match its hash; remove the file, and the next run samples it again"
        )
    return choices


def stored_choices(
    folder: Path, name: str, text_ids: Sequence[Hashable], image_ids: Sequence[Hashable], c: int
) -> Choices:
    """The stored distractors of these pairs; if there are none, sample them with seed 0 and store them.

    Args:
        folder: folder shared by all runs.
        name: name of the data set, split and part, for the file's name.
        text_ids: see `draw_choices`.
        image_ids: see `draw_choices`.
        c: see `draw_choices`.
    Raises:
        DataError: the file is damaged, or there are too few pairs.
    """
    key = key_of(text_ids, image_ids)
    path = folder / f"{name}-{c}way-0-{key[:12]}.safetensors"
    if not path.exists():
        choices = draw_choices(text_ids, image_ids, c)
        write_choices(choices, path)
        return choices
    choices = read_choices(path)
    if (choices.key, choices.c, choices.seed, len(choices)) != (key, c, 0, len(text_ids)):
        raise DataError(
            f"{path}: contains distractors of other pairs; remove the file, and the next run samples them"
        )
    return choices


def answer(score: Score, rows: NDArray[np.int64], columns: NDArray[np.int64], choices: Choices) -> Answers:
    """Answer each question with the option of the highest score.

    Only the options are scored. All options of a question are scored in one block, so that equal vectors tie.

    Args:
        score: scores of texts and distinct pictures.
        rows: (N,) row of each pair's text.
        columns: (N,) column of each pair's picture.
        choices: distractors of the questions.
    Raises:
        ShapeError: a block of scores has the wrong shape.
        NumericsError: the score of an option is not finite; the message names the pair.
    Source: docs/methods/evaluation.md §4.
    """
    own = np.arange(len(choices))[:, None]
    texts, pictures = (np.concatenate([own, one], axis=1) for one in (choices.texts, choices.pictures))
    by_picture, by_text = np.empty((2, len(choices), choices.c))
    for start in range(0, len(choices), _QUESTIONS):
        some = slice(start, start + _QUESTIONS)
        options, place = np.unique(rows[texts[some]], return_inverse=True)
        block = _block(score, options, columns[some])
        by_picture[some] = block.T[np.arange(block.shape[1])[:, None], place.reshape(-1, choices.c)]
        options, place = np.unique(columns[pictures[some]], return_inverse=True)
        block = _block(score, rows[some], options)
        by_text[some] = block[np.arange(len(block))[:, None], place.reshape(-1, choices.c)]
    return Answers(_credits(by_picture, "picture"), _credits(by_text, "text"))


def _block(score: Score, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.floating]:
    """Scores of some texts (rows) with some pictures (columns), after checking their shape."""
    found = host(score(rows, columns))
    if found.shape != (len(rows), len(columns)):
        raise ShapeError(f"choices: scores have shape {found.shape}, expected {len(rows), len(columns)}")
    return found


def _drawn(
    queries: Sequence[Hashable], options: Sequence[Hashable], c: int, rng: np.random.Generator, what: str
) -> Rows:
    """(N, c − 1) rows of different options that are wrong for the query in every pair."""
    first: dict[Hashable, int] = {}
    right: dict[Hashable, set[Hashable]] = {}
    for row, (query, option) in enumerate(zip(queries, options, strict=True)):
        right.setdefault(query, set()).add(option)
        first.setdefault(option, row)
    rows, numbers = np.array(list(first.values())), {option: number for number, option in enumerate(first)}
    skips: dict[Hashable, NDArray[np.int64]] = {}
    for query, own in right.items():
        banned = np.array(sorted(numbers[option] for option in own), dtype=np.int64)
        skips[query] = banned - np.arange(len(banned))
    found = np.empty((len(queries), c - 1), dtype=np.int32)
    for row, query in enumerate(queries):
        skip = skips[query]
        allowed = len(rows) - len(skip)
        if allowed < c - 1:
            raise DataError(
                f"choices: pair {row} has {allowed} different wrong {what}s, expected at least {c - 1}"
                f" for {c} options; use fewer options"
            )
        places = rng.choice(allowed, c - 1, replace=False, shuffle=False)
        # allowed options are numbered without the banned ones, so skip the banned ones before each
        found[row] = rows[places + np.searchsorted(skip, places, side="right")]
    return found


def _credits(scores: NDArray[np.float64], given: str) -> Credits:
    """(N, c) scores, true option first → (N,): 1 if only it is best, 1/t if it is one of t best, else 0."""
    wrong = np.flatnonzero(~np.isfinite(scores).all(axis=1))
    if len(wrong):
        raise NumericsError(
            f"choices: an option of pair {wrong[0]} ({given} given) has a score that is not finite"
            f" ({len(wrong)} of {counted(len(scores), 'pair')}); check the encoder's input for that row"
        )
    right = scores[:, :1]
    return np.where((scores > right).any(axis=1), 0.0, 1.0 / (scores == right).sum(axis=1))


def measure_choices(
    about: About,
    pairs: Sequence[Pair],
    score: Score,
    c: int,
    *,
    distractors: Path,
) -> ChoiceResult:
    """Answer c-way questions about the distinct pairs of a part.

    Args:
        about: description of the run.
        pairs: all rows of the part, with groups; of repeated pairs the first row counts.
        score: see `limner.research.evaluation.retrieval.measure`.
        c: number of options per question.
        distractors: folder of stored questions, shared by all runs.
    Raises:
        ShapeError: a block of scores has the wrong shape.
        DataError: a pair has no group, there are too few pairs, or the stored file is damaged.
    Source: docs/methods/evaluation.md §4.
    """
    _, rows, columns, _ = different_pairs(about, pairs)
    texts, images = [text_id(pairs[row].text) for row in rows], [pairs[row].image_id for row in rows]
    choices = stored_choices(distractors, about.name.replace("/", "-"), texts, images, c)
    answers = answer(score, rows, columns, choices)
    return ChoiceResult(
        about=about,
        c=c,
        choices=choices.digest,
        ids=tuple(pairs[row].id for row in rows),
        groups=tuple(pairs[row].group for row in rows),
        picture_to_text=tuple(answers.picture_to_text.tolist()),
        text_to_picture=tuple(answers.text_to_picture.tolist()),
    )
