"""Reads and encodes pictures, and writes them to the tables a few hundred at a time.

Files are read in worker threads: bytes, hash, pixels, captions, and the encoders' inputs. Decoding overlaps
the forward pass in the caller's thread; a bounded number of files is in flight, so that memory stays flat.
Results come in the order of the files. Reading and encoding need no tables, so that other processes and
machines can do them; one process writes.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from limner.arrays import ByteArray, ImageEncoder, expect, unit_rows
from limner.devices import ahead
from limner.files import display
from limner.pictures.decode import Decoded, PictureError, decode, read_file, take_warnings
from limner.pictures.find import FoundFile
from limner.pictures.hashes import phash
from limner.pictures.metadata import CAPTION_SOURCES, Words, embedded, merge, read_sidecars, words_of_name
from limner.progress import Progress
from limner.records import Problem
from limner.scale import write
from limner.scale.known import DigestSet, sorted_ids
from limner.scale.library import PictureStore
from limner.scale.store import FILES, vectors_name

if TYPE_CHECKING:
    from PIL.Image import Image

    from limner.pictures.ocr import OcrEngine


HASH_SIDE_PX = 64


@dataclass(frozen=True)
class TableFile:
    """One file that was read.

    Attributes:
        found: the file as found.
        size, mtime_ns, sha256, stamp: as read; texts are "" for a file that could not be read.
        pixels: properties of the picture; None for a file that is no usable picture.
        words: captions and other metadata.
        reason: reason why it is not usable, or "".
        lasting: False if another try may succeed without a change of the file.
        same: whether its content is the expected one, so that nothing more was read.
    """

    found: FoundFile
    size: int = 0
    mtime_ns: int = -1
    sha256: str = ""
    pixels: write.TablePixels | None = None
    words: Words = Words()  # noqa: RUF009
    reason: str = ""
    lasting: bool = True
    stamp: str = ""
    same: bool = False


@dataclass(frozen=True)
class TableReader:
    """Reader of the files of one run; thread-safe.

    Attributes:
        encoders: encoders that may need pixels.
        needs: function from SHA-256 to the encoders whose vectors that picture lacks; called once per file.
        captions: whether captions are kept.
        ocr: reader of the text in pictures; None does not read it.
        unread: function from SHA-256 to whether `ocr` is to read that picture; called once per file.
    """

    encoders: Sequence[ImageEncoder]
    needs: Callable[[str], Sequence[ImageEncoder]]
    captions: bool = True
    ocr: OcrEngine | None = None
    unread: Callable[[str], bool] = lambda sha256: True

    def __call__(self, found: FoundFile) -> TableFile:
        """Read one file; an unusable file is returned with the reason."""
        size, mtime_ns, sha256, stamp = found.size, found.mtime_ns, "", found.stamp
        take_warnings()
        try:
            file = read_file(found.path)
            size, sha256 = file.size, file.sha256
            if file.mtime_ns >= 0:  # otherwise the time of the walk
                mtime_ns, stamp = file.mtime_ns, file.stamp
            if sha256 == found.expected and not found.sidecars:
                return TableFile(found, size, mtime_ns, sha256, stamp=stamp, same=True)
            side_px = max((encoder.side_px for encoder in self.encoders), default=HASH_SIDE_PX)
            suffix = os.path.splitext(found.path)[1].lower().decode("ascii", "replace")  # noqa: PTH122
            decoded = decode(file.data, side_px, suffix)
            prepared = {one.name: _prepare(one, decoded.rgb) for one in self.needs(sha256)}
            shown = self._words_shown(decoded, file.data, suffix) if self.unread(sha256) else None
        except PictureError as error:
            return TableFile(found, size, mtime_ns, sha256, None, Words(), str(error), error.lasting, stamp)
        pixels = write.TablePixels(
            decoded.width_px,
            decoded.height_px,
            decoded.format,
            f"{phash(decoded.rgb):016x}",
            prepared,
            shown,
        )
        inside = embedded(decoded.loaded)
        words = self._words(found, replace(inside, warnings=(*inside.warnings, *take_warnings())))
        return TableFile(found, size, mtime_ns, sha256, pixels, words, stamp=stamp)

    def _words_shown(self, decoded: Decoded, data: bytes, suffix: str) -> str | None:
        """Text in a picture; the picture is decoded again if the prepared copy is too small."""
        if self.ocr is None:
            return None
        if not self.ocr.sees_words(decoded.rgb):
            return ""
        from limner.pictures.ocr import READ_PX

        longest = max(decoded.width_px, decoded.height_px)
        if max(decoded.rgb.size) >= min(longest, READ_PX):
            return self.ocr.read(decoded.rgb)
        # half of it, since decoders return up to twice the requested size
        side_px = READ_PX * min(decoded.width_px, decoded.height_px) // longest // 2
        return self.ocr.read(decode(data, max(side_px, 1), suffix).rgb)

    def _words(self, found: FoundFile, inside: Words) -> Words:
        """Captions of all sources, the user's own first."""
        origins = (found.words, read_sidecars(found.sidecars, found.path), inside, words_of_name(found.path))
        every = merge(origins)
        # descriptions first: keywords make bad captions
        kept = sorted(every.captions, key=lambda caption: caption.source == "keywords")
        return replace(every, captions=tuple(kept) if self.captions else ())


def _prepare(encoder: ImageEncoder, rgb: Image) -> ByteArray:
    try:
        return encoder.prepare(rgb)
    except (ValueError, ZeroDivisionError, MemoryError) as error:
        raise PictureError(
            f"{encoder.name} cannot use a picture of {rgb.size[0]} × {rgb.size[1]}: {error}"
        ) from error


BATCH_PICTURES = 32
"""Pictures of a forward pass."""
COMMIT_FILES = 256
"""Number of files written at once; a kill may lose at most these and those being read."""
COMMIT_S = 10.0
"""Seconds after which a smaller batch is written."""
COMPACT_COMMITS = 128


@dataclass
class Encoded:
    """A batch of files, read and encoded.

    Attributes:
        rows: rows of `files`.
        stamps: stamp by key, for files that were compared and have not changed.
        pixels: properties of the pictures by content hash.
        labels: classes by content hash, for pictures that were classified.
        words: text in the pictures by content hash, for pictures that were read.
        vectors: rows of the table by space.
        warnings: usable pictures with damaged metadata.
        count: counts of files that were to be compared, as in `IndexReport`.
    """

    rows: list[write.FileRow] = field(default_factory=list)
    stamps: dict[str, str] = field(default_factory=dict)
    pixels: dict[str, write.TablePixels] = field(default_factory=dict)
    labels: dict[str, write.Labels] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    vectors: dict[str, pa.Table] = field(default_factory=dict)
    warnings: list[Problem] = field(default_factory=list)
    count: Counter[str] = field(default_factory=Counter)


class Claims:
    """Which vectors are missing, and which of them a thread has claimed and is computing."""

    def __init__(
        self,
        encoders: Sequence[ImageEncoder],
        held: Mapping[str, Container[str]],
        read: Container[str] | None = None,
    ) -> None:
        """Start without claims.

        Args:
            encoders: encoders of pictures.
            held: pictures that have a vector, by space.
            read: pictures whose text was already read; None if text is not read.
        """
        self._encoders, self._held, self._read = encoders, held, read
        self._claimed: set[str] = set()
        self._reading: set[str] = set()
        self._claiming = threading.Lock()

    def missing(self, sha256: str) -> list[ImageEncoder]:
        """Encoders whose vector a picture lacks."""
        return [one for one in self._encoders if any(sha256 not in self._held[space] for space in one.spaces)]

    def unread(self, sha256: str) -> bool:
        """Whether the text in a picture is still to be read."""
        return self._read is not None and sha256 not in self._read

    def claim_words(self, sha256: str) -> bool:
        """True like `unread`, but only once for each content; thread-safe."""
        with self._claiming:
            if not self.unread(sha256) or sha256 in self._reading:
                return False
            self._reading.add(sha256)
        return True

    def claim(self, sha256: str) -> list[ImageEncoder]:
        """Like `missing`, but claims the vectors, so that further files of the same content get no encoders;
        thread-safe.
        """
        missing = self.missing(sha256)
        with self._claiming:
            if not missing or sha256 in self._claimed:
                return []
            self._claimed.add(sha256)
        return missing


@lru_cache(1)  # most files have no sidecars
def words_key(found: str, *, captions: bool) -> str:
    """Key of a picture's captions from outside the file: its sidecars, its row, and the settings.

    Args:
        found: as `limner.pictures.find.FoundFile.words_key`.
        captions: whether captions are kept.
    """
    content = " ".join((found, *(sorted(CAPTION_SOURCES) if captions else ())))
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def read_and_encode(
    todo: Iterable[FoundFile],
    reader: TableReader,
    *,
    workers: int,
    stopped: Callable[[], bool] = lambda: False,
) -> Generator[Encoded, None, None]:
    """Read files in threads, and encode what they show in batches, in the caller's thread.

    Args:
        todo: files, read as workers become free.
        reader: reader of one file.
        workers: number of threads.
        stopped: function; once it returns True, files that are read but not encoded are dropped.
    """
    chunk: list[TableFile] = []
    prepared = 0
    in_flight = workers + 3 * BATCH_PICTURES
    with closing(ahead(todo, reader, workers=workers, in_flight=in_flight)) as results:
        for result in results:
            if stopped():
                return  # not only after the rest of a batch: OCR is slow on a busy machine
            chunk.append(result)
            prepared += result.pixels is not None and len(result.pixels.prepared) > 0
            if prepared >= BATCH_PICTURES or len(chunk) >= COMMIT_FILES:
                yield encode(chunk, reader.encoders, captions=reader.captions)
                chunk, prepared = [], 0
    if chunk and not stopped():
        yield encode(chunk, reader.encoders, captions=reader.captions)


def encode(chunk: Sequence[TableFile], encoders: Sequence[ImageEncoder], *, captions: bool) -> Encoded:
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


def _row(one: TableFile, *, captions: bool) -> write.FileRow:
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
    """Pending rows of a library, and the thread that writes them.

    Attributes:
        encoders: encoders, applied to the pictures that lack their vectors.
        captions: whether captions are kept; a file is out of date if this changes.
        held: sorted ids of the pictures that had a vector at the start, by space.
        claims: claimed vectors.
        ocr: reader of the text in pictures; None does not read it.
        read: sorted ids of the pictures that it had read at the start.
        encoded: number of encoded pictures by image encoder.
        pictures_read: number of files that are pictures.
        warnings: notes on pictures with damaged metadata.
        commits: number of written batches.
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
            library: library to write to; the tables of the encoders' spaces must exist.
            encoders: see the attribute.
            progress: receiver of the progress.
            captions: see the attribute.
            ocr: see the attribute.
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
        """Add a row for a file that is not read; two reasons for one path are joined."""
        before = self._skipped.get(row["key"])
        if before is not None and before["reason"] and row["reason"]:
            row = {**row, "reason": f"{before['reason']}; {row['reason']}"[: write.MAX_REASON_CHARS]}
        self._skipped[row["key"]] = row

    def stamp(self, path: bytes, stamp: str) -> None:
        """Add the stamp by which a file is recognised as unchanged."""
        self._stamps[write.file_key(path)] = stamp

    def claimed(self, one: Encoded) -> Encoded:
        """Drop vectors that the tables have, or that another worker has made at the same time."""
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
        """Add a batch to be written."""
        self._taken.append(one)
        for encoder in self.encoders:
            made = one.vectors.get(next(iter(encoder.spaces)))
            self.encoded[encoder.name] += 0 if made is None else made.num_rows
        self.pictures_read += sum(row["status"] == "ok" for row in one.rows)
        self.warnings += one.warnings
        self.progress.advance(len(one.rows) + len(one.stamps))

    def commit(self) -> None:
        """Hand the pending rows to the writing thread, after it has finished the previous ones."""
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
        """Wait until all rows handed over are written; raise an error of the writing thread."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        """Wait for pending rows, and end the writing thread."""
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
        if words and self.ocr is not None:  # before the files, whose rows mark the end
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
"""Function that reads and encodes files for `Batches` until it is stopped."""


def local_engine(workers: int) -> Engine:
    """Create the engine that works in this process.

    Args:
        workers: number of threads that decode.
    """

    def engine(
        todo: Iterable[FoundFile], batches: Batches, stopped: Callable[[], bool]
    ) -> Generator[Encoded, None, None]:
        claims = batches.claims
        reader = TableReader(
            batches.encoders, claims.claim, batches.captions, batches.ocr, unread=claims.claim_words
        )
        return read_and_encode(todo, reader, workers=workers, stopped=stopped)

    return engine
