"""RecipeQA: recipes in steps, each with its first picture.

The files contain several questions per recipe, each of which hides its answer: in some, pictures are missing,
in others titles. The steps of a recipe are therefore merged from all its questions, then filtered like web
pages.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from limner.errors import DataError
from limner.records import PictureRef
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
from limner.research.datasets.recipes.filters import filtered
from limner.research.datasets.recipes.saved_pages import SavedPiece, one_picture_each

PLACEHOLDER = "@placeholder"
"""Text of a hidden answer in a cloze question."""


class _File(TypedDict):
    data: list[dict[str, Any]]


@dataclass
class _Step:
    """A step as shown by one question; hidden fields are ""."""

    id: str
    body: str
    title: str
    picture: str

    def is_part_of(self, other: "_Step") -> bool | None:
        """Whether both are the same step, by the first field that both have; None if they have none."""
        for key in ("body", "id", "title", "picture"):
            mine, its = getattr(self, key), getattr(other, key)
            if mine and its:
                return bool(mine == its)
        return None

    def fill(self, other: "_Step") -> bool:
        """Add missing fields from the same step of another question; returns whether any were added."""
        gained = [
            key for key in ("body", "title", "picture") if getattr(other, key) and not getattr(self, key)
        ]
        for key in gained:
            setattr(self, key, getattr(other, key))
        return bool(gained)

    def piece(self) -> SavedPiece:
        """The step as a piece: title and body, and its picture if there is one."""
        pictures = (PictureRef(target=self.picture),) if self.picture else ()
        return SavedPiece(" ".join(filter(None, (self.title, self.body))), pictures)


def read_recipeqa(source: Source) -> PairSet:
    """Read the recipes of RecipeQA.

    Args:
        source: one file, or a folder of ``train.json``, ``val.json`` and ``test.json`` (or
            ``new_train.json``, …), which set the split; picture files are named in the steps.
    Returns:
        One pair per step; `seq` is the recipe. `notes` counts what was left out: texts removed by filters,
        recipes with fewer than two segments, and entries of another form.
    Raises:
        MissingError: the file does not exist, or textblob, needed by the filters, is not installed.
        DataError: the file has another form or no recipe, or too many pictures are missing.
    Source: docs/methods/data.md §2.4, §3.3.
    """
    counted: Counter[str] = Counter()
    pairs: list[Pair] = []
    for key, split, pieces in read_recipes(source, counted):
        pairs += _pairs(key, split, pieces, counted)
    if not pairs:
        raise DataError(f"{source.place}: no recipe with two usable steps; expected RecipeQA as released")
    return pair_set("recipeqa", pairs, source, counted=counted)


def read_recipes(source: Source, counted: Counter[str]) -> Iterator[tuple[str, PairSplit, list[SavedPiece]]]:
    """Yield each recipe once, unfiltered: id, split of its file or "", and steps with their first picture.

    Args:
        source: see `read_recipeqa`.
        counted: receives the numbers of questions without steps, of further questions about a recipe, and of
            steps that these completed or did not match.
    Raises:
        MissingError: the file does not exist.
        DataError: the file has another form.
    """
    place = source.place
    files: list[tuple[Path, PairSplit]] = [(place, "")]
    if place.is_dir():
        files = [*files_by_split(source, "*.json", "new_*.json")]
        if len(files) < len(SPLITS):
            counted[f"splits read of {len(SPLITS)} ({', '.join(split for _, split in files)})"] = len(files)
    recipes: dict[str, tuple[PairSplit, list[list[_Step]]]] = {}
    for file, split in files:
        questions = read_json(file, _File, 'an object with "data", a list of questions')["data"]
        for datum in questions:
            context = datum.get("context")
            steps = (
                [_step(entry) for entry in context if isinstance(entry, dict)]
                if isinstance(context, list)
                else []
            )
            if not steps:
                counted["questions without a context"] += 1
                continue
            key = _recipe_id(datum, steps)
            if key in recipes:
                counted["further questions about a recipe"] += 1
            recipes.setdefault(key, (split, []))[1].append(steps)
    for key, (split, contexts) in recipes.items():
        yield key, split, [step.piece() for step in _joined(contexts, counted)]


def _joined(contexts: Sequence[list[_Step]], counted: Counter[str]) -> list[_Step]:
    """Merge the steps of a recipe: take the longest context, and complete it from the others.

    Steps are matched by the fields that both contexts show, or by position if they have none in common and
    the contexts are equally long.
    """
    whole, *others = sorted(contexts, key=len, reverse=True)
    gained = set()
    for context in others:
        for place, step in enumerate(context):
            same = next((at for at, other in enumerate(whole) if step.is_part_of(other)), None)
            if same is None and len(context) == len(whole) and step.is_part_of(whole[place]) is None:
                same = place
            if same is None:
                counted["steps that no other question of their recipe has"] += 1
            elif whole[same].fill(step):
                gained.add(same)
    if gained:
        counted["steps completed from several questions"] += len(gained)
    return whole


def _recipe_id(datum: dict[str, Any], steps: list[_Step]) -> str:
    """The stated id, else a hash of the bodies, or of the whole steps if the bodies are hidden."""
    stated = datum.get("recipe_id")
    if isinstance(stated, str | int) and not isinstance(stated, bool) and str(stated).strip():
        return str(stated)
    bodies = "\n".join(step.body for step in steps)
    known = bodies if bodies.strip() else repr(steps)
    return hashlib.sha256(known.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _step(step: dict[str, Any]) -> _Step:
    images, number = step.get("images"), step.get("id")
    names = (
        [image for image in images if isinstance(image, str) and image] if isinstance(images, list) else []
    )
    stated = str(number) if isinstance(number, str | int) and not isinstance(number, bool) else ""
    return _Step(stated, _words(step, "body"), _words(step, "title"), next(iter(names), ""))


def _words(step: dict[str, Any], key: str) -> str:
    value = step.get(key)
    words = " ".join(value.replace("\0", "").split()) if isinstance(value, str) else ""
    return "" if words == PLACEHOLDER else words


def _pairs(key: str, split: PairSplit, pieces: list[SavedPiece], counted: Counter[str]) -> list[Pair]:
    segments, removed = one_picture_each(pieces)
    counted.update(item.rule for item in removed)
    usable = filtered(segments)
    counted.update(f"steps: {item.rule}" for item in usable.removed)
    if len(usable.segments) < 2:
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
        for number, one in enumerate(usable.segments)
    ]


register(DataSet("recipeqa", "recipes in steps", read_recipeqa, sequence="recipe", folder="recipeqa"))
