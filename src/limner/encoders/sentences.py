"""The sentence encoder: all-MiniLM-L6-v2, a six-layer BERT with mean pooling.

Its forward pass is written out here because it is short and because importing a model hub library
costs seconds at every command; a test holds it to that library's output. It does not read files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.arrays import FloatArray, unit_rows
from limner.encoders.weights import SentenceFiles
from limner.errors import CheckpointError, DataError, MissingError

if TYPE_CHECKING:
    from torch import Tensor


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

    def __init__(self, files: SentenceFiles, *, device: str = "cpu") -> None:
        """Take the tensors of a BERT encoder.

        Args:
            files: tokenizer and tensors, see `limner.encoders.weights.read_sentence_files`.
            device: torch device that computes.
        Raises:
            CheckpointError: a tensor of the architecture is missing.
        """
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_str(files.tokenizer)
        # The packaged tokenizer cuts at 128 and pads to 128; both would change the vectors.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._first, self._last = (self._tokenizer.token_to_id(word) for word in ("[CLS]", "[SEP]"))
        self._device = device
        self._heads = files.heads
        self._fingerprint = hashlib.sha256(f"{_METHOD} {files.sha256} float32".encode()).hexdigest()
        try:
            self._read(files.state)
        except KeyError as error:
            raise CheckpointError(
                f"minilm: the weights lack {error}; they are of another architecture"
            ) from error

    def _read(self, state: dict[str, Tensor]) -> None:
        """Sort tensors by layer; query, key and value become one product."""
        import torch

        held = {key: value.to(self._device, torch.float32) for key, value in state.items() if value.ndim}
        self._words = held["embeddings.word_embeddings.weight"]
        # A text is always the first of BERT's two segments, so that vector is a constant.
        self._places = (
            held["embeddings.position_embeddings.weight"] + held["embeddings.token_type_embeddings.weight"][0]
        )
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

    @property
    def fingerprint(self) -> str:
        """Hash of weights, tokenizer and method."""
        return self._fingerprint

    @property
    def dim(self) -> int:
        """D = 384."""
        return int(self._words.shape[1])

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 rows of unit length, in the order given.

        Raises:
            DataError: a text holds nothing that the tokenizer knows as writing, naming its place.
        """
        import torch

        owners: list[int] = []
        windows: list[list[int]] = []
        for row, encoding in enumerate(self._tokenizer.encode_batch(list(texts), add_special_tokens=False)):
            if not encoding.ids:
                raise DataError(
                    f"minilm: text {row + 1} of {len(texts)} ({texts[row][:20]!r}) has no words; leave it out"
                )
            for window in windows_of(encoding.ids):
                owners.append(row)
                windows.append(window)
        sums = np.zeros((len(texts), self.dim), dtype=np.float32)
        # Similar lengths share a batch, so that little of it is padding.
        order = sorted(range(len(windows)), key=lambda index: len(windows[index]))
        with torch.inference_mode():
            for batch in _batches(order, windows):
                vectors = self._forward([windows[index] for index in batch])
                lengths = np.asarray([len(windows[index]) for index in batch], dtype=np.float32)
                rows = np.asarray([owners[index] for index in batch])
                np.add.at(sums, rows, vectors * lengths[:, None])
        return unit_rows("minilm", sums)

    def _forward(self, windows: list[list[int]]) -> FloatArray:
        """B windows of word pieces → (B, D) unit rows."""
        import torch
        from torch.nn import functional

        longest = max(len(window) for window in windows) + 2
        lengths = torch.tensor([len(window) + 2 for window in windows])
        padded = [
            [self._first, *window, self._last] + [0] * (longest - len(window) - 2) for window in windows
        ]
        tokens = torch.tensor(padded, device=self._device)  # (B, T)
        real = (torch.arange(longest)[None] < lengths[:, None]).to(self._device)  # (B, T), True where real
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
        unit: FloatArray = functional.normalize(pooled, dim=1).cpu().numpy()
        return unit


def _pair(held: dict[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    """Weight and bias of one module."""
    return held[f"{name}.weight"], held[f"{name}.bias"]


def _norm(values: Tensor, parameters: tuple[Tensor, Tensor]) -> Tensor:
    """Layer norm with BERT's epsilon."""
    from torch.nn import functional

    return functional.layer_norm(values, values.shape[-1:], *parameters, eps=_EPSILON)


def windows_of(ids: list[int], size: int = _WINDOW) -> Iterator[list[int]]:
    """Word pieces cut into the fewest windows, as equal as possible, so that no window is a scrap."""
    count = -(-len(ids) // size)
    for part in range(count):
        yield ids[part * len(ids) // count : (part + 1) * len(ids) // count]


def _batches(order: list[int], windows: list[list[int]]) -> Iterator[list[int]]:
    """Runs of windows, shortest first, each at most `_BATCH_TOKENS` once padded."""
    batch: list[int] = []
    for index in order:
        if batch and (len(batch) + 1) * (len(windows[index]) + 2) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


PREFIX = "sentences:"
_NAMED_METHOD = "sentences/1"


class NamedSentences:
    """Texts → unit vectors of one model's space.

    What languages it reads is for the user to know: it is given all. A text longer than the model takes is
    cut off there, as the model's authors mean it.

    Source: Reimers & Gurevych 2020 (Making Monolingual Sentence Embeddings Multilingual).
    """

    reads: frozenset[str] | None = None

    def __init__(self, model: str, *, device: str = "cpu") -> None:
        """Name a model; it is loaded on first use.

        Args:
            model: folder, or name on the hub.
            device: torch device that computes.
        """
        self._place = str(Path(model).resolve()) if Path(model).is_dir() else model
        self._device = device
        self.name = f"{PREFIX}{self._place}"

    @cached_property
    def _model(self) -> Any:  # noqa: ANN401  (a class of an optional package)
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingError(
                f"{self.name}: sentence-transformers is not installed; run: pip install 'limner[sentences]'"
            ) from error
        try:
            # No pickled weights, and no code from the model's folder.
            return SentenceTransformer(
                self._place,
                device=self._device,
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
