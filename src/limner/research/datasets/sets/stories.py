"""Illustrated stories: a folder with `stories.jsonl` and its pictures.

This is the format of the sets storybook, howto, recipes and headers. Each page is a step, whose own picture
is the right one. Pages without text are left out and listed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from limner.errors import DataError
from limner.files import below, is_there, json_rows, whole_path
from limner.records import PictureRef, Step, Story
from limner.research.datasets.missing import pair_set
from limner.research.datasets.pairs import DataSet, Pair, PairSet, Source, register

FILE_NAME = "stories.jsonl"


@dataclass(frozen=True)
class StorySet:
    """The illustrated stories of a folder.

    Attributes:
        folder: absolute path.
        stories: stories in file order.
        wordless: pages left out because they have no text, as ``story/page``, pages from 1.
        relations: story id → relations of each step, if the file states any.
    """

    folder: Path
    stories: tuple[Story, ...]
    wordless: tuple[str, ...] = ()
    relations: Mapping[str, Sequence[Mapping[str, bool]]] = field(default_factory=dict)

    def split(self, name: Literal["", "train", "val", "test"]) -> tuple[Story, ...]:
        """The stories of one split, in file order.

        Raises:
            DataError: the split is empty.
        """
        chosen = tuple(story for story in self.stories if story.split == name)
        if not chosen:
            there = sorted({story.split or "(none)" for story in self.stories})
            raise DataError(
                f"{self.folder}: no story has split {name or '(none)'!r}, found {', '.join(there) or 'none'};"
                " make a split with limner.research.datasets.splits"
            )
        return chosen


class _Page(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str
    image: str = Field(min_length=1)
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    # not part of a Story
    relations: dict[str, bool] = Field(default_factory=dict)


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid")
    story_id: str = Field(min_length=1)
    pages: list[_Page]
    title: str = ""
    license: str = ""
    author: str = ""
    illustrator: str = ""
    source: str = ""
    # source URL of a story in a built set
    url: str = ""
    split: Literal["", "train", "val", "test"] = ""
    cover: str | None = None


def read_stories(folder: Path | str) -> StorySet:
    """Read `stories.jsonl` of a folder.

    Args:
        folder: contains the file and, in it or below, the pictures.
    Raises:
        MissingError: the file does not exist.
        DataError: the file cannot be read, a line is not a story, an id is repeated, or a picture lies
            outside the folder.
    """
    root = whole_path(folder)
    stories: list[Story] = []
    wordless: list[str] = []
    relations: dict[str, list[Mapping[str, bool]]] = {}
    see = "limner.research.datasets.sets.stories"
    rows = json_rows(root / FILE_NAME, _Row, one="story", see=see, key="story_id")
    for where, row in rows:
        steps = []
        for number, page in enumerate(row.pages, start=1):
            file = below(root, page.image, where)
            ref = PictureRef(
                target=page.image, path=str(file) if is_there(file) else None, sha256=page.sha256
            )
            if page.text.strip():
                steps.append(Step(text=page.text.strip(), pictures=(ref,)))
                relations.setdefault(row.story_id, []).append(page.relations)
            else:
                wordless.append(f"{row.story_id}/{number}")
        if steps:
            stated = row.model_dump(include={"title", "license", "author", "illustrator", "source", "split"})
            stories.append(Story(id=row.story_id, steps=tuple(steps), **stated))
    return StorySet(root, tuple(stories), tuple(wordless), relations)


def read_story_pairs(source: Source) -> PairSet:
    """Read the pages of stories as pairs, each with its first picture.

    Raises:
        MissingError, DataError: see `read_stories`; too many pictures are missing; or only some pages state a
            relation.
    """
    stories = read_stories(source.place)
    names = tuple(dict.fromkeys(n for some in stories.relations.values() for own in some for n in own))
    for story_id, some in stories.relations.items():
        if lacking := sorted({name for own in some for name in names if name not in own}):
            raise DataError(
                f"{source.place / FILE_NAME}: a page of {story_id!r} does not state the relation"
                f" {lacking[0]!r}, which others state; state it as true or false for every page"
            )
    pairs = (
        Pair(
            id=f"{story.id}-{number}",
            text=step.text,
            image=step.pictures[0].target,
            split=story.split,
            seq=story.id,
            pos=number,
            labels={name: int(stories.relations[story.id][number][name]) for name in names},
            meta={key: getattr(story, key) for key in ("author", "illustrator", "source", "license")},
        )
        for story in stories.stories
        for number, step in enumerate(story.steps)
        if step.pictures
    )
    counted = {"pages without words left out": len(stories.wordless)}
    return pair_set(
        stories.folder.name,
        pairs,
        replace(source, pictures=stories.folder),
        relations=names,
        counted=counted,
        named="path",
    )


register(
    DataSet("stories", "a folder with stories.jsonl", read_story_pairs, sequence="story", opens_pictures=True)
)
register(
    DataSet(
        "stepwise",
        "recipes in steps, written by limner data build-recipes",
        read_story_pairs,
        sequence="recipe",
        folder="stepwise",
        opens_pictures=True,
    )
)
