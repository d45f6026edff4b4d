"""Which detections are kept: by hand, and against plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.errors import NumericsError, ShapeError
from limner.research.scenes.detections import Detections, keep


def found(*things):
    boxes = np.asarray([box for _, box, _ in things], np.float32).reshape(len(things), 4)
    return Detections(
        boxes, tuple(label for label, _, _ in things), np.asarray([s for *_, s in things], np.float32)
    )


def test_weak_doubled_and_supernumerary_things_are_left_out(monkeypatch):
    things = found(
        ("dog", (0, 0, 0.5, 0.5), 0.29),
        ("dog", (0.1, 0.1, 0.6, 0.6), 0.6),
        ("dog", (0.1, 0.1, 0.62, 0.6), 0.9),
        ("cat", (0.1, 0.1, 0.6, 0.6), 0.5),
        ("cup", (0.7, 0.7, 0.9, 0.9), 0.3),
    )
    kept = keep(things)
    assert kept.labels == ("dog", "cat", "cup")
    np.testing.assert_allclose(kept.scores, [0.9, 0.5, 0.3])
    assert keep(things, 0.6).labels == ("dog",)
    monkeypatch.setattr("limner.research.scenes.detections.MOST_OBJECTS", 2)
    assert keep(things).labels == ("dog", "cat")


def test_boxes_are_cut_to_the_picture_and_those_outside_left_out():
    kept = keep(found(("dog", (-0.5, 0.2, 0.5, 1.5), 0.9), ("dog", (1.1, 0.2, 1.5, 0.5), 0.8)))
    np.testing.assert_allclose(kept.boxes, [[0, 0.2, 0.5, 1]], atol=1e-6)


def test_nothing_found_is_nothing_kept():
    kept = keep(found())
    assert len(kept) == 0
    assert kept.boxes.shape == (0, 4)


corners = st.tuples(*[st.integers(0, 4)] * 2, *[st.integers(1, 4)] * 2)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), corners, st.integers(0, 100)), max_size=8, unique_by=lambda t: t[2]
    ),
    st.sampled_from([0.3, 0.5, 0.7]),
)
def test_what_is_kept_is_what_plain_loops_keep(things, least):
    things = [(label, (x / 8, y / 8, (x + w) / 8, (y + h) / 8), s / 100) for label, (x, y, w, h), s in things]
    chosen = []
    for label, box, score in sorted(things, key=lambda one: -one[2]):
        if score < least:
            continue
        for other, b, _ in chosen:
            wide = max(0, min(box[2], b[2]) - max(box[0], b[0]))
            high = max(0, min(box[3], b[3]) - max(box[1], b[1]))
            areas = [(r - left) * (bottom - top) for left, top, r, bottom in (box, b)]
            if other == label and wide * high / (sum(areas) - wide * high) > 0.5 + 1e-9:
                break
        else:
            chosen.append((label, box, score))
    kept = keep(found(*things), np.float32(least))
    assert [(label, pytest.approx(score, abs=1e-6)) for label, _, score in chosen] == list(
        zip(kept.labels, kept.scores.tolist(), strict=True)
    )


def test_parts_must_fit_and_be_numbers():
    with pytest.raises(ShapeError, match="of 1 labels"):
        Detections(np.zeros((2, 4), np.float32), ("a",), np.zeros(1, np.float32))
    with pytest.raises(NumericsError, match="not finite"):
        found(("a", (0, 0, 1, float("nan")), 0.5))
