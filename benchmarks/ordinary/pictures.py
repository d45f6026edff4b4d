"""The pictures of the jobs: which part they belong to, their words, vectors and near-duplicates.

Photographs of Flickr8k with five captions each, drawn picture books with one, and the pages of story sets, of
which some picture books have one and the others none. The parts fit, choose and report share no picture and
no story.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, cast

import numpy as np
from embeddings import CachedText, files_of, open_set, picture_vectors, save
from harness import data_folder

from limner.arrays import FloatArray, ImageEncoder
from limner.pictures.decode import decode, read_file
from limner.pictures.hashes import near_groups, phash
from limner.records import Caption, Picture, Story
from limner.research.datasets.pairs import Source
from limner.research.datasets.sets.captions import CaptionedPicture
from limner.research.datasets.sets.stories import StorySet, read_story_pairs
from limner.research.datasets.splits import split_pairs
from limner.research.worlds import PictureBook, SyntheticStory, draw
from limner.store.vectors import Gallery, Space

Part = Literal["fit", "choose", "report"]
Words = Literal["shown", "hidden", "third"]
Encoders = tuple[CachedText, list[ImageEncoder]]

STORY_SETS = ("storybook", "howto", "recipes", "headers")
ONE_SOURCE = ("headers",)  # two sources only: parted by article, as no split by source exists
SEEDS: dict[Part, int] = {"fit": 3000, "choose": 4000, "report": 5000}
BOOKS: dict[Part, int] = {"fit": 120, "choose": 120, "report": 250}
LOOK_ALIKES = 4
SIDE_PX = 224
CAPTION_OF_LIBRARY = 1  # the second caption is what the library says of a photograph
TRAIN_QUARTERS: dict[Part, tuple[int, ...]] = {"fit": (0,), "choose": (1,), "report": (2, 3)}


def dealt(name: str, ways: int) -> int:
    """A fixed number below `ways` for a name."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:12], 16) % ways


def has_words(picture: str, words: Words) -> bool:
    """Whether a captioned picture keeps its words: all do, none, or a fixed third."""
    return words == "shown" or (words == "third" and dealt(f"third {picture}", 3) == 0)


@dataclass(frozen=True)
class Pool:
    """Pictures of one origin and one part.

    Attributes:
        ids: M, all different.
        files: M, where each lies.
        words: M, what a library says of each; "" where nothing is said.
        captions: per picture every caption people wrote, for the truth; empty where there are none.
        spaces: space → (M, D) vectors of the pixels.
        told: (M, D) vectors of `words`; zero where there are none.
        hashes: (M,) perceptual.
    """

    ids: tuple[str, ...]
    files: tuple[str, ...]
    words: tuple[str, ...]
    captions: tuple[tuple[str, ...], ...]
    spaces: dict[str, FloatArray]
    told: FloatArray
    hashes: np.ndarray

    def where(self, kept: Callable[[str], bool]) -> "Pool":
        """The pictures whose id passes."""
        rows = [row for row, one in enumerate(self.ids) if kept(one)]
        return self.take(rows)

    def take(self, rows: Sequence[int]) -> "Pool":
        """Some rows, in their order."""
        return Pool(
            tuple(self.ids[row] for row in rows),
            tuple(self.files[row] for row in rows),
            tuple(self.words[row] for row in rows),
            tuple(self.captions[row] for row in rows),
            {name: vectors[rows] for name, vectors in self.spaces.items()},
            self.told[rows],
            self.hashes[rows],
        )

    @classmethod
    def joined(cls, pools: Sequence["Pool"]) -> "Pool":
        """Pools one after another; a picture that comes again is left out."""
        whole = cls(
            tuple(one for pool in pools for one in pool.ids),
            tuple(one for pool in pools for one in pool.files),
            tuple(one for pool in pools for one in pool.words),
            tuple(one for pool in pools for one in pool.captions),
            {name: np.concatenate([pool.spaces[name] for pool in pools]) for name in pools[0].spaces},
            np.concatenate([pool.told for pool in pools]),
            np.concatenate([pool.hashes for pool in pools]),
        )
        first = {one: row for row, one in reversed(list(enumerate(whole.ids)))}
        return whole if len(first) == len(whole.ids) else whole.take(sorted(first.values()))

    def gallery(
        self, ids: Sequence[str], words: Words, sentences: CachedText, others: Sequence[CachedText] = ()
    ) -> Gallery:
        """Some pictures as a library would hold them, in order of their ids.

        Args:
            ids: which.
            words: which of them keep their words.
            sentences: made `told`.
            others: an encoder of further languages, for a second space of the same words.
        """
        place = {one: row for row, one in enumerate(self.ids)}
        chosen = sorted(ids)
        rows = [place[one] for one in chosen]
        here = np.array([bool(self.words[row]) and has_words(self.ids[row], words) for row in rows])
        told = np.where(here[:, None], self.told[rows], 0).astype(np.float32)
        spaces = {"captions": Space(told, sentences.fingerprint)}
        for other in others:
            said = np.zeros((len(rows), other.dim), np.float32)
            if here.any():
                said[here] = other.encode_text([self.words[row] for row in np.array(rows)[here]])
            spaces["multilingual"] = Space(said, other.fingerprint)
        for name, vectors in self.spaces.items():
            spaces[name] = Space(vectors[rows].astype(np.float32))
        groups = [chosen[first] for first in near_groups(self.hashes[rows])]
        return Gallery(chosen, groups, spaces)

    def records(self, words: Words) -> Callable[[Sequence[str]], list[Picture]]:
        """Ids → records, for `illustrate`; sizes are not read."""
        place = {one: row for row, one in enumerate(self.ids)}

        def look_up(ids: Sequence[str]) -> list[Picture]:
            return [self._record(place[one], words) for one in ids]

        return look_up

    def _record(self, row: int, words: Words) -> Picture:
        told = self.words[row] if has_words(self.ids[row], words) else ""
        return Picture(
            id=self.ids[row],
            paths=(f"/library/{hashlib.sha256(self.ids[row].encode()).hexdigest()[:16]}.jpg",),
            width_px=SIDE_PX,
            height_px=SIDE_PX,
            format=Path(self.files[row]).suffix[1:].upper(),
            size_bytes=0,
            phash=f"{int(self.hashes[row]):016x}",
            group=self.ids[row],
            captions=(Caption(text=told, source="sidecar"),) if told else (),
        )


def hashes_of(name: str, files: Sequence[str], folder: Path) -> np.ndarray:
    """(M,) perceptual hashes as indexing makes them, kept beside the vectors."""
    key = hashlib.sha256("\n".join(files).encode()).hexdigest()[:24]
    path = folder / "phash" / f"{name}-{key}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)

        def one(file: str) -> int:
            return phash(decode(read_file(os.fsencode(file)).data, suffix=Path(file).suffix.lower()).rgb)

        with ThreadPoolExecutor(2) as threads:
            save(path, np.array(list(threads.map(one, files)), dtype=np.uint64))
    return cast(np.ndarray, np.load(path, allow_pickle=False))


def pool_of(
    name: str,
    files: dict[str, str],
    captions: dict[str, tuple[str, ...]],
    encoders: Encoders,
    folder: Path,
    *,
    said: int = 0,
) -> Pool:
    """A pool of picture files; `said` is the caption that a library holds."""
    text, eyes = encoders
    ids = tuple(files)
    words = tuple(captions[one][said] if one in captions else "" for one in ids)
    told = np.zeros((len(ids), text.dim), np.float32)
    rows = [row for row, one in enumerate(words) if one]
    if rows:
        told[rows] = text.encode_text([words[row] for row in rows])
    spaces: dict[str, FloatArray] = {}
    for encoder in eyes:
        spaces |= picture_vectors(encoder, name, list(files.values()), folder)
    return Pool(
        ids,
        tuple(files.values()),
        words,
        tuple(captions.get(one, ()) for one in ids),
        spaces,
        told,
        hashes_of(name, list(files.values()), folder),
    )


class Supply:
    """Everything that jobs are made from, read on first use."""

    def __init__(self, encoders: Encoders, folder: Path) -> None:
        self.encoders, self.folder = encoders, folder
        self.text = encoders[0]
        self._pools: dict[tuple[str, str], Pool] = {}
        self._data: dict[str, StorySet | list[CaptionedPicture]] = {}
        self._sets: dict[str, dict[Part | Literal["train"], list[Story]]] = {}
        self._books: dict[Part, tuple[list[SyntheticStory], list[list[str]], list[list[str]], Pool]] = {}

    def _open(self, name: str) -> StorySet | list[CaptionedPicture]:
        if name not in self._data:
            self._data[name] = open_set(name)
        return self._data[name]

    def _photographs(self, name: str, kept: Callable[[str, str], bool]) -> Pool:
        """Those of Flickr8k whose name and split pass; only these are encoded."""
        if ("flickr8k", name) not in self._pools:
            data = self._open("flickr8k")
            assert not isinstance(data, StorySet)
            chosen = {one.name: one.captions for one in data if kept(one.name, one.split)}
            files = {one: file for one, file in files_of(data).items() if one in chosen}
            self._pools["flickr8k", name] = pool_of(
                f"flickr8k-{name}", files, chosen, self.encoders, self.folder, said=CAPTION_OF_LIBRARY
            )
        return self._pools["flickr8k", name]

    def photographs(self, part: Part) -> Pool:
        """Flickr8k: test for the report; validation, halved by name, for the others."""
        if part == "report":
            return self._photographs(part, lambda _, split: split == "test")
        half = 0 if part == "fit" else 1
        return self._photographs(part, lambda one, split: split == "val" and dealt(one, 2) == half)

    def further(self, part: Part) -> Pool:
        """Photographs of Flickr8k's training part, as distractors only: a quarter, a quarter and a half."""
        quarters = TRAIN_QUARTERS[part]
        return self._photographs(
            f"further-{part}", lambda one, split: split == "train" and dealt(one, 4) in quarters
        )

    def stories(self, name: str, part: Part) -> list[Story]:
        """Stories of a set and part; pages whose picture a later part shows too are left out."""
        if name not in self._sets:
            data = self._open(name)
            assert isinstance(data, StorySet)
            self._sets[name] = parted(data, name)
        return self._sets[name][part]

    def pages(self, name: str, part: Part) -> Pool:
        """The pictures of those stories."""
        if (name, part) not in self._pools:
            own = {own_of(story, s) for story in self.stories(name, part) for s in range(len(story.steps))}
            files = {one: file for one, file in files_of(self._open(name)).items() if one in own}
            said = {one: (told,) for one, told in self.literal(name).items() if one in files}
            self._pools[name, part] = pool_of(f"{name}-{part}", files, said, self.encoders, self.folder)
        return self._pools[name, part]

    def literal(self, name: str) -> dict[str, str]:
        """Picture → what was written of it, blind to the texts of its story set; most have none."""
        path = data_folder() / name / "captions.jsonl"
        if not path.is_file():
            return {}
        rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
        return {row["sha256"]: row["caption"] for row in rows}

    def covers(self, name: str) -> dict[str, str]:
        """File of the cover of each story that has one, by id of the story."""
        folder = data_folder() / name
        rows = map(json.loads, (folder / "stories.jsonl").read_text(encoding="utf-8").splitlines())
        return {row["story_id"]: str(folder / row["cover"]) for row in rows if row.get("cover")}

    def books(self, part: Part) -> tuple[list[SyntheticStory], list[list[str]], list[list[str]], Pool]:
        """Drawn books; per book the ids of its pages and of its look-alikes; and all their pictures."""
        if part not in self._books:
            books = PictureBook(SEEDS[part]).stories(BOOKS[part])
            folder = self.folder / "drawn" / f"{SEEDS[part]}-{SIDE_PX}"
            folder.mkdir(parents=True, exist_ok=True)
            files: dict[str, str] = {}
            captions: dict[str, tuple[str, ...]] = {}
            pages, others = [], []
            for book in books:
                scenes = [(page.scene, page.caption) for page in book.pages]
                scenes += [(other.scene, other.caption) for other in book.distractors(LOOK_ALIKES)]
                made = []
                for number, (scene, caption) in enumerate(scenes):
                    path = folder / f"{book.story.id}-{number:02d}.png"
                    if not path.exists():
                        part_file = path.with_suffix(f".{os.getpid()}.part")
                        draw(scene, book.style, SIDE_PX).save(part_file, format="PNG")
                        part_file.replace(path)
                    one = hashlib.sha256(path.read_bytes()).hexdigest()
                    files.setdefault(one, str(path))
                    captions.setdefault(one, (caption,))
                    made.append(one)
                pages.append(made[: len(book.pages)])
                others.append(made[len(book.pages) :])
            pool = pool_of(f"drawn-{SEEDS[part]}", files, captions, self.encoders, self.folder)
            self._books[part] = (books, pages, others, pool)
        return self._books[part]


@cache
def supply(sentences: CachedText, eyes: tuple[ImageEncoder, ...], folder: Path) -> Supply:
    """One supply for all jobs of the same encoders."""
    return Supply((sentences, list(eyes)), folder)


def own_of(story: Story, step: int) -> str:
    """Id of a page's picture: the hash of the original file, so that copies are one."""
    ref = story.steps[step].pictures[0]
    assert ref.sha256 is not None
    return ref.sha256


def parted(data: StorySet, name: str) -> dict[Part | Literal["train"], list[Story]]:
    """Stories by part: test reports; validation, halved by story id, fits and chooses; training is unused.

    The split is the stated one, or else the grouped split that training makes (by repository, seed 0).
    """
    split = {story.id: story.split for story in data.stories}
    if not all(split.values()):
        pairs = read_story_pairs(Source(data.folder))
        whole = pairs.pairs
        if name not in ONE_SOURCE:  # a repository stays whole
            whole = tuple(one.model_copy(update={"seq": str(one.meta["source"] or one.seq)}) for one in whole)
        made = split_pairs(replace(pairs, pairs=whole), "grouped", 0)
        split = {pair.seq: one.split for pair, one in zip(pairs.pairs, made.pairs, strict=True)}

    def part_of(story: Story) -> Part | Literal["train"]:
        if split[story.id] == "val":
            return "choose" if dealt(story.id, 2) else "fit"
        return "report" if split[story.id] == "test" else "train"

    found: dict[Part | Literal["train"], list[Story]] = {"report": [], "choose": [], "fit": [], "train": []}
    for story in data.stories:
        found[part_of(story)].append(story)
    seen: set[str] = set()
    for part in ("report", "choose", "fit"):
        kept = [without(story, seen) for story in found[part]]
        found[part] = [story for story in kept if story is not None]
        seen |= {own_of(story, s) for story in found[part] for s in range(len(story.steps))}
    return found


def without(story: Story, banned: Iterable[str]) -> Story | None:
    """A story without the pages whose picture is banned; None where none is left."""
    taken = set(banned)
    steps = [step for s, step in enumerate(story.steps) if own_of(story, s) not in taken]
    return story.model_copy(update={"steps": tuple(steps)}) if steps else None
