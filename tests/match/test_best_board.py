"""One assignment of steps to groups of near-duplicates: the best there is."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from limner.errors import NumericsError
from limner.match.board import BLANK, assign


def best(worth, groups, fixed, *, repeats):
    """(pictures shown, their worth) of the best board, by trying all."""
    steps, columns = worth.shape
    taken = {groups[step, column] for step, column in fixed.items() if column not in (BLANK, None)}
    found = (-1, -np.inf)
    for choice in product(range(-1, columns), repeat=steps):
        free = [(step, column) for step, column in enumerate(choice) if step not in fixed and column != BLANK]
        if any(column != BLANK for step, column in enumerate(choice) if step in fixed):
            continue
        own = [groups[cell] for cell in free]
        if not repeats and (len(set(own)) < len(own) or taken.intersection(own)):
            continue
        if all(worth[cell] > -np.inf for cell in free):
            found = max(found, (len(free), sum(worth[cell] for cell in free)))
    return found


problems = st.tuples(
    st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 4), st.integers(1, 6), st.booleans()
)


@pytest.mark.slow
@settings(max_examples=150)
@given(problem=problems, data=st.data())
def test_no_board_is_better(problem, data):
    seed, steps, columns, kinds, repeats = problem
    rng = np.random.default_rng(seed)
    groups = rng.integers(kinds, size=(steps, columns))
    worth = np.where(rng.random((steps, columns)) < 0.8, rng.random((steps, columns)).round(1), -np.inf)
    fixed = data.draw(
        st.dictionaries(
            st.integers(0, steps - 1), st.one_of(st.none(), st.integers(BLANK, columns - 1)), max_size=2
        )
    )
    found = assign(worth, groups, fixed, allow_repeats=repeats)
    free = [
        (step, column) for step, column in enumerate(found.tolist()) if step not in fixed and column != BLANK
    ]
    assert {step: found[step] for step in fixed} == {
        step: BLANK if column is None else column for step, column in fixed.items()
    }
    due = best(worth, groups, fixed, repeats=repeats)
    assert len(free) == due[0]
    assert sum(worth[cell] for cell in free) == pytest.approx(due[1])
    if not repeats:
        shown = [groups[cell] for cell in free]
        held = {groups[step, column] for step, column in fixed.items() if column not in (BLANK, None)}
        assert len(set(shown)) == len(shown)
        assert not held.intersection(shown)


@pytest.mark.parametrize("wrong", [np.nan, -0.5, np.inf])
def test_a_worth_that_is_no_number_is_refused(wrong):
    with pytest.raises(NumericsError, match="board"):
        assign(np.array([[0.1, wrong]]), np.array([[0, 1]]))


def test_nothing_to_choose_from():
    assert assign(np.zeros((2, 0)), np.zeros((2, 0), np.int64)).tolist() == [BLANK, BLANK]
    assert assign(np.zeros((0, 3)), np.zeros((0, 3), np.int64)).tolist() == []
    assert assign(np.full((2, 2), -np.inf), np.zeros((2, 2), np.int64)).tolist() == [BLANK, BLANK]


def test_a_book_of_a_thousand_steps():
    """All steps like the same few hundred pictures, which is the worst there is."""
    rng = np.random.default_rng(0)
    groups = np.sort(np.argsort(rng.random((1_000, 1_500)), axis=1)[:, :400], axis=1)
    found = assign(rng.random((1_000, 400)), groups)
    shown = groups[np.arange(1_000), found]
    assert len(set(shown.tolist())) == 1_000


@pytest.mark.parametrize("seed", range(5))
def test_the_sum_is_that_of_scipy(seed):
    """Sixty steps, each with its own forty of eighty pictures, which many want."""
    rng = np.random.default_rng(seed)
    groups = np.argsort(rng.random((60, 80)), axis=1)[:, :40]
    worth = rng.random((60, 40)) + rng.random(80)[groups]
    full = np.full((60, 80), -100.0)
    np.put_along_axis(full, groups, worth, axis=1)
    due = full[linear_sum_assignment(full, maximize=True)].sum()
    assert worth[np.arange(60), assign(worth, groups)].sum() == pytest.approx(due)
