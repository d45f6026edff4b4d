"""Any model of sentence-transformers, by name: for languages that limner itself does not read.

It needs the extra ``sentences``. A model is a folder, or a name on the hub that the library fetches itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from limner.errors import CheckpointError, DataError, MissingError
from limner.similarity import FloatArray, unit_rows

PREFIX = "sentences:"
_METHOD = "sentences/1"


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
        digest = hashlib.sha256(f"{_METHOD} {self._model}".encode())
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
