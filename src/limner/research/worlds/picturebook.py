"""Drawn picture books as annotated pairs: ground on which it is known which relations hold.

Every page is a pair with the relations that follow from what was written and drawn.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from limner.counts import counted
from limner.errors import ConfigError
from limner.research.datasets.pairs import Pair, PairSet
from limner.research.datasets.registry import DataSet, register
from limner.research.datasets.splits import duplicate_groups
from limner.research.scenes.graphs import SceneGraph, shuffled_graphs
from limner.research.worlds.book import RELATIONS, PictureBook, SyntheticStory

Pixels = np.ndarray[tuple[int, int, int, int], np.dtype[np.uint8]]
NAME = "picturebook"


def picture_book_pairs(stories: Sequence[SyntheticStory]) -> PairSet:
    """The pages of stories as pairs; split by story, with thirteen relations.

    Args:
        stories: of a `PictureBook`.
    """
    pairs = tuple(
        Pair(
            id=story.image_id(number),
            text=page.text.text,
            image=story.image_id(number),
            split=story.story.split,
            labels={name: int(page.relations[name]) for name in RELATIONS},
            seq=story.story.id,
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
        stories: how many, at least 10 so that every split has one.
        seed: of the stories.
        size_px: side of a drawing; 0 draws none.
    Returns:
        Pairs; (N, size_px, size_px, 3) bytes in their order, the caller's own; (0, 0, 0, 3) of none.
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
    """What is drawn, kept: the runs of a table are trained on the same books, which take a minute to draw."""
    books = PictureBook(seed).stories(stories)
    return picture_book_pairs(books), drawings(books if size_px else [], size_px)


def world_graphs(stories: int, seed: int, *, shuffled: int | None = None) -> dict[str, SceneGraph]:
    """What the pictures of many stories show, picture → scene graph: the truth, with scores of 1.

    Args:
        stories: as for `picture_book`.
        seed: likewise.
        shuffled: seed of the control, in which graphs are dealt to other pictures of the same split.
    """
    books = PictureBook(seed).stories(stories)
    pages = [(story, number) for story in books for number in range(len(story.pages))]
    graphs = [SceneGraph.model_validate(story.graph(number)) for story, number in pages]
    if shuffled is not None:
        graphs = shuffled_graphs(graphs, shuffled, [story.story.split for story, _ in pages])
    return {graph.image: graph for graph in graphs}


register(
    DataSet(
        NAME,
        "drawn picture books with known answers",
        relations=RELATIONS,
        sequence="story",
        draw=picture_book,
        graphs=world_graphs,
    )
)
