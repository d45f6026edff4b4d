"""What an epoch leaves for the next: one vector per training pair and side, as a past epoch saw them.

Neighbourhood scores and some baselines compare a batch with the whole set, which only a memory can afford. A
pair that no whole batch held in the first epoch is encoded at its end, so that from then on all have vectors.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed
from torch.nn.functional import normalize

from limner.counts import counted
from limner.errors import CheckpointError
from limner.files import reserve, storing
from limner.losses.checks import product
from limner.systems.complementary.model import Pvse
from limner.systems.complementary.settings import ComplementaryConfig
from limner.training import processes
from limner.training.corpus import Corpus

TEXT, IMAGE, PREFIX, FOLDER = "text", "image", "bank.", "bank"
_BLOCK = 256
_SHARED = 1 << 16  # rows of a table at once


class Bank(NamedTuple):
    """Vectors of all training pairs as a past epoch saw them.

    Attributes:
        texts, images: (n, H) means of the heads, not of unit length.
        seen: (n,) bool, which rows hold something.
    """

    texts: Tensor
    images: Tensor
    seen: Tensor


class _Table(NamedTuple):
    """Vectors of all pairs, and the number of the swap that each was last written for.

    Attributes:
        text, image: (n, H) float32.
        stamps: (n,) int32.
    """

    text: Tensor
    image: Tensor
    stamps: Tensor


class EpochMemory:
    """Two tables: one that is read, from past epochs, and one that is written for the next epoch.

    Until a pair is seen again its vectors stay; a pair never seen is 0 and not `seen`. After an epoch the
    tables change roles. In the folder of a run they are memory-mapped files beside the checkpoint, one set
    per process, since 16 kB a pair are too much for every checkpoint. A checkpoint says which table is read
    and how often they have changed roles. That is enough: steps after it write again what a kill left behind,
    and the table that is read is not written before the next checkpoint.
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
        self._often = not config.measures  # looked at in every step, not once an epoch
        self._width = model.dim * (1 if self._scale is None else model.heads)
        self._seen = torch.zeros(len(self._rows), dtype=torch.bool, device=model.device)
        self._swaps, self._live = 0, 0
        self._folder: Path | None = None
        self._resumed = False
        self._bank: Bank | None = None
        self._maps: list[np.memmap[Any, Any]] = []

    def open(self, folder: Path) -> None:
        """Keep the tables in the folder of a run, from their first use on."""
        self._folder = folder / FOLDER

    def read(self) -> Bank | None:
        """The epoch before, not to be changed; None in the first one, unless it began warm."""
        if self._swaps == 0:
            return None
        if self._bank is None:
            table = self._tables[self._live]
            device = self._model.device if self._often else torch.device("cpu")
            self._bank = Bank(table.text.to(device), table.image.to(device), self._seen)
        return self._bank

    def write(self, rows: Tensor, texts: Tensor, images: Tensor) -> None:
        """Keep (B, K, H) embeddings of (B,) different rows for the next epoch."""
        table, places = self._tables[1 - self._live], rows.cpu()
        for own, heads in ((table.text, texts), (table.image, images)):
            kept = heads.detach()
            kept = kept.mean(dim=1) if self._scale is None else kept.flatten(1) / self._scale
            own[places] = kept.to(own)
        table.stamps[places] = self._swaps + 1

    def warm(self) -> None:
        """Encode all pairs before the first epoch, where that is not done."""
        if self.read() is None:
            self._encode(np.arange(len(self._rows)))
            self._swap()

    def close(self) -> None:
        """Let what an epoch wrote be read from now on; every pair has vectors then."""
        unseen = ~(self._seen | (self._counts() > 0))
        self._encode(unseen.nonzero().squeeze(1).cpu().numpy())
        self._swap()

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds; the tables are on the disk when this returns."""
        for one in self._maps:
            one.flush()
        held = {"swaps": self._swaps, "live": self._live, "width": self._width}
        return {PREFIX + name: torch.tensor(value) for name, value in held.items()} | {
            f"{PREFIX}seen": self._seen.clone()
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave, with the tables in the folder, bit for bit.

        Raises:
            CheckpointError: other pairs or widths; nothing is changed then.
        """
        seen, width = state.get(f"{PREFIX}seen"), state.get(f"{PREFIX}width")
        if seen is None or width is None or (len(seen), int(width)) != (len(self._seen), self._width):
            found = (
                "none"
                if seen is None or width is None
                else f"{counted(len(seen), 'pair')}, {int(width)} wide"
            )
            raise CheckpointError(
                f"memory: the saved one is of {found}, expected {counted(len(self._seen), 'pair')},"
                f" {self._width} wide;"
                " resume with the same data and model"
            )
        self._swaps, self._live = int(state[f"{PREFIX}swaps"]), int(state[f"{PREFIX}live"])
        self._seen.copy_(seen)
        self._resumed, self._bank = True, None
        self.__dict__.pop("_tables", None)

    @cached_property
    def _tables(self) -> tuple[_Table, _Table]:
        """Both; opened, made or made up at their first use."""
        count = len(self._rows)
        if self._folder is None:
            size = (count, self._width)

            def empty() -> _Table:
                return _Table(torch.zeros(size), torch.zeros(size), torch.zeros(count, dtype=torch.int32))

            return empty(), empty()
        folder, rank = self._folder, processes.rank()
        if not self._resumed:
            folder.mkdir(parents=True, exist_ok=True)

        def mapped(name: str, dtype: type[np.generic], shape: tuple[int, ...]) -> Tensor:
            found = _mapped(folder / f"{rank}-{name}", dtype, shape, new=not self._resumed)
            self._maps.append(found)
            return torch.from_numpy(found)

        one, other = (
            _Table(
                mapped(f"{number}.{TEXT}", np.float32, (count, self._width)),
                mapped(f"{number}.{IMAGE}", np.float32, (count, self._width)),
                mapped(f"{number}.stamps", np.int32, (count,)),
            )
            for number in (0, 1)
        )
        return one, other

    def _counts(self) -> Tensor:
        """(n,) int32: how many processes have written each row for the next swap."""
        counts = (self._tables[1 - self._live].stamps == self._swaps + 1).int().to(self._model.device)
        if processes.several():
            distributed.all_reduce(counts)
        return counts

    def _swap(self) -> None:
        """Let the tables change roles; what several processes wrote of a pair gets the mean."""
        read, fresh = self._tables[self._live], self._tables[1 - self._live]
        counts = self._counts()
        mine, written = fresh.stamps == self._swaps + 1, (counts > 0).cpu()
        for old, new in ((read.text, fresh.text), (read.image, fresh.image)):
            for start in range(0, len(new) if processes.several() else 0, _SHARED):
                some = slice(start, start + _SHARED)
                part = new[some].masked_fill(~mine[some, None], 0).to(counts.device)
                part /= counts[some, None].clamp(min=1)
                distributed.all_reduce(part)
                new[some] = part.cpu()
            new[~written] = old[~written]
        self._seen |= counts > 0
        self._swaps, self._live, self._bank = self._swaps + 1, 1 - self._live, None

    def _encode(self, rows: NDArray[np.int64]) -> None:
        device, texts = self._model.device, self._rows.texts if len(rows) else []
        for start in range(0, len(rows), _BLOCK):
            some = rows[start : start + _BLOCK]
            images = self._model.encode_image(self._pictures.take(self._rows.places[some]))
            words = self._model.encode_text([texts[row] for row in some])
            made = (torch.from_numpy(part).to(device) for part in (some, words, images))
            self.write(*made)


def _mapped(path: Path, dtype: type[np.generic], shape: tuple[int, ...], *, new: bool) -> np.memmap[Any, Any]:
    """A table in a file, all zeros when new.

    Raises:
        StorageError: the disk is full, or cannot be written.
        CheckpointError: a resumed run's file is not there whole.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if new:
        with storing(path, size), path.open("wb") as file:
            reserve(file, size)
    try:
        found = path.stat().st_size
    except OSError as error:
        raise CheckpointError(
            f"{path}: {error.strerror}; the memory of an epoch needs {size:,} bytes"
        ) from error
    if found != size:
        raise CheckpointError(f"{path}: {found:,} bytes, expected {size:,}; train in another folder")
    return np.memmap(path, dtype, "r+", shape=shape)


def against(heads: Tensor, bank: Tensor) -> Tensor:
    """(B, K, H) embeddings and (n, H) of a bank → (B, n) cosines of the means of the heads."""
    means = normalize(heads.detach().mean(dim=1), dim=1)
    return torch.cat(
        [product(means, normalize(part.to(means), dim=1).t()) for part in torch.split(bank, _SHARED)], dim=1
    )
