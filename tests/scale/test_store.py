"""Tables by themselves: readers beside a writer, and rows that are known to be new."""

import gc
import weakref

import lance
import numpy as np
import pytest

from limner.errors import DataError
from limner.scale import store as module
from limner.scale.store import TableStore, vectors_schema
from limner.scale.write import vector_table

NAME = "vectors_made"


def rows(first, count, value=0.5):
    ids = [f"{number:064x}" for number in range(first, first + count)]
    return vector_table(ids, ["made"] * count, np.full((count, 4), value, np.float32))


@pytest.fixture
def store(tmp_path):
    made = TableStore(tmp_path)
    made.ensure(NAME, vectors_schema(4))
    return made


def test_a_reader_is_told_that_another_process_finished_meanwhile(store, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SCAN_ROWS", 16)
    for part in range(40):
        store.upsert(NAME, rows(100 * part, 100), ())
    reader = TableStore(tmp_path)
    read = reader.scan(NAME, ["id", "vector"])
    assert next(read).num_rows == 16
    store.compact()
    with pytest.raises(DataError, match="another process finished indexing"):
        list(read)
    assert sum(batch.num_rows for batch in reader.scan(NAME, ["id"])) == 4000


def test_a_state_that_another_process_has_removed_is_told(store, tmp_path):
    store.upsert(NAME, rows(0, 3), ())
    state = TableStore(tmp_path).state(NAME)
    assert len(list(store.scan_state(state, ["id"]))) == 1
    store.upsert(NAME, rows(3, 3), ())
    assert sum(batch.num_rows for batch in store.scan_state(state, ["id"])) == 3
    store.compact()
    with pytest.raises(DataError, match="another process finished indexing"):
        list(store.scan_state(state, ["id"]))


def test_a_table_whose_versions_are_named_as_by_the_first_lance_is_read(tmp_path):
    path = tmp_path / f"{NAME}.lance"
    for number in range(12):
        lance.write_dataset(
            rows(number, 1), path, mode="append" if number else "create", enable_v2_manifest_paths=False
        )
    assert (path / "_versions" / "12.manifest").exists()
    opened = TableStore(tmp_path)
    before = opened.state(NAME)
    assert (opened.version(NAME), opened.count(NAME)) == (12, 12)
    lance.dataset(path).delete("true")
    assert (opened.version(NAME), opened.count(NAME)) == (13, 0)
    assert opened.state(NAME).stamp != before.stamp
    assert sum(batch.num_rows for batch in opened.scan_state(before, ["id"])) == 12


def test_rows_that_may_be_there_are_replaced_and_the_others_appended(store):
    store.upsert(NAME, rows(0, 3), ())
    store.upsert(NAME, rows(1, 4, value=-0.5), {f"{number:064x}" for number in (1, 2)})
    found = {int(one, 16): vector[0] for one, vector in store.rows(NAME, ["id", "vector"])}
    assert found == {0: 0.5, 1: -0.5, 2: -0.5, 3: -0.5, 4: -0.5}
    assert store.count(NAME) == 5


@pytest.mark.slow
def test_what_is_known_of_earlier_versions_is_let_go_when_they_are_forgotten(store, tmp_path, monkeypatch):
    """Lance keeps the list of pieces of every version it has met, which over 4,000 commits is gigabytes."""
    met, plain = [], lance.dataset

    def opening(*words, **options):
        table = plain(*words, **options)
        met.append(weakref.ref(table))
        return table

    monkeypatch.setattr(lance, "dataset", opening)
    writer = TableStore(tmp_path)
    writer.upsert(NAME, rows(0, 3), ())
    gc.collect()
    assert [table() is not None for table in met] == [True]
    writer.compact()
    gc.collect()
    assert met[0]() is None
    assert writer.count(NAME) == 3
