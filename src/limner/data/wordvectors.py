"""Word vectors learned from training texts by CBOW word2vec, as a matrix that fits a vocabulary.

gensim does the learning; limner keeps the rows in the order of `Vocabulary` and stores them without pickle.
It trains no encoder, and no text outside the training split belongs here.
"""

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from limner.data.tokens import FIRST_WORD, UNKNOWN, Vocabulary
from limner.errors import CheckpointError, ConfigError, DataError, MissingError

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]


@dataclass(frozen=True)
class CbowSettings:
    """How vectors are learned; the defaults are those of the CMCM release.

    Attributes:
        width: E, numbers per word.
        window: words on either side.
        epochs: passes over the texts.
        seed: of all random numbers.
    Source: SPEC 1.5.
    """

    width: int = 300
    window: int = 10
    epochs: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges."""
        if min(self.width, self.window, self.epochs) < 1 or self.seed < 0:
            raise ConfigError(
                f"word vectors: {self}, expected numbers of at least 1 and a seed of at least 0"
            )


@dataclass(frozen=True)
class WordVectors:
    """A vocabulary and its vectors.

    Attributes:
        vocabulary: V words, padding and unknown among them.
        matrix: (V, E) float32; row 0 is zero, row 1 random.
        settings: how they were learned.
    """

    vocabulary: Vocabulary
    matrix: Matrix
    settings: CbowSettings


def learn_vectors(
    train_texts: Sequence[str], vocabulary: Vocabulary, settings: CbowSettings | None = None
) -> WordVectors:
    """Learn CBOW vectors; the same texts, words and seed give the same bits.

    One worker makes it so. Words of the vocabulary
    that the texts lack are drawn like the unknown word.

    Args:
        train_texts: of the training split only.
        vocabulary: whose rows the matrix gets.
        settings: None takes the defaults of the CMCM release.
    Raises:
        DataError: no text holds a word of the vocabulary.
        MissingError: gensim is not installed.
    Source: SPEC 1.5.
    """
    try:
        word2vec = import_module("gensim.models").Word2Vec
    except ModuleNotFoundError as error:
        raise MissingError("word vectors: gensim is not installed; run 'pip install gensim'") from error
    chosen = settings or CbowSettings()
    texts = [[word for word in vocabulary.tokens(text) if word in vocabulary] for text in train_texts]
    texts = [text for text in texts if text]
    if not texts:
        raise DataError(
            "word vectors: no training text holds a word of the vocabulary; give the training texts"
        )
    model = word2vec(
        texts,
        vector_size=chosen.width,
        window=chosen.window,
        min_count=1,
        sg=0,
        epochs=chosen.epochs,
        seed=chosen.seed,
        workers=1,
    )
    random = np.random.default_rng(chosen.seed)
    spread = 0.5 / chosen.width  # as gensim starts its own
    matrix: Matrix = random.uniform(-spread, spread, (len(vocabulary), chosen.width)).astype(np.float32)
    for number, word in enumerate(vocabulary.words, FIRST_WORD):
        if word in model.wv:
            matrix[number] = model.wv[word]
    matrix[:UNKNOWN] = 0
    return WordVectors(vocabulary, matrix, chosen)


def save_vectors(vectors: WordVectors, path: Path | str) -> None:
    """Write a safetensors file, whole or not at all; vocabulary and settings are JSON in its header."""
    from safetensors.numpy import save

    target = Path(path)
    about = {"vocabulary": vectors.vocabulary.to_json(), "settings": json.dumps(asdict(vectors.settings))}
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            file.write(save({"vectors": np.ascontiguousarray(vectors.matrix)}, about))
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def load_vectors(path: Path | str) -> WordVectors:
    """Read what `save_vectors` wrote.

    Raises:
        MissingError: no such file.
        CheckpointError: not such a file, or its parts do not fit each other.
    """
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise MissingError(f"{path}: not there; learn vectors from training texts first")
    try:
        with safe_open(str(path), framework="numpy") as file:
            about = file.metadata() or {}
            matrix = file.get_tensor("vectors")
        settings = CbowSettings(**json.loads(about["settings"]))
        vocabulary = Vocabulary.from_json(about["vocabulary"], str(path))
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: not a file of word vectors ({error}); learn them again") from error
    if matrix.dtype != np.float32 or matrix.shape != (len(vocabulary), settings.width):
        raise CheckpointError(
            f"{path}: {matrix.dtype} {matrix.shape}, expected float32 {(len(vocabulary), settings.width)}; "
            "learn them again"
        )
    return WordVectors(vocabulary, matrix, settings)
