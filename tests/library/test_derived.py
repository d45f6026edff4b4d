"""Files kept beside a library's vectors: equal to what is computed, and never older than the vectors."""

import os

import numpy as np
import pytest
from boards import space, unit

from limner.files import DRAFT_SUFFIX
from limner.library import gallery as module
from limner.library.channels import EncodedChannel, Evidence
from limner.library.gallery import Derived, Gallery, Space, coarse, moments
from limner.library.search import Index


def stored(path, seed=0, rows=300, present=None):
    """A space saved to a file and mapped from it."""
    made = space(np.random.default_rng(seed).normal(size=(rows, 8)) + 0.5, present)
    np.save(path, made.matrix)
    return Space(np.load(path, mmap_mode="r"), made.present, "", Derived(path))


def same_moments(one, other):
    assert one.count == other.count
    assert np.array_equal(one.mean, other.mean)
    assert np.array_equal(one.covariance, other.covariance)


def refuse(*_):
    raise AssertionError("a pass over the vectors")


def test_second_reader_computes_nothing(tmp_path, monkeypatch):
    made = stored(tmp_path / "v.npy", present=np.arange(300) % 3 > 0)
    due_moments, due_copy = moments(made), coarse("v", made)
    same_moments(made.derived.moments(made), due_moments)
    made.derived.coarse("v", made)
    monkeypatch.setattr(module, "moments", refuse)
    monkeypatch.setattr(module, "rounded_blocks", refuse)
    again = Derived(tmp_path / "v.npy")
    same_moments(again.moments(made), due_moments)
    copy = again.coarse("v", made)
    assert copy.matrix.equal(due_copy.matrix)
    assert copy.error == due_copy.error
    assert np.array_equal(copy.present, due_copy.present)
    assert list(tmp_path.glob(f"*{DRAFT_SUFFIX}")) == []


def test_changed_vectors_are_derived_anew(tmp_path):
    path = tmp_path / "v.npy"
    before = stored(path)
    old = before.derived.moments(before), before.derived.coarse("v", before)
    del before
    path.unlink()
    after = stored(path, seed=1)
    os.utime(path, ns=(1, 1))
    same_moments(after.derived.moments(after), moments(after))
    assert after.derived.coarse("v", after).matrix.equal(coarse("v", after).matrix)
    assert not np.array_equal(old[0].mean, after.derived.moments(after).mean)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half", b"not a zip"])
def test_damaged_files_are_made_again(tmp_path, content):
    made = stored(tmp_path / "v.npy")
    made.derived.moments(made)
    made.derived.coarse("v", made)
    for name in ("v.moments.npz", "v.bf16.npz"):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "v.bf16").write_bytes(b"short")
    same_moments(made.derived.moments(made), moments(made))
    assert made.derived.coarse("v", made).matrix.equal(coarse("v", made).matrix)


def test_cut_copy_is_made_again(tmp_path):
    made = stored(tmp_path / "v.npy")
    made.derived.coarse("v", made)
    os.truncate(tmp_path / "v.bf16", 100)
    assert made.derived.coarse("v", made).matrix.equal(coarse("v", made).matrix)


def test_read_only_libraries_are_searched_too(tmp_path, monkeypatch):
    made = stored(tmp_path / "v.npy")
    monkeypatch.setattr(module.os, "access", lambda *_: False)
    same_moments(made.derived.moments(made), moments(made))
    assert made.derived.coarse("v", made).matrix.equal(coarse("v", made).matrix)
    assert [one.name for one in tmp_path.iterdir()] == ["v.npy"]


def test_search_is_the_same_with_and_without(tmp_path):
    made = stored(tmp_path / "v.npy", rows=900)
    ids = [str(row) for row in range(900)]
    bare = Space(made.matrix, made.present)
    texts = unit(np.random.default_rng(5).normal(size=(3, 8)))
    channel = EncodedChannel("v", "v", Evidence(slope=5, z_slope=1, offset=0), texts)
    for _ in range(2):
        found = Index(Gallery(ids, ids, {"v": made}), block_rows=100).search([channel], 20)
        due = Index(Gallery(ids, ids, {"v": bare}), block_rows=1_000).search([channel], 20)
        assert np.array_equal(found.rows, due.rows)
        assert found.scores == pytest.approx(due.scores, abs=1e-5)
        assert found.evidence == pytest.approx(due.evidence, abs=1e-3)
