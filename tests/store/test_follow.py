"""A cache that follows its tables step by step gives what one that is made at once gives."""

import hashlib
import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from boards import unit
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.store import blocks, follow, search
from limner.store.channels import EncodedChannel, Evidence
from limner.store.gallery import _in_memory, library_gallery
from limner.store.search import Index
from limner.store.store import PICTURES, PICTURES_SCHEMA, SpaceInfo, Store, vectors_name, vectors_schema
from limner.store.write import vector_table

DIMS = {"looks": 8, "words": 6}
INFOS = {name: SpaceInfo(encoder="drawn", fingerprint="f", dim=dim) for name, dim in DIMS.items()}


def name_of(number):
    return hashlib.sha256(str(number).encode()).hexdigest()


class Drawn:
    """A library's tables and cache, filled with drawn pictures."""

    def __init__(self, folder):
        self.store, self.cache, self.rng = (
            Store(folder / "tables"),
            folder / "cache",
            np.random.default_rng(0),
        )
        self.store.ensure(PICTURES, PICTURES_SCHEMA)
        for space, dim in DIMS.items():
            self.store.ensure(vectors_name(space), vectors_schema(dim))

    def pictures(self, numbers, paths=("p",)):
        rows = [{"id": name_of(one), "paths": list(paths), "group": name_of(one // 3 * 3)} for one in numbers]
        self.store.upsert(PICTURES, pa.Table.from_pylist(rows, schema=PICTURES_SCHEMA))

    def vectors(self, space, numbers, coarse=False):
        rows = self.rng.integers(-1, 2, (len(numbers), DIMS[space])) if coarse else None
        rows = self.rng.normal(size=(len(numbers), DIMS[space])) if rows is None else rows + 0.0
        rows[~rows.any(axis=1)] = 1
        ids = [name_of(one) for one in numbers]
        self.store.upsert(vectors_name(space), vector_table(ids, ["x"] * len(ids), unit(rows)))

    def add(self, numbers):
        self.pictures(numbers)
        for space in DIMS:
            self.vectors(space, numbers, coarse=True)

    def gallery(self, spaces=tuple(DIMS)):
        return library_gallery(self.store, self.cache, INFOS, spaces)


def same(found, due):
    """Everything that a search takes from a gallery."""
    assert list(found.ids) == list(due.ids)
    assert np.array_equal(found.groups, due.groups)
    every = np.arange(len(due))
    for name, space in found.spaces.items():
        other = due.space(name)
        assert np.array_equal(space.present, other.present)
        assert np.array_equal(space.vectors(every), other.vectors(every))
        assert np.array_equal(space.moments.mean, other.moments.mean)
        assert np.array_equal(space.moments.covariance, other.moments.covariance)


def hits(gallery, block_rows):
    """A search of many ties: vectors have few different values."""
    rng = np.random.default_rng(1)
    channels = [
        EncodedChannel(
            name,
            name,
            Evidence(slope=3, z_slope=0.5, offset=0),
            unit(rng.integers(1, 3, (3, dim))),
        )
        for name, dim in DIMS.items()
    ]
    exclude = np.arange(len(gallery)) % 5 == 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "BLOCK_ROWS", block_rows)
        index = Index(gallery)
        found = index.search(channels, 6, exclude=exclude)
        return found, index.score(channels, found.rows[0][::-1].copy())


def same_hits(one, other):
    (found, scored), (due, due_scored) = one, other
    assert np.array_equal(found.rows, due.rows)
    assert np.array_equal(found.scores, due.scores)
    assert np.array_equal(scored.scores, due_scored.scores)
    for name in DIMS:
        assert np.array_equal(found.shares[name], due.shares[name])
        assert np.array_equal(found.present[name], due.present[name])
    assert found.evidence == pytest.approx(due.evidence, abs=1e-5)


numbers = st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["add", "gone", "back", "silent"]), numbers),
        st.tuples(st.just("vectors"), st.sampled_from(list(DIMS)), numbers),
        st.tuples(st.sampled_from(["compact", "drop", "groups"])),
        st.tuples(st.just("read"), st.sampled_from([(), ("looks",), ("words",), ("words", "looks")])),
    ),
    min_size=3,
    max_size=12,
)


def play(drawn, step):
    kind, *rest = step
    if kind == "add":
        drawn.add(rest[0])
    elif kind == "gone":
        drawn.pictures(rest[0], paths=())
    elif kind == "back":
        drawn.pictures(rest[0])
    elif kind == "silent":
        drawn.store.delete(vectors_name("words"), [name_of(one) for one in rest[0]])
    elif kind == "vectors":
        drawn.vectors(*rest)
    elif kind == "compact":
        drawn.store.compact()
    elif kind == "drop":
        drawn.store.drop(vectors_name("words"))
        drawn.store.ensure(vectors_name("words"), vectors_schema(DIMS["words"]))
    elif kind == "groups":
        ids = [name_of(one) for one in range(0, 40, 4)]
        known = [row["id"] for row in drawn.store.lookup(PICTURES, "id", ids, ["id"])]
        drawn.store.upsert(PICTURES, pa.table({"id": known, "group": known[:1] * len(known)}))
    else:
        same(drawn.gallery(rest[0]), _in_memory(drawn.store, INFOS, rest[0]))


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(steps, st.sampled_from([(16_384, 4_096), (2, 4_096), (2, 6)]))
def test_any_sequence_of_changes_gives_what_a_cache_made_at_once_gives(tmp_path_factory, steps, sizes):
    drawn = Drawn(tmp_path_factory.mktemp("drawn"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow, "SORTED_ROWS", sizes[0])
        patch.setattr(follow, "WASTE_ROWS", sizes[1])
        patch.setattr(blocks, "BLOCK_BYTES", 48)
        drawn.add(range(12))
        for step in steps:
            play(drawn, step)
            drawn.gallery()
        found, due = drawn.gallery(), _in_memory(drawn.store, INFOS, tuple(DIMS))
        same(found, due)
        for block_rows in (3, 16_384):
            same_hits(hits(found, block_rows), hits(due, block_rows))


def test_only_pieces_that_changed_are_read(tmp_path, monkeypatch):
    drawn = Drawn(tmp_path)
    drawn.add(range(30))
    drawn.gallery()
    files = {one.name: one.stat().st_size for one in drawn.cache.glob("*.rows")}
    drawn.vectors("looks", [7])
    drawn.add([100])
    read = []
    scan = Store.scan_pieces

    def counting(self, *rest):
        for own, batch in scan(self, *rest):
            read.append((rest[2], len(own)))
            yield own, batch

    monkeypatch.setattr(Store, "scan_pieces", counting)
    found = drawn.gallery()
    assert sum(count for columns, count in read if "vector" in columns) == 3
    assert {one.name: one.stat().st_size - files[one.name] for one in drawn.cache.glob("*.rows")} == {
        one: 2 * (32 if one.startswith("ids") else 2 * DIMS[one.split("-")[0]]) for one in files
    }
    same(found, _in_memory(drawn.store, INFOS, tuple(DIMS)))


KILLED = """
import os, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from limner.store import blocks, follow, roster
import test_follow
at = int(sys.argv[2])
def dying(function):
    def call(*rest, **named):
        global at
        at -= 1
        if at == 0:
            os.kill(os.getpid(), 9)
        done = function(*rest, **named)
        at -= 1
        if at == 0:
            os.kill(os.getpid(), 9)
        return done
    return call
blocks._note = dying(blocks._note)
roster._write = dying(roster._write)
follow.write_sums_of_space = dying(follow.write_sums_of_space)
test_follow.Drawn(Path(sys.argv[1])).gallery()
"""


@pytest.mark.slow
def test_a_kill_while_the_cache_is_brought_up_to_date_leaves_what_the_next_one_completes(tmp_path):
    drawn = Drawn(tmp_path)
    drawn.add(range(12))
    same(drawn.gallery(), _in_memory(drawn.store, INFOS, tuple(DIMS)))
    script = KILLED.format(tests=os.path.dirname(__file__))  # noqa: PTH120
    paths = os.pathsep.join(one for one in sys.path if one)
    killed = 0
    for at in (1, 4, 8, 12, 14):
        drawn.vectors("looks", [at % 12])
        drawn.add([50 + at])
        ended = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path), str(at)],
            env={**os.environ, "PYTHONPATH": paths},
            check=False,
        )
        assert ended.returncode in (0, -signal.SIGKILL)
        killed += ended.returncode != 0
        same(drawn.gallery(), _in_memory(drawn.store, INFOS, tuple(DIMS)))
        assert not list(drawn.cache.glob(".*[!k]"))
    assert killed >= 4


def test_two_processes_keep_what_they_have_opened(tmp_path):
    drawn, other = Drawn(tmp_path), Drawn(tmp_path)
    drawn.add(range(12))
    before = drawn.gallery()
    rows = {name: space.vectors(np.arange(12)) for name, space in before.spaces.items()}
    other.vectors("looks", [3, 4])
    other.pictures([5], paths=())
    after = other.gallery()
    assert len(after) == 11
    same(after, _in_memory(drawn.store, INFOS, tuple(DIMS)))
    assert len(before) == 12
    for name, due in rows.items():
        assert np.array_equal(before.space(name).vectors(np.arange(12)), due)
    same(drawn.gallery(), after)
