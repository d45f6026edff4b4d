"""Stored neighbour graphs: made once, opened as they were, made again when damaged, never half there."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from limner.errors import LimnerWarning
from limner.research.datasets import neighbours
from limner.research.datasets.neighbours import build_graph, stored_graph

IDS = np.arange(30)
IDENTITY = {"text_ids": IDS, "image_ids": IDS}


def vectors(seed=0):
    return np.random.default_rng(seed).standard_normal((30, 4)).astype(np.float32)


def test_it_is_made_once_and_comes_back_as_it_was(tmp_path, monkeypatch):
    first = stored_graph(tmp_path, vectors(), size=5, **IDENTITY)
    np.testing.assert_array_equal(first, build_graph(vectors(), size=5, **IDENTITY))
    monkeypatch.setattr(neighbours, "build_graph", None)
    again = stored_graph(tmp_path, vectors(), size=5, **IDENTITY)
    assert again.dtype == np.int32
    np.testing.assert_array_equal(first, again)
    turned = IDS[::-1]
    for other in (
        {"size": 6},
        {"method": "hnsw"},
        {"text_ids": turned},
        {"image_ids": turned},
        {"vectors": vectors(1)},
    ):
        with pytest.raises(TypeError):  # not the same graph, so it would be built
            stored_graph(tmp_path, **({"vectors": vectors(), "size": 5} | IDENTITY | other))


# What pickle.dumps would give for an object that runs a command when it is loaded, written by hand.
PAYLOAD = b"cos\nsystem\n(S'touch unpickled'\ntR."


@pytest.mark.parametrize("how", ["cut", "flip", "empty", "other", "pickle"])
def test_a_damaged_graph_is_made_again(tmp_path, how, monkeypatch):
    monkeypatch.chdir(tmp_path)
    due = stored_graph(tmp_path / "graphs", vectors(), size=5, **IDENTITY)
    (file,) = (tmp_path / "graphs").iterdir()
    data = bytearray(file.read_bytes())
    if how == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif how == "flip":
        data[-9] ^= 255
        file.write_bytes(data)
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "pickle":
        file.write_bytes(PAYLOAD)
    else:
        stored_graph(tmp_path / "graphs", vectors(1), size=5, **IDENTITY)
        (another,) = set((tmp_path / "graphs").iterdir()) - {file}
        another.replace(file)
    with pytest.warns(LimnerWarning, match=r"damaged \(.*\); it is built again"):
        found = stored_graph(tmp_path / "graphs", vectors(), size=5, **IDENTITY)
    np.testing.assert_array_equal(found, due)
    np.testing.assert_array_equal(stored_graph(tmp_path / "graphs", vectors(), size=5, **IDENTITY), due)
    assert not (tmp_path / "unpickled").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from limner.research.datasets.neighbours import stored_graph
Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
ids = np.arange(30)
vectors = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
stored_graph(Path(sys.argv[1]), vectors, size=5, text_ids=ids, image_ids=ids)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals are of Unix")
def test_a_kill_while_writing_leaves_no_graph(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not list(tmp_path.glob("*.safetensors"))
    graph = stored_graph(tmp_path, vectors(), size=5, **IDENTITY)
    np.testing.assert_array_equal(graph, build_graph(vectors(), size=5, **IDENTITY))
