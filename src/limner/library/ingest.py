"""Fill a library: find files, read the new and changed ones, encode, write, complete.

One pass streams over any number of files with bounded memory; what is done stays done when the process is
killed. Encoders come from the caller. It deletes nothing of the user's and changes no picture.
"""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from limner.arrays import ImageEncoder, SentenceEncoder, TextEncoder, expect, unit_rows
from limner.errors import ConfigError, DataError, unknown
from limner.language import ENGLISH, language_name
from limner.library.known import DigestSet, IndexReport, KnownFile, KnownFiles
from limner.library.library import Library
from limner.library.reader import Pixels, Reader, ReadFile, default_workers
from limner.library.store import FILES, SpaceInfo, files_schema, vectors_name, vectors_schema
from limner.library.write import (
    CAPTION_SPACES,
    CAPTIONS,
    MULTILINGUAL,
    FileRow,
    Labels,
    caption_shares,
    encode_captions,
    file_key,
    file_row,
    group_counts,
    ids_of,
    lacking,
    link_near,
    unread_captions,
    vector_table,
    write,
)
from limner.pictures.decode import display, pillow_warnings, reader_version
from limner.pictures.find import (
    LIST_SUFFIXES,
    FoundFile,
    OtherFile,
    UnusableFile,
    count_files,
    source_path,
    walk,
)
from limner.pictures.metadata import CAPTION_SOURCES, CaptionSource
from limner.progress import Progress, Silent
from limner.records import Problem
from limner.threads import ahead

if TYPE_CHECKING:
    import pyarrow


COMPACT_COMMITS = 128
_MAX_REASON_CHARS = 2000


class Batches:
    """Pictures on their way into the tables.

    Attributes:
        encoded: image encoder → pictures it encoded.
        pictures_read: files that turned out to be pictures.
        warnings: pictures with damaged metadata.
        commits: batches written.
    """

    def __init__(
        self,
        library: Library,
        encoders: Sequence[ImageEncoder],
        origins: frozenset[CaptionSource],
        progress: Progress,
    ) -> None:
        """Start with nothing pending.

        Args:
            library: to write to; its tables of the encoders' spaces exist.
            encoders: run over the pictures that lack their vectors.
            origins: of the captions to keep, part of what decides whether a file is up to date.
            progress: told of every file.
        """
        self.library, self.encoders, self.origins, self.progress = library, tuple(encoders), origins, progress
        self.encoded = {encoder.name: 0 for encoder in self.encoders}
        self.pictures_read, self.commits = 0, 0
        self.warnings: list[Problem] = []
        spaces = [space for encoder in self.encoders for space in encoder.spaces]
        self._vectors = {space: DigestSet(ids_of(library.store, vectors_name(space))) for space in spaces}
        self._claimed: set[str] = set()
        self._claiming = threading.Lock()
        self._files: list[ReadFile] = []
        self._rows: dict[str, FileRow] = {}
        self._labels: dict[str, Labels] = {}
        self._tables: dict[str, list[pyarrow.Table]] = {}
        self._written = time.monotonic()

    def missing(self, sha256: str) -> list[ImageEncoder]:
        """Encoders of which a picture lacks a vector."""
        return [
            one for one in self.encoders if any(sha256 not in self._vectors[space] for space in one.spaces)
        ]

    def claim(self, sha256: str) -> list[ImageEncoder]:
        """As `missing`, but of several files with one content only the first is told; called by workers."""
        missing = self.missing(sha256)
        with self._claiming:
            if not missing or sha256 in self._claimed:
                return []
            self._claimed.add(sha256)
        return missing

    def words_key(self, words_key: str) -> str:
        """What decides a picture's captions from outside: its sidecars, its row, and the origins kept."""
        content = " ".join((words_key, *sorted(self.origins)))
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def due(self, files: int) -> bool:
        """Whether so many files are pending, or much time has passed since the last write."""
        late = time.monotonic() - self._written > COMMIT_S
        return late or len(self._files) + len(self._rows) >= files

    def skip(self, row: FileRow) -> None:
        """Note a row of a file that is not read; two reasons for one path are joined."""
        before = self._rows.get(row["key"])
        if before is not None and before["reason"] and row["reason"]:
            row = {**row, "reason": f"{before['reason']}; {row['reason']}"[:_MAX_REASON_CHARS]}
        self._rows[row["key"]] = row

    def encode(self, chunk: list[ReadFile]) -> None:
        """Run every encoder over the pictures of a chunk that lack its vectors, and note the results."""
        for encoder in self.encoders:
            some = [one for one in chunk if one.pixels is not None and encoder.name in one.pixels.prepared]
            if not some:
                continue
            ids = [one.sha256 for one in some]
            batch = np.stack(
                [one.pixels.prepared.pop(encoder.name) for one in some if one.pixels is not None]
            )
            made = encoder.encode_pixels(batch)
            for space, dim in encoder.spaces.items():
                where = f"{encoder.name} ({display(some[0].found.path)} …)"
                expect(where, vectors=(made.spaces[space], f"{len(ids)} {dim}"))
                unit = unit_rows(where, made.spaces[space])
                table = vector_table(ids, [encoder.fingerprint] * len(ids), unit)
                self._tables.setdefault(space, []).append(table)
            if made.labels:
                self._labels.update(zip(ids, made.labels, strict=True))
            self.encoded[encoder.name] += len(ids)
        self._files += chunk
        self.pictures_read += sum(one.pixels is not None for one in chunk)
        self.progress.advance(len(chunk))

    def commit(self) -> None:
        """Write what is pending."""
        self._written = time.monotonic()
        if not self._files and not self._rows:
            return
        if self.library.settings.grouped:
            self.library.save(grouped=False)
        pixels: dict[str, Pixels] = {}
        rows = list(self._rows.values())
        for one in self._files:
            if one.pixels is not None:
                pixels[one.sha256] = one.pixels
            rows.append(self._row(one))
        vectors = {space: pa.concat_tables(tables) for space, tables in self._tables.items()}
        write(self.library.store, rows, pixels, self._labels, vectors)
        for space, table in vectors.items():
            for sha256 in table.column("id").to_pylist():
                self._vectors[space].add(sha256)
        self._files, self._rows = [], {}
        self._tables, self._labels = {}, {}
        self.commits += 1
        if self.commits % COMPACT_COMMITS == 0:
            self.library.store.compact()

    def _row(self, one: ReadFile) -> FileRow:
        found = one.found
        ok = one.pixels is not None
        reason = one.reason if not ok else "; ".join(one.words.warnings)
        if ok and reason:
            self.warnings.append(Problem(path=display(found.path), reason=reason))
        return file_row(
            found.path,
            found.source,
            status="ok" if ok else "skipped",
            size=one.size,
            mtime_ns=one.mtime_ns if one.lasting else -1,
            sha256=one.sha256 if ok else "",
            reason=reason,
            words_key=self.words_key(found.words_key),
            words=one.words,
        )


BATCH_PICTURES = 32
COMMIT_FILES = 256
COMMIT_S = 10.0
"""Seconds after which fewer files than asked for are written."""
_SEP = os.fsencode(os.sep)
RESUME = "stopped; what was read is kept. Give the same command again to continue."


def index(
    sources: Sequence[str | os.PathLike[str]],
    library: Library | str | os.PathLike[str],
    *,
    image_encoders: Sequence[ImageEncoder] = (),
    text_encoder: TextEncoder | None = None,
    multilingual: SentenceEncoder | None = None,
    captions: bool | Sequence[str] = True,
    follow_links: bool = False,
    workers: int | None = None,
    batch_pictures: int = BATCH_PICTURES,
    commit_files: int = COMMIT_FILES,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
) -> IndexReport:
    """Bring a library up to date with its pictures.

    Only new and changed files are read. Files under `sources` that are gone are marked deleted; files of
    other sources are left as they are. A vector that an encoder's pictures lack is made, whatever the file.

    Args:
        sources: folders, lists of paths (.csv, .jsonl, .parquet) or pictures; none for all indexed so far.
        library: to fill; a folder is made into one where it is none.
        image_encoders: make the vectors of pixel spaces.
        text_encoder: makes the space "captions"; None leaves it alone. It reads English; without
            `multilingual` it is given captions in all languages.
        multilingual: makes the space "multilingual" of captions in all languages that it reads, so that a
            text finds captions in another language than its own; None leaves it alone.
        captions: whether captions are kept, or the origins to keep: exif, iptc, xmp, keywords, sidecar,
            metadata, filename. False also forgets the captions space.
        follow_links: enter linked folders.
        workers: threads that decode; None for one per core.
        batch_pictures: pictures per forward pass.
        commit_files: files written at once: what a kill may lose is at most this and what is in flight.
        progress: told how far it is.
        stop: asked between files; once it says True, what was read is written and the run ends, as after
            Ctrl-C.
    Raises:
        MissingError: a source does not exist.
        ConfigError: an unknown origin of captions, or two encoders for one space.
        DataError: another process is writing to the library.
        NumericsError: an encoder made a vector that is not finite.
    """
    origins = _origins(captions)
    roots = tuple(dict.fromkeys(source_path(source) for source in sources))  # before anything is made
    if not isinstance(library, Library):
        library = Library(library)
    if not sources:
        roots = tuple(source_path(source) for source in library.settings.sources)
    if not roots:
        raise ConfigError("index: no sources, and the library has none yet; name a folder of pictures")
    with library.writing(), pillow_warnings(), _stop_on_interrupt() as interrupted:
        run = _Run(
            library,
            roots=roots,
            origins=origins,
            image_encoders=image_encoders,
            text_encoder=text_encoder if origins else None,
            multilingual=multilingual if origins else None,
            progress=progress or Silent(),
            stopped=(lambda: interrupted() or stop()) if stop is not None else interrupted,
        )
        run.agree()
        run.read_all(follow_links, workers or default_workers(), batch_pictures, commit_files)
        return run.finish()


def _origins(captions: bool | Sequence[str]) -> frozenset[CaptionSource]:
    """Origins of captions to keep."""
    if isinstance(captions, bool):
        return frozenset(CAPTION_SOURCES if captions else ())
    for name in captions:
        if name not in CAPTION_SOURCES:
            raise ConfigError("index: " + unknown("origin of captions", name, CAPTION_SOURCES))
    return frozenset(name for name in CAPTION_SOURCES if name in captions)


@contextmanager
def _stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a wish to stop after the batch; a second one interrupts at once."""
    wish = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield wish.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: FrameType | None) -> None:
        wish.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, stop)
    try:
        yield wish.is_set
    finally:
        signal.signal(signal.SIGINT, before)


class _Run:
    """One run of indexing and its counts."""

    def __init__(
        self,
        library: Library,
        *,
        roots: tuple[bytes, ...],
        origins: frozenset[CaptionSource],
        image_encoders: Sequence[ImageEncoder],
        text_encoder: TextEncoder | None,
        multilingual: SentenceEncoder | None,
        progress: Progress,
        stopped: Callable[[], bool],
    ) -> None:
        self.library, self.store, self.roots, self.origins = library, library.store, roots, origins
        self.encoders = tuple(image_encoders)
        # Space → encoder of captions and the languages of the captions it is given.
        self.sentences: dict[str, tuple[TextEncoder, frozenset[str] | None]] = {}
        if text_encoder is not None:
            self.sentences[CAPTIONS] = (text_encoder, None if multilingual is None else frozenset((ENGLISH,)))
        if multilingual is not None:
            self.sentences[MULTILINGUAL] = (multilingual, multilingual.reads)
        self.progress, self.stopped = progress, stopped
        self.count = dict.fromkeys(
            ("found", "other_files", "new", "changed", "unchanged", "completed", "deleted"), 0
        )
        self.captions_encoded = 0
        self.unlisted: list[bytes] = []
        self.started = time.monotonic()

    def agree(self) -> None:
        """Make library and encoders agree: a space made by another encoder, or another version, is emptied.

        Raises:
            ConfigError: two encoders make one space.
        """
        wanted: dict[str, SpaceInfo] = {}
        makers = [
            (space, dim, one.name, one.fingerprint)
            for one in self.encoders
            for space, dim in one.spaces.items()
        ]
        for space, (text, _) in self.sentences.items():
            makers.append((space, text.dim, text.name, text.fingerprint))
        for space, dim, name, fingerprint in makers:
            if space in wanted:
                raise ConfigError(
                    f"index: {wanted[space].encoder} and {name} both make the space {space!r}; drop one"
                )
            wanted[space] = SpaceInfo(encoder=name, fingerprint=fingerprint, dim=dim)
        spaces = dict(self.library.settings.spaces)
        for space in CAPTION_SPACES:
            if not self.origins and spaces.pop(space, None) is not None:
                self.store.drop(vectors_name(space))
        for space, info in wanted.items():
            if space in spaces and spaces[space] != info:
                self.progress.note(f"{space}: made by {spaces[space].encoder}, now {info.encoder}; made anew")
                self.store.drop(vectors_name(space))
            self.store.ensure(vectors_name(space), vectors_schema(info.dim))
        known = self.library.settings.sources
        named = tuple(os.fsdecode(root) for root in self.roots)
        self.retry = self.library.settings.reader != reader_version()
        self.library.save(spaces={**spaces, **wanted}, sources=tuple(dict.fromkeys((*known, *named))))
        self.batches = Batches(self.library, self.encoders, self.origins, self.progress)

    def read_all(self, follow_links: bool, workers: int, batch_pictures: int, commit_files: int) -> None:
        """Walk, read, encode and write everything that is new or changed."""
        self.known = KnownFiles(self.store)
        self.progress.stage("pictures", None)
        counter = threading.Thread(target=self._count, args=(follow_links,), daemon=True)
        counter.start()
        reader = Reader(self.encoders, self.batches.claim, self.origins)
        results = ahead(
            self._todo(follow_links), reader, workers=workers, in_flight=workers + 3 * batch_pictures
        )
        chunk: list[ReadFile] = []
        with closing(results):
            for result in results:
                chunk.append(result)
                prepared = [len(one.pixels.prepared) > 0 for one in chunk if one.pixels is not None]
                if sum(prepared) >= batch_pictures or len(chunk) >= commit_files:
                    self.batches.encode(chunk)
                    chunk = []
                    if self.batches.due(commit_files):
                        self.batches.commit()
                    if self.stopped():
                        break
        if not self.stopped():
            self.batches.encode(chunk)
        self.batches.commit()

    def _count(self, follow_links: bool) -> None:
        try:
            self.progress.total(count_files(self.roots, follow_links=follow_links))
        except (OSError, DataError):
            # The walk meets the same trouble and reports it; the bar merely goes without an end.
            return

    def _todo(self, follow_links: bool) -> Iterator[FoundFile]:
        """Files to read; everything else is counted or noted on the way."""
        met: set[bytes] = set()
        for entry in walk(self.roots, follow_links=follow_links):
            if self.stopped():
                return
            if isinstance(entry, OtherFile):
                self.count["other_files"] += 1
                continue
            key = file_key(entry.path)
            if len(self.roots) > 1:
                # A file under two sources counts once.
                if isinstance(entry, FoundFile) and bytes.fromhex(key) in met:
                    continue
                met.add(bytes.fromhex(key))
            self.count["found"] += 1
            known = self.known.meet(key)
            if isinstance(entry, UnusableFile):
                self._skip(entry)
            elif self._due(entry, known):
                yield entry

    def _skip(self, entry: UnusableFile) -> None:
        if entry.folder:
            self.unlisted.append(entry.path)
        row = file_row(entry.path, entry.source, status="skipped", reason=entry.reason)
        self.batches.skip(row)
        self.progress.advance(1)

    def _due(self, entry: FoundFile, known: KnownFile | None) -> bool:
        """Whether a file must be read, counting why."""
        if known is None or known.status == "deleted":
            self.count["new"] += 1
            return True
        same = known.size == entry.size and known.mtime_ns == entry.mtime_ns
        if known.status == "skipped":
            if same and not self.retry:
                self.progress.advance(1)
                return False
            self.count["changed"] += 1
            return True
        if not same or known.words_key != self.batches.words_key(entry.words_key):
            self.count["changed"] += 1
            return True
        if self.batches.missing(known.sha256):
            self.count["completed"] += 1
            return True
        self.count["unchanged"] += 1
        self.progress.advance(1)
        return False

    def finish(self) -> IndexReport:
        """Mark what is gone, complete captions and groups, tidy the tables, and report."""
        if not self.stopped():
            self._mark_deleted()
        if self.sentences and not self.stopped():
            self._captions()
        if not self.library.settings.grouped and not self.stopped():
            link_near(self.library)
            self.library.save(grouped=True)
        if self.stopped():
            self.progress.note(RESUME)
        else:
            if self.batches.commits or self.captions_encoded:
                self.store.compact()
            if self.retry:
                self.library.save(reader=reader_version())
        groups, grouped = group_counts(self.store)
        summary = self.library.summary()
        report = IndexReport(
            **self.count,
            skipped=tuple(self.library.skipped()),
            warnings=tuple(self.batches.warnings),
            exact_duplicates=summary.duplicates,
            near_groups=groups,
            near_pictures=grouped,
            pictures=summary.pictures,
            encoded=self.batches.encoded,
            captions_encoded=self.captions_encoded,
            languages=self.library.settings.languages,
            unread=self._unread(),
            incomplete=lacking(
                self.store, [space for space in summary.spaces if space not in CAPTION_SPACES]
            ),
            interrupted=self.stopped(),
        )
        seconds = max(time.monotonic() - self.started, 1e-9)
        return report.model_copy(
            update={
                "seconds": seconds,
                "files_per_s": self.count["found"] / seconds,
                "pictures_per_s": self.batches.pictures_read / seconds,
            }
        )

    def _captions(self) -> None:
        """Encode captions, those of each language with the encoders that read it."""
        self.progress.stage("captions", None)
        if MULTILINGUAL in self.sentences and (self.batches.commits or not self.library.settings.languages):
            self.library.save(languages=caption_shares(self.store))
        for space, (encoder, reads) in self.sentences.items():
            if not self.stopped():
                done = encode_captions(
                    self.library, space, encoder, reads=reads, progress=self.progress, stopped=self.stopped
                )
                self.captions_encoded = max(self.captions_encoded, done)

    def _unread(self) -> tuple[Problem, ...]:
        """Pictures whose captions nothing reads, by path."""
        if MULTILINGUAL not in self.sentences or self.stopped():
            return ()
        codes = unread_captions(self.library)
        pictures = self.library.pictures(codes)
        return tuple(
            sorted(
                (Problem(path=one.path, reason=language_name(codes[one.id])) for one in pictures),
                key=lambda problem: problem.path,
            )
        )

    def _mark_deleted(self) -> None:
        """Mark the files of these sources that the walk did not meet."""
        keys = list(self.known.unmet())
        for start in range(0, len(keys), COMMIT_FILES):
            some = keys[start : start + COMMIT_FILES]
            rows = self.store.lookup(FILES, "key", some, files_schema().names)
            gone = [{**row, "status": "deleted"} for row in rows if self._was_looked_for(row)]
            if gone:
                self.count["deleted"] += sum(row["sha256"] != "" for row in gone)
                for row in gone:
                    self.batches.skip(row)
                self.batches.commit()

    def _was_looked_for(self, row: FileRow) -> bool:
        """Whether this run would have met a file, were it still there."""
        path: bytes = row["path_bytes"]
        if any(path.startswith(folder + _SEP) for folder in self.unlisted):
            return False
        source: bytes = row["source"]
        listed = os.path.splitext(source)[1].lower() in LIST_SUFFIXES and not os.path.isdir(source)  # noqa: PTH112, PTH122
        if listed:
            return source in self.roots
        return any(path == root or path.startswith(root.rstrip(_SEP) + _SEP) for root in self.roots)
