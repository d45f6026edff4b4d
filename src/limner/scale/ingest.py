"""Indexing: finds files, reads new and changed ones, encodes, writes and completes.

One pass streams over any number of files with bounded memory; written batches are kept if the process is
killed. It neither deletes nor changes any picture.
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
from typing import TYPE_CHECKING

from limner.arrays import ImageEncoder, SentenceEncoder, TextEncoder
from limner.devices import cores
from limner.errors import ConfigError, DataError, MissingError
from limner.files import display
from limner.language import language_name
from limner.locations import address
from limner.pictures import find
from limner.pictures.decode import PictureError, pillow_warnings, reader_version
from limner.progress import Progress
from limner.records import Problem
from limner.scale import batches as batching
from limner.scale import write
from limner.scale.known import TREATED, KnownFile, KnownFiles, TableReport, forgetting
from limner.scale.library import PictureStore, home_of
from limner.scale.shared import correct_paths
from limner.scale.store import (
    DESCRIPTIONS,
    FILES,
    OCR,
    OCR_SCHEMA,
    SCHEMAS,
    WORDS,
    chunks,
    vectors_name,
    vectors_schema,
)
from limner.store import SpaceInfo
from limner.store.index import MissingFolder, MovedFolder

if TYPE_CHECKING:
    from limner.pictures.ocr import OcrEngine

_SEP = os.fsencode(os.sep)
VIDEO = "video"
"""Status of a video of which frames are in the library."""
LOOKED_UP = 1024
"""Number of files that are looked up at once."""
_STAYS = "its picture stays in the library as it was; index again once it can be read"
MANY = 100
"""Number of missing pictures, if more than half of a folder, that are only forgotten after confirmation."""


def index(
    sources: Sequence[str | os.PathLike[str]],
    library: PictureStore | str | os.PathLike[str],
    *,
    image_encoders: Sequence[ImageEncoder] = (),
    text_encoder: TextEncoder | None = None,
    multilingual: SentenceEncoder | None = None,
    captions: bool = True,
    follow_links: bool = False,
    verify: bool = False,
    forget: bool = False,
    workers: int | None = None,
    approximate_from: int | None = None,
    engine: batching.Engine | None = None,
    ocr: OcrEngine | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> TableReport:
    """Bring a library up to date with its pictures.

    Only new and changed files are read. Missing files under `sources` are marked as deleted; files of other
    sources are left as they are. Missing vectors of existing pictures are computed, whether or not their
    files changed. A file whose content the library knows from a missing file has moved.

    Where a folder of `sources` is not there, or all pictures known below it are missing, or more than half
    of them and `MANY` or more, its drive may be away: they stay in the library, and the report names them.

    Args:
        sources: folders, lists of paths (.csv, .jsonl, .parquet) or pictures; none for all indexed so far.
        library: the library, or its path or URL; created if missing.
        image_encoders: encoders of the pixel spaces.
        text_encoder: encoder of the space "captions"; None leaves that unchanged. It reads English; without
            `multilingual` it gets captions in all languages.
        multilingual: encoder of the space "multilingual", for captions in all languages that it reads, so
            that a text finds captions in other languages; None leaves that unchanged.
        captions: whether captions are kept; False also forgets their spaces.
        follow_links: whether to enter linked folders.
        verify: whether to compare the content of every file, even if size, times and inode are unchanged.
        forget: whether to mark all missing pictures as deleted, however many.
        workers: number of threads that decode; None for one per core.
        approximate_from: number of pictures from which searches use an approximate index, stored in the
            library; None leaves it unchanged.
        engine: function that reads and encodes; None for this process.
        ocr: reader of the text in pictures, for the space "ocr", whose vectors `text_encoder` computes; None
            leaves that unchanged.
        progress: receiver of the progress.
        stop: function called between files; once it returns True, what was read is written and the run ends,
            as after Ctrl-C.
    Raises:
        MissingError: a source does not exist and has no known pictures, or no source exists.
        ConfigError: two encoders have the same space.
        DataError: another process is writing to the library.
        NumericsError: an encoder computed a vector that is not finite.
    """
    roots, away = _there(sources, library, forget=forget)  # before anything is created
    if not isinstance(library, PictureStore):
        library = PictureStore(library)
    sentences = write.sentences_of(text_encoder, multilingual) if captions else {}
    with library.writing(), pillow_warnings(), _stop_on_interrupt() as interrupted:
        library.reread()  # another process may have indexed in the meantime
        known = library.settings.sources
        for name, schema in SCHEMAS.items():
            library.store.ensure(name, schema)
        if approximate_from is not None:
            library.save(approximate_from=approximate_from)
        # Uploaded pictures are unknown to tables that were created again, or have an old path if the library
        # was moved.
        # was moved know where they were.
        own = library.folder / "pictures"
        left = any(one.endswith(f"{os.sep}pictures") and _is_gone(os.fsencode(one)) for one in known)
        if own.is_dir() and (left or not library.store.count(FILES)):
            roots = tuple(dict.fromkeys((*roots, find.source_path(own))))
        if not roots and not away:
            raise ConfigError("index: no sources, and the library has none yet; name a folder of pictures")
        run = _TableRun(
            library,
            roots,
            image_encoders,
            sentences,
            captions=captions,
            follow_links=follow_links,
            verify=verify,
            away=away,
            forget=forget,
            progress=progress or Progress(),
            stopped=lambda: interrupted() or stop(),
            ocr=None if text_encoder is None else ocr,
            reads_ocr=text_encoder,
        )
        run.agree()
        with closing(run.batches):
            run.read_all(engine or batching.local_engine(workers or cores()))
            return run.finish()


def _there(
    sources: Sequence[str | os.PathLike[str]], library: PictureStore | str | os.PathLike[str], *, forget: bool
) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Separate the existing sources from the missing ones of the library.

    Args:
        sources: sources; none for all of the library's.
        library: the library.
        forget: whether all of them may be gone.
    Raises:
        MissingError: a new source does not exist, or no source exists.
    """
    if isinstance(library, PictureStore):
        opened: PictureStore | None = library
    else:
        opened = PictureStore.open(library) if home_of(library).exists() else None
    known = set() if opened is None else {os.fsencode(one) for one in opened.settings.sources}
    roots, away = dict[bytes, None](), dict[bytes, MissingError]()
    for source in sources or (() if opened is None else opened.settings.sources):
        try:
            roots[find.source_path(source)] = None
        except MissingError as error:
            path = os.fsencode(os.path.abspath(os.fspath(source)))  # noqa: PTH100
            if path not in known or address(os.fsencode(source)) is not None:
                raise
            away[path] = error
    if away and not roots and not forget:
        place, why = next(iter(away.items()))
        at = library.place if isinstance(library, PictureStore) else os.fspath(library)
        raise MissingError(
            f"{why}; its pictures stay in the library; if they are gone for good:"
            f" {forgetting(display(place), str(at))}"
        )
    return tuple(roots), tuple(away)


def _is_gone(path: bytes) -> bool:
    """Whether a path is known not to exist; False for URLs."""
    if address(path) is not None:
        return False
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _is_out_of_reach(path: bytes) -> bool:
    """Whether a path cannot be looked at although it may exist, as on a drive that fails; False for URLs."""
    if address(path) is not None or _is_gone(path):
        return False
    try:
        os.lstat(path)
    except OSError:
        return True
    return False


def _is_below(path: bytes, folder: bytes) -> bool:
    """Whether a path or URL is a folder or is in it."""
    return path == folder or path.startswith((folder.rstrip(_SEP) + _SEP, folder + b"/"))


def _same(entry: find.FoundFile, known: KnownFile) -> bool:
    """Whether a file is unchanged; files of earlier versions have no stamp."""
    return not _resized(entry, known) and known.stamp in ("", entry.stamp)


def _resized(entry: find.FoundFile, known: KnownFile) -> bool:
    """Whether the size or the time of a file has changed."""
    return (known.mtime_ns, known.size) != (entry.mtime_ns, entry.size)


@contextmanager
def _stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """Stop after the batch at the first Ctrl-C, and at once at the second."""
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
class _TableRun:
    """One run of indexing and its counts.

    Attributes:
        roots, away: sources that exist, and those that do not.
        sentences: encoder and its languages, by space of captions.
        ocr, reads_ocr: reader and encoder of the text in pictures.
        missing: missing pictures that stay in the library, by source.
        moved: number of moved files, by old and new folder.
        reading: reason for reading, by key of each file that is being read.
        listed: rows of known files that are missing although a table lists them.
        out_of_reach: known files that could not be read this time, with the reason.
    """

    library: PictureStore
    roots: tuple[bytes, ...]
    encoders: Sequence[ImageEncoder]
    sentences: write.Sentences
    captions: bool
    follow_links: bool
    verify: bool
    away: tuple[bytes, ...]
    forget: bool
    progress: Progress
    stopped: Callable[[], bool]
    ocr: OcrEngine | None = None
    reads_ocr: TextEncoder | None = None
    missing: dict[bytes, MissingFolder] = field(default_factory=dict)
    moved: Counter[tuple[str, str]] = field(default_factory=Counter)
    count: Counter[str] = field(default_factory=Counter)
    unlisted: list[bytes] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    videos: set[str] = field(default_factory=set)
    reading: dict[str, str] = field(default_factory=dict)
    listed: list[write.FileRow] = field(default_factory=list)
    out_of_reach: list[Problem] = field(default_factory=list)
    counted: int = 0
    started: float = field(default_factory=time.monotonic)

    def agree(self) -> None:
        """Empty the spaces that were made by another encoder or another version.

        Raises:
            ConfigError: two encoders have the same space.
        """
        makers: list[tuple[str, int, ImageEncoder | TextEncoder]] = [
            *((space, dim, one) for one in self.encoders for space, dim in one.spaces.items()),
            *((space, one.dim, one) for space, (one, _) in self.sentences.items()),
        ]
        if self.ocr is not None and self.reads_ocr is not None:
            makers.append((OCR, self.reads_ocr.dim, self.reads_ocr))
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
                self.progress.note(
                    f"{space}: made by {spaces[space].encoder}, now {info.encoder}; computed again"
                )
            # without settings, the encoder of a table is unknown, unless other processes may be writing it
            if spaces.get(space) != info and (space in spaces or not store.shared):
                store.drop(vectors_name(space))
            store.ensure(vectors_name(space), vectors_schema(info.dim))
        named = map(os.fsdecode, self.roots)
        self.retry = self.verify or settings.reader != reader_version()
        self.unfinished = not settings.grouped  # the last run did not finish
        self.library.save(
            spaces={**spaces, **wanted}, sources=tuple(dict.fromkeys((*settings.sources, *named)))
        )
        if self.ocr is not None:
            store.ensure(OCR, OCR_SCHEMA)
        self.batches = batching.Batches(
            self.library, self.encoders, self.progress, captions=self.captions, ocr=self.ocr
        )

    def read_all(self, engine: batching.Engine) -> None:
        """Walk, read, encode and write everything that is new or changed."""
        held = [*self.batches.held.values(), *([] if self.ocr is None else [self.batches.read])]
        self.known = KnownFiles(self.library.store, held)
        self.progress.stage("pictures", None)
        threading.Thread(target=self._count, daemon=True).start()
        with closing(engine(self._todo(), self.batches, self.stopped)) as results:
            for result in results:
                self.count.update(result.count)
                result.rows = [row for row in result.rows if not self._is_out_of_reach(row)]
                for row in result.rows:
                    reason = self.reading.pop(row["key"], "")
                    if row["status"] != "ok":
                        self.count["unusable"] += 1
                    elif reason:  # otherwise counted by its content
                        self.count[reason] += 1
                self.known.arrive(row for row in result.rows if row["status"] == "ok")
                self.batches.take(result)
                if self.batches.due():
                    self.batches.commit()
                if self.stopped():
                    break
        self.batches.commit()
        self.batches.settle()

    def _is_out_of_reach(self, row: write.FileRow) -> bool:
        """Whether a known file could not be opened or read this time; its picture stays as it was."""
        if row["status"] != "skipped" or row["mtime_ns"] >= 0 or not self.known.holds(row["key"]):
            return False
        self.reading.pop(row["key"], None)
        self.count["unusable"] += 1
        self.out_of_reach.append(Problem(path=row["path"], reason=f"{row['reason']}; {_STAYS}"))
        return True

    def _count(self) -> None:
        # `find.walk` reports the same error; the bar only lacks a total
        with suppress(OSError, DataError):
            self.counted += find.count_files(self.roots, follow_links=self.follow_links)
            self.progress.total(self.counted)

    def _todo(self) -> Iterator[find.FoundFile]:
        """Yield the files to read; all others are counted."""
        files = self._files()
        while some := list(islice(files, LOOKED_UP)):
            left = 0
            known = self.known.meet([write.file_key(entry.path) for entry in some])
            for entry, before in zip(some, known, strict=True):
                if self.stopped():
                    return
                if isinstance(entry, find.UnusableFile):
                    self.count["unusable"] += 1
                    if entry.folder:
                        self.unlisted.append(entry.path)
                    row = write.file_row(entry.path, entry.source, status="skipped", reason=entry.reason)
                    left += 1
                    if before is not None and before.status == "ok" and _is_gone(entry.path):
                        # a table still lists it; it may have moved
                        self.known.take_back(row["key"])
                        self.listed.append(row)
                    elif _is_out_of_reach(entry.path) and self.known.holds(row["key"]):
                        reason = f"{entry.reason}; {_STAYS}"
                        self.out_of_reach.append(Problem(path=row["path"], reason=reason))
                    else:
                        self.batches.skip(row)
                    continue
                reason = self._reason(entry, before)
                if reason == "uncertain" and before is not None:
                    yield replace(entry, expected=before.sha256)  # counted once its content is known
                    continue
                if reason not in ("unchanged", "unusable"):
                    self.reading[write.file_key(entry.path)] = reason
                    yield entry
                    continue
                self.count[reason] += 1
                left += 1
                if before is not None and not before.stamp:
                    self.batches.stamp(entry.path, entry.stamp)
            self.progress.advance(left)

    def _files(self) -> Iterator[find.FoundFile | find.UnusableFile]:
        """Yield files that should be pictures, usable ones once; all others are counted."""
        met: set[bytes] = set()
        # files of a named table come first, because it has priority over tables in folders
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
        """Yield an entry, or the frames of a video that is not known yet."""
        if not isinstance(entry, find.VideoFile):
            return (entry,)
        key = write.file_key(entry.path)
        if key in self.videos or self.stopped():
            return ()
        self.videos.add(key)
        known = self.known.meet([key])[0]
        same = known is not None and _same(entry, known)
        refused = known is not None and known.status == "skipped" and same and not self.retry
        from limner.pictures import videos

        row = partial(write.file_row, entry.path, entry.source, size=entry.size, stamp=entry.stamp)
        try:
            frames = () if refused else videos.frames(entry, self.library.folder.resolve(), self.stopped)
        except PictureError as error:
            mtime_ns = entry.mtime_ns if error.lasting else -1
            self.batches.skip(row(status="skipped", mtime_ns=mtime_ns, reason=str(error)))
            frames, refused = (), True
        if refused:
            self.count["unusable"] += 1
            self.progress.advance(1)
        elif frames:
            self.count["videos"] += 1
            self.counted += len(frames) - 1
            self.progress.total(self.counted)
            if not same or (known is not None and (known.status != VIDEO or not known.stamp)):
                self.batches.skip(row(status=VIDEO, mtime_ns=entry.mtime_ns))
        return frames

    def _reason(self, entry: find.FoundFile, known: KnownFile | None) -> str:
        """Why a file must be read; or "unchanged", "unusable" as before, or "uncertain" if only its content
        can tell.
        """
        if known is None or known.status == "deleted":
            return "new"
        if known.status == "skipped":
            return "unusable" if _same(entry, known) and not self.retry else "changed"
        if _resized(entry, known) or known.words_key != batching.words_key(
            entry.words_key, captions=self.captions
        ):
            return "changed"
        claims = self.batches.claims
        if not known.complete and (claims.missing(known.sha256) or claims.unread(known.sha256)):
            return "completed"
        return "unchanged" if _same(entry, known) and not self.verify else "uncertain"

    def finish(self) -> TableReport:
        """Mark deleted files, complete captions and groups, compact the tables, and report."""
        library, batches = self.library, self.batches
        if not self.stopped():
            self._mark_moved()
            self._mark_deleted()
            for row in self.listed:
                if self._root_of(row) not in self.missing:
                    self.batches.skip(row)
            self.batches.commit()
            self.batches.settle()
        if library.store.has(WORDS) or library.store.has(DESCRIPTIONS):
            from limner.scale.words import repair_captions

            repair_captions(library.store)
        encoded = self._captions() if (self.sentences or self.ocr) and not self.stopped() else 0
        if library.store.shared and not self.stopped():
            correct_paths(library.store)
        # with several writers it is unknown whether all new rows are grouped
        if (library.store.shared or not library.settings.grouped) and not self.stopped():
            write.link_near(library)
            library.save(grouped=True)
        if not self.stopped():
            if batches.commits or encoded:
                for table in library.store.compact():
                    self.progress.note(f"{table}: other processes are writing to it; the next run joins it")
            if self.retry:
                library.save(reader=reader_version())
        beyond = self._search_index()
        groups, grouped = write.group_counts(library.store)
        summary = library.summary()
        unread = self._unread() if write.MULTILINGUAL in self.sentences and not self.stopped() else []
        pixel_spaces = [space for space in summary.spaces if space not in write.WORDED_SPACES]
        incomplete = write.lacking(library.store, pixel_spaces)
        seconds = max(time.monotonic() - self.started, 1e-9)
        self.count["found"] = sum(self.count[kind] for kind in TREATED)
        return TableReport(
            **self.count,
            moved_folders=tuple(
                MovedFolder(before=before, now=now, files=files)
                for (before, now), files in self.moved.most_common()
            ),
            missing=tuple(self.missing.values()),
            tables=tuple(self.tables),
            skipped=tuple(self._skipped()),
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
        """Build the search indices of a library that is too large for comparing all pictures.

        Returns:
            Whether the library is that large.
        """
        if len(self.library) < max(self.library.settings.approximate_from, 1):
            return False
        from limner.scale import vector_index  # rarely needed

        if not self.stopped() and vector_index.due(self.library):
            vector_index.prepare(self.library, self.progress, self.stopped)
        return True

    def _captions(self) -> int:
        """Encode captions with the encoders of their languages; number of pictures."""
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
        if self.ocr is not None and self.reads_ocr is not None and not self.stopped():
            write.encode_words_shown(
                self.library, self.reads_ocr, progress=self.progress, stopped=self.stopped
            )
        return done

    def _skipped(self) -> list[Problem]:
        """Files of these sources that could not be used, by path."""
        columns = ["path", "reason", "path_bytes", "source"]
        found = (
            dict(zip(columns, row, strict=True))
            for row in self.library.store.rows(FILES, columns, "status = 'skipped'")
        )
        own = [row for row, video in self._with_videos(found) if self._root_of(video or row) is not None]
        skipped = (Problem(path=row["path"], reason=row["reason"]) for row in own)
        return sorted((*skipped, *self.out_of_reach), key=lambda one: one.path)

    def _unread(self) -> list[Problem]:
        """Pictures with captions that no encoder reads, by path."""
        codes = write.unread_captions(self.library)
        pictures = sorted(self.library.pictures(codes), key=lambda picture: picture.path)
        return [Problem(path=one.path, reason=language_name(codes[one.id])) for one in pictures]

    def _mark_moved(self) -> None:
        """Remove the rows of missing files whose content has a new path."""
        for some in chunks(self.known.elsewhere(met=self.unfinished), batching.COMMIT_FILES):
            held = self.library.store.lookup(FILES, "sha256", some)
            gone: list[write.FileRow] = []
            by_path = {one["path_bytes"]: one for one in held}
            for row, video in self._with_videos(one for one in held if self.known.unmet_key(one["key"])):
                if not (self._root_of(video or row) or _is_gone((video or row)["path_bytes"])):
                    continue
                now = [
                    one["path_bytes"]
                    for one in held
                    if (one["sha256"], one["status"]) == (row["sha256"], "ok")
                    and not self.known.unmet_key(one["key"])
                    and not _is_gone(one["path_bytes"])
                ]
                if not now or not (self.unfinished or self.known.arrivals[row["sha256"]]):
                    continue
                arrived = self.known.arrivals[row["sha256"]] > 0
                self.known.arrivals[row["sha256"]] -= arrived
                # otherwise an unfinished run has read it at its new path
                counted_as = "new" if arrived else "unchanged"
                self.count[counted_as] -= 1
                self.count["moved"] += 1
                self.moved[_folders(row["path_bytes"], now)] += 1
                gone.append(row)
                for path in now if self.captions else ():
                    if (named := _with_words(by_path[path], row)) is not None:
                        by_path[path] = named
                        self.batches.skip(named)
                if video is not None and self.known.unmet_key(video["key"]):
                    gone.append(video)
            for row in gone:
                self.batches.skip({**row, "status": "deleted"})
            self.known.meet([row["key"] for row in gone])
            self.batches.commit()
            self.batches.settle()  # their pictures have the new paths; now the old rows can be removed
            self.library.store.delete(FILES, [row["key"] for row in gone])
            for row in gone:
                if find.is_video(row["source"]):
                    self._discard_frames(row)
        if self.moved:
            self._drop_sources()

    def _mark_deleted(self) -> None:
        """Mark the files of these sources that were not found.

        If so much of a source is missing that a drive may be disconnected, its files are not marked.
        """
        if not self.forget:
            gone = Counter(root for row, _, root in self._gone() if row["status"] == "ok")
            self.missing = self._doubtful(gone)
        found = self._gone()
        while some := list(islice(found, batching.COMMIT_FILES)):
            left = [(row, video) for row, video, root in some if root not in self.missing]
            for row, _ in left:
                self.count["deleted"] += row["sha256"] != ""
                self.batches.skip({**row, "status": "deleted"})
            self.batches.commit()
            self.batches.settle()
            for row, video in left:
                if video is not None:
                    self._discard_frames(row)
        if self.away and not self.missing:
            self._drop_sources()

    def _discard_frames(self, row: write.FileRow) -> None:
        """Remove the copy of a video's frame."""
        from limner.pictures import videos

        videos.discard(row["path_bytes"], self.library.folder.resolve())

    def _gone(self) -> Iterator[tuple[write.FileRow, write.FileRow | None, bytes]]:
        """Yield the files that were not found, with the video of frames and their source."""
        for some in chunks(self.known.unmet(), batching.COMMIT_FILES):
            for row, video in self._with_videos(self.library.store.lookup(FILES, "key", some)):
                root = self._root_of(video or row)
                if root is not None:
                    yield row, video, root

    def _with_videos(
        self, rows: Iterable[write.FileRow]
    ) -> Iterator[tuple[write.FileRow, write.FileRow | None]]:
        """Yield rows of files, with the row of the video for frames, whose source is that of the video."""
        found = list(rows)
        keys = {write.file_key(row["source"]) for row in found if find.is_video(row["source"])}
        known = {row["path_bytes"]: row for row in self.library.store.lookup(FILES, "key", keys)}
        for row in found:
            yield row, known.get(row["source"])

    def _root_of(self, row: write.FileRow) -> bytes | None:
        """Source of this run that contains a file, or None."""
        path: bytes = row["path_bytes"]
        if any(path.startswith(folder + _SEP) for folder in self.unlisted):
            return None
        source: bytes = row["source"]
        roots = (*self.roots, *self.away)
        if find.is_list(source):
            return source if source in roots else None
        # a walk skips the library's own folder, and so uploaded pictures
        home = os.fsencode(self.library.folder.resolve()) + _SEP
        named = (root for root in roots if root.startswith(home) or not path.startswith(home))
        return max((root for root in named if _is_below(path, root)), key=len, default=None)

    def _doubtful(self, gone: Counter[bytes]) -> dict[bytes, MissingFolder]:
        """Sources of which so much is missing that confirmation is needed."""
        if not gone:
            return {}
        there = Counter(
            root
            for path, source in self.library.store.rows(FILES, ["path_bytes", "source"], "status = 'ok'")
            for root in [
                self._root_of({"path_bytes": source if find.is_video(source) else path, "source": source})
            ]
            if root in gone
        )
        return {
            root: MissingFolder(
                path=display(root), library=self.library.place, missing=count, known=there[root]
            )
            for root, count in sorted(gone.items())
            if root in self.away
            or (
                not find.is_list(root)
                and (count == there[root] or (count >= MANY and 2 * count > there[root]))
            )
        }

    def _drop_sources(self) -> None:
        """Remove missing sources without any pictures from the settings."""
        sources = self.library.settings.sources
        gone = {one for one in sources if _is_gone(os.fsencode(one))}
        if not gone:
            return
        for path, source in self.library.store.rows(FILES, ["path_bytes", "source"], "status = 'ok'"):
            place = source if find.is_video(source) else path  # a frame's is in the library
            gone -= {one for one in gone if os.fsencode(one) == source or _is_below(place, os.fsencode(one))}
        self.library.save(sources=tuple(one for one in sources if one not in gone))


_OUTSIDE = frozenset(("metadata", "sidecar"))
"""Sources of captions in other files, which may stay behind when a picture moves."""


def _with_words(now: write.FileRow, before: write.FileRow) -> write.FileRow | None:
    """Add the captions of a moved file's old table or sidecar; None if nothing is lost.

    Captions of its new path have priority.
    """
    left = [one for one in before["captions"] or () if one["source"] in _OUTSIDE]
    own = now["captions"] or []
    if not left or any(one["source"] in _OUTSIDE for one in own):
        return None
    stated = {name: now[name] or before[name] for name in ("credit", "license", "camera")}
    dated = now if now["taken"] else before
    times = {name: dated[name] for name in ("taken", "taken_from")}
    return {**now, **stated, **times, "captions": [*left, *own]}


def _folders(before: bytes, now: Sequence[bytes]) -> tuple[str, str]:
    """Old and new folder in which a file's paths differ; of several paths, the most similar.

    Args:
        before: old path of the file.
        now: new paths of its content.
    """

    def alike(path: bytes) -> int:
        """Number of equal parts at the end."""
        pairs = zip(reversed(path.split(_SEP)), reversed(before.split(_SEP)), strict=False)
        return next((place for place, (one, other) in enumerate(pairs) if one != other), 0)

    best = max(now, key=alike)
    folders = [_SEP.join(path.split(_SEP)[: -max(1, alike(best))]) or _SEP for path in (before, best)]
    return display(folders[0]), display(folders[1])
