"""Statistics of a library that were damaged where no checksum of the tables tells, as on object storage."""

import random
import warnings

import numpy as np
import pytest

from limner.errors import DataError
from limner.scale import approximate
from limner.scale.approximate import Statistics, read_statistics
from limner.scale.vector_index import write_statistics
from limner.scale.vectors import TableMoments

IDS = np.array([b"a" * 64, b"b" * 64])


class Rows:
    """A store of one table in memory."""

    def upsert(self, name, table):
        """Keep a table."""
        self.held = {row["id"]: row["data"] for row in table.to_pylist()}

    def rows(self, *_):
        """All of it, whatever is asked."""
        return [*self.held.items()]


@pytest.mark.parametrize("entry", [approximate.IDS, "base"])
def test_a_flipped_bit_of_statistics_is_one_line_or_changes_nothing(entry):
    rng, store = np.random.default_rng(0), Rows()
    vectors = rng.random((2, 4)).astype(np.float16)
    due = Statistics(TableMoments(rng.random(4), rng.random((4, 4))), 2, IDS, vectors)
    write_statistics(store, IDS, {"base": due})
    whole, told = store.held[entry], []
    for place in random.Random(0).sample(range(8 * len(whole)), 600):
        spoilt = bytearray(whole)
        spoilt[place // 8] ^= 1 << place % 8
        store.held[entry] = bytes(spoilt)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of NumPy and zipfile, about what they make of it
                ids, found = read_statistics(store, ["base"])
        except DataError as error:
            told.append(str(error))
            continue
        one = found["base"]
        assert (*ids, *one.ids, one.held) == (*IDS, *IDS, 2), place
        assert (one.vectors == due.vectors).all(), place
        assert (one.moments.mean == due.moments.mean).all(), place
        assert (one.moments.covariance == due.moments.covariance).all(), place
    assert told
    assert not [line for line in told if "\n" in line or "run 'limner index' again" not in line]
