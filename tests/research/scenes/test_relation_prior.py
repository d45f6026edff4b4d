"""The frequency prior: counts by hand, a loop oracle, and files that come back or are refused."""

import json
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.errors import CheckpointError, DataError, LimnerError, MissingError
from limner.research.scenes.prior import RelationPrior, load_prior, overlapping, save_prior
from limner.research.scenes.visual_genome import (
    Annotated,
    Names,
    annotated_pictures,
    count_relations,
    read_names,
)

NAMES = Names(classes=("man", "horse"), predicates=("on", "near"))


def thing(name, x, y, w, h, number):  # noqa: PLR0917
    return {"name": name, "x": x, "y": y, "w": w, "h": h, "object_id": number}


MAN, HORSE = thing("Man", 0, 0, 10, 10, 1), thing("horse ", 5, 5, 10, 10, 2)
FAR = thing("horse", 50, 50, 5, 5, 3)
ONE = {
    "image_id": 7,
    "relationships": [
        {"predicate": "ON", "subject": MAN, "object": HORSE},
        {"predicate": "near", "subject": FAR, "object": MAN},
        {"predicate": "flies over", "subject": MAN, "object": HORSE},
    ],
}
TWO = {"image_id": 8, "relationships": [{"predicate": "near", "subject": FAR, "object": MAN}]}


@pytest.fixture
def relations(tmp_path):
    path = tmp_path / "relationships.json"
    path.write_text(json.dumps([ONE, TWO]))
    return path


def test_counts_by_hand(relations):
    prior, report = count_relations([relations], NAMES)
    # picture 7: man and horse overlap both ways (+1 each); picture 8: nothing overlaps, so all pairs count
    assert prior.counts[0, 1].tolist() == [1 + 1 + 1, 1, 0]
    assert prior.counts[1, 0].tolist() == [1 + 1 + 1, 0, 2]
    assert prior.counts[0, 0].tolist() == prior.counts[1, 1].tolist() == [1, 0, 0]
    assert (report.pictures, report.relations, report.outside) == (2, 3, 1)
    assert report.outside_names == (("flies over", 1),)
    assert prior.related("man", "horse") == ("on", 0.25, 0.25)
    assert prior.related("horse", "man") == ("near", 0.4, 0.4)


def test_only_the_named_pictures_count(relations):
    prior, report = count_relations([relations], NAMES, only=frozenset({"8"}))
    assert report.pictures == 1
    assert prior.counts[0, 1].tolist() == [2, 0, 0]
    with pytest.raises(DataError, match="no relation of the vocabulary in 0 pictures"):
        count_relations([relations], NAMES, only=frozenset({"none"}))


def test_without_a_vocabulary_the_most_frequent_names_are_counted(relations):
    prior, report = count_relations([relations])
    assert prior.classes == ("horse", "man")  # three horses, two men
    assert prior.predicates == ("near", "flies over", "on")
    assert report.outside == 0


@st.composite
def pictures(draw):
    found = []
    for number in range(draw(st.integers(1, 3))):
        corner, side = st.integers(0, 6), st.integers(1, 4)
        things = draw(
            st.lists(st.tuples(st.sampled_from("abc"), corner, corner, side, side), min_size=2, max_size=4)
        )
        place = st.integers(0, len(things) - 1)
        triples = draw(st.lists(st.tuples(place, st.sampled_from("pq"), place), max_size=3))
        boxes = tuple((float(x), float(y), float(x + w), float(y + h)) for _, x, y, w, h in things)
        found.append(Annotated(str(number), tuple(one[0] for one in things), boxes, tuple(triples)))
    return found


@pytest.mark.slow
@given(pictures())
def test_counts_are_those_of_plain_loops(found):
    names = Names(classes=("a", "b"), predicates=("p",))
    expected = np.zeros((2, 2, 2), int)
    expected[:, :, 0] = 1
    for one in found:
        pairs = []
        for s, a in enumerate(one.boxes):
            for o, b in enumerate(one.boxes):
                wide = min(a[2], b[2]) - max(a[0], b[0])
                high = min(a[3], b[3]) - max(a[1], b[1])
                if s != o and one.labels[s] in "ab" and one.labels[o] in "ab":
                    pairs.append((s, o, wide > 0 and high > 0))
        if any(lap for *_, lap in pairs):
            pairs = [pair for pair in pairs if pair[2]]
        for s, o, _ in pairs:
            expected["ab".index(one.labels[s]), "ab".index(one.labels[o]), 0] += 1
        for s, p, o in one.triples:
            if p == "p" and one.labels[s] in "ab" and one.labels[o] in "ab":
                expected["ab".index(one.labels[s]), "ab".index(one.labels[o]), 1] += 1
    if not expected[..., 1].any():
        return
    with mock.patch("limner.research.scenes.visual_genome.annotated_pictures", return_value=found):
        prior, _ = count_relations([Path("x")], names)
    np.testing.assert_array_equal(prior.counts, expected)


def test_boxes_that_touch_do_not_overlap():
    assert overlapping([(0, 0, 1, 1), (1, 0, 2, 1), (0.5, 0.5, 1.5, 1.5)]) == [(0, 2), (1, 2), (2, 0), (2, 1)]
    assert overlapping([]) == overlapping([(0, 0, 1, 1)]) == []


def test_both_published_forms_and_own_graphs_give_the_same_counts(relations, tmp_path):
    by_id = {
        "image_id": 7,
        "objects": [{**one, "names": [one["name"]]} for one in (MAN, HORSE, FAR)],
        "relationships": [
            {"predicate": "on", "subject_id": 1, "object_id": 2},
            {"predicate": "near", "subject_id": 3, "object_id": 1},
        ],
    }
    graphs = tmp_path / "scene_graphs.json"
    graphs.write_text(json.dumps([by_id]))
    own = tmp_path / "graphs.jsonl"
    objects = [
        {"label": one["name"].strip(), "score": 1, "box": [v / 100 for v in (x, y, x + w, y + h)]}
        for one in (MAN, HORSE, FAR)
        for x, y, w, h in [(one["x"], one["y"], one["w"], one["h"])]
    ]
    edges = [{"s": 0, "p": "on", "o": 1, "score": 1}, {"s": 2, "p": "near", "o": 0, "score": 1}]
    own.write_text(json.dumps({"image": "7", "objects": objects, "relations": edges}))
    expected = count_relations([relations], NAMES, only=frozenset({"7"}))[0]
    for path in (graphs, own):
        np.testing.assert_array_equal(count_relations([path], NAMES)[0].counts, expected.counts)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[]", "no pictures"),
        ("{", "after 0 pictures"),
        ('{"a": 1}', "no pictures"),
        ('[{"image_id": 1}]', "an entry has no 'relationships'"),
        (json.dumps([ONE, {"image_id": 2, "relationships": [{"predicate": "on"}]}]), "after 1 picture:"),
        (
            json.dumps(
                [{"image_id": 2, "relationships": [{"predicate": 3, "subject": MAN, "object": HORSE}]}]
            ),
            "Attr",
        ),
        (json.dumps([ONE])[:-3], "after 0 pictures"),
        (
            json.dumps(
                [{"image_id": 1, "objects": [], "relationships": [{"predicate": "on", "subject_id": 4}]}]
            ),
            "4",
        ),
    ],
)
def test_another_form_is_named(tmp_path, content, told):
    path = tmp_path / "relations.json"
    path.write_text(content)
    with pytest.raises(DataError, match=told) as error:
        list(annotated_pictures(path))
    assert "\n" not in str(error.value)
    with pytest.raises(MissingError):
        list(annotated_pictures(tmp_path / "none.json"))


@given(st.binary(max_size=80))
def test_rubbish_ends_in_one_line(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("rubbish") / "relations.json"
    path.write_bytes(data)
    with pytest.raises(LimnerError) as told:
        list(annotated_pictures(path))
    assert "\n" not in str(told.value)


def test_a_list_of_names_is_read_in_the_order_of_its_numbers(tmp_path):
    path = tmp_path / "names.json"
    path.write_text(
        json.dumps(
            {
                "idx_to_label": {"2": "Horse", "10": "hill", "1": "man"},
                "idx_to_predicate": {"1": "on"},
                "object_count": {"man": 4},
            }
        )
    )
    assert read_names(path) == Names(classes=("man", "horse", "hill"), predicates=("on",))
    path.write_text('{"idx_to_label": {"a": "man"}}')
    with pytest.raises(DataError, match="idx_to_label: missing or not numbered"):
        read_names(path)


@pytest.mark.shared
def test_the_published_names_are_read(shared_data):
    names = read_names(shared_data / "vg" / "VG-SGG-dicts-with-attri.json")
    assert (len(names.classes), len(names.predicates)) == (150, 50)
    assert (names.classes[0], names.predicates[0]) == ("airplane", "above")


def test_a_file_comes_back_and_a_foreign_one_is_refused(relations, tmp_path, executable_payload):
    prior, _ = count_relations([relations], NAMES)
    path = tmp_path / "prior.safetensors"
    save_prior(prior, path)
    again = load_prior(path)
    assert (again.classes, again.predicates, again.source) == (prior.classes, prior.predicates, prior.source)
    np.testing.assert_array_equal(again.counts, prior.counts)
    with pytest.raises(MissingError, match="build-prior"):
        load_prior(tmp_path / "none")
    whole = path.read_bytes()
    for content in (executable_payload(tmp_path / "ran"), b"", whole[:-9], whole[:-9] + b"\1" + whole[-8:]):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="not a relation prior"):
            load_prior(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_a_packed_or_misplaced_file_of_relations_is_named(relations, tmp_path):
    packed = tmp_path / "relationships.json.zip"
    with zipfile.ZipFile(packed, "w") as file:
        file.write(relations, "relationships.json")
    with pytest.raises(DataError, match=r"relationships\.json\.zip: an archive; unpack it"):
        count_relations([packed], NAMES)
    with pytest.raises(MissingError, match=r"relationships\.json\.zip is still packed: unpack and run again"):
        count_relations([tmp_path / "relations.json"], NAMES)


@pytest.mark.parametrize(
    ("classes", "counts"),
    [
        (("a", "b"), np.ones((2, 2, 3), np.int64)),
        (("a", "a"), np.ones((2, 2, 2), np.int64)),
        (("a", "b"), np.ones((2, 2, 2), np.int32)),
        (("a", "b"), np.zeros((2, 2, 2), np.int64)),
        (("a", "b"), -np.ones((2, 2, 2), np.int64)),
    ],
)
def test_parts_must_fit(classes, counts):
    with pytest.raises(CheckpointError, match="relation prior"):
        RelationPrior(classes, ("p",), counts)
