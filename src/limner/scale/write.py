"""Writes a batch: pictures first, then vectors, then files.

The rows of `files` are written last and mark that a file is done. If the process is killed between the
writes, the next run does the work again, with the same result. It reads no files and runs no encoder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from limner.arrays import ByteArray, FloatArray, SentenceEncoder, TextEncoder, unit_rows, usable_rows
from limner.errors import DataError, NumericsError
from limner.files import display
from limner.language import ENGLISH, language_of, languages_of
from limner.pictures.hashes import near_groups
from limner.pictures.metadata import Words, camera_number, unique_captions
from limner.records import Caption
from limner.scale.known import DIGEST, among, place, sorted_ids, sorted_rows
from limner.scale.store import (
    CAPTIONED,
    COORDINATES,
    COORDINATES_SCHEMA,
    DESCRIPTIONS,
    FILES,
    FILES_SCHEMA,
    OCR,
    OCR_SCHEMA,
    PICTURES,
    PICTURES_SCHEMA,
    PRESENT,
    WORDS,
    TableStore,
    chunks,
    vectors_name,
)
from limner.scale.tables import MEND

if TYPE_CHECKING:
    from limner.progress import Progress
    from limner.scale.library import PictureStore


FileRow = dict[str, Any]
Labels = list[tuple[str, float]]
MAX_REASON_CHARS = 2000


@dataclass(frozen=True)
class TablePixels:
    """Properties of a picture, independent of its file name.

    Attributes:
        width_px, height_px, format, phash: as in `limner.records.Picture`.
        prepared: (H, W, 3) bytes by encoder name, for the encoders that need this picture.
        words: text in the picture, by line; None if it was not read.
    """

    width_px: int
    height_px: int
    format: str
    phash: str
    prepared: dict[str, ByteArray]
    words: str | None = None


def file_key(path: bytes) -> str:
    """Identity of a path in the tables: 32 hexadecimal digits."""
    return hashlib.blake2b(path, digest_size=16).hexdigest()


def file_row(
    path: bytes,
    source: bytes,
    *,
    status: str,
    size: int = 0,
    mtime_ns: int = -1,
    sha256: str = "",
    reason: str = "",
    words_key: str = "",
    words: Words | None = None,
    stamp: str = "",
) -> FileRow:
    """One row of `files`, and the coordinates of its picture; other arguments as its columns.

    Args:
        path: absolute path, as bytes of the system.
        source: folder or list in which it was found.
        status: ok, skipped or deleted.
        size: bytes.
        mtime_ns: modification time when it was read; −1 never equals a real time, so that it is read again.
        sha256: SHA-256 of its content, "" if it could not be read.
        reason: reason for skipping it, or error in its metadata.
        words_key: see `limner.pictures.find.FoundFile`.
        words: captions and other metadata.
        stamp: see `limner.pictures.decode.stamp_of`; "" if unknown.
    """
    said = words if words is not None else Words()
    return {
        "key": file_key(path),
        "path": display(path),
        "path_bytes": path,
        "source": source,
        "size": size,
        "mtime_ns": mtime_ns,
        "sha256": sha256,
        "status": status,
        "reason": reason[:MAX_REASON_CHARS],
        "words_key": words_key,
        "captions": [caption.model_dump() for caption in said.captions],
        "credit": said.credit,
        "license": said.license,
        "taken": said.taken.isoformat() if said.taken is not None else None,
        "taken_from": said.taken_from,
        "camera": said.camera,
        "stamp": stamp,
        "coordinates": said.coordinates,
    }


def vector_table(ids: Sequence[str], hashes: Sequence[str], vectors: FloatArray) -> pa.Table:
    """Rows of a vector table.

    Args:
        ids: B picture ids.
        hashes: B hashes of the vectors' inputs.
        vectors: (B, D) unit rows, stored as float16.
    Raises:
        NumericsError: a row is not finite or all zeros; the message names its picture.
    """
    good = usable_rows(vectors)
    if not good.all():
        raise NumericsError(
            f"picture {ids[int(np.argmin(good))][:12]}: its vector is not finite or all zeros; nothing of"
            " this batch is kept; look at the picture, its captions and the encoder"
        )
    half = pa.array(np.ascontiguousarray(vectors, dtype=np.float16).ravel())
    column = pa.FixedSizeListArray.from_arrays(half, vectors.shape[1])
    return pa.table({"id": pa.array(ids), "input_hash": pa.array(hashes), "vector": column})


def write_batch(
    store: TableStore,
    files: Iterable[FileRow],
    pixels: Mapping[str, TablePixels],
    labels: Mapping[str, Labels],
    vectors: Mapping[str, pa.Table],
    *,
    encoded: Mapping[str, Container[str]],
) -> None:
    """Write a batch.

    Args:
        store: the tables.
        files: rows of `files`; if a path has several, the last one counts.
        pixels: content hash → properties of the picture, at least for contents new to the library.
        labels: content hash → classes, for pictures classified in this batch.
        vectors: space → rows of its table.
        encoded: space → pictures for which its table may have a row.
    """
    rows = {row["key"]: row for row in files}
    before = store.lookup(FILES, "key", rows, ["key", "sha256", "status"])
    affected = {row["sha256"] for row in (*before, *rows.values()) if row["status"] == "ok"}
    known = {row["id"]: row for row in store.lookup(PICTURES, "id", affected)}
    counting = _counting(store, _holders(store, rows, affected))
    pictures = [
        _picture(sha, holding, pixels.get(sha), labels.get(sha), known.get(sha), captions=captions)
        for sha, (holding, captions) in sorted(counting.items())
    ]
    # before the vectors: a picture with vectors is not encoded again and would never get its labels
    store.upsert(PICTURES, pa.Table.from_pylist(pictures, schema=PICTURES_SCHEMA), known)
    for space, table in vectors.items():
        store.upsert(vectors_name(space), table, encoded[space])
    already = {row["key"] for row in before}
    _write_coordinates(store, rows.values())
    store.upsert(FILES, pa.Table.from_pylist(list(rows.values()), schema=FILES_SCHEMA), already)


def _write_coordinates(store: TableStore, rows: Iterable[FileRow]) -> None:
    """Store the coordinates of files that were read, and remove those of files that no longer state any."""
    read = {row["key"]: row["coordinates"] for row in rows if row["status"] == "ok" and "coordinates" in row}
    stated = [
        {"id": key, "latitude": pair[0], "longitude": pair[1]}
        for key, pair in read.items()
        if pair is not None
    ]
    known = {row["id"] for row in store.lookup(COORDINATES, "id", read, ["id"])}
    store.delete(COORDINATES, known - {row["id"] for row in stated})
    store.upsert(COORDINATES, pa.Table.from_pylist(stated, schema=COORDINATES_SCHEMA), known)


def picture_rows(store: TableStore, pictures: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of existing pictures, computed from the stored rows of their files."""
    known, counting = store.lookup(PICTURES, "id", pictures), _counting(store, _holders(store, {}, pictures))
    return [
        _picture(row["id"], holding, None, None, row, captions=captions)
        for row in known
        for holding, captions in [counting[row["id"]]]
    ]


def _holders(
    store: TableStore, rows: Mapping[str, FileRow], pictures: Iterable[str]
) -> dict[str, list[FileRow]]:
    """All existing files of each picture, including those of a batch.

    A picture's paths and captions are those of all present files with its content, so that the result does
    not depend on the order in which the files were found.
    """
    stored = store.lookup(FILES, "sha256", pictures)
    present = [row for row in stored if row["key"] not in rows] + list(rows.values())
    present.sort(key=lambda row: (row["path"], row["path_bytes"]))
    holders: dict[str, list[FileRow]] = {sha: [] for sha in pictures}
    for row in present:
        if row["status"] == "ok":
            holders[row["sha256"]].append(row)
    return holders


def _picture(
    sha: str,
    holding: list[FileRow],
    pixels: TablePixels | None,
    labels: Labels | None,
    known: dict[str, Any] | None,
    *,
    captions: list[dict[str, str]],
) -> dict[str, Any]:
    """Build one row of `pictures`, with its caption row, from its files, its pixels if they were read, and
    its previous row.
    """
    if known is None and pixels is None:
        raise DataError(f"library: picture {sha} has files but no row; {MEND}")
    row = dict(known) if known is not None else {"id": sha, "group": sha, "labels": [], "size_bytes": 0}
    if pixels is not None:
        row |= {"width_px": pixels.width_px, "height_px": pixels.height_px}
        row |= {"format": pixels.format, "phash": pixels.phash}
    if labels is not None:
        row["labels"] = [{"name": name, "probability": float(value)} for name, value in labels]
    row["paths"] = [file["path"] for file in holding]
    row["captions"] = captions
    for name in ("credit", "license", "camera"):
        row[name] = next((file[name] for file in holding if file[name]), "")
    dated = next((file for file in holding if file["taken"]), {"taken": None, "taken_from": ""})
    row |= {name: dated[name] for name in ("taken", "taken_from")}
    if holding:
        row["size_bytes"] = holding[0]["size"]
    return row


def _counting(
    store: TableStore, holders: Mapping[str, list[FileRow]]
) -> dict[str, tuple[list[FileRow], list[dict[str, str]]]]:
    """For each picture, its files and the captions in effect: the user's, else those of the files and of a
    model.
    """
    own, described = own_captions(store, holders), described_captions(store, holders)
    return {
        sha: (
            holding,
            own[sha] if sha in own else [*stated_captions(holding), *described.get(sha, ())],
        )
        for sha, holding in holders.items()
    }


def stated_captions(files: Iterable[FileRow]) -> list[dict[str, str]]:
    """Captions of a picture's files, as rows of `captions`, keywords last."""
    said = unique_captions(Caption(**caption) for file in files for caption in file["captions"])
    return [one.model_dump() for one in sorted(said, key=lambda caption: caption.source == "keywords")]


def own_captions(store: TableStore, pictures: Iterable[str]) -> dict[str, list[dict[str, str]]]:
    """Captions by the user, by id; an empty list means that the user wants none."""
    return {row["id"]: row["captions"] for row in store.lookup(WORDS, "id", pictures)}


MODEL = "model"
"""Source of captions by a model."""


def described_captions(store: TableStore, pictures: Iterable[str]) -> dict[str, list[dict[str, str]]]:
    """Captions by a model, by id, as rows of `captions`: sentence, then keywords."""
    return {row["id"]: model_captions(row) for row in store.lookup(DESCRIPTIONS, "id", pictures)}


def model_captions(row: Mapping[str, Any]) -> list[dict[str, str]]:
    """Convert a row of `descriptions` to rows of `captions`."""
    texts = (row["sentence"], ", ".join(row["keywords"] or ()))
    return [{"text": text, "source": MODEL} for text in texts if text]


def read_by(store: TableStore, engine: str) -> NDArray[np.bytes_]:
    """Sorted ids of the pictures whose text an engine has read, by its fingerprint."""
    if not engine:
        return np.zeros(0, DIGEST)
    return sorted_ids(store, OCR, f"engine = '{engine}'")


def write_words_shown(store: TableStore, words: Mapping[str, str], engine: str) -> None:
    """Store the text in pictures by content hash, "" if there is none."""
    rows = [{"id": sha256, "engine": engine, "text": text} for sha256, text in words.items()]
    store.upsert(OCR, pa.Table.from_pylist(rows, schema=OCR_SCHEMA))


CAPTIONS, MULTILINGUAL = "captions", "multilingual"
CAPTION_SPACES = (CAPTIONS, MULTILINGUAL)
"""Spaces of captions: English ones, and all that the multilingual encoder reads."""
WORDED_SPACES = (*CAPTION_SPACES, OCR)
"""Spaces of texts, which not every picture has."""
_SHARES_FROM = 1000  # number of captions; more would change the shares by less than a hundredth
_TEXTS_AT_ONCE = 512
_GROUP_ROWS = 8192


Sentences = dict[str, tuple[TextEncoder, frozenset[str] | None]]
"""Encoder and its languages, None for all, by space of captions."""


def sentences_of(english: TextEncoder | None, multilingual: SentenceEncoder | None) -> Sentences:
    """Encoders of captions, with their languages.

    Args:
        english: encoder of the space "captions", which gets all languages if there is no other.
        multilingual: encoder of the space "multilingual", for captions in all languages that it reads.
    """
    found: Sentences = {}
    if english is not None:
        found[CAPTIONS] = (english, None if multilingual is None else frozenset((ENGLISH,)))
    if multilingual is not None:
        found[MULTILINGUAL] = (multilingual, multilingual.reads)
    return found


def captions_hash(fingerprint: str, texts: Sequence[str]) -> str:
    """Hash of a caption vector's inputs: the encoder and all captions."""
    content = "\0".join((fingerprint, "by language", *texts)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:32]


def caption_shares(store: TableStore) -> dict[str, float]:
    """Shares of a library's captions by language, largest first, estimated from a sample."""
    every = max(1, store.count(PICTURES, CAPTIONED) // _SHARES_FROM)
    some = islice(store.rows(PICTURES, ["captions"], CAPTIONED), every - 1, None, every)
    return languages_of([captions[0]["text"] for (captions,) in some]).shares


def encode_captions(
    library: PictureStore,
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
        encoder: encoder of the caption texts.
        reads: languages that it reads; captions in others are ignored. None for all.
        progress: called for every encoded picture.
        stopped: function called between batches; True ends the work.
    """
    shares = library.settings.languages

    captioned = (
        (picture, [caption["text"] for caption in captions])
        for picture, captions in library.store.rows(PICTURES, ["id", "captions"], CAPTIONED)
    )

    def readable(texts: list[str]) -> list[str]:
        return readable_captions(texts, reads, shares)

    return _encode_texts(library, space, encoder, captioned, readable, progress=progress, stopped=stopped)


def encode_words_shown(
    library: PictureStore,
    encoder: TextEncoder,
    *,
    progress: Progress,
    stopped: Callable[[], bool],
) -> int:
    """Encode the text in pictures, see `encode_captions`."""
    present = sorted_ids(library.store, PICTURES, PRESENT)
    shown = (
        (picture, [" ".join(text.split())])
        for picture, text in library.store.rows(OCR, ["id", "text"], "text != ''")
        if place(present, picture) >= 0
    )
    return _encode_texts(library, OCR, encoder, shown, list, progress=progress, stopped=stopped)


def _encode_texts(
    library: PictureStore,
    space: str,
    encoder: TextEncoder,
    pictures: Iterable[tuple[str, list[str]]],
    readable: Callable[[list[str]], list[str]],
    *,
    progress: Progress,
    stopped: Callable[[], bool],
) -> int:
    """Bring the vectors of one space up to date; return the number of encoded pictures.

    Args:
        library: its table of the space exists.
        space: its name.
        encoder: encoder of the texts.
        pictures: id, and all texts of the picture.
        readable: the texts that the encoder can read.
        progress: see `encode_captions`.
        stopped: see `encode_captions`.
    """
    store, table = library.store, vectors_name(space)
    known = sorted_rows(store, table, [("id", DIGEST), ("input_hash", "S32")])
    ids, left = known["id"].copy(), np.ones(len(known), dtype=bool)

    def stale() -> Iterator[tuple[str, str, list[str]]]:
        for picture, texts in pictures:
            key, row = captions_hash(encoder.fingerprint, texts), place(ids, picture)
            same = row >= 0 and known["input_hash"][row] == key.encode()
            read = [] if same else readable(texts)
            if row >= 0 and (same or read):
                left[row] = False
            if read:
                yield picture, key, read

    waiting, done = stale(), 0
    while some := list(islice(waiting, _TEXTS_AT_ONCE)):
        names, hashes, texts = zip(*some, strict=True)
        progress.total(done + len(some))
        vectors = mean_vectors(encoder, texts)
        good = usable_rows(vectors)
        for silent in np.flatnonzero(~good):
            progress.note(f"{space}: the encoder cannot read {texts[silent][0][:60]!r}; it is left out")
        kept = np.flatnonzero(good)
        rows = ([names[row] for row in kept], [hashes[row] for row in kept], vectors[kept])
        store.upsert(table, vector_table(*rows))
        progress.advance(len(some))
        done += len(some)
        if stopped():
            return done
    progress.total(done)
    store.delete(table, (one.decode() for one in ids[left]))
    return done


def readable_captions(
    texts: Sequence[str], reads: frozenset[str] | None, shares: Mapping[str, float]
) -> list[str]:
    """Captions of one picture in the languages that an encoder reads.

    Args:
        texts: its captions.
        reads: ISO 639 codes; None for all.
        shares: shares of the languages of the library's captions.
    """
    if reads is None:
        return list(texts)
    return [text for text in texts if language_of(text, shares).code in reads]


def unread_captions(library: PictureStore) -> dict[str, str]:
    """Language of the first caption of pictures whose captions no encoder reads, by id."""
    store = library.store
    spaces = [vectors_name(space) for space in CAPTION_SPACES if space in library.settings.spaces]
    known = np.sort(np.concatenate([np.zeros(0, DIGEST), *(sorted_ids(store, table) for table in spaces)]))
    return {
        picture: language_of(captions[0]["text"], library.settings.languages).code
        for picture, captions in store.rows(PICTURES, ["id", "captions"], CAPTIONED)
        if place(known, picture) < 0
    }


def mean_vectors(encoder: TextEncoder, texts: Sequence[Sequence[str]]) -> FloatArray:
    """Unit mean of the unit vectors of each picture's captions.

    Args:
        encoder: encoder of texts.
        texts: B pictures with one caption or more each.
    Returns:
        (B, D) float32.
    """
    flat = [text for some in texts for text in some]
    # equal captions are common (keywords of one event) and encoded once
    wordings = list(dict.fromkeys(flat))
    numbers = {wording: number for number, wording in enumerate(wordings)}
    unit = unit_rows("captions", encoder.encode_text(wordings))[[numbers[text] for text in flat]]
    starts = np.cumsum([0, *(len(some) for some in texts[:-1])])
    sums: FloatArray = np.add.reduceat(unit, starts, axis=0)
    return unit_rows("captions", sums)


def _clock(text: str) -> float:
    """Local time in seconds, ignoring time zones; NaN without a time of day, as for scans."""
    if not text or text[11:19] == "00:00:00":
        return np.nan
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def link_near(library: PictureStore) -> None:
    """Set the near-duplicate group of every present picture: the smallest id in it."""
    store = library.store
    kinds = [("id", DIGEST), ("phash", "S16"), ("group", DIGEST), ("taken", "S40")]
    rows = sorted_rows(store, PICTURES, kinds, PRESENT)
    # parsed as a number: a hash may have fewer digits
    hashes = np.fromiter((int(phash, 16) for phash in rows["phash"]), np.uint64, len(rows))
    # Time zones do not matter: a burst is of one camera.
    taken = np.array([_clock(text.decode()) for text in rows["taken"].tolist()], np.float64)
    frames = _frames(store, rows["id"])
    smallest = rows["id"][near_groups(hashes, taken=taken, frames=frames)]
    changed = np.flatnonzero(smallest != rows["group"])
    for some in chunks(changed.tolist(), _GROUP_ROWS):
        columns = {"id": rows["id"][some], "group": smallest[some]}
        store.upsert(PICTURES, pa.table({name: own.astype(str) for name, own in columns.items()}))


def _frames(store: TableStore, ids: NDArray[np.bytes_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index pairs of pictures of one size without a time of day that a camera numbered consecutively.

    Args:
        store: the tables.
        ids: sorted.
    """
    numbered: dict[tuple[tuple[object, ...], int], int] = {}
    for batch in store.scan(
        PICTURES,
        ["id", "paths", "width_px", "height_px"],
        f"{PRESENT} AND (taken IS NULL OR taken LIKE '%T00:00:00%')",
    ):
        for picture, paths, *size in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            folder, name = os.path.split(paths[0])
            stem, suffix = os.path.splitext(name)  # noqa: PTH122
            if (found := camera_number(stem)) is not None:
                numbered[(folder, suffix, *size, found[0]), found[1]] = place(ids, picture)
    pairs = [
        (row, numbered[series, number + 1])
        for (series, number), row in numbered.items()
        if (series, number + 1) in numbered
    ]
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def group_counts(store: TableStore) -> tuple[int, int]:
    """Number of near-duplicate groups with two or more present pictures, and of the pictures in them."""
    others = sorted_rows(store, PICTURES, [("group", DIGEST)], f"{PRESENT} AND id != `group`")["group"]
    groups = len(np.unique(others))
    return groups, groups + len(others)


def lacking(store: TableStore, spaces: Sequence[str]) -> dict[str, int]:
    """Number of existing pictures without a vector, by space, if there are any."""
    present = sorted_ids(store, PICTURES, PRESENT)
    missing = {
        space: int((~among(sorted_ids(store, vectors_name(space)), present)).sum()) for space in spaces
    }
    return {space: count for space, count in missing.items() if count}
