"""The data set a run names: its pairs with a split, and what training sees of the pictures.

It brings readers, splits, drawings and stored features together; nothing is trained here.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from limner.errors import ConfigError, MissingError

if TYPE_CHECKING:
    from limner.datasets.features import Layer
    from limner.datasets.pairs import PairSet
    from limner.training.pictures import PictureRows
    from limner.training.settings import DataConfig, SourceConfig


def open_corpus(
    config: "DataConfig",
    *,
    files: bool = False,
    layer: "Layer" = "pooled",
    mirrored: bool = False,
    weights: Path | None = None,
    device: str = "cpu",
    report: Callable[[int, int], None] = lambda done, total: None,
) -> tuple["PairSet", "PictureRows"]:
    """Pairs with split and group, and their pictures.

    Args:
        config: which.
        files: pictures are decoded from files each time, instead of stored features.
        layer: which features are stored.
        mirrored: store those of mirrored training pictures as well; of the layer "blocks" alone.
        weights: of the backbone, a file or a folder; None looks in the usual places.
        device: torch device that computes features.
        report: called with pictures done and due while features are computed.
    Raises:
        ConfigError: a set needs a folder that is not named.
        MissingError, DataError, CheckpointError: see the readers and `picture_features`.
    """
    from limner.datasets.mixture import licensed
    from limner.datasets.sets.picturebook import picture_book, shuffle_relations
    from limner.training.pictures import ArrayRows, FileRows

    if config.set == "picturebook":
        data, pixels = picture_book(config.stories, config.world_seed, config.picture_px)
        if config.shuffle_relations:
            data = shuffle_relations(data, config.world_seed)
        return data, ArrayRows([pair.image_id for pair in data.pairs], pixels)
    data = _mixture(config) if config.set == "mixture" else licensed(parted(config), config.licences)
    if config.shuffle_relations:
        data = shuffle_relations(data, config.split_seed)
    if config.limit is not None:
        data = _limited(data, config.limit)
    if files:
        return data, FileRows({pair.image_id: pair.image for pair in data.pairs})
    from limner.datasets.features import block_features, picture_features

    if layer == "blocks":
        return data, block_features(
            data, Path(config.features), mirrored=mirrored, device=device, report=report
        )
    features = picture_features(
        data,
        Path(config.features),
        backbone=config.backbone,
        layer=layer,
        weights=weights,
        device=device,
        report=report,
    )
    return data, features


def parted(config: "SourceConfig") -> "PairSet":
    """A set that lies in files, with a split, and all of its pairs, whatever their licence.

    Raises:
        ConfigError: a set needs a folder that is not named, or two kinds of split are asked for.
        MissingError, DataError: see the readers.
    """
    from limner.datasets.pairs import split_by_source, split_pairs

    data = read_corpus(config)
    if config.by_source:
        if config.split != "grouped":
            raise ConfigError(f"data: by_source makes a grouped split, split is {config.split!r}; choose one")
        data = split_by_source(data, config.split_seed)
    if not all(pair.split and pair.group for pair in data.pairs):
        data = split_pairs(data, config.split, config.split_seed)
    return data


def _mixture(config: "DataConfig") -> "PairSet":
    """Several sets as one, each split by itself."""
    from limner.datasets.mixture import mixed

    if not config.mixture:
        raise ConfigError('data: set "mixture" without sets; add tables [data.mixture.NAME]')
    entries = {}
    for name, entry in config.mixture.items():
        place = os.environ.get("LIMNER_DATA")
        if not entry.annotations and not place:
            raise ConfigError(
                f"data.mixture.{name}: no folder given; set data.mixture.{name}.annotations or $LIMNER_DATA"
            )
        folder = entry.annotations or str(Path(place or "") / "data" / name)
        entries[name] = entry.model_copy(update={"annotations": folder})
    return mixed(
        {name: parted(entry) for name, entry in entries.items()},
        {name: entry.weight for name, entry in entries.items()},
        {name: entry.licences for name, entry in entries.items()},
    )


def read_corpus(config: "SourceConfig", *, texts_alone: bool = False) -> "PairSet":
    """The pairs of a set that lies in files, as read: with the split its files state, if any.

    Args:
        config: which.
        texts_alone: look for no pictures of a published set; those of other sets are always opened, because
            their texts lie beside them.
    Raises:
        ConfigError: a set needs a folder that is not named, or lies in no files of its own.
        MissingError, DataError: see the readers.
    """
    name: str = config.set  # may be one of `DataConfig`, which a source alone cannot be
    if name in ("picturebook", "mixture"):
        made = "drawn" if name == "picturebook" else "made of several"
        raise ConfigError(f"data: set {name!r} is {made}, not read; use open_corpus")
    if config.set in ("pairs", "stories", "captions", "folder"):
        return _own(config)
    if config.set in ("coco", "goodnews", "politics", "conceptual", "recipeqa", "vist"):
        return _plain(config, texts_alone=texts_alone)
    return _annotated(config, texts_alone=texts_alone)


def _plain(config: "SourceConfig", *, texts_alone: bool) -> "PairSet":
    """A published set without relations."""
    from limner.datasets.sets.coco import read_coco
    from limner.datasets.sets.conceptual import read_conceptual
    from limner.datasets.sets.goodnews import read_goodnews
    from limner.datasets.sets.politics import read_politics
    from limner.datasets.sets.recipeqa import read_recipeqa
    from limner.datasets.sets.vist import read_vist

    place = _folder(config)
    pictures = None if texts_alone else _pictures(config, place)
    missing, share = config.missing, config.max_missing
    if config.set == "coco":
        return read_coco(
            place,
            pictures=pictures,
            every=config.every_caption,
            seed=config.caption_seed,
            missing=missing,
            max_missing=share,
        )
    if config.set == "goodnews":
        return read_goodnews(place, pictures=pictures, missing=missing, max_missing=share)
    published: dict[str, Callable[..., PairSet]] = {
        "politics": read_politics,
        "conceptual": read_conceptual,
        "recipeqa": read_recipeqa,
        "vist": read_vist,
    }
    return published[config.set](place, pictures=pictures, missing=missing, max_missing=share)


def _own(config: "SourceConfig") -> "PairSet":
    """A set that is no published one: a file of pairs, or a folder of stories or captions."""
    from limner.datasets.missing import with_pictures
    from limner.datasets.pairs import PairSet
    from limner.datasets.sets.captions import caption_pairs, read_captions
    from limner.datasets.sets.image_folder import read_captioned_folder
    from limner.datasets.sets.pair_file import read_pairs
    from limner.datasets.sets.stories import read_stories, story_pairs

    if not config.annotations:
        raise ConfigError(f"data: set {config.set!r} needs data.annotations, its file or folder")
    place = Path(config.annotations).expanduser()
    missing, share = config.missing, config.max_missing
    if config.set == "stories":
        return story_pairs(read_stories(place), missing=missing, max_missing=share)
    if config.set == "folder":
        return read_captioned_folder(place, every=config.every_caption, missing=missing, max_missing=share)
    if config.set == "captions":
        return caption_pairs(
            read_captions(place), every=config.every_caption, missing=missing, max_missing=share
        )
    pairs = read_pairs(place)
    data = PairSet(place.stem, tuple(pairs[0].labels) if pairs else (), pairs)
    # paths are the user's own: below data.pictures or the file's folder, or absolute
    base, root = (
        Path(config.pictures).expanduser() if config.pictures else place.parent,
        Path(place.anchor or "/"),
    )
    names = {pair.image: os.path.relpath((base / pair.image).absolute().resolve(), root) for pair in pairs}
    return with_pictures(data, root, names, missing=missing, max_missing=share)


def _annotated(config: "SourceConfig", *, texts_alone: bool) -> "PairSet":
    """A published set with its pictures."""
    from limner.datasets.sets.cite import read_cite, read_cite_plus
    from limner.datasets.sets.clue import read_clue, read_clue_tsv

    folder = _folder(config)
    pictures = None if texts_alone else _pictures(config, folder)
    missing, share = config.missing, config.max_missing
    if config.set == "cite++":
        return read_cite_plus(
            folder / "train.csv", folder / "test.csv", pictures=pictures, missing=missing, max_missing=share
        )
    if config.set == "cite":
        return read_cite(folder, pictures=pictures, missing=missing, max_missing=share)
    read = read_clue if config.set == "clue" else read_clue_tsv
    return read(folder, pictures=pictures, missing=missing, max_missing=share)


def _pictures(config: "SourceConfig", place: Path) -> Path:
    """The folder of the pictures: as stated, or ``images`` beside the annotations."""
    beside = place if place.is_dir() else place.parent
    pictures = Path(config.pictures).expanduser() if config.pictures else beside / "images"
    if not pictures.is_dir():
        raise MissingError(
            f"{config.set}: no pictures at {pictures}; set data.pictures to their folder"
            " (limner data fetch gets those of clue)"
        )
    return pictures


def _folder(config: "SourceConfig") -> Path:
    """Where the annotation files of a set lie."""
    if config.annotations:
        return Path(config.annotations).expanduser()
    place = os.environ.get("LIMNER_DATA")
    if not place:
        raise ConfigError(f"{config.set}: no folder given; set data.annotations or $LIMNER_DATA")
    return Path(place) / "data" / config.set.removesuffix("-tsv")


def _limited(data: "PairSet", limit: int) -> "PairSet":
    """The first pairs of every split, and a name that says so: their features are stored apart."""
    kept, counts = [], dict.fromkeys(("", "train", "val", "test"), 0)
    for pair in data.pairs:
        counts[pair.split] += 1
        if counts[pair.split] <= limit:
            kept.append(pair)
    return replace(data, name=f"{data.name}-first{limit}", pairs=tuple(kept))
