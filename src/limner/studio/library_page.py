"""Data for the library page in addition to the store: pictures used in projects, and the user's captions.

Caches what is slow to compute: the pictures of each project, and the caption encoders.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from limner.errors import CheckpointError, DataError
from limner.records import Picture
from limner.store import Described, Facets, Only, Order, PictureWords
from limner.store.index import encode_captions
from limner.studio.engine import Engine
from limner.studio.projects import FILE, Projects

MOST_CAPTIONS = 64
"""Number of captions that are encoded at once when one is written."""


class LibraryPage:
    """Data for the library page."""

    def __init__(self, engine: Engine, projects: Projects) -> None:
        """Set the library and the projects that use its pictures."""
        self._engine, self._projects = engine, projects
        self._shown: dict[str, tuple[int, frozenset[str]]] = {}
        self._lock = threading.Lock()

    def page(
        self, offset: int, limit: int, words: str, only: Only, order: Order
    ) -> tuple[int, list[Picture], dict[str, int]]:
        """See `page` and `months` of `limner.store.Store`; a used picture is shown by a project."""
        used = self.used() if only.used is not None else frozenset()
        library = self._engine.store
        total, found = library.page(offset, limit, words, only=only, used=used, order=order)
        return total, found, {} if order == "path" else library.months(words, only, used, order)

    def facets(self) -> Facets:
        """The values by which pictures can be filtered."""
        return self._engine.store.facets(self.used())

    def used(self) -> frozenset[str]:
        """Ids of all pictures that a project shows; damaged projects are ignored."""
        with self._lock:
            found: dict[str, tuple[int, frozenset[str]]] = {}
            for project in self._projects.ids():
                try:
                    changed = (self._projects.folder / project / FILE).stat().st_mtime_ns
                    before = self._shown.get(project)
                    if before is None or before[0] != changed:
                        before = (changed, self._of_project(project))
                    found[project] = before
                except (OSError, DataError):
                    continue
            self._shown = found
            return frozenset().union(*(shown for _, shown in found.values()))

    def _of_project(self, project: str) -> frozenset[str]:
        board = self._projects.board(self._projects.read(project))
        return frozenset(step.picture.id for step in board.steps if step.picture is not None)

    def words(self, picture: str) -> PictureWords:
        """See `limner.store.Store.words_of`."""
        return self._engine.store.words_of(picture)

    def write(self, picture: str, words: Described | None) -> PictureWords:
        """See `limner.store.Store.write_words`; the studio shows the new captions at once.

        Searches find them at once too, unless a run of indexing has many captions to encode before.
        """
        library = self._engine.store
        library.write_words(picture, words)
        with suppress(CheckpointError):  # then the next run of indexing encodes it
            encode_captions(library, most=MOST_CAPTIONS)
        self._engine.refresh()
        return library.words_of(picture)
