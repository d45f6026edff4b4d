"""Files kept beside a library's vectors: equal to what is computed, and never older than the vectors."""

import os

import numpy as np
import pytest
from boards import space, unit

from limner.errors import LimnerWarning
from limner.files import DRAFT_SUFFIX
from limner.store import gallery as module
from limner.store.blocks import extend
from limner.store.channels import EncodedChannel, Evidence
from limner.store.gallery import Gallery, Space
from limner.store.search import Index


def stored(path, seed=0, rows=300, present=None):
    """A space saved to a file and mapped from it."""
    made = space(np.random.default_rng(seed).normal(size=(rows, 8)) + 0.5, present)
    extend(path, range(rows), (8,), np.float16, lambda array: np.copyto(array, made.matrix))
    return mapped(path, made.present)


def mapped(path, present):
    matrix = np.memmap(path, np.float16, "r", shape=(len(present), 8))
    return Space(matrix, present, "", path)


def same(one, other):
    """What is derived from one space, and from the vectors of another in memory."""
    plain = Space(np.array(other.matrix), other.present)
    assert np.array_equal(one.moments.mean, plain.moments.mean)
    assert np.array_equal(one.moments.covariance, plain.moments.covariance)


def derived(folder):
    """The files of what is derived from the vectors."""
    return sorted([*folder.glob("v.*.rows"), *folder.glob("v.moments")])


def refuse(*_):
    raise AssertionError("a pass over the vectors")


def test_second_reader_computes_nothing(tmp_path, monkeypatch):
    made = stored(tmp_path / "v.rows", present=np.arange(300) % 3 > 0)
    same(made, made)
    with monkeypatch.context() as patch:
        patch.setattr(module, "sums", refuse)
        again = mapped(tmp_path / "v.rows", made.present)
        assert again.moments is not None
    same(again, made)
    assert list(tmp_path.glob(f"*{DRAFT_SUFFIX}")) == []


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY half", b"no array"])
def test_damaged_files_are_made_again(tmp_path, content):
    made = stored(tmp_path / "v.rows")
    same(made, made)
    for path in derived(tmp_path):
        path.write_bytes(content)
    with pytest.warns(LimnerWarning, match="damaged.* made again"):
        same(mapped(tmp_path / "v.rows", made.present), made)
    assert all(path.stat().st_size > 160 for path in derived(tmp_path))


def test_cut_copy_is_made_again(tmp_path):
    made = stored(tmp_path / "v.rows")
    same(made, made)
    for path in derived(tmp_path):
        os.truncate(path, 200)
    with pytest.warns(LimnerWarning, match="damaged.* made again"):
        same(mapped(tmp_path / "v.rows", made.present), made)


def test_read_only_libraries_are_searched_too(tmp_path, monkeypatch):
    made = stored(tmp_path / "v.rows")
    monkeypatch.setattr(module.os, "access", lambda *_: False)
    same(made, made)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["v.rows", "v.rows.sums"]


def test_search_is_the_same_with_and_without(tmp_path):
    made = stored(tmp_path / "v.rows", rows=900)
    ids = [str(row) for row in range(900)]
    bare = Space(made.matrix, made.present)
    texts = unit(np.random.default_rng(5).normal(size=(3, 8)))
    channel = EncodedChannel("v", "v", Evidence(slope=5, z_slope=1, offset=0), texts)
    for _ in range(2):
        found = Index(Gallery(ids, ids, {"v": made})).search([channel], 20)
        due = Index(Gallery(ids, ids, {"v": bare})).search([channel], 20)
        assert np.array_equal(found.rows, due.rows)
        assert found.scores == pytest.approx(due.scores, abs=1e-5)
        assert found.evidence == pytest.approx(due.evidence, abs=1e-3)
