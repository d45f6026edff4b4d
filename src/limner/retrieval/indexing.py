"""Fill a library: find files, read the new and changed ones, encode, write, complete.

One pass streams over any number of files with bounded memory; what is done stays done when the process is
killed. Encoders come from the caller. It deletes nothing of the user's and changes no picture.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from types import FrameType

from limner.data.folder import FoundFile, OtherFile, UnusableFile, count_files, source_path, walk
from limner.data.hashes import NEAR_BITS
from limner.data.images import reader_version
from limner.data.language import ENGLISH, language_name
from limner.data.notices import pillow_warnings
from limner.data.tables import LIST_SUFFIXES
from limner.data.words import CAPTION_SOURCES, CaptionSource
from limner.errors import ConfigError, DataError, unknown
from limner.retrieval.batches import Batches
from limner.retrieval.commits import FileRow, file_key, file_row
from limner.retrieval.completion import (
    CAPTION_SPACES,
    CAPTIONS,
    MULTILINGUAL,
    caption_shares,
    encode_captions,
    group_counts,
    lacking,
    link_near,
    unread_captions,
)
from limner.retrieval.digests import KnownFile, KnownFiles
from limner.retrieval.library import Library
from limner.retrieval.reading import Reader, ReadFile, default_workers
from limner.retrieval.reports import IndexReport, Problem, Progress, Silent
from limner.retrieval.settings import SpaceInfo
from limner.retrieval.store import FILES, files_schema, vectors_name, vectors_schema
from limner.similarity import ImageEncoder, SentenceEncoder, TextEncoder
from limner.threads import ahead

BATCH_PICTURES = 32
COMMIT_FILES = 256
COMMIT_S = 10.0
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
    near_bits: int = NEAR_BITS,
    workers: int | None = None,
    batch_pictures: int = BATCH_PICTURES,
    commit_files: int = COMMIT_FILES,
    commit_s: float = COMMIT_S,
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
        near_bits: largest Hamming distance between the hashes of near-duplicates, 0 to 16.
        workers: threads that decode; None for one per core.
        batch_pictures: pictures per forward pass.
        commit_files: files written at once: what a kill may lose is at most this and what is in flight.
        commit_s: seconds after which fewer are written.
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
        run.read_all(follow_links, workers or default_workers(), batch_pictures, commit_files, commit_s)
        return run.finish(near_bits)


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

    def read_all(
        self, follow_links: bool, workers: int, batch_pictures: int, commit_files: int, commit_s: float
    ) -> None:
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
                    if self.batches.due(commit_files, commit_s):
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

    def finish(self, near_bits: int) -> IndexReport:
        """Mark what is gone, complete captions and groups, tidy the tables, and report."""
        if not self.stopped():
            self._mark_deleted()
        if self.sentences and not self.stopped():
            self._captions()
        if not self.library.settings.grouped and not self.stopped():
            link_near(self.library, near_bits)
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
            skipped=tuple(Problem(path=one.path, reason=one.reason) for one in self.library.skipped()),
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
