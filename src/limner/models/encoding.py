"""What every model needs to encode outside of training: evaluation mode, tensors from arrays, a fingerprint.

It knows no model.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from limner.arrays import FloatArray
from limner.config import Config

ENCODE_BATCH = 256


class Tokens(Protocol):
    """What a model needs of a vocabulary."""

    def __len__(self) -> int:
        """V, padding (0) and unknown (1) among them."""
        ...

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text."""
        ...

    def batch(self, texts: Sequence[str], max_length: int) -> tuple[np.ndarray, np.ndarray]:
        """(B, T) int64 numbers of words, padded, and (B,) int64 lengths."""
        ...


class Evaluating:
    """Evaluation mode without gradients; the mode before comes back, also after an error."""

    def __init__(self, model: nn.Module) -> None:
        """Take the model; nothing changes before the block begins."""
        self._model, self._training = model, model.training
        self._no_grad = torch.no_grad()

    def __enter__(self) -> None:
        """Begin."""
        self._model.eval()
        self._no_grad.__enter__()

    def __exit__(self, *error: object) -> None:
        """Put back what was."""
        self._no_grad.__exit__(None, None, None)
        self._model.train(self._training)


def to_tensor(values: np.ndarray, device: torch.device) -> Tensor:
    """Features as float32, bytes as they are."""
    plain = values if values.dtype == np.uint8 else values.astype(np.float32, copy=False)
    # A copy where the array is read-only (memory-mapped), which torch refuses to share.
    return torch.from_numpy(plain if plain.flags.writeable else plain.copy()).to(device)


def encode_pictures(
    model: nn.Module,
    pictures: np.ndarray,
    encode: Callable[[Tensor], Tensor],
    shape: tuple[int, ...],
    device: torch.device,
) -> FloatArray:
    """Encode pictures a block at a time, in evaluation mode and without gradients.

    Args:
        model: set to evaluation mode while it encodes.
        pictures: (M, ...) features or bytes; may be memory-mapped.
        encode: a block of B of them on the device → (B, *shape).
        shape: of what is made of one picture.
        device: where the weights lie.
    Returns:
        (M, *shape) float32.
    """
    found = np.zeros((len(pictures), *shape), np.float32)
    with Evaluating(model):
        for start in range(0, len(pictures), ENCODE_BATCH):
            made = encode(to_tensor(pictures[start : start + ENCODE_BATCH], device))
            found[start : start + ENCODE_BATCH] = made.float().cpu().numpy()
    return found


def fingerprint(model: nn.Module, architecture: Config, vocabulary: Tokens, *settings: object) -> str:
    """Hash of settings, words and weights: equal fingerprints give equal vectors.

    Args:
        model: its parameters and buffers.
        architecture: its settings.
        vocabulary: its words.
        settings: whatever else changes a vector; their `repr` counts.
    """
    words = getattr(vocabulary, "to_json", None)
    return _digest(model, architecture, settings, words() if words else str(len(vocabulary)))


def settings_fingerprint(model: nn.Module, architecture: Config, *settings: object) -> str:
    """As `fingerprint`, for models without a vocabulary."""
    return _digest(model, architecture, settings, "")


def _digest(model: nn.Module, architecture: Config, settings: tuple[object, ...], words: str) -> str:
    digest = hashlib.sha256(architecture.model_dump_json().encode())
    digest.update(repr(settings).encode())
    digest.update(words.encode())
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
