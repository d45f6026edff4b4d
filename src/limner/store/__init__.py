"""The picture library: its protocol, and the records that it takes and returns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
from pydantic import Field

from limner.config import Record
from limner.records import Picture, Problem

if TYPE_CHECKING:
    from limner.arrays import FloatArray
    from limner.pictures.metadata import Words
    from limner.store.search import Index
    from limner.store.vectors import IntArray

Shape = Literal["landscape", "portrait", "square"]
Order = Literal["path", "newest", "oldest"]
CAPTIONS, MULTILINGUAL, OCR = "captions", "multilingual", "ocr"
CAPTION_SPACES = (CAPTIONS, MULTILINGUAL)
"""Spaces of captions: English ones, and all that the multilingual encoder reads."""
WORDED_SPACES = (*CAPTION_SPACES, OCR)
"""Spaces of texts, which not every picture has."""
OWN, MODEL, KEYWORDS = "library", "model", "keywords"
"""Sources of captions: typed by the user, written by a model, and lists of keywords."""


class Only(Record):
    """Conditions on pictures; those that are not set always hold.

    Attributes:
        folder: folder of one of its files, or a parent folder.
        after, before: first and last day of the capture time.
        dated: whether the day is known.
        shape: shape of the upright picture.
        used: whether it is used.
        captioned: whether it has captions.
        occasion: id of a picture taken on the same day, or "".
    """

    folder: str = ""
    after: date | None = None
    before: date | None = None
    dated: bool | None = None
    shape: Shape | None = None
    used: bool | None = None
    captioned: bool | None = None
    occasion: str = ""


class Facets(Record):
    """Values by which a library can be filtered, with the number of pictures for each.

    Attributes:
        folders: folders that contain pictures, or several folders with pictures, by path.
        months: as 2019-07, in order.
        undated: number of pictures without a date.
        shapes: shapes of the upright pictures.
        used: number of pictures that are used.
        uncaptioned: number of pictures without captions.
    """

    folders: dict[str, int]
    months: dict[str, int]
    undated: int
    shapes: dict[Shape, int]
    used: int
    uncaptioned: int


class Taken(NamedTuple):
    """When and where M pictures were taken.

    Attributes:
        numbers: index of each picture, by id.
        days: (M,) as the picture's clock read, 20240514 for 14 May 2024; 0 if unknown.
        rows, places: (L,) index of a picture, and number of a place where it was taken, see
            `limner.pictures.places`.
    """

    numbers: Mapping[str, int]
    days: IntArray
    rows: IntArray
    places: IntArray

    def of(self, ids: Iterable[str]) -> IntArray:
        """Indices of pictures."""
        return np.array([self.numbers[one] for one in ids], dtype=np.int64)


class SpaceInfo(Record):
    """Encoder of the vectors of a space.

    Attributes:
        encoder: name of the encoder.
        fingerprint: fingerprint of its weights and settings.
        dim: D.
    """

    encoder: str
    fingerprint: str
    dim: int


class Settings(Record):
    """What a library states about itself.

    Attributes:
        spaces: encoder by vector space.
        sources: folders and pictures indexed so far, absolute.
        reader: version of the reader of pictures; unusable files are tried again when it changes.
        grouped: False while near-duplicate groups are out of date.
        languages: estimated share of the captions by language, largest first; empty if unknown.
    """

    spaces: dict[str, SpaceInfo] = Field(default={})
    sources: tuple[str, ...] = ()
    reader: str = ""
    grouped: bool = True
    languages: dict[str, float] = Field(default={})


class LibrarySummary(Record):
    """Counts of a library's content.

    Attributes:
        pictures: different pictures with at least one present file.
        files: present files of these pictures.
        skipped: files that could not be used.
        duplicates: present files beyond the first of each picture.
        captioned: number of pictures with a caption.
        near_groups: near-duplicate groups of two or more pictures.
        near_pictures: pictures in these groups.
        alike: groups of near-duplicates, and single pictures with several files.
        spaces: encoder and width by vector space.
        vectors: number of pictures with a vector by vector space, if they were counted.
        sources: folders and pictures indexed so far.
        changed_s: time of the last change, seconds since 1970.
    """

    pictures: int
    files: int
    skipped: int
    duplicates: int
    captioned: int
    near_groups: int
    near_pictures: int
    alike: int
    spaces: dict[str, SpaceInfo]
    sources: tuple[str, ...]
    changed_s: float
    vectors: dict[str, int] = Field(default={})


class Described(Record):
    """Words about a picture.

    Attributes:
        captions: descriptions, in reading order.
        keywords: keywords, which contain no commas.
    """

    captions: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


class ModelWords(Described):
    """Caption of a picture by a model.

    Attributes:
        model: name of the model.
    """

    model: str = Field(min_length=1)


class PictureWords(Record):
    """Captions of a picture, with their sources.

    Attributes:
        now: captions in use.
        stated: captions of the files.
        edited: whether the captions in use are the user's.
        described: a model's caption, used with those of the files unless the user wrote captions; None if
            there is none.
        coordinates: latitude and longitude in degrees of where it was taken; None if its files state none.
        place: names of that place, as "Siena, Tuscany, Italy", or "".
    """

    now: Described
    stated: Described
    edited: bool
    described: ModelWords | None = None
    coordinates: tuple[float, float] | None = None
    place: str = ""


@dataclass(frozen=True)
class Pixels:
    """Properties of a picture, independent of its file name, and its vectors.

    Attributes:
        width_px, height_px, format, phash: as in `limner.records.Picture`.
        vectors: (D,) unit vector by space.
        text: the text in the picture, by line; None if it was not read.
    """

    width_px: int
    height_px: int
    format: str
    phash: str
    vectors: dict[str, FloatArray] = field(default_factory=dict)
    text: str | None = None


@dataclass(frozen=True)
class File:
    """A file as it was when it was last read.

    Attributes:
        path: absolute path.
        size, mtime_ns, stamp: bytes, modification time (−1 never equals a real one), and see
            `limner.pictures.decode.stamp_of`.
        beside: hash of what describes it beside the picture, such as sidecars.
        sha256: its content; "" if it is not used.
        skipped: reason why it is not used.
        words: captions and other metadata; None if they were not read.
    """

    path: str
    size: int = 0
    mtime_ns: int = -1
    stamp: str = ""
    beside: str = ""
    sha256: str = ""
    skipped: str = ""
    words: Words | None = None


class Store(Protocol):
    """A library: one person's pictures with their captions and vectors.

    Pictures are named by the SHA-256 of their content. Only those with a present file are shown.

    Attributes:
        place: path or URL.
        folder: folder on this machine for what the studio keeps.
        name: short name for messages.
    """

    place: str
    folder: Path
    name: str

    @property
    def settings(self) -> Settings:
        """What it states about itself now."""

    def version(self) -> int:
        """Number that any change increases."""

    def counts(self) -> LibrarySummary:
        """Counts of its content."""

    def vectors(self) -> dict[str, int]:
        """Number of pictures with a vector, by space."""

    def __len__(self) -> int:
        """Number of pictures."""

    def __contains__(self, picture: object) -> bool:
        """Whether a picture is shown."""

    def pictures(self, ids: Iterable[str]) -> list[Picture]:
        """Records by full id, in that order.

        Raises:
            DataError: an id is unknown, or a picture no longer has a file.
        """

    def find(self, name: str | PathLike[str]) -> Picture:
        """Find one picture by its path, file name or id.

        Args:
            name: absolute path, path relative to the working folder or to an indexed folder, unique end of a
                path (such as a file name), or the first digits of an id (six or more).
        Raises:
            DataError: no picture or several pictures match; the message names the nearest.
        """

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
        """A part of the list.

        Args:
            offset: number of pictures to skip, ≥ 0.
            limit: maximum number of pictures, ≥ 0.
            words: only pictures with all of these words, or beginnings of words, in file name, captions or
                the names of their places.
            only: further conditions.
            used: ids of the pictures that count as used.
            order: by path, or by capture time, with unknown times last.
        Returns:
            Number of all pictures that match, and the pictures of the page.
        Raises:
            DataError: the picture of `only.occasion` does not exist.
        """

    def months(self, words: str, only: Only, used: Collection[str], order: Order) -> dict[str, int]:
        """Months of a list in order of time, as 2019-07, "" if none is known → number of their pictures."""

    def passing(self, only: Only, used: Collection[str] = frozenset()) -> list[str]:
        """Ids of the pictures that meet conditions; `used` as for `page`."""

    def facets(self, used: Collection[str]) -> Facets:
        """Count the pictures of each value of the filters."""

    def duplicates(self, offset: int, limit: int) -> list[tuple[str, list[Picture]]]:
        """Groups of near-duplicates, and pictures with several files, each with its id."""

    def under(self, places: Sequence[str]) -> list[Picture]:
        """Pictures with a file at one of the paths, or below one of them."""

    def folders_of(self, ids: Iterable[str]) -> IntArray:
        """(K,) number of the folder of each picture's first file."""

    def folder_name(self, number: int) -> str:
        """Name of a folder, without its parents."""

    def in_folder(self, number: int) -> list[str]:
        """Ids of the pictures whose first file is in a folder, in order of time, then of path."""

    @property
    def folder_sizes(self) -> IntArray:
        """Number of pictures of each folder, by number."""

    def words(self) -> Iterable[tuple[str, str]]:
        """Id and each file name and caption of every picture."""

    def taken(self) -> Taken:
        """When and where the pictures were taken."""

    def words_shown(self, ids: Iterable[str]) -> dict[str, str]:
        """Text in pictures, by id; pictures without text are left out."""

    def coordinates(self, ids: Iterable[str]) -> dict[str, tuple[float, float]]:
        """Latitude and longitude in degrees, by id, of pictures whose files state where they were taken.

        They are not in `Picture`, so that no export can contain them.
        """

    def skipped(self) -> list[Problem]:
        """Files that could not be used, by path."""

    def words_of(self, picture: str) -> PictureWords:
        """Captions of a picture; raises as `pictures`."""

    def write_words(self, picture: str, words: Described | None) -> None:
        """Store the user's captions of a picture, which may be empty; None restores those of its files.

        Raises:
            DataError: the picture does not exist, or a text is too long.
        """

    def write_descriptions(self, found: Mapping[str, ModelWords]) -> None:
        """Store a model's captions of pictures by id; they replace those of another model."""

    def remove_descriptions(self, model: str | None = None) -> int:
        """Remove captions by models, or by one; returns the number of pictures that had one."""

    def described_by(self) -> dict[str, str]:
        """Who wrote captions, by id of the picture: "" for the user, else the name of the model."""

    def sources_of_words(self) -> Iterable[tuple[str, list[str]]]:
        """Ids of all shown pictures in order of paths, with the sources of their captions."""

    def index(self, spaces: Sequence[str]) -> Index:
        """Vectors of all shown pictures, ready to be searched.

        Raises:
            DataError: a space is unknown.
        """
