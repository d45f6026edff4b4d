"""Registry of data sets, with the common parts of their readers.

A set is one file of its name in `limner.research.datasets.sets`, which registers a `DataSet`; nothing else
needs to know it. Sets that share a reader lie in one file: ``cite++`` in that of ``cite``. The drawn picture
books register themselves from the room that draws them.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError, field_validator

from limner.config import Config
from limner.errors import ConfigError, DataError, MissingError, unknown
from limner.files import first_fault, readable
from limner.research.datasets.folders import PICKLE_SUFFIXES, whereabouts
from limner.research.datasets.pairs import SPLITS, PairSet, SplitKind, SplitName

Form = TypeVar("Form")
MissingPolicy = Literal["abort", "drop"]
MAX_MISSING = 0.02
_PACKED = (b"PK", b"\x1f\x8b", b"BZ", b"7z")  # zip, gzip, bzip2, 7z
_PICKLE_PROTOCOLS = tuple(b"\x80" + bytes([number]) for number in range(2, 6))


@dataclass(frozen=True)
class Source:
    """Location of a data set's files, and the options of its reader.

    Attributes:
        place: the file of the annotations, or its folder.
        pictures: folder of the pictures; None reads the texts alone.
        missing: what to do about pictures that are not there or do not open.
        max_missing: share of pairs in [0, 1] that "abort" lets pass.
        every: all captions of a picture, or one.
        seed: seed of the choice of the one, where it is drawn.
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
            MissingError: none exists.
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
    """Declaration of a data set.

    Attributes:
        name: as settings and commands name it.
        about: one line for a list.
        read: its pairs in file order, with the split that the files state.
        relations: those annotated, in the order of the labels.
        sequence: kind of sequence that the pairs form, such as "story"; "" if they make nothing.
        folder: where it is looked for below $LIMNER_DATA/data; "" if its place must be named.
        beside: pictures are named by the files themselves, so that texts are never read alone.
        wanted: folder of the annotations → picture URL → file name; None if no URLs are known.
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
    """All data sets by name; every module that registers one is imported once."""
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


class SourceConfig(Config):
    """Source of pairs, and their split.

    Attributes:
        set: name of a registered set.
        annotations: folder of the files, or the file; "" looks below $LIMNER_DATA for a published set.
        pictures: folder of the pictures; "" looks for ``images`` beside the annotations.
        missing, max_missing: what to do about missing pictures, and the share that may be.
        licences: those that may be used, spelt as the data spell them; the rest is left out after the split.
            Empty allows all.
        split, split_seed: see `limner.research.datasets.pairs.split_pairs`.
        test_share, val_share: of all pairs, where the split is not released; None for the share of test that
            the files state, else 0.2, and for a tenth of what is not test.
        by_source: a grouped split parts no source of stories either.
        every_caption: whether to use all captions of a picture, not one, for sets with several.
        caption_seed: seed of the choice of coco's captions.
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


def read_json(path: Path, form: type[Form], expected: str) -> Form:
    """Read a JSON file and check its form; keys the form does not name are left aside.

    Args:
        path: the file; a pickle is refused, whatever its name.
        form: form of the whole file.
        expected: one phrase for messages, such as ``"an object of images and annotations"``.
    Raises:
        MissingError: the file does not exist.
        DataError: a pickle, not JSON, or of another form.
    """
    refuse_pickle(path)
    try:
        return TypeAdapter(form).validate_json(path.read_bytes())
    except ValidationError as error:
        raise DataError(f"{path}: {first_fault(error)}; expected {expected}") from error


def refuse_pickle(path: Path) -> None:
    """Reject a pickle by its name and by its first bytes; nothing of it is ever loaded. Nor are archives.

    Raises:
        MissingError: the file does not exist.
        DataError: a pickle, an archive, a folder, or not to be opened.
    """
    with readable(path, "give the file of the annotations"), path.open("rb") as file:
        head = file.read(2)
    if path.suffix.lower() in PICKLE_SUFFIXES or head in _PICKLE_PROTOCOLS:
        raise DataError(
            f"{path}: a pickle, which runs code when loaded, and is never loaded here;"
            " convert it to JSON as docs/data.md says"
        )
    if head in _PACKED:
        raise DataError(f"{path}: still packed; unpack it and give the file that was in it")


def read_table(
    path: Path,
    delimiter: str,
    columns: Sequence[str],
    *,
    quoted: bool = True,
    header: bool = True,
    filled: Sequence[str] = (),
) -> Iterator[dict[str, str]]:
    """Rows of a delimited UTF-8 file, one by one.

    Args:
        path: the file.
        delimiter: one character.
        columns: names that the header must hold, others are kept; of a file without one, all its columns.
        quoted: whether double quotes enclose fields.
        header: whether the first line names the columns.
        filled: columns that must not be empty.
    Raises:
        MissingError: the file does not exist.
        DataError: the file cannot be read, is not UTF-8, a column is absent or named twice, a row has another
            number of fields, or there is none.
    """
    refuse_pickle(path)
    hint = "is the delimiter right and the file whole?"
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    with readable(path, hint), path.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file, delimiter=delimiter, strict=quoted, quoting=quoting)
        try:
            names = next(lines, []) if header else list(columns)
            absent = [column for column in columns if column not in names]
            if absent or len(set(names)) != len(names):
                fault = f"lacks {', '.join(absent)}" if absent else "names a column twice"
                raise DataError(f"{path}: the header {fault}; expected {', '.join(columns)}")
            row = None
            for row in lines:
                if len(row) != len(names):
                    raise DataError(
                        f"{path}:{lines.line_num}: {len(row)} fields, expected {len(names)}; {hint}"
                    )
                found = dict(zip(names, row, strict=True))
                if not all(found[column].strip() for column in filled):
                    raise DataError(
                        f"{path}:{lines.line_num}: {' or '.join(filled)} is empty; remove the row or fill"
                        " it in"
                    )
                yield found
        except csv.Error as error:
            raise DataError(f"{path}:{lines.line_num}: {error}; {hint}") from error
        if row is None:
            raise DataError(f"{path}: no rows; is the file whole?")


def flag(where: str, column: str, value: str, words: tuple[str, str]) -> int:
    """0 or 1 from the two words a file uses for no and yes.

    Raises:
        DataError: any other word.
    """
    if value not in words:
        raise DataError(f"{where}: {column} is {value!r}, expected {words[0]} or {words[1]}")
    return words.index(value)


def files_by_split(source: Source, *names: str) -> list[tuple[Path, SplitName]]:
    """The files that hold one split each, and which; they lie in the folder named, or below it.

    Args:
        source: its place is the folder.
        names: names of files, with ``*`` for train, val or test.
    Raises:
        MissingError: none exists of any split.
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
