"""COCO captions: the files of 2014 as released, or the Karpathy JSON with its split.

One caption of each picture counts, chosen once by seed, unless all are asked for. The released halves
train2014 and val2014 are recorded, and only Karpathy's file states a test split.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from limner.datasets.base import DataSet, Source, read_json, register
from limner.datasets.missing import with_pictures
from limner.datasets.pairs import Pair, PairSet, PairSplit
from limner.errors import DataError, MissingError

HALVES = ("train2014", "val2014")
KARPATHY_NAME = "dataset_coco.json"
_Name = Annotated[str, Field(min_length=1)]


class _Image(TypedDict):
    id: int
    file_name: _Name


class _Annotation(TypedDict):
    image_id: int
    caption: str


class _Released(TypedDict):
    images: list[_Image]
    annotations: list[_Annotation]


class _Sentence(TypedDict):
    raw: str


class _Place(TypedDict, total=False):
    filepath: str


class _Split(_Place):
    filename: _Name
    split: Literal["train", "restval", "val", "test"]
    sentences: list[_Sentence]
    cocoid: int


class _Karpathy(TypedDict):
    images: list[_Split]


def read_coco(source: Source) -> PairSet:
    """Read COCO captions in either form.

    Args:
        source: the Karpathy file, one ``captions_<half>.json``, or the folder of the former or of both
            halves, and the folder of the pictures, or of ``train2014`` and ``val2014``. The choice of a
            caption depends on seed and picture alone.
    Raises:
        MissingError: no such file.
        DataError: not of either form, a caption of no picture, or too many pictures are missing.
    Source: docs/methods/data.md §2.6.
    """
    place, every, seed = source.place, source.every, source.seed
    halves = [place / f"captions_{half}.json" for half in HALVES]
    if place.is_dir() and not (place / KARPATHY_NAME).is_file():
        found = [file for file in halves if file.is_file()]
        if not found:
            raise MissingError(f"{place}: neither {KARPATHY_NAME} nor {halves[0].name} is there")
        parts = [_released(file, every, seed) for file in found]
    else:
        file = place / KARPATHY_NAME if place.is_dir() else place
        parts = [_released(file, every, seed) if "captions_" in file.name else _karpathy(file, every, seed)]
    pairs = [pair for some, _ in parts for pair in some]
    bare = sum(number for _, number in parts)
    if len({pair.id for pair in pairs}) != len(pairs):
        raise DataError(f"{place}: a picture id comes twice; use the files as released")
    notes = (f"coco: {bare} pictures without a caption left out",) if bare else ()
    root = source.pictures
    halved = root is not None and any((root / half).is_dir() for half in HALVES)
    files = {pair.image: f"{pair.meta['half']}/{pair.image}" if halved else pair.image for pair in pairs}
    data = PairSet("coco", (), tuple(pairs), notes=notes)
    return with_pictures(data, source, files)


def _released(file: Path, every: bool, seed: int) -> tuple[list[Pair], int]:
    """Pairs of one half, and the number of pictures without a caption."""
    found = read_json(file, TypeAdapter(_Released), "an object with images and annotations of COCO captions")
    half = file.stem.removeprefix("captions_")
    captions: dict[int, list[str]] = {image["id"]: [] for image in found["images"]}
    if len(captions) != len(found["images"]):
        raise DataError(f"{file}: a picture id comes twice; use the file as released")
    for one in found["annotations"]:
        if one["image_id"] not in captions:
            raise DataError(f"{file}: a caption names picture {one['image_id']}, which images lacks")
        captions[one["image_id"]].append(one["caption"])
    pairs = [
        pair
        for image in found["images"]
        for pair in _pairs(
            _picture(image["file_name"], half, ""), image["id"], captions[image["id"]], every, seed
        )
    ]
    return pairs, len(captions) - len({pair.image for pair in pairs})


def _karpathy(file: Path, every: bool, seed: int) -> tuple[list[Pair], int]:
    """Pairs of the Karpathy file, and the number of pictures without a caption; restval is train."""
    found = read_json(
        file, TypeAdapter(_Karpathy), "the Karpathy JSON: images with split, sentences and cocoid"
    )
    pairs: list[Pair] = []
    for image in found["images"]:
        split: PairSplit = "train" if image["split"] == "restval" else image["split"]
        texts = [sentence["raw"] for sentence in image["sentences"]]
        picture = _picture(image["filename"], image.get("filepath", ""), split)
        pairs += _pairs(picture, image["cocoid"], texts, every, seed)
    return pairs, len(found["images"]) - len({pair.image for pair in pairs})


def _picture(name: str, half: str, split: PairSplit) -> Pair:
    """What all pairs of one picture share."""
    return Pair(id=name, text="", image=name, split=split, meta={"half": half})


def _pairs(picture: Pair, number: int, captions: Sequence[str], every: bool, seed: int) -> list[Pair]:
    """The chosen captions of one picture."""
    texts = [text for text in captions if text.strip()]
    chosen = range(len(texts)) if every else [_choice(seed, number, len(texts))] if texts else []
    return [picture.model_copy(update={"id": f"coco-{number}-{at}", "text": texts[at]}) for at in chosen]


def _choice(seed: int, number: int, of: int) -> int:
    """One of `of`, by seed and picture id alone, so that a subset of the pictures keeps its captions."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:8], "big") % of


register(DataSet("coco", "photographs with captions, one or all of a picture", read_coco, folder="coco"))
