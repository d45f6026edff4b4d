"""A library of Lance tables at a URL, behind the protocol of the product's libraries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from limner.records import Picture, Problem
from limner.scale import catalogue as listed
from limner.scale import ingest, words
from limner.scale.approximate import ApproximateIndex
from limner.scale.known import TableReport
from limner.scale.library import PictureStore, home_of
from limner.scale.search import TableIndex
from limner.scale.write import group_counts
from limner.store import (
    Described,
    Facets,
    LibrarySummary,
    ModelWords,
    Only,
    Order,
    PictureWords,
    Settings,
    Store,
    Taken,
)
from limner.store.vectors import IntArray


class LanceStore(Store):
    """See `limner.store.Store`.

    Attributes:
        place, folder, name: see `limner.store.Store`.
    """

    def __init__(self, place: str, *, make: bool = False) -> None:
        """Open a library.

        Args:
            place: its URL.
            make: whether to create it.
        Raises:
            MissingError: there is none, and none is made, or the object store cannot be reached.
            DataError: it is damaged, or of another version.
        """
        self.library = PictureStore(place) if make else PictureStore.open(place)
        self.place, self.folder = self.library.place, self.library.folder
        self.name = self.library.home.name

    @property
    def _listed(self) -> listed.Catalogue:
        return self.library.catalogue()

    @property
    def settings(self) -> Settings:
        """What it states about itself now."""
        self.library.reread()
        held = self.library.settings
        spaces = dict(held.spaces)
        return Settings(spaces=spaces, sources=held.sources, languages=held.languages)

    def version(self) -> int:
        """Number that any change increases."""
        return sum(self.library.version())

    def counts(self) -> LibrarySummary:
        """Counts of its content."""
        held, (groups, grouped) = self.library.summary(), group_counts(self.library.store)
        return LibrarySummary(
            **held.model_dump(include={"pictures", "files", "skipped", "duplicates", "captioned", "sources"}),
            near_groups=groups,
            near_pictures=grouped,
            alike=self._listed.alike,
            spaces=self.settings.spaces,
            changed_s=self.library.home.changed_s(),
        )

    def vectors(self) -> dict[str, int]:
        """Number of pictures with a vector, by space."""
        return self.library.vectors()

    def __len__(self) -> int:
        """Number of pictures."""
        return len(self.library)

    def __contains__(self, picture: object) -> bool:
        """Whether a picture is shown."""
        return picture in self._listed

    def pictures(self, ids: Iterable[str]) -> list[Picture]:
        """Records by full id, in that order."""
        return self._listed.pictures(list(ids))

    def find(self, name: str | PathLike[str]) -> Picture:
        """Find one picture by its path, file name or id."""
        return self.library.find(name)

    def page(
        self,
        offset: int,
        limit: int,
        words: str = "",
        *,
        only: Only | None = None,
        used: Collection[str] = frozenset(),
        order: Order = "path",
    ) -> tuple[int, list[Picture]]:
        """A part of the list."""
        return self._listed.page(offset, limit, words, only=only or Only(), used=used, order=order)

    def months(self, words: str, only: Only, used: Collection[str], order: Order) -> dict[str, int]:
        """Months of a list in order of time."""
        return self._listed.months(words, only, used, "oldest" if order == "oldest" else "newest")

    def passing(self, only: Only, used: Collection[str] = frozenset()) -> list[str]:
        """Ids of the pictures that meet conditions."""
        return self._listed.passing(only, used)

    def facets(self, used: Collection[str]) -> Facets:
        """Count the pictures of each value of the filters."""
        return self._listed.facets(used, self.settings.sources)

    def duplicates(self, offset: int, limit: int) -> list[tuple[str, list[Picture]]]:
        """Groups of near-duplicates, and pictures with several files, each with its id."""
        return self._listed.duplicates(offset, limit)

    def under(self, places: Sequence[str]) -> list[Picture]:
        """Pictures with a file at one of the paths, or below one of them."""
        return self._listed.under(places)

    def folders_of(self, ids: Iterable[str]) -> IntArray:
        """(K,) number of the folder of each picture's first file."""
        return self._listed.folders_of(ids)

    def folder_name(self, number: int) -> str:
        """Name of a folder, without its parents."""
        return self._listed.folder_name(number)

    def in_folder(self, number: int) -> list[str]:
        """Ids of the pictures whose first file is in a folder, in order of time, then of path."""
        return self._listed.in_folder(number)

    @property
    def folder_sizes(self) -> IntArray:
        """Number of pictures of each folder, by number."""
        return self._listed.folder_sizes

    def words(self) -> Iterable[tuple[str, str]]:
        """Id and each file name and caption of every picture."""
        return self._listed.words()

    def taken(self) -> Taken:
        """When and where the pictures were taken."""
        return self._listed.taken

    def words_shown(self, ids: Iterable[str]) -> dict[str, str]:
        """Text in pictures, by id."""
        return self.library.words_shown(ids)

    def coordinates(self, ids: Iterable[str]) -> dict[str, tuple[float, float]]:
        """Latitude and longitude in degrees, by id."""
        return self.library.coordinates(ids)

    def skipped(self) -> list[Problem]:
        """Files that could not be used, by path."""
        return self.library.skipped()

    def words_of(self, picture: str) -> PictureWords:
        """Captions of a picture."""
        held = words.words_of(self.library, picture)
        by_model = held.described
        return PictureWords(
            now=Described(**held.now.model_dump()),
            stated=Described(**held.stated.model_dump()),
            edited=held.edited,
            described=None
            if by_model is None
            else ModelWords(model=by_model.model, captions=(by_model.sentence,), keywords=by_model.keywords),
            coordinates=held.coordinates,
        )

    def write_words(self, picture: str, words_now: Described | None) -> None:
        """Store the user's captions of a picture."""
        told = None if words_now is None else words.TableCaptions(**words_now.model_dump())
        words.write_words(self.library, picture, told, self._sentences())

    def write_descriptions(self, found: Mapping[str, ModelWords]) -> None:
        """Store a model's captions of pictures by id."""
        rows = {
            picture: words.TableModelWords(model=one.model, sentence=one.captions[0], keywords=one.keywords)
            for picture, one in found.items()
        }
        words.write_descriptions(self.library, rows, self._sentences())

    def remove_descriptions(self, model: str | None = None) -> int:
        """Remove captions by models, or by one."""
        return words.remove_descriptions(self.library, self._sentences(), model)

    def described_by(self) -> dict[str, str]:
        """Who wrote captions, by id of the picture."""
        own = {one: "" for (one,) in self._rows("words", ["id"])}
        return words.described_by(self.library.store) | own

    def sources_of_words(self) -> Iterable[tuple[str, list[str]]]:
        """Ids of all shown pictures, with the sources of their captions."""
        rows = self.library.store.rows("pictures", ["id", "captions"], "array_length(paths) > 0")
        return ((one, [caption["source"] for caption in captions or ()]) for one, captions in rows)

    def index(self, spaces: Sequence[str]) -> Any:  # noqa: ANN401  (its own index, of the same methods)
        """Vectors of all shown pictures; of a large library, its search index."""
        large = len(self) >= self.library.settings.approximate_from
        if large and ApproximateIndex.usable(self.library, spaces):
            return ApproximateIndex(self.library, sorted(spaces))
        return TableIndex(self.library.gallery(sorted(spaces)))

    def lagging(self, of: str, spaces: Iterable[str]) -> dict[int, list[str]]:
        """None: words are encoded when they are written."""
        return {}

    def _sentences(self) -> Any:  # noqa: ANN401  (encoders by space)
        return words.caption_encoders(self.library.settings.spaces)

    def _rows(self, table: str, columns: list[str]) -> Iterable[tuple[Any, ...]]:
        return self.library.store.rows(table, columns) if self.library.store.has(table) else ()


def exists(place: str) -> bool:
    """Whether there is a library at a URL."""
    return home_of(place).exists()


def open_store(place: str, *, make: bool = False) -> LanceStore:
    """Open a library at a URL, or create it; see `LanceStore`."""
    return LanceStore(place, make=make)


def index(sources: Sequence[str | PathLike[str]], store: LanceStore, **how: Any) -> TableReport:  # noqa: ANN401
    """Read new and changed files; see `limner.scale.ingest.index`."""
    return ingest.index(sources, store.library, **how)
