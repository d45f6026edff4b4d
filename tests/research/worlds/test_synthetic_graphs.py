"""True graphs of drawn pictures line up with their pairs, and the control keeps to the split."""

import pytest

from limner.research.scenes.graphs import shuffled_graphs
from limner.research.worlds import PictureBook
from limner.research.worlds.book import picture_book_pairs, world_graphs

STORIES, SEED = 10, 5


@pytest.fixture(scope="module")
def shelf():
    return PictureBook(SEED).stories(STORIES)


@pytest.mark.slow
def test_every_pair_has_its_graph(shelf):
    graphs = world_graphs(STORIES, SEED)
    assert list(graphs) == [pair.image_id for pair in picture_book_pairs(shelf).pairs]
    assert all(graph.objects and graph.relations for graph in graphs.values())
    pages = [page for story in shelf for page in story.pages]
    for (image, graph), page in zip(graphs.items(), pages, strict=True):
        assert graph.image == image
        assert {one.who.species for one in page.scene.figures} <= {thing.label for thing in graph.objects}


def test_the_control_can_be_dealt_inside_the_split(shelf):
    graphs = list(world_graphs(STORIES, SEED).values())
    splits = [story.story.split for story in shelf for _ in story.pages]
    control = shuffled_graphs(graphs, 1, splits)
    assert control == shuffled_graphs(graphs, 1, splits)
    assert control != shuffled_graphs(graphs, 2, splits)
    assert [graph.image for graph in control] == [graph.image for graph in graphs]
    objects = [graph.objects for graph in graphs]
    for split in ("train", "val", "test"):
        rows = [row for row, name in enumerate(splits) if name == split]
        assert sorted(repr(control[row].objects) for row in rows) == sorted(
            repr(objects[row]) for row in rows
        )
    changed = sum(one.objects != other for one, other in zip(control, objects, strict=True))
    assert changed > 0.9 * len(graphs)
