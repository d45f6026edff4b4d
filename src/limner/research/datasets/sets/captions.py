"""Captioned pictures: a folder with `captions.jsonl`, the format in which Flickr8k is stored.

Each line is one picture with its captions. Missing pictures are listed.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from limner.config import Record
from limner.files import below, is_there, json_rows, whole_path
from limner.research.datasets.missing import pair_set
from limner.research.datasets.pairs import DataSet, Pair, PairSet, PairSplit, Source, register

FILE_NAME = "captions.jsonl"


def _words(caption: str) -> str:
    if not caption.strip():
        raise ValueError("empty caption; remove it")
    return caption.strip()


class CaptionedPicture(Record):
    """A picture and its captions: a line of the file.

    Attributes:
        name: file name as written in the file; unique.
        split: train, val or test; "" if not stated.
        captions: at least one, none empty.
        path: absolute path of the file; None if it does not exist.
    """

    name: str = Field(alias="file_name", min_length=1)
    split: PairSplit = ""
    captions: tuple[Annotated[str, AfterValidator(_words)], ...] = Field(min_length=1)
    path: Path | None = Field(default=None, alias="")


def read_captions(folder: Path) -> list[CaptionedPicture]:
    """Read `captions.jsonl` of a folder.

    Args:
        folder: contains the file and, in it or below, the pictures.
    Returns:
        The pictures in file order.
    Raises:
        MissingError: the file does not exist.
        DataError: the file cannot be read, a line is not a picture with captions, a caption is empty, or a
            name is repeated or lies outside the folder.
    """
    root, see = whole_path(folder), "limner.research.datasets.sets.captions"
    rows = json_rows(root / FILE_NAME, CaptionedPicture, one="picture", see=see, key="name")
    files = [(row, below(root, row.name, where)) for where, row in rows]
    return [row.model_copy(update={"path": file if is_there(file) else None}) for row, file in files]


def read_caption_pairs(source: Source) -> PairSet:
    """Read captions with their pictures: all captions of a picture, or only the first.

    Raises:
        MissingError, DataError: see `read_captions`; or too many pictures are missing.
    """
    root = whole_path(source.place)
    pairs = (
        Pair(id=f"{picture.name}-{number}", text=text, image=picture.name, split=picture.split)
        for picture in read_captions(root)
        for number, text in enumerate(picture.captions if source.every else picture.captions[:1])
    )
    return pair_set(root.name, pairs, replace(source, pictures=root), named="path")


register(DataSet("captions", "a folder with captions.jsonl", read_caption_pairs, opens_pictures=True))
