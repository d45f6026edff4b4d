"""c-way choice: fair draws, no second right option, stored once, answers equal loops."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_results import pairs_of
from made_up_scores import tabled

from limner.errors import ConfigError, DataError, MissingError, NumericsError, ShapeError
from limner.research.evaluation.choice import (
    answer,
    draw_choices,
    measure_choices,
    read_choices,
    stored_choices,
    write_choices,
)
from limner.research.evaluation.results import About, ChoiceResult


def plain(count):
    return [f"t{n}" for n in range(count)], [f"i{n}" for n in range(count)]


def slow(scores, columns, choices):
    """One question at a time."""
    found = []
    for row in range(len(choices)):
        own = scores[row, columns[row]]
        each = []
        for others in (
            [scores[other, columns[row]] for other in choices.texts[row]],
            [scores[row, columns[other]] for other in choices.pictures[row]],
        ):
            best = max([own, *others])
            each.append(0.0 if own < best else 1 / (1 + sum(value == own for value in others)))
        found.append(each)
    return np.array(found).T


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=40),
    st.integers(2, 6),
    st.integers(0, 5),
)
def test_no_distractor_is_right_and_none_comes_twice(pairs, c, seed):
    texts, images = [f"t{t}" for t, _ in pairs], [f"i{i}" for _, i in pairs]
    together = set(zip(texts, images, strict=True))
    wrong_texts = [sum((t, own) not in together for t in set(texts)) for own in images]
    wrong_images = [sum((own, i) not in together for i in set(images)) for own in texts]
    if min(*wrong_texts, *wrong_images) < c - 1:
        with pytest.raises(DataError, match="use fewer options"):
            draw_choices(texts, images, c, seed)
        return
    choices = draw_choices(texts, images, c, seed)
    for row in range(len(pairs)):
        assert len({texts[other] for other in choices.texts[row]}) == c - 1
        assert len({images[other] for other in choices.pictures[row]}) == c - 1
        for other in choices.texts[row]:
            assert (texts[other], images[row]) not in together
            assert texts[other] != texts[row]
            assert images[other] != images[row]
        for other in choices.pictures[row]:
            assert (texts[row], images[other]) not in together
            assert texts[other] != texts[row]
            assert images[other] != images[row]


def test_every_allowed_pair_is_drawn_equally_often():
    """Uniform: with 5 pairs and 3 options every wrong pair is drawn half of the time."""
    texts, images = plain(5)
    counts = np.zeros((2, 5, 5))
    draws = 600
    for seed in range(draws):
        choices = draw_choices(texts, images, 3, seed)
        for row in range(5):
            counts[0, row, choices.texts[row]] += 1
            counts[1, row, choices.pictures[row]] += 1
    assert (counts[:, range(5), range(5)] == 0).all()
    wrong = counts[:, ~np.eye(5, dtype=bool)] / draws
    assert np.abs(wrong - 0.5).max() < 4.5 * (0.25 / draws) ** 0.5


def test_the_draw_depends_on_seed_and_direction_alone():
    texts, images = plain(50)
    first, again, other = (draw_choices(texts, images, 5, seed) for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest
    assert first.texts.dtype == first.pictures.dtype == np.int32
    assert not np.array_equal(first.texts, first.pictures)
    assert draw_choices(texts, images, 6, 0).digest != first.digest
    assert draw_choices(texts, images[::-1], 5, 0).key != first.key


@pytest.mark.parametrize("c", [2, 5, 20])
def test_random_scores_are_right_once_in_c_and_constant_ones_exactly(c):
    count = 2000
    texts, images = plain(count)
    choices = draw_choices(texts, images, c)
    columns = np.arange(count)
    scores = np.random.default_rng(3).normal(size=(count, count)).astype(np.float32)
    found = answer(tabled(scores), np.arange(len(choices)), columns, choices)
    error = (1 / c * (1 - 1 / c) / count) ** 0.5
    for values in found:
        assert abs(values.mean() - 1 / c) < 3 * error
    found = answer(tabled(np.ones((count, count))), columns, columns, choices)
    for values in found:
        assert set(values) == {1 / c}


def test_answers_equal_single_questions_with_ties_and_shared_pictures():
    rng = np.random.default_rng(0)
    columns = np.array([n // 3 for n in range(60)])
    texts, images = [f"t{n % 50}" for n in range(60)], [f"i{n}" for n in columns]
    scores = rng.integers(0, 4, (60, 20)).astype(np.float64)
    choices = draw_choices(texts, images, 4)
    found = answer(tabled(scores), np.arange(len(choices)), columns, choices)
    np.testing.assert_array_equal(np.stack(found), slow(scores, columns, choices))
    assert {1.0, 0.5, 0.0} <= set(found.picture_to_text)


def test_directions_are_told_apart():
    """Text 0 beats every other text for its picture, but its picture loses to picture 1."""
    scores = np.array([[0.5, 0.9], [0.1, 1.0]])
    choices = draw_choices(*plain(2), 2)
    found = answer(tabled(scores), np.arange(2), np.arange(2), choices)
    assert found.picture_to_text.tolist() == [1.0, 1.0]
    assert found.text_to_picture.tolist() == [0.0, 1.0]


def test_wrong_input_is_refused():
    texts, images = plain(8)
    with pytest.raises(ConfigError, match="at least 2"):
        draw_choices(texts, images, 1)
    with pytest.raises(DataError, match="no pairs"):
        draw_choices([], [], 2)
    choices = draw_choices(texts, images, 3)
    broken = np.ones((8, 8))
    broken[5, 5] = np.nan
    with pytest.raises(NumericsError, match="pair 5"):
        answer(tabled(broken), np.arange(8), np.arange(8), choices)


def test_the_file_is_shared_and_guarded(tmp_path):
    texts, images = plain(30)
    first = stored_choices(tmp_path / "new", "flickr-test", texts, images, 5)
    (path,) = (tmp_path / "new").iterdir()
    before = path.read_bytes()
    assert stored_choices(tmp_path / "new", "flickr-test", texts, images, 5).digest == first.digest
    assert path.read_bytes() == before
    read = read_choices(path)
    np.testing.assert_array_equal(read.texts, first.texts)
    np.testing.assert_array_equal(read.pictures, first.pictures)
    # what is stored is used, also where a draw would now give something else
    kept = draw_choices(texts, images, 5, 7)
    write_choices(type(kept)(kept.texts, kept.pictures, 0, kept.key), path)
    again = stored_choices(tmp_path / "new", "flickr-test", texts, images, 5)
    np.testing.assert_array_equal(again.texts, kept.texts)
    stored_choices(tmp_path / "new", "flickr-test", texts[:20], images[:20], 5)
    assert len(list((tmp_path / "new").iterdir())) == 2


def test_questions_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "choices.safetensors"
    write_choices(draw_choices(*plain(30), 5), path)
    before = path.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_choices(draw_choices(*plain(30), 4), path)
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [before]


def test_a_damaged_or_foreign_file_is_refused(tmp_path, executable_payload):
    path = tmp_path / "choices.safetensors"
    with pytest.raises(DataError, match="not a file of distractors"):
        read_choices(path)
    choices = draw_choices(*plain(30), 5)
    write_choices(choices, path)
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(DataError, match="does not match its hash"):
        read_choices(path)
    proof = tmp_path / "proof"
    for bad in (b"", good[:40], b"\0" * 100, executable_payload(proof)):
        path.write_bytes(bad)
        with pytest.raises(DataError, match="not a file of distractors"):
            read_choices(path)
    assert not proof.exists()
    from safetensors.numpy import save_file

    save_file({"texts": choices.texts}, path, {"format": "other"})
    with pytest.raises(DataError, match="not a file of distractors"):
        read_choices(path)


def about(**changes):
    return About(**{"system": "PVSE", "data": "flickr8k", "split": "grouped", **changes})


def test_a_result_counts_repeated_pairs_once_and_round_trips(tmp_path):
    pairs = pairs_of(40)
    pictures = list(dict.fromkeys(pair.image_id for pair in pairs))
    scores = np.array([[float(p == pair.image_id) for p in pictures] for pair in pairs])
    found = measure_choices(about(), pairs, tabled(scores), 5, distractors=tmp_path / "distractors")
    assert len(found.ids) == 36
    assert found.groups[:4] == ("g0", "g0", "g1", "g1")
    assert found.accuracy == (1.0, 1.0)
    path = found.write(tmp_path / "runs" / "a")
    assert path.name == "flickr8k-grouped-test-5way.json"
    assert ChoiceResult.read(path) == found
    other = measure_choices(about(seed=1), pairs, tabled(-scores), 5, distractors=tmp_path / "distractors")
    assert other.accuracy == (0.0, 0.0)
    assert other.choices == found.choices
    other.write(tmp_path / "runs" / "b")
    assert [one.about.seed for one in ChoiceResult.read_all(tmp_path / "runs")] == [0, 1]
    found.write(tmp_path / "runs" / "c")
    with pytest.raises(DataError, match="keep one of them"):
        ChoiceResult.read_all(tmp_path / "runs")


def test_results_that_do_not_fit_are_refused(tmp_path):
    pairs = pairs_of(20)
    with pytest.raises(ShapeError, match=r"choices: scores have shape \(1, 1\), expected \(18, 18\)"):
        measure_choices(about(), pairs, lambda rows, columns: np.ones((1, 1)), 3, distractors=tmp_path)
    bare = [pair.model_copy(update={"group": ""}) for pair in pairs]
    with pytest.raises(DataError, match="'p0' has no group"):
        measure_choices(about(), bare, tabled(np.ones((20, 18))), 3, distractors=tmp_path)
    with pytest.raises(MissingError, match="--choices"):
        ChoiceResult.read(tmp_path / "none.json")
    with pytest.raises(MissingError, match="not a folder"):
        ChoiceResult.read_all(tmp_path / "none")
    (tmp_path / "a.json").write_text('{"c": 1}')
    with pytest.raises(DataError, match="expected a c-way result"):
        ChoiceResult.read(tmp_path / "a.json")
    good = measure_choices(about(), pairs, tabled(np.ones((20, 18))), 3, distractors=tmp_path / "d")
    for wrong in ({"groups": ("g",)}, *({"picture_to_text": (n,) * len(good.ids)} for n in (-0.1, 1.1))):
        (tmp_path / "a.json").write_text(good.model_copy(update=wrong).model_dump_json())
        with pytest.raises(DataError, match="expected a c-way result"):
            ChoiceResult.read(tmp_path / "a.json")
