"""The order of photographs as evidence: forward–backward against all walks, and what its results hold."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from boards import unit
from hypothesis import given
from hypothesis import strategies as st

from limner.match import order
from limner.match.illustrator import COVERS
from limner.match.order import INSIDE, LOWEST, Photographs, Walk, align, beliefs, scaled, walked

SEEDS = st.integers(0, 2**32 - 1)


def enumerated(likelihood, stranger, walk, pairs):
    """What `walked` returns, summed over every assignment of photographs to steps, or to none."""
    steps, count = likelihood.shape
    total, belongs = 0.0, np.zeros((steps, count))
    for path in product(range(-1, steps), repeat=count):
        mine = [place for place in range(count) if path[place] >= 0]
        shown = [path[place] for place in mine]
        if sorted(shown) != shown or (walk.free and not mine):
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
        belongs[shown, mine] += weight
    return np.log(total), belongs / total


def rows_of(count, kind="drawn", seed=0):
    near = 2.5 + np.random.default_rng(seed).normal(size=(count, 8)) * (kind == "drawn")
    near = unit(near).astype(float)
    return Photographs.unknown(count) if kind == "unknown" else Photographs.of(near, near)


def weighed(likelihoods, fixed=None, sizes=(6, 6, 8), pictures=500):
    photographs = [rows_of(one.shape[1], seed=seed) for seed, one in enumerate(likelihoods)]
    fixed, outside = fixed or [{} for _ in likelihoods], [np.zeros(len(one)) for one in likelihoods]
    return beliefs(likelihoods, photographs, sizes, fixed, outside, [0.0] * len(likelihoods), pictures)


def adds_up(belongs):
    return bool((belongs >= 0).all() and (belongs.sum(axis=0) <= 1 + 1e-6).all())


@pytest.mark.parametrize(("window", "run"), [(16, 6), (2, 6), (1, 2)])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(("steps", "count"), [(3, 6), (3, 2), (2, 5), (1, 4), (3, 1), (1, 1)])
def test_the_sum_is_that_over_all_walks(monkeypatch, steps, count, free, *, window, run):
    monkeypatch.setattr(order, "WINDOW", window)
    monkeypatch.setattr(order, "RUN", run)
    rng = np.random.default_rng(10 * steps + count)
    likelihoods, stranger = np.exp(2 * rng.normal(size=(2, steps, count))), rng.uniform(0.05, 0.5, count)
    pairs = tuple(np.exp(rng.normal(size=(2, count, count))))
    walk = Walk(rng.uniform(0.1, 0.9, run), 0.3, free)
    for likelihood, total, belongs in zip(
        likelihoods, *walked(likelihoods, stranger, walk, pairs), strict=True
    ):
        due = enumerated(likelihood, stranger, walk, pairs)
        assert total == pytest.approx(due[0], abs=1e-9)
        np.testing.assert_allclose(belongs, due[1], atol=1e-9)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(("steps", "count"), [(12, 500), (300, 40), (300, 300)])
def test_extreme_evidence_neither_overflows_nor_underflows(steps, count, free):
    row, walk = rows_of(count), replace(Walk.of(steps, count), free=free)
    for bound in (0.0, 50.0):
        evidence = np.where(np.random.default_rng(0).random((steps, count)) < 0.5, -bound, bound)
        total, belongs = walked(scaled(evidence)[None], row.stranger, walk, row.pairs)
        assert np.isfinite(total)
        assert adds_up(belongs[0])


@pytest.mark.parametrize(("steps", "count"), [(12, 500), (300, 300)])
def test_an_order_that_all_evidence_contradicts_is_no_error(steps, count):
    evidence = np.full((steps, count), -15.0)
    evidence[(np.arange(count) * steps // count)[::-1], np.arange(count)] = 15.0
    likelihood = np.exp(INSIDE * evidence)
    likelihood *= 0.15 * count / likelihood.sum(axis=1, keepdims=True)
    assert all(np.isfinite(one.belongs).all() for one in weighed([likelihood], [{}], [count, 5], 2000))
    assert adds_up(align(evidence, rows_of(count), {}, np.zeros(count)).belongs)


def test_what_must_be_has_the_probability_1():
    likelihood = np.full((3, 6), 1e-30)
    likelihood[[0, 0, 1, 1, 2, 2], range(6)] = 1.0
    for free in (False, True):
        walk, pairs = replace(Walk.of(3, 6), free=free), (np.ones((6, 6)),) * 2
        (belongs,) = walked(likelihood[None], np.full(6, 1e-9), walk, pairs)[1]
        assert belongs[likelihood < 1].max() < 1e-6
        assert free or belongs[likelihood == 1].min() > 0.999


@given(st.integers(1, 6), st.integers(1, 9), st.sampled_from(["drawn", "one colour", "unknown"]), st.data())
def test_any_row_is_aligned(steps, count, kind, data):
    rng, scale = np.random.default_rng(data.draw(SEEDS)), data.draw(st.sampled_from([0.0, 1.0, 20.0]))
    fixed = data.draw(st.dictionaries(st.integers(0, count - 1), st.integers(0, steps - 1)))
    found = align(
        scale * rng.normal(size=(steps, count)), rows_of(count, kind), fixed, rng.normal(size=count)
    )
    assert np.isfinite([found.gain, found.kept]).all()
    assert adds_up(found.belongs)


@pytest.mark.parametrize(
    ("shows", "told", "given", "due"),
    [
        ("01234", 0.0, {}, "01234"),  # as many photographs as steps are a list
        ("0123", 0.0, {3: 0}, "1230"),  # a given one moves to its place, and the others make room
        ("0123", 0.0, {3: 0, 0: 3}, "3120"),
        ("3210", 12.0, {}, "3210"),  # the order says less than what is clear
        ("3001123", 5.0, {}, "3001123"),  # the finished thing first
    ],
)
def test_photographs_lie_at_their_steps(shows, told, given, due):
    steps = int(max(shows)) + 1
    evidence = np.where(np.arange(steps)[:, None] == [int(step) for step in shows], told, -told)
    found = align(evidence, rows_of(len(shows)), given, np.zeros(len(shows)))
    assert "".join(map(str, found.belongs.argmax(axis=0))) == due
    assert found.belongs.max(axis=0).min() > 0.6
    assert (found.gain < -1) == (shows == "3210")
    assert all(found.belongs[step, place] > 0.95 for place, step in given.items())


@pytest.mark.parametrize(
    ("shows", "titled", "given", "kind", "due"),
    [
        ("-0123", 0, {}, "unknown", 0),  # one more than steps, which shows what the title says
        ("0123-", 4, {}, "unknown", 4),
        ("01-23", 2, {}, "unknown", None),  # neither the first nor the last
        ("3001123", None, {}, "unknown", 0),  # the finished thing first
        ("00123", None, {}, "drawn", None),  # two that look alike, of one step
        ("-0123", 0, {0: 2}, "unknown", None),  # a person gave it to a step
        ("0123", 0, {}, "unknown", None),  # no more than steps: the first step would have none
    ],
)
def test_the_first_or_the_last_beyond_the_steps_may_be_the_cover(shows, titled, given, *, kind, due):
    evidence = np.where(np.arange(4)[:, None] == [-1 if one == "-" else int(one) for one in shows], 5.0, -5.0)
    title = np.where(np.arange(len(shows)) == titled, 5.0, -5.0 if titled is not None else 0.0)
    cover = align(evidence, rows_of(len(shows), kind), given, title).cover
    assert (cover > COVERS).tolist() == [place == due for place in range(len(shows))]
    assert cover.sum() <= 1 + 1e-6


def test_a_photograph_unlike_all_others_belongs_to_no_step_unless_it_is_given():
    near = unit(4.0 + np.random.default_rng(0).normal(size=(7, 8))).astype(float)
    near[3] = unit(np.array([1.0, -1.0] * 4))
    row, nothing = Photographs.of(near, near), np.zeros((6, 7))
    for belongs in (1 - row.stranger, align(nothing, row, {}, np.zeros(7)).belongs.sum(axis=0)):
        assert (belongs > 0.5).tolist() == [True, True, True, False, True, True, True]
    assert align(nothing, row, {3: 2}, np.zeros(7)).belongs[2, 3] > 0.5


@given(SEEDS, st.sampled_from([0.0, 1.0, 4.0, 20.0]))
def test_the_rows_of_a_library_and_none_share_one(seed, scale):
    rng = np.random.default_rng(seed)
    likelihoods = [np.exp(np.maximum(scale * rng.normal(size=(4, n)), LOWEST)) for n in (2, 4, 7)]
    found = weighed(likelihoods)
    assert adds_up(np.array([[one.weight] for one in found]))
    for one in found:
        assert one.belongs.shape == likelihoods[one.row].shape
        assert (one.belongs >= 0).all()


@pytest.mark.parametrize(("told", "pins", "row"), [(1.0, {}, None), (80.0, {}, 1), (1.0, {2: 1}, 1)])
def test_words_or_a_pin_tell_the_row(told, pins, row):
    flat = np.ones((4, 6))
    found = weighed([flat, np.where(np.eye(4, 6) > 0, told, min(told, 1.0)), flat], [{}, pins, {}])
    weight = sum(one.weight for one in found if one.row == 1)
    assert weight > 0.8 if row else sum(one.weight for one in found) < 0.25
    best = max(found, key=lambda one: one.weight)
    assert all(best.belongs[step, place] > 0.9 for place, step in pins.items())
