"""True scene graphs of drawn pictures, and the same dealt to other pictures.

In picture-book worlds it is known what every picture shows, so what graphs are good for can be measured apart
from what detectors miss. It draws nothing.
"""

from collections.abc import Sequence

from limner.data.picturebook.shelf import PictureBook, SyntheticStory
from limner.data.scene_graphs import SceneGraph, parse_graph, shuffled_graphs


def true_graphs(stories: Sequence[SyntheticStory]) -> list[SceneGraph]:
    """One graph per page, in the order of `limner.data.worlds.picture_book_pairs`; `image` is the pair's.

    Args:
        stories: as a `PictureBook` tells them.
    """
    return [
        parse_graph(story.graph(number), story.image_id(number))
        for story in stories
        for number in range(len(story.pages))
    ]


def picture_book_graphs(stories: int, seed: int, *, shuffled: int | None = None) -> list[SceneGraph]:
    """The true graphs of the pictures of `limner.data.worlds.picture_book`, in its order.

    Args:
        stories: how many.
        seed: of the shelf.
        shuffled: None for the truth; else the seed of the control, in which each picture has the graph of
            another one of its split.
    """
    shelf = PictureBook(seed).stories(stories)
    graphs = true_graphs(shelf)
    if shuffled is None:
        return graphs
    splits = [story.story.split for story in shelf for _ in story.pages]
    return shuffled_graphs(graphs, shuffled, splits)
