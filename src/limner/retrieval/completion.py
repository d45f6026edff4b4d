"""What follows once all files are read: caption vectors, near-duplicate groups, and what is still missing.

Each step compares what the tables hold with what they should hold and writes the difference, so that a run
that was cut off is completed by the next. No picture is opened here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from limner.data.hashes import near_groups
from limner.data.language import language_of, languages_of
from limner.retrieval.commits import vector_table
from limner.retrieval.digests import place
from limner.retrieval.store import PICTURES, vectors_name
from limner.similarity import FloatArray, TextEncoder, unit_rows

if TYPE_CHECKING:
    from limner.retrieval.library import Library
    from limner.retrieval.reports import Progress
    from limner.retrieval.store import Store

CAPTIONS, MULTILINGUAL = "captions", "multilingual"
CAPTION_SPACES = (CAPTIONS, MULTILINGUAL)
"""Spaces of what captions say: English ones, and all that the multilingual encoder reads."""
_PRESENT = "array_length(paths) > 0"
_CAPTIONED = f"{_PRESENT} AND array_length(captions) > 0"
_SHARES_FROM = 1000  # captions; more would not change the shares by a hundredth
_TEXTS_AT_ONCE = 512
_GROUP_ROWS = 8192


def captions_hash(fingerprint: str, texts: Sequence[str]) -> str:
    """What a caption vector was made from: changes with the encoder or any caption."""
    content = "\0".join((fingerprint, "by language", *texts)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:32]


def caption_shares(store: Store) -> dict[str, float]:
    """Language → share of a library's captions, largest first, estimated from some spread over all of it."""
    every = max(1, store.count(PICTURES, _CAPTIONED) // _SHARES_FROM)
    texts: list[str] = []
    seen = 0
    for batch in store.scan(PICTURES, ["captions"], _CAPTIONED):
        for captions in batch.column("captions").to_pylist():
            seen += 1
            if seen % every == 0:
                texts.append(captions[0]["text"])
    return languages_of(texts).shares


def encode_captions(
    library: Library,
    space: str,
    encoder: TextEncoder,
    *,
    reads: frozenset[str] | None,
    progress: Progress,
    stopped: Callable[[], bool],
) -> int:
    """Bring one space of captions up to date; return how many pictures were encoded.

    Args:
        library: its table of the space exists, and its settings hold the shares of languages.
        space: captions or multilingual.
        encoder: of the caption texts.
        reads: languages that it reads; captions in others do not enter. None for all.
        progress: told of every picture encoded.
        stopped: asked between batches; True ends early.
    """
    store, table = library.store, vectors_name(space)
    ids, hashes = _known_hashes(store, table)
    met = np.zeros(len(ids), dtype=bool)
    stale: list[tuple[str, str, list[str]]] = []
    done = 0
    total = 0
    for batch in store.scan(PICTURES, ["id", "captions"], _CAPTIONED):
        for row in batch.to_pylist():
            texts = [caption["text"] for caption in row["captions"]]
            key = captions_hash(encoder.fingerprint, texts)
            at = place(ids, bytes.fromhex(row["id"]))
            if at >= 0 and bytes(hashes[at]) == bytes.fromhex(key).rstrip(b"\0"):
                met[at] = True
                continue
            readable = readable_captions(texts, reads, library.settings.languages)
            if readable:
                if at >= 0:
                    met[at] = True
                stale.append((row["id"], key, readable))
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


def readable_captions(
    texts: Sequence[str], reads: frozenset[str] | None, shares: Mapping[str, float]
) -> list[str]:
    """Captions of one picture in the languages that an encoder reads.

    Args:
        texts: its captions.
        reads: ISO 639 codes; None for all.
        shares: of the languages of the library's captions.
    """
    if reads is None:
        return list(texts)
    return [text for text in texts if language_of(text, shares).code in reads]


def unread_captions(library: Library) -> dict[str, str]:
    """Id of each captioned picture without any vector of its captions → language of the first of them."""
    store = library.store
    spaces = [vectors_name(space) for space in CAPTION_SPACES if space in library.settings.spaces]
    known = np.array([bytes.fromhex(one) for table in spaces for one in ids_of(store, table)], dtype="S32")
    known.sort()
    unread: dict[str, str] = {}
    for batch in store.scan(PICTURES, ["id", "captions"], _CAPTIONED):
        for row in batch.to_pylist():
            if place(known, bytes.fromhex(row["id"])) < 0:
                text = row["captions"][0]["text"]
                unread[row["id"]] = language_of(text, library.settings.languages).code
    return unread


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
