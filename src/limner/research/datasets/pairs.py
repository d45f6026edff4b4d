"""Text–picture pairs, sets of them, and the registry of data sets.

A data set is one file in `limner.research.datasets.sets` that registers a `DataSet`. Sets with a common
reader share a file, such as ``cite`` and ``cite++``. The generated picture books are registered in
`limner.research.worlds.book`.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from limner.config import Record
from limner.errors import ConfigError, DataError, MissingError, unknown
from limner.research.datasets.folders import whereabouts

SplitName = Literal["train", "val", "test"]
SPLITS: tuple[SplitName, ...] = get_args(SplitName)


def text_id(text: str) -> str:
    """SHA-256 of a text after NFC normalisation, lower-casing and collapsing of white space.

    Source: docs/methods/data.md §4.1.
    """
    return hashlib.sha256(plain(text).encode("utf-8", "surrogatepass")).hexdigest()


def duplicate_groups(keys: Sequence[Iterable[Hashable]]) -> list[int]:
    """Number the connected components of items that share keys.

    Args:
        keys: (N,) keys of each item.
    Returns:
        (N,) group numbers from 0, in order of first appearance.
    """
    parent = list(range(len(keys)))

    def root(item: int) -> int:
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    first: dict[Hashable, int] = {}
    for item, shared in enumerate(keys):
        for key in shared:
            parent[root(item)] = root(first.setdefault(key, item))
    numbers: dict[int, int] = {}
    return [numbers.setdefault(root(item), len(numbers)) for item in range(len(keys))]


def plain(text: str) -> str:
    """A text in NFC, lower case, with single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


SplitKind = Literal["grouped", "released", "random"]

PairSplit = Literal["", "train", "val", "test"]
Label = Annotated[int, Field(ge=0, le=1)]
MetaValue = str | int | float | bool | None


class Pair(Record):
    """One text with one picture.

    Attributes:
        id: unique inside its data set.
        text: the text, unmodified.
        image: file path, or URL if there is no file.
        image_hash: SHA-256 of the picture's bytes, 64 hex digits; "" if unknown.
        group: duplicate group; "" before splitting.
        split: train, val or test; "" before splitting.
        labels: relation → 0 or 1, in the order of the data set.
        seq: id of its recipe, story, article or album; "" for none.
        pos: position in `seq`, from 0; None for none.
        meta: other fields of the source: row number, URL, author, licence, ….
    Source: docs/methods/data.md §1.1.
    """

    id: str = Field(min_length=1)
    text: str
    image: str
    image_hash: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    group: str = ""
    split: PairSplit = ""
    labels: Mapping[str, Label] = Field(default_factory=dict)
    seq: str = ""
    pos: int | None = Field(default=None, ge=0)
    meta: Mapping[str, MetaValue] = Field(default_factory=dict)

    @property
    def image_id(self) -> str:
        """Id of the picture: hash of its bytes, else its URL, else `image`."""
        url = self.meta.get("url")
        return self.image_hash or (url if isinstance(url, str) else "") or self.image


def one_row_per_pair(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Merge repeated pairs for retrieval; training of relations uses all of them.

    Pairs are repeated if text (ignoring case and white space) and picture are equal within a split. The first
    one is kept, with the majority label of each relation; a tie is 1. `meta` gets ``copies``.

    Source: docs/methods/data.md §4.4.
    """
    copies: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        copies.setdefault((pair.split, text_id(pair.text), pair.image_id), []).append(pair)
    merged = []
    for same in copies.values():
        stated: dict[str, list[int]] = {}
        for name, label in (item for pair in same for item in pair.labels.items()):
            stated.setdefault(name, []).append(label)
        labels = {name: int(2 * sum(votes) >= len(votes)) for name, votes in stated.items()}
        meta = {**same[0].meta, "copies": len(same)}
        merged.append(same[0].model_copy(update={"labels": labels, "meta": meta}))
    return tuple(merged)


class MissingPicture(Record):
    """A pair left out: its picture is missing or unreadable, or (in train) it is also in val or test.

    Attributes:
        id: id of the pair.
        image: the picture's name.
        reason: one line.
    """

    id: str
    image: str
    reason: str


@dataclass(frozen=True)
class PairSet:
    """A data set of annotated pairs.

    Attributes:
        name: name of the set, such as ``"clue"``.
        relations: names in the order of the labels.
        pairs: pairs in file order, with the split stated in the files, if any.
        missing: pairs left out, each with its reason.
        notes: one line for each kind of correction or omission.
    """

    name: str
    relations: tuple[str, ...]
    pairs: tuple[Pair, ...]
    missing: tuple[MissingPicture, ...] = ()
    notes: tuple[str, ...] = ()

    def split(self, name: SplitName) -> tuple[Pair, ...]:
        """The pairs of one split, in file order.

        Raises:
            DataError: the split is empty.
        """
        chosen = tuple(pair for pair in self.pairs if pair.split == name)
        if not chosen:
            raise DataError(f"{self.name}: no pair of split {name!r}; make one with split_pairs")
        return chosen


def identities(
    pairs: Sequence[Pair],
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Number texts and pictures, so that a loss can ignore duplicates.

    Args:
        pairs: (N,) pairs.
    Returns:
        (N,) int64 of the texts and (N,) int64 of the pictures, equal for equal `text_id` and `image_id`.
    Source: docs/methods/index.md §2.2.
    """
    texts = duplicate_groups([[text_id(pair.text)] for pair in pairs])
    images = duplicate_groups([[pair.image_id] for pair in pairs])
    return np.array(texts, np.int64), np.array(images, np.int64)


def places_in(known: Mapping[str, int], ids: Sequence[str]) -> NDArray[np.int64]:
    """Look up the rows of pictures, (B,).

    Args:
        known: picture → row.
        ids: (B,) values of `Pair.image_id`.
    Raises:
        DataError: a picture has no row.
    """
    absent = [name for name in ids if name not in known]
    if absent:
        raise DataError(
            f"pictures: {absent[0]!r} has no row ({len(absent)} of {len(ids)}); build the rows again"
        )
    return np.array([known[name] for name in ids], dtype=np.int64)


def shuffle_relations(data: PairSet, seed: int) -> PairSet:
    """Control condition: permute the labels among the pairs of each split, so that they carry no information.

    Args:
        data: a set with labels.
        seed: seed of the permutation.
    """
    rng = np.random.default_rng(seed)
    pairs = list(data.pairs)
    for split in dict.fromkeys(pair.split for pair in pairs):
        rows = [row for row, pair in enumerate(data.pairs) if pair.split == split]
        for row, other in zip(rows, rng.permutation(rows).tolist(), strict=True):
            pairs[row] = pairs[row].model_copy(update={"labels": data.pairs[other].labels})
    return replace(data, pairs=tuple(pairs))


def licensed(data: PairSet, allowed: Sequence[str]) -> PairSet:
    """Keep only the pairs under allowed licences.

    Args:
        data: a set whose pairs have ``meta["license"]``, see `sets.stories.read_story_pairs`.
        allowed: licences, spelt as in the data; empty allows all.
    Raises:
        DataError: no pair is left.
    """
    if not allowed:
        return data
    allowed_pairs = tuple(pair for pair in data.pairs if pair.meta.get("license") in allowed)
    stated = (pair.meta.get("license") for pair in data.pairs)
    other = Counter(str(name or "none stated") for name in stated if name not in allowed)
    if not allowed_pairs:
        licences = ", ".join(sorted(other)) or "no pairs"
        raise DataError(
            f"{data.name}: no pair under {', '.join(allowed)}, found {licences}; allow another licence or"
            " leave"
            " the set out"
        )
    if not other:
        return data
    counted = ", ".join(f"{name} {number:,}" for name, number in other.most_common())
    note = f"{data.name}: {other.total():,} of {len(data.pairs):,} pairs left out by licence ({counted})"
    return replace(data, pairs=allowed_pairs, notes=(*data.notes, note))


MissingPolicy = Literal["abort", "drop"]
MAX_MISSING = 0.02


@dataclass(frozen=True)
class Source:
    """Location of a set's files, and how to read them.

    Attributes:
        place: file of the annotations, or their folder.
        pictures: folder of the pictures; None reads only the texts.
        missing: whether missing or unreadable pictures are an error ("abort") or dropped.
        max_missing: share of pairs in [0, 1] without a picture that "abort" tolerates.
        every: whether to use all captions of a picture instead of one.
        seed: seed of the choice of a caption.
        manifest: folder with the cache of picture checks; None checks all pictures.
        opened: whether pictures are read and checked; otherwise only their existence is noted, and all pairs
            are kept.
    """

    place: Path
    pictures: Path | None = None
    missing: MissingPolicy = "abort"
    max_missing: float = MAX_MISSING
    every: bool = False
    seed: int = 0
    manifest: Path | None = None
    opened: bool = True

    def file(self, *names: str) -> Path:
        """Find a file of one of these names if `place` is a folder; otherwise `place` itself."""
        return self.find(*names) if self.place.is_dir() else self.place

    def find(self, *names: str) -> Path:
        """Find the only file of one of these names in the folder `place` or its subfolders.

        Raises:
            MissingError: there is no such file.
            DataError: several subfolders have one.
        """
        here = [self.place / name for name in names if (self.place / name).is_file()]
        paths = here[:1] or sorted(
            path for name in names for path in self.place.rglob(name) if path.is_file()
        )
        if not paths:
            raise MissingError(
                f"{self.place}: no {' or '.join(names)} in it or below ({whereabouts(self.place, names)});"
                " give the folder of the files"
            )
        if len(paths) > 1:
            raise DataError(f"{self.place}: both {paths[0]} and {paths[1]}; give the folder of one of them")
        return paths[0]


@dataclass(frozen=True)
class DataSet:
    """Definition of a data set.

    Attributes:
        name: name in settings and commands.
        about: one-line description.
        read: reads the pairs in file order, with the split stated in the files.
        relations: annotated relations, in the order of the labels.
        sequence: what consecutive pairs form, such as "story"; "" for none.
        folder: its folder below $LIMNER_DATA/data; "" if the location must be given.
        opens_pictures: whether pictures are always opened, because the annotations name their files.
        wanted: folder of the annotations → picture URL → file name; None if no URLs are known.
        draw: for generated sets: (stories, seed, size_px) → pairs and (N, size_px, size_px, 3) bytes; size 0
            renders no pictures.
        graphs: for generated sets: (stories, seed, shuffled=seed of the control or None) → picture → scene
            graph.
    """

    name: str
    about: str
    read: Callable[[Source], PairSet] | None = None
    relations: tuple[str, ...] = ()
    sequence: str = ""
    folder: str = ""
    opens_pictures: bool = False
    wanted: Callable[[Path], dict[str, str]] | None = None
    draw: Callable[..., tuple[PairSet, NDArray[np.uint8]]] | None = None
    graphs: Callable[..., Mapping[str, Any]] | None = None


_REGISTERED: dict[str, DataSet] = {}
_ELSEWHERE = {
    "picturebook": "limner.research.worlds.book",  # imports scenes and worlds, layers above data sets
    "stepwise": "limner.research.datasets.sets.stories",
}
"""Sets defined in a file of another name."""
_SETS = "limner.research.datasets.sets"


def register(data: DataSet) -> None:
    """Register a set by its name."""
    _REGISTERED[data.name] = data


def data_sets() -> Mapping[str, DataSet]:
    """All sets by name; imports every file that registers one."""
    for module in iter_modules(import_module(_SETS).__path__):
        import_module(f"{_SETS}.{module.name}")
    for module_name in _ELSEWHERE.values():
        import_module(module_name)
    return _REGISTERED


def known_set(name: str) -> DataSet | None:
    """A set by its name, or None; imports only the file that registers it."""
    if name not in _REGISTERED and isinstance(name, str):
        stem = re.split(r"[^a-z0-9_]", name, maxsplit=1)[0]
        here = {module.name for module in iter_modules(import_module(_SETS).__path__)}
        if module_name := _ELSEWHERE.get(name, f"{_SETS}.{stem}" if stem in here else ""):
            import_module(module_name)
    return _REGISTERED.get(name)


def data_set(name: str) -> DataSet:
    """A set by its name.

    Raises:
        ConfigError: unknown name; the message lists the choices and suggests the nearest.
    """
    definition = known_set(name)
    if definition is None:
        raise ConfigError(unknown("data set", name, data_sets()))
    return definition


class SourceConfig(Record):
    """Settings of a data set: its location and its split.

    Attributes:
        set: name of a registered set.
        annotations: file or folder of the annotations; "" looks below $LIMNER_DATA for a published set.
        pictures: folder of the pictures; "" looks for ``images`` next to the annotations.
        missing, max_missing: whether missing pictures are an error or dropped, and the tolerated share.
        licences: allowed licences, spelt as in the data; other pairs are left out after splitting. Empty
            allows all.
        split, split_seed: see `limner.research.datasets.splits.split_pairs`.
        test_share, val_share: shares of all pairs; not for a released split. None takes the files' share of
            test (or 0.2), and a tenth of the rest for validation.
        by_source: whether a grouped split also keeps the stories of a source together.
        every_caption: whether to use all captions of a picture instead of one.
        caption_seed: seed of the choice of a caption (coco).
    """

    set: str
    annotations: str = ""
    pictures: str = ""
    missing: MissingPolicy = "abort"
    max_missing: float = Field(default=MAX_MISSING, ge=0, le=1)
    licences: tuple[str, ...] = ()
    split: SplitKind = "grouped"
    split_seed: int = Field(default=0, ge=0)
    test_share: float | None = Field(default=None, gt=0, lt=0.5)
    val_share: float | None = Field(default=None, gt=0, lt=0.5)
    by_source: bool = False
    every_caption: bool = False
    caption_seed: int = Field(default=0, ge=0)

    @field_validator("set")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name != "mixture":  # allowed in the settings of a run, see `limner.research.datasets.mixture`
            data_set(name)
        return name


class MixtureEntry(SourceConfig):
    """Settings of one data set of a mixture; its folder is $LIMNER_DATA/data/KEY by default.

    Attributes:
        weight: how often a training pair of the set occurs in an epoch.
    """

    weight: float = Field(default=1.0, gt=0, le=100)


def files_by_split(source: Source, *names: str) -> list[tuple[Path, SplitName]]:
    """Find the files that hold one split each, in a folder or its subfolders.

    Args:
        source: its place is the folder.
        names: possible file names, with ``*`` for train, val or test.
    Returns:
        Files with their splits; splits without a file are left out.
    Raises:
        MissingError: no split has a file.
        DataError: several subfolders have a file for one split.
    """
    files: list[tuple[Path, SplitName]] = []
    absent: list[MissingError] = []
    for split in SPLITS:
        try:
            files.append((source.find(*(name.replace("*", split) for name in names)), split))
        except MissingError as error:
            absent.append(error)
    if not files:
        raise absent[0]
    return files
