"""Embeddings of the training items as the epoch before saw them, one table per modality.

Neighbourhood scores and some rivals compare a batch with the whole set, which only a memory can afford. It
computes no embedding and no score.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, distributed

from limner.arrays import expect
from limner.errors import CheckpointError, ConfigError, NumericsError, ShapeError, unknown
from limner.training import processes


class MemoryBank:
    """Two tables per name: one to read, from past epochs, and one being written.

    Until an item is seen again its vector stays; an item never seen is 0 and not `seen`.
    """

    def __init__(
        self,
        n: int,
        widths: Mapping[str, int],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        """An empty bank.

        Args:
            n: training items, at least 1.
            widths: name → width H of its vectors, such as ``{"text": 1024, "image": 1024}``.
            dtype: of the tables; half precision saves memory.
            device: of the tables; with nccl the process's CUDA device.
        Raises:
            ConfigError: no items, names or width, or not a floating type.
        """
        if n < 1 or not widths or min(widths.values()) < 1 or not dtype.is_floating_point:
            raise ConfigError(
                f"memory bank: {n} items of widths {dict(widths)} as {dtype}, "
                "expected at least 1 item, 1 name and width 1, and a floating type"
            )
        self.n = n
        self._current = {k: torch.zeros(n, h, dtype=dtype, device=device) for k, h in widths.items()}
        self._next = {k: torch.zeros(n, h, dtype=dtype, device=device) for k, h in widths.items()}
        self._written = {k: torch.zeros(n, dtype=torch.bool, device=device) for k in widths}
        self._seen = torch.zeros(n, dtype=torch.bool, device=device)
        self._epoch = -1  # the last epoch that was swapped in

    def write(self, name: str, rows: Tensor, values: Tensor) -> None:
        """Remember vectors for the next epoch; a row written twice keeps the later one.

        Args:
            name: as in `widths`.
            rows: (B,) int64 items, each at most once.
            values: (B, H); detached here.
        Raises:
            ConfigError: no such name.
            ShapeError: sizes differ, or rows that do not exist or repeat.
            NumericsError: a value is not finite in the bank's type.
        """
        table = self._next[self._known(name)]
        expect("memory bank", rows=(rows, "B"), values=(values, f"B {table.shape[1]}"))
        held = rows.to(table.device)
        if rows.dtype != torch.int64 or (
            len(held)
            and (
                int(held.min()) < 0
                or int(held.max()) >= self.n
                or bool((held.sort().values.diff() == 0).any())
            )
        ):
            raise ShapeError(f"memory bank: rows must be distinct int64 from 0 to {self.n - 1}")
        given = values.detach().to(table)
        if not bool(given.isfinite().all()):
            raise NumericsError(f"memory bank: a vector of {name!r} is not finite as {table.dtype}")
        table[held] = given
        self._written[name][held] = True

    def swap(self, epoch: int) -> None:
        """Let what `epoch` wrote be read from now on; a second call for the same epoch does nothing.

        Where training runs in several processes, all must call it: an item that several wrote gets the mean.

        Args:
            epoch: 0-based epoch that has ended, later than any swapped before.
        Raises:
            ConfigError: an earlier epoch than the last one.
        """
        if epoch == self._epoch:
            return
        if epoch < self._epoch:
            raise ConfigError(f"memory bank: epoch {epoch} ended after epoch {self._epoch} was swapped in")
        everywhere = torch.ones_like(self._seen)
        for name, fresh in self._next.items():
            written = self._written[name]
            if processes.several():
                written = _joined(fresh, written)
            self._current[name][written] = fresh[written]
            everywhere &= written
            fresh.zero_()
            self._written[name].zero_()
        self._seen |= everywhere
        self._epoch = epoch

    def read(self, name: str) -> Tensor | None:
        """Vectors of past epochs.

        Returns:
            (n, H), not to be changed; None until the first swap.
        Raises:
            ConfigError: no such name.
        """
        table = self._current[self._known(name)]
        return None if self._epoch < 0 else table

    @property
    def seen(self) -> Tensor:
        """(n,) bool, items that have a vector of every name; not to be changed."""
        return self._seen

    def state(self) -> dict[str, Tensor]:
        """Everything, also what this epoch has written so far, as tensors for a checkpoint.

        With several processes each has its own: store one per process.
        """
        held = {"epoch": torch.tensor(self._epoch), "seen": self._seen.clone()}
        for name in self._current:
            held[f"current.{name}"] = self._current[name].clone()
            held[f"next.{name}"] = self._next[name].clone()
            held[f"written.{name}"] = self._written[name].clone()
        return held

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave, bit for bit.

        Raises:
            CheckpointError: other items, names, widths or type; nothing is changed then.
        """
        mine = self.state()
        wrong = sorted(
            name
            for name in mine.keys() | state.keys()
            if name not in mine
            or name not in state
            or mine[name].shape != state[name].shape
            or mine[name].dtype != state[name].dtype
        )
        if wrong:
            raise CheckpointError(
                f"memory bank: the saved one differs in {', '.join(wrong)}; "
                "resume with the same data and model"
            )
        self._epoch = int(state["epoch"])
        self._seen.copy_(state["seen"])
        for name in self._current:
            self._current[name].copy_(state[f"current.{name}"])
            self._next[name].copy_(state[f"next.{name}"])
            self._written[name].copy_(state[f"written.{name}"])

    def _known(self, name: str) -> str:
        if name not in self._current:
            raise ConfigError("memory bank: " + unknown("name", name, self._current))
        return name


def _joined(fresh: Tensor, written: Tensor) -> Tensor:
    """Join in place what all processes wrote; which rows any wrote."""
    counts = written.int()
    distributed.all_reduce(counts)
    fresh /= counts.clamp(min=1)[:, None].to(fresh.dtype)
    distributed.all_reduce(fresh)
    return counts > 0
