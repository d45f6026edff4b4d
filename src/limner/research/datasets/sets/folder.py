"""Any folder of captioned pictures, with `metadata.jsonl`, `metadata.csv` or sidecar files.

Follows Hugging Face's image folders; subfolders train, validation and test are splits. Embedded metadata and
file names are not captions.
"""

import os
from dataclasses import replace
from pathlib import Path

from limner.errors import DataError, counted
from limner.files import display
from limner.pictures.decode import TABLE_NAMES
from limner.pictures.find import FoundFile, OtherFile, TablesRead, VideoFile, source_path, walk
from limner.pictures.metadata import read_sidecars
from limner.research.datasets.missing import with_pictures
from limner.research.datasets.pairs import DataSet, Pair, PairSet, PairSplit, Source, register

CAPTION_SOURCES = ("metadata", "sidecar")
_SPLITS: dict[str, PairSplit] = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
}


def read_captioned_folder(source: Source) -> PairSet:
    """Read the pictures of a folder that have captions.

    Args:
        source: the folder. Uses all captions of a picture, or the first; captions in tables precede those in
            sidecar files.
    Returns:
        Pairs in the order of the folder; `notes` counts pictures without a caption and lists damaged files.
    Raises:
        MissingError: the folder does not exist.
        DataError: a table or folder cannot be read, a name is not UTF-8, no picture has a caption, or too
            many pictures are missing.
    Source: docs/methods/data.md §2.6.
    """
    root = Path(os.fsdecode(source_path(source.place)))
    pairs: list[Pair] = []
    notes: list[str] = []
    bare = 0
    for entry in walk([os.fsencode(root)]):
        if isinstance(entry, OtherFile | TablesRead | VideoFile):
            continue
        name = _name(root, entry.path)
        if isinstance(entry, FoundFile):
            sidecars = read_sidecars(entry.sidecars, entry.path)
            notes += [f"{root.name}: {name}: {warning}" for warning in sidecars.warnings]
            captions = [
                caption
                for caption in (*entry.words.captions, *sidecars.captions)
                if caption.source in CAPTION_SOURCES
            ]
            texts = list(dict.fromkeys(caption.text for caption in captions))
        elif entry.folder or os.fsencode(Path(name).name) in TABLE_NAMES:
            raise DataError(f"{display(entry.path)}: {entry.reason}")
        else:
            texts = [""]  # unusable picture: `with_pictures` lists it as missing
        bare += not texts
        split = _SPLITS.get(Path(name).parts[0].lower(), "")
        pairs += [
            Pair(id=f"{name}-{number}", text=text, image=name, split=split)
            for number, text in enumerate(texts if source.every else texts[:1])
        ]
    if not any(pair.text for pair in pairs):
        raise DataError(
            f"{root}: no picture has a caption; write metadata.jsonl or metadata.csv with file_name and text"
        )
    if bare:
        notes.append(f"{root.name}: {counted(bare, 'picture')} without a caption left out")
    data = PairSet(root.name, (), tuple(pairs), notes=tuple(notes))
    return with_pictures(data, replace(source, pictures=root))


def _name(root: Path, path: bytes) -> str:
    """Path below the folder, as text."""
    name = os.path.relpath(os.fsdecode(path), root)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise DataError(f"{display(path)}: the name is not UTF-8; rename the file") from None
    if name.startswith(".."):
        raise DataError(f"{display(path)}: lies outside the folder; name pictures below {root.name}")
    return name


register(DataSet("folder", "any folder of captioned pictures", read_captioned_folder, opens_pictures=True))
