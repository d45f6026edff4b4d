"""Indexing: finds files, reads and encodes new and changed ones, and stores them a few hundred at a time.

Files are read in threads while the encoders run in the caller's. What was stored stays if the process is
killed; the next run continues. It neither deletes nor changes any picture.
"""

from __future__ import annotations

import hashlib
import html
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from shlex import quote
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from limner.arrays import ByteArray, FloatArray, ImageEncoder, SentenceEncoder, TextEncoder, expect, unit_rows
from limner.config import Record
from limner.devices import ahead, cores
from limner.encoders.catalogue import sentence_encoder, text_encoder
from limner.errors import CheckpointError, ConfigError, DataError, MissingError, counted
from limner.files import display
from limner.language import ENGLISH, MORE_LANGUAGES, language_name, language_of, languages_of
from limner.locations import address
from limner.pictures import find
from limner.pictures.decode import (
    Decoded,
    PictureError,
    decode,
    pillow_warnings,
    read_file,
    reader_version,
    take_warnings,
)
from limner.pictures.hashes import near_groups, phash
from limner.pictures.metadata import (
    CAPTION_SOURCES,
    Words,
    camera_number,
    embedded,
    merge,
    read_sidecars,
    words_of_name,
)
from limner.progress import Progress
from limner.records import Problem
from limner.store import CAPTIONS, KEYWORDS, MULTILINGUAL, OCR, WORDED_SPACES, File, Pixels, SpaceInfo
from limner.store.database import Database, exists

if TYPE_CHECKING:
    from PIL.Image import Image

    from limner.pictures.ocr import OcrEngine

LOOKED_UP = 1024
"""Number of files that are looked up at once."""
MANY = 100
"""Number of missing pictures, if more than half of a folder, that are only forgotten after confirmation."""
HASH_SIDE_PX = 64
BATCH_PICTURES = 32
"""Pictures of a forward pass."""
COMMIT_FILES, COMMIT_S = 256, 10.0
"""Number of files stored at once, and seconds after which fewer are; a kill may lose at most these."""
TEXTS_AT_ONCE = 512
_SHARES_FROM = 1000  # number of captions; more would change the shares by less than a hundredth
_MAX_REASON_CHARS = 2000
_STAYS = "its picture stays in the library as it was; index again once it can be read"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Signs that would break a line, or steer a terminal, in the name of a file."""

Sentences = dict[str, tuple[TextEncoder, frozenset[str] | None]]
"""Encoder and its languages, None for all, by space of captions."""


class MissingFolder(Record):
    """Missing pictures, which stay in the library until the user confirms that they are deleted.

    Attributes:
        path: the folder that was given.
        library: path of the library.
        missing: number of its missing pictures.
        known: number of its pictures in the library.
    """

    path: str
    library: str
    missing: int
    known: int

    def __str__(self) -> str:
        """One line."""
        return (
            f"{self.path}: {self.missing:,} of {counted(self.known, 'picture')} missing; they stay in the"
            " library; connect the drive, or, if they are gone for good:"
            f" {_forgetting(self.path, self.library)}"
        )


class MovedFolder(Record):
    """Files that were found at another path.

    Attributes:
        before, now: old and new folder, in which their paths differ.
        files: number of files.
    """

    before: str
    now: str
    files: int


class IndexReport(Record):
    """Result of one run of indexing.

    Attributes:
        found: files with the extension of a picture, including links and unreadable files. The sum of those
            that are new, changed, unchanged, completed, moved and unusable; after Ctrl-C only those that were
            processed.
        videos: number of videos, which are not used.
        other_files: number of files that are neither pictures nor videos, by extension.
        new: read for the first time, or back after having been deleted.
        changed: read again because the file, its sidecars or its row of a table changed.
        unchanged: not read, or read and found unchanged.
        completed: unchanged files read for a vector or text that was missing.
        moved: number of files recognised by their content and missing at their old path.
        moved_folders: old and new folders, those with the most files first.
        unusable: number of the found files that are not usable, whether found now or by an earlier run.
        deleted: files that are gone.
        missing: folders of which so much is missing that a drive may be disconnected; their pictures stay.
        tables: notes on tables in the folders, a line each.
        skipped: not usable, in the folders of this run.
        warnings: notes on pictures that were read, such as damaged metadata, met in this run.
        exact_duplicates: present files beyond the first of each picture, in the whole library.
        near_groups: near-duplicate groups of two or more pictures, in the whole library.
        near_pictures: pictures in these groups.
        pictures: different pictures in the whole library.
        encoded: number of encoded pictures by image encoder.
        captions_encoded: pictures whose captions were encoded.
        languages: estimated share of the library's captions by language, largest first.
        unread: pictures whose captions are all in languages that no encoder of the library reads, with the
            language as the reason; in the whole library.
        incomplete: number of existing pictures without a vector, by vector space.
        seconds: wall time.
        pictures_per_s: pictures read per second of the whole run.
        interrupted: True after Ctrl-C; the same command continues.
    """

    found: int = 0
    videos: int = 0
    other_files: int = 0
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    completed: int = 0
    moved: int = 0
    moved_folders: tuple[MovedFolder, ...] = ()
    unusable: int = 0
    deleted: int = 0
    missing: tuple[MissingFolder, ...] = ()
    tables: tuple[str, ...] = ()
    skipped: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    exact_duplicates: int = 0
    near_groups: int = 0
    near_pictures: int = 0
    pictures: int = 0
    encoded: dict[str, int] = Field(default={})
    captions_encoded: int = 0
    languages: dict[str, float] = Field(default={})
    unread: tuple[Problem, ...] = ()
    incomplete: dict[str, int] = Field(default={})
    seconds: float = 0.0
    pictures_per_s: float = 0.0
    interrupted: bool = False

    def lines(self, listed: int = 20) -> list[str]:
        """The report in words.

        Args:
            listed: maximum number of lines of each kind.
        """
        rare = (("completed", self.completed), ("moved", self.moved))
        others = "".join(f", {count:,} {what}" for what, count in rare if count)
        lines = [
            f"pictures in the library: {self.pictures:,}",
            f"files: {self.found:,} ({self.new:,} new, {self.changed:,} changed,"
            f" {self.unchanged:,} unchanged{others}, {self.unusable:,} skipped), {self.deleted:,} deleted",
            f"{counted(self.exact_duplicates, 'exact duplicate')}; {counted(self.near_pictures, 'picture')}"
            f" in {counted(self.near_groups, 'near-duplicate group')}",
            f"{counted(self.other_files, 'file that is not a picture', 'files that are not pictures')};"
            f" {self.seconds:.1f} s, {self.pictures_per_s:.1f} pictures/s",
        ]
        lines += [str(one) for one in self.missing]
        moved = [
            f"moved: {counted(one.files, 'file')} from {one.before} to {one.now}, recognised by their content"
            for one in self.moved_folders
        ]
        lines += _cut(moved, listed, "moved")
        if self.videos:
            lines.append(f"{counted(self.videos, 'video')}: not used")
        lines += _cut(list(self.tables), listed, "tables")
        lines += [
            f"{space}: no vector yet for {counted(count, 'picture')}"
            for space, count in self.incomplete.items()
        ]
        if self.languages and set(self.languages) != {ENGLISH}:
            shares = (
                f"{language_name(code)} {share:.0%}"
                for code, share in self.languages.items()
                if share >= 0.01
            )
            lines.append(f"languages of the captions: {', '.join(shares)}")
        if self.unread:
            lines.append(
                f"no installed encoder reads the captions of {counted(len(self.unread), 'picture')},"
                f" which can be found only by their pixels; {MORE_LANGUAGES}"
            )
        kinds = (("skipped", self.skipped), ("read with a note", self.warnings), ("not read", self.unread))
        for title, problems in kinds:
            lines += _cut(_by_reason(title, problems), listed, title)
        return [_CONTROL.sub(lambda found: repr(found[0])[1:-1], line) for line in lines]

    def __str__(self) -> str:
        """All of `lines`."""
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        return f"<pre>{html.escape(str(self))}</pre>"


def _cut(lines: list[str], listed: int, title: str) -> list[str]:
    more = len(lines) - listed
    return lines if more <= 0 else [*lines[:listed], f"{title}: and {more:,} more"]


def _by_reason(title: str, problems: Sequence[Problem]) -> list[str]:
    """A line for each file; many files with one reason are one line, after the others."""
    same = Counter(one.reason for one in problems)
    lines = [f"{title}: {one.path}: {one.reason}" for one in problems if same[one.reason] <= 3]
    first = {one.reason: one.path for one in reversed(problems)}
    several = ((reason, count) for reason, count in same.most_common() if count > 3)
    return lines + [
        f"{title}: {first[reason]} and {counted(count - 1, 'more file')}: {reason}"
        for reason, count in several
    ]


def _forgetting(path: str, library: str) -> str:
    """Command that treats the missing pictures of a folder as deleted."""
    return f"limner index {quote(path)} --library {quote(library)} --forget"


# reading


@dataclass(frozen=True)
class ReadFile:
    """One file that was read.

    Attributes:
        found: the file as found.
        file: as it is to be stored.
        pixels: properties of the picture; None if it is unusable or unchanged.
        prepared: (H, W, 3) bytes by encoder name, for the encoders that need this picture.
        lasting: False if another try may succeed without a change of the file.
    """

    found: find.FoundFile
    file: File
    pixels: Pixels | None = None
    prepared: dict[str, ByteArray] = field(default_factory=dict)
    lasting: bool = True


@dataclass
class Reader:
    """Reader of files; thread-safe. The encoders of a content are claimed by the first file with it.

    Attributes:
        library: looked up for what a picture lacks.
        encoders: encoders that may need pixels.
        captions: whether captions are kept.
        ocr: reader of the text in pictures; None does not read it.
        untold: contents whose text is to be read though the library has them.
    """

    library: Database
    encoders: Sequence[ImageEncoder]
    captions: bool = True
    ocr: OcrEngine | None = None
    untold: frozenset[str] = frozenset()
    _claimed: set[str] = field(default_factory=set)
    _claiming: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, found: find.FoundFile) -> ReadFile:
        """Read one file; an unusable file is returned with the reason."""
        file = _file(found, captions=self.captions)
        take_warnings()
        try:
            read = read_file(found.path)
            sha256, file = read.sha256, replace(file, size=read.size)
            if read.mtime_ns >= 0:  # otherwise the time of the walk
                file = replace(file, mtime_ns=read.mtime_ns, stamp=read.stamp)
            if sha256 == found.expected and not found.sidecars:
                return ReadFile(found, replace(file, sha256=sha256))
            side_px = max((encoder.side_px for encoder in self.encoders), default=HASH_SIDE_PX)
            suffix = os.path.splitext(found.path)[1].lower().decode("ascii", "replace")  # noqa: PTH122
            decoded = decode(read.data, side_px, suffix)
            needed, untold = self._needs(sha256)
            prepared = {one.name: _prepare(one, decoded.rgb) for one in needed}
            text = self._text(decoded, read.data, suffix) if untold else None
        except PictureError as error:
            reason = str(error)[:_MAX_REASON_CHARS]
            file = replace(file, skipped=reason, mtime_ns=file.mtime_ns if error.lasting else -1)
            return ReadFile(found, file, lasting=error.lasting)
        pixels = Pixels(
            decoded.width_px, decoded.height_px, decoded.format, f"{phash(decoded.rgb):016x}", text=text
        )
        inside = embedded(decoded.loaded)
        words = self._words(found, replace(inside, warnings=(*inside.warnings, *take_warnings())))
        return ReadFile(found, replace(file, sha256=sha256, words=words), pixels, prepared)

    def _needs(self, sha256: str) -> tuple[list[ImageEncoder], bool]:
        """Encoders whose vector a picture lacks, and whether its text is to be read; only once for each."""
        with self._claiming:
            if sha256 in self._claimed:
                return [], False
            self._claimed.add(sha256)
        lacking = self.library.lacking(sha256, [name for one in self.encoders for name in one.spaces])
        untold = self.ocr is not None and (lacking is None or sha256 in self.untold)
        if lacking is None:
            return list(self.encoders), untold
        return [one for one in self.encoders if not one.spaces.keys().isdisjoint(lacking)], untold

    def _text(self, decoded: Decoded, data: bytes, suffix: str) -> str | None:
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

    def _words(self, found: find.FoundFile, inside: Words) -> Words:
        """Captions of all sources, the user's own first."""
        origins = (found.words, read_sidecars(found.sidecars, found.path), inside, words_of_name(found.path))
        every = merge(origins)
        # descriptions first: keywords make bad captions
        kept = sorted(every.captions, key=lambda caption: caption.source == KEYWORDS)
        return replace(every, captions=tuple(kept) if self.captions else ())


def _prepare(encoder: ImageEncoder, rgb: Image) -> ByteArray:
    try:
        return encoder.prepare(rgb)
    except (ValueError, ZeroDivisionError, MemoryError) as error:
        raise PictureError(
            f"{encoder.name} cannot use a picture of {rgb.size[0]} × {rgb.size[1]}: {error}"
        ) from error


def _file(found: find.FoundFile, *, captions: bool) -> File:
    """A file as found, not yet read."""
    content = " ".join((found.words_key, *(sorted(CAPTION_SOURCES) if captions else ())))
    beside = hashlib.sha256(content.encode()).hexdigest()[:16]
    return File(os.fsdecode(found.path), found.size, found.mtime_ns, found.stamp, beside)


def encode(chunk: Sequence[ReadFile], encoders: Sequence[ImageEncoder]) -> Counter[str]:
    """Run every encoder over the pictures of a chunk that were prepared for it, and keep their vectors.

    Returns:
        Number of pictures by encoder.
    Raises:
        NumericsError: a vector is not finite.
    """
    encoded: Counter[str] = Counter()
    for encoder in encoders:
        some = [one for one in chunk if one.pixels is not None and encoder.name in one.prepared]
        for start in range(0, len(some), BATCH_PICTURES):
            batch = some[start : start + BATCH_PICTURES]
            made = encoder.encode_pixels(np.stack([one.prepared.pop(encoder.name) for one in batch])).spaces
            for space, dim in encoder.spaces.items():
                where = f"{encoder.name} ({display(batch[0].found.path)} …)"
                expect(where, vectors=(made[space], f"{len(batch)} {dim}"))
                for one, vector in zip(batch, unit_rows(where, made[space]), strict=True):
                    if one.pixels is not None:
                        one.pixels.vectors[space] = vector
            encoded[encoder.name] += len(batch)
    return encoded


# captions


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


def caption_encoders(made: Mapping[str, SpaceInfo]) -> Sentences:
    """Open the encoders of a library's spaces of captions.

    Args:
        made: the spaces of the library.
    Raises:
        LimnerError: see `limner.encoders.catalogue.sentence_encoder`.
    """
    return sentences_of(
        text_encoder() if CAPTIONS in made else None,
        sentence_encoder(made[MULTILINGUAL].encoder) if MULTILINGUAL in made else None,
    )


def encode_captions(
    library: Database,
    sentences: Sentences | None = None,
    *,
    progress: Progress | None = None,
    stopped: Callable[[], bool] = lambda: False,
    most: int | None = None,
) -> int:
    """Encode the captions that have no vectors yet; return the number of pictures.

    Args:
        library: the library.
        sentences: encoders of its spaces of captions; None opens those that made them.
        progress: receiver of the number of encoded pictures.
        stopped: function called between batches; True ends the work.
        most: number of captions from which they are left to the next run of indexing.
    Raises:
        CheckpointError: the library's captions were encoded by another version.
    """
    spaces, shares = library.settings.spaces, library.settings.languages
    progress, done = progress or Progress(), 0
    sentences = caption_encoders(spaces) if sentences is None else sentences
    for space, (encoder, reads) in sentences.items():
        if space in spaces and spaces[space].fingerprint != encoder.fingerprint:
            raise CheckpointError(
                f"{library.place}: its captions were encoded by another version; run 'limner index' first"
            )
        count = 0
        while not stopped():
            lagging = [after for after, names in library.lagging("words", [space]).items()]
            if not lagging:
                break
            last, texts = library.numbered("words", lagging[0], TEXTS_AT_ONCE)
            if most is not None and len(texts) > most:
                break
            read = {number: readable_captions(some, reads, shares) for number, some in texts.items()}
            vectors = _mean_vectors(encoder, {number: some for number, some in read.items() if some})
            for number in [one for one, vector in vectors.items() if not vector.any()]:
                progress.note(f"{space}: the encoder cannot read {read[number][0][:60]!r}; it is left out")
            if library.fill("words", lagging[0], last, {space: vectors}):
                count += len(vectors)
                progress.advance(len(vectors))
        done = max(done, count)
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


def _mean_vectors(encoder: TextEncoder, texts: Mapping[int, Sequence[str]]) -> dict[int, FloatArray]:
    """Unit mean (D,) of the unit vectors of the texts of each number."""
    # equal captions are common (keywords of one event) and encoded once
    wordings = list(dict.fromkeys(chain.from_iterable(texts.values())))
    if not wordings:
        return {}
    unit = unit_rows("captions", encoder.encode_text(wordings))
    place = {wording: number for number, wording in enumerate(wordings)}
    sums = np.stack([unit[[place[text] for text in some]].sum(axis=0) for some in texts.values()])
    return dict(zip(texts, unit_rows("captions", sums), strict=True))


# the run


def index(
    sources: Sequence[str | os.PathLike[str]],
    library: Database | str | os.PathLike[str],
    *,
    image_encoders: Sequence[ImageEncoder] = (),
    text_encoder: TextEncoder | None = None,
    multilingual: SentenceEncoder | None = None,
    captions: bool = True,
    follow_links: bool = False,
    forget: bool = False,
    workers: int | None = None,
    ocr: OcrEngine | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> IndexReport:
    """Bring a library up to date with its pictures.

    Only new and changed files are read. Missing files under `sources` are forgotten; files of other sources
    are left as they are. Missing vectors of existing pictures are computed, whether or not their files
    changed. A file whose content the library knows from a missing file has moved.

    Where a folder of `sources` is not there, or all pictures known below it are missing, or more than half
    of them and `MANY` or more, its drive may be away: they stay in the library, and the report names them.

    Args:
        sources: folders or pictures; none for all indexed so far.
        library: the library, or its path; created if missing.
        image_encoders: encoders of the pixel spaces.
        text_encoder: encoder of the space "captions"; None leaves that unchanged. It reads English; without
            `multilingual` it gets captions in all languages.
        multilingual: encoder of the space "multilingual", for captions in all languages that it reads, so
            that a text finds captions in other languages; None leaves that unchanged.
        captions: whether captions are kept; False also forgets their spaces.
        follow_links: whether to enter linked folders.
        forget: whether to forget all missing pictures, however many.
        workers: number of threads that decode; None for one per core.
        ocr: reader of the text in pictures, for the space "ocr", whose vectors `text_encoder` computes; None
            leaves that unchanged.
        progress: receiver of the progress.
        stop: function called between files; once it returns True, what was read is stored and the run ends,
            as after Ctrl-C.
    Raises:
        MissingError: a source does not exist and has no known pictures, or no source exists.
        ConfigError: two encoders have the same space, or a source is a list.
        NumericsError: an encoder computed a vector that is not finite.
    """
    progress = progress or Progress()
    roots, away = _there(sources, library, forget=forget)  # before anything is created
    opened = library if isinstance(library, Database) else Database(library)
    with pillow_warnings(), _stop_on_interrupt() as interrupted:

        def stopped() -> bool:
            return interrupted() or stop()

        told: list[str] = []

        def waiting() -> bool:
            if not told:
                told.append(
                    "another 'limner index' is adding to this library; this one waits (Ctrl-C ends it)"
                )
                progress.note(told[0])
            return not stopped()

        with opened.indexing(waiting):
            known = opened.settings.sources
            uploads = opened.folder / "uploads"
            left = any(one.endswith(f"{os.sep}uploads") and _is_gone(one) for one in known)
            if uploads.is_dir() and (left or not known):  # of a library that was moved, or made anew
                roots = tuple(dict.fromkeys((*roots, os.fsdecode(find.source_path(uploads)))))
            if not roots and not away:
                raise ConfigError(
                    "index: no sources, and the library has none yet; name a folder of pictures"
                )
            run = _IndexRun(
                opened,
                roots,
                away,
                image_encoders,
                sentences_of(text_encoder, multilingual) if captions else {},
                captions=captions,
                follow_links=follow_links,
                forget=forget,
                workers=workers or cores(),
                progress=progress,
                stopped=stopped,
                ocr=None if text_encoder is None else ocr,
                reads_ocr=text_encoder,
            )
            run.agree()
            run.catch_up()
            run.read_all()
            return run.finish()


def _there(
    sources: Sequence[str | os.PathLike[str]], library: Database | str | os.PathLike[str], *, forget: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Separate the existing sources from the missing ones of the library; raises as `index`."""
    opened: Database | None = library if isinstance(library, Database) else None
    if not isinstance(library, Database) and exists(Path(library)):
        opened = Database(library)
    known = () if opened is None else opened.settings.sources
    roots, away = dict[str, None](), dict[str, MissingError]()
    for source in sources or known:
        if find.is_list(os.fsencode(source)):
            raise ConfigError(f"{os.fspath(source)}: a list of pictures; expected a folder or a picture")
        try:
            roots[os.fsdecode(find.source_path(source))] = None
        except MissingError as error:
            path = os.path.abspath(os.fspath(source))  # noqa: PTH100
            if path not in known or address(os.fsencode(source)) is not None:
                raise
            away[path] = error
    if away and not roots and not forget:
        path, why = next(iter(away.items()))
        place = library.place if isinstance(library, Database) else os.fspath(library)
        raise MissingError(
            f"{why}; its pictures stay in the library; if they are gone for good: {_forgetting(path, place)}"
        )
    return tuple(roots), tuple(away)


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
class _IndexRun:
    """One run of indexing and its counts.

    Attributes:
        roots, away: sources that exist, and those that do not.
        met: paths of all files that are still there.
        lacking: contents of which a vector or the text is missing.
        caught_up: contents that a new encoder has seen in this run.
        arrivals: paths at which contents were read for the first time, by content.
        unlisted: folders that could not be listed.
        pending: files that were read but not stored.
    """

    library: Database
    roots: tuple[str, ...]
    away: tuple[str, ...]
    encoders: Sequence[ImageEncoder]
    sentences: Sentences
    captions: bool
    follow_links: bool
    forget: bool
    workers: int
    progress: Progress
    stopped: Callable[[], bool]
    ocr: OcrEngine | None
    reads_ocr: TextEncoder | None
    met: set[str] = field(default_factory=set)
    lacking: frozenset[str] = frozenset()
    caught_up: set[str] = field(default_factory=set)
    arrivals: dict[str, list[str]] = field(default_factory=dict)
    unlisted: list[str] = field(default_factory=list)
    reading: dict[str, str] = field(default_factory=dict)
    pending: list[File] = field(default_factory=list)
    pixels: dict[str, Pixels] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)
    encoded: Counter[str] = field(default_factory=Counter)
    moved: Counter[tuple[str, str]] = field(default_factory=Counter)
    missing: list[MissingFolder] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    out_of_reach: list[Problem] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    stored: float = field(default_factory=time.monotonic)

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
        settings = self.library.settings
        spaces = {
            name: info
            for name, info in settings.spaces.items()
            if self.captions or name not in (CAPTIONS, MULTILINGUAL)
        }
        for space, info in wanted.items():
            if space in spaces and spaces[space] != info:
                self.progress.note(
                    f"{space}: made by {spaces[space].encoder}, now {info.encoder}; computed again"
                )
        self.retry = settings.reader != reader_version()
        self.unfinished = self.resumed = not settings.grouped
        self.known_before = len(self.library) > 0
        changes = {
            "spaces": {**spaces, **wanted},
            "sources": tuple(dict.fromkeys((*settings.sources, *self.roots))),
        }
        if any(getattr(settings, name) != value for name, value in changes.items()):
            self.library.save(**changes)
        if self.ocr is not None:
            self.library.read_by(self.ocr.fingerprint)
        self.library.remove_unused_vectors()
        self.library.align()

    def catch_up(self) -> None:
        """Encode pictures that a new encoder has not seen, in the order of their numbers."""
        names = [name for one in self.encoders for name in one.spaces]
        for start, spaces in self.library.lagging("picture", names).items():
            encoders = [one for one in self.encoders if not one.spaces.keys().isdisjoint(spaces)]
            self.progress.stage("pictures", None)
            after = start
            while not self.stopped():
                last, some = self.library.numbered("picture", after, COMMIT_FILES)
                if last == after:
                    break
                with closing(
                    ahead(some.values(), _again(encoders), workers=self.workers, in_flight=64)
                ) as read:
                    vectors: dict[str, dict[int, FloatArray]] = {name: {} for name in spaces}
                    numbered = zip(some, read, strict=True)
                    while batch := list(islice(numbered, BATCH_PICTURES)):
                        files = [one for _, one in batch if one is not None]
                        self.encoded += encode(files, encoders)
                        for number, one in batch:
                            if one is not None and one.pixels is not None:
                                for name in spaces:
                                    vectors[name][number] = one.pixels.vectors[name]
                        self.progress.advance(len(batch))
                        self.caught_up |= {one.file.sha256 for one in files}
                self.library.fill("picture", after, last, vectors)
                after = last
        if self.known_before:
            self.lacking = self.library.incomplete(names, untold=self.ocr is not None)

    def read_all(self) -> None:
        """Walk, read, encode and store everything that is new or changed."""
        self.progress.stage("pictures", None)
        threading.Thread(target=self._count, daemon=True).start()
        reader = Reader(self.library, self.encoders, self.captions, self.ocr, self.lacking)
        in_flight = self.workers + 3 * BATCH_PICTURES
        chunk: list[ReadFile] = []
        with closing(ahead(self._todo(), reader, workers=self.workers, in_flight=in_flight)) as results:
            for result in results:
                chunk.append(result)
                if self.stopped():
                    break  # at once, not only after the rest of a batch
                if (
                    sum(len(one.prepared) > 0 for one in chunk) >= BATCH_PICTURES
                    or len(chunk) >= COMMIT_FILES
                ):
                    self._take(chunk)
                    chunk = []
        if not self.stopped():
            self._take(chunk)
        self._store()

    def _take(self, chunk: Sequence[ReadFile]) -> None:
        """Encode what was read, and store it if it is much."""
        self.encoded += encode(chunk, self.encoders)
        for one in chunk:
            file, path = one.file, one.file.path
            reason = self.reading.pop(path, "")
            if file.skipped and not one.lasting and self._holds(path):
                self.out_of_reach.append(Problem(path=path, reason=f"{file.skipped}; {_STAYS}"))
                self.count["unusable"] += 1
                continue
            if file.skipped:
                self.count["unusable"] += 1
            elif reason == "uncertain":
                self.count["unchanged" if file.sha256 == one.found.expected else "changed"] += 1
            else:
                self.count[reason] += 1
            if reason == "new" and file.sha256:
                self.arrivals.setdefault(file.sha256, []).append(path)
            self.pending.append(file)
            if one.pixels is not None:
                before = self.pixels.get(file.sha256)
                if before is None or one.pixels.vectors or one.pixels.text is not None:
                    self.pixels[file.sha256] = one.pixels
                self.count["read"] += 1
            if file.words is not None and file.words.warnings:
                self.warnings.append(Problem(path=path, reason="; ".join(file.words.warnings)))
        self.progress.advance(len(chunk))
        if len(self.pending) >= COMMIT_FILES or time.monotonic() - self.stored > COMMIT_S:
            self._store()

    def _store(self) -> None:
        """Store what was read."""
        if self.pending:
            if not self.unfinished:
                self.library.save(grouped=False)
                self.unfinished = True
            self.library.add(self.pending, self.pixels)
        self.pending, self.pixels, self.stored = [], {}, time.monotonic()

    def _holds(self, path: str) -> bool:
        """Whether a file was usable when it was last read."""
        known = self.library.known([path])[0]
        return known is not None and bool(known.sha256)

    def _count(self) -> None:
        # `find.walk` reports the same error; the bar only lacks a total
        with suppress(OSError, DataError):
            total = find.count_files(
                [os.fsencode(root) for root in self.roots], follow_links=self.follow_links
            )
            self.progress.total(total)

    def _todo(self) -> Iterator[find.FoundFile]:
        """Yield the files to read; all others are counted."""
        files = self._files()
        while some := list(islice(files, LOOKED_UP)):
            known = self.library.known([_name(entry.path) for entry in some])
            left = 0
            for entry, before in zip(some, known, strict=True):
                if self.stopped():
                    return
                reason = self._reason(entry, before)
                if reason in ("unchanged", "unusable"):
                    caught_up = before is not None and before.sha256 in self.caught_up
                    self.count["completed" if caught_up else reason] += 1
                    left += 1
                elif isinstance(entry, find.FoundFile):
                    self.reading[_name(entry.path)] = reason
                    expected = before.sha256 if reason == "uncertain" and before is not None else ""
                    yield replace(entry, expected=expected)
            self.progress.advance(left)

    def _files(self) -> Iterator[find.FoundFile | find.UnusableFile]:
        """Yield files that should be pictures, usable ones once; all others are counted."""
        for entry in find.walk([os.fsencode(root) for root in self.roots], follow_links=self.follow_links):
            if self.stopped():
                return
            if isinstance(entry, find.TablesRead):
                self.tables.append(str(entry))
            elif isinstance(entry, find.OtherFile):
                self.count["other_files"] += 1
            elif isinstance(entry, find.VideoFile):
                self.count["videos"] += 1
            elif isinstance(entry, find.UnusableFile):
                yield entry
            elif (name := _name(entry.path)) not in self.met:
                self.met.add(name)
                yield entry if name == os.fsdecode(entry.path) else _unnamed(entry)

    def _reason(self, entry: find.FoundFile | find.UnusableFile, known: File | None) -> str:
        """Why a file must be read; "unchanged", "unusable", or "uncertain" if only its content tells."""
        if isinstance(entry, find.UnusableFile):
            self._unusable(entry, known)
            return "unusable"
        if known is None:
            return "new"
        same = (known.mtime_ns, known.size) == (entry.mtime_ns, entry.size)
        stamped = known.stamp in ("", entry.stamp)
        if known.skipped:
            return "unusable" if same and stamped and not self.retry else "changed"
        if not same or known.beside != _file(entry, captions=self.captions).beside:
            return "changed"
        if known.sha256 in self.lacking:
            return "completed"
        return "unchanged" if stamped else "uncertain"

    def _unusable(self, entry: find.UnusableFile, known: File | None) -> None:
        """Store the reason why a file cannot be used, unless it was used and may only be out of reach."""
        path = _name(entry.path)
        if entry.folder:
            self.unlisted.append(path)
        if known is not None and known.sha256:
            if _is_gone(path):
                return  # a table still lists it; it may have moved
            self.met.add(path)
            self.out_of_reach.append(Problem(path=path, reason=f"{entry.reason}; {_STAYS}"))
            return
        self.met.add(path)
        reason = entry.reason[:_MAX_REASON_CHARS]
        earlier = next((one for one in self.pending if one.path == path), None)
        if earlier is not None:
            self.pending.remove(earlier)
            reason = f"{earlier.skipped}; {reason}"
        if known is None or known.skipped != reason:
            self.pending.append(File(path, skipped=reason))

    def finish(self) -> IndexReport:
        """Forget deleted files, complete captions and groups, and report."""
        library, encoded = self.library, 0
        if not self.stopped():
            gone = self._move(self._gone())
            self._forget(gone)
        if not self.stopped():
            encoded = self._captions()
        if self.unfinished and not self.stopped():
            library.near(_grouped)
            library.save(grouped=True)
        if self.retry and not self.stopped():
            library.save(reader=reader_version())
        library.settle()
        counts = library.counts()
        seconds = max(time.monotonic() - self.started, 1e-9)
        kinds = ("new", "changed", "unchanged", "completed", "moved", "unusable")
        incomplete = {
            space: counts.pictures - held
            for space, held in library.vectors().items()
            if space not in WORDED_SPACES and held < counts.pictures
        }
        outside = [one for one in library.skipped() if self._root_of(one.path) is not None]
        return IndexReport(
            **{kind: self.count[kind] for kind in (*kinds, "deleted", "videos", "other_files")},
            found=sum(self.count[kind] for kind in kinds),
            moved_folders=tuple(
                MovedFolder(before=before, now=now, files=files)
                for (before, now), files in self.moved.most_common()
            ),
            missing=tuple(self.missing),
            tables=tuple(self.tables),
            skipped=tuple(sorted((*outside, *self.out_of_reach), key=lambda one: one.path)),
            warnings=tuple(self.warnings),
            exact_duplicates=counts.duplicates,
            near_groups=counts.near_groups,
            near_pictures=counts.near_pictures,
            pictures=counts.pictures,
            encoded={one.name: self.encoded[one.name] for one in self.encoders},
            captions_encoded=encoded,
            languages=library.settings.languages,
            unread=tuple(self._unread()) if MULTILINGUAL in self.sentences and not self.stopped() else (),
            incomplete=incomplete,
            seconds=seconds,
            pictures_per_s=self.count["read"] / seconds,
            interrupted=self.stopped(),
        )

    def _captions(self) -> int:
        """Encode captions with the encoders of their languages; number of pictures."""
        library = self.library
        if MULTILINGUAL in self.sentences and (self.unfinished or not library.settings.languages):
            every = max(1, len(library) // _SHARES_FROM)
            shares = languages_of([text for *_, text in library.first_captions(every)]).shares
            if shares != library.settings.languages:
                library.save(languages=shares)
        self.progress.stage("captions", None)
        done = encode_captions(library, self.sentences, progress=self.progress, stopped=self.stopped)
        if self.ocr is not None and self.reads_ocr is not None and not self.stopped():
            self._encode_texts(self.reads_ocr)
        return done

    def _encode_texts(self, encoder: TextEncoder) -> None:
        """Encode the text in pictures."""
        waiting = iter(self.library.texts_without_vector().items())
        while (texts := dict(islice(waiting, TEXTS_AT_ONCE))) and not self.stopped():
            vectors = _mean_vectors(encoder, {number: [text] for number, text in texts.items() if text})
            self.library.put(OCR, {number: vectors.get(number) for number in texts})

    def _unread(self) -> list[Problem]:
        """Pictures with captions that no encoder reads, by path, with the language."""
        library, shares = self.library, self.library.settings.languages
        gallery = library.index(list(self.sentences)).gallery
        held = np.any([space.present for space in gallery.spaces.values()], axis=0)
        known = {picture for picture, one in zip(gallery.ids, held.tolist(), strict=True) if one}
        codes = {
            picture: language_of(text, shares).code
            for picture, _, text in library.first_captions()
            if picture not in known
        }
        pictures = sorted(library.pictures(codes), key=lambda picture: picture.path)
        return [Problem(path=one.path, reason=language_name(codes[one.id])) for one in pictures]

    def _gone(self) -> dict[str, tuple[str, str]]:
        """Content and source of the known files that were not found, by path."""
        found: dict[str, tuple[str, str]] = {}
        for root in (*self.roots, *self.away):
            for path, sha256 in self.library.unmet(root, self.met.__contains__):
                source = self._root_of(path)
                if source is not None:
                    found[path] = sha256, source
        return found

    def _move(self, gone: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
        """Forget missing files whose content has a new path; returns the others."""
        away: list[str] = []
        lost = self.library.repeated() if self.resumed else []
        for sha256 in [one for one in (*self.arrivals, *lost) if self.known_before]:
            paths = self.library.paths_of(sha256)
            there = [path for path in paths if path in self.met]
            arrived = self.arrivals.get(sha256, [])
            for path in paths:
                if path in self.met or path in away or not (path in gone or _is_gone(path)):
                    continue
                now = arrived or (there if self.resumed else [])
                if not now:
                    continue
                self.count["new" if arrived else "unchanged"] -= 1
                self.count["moved"] += 1
                self.moved[_folders(path, now)] += 1
                arrived = arrived[1:]
                away.append(path)
        if away:
            self.library.remove(away)
            self._drop_sources()
        return {path: one for path, one in gone.items() if path not in away}

    def _forget(self, gone: dict[str, tuple[str, str]]) -> None:
        """Forget the files of these sources that were not found.

        If so much of a source is missing that a drive may be disconnected, its files stay.
        """
        lost = Counter(root for sha256, root in gone.values() if sha256)
        for root, count in sorted(lost.items()) if not self.forget else ():
            known = self.library.count_below(root)
            if root in self.away or count == known or (count >= MANY and 2 * count > known):
                place = self.library.place
                self.missing.append(MissingFolder(path=root, library=place, missing=count, known=known))
        doubtful = {one.path for one in self.missing}
        left = [path for path, (_, root) in gone.items() if root not in doubtful]
        self.count["deleted"] += sum(gone[path][0] != "" for path in left)
        if left:
            self.library.remove(left)
            if not self.unfinished:
                self.library.save(grouped=False)
                self.unfinished = True
        self._drop_sources()

    def _root_of(self, path: str) -> str | None:
        """Source of this run that contains a file, or None."""
        if any(path.startswith(folder + os.sep) for folder in self.unlisted):
            return None
        # a walk skips the library's own folder, and so uploaded pictures
        home = str(self.library.folder.resolve()) + os.sep
        roots = (
            root for root in (*self.roots, *self.away) if root.startswith(home) or not path.startswith(home)
        )
        inside = (root for root in roots if path == root or path.startswith(root.rstrip(os.sep) + os.sep))
        return max(inside, key=len, default=None)

    def _drop_sources(self) -> None:
        """Remove missing sources without any pictures from the settings."""
        sources = self.library.settings.sources
        kept = tuple(one for one in sources if not _is_gone(one) or self.library.count_below(one))
        if kept != sources:
            self.library.save(sources=kept)


def _again(encoders: Sequence[ImageEncoder]) -> Callable[[tuple[str, str]], ReadFile | None]:
    """Function that reads a known picture for encoders; None if it cannot be read or has changed."""
    side_px = max(encoder.side_px for encoder in encoders)

    def read(picture: tuple[str, str]) -> ReadFile | None:
        sha256, path = picture
        try:
            file = read_file(os.fsencode(path))
            if file.sha256 != sha256:
                return None
            decoded = decode(file.data, side_px, Path(path).suffix.lower())
            prepared = {one.name: _prepare(one, decoded.rgb) for one in encoders}
        except PictureError:
            return None
        pixels = Pixels(decoded.width_px, decoded.height_px, decoded.format, "")
        found = find.FoundFile(os.fsencode(path), file.size, file.mtime_ns, b"")
        return ReadFile(found, File(path, sha256=sha256), pixels, prepared)

    return read


def _name(path: bytes) -> str:
    """Name of a file in the library; bytes that are not UTF-8 are escaped."""
    text = os.fsdecode(path)
    return text if text.isprintable() or _is_utf8(text) else display(path)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unnamed(entry: find.FoundFile) -> find.UnusableFile:
    return find.UnusableFile(entry.path, entry.source, "its name is not UTF-8; rename it to use it")


def _is_gone(path: str) -> bool:
    """Whether a path is known not to exist; False for URLs."""
    if address(os.fsencode(path)) is not None:
        return False
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _grouped(rows: list[tuple[int, str, str | None, str, int, int]]) -> list[int]:
    """Number of the first picture of each one's group of near-duplicates; see `Database.near`."""
    hashes = np.fromiter((int(row[1], 16) for row in rows), np.uint64, len(rows))
    # Time zones do not matter: a burst is of one camera.
    taken = np.array([_clock(row[2]) for row in rows], np.float64)
    numbered: dict[tuple[tuple[object, ...], int], int] = {}
    for at, (_, _, time_taken, path, *size) in enumerate(rows):
        if not np.isnan(_clock(time_taken)):
            continue
        folder, name = os.path.split(path)
        stem, suffix = os.path.splitext(name)  # noqa: PTH122
        if (found := camera_number(stem)) is not None:
            numbered[(folder, suffix, *size, found[0]), found[1]] = at
    pairs = [
        (at, numbered[series, number + 1])
        for (series, number), at in numbered.items()
        if (series, number + 1) in numbered
    ]
    both = np.array(pairs, np.int64).reshape(-1, 2)
    groups = near_groups(hashes, taken=taken, frames=(both[:, 0], both[:, 1]))
    return [rows[at][0] for at in groups.tolist()]


def _clock(text: str | None) -> float:
    """Local time in seconds, ignoring time zones; NaN without a time of day, as for scans."""
    if not text or text[11:19] == "00:00:00":
        return float("nan")
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def _folders(before: str, now: Sequence[str]) -> tuple[str, str]:
    """Old and new folder in which a file's paths differ; of several paths, the most similar."""

    def alike(path: str) -> int:
        """Number of equal parts at the end."""
        pairs = zip(reversed(Path(path).parts), reversed(Path(before).parts), strict=False)
        return next((place for place, (one, other) in enumerate(pairs) if one != other), 0)

    best = max(now, key=alike)
    old, new = (Path(*Path(path).parts[: -max(1, alike(best))]) for path in (before, best))
    return str(old), str(new)
