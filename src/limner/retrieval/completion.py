"""What follows once all files are read: caption vectors, near-duplicate groups, and what is still missing.

Each step compares what the tables hold with what they should hold and writes the difference, so that a run
that was cut off is completed by the next. No picture is opened here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from limner.data.hashes import near_groups
from limner.retrieval.commits import vector_table
from limner.retrieval.digests import place
from limner.retrieval.store import PICTURES, vectors_name
from limner.similarity import FloatArray, TextEncoder, unit_rows

if TYPE_CHECKING:
    from limner.retrieval.library import Library
    from limner.retrieval.reports import Progress
    from limner.retrieval.store import Store

CAPTIONS = "captions"
_PRESENT = "array_length(paths) > 0"
_TEXTS_AT_ONCE = 512
_GROUP_ROWS = 8192


def captions_hash(fingerprint: str, texts: Sequence[str]) -> str:
    """What a caption vector was made from: changes with the encoder or any caption."""
    content = "\0".join((fingerprint, *texts)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:32]


def encode_captions(
    library: Library, encoder: TextEncoder, progress: Progress, stopped: Callable[[], bool]
) -> int:
    """Bring the space "captions" up to date; return how many pictures were encoded.

    Args:
        library: its table of the space exists.
        encoder: of the caption texts.
        progress: told of every picture encoded.
        stopped: asked between batches; True ends early.
    """
    store, table = library.store, vectors_name(CAPTIONS)
    ids, hashes = _known_hashes(store, table)
    met = np.zeros(len(ids), dtype=bool)
    stale: list[tuple[str, str, list[str]]] = []
    done = 0
    total = 0
    for batch in store.scan(PICTURES, ["id", "captions"], f"{_PRESENT} AND array_length(captions) > 0"):
        for row in batch.to_pylist():
            texts = [caption["text"] for caption in row["captions"]]
            key = captions_hash(encoder.fingerprint, texts)
            at = place(ids, bytes.fromhex(row["id"]))
            if at >= 0:
                met[at] = True
            if at < 0 or bytes(hashes[at]) != bytes.fromhex(key).rstrip(b"\0"):
                stale.append((row["id"], key, texts))
                total += 1
        if len(stale) >= _TEXTS_AT_ONCE:
            progress.total(total)
            done += _encode(store, table, encoder, stale, progress)
            stale = []
            if stopped():
                return done
    progress.total(total)
    done += _encode(store, table, encoder, stale, progress)
    store.delete(table, (bytes(one).ljust(32, b"\0").hex() for one in ids[~met]))
    return done


def _known_hashes(store: Store, table: str) -> tuple[NDArray[np.bytes_], NDArray[np.bytes_]]:
    """Ids, sorted, and input hashes of a vector table."""
    ids: list[bytes] = []
    hashes: list[bytes] = []
    for batch in store.scan(table, ["id", "input_hash"]):
        ids += map(bytes.fromhex, batch.column("id").to_pylist())
        hashes += map(bytes.fromhex, batch.column("input_hash").to_pylist())
    known, inputs = np.array(ids, dtype="S32"), np.array(hashes, dtype="S16")
    order = np.argsort(known)
    return known[order], inputs[order]


def _encode(
    store: Store,
    table: str,
    encoder: TextEncoder,
    stale: list[tuple[str, str, list[str]]],
    progress: Progress,
) -> int:
    for start in range(0, len(stale), _TEXTS_AT_ONCE):
        some = stale[start : start + _TEXTS_AT_ONCE]
        vectors = mean_vectors(encoder, [texts for _, _, texts in some])
        store.upsert(table, vector_table([one for one, _, _ in some], [key for _, key, _ in some], vectors))
        progress.advance(len(some))
    return len(stale)


def mean_vectors(encoder: TextEncoder, texts: Sequence[Sequence[str]]) -> FloatArray:
    """Unit mean of the unit vectors of each picture's captions.

    Args:
        encoder: of texts.
        texts: B pictures with one caption or more each.
    Returns:
        (B, D) float32.
    """
    flat = [text for some in texts for text in some]
    # Equal captions are common (keywords of one event); each wording is encoded once.
    wordings = list(dict.fromkeys(flat))
    numbers = {wording: number for number, wording in enumerate(wordings)}
    unit = unit_rows("captions", encoder.encode_text(wordings))[[numbers[text] for text in flat]]
    starts = np.cumsum([0, *(len(some) for some in texts[:-1])])
    sums: FloatArray = np.add.reduceat(unit, starts, axis=0)
    return unit_rows("captions", sums)


def link_near(library: Library, bits: int) -> None:
    """Set the near-duplicate group of every present picture: the smallest id in it."""
    import pyarrow as pa

    store = library.store
    rows: list[tuple[str, str, str]] = []
    for batch in store.scan(PICTURES, ["id", "phash", "group"], _PRESENT):
        columns = (batch.column(name).to_pylist() for name in ("id", "phash", "group"))
        rows += zip(*columns, strict=True)
    rows.sort()
    groups = near_groups(np.array([int(phash, 16) for _, phash, _ in rows], dtype=np.uint64), bits)
    changed = [
        (one, rows[lowest][0])
        for (one, _, group), lowest in zip(rows, groups.tolist(), strict=True)
        if rows[lowest][0] != group
    ]
    for start in range(0, len(changed), _GROUP_ROWS):
        some = changed[start : start + _GROUP_ROWS]
        store.upsert(PICTURES, pa.table({"id": [one for one, _ in some], "group": [to for _, to in some]}))


def group_counts(store: Store) -> tuple[int, int]:
    """Near-duplicate groups of two or more present pictures, and the pictures in them."""
    sizes: dict[str, int] = {}
    for batch in store.scan(PICTURES, ["id", "group"], f'{_PRESENT} AND id != "group"'):
        for group in batch.column("group").to_pylist():
            sizes[group] = sizes.get(group, 1) + 1
    return len(sizes), sum(sizes.values())


def ids_of(store: Store, table: str, where: str | None = None) -> Iterator[str]:
    """Picture ids in a table."""
    for batch in store.scan(table, ["id"], where):
        yield from batch.column("id").to_pylist()


def lacking(store: Store, spaces: Sequence[str]) -> dict[str, int]:
    """Space → present pictures without a vector in it, where there are any."""
    present = np.array([bytes.fromhex(one) for one in ids_of(store, PICTURES, _PRESENT)], dtype="S32")
    result: dict[str, Any] = {}
    for space in spaces:
        table = vectors_name(space)
        known = ids_of(store, table) if store.has(table) else iter(())
        have = np.array([bytes.fromhex(one) for one in known], dtype="S32")
        missing = int((~np.isin(present, have)).sum())
        if missing:
            result[space] = missing
    return result
