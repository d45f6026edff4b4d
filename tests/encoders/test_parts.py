"""A batch in parts gives what the whole gives."""

import numpy as np
import pytest
import torch

from limner.encoders.pixels import in_parts


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 33])
def test_rows_come_in_order_and_threads_are_set_back(rows):
    before = torch.get_num_threads()
    batch = np.arange(3 * rows, dtype=np.uint8).reshape(rows, 3)
    assert np.array_equal(in_parts(lambda part: part.astype(np.float32) + 1, batch), batch + np.float32(1))
    assert torch.get_num_threads() == before


def test_each_part_computes_on_one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    seen = []
    try:
        in_parts(lambda part: seen.append(torch.get_num_threads()) or part, np.zeros((20, 1), dtype=np.uint8))
        assert seen == [1, 1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_failure_comes_through():
    def fail(part):
        raise ValueError("no such layer")

    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="no such layer"):
        in_parts(fail, np.zeros((40, 1), dtype=np.uint8))
    assert torch.get_num_threads() == before
