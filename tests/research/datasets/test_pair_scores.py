"""Files of pair scores: round trip, and nothing but such a file is read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from limner.errors import DataError, MissingError
from limner.research.datasets.neighbours import (
    SCORES_FILE,
    SCORES_FORMAT,
    PairScores,
    read_pair_scores,
    write_pair_scores,
)

NAMES = ("DIVERSITY/text", "DIVERSITY/image", "DISCREPANCY/text", "weight")


def scores(ids, epoch=3):
    rng = np.random.default_rng(len(ids))
    return PairScores(ids, {name: rng.random(len(ids), dtype=np.float32) for name in NAMES}, epoch)


@settings(max_examples=30, deadline=None)
@given(ids=st.lists(st.text(min_size=1, max_size=6), max_size=12), epoch=st.integers(0, 99))
def test_what_is_written_is_read(ids, epoch, tmp_path_factory):
    run = tmp_path_factory.mktemp("run")
    given = scores(tuple(ids), epoch)
    write_pair_scores(given, run)
    found = read_pair_scores(run)
    assert (found.ids, found.epoch) == (given.ids, epoch)
    for name in NAMES:
        np.testing.assert_array_equal(found.scores[name], given.scores[name])
        assert found.scores[name].dtype == np.float32
    assert [path.name for path in run.glob("*.safetensors")] == [SCORES_FILE]


def test_a_flipped_bit_is_found_or_changes_nothing(tmp_path):
    given, found = scores(("a", "b", "c")), 0
    whole = write_pair_scores(given, tmp_path).read_bytes()
    for place in range(0, len(whole), 3):
        data = whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :]
        (tmp_path / SCORES_FILE).write_bytes(data)
        try:
            read = read_pair_scores(tmp_path)
            assert (read.ids, read.epoch, sorted(read.scores)) == (given.ids, given.epoch, sorted(NAMES))
            assert all(np.array_equal(read.scores[name], given.scores[name]) for name in NAMES)
        except DataError:
            found += 1
    assert found > len(whole) / 4


def test_measures_leave_out_what_is_no_score():
    found = scores(("a", "b")).measures()
    assert {name: list(part) for name, part in found.items()} == {
        "DISCREPANCY": ["text"],
        "DIVERSITY": ["image", "text"],
    }


def test_scores_must_be_one_number_per_pair(tmp_path):
    about = {"format": SCORES_FORMAT, "epoch": "0", "ids": '["a"]'}
    for wrong in (np.zeros(2, np.float32), np.zeros(1, np.float64)):
        save_file({"weight": wrong}, tmp_path / SCORES_FILE, about)
        with pytest.raises(DataError, match="weight has shape"):
            read_pair_scores(tmp_path)


def test_what_is_no_such_file_is_refused(tmp_path, executable_payload):
    with pytest.raises(MissingError, match="weights pairs"):
        read_pair_scores(tmp_path)
    proof = tmp_path / "proof"
    for bad in (b"", b"\0" * 50, executable_payload(proof)):
        (tmp_path / SCORES_FILE).write_bytes(bad)
        with pytest.raises(DataError, match="not a file of pair scores"):
            read_pair_scores(tmp_path)
    assert not proof.exists()
    for about, message in (
        ({"format": "x"}, "format 'x'"),
        ({"format": SCORES_FORMAT}, "not a file"),
        ({"format": SCORES_FORMAT, "epoch": "0", "ids": "3"}, "not a file"),
        ({"format": SCORES_FORMAT, "epoch": "one", "ids": "[]"}, "not a file"),
    ):
        save_file({"weight": np.zeros(1, np.float32)}, tmp_path / SCORES_FILE, about)
        with pytest.raises(DataError, match=message):
            read_pair_scores(tmp_path)
