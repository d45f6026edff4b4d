"""From read files to rows: encode pictures in batches, gather what is due, write it.

It holds what is read but not yet written, which is all that a kill can lose. It walks no folders and
decides nothing about files.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from limner.data.images import display
from limner.data.words import CaptionSource
from limner.retrieval.commits import FileRow, Labels, file_row, vector_table, write
from limner.retrieval.completion import ids_of
from limner.retrieval.digests import DigestSet
from limner.retrieval.library import Library
from limner.retrieval.reading import Pixels, ReadFile
from limner.retrieval.reports import Problem, Progress
from limner.retrieval.store import vectors_name
from limner.shapes import expect
from limner.similarity import ImageEncoder, unit_rows

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

    def due(self, files: int, seconds: float) -> bool:
        """Whether so many files are pending, or so much time has passed since the last write."""
        late = time.monotonic() - self._written > seconds
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
        import pyarrow as pa

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
