"""Graph encoders against loops, against torch_geometric, and by what must not change them."""

import warnings
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from limner.errors import DataError, NumericsError
from limner.research.nn.graphs import (
    BipartiteConvolution,
    GraphEncoder,
    TripleConvolution,
    mean_by_graph,
    normalised_adjacency,
)
from limner.research.systems.gsda.graphs import (
    batch_graphs,
    graph_words,
    sentence_label_vectors,
    word_label_vectors,
)

WORDS = ("dog", "girl", "kite", "on", "holding")
NUMBERS = {word: number for number, word in enumerate(WORDS)}
BOTH = ("bipartite", "triple")


@dataclass
class Thing:
    label: str


@dataclass
class Relation:
    s: int
    p: str
    o: int


@dataclass
class Graph:
    objects: list = field(default_factory=list)
    relations: list = field(default_factory=list)


def graph(labels, *triples):
    return Graph([Thing(label) for label in labels], [Relation(*one) for one in triples])


EMPTY = graph([])
ALONE = graph(["kite"])
SMALL = graph(["girl", "dog"], (0, "holding", 1))
LARGE = graph(["girl", "dog", "kite"], (0, "holding", 2), (1, "on", 0), (0, "on", 1), (0, "holding", 1))
ALL = [SMALL, EMPTY, LARGE, ALONE, LARGE]


def vectors(width=6):
    return torch.randn(
        len(WORDS), width, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    ).float()


def encoder(convolution="bipartite", **options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return GraphEncoder(vectors(), dim=5, width=7, convolution=convolution, **options).double()


def psi(model, graphs):
    return model(batch_graphs(graphs, NUMBERS))[0]


def test_a_batch_by_hand():
    batch = batch_graphs([SMALL, EMPTY, ALONE], NUMBERS)
    assert batch.labels.tolist() == [1, 0, 4, 2]
    assert batch.owner.tolist() == [0, 0, 0, 2]
    assert batch.triples.tolist() == [[0, 2, 1]]
    assert batch.empty.tolist() == [False, True, False]
    assert batch.size == 3
    third, sixth = 1 / 3, 6**-0.5
    np.testing.assert_allclose(
        normalised_adjacency(batch).to_dense(),
        [[0.5, 0, sixth, 0], [0, 0.5, sixth, 0], [sixth, sixth, third, 0], [0, 0, 0, 1]],
        rtol=1e-6,
    )
    means = mean_by_graph(torch.tensor([[1.0], [2.0], [6.0], [4.0]]), batch.owner, 3)
    assert means.tolist() == [[3.0], [0.0], [4.0]]
    with pytest.raises(DataError, match="graph 2 of 2: no vector for 'cow'"):
        batch_graphs([SMALL, graph(["cow"])], NUMBERS)
    assert graph_words(ALL) == sorted(WORDS)


def bipartite_by_loops(model, one):
    """(D,) by plain loops over nodes, one graph alone."""
    if not one.objects:
        return functional.normalize(model.empty, dim=0)
    labels = [thing.label for thing in one.objects] + [relation.p for relation in one.relations]
    linked = [{place} for place in range(len(labels))]
    for number, relation in enumerate(one.relations):
        middle = len(one.objects) + number
        for end in (relation.s, relation.o):
            linked[end].add(middle)
            linked[middle].add(end)
    hidden = [model.label_vectors[NUMBERS[label]] for label in labels]
    for weight in model.layers.weights:
        after = []
        for near in linked:
            total = sum(hidden[other] / (len(near) * len(linked[other])) ** 0.5 for other in near)
            after.append(torch.clamp(weight.weight @ total, min=0))
        hidden = after
    mean = sum(hidden) / len(hidden)
    return functional.normalize(model.out.weight @ mean + model.out.bias, dim=0)


def triple_by_loops(model, one):
    """(D,) by plain loops over triples, one graph alone."""
    if not one.objects:
        return functional.normalize(model.empty, dim=0)
    things = [model.label_vectors[NUMBERS[thing.label]] for thing in one.objects] + [model.layers.picture]
    edges = [(r.s, model.label_vectors[NUMBERS[r.p]], r.o) for r in one.relations]
    edges += [(place, model.layers.within, len(things) - 1) for place in range(len(one.objects))]
    for first, second in zip(model.layers.first, model.layers.second, strict=True):
        said = [[] for _ in things]
        after = []
        for s, p, o in edges:
            told = first(torch.cat([things[s], p, things[o]]))
            said[s].append(told[:512])
            said[o].append(told[-512:])
            after.append((s, told[512:-512], o))
        things = [second(sum(one) / len(one)) for one in said]
        edges = after
    nodes = things[:-1] + [p for _, p, _ in edges[: len(one.relations)]]
    return functional.normalize(model.out.weight @ (sum(nodes) / len(nodes)) + model.out.bias, dim=0)


@pytest.mark.parametrize(
    ("convolution", "oracle"), [("bipartite", bipartite_by_loops), ("triple", triple_by_loops)]
)
def test_vectors_are_those_of_plain_loops(convolution, oracle):
    model = encoder(convolution)
    found = psi(model, ALL)
    expected = torch.stack([oracle(model, one) for one in ALL])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_the_convolution_is_torch_geometrics():
    with warnings.catch_warnings():
        # It compiles some of its functions in a way torch has deprecated; none of that is used here.
        warnings.simplefilter("ignore")
        gcn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed").GCNConv
    batch = batch_graphs(ALL, NUMBERS)
    nodes = vectors()[batch.labels]
    own = BipartiteConvolution(6, 7, 1)
    theirs = gcn(6, 7, bias=False)
    theirs.load_state_dict({"lin.weight": own.weights[0].weight.detach()})
    s, r, o = batch.triples.unbind(dim=1)
    edges = torch.cat([torch.stack(pair) for pair in ((s, r), (r, s), (r, o), (o, r))], dim=1)
    torch.testing.assert_close(own(nodes, batch), functional.relu(theirs(nodes, edges)), rtol=1e-5, atol=1e-6)


@st.composite
def scene_graphs(draw):
    count = draw(st.integers(1, 5))
    place = st.integers(0, count - 1)
    triples = draw(st.lists(st.tuples(place, st.sampled_from(WORDS[3:]), place), max_size=5))
    return graph(draw(st.lists(st.sampled_from(WORDS[:3]), min_size=count, max_size=count)), *triples)


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(scene_graphs(), st.randoms(use_true_random=False), st.sampled_from(BOTH))
def test_the_order_of_nodes_and_relations_changes_nothing(one, random, convolution):
    order = list(range(len(one.objects)))
    random.shuffle(order)
    new = {old: place for place, old in enumerate(order)}
    relations = [Relation(new[r.s], r.p, new[r.o]) for r in one.relations]
    random.shuffle(relations)
    moved = Graph([one.objects[old] for old in order], relations)
    model = encoder(convolution)
    torch.testing.assert_close(psi(model, [one]), psi(model, [moved]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("convolution", BOTH)
def test_a_graph_does_not_depend_on_its_batch(convolution):
    model = encoder(convolution)
    together = psi(model, ALL)
    for row, one in enumerate(ALL):
        torch.testing.assert_close(psi(model, [one])[0], together[row], rtol=1e-9, atol=1e-9)
    assert not torch.allclose(together[0], together[2])


@pytest.mark.parametrize("convolution", BOTH)
def test_empty_graphs_share_a_learned_vector_and_are_told_apart(convolution):
    model = encoder(convolution)
    rows, empty = model(batch_graphs([EMPTY, SMALL, EMPTY], NUMBERS))
    assert empty.tolist() == [True, False, True]
    torch.testing.assert_close(rows[0], functional.normalize(model.empty, dim=0))
    torch.testing.assert_close(rows[0], rows[2])
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(3, dtype=torch.float64))
    (rows[0] * torch.arange(5)).sum().backward()
    assert model.empty.grad.abs().sum() > 0
    assert all(one.grad is None or not one.grad.any() for one in model.layers.parameters())
    only, mask = model(batch_graphs([EMPTY], NUMBERS))
    assert only.shape == (1, 5)
    assert mask.all()


@pytest.mark.parametrize("convolution", BOTH)
def test_labels_and_relations_count(convolution):
    model = encoder(convolution)
    first = psi(model, [SMALL])
    assert not torch.allclose(first, psi(model, [graph(["girl", "dog"])]))
    assert not torch.allclose(first, psi(model, [graph(["girl", "dog"], (0, "on", 1))]))
    assert not torch.allclose(first, psi(model, [graph(["girl", "kite"], (0, "holding", 1))]))
    turned = psi(model, [graph(["girl", "dog"], (1, "holding", 0))])
    # relations as nodes know no direction; triples do
    assert torch.allclose(first, turned) == (convolution == "bipartite")


@pytest.mark.slow
@pytest.mark.parametrize("convolution", BOTH)
def test_gradients_are_those_of_finite_differences(convolution):
    model = encoder(convolution)
    batch = batch_graphs([SMALL, LARGE, EMPTY], NUMBERS)
    held = dict(model.named_parameters()) | dict(model.named_buffers())
    name = "label_vectors"

    def forward(value):
        return torch.func.functional_call(model, {**held, name: value}, (batch,))[0]

    assert torch.autograd.gradcheck(forward, held[name].detach().clone().requires_grad_(), eps=1e-6)


def test_label_vectors_are_kept_and_not_trained():
    assert "label_vectors" not in dict(encoder().named_parameters())
    assert "label_vectors" in encoder().state_dict()


def test_the_default_sizes_are_those_of_the_specification():
    model = GraphEncoder(torch.zeros(4, 300))
    assert [tuple(one.weight.shape) for one in model.layers.weights] == [(256, 300), (256, 256)]
    assert model.out.weight.shape == (256, 256)
    triple = TripleConvolution(300, 256, 1)
    assert [tuple(one.weight.shape) for one in triple.first[0][::2]] == [(512, 900), (1280, 512)]
    assert [tuple(one.weight.shape) for one in triple.second[0][::2]] == [(512, 512), (256, 512)]


def test_labels_of_several_words_are_means_of_the_known_ones():
    known = {"traffic": np.array([1, 3], np.float32), "light": np.array([3, 1], np.float32)}
    found = word_label_vectors(["traffic light", "Traffic-jam", "cow"], known)
    assert found.matrix.tolist() == [[2, 2], [1, 3], [0, 0]]
    assert found.unknown == ("cow",)
    assert found.numbers == {"traffic light": 0, "Traffic-jam": 1, "cow": 2}
    with pytest.raises(DataError, match="none of 1 label "):
        word_label_vectors(["cow"], known)
    with pytest.raises(DataError, match="no word vectors"):
        word_label_vectors(["cow"], {})
    with pytest.raises(NumericsError, match="'cow'"):
        word_label_vectors(["cow"], {"cow": np.array([np.nan, 1], np.float32)})


def test_sentence_vectors_need_no_word_list():
    class Sentences:
        name, fingerprint, dim = "made-up", "ab", 2

        def encode_text(self, texts):
            return np.array([[len(text), 0] for text in texts], np.float32)

    found = sentence_label_vectors(["dog", "teddy bear"], Sentences())
    assert found.matrix.tolist() == [[3, 0], [10, 0]]
    assert found.unknown == ()
    assert sentence_label_vectors([], Sentences()).matrix.shape == (0, 2)
