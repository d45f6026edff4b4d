"""Document vectors learned on training texts by gensim's doc2vec, and word vectors from GloVe files.

Both are deterministic for given texts and seed.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limner.errors import RESEARCH, DataError, MissingError, installed
from limner.research.datasets.folders import refuse_pickle

Vector = NDArray[np.float32]
WINDOW = 20
"""doc2vec's window: largest distance between a predicted word and its context words."""


def read_glove(path: Path | str, words: Collection[str]) -> dict[str, Vector]:
    """Read word vectors from a text file with lines ``word n₁ n₂ … n_E``, separated by single spaces.

    A first line of two integers, as written by word2vec, is skipped. The first vector sets the width E; the
    last E fields of each line are numbers, and the rest is the word, which may contain spaces.

    Args:
        path: the text file, UTF-8.
        words: words to read, spelt as in the file.
    Returns:
        Word → (E,) float32; words that are not in the file are left out. The first entry of a repeated word
        counts.
    Raises:
        MissingError: the file does not exist.
        DataError: a line has another width, or a number that is not finite; the message names the line.
    """
    file = Path(path)
    if not file.is_file():
        raise MissingError(
            f"{file}: does not exist; unpack glove.6B.zip from nlp.stanford.edu/projects/glove"
            " and add --set data.glove=FILE"
        )
    refuse_pickle(file)
    wanted = {word.encode("utf-8"): word for word in words}
    vectors: dict[str, Vector] = {}
    width = 0
    with file.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            fields = line.rstrip().split(b" ")
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                continue
            if not width:
                width = len(fields) - 1
            if width < 2 or len(fields) <= width:
                raise DataError(
                    f"{file}:{number}: {len(fields)} fields, expected a word and {max(width, 2)} numbers"
                )
            word = wanted.get(b" ".join(fields[:-width]))
            if word is not None and word not in vectors:
                vectors[word] = _vector(fields[-width:], f"{file}:{number}")
    if not width:
        raise DataError(f"{file}: no word vectors; expected lines of a word and its numbers")
    return vectors


def _vector(fields: list[bytes], where: str) -> Vector:
    """Parse the numbers of one line."""
    try:
        vector = np.asarray([float(field) for field in fields], dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{where}: {str(error)[:80]}; expected numbers separated by single spaces") from None
    if not np.isfinite(vector).all():
        raise DataError(f"{where}: a number is not finite; download the file again")
    return vector


def document_vectors(
    texts: Sequence[str], *, size: int, min_count: int, epochs: int, seed: int
) -> NDArray[np.float32]:
    """Train doc2vec on texts and return one vector per text.

    Args:
        texts: n training texts; do not pass test texts.
        size: dimension of the vectors.
        min_count: words that occur less often are ignored.
        epochs: passes over the texts.
        seed: seed of the training.
    Returns:
        (n, size) float32; a text without a sufficiently frequent word gets the zero vector.
    Raises:
        DataError: no word is frequent enough.
    Source: T&K 2022, Section 3.2; docs/methods/complementary.md §3. Departs: the vectors come
        from training, not from inference, because gensim seeds inference with Python's string hash, which
        differs between processes; and one worker is used, because results of several are not reproducible.
    """
    with installed("gensim", RESEARCH):
        from gensim.models.doc2vec import Doc2Vec, TaggedDocument

    tokens = [tuple(words_of(text)) for text in texts]
    tags = {words: tag for tag, words in enumerate(dict.fromkeys(tokens))}  # equal texts are one document
    model = Doc2Vec(vector_size=size, window=WINDOW, min_count=min_count, epochs=epochs, seed=seed, workers=1)
    documents = [TaggedDocument(list(words), [tags[words]]) for words in tokens]
    model.build_vocab(documents)
    if not len(model.wv):
        raise DataError(
            f"doc2vec: no word occurs {min_count} times in {len(texts)} texts; lower graph.min_count"
        )
    model.train(documents, total_examples=model.corpus_count, epochs=model.epochs)
    vectors: NDArray[np.float32] = model.dv.vectors[[tags[words] for words in tokens]]
    for place, words in enumerate(tokens):
        if not any(word in model.wv for word in words):
            vectors[place] = 0
    return vectors


def words_of(text: str) -> list[str]:
    """The words of a text in order, without tags, stop words and words of one or two letters.

    Source: docs/methods/data.md §5.3. Departs: letters outside ASCII are kept, because texts in many
    languages would otherwise have no words.
    """
    with installed("gensim", RESEARCH):
        from gensim.parsing import preprocessing

    filters = [
        str.lower,
        preprocessing.strip_tags,
        preprocessing.strip_punctuation,
        preprocessing.strip_non_alphanum,
        preprocessing.strip_multiple_whitespaces,
        preprocessing.remove_stopwords,
        preprocessing.strip_short,
    ]
    return list(preprocessing.preprocess_string(text, filters))
