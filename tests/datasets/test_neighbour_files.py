"""Stored neighbour graphs: made once, opened as they were, refused when damaged, never half there."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from limner.datasets import neighbours as neighbour_files
from limner.datasets.neighbours import (
    ABOUT,
    TABLE,
    build_graph,
    open_graph,
    source_hash,
    stored_graph,
    write_graph,
)
from limner.errors import CheckpointError, MissingError

IDS = np.arange(30)
IDENTITY = {"text_ids": IDS, "image_ids": IDS}


def vectors(seed=0):
    return np.random.default_rng(seed).standard_normal((30, 4)).astype(np.float32)


@pytest.fixture
def stored(tmp_path):
    graph = build_graph(vectors(), size=5, **IDENTITY)
    write_graph(graph, tmp_path / "graph", "these vectors")
    return tmp_path / "graph", graph


def test_a_graph_comes_back_memory_mapped(stored):
    folder, graph = stored
    found = open_graph(folder, "these vectors")
    assert isinstance(found.neighbours, np.memmap)
    assert found.neighbours.dtype == np.int32
    np.testing.assert_array_equal(found.neighbours, graph.neighbours)
    assert found.method == "exact"
    found.neighbours[:] = 7  # reaches no file
    np.testing.assert_array_equal(open_graph(folder, "these vectors").neighbours, graph.neighbours)


def test_it_is_made_once(tmp_path, monkeypatch):
    first = stored_graph(tmp_path, vectors(), size=5, **IDENTITY)
    monkeypatch.setattr(neighbour_files, "build_graph", None)
    again = stored_graph(tmp_path, vectors(), size=5, **IDENTITY)
    np.testing.assert_array_equal(first.neighbours, again.neighbours)
    for other in ({"size": 6}, {"size": 5, "method": "hnsw"}):
        with pytest.raises(TypeError):  # not the same graph, so it would be built
            stored_graph(tmp_path, vectors(), **IDENTITY, **other)
    with pytest.raises(TypeError):
        stored_graph(tmp_path, vectors(1), size=5, **IDENTITY)


def test_the_source_is_vectors_ids_and_settings():
    one = source_hash(vectors(), IDS, IDS, 5, "auto")
    assert one == source_hash(vectors(), IDS, IDS, 5, "auto")
    assert one != source_hash(vectors(), IDS[::-1], IDS, 5, "auto")
    assert one != source_hash(vectors(), IDS, IDS[::-1], 5, "auto")


def test_another_source_or_nothing_is_said(stored, tmp_path):
    with pytest.raises(CheckpointError, match="other vectors or pairs"):
        open_graph(stored[0], "others")
    with pytest.raises(MissingError, match="build it first"):
        open_graph(tmp_path, "these vectors")


@pytest.mark.parametrize("name", [TABLE, ABOUT])
@pytest.mark.parametrize("how", ["cut", "flip", "empty", "gone", "folder"])
def test_damage_is_refused(stored, name, how):
    file = stored[0] / name
    data = bytearray(file.read_bytes())
    file.unlink()
    if how == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif how == "flip":
        data[-9] ^= 255
        file.write_bytes(data)
    elif how == "empty":
        file.touch()
    elif how == "folder":
        file.mkdir()
    with pytest.raises((CheckpointError, MissingError)) as caught:
        open_graph(stored[0], "these vectors")
    assert "\n" not in str(caught.value)


# What pickle.dumps would give for an object that runs a command when it is loaded, written by hand.
PAYLOAD = b"cos\nsystem\n(S'touch unpickled'\ntR."


def test_a_pickle_is_refused_and_never_run(stored, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = stored[0]
    table = tmp_path / "table"
    with table.open("wb") as file:
        head = {"descr": "|O", "fortran_order": False, "shape": (1,)}
        np.lib.format.write_array_header_1_0(file, head)
        file.write(PAYLOAD)
    for name, content in ((TABLE, table.read_bytes()), (TABLE, PAYLOAD), (ABOUT, PAYLOAD)):
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(content)
        with pytest.raises(CheckpointError):
            open_graph(folder, "these vectors")
        assert not (tmp_path / "unpickled").exists()
        (folder / name).write_bytes(before)
    open_graph(folder, "these vectors")


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from limner.datasets import neighbours as neighbour_files
real = Path.replace
count = 0
def replace(self, target):
    global count
    if count == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    count += 1
    return real(self, target)
Path.replace = replace
ids = np.arange(30)
vectors = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
neighbour_files.stored_graph(Path(sys.argv[1]), vectors, size=5, text_ids=ids, image_ids=ids)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals are of Unix")
@pytest.mark.parametrize("moment", [0, 1])
def test_a_kill_while_writing_leaves_no_graph(tmp_path, moment):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(moment)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not list(tmp_path.rglob(ABOUT))
    graph = stored_graph(tmp_path, vectors(), size=5, **IDENTITY)
    np.testing.assert_array_equal(graph.neighbours, build_graph(vectors(), size=5, **IDENTITY).neighbours)
