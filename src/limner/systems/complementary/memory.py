"""What an epoch leaves for the next: one vector per training pair and side, as a past epoch saw them.

Neighbourhood scores and some baselines compare a batch with the whole set, which only a memory can afford. A
pair that no whole batch held in the first epoch is encoded at its end, so that from then on all have vectors.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed
from torch.nn.functional import normalize

from limner.errors import CheckpointError
from limner.systems.complementary.config import ComplementaryConfig
from limner.systems.complementary.model import Pvse
from limner.training import processes
from limner.training.corpus import Corpus

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
    """Two tables per side: one that is read, from past epochs, and one that is written for the next.

    Until a pair is seen again its vectors stay; a pair never seen is 0 and not `seen`.
    """

    def __init__(self, model: Pvse, corpus: Corpus, config: ComplementaryConfig) -> None:
        """Make empty ones.

        Args:
            model: whose embeddings are kept.
            corpus: whose training rows have places.
            config: settings; kmode "aligned" and "max" keep all heads, side by side.
        """
        self._model, self._rows, self._pictures = model, corpus.train, corpus.pictures
        kmode = config.weights.kmode if config.measures else "mean"
        self._scale = {"mean": None, "aligned": math.sqrt(model.heads), "max": 1.0}[kmode]
        size = (len(self._rows), model.dim * (1 if self._scale is None else model.heads))
        sides, device = (TEXT, IMAGE), model.device
        self._current = {side: torch.zeros(size, device=device) for side in sides}
        self._next = {side: torch.zeros(size, device=device) for side in sides}
        self._written = {side: torch.zeros(size[0], dtype=torch.bool, device=device) for side in sides}
        self._seen = torch.zeros(size[0], dtype=torch.bool, device=device)
        self._swapped = -1  # the last number that was swapped in

    def read(self) -> Bank | None:
        """The epoch before, not to be changed; None in the first one, unless it began warm."""
        return Bank(self._current[TEXT], self._current[IMAGE], self._seen) if self._swapped >= 0 else None

    def write(self, rows: Tensor, texts: Tensor, images: Tensor) -> None:
        """Keep (B, K, H) embeddings of (B,) different rows for the next epoch."""
        for side, heads in ((TEXT, texts), (IMAGE, images)):
            kept = heads.detach()
            kept = kept.mean(dim=1) if self._scale is None else kept.flatten(1) / self._scale
            self._next[side][rows] = kept.to(self._next[side])
            self._written[side][rows] = True

    def warm(self) -> None:
        """Encode all pairs before the first epoch, where that is not done."""
        if self.read() is None:
            self._encode(np.arange(len(self._rows)))
            self._swap(0)

    def close(self, epoch: int) -> None:
        """Let what an epoch wrote be read from now on; every pair has vectors then."""
        # A warm start and the two swaps of an epoch are counted, each of which happens once.
        self._swap(2 * epoch + 1)
        unseen = (~self._seen).nonzero().squeeze(1).cpu().numpy()
        if len(unseen):
            self._encode(unseen)
            self._swap(2 * epoch + 2)

    def state(self) -> dict[str, Tensor]:
        """Everything, also what this epoch has written so far; with several processes each has its own."""
        held = {"epoch": torch.tensor(self._swapped), "seen": self._seen.clone()}
        for kind, tables in (("current", self._current), ("next", self._next), ("written", self._written)):
            held |= {f"{kind}.{side}": table.clone() for side, table in tables.items()}
        return {PREFIX + name: tensor for name, tensor in held.items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave, bit for bit.

        Raises:
            CheckpointError: other pairs or widths; nothing is changed then.
        """
        mine = self.state()
        wrong = [name for name, own in mine.items() if name not in state or own.shape != state[name].shape]
        if wrong:
            raise CheckpointError(
                f"memory: the saved one differs in {', '.join(wrong)}; resume with the same data and model"
            )
        self._swapped = int(state[f"{PREFIX}epoch"])
        self._seen.copy_(state[f"{PREFIX}seen"])
        for kind, tables in (("current", self._current), ("next", self._next), ("written", self._written)):
            for side, table in tables.items():
                table.copy_(state[f"{PREFIX}{kind}.{side}"])

    def _swap(self, number: int) -> None:
        """Move what was written into what is read; what several processes wrote of a pair gets the mean."""
        everywhere = torch.ones_like(self._seen)
        for side, fresh in self._next.items():
            written = self._written[side]
            if processes.several():
                counts = written.int()
                distributed.all_reduce(counts)
                fresh.div_(counts.clamp(min=1)[:, None].to(fresh.dtype))
                distributed.all_reduce(fresh)
                written = counts > 0
            self._current[side][written] = fresh[written]
            everywhere &= written
            fresh.zero_()
            self._written[side].zero_()
        self._seen |= everywhere
        self._swapped = number

    def _encode(self, rows: NDArray[np.int64]) -> None:
        device, texts = self._model.device, self._rows.texts
        for start in range(0, len(rows), _BLOCK):
            some = rows[start : start + _BLOCK]
            images = self._model.encode_image(self._pictures.take(self._rows.places[some]))
            words = self._model.encode_text([texts[row] for row in some])
            made = (torch.from_numpy(part).to(device) for part in (some, words, images))
            self.write(*made)


def against(heads: Tensor, bank: Tensor) -> Tensor:
    """(B, K, H) embeddings and (n, H) of a bank → (B, n) cosines of the means of the heads."""
    return normalize(heads.detach().mean(dim=1), dim=1) @ normalize(bank, dim=1).t()
