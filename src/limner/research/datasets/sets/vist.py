"""VIST: stories of five sentences, each written for one photo of an album.

Public readers trust the order of the file; here the stated position decides, and a story is whole or left
out, because systems that read a story before a step would learn from holes.
"""

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from limner.errors import DataError
from limner.files import shown
from limner.research.datasets.folders import read_json
from limner.research.datasets.missing import pair_set
from limner.research.datasets.pairs import (
    SPLITS,
    DataSet,
    Pair,
    PairSet,
    PairSplit,
    Source,
    files_by_split,
    register,
)

PLACES = frozenset(range(5))


class _File(TypedDict):
    annotations: list[object]


def read_vist(source: Source) -> PairSet:
    """Read stories in sequence.

    Args:
        source: one ``….story-in-sequence.json``, or the folder of those of train, val and test; a picture is
            ``<photo_flickr_id>.<any suffix>``, in any folder below that of the pictures.
    Returns:
        Five pairs per story, with the split of the file; `seq` is the story, the album is in `meta`. Stories
        left out are counted in `notes`.
    Raises:
        MissingError: no such file.
        DataError: not of the form, no whole story, or too many pictures are missing.
    Source: docs/methods/data.md §2.5.
    """
    counted: Counter[str] = Counter()
    pairs: list[Pair] = []
    seen: set[str] = set()
    files = _files(source)
    if source.place.is_dir() and len(files) < len(SPLITS):
        counted[f"splits read of {len(SPLITS)} ({', '.join(split for _, split in files)})"] = len(files)
    for file, split in files:
        stories: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for listed in read_json(file, _File, 'an object with "annotations", a list of lists')["annotations"]:
            one = listed[0] if isinstance(listed, list) and len(listed) == 1 else listed
            if isinstance(one, dict) and _plain(one.get("story_id")):
                stories[_plain(one["story_id"])].append(one)
            else:
                counted["annotations without a story"] += 1
        for key, sentences in stories.items():
            if key in seen:
                raise DataError(
                    f"{file}: story {shown(key)!r} stands in two files; use the files as released"
                )
            seen.add(key)
            pairs += _pairs(key, split, sentences, counted)
    if not pairs:
        raise DataError(f"{source.place}: no story with five positions; expected VIST's story-in-sequence")
    data = pair_set("vist", pairs, source, named="stem")
    whole = Counter(pair.seq for pair in data.pairs)
    kept = tuple(pair for pair in data.pairs if whole[pair.seq] == len(PLACES))
    if broken := sum(number < len(PLACES) for number in whole.values()):
        counted["further stories left out, a picture of theirs being missing"] = broken
    if not kept:
        raise DataError(f"{source.place}: no story has all its pictures; fetch them or read the texts alone")
    notes = tuple(f"vist: {what}: {number:,}" for what, number in counted.items())
    return replace(data, pairs=kept, notes=data.notes + notes)


def _files(source: Source) -> list[tuple[Path, PairSplit]]:
    if source.place.is_dir():
        return [*files_by_split(source, "*.story-in-sequence.json")]
    first = source.place.name.partition(".")[0]
    return [(source.place, next((split for split in SPLITS if split == first), ""))]


def _plain(value: object) -> str:
    """An id, which some files write as a number."""
    return str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _pairs(key: str, split: PairSplit, sentences: list[dict[str, Any]], counted: Counter[str]) -> list[Pair]:
    places: dict[int, dict[str, Any]] = {}
    for one in sentences:
        stated = _plain(one.get("worker_arranged_photo_order"))
        if stated.isdecimal() and len(stated) < 3:
            places[int(stated)] = one
    if len(sentences) != len(PLACES) or places.keys() != PLACES:
        counted["stories left out, without five distinct positions"] += 1
        return []
    pairs = []
    for place in sorted(places):
        one = places[place]
        text = one.get("original_text") or one.get("text")
        photo = _plain(one.get("photo_flickr_id"))
        if not isinstance(text, str) or not text.strip() or not photo:
            counted["stories left out, a sentence or photo not being stated"] += 1
            return []
        pairs.append(
            Pair(
                id=f"vist-{key}-{place}",
                text=text.strip(),
                image=photo,
                split=split,
                seq=key,
                pos=place,
                meta={"album": _plain(one.get("album_id"))},
            )
        )
    return pairs


register(DataSet("vist", "stories written for albums", read_vist, sequence="story", folder="vist"))
