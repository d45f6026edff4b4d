"""Decoding of the two families, by hand and by loops, and recognition by shape alone."""

import numpy as np
import pytest

from limner.errors import CheckpointError
from limner.research.scenes.onnx import cells, decode_picodet, decode_yolox, recognise


def test_cells_run_along_the_rows():
    assert cells(32, 16).tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    assert len(cells(416, 64)) == 49


def test_yolox_boxes_by_hand():
    output = np.zeros((21, 7), np.float32)  # 32 px: 16 cells of 8, 4 of 16, 1 of 32
    output[5] = [0.5, 0.25, np.log(2), 0, 0.5, 0.8, 0.1]  # second row, second column of stride 8
    output[20] = [0.5, 0.5, 0, 0, 1, 0, 0.5]
    boxes, scores = decode_yolox(output, 32)
    np.testing.assert_allclose(boxes[5], [12 - 8, 10 - 4, 12 + 8, 10 + 4], rtol=1e-6)
    np.testing.assert_allclose(boxes[20], [0, 0, 32, 32], rtol=1e-6)
    np.testing.assert_allclose(scores[[5, 20]], [[0.4, 0.05], [0, 0.5]], rtol=1e-6)


def test_a_huge_size_stays_finite():
    output = np.full((21, 6), 1000, np.float32)
    assert np.isfinite(decode_yolox(output, 32)[0]).all()


def test_picodet_boxes_are_those_of_plain_loops():
    rng = np.random.default_rng(0)
    counts = [len(cells(64, stride)) for stride in (8, 16, 32, 64)]
    logits = [rng.normal(size=(count, 12)).astype(np.float32) for count in counts]
    scores = [rng.random((count, 2), np.float32) for count in counts]
    boxes, all_scores = decode_picodet([*scores, *logits], 64)
    expected = []
    for level, stride in enumerate((8, 16, 32, 64)):
        across = 64 // stride
        for cell in range(across * across):
            sides = []
            for side in range(4):
                weights = np.exp(logits[level][cell, 3 * side : 3 * side + 3])
                sides.append((weights / weights.sum()) @ [0, 1, 2] * stride)
            x, y = (cell % across + 0.5) * stride, (cell // across + 0.5) * stride
            expected.append([x - sides[0], y - sides[1], x + sides[2], y + sides[3]])
    np.testing.assert_allclose(boxes, expected, rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(all_scores, np.concatenate(scores))


PICODET = [(1, 16, 3), (1, 4, 3), (1, 1, 3), (1, 1, 3), (1, 16, 32), (1, 4, 32), (1, 1, 32), (1, 1, 32)]


def test_families_are_told_by_their_shapes():
    assert recognise([(1, 21, 8)], 32, "m") == ("yolox", 3)
    assert recognise(PICODET, 32, "m") == ("picodet", 3)
    assert recognise([(1, 3549, 85)], 416, "m") == ("yolox", 80)


@pytest.mark.parametrize(
    "shapes",
    [
        [],
        [(1, 21, 5)],
        [(1, 20, 8)],
        [(2, 21, 8)],
        [(1, 21, 8), (1, 4)],
        PICODET[:4],
        PICODET[::-1],
        [(1, 21)],
    ],
)
def test_other_outputs_are_refused_with_what_is_read(shapes):
    with pytest.raises(CheckpointError, match=r"m: outputs .* expected YOLOX .* or PicoDet"):
        recognise(shapes, 32, "m")
