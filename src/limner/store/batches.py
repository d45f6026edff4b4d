"""Pictures on their way into the tables: read and encoded in batches, written a few hundred at a time.

Reading and encoding need no tables, so that other processes and machines can do it; one process writes.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain

import numpy as np
import pyarrow as pa

from limner.arrays import ImageEncoder, expect, unit_rows
from limner.devices import ahead
from limner.files import display
from limner.pictures.find import FoundFile
from limner.pictures.metadata import CAPTION_SOURCES
from limner.pictures.ocr import OcrEngine
from limner.progress import Progress
from limner.records import Problem
from limner.store import write
from limner.store.known import DigestSet, sorted_ids
from limner.store.library import PictureStore
from limner.store.reader import Pixels, Reader, ReadFile
from limner.store.store import FILES, vectors_name

BATCH_PICTURES = 32
"""Pictures of a forward pass."""
COMMIT_FILES = 256
"""Files written at once: what a kill may lose is at most this and what is in flight."""
COMMIT_S = 10.0
"""Seconds after which fewer are written."""
COMPACT_COMMITS = 128


@dataclass
class Encoded:
    """Some files as they were read and encoded.

    Attributes:
        rows: of `files`.
        stamps: key → stamp, of the files that were compared and hold what they held.
        pixels: content hash → what it shows.
        labels: content hash → classes, of pictures that were classified.
        words: content hash → what the picture shows in writing, of pictures that were read.
        vectors: space → rows of its table.
        warnings: usable pictures with damaged metadata.
        count: what became of files that were to be compared, as in `IndexReport`.
    """

    rows: list[write.FileRow] = field(default_factory=list)
    stamps: dict[str, str] = field(default_factory=dict)
    pixels: dict[str, Pixels] = field(default_factory=dict)
    labels: dict[str, write.Labels] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    vectors: dict[str, pa.Table] = field(default_factory=dict)
    warnings: list[Problem] = field(default_factory=list)
    count: Counter[str] = field(default_factory=Counter)


class Claims:
    """Which pictures lack which vectors, and which of these somebody makes already."""

    def __init__(
        self,
        encoders: Sequence[ImageEncoder],
        held: Mapping[str, Container[str]],
        read: Container[str] | None = None,
    ) -> None:
        """Start with nothing claimed.

        Args:
            encoders: of pictures.
            held: space → the pictures that have their vector in it.
            read: pictures in which words were looked for; None where they are not.
        """
        self._encoders, self._held, self._read = encoders, held, read
        self._claimed: set[str] = set()
        self._reading: set[str] = set()
        self._claiming = threading.Lock()

    def missing(self, sha256: str) -> list[ImageEncoder]:
        """Encoders of which a picture lacks a vector."""
        return [one for one in self._encoders if any(sha256 not in self._held[space] for space in one.spaces)]

    def unread(self, sha256: str) -> bool:
        """Whether words are to be looked for in a picture."""
        return self._read is not None and sha256 not in self._read

    def claim_words(self, sha256: str) -> bool:
        """As `unread`, once for each content; called by several threads."""
        with self._claiming:
            if not self.unread(sha256) or sha256 in self._reading:
                return False
            self._reading.add(sha256)
        return True

    def claim(self, sha256: str) -> list[ImageEncoder]:
        """As `missing`, but nothing for further files of one content; called by several threads."""
        missing = self.missing(sha256)
        with self._claiming:
            if not missing or sha256 in self._claimed:
                return []
            self._claimed.add(sha256)
        return missing


@lru_cache(1)  # most files have no words beside them
def words_key(found: str, *, captions: bool) -> str:
    """What decides a picture's captions from outside: its sidecars, its row, and what is kept.

    Args:
        found: as `limner.pictures.find.FoundFile.words_key`.
        captions: whether captions are kept.
    """
    content = " ".join((found, *(sorted(CAPTION_SOURCES) if captions else ())))
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def read_and_encode(
    todo: Iterable[FoundFile], reader: Reader, *, workers: int, stopped: Callable[[], bool] = lambda: False
) -> Generator[Encoded, None, None]:
    """Read files in threads, and encode what they show in batches, in the caller's thread.

    Args:
        todo: files; taken as room appears.
        reader: reads one of them.
        workers: threads.
        stopped: once it says True, what was read and not yet encoded is left out.
    """
    chunk: list[ReadFile] = []
    prepared = 0
    in_flight = workers + 3 * BATCH_PICTURES
    with closing(ahead(todo, reader, workers=workers, in_flight=in_flight)) as results:
        for result in results:
            chunk.append(result)
            prepared += result.pixels is not None and len(result.pixels.prepared) > 0
            if prepared >= BATCH_PICTURES or len(chunk) >= COMMIT_FILES:
                yield encode(chunk, reader.encoders, captions=reader.captions)
                chunk, prepared = [], 0
    if chunk and not stopped():
        yield encode(chunk, reader.encoders, captions=reader.captions)


def encode(chunk: Sequence[ReadFile], encoders: Sequence[ImageEncoder], *, captions: bool) -> Encoded:
    """Run every encoder over the pictures of a chunk that were prepared for it.

    Raises:
        NumericsError: a vector is not finite.
    """
    made = Encoded()
    for encoder in encoders:
        some = [
            (one, one.pixels.prepared.pop(encoder.name))
            for one in chunk
            if one.pixels is not None and encoder.name in one.pixels.prepared
        ]
        if not some:
            continue
        ids = [one.sha256 for one, _ in some]
        vectors = encoder.encode_pixels(np.stack([pixels for _, pixels in some]))
        for space, dim in encoder.spaces.items():
            where = f"{encoder.name} ({display(some[0][0].found.path)} …)"
            expect(where, vectors=(vectors.spaces[space], f"{len(ids)} {dim}"))
            unit = unit_rows(where, vectors.spaces[space])
            made.vectors[space] = write.vector_table(ids, [encoder.fingerprint] * len(ids), unit)
        if vectors.labels:
            made.labels.update(zip(ids, vectors.labels, strict=True))
    for one in chunk:
        if one.found.expected and (one.same or one.pixels is not None):
            held = one.sha256 == one.found.expected
            made.count["unchanged" if held else "changed"] += 1
            made.count["rehashed"] += held
        if one.same:
            made.stamps[write.file_key(one.found.path)] = one.stamp
            continue
        made.rows.append(_row(one, captions=captions))
        if one.pixels is not None:
            made.pixels[one.sha256] = one.pixels
            if one.pixels.words is not None:
                made.words[one.sha256] = one.pixels.words
            if one.words.warnings:
                reason = "; ".join(one.words.warnings)
                made.warnings.append(Problem(path=display(one.found.path), reason=reason))
    return made


def _row(one: ReadFile, *, captions: bool) -> write.FileRow:
    found, ok = one.found, one.pixels is not None
    return write.file_row(
        found.path,
        found.source,
        status="ok" if ok else "skipped",
        size=one.size,
        mtime_ns=one.mtime_ns if one.lasting else -1,
        sha256=one.sha256 if ok else "",
        reason="; ".join(one.words.warnings) if ok else one.reason,
        words_key=words_key(found.words_key, captions=captions),
        words=one.words,
        stamp=one.stamp,
    )


class Batches:
    """What is to be written to a library, and the thread that writes it.

    Attributes:
        encoders: run over the pictures that lack their vectors.
        captions: whether captions are kept, part of what decides whether a file is up to date.
        held: space → sorted ids of the pictures that had a vector in it at the start.
        claims: who makes which vectors.
        ocr: reads the words that pictures show; None leaves them unread.
        read: sorted ids of the pictures that it had read at the start.
        encoded: image encoder → pictures it encoded.
        pictures_read: files that turned out to be pictures.
        warnings: pictures with damaged metadata.
        commits: batches written.
    """

    def __init__(
        self,
        library: PictureStore,
        encoders: Sequence[ImageEncoder],
        progress: Progress,
        *,
        captions: bool,
        ocr: OcrEngine | None = None,
    ) -> None:
        """Start with nothing pending.

        Args:
            library: to write to; its tables of the encoders' spaces exist.
            encoders: as the attribute.
            progress: told of every file.
            captions: as the attribute.
            ocr: as the attribute.
        """
        self.ocr = ocr
        self.read = write.read_by(library.store, "" if ocr is None else ocr.fingerprint)
        self.library, self.encoders, self.progress, self.captions = library, encoders, progress, captions
        self.encoded = {encoder.name: 0 for encoder in encoders}
        self.pictures_read, self.commits = 0, 0
        self.warnings: list[Problem] = []
        spaces = [space for encoder in encoders for space in encoder.spaces]
        self.held = {space: sorted_ids(library.store, vectors_name(space)) for space in spaces}
        self._vectors = {space: DigestSet(ids) for space, ids in self.held.items()}
        self.claims = Claims(encoders, self._vectors, None if ocr is None else DigestSet(self.read))
        self._taken: list[Encoded] = []
        self._skipped: dict[str, write.FileRow] = {}
        self._stamps: dict[str, str] = {}
        self._written = time.monotonic()
        self._writer = ThreadPoolExecutor(1, "limner-writer")
        self._writing: Future[None] | None = None

    def due(self) -> bool:
        """Whether many files are pending, or much time has passed since the last write."""
        late = time.monotonic() - self._written > COMMIT_S
        return late or sum(len(one.rows) for one in self._taken) + len(self._skipped) >= COMMIT_FILES

    def skip(self, row: write.FileRow) -> None:
        """Note a row of a file that is not read; two reasons for one path are joined."""
        before = self._skipped.get(row["key"])
        if before is not None and before["reason"] and row["reason"]:
            row = {**row, "reason": f"{before['reason']}; {row['reason']}"[: write.MAX_REASON_CHARS]}
        self._skipped[row["key"]] = row

    def stamp(self, path: bytes, stamp: str) -> None:
        """Note what tells that a file is still the one whose content is known."""
        self._stamps[write.file_key(path)] = stamp

    def claimed(self, one: Encoded) -> Encoded:
        """The same without vectors that the tables hold, or that were made elsewhere at the same time."""
        ids = {space: table["id"].to_pylist() for space, table in one.vectors.items()}
        lacking = {
            sha256: {space for encoder in self.claims.claim(sha256) for space in encoder.spaces}
            for sha256 in set(chain.from_iterable(ids.values()))
        }
        return replace(
            one,
            vectors={
                space: table.filter(pa.array([space in lacking[sha256] for sha256 in ids[space]]))
                for space, table in one.vectors.items()
            },
            labels={sha256: found for sha256, found in one.labels.items() if lacking.get(sha256)},
            words={sha256: found for sha256, found in one.words.items() if self.claims.claim_words(sha256)},
        )

    def take(self, one: Encoded) -> None:
        """Note what is to be written."""
        self._taken.append(one)
        for encoder in self.encoders:
            made = one.vectors.get(next(iter(encoder.spaces)))
            self.encoded[encoder.name] += 0 if made is None else made.num_rows
        self.pictures_read += sum(row["status"] == "ok" for row in one.rows)
        self.warnings += one.warnings
        self.progress.advance(len(one.rows) + len(one.stamps))

    def commit(self) -> None:
        """Hand what is pending to the thread that writes, once it has written what it was given before."""
        self.settle()
        self._written = time.monotonic()
        taken, skipped, stamps = self._taken, self._skipped, self._stamps
        self._taken, self._skipped, self._stamps = [], {}, {}
        rows = [*skipped.values(), *(row for one in taken for row in one.rows)]
        stamps = {**stamps, **{key: stamp for one in taken for key, stamp in one.stamps.items()}}
        if not (rows or stamps):
            return
        if self.library.settings.grouped and rows:
            self.library.save(grouped=False)
        self.commits += bool(rows)
        self._writing = self._writer.submit(self._write, stamps, rows, taken)

    def settle(self) -> None:
        """Wait until all that was handed over is written; raise what kept it from being so."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        """As `settle`, and nothing will come after it."""
        try:
            self.settle()
        finally:
            self._writer.shutdown()

    def _write(self, stamps: dict[str, str], rows: list[write.FileRow], taken: list[Encoded]) -> None:
        store = self.library.store
        if stamps:
            store.upsert(FILES, pa.table({"key": list(stamps), "stamp": list(stamps.values())}))
        if not rows:
            return
        spaces = {space for one in taken for space in one.vectors}
        vectors = {
            space: pa.concat_tables(one.vectors[space] for one in taken if space in one.vectors)
            for space in sorted(spaces)
        }
        words = {sha256: found for one in taken for sha256, found in one.words.items()}
        if words and self.ocr is not None:  # before the files, the mark that all is done
            write.write_words_shown(store, words, self.ocr.fingerprint)
        write.write_batch(
            store,
            rows,
            {sha256: found for one in taken for sha256, found in one.pixels.items()},
            {sha256: found for one in taken for sha256, found in one.labels.items()},
            vectors,
            encoded=self._vectors,
        )

        for space, table in vectors.items():
            self._vectors[space].update(table.column("id").to_pylist())
        if self.commits % COMPACT_COMMITS == 0:
            store.compact()


Engine = Callable[[Iterable[FoundFile], Batches, Callable[[], bool]], Generator[Encoded, None, None]]
"""What reads and encodes files for `Batches`, until told to stop."""


def local_engine(workers: int) -> Engine:
    """The engine that works in this process.

    Args:
        workers: threads that decode.
    """

    def engine(
        todo: Iterable[FoundFile], batches: Batches, stopped: Callable[[], bool]
    ) -> Generator[Encoded, None, None]:
        claims = batches.claims
        reader = Reader(
            batches.encoders, claims.claim, batches.captions, batches.ocr, unread=claims.claim_words
        )
        return read_and_encode(todo, reader, workers=workers, stopped=stopped)

    return engine
