"""True graphs of drawn pictures line up with their pairs, and the control keeps to the split."""

from limner.data.synthetic import PictureBook, picture_book_graphs, true_graphs
from limner.data.worlds import picture_book_pairs

STORIES, SEED = 12, 5


def test_every_pair_has_its_graph():
    shelf = PictureBook(SEED).stories(STORIES)
    graphs = picture_book_graphs(STORIES, SEED)
    assert graphs == true_graphs(shelf)
    assert [graph.image for graph in graphs] == [pair.image for pair in picture_book_pairs(shelf).pairs]
    assert all(graph.objects and graph.relations for graph in graphs)
    pages = [page for story in shelf for page in story.pages]
    for graph, page in zip(graphs, pages, strict=True):
        labels = {thing.label for thing in graph.objects}
        assert {figure.who.species for figure in page.scene.figures} <= labels


def test_the_control_deals_graphs_inside_the_split():
    graphs = {graph.image: graph for graph in picture_book_graphs(STORIES, SEED)}
    control = picture_book_graphs(STORIES, SEED, shuffled=1)
    assert control == picture_book_graphs(STORIES, SEED, shuffled=1)
    assert control != picture_book_graphs(STORIES, SEED, shuffled=2)
    assert [graph.image for graph in control] == list(graphs)
    split = {pair.image: pair.split for pair in picture_book_pairs(PictureBook(SEED).stories(STORIES)).pairs}

    def content(graph):
        return graph.objects, graph.relations

    for name in set(split.values()):
        inside = [image for image in graphs if split[image] == name]
        dealt = [content(graph) for graph in control if split[graph.image] == name]
        assert sorted(map(repr, dealt)) == sorted(repr(content(graphs[image])) for image in inside)
    changed = sum(content(graph) != content(graphs[graph.image]) for graph in control)
    assert changed > 0.9 * len(control)
