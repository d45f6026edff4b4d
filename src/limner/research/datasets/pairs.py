"""The canonical pair, one text with one picture; sets of them, and how a data set declares itself.

Readers of data sets give it, training and evaluation take it. A set is one file of its name in
`limner.research.datasets.sets`, which registers a `DataSet`; nothing else needs to know it. Sets that share a
reader lie in one file: ``cite++`` in that of ``cite``. The drawn picture books register themselves from the
room that draws them.
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
    """SHA-256 of the NFC-normalised, lower-cased, whitespace-collapsed text.

    Source: docs/methods/data.md §4.1.
    """
    return hashlib.sha256(plain(text).encode("utf-8", "surrogatepass")).hexdigest()


def duplicate_groups(keys: Sequence[Iterable[Hashable]]) -> list[int]:
    """Number the connected components of items that share a key.

    Args:
        keys: per item (N,), what it must not be parted over.
    Returns:
        (N,) group numbers, counted by first appearance.
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
    """A text without letter case and differences of white space, NFC."""
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


SplitKind = Literal["grouped", "released", "random"]

PairSplit = Literal["", "train", "val", "test"]
Label = Annotated[int, Field(ge=0, le=1)]
MetaValue = str | int | float | bool | None


class Pair(Record):
    """One text with one picture.

    Attributes:
        id: unique inside its data set.
        text: the words, unmodified.
        image: file path, or URL where no picture is there; only ever compared or opened.
        image_hash: SHA-256 of the picture's bytes, 64 hex digits; "" while unknown.
        group: duplicate group; "" before a split was made.
        split: train, val or test; "" if none was made.
        labels: relation → 0 or 1, in the order of the data set.
        seq: recipe, story, article or album it belongs to; "" for none.
        pos: place in it, from 0; None for none.
        meta: what else the source states: row number, URL, author, origin of the text.
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
        """Identity of the picture: hash of its bytes, else its URL, else its file name."""
        url = self.meta.get("url")
        return self.image_hash or (url if isinstance(url, str) else "") or self.image


def one_row_per_pair(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Keep one row of every repeated pair, with the majority of its labels; for retrieval.

    Rows repeat where text (letter case and white space aside) and picture agree inside one split.
    The first row stays and takes, per relation, the majority of those rows that state it; a tie is 1.
    `meta` gains ``copies``. Training of relations uses all rows instead.

    Source: docs/methods/data.md §4.4.
    """
    copies: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        copies.setdefault((pair.split, text_id(pair.text), pair.image_id), []).append(pair)
    kept = []
    for same in copies.values():
        stated: dict[str, list[int]] = {}
        for name, label in (one for pair in same for one in pair.labels.items()):
            stated.setdefault(name, []).append(label)
        labels = {name: int(2 * sum(votes) >= len(votes)) for name, votes in stated.items()}
        meta = {**same[0].meta, "copies": len(same)}
        kept.append(same[0].model_copy(update={"labels": labels, "meta": meta}))
    return tuple(kept)


class MissingPicture(Record):
    """A pair that was left out because of its picture.

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
        name: such as ``"clue"``.
        relations: names in the order of the label vector.
        pairs: in file order; `split` as the files state it, "" if they state none.
        missing: pairs left out because of their picture.
        notes: one line for everything put right while reading.
    """

    name: str
    relations: tuple[str, ...]
    pairs: tuple[Pair, ...]
    missing: tuple[MissingPicture, ...] = ()
    notes: tuple[str, ...] = ()

    def split(self, name: SplitName) -> tuple[Pair, ...]:
        """The pairs of one split, in file order.

        Raises:
            DataError: the set has none.
        """
        chosen = tuple(pair for pair in self.pairs if pair.split == name)
        if not chosen:
            raise DataError(f"{self.name}: no pair of split {name!r}; make one with split_pairs")
        return chosen


def identities(
    pairs: Sequence[Pair],
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Numbers by which equal texts and equal pictures are known, so that a loss can leave duplicates out.

    Args:
        pairs: (N,).
    Returns:
        (N,) int64 of the texts and (N,) int64 of the pictures: equal where `text_id` and `image_id` are.
    Source: docs/methods/index.md §2.2.
    """
    texts = duplicate_groups([[text_id(pair.text)] for pair in pairs])
    images = duplicate_groups([[pair.image_id] for pair in pairs])
    return np.array(texts, np.int64), np.array(images, np.int64)


def places_in(known: Mapping[str, int], ids: Sequence[str]) -> NDArray[np.int64]:
    """(B,) rows of some pictures.

    Args:
        known: picture → row.
        ids: (B,) by `Pair.image_id`.
    Raises:
        DataError: one has no row.
    """
    absent = [name for name in ids if name not in known]
    if absent:
        raise DataError(f"pictures: {absent[0]!r} has no row ({len(absent)} of {len(ids)}); make them again")
    return np.array([known[name] for name in ids], dtype=np.int64)


def shuffle_relations(data: PairSet, seed: int) -> PairSet:
    """The control: whole label rows dealt again inside each split, so that they say nothing about their pair.

    Args:
        data: with labels.
        seed: seed of the order.
    """
    rng = np.random.default_rng(seed)
    pairs = list(data.pairs)
    for split in dict.fromkeys(pair.split for pair in pairs):
        rows = [row for row, pair in enumerate(data.pairs) if pair.split == split]
        for row, other in zip(rows, rng.permutation(rows).tolist(), strict=True):
            pairs[row] = pairs[row].model_copy(update={"labels": data.pairs[other].labels})
    return replace(data, pairs=tuple(pairs))


def licensed(data: PairSet, allowed: Sequence[str]) -> PairSet:
    """The pairs under some licences.

    Args:
        data: whose pairs state theirs in ``meta["license"]``, see `illustrated.story_pairs`.
        allowed: licences, spelt as the data spell them; none allows all.
    Raises:
        DataError: no pair is left.
    """
    if not allowed:
        return data
    kept = tuple(pair for pair in data.pairs if pair.meta.get("license") in allowed)
    stated = (pair.meta.get("license") for pair in data.pairs)
    other = Counter(str(name or "none stated") for name in stated if name not in allowed)
    if not kept:
        found = ", ".join(sorted(other)) or "no pairs"
        raise DataError(
            f"{data.name}: no pair under {', '.join(allowed)}, found {found}; allow another licence or leave"
            " the set out"
        )
    if not other:
        return data
    counted = ", ".join(f"{name} {number:,}" for name, number in other.most_common())
    note = f"{data.name}: {other.total():,} of {len(data.pairs):,} pairs left out by licence ({counted})"
    return replace(data, pairs=kept, notes=(*data.notes, note))


MissingPolicy = Literal["abort", "drop"]
MAX_MISSING = 0.02


@dataclass(frozen=True)
class Source:
    """Where the files of a set lie, and what of them is read.

    Attributes:
        place: the file of the annotations, or its folder.
        pictures: folder of the pictures; None reads the texts alone.
        missing: what to do about pictures that are not there or do not open.
        max_missing: share of pairs in [0, 1] that "abort" lets pass.
        every: all captions of a picture, or one.
        seed: of the choice of the one, where it is drawn.
        manifest: folder that remembers which picture files were looked at; None looks at all of them.
        opened: pictures are read and checked; else only whether they are there is noted, and all pairs stay.
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
        """The file of one of these names, where `place` is a folder that holds it; else `place`."""
        return self.find(*names) if self.place.is_dir() else self.place

    def find(self, *names: str) -> Path:
        """The one file of one of these names in the folder `place`, or in a folder below it.

        Raises:
            MissingError: there is none.
            DataError: several folders below it hold one.
        """
        here = [self.place / name for name in names if (self.place / name).is_file()]
        found = here[:1] or sorted(
            path for name in names for path in self.place.rglob(name) if path.is_file()
        )
        if not found:
            raise MissingError(
                f"{self.place}: no {' or '.join(names)} in it or below ({whereabouts(self.place, names)});"
                " give the folder of the files"
            )
        if len(found) > 1:
            raise DataError(f"{self.place}: both {found[0]} and {found[1]}; give the folder of one of them")
        return found[0]


@dataclass(frozen=True)
class DataSet:
    """What a data set declares of itself.

    Attributes:
        name: as settings and commands name it.
        about: one line for a list.
        read: its pairs in file order, with the split that the files state.
        relations: those annotated, in the order of the labels.
        sequence: what pairs make in their order, such as "story"; "" where they make nothing.
        folder: where it is looked for below $LIMNER_DATA/data; "" where its place must be named.
        beside: pictures are named by the files themselves, so that texts are never read alone.
        wanted: folder of the annotations → picture URL → file name; None where no URLs are known.
        draw: (stories, seed, size_px) → pairs and (N, size_px, size_px, 3) bytes, for a set that is drawn; a
            size of 0 draws no picture.
        graphs: likewise, (stories, seed, shuffled=seed of the control or None) → picture → scene graph.
    """

    name: str
    about: str
    read: Callable[[Source], PairSet] | None = None
    relations: tuple[str, ...] = ()
    sequence: str = ""
    folder: str = ""
    beside: bool = False
    wanted: Callable[[Path], dict[str, str]] | None = None
    draw: Callable[..., tuple[PairSet, NDArray[np.uint8]]] | None = None
    graphs: Callable[..., Mapping[str, Any]] | None = None


_REGISTERED: dict[str, DataSet] = {}
_ELSEWHERE = {
    "picturebook": "limner.research.worlds.book",  # it needs scenes and worlds, which stand above sets
    "stepwise": "limner.research.datasets.sets.stories",
}
"""Sets that are not in the file whose name theirs begins with."""
_SETS = "limner.research.datasets.sets"


def register(data: DataSet) -> None:
    """Make a set known by its name."""
    _REGISTERED[data.name] = data


def data_sets() -> Mapping[str, DataSet]:
    """All sets by name; every file that registers one is imported for it, once."""
    for module in iter_modules(import_module(_SETS).__path__):
        import_module(f"{_SETS}.{module.name}")
    for module_name in _ELSEWHERE.values():
        import_module(module_name)
    return _REGISTERED


def known_set(name: str) -> DataSet | None:
    """A set by its name, for which the one file that registers it is imported; None of no such set."""
    if name not in _REGISTERED and isinstance(name, str):
        stem = re.split(r"[^a-z0-9_]", name, maxsplit=1)[0]
        here = {module.name for module in iter_modules(import_module(_SETS).__path__)}
        if module_name := _ELSEWHERE.get(name, f"{_SETS}.{stem}" if stem in here else ""):
            import_module(module_name)
    return _REGISTERED.get(name)


def data_set(name: str) -> DataSet:
    """A set by its name.

    Raises:
        ConfigError: no such set; the choices and the nearest one are named.
    """
    found = known_set(name)
    if found is None:
        raise ConfigError(unknown("data set", name, data_sets()))
    return found


class SourceConfig(Record):
    """Where pairs come from, and how they are split.

    Attributes:
        set: name of a registered set.
        annotations: folder of the files, or the file; "" looks below $LIMNER_DATA for a published set.
        pictures: folder of the pictures; "" looks for ``images`` beside the annotations.
        missing, max_missing: what to do about missing pictures, and the share that may be.
        licences: those that may be used, spelt as the data spell them; the rest is left out after the split.
            Empty allows all.
        split, split_seed: see `limner.research.datasets.splits.split_pairs`.
        test_share, val_share: of all pairs, where the split is not released; None for the share of test that
            the files state, else 0.2, and for a tenth of what is not test.
        by_source: a grouped split parts no source of stories either.
        every_caption: of sets with several captions, take all of a picture, not one alone.
        caption_seed: of coco, which one.
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
        if name != "mixture":  # which the settings of a run may name, see `limner.research.datasets.mixture`
            data_set(name)
        return name


class MixtureEntry(SourceConfig):
    """One data set of a mixture, called by its key; its folder is $LIMNER_DATA/data/KEY unless stated.

    Attributes:
        weight: how often a training row of it comes in an epoch.
    """

    weight: float = Field(default=1.0, gt=0, le=100)


def files_by_split(source: Source, *names: str) -> list[tuple[Path, SplitName]]:
    """The files that hold one split each, and which; they lie in the folder named, or below it.

    Args:
        source: its place is the folder.
        names: of files, with ``*`` for train, val or test.
    Raises:
        MissingError: there is none of any split.
        DataError: several folders hold one.
    """
    found: list[tuple[Path, SplitName]] = []
    absent: list[MissingError] = []
    for split in SPLITS:
        try:
            found.append((source.find(*(name.replace("*", split) for name in names)), split))
        except MissingError as error:
            absent.append(error)
    if not found:
        raise absent[0]
    return found
