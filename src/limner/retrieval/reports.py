"""What indexing tells while it runs and when it is done.

The command line draws a bar from `Progress` and prints an `IndexReport`, also as JSON. Nothing here indexes.
"""

import html
from typing import Protocol

from pydantic import Field

from limner.data.language import ENGLISH, MORE_LANGUAGES, language_name
from limner.data.records import Record


class Progress(Protocol):
    """Receives how far a long job is."""

    def stage(self, name: str, total: int | None) -> None:
        """A new part of the job begins, of `total` units where that is known."""
        ...

    def total(self, total: int) -> None:
        """The number of units of this part has become known."""
        ...

    def advance(self, count: int) -> None:
        """So many more units are done."""
        ...

    def note(self, line: str) -> None:
        """A line the user should see."""
        ...


class Silent:
    """Progress that nobody watches."""

    def stage(self, name: str, total: int | None) -> None:
        """Ignore."""

    def total(self, total: int) -> None:
        """Ignore."""

    def advance(self, count: int) -> None:
        """Ignore."""

    def note(self, line: str) -> None:
        """Ignore."""


class Problem(Record):
    """A file and what is wrong with it."""

    path: str
    reason: str


class IndexReport(Record):
    """What one run of indexing did.

    Attributes:
        found: files with a picture's suffix, links and unreadable ones included.
        other_files: files that are no pictures by suffix.
        new: read for the first time, or back after having been deleted.
        changed: read again because the file, its sidecars or its row of a table changed.
        unchanged: left alone.
        completed: unchanged files read for a vector that was missing.
        deleted: marked as gone.
        skipped: not usable, whether found now or by an earlier run.
        warnings: usable pictures with damaged metadata, met in this run.
        exact_duplicates: present files beyond the first of each picture, in the whole library.
        near_groups: near-duplicate groups of two or more pictures, in the whole library.
        near_pictures: pictures in them.
        pictures: different pictures in the whole library.
        encoded: image encoder → pictures it encoded.
        captions_encoded: pictures whose captions were encoded.
        languages: language → estimated share of the library's captions, largest first.
        unread: pictures whose captions are all in languages that no encoder of the library reads, with the
            language as the reason; in the whole library.
        incomplete: vector space → present pictures that still lack a vector in it.
        seconds: wall time.
        files_per_s, pictures_per_s: files looked at and pictures read, per second of the whole run.
        interrupted: True after Ctrl-C; the same command continues.
    """

    found: int = 0
    other_files: int = 0
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    completed: int = 0
    deleted: int = 0
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
    files_per_s: float = 0.0
    pictures_per_s: float = 0.0
    interrupted: bool = False

    def lines(self, listed: int = 20) -> list[str]:
        """The report in words.

        Args:
            listed: skipped files and warnings named, at most.
        """
        lines = [
            f"pictures in the library: {self.pictures:,}",
            f"files: {self.found:,} ({self.new:,} new, {self.changed:,} changed,"
            f" {self.unchanged:,} unchanged, {len(self.skipped):,} skipped), {self.deleted:,} deleted",
            f"{self.exact_duplicates:,} exact duplicates; {self.near_pictures:,} pictures"
            f" in {self.near_groups:,} near-duplicate groups",
            f"{self.other_files:,} other files; {self.seconds:.1f} s, {self.pictures_per_s:.1f} pictures/s",
        ]
        lines += [
            f"{space}: {count:,} pictures lack a vector" for space, count in self.incomplete.items() if count
        ]
        if self.languages and set(self.languages) != {ENGLISH}:
            shares = ", ".join(
                f"{language_name(code)} {share:.0%}"
                for code, share in self.languages.items()
                if share >= 0.01
            )
            lines.append(f"languages of the captions: {shares}")
        if self.unread:
            lines.append(
                f"{len(self.unread):,} pictures have captions in languages that no installed encoder reads,"
                f" and are found by their pixels alone; {MORE_LANGUAGES}"
            )
        kinds = (("skipped", self.skipped), ("metadata damaged", self.warnings), ("not read", self.unread))
        for title, problems in kinds:
            lines += [f"{title}: {problem.path}: {problem.reason}" for problem in problems[:listed]]
            if len(problems) > listed:
                lines.append(f"{title}: and {len(problems) - listed:,} more")
        return lines

    def __str__(self) -> str:
        """All of `lines`."""
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<pre>{html.escape(str(self))}</pre>"
