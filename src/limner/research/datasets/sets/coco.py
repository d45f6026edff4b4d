"""COCO captions: the files of 2014 or 2017 as released, or the Karpathy JSON with its split.

One caption of each picture counts, chosen once by seed, unless all are asked for. The released halves
such as train2014 are recorded, and only Karpathy's file states a test split. The pictures of 2017 are those
of 2014 under shorter names.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from limner.errors import DataError, MissingError
from limner.research.datasets.folders import read_json
from limner.research.datasets.missing import pair_set
from limner.research.datasets.pairs import DataSet, Pair, PairSet, Source, register

HALVES = (("train2014", "val2014"), ("train2017", "val2017"))
KARPATHY_NAME = "dataset_coco.json"


class _Sentence(BaseModel):
    raw: str


class _Picture(BaseModel):
    """A picture in the Karpathy file; restval is train."""

    number: int = Field(alias="cocoid")
    name: str = Field(alias="filename", min_length=1)
    half: str = Field(default="", alias="filepath")
    split: Literal["", "train", "restval", "val", "test"]
    sentences: list[_Sentence]


class _Karpathy(BaseModel):
    images: list[_Picture]


class _Image(_Picture):
    number: int = Field(alias="id")
    name: str = Field(alias="file_name", min_length=1)
    split: Literal[""] = ""
    sentences: list[_Sentence] = []


class _Annotation(BaseModel):
    image_id: int
    caption: str


class _Released(BaseModel):
    images: list[_Image]
    annotations: list[_Annotation]


def read_coco(source: Source) -> PairSet:
    """Read COCO captions in either form.

    Args:
        source: the Karpathy file, one ``captions_<half>.json``, or the folder of the former or of the halves
            of one year, or one above it; pictures are known by their names of 2014 or of 2017. The choice of
            a caption depends on seed and picture alone.
    Raises:
        MissingError: no such file.
        DataError: not of either form, a caption of no picture, or too many pictures are missing.
    Source: docs/methods/data.md §2.6.
    """
    place = source.place
    files = _files(source) if place.is_dir() else [place]
    pictures = [picture for file in files for picture in _pictures(file)]
    if len({picture.number for picture in pictures}) != len(pictures):
        raise DataError(f"{place}: a picture id comes twice; use the files as released")
    renamed = _renamed(source.pictures)
    pairs: list[Pair] = []
    names: dict[str, str] = {}
    bare = 0
    for picture in pictures:
        texts = [sentence.raw for sentence in picture.sentences if sentence.raw.strip()]
        bare += not texts
        names[picture.name] = f"{picture.number:012}.jpg" if renamed else picture.name
        pairs += [
            Pair(
                id=f"coco-{picture.number}-{at}",
                text=text,
                image=picture.name,
                split="train" if picture.split == "restval" else picture.split,
                meta={"half": picture.half},
            )
            for at, text in enumerate(texts)
            if source.every or at == _choice(source.seed, picture.number, len(texts))
        ]
    counted = {"pictures without a caption left out": bare}
    if len(files) == 1 and "captions_" in files[0].name:
        counted[f"halves read of 2 ({files[0].name})"] = 1
    return pair_set("coco", pairs, source, files=names, counted=counted)


def _files(source: Source) -> list[Path]:
    """Karpathy's file where it is there, else both halves of a year, else the one that is."""
    with suppress(MissingError):
        return [source.find(KARPATHY_NAME)]
    found: list[Path] = []
    for halves in HALVES:
        for half in halves:
            with suppress(MissingError):
                found.append(source.find(f"captions_{half}.json"))
        if found:
            return found
    return [source.find(KARPATHY_NAME, *(f"captions_{half}.json" for halves in HALVES for half in halves))]


def _renamed(pictures: Path | None) -> bool:
    """Whether the pictures are those of 2017, by the names of their folders."""
    if pictures is None or not pictures.is_dir():
        return False
    near = [pictures.absolute().parent, pictures, *(one for one in pictures.iterdir() if one.is_dir())]
    old, new = ({(one / half).is_dir() for one in near for half in halves} for halves in HALVES)
    return True in new and True not in old


def _pictures(file: Path) -> Sequence[_Picture]:
    if "captions_" not in file.name:
        return read_json(
            file,
            _Karpathy,
            "the Karpathy JSON (images with split, sentences and cocoid), or captions_train2014.json",
        ).images
    found = read_json(file, _Released, "an object with images and annotations of COCO captions")
    own = {image.number: image for image in found.images}
    for image in found.images:
        image.half, image.sentences = file.stem.removeprefix("captions_"), []
    for one in found.annotations:
        if one.image_id not in own:
            raise DataError(f"{file}: a caption names picture {one.image_id}, which images lacks")
        own[one.image_id].sentences.append(_Sentence(raw=one.caption))
    return found.images


def _choice(seed: int, number: int, of: int) -> int:
    """One of `of`, by seed and picture id alone, so that a subset of the pictures keeps its captions."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:8], "big") % of


register(DataSet("coco", "photographs with captions, one or all of a picture", read_coco, folder="coco"))
