"""The neighbour graph against a loop: duplicates are no neighbours, equals come by their number."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from process_groups import together

from limner.errors import NumericsError, ShapeError
from limner.research.datasets import neighbours
from limner.research.datasets.neighbours import build_graph


def by_loop(vectors, size, text_ids, image_ids):
    rows = []
    for one, vector in enumerate(vectors):
        others = [
            (float(((vector - other) ** 2).sum()), number)
            for number, other in enumerate(vectors)
            if number != one and text_ids[number] != text_ids[one] and image_ids[number] != image_ids[one]
        ]
        near = [number for _, number in sorted(others)[:size]]
        rows.append(near + [-1] * (size - len(near)))
    return np.array(rows, np.int32)


def recall(table, vectors, **ids):
    """Share of the true neighbours that a graph holds."""
    due = build_graph(vectors, size=table.shape[1], method="exact", **ids)
    met = [len(set(row[row >= 0]) & set(true)) for row, true in zip(table, due, strict=True)]
    return sum(met) / (due >= 0).sum()


def counts(table):
    return (table >= 0).sum(axis=1)


@given(st.integers(2, 14), st.integers(1, 16), st.integers(1, 15), st.integers(1, 15), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_the_exact_graph_is_the_loop(n, size, texts, images, seed):
    rng = np.random.default_rng(seed)
    # whole numbers: equal distances are common, and no rounding orders them
    vectors = rng.integers(0, 3, (n, 2)).astype(np.float32)
    text_ids, image_ids = rng.integers(0, texts, n), rng.integers(0, images, n)
    graph = build_graph(vectors, size=size, text_ids=text_ids, image_ids=image_ids)
    due = by_loop(vectors, size, text_ids, image_ids)
    assert graph.dtype == np.int32
    np.testing.assert_array_equal(graph, due)
    for row, near in enumerate(graph.tolist()):
        held = [number for number in near if number >= 0]
        assert len(set(held)) == len(held)
        assert all(text_ids[o] != text_ids[row] and image_ids[o] != image_ids[row] for o in held)


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((50, 6)).astype(np.float32)
    ids = np.arange(50)
    whole = build_graph(vectors, size=7, text_ids=ids, image_ids=ids)
    monkeypatch.setattr(neighbours, "_CELLS", 150)
    parts = build_graph(vectors, size=7, text_ids=ids, image_ids=ids)
    np.testing.assert_array_equal(whole, parts)


def clusters(n=1500, copies=0):
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((20, 16)) * 3
    vectors = (centres[rng.integers(0, 20, n)] + rng.standard_normal((n, 16))).astype(np.float32)
    text_ids = np.arange(n)
    if copies:
        vectors[:copies] = vectors[0]
        text_ids[:copies] = 0
    return vectors, text_ids, np.arange(n)


@pytest.mark.slow
def test_the_searched_graph_holds_nearly_all_and_no_duplicates():
    vectors, text_ids, image_ids = clusters(copies=30)
    graph = build_graph(vectors, size=20, text_ids=text_ids, image_ids=image_ids, method="hnsw")
    assert recall(graph, vectors, text_ids=text_ids, image_ids=image_ids) > 0.95
    for row, near in enumerate(graph):
        assert row not in near
        assert not (row < 30 and (near[near >= 0] < 30).any())
    assert counts(graph).min() == 20


@pytest.mark.parametrize("method", ["exact", "hnsw"])
def test_several_processes_find_the_neighbours_of_one(method):
    """Each compares some rows with all, or searches all rows in a graph of some of them."""
    vectors, text_ids, image_ids = clusters(n=600, copies=400 if method == "hnsw" else 0)
    ids = {"text_ids": text_ids, "image_ids": image_ids}
    graphs = together(3, lambda group: build_graph(vectors, size=20, method=method, group=group, **ids))
    for graph in graphs:
        np.testing.assert_array_equal(graph, graphs[0])
    assert counts(graphs[0]).tolist() == [20] * 600
    # products of other sizes round otherwise, which may exchange the last of the nearest
    assert recall(graphs[0], vectors, **ids) > (0.999 if method == "exact" else 0.95)


def test_many_copies_take_no_neighbours_away():
    """More copies than a search looks at beyond what is wanted: rows that fall short are searched wider."""
    vectors, text_ids, image_ids = clusters(n=600, copies=400)
    graph = build_graph(vectors, size=5, text_ids=text_ids, image_ids=image_ids, method="hnsw")
    assert counts(graph).tolist() == [5] * 600
    assert recall(graph, vectors, text_ids=text_ids, image_ids=image_ids) > 0.95


@pytest.mark.parametrize(("pictured", "exact_rows"), [(60, 0), (400, 400)])
def test_rows_crowded_by_one_picture_are_searched_wider(pictured, exact_rows, monkeypatch):
    """Different texts of one picture, all nearer to each other than to the rest."""
    vectors, text_ids, image_ids = clusters(n=600)
    vectors[:pictured] = vectors[0] + np.arange(pictured, dtype=np.float32)[:, None] * 1e-3
    image_ids[:pictured] = 0
    compared = []
    real = neighbours._compare_all
    monkeypatch.setattr(neighbours, "_compare_all", lambda *a: compared.extend(a[1].tolist()) or real(*a))
    graph = build_graph(vectors, size=10, text_ids=text_ids, image_ids=image_ids, method="hnsw")
    monkeypatch.undo()
    assert compared == list(range(exact_rows))  # past the second search there is no searching on
    assert counts(graph).tolist() == [10] * 600
    assert (graph[:pictured] >= pictured).all()
    assert recall(graph, vectors, text_ids=text_ids, image_ids=image_ids) > 0.95


def test_rows_with_fewer_others_stay_short_when_searched():
    vectors, text_ids, image_ids = clusters(n=300)
    image_ids[:] = 0
    image_ids[:4] = range(1, 5)
    graph = build_graph(vectors, size=10, text_ids=text_ids, image_ids=image_ids, method="hnsw")
    assert counts(graph).tolist() == [10] * 4 + [4] * 296


def test_memory_is_bounded_by_blocks(monkeypatch):
    vectors, text_ids, image_ids = clusters(n=1200)
    ids = {"text_ids": text_ids, "image_ids": image_ids}
    build_graph(vectors, size=5, **ids)
    peaks = []
    for cells in (1 << 24, 12_000):
        monkeypatch.setattr(neighbours, "_CELLS", cells)
        tracemalloc.start()
        build_graph(vectors, size=5, **ids)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] > 1200**2 * 4  # all distances at once
    assert peaks[1] < 1200**2 * 4 / 4


def test_a_search_begins_above_a_size(monkeypatch):
    vectors, text_ids, image_ids = clusters(n=100)
    monkeypatch.setattr(neighbours, "_search", lambda *_: np.zeros((100, 3), np.int32))
    ids = {"text_ids": text_ids, "image_ids": image_ids}
    for most, searched in ((99, True), (100, False)):
        monkeypatch.setattr(neighbours, "EXACT_UP_TO", most)
        assert (build_graph(vectors, size=3, **ids) == 0).all() == searched


def test_what_cannot_be_is_refused():
    vectors, ids = np.eye(4, dtype=np.float32), np.arange(4)
    with pytest.raises(ShapeError, match="text_ids has shape"):
        build_graph(vectors, size=1, text_ids=ids[:3], image_ids=ids)
    with pytest.raises(ShapeError, match="1 texts"):
        build_graph(vectors[:1], size=1, text_ids=ids[:1], image_ids=ids[:1])
    with pytest.raises(NumericsError, match="not finite"):
        build_graph(np.full((4, 2), np.nan, np.float32), size=1, text_ids=ids, image_ids=ids)
