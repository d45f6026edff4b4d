"""Reads pretrained word vectors in GloVe's text format, only the words that are asked for.

The published files have gigabytes and a handful of words is needed of them, so they are streamed. It
downloads nothing and makes no vector up.
"""

from collections.abc import Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limner.data.reading import refuse_pickle
from limner.errors import DataError, MissingError

Vector = NDArray[np.float32]


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
        raise MissingError(f"{file}: no such file of word vectors; check the path")
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
