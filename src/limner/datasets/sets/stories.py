"""Illustrated stories: a folder with `stories.jsonl` and the pictures it names.

The storybook, howto, recipes and headers sets share this form; a page becomes a step whose picture
is the right answer. A page without words or a picture that is not there is listed, never filled.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from limner.datasets.base import DataSet, Source, register
from limner.datasets.missing import with_pictures
from limner.datasets.pairs import Pair, PairSet
from limner.errors import DataError
from limner.files import is_there, json_rows, shown, whole_path
from limner.records import PictureRef, Step, Story

FILE_NAME = "stories.jsonl"


@dataclass(frozen=True)
class StorySet:
    """What a folder of illustrated stories holds.

    Attributes:
        folder: where it lies, absolute.
        stories: in file order.
        missing: pictures named but not there, as ``story/page: target``, pages counted from 1.
        wordless: pages left out because they have no words, as ``story/page``.
        empty: ids of stories left out because no page has words.
    """

    folder: Path
    stories: tuple[Story, ...]
    missing: tuple[str, ...] = ()
    wordless: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()

    def split(self, name: Literal["", "train", "val", "test"]) -> tuple[Story, ...]:
        """The stories of one split, in file order.

        Raises:
            DataError: the set has no story of that split.
        """
        chosen = tuple(story for story in self.stories if story.split == name)
        if not chosen:
            there = sorted({story.split or "(none)" for story in self.stories})
            raise DataError(
                f"{self.folder}: no story has split {name or '(none)'!r}, found {', '.join(there) or 'none'};"
                " make a split with limner.datasets.splits"
            )
        return chosen


class _Page(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str
    image: str = Field(min_length=1)
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    # Truth about text and picture in drawn books; the coherence readers use it, a story has no place for it.
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
    # Provenance of a built set; credits are what a story shows.
    url: str = ""
    split: Literal["", "train", "val", "test"] = ""
    cover: str | None = None


def read_stories(folder: Path | str) -> StorySet:
    """Read `stories.jsonl` of a folder.

    Args:
        folder: holds the file and, below it, the pictures its lines name.
    Raises:
        MissingError: no such file.
        DataError: the file cannot be read, a line is not a story, an id comes twice, or a picture lies
            outside the folder.
    """
    root = whole_path(folder)
    stories: list[Story] = []
    missing: list[str] = []
    wordless: list[str] = []
    empty: list[str] = []
    seen: set[str] = set()
    rows = json_rows(
        root / FILE_NAME,
        _Row,
        holds=f"a story folder holds {FILE_NAME}",
        one="story",
        see="limner.datasets.sets.stories",
    )
    for where, row in rows:
        if row.story_id in seen:
            raise DataError(f"{where}: story_id {shown(row.story_id)!r} comes twice; ids must differ")
        seen.add(row.story_id)
        steps = []
        for number, page in enumerate(row.pages, start=1):
            ref = _picture(where, root, page.image, page.sha256)
            if ref.path is None:
                missing.append(f"{row.story_id}/{number}: {page.image}")
            if page.text.strip():
                steps.append(Step(text=page.text.strip(), pictures=(ref,)))
            else:
                wordless.append(f"{row.story_id}/{number}")
        if row.cover and _picture(where, root, row.cover, None).path is None:
            missing.append(f"{row.story_id}/cover: {row.cover}")
        if not steps:
            empty.append(row.story_id)
            continue
        stated = row.model_dump(include={"title", "license", "author", "illustrator", "source", "split"})
        stories.append(Story(id=row.story_id, steps=tuple(steps), **stated))
    return StorySet(root, tuple(stories), tuple(missing), tuple(wordless), tuple(empty))


def _picture(where: str, root: Path, target: str, sha256: str | None) -> PictureRef:
    if "\0" in target:
        raise DataError(
            f"{where}: picture {shown(target)!r} holds a zero byte; name a file below {root.name}"
        )
    path = root / target
    # checked on the text, so that a link inside the folder stays the user's own choice
    if Path(target).is_absolute() or ".." in Path(target).parts:
        raise DataError(
            f"{where}: picture {shown(target)!r} lies outside the folder; name it relative to {root.name}"
        )
    return PictureRef(target=target, path=str(path) if is_there(path) else None, sha256=sha256)


def read_story_pairs(source: Source) -> PairSet:
    """The pages of stories, each with its first picture.

    Raises:
        MissingError, DataError: see `read_stories`; or too many pictures are missing.
    """
    stories = read_stories(source.place)
    pairs = tuple(
        Pair(
            id=f"{story.id}-{number}",
            text=step.text,
            image=step.pictures[0].target,
            split=story.split,
            seq=story.id,
            pos=number,
            meta={"author": story.author, "source": story.source, "license": story.license},
        )
        for story in stories.stories
        for number, step in enumerate(story.steps)
        if step.pictures
    )
    left = len(stories.wordless)
    notes = (f"{stories.folder.name}: {left} pages without words left out",) if left else ()
    data = PairSet(stories.folder.name, (), pairs, notes=notes)
    return with_pictures(data, replace(source, pictures=stories.folder))


register(DataSet("stories", "a folder with stories.jsonl", read_story_pairs, sequence="story", beside=True))
