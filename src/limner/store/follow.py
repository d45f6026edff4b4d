"""Bring a library's cache up to date with its tables: only pieces that are new or changed are read.

Lance writes a table in pieces that never change; what a later version drops of one is a list beside it, and
compaction joins small ones. So the pieces that a cache has followed say which rows may be new, other or gone.
"""

from __future__ import annotations

import secrets
import shutil
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limner.arrays import usable_rows
from limner.checksums import seal_bytes, unseal_bytes
from limner.counts import counted
from limner.errors import CheckpointError, DataError, LimnerWarning, NumericsError
from limner.files import replacing
from limner.store.blocks import Blocks, extend, rows_held
from limner.store.roster import (
    ID_BYTES,
    Ledger,
    Places,
    RawIds,
    SpaceFile,
    View,
    group_numbers,
    own_files,
    ranks,
    raw_ids,
    read_ledger,
    read_view,
    text_of,
    write_state,
)
from limner.store.scan import BoolArray, HalfArray, IntArray, sums
from limner.store.store import PICTURES, PRESENT, SpaceInfo, Store, vectors_name

ROWS, MOMENTS = ".rows", ".moments"
SORTED_ROWS = 16_384
"""So many pictures are put in order of their ids when a cache is begun; more stay as the tables have them."""
WASTE_ROWS, WASTE_SHARE = 4_096, 0.25
"""Dead rows, and their share of all, from which a cache is begun anew."""


class _AnewError(Exception):
    """The cache has to be begun again, for a reason that is no fault."""


def follow(store: Store, cache: Path, infos: Mapping[str, SpaceInfo], wanted: Collection[str]) -> View:
    """Bring a cache up to date; the caller is its only writer.

    Args:
        store: the tables.
        cache: folder of the cache.
        infos: all spaces of the library.
        wanted: those to hold; others that it holds already are brought up to date as well.
    Returns:
        the state that counts from now on.
    Raises:
        CheckpointError: a vector has another width.
        NumericsError: a vector is not finite or all zeros, naming the picture.
        StorageError: the disk is full, or cannot be written.
        DataError: a table is damaged.
    """
    try:
        view = read_view(cache)
        ledger = None if view is None else read_ledger(cache, view)
    except DataError as error:
        warnings.warn(f"{cache}: damaged ({error}); it is made again", LimnerWarning, stacklevel=2)
        view = ledger = None
    held = dict.fromkeys([*(view.spaces if view else ()), *wanted])
    spaces = {name: infos[name] for name in held if name in infos}
    if view is not None and ledger is not None and view.rows:
        try:
            return _Follower(store, cache, spaces, view, ledger).run()
        except _AnewError:
            pass
        except CheckpointError as error:
            if "damaged" not in str(error):
                raise
            warnings.warn(f"{error}", LimnerWarning, stacklevel=2)
    none = np.zeros(0, np.int32)
    empty = View("", f"ids-{secrets.token_hex(4)}", 0, {}, {}, none, np.zeros(0, np.uint64), {})
    return _Follower(store, cache, spaces, empty, Ledger(none, empty.groups, {})).run()


class _Follower:
    """One step of a cache from the state that it is in to that of the tables."""

    def __init__(
        self, store: Store, cache: Path, spaces: Mapping[str, SpaceInfo], view: View, ledger: Ledger
    ) -> None:
        self.store, self.cache, self.view = store, cache, view
        self.files = {name: self._file_of(name, info) for name, info in spaces.items()}
        tables = (PICTURES, *map(vectors_name, spaces))
        self.pieces = {name: store.pieces(name) for name in tables}
        self.ids_file = cache / f"{view.ids_file}{ROWS}"
        self.order, self.groups = ledger.order, ledger.groups
        # A space whose file is begun again follows no piece yet.
        kept = [one for name, one in self.files.items() if view.rows and view.spaces.get(name) == one]
        begun = {PICTURES, *(vectors_name(name) for name, one in self.files.items() if one in kept)}
        self.seen = {name: view.tables.get(name, {}) if name in begun else {} for name in tables}
        nowhere = np.full(view.rows, -1, np.int32)
        self.homes = {name: ledger.homes[name] if self.seen[name] else nowhere.copy() for name in tables}
        self.before = {name: self._present(name) for name in self.files}
        # Rows that a kill left behind the last that counts stay unused.
        self.done = {
            name: _held(self._rows_of(one), (one.dim,), np.float16) if one in kept else 0
            for name, one in self.files.items()
        }
        ids = _held(self.ids_file, (ID_BYTES,), np.uint8) if view.rows else 0
        self.rows = max([view.rows, ids, *self.done.values()])
        self._grow(self.rows)

    def run(self) -> View:
        fresh = {name: self._meet(name) for name in self.pieces}
        changed = {name: self._take(name, fresh[vectors_name(name)]) for name in self.files}
        self._move(changed)
        named = np.any([home[self.order] >= 0 for home in self.homes.values()], axis=0)
        self.order = self.order[named]
        waste = self.rows - len(self.order)
        if self.view.rows and waste > max(WASTE_ROWS, WASTE_SHARE * self.rows):
            raise _AnewError
        order = self.order[self.homes[PICTURES][self.order] >= 0]
        view = View(
            secrets.token_hex(8),
            self.view.ids_file,
            self.rows,
            {name: one.each for name, one in self.pieces.items()},
            self.files,
            order,
            self.groups[order],
            {name: self._present(name)[order] for name in self.files},
        )
        for name in self.files:
            self._bring_moments(name, view.stamp)
        write_state(self.cache, view, Ledger(self.order, self.groups, self.homes))
        self._forget(view)
        return view

    def _meet(self, table: str) -> list[int]:
        """Find the ids of a table's pieces that changed, give rows to new ones; return the new pieces."""
        seen, pieces = self.seen[table], self.pieces[table]
        fresh = [one for one, now in pieces.each.items() if one not in seen or seen[one].data != now.data]
        cut = [one for one, now in pieces.each.items() if one not in fresh and seen[one] != now]
        stale = [*(seen.keys() - pieces.each.keys()), *fresh, *cut]
        home = self.homes[table]
        home[np.isin(home, np.array(stale, np.int32))] = -1
        columns, where = (["id", "group"], PRESENT) if table == PICTURES else (["id"], None)
        found, numbers, groups = [], [], []
        for own, batch in self.store.scan_pieces(pieces, [*cut, *fresh], columns, where):
            found.append(raw_ids(batch.column("id")))
            numbers.append(own.astype(np.int32))
            if table == PICTURES:
                groups.append(raw_ids(batch.column("group")))
        if found:
            rows = self._placed(np.concatenate(found))
            self.homes[table][rows] = np.concatenate(numbers)
            if table == PICTURES:
                self.groups[rows] = group_numbers(np.concatenate(groups))
        return fresh

    def _placed(self, ids: RawIds) -> Places:
        """(R,) rows of ids; those that have none get some, in the order in which they come."""
        raw = self._raw()
        place, there = ranks(raw, self.order, ids)
        if there.all():
            return self.order[place]
        names, first, back = np.unique(ids[~there], return_index=True, return_inverse=True)
        arrival = np.arange(len(names))
        if self.rows or len(names) > SORTED_ROWS:
            arrival[np.argsort(first)] = np.arange(len(names))
        new = (self.rows + arrival).astype(np.int32)
        rows = np.empty(len(ids), np.int32)
        rows[~there] = new[back]
        rows[there] = self.order[place[there]]
        listed = np.empty((len(names), ID_BYTES), np.uint8)
        listed[arrival] = names.view(np.uint8).reshape(-1, ID_BYTES)
        self._list(listed)
        self.order = np.insert(self.order, ranks(raw, self.order, names)[0], new)
        return rows

    def _list(self, ids: NDArray[np.uint8]) -> None:
        """Write ids behind all others."""
        begun = _held(self.ids_file, (ID_BYTES,), np.uint8) if self.rows else 0
        stop = self.rows + len(ids)

        def fill(array: NDArray[Any]) -> None:
            array[: self.rows - begun] = 0  # a kill has left the vectors of a space ahead of the ids
            array[self.rows - begun :] = ids

        extend(self.ids_file, range(begun, stop), (ID_BYTES,), np.uint8, fill)
        self._grow(stop)

    def _grow(self, rows: int) -> None:
        """Make room for so many rows."""
        more = rows - len(self.groups)
        self.groups = np.concatenate([self.groups, np.zeros(more, np.uint64)])
        self.homes = {
            name: np.concatenate([home, np.full(more, -1, np.int32)]) for name, home in self.homes.items()
        }
        self.rows = rows

    def _raw(self) -> RawIds:
        if not self.rows or not len(self.order):
            return np.zeros(0, f"S{ID_BYTES}")
        found = Blocks.opened(self.ids_file, int(self.order.max()) + 1, (ID_BYTES,), np.uint8, "r", None)
        if found is None:
            raise CheckpointError(f"{self.ids_file}: damaged; it is made again")
        return np.asarray(found.array).reshape(-1).view(f"S{ID_BYTES}")

    def _take(self, space: str, fresh: list[int]) -> tuple[IntArray, HalfArray]:
        """Write the vectors of new rows; return the ids' rows, and vectors, that are other than before."""
        file, begun, raw = self.files[space], self.done[space], self._raw()
        held = self._matrix(space)
        rows: list[NDArray[Any]] = [np.zeros(0, np.int64)]
        vectors: list[NDArray[Any]] = [np.zeros((0, file.dim), np.float16)]

        def fill(array: NDArray[Any]) -> None:
            if begun:
                array[:] = 0
            for ids, own in self._vectors(space, fresh):
                place = self.order[ranks(raw, self.order, ids)[0]].astype(np.int64)
                new = place >= begun
                array[place[new] - begun] = own[new]
                old = np.flatnonzero(~new)
                if len(old):
                    held.check(place[old])
                    known = np.asarray(held.array[place[old]])
                    other = old[(known.view(np.int16) != own[old].view(np.int16)).any(axis=1)]
                    rows.append(place[other])
                    vectors.append(own[other])

        if begun < self.rows:
            extend(self._rows_of(file), range(begun, self.rows), (file.dim,), np.float16, fill)
            self.done[space] = self.rows
        else:
            fill(np.zeros((0, file.dim), np.float16))
        return np.concatenate(rows), np.concatenate(vectors)

    def _vectors(self, space: str, pieces: list[int]) -> Any:  # noqa: ANN401
        table, dim = vectors_name(space), self.files[space].dim
        for _, batch in self.store.scan_pieces(self.pieces[table], pieces, ["id", "vector"]):
            ids = raw_ids(batch.column("id"))
            yield ids, vectors_of(table, batch.column("vector"), ids, dim)

    def _move(self, changed: Mapping[str, tuple[IntArray, HalfArray]]) -> None:
        """Give pictures whose vectors changed rows behind all others, in all spaces."""
        old = np.unique(np.concatenate([np.zeros(0, np.int64), *(rows for rows, _ in changed.values())]))
        if not len(old):
            return
        if len(old) > max(WASTE_ROWS, WASTE_SHARE * self.rows):
            raise _AnewError
        base, raw = self.rows, self._raw()
        place = ranks(raw, self.order, raw[old])[0]
        self._list(raw[old].view(np.uint8).reshape(-1, ID_BYTES))
        new = base + np.arange(len(old))
        self.order[place] = new
        self.groups[new] = self.groups[old]
        for home in self.homes.values():
            home[new], home[old] = home[old], -1
        for space, (rows, vectors) in changed.items():
            held = self._matrix(space)

            def fill(
                array: NDArray[Any], held: Blocks = held, rows: IntArray = rows, own: HalfArray = vectors
            ) -> None:
                held.check(old)
                array[:] = held.array[old]
                array[np.searchsorted(old, rows)] = own

            file = self.files[space]
            extend(self._rows_of(file), range(base, self.rows), (file.dim,), np.float16, fill)
            self.done[space] = self.rows

    def _matrix(self, space: str) -> Blocks:
        """The vectors of a space so far."""

        def refuse(_start: int, _stop: int, _there: NDArray[Any]) -> NDArray[Any]:
            raise CheckpointError(f"{path}: damaged; it is made again")

        file, rows = self.files[space], self.done[space]
        path = self._rows_of(file)
        found = Blocks.opened(path, rows, (file.dim,), np.float16, "r", refuse)
        if found is None:
            raise CheckpointError(f"{path}: damaged; it is made again")
        return found

    def _present(self, space: str) -> BoolArray:
        """(P,) pictures with a vector that some file still holds."""
        found: BoolArray = (self.homes[vectors_name(space)] >= 0) & (self.homes[PICTURES] >= 0)
        return found

    def _bring_moments(self, space: str, stamp: str) -> None:
        """Take what came and went into the sums of a space, where there are some."""
        path = self._rows_of(self.files[space]).with_suffix(MOMENTS)
        now, before = self._present(space), self.before[space]
        before = np.concatenate([before, np.zeros(len(now) - len(before), bool)])
        came, gone = np.flatnonzero(now & ~before), np.flatnonzero(before & ~now)
        if not self.view.stamp or len(came) + len(gone) > len(now) // 2:
            return
        total = read_sums_of_space(path, self.view.stamp, self.files[space].dim)
        if total is not None:
            held = self._matrix(space)
            held.check(np.concatenate([came, gone]))
            total += sums(held.array, came) - sums(held.array, gone)
            write_sums_of_space(path, stamp, total)

    def _file_of(self, space: str, info: SpaceInfo) -> SpaceFile:
        known = self.view.spaces.get(space)
        if known is not None and (known.fingerprint, known.dim) == (info.fingerprint, info.dim):
            return known
        return SpaceFile(info.fingerprint, info.dim, f"{space}-{secrets.token_hex(4)}")

    def _rows_of(self, file: SpaceFile) -> Path:
        return self.cache / f"{file.file}{ROWS}"

    def _forget(self, view: View) -> None:
        """Remove what other states left, and what older versions did."""
        kept = own_files(view)
        for path in self.cache.glob("[!.]*"):
            if path.is_dir():
                if any(path.glob("*.present.npy")):
                    shutil.rmtree(path, ignore_errors=True)
            elif not path.name.startswith(tuple(kept)):
                # Windows keeps a file that another process has mapped; a later build removes it.
                with suppress(PermissionError):
                    path.unlink()


def _held(path: Path, row: tuple[int, ...], kind: type[np.generic]) -> int:
    try:
        found = rows_held(path, row, kind)
    except ValueError as error:
        raise CheckpointError(f"{path}: damaged ({error}); it is made again") from error
    if not found:  # it was removed
        raise _AnewError
    return found


def vectors_of(table: str, column: Any, ids: RawIds, dim: int) -> HalfArray:  # noqa: ANN401
    """(R, D) vectors of a column.

    Raises:
        CheckpointError: they have another width.
        NumericsError: one says nothing, or would poison every score.
    """
    vectors: HalfArray = column.flatten().to_numpy(zero_copy_only=False).reshape(len(ids), -1)
    if vectors.shape[1] != dim:
        raise CheckpointError(f"{table}: vectors of width {vectors.shape[1]}, expected {dim}; index again")
    good = usable_rows(vectors)
    if not good.all():
        first = int(np.argmin(good))
        raise NumericsError(
            f"{table}: the vector of picture {text_of(ids[first : first + 1])[0][:12]} is not finite or all"
            f" zeros ({counted(int((~good).sum()), 'vector')} of a block); 'limner verify LIBRARY --repair'"
            " takes it out, 'limner index' makes it again"
        )
    return vectors


def read_sums_of_space(path: Path, stamp: str, dim: int) -> IntArray | None:
    """Sums that were written for a state, (D + 1, D); None where there are none."""
    try:
        content = unseal_bytes(path.read_bytes())
    except FileNotFoundError:
        return None
    if content is None or len(content) != 16 + 8 * (dim + 1) * dim:
        warnings.warn(f"{path}: damaged; it is made again", LimnerWarning, stacklevel=2)
        return None
    if content[:16] != stamp.encode():
        return None
    return np.frombuffer(content, np.int64, offset=16).reshape(dim + 1, dim).copy()


def write_sums_of_space(path: Path, stamp: str, total: IntArray) -> None:
    """Keep sums for a state."""
    content = seal_bytes(stamp.encode() + np.ascontiguousarray(total).tobytes())
    with replacing(path, sync=False, wanted=len(content)) as draft:
        draft.write_bytes(content)
