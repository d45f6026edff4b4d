"""Caches of text encoders: in memory for repeated requests, or in a file for a whole run.

A storyboard needs the same steps after every change, a resumed training run the same captions.
"""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from limner.arrays import FloatArray, TextEncoder, usable_rows
from limner.checksums import arrays_checksum
from limner.errors import LimnerWarning, NumericsError
from limner.files import replacing

ROWS = 16_384
"""Number of cached vectors: 25 MB for vectors of width 384."""
_BLOCK = 512


class _CachedEncoder:
    """Base of caches, with the properties of the encoder."""

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder

    @property
    def name(self) -> str:
        """Name of the encoder."""
        return self._encoder.name

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the encoder."""
        return self._encoder.fingerprint

    @property
    def dim(self) -> int:
        """D of the encoder."""
        return self._encoder.dim


class FairLock:
    """Fair lock: the thread that has waited longest is next, so that a long text does not block others."""

    def __init__(self) -> None:
        """Create a free lock."""
        self._queue: deque[threading.Lock] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Number of threads that hold it or wait for it."""
        return len(self._queue)

    def __enter__(self) -> None:
        """Wait for the lock."""
        turn = threading.Lock()
        turn.acquire()
        with self._lock:
            self._queue.append(turn)
            if self._queue[0] is turn:
                turn.release()
        turn.acquire()

    def __exit__(self, *error: object) -> None:
        """Release the lock to the next thread."""
        with self._lock:
            self._queue.popleft()
            if self._queue:
                self._queue[0].release()


class RecentTextCache(_CachedEncoder):
    """Caches the vectors of the last batches of texts in memory; thread-safe.

    If a batch is requested again with a few texts changed, only these are encoded. Up to `ROWS` vectors and
    their texts are cached, or those of one larger batch; the oldest are dropped first.
    """

    def __init__(self, encoder: TextEncoder, *, together: bool = False) -> None:
        """Wrap an encoder.

        Args:
            encoder: the encoder; used by one thread at a time.
            together: whether the vector of a text depends on the others of its batch, which is then encoded
                as a whole.
        """
        super().__init__(encoder)
        self._recent: dict[bytes, tuple[tuple[str, ...], FloatArray]] = {}
        self._lock, self._turns, self._together = threading.Lock(), FairLock(), together

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Encode N texts as (N, D) float32 rows of unit length, which must not be changed."""
        key = hashlib.sha256(repr(list(texts)).encode("utf-8", "surrogatepass")).digest()
        rows = self._kept(key)
        if rows is not None:
            return rows
        with self._turns:
            rows = self._kept(key)  # another thread may have encoded it in the meantime
            if rows is None:
                rows = self._made(list(texts))
                rows.flags.writeable = False
                self._keep(key, tuple(texts), rows)
        return rows

    def _made(self, texts: list[str]) -> FloatArray:
        """Vectors of a batch; only its new texts are encoded."""
        wanted, known = set(texts), dict[str, FloatArray]()
        with self._lock:
            for portion, rows in () if self._together else self._recent.values():
                known |= {text: row for text, row in zip(portion, rows, strict=True) if text in wanted}
        new = [text for text in texts if text not in known]
        if not known:
            return self._encoder.encode_text(new)
        known |= zip(new, self._encoder.encode_text(new) if new else (), strict=True)
        return np.stack([known[text] for text in texts])

    def _kept(self, key: bytes) -> FloatArray | None:
        with self._lock:
            portion = self._recent.pop(key, None)
            if portion is None:
                return None
            self._recent[key] = portion  # the last that goes
            return portion[1]

    def _keep(self, key: bytes, texts: tuple[str, ...], rows: FloatArray) -> None:
        with self._lock:
            self._recent[key] = texts, rows
            while len(self._recent) > 1 and sum(len(one) for _, one in self._recent.values()) > ROWS:
                del self._recent[next(iter(self._recent))]


class ValidationTextCache(_CachedEncoder):
    """Caches in memory the vectors of the validation texts, which are requested every epoch.

    They are cached by batch, because the last bits of a vector depend on its batch. At most as many rows as
    there are texts are cached, D float32 each; the oldest batch is dropped first.
    """

    def __init__(self, encoder: TextEncoder, texts: Sequence[str]) -> None:
        """Wrap an encoder.

        Args:
            encoder: a frozen encoder.
            texts: texts whose vectors are cached.
        """
        super().__init__(encoder)
        self._texts, self._most = frozenset(texts), len(texts)
        self._kept: dict[tuple[str, ...], FloatArray] = {}

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Encode N texts as (N, D) float32 rows of unit length."""
        portion = tuple(texts)
        if portion in self._kept:
            return self._kept[portion].copy()
        rows = self._encoder.encode_text(texts)
        if len(rows) <= self._most and self._texts.issuperset(portion):
            while sum(map(len, self._kept)) + len(rows) > self._most:
                del self._kept[next(iter(self._kept))]
            self._kept[portion] = rows.copy()
        return rows


class TextCacheFile(_CachedEncoder):
    """Stores the vectors of all texts in a file, so that a resumed run need not compute them again."""

    def __init__(self, encoder: TextEncoder, folder: Path) -> None:
        """Wrap an encoder, and read its vectors from the folder.

        Args:
            encoder: a frozen encoder.
            folder: folder of the file, created with the first vectors. A damaged file is replaced.
        """
        super().__init__(encoder)
        self._file = folder / f"texts-{encoder.name}-{encoder.fingerprint[:12]}.npz"
        self._held: dict[bytes, FloatArray] = {}
        if not self._file.is_file():
            return
        # any error: the vectors are computed again
        try:
            with self._file.open("rb") as file, np.load(file, allow_pickle=False) as held:
                arrays = {name: held[name] for name in ("ids", "vectors")}
                # files of older versions have none
                due = str(held["checksum"]) if "checksum" in held else None
            vectors = arrays["vectors"]
            fits = vectors.shape == (len(arrays["ids"]), self.dim) and vectors.dtype == np.float32
            if not fits or due not in (None, arrays_checksum(arrays, {})) or not usable_rows(vectors).all():
                raise ValueError("its content has changed")
        except Exception as error:
            reason = " ".join(str(error).split())[:80]
            warnings.warn(
                f"{self._file}: damaged ({reason}); its texts are encoded again", LimnerWarning, stacklevel=2
            )
            return
        self._held = dict(zip(arrays["ids"].tolist(), vectors, strict=True))

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """(N,) texts → (N, D) float32 unit rows; new ones are encoded and written.

        Raises:
            NumericsError: a vector is not finite or all zeros; the message quotes its text.
        """
        ids = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest().encode() for text in texts]
        new = {key: text for key, text in zip(ids, texts, strict=True) if key not in self._held}
        keys = sorted(new, key=lambda key: len(new[key]))  # texts of similar length share a batch
        for start in range(0, len(keys), _BLOCK):
            block = keys[start : start + _BLOCK]
            made = self._encoder.encode_text([new[key] for key in block])
            good = usable_rows(made)
            if not good.all():
                raise NumericsError(
                    f"{self.name}: the vector of {new[block[int(np.argmin(good))]][:60]!r} is not finite or"
                    " all zeros; nothing of these texts is kept"
                )
            self._held |= dict(zip(block, made.astype(np.float32), strict=True))
        if keys:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            held, vectors = np.array(list(self._held), "S64"), np.stack(list(self._held.values()))
            due = np.array(arrays_checksum({"ids": held, "vectors": vectors}, {}))
            with replacing(self._file) as draft, draft.open("wb") as stream:
                np.savez(stream, ids=held, vectors=vectors, checksum=due)
        return np.stack([self._held[key] for key in ids]) if ids else np.zeros((0, self.dim), np.float32)
