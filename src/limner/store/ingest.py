"""Fill a library: find files, read the new and changed ones, encode, write, complete.

One pass streams over any number of files with bounded memory; what is done stays done when the process is
killed. Encoders come from the caller. It deletes nothing of the user's and changes no picture.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from types import FrameType

from limner.arrays import ImageEncoder, SentenceEncoder, TextEncoder
from limner.errors import ConfigError, DataError
from limner.language import language_name
from limner.pictures import find, videos
from limner.pictures.formats import PictureError, pillow_warnings, reader_version
from limner.progress import RESUME, Progress
from limner.records import Problem
from limner.store import batches as batching
from limner.store import write
from limner.store.known import IndexReport, KnownFile, KnownFiles
from limner.store.library import Library
from limner.store.shared import agree
from limner.store.store import (
    FILES,
    FORMAT,
    SCHEMAS,
    SpaceInfo,
    chunks,
    vectors_name,
    vectors_schema,
)
from limner.store.words import mend
from limner.threads import cores

_SEP = os.fsencode(os.sep)
VIDEO = "video"
"""Status of a video of which frames are in the library."""
LOOKED_UP = 1024
"""Files of which is asked at once what is known."""


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
    approximate_from: int | None = None,
    engine: batching.Engine | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> IndexReport:
    """Bring a library up to date with its pictures.

    Only new and changed files are read. Files under `sources` that are gone are marked deleted; files of
    other sources are left as they are. A vector that an encoder's pictures lack is made, whatever the file.

    Args:
        sources: folders, lists of paths (.csv, .jsonl, .parquet) or pictures; none for all indexed so far.
        library: to fill; a folder, or an address on object storage, is made into one where it is none.
        image_encoders: make the vectors of pixel spaces.
        text_encoder: makes the space "captions"; None leaves it alone. It reads English; without
            `multilingual` it is given captions in all languages.
        multilingual: makes the space "multilingual" of captions in all languages that it reads, so that a
            text finds captions in another language than its own; None leaves it alone.
        captions: whether captions are kept; False also forgets their spaces.
        follow_links: enter linked folders.
        verify: compare the content of every file, also of those whose size, times and inode are the same.
        workers: threads that decode; None for one per core.
        approximate_from: pictures from which a search does not compare all of them, kept in the library;
            None for what it has.
        engine: what reads and encodes; None for this process.
        progress: told how far it is.
        stop: asked between files; once it says True, what was read is written and the run ends, as after
            Ctrl-C.
    Raises:
        MissingError: a source does not exist.
        ConfigError: two encoders for one space.
        DataError: another process is writing to the library.
        NumericsError: an encoder made a vector that is not finite.
    """
    roots = tuple(dict.fromkeys(find.source_path(source) for source in sources))  # before anything is made
    if not isinstance(library, Library):
        library = Library(library)
    if not sources:
        roots = tuple(find.source_path(source) for source in library.settings.sources)
    sentences = write.sentences_of(text_encoder, multilingual) if captions else {}
    with library.writing(), pillow_warnings(), _stop_on_interrupt() as interrupted:
        library.reread()  # another process may have indexed since
        if library.settings.format < FORMAT:  # limner 0.1.0 knew no stamps of files
            library.store.add_texts(FILES, ("stamp",))
            library.save(format=FORMAT)
        for name, schema in SCHEMAS.items():
            library.store.ensure(name, schema)
        if approximate_from is not None:
            library.save(approximate_from=approximate_from)
        # Brought in the studio; tables that were made anew know nothing of them.
        own = library.folder / "pictures"
        if own.is_dir() and not library.store.count(FILES):
            roots = tuple(dict.fromkeys((*roots, find.source_path(own))))
        if not roots:
            raise ConfigError("index: no sources, and the library has none yet; name a folder of pictures")
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
        with closing(run.batches):
            run.read_all(engine or batching.local_engine(workers or cores()))
            return run.finish()


def _same(entry: find.FoundFile, known: KnownFile) -> bool:
    """Whether a file is the one that was read; of a file of earlier versions no stamp is known."""
    return not _resized(entry, known) and known.stamp in ("", entry.stamp)


def _resized(entry: find.FoundFile, known: KnownFile) -> bool:
    """Whether its size or its time tells that a file is another."""
    return (known.mtime_ns, known.size) != (entry.mtime_ns, entry.size)


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
            # Without settings nobody knows who made a table, unless others may be making it now.
            if spaces.get(space) != info and (space in spaces or not store.shared):
                store.drop(vectors_name(space))
            store.ensure(vectors_name(space), vectors_schema(info.dim))
        named = map(os.fsdecode, self.roots)
        self.retry = self.verify or settings.reader != reader_version()
        self.library.save(
            spaces={**spaces, **wanted}, sources=tuple(dict.fromkeys((*settings.sources, *named)))
        )
        self.batches = batching.Batches(self.library, self.encoders, self.progress, captions=self.captions)

    def read_all(self, engine: batching.Engine) -> None:
        """Walk, read, encode and write everything that is new or changed."""
        self.known = KnownFiles(self.library.store, self.batches.held.values())
        self.progress.stage("pictures", None)
        threading.Thread(target=self._count, daemon=True).start()
        with closing(engine(self._todo(), self.batches, self.stopped)) as results:
            for result in results:
                self.count.update(result.count)
                self.batches.take(result)
                if self.batches.due():
                    self.batches.commit()
                if self.stopped():
                    break
        self.batches.commit()
        self.batches.settle()

    def _count(self) -> None:
        # The find.walk meets the same trouble and reports it; the bar merely goes without an end.
        with suppress(OSError, DataError):
            self.counted += find.count_files(self.roots, follow_links=self.follow_links)
            self.progress.total(self.counted)

    def _todo(self) -> Iterator[find.FoundFile]:
        """Files to read; everything else is counted or noted on the way."""
        files = self._files()
        while some := list(islice(files, LOOKED_UP)):
            left = 0
            known = self.known.meet([write.file_key(entry.path) for entry in some])
            for entry, before in zip(some, known, strict=True):
                if self.stopped():
                    return
                self.count["found"] += 1
                if isinstance(entry, find.UnusableFile):
                    if entry.folder:
                        self.unlisted.append(entry.path)
                    self.batches.skip(
                        write.file_row(entry.path, entry.source, status="skipped", reason=entry.reason)
                    )
                    left += 1
                    continue
                reason = self._reason(entry, before)
                if reason == "uncertain" and before is not None:
                    yield replace(entry, expected=before.sha256)  # counted once its content is known
                    continue
                self.count[reason] += 1
                if reason not in ("unchanged", "refused"):
                    yield entry
                    continue
                left += 1
                if before is not None and not before.stamp:
                    self.batches.stamp(entry.path, entry.stamp)
            self.progress.advance(left)

    def _files(self) -> Iterator[find.FoundFile | find.UnusableFile]:
        """What should be pictures, a usable one once; what else the walk meets is noted."""
        met: set[bytes] = set()
        # A table that was named says more than one that lies in a folder: what it lists is met first.
        roots = sorted(self.roots, key=lambda root: not find.is_list(root))
        walked = find.walk(roots, follow_links=self.follow_links)
        for entry in chain.from_iterable(map(self._with_frames, walked)):
            if self.stopped():
                return
            if isinstance(entry, find.TablesRead):
                self.tables.append(str(entry))
            elif isinstance(entry, find.OtherFile):
                self.count["other_files"] += 1
            elif isinstance(entry, find.UnusableFile) or entry.path not in met:
                if len(self.roots) > 1:
                    met.add(entry.path)
                yield entry

    def _with_frames(self, entry: find.Entry) -> Iterable[find.Entry]:
        """What the walk met; in place of a video its frames, if there are any and it was not met before."""
        if not isinstance(entry, find.VideoFile):
            return (entry,)
        key = write.file_key(entry.path)
        if key in self.videos or self.stopped():
            return ()
        self.videos.add(key)
        known = self.known.meet([key])[0]
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
        if _resized(entry, known) or known.words_key != batching.words_key(
            entry.words_key, captions=self.captions
        ):
            return "changed"
        if not known.complete and self.batches.claims.missing(known.sha256):
            return "completed"
        return "unchanged" if _same(entry, known) and not self.verify else "uncertain"

    def finish(self) -> IndexReport:
        """Mark what is gone, complete captions and groups, tidy the tables, and report."""
        library, batches = self.library, self.batches
        if not self.stopped():
            self._mark_deleted()
        mend(library.store)
        encoded = self._captions() if self.sentences and not self.stopped() else 0
        if library.store.shared and not self.stopped():
            agree(library.store)
        # Where several write at once nobody knows whether all that was written since is grouped.
        if (library.store.shared or not library.settings.grouped) and not self.stopped():
            write.link_near(library)
            library.save(grouped=True)
        if self.stopped():
            self.progress.note(RESUME)
        else:
            if batches.commits or encoded:
                for table in library.store.compact():
                    self.progress.note(f"{table}: other processes are writing to it; the next run joins it")
            if self.retry:
                library.save(reader=reader_version())
        beyond = self._search_index()
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
            searches=library.settings.searches if beyond else {},
            unread=tuple(unread),
            incomplete=incomplete,
            seconds=seconds,
            files_per_s=self.count["found"] / seconds,
            pictures_per_s=batches.pictures_read / seconds,
            interrupted=self.stopped(),
        )

    def _search_index(self) -> bool:
        """Build what searches ask of a library beyond the size up to which all pictures are compared.

        Returns:
            whether it is beyond that.
        """
        if len(self.library) < max(self.library.settings.approximate_from, 1):
            return False
        from limner.store import vector_index  # what few libraries need

        if not self.stopped() and vector_index.due(self.library):
            vector_index.prepare(self.library, self.progress, self.stopped)
        return True

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
        for some in chunks(self.known.unmet(), batching.COMMIT_FILES):
            rows = self.library.store.lookup(FILES, "key", some)
            # A frame is looked for where its video is.
            origins = {write.file_key(row["source"]) for row in rows if find.is_video(row["source"])}
            videos_of = {row["path_bytes"]: row for row in self.library.store.lookup(FILES, "key", origins)}
            gone = [row for row in rows if self._was_looked_for(videos_of.get(row["source"], row))]
            for row in gone:
                self.count["deleted"] += row["sha256"] != ""
                self.batches.skip({**row, "status": "deleted"})
            self.batches.commit()
            self.batches.settle()
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
        return any(path == root or path.startswith((root.rstrip(_SEP) + _SEP, root + b"/")) for root in roots)
