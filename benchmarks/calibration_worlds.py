"""Texts and pictures with known answers, as tables of cosines: what the calibration is fitted on.

Photographs with five captions each; drawn story books without words to the pictures; and made-up
picture books with both. Imported by `calibrate.py`; not a benchmark itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from embeddings import CachedText, Pictures

from limner.arrays import FloatArray, ImageEncoder, scores, unit_rows
from limner.evaluation.stories import StoryTask
from limner.records import Story
from limner.worlds import PictureBook, SyntheticStory, draw

# Stories of the made-up books by split; the demonstration and the tests use other seeds.
BOOKS = {"train": (1000, 30), "val": (2000, 20)}
LOOK_ALIKES = 8


@dataclass(frozen=True)
class World:
    """Texts, pictures, and which belong together; one score table per channel.

    Attributes:
        tables: channel → (N, M) cosines.
        match: (N, M) True for the right picture.
        kin: (N, M) True for pictures that a library without the right one must not hold either.
    """

    tables: dict[str, np.ndarray]
    match: np.ndarray
    kin: np.ndarray


def photographs(pictures: Pictures, text: CachedText, split: str) -> dict[str, World]:
    """Caption 0 asks; the picture answers by caption 1, by the mean of the other four, or by its labels."""
    chosen = pictures.data.split(split)
    vectors = text.encode_text([caption for one in chosen for caption in one.captions])
    vectors = vectors.reshape(len(chosen), -1, vectors.shape[1])
    query = vectors[:, 0]
    four = unit_rows("captions", vectors[:, 1:].mean(axis=1))
    labels = scores(query, pictures.vectors("labels", [one.name for one in chosen])).astype(float)
    match = np.eye(len(chosen), dtype=bool)
    return {
        "one caption": World(
            {"captions": scores(query, vectors[:, 1]).astype(float), "labels": labels}, match, match
        ),
        "four captions": World(
            {"captions": scores(query, four).astype(float), "labels": labels}, match, match
        ),
    }


def in_context(vectors: FloatArray, lengths: Sequence[int], context: float) -> FloatArray:
    """What `EncodedChannel.encode` does to the steps of each story."""
    means = np.repeat(
        [part.mean(axis=0) for part in np.split(vectors, np.cumsum(lengths)[:-1])], lengths, axis=0
    )
    return unit_rows("context", (vectors + context * means).astype(np.float32))


def drawings(task: StoryTask, pictures: Pictures, text: CachedText, context: float = 0.0) -> World:
    """Pages ask; their pictures answer by labels. Kin are all pictures of the story."""
    query = text.encode_text([step.text for story in task.stories for step in story.steps])
    query = in_context(query, [len(story.steps) for story in task.stories], context)
    table = scores(query, pictures.vectors("labels", task.ids)).astype(float)
    match, kin = np.zeros(table.shape, dtype=bool), np.zeros(table.shape, dtype=bool)
    row = 0
    for columns in task.relevant:
        world = sorted({column for right in columns for column in right})
        for right in columns:
            match[row, list(right)] = True
            kin[row, world] = True
            row += 1
    return World({"labels": table}, match, kin)


def without(stories: tuple[Story, ...], banned: set[str]) -> StoryTask:
    """The task of the stories' pages whose picture is not banned."""
    kept = []
    for story in stories:
        steps = tuple(step for step in story.steps if step.pictures[0].sha256 not in banned)
        if steps:
            kept.append(story.model_copy(update={"steps": steps}))
    return StoryTask.of(kept)


@dataclass(frozen=True)
class Books:
    """Made-up picture books: told pages, literally captioned pictures, and look-alikes of each story.

    Attributes:
        stories: the books.
        captions: of all pictures, page by page, then the look-alikes, story by story.
        owner: (M,) story of each picture.
        right: (N,) picture of each page.
    """

    stories: tuple[SyntheticStory, ...]
    captions: tuple[str, ...]
    owner: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, split: str) -> "Books":
        """The books of a split, always the same."""
        stories = tuple(PictureBook(BOOKS[split][0]).stories(BOOKS[split][1]))
        captions, owner, right = [], [], []
        for number, story in enumerate(stories):
            right += range(len(captions), len(captions) + len(story.pages))
            found = [page.caption for page in story.pages]
            found += [one.caption for one in story.distractors(LOOK_ALIKES)]
            captions += found
            owner += [number] * len(found)
        return cls(stories, tuple(captions), np.array(owner), np.array(right))

    def world(self, text: CachedText, context: dict[str, float], labels: FloatArray | None = None) -> World:
        """Pages ask; pictures answer by their captions, and by labels where given. Kin are the story's."""
        lengths = [len(one.story.steps) for one in self.stories]
        query = text.encode_text([step.text for one in self.stories for step in one.story.steps])
        held = {"captions": text.encode_text(self.captions)} | ({} if labels is None else {"labels": labels})
        tables = {
            name: scores(in_context(query, lengths, context[name]), vectors).astype(float)
            for name, vectors in held.items()
        }
        table = tables["captions"]
        match = np.zeros(table.shape, dtype=bool)
        match[np.arange(len(query)), self.right] = True
        kin = np.repeat(np.arange(len(self.stories)), lengths)[:, None] == self.owner
        return World(tables, match, kin)

    def vectors(self, encoders: Sequence[ImageEncoder], size_px: int = 224) -> dict[str, FloatArray]:
        """Space → (M, D) vectors of the drawn pictures."""
        drawn = [
            draw(scene, one.style, size_px)
            for one in self.stories
            for scene in (
                *(page.scene for page in one.pages),
                *(other.scene for other in one.distractors(LOOK_ALIKES)),
            )
        ]
        found: dict[str, list[FloatArray]] = {}
        for encoder in encoders:
            for start in range(0, len(drawn), 32):
                batch = np.stack([encoder.prepare(picture) for picture in drawn[start : start + 32]])
                for space, made in encoder.encode_pixels(batch).spaces.items():
                    found.setdefault(space, []).append(made)
        return {space: np.concatenate(parts) for space, parts in found.items()}

    def task(self) -> StoryTask:
        """The books as an evaluation task, look-alikes in the gallery."""
        lengths = [len(one.story.steps) for one in self.stories]
        right = np.split(self.right, np.cumsum(lengths)[:-1])
        names = tuple(str(number) for number in range(len(self.captions)))
        relevant = tuple(tuple((int(column),) for column in columns) for columns in right)
        return StoryTask(tuple(one.story for one in self.stories), names, names, relevant)
