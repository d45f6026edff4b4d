"""The order of photographs as evidence: forward–backward against all walks, and what its results must hold."""

from itertools import product

import numpy as np
import pytest
from boards import unit
from hypothesis import given
from hypothesis import strategies as st

from limner.match import order
from limner.match.order import INSIDE, LOWEST, NAMED, Photographs, Walk, align, beliefs, scaled, walked

NO_PAIRS = np.ones((6, 6)), np.ones((6, 6))


def enumerated(likelihood, stranger, walk, pairs):
    """What `walked` returns, summed over every assignment of photographs to steps, or to none."""
    steps, count = likelihood.shape
    total, belongs = 0.0, np.zeros((steps, count))
    for path in product(range(-1, steps), repeat=count):
        mine = [place for place in range(count) if path[place] >= 0]
        if sorted(path[place] for place in mine) != [path[place] for place in mine] or (
            walk.free and not mine
        ):
            continue
        weight = 1.0 / count if walk.free else 1.0
        inside = range(mine[0], mine[-1]) if walk.free else range(count)
        weight *= np.prod([stranger[place] for place in inside if path[place] < 0])
        step, shots, before = -1, 0, -1
        for place in mine:
            more = walk.more[min(max(shots, 1), order.RUN) - 1]
            near = before >= 0 and place - before <= order.WINDOW
            if path[place] == step:
                weight *= more * likelihood[step, place] ** order.SHY_SHOT
                shots += 1
            else:
                weight *= 1 - more if shots else 1.0
                weight *= (1 - walk.skip) * walk.skip ** (path[place] - step - 1)
                weight *= likelihood[path[place], place]
                shots = 1
            weight *= pairs[0 if path[place] == step else 1][before, place] if near else 1.0
            weight *= 1 - stranger[place]
            step, before = path[place], place
        weight *= walk.skip ** (steps - 1 - step) * (1 - walk.more[min(shots, order.RUN) - 1] if mine else 1)
        total += weight
        belongs[[path[place] for place in mine], mine] += weight
    return np.log(total), belongs / total


@pytest.mark.parametrize("run", [6, 2])
@pytest.mark.parametrize("window", [16, 2, 1])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(("steps", "count"), [(3, 6), (3, 2), (2, 5), (1, 4), (3, 1), (1, 1)])
def test_the_sum_is_that_over_all_walks(monkeypatch, steps, count, free, window, run):
    monkeypatch.setattr(order, "WINDOW", window)
    monkeypatch.setattr(order, "RUN", run)
    rng = np.random.default_rng(10 * steps + count)
    likelihood, stranger = np.exp(2 * rng.normal(size=(steps, count))), rng.uniform(0.05, 0.5, count)
    pairs = np.exp(rng.normal(size=(count, count))), np.exp(rng.normal(size=(count, count)))
    walk = Walk(rng.uniform(0.1, 0.9, run), 0.3, free)
    due, found = (of(likelihood, stranger, walk, pairs) for of in (enumerated, walked))
    assert found[0] == pytest.approx(due[0], abs=1e-9)
    np.testing.assert_allclose(found[1], due[1], atol=1e-9)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(("steps", "count"), [(12, 500), (300, 40), (300, 300)])
def test_extreme_evidence_neither_overflows_nor_underflows(steps, count, free):
    rng = np.random.default_rng(0)
    row, walk = rows_of(count), Walk.of(steps, count)
    for kind in (np.where(rng.random((steps, count)) < 0.5, -50.0, 50.0), np.zeros((steps, count))):
        total, belongs = walked(
            scaled(kind, NAMED), row.stranger, Walk(walk.more, walk.skip, free), row.pairs
        )
        assert np.isfinite(total)
        assert (belongs >= 0).all()
        assert (belongs.sum(axis=0) <= 1 + 1e-6).all()


@pytest.mark.xfail(
    reason="an impossible order divides by a sum of 0, and its odds have no exponent", strict=True
)
@pytest.mark.parametrize(("steps", "count"), [(12, 500), (300, 300)])
def test_an_order_that_all_evidence_contradicts_is_no_error(steps, count):
    evidence = np.full((steps, count), -15.0)
    evidence[(np.arange(count) * steps // count)[::-1], np.arange(count)] = 15.0
    likelihood = np.exp(INSIDE * evidence)
    likelihood *= 0.15 * count / likelihood.sum(axis=1, keepdims=True)
    assert all(np.isfinite(one.belongs).all() for one in weighed([likelihood], [{}], [count, 5], 2000))
    assert np.isfinite(align(evidence, rows_of(count), {}).belongs).all()


def test_what_must_be_has_the_probability_1():
    likelihood = np.full((3, 6), 1e-30)
    likelihood[[0, 0, 1, 1, 2, 2], range(6)] = 1.0
    for free in (False, True):
        _, belongs = walked(likelihood, np.full(6, 1e-9), Walk.of(3, 6), NO_PAIRS)
        np.testing.assert_allclose(belongs, likelihood, atol=1e-3)
        turned = walked(likelihood[::-1], np.full(6, 0.5), Walk(np.full(6, 0.4), 0.1, free), NO_PAIRS)[1]
        assert (turned.max(axis=0) > 0.5).sum() <= 2  # of an order turned round, one step can be right


def rows_of(count, kind="drawn", seed=0):
    rng = np.random.default_rng(seed)
    if kind == "one colour":
        return Photographs.of(
            np.tile(unit([[1.0, 0.0]]), (count, 1)), np.tile(unit([[1.0, 1.0]]), (count, 1))
        )
    near = unit(2.5 + rng.normal(size=(count, 8))).astype(float)
    return Photographs.unknown(count) if kind == "unknown" else Photographs.of(near, near)


@given(
    steps=st.integers(1, 6),
    count=st.integers(1, 9),
    kind=st.sampled_from(["drawn", "one colour", "unknown"]),
    scale=st.sampled_from([0.0, 1.0, 20.0]),
    in_order=st.booleans(),
    data=st.data(),
)
def test_any_row_is_aligned(steps, count, kind, scale, in_order, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    places, wanted = st.integers(0, count - 1), st.integers(0, steps - 1)
    fixed = data.draw(st.dictionaries(places, wanted, max_size=count))
    found = align(scale * rng.normal(size=(steps, count)), rows_of(count, kind), fixed, in_order=in_order)
    assert np.isfinite([found.gain, found.kept]).all()
    assert (found.belongs >= 0).all()
    assert (found.belongs.sum(axis=0) <= 1 + 1e-6).all()


def test_as_many_photographs_as_steps_are_one_for_each():
    found = align(np.zeros((5, 5)), rows_of(5), {})
    assert found.belongs.diagonal().min() > 0.7


def test_a_given_photograph_moves_to_its_place_and_the_others_keep_their_order():
    found = align(np.zeros((4, 4)), rows_of(4), {3: 0})
    assert found.belongs.argmax(axis=0).tolist() == [1, 2, 3, 0]
    assert found.belongs[0, 3] > 0.95
    two = align(np.zeros((4, 4)), rows_of(4), {3: 0, 0: 3})
    assert two.belongs.argmax(axis=0).tolist() == [3, 1, 2, 0]
    same = align(np.zeros((4, 4)), rows_of(4), {3: 0, 0: 0})  # no list can be
    assert same.belongs[0, [0, 3]].min() > 0.2


def test_the_evidence_that_contradicts_a_list_wins():
    """Photographs in turned order: the order says less than what they show."""
    found = align(np.where(np.eye(4)[::-1] > 0, 12.0, -12.0), rows_of(4), {})
    assert found.belongs.argmax(axis=0).tolist() == [3, 2, 1, 0]
    assert found.gain < 0 < align(np.where(np.eye(4) > 0, 12.0, -12.0), rows_of(4), {}).gain


def test_the_finished_thing_may_be_shown_first():
    evidence = np.where(np.arange(4)[:, None] == [3, 0, 0, 1, 1, 2, 3], 5.0, -5.0)
    found = align(evidence, rows_of(7), {})
    assert found.belongs.argmax(axis=0).tolist() == [3, 0, 0, 1, 1, 2, 3]
    assert found.belongs.max(axis=0).min() > 0.6


def test_a_photograph_unlike_all_others_belongs_to_no_step_unless_it_is_given():
    near = unit(4.0 + np.random.default_rng(0).normal(size=(7, 8))).astype(float)
    near[3] = unit(np.array([1.0, -1.0] * 4))
    row = Photographs.of(near, near)
    others = np.arange(7) != 3
    assert row.stranger[3] > 0.9 > 0.1 > row.stranger[others].max()
    found = align(np.zeros((6, 7)), row, {}).belongs.sum(axis=0)
    assert found[3] < 0.2 < 0.8 < found[others].min()
    assert align(np.zeros((6, 7)), row, {3: 2}).belongs[2, 3] > 0.5


def weighed(likelihoods, fixed=None, sizes=(6, 6, 8), pictures=500):
    photographs = [rows_of(one.shape[1], seed=seed) for seed, one in enumerate(likelihoods)]
    return beliefs(likelihoods, photographs, sizes, fixed or [{} for _ in likelihoods], pictures)


@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.0, 1.0, 4.0, 20.0]))
def test_the_rows_of_a_library_and_none_share_one(seed, scale):
    rng = np.random.default_rng(seed)
    likelihoods = [np.exp(np.maximum(scale * rng.normal(size=(4, n)), LOWEST)) for n in (2, 4, 7)]
    found = weighed(likelihoods)
    assert 0 <= sum(one.weight for one in found) <= 1 + 1e-9
    assert min(one.weight for one in found) >= 0
    for one in found:
        assert one.belongs.shape == likelihoods[one.row].shape
        assert (one.belongs >= 0).all()


def test_evidence_or_a_pin_tells_the_row_and_nothing_does_not():
    flat = [np.ones((4, 6))] * 3

    def of_row(found, row):
        return sum(one.weight for one in found if one.row == row)

    assert sum(one.weight for one in weighed(flat)) < 0.25
    told = [flat[0], np.where(np.eye(4, 6) > 0, 80.0, 0.5), flat[2]]
    assert of_row(weighed(told), 1) > 0.9
    pinned = weighed(flat, [{}, {}, {2: 1}])
    assert of_row(pinned, 2) > 0.8
    assert max(pinned, key=lambda one: one.weight).belongs[1, 2] > 0.9
