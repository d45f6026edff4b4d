"""A text encoder that remembers the last texts it was given.

Every change of a storyboard searches for the same steps again, and encoding them is most of the time. It
encodes nothing itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from limner.arrays import FloatArray, TextEncoder

KEPT = 16
LETTERS = 200_000
"""Texts longer than this in all are encoded anew: they would be kept in memory for nobody."""


class Remembering:
    """Stands in for a `limner.arrays.TextEncoder`; a story is remembered as a whole.

    Args:
        encoder: what encodes.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        self._known: OrderedDict[tuple[str, ...], FloatArray] = OrderedDict()
        self._lock = Lock()

    @property
    def name(self) -> str:
        """Of the encoder."""
        return self._encoder.name

    @property
    def fingerprint(self) -> str:
        """Of the encoder."""
        return self._encoder.fingerprint

    @property
    def dim(self) -> int:
        """D."""
        return self._encoder.dim

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 rows of unit length, not to be written to."""
        key = tuple(texts)
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        rows = self._encoder.encode_text(list(key))
        if sum(map(len, key)) <= LETTERS:
            rows.flags.writeable = False
            with self._lock:
                self._known[key] = rows
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
        return rows
