"""Data sets: text–picture pairs by name, with splits and downloads."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from limner.errors import ConfigError, MissingError
from limner.research.datasets.folders import has_pictures, whereabouts
from limner.research.datasets.pairs import PairSet, Source, SourceConfig, SplitKind, data_set
from limner.research.datasets.splits import split_by_source, split_pairs

USUAL = ("images", "images-qa")
"""Usual names of the folder of pictures next to the annotations."""


def load_dataset(
    name: str,
    place: Path | str = "",
    *,
    pictures: Path | str | None = None,
    split: SplitKind | None = None,
    seed: int = 0,
    drop_missing: bool = False,
    every_caption: bool = False,
    look: bool = False,
) -> PairSet:
    """Load a data set by its name, as text–picture pairs.

    Args:
        name: name of the set.
        place: file or folder of the annotations; "" looks for a published set below $LIMNER_DATA/data.
        pictures: folder of the pictures; None reads only the texts, if the set allows that.
        split: kind of split, see `split_pairs`; None keeps the split stated in the files, if any.
        seed: seed of the split, and of a generated set.
        drop_missing: whether to leave out all pairs without a picture; otherwise more than 2 % is an error.
        every_caption: whether to use all captions of a picture instead of one.
        look: whether to note, if `pictures` is None, whether the pictures exist, without opening them.
    Raises:
        ConfigError: unknown name, or the location is not known.
        MissingError, DataError: see the set's reader.

    Example:
        >>> books = limner.load_dataset("picturebook")
        >>> books.split("train")[0].text
        'Finn the bear waved to a bird.'
    """
    draw = data_set(name).draw
    if draw is not None:
        data = draw(seed=seed, size_px=0)[0]
    else:
        config = SourceConfig(
            set=name,
            annotations=str(place),
            pictures=str(pictures or ""),
            missing="drop" if drop_missing else "abort",
            every_caption=every_caption,
        )
        data = read_source(config, texts_alone=pictures is None, look=look)
    return data if split is None else split_pairs(data, split, seed)


def read_source(
    config: SourceConfig, *, texts_alone: bool = False, look: bool = False, manifest: Path | None = None
) -> PairSet:
    """Read the pairs of a set from its files, with the split stated there, if any.

    Args:
        config: the set and its location.
        texts_alone: whether to read only the texts, if the set allows that.
        look: whether to note, with `texts_alone`, whether the pictures exist, without opening them.
        manifest: see `Source`.
    Raises:
        ConfigError: the location is not known, or the set is not read from files.
        MissingError, DataError: see the set's reader.
    """
    if config.set == "mixture":
        raise ConfigError(
            "data: a mixture consists of several sets and has no files of its own; see docs/data.md"
        )
    definition = data_set(config.set)
    if definition.read is None:
        raise ConfigError(f"data: set {definition.name!r} is generated, not read from files")
    folder = os.environ.get("LIMNER_DATA") if definition.folder else None
    if not config.annotations and not folder:
        hint = " or $LIMNER_DATA" if definition.folder else ", its file or folder"
        raise ConfigError(
            f"{definition.name}: no location given; set data.annotations{hint}, or pass --annotations"
        )
    place = Path(config.annotations or Path(folder or "") / "data" / definition.folder).expanduser()
    pictures = Path(config.pictures).expanduser() if config.pictures else None
    source = Source(
        place,
        None,
        config.missing,
        config.max_missing,
        config.every_caption,
        config.caption_seed,
        manifest,
    )
    if definition.opens_pictures:  # the annotations name the picture files
        return definition.read(replace(source, pictures=pictures))
    if not place.exists():
        raise MissingError(
            f"{definition.name}: {place}: {whereabouts(place)}; give the folder of the annotations"
        )
    if texts_alone and not look:
        return definition.read(source)
    pictures = pictures or _pictures_beside(place)
    if pictures is not None and pictures.is_dir():
        return definition.read(replace(source, pictures=pictures, opened=not texts_alone))
    folder_beside = place if place.is_dir() else place.parent
    absent = (
        f"{definition.name}: no pictures at"
        f" {pictures or ' or '.join(str(folder_beside / name) for name in USUAL)}"
        f"{'' if pictures else f', nor any in {folder_beside} or below'}"
        f" ({whereabouts(pictures or folder_beside)});"
        " set data.pictures or pass --pictures with their folder"
        + (f"; 'limner data fetch {definition.name}' downloads them" if definition.wanted else "")
    )
    data = definition.read(source)  # errors in the annotations come first
    if not texts_alone:
        raise MissingError(absent)
    return replace(data, notes=(*data.notes, absent))


def _pictures_beside(place: Path) -> Path | None:
    """The first folder with pictures in it or below: one of `USUAL`, or the folder of the annotations."""
    parent = place if place.is_dir() else place.parent
    folders = [folder for folder in (*(parent / name for name in USUAL), parent) if folder.is_dir()]
    return next(filter(has_pictures, folders), None)


def split_source(config: SourceConfig, manifest: Path | None = None) -> PairSet:
    """Read a set from its files and split it; licences are not filtered.

    Args:
        config: the set, its location and its split.
        manifest: see `Source`.
    Raises:
        ConfigError: see `read_source`; or the settings of the split contradict each other.
        MissingError, DataError: see the set's reader.
    """
    data = read_source(config, manifest=manifest)
    if config.by_source:
        if config.split != "grouped":
            raise ConfigError(
                f"data: by_source makes a grouped split, but split is {config.split!r}; choose one"
            )
        if config.test_share is not None or config.val_share is not None:
            raise ConfigError("data: by_source uses fixed shares; leave test_share and val_share out")
        data = split_by_source(data, config.split_seed)
    if not all(pair.split and pair.group for pair in data.pairs):
        data = split_pairs(
            data, config.split, config.split_seed, test_share=config.test_share, val_share=config.val_share
        )
    return data
