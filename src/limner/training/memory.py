"""What an epoch leaves for the next: one vector per training pair and modality, kept in a bank.

A pair that no whole batch held in the first epoch is encoded at its end, so that from then on every pair has
vectors. It computes no score.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from limner.models.pvse import Pvse
from limner.training.bank import MemoryBank
from limner.training.complementary_settings import ComplementaryConfig
from limner.training.corpus import PictureRows, Rows

TEXT, IMAGE, PREFIX = "text", "image", "bank."
_BLOCK = 256


class Bank(NamedTuple):
    """Vectors of all training pairs as a past epoch saw them.

    Attributes:
        texts, images: (n, H) means of the heads, not of unit length.
        seen: (n,) bool, which rows hold something.
    """

    texts: Tensor
    images: Tensor
    seen: Tensor


class EpochMemory:
    """A bank that is read in one epoch and written for the next."""

    def __init__(self, model: Pvse, rows: Rows, pictures: PictureRows, config: ComplementaryConfig) -> None:
        """Make an empty one.

        Args:
            model: whose embeddings it keeps.
            rows: of the training split.
            pictures: of the rows.
            config: settings; kmode "aligned" keeps all heads, side by side.
        """
        self._model, self._rows, self._pictures = model, rows, pictures
        self._aligned = bool(config.measures) and config.weights.kmode == "aligned"
        width = model.dim * (model.heads if self._aligned else 1)
        self._bank = MemoryBank(len(rows), {TEXT: width, IMAGE: width}, device=model.device)

    def read(self) -> Bank | None:
        """The epoch before; None in the first one, unless it began warm."""
        texts, images = self._bank.read(TEXT), self._bank.read(IMAGE)
        return None if texts is None or images is None else Bank(texts, images, self._bank.seen)

    def write(self, rows: Tensor, texts: Tensor, images: Tensor) -> None:
        """Keep (B, K, H) embeddings of (B,) rows for the next epoch."""
        self._bank.write(TEXT, rows, self._stored(texts))
        self._bank.write(IMAGE, rows, self._stored(images))

    def warm(self) -> None:
        """Encode all pairs before the first epoch, where that is not done."""
        if self._bank.read(TEXT) is None:
            self._encode(np.arange(len(self._rows)))
            self._bank.swap(0)

    def close(self, epoch: int) -> None:
        """Let what an epoch wrote be read from now on; every pair has vectors then."""
        # The bank counts a warm start and the two swaps of an epoch, each of which happens once.
        self._bank.swap(2 * epoch + 1)
        unseen = (~self._bank.seen).nonzero().squeeze(1).cpu().numpy()
        if len(unseen):
            self._encode(unseen)
            self._bank.swap(2 * epoch + 2)

    def state(self) -> dict[str, Tensor]:
        """For a checkpoint."""
        return {PREFIX + name: tensor for name, tensor in self._bank.state().items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        own = {name.removeprefix(PREFIX): t for name, t in state.items() if name.startswith(PREFIX)}
        self._bank.load_state(own)

    def _encode(self, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
        device = self._model.device
        texts = self._rows.texts
        for start in range(0, len(rows), _BLOCK):
            some = rows[start : start + _BLOCK]
            images = self._model.encode_image(self._pictures.take(self._rows.places[some]))
            words = self._model.encode_text([texts[row] for row in some])
            self.write(
                torch.from_numpy(some).to(device),
                torch.from_numpy(words).to(device),
                torch.from_numpy(images).to(device),
            )

    def _stored(self, heads: Tensor) -> Tensor:
        """(B, K, H) → what is kept of them."""
        if not self._aligned:
            return heads.detach().mean(dim=1)
        return heads.detach().flatten(1) / math.sqrt(heads.shape[1])


def against(heads: Tensor, bank: Tensor) -> Tensor:
    """(B, K, H) embeddings and (n, H) of a bank → (B, n) cosines of the means of the heads."""
    return normalize(heads.detach().mean(dim=1), dim=1) @ normalize(bank, dim=1).t()
