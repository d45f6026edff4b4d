"""Pictures with captions: a folder with `captions.jsonl`, as Flickr8k is kept.

One line is one picture and what people wrote about it: the literal set beside the stories.
A picture that is not there is listed, never filled.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from limner.datasets.base import DataSet, Source, register
from limner.datasets.missing import pair_set
from limner.datasets.pairs import Pair, PairSet
from limner.errors import DataError
from limner.files import below, is_there, json_rows, shown, whole_path
from limner.records import Record

FILE_NAME = "captions.jsonl"


class CaptionedPicture(Record):
    """A picture and its captions.

    Attributes:
        name: as written in the file; unique.
        path: the file, absolute; None where it is not there.
        split: train, val or test, where stated.
        captions: at least one, none empty.
    """

    name: str
    path: str | None
    split: Literal["", "train", "val", "test"] = ""
    captions: tuple[str, ...] = Field(min_length=1)


@dataclass(frozen=True)
class CaptionSet:
    """What a folder of captioned pictures holds.

    Attributes:
        folder: where it lies, absolute.
        pictures: in file order.
    """

    folder: Path
    pictures: tuple[CaptionedPicture, ...]

    def split(self, name: Literal["", "train", "val", "test"]) -> tuple[CaptionedPicture, ...]:
        """The pictures of one split that are there, in file order.

        Raises:
            DataError: the set has none.
        """
        chosen = tuple(one for one in self.pictures if one.split == name and one.path is not None)
        if not chosen:
            raise DataError(
                f"{self.folder}: no picture of split {name or '(none)'!r} is there; check the folder"
            )
        return chosen


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")
    file_name: str = Field(min_length=1)
    split: Literal["", "train", "val", "test"] = ""
    captions: list[str] = Field(min_length=1)


def read_captions(folder: Path | str) -> CaptionSet:
    """Read `captions.jsonl` of a folder.

    Args:
        folder: holds the file and, below it, the pictures its lines name.
    Raises:
        MissingError: no such file.
        DataError: the file cannot be read, a line is not a picture with captions, a caption is empty, or a
            name comes twice or lies outside the folder.
    """
    root = whole_path(folder)
    pictures = []
    see = "limner.datasets.sets.captions"
    rows = json_rows(root / FILE_NAME, _Row, one="picture", see=see, key="file_name")
    for where, row in rows:
        captions = tuple(caption.strip() for caption in row.captions)
        if not all(captions):
            raise DataError(
                f"{where}: caption {captions.index('') + 1} of {shown(row.file_name)!r} is empty; remove it"
            )
        file = below(root, row.file_name, where)
        path = str(file) if is_there(file) else None
        pictures.append(CaptionedPicture(name=row.file_name, path=path, split=row.split, captions=captions))
    return CaptionSet(root, tuple(pictures))


def read_caption_pairs(source: Source) -> PairSet:
    """Captions with their pictures: all captions of a picture, or the first alone.

    Raises:
        MissingError, DataError: see `read_captions`; or too many pictures are missing.
    """
    captions = read_captions(source.place)
    pairs = (
        Pair(id=f"{picture.name}-{number}", text=text, image=picture.name, split=picture.split)
        for picture in captions.pictures
        for number, text in enumerate(picture.captions if source.every else picture.captions[:1])
    )
    return pair_set(captions.folder.name, pairs, replace(source, pictures=captions.folder), named="path")


register(DataSet("captions", "a folder with captions.jsonl", read_caption_pairs, beside=True))
