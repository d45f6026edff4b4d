"""From things to graphs: the keep rule by hand, against loops, and what has no name in the prior."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.errors import ConfigError
from limner.research.scenes.graphs import SceneObject
from limner.research.scenes.prior import (
    LabelNames,
    RelationPrior,
    coco_label_names,
    position,
    read_label_names,
    relate,
)


def thing(label, box=(0, 0, 1, 1), score=1.0):
    return SceneObject(label=label, box=box, score=score)


def prior(**counts):
    """man and dog; counts[man_dog] = [background, on, near]."""
    table = np.ones((2, 2, 3), np.int64) * [100, 0, 0]
    for pair, row in counts.items():
        s, o = (("man", "dog").index(name) for name in pair.split("_"))
        table[s, o] = row
    return RelationPrior(("man", "dog"), ("on", "near"), table)


def test_the_likeliest_predicate_is_kept_where_any_relation_is_likely_enough():
    known = prior(man_dog=[70, 20, 10], dog_man=[81, 10, 9])
    graph = relate("p", [thing("man", score=0.5), thing("dog", score=0.8)], known)
    (relation,) = graph.relations  # man-dog .3 ≥ .2 is kept, dog-man .19 is not
    assert (relation.s, relation.p, relation.o) == (0, "on", 1)
    assert relation.score == pytest.approx(0.2 * 0.5 * 0.8)
    both = relate("p", graph.objects, prior(man_dog=[70, 20, 10], dog_man=[80, 11, 9]))
    assert [(one.s, one.p, one.o) for one in both.relations] == [(0, "on", 1), (1, "on", 0)]


def test_the_threshold_itself_is_kept_and_the_never_annotated_is_not():
    two = [thing("man"), thing("dog")]
    known = prior(man_dog=[80, 20, 0])
    assert len(relate("p", two, known).relations) == 1
    assert [(one.s, one.o) for one in relate("p", two, known).relations] == [(0, 1)]


def test_things_that_do_not_overlap_are_related_only_when_asked():
    apart = [thing("man", (0, 0, 0.4, 1)), thing("dog", (0.6, 0, 1, 1))]
    known = prior(man_dog=[1, 9, 0])
    for by in (known, None):
        assert relate("p", apart, by).relations == ()
        assert len(relate("p", apart, by, must_overlap=False).relations) == 1


def test_a_picture_without_things_has_an_empty_graph():
    for graph in (relate("p", [], prior()), relate("p", [], None)):
        assert graph.empty
        assert graph.relations == ()


units = st.integers(0, 8)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from(["man", "dog", "cat"]), units, units, st.integers(1, 4), st.floats(0, 1)),
        max_size=6,
    ),
    st.integers(0, 5),
    st.floats(0, 1),
)
def test_relations_are_those_of_plain_loops(things, most, least):
    objects = [
        thing(label, (x / 12, y / 12, (x + w) / 12, (y + w) / 12), score) for label, x, y, w, score in things
    ]
    known = prior(man_dog=[50, 30, 20], dog_man=[9, 1, 2], man_man=[3, 1, 0])
    expected = []
    for s, a in enumerate(objects):
        for o, b in enumerate(objects):
            wide = min(a.box[2], b.box[2]) - max(a.box[0], b.box[0])
            high = min(a.box[3], b.box[3]) - max(a.box[1], b.box[1])
            if s == o or wide <= 0 or high <= 0 or "cat" in (a.label, b.label):
                continue
            row = known.counts[("man", "dog").index(a.label), ("man", "dog").index(b.label)]
            if row[1:].sum() / row.sum() >= least and row[1:].max():
                name = ("on", "near")[int(row[1:].argmax())]
                expected.append((row[1:].max() / row.sum() * a.score * b.score, s, name, o))
    expected.sort(key=lambda one: -one[0])
    with (
        mock.patch("limner.research.scenes.prior.MIN_RELATED", least),
        mock.patch("limner.research.scenes.prior.MOST_RELATIONS", most),
    ):
        graph = relate("p", objects, known)
    assert [(one.s, one.p, one.o) for one in graph.relations] == [one[1:] for one in expected[:most]]
    assert [one.score for one in graph.relations] == pytest.approx([one[0] for one in expected[:most]])


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        ((0.1, 0.4, 0.2, 0.6), "left of"),
        ((0.8, 0.4, 0.9, 0.6), "right of"),
        ((0.4, 0.0, 0.6, 0.2), "above"),
        ((0.4, 0.8, 0.6, 0.9), "below"),
        ((0.45, 0.45, 0.55, 0.55), "inside"),
        ((0.0, 0.0, 1.0, 1.0), "surrounding"),
    ],
)
def test_positions_by_hand(subject, told):
    assert position(subject, (0.4, 0.4, 0.6, 0.6)) == told


def test_relations_by_position_go_from_the_earlier_thing():
    things = [thing("cup", (0.4, 0.1, 0.6, 0.45), 0.9), thing("table", (0, 0.4, 1, 1), 0.5)]
    (relation,) = relate("p", things, None).relations
    assert (relation.s, relation.p, relation.o) == (0, "above", 1)
    assert relation.score == pytest.approx(0.45)


def test_labels_are_renamed_and_the_strange_ones_counted():
    names = LabelNames(prior(), {"person": "man"})
    renamed = names.rename([thing("person"), thing("dog"), thing("kite"), thing("kite")])
    assert [one.label for one in renamed] == ["man", "dog", "kite", "kite"]
    assert names.unmatched == {"kite": 2}
    graph = relate("p", renamed, prior(man_dog=[1, 9, 0]))
    assert len(graph.objects) == 4
    assert [(one.s, one.o) for one in graph.relations] == [(0, 1)]
    with pytest.raises(ConfigError, match="did you mean 'man'"):
        LabelNames(prior(), {"person": "men"})
    plain = LabelNames(None)
    assert plain.rename([thing("kite")])[0].label == "kite"
    assert not plain.unmatched


def test_label_names_come_from_a_file(tmp_path):
    path = tmp_path / "names.toml"
    path.write_text('"person" = "man"\ndoggy = "dog"\n')
    assert read_label_names(path) == {"person": "man", "doggy": "dog"}
    path.write_text("person = 3")
    with pytest.raises(ConfigError, match="'person' is 3"):
        read_label_names(path)


def test_cocos_names_are_those_the_prior_knows():
    known = RelationPrior(("bike", "man"), ("on",), np.ones((2, 2, 2), np.int64))
    assert coco_label_names(known) == {"bicycle": "bike"}


@pytest.mark.shared
def test_every_one_of_cocos_names_is_a_class_of_the_published_list(shared_data):
    from limner.research.scenes.visual_genome import read_names

    names = read_names(shared_data / "vg" / "VG-SGG-dicts-with-attri.json")
    size = len(names.classes)
    known = RelationPrior(names.classes, ("on",), np.ones((size, size, 2), np.int64))
    assert len(coco_label_names(known)) == 23
    assert not set(coco_label_names(known)) & set(names.classes)
