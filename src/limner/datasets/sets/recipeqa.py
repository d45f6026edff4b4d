"""RecipeQA: recipes in steps, each with the first of its pictures.

The files hold questions, and a recipe stands under several of them, so it is taken once. Its steps pass the
filters that pages pass.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from limner.datasets.missing import pair_set
from limner.datasets.pairs import Pair, PairSet, PairSplit
from limner.datasets.recipes.filters import filtered
from limner.datasets.recipes.saved_pages import Piece, one_picture_each
from limner.datasets.registry import DataSet, Source, files_by_split, read_json, register
from limner.datasets.splits import SPLITS
from limner.errors import DataError
from limner.records import PictureRef


class _File(TypedDict):
    data: list[dict[str, Any]]


def read_recipeqa(source: Source) -> PairSet:
    """Read the recipes of RecipeQA.

    Args:
        source: one file, or a folder of ``train.json``, ``val.json`` and ``test.json`` (or ``new_train.json``
            …), whose recipes then state their split; pictures as the steps name them.
    Returns:
        One pair per step; `seq` is the recipe. What a filter or the rule of two segments removed, and data
        of another form, is counted in `notes`.
    Raises:
        MissingError: no such file, or the tagger of the filters is not installed.
        DataError: not of the form, no recipe, or too many pictures are missing.
    Source: docs/methods/data.md §2.4, §3.3.
    """
    counted: Counter[str] = Counter()
    pairs: list[Pair] = []
    for key, split, pieces in read_recipes(source, counted):
        pairs += _pairs(key, split, pieces, counted)
    if not pairs:
        raise DataError(f"{source.place}: no recipe with two usable steps; expected RecipeQA as released")
    return pair_set("recipeqa", pairs, source, counted=counted)


def read_recipes(source: Source, counted: Counter[str]) -> Iterator[tuple[str, PairSplit, list[Piece]]]:
    """Each recipe once, unfiltered: (id, split its file states or "", steps with their first picture).

    Args:
        source: as `read_recipeqa` takes it.
        counted: what holds no recipe, or one that is there already, is counted here.
    Raises:
        MissingError: no such file.
        DataError: not of the form.
    """
    seen: set[str] = set()
    place = source.place
    files: list[tuple[Path, PairSplit]] = [(place, "")]
    if place.is_dir():
        files = [*files_by_split(source, "*.json", "new_*.json")]
        if len(files) < len(SPLITS):
            counted[f"splits read of {len(SPLITS)} ({', '.join(split for _, split in files)})"] = len(files)
    for file, split in files:
        found = read_json(file, _File, 'an object with "data", a list of questions')["data"]
        for datum in found:
            context = datum.get("context")
            steps = [step for step in context if isinstance(step, dict)] if isinstance(context, list) else []
            if not steps:
                counted["questions without a context"] += 1
                continue
            key = _recipe_id(datum, steps)
            if key in seen:
                counted["questions about a recipe that is there already"] += 1
                continue
            seen.add(key)
            yield key, split, [_piece(step) for step in steps]


def _recipe_id(datum: dict[str, Any], steps: list[dict[str, Any]]) -> str:
    """The id stated, else a hash of the bodies."""
    stated = datum.get("recipe_id")
    if isinstance(stated, str | int) and not isinstance(stated, bool) and str(stated).strip():
        return str(stated)
    bodies = "\n".join(_words(step, "body") for step in steps)
    return hashlib.sha256(bodies.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _words(step: dict[str, Any], key: str) -> str:
    value = step.get(key)
    return " ".join(value.replace("\0", "").split()) if isinstance(value, str) else ""


def _piece(step: dict[str, Any]) -> Piece:
    images = step.get("images")
    names = [one for one in images if isinstance(one, str) and one] if isinstance(images, list) else []
    text = " ".join(filter(None, (_words(step, "title"), _words(step, "body"))))
    return Piece(text, tuple(PictureRef(target=name) for name in names[:1]))


def _pairs(key: str, split: PairSplit, pieces: list[Piece], counted: Counter[str]) -> list[Pair]:
    segments, removed = one_picture_each(pieces)
    counted.update(one.reason for one in removed)
    found = filtered(segments)
    counted.update(f"steps: {one.reason}" for one in found.removed)
    if len(found.segments) < 2:
        counted["recipes with fewer than 2 segments"] += 1
        return []
    return [
        Pair(
            id=f"recipeqa-{key}-{number}",
            text=one.text,
            image=one.picture.target,
            split=split,
            seq=key,
            pos=number,
        )
        for number, one in enumerate(found.segments)
    ]


register(DataSet("recipeqa", "recipes in steps", read_recipeqa, sequence="recipe", folder="recipeqa"))
