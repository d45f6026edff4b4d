"""VIST: stories of five sentences, each written for one photo of an album.

Sentences are ordered by their stated position; public loaders use the order in the file. Incomplete stories
are left out, so that systems with context do not learn from gaps.
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


class _Split(TypedDict):
    annotations: list[object]


def read_vist(source: Source) -> PairSet:
    """Read stories in sequence.

    Args:
        source: one ``….story-in-sequence.json``, or the folder of the files for train, val and test; pictures
            are named ``<photo_flickr_id>.<any suffix>``, in any subfolder.
    Returns:
        Five pairs per story, with the split of the file; `seq` is the story, and `meta` has the album.
        `notes` counts the stories left out.
    Raises:
        MissingError: the file does not exist.
        DataError: the file has another form, no story is complete, or too many pictures are missing.
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
        for listed in read_json(file, _Split, 'an object with "annotations", a list of lists')["annotations"]:
            annotation = listed[0] if isinstance(listed, list) and len(listed) == 1 else listed
            if isinstance(annotation, dict) and _plain(annotation.get("story_id")):
                stories[_plain(annotation["story_id"])].append(annotation)
            else:
                counted["annotations without a story"] += 1
        for key, sentences in stories.items():
            if key in seen:
                raise DataError(f"{file}: story {shown(key)!r} is in two files; use the files as released")
            seen.add(key)
            pairs += _pairs(key, split, sentences, counted)
    if not pairs:
        raise DataError(f"{source.place}: no story with five positions; expected VIST's story-in-sequence")
    data = pair_set("vist", pairs, source, named="stem")
    whole = Counter(pair.seq for pair in data.pairs)
    complete = tuple(pair for pair in data.pairs if whole[pair.seq] == len(PLACES))
    if broken := sum(number < len(PLACES) for number in whole.values()):
        counted["further stories left out because a picture is missing"] = broken
    if not complete:
        raise DataError(
            f"{source.place}: no story has all its pictures; download them or read only the texts"
        )
    notes = tuple(f"vist: {what}: {number:,}" for what, number in counted.items())
    return replace(data, pairs=complete, notes=data.notes + notes)


def _files(source: Source) -> list[tuple[Path, PairSplit]]:
    if source.place.is_dir():
        return [*files_by_split(source, "*.story-in-sequence.json")]
    first = source.place.name.partition(".")[0]
    return [(source.place, next((split for split in SPLITS if split == first), ""))]


def _plain(value: object) -> str:
    """An id as text; some files have numbers."""
    return str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _pairs(key: str, split: PairSplit, sentences: list[dict[str, Any]], counted: Counter[str]) -> list[Pair]:
    places: dict[int, dict[str, Any]] = {}
    for sentence in sentences:
        stated = _plain(sentence.get("worker_arranged_photo_order"))
        if stated.isdecimal() and len(stated) < 3:
            places[int(stated)] = sentence
    if len(sentences) != len(PLACES) or places.keys() != PLACES:
        counted["stories left out without five distinct positions"] += 1
        return []
    pairs = []
    for place in sorted(places):
        sentence = places[place]
        text = sentence.get("original_text") or sentence.get("text")
        photo = _plain(sentence.get("photo_flickr_id"))
        if not isinstance(text, str) or not text.strip() or not photo:
            counted["stories left out because a sentence or photo is not stated"] += 1
            return []
        pairs.append(
            Pair(
                id=f"vist-{key}-{place}",
                text=text.strip(),
                image=photo,
                split=split,
                seq=key,
                pos=place,
                meta={"album": _plain(sentence.get("album_id"))},
            )
        )
    return pairs


register(DataSet("vist", "stories written for albums", read_vist, sequence="story", folder="vist"))
