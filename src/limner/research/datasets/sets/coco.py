"""COCO captions: the released files of 2014 or 2017, or the Karpathy JSON with its split.

By default one caption per picture is used, chosen by seed. The released parts, such as train2014, are
recorded in `meta`; only Karpathy's file has a test split. The pictures of 2017 are those of 2014 with shorter
names.
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
    """A picture in the Karpathy file; split restval counts as train."""

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
        source: the Karpathy file, one ``captions_<half>.json``, or a folder that contains (or has in a
            subfolder) the Karpathy file or both halves of a year. Pictures are found by their names of 2014
            or 2017. The choice of a caption depends only on seed and picture.
    Raises:
        MissingError: the file does not exist.
        DataError: the file has another form, a caption has no picture, or too many pictures are missing.
    Source: docs/methods/data.md §2.6.
    """
    place = source.place
    files = _files(source) if place.is_dir() else [place]
    pictures = [picture for file in files for picture in _pictures(file)]
    if len({picture.number for picture in pictures}) != len(pictures):
        raise DataError(f"{place}: a picture id is repeated; use the files as released")
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
    """Find Karpathy's file, else both halves of a year, else one half."""
    with suppress(MissingError):
        return [source.find(KARPATHY_NAME)]
    files: list[Path] = []
    for halves in HALVES:
        for half in halves:
            with suppress(MissingError):
                files.append(source.find(f"captions_{half}.json"))
        if files:
            return files
    return [source.find(KARPATHY_NAME, *(f"captions_{half}.json" for halves in HALVES for half in halves))]


def _renamed(pictures: Path | None) -> bool:
    """Whether the folders of pictures are named as in 2017."""
    if pictures is None or not pictures.is_dir():
        return False
    near = [
        pictures.absolute().parent,
        pictures,
        *(folder for folder in pictures.iterdir() if folder.is_dir()),
    ]
    old, new = ({(folder / half).is_dir() for folder in near for half in halves} for halves in HALVES)
    return True in new and True not in old


def _pictures(file: Path) -> Sequence[_Picture]:
    if "captions_" not in file.name:
        return read_json(
            file,
            _Karpathy,
            "the Karpathy JSON (images with split, sentences and cocoid), or captions_train2014.json",
        ).images
    released = read_json(file, _Released, "an object with images and annotations of COCO captions")
    images = {image.number: image for image in released.images}
    for image in released.images:
        image.half, image.sentences = file.stem.removeprefix("captions_"), []
    for annotation in released.annotations:
        if annotation.image_id not in images:
            raise DataError(f"{file}: a caption names picture {annotation.image_id}, which is not in images")
        images[annotation.image_id].sentences.append(_Sentence(raw=annotation.caption))
    return released.images


def _choice(seed: int, number: int, of: int) -> int:
    """A number below `of` that depends only on seed and picture, so subsets keep their captions."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:8], "big") % of


register(DataSet("coco", "photographs with captions (one or all per picture)", read_coco, folder="coco"))
