"""Vectors of whole texts, learned on training texts by gensim, and vectors of words from GloVe's files.

Equal texts and seeds give equal vectors.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limner.errors import RESEARCH, DataError, MissingError, installed
from limner.research.datasets.folders import refuse_pickle

Vector = NDArray[np.float32]
WINDOW = 20
"""Words at most between a word and those a text's vector predicts it from."""


def read_glove(path: Path | str, words: Collection[str]) -> dict[str, Vector]:
    """Vectors of words from a file of lines ``word n₁ n₂ … n_E``, numbers separated by single blanks.

    A first line of two whole numbers, as word2vec writes it, is passed over. Words of the file that hold
    blanks are found by the width, which the first line of the file sets.

    Args:
        path: the text file, UTF-8.
        words: those that are wanted, as the file spells them.
    Returns:
        Word → (E,) float32; words the file lacks are absent. Of a word that comes twice the first counts.
    Raises:
        MissingError: no such file.
        DataError: a line has another width or no finite numbers, naming the line.
    """
    file = Path(path)
    if not file.is_file():
        raise MissingError(
            f"{file}: no file of word vectors there; unpack glove.6B.zip of nlp.stanford.edu/projects/glove"
            " and add --set data.glove=FILE"
        )
    refuse_pickle(file)
    wanted = {word.encode("utf-8"): word for word in words}
    found: dict[str, Vector] = {}
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
            if word is not None and word not in found:
                found[word] = _vector(fields[-width:], f"{file}:{number}")
    if not width:
        raise DataError(f"{file}: no word vectors; expected lines of a word and its numbers")
    return found


def _vector(fields: list[bytes], where: str) -> Vector:
    """Numbers of one line."""
    try:
        vector = np.asarray([float(field) for field in fields], dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{where}: {str(error)[:80]}; expected numbers separated by single blanks") from None
    if not np.isfinite(vector).all():
        raise DataError(f"{where}: a number is not finite; get the file again")
    return vector


def document_vectors(
    texts: Sequence[str], *, size: int, min_count: int, epochs: int, seed: int
) -> NDArray[np.float32]:
    """One vector per text, inferred by a model that was trained on all of them.

    Args:
        texts: n training texts; test texts have no place here.
        size: of a vector.
        min_count: texts' words that are rarer are left out.
        epochs: passes over the texts.
        seed: of training.
    Returns:
        (n, size); a text of which no word is left gets the zero vector, and so lies near others like it.
    Raises:
        DataError: no word is frequent enough in all texts together.
    Source: T&K 2022, Section 3.2; docs/methods/complementary.md §3. Departs: the vectors that training
        leaves, not inferred ones, because gensim's inference starts from Python's hash of the text, which
        every process makes anew; one worker, because several make every run a different one.
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
    found: NDArray[np.float32] = model.dv.vectors[[tags[words] for words in tokens]]
    for place, words in enumerate(tokens):
        if not any(word in model.wv for word in words):
            found[place] = 0
    return found


def words_of(text: str) -> list[str]:
    """The words of a text that count, in order: no tags, stop words or words of one or two letters.

    Source: docs/methods/data.md §5.3. Departs: letters outside ASCII stay, or texts in many languages would
    have no word.
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
