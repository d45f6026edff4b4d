"""Vectors of texts, computed once and kept in a file, so that a run that goes on need not wait for them.

It knows no encoder: any that gives a fingerprint is kept apart from all others.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from limner.arrays import FloatArray, TextEncoder
from limner.errors import CheckpointError

_BLOCK = 512


class KeptTexts:
    """An encoder of texts that encodes no text twice."""

    def __init__(self, encoder: TextEncoder, folder: Path) -> None:
        """Take the encoder; what the folder holds of it is read.

        Args:
            encoder: frozen.
            folder: of the file; made when the first vectors are written.
        Raises:
            CheckpointError: the file is damaged.
        """
        self._encoder = encoder
        self._file = folder / f"texts-{encoder.name}-{encoder.fingerprint[:12]}.npz"
        self._held: dict[bytes, FloatArray] = {}
        if not self._file.is_file():
            return
        try:
            with np.load(self._file, allow_pickle=False) as held:
                ids, vectors = held["ids"], held["vectors"]
        except (OSError, ValueError, KeyError) as error:
            raise CheckpointError(f"{self._file}: damaged ({error}); remove it") from error
        if vectors.shape != (len(ids), encoder.dim):
            raise CheckpointError(
                f"{self._file}: vectors {vectors.shape}, expected ({len(ids)}, {encoder.dim}); remove it"
            )
        self._held = dict(zip(ids.tolist(), vectors.astype(np.float32), strict=True))

    @property
    def name(self) -> str:
        """Of the encoder."""
        return self._encoder.name

    @property
    def dim(self) -> int:
        """D of the encoder."""
        return self._encoder.dim

    @property
    def fingerprint(self) -> str:
        """Of the encoder."""
        return self._encoder.fingerprint

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """(N,) texts → (N, D) float32 unit rows; new ones are encoded and written."""
        ids = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest().encode() for text in texts]
        new = {key: text for key, text in zip(ids, texts, strict=True) if key not in self._held}
        keys = sorted(new, key=lambda key: len(new[key]))  # texts of like length share a batch
        for start in range(0, len(keys), _BLOCK):
            block = keys[start : start + _BLOCK]
            made = self._encoder.encode_text([new[key] for key in block])
            self._held |= dict(zip(block, made, strict=True))
        if keys:
            self._write()
        if not ids:
            return np.zeros((0, self.dim), np.float32)
        return np.stack([self._held[key] for key in ids])

    def _write(self) -> None:
        """Whole or not at all."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        part = self._file.with_name(f".{self._file.stem}.{os.getpid()}.npz")
        np.savez(part, ids=np.array(list(self._held), "S64"), vectors=np.stack(list(self._held.values())))
        part.replace(self._file)
