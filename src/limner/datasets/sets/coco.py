"""COCO captions: the files of 2014 as released, or the Karpathy JSON with its split.

One caption of each picture counts, chosen once by seed, unless all are asked for. The released halves
train2014 and val2014 are recorded, and only Karpathy's file states a test split.
"""

import hashlib
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from limner.datasets.base import DataSet, Source, read_json, register
from limner.datasets.missing import pair_set
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


class _Split(TypedDict):
    filename: _Name
    split: Literal["train", "restval", "val", "test"]
    sentences: list[_Sentence]
    cocoid: int
    filepath: NotRequired[str]


class _Karpathy(TypedDict):
    images: list[_Split]


class _Picture(NamedTuple):
    number: int
    name: str
    half: str
    split: PairSplit
    captions: list[str]


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
    place, root = source.place, source.pictures
    files = [place]
    if place.is_dir():
        halves = [place / f"captions_{half}.json" for half in HALVES]
        files = [file for file in (place / KARPATHY_NAME, *halves) if file.is_file()]
        if not files:
            raise MissingError(f"{place}: neither {KARPATHY_NAME} nor {halves[0].name} is there")
        if files[0].name == KARPATHY_NAME:
            del files[1:]
    pictures = [
        picture
        for file in files
        for picture in (_released(file) if "captions_" in file.name else _karpathy(file))
    ]
    if len({picture.number for picture in pictures}) != len(pictures):
        raise DataError(f"{place}: a picture id comes twice; use the files as released")
    halved = root is not None and any((root / half).is_dir() for half in HALVES)
    pairs: list[Pair] = []
    names: dict[str, str] = {}
    bare = 0
    for picture in pictures:
        texts = [text for text in picture.captions if text.strip()]
        bare += not texts
        names[picture.name] = f"{picture.half}/{picture.name}" if halved else picture.name
        pairs += [
            Pair(
                id=f"coco-{picture.number}-{at}",
                text=text,
                image=picture.name,
                split=picture.split,
                meta={"half": picture.half},
            )
            for at, text in enumerate(texts)
            if source.every or at == _choice(source.seed, picture.number, len(texts))
        ]
    counted = {"pictures without a caption left out": bare}
    return pair_set("coco", pairs, source, files=names, counted=counted)


def _released(file: Path) -> list[_Picture]:
    """The pictures of one half."""
    found = read_json(file, _Released, "an object with images and annotations of COCO captions")
    half = file.stem.removeprefix("captions_")
    captions: dict[int, list[str]] = {image["id"]: [] for image in found["images"]}
    for one in found["annotations"]:
        if one["image_id"] not in captions:
            raise DataError(f"{file}: a caption names picture {one['image_id']}, which images lacks")
        captions[one["image_id"]].append(one["caption"])
    return [
        _Picture(image["id"], image["file_name"], half, "", captions[image["id"]])
        for image in found["images"]
    ]


def _karpathy(file: Path) -> list[_Picture]:
    """The pictures of the Karpathy file; restval is train."""
    found = read_json(file, _Karpathy, "the Karpathy JSON: images with split, sentences and cocoid")
    return [
        _Picture(
            image["cocoid"],
            image["filename"],
            image.get("filepath", ""),
            "train" if image["split"] == "restval" else image["split"],
            [sentence["raw"] for sentence in image["sentences"]],
        )
        for image in found["images"]
    ]


def _choice(seed: int, number: int, of: int) -> int:
    """One of `of`, by seed and picture id alone, so that a subset of the pictures keeps its captions."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:8], "big") % of


register(DataSet("coco", "photographs with captions, one or all of a picture", read_coco, folder="coco"))
