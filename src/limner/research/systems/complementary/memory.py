"""Memory bank: vectors of the texts and pictures of all training pairs, from a past epoch.

Neighbourhood scores and some baselines compare a batch with the whole training set. Pairs that were in no
batch of the first epoch are encoded at its end, so that all pairs have vectors from then on.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from limner.checksums import rows_checksum
from limner.errors import CheckpointError, counted
from limner.files import reserve, storing
from limner.research.losses.ranking import product
from limner.research.systems.complementary.model import ComplementaryConfig, Pvse
from limner.research.training import processes
from limner.research.training.corpus import Corpus
from limner.research.training.processes import all_gather, rows_per_process

TEXT, IMAGE, SUMS, PREFIX, FOLDER = "text", "image", "sums", "bank.", "bank"
Mode = Literal["r+", "c"]
_BLOCK = 256
_SHARED = 1 << 16  # rows per block


class Bank(NamedTuple):
    """Vectors of training pairs from a past epoch; with several processes, each holds a share of the rows.

    Attributes:
        texts, images: (R, H) means of the heads, not normalised; or all heads, see `EpochMemory`.
        seen: (R,) bool, True for rows with vectors.
        rows: slice of the training pairs to which the R rows belong.
        shares: number of rows of each process, with sum n.
    """

    texts: Tensor
    images: Tensor
    seen: Tensor
    rows: slice
    shares: tuple[int, ...]

    def nearest(self, tables: Sequence[Tensor], by: Tensor, usable: Tensor, count: int) -> list[Tensor]:
        """Select the columns with the largest values in each row, and gather them from all processes.

        Args:
            tables: tables to select from, (B, R) each.
            by: (B, R) values to select by.
            usable: (B, R) bool; unusable columns are selected last.
            count: maximum number of columns per process; a single process returns all columns unchanged.
        Returns:
            (B, M) selected columns of each table, then those of `usable`.
        """
        if len(self.shares) < 2:
            return [*tables, usable]
        kept = [min(count, share) for share in self.shares]
        most = kept[processes.rank()]
        places = by.masked_fill(~usable, -torch.inf).topk(most, dim=1).indices
        found = [all_gather(table.detach().gather(1, places).t(), kept).t() for table in tables]
        return [*found, all_gather(usable.gather(1, places).t().float(), kept).t().bool()]


class _Table(NamedTuple):
    """Vectors of a process's pairs, with the number of the swap for which each was last written.

    Attributes:
        text, image: (R, H) float32 vectors.
        stamps: (R,) int32 numbers of swaps.
        sums: (R,) int64 checksums, each over the text vector, image vector and stamp of a row.
    """

    text: Tensor
    image: Tensor
    stamps: Tensor
    sums: Tensor

    def due(self, rows: Tensor, stamps: Tensor) -> Tensor:
        """Checksums of some rows with given stamps, computed from their current vectors."""
        parts = (self.text.numpy(), self.image.numpy())
        numbers = stamps.numpy()
        found = (
            rows_checksum(*(part[row] for part in parts), numbers[place : place + 1])
            for place, row in enumerate(rows.tolist())
        )
        return torch.from_numpy(np.fromiter(found, np.uint64, len(rows)).view(np.int64))

    def sound(self) -> Tensor:
        """(R,) bool, True for rows whose checksum is correct."""
        return self.due(torch.arange(len(self.stamps)), self.stamps) == self.sums


class EpochMemory:
    """Two tables of vectors: one is read, the other is written for the next epoch; swapped after each epoch.

    A pair keeps its vectors until it is in a batch again; before its first one it has zeros and is not
    `seen`. The tables are memory-mapped files in the run folder, because 16 kB per pair are too much for each
    checkpoint; with several processes, each holds a share of the rows.
    A checkpoint records only which table is read, and the number of swaps. That suffices: after a crash,
    resumed steps rewrite the table being written, and the other one does not change before the next swap.
    """

    def __init__(self, model: Pvse, corpus: Corpus, config: ComplementaryConfig) -> None:
        """Create an empty memory.

        Args:
            model: model whose embeddings are stored.
            corpus: corpus whose training rows have entries.
            config: settings; kmode "aligned" and "max" store all heads, concatenated.
        """
        self._model, self._rows, self._pictures = model, corpus.train, corpus.pictures
        kmode = config.weights.kmode if config.measures else "mean"
        self._scale = {"mean": None, "aligned": math.sqrt(model.heads), "max": 1.0}[kmode]
        self._often = not config.measures  # read in each step, not once per epoch
        self._width = model.dim * (1 if self._scale is None else model.heads)
        self._seen = torch.zeros(len(self._rows), dtype=torch.bool, device=model.device)
        self._shares = tuple(rows_per_process(len(self._rows)))
        start = sum(self._shares[: processes.rank()])
        self._own = slice(start, start + self._shares[processes.rank()])
        self._swaps, self._live = 0, 0
        self._folder: Path | None = None
        self._resumed = False
        self._bank: Bank | None = None
        self._maps: list[np.memmap[Any, Any]] = []

    def open(self, folder: Path) -> None:
        """Store the tables in a run folder; they are created at first use."""
        self._folder = folder / FOLDER

    def read(self) -> Bank | None:
        """The previous epoch's vectors, read-only; None in the first epoch, unless `warm` was called."""
        if self._swaps == 0:
            return None
        if self._bank is None:
            table = self._tables[self._live]
            device = self._model.device if self._often else torch.device("cpu")
            held = table.text.to(device), table.image.to(device), self._seen[self._own]
            self._bank = Bank(*held, self._own, self._shares)
        return self._bank

    def write(self, rows: Tensor, texts: Tensor, images: Tensor) -> None:
        """Store (B, K, H) embeddings of (B,) distinct rows for the next epoch.

        Rows outside this process's share are ignored.
        """
        table, places = self._tables[1 - self._live], rows.cpu() - self._own.start
        mine = (places >= 0) & (places < len(table.stamps))
        places = places[mine]
        for own, heads in ((table.text, texts), (table.image, images)):
            kept = heads.detach()[mine.to(heads.device)]
            kept = kept.mean(dim=1) if self._scale is None else kept.flatten(1) / self._scale
            own[places] = kept.to(own)
        table.stamps[places] = self._swaps + 1
        table.sums[places] = table.due(places, table.stamps[places])

    def warm(self) -> None:
        """Encode all pairs before the first epoch, unless already done."""
        if self.read() is None:
            self._encode(np.arange(self._own.start, self._own.stop))
            self._swap()

    def close(self) -> None:
        """Swap the tables at the end of an epoch; all pairs then have vectors.

        Raises:
            CheckpointError: rows written before the run was resumed are damaged.
        """
        if self._resumed:
            self._resumed, table = False, self._tables[1 - self._live]
            number = torch.full_like(table.stamps, self._swaps + 1)
            mine = table.stamps == number
            # a row with only its stamp damaged would count as not written
            _refuse(
                self._folder,
                1 - self._live,
                mine == (table.due(torch.arange(len(mine)), number) == table.sums),
            )
        unseen = ~(self._seen[self._own].cpu() | self._written())
        self._encode(unseen.nonzero().squeeze(1).numpy() + self._own.start)
        self._swap()

    def state(self) -> dict[str, Tensor]:
        """State for a checkpoint; flushes the tables to disk."""
        for one in self._maps:
            one.flush()
        held = {"swaps": self._swaps, "live": self._live, "width": self._width}
        held |= {"shares": len(self._shares)} if len(self._shares) > 1 else {}
        return {PREFIX + name: torch.tensor(value) for name, value in held.items()} | {
            f"{PREFIX}seen": self._seen.clone()
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore from `state` and the tables in the folder, bit for bit.

        Raises:
            CheckpointError: pairs, widths or the number of processes differ; nothing is changed.
        """
        shares = int(state.get(f"{PREFIX}shares", 1))
        if shares != len(self._shares):
            raise CheckpointError(
                f"memory: saved by {counted(shares, 'process', 'processes')}, now {len(self._shares)};"
                " resume with the same number of processes"
            )
        seen, width = state.get(f"{PREFIX}seen"), state.get(f"{PREFIX}width")
        if seen is None or width is None or (len(seen), int(width)) != (len(self._seen), self._width):
            found = (
                "none"
                if seen is None or width is None
                else f"{counted(len(seen), 'pair')} of width {int(width)}"
            )
            raise CheckpointError(
                f"memory: found {found}, expected {counted(len(self._seen), 'pair')} of width {self._width};"
                " resume with the same data and model"
            )
        self._swaps, self._live = int(state[f"{PREFIX}swaps"]), int(state[f"{PREFIX}live"])
        self._seen.copy_(seen)
        self._resumed, self._bank = True, None
        self.__dict__.pop("_tables", None)

    @cached_property
    def _tables(self) -> tuple[_Table, _Table]:
        """Both tables, opened or created at first use.

        Raises:
            CheckpointError: a resumed run's files are incomplete or damaged.
        """
        count = self._own.stop - self._own.start
        if self._folder is None:
            size = (count, self._width)

            def empty() -> _Table:
                numbers = torch.zeros(count, dtype=torch.int32)
                return _Table(torch.zeros(size), torch.zeros(size), numbers, numbers.long())

            return empty(), empty()
        folder, rank = self._folder, processes.rank()
        if not self._resumed:
            folder.mkdir(parents=True, exist_ok=True)

        def opened(number: int) -> _Table:
            shape = count, self._width
            maps, table = _opened(folder / f"{rank}-{number}", shape, new=not self._resumed)
            self._maps += maps
            return table

        tables = opened(0), opened(1)
        if self._resumed and self._swaps:
            _refuse(folder, self._live, tables[self._live].sound())
        return tables

    def _written(self) -> Tensor:
        """(R,) bool, True for rows written for the next swap."""
        return self._tables[1 - self._live].stamps == self._swaps + 1

    def _swap(self) -> None:
        """Swap the tables; rows not written in this epoch keep their previous vectors."""
        read, fresh = self._tables[self._live], self._tables[1 - self._live]
        kept = ~self._written()
        for old, new in ((read.text, fresh.text), (read.image, fresh.image)):
            new[kept] = old[kept]
        changed = kept.nonzero().squeeze(1)
        fresh.sums[changed] = fresh.due(changed, fresh.stamps[changed])
        self._seen[:] = True  # pairs in no batch were encoded
        self._swaps, self._live, self._bank = self._swaps + 1, 1 - self._live, None

    def _encode(self, rows: NDArray[np.int64]) -> None:
        device, texts = self._model.device, self._rows.texts if len(rows) else []
        for start in range(0, len(rows), _BLOCK):
            some = rows[start : start + _BLOCK]
            images = self._model.encode_image(self._pictures.take(self._rows.places[some]))
            words = self._model.encode_text([texts[row] for row in some])
            made = (torch.from_numpy(part).to(device) for part in (some, words, images))
            self.write(*made)


def _opened(
    start: Path, shape: tuple[int, int], *, new: bool, mode: Mode = "r+"
) -> tuple[list[np.memmap[Any, Any]], _Table]:
    """Open the files of a table, whose names start with `start`."""
    forms = {TEXT: (np.float32, shape), IMAGE: (np.float32, shape)}
    rows: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
        **forms,
        "stamps": (np.int32, shape[:1]),
        SUMS: (np.int64, shape[:1]),
    }
    maps = [_mapped(start.with_suffix(f".{name}"), *form, new=new, mode=mode) for name, form in rows.items()]
    return maps, _Table(*map(torch.from_numpy, maps))


def _refuse(where: Path | None, number: int, sound: Tensor) -> None:
    """Raise a CheckpointError if a row's checksum is wrong."""
    if not sound.all():
        raise CheckpointError(
            f"{where}: {counted(int((~sound).sum()), 'row')} of table {number} damaged (checksum differs),"
            f" first row {int(sound.int().argmin())}; restore the run from a copy, or train in another folder"
        )


def states(run: Path, state: Mapping[str, Tensor]) -> Iterator[tuple[Path, bool]]:
    """Check, for each process of a run, the table that is read.

    Args:
        run: run folder.
        state: `EpochMemory.state` from its checkpoint; empty for systems without a memory.
    Yields:
        Path of a table, and whether all its checksums are correct.
    Raises:
        CheckpointError: a file is incomplete.
    """
    if not state.get(f"{PREFIX}swaps"):
        return
    count, shares = len(state[f"{PREFIX}seen"]), int(state.get(f"{PREFIX}shares", 1))
    rows = rows_per_process(count, shares)
    live = int(state[f"{PREFIX}live"])
    for path in sorted({run / FOLDER / f"0-{live}.{TEXT}", *(run / FOLDER).glob(f"*-{live}.{TEXT}")}):
        shape = rows[int(path.name.partition("-")[0])], int(state[f"{PREFIX}width"])
        yield path, bool(_opened(path.with_suffix(""), shape, new=False, mode="c")[1].sound().all())


def _mapped(
    path: Path, dtype: type[np.generic], shape: tuple[int, ...], *, new: bool, mode: Mode = "r+"
) -> np.memmap[Any, Any]:
    """A memory-mapped table, zeros if new.

    Raises:
        StorageError: the disk is full, or cannot be written.
        CheckpointError: a resumed run's file is incomplete.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if new:
        with storing(path, size), path.open("wb") as file:
            reserve(file, size)
    try:
        found = path.stat().st_size
    except OSError as error:
        raise CheckpointError(
            f"{path}: {error.strerror}, expected a table of {size:,} bytes; train in another folder"
        ) from error
    if found != size:
        raise CheckpointError(f"{path}: {found:,} bytes, expected {size:,}; train in another folder")
    return np.memmap(path, dtype, mode, shape=shape)


def against(heads: Tensor, bank: Tensor) -> Tensor:
    """(B, K, H) embeddings and (n, H) bank vectors → (B, n) cosines of the heads' means."""
    means = normalize(heads.detach().mean(dim=1), dim=1)
    return torch.cat(
        [product(means, normalize(part.to(means), dim=1).t()) for part in torch.split(bank, _SHARED)], dim=1
    )
