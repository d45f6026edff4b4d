"""Scene graphs: what is written comes back, what is wrong is named with file and line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.errors import DataError, LimnerError, MissingError
from limner.research.scenes.graphs import (
    SceneGraph,
    SceneObject,
    SceneRelation,
    each_graph,
    read_graphs,
    shuffled_graphs,
    write_graphs,
)

GIRL = {"label": "girl", "box": [0.1, 0.2, 0.5, 0.9], "score": 0.9}
DOG = {"label": "dog", "box": [0.4, 0.5, 0.8, 1.0], "score": 0.5}
PLAIN = {
    "image": "p1",
    "objects": [GIRL, DOG],
    "relations": [{"s": 0, "p": "holding", "o": 1, "score": 0.25}],
}

labels = st.text(min_size=1, max_size=12)
units = st.floats(0, 1)


@st.composite
def scene_graphs(draw, image=labels):
    spans = st.lists(units, min_size=2, max_size=2, unique=True).map(sorted)
    objects = [
        SceneObject(label=draw(labels), box=(x0, y0, x1, y1), score=draw(units))
        for (x0, x1), (y0, y1) in draw(st.lists(st.tuples(spans, spans), max_size=4))
    ]
    places = st.integers(0, max(0, len(objects) - 1))
    pairs = st.lists(places, min_size=2, max_size=2, unique=True)
    ends = draw(st.lists(pairs, max_size=4)) if len(objects) > 1 else []
    relations = [SceneRelation(s=s, p=draw(labels), o=o, score=draw(units)) for s, o in ends]
    return SceneGraph(image=draw(image), objects=tuple(objects), relations=tuple(relations))


@given(st.lists(scene_graphs(), max_size=4, unique_by=lambda graph: graph.image))
@pytest.mark.slow
def test_what_is_written_comes_back(tmp_path_factory, graphs):
    path = tmp_path_factory.mktemp("graphs") / "graphs.jsonl"
    write_graphs(path, graphs)
    assert list(read_graphs(path).values()) == graphs
    assert list(each_graph(path)) == graphs
    assert [file.name for file in path.parent.iterdir()] == ["graphs.jsonl"]


def test_the_json_is_that_of_the_interchange_format(tmp_path):
    graph = SceneGraph.model_validate(PLAIN)
    write_graphs(tmp_path / "graphs.jsonl", [graph])
    assert json.loads((tmp_path / "graphs.jsonl").read_text()) == PLAIN
    assert not graph.empty
    assert SceneGraph.model_validate({"image": "p2", "objects": [], "relations": []}).empty


def changed(part, **values):
    return PLAIN | {part: [PLAIN[part][0] | values, *PLAIN[part][1:]]}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (changed("objects", box=[0.5, 0.2, 0.1, 0.9]), "left < right"),
        (changed("objects", box=[0.1, 0.2, 0.1, 0.9]), "left < right"),
        (changed("objects", box=[0.1, 0.2, 180, 0.9]), r"objects.0.box.2: .*less than or equal to 1"),
        (changed("objects", box=[0.1, 0.2, 0.5]), "objects.0.box.3"),
        (changed("objects", score=1.2), r"objects.0.score: .*less than or equal to 1.*see docs/scenes.md"),
        (changed("objects", score=float("nan")), "objects.0.score"),
        (changed("objects", score="0.5"), "objects.0.score"),
        (changed("objects", score=True), "objects.0.score"),
        (changed("objects", label=""), "objects.0.label"),
        (changed("objects", label="\ud800"), "not JSON .*hex escape"),
        (changed("relations", p=3), "relations.0.p"),
        (changed("objects", labels="x"), "objects.0.labels: Extra"),
        (changed("relations", s=2), "relations.0.s is 2, but the picture has 2 objects"),
        (changed("relations", o=-1), "relations.0.o"),
        (changed("relations", o=0), "relates object 0 to itself"),
        (changed("relations", s="0"), "relations.0.s"),
        (PLAIN | {"objects": [{"label": "girl", "score": 1}]}, "objects.0.box: Field required"),
        ({"image": "p"}, "objects: Field required"),
        ([PLAIN], "the line: "),
    ],
)
def test_a_wrong_graph_is_named_with_its_place(tmp_path, wrong, told):
    path = tmp_path / "graphs.jsonl"
    path.write_text(
        json.dumps(PLAIN) + "\n\n" + json.dumps(wrong | {"image": "p2"} if wrong == PLAIN else wrong)
    )
    with pytest.raises(DataError, match=told) as error:
        read_graphs(path)
    assert str(error.value).startswith(f"{path.parent.name}/{path.name}:3: ")
    assert "\n" not in str(error.value)


def test_two_graphs_of_one_picture_are_refused(tmp_path):
    path = tmp_path / "graphs.jsonl"
    path.write_text((json.dumps(PLAIN) + "\n") * 2)
    with pytest.raises(DataError, match=r":2: image 'p1' occurs twice"):
        read_graphs(path)


@given(st.binary(max_size=60))
def test_rubbish_ends_in_one_line(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("rubbish") / "graphs.jsonl"
    path.write_bytes(data)
    if not data.strip():
        assert read_graphs(path) == {}
        return
    with pytest.raises(LimnerError) as told:
        read_graphs(path)
    assert "\n" not in str(told.value)


def test_what_would_run_is_refused(tmp_path, executable_payload):
    path = tmp_path / "graphs.jsonl"
    path.write_bytes(executable_payload(tmp_path / "ran"))
    with pytest.raises(DataError):
        read_graphs(path)
    assert not (tmp_path / "ran").exists()
    with pytest.raises(MissingError, match="limner scenes"):
        read_graphs(tmp_path / "none")


@pytest.mark.slow
@given(st.lists(scene_graphs(), max_size=5, unique_by=lambda graph: graph.image), st.integers(0, 9))
def test_shuffled_graphs_are_the_same_ones_at_other_pictures(graphs, seed):
    dealt = shuffled_graphs(graphs, seed)
    assert dealt == shuffled_graphs(graphs, seed)
    assert [graph.image for graph in dealt] == [graph.image for graph in graphs]

    def content(graph):
        return graph.model_copy(update={"image": "x"}).model_dump_json()

    assert sorted(map(content, dealt)) == sorted(map(content, graphs))


def test_no_picture_keeps_its_graph_when_they_are_dealt_anew():
    graphs = [
        SceneGraph(
            image=str(n), objects=(SceneObject(label=str(n), box=(0, 0, 1, 1), score=1),), relations=()
        )
        for n in range(7)
    ]
    for seed in range(5):
        assert all(graph.objects[0].label != graph.image for graph in shuffled_graphs(graphs, seed))
    assert shuffled_graphs(graphs[:1], 0) == graphs[:1]


def test_graphs_are_dealt_inside_their_group():
    graphs = [SceneGraph(image=str(n), objects=(), relations=()) for n in range(6)]
    marked = [
        graph.model_copy(update={"objects": (SceneObject(label=graph.image, box=(0, 0, 1, 1), score=1),)})
        for graph in graphs
    ]
    dealt = shuffled_graphs(marked, 3, ["train", "test", "train", "train", "test", "val"])
    labels = [graph.objects[0].label for graph in dealt]
    assert {labels[0], labels[2], labels[3]} == {"0", "2", "3"}
    assert (labels[1], labels[4], labels[5]) == ("4", "1", "5")
    with pytest.raises(DataError, match="1 groups for 6 graphs"):
        shuffled_graphs(marked, 0, ["train"])
