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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from types import FrameType

import numpy as np
import pyarrow as pa

from limner.arrays import ImageEncoder, SentenceEncoder, TextEncoder, expect, unit_rows
from limner.errors import ConfigError, DataError
from limner.language import language_name
from limner.library import write
from limner.library.known import DigestSet, IndexReport, KnownFile, KnownFiles, sorted_ids
from limner.library.library import Library
from limner.library.reader import Reader, ReadFile
from limner.library.store import (
    FILES,
    FORMAT,
    SCHEMAS,
    SpaceInfo,
    chunks,
    read_settings,
    vectors_name,
    vectors_schema,
)
from limner.library.words import mend
from limner.pictures import find, videos
from limner.pictures.decode import display
from limner.pictures.formats import PictureError, pillow_warnings, reader_version
from limner.pictures.metadata import CAPTION_SOURCES
from limner.progress import Progress
from limner.records import Problem
from limner.threads import ahead, cores

BATCH_PICTURES = 32
"""Pictures of a forward pass."""
COMMIT_FILES = 256
"""Files written at once: what a kill may lose is at most this and what is in flight."""
COMMIT_S = 10.0
"""Seconds after which fewer are written."""
COMPACT_COMMITS = 128
_SEP = os.fsencode(os.sep)
VIDEO = "video"
"""Status of a video of which frames are in the library."""
RESUME = "stopped; what was read is kept. Give the same command again to continue."


class Batches:
    """Pictures on their way into the tables.

    Attributes:
        encoded: image encoder → pictures it encoded.
        pictures_read: files that turned out to be pictures.
        warnings: pictures with damaged metadata.
        commits: batches written.
    """

    def __init__(
        self, library: Library, encoders: Sequence[ImageEncoder], progress: Progress, *, captions: bool
    ) -> None:
        """Start with nothing pending.

        Args:
            library: to write to; its tables of the encoders' spaces exist.
            encoders: run over the pictures that lack their vectors.
            progress: told of every file.
            captions: whether captions are kept, part of what decides whether a file is up to date.
        """
        self.library, self.encoders, self.progress = library, encoders, progress
        self.encoded = {encoder.name: 0 for encoder in encoders}
        self.pictures_read, self.commits = 0, 0
        self.warnings: list[Problem] = []
        self._kept = sorted(CAPTION_SOURCES) if captions else []
        self._vectors = {
            space: DigestSet(sorted_ids(library.store, vectors_name(space)))
            for encoder in encoders
            for space in encoder.spaces
        }
        self._claimed: set[str] = set()
        self._claiming = threading.Lock()
        self._files: list[ReadFile] = []
        self._stamps: dict[str, str] = {}
        self._rows: dict[str, write.FileRow] = {}
        self._labels: dict[str, write.Labels] = {}
        self._tables: dict[str, list[pa.Table]] = {}
        self._written = time.monotonic()

    def missing(self, sha256: str) -> list[ImageEncoder]:
        """Encoders of which a picture lacks a vector."""
        return [
            one for one in self.encoders if any(sha256 not in self._vectors[space] for space in one.spaces)
        ]

    def claim(self, sha256: str) -> list[ImageEncoder]:
        """As `missing`, but nothing for further files of one content; called by workers."""
        missing = self.missing(sha256)
        with self._claiming:
            if not missing or sha256 in self._claimed:
                return []
            self._claimed.add(sha256)
        return missing

    def words_key(self, words_key: str) -> str:
        """What decides a picture's captions from outside: its sidecars, its row, and what is kept."""
        content = " ".join((words_key, *self._kept))
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def due(self) -> bool:
        """Whether many files are pending, or much time has passed since the last write."""
        late = time.monotonic() - self._written > COMMIT_S
        return late or len(self._files) + len(self._rows) >= COMMIT_FILES

    def skip(self, row: write.FileRow) -> None:
        """Note a row of a file that is not read; two reasons for one path are joined."""
        before = self._rows.get(row["key"])
        if before is not None and before["reason"] and row["reason"]:
            row = {**row, "reason": f"{before['reason']}; {row['reason']}"[: write.MAX_REASON_CHARS]}
        self._rows[row["key"]] = row

    def stamp(self, path: bytes, stamp: str) -> None:
        """Note what tells that a file is still the one whose content is known."""
        self._stamps[write.file_key(path)] = stamp

    def encode(self, chunk: list[ReadFile]) -> None:
        """Run every encoder over the pictures of a chunk that lack its vectors, and note the results."""
        for encoder in self.encoders:
            some = [
                (one, one.pixels.prepared.pop(encoder.name))
                for one in chunk
                if one.pixels is not None and encoder.name in one.pixels.prepared
            ]
            if not some:
                continue
            ids = [one.sha256 for one, _ in some]
            made = encoder.encode_pixels(np.stack([pixels for _, pixels in some]))
            for space, dim in encoder.spaces.items():
                where = f"{encoder.name} ({display(some[0][0].found.path)} …)"
                expect(where, vectors=(made.spaces[space], f"{len(ids)} {dim}"))
                unit = unit_rows(where, made.spaces[space])
                table = write.vector_table(ids, [encoder.fingerprint] * len(ids), unit)
                self._tables.setdefault(space, []).append(table)
            if made.labels:
                self._labels.update(zip(ids, made.labels, strict=True))
            self.encoded[encoder.name] += len(ids)
        for one in chunk:
            if one.same:
                self.stamp(one.found.path, one.stamp)
            else:
                self._files.append(one)
        self.pictures_read += sum(one.pixels is not None for one in chunk)
        self.progress.advance(len(chunk))

    def commit(self) -> None:
        """Write what is pending."""
        self._written = time.monotonic()
        if self._stamps:
            stamps = pa.table({"key": list(self._stamps), "stamp": list(self._stamps.values())})
            self.library.store.upsert(FILES, stamps)
            self._stamps = {}
        if not self._files and not self._rows:
            return
        if self.library.settings.grouped:
            self.library.save(grouped=False)
        pixels = {one.sha256: one.pixels for one in self._files if one.pixels is not None}
        rows = [*self._rows.values(), *map(self._row, self._files)]
        vectors = {space: pa.concat_tables(tables) for space, tables in self._tables.items()}
        places = {one.sha256: one.words.place for one in self._files if one.pixels and one.words.place}
        write.write_batch(self.library.store, rows, pixels, self._labels, vectors, places=places)
        for space, table in vectors.items():
            self._vectors[space].update(table.column("id").to_pylist())
        self._files, self._rows, self._tables, self._labels = [], {}, {}, {}
        self.commits += 1
        if self.commits % COMPACT_COMMITS == 0:
            self.library.store.compact()

    def _row(self, one: ReadFile) -> write.FileRow:
        found = one.found
        ok = one.pixels is not None
        reason = one.reason if not ok else "; ".join(one.words.warnings)
        if ok and reason:
            self.warnings.append(Problem(path=display(found.path), reason=reason))
        return write.file_row(
            found.path,
            found.source,
            status="ok" if ok else "skipped",
            size=one.size,
            mtime_ns=one.mtime_ns if one.lasting else -1,
            sha256=one.sha256 if ok else "",
            reason=reason,
            words_key=self.words_key(found.words_key),
            words=one.words,
            stamp=one.stamp,
        )


def index(
    sources: Sequence[str | os.PathLike[str]],
    library: Library | str | os.PathLike[str],
    *,
    image_encoders: Sequence[ImageEncoder] = (),
    text_encoder: TextEncoder | None = None,
    multilingual: SentenceEncoder | None = None,
    captions: bool = True,
    follow_links: bool = False,
    verify: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
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
        captions: whether captions are kept; False also forgets their spaces.
        follow_links: enter linked folders.
        verify: compare the content of every file, also of those whose size, times and inode are the same.
        workers: threads that decode; None for one per core.
        progress: told how far it is.
        stop: asked between files; once it says True, what was read is written and the run ends, as after
            Ctrl-C.
    Raises:
        MissingError: a source does not exist.
        ConfigError: two encoders for one space.
        DataError: another process is writing to the library, or it is of an earlier format.
        NumericsError: an encoder made a vector that is not finite.
    """
    roots = tuple(dict.fromkeys(find.source_path(source) for source in sources))  # before anything is made
    if not isinstance(library, Library):
        library = Library(library)
    if library.settings.format < FORMAT:
        raise DataError(
            f"{library.folder}: library format {library.settings.format}, this limner writes {FORMAT}; run"
            f" 'limner library migrate {library.folder}' first"
        )
    if not sources:
        roots = tuple(find.source_path(source) for source in library.settings.sources)
    for name, schema in SCHEMAS.items():
        library.store.ensure(name, schema)
    own = (
        library.folder / "pictures"
    )  # brought in the studio; tables that were made anew know nothing of them
    if own.is_dir() and not library.store.count(FILES):
        roots = tuple(dict.fromkeys((*roots, find.source_path(own))))
    if not roots:
        raise ConfigError("index: no sources, and the library has none yet; name a folder of pictures")
    sentences = write.sentences_of(text_encoder, multilingual) if captions else {}
    with library.writing(), pillow_warnings(), _stop_on_interrupt() as interrupted:
        library.settings = read_settings(library.folder)  # another process may have indexed since
        run = _Run(
            library,
            roots,
            image_encoders,
            sentences,
            captions=captions,
            follow_links=follow_links,
            verify=verify,
            progress=progress or Progress(),
            stopped=lambda: interrupted() or stop(),
        )
        run.agree()
        run.read_all(workers or cores())
        return run.finish()


def _same(entry: find.FoundFile, known: KnownFile) -> bool:
    """Whether a file is the one that was read; of a file of earlier versions no stamp is known."""
    same = (known.size, known.mtime_ns) == (entry.size, entry.mtime_ns)
    return same and known.stamp in ("", entry.stamp)


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


@dataclass
class _Run:
    """One run of indexing and its counts; `sentences` holds, per space of captions, their encoder and the
    languages of those that it is given.
    """

    library: Library
    roots: tuple[bytes, ...]
    encoders: Sequence[ImageEncoder]
    sentences: write.Sentences
    captions: bool
    follow_links: bool
    verify: bool
    progress: Progress
    stopped: Callable[[], bool]
    count: Counter[str] = field(default_factory=Counter)
    unlisted: list[bytes] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    videos: set[str] = field(default_factory=set)
    counted: int = 0
    started: float = field(default_factory=time.monotonic)

    def agree(self) -> None:
        """Make library and encoders agree: a space made by another encoder, or another version, is emptied.

        Raises:
            ConfigError: two encoders make one space.
        """
        makers: list[tuple[str, int, ImageEncoder | TextEncoder]] = [
            *((space, dim, one) for one in self.encoders for space, dim in one.spaces.items()),
            *((space, one.dim, one) for space, (one, _) in self.sentences.items()),
        ]
        wanted: dict[str, SpaceInfo] = {}
        for space, dim, one in makers:
            if space in wanted:
                raise ConfigError(
                    f"index: {wanted[space].encoder} and {one.name} both make the space {space!r}; drop one"
                )
            wanted[space] = SpaceInfo(encoder=one.name, fingerprint=one.fingerprint, dim=dim)
        settings, store = self.library.settings, self.library.store
        spaces = dict(settings.spaces)
        for space in write.CAPTION_SPACES:
            if not self.captions and spaces.pop(space, None) is not None:
                store.drop(vectors_name(space))
        for space, info in wanted.items():
            if space in spaces and spaces[space] != info:
                self.progress.note(f"{space}: made by {spaces[space].encoder}, now {info.encoder}; made anew")
            if spaces.get(space) != info:  # without settings nobody knows who made a table
                store.drop(vectors_name(space))
            store.ensure(vectors_name(space), vectors_schema(info.dim))
        named = map(os.fsdecode, self.roots)
        self.retry = self.verify or settings.reader != reader_version()
        self.library.save(
            spaces={**spaces, **wanted}, sources=tuple(dict.fromkeys((*settings.sources, *named)))
        )
        self.batches = Batches(self.library, self.encoders, self.progress, captions=self.captions)

    def read_all(self, workers: int) -> None:
        """Walk, read, encode and write everything that is new or changed."""
        self.known = KnownFiles(self.library.store)
        self.progress.stage("pictures", None)
        threading.Thread(target=self._count, daemon=True).start()
        reader = Reader(self.encoders, self.batches.claim, self.captions)
        chunk: list[ReadFile] = []
        prepared = 0
        in_flight = workers + 3 * BATCH_PICTURES
        with closing(ahead(self._todo(), reader, workers=workers, in_flight=in_flight)) as results:
            for result in results:
                chunk.append(result)
                if result.found.expected:
                    held = result.sha256 == result.found.expected
                    self.count["unchanged" if held else "changed"] += 1
                    self.count["rehashed"] += held
                prepared += result.pixels is not None and len(result.pixels.prepared) > 0
                if prepared >= BATCH_PICTURES or len(chunk) >= COMMIT_FILES:
                    self.batches.encode(chunk)
                    chunk, prepared = [], 0
                    if self.batches.due():
                        self.batches.commit()
                    if self.stopped():
                        break
        if not self.stopped():
            self.batches.encode(chunk)
        self.batches.commit()

    def _count(self) -> None:
        # The find.walk meets the same trouble and reports it; the bar merely goes without an end.
        with suppress(OSError, DataError):
            self.counted += find.count_files(self.roots, follow_links=self.follow_links)
            self.progress.total(self.counted)

    def _todo(self) -> Iterator[find.FoundFile]:
        """Files to read; everything else is counted or noted on the way."""
        met: set[str] = set()
        # A table that was named says more than one that lies in a folder: what it lists is met first.
        roots = sorted(self.roots, key=lambda root: not find.is_list(root))
        walked = find.walk(roots, follow_links=self.follow_links)
        for entry in chain.from_iterable(map(self._with_frames, walked)):
            if self.stopped():
                return
            if isinstance(entry, find.TablesRead):
                self.tables.append(str(entry))
                continue
            if isinstance(entry, find.OtherFile):
                self.count["other_files"] += 1
                continue
            key = write.file_key(entry.path)
            if len(self.roots) > 1:
                # A file under two sources counts once.
                if isinstance(entry, find.FoundFile) and key in met:
                    continue
                met.add(key)
            self.count["found"] += 1
            known = self.known.meet(key)
            if isinstance(entry, find.UnusableFile):
                if entry.folder:
                    self.unlisted.append(entry.path)
                self.batches.skip(
                    write.file_row(entry.path, entry.source, status="skipped", reason=entry.reason)
                )
                self.progress.advance(1)
                continue
            reason = self._reason(entry, known)
            if reason == "uncertain" and known is not None:
                yield replace(entry, expected=known.sha256)  # counted once its content is known
                continue
            self.count[reason] += 1
            if known is not None and not known.stamp and reason in ("unchanged", "refused"):
                self.batches.stamp(entry.path, entry.stamp)
            if reason in ("unchanged", "refused"):
                self.progress.advance(1)
            else:
                yield entry

    def _with_frames(self, entry: find.Entry) -> Iterable[find.Entry]:
        """What the walk met; in place of a video its frames, if there are any and it was not met before."""
        if not isinstance(entry, find.VideoFile):
            return (entry,)
        key = write.file_key(entry.path)
        if key in self.videos or self.stopped():
            return ()
        self.videos.add(key)
        known = self.known.meet(key)
        same = known is not None and _same(entry, known)
        refused = known is not None and known.status == "skipped" and same and not self.retry
        row = partial(write.file_row, entry.path, entry.source, size=entry.size, stamp=entry.stamp)
        try:
            frames = () if refused else videos.frames(entry, self.library.folder.resolve(), self.stopped)
        except PictureError as error:
            mtime_ns = entry.mtime_ns if error.lasting else -1
            self.batches.skip(row(status="skipped", mtime_ns=mtime_ns, reason=str(error)))
            frames, refused = (), True
        if refused:
            self.count["found"] += 1
            self.progress.advance(1)
        elif frames:
            self.count["videos"] += 1
            self.counted += len(frames) - 1
            self.progress.total(self.counted)
            if not same or (known is not None and (known.status != VIDEO or not known.stamp)):
                self.batches.skip(row(status=VIDEO, mtime_ns=entry.mtime_ns))
        return frames

    def _reason(self, entry: find.FoundFile, known: KnownFile | None) -> str:
        """Why a file must be read, or that it is "unchanged", or still "refused"; "uncertain" where only its
        content tells.
        """
        if known is None or known.status == "deleted":
            return "new"
        if known.status == "skipped":
            return "refused" if _same(entry, known) and not self.retry else "changed"
        resized = (known.size, known.mtime_ns) != (entry.size, entry.mtime_ns)
        if resized or known.words_key != self.batches.words_key(entry.words_key):
            return "changed"
        if self.batches.missing(known.sha256):
            return "completed"
        return "unchanged" if _same(entry, known) and not self.verify else "uncertain"

    def finish(self) -> IndexReport:
        """Mark what is gone, complete captions and groups, tidy the tables, and report."""
        library, batches = self.library, self.batches
        if not self.stopped():
            self._mark_deleted()
        mend(library.store)
        encoded = self._captions() if self.sentences and not self.stopped() else 0
        if not library.settings.grouped and not self.stopped():
            write.link_near(library)
            library.save(grouped=True)
        if self.stopped():
            self.progress.note(RESUME)
        else:
            if batches.commits or encoded:
                library.store.compact()
            if self.retry:
                library.save(reader=reader_version())
        groups, grouped = write.group_counts(library.store)
        summary = library.summary()
        unread = self._unread() if write.MULTILINGUAL in self.sentences and not self.stopped() else []
        pixel_spaces = [space for space in summary.spaces if space not in write.CAPTION_SPACES]
        incomplete = write.lacking(library.store, pixel_spaces)
        skipped = library.skipped()
        seconds = max(time.monotonic() - self.started, 1e-9)
        del self.count["refused"]  # they are among those skipped
        return IndexReport(
            **self.count,
            tables=tuple(self.tables),
            skipped=tuple(skipped),
            warnings=tuple(batches.warnings),
            exact_duplicates=summary.duplicates,
            near_groups=groups,
            near_pictures=grouped,
            pictures=summary.pictures,
            encoded=batches.encoded,
            captions_encoded=encoded,
            languages=library.settings.languages,
            unread=tuple(unread),
            incomplete=incomplete,
            seconds=seconds,
            files_per_s=self.count["found"] / seconds,
            pictures_per_s=batches.pictures_read / seconds,
            interrupted=self.stopped(),
        )

    def _captions(self) -> int:
        """Encode captions, those of each language with the encoders that read it; of how many pictures."""
        self.progress.stage("captions", None)
        if write.MULTILINGUAL in self.sentences and (
            self.batches.commits or not self.library.settings.languages
        ):
            self.library.save(languages=write.caption_shares(self.library.store))
        done = 0
        for space, (encoder, reads) in self.sentences.items():
            if not self.stopped():
                some = write.encode_captions(
                    self.library, space, encoder, reads=reads, progress=self.progress, stopped=self.stopped
                )
                done = max(done, some)
        return done

    def _unread(self) -> list[Problem]:
        """Pictures whose captions nothing reads, by path."""
        codes = write.unread_captions(self.library)
        pictures = sorted(self.library.pictures(codes), key=lambda picture: picture.path)
        return [Problem(path=one.path, reason=language_name(codes[one.id])) for one in pictures]

    def _mark_deleted(self) -> None:
        """Mark the files of these sources that the find.walk did not meet."""
        for some in chunks(self.known.unmet(), COMMIT_FILES):
            rows = self.library.store.lookup(FILES, "key", some)
            # A frame is looked for where its video is.
            origins = {write.file_key(row["source"]) for row in rows if find.is_video(row["source"])}
            videos_of = {row["path_bytes"]: row for row in self.library.store.lookup(FILES, "key", origins)}
            gone = [row for row in rows if self._was_looked_for(videos_of.get(row["source"], row))]
            for row in gone:
                self.count["deleted"] += row["sha256"] != ""
                self.batches.skip({**row, "status": "deleted"})
            self.batches.commit()
            for row in gone:
                if row["source"] in videos_of:
                    videos.discard(row["path_bytes"], self.library.folder.resolve())

    def _was_looked_for(self, row: write.FileRow) -> bool:
        """Whether this run would have met a file, were it still there."""
        path: bytes = row["path_bytes"]
        if any(path.startswith(folder + _SEP) for folder in self.unlisted):
            return False
        source: bytes = row["source"]
        if find.is_list(source):
            return source in self.roots
        # A walk passes by the library's own folder, and so by the pictures that were brought into it.
        home = os.fsencode(self.library.folder.resolve()) + _SEP
        roots = (root for root in self.roots if root.startswith(home) or not path.startswith(home))
        return any(path == root or path.startswith(root.rstrip(_SEP) + _SEP) for root in roots)
