"""Vectors of whole texts, learned on them by gensim's Doc2Vec; equal texts and seeds give equal vectors.

For the neighbour graph of complementary samples. It finds no neighbours.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from limner.errors import ConfigError, DataError, MissingError


def document_vectors(
    texts: Sequence[str], *, size: int, min_count: int, epochs: int, seed: int, window: int = 20
) -> NDArray[np.float32]:
    """One vector per text, inferred by a model that was trained on all of them.

    Args:
        texts: n training texts; test texts have no place here.
        size: of a vector.
        min_count: texts' words that are rarer are left out.
        epochs: passes over the texts.
        seed: of training.
        window: words at most between a word and those it is predicted from.
    Returns:
        (n, size); a text of which no word is left gets the zero vector, and so lies near others like it.
    Raises:
        ConfigError: a setting is not positive.
        DataError: no word is frequent enough in all texts together.
        MissingError: gensim is not installed.
    Source: SPEC 1.5, 3.3 (T&K). Departs: the vectors that training leaves, not inferred ones, because
        gensim's inference starts from Python's hash of the text, which every process makes anew; one worker,
        because several make every run a different one.
    """
    if min(size, min_count, epochs, window) < 1:
        raise ConfigError(
            f"doc2vec: size {size}, min_count {min_count}, epochs {epochs}, window {window};"
            " expected at least 1 each"
        )
    try:
        from gensim.models.doc2vec import Doc2Vec, TaggedDocument
    except ModuleNotFoundError as error:
        raise MissingError("doc2vec: gensim is not installed; run 'pip install gensim'") from error

    tokens = [tuple(words_of(text)) for text in texts]
    tags = {words: tag for tag, words in enumerate(dict.fromkeys(tokens))}  # equal texts are one document
    model = Doc2Vec(vector_size=size, window=window, min_count=min_count, epochs=epochs, seed=seed, workers=1)
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

    Source: SPEC 1.5. Departs: letters outside ASCII stay, or texts in many languages would have no word.
    """
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
