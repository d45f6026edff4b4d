"""Data for the library page in addition to the catalogue: pictures used in projects, and the user's captions.

Caches what is slow to compute: the pictures of each project, and the caption encoders.
"""

from __future__ import annotations

import os
import threading
from functools import lru_cache

from limner.errors import DataError
from limner.files import display
from limner.records import Picture
from limner.scale.catalogue import Facets, Only, Order
from limner.scale.library import PictureStore, spaces_of
from limner.scale.words import Described, PictureWords, caption_encoders, words_of, write_words
from limner.scale.write import CAPTIONS, MULTILINGUAL, Sentences
from limner.studio.engine import Engine
from limner.studio.projects import FILE, Projects


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
        """See `page` and `months` of `limner.scale.catalogue.Catalogue`; a used picture is shown by a
        project.
        """
        used = self.used() if only.used is not None else frozenset()
        catalogue = self._engine.illustrator().catalogue
        total, found = catalogue.page(offset, limit, words, only=only, used=used, order=order)
        return total, found, {} if order == "path" else catalogue.months(words, only, used, order)

    def facets(self) -> Facets:
        """The values by which pictures can be filtered."""
        asked = self._engine.illustrator()
        sources = [display(os.fsencode(one)) for one in asked.library.settings.sources]
        return asked.catalogue.facets(self.used(), sources)

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
        """See `limner.scale.words.words_of`."""
        return words_of(PictureStore.open(self._engine.place), picture)

    def write(self, picture: str, words: Described | None) -> PictureWords:
        """See `limner.scale.words.write_words`; the studio shows the new captions at once."""
        library = PictureStore.open(self._engine.place)
        made = library.settings.spaces.keys() & {CAPTIONS, MULTILINGUAL}
        try:
            return write_words(library, picture, words, _encoders(library.place, frozenset(made)))
        finally:
            self._engine.refresh()


@lru_cache(maxsize=4)
def _encoders(place: str, spaces: frozenset[str]) -> Sentences:
    """Caption encoders of a library."""
    made = spaces_of(place)
    return caption_encoders({space: made[space] for space in spaces})
