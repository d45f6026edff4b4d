"""Marks of significance: corrected for their number, and given from ten groups on."""

import numpy as np
import pytest

from limner.research.evaluation.uncertainty import difference
from limner.research.paper.comparison import Figure, average, compare


def figure(values, against=None, *, higher_is_better=True):
    """The mean of one value per group."""
    owner = np.arange(len(values))
    statistic = average(np.asarray(values, dtype=np.float64), owner, len(values))
    return Figure("percent", statistic, higher_is_better=higher_is_better, against=against)


def noisy(groups, shift):
    """A control and a system that is better in most groups only."""
    rng = np.random.default_rng(3)
    control = rng.random(groups)
    return control, control + rng.normal(shift, 1.0, groups)


def marks(figures, groups):
    cells, count = compare(figures, groups, groups, resamples=2000)
    return [cell.mark for cell in cells], count


def test_a_mark_is_given_by_the_corrected_value():
    """A difference of p between .0125 and .05 has its mark alone, and none among four comparisons."""
    control, system = noisy(30, 0.52)
    p_value = difference(system, control, range(30), resamples=2000).p_value
    assert 0.05 / 4 < p_value < 0.05, "else the correction would change nothing"
    plain = figure(control)
    one, equal = figure(system, plain), figure(control, plain)
    assert marks([plain, one], 30) == (["", "*"], 1)
    assert marks([plain, one, equal, equal, equal], 30) == (["", "", "", "", ""], 4)
    clear = figure(control + 5, plain)
    assert marks([plain, one, equal, equal, clear], 30) == (["", "", "", "", "*"], 4)


@pytest.mark.parametrize(("groups", "count"), [(9, 0), (10, 1), (11, 1)])
def test_ten_groups_are_enough_and_nine_are_not(groups, count):
    control = np.arange(groups, dtype=np.float64)
    plain = figure(control)
    assert marks([plain, figure(control + 1, plain)], groups) == (["", "*" if count else ""], count)


def test_the_direction_of_a_figure_decides_what_is_better():
    control = np.arange(12.0)
    plain = figure(control, higher_is_better=False)
    lower, higher = (figure(control + by, plain, higher_is_better=False) for by in (-1, 1))
    assert marks([plain, lower, higher], 12) == (["", "*", "†"], 2)
