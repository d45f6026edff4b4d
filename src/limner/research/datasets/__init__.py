"""Data sets: a name leads to pairs of text and picture, their split, and a way to get the pictures."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from limner.errors import ConfigError, MissingError
from limner.research.datasets.folders import has_pictures, whereabouts
from limner.research.datasets.pairs import PairSet, Source, SourceConfig, SplitKind, data_set
from limner.research.datasets.splits import split_by_source, split_pairs

USUAL = ("images", "images-qa")
"""Folders in which pictures lie beside the annotations."""


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
    """A data set by its name, as pairs of text and picture.

    Args:
        name: of a set; an unknown one is answered with all names.
        place: file or folder of its annotations; "" looks for a published set below $LIMNER_DATA/data.
        pictures: folder of its pictures; None reads the texts alone, where they can be had alone.
        split: how pairs are parted, see `split_pairs`; None leaves the split that the files state, if any.
        seed: of the split, and of a drawn set.
        drop_missing: leave out pairs whose picture is missing, however many; else 2 % may be.
        every_caption: all captions of a picture, not one.
        look: where `pictures` is None, note whether they are there, without opening them.
    Raises:
        ConfigError: no such set, or no place is known.
        MissingError, DataError: see the reader.
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
    """The pairs of a set that lies in files, as read: with the split its files state, if any.

    Args:
        config: which.
        texts_alone: look for no pictures of a published set; those of other sets are always opened, because
            their texts lie beside them.
        look: of texts alone, note whether the pictures are there, without opening them.
        manifest: see `Source`.
    Raises:
        ConfigError: a set needs a folder that is not named, or lies in no files.
        MissingError, DataError: see the readers.
    """
    if config.set == "mixture":
        raise ConfigError("data: a mixture is made of several sets, not read; see docs/data.md")
    found = data_set(config.set)
    if found.read is None:
        raise ConfigError(f"data: set {found.name!r} is drawn, not read")
    folder = os.environ.get("LIMNER_DATA") if found.folder else None
    if not config.annotations and not folder:
        hint = " or $LIMNER_DATA" if found.folder else ", its file or folder"
        raise ConfigError(f"{found.name}: no place given; set data.annotations{hint}, or pass --annotations")
    place = Path(config.annotations or Path(folder or "") / "data" / found.folder).expanduser()
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
    if found.beside:  # the reader finds its pictures by what the files say
        return found.read(replace(source, pictures=pictures))
    if not place.exists():
        raise MissingError(f"{found.name}: {place}: {whereabouts(place)}; give the folder of the annotations")
    if texts_alone and not look:
        return found.read(source)
    pictures = pictures or _pictures_beside(place)
    if pictures is not None and pictures.is_dir():
        return found.read(replace(source, pictures=pictures, opened=not texts_alone))
    beside = place if place.is_dir() else place.parent
    absent = (
        f"{found.name}: no pictures at {pictures or ' or '.join(str(beside / name) for name in USUAL)}"
        f"{'' if pictures else f', nor any in {beside} or below'} ({whereabouts(pictures or beside)});"
        " set data.pictures or pass --pictures with their folder"
        + (f"; 'limner data fetch {found.name}' gets them" if found.wanted else "")
    )
    data = found.read(source)  # what is wrong with the annotations comes first
    if not texts_alone:
        raise MissingError(absent)
    return replace(data, notes=(*data.notes, absent))


def _pictures_beside(place: Path) -> Path | None:
    """The first folder that holds pictures, in it or below: a usual one beside the annotations, or theirs."""
    beside = place if place.is_dir() else place.parent
    folders = [folder for folder in (*(beside / name for name in USUAL), beside) if folder.is_dir()]
    return next(filter(has_pictures, folders), None)


def split_source(config: SourceConfig, manifest: Path | None = None) -> PairSet:
    """A set that lies in files, with a split, and all of its pairs, whatever their licence.

    Args:
        config: which.
        manifest: see `Source`.
    Raises:
        ConfigError: see `read_source`; or two kinds of split are asked for.
        MissingError, DataError: see the readers.
    """
    data = read_source(config, manifest=manifest)
    if config.by_source:
        if config.split != "grouped":
            raise ConfigError(f"data: by_source makes a grouped split, split is {config.split!r}; choose one")
        if config.test_share is not None or config.val_share is not None:
            raise ConfigError("data: by_source has shares of its own; leave test_share and val_share out")
        data = split_by_source(data, config.split_seed)
    if not all(pair.split and pair.group for pair in data.pairs):
        data = split_pairs(
            data, config.split, config.split_seed, test_share=config.test_share, val_share=config.val_share
        )
    return data
