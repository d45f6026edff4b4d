"""Generates stories from a seed (cast, plot, texts and relations), and registers the data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from limner.errors import ConfigError, DataError, counted
from limner.research.datasets.pairs import DataSet, Pair, PairSet, duplicate_groups, register
from limner.research.worlds.render import draw, scene_graph
from limner.research.worlds.tales import (
    CITE,
    CLUE,
    COLOURS,
    EXTRAS,
    PALETTES,
    PATTERNS,
    SPECIES,
    TEXTURES,
    TOPS,
    Character,
    DrawnScene,
    PageText,
    Setting,
    Style,
    Tale,
    caption,
    compose,
    room_for_friend,
    tales,
    with_hero,
    write_page,
)

if TYPE_CHECKING:
    from PIL import Image

    from limner.records import Story
    from limner.research.scenes.graphs import SceneGraph

RELATIONS = CITE + CLUE
GIRLS = ("Mira", "Tuli", "Nell", "Ada", "Suki", "Wanda", "Ines", "Lotte", "Zuri", "Pearl")
BOYS = ("Pip", "Bo", "Otto", "Kofi", "Max", "Rufus", "Ivo", "Tam", "Finn", "Mo")
HANDS = ("Quill", "Madder", "Ochre", "Sepia", "Vellum", "Gesso", "Umber", "Sienna", "Linden", "Marl")
LICENSE = "CC0-1.0"
_FLOW = {"morning": 0, "noon": 1, "sunset": 2, "night": 3}

Split = Literal["train", "val", "test"]


@dataclass(frozen=True)
class BookPage:
    """One page: the ground truth of its picture, and its text.

    Attributes:
        scene: what the picture shows.
        text: the text, its entities and its relations to the picture.
        caption: literal description of the picture.
    """

    scene: DrawnScene
    text: PageText
    caption: str

    @property
    def relations(self) -> dict[str, bool]:
        """Relation (one of RELATIONS) → whether it holds between text and picture."""
        return self.text.relations


@dataclass(frozen=True)
class Distractor:
    """A picture of the same story world that belongs to no page.

    Attributes:
        scene: what it shows.
        page: the page that it resembles, from 0.
        kind: ``character`` (same place and activity, another character) or ``deed`` (same character and
            place, another activity).
        caption: literal description of the picture.
    """

    scene: DrawnScene
    page: int
    kind: Literal["character", "deed"]
    caption: str


@dataclass(frozen=True)
class SyntheticStory:
    """A story with its ground truth.

    Attributes:
        id: s000, s001, ….
        title: hero and deed.
        split: train, val or test; all pages have the same.
        pages: ground truth of the pages, in order.
        style: drawing style of all its pictures.
        cast: its characters; the hero first.
        illustrator: name of the illustrator.
    """

    id: str
    title: str
    split: Split
    pages: tuple[BookPage, ...]
    style: Style
    cast: tuple[Character, ...]
    illustrator: str

    @cached_property
    def story(self) -> Story:
        """Its text as a `limner.records.Story`, one step per page."""
        from limner.records import Step, Story

        return Story(
            id=self.id,
            title=self.title,
            steps=tuple(Step(text=page.text.text) for page in self.pages),
            by="step",
            language="en",
            split=self.split,
            author="limner",
            illustrator=self.illustrator,
            license=LICENSE,
            source="synthetic",
        )

    def image_id(self, page: int) -> str:
        """Id of a page's picture: story id and number of the picture, where the cover is 01."""
        return f"{self.id}-{page + 2:02d}"

    def graph(self, page: int) -> dict[str, Any]:
        """Scene graph of a page's picture, see `scene_graph`.

        Source: docs/methods/data.md §1.2.
        """
        return scene_graph(self.pages[page].scene, self.style, self.image_id(page))

    def picture(self, page: int, size_px: int = 384) -> Image.Image:
        """The picture of a page, RGB, `size_px` pixels square."""
        return draw(self.pages[page].scene, self.style, size_px)

    def distractors(self, count: int, seed: int = 0) -> tuple[Distractor, ...]:
        """Pictures in the same style that belong to no page.

        Args:
            count: number of pictures, 0 or more; half show another character, half another activity.
            seed: seed of the choice.
        """
        rng = np.random.default_rng([seed, self.style.seed])
        stranger = draw_character(rng, taken=self.cast)
        shown_deeds = {(page.scene.activity, page.scene.phase) for page in self.pages}
        pictures: list[Distractor] = []
        for i in range(count):
            at = int(rng.integers(len(self.pages)))
            scene, hero = self.pages[at].scene, self.cast[0]
            if i % 2 == 0:
                other = with_hero(scene, hero, stranger)
                pictures.append(Distractor(other, at, "character", caption(other)))
                continue
            tale, phase = _other_deed(rng, scene, shown_deeds)
            setting = Setting(scene.place, scene.weather, scene.time)
            other = compose(tale, phase, setting, hero, flip=scene.flip, zoom=scene.zoom)
            pictures.append(Distractor(other, at, "deed", caption(other)))
        return tuple(pictures)


def _other_deed(rng: np.random.Generator, scene: DrawnScene, shown: set[tuple[str, str]]) -> tuple[Tale, str]:
    """An activity that the story does not show; if possible, one that suits the scene's setting."""
    all_deeds = [
        (tale, phase)
        for tale in tales().values()
        for phase in tale.sketches
        if not tale.friend and (tale.name, phase) not in shown
    ]
    fit = [
        d
        for d in all_deeds
        if scene.place in d[0].places and scene.weather in d[0].weathers and scene.time in d[0].times
    ]
    fit = fit or [d for d in all_deeds if scene.place in d[0].places] or all_deeds
    return fit[int(rng.integers(len(fit)))]


def _pick(rng: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]


def draw_character(rng: np.random.Generator, taken: Sequence[Character] = ()) -> Character:
    """Sample a character with a new species and name.

    Args:
        rng: random generator.
        taken: characters whose species and names are excluded.
    """
    species = _pick(rng, [s for s in SPECIES if s not in {who.species for who in taken}])
    female = species == "girl" or (species != "boy" and bool(rng.random() < 0.5))
    name = _pick(rng, [n for n in (GIRLS if female else BOYS) if n not in {who.name for who in taken}])
    top_colour = _pick(rng, COLOURS)
    extra = "scarf" if species == "frog" else _pick(rng, EXTRAS)
    extra_colour = _pick(rng, [c for c in COLOURS if c != top_colour])
    return Character(
        name,
        species,
        female,
        int(rng.integers(4)),
        _pick(rng, [t for t in TOPS if t != "dress" or female]),
        top_colour,
        _pick(rng, PATTERNS),
        extra,
        extra_colour,
        float(rng.choice([0.90, 0.95, 1.0])),
    )


def draw_style(rng: np.random.Generator) -> Style:
    """Sample an illustrator's style."""
    ink = [(58, 44, 54), (84, 56, 44), (44, 54, 84), (40, 40, 44)][int(rng.integers(4))]
    return Style(
        int(rng.integers(2**31)),
        _pick(rng, PALETTES),
        float(rng.choice([0.0, 0.0028, 0.004, 0.0055])),
        ink,
        _pick(rng, TEXTURES),
        float(rng.choice([0.0008, 0.0015, 0.0022])),
        bool(rng.random() < 0.4),
    )


class PictureBook:
    """Generator of synthetic stories; story i depends only on the seed and i.

    Args:
        seed: 0 or more.
    """

    def __init__(self, seed: int) -> None:
        if seed < 0:
            raise DataError(f"picture book: seed {seed}, expected 0 or more")
        self.seed = seed

    def stories(self, n: int, pages: tuple[int, int] = (6, 10)) -> list[SyntheticStory]:
        """Generate stories.

        Args:
            n: number of stories, 0 or more; of every ten, seven are train, one is val and two are test.
            pages: fewest and most pages, within 6 to 10.
        Returns:
            Stories with ids s000, s001, ….
        Raises:
            DataError: a page count outside 6 to 10.
        """
        low, high = pages
        if not 6 <= low <= high <= 10:
            raise DataError(f"picture book: pages {low} to {high}, expected a range within 6 to 10")
        return [self._story(i, low, high) for i in range(n)]

    def _story(self, index: int, low: int, high: int) -> SyntheticStory:
        rng = np.random.default_rng([self.seed, index])
        style = draw_style(rng)
        hero = draw_character(rng)
        friend = draw_character(rng, (hero,))
        plan = _plan(rng, int(rng.integers(low, high + 1)))
        pages: list[BookPage] = []
        used: set[str] = set()
        for i, (tale, phase, setting) in enumerate(plan):
            watches = room_for_friend(tale, phase) and float(rng.random()) < 0.35
            scene = compose(
                tale,
                phase,
                setting,
                hero,
                friend if tale.friend or watches else None,
                flip=bool(rng.random() < 0.4),
                zoom=float(rng.choice([1.0, 1.06, 1.12])),
            )
            text = write_page(scene, tale, hero, friend, style=style, rng=rng, first=i == 0, used=used)
            pages.append(BookPage(scene, text, caption(scene)))
        split: Split = "train" if index % 10 < 7 else "val" if index % 10 == 7 else "test"
        illustrator = f"{chr(65 + int(rng.integers(26)))}. {_pick(rng, HANDS)}"
        deeds = [page.scene.activity for page in pages if page.scene.phase == "before"]
        title = f"{hero.name} and the {deeds[0].capitalize()}"
        cast = (hero, friend)
        return SyntheticStory(f"s{index:03d}", title, split, tuple(pages), style, cast, illustrator)


def _plan(rng: np.random.Generator, count: int) -> list[tuple[Tale, str, Setting]]:
    """Plot of a story, page by page: opening, one or two complete activities, moments, closing."""
    book = list(tales().values())
    activities = [tale for tale in book if tale.role == "activity"]
    deeds = [int(k) for k in rng.choice(len(activities), 2 if count >= 8 else 1, replace=False)]
    parts: list[list[tuple[Tale, str]]] = [
        [(activities[k], phase) for phase in ("before", "during", "after")] for k in deeds
    ]
    middles = [tale for tale in book if tale.role == "middle"]
    for k in rng.choice(len(middles), count - 2 - 3 * len(parts), replace=False):
        parts.insert(int(rng.integers(len(parts) + 1)), [(middles[int(k)], "during")])
    for role, at in (("opening", 0), ("closing", len(parts) + 1)):
        ends = [tale for tale in book if tale.role == role]
        parts.insert(at, [(ends[int(rng.integers(len(ends)))], "during")])
    # time never goes back: parts that need the evening come late
    inner = sorted(parts[1:-1], key=lambda part: min(_FLOW[t] for t in part[0][0].times))
    parts = [parts[0], *inner, parts[-1]]
    plan: list[tuple[Tale, str, Setting]] = []
    now, weather = 0, ""
    for i, part in enumerate(parts):
        tale = part[0][0]
        due = min(3, i * 4 // len(parts))
        time = min((t for t in tale.times if _FLOW[t] >= now), key=lambda t: abs(_FLOW[t] - due))
        now = _FLOW[time]
        if weather not in tale.weathers or rng.random() < 0.3:
            weather = _pick(rng, tale.weathers)
        setting = Setting(_pick(rng, tale.places), weather, time)
        plan += [(tale, phase, setting) for tale, phase in part]
    return plan


Pixels = np.ndarray[tuple[int, int, int, int], np.dtype[np.uint8]]
NAME = "picturebook"


def picture_book_pairs(stories: Sequence[SyntheticStory]) -> PairSet:
    """The pages of stories as pairs, split by story, with thirteen relations.

    Args:
        stories: stories of a `PictureBook`.
    """
    pairs = tuple(
        Pair(
            id=story.image_id(number),
            text=page.text.text,
            image=story.image_id(number),
            split=story.split,
            labels={name: int(page.relations[name]) for name in RELATIONS},
            seq=story.id,
            pos=number,
        )
        for story in stories
        for number, page in enumerate(story.pages)
    )
    groups = duplicate_groups([[pair.seq] for pair in pairs])
    grouped = (
        pair.model_copy(update={"group": f"{NAME}-{group}"})
        for pair, group in zip(pairs, groups, strict=True)
    )
    return PairSet(NAME, RELATIONS, tuple(grouped))


def drawings(stories: Sequence[SyntheticStory], size_px: int = 64) -> Pixels:
    """(N, size_px, size_px, 3) bytes, in the order of `picture_book_pairs`."""
    pictures = [
        np.asarray(story.picture(number, size_px)) for story in stories for number in range(len(story.pages))
    ]
    return np.stack(pictures) if pictures else np.zeros((0, size_px, size_px, 3), np.uint8)


def picture_book(stories: int = 200, seed: int = 0, size_px: int = 64) -> tuple[PairSet, Pixels]:
    """Pairs and drawings of many stories.

    Args:
        stories: number of stories, at least 10 so that no split is empty.
        seed: seed of the stories.
        size_px: side of the drawings, pixels; 0 renders none.
    Returns:
        Pairs, and a new (N, size_px, size_px, 3) array of bytes in their order; (0, 0, 0, 3) for size 0.
    Raises:
        ConfigError: fewer than 10 stories.
    """
    if stories < 10:
        raise ConfigError(
            f"{NAME}: {counted(stories, 'story')}, expected at least 10: seven train, one val, two test"
        )
    pairs, pixels = _drawn(stories, seed, size_px)
    return pairs, pixels.copy()


@lru_cache(maxsize=2)
def _drawn(stories: int, seed: int, size_px: int) -> tuple[PairSet, Pixels]:
    """Pairs and drawings; cached, because the runs of a table use the same books, which are slow to draw."""
    books = PictureBook(seed).stories(stories)
    return picture_book_pairs(books), drawings(books if size_px else [], size_px)


def world_graphs(stories: int, seed: int, *, shuffled: int | None = None) -> dict[str, SceneGraph]:
    """True scene graphs of the pictures of many stories: picture → graph, with scores of 1.

    Args:
        stories: see `picture_book`.
        seed: see `picture_book`.
        shuffled: seed of the control condition, which permutes the graphs within each split.
    """
    from limner.research.scenes.graphs import shuffled_graphs

    graphs, splits = _true_graphs(stories, seed)
    if shuffled is not None:
        graphs = shuffled_graphs(graphs, shuffled, splits)
    return {graph.image: graph for graph in graphs}


@lru_cache(maxsize=2)
def _true_graphs(stories: int, seed: int) -> tuple[list[SceneGraph], list[str]]:
    """Graphs and splits of all pictures; cached, because boxes are found by drawing."""
    from limner.research.scenes.graphs import SceneGraph

    books = PictureBook(seed).stories(stories)
    pages = [(story, number) for story in books for number in range(len(story.pages))]
    graphs = [SceneGraph.model_validate(story.graph(number)) for story, number in pages]
    return graphs, [story.split for story, _ in pages]


register(
    DataSet(
        NAME,
        "generated picture books with known answers",
        relations=RELATIONS,
        sequence="story",
        draw=picture_book,
        graphs=world_graphs,
    )
)
