"""MiniLM, the sentence encoder of English texts.

Its forward pass is written out here, in NumPy, because it is short and because importing torch or a model hub
library costs seconds at every command; tests hold it to that library's output.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from limner.arrays import FloatArray, unit_rows
from limner.devices import ahead, cores, one_core_products
from limner.encoders.sentences import WINDOW, by_windows
from limner.encoders.weight_files import SentenceFiles
from limner.errors import CheckpointError

_METHOD = "minilm/1"
_BATCH_TOKENS = 256  # measured fastest of 256 to 2048: the activations stay in cache
_EPSILON = np.float32(1e-12)
_Pair = tuple[FloatArray, FloatArray]


class MiniLM:
    """Texts → unit vectors of the space of sentences (D = 384).

    A text longer than 254 word pieces is cut into windows of nearly equal length, each of at most
    254; its vector is the mean of the windows' vectors weighted by their lengths, rescaled to
    length 1. Nothing is cut off.

    Source: Reimers & Gurevych 2019 (Sentence-BERT, mean pooling); Wang et al. 2020 (MiniLM).
    """

    name = "minilm"
    reads = frozenset(("en",))
    dim = 384

    def __init__(self, files: SentenceFiles) -> None:
        """Take the tensors of a BERT encoder.

        Args:
            files: tokenizer and tensors, see `limner.encoders.weight_files.shipped_sentences`.
        Raises:
            CheckpointError: a tensor of the architecture is missing.
        """
        self._files, self._heads = files, files.heads
        self.fingerprint = hashlib.sha256(f"{_METHOD} {files.sha256} float32".encode()).hexdigest()
        layers = 0
        while f"encoder.layer.{layers}.output.dense.weight" in files.state:
            layers += 1
        self._prefixes = [f"encoder.layer.{number}." for number in range(layers)]
        names = [f"embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type")]
        modules = ["embeddings.LayerNorm", *(f"{one}{part}" for one in self._prefixes for part in _MODULES)]
        for name in (*names, *(f"{one}.{half}" for one in modules for half in ("weight", "bias"))):
            if name not in files.state:
                raise CheckpointError(f"minilm: the weights lack {name!r}; they are of another architecture")

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        found = Tokenizer.from_str(self._files.tokenizer)
        # The packaged tokenizer cuts at 128 and pads to 128; both would change the vectors.
        found.no_truncation()
        found.no_padding()
        return found

    @cached_property
    def _parts(self) -> tuple[NDArray[Any], FloatArray, _Pair, list[dict[str, _Pair]]]:
        """Vectors of words and places, the first norm, and the layers, read on first use.

        Query, key and value become one product. Words stay as they are stored: few of them are in a text.
        """
        state = self._files.state

        def pair(name: str) -> _Pair:
            weight, bias = (state[f"{name}.{half}"].astype(np.float32) for half in ("weight", "bias"))
            return weight, bias

        layers = []
        for prefix in self._prefixes:
            layer = {short: pair(prefix + name) for name, short in _MODULES.items()}
            both = zip(*(layer.pop(part) for part in ("query", "key", "value")), strict=True)
            weight, bias = (np.concatenate(some) for some in both)
            layers.append(layer | {"qkv": (weight, bias)})
        places, kinds = (
            state[f"embeddings.{kind}_embeddings.weight"].astype(np.float32)
            for kind in ("position", "token_type")
        )
        words = state["embeddings.word_embeddings.weight"]
        # A text is always the first of BERT's two segments, so that vector is a constant.
        return words, places + kinds[0], pair("embeddings.LayerNorm"), layers

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 rows of unit length, in the order given.

        Raises:
            DataError: a text holds nothing that the tokenizer knows as writing, naming its place.
        """
        ids = [one.ids for one in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]
        return by_windows(self.name, texts, ids, WINDOW, self._encode)

    def _encode(self, windows: list[list[int]]) -> FloatArray:
        """W windows of word pieces → (W, D) unit rows."""
        vectors: FloatArray = np.zeros((len(windows), self.dim), dtype=np.float32)
        batches = list(_batches([len(ids) for ids in windows]))

        def encode(batch: list[int]) -> None:
            vectors[batch] = self._forward([windows[number] for number in batch])

        workers = max(min(cores(), len(batches)), 1)
        with one_core_products():
            list(ahead(batches, encode, workers=workers, in_flight=2 * workers))
        return vectors

    def _forward(self, windows: list[list[int]]) -> FloatArray:
        """B windows of word pieces → (B, D) unit rows."""
        words, places, start_norm, layers = self._parts
        first, last = self._tokenizer.encode("").ids  # [CLS] and [SEP]
        count, longest = len(windows), max(map(len, windows)) + 2
        tokens = np.zeros((count, longest), dtype=np.int64)  # (B, T)
        real = np.zeros((count, longest), dtype=bool)  # (B, T), True where real
        for row, window in enumerate(windows):
            tokens[row, : len(window) + 2] = [first, *window, last]
            real[row, : len(window) + 2] = True
        barred = None if real.all() else np.where(real, np.float32(0), np.float32(-np.inf))[:, None, None, :]
        width, heads = self.dim, self._heads
        hidden = _norm(
            (words[tokens].astype(np.float32) + places[:longest]).reshape(-1, width), start_norm
        )  # (B · T, D)
        for layer in layers:
            qkv = _linear(hidden, layer["qkv"]).reshape(count, longest, 3, heads, width // heads)
            query, key, value = qkv.transpose(2, 0, 3, 1, 4)  # each (B, heads, T, D / heads)
            query *= np.float32((width // heads) ** -0.5)
            weights = query @ key.swapaxes(-1, -2)  # (B, heads, T, T)
            if barred is not None:
                weights += barred
            weights -= weights.max(axis=-1, keepdims=True)
            np.exp(weights, out=weights)
            weights /= weights.sum(axis=-1, keepdims=True)
            mixed = (weights @ value).swapaxes(1, 2).reshape(-1, width)
            hidden = _norm(hidden + _linear(mixed, layer["mix"]), layer["mix_norm"])
            wide = gelu(_linear(hidden, layer["widen"]))
            hidden = _norm(hidden + _linear(wide, layer["narrow"]), layer["narrow_norm"])
        sums = (hidden.reshape(count, longest, width) * real[..., None]).sum(axis=1)  # (B, D)
        return unit_rows(self.name, sums)


_MODULES = {
    **{f"attention.self.{part}": part for part in ("query", "key", "value")},
    "attention.output.dense": "mix",
    "attention.output.LayerNorm": "mix_norm",
    "intermediate.dense": "widen",
    "output.dense": "narrow",
    "output.LayerNorm": "narrow_norm",
}
"""BERT's modules of a layer, and what they are called here."""


def _linear(values: FloatArray, parameters: _Pair) -> FloatArray:
    """(R, I) → (R, O) by a weight (O, I) and a bias (O,)."""
    made: FloatArray = values @ parameters[0].T
    made += parameters[1]
    return made


def _norm(values: FloatArray, parameters: _Pair) -> FloatArray:
    """Layer norm with BERT's epsilon, in place: (R, D)."""
    values -= values.mean(axis=1, keepdims=True)
    spread = np.einsum("rd,rd->r", values, values) / np.float32(values.shape[1])
    values *= (1 / np.sqrt(spread + _EPSILON))[:, None]
    values *= parameters[0]
    values += parameters[1]
    return values


def gelu(values: FloatArray) -> FloatArray:
    """X · Φ(x), Φ the normal distribution, within 5e-7.

    Source: Hendrycks & Gimpel 2016 (GELU); Abramowitz & Stegun 1964, 7.1.26 (the error function, within
    1.5e-7), written out since to import SciPy's takes as long as to encode thirty texts.
    """
    size = np.abs(values)
    size *= np.float32(0.5**0.5)
    step: FloatArray = np.float32(1) / (np.float32(1) + np.float32(0.3275911) * size)
    tail: FloatArray = step * np.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail += np.float32(factor)
        tail *= step
    size *= size
    tail *= np.exp(-size)  # 1 − erf(|x| / √2)
    tail *= np.float32(0.5)
    np.subtract(1, tail, out=tail, where=values > 0)
    tail *= values
    return tail


def _batches(lengths: list[int]) -> Iterator[list[int]]:
    """Numbers of windows, shortest first so that little is padding, in runs of at most `_BATCH_TOKENS`."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * (lengths[number] + 2) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
