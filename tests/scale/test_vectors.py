"""After any changes of the tables, the gallery is what a plain reading of them gives."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from boards import unit
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.scale import search
from limner.scale.cache import Cache
from limner.scale.catalogue import Catalogue
from limner.scale.search import TableIndex
from limner.scale.store import PICTURES, PICTURES_SCHEMA, PRESENT, TableStore, vectors_name, vectors_schema
from limner.scale.vectors import TableGallery, TableSpace, library_gallery
from limner.scale.write import vector_table
from limner.store import SpaceInfo
from limner.store.search import EncodedChannel, Evidence

DIMS = {"looks": 8, "words": 6}
INFOS = {name: SpaceInfo(encoder="drawn", fingerprint="f", dim=dim) for name, dim in DIMS.items()}


def name_of(number):
    return hashlib.sha256(str(number).encode()).hexdigest()


class Drawn:
    """A library's tables and cache, filled with drawn pictures."""

    def __init__(self, folder):
        self.store, self.cache = TableStore(folder / "tables"), Cache(folder / "cache")
        self.rng = np.random.default_rng(0)
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
        catalogue = Catalogue.read(self.store, self.cache)
        return library_gallery(self.store, self.cache, catalogue, INFOS, spaces)

    def plain(self, spaces=tuple(DIMS)):
        """The same by a walk through all rows."""
        held = dict(sorted(self.store.rows(PICTURES, ["id", "group"], PRESENT)))
        found = {}
        for name in spaces:
            table = vectors_name(name)
            known = dict(self.store.rows(table, ["id", "vector"])) if self.store.has(table) else {}
            rows = [known.get(one, [0] * DIMS[name]) for one in held]
            present = np.array([one in known for one in held], dtype=bool)
            found[name] = TableSpace(np.array(rows, np.float16).reshape(len(held), DIMS[name]), present)
        return TableGallery(list(held), [int(group[:16], 16) for group in held.values()], found)


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
        index = TableIndex(gallery)
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
        same(drawn.gallery(rest[0]), drawn.plain(rest[0]))


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(steps)
def test_any_sequence_of_changes_gives_what_a_plain_reading_gives(tmp_path_factory, steps):
    drawn = Drawn(tmp_path_factory.mktemp("drawn"))
    drawn.add(range(12))
    for step in steps:
        play(drawn, step)
        drawn.gallery()
    found, due = drawn.gallery(), drawn.plain()
    same(found, due)
    for block_rows in (3, 16_384):
        same_hits(hits(found, block_rows), hits(due, block_rows))


def test_two_processes_keep_what_they_have_opened(tmp_path):
    drawn, other = Drawn(tmp_path), Drawn(tmp_path)
    drawn.add(range(12))
    before = drawn.gallery()
    rows = {name: space.vectors(np.arange(12)) for name, space in before.spaces.items()}
    other.vectors("looks", [3, 4])
    other.pictures([5], paths=())
    after = other.gallery()
    assert len(after) == 11
    same(after, drawn.plain())
    assert len(before) == 12
    for name, due in rows.items():
        assert np.array_equal(before.space(name).vectors(np.arange(12)), due)
    same(drawn.gallery(), after)
